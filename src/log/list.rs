//! Finds sessions. Owns how the folders are walked and what a list shows of each session, which it takes from the first
//! and last few KiB of a log, so that thousands of them are listed at once and a large one costs no more than a small one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::care;
use super::reader::{Entry, Reader};
use super::{LOG_FILE, line, log_file, open_untrusted};
use crate::core::clean::Clean;
use crate::core::event::{Event, Failure, TurnStatus};

/// Bytes read from the start of a log: the first record and the first question, behind a profile of the inputs.
const HEAD: u64 = 64 * 1024;

/// Bytes read from the end: the end of the last turn.
const TAIL: u64 = 64 * 1024;

/// Longest title, characters.
pub(super) const TITLE: usize = 120;

/// Most candidates named when a prefix is not unique.
const CANDIDATES: usize = 8;

/// What a list shows of a session. Texts are cleaned.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// Name of the session.
    pub id: String,
    /// Its folder.
    pub path: PathBuf,
    /// RFC 3339 time of the first record.
    pub started: Clean,
    /// Folder the person worked in.
    pub folder: Clean,
    /// Model at the start.
    pub model: Clean,
    /// The title the person gave or the first question, one line.
    pub title: Clean,
    /// Questions; unknown for a log too large to be read whole here.
    pub turns: Option<u64>,
    /// How the last turn ended; nothing if it has not.
    pub status: Option<TurnStatus>,
    /// Size of the log, bytes.
    pub bytes: u64,
    /// What became of the session.
    pub state: State,
}

/// What became of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A program is writing to it.
    Open,
    /// It was closed.
    Ended,
    /// Its program ended without closing it.
    Crashed,
}

/// The sessions under `data_dir`, newest first. Each is read when the iterator comes to it; what is no log is passed over.
pub fn list(data_dir: &Path) -> impl Iterator<Item = SessionSummary> {
    folders(data_dir).into_iter().filter_map(|folder| summary(&folder))
}

/// How many sessions are older than the one of that name.
pub fn older_than(data_dir: &Path, id: &str) -> usize {
    folders(data_dir).iter().filter(|folder| id_of(folder) < id).count()
}

/// The folder of the session whose name begins with `name`, or of the last one for `last`.
pub fn find(data_dir: &Path, name: &str) -> Result<PathBuf, Failure> {
    let all = folders(data_dir);
    if name == "last" {
        let none = || Failure::new("there is no session yet", "", "ask something first: sandscript exec PROMPT");
        // A program that was killed at its start leaves a folder without a record.
        let begun = |folder: &PathBuf| Reader::open(folder).is_ok_and(|mut log| log.next().is_some());
        return all.into_iter().find(begun).ok_or_else(none);
    }
    let mut found: Vec<PathBuf> = all.into_iter().filter(|f| !name.is_empty() && id_of(f).starts_with(name)).collect();
    if found.len() > 1 {
        let mut ids: Vec<&str> = found.iter().take(CANDIDATES).map(|f| id_of(f)).collect();
        if found.len() > CANDIDATES {
            ids.push("…");
        }
        return Err(Failure::new(
            format!("{} sessions begin with {name}", found.len()),
            ids.join(", "),
            "give more of the name",
        ));
    }
    found.pop().ok_or_else(|| {
        Failure::new(format!("no session begins with {name}"), "", "see the names with: sandscript sessions list")
    })
}

/// The session a person means: the path of a session folder or of a log, from anywhere, or what [`find`] takes. What is
/// returned is the absolute path of a folder with a log, or of a log; [`Reader::open`] opens both.
///
/// A text is a path if it has a slash or if a log is there; `last` never is, so that it means the same everywhere.
pub fn find_any(data_dir: &Path, text: &str) -> Result<PathBuf, Failure> {
    let path = std::path::absolute(text).unwrap_or_default();
    let there = log_file(&path).is_file();
    if !text.contains('/') && (!there || text == "last") {
        return find(data_dir, text);
    }
    if !there {
        let why = if path.is_dir() { "there is no log.jsonl in it" } else { "there is no such file" };
        let hint = "name a session folder or a log in it; see your own with: sandscript sessions list";
        return Err(Failure::new(format!("there is no session at {text}"), why, hint));
    }
    // A log under its own name stands for its folder, which has a name and blobs.
    Ok(if path.ends_with(LOG_FILE) { path.parent().map(Path::to_owned).unwrap_or(path) } else { path })
}

/// Whether a program is writing to the log at a path of [`find_any`].
pub fn is_open(session: &Path) -> bool {
    let file = open_untrusted(OpenOptions::new().read(true), &log_file(session));
    file.is_ok_and(|file| state(&file, false) == State::Open)
}

/// Folders that have the name and place of a session, newest first.
pub(super) fn folders(data_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for year in subfolders(&data_dir.join("sessions"), |name| is_digits(name, 4)) {
        for month in subfolders(&year, |name| is_digits(name, 2)) {
            found.extend(subfolders(&month, is_id));
        }
    }
    found.sort_unstable_by(|a, b| id_of(b).cmp(id_of(a)));
    found
}

/// Folders, not links to folders, whose name is as expected.
fn subfolders(folder: &Path, expected: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| entry.file_name().to_str().is_some_and(&expected))
        .map(|entry| entry.path())
        .collect()
}

pub(super) fn is_digits(name: &str, len: usize) -> bool {
    name.len() == len && name.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a name is `20261130-200512-a1b2c3` in form.
pub(super) fn is_id(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [date, time, random] = parts[..] else { return false };
    let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    is_digits(date, 8) && is_digits(time, 6) && random.len() == 6 && random.bytes().all(hex)
}

/// Name of the session in a folder.
pub fn id_of(folder: &Path) -> &str {
    folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// What a list shows of the session in `folder`; nothing if there is no log that begins as one.
pub fn summary(folder: &Path) -> Option<SessionSummary> {
    let file = open_untrusted(OpenOptions::new().read(true), &folder.join(LOG_FILE)).ok()?;
    let bytes = file.metadata().ok()?.len();
    let (first, head) = read_head(&file, bytes <= HEAD)?;
    let Event::SessionStarted(info) = first else { return None };
    let end = if bytes <= HEAD { head.end } else { read_tail(&file, bytes).ok()? };
    Some(SessionSummary {
        id: id_of(folder).to_owned(),
        path: folder.to_owned(),
        started: Clean::line(&info.started),
        folder: Clean::line(&info.folder),
        model: Clean::line(&info.model),
        title: care::title(folder).unwrap_or(head.title),
        turns: (bytes <= HEAD).then_some(head.turns),
        status: end.status,
        bytes,
        state: state(&file, end.closed),
    })
}

#[derive(Default)]
struct Head {
    title: Clean,
    turns: u64,
    end: End,
}

/// Where a session stands after some records.
#[derive(Default)]
struct End {
    status: Option<TurnStatus>,
    closed: bool,
}

impl End {
    fn follow(&mut self, event: Event) {
        self.closed = matches!(event, Event::SessionEnded { .. });
        match event {
            Event::TurnEnded { status, .. } => self.status = Some(status),
            Event::UserSaid { .. } => self.status = None,
            Event::SessionStarted(_)
            | Event::SessionResumed(_)
            | Event::TermsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::RebuildDecided { .. }
            | Event::InputsListed { .. }
            | Event::ModelDelta { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::CodeProposed(_)
            | Event::CodeApproved { .. }
            | Event::CodeRejected { .. }
            | Event::RunStarted { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::RunFinished(_)
            | Event::SandboxFailed { .. }
            | Event::ArtifactSaved { .. }
            | Event::Note { .. }
            | Event::SessionEnded { .. } => {}
        }
    }
}

/// The first event and what follows it within [`HEAD`]; all of it if `whole`, else up to the first question.
fn read_head(mut file: &File, whole: bool) -> Option<(Event, Head)> {
    file.rewind().ok()?;
    let mut events = Reader::new(BufReader::new(file.take(HEAD)), None).filter_map(|entry| match entry {
        Entry::Known(record) => Some(record.event),
        Entry::Unknown { .. } => None,
    });
    let first = events.next()?;
    let mut head = Head::default();
    for event in events {
        if let Event::UserSaid { text } = &event {
            head.turns += 1;
            if head.turns == 1 {
                head.title = title(text);
            }
            if !whole {
                break;
            }
        }
        head.end.follow(event);
    }
    Some((first, head))
}

/// The start of a text as a title.
pub(super) fn title(text: &str) -> Clean {
    // What is not shown is not cleaned either: a question may be a whole file.
    let start: String = text.trim_start().chars().take(TITLE).collect();
    Clean::line(start.trim_end())
}

/// Where the session stands after the lines within [`TAIL`]. The first of them is most likely cut.
fn read_tail(mut file: &File, bytes: u64) -> io::Result<End> {
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail)?;
    let mut end = End::default();
    for line in tail.split(|b| *b == b'\n').filter(|line| line::envelope(line).is_ok()) {
        if let Some(event) = line::event(line) {
            end.follow(event);
        }
    }
    Ok(end)
}

fn state(file: &File, closed: bool) -> State {
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => State::Open,
        // The lock goes with the file, in a moment.
        Ok(()) | Err(TryLockError::Error(_)) if closed => State::Ended,
        Ok(()) | Err(TryLockError::Error(_)) => State::Crashed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Record, SCHEMA_VERSION};
    use crate::log::sample;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    fn add(data: &Path, id: &str, log: &[u8]) -> PathBuf {
        let folder = data.join("sessions").join(&id[..4]).join(&id[4..6]).join(id);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(LOG_FILE), log).unwrap();
        folder
    }

    fn lines(events: impl IntoIterator<Item = Event>) -> String {
        let record = |(seq, event)| Record { v: SCHEMA_VERSION, seq: seq as u64, at_ms: 0, event };
        events.into_iter().enumerate().map(|e| line::encode(&record(e)).unwrap()).collect()
    }

    fn said(text: &str) -> Event {
        Event::UserSaid { text: text.into() }
    }

    fn start() -> Event {
        sample::records().remove(0).event
    }

    #[test]
    fn a_summary_tells_what_a_person_looks_for() {
        let data = tempfile::tempdir().unwrap();
        let path = add(data.path(), "20261130-200512-a1b2c3", sample::text().as_bytes());
        let expected = SessionSummary {
            id: "20261130-200512-a1b2c3".into(),
            path: path.clone(),
            started: Clean::line("2026-11-30T20:05:12.000Z"),
            folder: Clean::line("/home/ada/sales"),
            model: Clean::line("mistral-nemo"),
            title: Clean::line("Which region grew most?"),
            turns: Some(5),
            status: Some(TurnStatus::ModelError),
            bytes: sample::text().len() as u64,
            state: State::Ended,
        };
        assert_eq!(list(data.path()).collect::<Vec<_>>(), [expected]);

        let log = lines([start(), said(&format!("  \x1b[2Jhi\nthere\u{202e} {}", "x".repeat(500)))]) + "{\"v\":1,\"se";
        std::fs::write(path.join(LOG_FILE), log).unwrap();
        let summary = summary(&path).unwrap();
        assert!(summary.title.as_str().starts_with("hi there<U+202E> xxx"), "{}", summary.title);
        assert!(summary.title.as_str().len() < TITLE + 10);
        assert_eq!((summary.state, summary.status), (State::Crashed, None));
    }

    #[test]
    fn a_large_log_is_not_read_whole() {
        let data = tempfile::tempdir().unwrap();
        let path = add(data.path(), "20261130-200512-a1b2c3", sample::text().as_bytes());
        let mut log = OpenOptions::new().append(true).open(path.join(LOG_FILE)).unwrap();
        log.set_len(100 * 1024 * 1024).unwrap();
        log.write_all(b"\n").unwrap();
        let end = sample::text().lines().next_back().unwrap().to_owned();
        for line in [
            lines([
                said("more"),
                Event::TurnEnded { status: TurnStatus::Stopped, answer: String::new(), unrepaired: false },
            ]),
            end,
        ] {
            log.write_all(line.as_bytes()).unwrap();
        }
        log.write_all(b"\n").unwrap();
        let before = bytes_read();
        let summary = summary(&path).unwrap();
        let read = bytes_read() - before;
        assert!(read < HEAD + TAIL + 16 * 1024, "{read} bytes");
        assert_eq!(summary.title.as_str(), "Which region grew most?");
        assert_eq!((summary.turns, summary.status, summary.state), (None, Some(TurnStatus::Stopped), State::Ended));
    }

    /// Bytes this thread has read; 0 where the system does not tell.
    fn bytes_read() -> u64 {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        io.lines().find_map(|l| l.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
    }

    #[test]
    fn what_is_no_session_is_passed_over() {
        let data = tempfile::tempdir().unwrap();
        let good = add(data.path(), "20261130-200512-a1b2c3", sample::text().as_bytes());
        let month = good.parent().unwrap();
        for odd in ["notes", "20261130-200512-A1B2C3", "20261130-200512-a1b2c3-", "é0261130-200512-a1b2c3", "\x1b[2J"]
        {
            std::fs::create_dir(month.join(odd)).unwrap();
            std::fs::copy(good.join(LOG_FILE), month.join(odd).join(LOG_FILE)).unwrap();
        }
        symlink(&good, month.join("20261130-200512-bbbbbb")).unwrap();
        let pipe = month.join("20261130-200512-cccccc");
        std::fs::create_dir(&pipe).unwrap();
        nix::unistd::mkfifo(&pipe.join(LOG_FILE), nix::sys::stat::Mode::S_IRWXU).unwrap();
        add(data.path(), "20261130-200512-dddddd", b"not a log\n");
        add(data.path(), "20261130-200512-eeeeee", lines([said("no start")]).as_bytes());
        std::fs::create_dir(month.join("20261130-200512-ffffff")).unwrap();
        assert_eq!(list(data.path()).map(|s| s.path).collect::<Vec<_>>(), [good]);
        assert_eq!(list(&data.path().join("nowhere")).count(), 0);
    }

    #[test]
    fn sessions_are_found_by_the_start_of_their_name() {
        let data = tempfile::tempdir().unwrap();
        assert!(find(data.path(), "last").unwrap_err().hint.contains("exec"));
        let old = add(data.path(), "20251231-235959-ffffff", b"");
        let one = add(data.path(), "20261130-200512-a1b2c3", b"");
        let two = add(data.path(), "20261130-200513-000000", lines([said("x")]).as_bytes());
        add(data.path(), "20261201-000000-000000", b"");
        assert_eq!(find(data.path(), "last").unwrap(), two, "an empty log is passed over");
        assert_eq!(find(data.path(), "2025").unwrap(), old);
        assert_eq!(find(data.path(), "20261130-200512-a1b2c3").unwrap(), one);
        let many = find(data.path(), "20261130").unwrap_err();
        assert_eq!(many.why, "20261130-200513-000000, 20261130-200512-a1b2c3");
        for none in ["", "1999", "../sessions"] {
            assert!(find(data.path(), none).unwrap_err().hint.contains("sessions list"), "{none}");
        }
    }

    #[test]
    fn a_session_from_elsewhere_is_found_by_its_path() {
        let data = tempfile::tempdir().unwrap();
        let one = add(data.path(), "20261130-200512-a1b2c3", b"");
        let elsewhere = tempfile::tempdir().unwrap();
        let folder = elsewhere.path().join("from a friend");
        std::fs::create_dir(&folder).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let empty = find_any(data.path(), &text(&folder)).unwrap_err();
        assert_eq!(empty.why, "there is no log.jsonl in it");
        for name in [LOG_FILE, "sent.jsonl"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        for path in [folder.clone(), folder.join(LOG_FILE), folder.join("")] {
            assert_eq!(find_any(data.path(), &text(&path)).unwrap(), folder);
        }
        let sent = folder.join("sent.jsonl");
        assert_eq!(find_any(data.path(), &text(&sent)).unwrap(), sent, "any name will do");
        assert_eq!(find_any(data.path(), &text(&folder.join("no"))).unwrap_err().why, "there is no such file");
        assert_eq!(find_any(data.path(), "20261130").unwrap(), one);
        assert!(find_any(data.path(), "").unwrap_err().hint.contains("sessions list"));
        // The folder the tests run in holds no log, but other folders.
        assert!(find_any(data.path(), "src").unwrap_err().what.contains("no session begins with"));
    }
}
