//! `sandscript export`: a session as a file where the person wants it.
//!
//! The file is whole or not there, and nothing is written over unasked: not at all under a name of our choice, and only
//! over a regular file under a name that was given. What belongs to the session itself is never written over.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cli::{Common, Export};
use crate::core::clean::Clean;
use crate::core::event::Failure;
use crate::error::{Error, Kind, Result};
use crate::log::export::{self, Exported, Format, Options};
use crate::log::{list, log_file};
use crate::places::{Places, working_folder};
use crate::printer::{print_bytes_now, print_now};

/// Longest part of a session's name in the name of a file, characters: a log from elsewhere may be called anything.
const MAX_NAME: usize = 64;

/// Mode of what is written, less what the umask takes.
const MODE: u32 = 0o644;

/// Where an export goes.
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// Into this folder, under a name made of the session's, never over a file.
    Folder(&'a Path),
    /// To this file, over a regular one that is there.
    File(&'a Path),
}

/// What was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// How many figures are beside it.
    pub figures: usize,
    /// What a person should know. From outside: to be cleaned before it is shown.
    pub warnings: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Export, common: &Common, places: &Places) -> Result<()> {
    let failed = |failure| Error { kind: Kind::Usage, failure };
    let session = list::find_any(&places.data, &args.session).map_err(failed)?;
    if args.output.as_deref() == Some(Path::new("-")) {
        let options = Options { failed: args.failed, figures: None };
        let exported = export::export(&session, args.format, &options).map_err(failed)?;
        warn(&exported.warnings);
        return print_bytes_now(&exported.bytes).map(drop);
    }
    let folder = working_folder(common.folder.as_deref())?;
    let place = args.output.as_deref().map_or(Place::Folder(&folder), Place::File);
    let saved = save(&session, args.format, args.failed, place).map_err(failed)?;
    warn(&saved.warnings);
    print_now(&format!("{}\n", saved.told())).map(drop)
}

fn warn(warnings: &[String]) {
    for warning in warnings {
        // There is nobody to tell where standard error is closed.
        let _ = writeln!(io::stderr(), "warning: {}", Clean::line(warning));
    }
}

impl Saved {
    /// Says in a line what was written.
    pub fn told(&self) -> Clean {
        let figures = match self.figures {
            0 => String::new(),
            1 => " and 1 figure beside it".into(),
            n => format!(" and {n} figures beside it"),
        };
        Clean::line(&format!("wrote {}{figures}", self.path.display()))
    }
}

/// Writes the session in a folder, or a log by its own path, as a file.
pub fn save(session: &Path, format: Format, failed: bool, place: Place) -> std::result::Result<Saved, Failure> {
    let (path, over) = match place {
        Place::Folder(folder) => (folder.join(default_name(session, format)), false),
        Place::File(path) => (path.to_owned(), true),
    };
    check(&path, over, session)?;
    let figures = path.file_stem().map(|stem| format!("{}-figures", stem.to_string_lossy()));
    let Exported { bytes, extra_files, warnings } = export::export(session, format, &Options { failed, figures })?;
    let folder = folder_of(&path);
    let extra: Vec<(PathBuf, Vec<u8>)> =
        extra_files.into_iter().map(|(name, bytes)| (folder.join(name), bytes)).collect();
    for (path, _) in &extra {
        check(path, over, session)?;
    }
    // The page comes last, so that it never names figures that are not there.
    for (path, bytes) in &extra {
        make_folder(folder_of(path)).and_then(|()| write(path, bytes, over)).map_err(|e| cannot_write(path, &e))?;
    }
    write(&path, &bytes, over).map_err(|e| cannot_write(&path, &e))?;
    Ok(Saved { path, figures: extra.len(), warnings })
}

fn default_name(session: &Path, format: Format) -> String {
    let name = if session.is_dir() { session.file_name() } else { session.file_stem() };
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = name.unwrap_or_default().to_string_lossy().chars().filter(plain).take(MAX_NAME).collect();
    format!("sandscript-{}.{}", if name.is_empty() { "session" } else { &name }, format.name())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let hint = "choose another place with -o FILE, or -o - for standard output";
    Failure::new(format!("cannot write {}", path.display()), error.to_string(), hint)
}

/// Whether a file may be written there.
fn check(path: &Path, over: bool, session: &Path) -> std::result::Result<(), Failure> {
    let refused = |why: &str, hint: &str| Err(Failure::new(format!("will not write {}", path.display()), why, hint));
    let home = if session.is_dir() { session.to_owned() } else { log_file(session) };
    let same = |a: &Path| a.canonicalize().ok().zip(home.canonicalize().ok());
    if same(path).or_else(|| same(folder_of(path))).is_some_and(|(path, home)| path.starts_with(home)) {
        return refused("it belongs to the session", "choose another place with -o FILE");
    }
    match path.symlink_metadata() {
        Ok(_) if !over => refused("it is there already", "move it away, or write over it with -o FILE"),
        Ok(data) if !data.is_file() => refused("it is no regular file", "choose a file, or -o - for standard output"),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn make_folder(folder: &Path) -> io::Result<()> {
    match std::fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && folder.symlink_metadata()?.is_dir() => Ok(()),
        result => result,
    }
}

fn write(path: &Path, bytes: &[u8], over: bool) -> io::Result<()> {
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(MODE)).tempfile_in(folder_of(path))?;
    file.write_all(bytes)?;
    if over {
        file.persist(path)?
    } else {
        file.persist_noclobber(path)?
    };
    Ok(())
}
