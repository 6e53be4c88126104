//! The interpreter of this machine: which one it is, what it is, and what it already has.
//!
//! It is resolved to the real executable, because the shim of a version manager costs 100 ms at each start and hides which
//! Python runs. Asking costs a process, so the answer is kept in the cache folder with the stamps of everything it depends
//! on: as long as those files have not changed, a start costs a few `stat` calls.
//!
//! Nothing is ever taken from the working folder: a `./.venv` or a `python3` that came with somebody's data is their code.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SetupError;
use super::inputs::shown;
use super::regular;
use crate::core::event::Failure;

/// The program that asks an interpreter about itself.
const PROBE: &str = include_str!("../../assets/probe.py");

/// What stands before the answer, since a `sitecustomize` may print too.
const PROBE_MARK: &str = "sandscript-probe:";

/// Oldest Python the runner works with.
const OLDEST: (u32, u32) = (3, 9);

/// Longest wait for an interpreter's answer. A cold start from a slow disk behind a shim takes seconds.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// Longest kept answer that is read, in bytes. One with a thousand distributions has 60 KB.
const MAX_CACHED: u64 = 4 * 1024 * 1024;

/// Longest line of an interpreter's complaint that is shown, in characters.
const MAX_COMPLAINT: usize = 200;

/// What helps where there is no usable Python.
const INSTALL_HINT: &str = "install Python 3.9 or newer (apt install python3, brew install python, uv python install) or name one with --python PATH";

/// Variables an interpreter, a shim or pip needs. A list of what may pass, because the rest of an environment holds keys.
const PASSED: [&str; 17] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NETRC",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// Beginnings of further variables that may pass.
const PASSED_PREFIXES: [&str; 7] = ["PYENV_", "ASDF_", "MISE_", "RTX_", "XDG_", "LC_", "PIP_"];

/// Variables of [`PASSED`] and their prefixes that can change which interpreter a shim starts.
const DECIDING: [&str; 4] = ["PATH", "HOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH"];
const DECIDING_PREFIXES: [&str; 4] = ["PYENV_", "ASDF_", "MISE_", "RTX_"];

/// pip settings that would send an installation elsewhere than into its environment.
const PIP_DIVERSIONS: [&str; 7] =
    ["PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_REQUIREMENT", "PIP_EDITABLE", "PIP_DRY_RUN"];

/// The environment variables of a process, read once and handed in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<OsString, OsString>);

impl Env {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// What a helper process (interpreter, shim, pip) is started with.
    pub(super) fn passed(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.matching(|name| {
            let upper = name.to_ascii_uppercase();
            let listed = PASSED.contains(&upper.as_str()) || PASSED_PREFIXES.iter().any(|p| name.starts_with(p));
            listed && !PIP_DIVERSIONS.contains(&name)
        })
    }

    /// What decides which interpreter a shim starts.
    fn deciding(&self) -> Vec<(String, String)> {
        self.matching(|name| DECIDING.contains(&name) || DECIDING_PREFIXES.iter().any(|p| name.starts_with(p)))
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect()
    }

    fn matching(&self, keep: impl Fn(&str) -> bool) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter().filter(move |(name, _)| name.to_str().is_some_and(&keep))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Which interpreter is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// `$VIRTUAL_ENV`, then `python3` in `PATH`.
    #[default]
    Auto,
    /// This one: a path, or a bare name that is looked up in `PATH`.
    Path(PathBuf),
}

/// An interpreter and what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The executable to start; never a shim.
    pub path: PathBuf,
    /// Its version, such as `3.12.4`.
    pub version: String,
    /// The executable behind it where `path` belongs to a virtual environment, else the same.
    pub base_path: PathBuf,
    /// Binary interface and platform; part of the name of an environment made for it.
    pub abi: String,
    /// Root of its installation or virtual environment.
    pub prefix: PathBuf,
    /// Root of the installation behind it.
    pub base_prefix: PathBuf,
    /// Folders with its own packages.
    pub site_dirs: Vec<PathBuf>,
    /// Where a virtual environment of it has its packages, relative to its root.
    pub venv_site: PathBuf,
    /// Top-level names of the standard library.
    pub stdlib: Vec<String>,
    /// Versions of the distributions it has, by normalised name.
    pub packages: BTreeMap<String, String>,
    /// pip can be imported.
    pub has_pip: bool,
    /// ensurepip can be imported (Debian takes it out).
    pub has_ensurepip: bool,
}

/// An answer with what it depends on.
#[derive(Serialize, Deserialize)]
struct Cached {
    /// SHA-256 of the probe.
    probe: String,
    deciding: Vec<(String, String)>,
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    interpreter: Interpreter,
}

/// What changes when a file or folder does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    modified: (i64, i64),
    bytes: u64,
    inode: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self { modified: (meta.mtime(), meta.mtime_nsec()), bytes: meta.len(), inode: meta.ino() })
    }
}

/// Finds the interpreter. `cache` is the cache folder of the application; what cannot be kept there is asked again.
///
/// Where several candidates are there, the first that is usable is taken, so that a shim of a version that is not
/// installed does not hide the system's Python.
pub async fn resolve(choice: &Choice, env: &Env, cache: &Path) -> Result<Interpreter, SetupError> {
    let candidates = candidates(choice, env);
    let mut first_error = None;
    for candidate in &candidates {
        match ask(candidate, env, cache).await {
            Ok(interpreter) => return Ok(interpreter),
            Err(failure) => first_error = first_error.or(Some(failure)),
        }
    }
    let failure = first_error.unwrap_or_else(|| match choice {
        Choice::Auto => Failure::new("Python was not found", "there is no python3 in PATH", INSTALL_HINT),
        Choice::Path(path) => Failure::new(
            format!("{} was not found", shown_path(path)),
            "it is neither an executable file nor the name of one in PATH",
            INSTALL_HINT,
        ),
    });
    Err(SetupError { failure, missing: candidates.is_empty() })
}

/// Executable files that may be it, best first.
fn candidates(choice: &Choice, env: &Env) -> Vec<PathBuf> {
    let found = match choice {
        Choice::Auto => {
            let active = env.get("VIRTUAL_ENV").map(|root| Path::new(root).join("bin/python"));
            active.into_iter().filter(|path| path.is_absolute()).chain(in_path(OsStr::new("python3"), env)).collect()
        }
        Choice::Path(path) if path.components().count() == 1 && !path.has_root() => in_path(path.as_os_str(), env),
        // The person named it, so it may lie anywhere.
        Choice::Path(path) => std::path::absolute(path).into_iter().collect(),
    };
    found.into_iter().filter(|path| is_executable(path)).collect()
}

/// Relative and empty parts of `PATH` mean the working folder and are skipped.
fn in_path(name: &OsStr, env: &Env) -> Vec<PathBuf> {
    let path = env.get("PATH").unwrap_or_default();
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).collect()
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The answer of one candidate, from the cache where it still holds.
async fn ask(candidate: &Path, env: &Env, cache: &Path) -> Result<Interpreter, Failure> {
    let key = hex(&Sha256::digest(candidate.as_os_str().as_encoded_bytes()));
    let file = cache.join("python").join(format!("{}.json", &key[..16]));
    if let Some(interpreter) = recall(&file, candidate, env) {
        return Ok(interpreter);
    }
    let interpreter = probe(candidate, env).await?;
    // Not being able to keep the answer costs time at the next start and nothing else.
    let _ = keep(&file, candidate, env, &interpreter);
    Ok(interpreter)
}

fn recall(file: &Path, candidate: &Path, env: &Env) -> Option<Interpreter> {
    let cached: Cached = serde_json::from_str(&regular::read(file, MAX_CACHED).ok()?).ok()?;
    let holds = cached.probe == probe_hash()
        && cached.deciding == env.deciding()
        && cached.stamps.first().is_some_and(|(path, _)| path == candidate)
        && cached.stamps.iter().all(|(path, stamp)| Stamp::of(path) == *stamp);
    holds.then_some(cached.interpreter)
}

fn keep(file: &Path, candidate: &Path, env: &Env, interpreter: &Interpreter) -> std::io::Result<()> {
    let stamps = depends_on(candidate, env, interpreter).into_iter().map(|path| {
        let stamp = Stamp::of(&path);
        (path, stamp)
    });
    let cached = Cached {
        probe: probe_hash(),
        deciding: env.deciding(),
        stamps: stamps.collect(),
        interpreter: interpreter.clone(),
    };
    write_atomically(file, &serde_json::to_vec(&cached)?)
}

/// Everything whose change may change the answer, the candidate first.
fn depends_on(candidate: &Path, env: &Env, interpreter: &Interpreter) -> Vec<PathBuf> {
    let mut paths = vec![candidate.to_path_buf(), interpreter.path.clone(), interpreter.base_path.clone()];
    paths.push(interpreter.prefix.join("pyvenv.cfg"));
    // Installing or removing a package changes the folder it is in.
    paths.extend(interpreter.site_dirs.iter().cloned());
    // Where version managers keep the chosen version when they are asked in `/`.
    let home = env.get("HOME").map(PathBuf::from).unwrap_or_default();
    let pyenv = env.get("PYENV_ROOT").map_or_else(|| home.join(".pyenv"), PathBuf::from);
    paths.extend([pyenv.join("version"), "/.python-version".into(), "/.tool-versions".into()]);
    paths.extend([".tool-versions", ".config/mise/config.toml"].map(|name| home.join(name)));
    paths
}

fn probe_hash() -> String {
    hex(&Sha256::digest(PROBE))
}

/// Asks an interpreter about itself.
async fn probe(path: &Path, env: &Env) -> Result<Interpreter, Failure> {
    let failed = |why: String| Failure::new(format!("{} did not start", shown_path(path)), why, INSTALL_HINT);
    let mut command = tokio::process::Command::new(path);
    // `-I` keeps the working folder and the user's PYTHON… variables out, and `/` holds no version file of a project.
    command.args(["-I", "-B", "-c", PROBE]).current_dir("/").env_clear().envs(env.passed());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(PROBE_LIMIT, command.output()).await {
        Ok(output) => output.map_err(|e| failed(e.to_string()))?,
        Err(_) => return Err(failed(format!("no answer within {} s", PROBE_LIMIT.as_secs()))),
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    let Some(answer) = stdout.lines().rev().find_map(|line| line.strip_prefix(PROBE_MARK)) else {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let complaint = stderr.lines().rev().find(|line| !line.trim().is_empty());
        return Err(failed(complaint.map_or_else(|| output.status.to_string(), |line| shown(line, MAX_COMPLAINT))));
    };
    let facts: serde_json::Value = serde_json::from_str(answer).map_err(|e| failed(e.to_string()))?;
    let version = facts["version"].as_str().unwrap_or_default();
    if !new_enough(version) {
        let why = format!("{} is Python {}, and 3.9 or newer is needed", shown_path(path), shown(version, 20));
        return Err(Failure::new("this Python is too old", why, INSTALL_HINT));
    }
    let interpreter: Interpreter = serde_json::from_value(facts).map_err(|e| failed(e.to_string()))?;
    if !interpreter.path.is_absolute() || !interpreter.venv_site.is_relative() {
        return Err(failed("it does not know where it is".into()));
    }
    Ok(interpreter)
}

fn new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= OLDEST
}

fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy(), MAX_COMPLAINT)
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Writes a file so that it is there whole or as it was, making its folder.
pub(super) fn write_atomically(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests;
