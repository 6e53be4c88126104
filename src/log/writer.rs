//! The owner of the log file of a live session.
//!
//! A thread of its own writes, because a disk may take seconds and neither the screen nor the stop key waits for it.
//! Records reach it over a bounded channel; [`LogWriter::barrier`] tells when everything before it is on the disk, and the
//! caller does nothing irrevocable before that. A line that cannot be written leaves no half of itself, stays in memory and
//! is tried again before the next one, so the file is always a prefix of the session.

use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};

use super::blobs::Blobs;
use super::reader::Reader;
use super::{LOG_FILE, disk_failure, line, make_private_folder, open_untrusted, sync_folder};
use crate::core::event::{Event, Failure, NoteKind, Record, SCHEMA_VERSION};

/// Orders on their way to the thread. Text pieces are at most 64 KiB, so this is at most a few MiB, and a burst of output
/// does not wait for each line.
const QUEUE: usize = 64;

/// Lines kept in memory while the disk takes none, bytes. Beyond it records are refused, and whoever makes them must stop.
const MAX_BACKLOG: usize = 8 * 1024 * 1024;

/// Tries for a free session id; each has 12 random bits within one millisecond.
const ID_TRIES: u32 = 16;

/// Folders a new session may bring with it, from its own up to `data_dir`, or names in them.
const MADE_FOLDERS: usize = 5;

/// Tries for the lock and the pause between them: a listing looks at locks for an instant.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Writes the log of one session. Dropping it writes what is left and waits for that.
#[derive(Debug)]
pub struct LogWriter {
    /// Nothing for a session that is not kept.
    live: Option<Live>,
    next_seq: u64,
    /// The next record was not taken: until it is, no barrier holds.
    refused: Option<Failure>,
}

#[derive(Debug)]
struct Live {
    folder: PathBuf,
    orders: mpsc::Sender<Order>,
    /// The thread ends when it has done all it was told.
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    health: watch::Receiver<Health>,
}

#[derive(Debug)]
enum Order {
    Line(String),
    Barrier(oneshot::Sender<Result<(), Failure>>),
    /// The writer was dropped. Barriers nobody waited for yet keep the channel open, and may belong to the very thread that
    /// waits for the end of this one.
    Close,
}

/// What the thread says of itself.
#[derive(Debug, Clone, Default)]
struct Health {
    problem: Option<Failure>,
    full: bool,
}

/// Where a continued session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Moment of the last record.
    pub last_at_ms: u64,
    /// A torn tail was set aside, and a note in the log says so.
    pub repaired: bool,
}

impl LogWriter {
    /// A writer for a session that leaves nothing behind.
    pub fn ephemeral() -> Self {
        Self { live: None, next_seq: 0, refused: None }
    }

    /// Makes the folder of a new session under `data_dir`, named by its time and three random digits.
    pub fn create(data_dir: &Path, now: Timestamp) -> Result<Self, Failure> {
        let folder = new_session_folder(data_dir, now)?;
        let path = folder.join(LOG_FILE);
        let failed = |e: io::Error| disk_failure("cannot make a session in", &path, &e);
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        lock(&file, &folder)?;
        sync_session_folder(&folder).map_err(failed)?;
        Self::start(file, folder, 0, 0)
    }

    /// Opens the log of a session to continue it. A torn tail is set aside first.
    pub fn open(folder: &Path) -> Result<(Self, Resumed), Failure> {
        let path = folder.join(LOG_FILE);
        let failed = |e| disk_failure("cannot continue the log", &path, &e);
        let mut file = open_untrusted(OpenOptions::new().read(true).append(true), &path).map_err(failed)?;
        lock(&file, folder)?;
        let report = Reader::new(BufReader::new(&file), Some(Blobs::of_session(folder))).finish();
        let refused = |why: &str, hint: &str| {
            Err(Failure::new(format!("session {} cannot be continued", folder.display()), why, hint))
        };
        if report.damaged {
            let why = report.warnings.first().map_or("", String::as_str);
            return refused(&format!("its log is damaged, {why}"), "it can still be replayed and exported");
        }
        if report.newer {
            return refused("a newer sandscript wrote it", "update sandscript; it can still be replayed");
        }
        if report.next_seq == 0 {
            return refused("its log holds no record", "start a new session");
        }
        let aside =
            if report.torn { set_aside_tail(&mut file, folder, report.good_end).map_err(failed)? } else { None };
        let mut writer = Self::start(file, folder.to_owned(), report.good_end, report.next_seq)?;
        if let Some((name, bytes)) = &aside {
            let text = format!("{bytes} bytes at the end of the log were no whole record and are now in {name}");
            writer.append_now(&Record {
                v: SCHEMA_VERSION,
                seq: report.next_seq,
                at_ms: report.last_at_ms,
                event: Event::Note { kind: NoteKind::Recovery, text },
            })?;
        }
        Ok((writer, Resumed { last_at_ms: report.last_at_ms, repaired: aside.is_some() }))
    }

    fn start(file: File, folder: PathBuf, len: u64, next_seq: u64) -> Result<Self, Failure> {
        let (orders, received) = mpsc::channel(QUEUE);
        let (tell, health) = watch::channel(Health::default());
        let owner = Owner {
            file,
            path: folder.join(LOG_FILE),
            blobs: Blobs::of_session(&folder),
            len,
            half_written: false,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            sync_failed: None,
            health: tell,
            closing: Arc::default(),
        };
        let closing = owner.closing.clone();
        let thread = std::thread::Builder::new()
            .name("log".into())
            .spawn(move || owner.run(received))
            .map_err(|e| Failure::new("cannot start the thread that writes the log", e.to_string(), ""))?;
        let live = Live { folder, orders, closing, thread: Some(thread), health };
        Ok(Self { live: Some(live), next_seq, refused: None })
    }

    /// Folder of the session; nothing where none is kept.
    pub fn folder(&self) -> Option<&Path> {
        self.live.as_ref().map(|live| live.folder.as_path())
    }

    /// Name of the session; nothing where none is kept.
    pub fn id(&self) -> Option<&str> {
        self.folder()?.file_name()?.to_str()
    }

    /// Blobs of the session; nothing where none is kept.
    pub fn blobs(&self) -> Option<Blobs> {
        self.folder().map(Blobs::of_session)
    }

    /// Number the next record must have.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// What keeps records from the disk at the moment. They are not lost yet.
    pub fn problem(&self) -> Option<Failure> {
        self.live.as_ref().and_then(|live| live.health.borrow().problem.clone())
    }

    /// Hands a record over. It waits while the disk is slow; an error means the record was *not* taken, because too many
    /// are waiting for the disk already (a barrier tries again) or its number is not the next. No barrier holds until the
    /// missing record is handed over again, so a caller may leave the error to the barrier.
    pub async fn append(&mut self, record: &Record) -> Result<(), Failure> {
        let result = match (self.accept(record), self.orders()) {
            (Ok(line), Some(orders)) => orders.send(Order::Line(line)).await.map_err(|_| gone()),
            (Ok(_), None) => Ok(()),
            (Err(failure), _) => Err(failure),
        };
        self.taken(result)
    }

    /// As [`append`](Self::append), where the queue is known to have room.
    fn append_now(&mut self, record: &Record) -> Result<(), Failure> {
        let line = self.accept(record)?;
        let result = self.orders().map_or(Ok(()), |orders| orders.try_send(Order::Line(line)).map_err(|_| gone()));
        self.taken(result)
    }

    fn taken(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        self.next_seq += u64::from(result.is_ok());
        self.refused = result.clone().err();
        result
    }

    fn orders(&self) -> Option<&mpsc::Sender<Order>> {
        self.live.as_ref().map(|live| &live.orders)
    }

    fn accept(&self, record: &Record) -> Result<String, Failure> {
        if record.seq != self.next_seq {
            let why = format!("it has the number {} and {} is next", record.seq, self.next_seq);
            return Err(Failure::new("a record was not logged", why, ""));
        }
        let Some(live) = &self.live else { return Ok(String::new()) };
        let health = live.health.borrow();
        if let (true, Some(problem)) = (health.full, &health.problem) {
            return Err(problem.clone());
        }
        let line = line::encode(record).map_err(|e| Failure::new("a record was not logged", e.to_string(), ""))?;
        if line.len() as u64 > line::MAX_RECORD {
            return Err(Failure::new("a record was not logged", format!("it has {} bytes", line.len()), ""));
        }
        Ok(line)
    }

    /// Waits until every record so far is on the disk. After an error nothing may be done that a record announced.
    pub fn barrier(&self) -> impl Future<Output = Result<(), Failure>> + Send + 'static {
        let (orders, refused) = (self.orders().cloned(), self.refused.clone());
        async move {
            let Some(orders) = orders else { return Ok(()) };
            let (reply, answer) = oneshot::channel();
            orders.send(Order::Barrier(reply)).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())??;
            refused.map_or(Ok(()), Err)
        }
    }

    /// Writes what is left and gives the file up.
    pub async fn close(self) -> Result<(), Failure> {
        self.barrier().await
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // Where there is no room, the thread has something to do and looks afterwards.
        let _ = self.orders.try_send(Order::Close);
        if let Some(thread) = self.thread.take() {
            // An error is a panic of the thread, of which there is nothing left to save.
            let _ = thread.join();
        }
    }
}

fn gone() -> Failure {
    Failure::new("the log is not written any more", "its thread has ended", "start sandscript again")
}

/// Makes the folder of a new session under `data_dir`, named by its time and three random digits.
pub(super) fn new_session_folder(data_dir: &Path, now: Timestamp) -> Result<PathBuf, Failure> {
    let month = data_dir.join("sessions").join(now.strftime("%Y").to_string()).join(now.strftime("%m").to_string());
    // Names sort as the sessions began, also two of one second.
    let stamp = format!("{}-{:03x}", now.strftime("%Y%m%d-%H%M%S"), now.subsec_nanosecond() / 1_000_000);
    let failed = |e: io::Error| disk_failure("cannot make a session in", &month, &e);
    make_private_folder(&month).map_err(failed)?;
    make_session_folder(&month, &stamp).map_err(failed)
}

/// Makes the name of a new session durable: that of a folder is when the folder above it is.
pub(super) fn sync_session_folder(folder: &Path) -> io::Result<()> {
    folder.ancestors().take(MADE_FOLDERS).try_for_each(sync_folder)
}

fn make_session_folder(month: &Path, stamp: &str) -> io::Result<PathBuf> {
    let mut tries = 0;
    loop {
        // The standard library seeds each of these at random, which is all the randomness a name needs.
        let random = RandomState::new().build_hasher().finish() & 0xfff;
        let folder = month.join(format!("{stamp}{random:03x}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < ID_TRIES => tries += 1,
            Err(e) => return Err(e),
        }
    }
}

fn lock(file: &File, folder: &Path) -> Result<(), Failure> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            // Some network file systems have no locks; a session there is better than none.
            Err(TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(e)) => {
                return Err(disk_failure("cannot lock the log in", &folder.join(LOG_FILE), &e));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    Err(Failure::new(
        format!("session {} cannot be continued", folder.display()),
        "another sandscript has it open",
        "close it there first; replay and export work meanwhile",
    ))
}

/// Copies what is behind the last good line into a file of its own and cuts it off. Returns the name and the length.
fn set_aside_tail(file: &mut File, folder: &Path, good_end: u64) -> io::Result<Option<(String, u64)>> {
    for n in 1..u32::MAX {
        let name = format!("{LOG_FILE}.torn-{n}");
        let mut aside = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(&name)) {
            Ok(aside) => aside,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        };
        file.seek(SeekFrom::Start(good_end))?;
        let bytes = io::copy(&mut file.take(u64::MAX), &mut aside)?;
        aside.sync_data()?;
        sync_folder(folder)?;
        file.set_len(good_end)?;
        file.sync_data()?;
        return Ok(Some((name, bytes)));
    }
    Ok(None)
}

/// The thread's side.
struct Owner {
    file: File,
    path: PathBuf,
    blobs: Blobs,
    /// Length of the file up to the last whole line.
    len: u64,
    /// Something of a line stands behind `len`, and it could not be cut off yet.
    half_written: bool,
    /// Lines that are not in the file yet, in order.
    backlog: VecDeque<String>,
    backlog_bytes: usize,
    /// A failed sync is final: the system may have dropped what it could not write, and the next sync would not tell.
    sync_failed: Option<Failure>,
    health: watch::Sender<Health>,
    closing: Arc<AtomicBool>,
}

impl Owner {
    fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.blocking_recv() {
            match order {
                Order::Line(line) => {
                    self.backlog_bytes += line.len();
                    self.backlog.push_back(line);
                    // The next barrier tells, and `problem` does.
                    let _ = self.flush();
                }
                Order::Barrier(reply) => {
                    // Who asked may have been cancelled.
                    let _ = reply.send(self.sync());
                }
                Order::Close => {}
            }
            if self.closing.load(Ordering::Acquire) && orders.is_empty() {
                break;
            }
        }
        let _ = self.sync();
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.flush()?;
        if self.sync_failed.is_none() {
            let result = self.file.sync_data();
            self.sync_failed = result.err().map(|e| disk_failure("cannot sync", &self.path, &e));
        }
        self.sync_failed.clone().map_or(Ok(()), Err)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let mut result = Ok(());
        while let Some(line) = self.backlog.pop_front() {
            result = self.write(&line);
            if result.is_err() {
                self.backlog.push_front(line);
                break;
            }
            self.backlog_bytes -= line.len();
        }
        let problem = result.clone().err();
        let full = self.backlog_bytes > MAX_BACKLOG;
        self.health.send_replace(Health { problem, full });
        result
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        let pointer;
        let line = if line.len() > line::MAX_LINE {
            pointer = self.pointer(line)?;
            &pointer
        } else {
            line
        };
        self.write_line(line.as_bytes()).map_err(|e| disk_failure("cannot write the log", &self.path, &e))
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.half_written {
            self.file.set_len(self.len)?;
            self.half_written = false;
        }
        let result = self.file.write_all(line);
        match &result {
            Ok(()) => self.len += line.len() as u64,
            Err(_) => self.half_written = self.file.set_len(self.len).is_err(),
        }
        result
    }

    /// Keeps a line that is too long as a blob; returns the line that stands for it.
    fn pointer(&self, line: &str) -> Result<String, Failure> {
        let failed = |why: String| Failure::new("a record was not logged", why, "");
        let envelope = line::envelope(line.trim_end().as_bytes()).map_err(|why| failed(why.into()))?;
        let blob = self.blobs.put(line.as_bytes())?;
        line::encode_pointer(&envelope, &blob).map_err(|e| failed(e.to_string()))
    }
}

#[cfg(test)]
mod tests;
