//! Virtual environments with the configured packages, one for each interpreter and list of packages, in the cache folder.
//!
//! Preparing is two steps, so that the first question need not wait. [`plan`] is instant: it makes the skeleton of the
//! environment (a link, a `pyvenv.cfg` and a `.pth` file, which is all a virtual environment is), whose Python can be
//! started at once. [`ensure`] fetches what is missing into it, under a lock, wheels only, and writes the marker that says
//! the environment is whole; code that imports nothing but the standard library ([`needs_packages`]) does not wait for it.
//!
//! What cannot be had does not stop a session: it is reported as missing. What is there afterwards is looked up, not
//! concluded from what pip said. Nothing here starts code that came with a package: that happens in a sandbox.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use super::pip::Progress;
use super::python::{Env, Interpreter, hex, write_atomically};
use super::{pip, regular};
use crate::core::event::Failure;

/// Pause between two looks at a lock that another process holds.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// How long a package that the index did not have is not asked for again. New wheels for a new Python take days.
const RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Longest marker that is read, in bytes.
const MAX_MARKER: u64 = 1024 * 1024;

/// Longest requirement in the configuration, in bytes.
const MAX_REQUIREMENT: usize = 200;

/// The file that makes the interpreter's own packages visible. They come after the environment's, which win.
const PTH: &str = "sandscript.pth";

/// The file that says an environment is whole.
const MARKER: &str = "sandscript-ready.json";

/// A package by name, with extras and versions where given. Never a URL, a path or an option.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    /// As configured.
    configured: String,
    /// As pip takes it, without spaces.
    text: String,
    /// Normalised name.
    name: String,
}

impl Requirement {
    /// Reads a name as in PEP 508, with optional extras and versions: `pandas`, `pandas[excel]`, `numpy>=1.26,<3`.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let refused = |why: &str| {
            let shown = super::inputs::shown(text, MAX_REQUIREMENT);
            let hint = "write a plain name with optional versions, such as numpy>=1.26";
            Failure::new(format!("{shown:?} is no package name"), why, hint)
        };
        let configured = text.to_owned();
        let text: String = text.trim_matches(' ').into();
        if text.len() > MAX_REQUIREMENT {
            return Err(refused("it is too long"));
        }
        let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !is_name(name) {
            return Err(refused("a name begins and ends with a letter or digit"));
        }
        let versions = match rest.strip_prefix('[') {
            None => rest,
            Some(rest) => match rest.split_once(']') {
                Some((extras, versions)) if extras.split(',').all(|extra| is_name(extra.trim_matches(' '))) => versions,
                _ => return Err(refused("the extras in brackets cannot be read")),
            },
        };
        if !versions.is_empty() && !versions.split(',').all(|version| is_version(version.trim_matches(' '))) {
            return Err(refused("after the name only ==, !=, <=, >=, < , > or ~= and a version may follow"));
        }
        let name = normalised(name);
        Ok(Self { configured, text: text.replace(' ', ""), name })
    }

    /// Its normalised name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As pip takes it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Any version will do, which can be told without pip.
    fn is_plain(&self) -> bool {
        normalised(&self.text) == self.name
    }

    /// Any version will do and there is one, so pip has nothing to do for it.
    fn is_satisfied_by(&self, interpreter: &Interpreter) -> bool {
        self.is_plain() && interpreter.packages.contains_key(&self.name)
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_name(name: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(name.chars().next()) && ends(name.chars().next_back()) && name.chars().all(is_name_char)
}

fn is_version(text: &str) -> bool {
    let operators = ["==", "!=", "<=", ">=", "~=", "<", ">"];
    let version = operators.iter().find_map(|operator| text.strip_prefix(operator)).map(|v| v.trim_matches(' '));
    version.is_some_and(|version| {
        version.starts_with(|c: char| c.is_ascii_alphanumeric())
            && version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '*' | '+' | '!' | '-' | '_'))
    })
}

/// The form of PEP 503: lower case, runs of `-`, `_` and `.` are one `-`.
fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            _ => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

/// Where code runs, and whether all its packages are there.
#[derive(Debug, Clone, PartialEq)]
pub struct Environment {
    /// The Python to start the runner with; it can be started now.
    pub python: PathBuf,
    /// Folder of the virtual environment, where there is one.
    pub root: Option<PathBuf>,
    /// Whether the packages are there.
    pub state: State,
    requirements: Vec<Requirement>,
}

/// How far an environment is.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// As good as it gets.
    Ready(Prepared),
    /// [`ensure`] has to run.
    Preparing,
}

/// What preparing came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// Packages that could not be had.
    pub missing: Vec<Missing>,
    /// What to do about them; empty when nothing is missing.
    pub hint: String,
}

/// A package that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its text as configured, such as `numpy >= 1.26`.
    pub name: String,
    /// Why.
    pub why: String,
}

/// What the marker holds.
#[derive(Serialize, Deserialize)]
struct Marker {
    /// Hash of the packages the interpreter itself had.
    base: String,
    prepared: Prepared,
    /// Something is missing that may be there next time.
    retry: bool,
}

/// Whether code that imports these modules has to wait for the packages. A module among the inputs waits too.
pub fn needs_packages(imports: &[String], interpreter: &Interpreter) -> bool {
    imports.iter().any(|import| !interpreter.stdlib.contains(import))
}

/// Says where code can run and makes that place. Where the cache folder cannot be used the interpreter itself is taken.
pub fn plan(interpreter: &Interpreter, requirements: &[Requirement], cache: &Path) -> Environment {
    let all_there = requirements.iter().all(|r| r.is_satisfied_by(interpreter));
    let here = |state| Environment {
        python: interpreter.path.clone(),
        root: None,
        state,
        requirements: requirements.to_vec(),
    };
    if all_there {
        return here(State::Ready(Prepared::default()));
    }
    let root = cache.join("envs").join(environment_name(interpreter, requirements));
    if let Err(e) = make_skeleton(&root, interpreter) {
        let why = format!("{} cannot be made: {e}", root.display());
        let wanted = requirements.iter().filter(|r| !r.is_satisfied_by(interpreter));
        let missing = wanted.map(|r| Missing { name: r.configured.clone(), why: why.clone() }).collect();
        return here(State::Ready(Prepared { missing, hint: "make the cache folder writable".into() }));
    }
    let state = finished(&root, interpreter, requirements).map_or(State::Preparing, State::Ready);
    Environment { python: root.join("bin/python"), root: Some(root), state, requirements: requirements.to_vec() }
}

/// Makes the environment ready: waits for another preparer, installs, looks what is there. Safe to drop at any point.
pub async fn ensure(
    environment: &Environment,
    interpreter: &Interpreter,
    env: &Env,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Prepared {
    let root = match (&environment.state, &environment.root) {
        (State::Ready(prepared), _) => return prepared.clone(),
        (State::Preparing, None) => return Prepared::default(),
        (State::Preparing, Some(root)) => root,
    };
    // Held to the end. Without a lock (a file system that has none) two preparers do the same work.
    let lock = lock(&root.with_extension("lock"), progress).await;
    let site = root.join(&interpreter.venv_site);
    let (requirements, place) = (environment.requirements.clone(), (root.clone(), site.clone(), interpreter.clone()));
    // Folders are looked through: not on this thread. The lock goes along, for what is begun there ends there even when
    // nobody waits for it any more.
    let begun = tokio::task::spawn_blocking(move || {
        let (root, site, interpreter) = place;
        let ready = finished(&root, &interpreter, &requirements);
        // Without a marker whatever is there was left half-made by a preparer that was killed.
        if ready.is_none() && std::fs::remove_file(root.join(MARKER)).is_err() {
            empty_site(&site);
        }
        (ready, lock)
    });
    let lock = match begun.await {
        Ok((Some(ready), _)) => return ready,
        Ok((None, lock)) => lock,
        Err(_) => None,
    };
    let wanted: Vec<&Requirement> =
        environment.requirements.iter().filter(|r| !r.is_satisfied_by(interpreter)).collect();
    let target = pip::Target { root, site: &site, interpreter, env };
    let report = pip::install(target, &wanted, progress).await;
    let wanted: Vec<Requirement> = wanted.into_iter().cloned().collect();
    let place = (root.clone(), site.clone(), interpreter.clone());
    let ended = tokio::task::spawn_blocking(move || {
        let (root, site, interpreter) = place;
        let mut there = installed(&site);
        there.extend(interpreter.packages.keys().cloned());
        let prepared = judge(&wanted, &there, &report);
        let marker = Marker { base: base(&interpreter), retry: report.unreachable, prepared: prepared.clone() };
        if let Ok(text) = serde_json::to_vec(&marker) {
            // Not being able to write it costs time at the next start and nothing else.
            let _ = write_atomically(&root.join(MARKER), &text);
        }
        drop(lock);
        prepared
    });
    ended.await.unwrap_or_default()
}

/// Names of the distributions in a folder. Their Python is not asked: starting it would run what came with them.
fn installed(site: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(site) else { return BTreeSet::new() };
    // The record is written last, so without it the package is not whole.
    let whole = entries.flatten().filter(|entry| entry.path().join("RECORD").is_file());
    let names = whole.filter_map(|entry| {
        let folder = entry.file_name().into_string().ok()?;
        let (name, _version) = folder.strip_suffix(".dist-info")?.split_once('-')?;
        Some(normalised(name))
    });
    names.collect()
}

/// What is missing: what is not there, and what pip refused where the version matters.
fn judge(wanted: &[Requirement], there: &BTreeSet<String>, report: &pip::Report) -> Prepared {
    let missing: Vec<Missing> = wanted
        .iter()
        .filter(|r| !there.contains(&r.name) || (!r.is_plain() && report.failed.contains_key(r.text())))
        .map(|r| {
            let why = report.failed.get(r.text()).cloned().unwrap_or_else(|| "pip did not install it".into());
            Missing { name: r.configured.clone(), why }
        })
        .collect();
    let hint = if missing.is_empty() { String::new() } else { report.hint.clone() };
    Prepared { missing, hint }
}

/// Folder name of an environment. The patch version is left out: an upgrade rebuilds it in its place.
fn environment_name(interpreter: &Interpreter, requirements: &[Requirement]) -> String {
    let mut hash = Sha256::new();
    let sorted: BTreeSet<&str> = requirements.iter().map(Requirement::text).collect();
    let parts = [interpreter.path.as_os_str().as_encoded_bytes(), interpreter.abi.as_bytes()];
    for part in parts.into_iter().chain(sorted.iter().map(|text| text.as_bytes())) {
        hash.update(part);
        hash.update([0]);
    }
    hex(&hash.finalize())[..16].into()
}

fn base(interpreter: &Interpreter) -> String {
    let mut hash = Sha256::new();
    for (name, version) in &interpreter.packages {
        hash.update(format!("{name}={version}\n"));
    }
    hex(&hash.finalize())
}

/// The result of an earlier preparation, where it still holds and another try would not help. Names are as configured now:
/// spaces make no other environment.
fn finished(root: &Path, interpreter: &Interpreter, requirements: &[Requirement]) -> Option<Prepared> {
    let mut text = String::new();
    let file = regular::open(&root.join(MARKER)).ok()?;
    let age = SystemTime::now().duration_since(file.metadata().ok()?.modified().ok()?).unwrap_or_default();
    file.take(MAX_MARKER).read_to_string(&mut text).ok()?;
    let mut marker: Marker = serde_json::from_str(&text).ok()?;
    for missing in &mut marker.prepared.missing {
        let same = requirements.iter().find(|r| r.text == missing.name.replace(' ', ""));
        missing.name = same?.configured.clone();
    }
    let worth_a_try = !marker.prepared.missing.is_empty() && (marker.retry || age > RETRY_AFTER);
    (marker.base == base(interpreter) && !worth_a_try).then_some(marker.prepared)
}

/// Makes an empty virtual environment, unless the right one is there.
///
/// It is what `python -m venv --without-pip` makes, without the 100 ms of starting it. A wrong one (another version of
/// Python, a link that leads nowhere) is replaced whole.
fn make_skeleton(root: &Path, interpreter: &Interpreter) -> std::io::Result<()> {
    let home = interpreter.base_path.parent().and_then(Path::to_str).filter(|home| !home.contains(char::is_control));
    let home = home.ok_or_else(|| std::io::Error::other("the path of the interpreter is not plain text"))?;
    let config = format!("home = {home}\ninclude-system-site-packages = false\nversion = {}\n", interpreter.version);
    let pth = pth_lines(&interpreter.site_dirs);
    let is_right = |root: &Path| {
        std::fs::read_link(root.join("bin/python")).is_ok_and(|target| target == interpreter.base_path)
            && regular::read(&root.join("pyvenv.cfg"), MAX_MARKER).is_ok_and(|text| text == config)
            && regular::read(&root.join(&interpreter.venv_site).join(PTH), MAX_MARKER).is_ok_and(|text| text == pth)
    };
    if is_right(root) {
        return Ok(());
    }
    let parent = root.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent)?;
    let new = tempfile::Builder::new().prefix(".new-").tempdir_in(parent)?;
    let site = new.path().join(&interpreter.venv_site);
    std::fs::create_dir_all(&site)?;
    std::fs::create_dir(new.path().join("bin"))?;
    std::os::unix::fs::symlink(&interpreter.base_path, new.path().join("bin/python"))?;
    if cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        // Some distributions look for compiled packages there.
        std::os::unix::fs::symlink("lib", new.path().join("lib64"))?;
    }
    std::fs::write(site.join(PTH), &pth)?;
    std::fs::write(new.path().join("pyvenv.cfg"), &config)?;
    if std::fs::symlink_metadata(root).is_ok() {
        // The old one goes out of the way in one step and is removed with its temporary folder.
        let old = tempfile::Builder::new().prefix(".old-").tempdir_in(parent)?;
        std::fs::rename(root, old.path().join("env"))?;
    }
    match std::fs::rename(new.path(), root) {
        // Another process was quicker.
        Err(_) if is_right(root) => Ok(()),
        result => result,
    }
}

/// Lines for a `.pth` file that add the interpreter's own folders, with their `.pth` files.
fn pth_lines(site_dirs: &[PathBuf]) -> String {
    let folders = site_dirs.iter().filter_map(|dir| dir.to_str()).map(python_literal);
    folders.map(|folder| format!("import site; site.addsitedir({folder})\n")).collect()
}

/// A Python string literal in plain ASCII, since a `.pth` file is read in the encoding of the locale.
fn python_literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out + "\""
}

/// Removes everything from the package folder but our own file.
fn empty_site(site: &Path) {
    let Ok(entries) = std::fs::read_dir(site) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name() != PTH) {
        // What stays is overwritten or reported by pip.
        let _ = match entry.file_type() {
            Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
            _ => std::fs::remove_file(entry.path()),
        };
    }
}

/// Waits for the lock; it goes when the file is closed, however the process ends.
async fn lock(path: &Path, progress: &mut (dyn FnMut(Progress) + Send)) -> Option<File> {
    let file = regular::open_with(OpenOptions::new().create(true).truncate(false).write(true), path).ok()?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            Err(TryLockError::Error(_)) => return None,
            Err(TryLockError::WouldBlock) => {}
        }
        if !told {
            progress(Progress::Waiting);
            told = true;
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
