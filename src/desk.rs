//! Answers the questions of a user interface that have nothing to do with the conversation: figures, earlier sessions,
//! exports, what was typed before. A live session and a replay share it.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::core::command::{Answer, Question, SessionRow};
use crate::core::event::Failure;
use crate::export_command::{self, Place};
use crate::log;
use crate::log::care;
use crate::log::export::Format;
use crate::log::list::{self, SessionSummary, State};
use crate::log::redact::Redactor;
use crate::places::read_text;
use crate::sandbox::value::redraw;

/// Largest blob shown, bytes: what is kept of a stream.
const MAX_BLOB: u64 = crate::log::blobs::MAX_TEXT_FILE;

/// Sessions a picker shows; older ones are found by the command line.
const MAX_SESSIONS: usize = 1000;

/// Texts kept of what was typed.
const MAX_HISTORY: usize = 500;

/// Largest file of them, bytes, and the longest text that is kept.
const MAX_HISTORY_BYTES: u64 = 8 * 1024 * 1024;
/// As JSON a character takes six bytes at most, so that all of them fit.
const MAX_TYPED: usize = 2 * 1024;

/// What is asked, and where the answers are.
#[derive(Debug, Clone)]
pub struct Desk {
    /// Sessions and the history are kept here.
    pub data: PathBuf,
    /// Folder or log file of the session that is shown; nothing where it is not kept.
    pub session: Option<PathBuf>,
    /// Where exports go.
    pub folder: PathBuf,
    /// Blacks out keys in what is kept of the typed texts.
    pub redactor: Redactor,
}

impl Desk {
    /// Answers; reads and writes files, so not to be called where others wait.
    pub fn answer(&self, question: Question) -> Answer {
        let answered = match question {
            Question::Blob(name) => self.blob(&name).map(|bytes| Answer::Blob(bytes.into())),
            Question::OpenFigure(name) => self.open_figure(&name).map(Answer::Done),
            Question::Sessions => Ok(Answer::Sessions(list::list(&self.data).take(MAX_SESSIONS).map(row).collect())),
            Question::History => Ok(Answer::History(self.history())),
            Question::Remember(text) => self.remember(text).map(|()| Answer::Done(String::new())),
            Question::Rename { id, title } => self.rename(&id, &title).map(Answer::Done),
            Question::Delete(id) => self.delete(&id).map(Answer::Done),
            Question::Export { format, path } => self.export(&format, path).map(Answer::Done),
            Question::Models | Question::Compile(_) => Err(unknown()),
        };
        answered.unwrap_or_else(Answer::Failed)
    }

    fn blob(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let session = self.session.as_deref().ok_or_else(|| Failure::new("this session is not kept", "", ""))?;
        log::blobs_of(session).get(name, MAX_BLOB)
    }

    /// Hands a figure to the person's own viewer, as a copy: a viewer may write to what it shows.
    fn open_figure(&self, name: &str) -> Result<String, Failure> {
        // A log may come from anywhere: what a viewer gets was decoded within bounds and written anew.
        let bytes = redraw(&self.blob(name)?)
            .map_err(|why| Failure::new("the figure cannot be shown", why, "it is left where it is"))?;
        let failed = |e: std::io::Error| Failure::new("cannot write the figure", e.to_string(), "");
        let copy = tempfile::Builder::new().prefix("sandscript-").suffix(".png").tempfile().map_err(failed)?;
        std::fs::write(copy.path(), bytes).map_err(failed)?;
        let (_, path) = copy.keep().map_err(|e| failed(e.error))?;
        let viewer = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let shown =
            Command::new(viewer).arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match shown {
            Ok(mut viewer) => {
                // Waited for, or it stays as a dead process until we end.
                std::thread::spawn(move || viewer.wait());
                Ok(format!("the figure is in {}", path.display()))
            }
            Err(e) => Err(Failure::new(
                format!("{viewer} could not be started"),
                e.to_string(),
                format!("the figure is in {}", path.display()),
            )),
        }
    }

    fn rename(&self, id: &str, title: &str) -> Result<String, Failure> {
        let folder = list::find(&self.data, id)?;
        care::rename(&self.data, &folder, title).map(|title| format!("the session is called {title} now"))
    }

    fn delete(&self, id: &str) -> Result<String, Failure> {
        let folder = list::find(&self.data, id)?;
        care::delete(&self.data, &folder).map(|()| "the session is deleted".to_string())
    }

    fn export(&self, format: &str, path: Option<PathBuf>) -> Result<String, Failure> {
        let session = self.session.as_deref().ok_or_else(|| Failure::new("this session is not kept", "", ""))?;
        let format = Format::of_name(format)
            .ok_or_else(|| Failure::new("unknown format", "", "formats: ipynb, py, md, cast"))?;
        let path = path.map(|path| self.folder.join(path));
        let place = path.as_deref().map_or(Place::Folder(&self.folder), Place::File);
        export_command::save(session, format, false, place).map(|saved| saved.told().into_string())
    }

    fn history_file(&self) -> PathBuf {
        self.data.join("history")
    }

    /// One JSON string a line; what is none is passed over.
    fn history(&self) -> Vec<String> {
        let text = read_text(&self.history_file(), MAX_HISTORY_BYTES).unwrap_or_default();
        let mut typed: Vec<String> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        typed.drain(..typed.len().saturating_sub(MAX_HISTORY));
        typed
    }

    fn remember(&self, text: String) -> Result<(), Failure> {
        let text = self.redactor.clone().text(text);
        let mut typed = self.history();
        if text.len() > MAX_TYPED || typed.last() == Some(&text) {
            return Ok(());
        }
        let failed = |e: std::io::Error| Failure::new("what was typed cannot be kept", e.to_string(), "");
        let line = |text: &String| serde_json::to_string(text).map(|l| l + "\n").unwrap_or_default();
        std::fs::create_dir_all(&self.data).map_err(failed)?;
        if typed.len() < MAX_HISTORY {
            let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.history_file());
            return file
                .as_mut()
                .map_or_else(|e| Err(std::io::Error::other(e.to_string())), |f| f.write_all(line(&text).as_bytes()))
                .map_err(failed);
        }
        // Half are kept, so that the file is written anew once in a while only.
        typed.drain(..MAX_HISTORY / 2);
        typed.push(text);
        replace(&self.history_file(), &typed.iter().map(line).collect::<String>()).map_err(failed)
    }
}

/// Writes a file anew so that there is always a whole one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map(drop).map_err(|e| e.error)
}

fn unknown() -> Failure {
    Failure::new("that cannot be answered here", "", "")
}

fn row(s: SessionSummary) -> SessionRow {
    SessionRow {
        id: s.id,
        started: s.started,
        folder: s.folder,
        model: s.model,
        title: s.title,
        turns: s.turns,
        status: s.status,
        bytes: s.bytes,
        crashed: s.state == State::Crashed,
        open: s.state == State::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::blobs::Blobs;

    fn desk(data: &Path) -> Desk {
        let redactor = Redactor::exact(vec!["s3cr3t-key-of-mine".into()]);
        Desk { data: data.into(), session: None, folder: data.into(), redactor }
    }

    #[test]
    fn what_was_typed_is_kept_without_keys_and_bounded() {
        let data = tempfile::tempdir().unwrap();
        let desk = desk(data.path());
        assert_eq!(desk.answer(Question::History), Answer::History(vec![]));
        for n in 0..MAX_HISTORY + 5 {
            desk.answer(Question::Remember(format!("question\n{n}")));
        }
        desk.answer(Question::Remember("with s3cr3t-key-of-mine".into()));
        desk.answer(Question::Remember("x".repeat(MAX_TYPED + 1)));
        let Answer::History(typed) = desk.answer(Question::History) else { panic!() };
        assert!(typed.len() <= MAX_HISTORY && typed.len() >= MAX_HISTORY / 2, "{}", typed.len());
        let last = typed.last().unwrap();
        assert!(last.starts_with("with ") && !last.contains("s3cr3t"), "{last}");
        assert_eq!(typed[typed.len() - 2], format!("question\n{}", MAX_HISTORY + 4));
    }

    #[test]
    fn a_damaged_history_is_read_as_far_as_it_is_one() {
        let data = tempfile::tempdir().unwrap();
        std::fs::write(data.path().join("history"), b"\"a\"\n{not\n\xff\n\"b\"\n").unwrap();
        let Answer::History(typed) = desk(data.path()).answer(Question::History) else { panic!() };
        assert!(typed.is_empty() || typed == ["a", "b"], "{typed:?}");
    }

    #[test]
    fn a_blob_is_found_by_its_hash_only() {
        let data = tempfile::tempdir().unwrap();
        let session = data.path().join("s");
        std::fs::create_dir_all(session.join("blobs")).unwrap();
        let name = Blobs::of_session(&session).put(b"figure").unwrap();
        let desk = Desk { session: Some(session), ..desk(data.path()) };
        assert_eq!(desk.answer(Question::Blob(name)), Answer::Blob(b"figure".as_slice().into()));
        for bad in ["../history", "", &"0".repeat(64)] {
            assert!(matches!(desk.answer(Question::Blob(bad.into())), Answer::Failed(_)), "{bad}");
        }
    }
}
