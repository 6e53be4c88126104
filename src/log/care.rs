//! What a person does with the sessions that are kept: give one a title, delete one, clear old ones out.
//!
//! Deleting is the one thing here that cannot be made good. So only a folder with the name and in the place of a session is
//! touched, no link is followed on the way to it or inside it, and a session that a program writes to is left alone: its
//! log is locked while the folder goes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::list::{self, SessionSummary, TITLE};
use super::{LOG_FILE, disk_failure, open_untrusted};
use crate::core::clean::Clean;
use crate::core::event::Failure;

/// Name of the file with the title in the folder of a session.
const TITLE_FILE: &str = "title";

/// Bytes read of a title: the longest one in the widest characters.
const TITLE_BYTES: u64 = 4 * TITLE as u64;

/// Deepest folder that is counted in a size; a session has two levels.
const MAX_DEPTH: usize = 8;

/// Tries for the lock and the pause between them: a listing looks at locks for an instant.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The title a person gave the session in a folder.
pub fn title(folder: &Path) -> Option<Clean> {
    let file = open_untrusted(OpenOptions::new().read(true), &folder.join(TITLE_FILE)).ok()?;
    let mut bytes = Vec::new();
    file.take(TITLE_BYTES).read_to_end(&mut bytes).ok()?;
    let title = list::title(&String::from_utf8_lossy(&bytes));
    (!title.as_str().is_empty()).then_some(title)
}

/// Gives a session another title and returns it as it is shown. An empty one takes the first question again.
pub fn rename(data_dir: &Path, folder: &Path, title: &str) -> Result<Clean, Failure> {
    let what = format!("cannot rename session {}", list::id_of(folder));
    check_kept(data_dir, folder, &what)?;
    let title = list::title(Clean::line(title).as_str());
    let path = folder.join(TITLE_FILE);
    write_title(folder, &title).map_err(|e| disk_failure("cannot write", &path, &e))?;
    Ok(title)
}

/// Writes the file with the title of a session.
pub(super) fn write_title(folder: &Path, title: &Clean) -> io::Result<()> {
    let path = folder.join(TITLE_FILE);
    if title.as_str().is_empty() {
        return match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    // Mode 0600 is what tempfile gives.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(title.as_str().as_bytes())?;
    file.as_file().sync_data()?;
    file.persist(&path)?;
    Ok(())
}

/// Size of everything in the folder of a session, bytes. A figure that two sessions share counts for both.
pub fn size(folder: &Path) -> u64 {
    size_at(folder, 0)
}

fn size_at(folder: &Path, depth: usize) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() && depth < MAX_DEPTH => size_at(&entry.path(), depth + 1),
        Ok(data) if data.is_file() => data.len(),
        Ok(_) | Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// Deletes a session. Refused while a program writes to it, and for anything that is no session of `data_dir`.
pub fn delete(data_dir: &Path, folder: &Path) -> Result<(), Failure> {
    let what = format!("cannot delete session {}", list::id_of(folder));
    check_kept(data_dir, folder, &what)?;
    let Ok(_lock) = lock(folder) else {
        let hint = "close it there first";
        return Err(Failure::new(what, "another sandscript has it open", hint));
    };
    // Follows no link inside the folder.
    std::fs::remove_dir_all(folder).map_err(|e| disk_failure("cannot delete", &folder.join(LOG_FILE), &e))
}

/// Whether a folder is a session of `data_dir`, by name and place, and no link leads to it.
fn check_kept(data_dir: &Path, folder: &Path, what: &str) -> Result<(), Failure> {
    let refused = |why: &str| {
        let hint = "see what is kept with: sandscript sessions list";
        Err(Failure::new(what, why, hint))
    };
    let sessions = data_dir.join("sessions");
    let Ok(inside) = folder.strip_prefix(&sessions) else { return refused("it is not among the kept sessions") };
    let names: Vec<&str> = inside.iter().filter_map(|name| name.to_str()).collect();
    let [year, month, id] = names[..] else { return refused("it is not among the kept sessions") };
    if !list::is_digits(year, 4) || !list::is_digits(month, 2) || !list::is_id(id) {
        return refused("it is not among the kept sessions");
    }
    let real = |path: &Path| path.symlink_metadata().is_ok_and(|data| data.is_dir());
    let path = [&sessions, &sessions.join(year), &sessions.join(year).join(month), folder];
    if path.iter().all(|path| real(path)) { Ok(()) } else { refused("it is no folder, or a link leads to it") }
}

/// Locks a session as its writer would. An error is that somebody else has; nothing is that there is no log to lock.
fn lock(folder: &Path) -> Result<Option<File>, ()> {
    let Ok(file) = open_untrusted(OpenOptions::new().read(true).append(true), &folder.join(LOG_FILE)) else {
        return Ok(None);
    };
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            // Where a file system has no locks nobody can tell.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
        }
    }
    Err(())
}

/// A session that is cleared out.
#[derive(Debug, Clone, PartialEq)]
pub struct Doomed {
    /// Name of the session.
    pub id: String,
    /// Its folder.
    pub path: PathBuf,
    /// Size of the folder, bytes.
    pub bytes: u64,
    /// When it was last written to.
    pub used: SystemTime,
    /// What a list shows of it; nothing where there is no log that begins as one.
    pub summary: Option<SessionSummary>,
}

/// What clearing out would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What goes, the longest unused first.
    pub goes: Vec<Doomed>,
    /// How many sessions stay, and their size.
    pub stays: usize,
    /// Size of what stays, bytes.
    pub stays_bytes: u64,
    /// Sessions that would go if no program wrote to them.
    pub open: usize,
}

impl Plan {
    /// Size of what goes, bytes.
    pub fn goes_bytes(&self) -> u64 {
        self.goes.iter().map(|doomed| doomed.bytes).sum()
    }
}

/// Says which sessions go: those not written to since `before`, and of the rest the longest unused until no more than
/// `max_bytes` are left. Open ones never go.
pub fn prune_plan(data_dir: &Path, before: Option<SystemTime>, max_bytes: Option<u64>) -> Plan {
    let mut all: Vec<(SystemTime, u64, PathBuf)> =
        list::folders(data_dir).into_iter().map(|folder| (used(&folder), size(&folder), folder)).collect();
    all.sort();
    let mut left: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
    let mut plan = Plan::default();
    for (used, bytes, path) in all {
        let old = before.is_some_and(|before| used < before);
        let too_much = max_bytes.is_some_and(|max| left > max);
        let goes = old || too_much;
        let open = goes && list::is_open(&path);
        if goes && !open {
            left -= bytes;
            let (id, summary) = (list::id_of(&path).to_owned(), list::summary(&path));
            plan.goes.push(Doomed { id, path, bytes, used, summary });
        } else {
            plan.stays += 1;
            plan.stays_bytes += bytes;
            plan.open += usize::from(open);
        }
    }
    plan
}

fn used(folder: &Path) -> SystemTime {
    let time = |path: &Path| path.symlink_metadata().and_then(|data| data.modified()).ok();
    time(&folder.join(LOG_FILE)).or_else(|| time(folder)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
