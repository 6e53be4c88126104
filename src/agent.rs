//! The driver: the one task that performs what [`Session::step`] decides, and turns what comes of it into records.
//!
//! It owns the log, the model stream and the sandbox of a session. User interfaces send it [`Command`]s and receive
//! [`Update`]s; nothing else is shared. It decides nothing itself.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use futures_util::stream::BoxStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub use crate::core::command::{Command, Update};
use crate::core::event::{
    Artifact, Channel, Event, Failure, ModelFailure, ModelFailureKind, NoteKind, Outcome, Proposal, Record, Reply,
    SCHEMA_VERSION, SessionInfo,
};
use crate::core::session::{Effect, Run, Session};
use crate::desk::Desk;
use crate::log::redact::Redactor;
use crate::log::writer::LogWriter;
use crate::model::{ChatModel, Delta, Draft};
use crate::sandbox::inputs::Inputs;
use crate::sandbox::{Executor, OpenRequest, Output, Sandbox, SetupError};

/// Input files named in the log, and to a model that opens one that is not there.
const NAMED_FILES: usize = 40;

/// How long the end of a run is waited for when the session ends.
const WIND_UP: Duration = Duration::from_secs(3);

/// What a session is made of.
pub struct Parts {
    /// What holds for the session.
    pub info: SessionInfo,
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// Called when the model turned out to need text mode.
    pub remember_text_mode: Box<dyn Fn() + Send>,
    /// Where code runs.
    pub executor: Arc<dyn Executor>,
    /// What the sandbox is opened with.
    pub open: OpenRequest,
    /// What the model is told about the inputs.
    pub profile: String,
    /// The log.
    pub log: LogWriter,
    /// Blacks out keys on their way into the log.
    pub redactor: Redactor,
    /// What a person may change while the session goes on.
    pub changes: Arc<dyn Changes>,
    /// Answers what has nothing to do with the conversation.
    pub desk: Desk,
    /// The records of a session that is continued; none for a new one.
    pub history: Vec<Record>,
}

/// What is made anew when the person changes a setting: whoever put the session together knows how.
pub trait Changes: Send + Sync {
    /// Connects to another model of the same server.
    fn connect(&self, model: String) -> BoxFuture<'static, Result<Connection, Failure>>;

    /// The models of the server.
    fn models(&self) -> BoxFuture<'static, Result<Vec<String>, Failure>>;

    /// All inputs, with a further file or folder, and what the model is told about them.
    fn attach(&self, path: PathBuf) -> BoxFuture<'static, Result<(Inputs, String), Failure>>;
}

/// A model that answers.
pub struct Connection {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// Called when it turned out to need text mode.
    pub remember_text_mode: Box<dyn Fn() + Send>,
    /// The fact to record.
    pub changed: Event,
    /// What the person should know.
    pub notes: Vec<String>,
}

mod batch;
mod changes;
mod gate;
mod runs;

use batch::Batch;
use changes::Changed;
use gate::{gate, ungated};

type Opening = Shared<BoxFuture<'static, Result<Arc<dyn Sandbox>, SetupError>>>;

/// Runs a session until it is told to shut down or nobody listens any more.
pub async fn run(parts: Parts, mut commands: mpsc::Receiver<Command>, updates: mpsc::Sender<Update>) {
    let (tell_changed, mut changed) = mpsc::channel(1);
    let mut agent = Agent {
        session: Session::default(),
        effects: VecDeque::new(),
        activity: Activity::Idle,
        sandbox: None,
        opener: None,
        started: Instant::now(),
        made: Vec::new(),
        seq: parts.log.next_seq(),
        updates,
        changes: parts.changes,
        tell_changed,
        desk: parts.desk,
        model: parts.model,
        remember_text_mode: parts.remember_text_mode,
        executor: parts.executor,
        open: parts.open,
        log: parts.log,
        redactor: parts.redactor,
    };
    agent.begin(parts.info, parts.profile, parts.history).await;
    loop {
        while let Some(effect) = agent.effects.pop_front() {
            agent.perform(effect).await;
        }
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                None | Some(Command::Shutdown) => break,
                Some(command) => agent.command(command).await,
            },
            Some(changed) = changed.recv() => agent.changed(changed).await,
            happened = next(&mut agent.activity) => agent.happened(happened).await,
        }
    }
    agent.end().await;
}

struct Agent {
    session: Session,
    effects: VecDeque<Effect>,
    activity: Activity,
    sandbox: Option<Opening>,
    /// The task that opens it.
    opener: Option<tokio::task::AbortHandle>,
    started: Instant,
    /// Files the runs made, with the step that made each.
    made: Vec<(u32, Artifact)>,
    /// Number of the next record.
    seq: u64,
    updates: mpsc::Sender<Update>,
    changes: Arc<dyn Changes>,
    /// What was made anew comes back here.
    tell_changed: mpsc::Sender<Changed>,
    desk: Desk,
    model: Arc<dyn ChatModel>,
    remember_text_mode: Box<dyn Fn() + Send>,
    executor: Arc<dyn Executor>,
    open: OpenRequest,
    log: LogWriter,
    redactor: Redactor,
}

/// What is being waited for.
enum Activity {
    Idle,
    /// The model writes.
    Thinking {
        stream: BoxStream<'static, Delta>,
        batch: Batch,
        said: String,
    },
    /// Code that was no clean call is compiled.
    Gating {
        gate: BoxFuture<'static, Result<Reply, SetupError>>,
        said: String,
    },
    /// The sandbox opens.
    Starting {
        run: Run,
        opening: Opening,
    },
    /// The log is put on the disk before the code runs.
    Syncing {
        run: Run,
        sandbox: Arc<dyn Sandbox>,
        barrier: BoxFuture<'static, Result<(), Failure>>,
    },
    /// Code runs.
    Running {
        run: Run,
        sandbox: Arc<dyn Sandbox>,
        output: mpsc::Receiver<Output>,
    },
}

enum Happened {
    Delta(Option<Delta>),
    BatchDue,
    Gated(Result<Reply, SetupError>),
    Opened(Result<Arc<dyn Sandbox>, SetupError>),
    Synced(Result<(), Failure>),
    Output(Option<Output>),
}

/// Waits for the next thing to happen. Dropping it loses nothing.
async fn next(activity: &mut Activity) -> Happened {
    match activity {
        Activity::Idle => std::future::pending().await,
        Activity::Thinking { stream, batch, .. } => match batch.due {
            Some(due) => tokio::select! {
                delta = stream.next() => Happened::Delta(delta),
                () = tokio::time::sleep_until(due) => Happened::BatchDue,
            },
            None => Happened::Delta(stream.next().await),
        },
        Activity::Gating { gate, .. } => Happened::Gated(gate.await),
        Activity::Starting { opening, .. } => Happened::Opened(opening.clone().await),
        Activity::Syncing { barrier, .. } => Happened::Synced(barrier.await),
        Activity::Running { output, .. } => Happened::Output(output.recv().await),
    }
}

impl Agent {
    async fn begin(&mut self, info: SessionInfo, profile: String, history: Vec<Record>) {
        if history.is_empty() {
            self.record(Event::SessionStarted(Box::new(info))).await;
        } else {
            self.tell_history(history).await;
            self.record(Event::SessionResumed(Box::new(info))).await;
        }
        self.list_inputs(profile).await;
        self.ask_rebuild().await;
    }

    async fn list_inputs(&mut self, profile: String) {
        let files = self.open.inputs.files.len() as u64;
        let bytes = self.open.inputs.files.iter().map(|f| f.bytes).sum();
        let names = self.open.inputs.files.iter().take(NAMED_FILES).map(|f| f.name.clone()).collect();
        self.record(Event::InputsListed { files, bytes, names, profile }).await;
        for text in self.open.inputs.notes.clone() {
            self.record(Event::Note { kind: NoteKind::Warning, text }).await;
        }
    }

    /// Winds up: what is under way is stopped and its end recorded.
    async fn end(mut self) {
        self.wind_up().await;
        // One that is still opening is given up, not waited for.
        if let Some(Ok(sandbox)) = self.sandbox.take().as_ref().and_then(|opening| opening.peek()) {
            sandbox.close().await;
        } else if let Some(opener) = self.opener.take() {
            opener.abort();
        }
        self.record(Event::SessionEnded { reason: "closed".into() }).await;
        let _ = self.log.close().await;
    }

    async fn wind_up(&mut self) {
        self.interrupt().await;
        let deadline = Instant::now() + WIND_UP;
        while let Activity::Running { run, sandbox, output, .. } = &mut self.activity {
            // Nobody waits for a gentle end any more.
            sandbox.interrupt();
            match tokio::time::timeout_at(deadline, output.recv()).await {
                Ok(piece) => self.output(piece).await,
                Err(_) => {
                    let run = run.clone();
                    self.finish_unstarted(&run, Outcome::Cancelled).await;
                }
            }
        }
        // Facts the core adds are still recorded; nothing new is begun.
        while let Some(effect) = self.effects.pop_front() {
            if let Effect::Emit(event) = effect {
                self.record(event).await;
            }
        }
    }

    /// Logs a fact, shows it, and takes what it asks for.
    async fn record(&mut self, event: Event) {
        let at_ms = self.started.elapsed().as_millis() as u64;
        let record = Record { v: SCHEMA_VERSION, seq: self.seq, at_ms, event };
        self.seq += 1;
        // A record that is not taken is missing for good: the numbers of the next ones do not follow, so that no barrier
        // holds any more and nothing runs.
        let _ = self.log.append(&Record { event: self.redactor.event(record.event.clone()), ..record }).await;
        let effects = self.session.step(&record.event);
        // Nobody listening is no reason to lose the log.
        let _ = self.updates.send(Update::Records(vec![Arc::new(record)])).await;
        self.effects.extend(effects);
    }

    async fn note(&mut self, kind: NoteKind, text: String) {
        self.record(Event::Note { kind, text }).await;
    }

    async fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Emit(event) => {
                let text_mode = matches!(event, Event::Note { kind: NoteKind::TextMode, .. });
                self.record(event).await;
                if text_mode {
                    (self.remember_text_mode)();
                }
            }
            Effect::CallModel(prompt) => {
                // Opened now, the sandbox is ready before the model has written its first line.
                drop(self.opening());
                let stream = self.model.stream(prompt);
                self.activity = Activity::Thinking { stream, batch: Batch::default(), said: String::new() };
            }
            Effect::Run(run) => {
                let opening = self.opening();
                self.activity = Activity::Starting { run, opening };
            }
        }
    }

    fn opening(&mut self) -> Opening {
        // One that failed while nothing waited for it says nothing about now.
        self.sandbox.take_if(|opening| matches!(opening.peek(), Some(Err(_))));
        let executor = &self.executor;
        let open = &self.open;
        let opener = &mut self.opener;
        let opening = self.sandbox.get_or_insert_with(|| {
            let opening = executor.open(open.clone()).map(|r| r.map(Arc::from)).boxed().shared();
            // Polled in the background too, or it would not begin before it is waited for.
            *opener = Some(tokio::spawn(opening.clone()).abort_handle());
            opening
        });
        opening.clone()
    }

    // ---- orders ------------------------------------------------------------------------------------------------------

    async fn command(&mut self, command: Command) {
        match command {
            Command::Say(text) if self.session.in_turn() || self.session.is_rebuilding() => {
                self.note(NoteKind::Warning, format!("not sent while something else goes on: {text}")).await;
            }
            Command::Say(text) => {
                self.record(Event::UserSaid { text }).await;
                self.sync().await;
            }
            Command::Approve { step, attempt, call, edited, by, terms } => {
                self.record(Event::CodeApproved { step, attempt, call, edited, by, terms }).await;
            }
            Command::Reject { step, attempt, call, reason } => {
                self.record(Event::CodeRejected { step, attempt, call, reason }).await;
            }
            Command::Interrupt => self.interrupt().await,
            Command::Save(folder) => self.save(folder).await,
            Command::Propose { code, repairs } => match self.session.own_proposal(&code, repairs) {
                Some(proposal) => self.record(Event::CodeProposed(proposal)).await,
                None => self.note(NoteKind::Warning, "your code was not taken: something else goes on".into()).await,
            },
            Command::Amend { step, attempt, call, timeout_seconds } => {
                self.record(Event::TermsChanged { step, attempt, call, timeout_seconds }).await;
            }
            Command::Set(change) => self.change(change).await,
            Command::Rebuild { approved, cells, terms } => self.rebuild(approved, &cells, terms).await,
            Command::Ask(id, question) => self.ask(id, question),
            // The session runs, and is no replay.
            Command::Start { .. } | Command::Transport(_) | Command::Shutdown => {}
        }
    }

    async fn interrupt(&mut self) {
        match &mut self.activity {
            Activity::Idle => {
                if let Some(Proposal { step, attempt, call, .. }) = self.session.proposal().cloned() {
                    self.record(Event::CodeRejected { step, attempt, call, reason: None }).await;
                }
            }
            Activity::Thinking { said, .. } | Activity::Gating { said, .. } => {
                let partial = std::mem::take(said);
                self.flush_batch().await;
                self.activity = Activity::Idle;
                let failure = Failure::new("the reply was stopped", "", "");
                let failed = ModelFailure { kind: ModelFailureKind::Interrupted, failure, partial };
                self.record(Event::ModelFailed(failed)).await;
            }
            Activity::Starting { run, .. } | Activity::Syncing { run, .. } => {
                let run = run.clone();
                self.finish_unstarted(&run, Outcome::Cancelled).await;
            }
            Activity::Running { sandbox, .. } => sandbox.interrupt(),
        }
    }

    // ---- what happened -----------------------------------------------------------------------------------------------

    async fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Delta(Some(delta)) => self.delta(delta).await,
            Happened::Delta(None) => {
                let failure = Failure::new("the model's reply has no end", "", "");
                self.delta(Delta::Failed(ModelFailure {
                    kind: ModelFailureKind::BrokeOff,
                    failure,
                    partial: String::new(),
                }))
                .await;
            }
            Happened::BatchDue => {
                if let Activity::Thinking { batch, .. } = &mut self.activity
                    && let Some(event) = batch.take_words()
                {
                    self.record(event).await;
                }
            }
            Happened::Gated(Ok(reply)) => {
                self.activity = Activity::Idle;
                self.record(Event::ModelReplied(Box::new(reply))).await;
            }
            Happened::Gated(Err(error)) => {
                self.activity = Activity::Idle;
                self.sandbox = None;
                self.explain(&error.failure).await;
                self.record(Event::SandboxFailed { failure: error.failure }).await;
            }
            Happened::Opened(opened) => self.opened(opened).await,
            Happened::Synced(synced) => self.synced(synced).await,
            Happened::Output(output) => self.output(output).await,
        }
    }

    async fn flush_batch(&mut self) {
        if let Activity::Thinking { batch, .. } = &mut self.activity
            && let Some(event) = batch.take()
        {
            self.record(event).await;
        }
    }

    async fn delta(&mut self, delta: Delta) {
        match delta {
            Delta::Status(text) => self.note(NoteKind::Progress, text).await,
            Delta::Warning(text) => self.note(NoteKind::Warning, text).await,
            Delta::Piece(channel, text) => {
                let Activity::Thinking { batch, said, .. } = &mut self.activity else { return };
                if channel == Channel::Text {
                    said.push_str(&text);
                }
                if let Some(event) = batch.push(channel, &text) {
                    self.record(event).await;
                }
            }
            Delta::Done(draft) => {
                self.flush_batch().await;
                self.drafted(*draft).await;
            }
            Delta::Failed(failure) => {
                self.flush_batch().await;
                self.activity = Activity::Idle;
                self.record(Event::ModelFailed(failure)).await;
            }
        }
    }

    async fn drafted(&mut self, draft: Draft) {
        if draft.candidates.iter().any(|c| c.gate) {
            let said = draft.reply.text.clone();
            let gate = gate(self.opening(), draft).boxed();
            self.activity = Activity::Gating { gate, said };
            return;
        }
        self.activity = Activity::Idle;
        let mut reply = draft.reply;
        reply.calls = draft.candidates.into_iter().filter_map(ungated).collect();
        self.record(Event::ModelReplied(Box::new(reply))).await;
    }
}
