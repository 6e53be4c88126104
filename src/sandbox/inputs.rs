//! Input files: what the code may read.
//!
//! The list is made once, at the start: the regular files of the folder the person started in, and what they named with
//! `--data`. It errs on the side of leaving out: nothing hidden, nothing behind a link that leaves the folder, nothing at all
//! of a home folder, since what is on the list is read by code a model wrote. What is left out is said in a note.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::{AccessFlags, access};

use crate::core::clean::{Clean, is_hidden as is_hidden_char};
use crate::core::event::Failure;

/// Most files on the list. More is not a question about some tables any more, and every executor has to provide each.
const MAX_FILES: usize = 1_000;

/// Most folder entries that are looked at.
const MAX_ENTRIES: usize = 20_000;

/// Longest walk, for folders behind a slow network.
const MAX_WALK: Duration = Duration::from_secs(2);

/// Folders of tools that hold no data of the person.
const TOOL_FOLDERS: [&str; 2] = ["node_modules", "__pycache__"];

/// Files that mark their folder as made by a tool: a cache (as `target`), a virtual environment.
const TOOL_MARKS: [&str; 2] = ["CACHEDIR.TAG", "pyvenv.cfg"];

/// Longest path in a message, in characters.
const MAX_SHOWN: usize = 200;

/// The files the code may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Each file: what was named first, then the folder's, those of a folder before those of its sub-folders.
    pub files: Vec<Input>,
    /// What was left out and why, for the person.
    pub notes: Vec<String>,
}

/// One input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Path as the code sees it, relative, `/` between parts.
    pub name: String,
    /// Where it is on the host.
    pub path: PathBuf,
    /// Size in bytes when it was listed.
    pub bytes: u64,
    /// A CSV of it for the profile, where the program cannot read the file itself.
    pub readable: Option<Readable>,
}

/// A table as CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// Where the CSV is.
    pub path: PathBuf,
    /// Sheet of the workbook; empty where there are none.
    pub sheet: String,
    /// Names of its other sheets.
    pub others: Vec<String>,
    /// There are more rows than were converted.
    pub cut: bool,
}

impl Input {
    /// A file that was just listed.
    pub fn new(name: impl Into<String>, path: PathBuf, bytes: u64) -> Self {
        Self { name: name.into(), path, bytes, readable: None }
    }
}

impl Inputs {
    /// Size of all files together, bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Lists the inputs. `folder` is where the person started, `data` what they named with `--data`, `home` their home folder.
pub fn list(folder: &Path, data: &[PathBuf], home: Option<&Path>) -> Result<Inputs, Failure> {
    let folder = readable_folder(folder)?;
    let mut list = List::new();
    for path in data {
        list.add_named(&folder, path)?;
    }
    if is_home_or_above(&folder, home) {
        list.inputs.notes.push("files of a home folder are not given to the code: name some with --data".into());
    } else {
        list.walk(&folder, Path::new(""), &folder);
    }
    list.finish()
}

fn readable_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let failed = |e: std::io::Error| {
        let hint = "start in a folder you can read, or name one with -C";
        Failure::new(format!("the folder {} cannot be read", shown_path(folder)), e.to_string(), hint)
    };
    let real = folder.canonicalize().map_err(failed)?;
    std::fs::read_dir(&real).map_err(failed)?;
    Ok(real)
}

fn is_home_or_above(folder: &Path, home: Option<&Path>) -> bool {
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.into()));
    folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
}

/// Why entries were left out, with how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Skipped {
    LinkOut,
    Special,
    BadName,
    Unreadable,
    Tool,
}

impl Skipped {
    fn note(self, count: usize) -> String {
        let (one, many) = match self {
            Skipped::LinkOut => {
                ("link that leaves the folder or leads to a folder", "links that leave the folder or lead to a folder")
            }
            Skipped::Special => ("socket, pipe or device", "sockets, pipes or devices"),
            Skipped::BadName => ("name that cannot be shown", "names that cannot be shown"),
            Skipped::Unreadable => ("file or folder that cannot be read", "files or folders that cannot be read"),
            Skipped::Tool => {
                ("folder of a tool (cache, virtual environment)", "folders of tools (caches, virtual environments)")
            }
        };
        format!("left out of the inputs: {count} {}", if count == 1 { one } else { many })
    }
}

/// The list while it is made.
struct List {
    inputs: Inputs,
    skipped: BTreeMap<Skipped, usize>,
    entries: usize,
    until: Instant,
    /// The walk was cut short.
    cut: bool,
    /// Files beyond [`MAX_FILES`].
    beyond: usize,
}

impl List {
    fn new() -> Self {
        Self {
            inputs: Inputs::default(),
            skipped: BTreeMap::new(),
            entries: 0,
            until: Instant::now() + MAX_WALK,
            cut: false,
            beyond: 0,
        }
    }

    fn skip(&mut self, why: Skipped) {
        *self.skipped.entry(why).or_default() += 1;
    }

    fn add(&mut self, name: String, path: PathBuf, bytes: u64) {
        if access(&path, AccessFlags::R_OK).is_err() {
            self.skip(Skipped::Unreadable);
        } else if self.inputs.files.len() >= MAX_FILES {
            self.beyond += 1;
        } else {
            self.inputs.files.push(Input::new(name, path, bytes));
        }
    }

    /// A file or folder that was named. Inside the folder it keeps its place, elsewhere it appears under its last part.
    fn add_named(&mut self, folder: &Path, path: &Path) -> Result<(), Failure> {
        let failed = |why: &str, hint: &str| {
            Failure::new(format!("--data {} cannot be used", shown_path(path)), why, hint.to_owned())
        };
        let absolute = folder.join(path);
        let real = absolute.canonicalize().map_err(|e| failed(&e.to_string(), "check the path"))?;
        let meta = real.metadata().map_err(|e| failed(&e.to_string(), "check the path"))?;
        let name = match real.strip_prefix(folder) {
            Ok(inside) => inside.to_path_buf(),
            // The name the person used, which may be a link's.
            Err(_) => absolute.file_name().or(real.file_name()).map(PathBuf::from).unwrap_or_default(),
        };
        let plain = plain_name(&name);
        if plain.is_none() && name != Path::new("") {
            return Err(failed("its name is hidden or cannot be shown", "copy it under a plain name"));
        }
        if meta.is_dir() {
            std::fs::read_dir(&real).map_err(|e| failed(&e.to_string(), "check its permissions"))?;
            self.walk(&real, &name, &real);
        } else if meta.is_file() {
            access(&real, AccessFlags::R_OK).map_err(|e| failed(e.desc(), "check its permissions"))?;
            self.add(plain.unwrap_or_default(), real, meta.len());
        } else {
            return Err(failed("it is neither a file nor a folder", "name a regular file or a folder"));
        }
        Ok(())
    }

    /// Lists a folder as `name`, breadth first, so that a cut leaves the top. Links may not leave `root`.
    fn walk(&mut self, top: &Path, name: &Path, root: &Path) {
        let mut folders = VecDeque::from([(top.to_path_buf(), name.to_path_buf())]);
        while let Some((folder, name)) = folders.pop_front() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                self.skip(Skipped::Unreadable);
                continue;
            };
            let left = MAX_ENTRIES.saturating_sub(self.entries);
            let mut names: Vec<_> = entries.take(left + 1).flatten().map(|entry| entry.file_name()).collect();
            if names.len() > left || Instant::now() > self.until {
                self.cut = true;
                return;
            }
            self.entries += names.len();
            names.sort();
            // What was named is taken as it is; what is found must not be a tool's.
            if folder != top && is_tool_folder(&folder, &names) {
                self.skip(Skipped::Tool);
                continue;
            }
            for entry in names.iter().filter(|name| !is_hidden(name)) {
                if let Some(sub) = self.visit(&folder.join(entry), &name.join(entry), root) {
                    folders.push_back(sub);
                }
            }
        }
    }

    /// Takes or leaves one entry; a folder is given back to be walked.
    fn visit(&mut self, path: &Path, name: &Path, root: &Path) -> Option<(PathBuf, PathBuf)> {
        let Some(plain) = plain_name(name) else {
            self.skip(Skipped::BadName);
            return None;
        };
        let Ok(meta) = path.symlink_metadata() else {
            self.skip(Skipped::Unreadable);
            return None;
        };
        if meta.is_dir() {
            return Some((path.into(), name.into()));
        }
        if meta.is_file() {
            self.add(plain, path.into(), meta.len());
        } else if meta.is_symlink() {
            match link_target(path, root) {
                Some((target, meta)) => self.add(plain, target, meta.len()),
                None => self.skip(Skipped::LinkOut),
            }
        } else {
            self.skip(Skipped::Special);
        }
        None
    }

    fn finish(mut self) -> Result<Inputs, Failure> {
        let mut names: BTreeMap<&str, &Path> = BTreeMap::new();
        let mut twice = Vec::new();
        for (at, file) in self.inputs.files.iter().enumerate() {
            match names.insert(&file.name, &file.path) {
                Some(other) if other == file.path => twice.push(at),
                Some(other) => return Err(clash(&file.name, other, &file.path)),
                None => {}
            }
        }
        for (name, path) in &names {
            let mut folders = Path::new(name).ancestors().skip(1).filter_map(Path::to_str);
            if let Some((folder, other)) = folders.find_map(|folder| names.get_key_value(folder)) {
                return Err(clash(folder, other, path));
            }
        }
        for at in twice.into_iter().rev() {
            self.inputs.files.remove(at);
        }
        let notes = &mut self.inputs.notes;
        notes.extend(self.skipped.iter().map(|(why, count)| why.note(*count)));
        if self.cut {
            notes.push("the folder is too large to be listed whole: name the files with --data".into());
        }
        if self.beyond > 0 {
            let (beyond, more) = (self.beyond, if self.cut { "at least " } else { "" });
            notes.push(format!(
                "only the first {MAX_FILES} files are given to the code, {more}{beyond} are not: use --data"
            ));
        }
        Ok(self.inputs)
    }
}

fn clash(name: &str, one: &Path, other: &Path) -> Failure {
    Failure::new(
        format!("two inputs would be called {name}"),
        format!("{} and {}", shown_path(one), shown_path(other)),
        "rename one of them, or start in a folder that holds both",
    )
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn is_tool_folder(folder: &Path, names: &[std::ffi::OsString]) -> bool {
    folder.file_name().is_some_and(|name| TOOL_FOLDERS.iter().any(|tool| name == *tool))
        || names.iter().any(|name| TOOL_MARKS.iter().any(|mark| name == mark))
}

/// The regular file a link leads to, if it is in the folder and not hidden. Links to folders are not followed: what they
/// lead to is listed where it is.
fn link_target(link: &Path, root: &Path) -> Option<(PathBuf, Metadata)> {
    let target = link.canonicalize().ok()?;
    plain_name(target.strip_prefix(root).ok()?)?;
    let meta = target.symlink_metadata().ok()?;
    meta.is_file().then_some((target, meta))
}

/// A relative path as text, if it has no hidden part and nothing in it that cannot be shown.
fn plain_name(path: &Path) -> Option<String> {
    let parts = path.components().map(|part| match part {
        Component::Normal(part) if !is_hidden(part) => part.to_str().filter(|part| !part.contains(is_hidden_char)),
        _ => None,
    });
    let parts: Vec<&str> = parts.collect::<Option<_>>()?;
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Text from outside on one line, cut at `max_chars`.
pub(super) fn shown(text: &str, max_chars: usize) -> String {
    // A cell may have megabytes; control sequences, which go, are short.
    let start: String = text.chars().take(max_chars * 4 + 256).collect();
    let clean = Clean::line(&start).into_string();
    match clean.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy(), MAX_SHOWN)
}

#[cfg(test)]
mod tests;
