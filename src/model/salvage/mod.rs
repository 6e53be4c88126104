//! Code in replies that are no clean calls.
//!
//! Owns the reading of what models write where a call should be: JSON that is not quite JSON ([`json`]), arguments of every
//! shape ([`args`]), calls written into the text ([`text`], [`tagged`]) and fenced blocks ([`fence`]). Three rules hold
//! everywhere: only the structure around code is repaired, never the inside of a string; what was cut is never completed;
//! and what is not a clean call is marked so that it runs only if Python compiles it.

use super::Candidate;

pub mod args;
pub mod fence;
pub mod json;
pub mod python;
pub mod tagged;
pub mod text;

/// The one tool.
pub const TOOL: &str = "execute_python";

/// What became of something that looks like a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It holds code; the id of the candidate is still empty.
    Code(Box<Candidate>),
    /// The reply ended inside it.
    Cut,
    /// It cannot be read, and why.
    Broken(String),
}

/// How near the name of a called tool is to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// It is ours.
    Ours,
    /// It is ours with something around it, or it is missing.
    Close,
    /// What models call a Python tool by habit.
    Alias,
    /// A tool that does not exist.
    Other,
}

/// Names models use by habit for a tool that runs Python.
const ALIASES: [&str; 18] = [
    "python",
    "python3",
    "ipython",
    "jupyter",
    "exec",
    "execute",
    "code_interpreter",
    "code_execution",
    "execute_code",
    "exec_python",
    "python_exec",
    "python_executor",
    "python_interpreter",
    "python_repl",
    "run_python",
    "run_code",
    "run_python_code",
    "execute_python_code",
];

impl Name {
    /// Judges a name.
    pub fn of(name: &str) -> Self {
        if name == TOOL {
            return Self::Ours;
        }
        let lower = name.trim().to_lowercase().replace('-', "_");
        // `functions.execute_python`, `default_api:execute_python`, `execute_python<|channel|>commentary`
        let tail = lower.rsplit(['.', ':', '/']).next().unwrap_or_default();
        let bare = tail.split(['<', '[', '(', ' ']).next().unwrap_or_default();
        if bare == TOOL || lower.is_empty() {
            Self::Close
        } else if ALIASES.contains(&bare) {
            Self::Alias
        } else {
            Self::Other
        }
    }
}
