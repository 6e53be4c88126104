//! Where things are on this machine, and the environment, read once at the start.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::error::{Error, Kind, Result};
use crate::sandbox::python::Env;

/// Folders and variables of this process.
#[derive(Debug, Clone)]
pub struct Places {
    /// Sessions are kept here.
    pub data: PathBuf,
    /// What can be made again is kept here.
    pub cache: PathBuf,
    /// The configuration file, whether it is there or not.
    pub config_file: PathBuf,
    /// The person's home folder.
    pub home: PathBuf,
    /// The environment, as the sandbox layer takes it.
    pub env: Env,
    /// The environment, as text.
    pub variables: Vec<(String, String)>,
}

impl Places {
    /// Those of this process.
    pub fn of_process() -> Result<Self> {
        let base = etcetera::choose_base_strategy().map_err(|e| {
            Error::new(Kind::Usage, "the home folder is not known", e.to_string(), "set HOME to an absolute path")
        })?;
        let folders = [base.home_dir().to_path_buf(), base.data_dir(), base.cache_dir(), base.config_dir()];
        if let Some(relative) = folders.iter().find(|f| !f.is_absolute()) {
            let why = "nothing is read from or kept below the working folder";
            let hint = "set HOME and the XDG folders to absolute paths";
            return Err(Error::usage(format!("the folder {} is not absolute", relative.display()), why, hint));
        }
        let variables = std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
        Ok(Self {
            data: base.data_dir().join("sandscript"),
            cache: base.cache_dir().join("sandscript"),
            config_file: base.config_dir().join("sandscript/config.toml"),
            home: base.home_dir().to_path_buf(),
            env: Env::of_process(),
            variables: variables.collect(),
        })
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// The folder a session works in.
pub fn working_folder(given: Option<&Path>) -> Result<PathBuf> {
    let hint = "name a folder you can read with -C";
    let folder = match given {
        Some(path) => path.to_path_buf(),
        None => std::env::current_dir()
            .map_err(|e| Error::usage("the working folder cannot be read", e.to_string(), hint))?,
    };
    let absolute = folder
        .canonicalize()
        .map_err(|e| Error::usage(format!("cannot use the folder {}", folder.display()), e.to_string(), hint))?;
    if !absolute.is_dir() {
        return Err(Error::usage(format!("cannot use {}", folder.display()), "it is no folder", hint));
    }
    Ok(absolute)
}

/// Reads a small text file the person named: a regular file, since a pipe could be waited for without end.
pub fn read_text(path: &Path, max: u64) -> std::io::Result<String> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    file.take(max).read_to_string(&mut text)?;
    Ok(text)
}
