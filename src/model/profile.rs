//! What was learned about an endpoint and a model, kept between sessions in one small file of the cache folder.
//!
//! It only saves a refused request or a wasted reply the next time: a lost, old or damaged file costs nothing else, so
//! every fault of it is passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::errors::Change;

const FILE: &str = "models.json";

/// A larger file is not ours.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Entries kept; far more endpoints than anyone has.
const MAX_ENTRIES: usize = 256;

/// What was learned about one model at one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learned {
    /// It does better, or only works, in text mode.
    pub text_mode: bool,
    /// Content beside calls must be `null` and not `""`.
    pub null_content: bool,
    /// The bound on tokens is called `max_completion_tokens`.
    pub max_completion_tokens: bool,
    /// It accepts no temperature but its own.
    pub no_temperature: bool,
    /// It does not know `stream_options`.
    pub no_stream_options: bool,
    /// It does not know `tool_choice`.
    pub no_tool_choice: bool,
    /// It does not know `think`.
    pub no_think: bool,
}

impl Learned {
    /// Learns one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::TokensField => self.max_completion_tokens = !self.max_completion_tokens,
            Change::NoTemperature => self.no_temperature = true,
            Change::NoStreamOptions => self.no_stream_options = true,
            Change::NoToolChoice => self.no_tool_choice = true,
            Change::Content => self.null_content = !self.null_content,
            Change::NoThink => self.no_think = true,
        }
    }
}

/// The place of one model at one endpoint in the file.
#[derive(Debug, Clone)]
pub struct Memory {
    /// `None` when nothing is to be kept.
    folder: Option<PathBuf>,
    name: String,
}

impl Memory {
    /// The memory of `model` at `base_url`, in `folder`.
    pub fn new(folder: Option<PathBuf>, base_url: &str, model: &str) -> Self {
        Self { folder, name: format!("{base_url} {model}") }
    }

    /// What is known; nothing if there is no file or it cannot be read.
    pub fn load(&self) -> Learned {
        let entries = self.folder.as_deref().map(read).unwrap_or_default();
        entries.get(&self.name).cloned().unwrap_or_default()
    }

    /// Changes what is known. A failure to write is no failure of the session.
    pub fn update(&self, change: impl FnOnce(&mut Learned)) {
        let Some(folder) = self.folder.as_deref() else { return };
        let mut entries = read(folder);
        let mut learned = entries.get(&self.name).cloned().unwrap_or_default();
        let before = learned.clone();
        change(&mut learned);
        if learned == before {
            return;
        }
        entries.insert(self.name.clone(), learned);
        while entries.len() > MAX_ENTRIES {
            let other = entries.keys().find(|k| **k != self.name).cloned();
            entries.remove(&other.unwrap_or_default());
        }
        let _ = write(folder, &entries);
    }
}

fn read(folder: &Path) -> BTreeMap<String, Learned> {
    let mut text = String::new();
    let read = File::open(folder.join(FILE)).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return BTreeMap::new();
    }
    // Entry by entry, so that one of another version does not take the others with it.
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    entries.into_iter().filter_map(|(name, value)| Some((name, serde_json::from_value(value).ok()?))).collect()
}

/// Written beside and moved into place (mode 0600), so that a reader sees the old file or the new one.
fn write(folder: &Path, entries: &BTreeMap<String, Learned>) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec_pretty(entries)?)?;
    file.persist(folder.join(FILE))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn memory(folder: &Path, model: &str) -> Memory {
        Memory::new(Some(folder.join("deep/er")), "http://localhost:11434/v1", model)
    }

    #[test]
    fn what_is_learned_is_there_next_time_and_only_for_that_model() {
        let folder = tempfile::tempdir().unwrap();
        memory(folder.path(), "a").update(|l| l.text_mode = true);
        memory(folder.path(), "b").update(|l| l.apply(Change::TokensField));
        assert_eq!(memory(folder.path(), "a").load(), Learned { text_mode: true, ..Learned::default() });
        assert_eq!(memory(folder.path(), "b").load(), Learned { max_completion_tokens: true, ..Learned::default() });
        assert_eq!(memory(folder.path(), "c").load(), Learned::default());
        let mode = std::fs::metadata(folder.path().join("deep/er").join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_as_none_and_gets_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let m = Memory::new(Some(folder.path().to_owned()), "u", "m");
        for garbage in ["", "{", "[]", "\u{0}", r#"{"u m": 3}"#, r#"{"u m": {"text_mode": "yes"}}"#] {
            std::fs::write(folder.path().join(FILE), garbage).unwrap();
            assert_eq!(m.load(), Learned::default(), "{garbage}");
        }
        std::fs::write(folder.path().join(FILE), r#"{"u m": {"text_mode": true, "of a later version": 1}, "x": 3}"#)
            .unwrap();
        assert!(m.load().text_mode);
        m.update(|l| l.no_think = true);
        assert_eq!(m.load(), Learned { text_mode: true, no_think: true, ..Learned::default() });
    }

    #[test]
    fn without_a_folder_nothing_is_kept_or_fails() {
        let m = Memory::new(None, "u", "m");
        m.update(|l| l.text_mode = true);
        assert_eq!(m.load(), Learned::default());
    }

    #[test]
    fn the_file_stays_small() {
        let folder = tempfile::tempdir().unwrap();
        let entries =
            (0..MAX_ENTRIES + 5).map(|n| (format!("u {n}"), Learned { text_mode: true, ..Learned::default() }));
        write(folder.path(), &entries.collect()).unwrap();
        memory_at(folder.path(), "m").update(|l| l.text_mode = true);
        assert_eq!(read(folder.path()).len(), MAX_ENTRIES);
        assert!(memory_at(folder.path(), "m").load().text_mode);
    }

    fn memory_at(folder: &Path, model: &str) -> Memory {
        Memory::new(Some(folder.to_owned()), "u", model)
    }
}
