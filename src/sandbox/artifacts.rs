//! Files that runs make: told from what was there before, copied out of the workspace, saved into the person's folder.
//!
//! The workspace belongs to code nobody trusts. Everything in it is opened part by part without following links and
//! without waiting, looked at again once it is open, and copied by its size, into files that did not exist before, under
//! names made of plain characters. Nothing here may run while the worker does; where it does all the same (a stray process),
//! it can spoil the copy and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use super::inputs::shown;
use crate::core::clean::is_hidden;
use crate::core::event::Artifact;

/// Most files one run may leave; more is not a result anybody looks at.
const MAX_FILES: usize = 50;

/// Size of the files of one run together, bytes.
const MAX_BYTES: u64 = 100 * 1024 * 1024;

/// Deepest folder that is looked into; each level holds one descriptor open.
const MAX_DEPTH: usize = 8;

/// Most entries of a workspace that are looked at, so that a million empty files cost nothing.
const MAX_ENTRIES: usize = 20_000;

/// Most notes on files that were not kept; the rest is counted.
const MAX_NOTES: usize = 10;

/// Longest name in bytes, below the 255 of file systems with room for a number.
const MAX_NAME: usize = 150;

/// Longest ending of a name that is kept when it is cut, in bytes.
const MAX_ENDING: usize = 10;

/// Highest number that is tried for a name that is taken.
const MAX_NUMBER: u32 = 10_000;

/// Mode of everything that is written: readable, not executable.
const MODE: u32 = 0o644;

/// What was in a workspace before a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<PathBuf, Stamp>);

/// What changes when a file does. The change time cannot be set back by the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    changed: (i64, i64),
    bytes: i64,
    inode: u64,
}

impl Stamp {
    fn of(stat: &FileStat) -> Self {
        Self {
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            bytes: stat.st_size,
            inode: stat.st_ino,
        }
    }
}

/// What was collected after a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Files that are in the folder they are kept in now.
    pub artifacts: Vec<Artifact>,
    /// What was not kept and why, and which inputs the code changed.
    pub skipped: Vec<String>,
}

/// What was saved into a folder of the person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Where each file is now.
    pub saved: Vec<PathBuf>,
    /// What could not be saved and why.
    pub failed: Vec<String>,
}

impl Snapshot {
    /// Looks at a workspace.
    pub fn take(workspace: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        walk(workspace, &mut |found| {
            if let Found::File { path, stat, .. } = found {
                files.insert(path.to_path_buf(), Stamp::of(stat));
            }
        })?;
        Ok(Self(files))
    }
}

/// Copies what a run made into `keep`. `inputs` are the names of the input files; a copy of one that the code changed is no
/// artifact.
pub fn collect(workspace: &Path, before: &Snapshot, inputs: &BTreeSet<String>, keep: &Path) -> io::Result<Collected> {
    std::fs::create_dir_all(keep)?;
    let mut collector = Collector { keep, out: Collected::default(), left: MAX_BYTES, unsaid: 0 };
    let mut seen_inputs = BTreeSet::new();
    walk(workspace, &mut |found| match found {
        Found::File { path, stat, parent, name } => {
            let changed = before.0.get(path) != Some(&Stamp::of(stat));
            match path.to_str().filter(|path| inputs.contains(*path)) {
                Some(input) => {
                    seen_inputs.insert(input.to_owned());
                    if changed {
                        collector.note(path, "was changed in the sandbox; your file is unchanged");
                    }
                }
                None if changed => collector.take(path, parent, name),
                None => {}
            }
        }
        Found::Other { path, what } => match path.to_str().filter(|path| inputs.contains(*path)) {
            // Executors may put links to the inputs into the workspace.
            Some(input) => drop(seen_inputs.insert(input.to_owned())),
            None => collector.note(path, &format!("was not kept: it is {what}")),
        },
        Found::End => collector.say(format!("only the first {MAX_ENTRIES} files of the workspace were looked at")),
    })?;
    for input in inputs.difference(&seen_inputs).filter(|input| before.0.contains_key(Path::new(input))) {
        collector.note(Path::new(input), "was removed in the sandbox; your file is unchanged");
    }
    if collector.unsaid > 0 {
        collector.out.skipped.push(format!("and {} more notes on files", collector.unsaid));
    }
    Ok(collector.out)
}

/// Saves kept files into a folder of the person, never over a file that is there.
pub fn save(artifacts: &[Artifact], keep: &Path, out_dir: &Path) -> Saved {
    let mut result = Saved::default();
    if let Err(e) = std::fs::create_dir_all(out_dir) {
        result.failed.push(format!("{} cannot be made: {e}", shown(&out_dir.to_string_lossy(), MAX_NAME)));
        return result;
    }
    for artifact in artifacts {
        // The name may come from a log.
        let name = plain_name(OsStr::new(&artifact.name));
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let copied = OpenOptions::new().read(true).custom_flags(flags).open(keep.join(&name)).and_then(|file| {
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            copy(&file, meta.len(), out_dir, &name)
        });
        match copied {
            Ok((name, _)) => result.saved.push(out_dir.join(name)),
            Err(e) => result.failed.push(format!("{name} could not be saved: {e}")),
        }
    }
    result
}

/// Takes files while a workspace is walked.
struct Collector<'a> {
    keep: &'a Path,
    out: Collected,
    /// Bytes that may still be kept.
    left: u64,
    /// Notes beyond [`MAX_NOTES`].
    unsaid: usize,
}

impl Collector<'_> {
    fn note(&mut self, path: &Path, what: &str) {
        self.say(format!("{} {what}", shown(&path.to_string_lossy(), MAX_NAME)));
    }

    fn say(&mut self, note: String) {
        if self.out.skipped.len() < MAX_NOTES {
            self.out.skipped.push(note);
        } else {
            self.unsaid += 1;
        }
    }

    fn take(&mut self, path: &Path, parent: &Dir, name: &CStr) {
        if self.out.artifacts.len() >= MAX_FILES {
            return self.note(path, &format!("was not kept: a run may leave {MAX_FILES} files"));
        }
        match self.try_take(path, parent, name) {
            Ok(artifact) => self.out.artifacts.push(artifact),
            Err(why) => self.note(path, &format!("was not kept: {why}")),
        }
    }

    fn try_take(&mut self, path: &Path, parent: &Dir, name: &CStr) -> Result<Artifact, String> {
        // Neither a link that took the file's place nor a pipe without a writer can be opened by this or wait.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = openat(parent, name, flags, Mode::empty()).map_err(|e| e.desc().to_owned())?;
        let stat = fstat(&file).map_err(|e| e.desc().to_owned())?;
        if kind(&stat) != SFlag::S_IFREG {
            return Err("it is no regular file".into());
        }
        // Its other name may be a file of the host.
        if stat.st_nlink != 1 {
            return Err("it has more than one name (hard link)".into());
        }
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        if bytes > self.left {
            let limit = MAX_BYTES / (1024 * 1024);
            return Err(format!("the files of a run may have {limit} MiB together, and this one has {bytes} bytes"));
        }
        let flat = path.as_os_str().as_bytes().iter().map(|byte| if *byte == b'/' { b'-' } else { *byte });
        let flat = plain_name(OsStr::from_bytes(&flat.collect::<Vec<u8>>()));
        let (name, bytes) = copy(&File::from(file), bytes, self.keep, &flat).map_err(|e| e.to_string())?;
        self.left -= bytes;
        Ok(Artifact { name, bytes })
    }
}

/// Copies at most `bytes` of a file into a new one in `folder`, as `name` or with a number. A copy that fails leaves nothing.
fn copy(from: &File, bytes: u64, folder: &Path, name: &str) -> io::Result<(String, u64)> {
    let (name, mut to) = create_new(folder, name)?;
    let path = folder.join(&name);
    let copied =
        to.set_permissions(Permissions::from_mode(MODE)).and_then(|()| io::copy(&mut from.take(bytes), &mut to));
    match copied {
        Ok(bytes) => Ok((name, bytes)),
        Err(e) => {
            // The copy is ours and not whole; if it cannot be removed the error still says that it is not whole.
            let _ = std::fs::remove_file(path);
            Err(e)
        }
    }
}

/// Makes a file that was not there: `x.png`, else `x-2.png` and so on. Never follows a link.
fn create_new(folder: &Path, name: &str) -> io::Result<(String, File)> {
    let (stem, ending) = split_ending(name);
    for number in 1..=MAX_NUMBER {
        let name = if number == 1 { name.to_owned() } else { format!("{stem}-{number}{ending}") };
        match OpenOptions::new().write(true).create_new(true).mode(MODE).open(folder.join(&name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(file) => return Ok((name, file)),
        }
    }
    Err(io::Error::other("too many files have this name"))
}

/// A name of plain characters: no folder, no leading dot or dash, nothing that cannot be seen, not too long.
fn plain_name(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    let plain: String =
        text.chars().map(|c| if matches!(c, '/' | '\\' | ':') { '-' } else { c }).filter(|c| !is_hidden(*c)).collect();
    let plain = plain.trim_matches(' ').trim_start_matches(['.', '-', ' ', '~']);
    if plain.is_empty() {
        return "file".into();
    }
    let (stem, ending) = split_ending(plain);
    let mut end = stem.len().min(MAX_NAME - ending.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ending}", &stem[..end])
}

/// Cuts a name before its ending, if it has a short one.
fn split_ending(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= MAX_ENDING => name.split_at(at),
        _ => (name, ""),
    }
}

/// What a walk comes upon.
enum Found<'a> {
    File {
        path: &'a Path,
        stat: &'a FileStat,
        parent: &'a Dir,
        name: &'a CStr,
    },
    Other {
        path: &'a Path,
        what: &'static str,
    },
    /// There is more, and it is not looked at.
    End,
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// Goes through a workspace in the order of names, leaving out what is hidden, and caches of bytecode.
fn walk(workspace: &Path, visit: &mut dyn FnMut(Found)) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut top = Dir::open(workspace, flags, Mode::empty())?;
    let mut left = MAX_ENTRIES;
    walk_folder(&mut top, Path::new(""), 1, &mut left, visit);
    if left == 0 {
        visit(Found::End);
    }
    Ok(())
}

fn walk_folder(folder: &mut Dir, path: &Path, depth: usize, left: &mut usize, visit: &mut dyn FnMut(Found)) {
    let mut names = Vec::new();
    for entry in folder.iter().flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if *left == 0 {
            break;
        }
        *left -= 1;
        if !name.to_bytes().starts_with(b".") && name.to_bytes() != b"__pycache__" {
            names.push(name.to_owned());
        }
    }
    names.sort();
    for name in &names {
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        let Ok(stat) = fstatat(&*folder, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
        match kind(&stat) {
            SFlag::S_IFREG => visit(Found::File { path: &path, stat: &stat, parent: folder, name }),
            SFlag::S_IFDIR if depth >= MAX_DEPTH => visit(Found::Other { path: &path, what: "too deep" }),
            SFlag::S_IFDIR => match open_folder(&*folder, name) {
                Ok(mut sub) => walk_folder(&mut sub, &path, depth + 1, left, visit),
                Err(_) => visit(Found::Other { path: &path, what: "a folder that cannot be read" }),
            },
            SFlag::S_IFLNK => visit(Found::Other { path: &path, what: "a link" }),
            SFlag::S_IFIFO => visit(Found::Other { path: &path, what: "a pipe" }),
            SFlag::S_IFSOCK => visit(Found::Other { path: &path, what: "a socket" }),
            _ => visit(Found::Other { path: &path, what: "a device" }),
        }
    }
}

fn open_folder(parent: impl AsFd, name: &CStr) -> nix::Result<Dir> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd: OwnedFd = openat(parent, name, flags, Mode::empty())?;
    Dir::from_fd(fd)
}

#[cfg(test)]
mod tests;
