//! The one vocabulary of facts. An [`Event`] is what is logged, shown, printed by `exec --json` and replayed; there is no
//! second one.
//!
//! A [`Record`] is one line, the same in the log and on standard output:
//! `{"v":1,"seq":7,"at_ms":1234,"type":"run_output","step":1,…,"crc":"…"}`. The schema is described in `docs/log.md`.

use serde::{Deserialize, Serialize};

use super::policy::{Capabilities, Network, SecurityPolicy};

/// Version of the record schema, on every line. A reader shows a higher one read-only.
pub const SCHEMA_VERSION: u32 = 1;

/// A fact with its place in the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Schema version, [`SCHEMA_VERSION`] when written by this program.
    pub v: u32,
    /// Position in the session, from 0, without gaps.
    pub seq: u64,
    /// Milliseconds since the first record of the session; never falls.
    pub at_ms: u64,
    /// The fact.
    #[serde(flatten)]
    pub event: Event,
}

/// A fact in the past tense.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The first record of every session.
    SessionStarted(Box<SessionInfo>),
    /// The session goes on in another process, on these terms: those of today, not those of the first record.
    SessionResumed(Box<SessionInfo>),
    /// The input files and what is told to the model about them. Again when files are added, which starts a new Python.
    InputsListed {
        /// How many files.
        files: u64,
        /// Their size together, bytes.
        bytes: u64,
        /// The first of their names, as the code opens them.
        #[serde(default)]
        names: Vec<String>,
        /// The profile as the model reads it; empty when there are no inputs.
        profile: String,
    },
    /// The person asked or answered.
    UserSaid {
        /// Their words.
        text: String,
    },
    /// A piece of the reply that is being written.
    ModelDelta {
        /// What the piece belongs to.
        channel: Channel,
        /// The piece.
        text: String,
    },
    /// A whole reply.
    ModelReplied(Box<Reply>),
    /// The model could not be asked, or broke off.
    ModelFailed(ModelFailure),
    /// Code waits for approval.
    CodeProposed(Proposal),
    /// Code may run, exactly so.
    CodeApproved {
        /// Which step.
        step: u32,
        /// Which attempt of it, from 1.
        attempt: u32,
        /// Id of the call whose code was shown: a rejected attempt has the number of the next one, but not its id.
        call: String,
        /// The text to run where the person changed it.
        edited: Option<String>,
        /// Who approved: `user`, or `exec` for the command line.
        by: String,
        /// What the approval covers besides the text.
        terms: Terms,
    },
    /// The person changed the time limit of what waits for approval.
    TermsChanged {
        /// Which step.
        step: u32,
        /// Which attempt of it.
        attempt: u32,
        /// Id of the call whose code was shown.
        call: String,
        /// The time limit now, seconds.
        timeout_seconds: u64,
    },
    /// Code may not run.
    CodeRejected {
        /// Which step.
        step: u32,
        /// Which attempt of it.
        attempt: u32,
        /// Id of the call whose code was shown.
        call: String,
        /// The person's reason, sent to the model verbatim; without one the turn ends.
        reason: Option<String>,
    },
    /// The sandbox was told to run. Written and synced before it is told.
    RunStarted {
        /// Which step.
        step: u32,
        /// Which attempt of it.
        attempt: u32,
        /// The terms in force.
        terms: Terms,
        /// Interpreter path or image digest.
        runtime: String,
    },
    /// A piece of what the program printed.
    RunOutput {
        /// Which step.
        step: u32,
        /// Which stream.
        stream: StreamName,
        /// Text; control sequences other than colours are gone, a leading `\r` replaces the line begun before.
        text: String,
        /// Bytes of this stream that were left out just before `text`.
        #[serde(default, skip_serializing_if = "is_zero")]
        dropped: u64,
    },
    /// A value the program produced besides its streams.
    RunResult {
        /// Which step.
        step: u32,
        /// The value in its forms.
        result: ResultBundle,
    },
    /// The program ended.
    RunFinished(Box<RunFinished>),
    /// The sandbox could not be opened, or was lost outside a run.
    SandboxFailed {
        /// What happened and what to do.
        #[serde(flatten)]
        failure: Failure,
    },
    /// A file a run made was copied to where the person wants it.
    ArtifactSaved {
        /// Which step made it.
        step: u32,
        /// Its name among the kept files of the session.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Where the copy is.
        path: String,
    },
    /// Another model from now on.
    ModelChanged {
        /// Model name.
        model: String,
        /// Endpoint without user information.
        base_url: String,
        /// How code is asked for.
        mode: Mode,
        /// Context window in tokens.
        window: u32,
    },
    /// Other limits from now on.
    LimitsChanged {
        /// Time limit of a run, seconds.
        timeout_seconds: u64,
        /// Failed attempts that are sent back to the model, per step.
        max_retries: u32,
        /// Steps of a turn.
        max_steps: u32,
    },
    /// The person was shown the accepted cells of a continued session, and decided whether they run again.
    RebuildDecided {
        /// The cells, in order.
        cells: Vec<RebuildCell>,
        /// They run.
        approved: bool,
        /// Who decided.
        by: String,
        /// On what terms.
        terms: Terms,
    },
    /// The turn is over.
    TurnEnded {
        /// How it ended.
        status: TurnStatus,
        /// The model's words, or what is known where it gave none.
        answer: String,
        /// An answer was given although a step had failed and was not repaired.
        #[serde(default)]
        unrepaired: bool,
    },
    /// Something worth knowing that decides nothing.
    Note {
        /// What kind of note.
        kind: NoteKind,
        /// One line.
        text: String,
    },
    /// The session was closed.
    SessionEnded {
        /// Why.
        reason: String,
    },
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What holds for a whole session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Version of sandscript.
    pub version: String,
    /// Session id, the name of its folder.
    pub id: String,
    /// RFC 3339 UTC time of the first record.
    pub started: String,
    /// Model name.
    pub model: String,
    /// Endpoint without user information.
    pub base_url: String,
    /// How code is asked for at the start.
    pub mode: Mode,
    /// Context window in tokens.
    pub window: u32,
    /// Executor name.
    pub executor: String,
    /// Isolation tier of the executor, `-` where it has none.
    pub tier: String,
    /// What the executor enforces.
    pub capabilities: Capabilities,
    /// Limits in force.
    pub policy: SecurityPolicy,
    /// Failed attempts that are sent back to the model, per step.
    pub max_retries: u32,
    /// Steps of a turn.
    pub max_steps: u32,
    /// Folder the person started in.
    pub folder: String,
    /// Python version such as `3.12.4`, empty if unknown.
    pub python: String,
    /// Packages the code may import (distribution names).
    pub packages: Vec<String>,
}

/// A cell that ran well and may run again to have its variables back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildCell {
    /// Its step.
    pub step: u32,
    /// The code, to the byte as it ran.
    pub code: String,
}

/// What a piece of a reply belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Words for the person.
    Text,
    /// Reasoning, folded on the screen.
    Reasoning,
    /// Code of a call.
    Code,
}

/// How the model is asked for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Tool calls.
    Tools,
    /// One fenced Python block a reply.
    Text,
}

/// One whole reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The words, without the code of the calls.
    pub text: String,
    /// Code the model wants to run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
    /// What was wrong with the reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Tokens as counted by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tokens a second while writing, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Bytes of reasoning that came apart from the words.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_bytes: u64,
    /// Finish word of the server, empty if it sent none.
    #[serde(default)]
    pub finish: String,
}

/// Code the model wants to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Id in the history: nine letters or digits, made here (some templates accept nothing else).
    pub id: String,
    /// Python source.
    pub code: String,
    /// Time limit the model asked for, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// How the code was found in the reply.
    pub how: How,
    /// The text it was recovered from, where it was not a clean call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

/// How code was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A clean tool call.
    Call,
    /// A fenced block.
    Fence,
    /// Recovered from a broken or misplaced call; ran only because it compiles and was not cut.
    Recovered,
    /// Written by the person.
    User,
}

/// What is wrong with a reply that came whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Problem {
    /// No words and no call.
    Empty,
    /// The server swallowed a call: tokens were written, nothing arrived.
    LostCall,
    /// The token limit cut the reply inside code.
    Cut,
    /// A call that could not be read.
    BrokenCall {
        /// What could not be read.
        why: String,
    },
    /// A call was announced and not made.
    AnnouncedOnly,
}

/// Tokens of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read.
    pub prompt: u64,
    /// Tokens written.
    pub completion: u64,
}

/// Why the model could not be asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFailure {
    /// What kind, for decisions.
    pub kind: ModelFailureKind,
    /// What happened and what to do.
    #[serde(flatten)]
    pub failure: Failure,
    /// Words that had arrived before it broke off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial: String,
}

/// Kinds of model failure that are decided upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    /// Nothing answers at the address.
    Unreachable,
    /// The key was refused or is missing.
    Refused,
    /// The model is not there.
    NoModel,
    /// The server or the model cannot take tools: text mode helps.
    NoTools,
    /// The conversation is larger than the window: trimming helps once.
    TooLong,
    /// The server could not parse or sample a call: asking again may help.
    BadCall,
    /// The stream ended without its end.
    BrokeOff,
    /// The person stopped it.
    Interrupted,
    /// Anything else.
    Other,
}

/// What failed, why, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What failed, one line.
    pub what: String,
    /// Why, one line; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What to do, one line; empty if nothing is known to help.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Failure {
    /// A failure with its cause and remedy.
    pub fn new(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), hint: hint.into() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if !self.why.is_empty() {
            write!(f, ": {}", self.why)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Code that waits for approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// Step of the turn, from 1 over the whole session.
    pub step: u32,
    /// Attempt of the step, from 1.
    pub attempt: u32,
    /// Id of the call it answers.
    pub call: String,
    /// The code, to the byte.
    pub code: String,
    /// How it was found.
    pub how: How,
    /// The text it was recovered from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// What an approval would cover besides the text.
    pub terms: Terms,
    /// Time limit the model asked for, where the policy allows less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_seconds: Option<u64>,
}

impl Proposal {
    /// Whether it is the one a person was shown: step, attempt and call.
    pub fn is(&self, (step, attempt, call): (u32, u32, &str)) -> bool {
        self.step == step && self.attempt == attempt && self.call == call
    }
}

/// What an approval covers besides the bytes of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Time limit of the run, seconds.
    pub timeout_seconds: u64,
    /// Network setting.
    pub network: Network,
    /// Executor name.
    pub executor: String,
    /// Its tier.
    pub tier: String,
}

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamName {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A value in its forms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultBundle {
    /// Whether it is the value of the last expression (else it was displayed).
    #[serde(default)]
    pub last: bool,
    /// Text form; always there, at most 8 KiB.
    pub text: String,
    /// Table form of a DataFrame or Series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Table>,
    /// SHA-256 of the PNG form, a blob of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
}

/// The first rows and columns of a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Name and type of each column that is here, the index first.
    pub columns: Vec<(String, String)>,
    /// Cells as text, row by row, at most 200 × 50.
    pub rows: Vec<Vec<String>>,
    /// Rows of the whole table.
    pub total_rows: u64,
    /// Columns of the whole table, without the index.
    pub total_columns: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFinished {
    /// Which step.
    pub step: u32,
    /// Which attempt; 0 for a cell that ran again to have its variables back.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The rendering of `outcome` as an exit code.
    pub exit_code: i32,
    /// Wall time from the start of the code, milliseconds.
    pub took_ms: u64,
    /// Peak resident memory of the worker, bytes, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// The variables of earlier cells are gone.
    #[serde(default)]
    pub variables_lost: bool,
    /// Files the run made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What the model and the person should know: limits hit, files skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// SHA-256 of the kept standard output where it is longer than its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_blob: Option<String>,
    /// SHA-256 of the kept standard error where it is longer than its records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_blob: Option<String>,
}

/// A file a run made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// Plain name, no folder, no leading dot, no control characters.
    pub name: String,
    /// Size, bytes.
    pub bytes: u64,
}

/// How a run ended. Who kills records why before killing; user code may itself exit 124, 127 or 137.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The code ended by itself.
    Exited {
        /// 0 is success.
        code: i32,
    },
    /// A signal nobody here sent.
    Signaled {
        /// Signal number.
        signal: i32,
    },
    /// The wall clock ran out.
    TimeLimit,
    /// The CPU clock ran out.
    CpuLimit,
    /// The memory limit was hit.
    MemoryLimit,
    /// More was printed than is allowed.
    OutputLimit,
    /// The person stopped it.
    Cancelled,
    /// It could not be started.
    SetupFailed {
        /// What happened and what to do.
        #[serde(flatten)]
        failure: Failure,
        /// The backend is not there at all (exit code 127, else 126).
        #[serde(default)]
        missing: bool,
    },
    /// The sandbox went away.
    BackendLost {
        /// What happened and what to do.
        #[serde(flatten)]
        failure: Failure,
        /// The backend is not there at all (exit code 127, else 126).
        #[serde(default)]
        missing: bool,
    },
}

impl Outcome {
    /// The code ran and ended well.
    pub fn is_success(&self) -> bool {
        matches!(self, Outcome::Exited { code: 0 })
    }

    /// The rendering as a shell exit code (design §4).
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Exited { code } => *code,
            Outcome::Signaled { signal } => 128 + signal,
            Outcome::TimeLimit | Outcome::CpuLimit => 124,
            Outcome::MemoryLimit => 137,
            Outcome::OutputLimit => 153,
            Outcome::Cancelled => 130,
            Outcome::SetupFailed { missing, .. } | Outcome::BackendLost { missing, .. } => {
                if *missing {
                    127
                } else {
                    126
                }
            }
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// The model answered.
    Answered,
    /// Retries used up, or the same failure twice.
    Failed,
    /// The person rejected code without a reason.
    Rejected,
    /// The person stopped it.
    Stopped,
    /// Too many steps.
    StepLimit,
    /// The model failed.
    ModelError,
    /// The sandbox failed.
    SandboxError,
}

/// Kinds of notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// What is being waited for.
    Progress,
    /// Something the person should know.
    Warning,
    /// A reply could not be used and is asked for again.
    Reask,
    /// The way of asking for code changed to text mode.
    TextMode,
    /// Packages the code cannot import.
    PackagesMissing,
    /// Old rounds were left out of the request.
    Trimmed,
    /// The log was repaired on opening.
    Recovery,
}
