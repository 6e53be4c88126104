//! What a user interface and the task behind it say to each other: [`Command`]s go down, [`Update`]s come up. Both are plain
//! data, so that a test can write them down and a replay can stand in for a live session.

use std::path::PathBuf;
use std::sync::Arc;

use super::clean::Clean;
use super::event::{Failure, Record, Terms, TurnStatus};

/// An order from a user interface.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// The person says something; begins a turn.
    Say(String),
    /// Run what is proposed, as it is or edited, on exactly these terms.
    Approve {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// Id of the call whose code the person saw.
        call: String,
        /// The text to run where it was changed.
        edited: Option<String>,
        /// Who approves.
        by: String,
        /// What the person saw beside the code.
        terms: Terms,
    },
    /// Do not run what is proposed.
    Reject {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// Id of the call whose code the person saw.
        call: String,
        /// Sent to the model; without one the turn ends.
        reason: Option<String>,
    },
    /// Propose code of the person's own; it waits for approval like any other. Between turns only.
    Propose {
        /// The code.
        code: String,
        /// The failed step it repairs: if it runs well, the model goes on with the question of that step.
        repairs: Option<u32>,
    },
    /// Change the time limit of what is proposed, which is then shown and asked with it.
    Amend {
        /// Which step.
        step: u32,
        /// Which attempt.
        attempt: u32,
        /// Id of the call whose code the person saw.
        call: String,
        /// The time limit, seconds.
        timeout_seconds: u64,
    },
    /// Stop the reply or the run; a second one kills the run at once.
    Interrupt,
    /// Copy the files that were made so far into this folder.
    Save(PathBuf),
    /// Change what holds for the session from now on.
    Set(Change),
    /// Run the accepted cells of a continued session again, to have its variables back; or do not.
    Rebuild {
        /// They run.
        approved: bool,
        /// The cells the person was shown: `(step, code)`.
        cells: Vec<(u32, String)>,
        /// What the person saw beside them.
        terms: Terms,
    },
    /// Begin, after [`Update::Unsandboxed`] or [`Update::StartFailed`].
    Start {
        /// The person takes an executor that does not isolate.
        unsandboxed: bool,
        /// Another model than the configured one.
        model: Option<String>,
    },
    /// An order to a replay.
    Transport(Transport),
    /// A question that changes nothing in the session; the answer is an [`Update::Reply`] with the same number.
    Ask(u64, Question),
    /// End the session.
    Shutdown,
}

/// A change of what holds for a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Another model of the same server.
    Model(String),
    /// Time limit of the runs that are proposed from now on, seconds.
    Timeout(u64),
    /// Failed attempts sent back to the model, per step.
    MaxRetries(u32),
    /// Steps of a turn.
    MaxSteps(u32),
    /// A further input file or folder.
    Attach(PathBuf),
}

/// An order to a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transport {
    /// Play or pause.
    Toggle,
    /// One record on (`true`) or back.
    Step(bool),
    /// To the next mark (`true`) or the one before.
    Mark(bool),
    /// Twice as fast (`true`) or half.
    Faster(bool),
    /// To the start (`false`) or the end.
    End(bool),
    /// To a record.
    Seek(usize),
}

/// A question of a user interface.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// The models of the server.
    Models,
    /// Does this compile?
    Compile(String),
    /// The bytes of a blob of the session.
    Blob(String),
    /// Show a figure of the session, a blob, in the person's own viewer.
    OpenFigure(String),
    /// The sessions that are kept, newest first.
    Sessions,
    /// Give a session another title.
    Rename {
        /// Which session.
        id: String,
        /// Its new title; empty takes the first question again.
        title: String,
    },
    /// Delete a session.
    Delete(String),
    /// Write this session as a file.
    Export {
        /// `ipynb`, `py`, `md` or `cast`.
        format: String,
        /// Where to; nothing for a name made of the session's.
        path: Option<PathBuf>,
    },
    /// What the person typed in earlier sessions, oldest first.
    History,
    /// Keep what the person typed.
    Remember(String),
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Names.
    Models(Vec<String>),
    /// Line (from 1) and message of the first error; nothing if it compiles.
    Compiled(Option<(u32, String)>),
    /// Bytes of a blob.
    Blob(Arc<[u8]>),
    /// The sessions.
    Sessions(Vec<SessionRow>),
    /// Earlier texts.
    History(Vec<String>),
    /// It was done; a line that says what.
    Done(String),
    /// It could not be done.
    Failed(Failure),
}

/// What a picker shows of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// Name of the session.
    pub id: String,
    /// RFC 3339 time of the first record.
    pub started: Clean,
    /// Folder the person worked in.
    pub folder: Clean,
    /// Model at the start.
    pub model: Clean,
    /// Title or first question, one line.
    pub title: Clean,
    /// Questions, where known.
    pub turns: Option<u64>,
    /// How the last turn ended; nothing if it has not.
    pub status: Option<TurnStatus>,
    /// Size of the log, bytes.
    pub bytes: u64,
    /// Its program ended without closing it.
    pub crashed: bool,
    /// A program is writing to it.
    pub open: bool,
}

/// What the task behind a user interface tells it.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Facts, in order.
    Records(Vec<Arc<Record>>),
    /// Facts of an earlier part of a session that goes on, in order: they are shown, and nothing is done about them.
    Past(Vec<Arc<Record>>),
    /// Forget all facts; the session is told again from its start.
    Reset,
    /// What takes time before the session can begin.
    Starting(String),
    /// No executor isolates; the person is asked once whether to go on without. [`Command::Start`] answers.
    Unsandboxed {
        /// Why nothing isolates and how to get something that does.
        failure: Failure,
    },
    /// The session could not begin. [`Command::Start`] tries again.
    StartFailed {
        /// What failed, and what to do.
        failure: Failure,
        /// The models the server has, where the configured one is not among them.
        models: Vec<String>,
    },
    /// The accepted cells of a continued session, in order: `(step, code)`. [`Command::Rebuild`] answers.
    AskRebuild {
        /// Step and code of each.
        cells: Vec<(u32, String)>,
        /// On what terms they would run.
        terms: Terms,
    },
    /// Where a replay is.
    Position(Position),
    /// The answer to a question.
    Reply(u64, Answer),
    /// The task behind ended; nothing follows.
    Ended,
}

/// Where a replay is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Position {
    /// Records shown so far.
    pub at: usize,
    /// Records in all.
    pub total: usize,
    /// Moment of the last record shown, milliseconds, idle times shortened.
    pub at_ms: u64,
    /// Moment of the last record of all.
    pub end_ms: u64,
    /// It goes on by itself.
    pub playing: bool,
    /// Times the speed of the recording.
    pub speed: f64,
    /// Records that begin a question, an attempt or show a failure: index and kind.
    pub marks: Arc<[(usize, Mark)]>,
    /// What was wrong with the log, one line each.
    pub warnings: Arc<[String]>,
}

/// What is at a mark of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The person spoke.
    Question,
    /// Code was proposed.
    Attempt,
    /// A run or a turn failed.
    Failure,
}
