//! The session log: one folder per session under `sessions/YYYY/MM/<id>/` with `log.jsonl`, `blobs/` and `files/`.
//!
//! The log is the product's memory and its evidence, so a record is on disk before what it announces happens, a damaged
//! file is never made worse, and a file that came from somewhere else is read as hostile data. The format is described in
//! `docs/log.md`; [`mod@line`] owns it, [`writer`] owns a file while a session is live, [`reader`] reads any file that claims
//! to be a log, [`blobs`] keeps what is too large for a line, [`list`] finds sessions, [`care`] renames and deletes them,
//! [`mod@fork`] goes on from an earlier step, [`mod@export`] makes files for other programs, [`redact`] takes secrets out
//! before anything is written.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::core::event::Failure;

pub mod blobs;
pub mod care;
pub mod export;
pub mod fork;
pub mod line;
pub mod list;
pub mod reader;
pub mod redact;
pub mod writer;

#[cfg(test)]
mod sample;

/// Name of the log inside the folder of its session.
pub const LOG_FILE: &str = "log.jsonl";

/// Folder inside the folder of a session that keeps the files runs made.
pub const FILES_FOLDER: &str = "files";

/// The log at a path a person may name: a folder of a session holds it, anything else is it.
pub fn log_file(session: &Path) -> PathBuf {
    if session.is_dir() { session.join(LOG_FILE) } else { session.to_owned() }
}

/// The blobs that belong to the log at such a path: they lie beside it.
pub fn blobs_of(session: &Path) -> blobs::Blobs {
    let beside = session.parent().unwrap_or(Path::new(""));
    blobs::Blobs::of_session(if session.is_dir() { session } else { beside })
}

/// Opens a file to read that may have been put there by somebody else: no link is followed, and a pipe or device does
/// not block and is refused.
fn open_untrusted(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// Makes a folder and those above it for this user alone.
fn make_private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes names inside a folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Words an error of the disk with what helps against it.
fn disk_failure(what: &str, path: &Path, error: &io::Error) -> Failure {
    let place = path.parent().unwrap_or(path).display();
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            format!("free space on the disk of {place}")
        }
        io::ErrorKind::PermissionDenied => format!("check owner and permissions of {place}"),
        io::ErrorKind::ReadOnlyFilesystem => "point XDG_DATA_HOME at a folder that can be written".into(),
        _ => "choose another place with XDG_DATA_HOME, or keep no log with --ephemeral".into(),
    };
    Failure::new(format!("{what} {}", path.display()), error.to_string(), hint)
}
