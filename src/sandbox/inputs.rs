//! Input files: what the code may read.

use std::path::PathBuf;

/// The files the code may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    /// Each file.
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
}
