//! Where code runs: the [`Executor`] trait, its executors, the runner they share, and what goes in and comes out.
//!
//! Everything that comes from the other side of a [`Sandbox`] is untrusted: lengths are checked, sizes are capped, names
//! are cleaned, and the parent, not the code, says how a run ended.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc;

use crate::core::event::{Artifact, Failure, NoteKind, Outcome, StreamName, Table};
use crate::core::policy::{Capabilities, SecurityPolicy};

/// A way to run Python.
pub trait Executor: Send + Sync {
    /// Name as in the configuration.
    fn name(&self) -> &'static str;

    /// Isolation tier reached, `-` where there is only one.
    fn tier(&self) -> String {
        "-".into()
    }

    /// How far each limit of `policy` holds here.
    fn capabilities(&self, policy: &SecurityPolicy) -> Capabilities;

    /// Opens a sandbox for one session.
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Box<dyn Sandbox>, SetupError>>;
}

/// What a sandbox is opened with.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// Limits of every run.
    pub policy: SecurityPolicy,
    /// Files the code may read, by the name it sees.
    pub inputs: inputs::Inputs,
    /// Host folder that takes the files runs make and the spooled output; owned by the session.
    pub keep: PathBuf,
}

/// Why a sandbox could not be opened.
#[derive(Debug, Clone, PartialEq)]
pub struct SetupError {
    /// What happened and what to do.
    pub failure: Failure,
    /// The backend is not there at all.
    pub missing: bool,
}

/// One live Python. All methods only send; the task behind owns the process.
pub trait Sandbox: Send + Sync {
    /// Runs one cell; cells are run one at a time. The channel ends after [`Output::Finished`].
    fn run(&self, cell: Cell) -> mpsc::Receiver<Output>;

    /// Whether `code` compiles, without running it, and what it imports.
    fn check(&self, code: String) -> BoxFuture<'static, Result<Check, SetupError>>;

    /// Stops the running cell: first an interrupt, after 2 s or a second call a kill.
    fn interrupt(&self);

    /// Interpreter path or image digest, for the log.
    fn runtime(&self) -> String;

    /// Ends every process and removes the scratch folder.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// Code to run, exactly as approved.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Number of the cell in the session, for tracebacks (`<cell 3>`).
    pub number: u32,
    /// Python source.
    pub code: String,
    /// Wall limit of this run, seconds.
    pub timeout_seconds: u64,
}

/// What comes out of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// The code starts now.
    Started,
    /// What is being waited for, or what the person and the model should know.
    Notice(NoteKind, String),
    /// Text of a stream, see [`crate::core::event::Event::RunOutput`].
    Text {
        /// Which stream.
        stream: StreamName,
        /// Decoded, control sequences but colours removed.
        text: String,
        /// Bytes left out just before.
        dropped: u64,
    },
    /// A value.
    Value(Value),
    /// It is over; nothing follows.
    Finished(Box<Finished>),
}

/// A value in its forms, the PNG re-encoded by us.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Value {
    /// Value of the last expression.
    pub last: bool,
    /// Text form.
    pub text: String,
    /// Table form.
    pub table: Option<Table>,
    /// PNG form.
    pub png: Option<Vec<u8>>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time from the start of the code, milliseconds.
    pub took_ms: u64,
    /// Peak resident memory, bytes.
    pub peak_bytes: Option<u64>,
    /// The variables of earlier cells are gone.
    pub variables_lost: bool,
    /// Files made, already in `keep`.
    pub artifacts: Vec<Artifact>,
    /// For the model and the person.
    pub notes: Vec<String>,
    /// Kept standard output where its records are shorter: a file in `keep`.
    pub stdout_spool: Option<PathBuf>,
    /// Kept standard error likewise.
    pub stderr_spool: Option<PathBuf>,
}

impl Finished {
    /// An end of which nothing but the outcome is known.
    pub fn new(outcome: Outcome) -> Self {
        Self {
            outcome,
            took_ms: 0,
            peak_bytes: None,
            variables_lost: false,
            artifacts: Vec::new(),
            notes: Vec::new(),
            stdout_spool: None,
            stderr_spool: None,
        }
    }
}

/// What a compile check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Line (from 1) and message of the first error; `None` if it compiles.
    pub error: Option<(u32, String)>,
    /// Top-level names of the modules it imports.
    pub imports: Vec<String>,
}

pub mod artifacts;
pub mod convert;
pub mod frames;
pub mod inputs;
pub mod local;
pub mod output;
pub mod packages;
mod pip;
pub mod process;
pub mod profile;
pub mod provision;
pub mod python;
mod regular;
pub mod report;
mod scratch;
pub mod subprocess;
pub mod value;
