//! What is too large for a line, by its content: `blobs/<sha256>`. Figures, long output, and records beyond the length of
//! a line.
//!
//! Names come out of logs, and a log may come from anywhere: a name is 64 hex digits, the content must hash to it, and
//! nothing larger than the caller expects is read.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::redact::Redactor;
use crate::core::event::Failure;

/// Largest text file taken over into a blob, bytes: what the sandbox spools of a stream (design §6) and a little more.
pub const MAX_TEXT_FILE: u64 = 17 * 1024 * 1024;

/// The blobs of one session.
#[derive(Debug, Clone)]
pub struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// The blobs in the folder of a session. The folder for them is made when the first comes.
    pub fn of_session(session: &Path) -> Self {
        Self { folder: session.join("blobs") }
    }

    /// Keeps bytes and returns their name. They are on the disk when this returns, so that a record may name them.
    pub fn put(&self, bytes: &[u8]) -> Result<String, Failure> {
        let name = hash(bytes);
        if self.get(&name, bytes.len() as u64).is_err() {
            let path = self.folder.join(&name);
            self.write(bytes, &path).map_err(|e| super::disk_failure("cannot write", &path, &e))?;
        }
        Ok(name)
    }

    fn write(&self, bytes: &[u8], path: &Path) -> std::io::Result<()> {
        super::make_private_folder(&self.folder)?;
        // Mode 0600 is what tempfile gives.
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(path)?;
        super::sync_folder(&self.folder)
    }

    /// Keeps a text file without the secrets in it and returns its name.
    pub fn put_text_file(&self, path: &Path, redactor: &mut Redactor) -> Result<String, Failure> {
        let text = read_capped(path, MAX_TEXT_FILE).map_err(|e| super::disk_failure("cannot read", path, &e))?;
        self.put(&redactor.bytes(text))
    }

    /// Reads a blob of at most `max` bytes.
    pub fn get(&self, name: &str, max: u64) -> Result<Vec<u8>, Failure> {
        if !is_name(name) {
            return Err(Failure::new("a blob cannot be read", "its name is not a hash", ""));
        }
        let path = self.folder.join(name);
        let bytes = read_capped(&path, max).map_err(|e| super::disk_failure("cannot read", &path, &e))?;
        if hash(&bytes) != name {
            return Err(Failure::new(format!("blob {name} cannot be used"), "its content was changed", ""));
        }
        Ok(bytes)
    }
}

/// Whether a text is the name of a blob.
pub(super) fn is_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn read_capped(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let file = super::open_untrusted(OpenOptions::new().read(true), path)?;
    if file.metadata()?.len() > max {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("larger than {max} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn content_is_kept_once_and_privately() {
        let session = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_session(session.path());
        let name = blobs.put(b"figure").unwrap();
        assert_eq!(blobs.put(b"figure").unwrap(), name);
        assert_eq!(blobs.get(&name, 6).unwrap(), b"figure");
        let folder = session.path().join("blobs");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(folder.join(&name).metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn hostile_names_and_contents_are_refused() {
        let session = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_session(session.path());
        let name = blobs.put(b"figure").unwrap();
        std::fs::write(session.path().join("log.jsonl"), "x").unwrap();
        let odd = [String::new(), "../log.jsonl".into(), name.to_uppercase(), format!("{name}/"), "é".repeat(32)];
        for odd in odd {
            assert_eq!(blobs.get(&odd, 100).unwrap_err().why, "its name is not a hash");
        }
        assert!(blobs.get(&name, 5).unwrap_err().why.contains("larger than 5"));
        let path = session.path().join("blobs").join(&name);
        std::fs::write(&path, "fiGure").unwrap();
        assert_eq!(blobs.get(&name, 100).unwrap_err().why, "its content was changed");
        assert_eq!(blobs.put(b"figure").unwrap(), name);
        assert_eq!(blobs.get(&name, 100).unwrap(), b"figure");

        let outside = session.path().join("outside");
        std::fs::write(&outside, "figure").unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        assert!(blobs.get(&name, 100).is_err());
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(blobs.get(&name, 100).is_err());
    }

    #[test]
    fn secrets_of_a_text_file_stay_out() {
        let session = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_session(session.path());
        let spool = session.path().join("spool");
        std::fs::write(&spool, b"\xff key hunter2-hunter2 end").unwrap();
        let name = blobs.put_text_file(&spool, &mut Redactor::new(vec!["hunter2-hunter2".into()])).unwrap();
        assert_eq!(blobs.get(&name, 100).unwrap(), b"\xff key [redacted:secret] end");
    }
}
