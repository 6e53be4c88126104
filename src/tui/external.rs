//! The person's own editor. Owns the hand-over of a text to it and back; nothing the person wrote is lost whatever the
//! editor does. The terminal must have been given back before, and is taken again after.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::process::{Child, Command};

use crate::core::event::Failure;

/// Longest text taken back, bytes. Code and questions are a thousandth of it; more is a mistake, and drawn slowly.
const MAX_BYTES: u64 = 1024 * 1024;

/// The editor where none is chosen; POSIX has it everywhere.
const FALLBACK: &str = "vi";

/// The command of the editor, from the values of `VISUAL` and `EDITOR`.
pub fn command(visual: Option<String>, editor: Option<String>) -> String {
    let chosen = [visual, editor].into_iter().flatten().find(|value| !value.trim().is_empty());
    chosen.unwrap_or_else(|| FALLBACK.into())
}

/// An editor at work.
#[derive(Debug)]
pub struct External {
    child: Child,
    /// A folder for this text alone. It is removed only when nothing in it is of worth any more, so that it outlives
    /// whatever ends the program meanwhile.
    folder: PathBuf,
    file: PathBuf,
    before: String,
}

/// Starts the editor on `text`. `command` is split as a shell does, but not run by one.
pub fn start(command: &str, text: &str, suffix: &str) -> Result<External, Failure> {
    let hint = "set EDITOR to the command of an editor, for example: export EDITOR=nano";
    let refused = |why: String| Failure::new(format!("the editor {command:?} cannot be started"), why, hint);
    let words = shlex::split(command).ok_or_else(|| refused("a quotation mark is not closed".into()))?;
    let (program, arguments) = words.split_first().ok_or_else(|| refused("the command is empty".into()))?;
    let (folder, file) = write(text, suffix).map_err(|e| {
        Failure::new("the text cannot be written for the editor", e.to_string(), "make room in the temporary folder")
    })?;
    match Command::new(program).args(arguments).arg(&file).spawn() {
        Ok(child) => Ok(External { child, folder, file, before: text.into() }),
        Err(e) => {
            remove(&folder);
            Err(refused(e.to_string()))
        }
    }
}

impl External {
    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for its end and takes the text back.
    pub async fn wait(mut self) -> Result<String, Failure> {
        let status = self.child.wait().await;
        let after = read(&self.file);
        let failed = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(how_it_ended(status)),
            Err(e) => Some(e.to_string()),
        };
        match (failed, after) {
            (None, Ok(after)) => {
                remove(&self.folder);
                Ok(as_before(after, &self.before))
            }
            (None, Err(why)) => Err(self.lost("what the editor wrote cannot be taken", why)),
            (Some(why), Ok(after)) if after == self.before => {
                remove(&self.folder);
                Err(Failure::new("the editor failed", why, "the text is as it was"))
            }
            (Some(why), Ok(_) | Err(_)) => Err(self.lost("the editor failed", why)),
        }
    }

    /// The failure that says where what was written is, if it is anywhere.
    fn lost(&self, what: &str, why: String) -> Failure {
        if std::fs::metadata(&self.file).is_ok_and(|file| file.len() > 0) {
            return Failure::new(what, why, format!("what was written is kept in {}", self.file.display()));
        }
        remove(&self.folder);
        Failure::new(what, why, "the text is as it was")
    }
}

/// Writes the text where only this user can read it.
fn write(text: &str, suffix: &str) -> io::Result<(PathBuf, PathBuf)> {
    let only_us = std::fs::Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new().prefix("sandscript-").permissions(only_us).tempdir()?;
    let file = folder.path().join(format!("text{suffix}"));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?.write_all(text.as_bytes())?;
    Ok((folder.keep(), file))
}

/// The text that is there now, or why it cannot be taken.
fn read(file: &Path) -> Result<String, String> {
    // A pipe in its place would be waited for.
    if !std::fs::metadata(file).map_err(|e| e.to_string())?.is_file() {
        return Err("it is no regular file any more".into());
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(|e| e.to_string())?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err("it is larger than 1 MiB".into());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".into())
}

/// Without the last line end that editors add.
fn as_before(mut after: String, before: &str) -> String {
    if !before.ends_with('\n') && after.ends_with('\n') {
        after.pop();
    }
    after
}

fn how_it_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(127), _) => "it ended with exit code 127, as for a command that is not there".into(),
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it did not end".into(),
    }
}

fn remove(folder: &Path) {
    // What cannot be removed is left to the system, which clears its temporary folder.
    let _ = std::fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn edit(script: &str, text: &str) -> Result<String, Failure> {
        start(&format!("sh -c {} editor", shlex::try_quote(script).unwrap()), text, ".py")?.wait().await
    }

    fn kept(failure: &Failure) -> PathBuf {
        PathBuf::from(
            failure.hint.strip_prefix("what was written is kept in ").unwrap_or_else(|| panic!("{failure:?}")),
        )
    }

    #[test]
    fn visual_comes_before_editor_and_empty_values_do_not_count() {
        let some = |s: &str| Some(s.to_string());
        assert_eq!(command(some("code --wait"), some("nano")), "code --wait");
        assert_eq!(command(some(" "), some("nano")), "nano");
        assert_eq!(command(None, some("")), "vi");
    }

    #[tokio::test]
    async fn the_edited_text_comes_back_and_the_file_goes() {
        let text = edit("echo 'print(2)' > \"$1\"; echo \"$1\" >> \"$1\"", "print(1)").await.unwrap();
        let (code, path) = text.split_once('\n').unwrap();
        assert_eq!(code, "print(2)");
        assert!(path.ends_with(".py") && !Path::new(path).parent().unwrap().exists(), "{path}");
    }

    #[tokio::test]
    async fn text_that_is_not_touched_is_the_same_to_the_byte() {
        for text in ["a", "a\n", "", "a\r\nb", "é\u{202e}\0"] {
            assert_eq!(edit("true", text).await.unwrap(), text);
        }
    }

    #[tokio::test]
    async fn only_the_line_end_an_editor_adds_is_dropped() {
        assert_eq!(edit("echo >> \"$1\"", "a").await.unwrap(), "a");
        assert_eq!(edit("echo >> \"$1\"", "a\n").await.unwrap(), "a\n\n");
    }

    #[tokio::test]
    async fn others_cannot_read_the_file() {
        let modes =
            edit("stat -c %a \"$1\" \"$(dirname \"$1\")\" > \"$1.tmp\"; mv \"$1.tmp\" \"$1\"", "x").await.unwrap();
        assert_eq!(modes, "600\n700");
    }

    #[tokio::test]
    async fn an_editor_that_fails_loses_nothing() {
        let failure = edit("echo more > \"$1\"; exit 3", "before").await.unwrap_err();
        assert_eq!(failure.why, "it ended with exit code 3");
        let file = kept(&failure);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "more\n");
        remove(file.parent().unwrap());

        let failure = edit("kill -9 $$", "before").await.unwrap_err();
        assert_eq!(
            (failure.why.as_str(), failure.hint.as_str()),
            ("it was killed by signal 9", "the text is as it was")
        );
    }

    #[tokio::test]
    async fn what_cannot_be_taken_is_kept() {
        for (script, why) in [
            ("printf 'a\\377' > \"$1\"", "it is not UTF-8 text"),
            ("head -c 1100000 /dev/zero > \"$1\"", "it is larger than 1 MiB"),
        ] {
            let failure = edit(script, "before").await.unwrap_err();
            assert_eq!(failure.why, why);
            let file = kept(&failure);
            assert!(file.exists());
            remove(file.parent().unwrap());
        }
    }

    #[tokio::test]
    async fn a_file_that_is_gone_or_a_pipe_is_a_failure_and_not_waited_for() {
        for script in ["rm \"$1\"", "rm \"$1\"; mkfifo \"$1\""] {
            let failure = edit(script, "before").await.unwrap_err();
            assert_eq!(failure.hint, "the text is as it was", "{script}");
        }
    }

    #[test]
    fn an_editor_that_is_not_there_is_named() {
        for command in ["/no/such/editor --wait", "", "'open"] {
            let failure = start(command, "x", ".py").unwrap_err();
            assert!(failure.what.contains(&format!("{command:?}")) && failure.hint.contains("EDITOR"), "{failure:?}");
        }
    }
}
