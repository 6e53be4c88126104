//! The state machine of a conversation: [`Session::step`] takes a fact and says what to do next. It is the only place
//! that decides (design §3, §4).
//!
//! Live, the driver performs the effects and turns what comes of them into events again; in a replay the same events are
//! stepped and the effects dropped. So the whole state must follow from the events alone.

use super::event::{Call, Event, How, Mode, NoteKind, Proposal, RebuildCell, SessionInfo, Terms, TurnStatus};
use super::fit::Fit;
use super::prompt;
use super::transcript::{Message, Prompt};

/// Replies that could not be used and are asked for again, per turn (design §5).
pub const MAX_REASKS: u32 = 2;

/// Calls taken from one reply: more is a model in a loop, not a plan.
const MAX_CALLS: usize = 16;

mod own;
mod rebuild;
mod replies;
mod runs;
mod turn;

use own::FailedTurn;
use rebuild::Rebuild;
use turn::{Running, Turn};

/// What the driver does next, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Record this fact, show it, and step it.
    Emit(Event),
    /// Ask the model.
    CallModel(Prompt),
    /// Run this code, exactly so. The driver records `run_started` and syncs the log before it tells the sandbox.
    Run(Run),
}

/// Approved code.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Which step.
    pub step: u32,
    /// Which attempt.
    pub attempt: u32,
    /// Number of the cell in the session.
    pub cell: u32,
    /// The text, to the byte as approved.
    pub code: String,
    /// What was approved with it.
    pub terms: Terms,
}

/// The state of a conversation.
#[derive(Debug, Default)]
pub struct Session {
    info: Option<Box<SessionInfo>>,
    mode: Option<Mode>,
    profile: String,
    /// Names of the input files.
    files: Vec<String>,
    transcript: Vec<Message>,
    fit: Fit,
    turn: Option<Turn>,
    steps: u32,
    cells: u32,
    /// What turned out not to be installed.
    missing: Vec<String>,
    /// Notes the model gets with the next result.
    pending_notes: Vec<String>,
    /// The last turn, where it ended with a failed step.
    failed: Option<FailedTurn>,
    /// Cells whose variables are in the present Python, or were in the one before the session was continued.
    accepted: Vec<RebuildCell>,
    rebuild: Option<Rebuild>,
    /// The session was continued, and nobody decided yet about its earlier cells.
    undecided: bool,
}

impl Session {
    /// Takes a fact and says what to do next. Facts that do not fit the state change nothing.
    pub fn step(&mut self, event: &Event) -> Vec<Effect> {
        match event {
            Event::SessionStarted(info) => {
                self.mode = Some(info.mode);
                self.info = Some(info.clone());
                Vec::new()
            }
            Event::SessionResumed(info) => self.resumed(info),
            Event::InputsListed { files, profile, names, .. } => {
                self.inputs_changed();
                self.profile = profile.clone();
                // Where not all are named, a name that is missing says nothing.
                self.files = if *files == names.len() as u64 { names.clone() } else { Vec::new() };
                Vec::new()
            }
            Event::UserSaid { text } => self.user_said(text),
            Event::ModelReplied(reply) => self.model_replied(reply),
            Event::ModelFailed(failure) => self.model_failed(failure),
            Event::CodeProposed(proposal) => {
                self.code_proposed(proposal);
                Vec::new()
            }
            Event::CodeApproved { step, attempt, call, edited, terms, .. } => {
                self.code_approved((*step, *attempt, call), edited.as_deref(), terms)
            }
            Event::TermsChanged { step, attempt, call, timeout_seconds } => {
                if let Some(proposal) = self.turn.as_mut().and_then(|t| t.proposed.as_mut())
                    && proposal.is((*step, *attempt, call))
                {
                    proposal.terms.timeout_seconds = *timeout_seconds;
                }
                Vec::new()
            }
            Event::CodeRejected { step, attempt, call, reason } => {
                self.code_rejected((*step, *attempt, call), reason.as_deref())
            }
            Event::RunOutput { step, stream, text, dropped } => {
                if let Some(running) = self.running(*step) {
                    running.heard.output(*stream, text, *dropped);
                }
                Vec::new()
            }
            Event::RunResult { step, result } => {
                if let Some(running) = self.running(*step) {
                    running.heard.result(&result.text);
                }
                Vec::new()
            }
            Event::RunFinished(finished) if self.is_rebuilding() => self.cell_rebuilt(finished),
            Event::RunFinished(finished) => self.run_finished(finished),
            Event::ModelChanged { model, base_url, mode, window } => {
                if let Some(info) = &mut self.info {
                    (info.model, info.base_url, info.window) = (model.clone(), base_url.clone(), *window);
                }
                self.mode = Some(*mode);
                Vec::new()
            }
            Event::LimitsChanged { timeout_seconds, max_retries, max_steps } => {
                if let Some(info) = &mut self.info {
                    info.policy.timeout_seconds = *timeout_seconds;
                    (info.max_retries, info.max_steps) = (*max_retries, *max_steps);
                }
                Vec::new()
            }
            Event::RebuildDecided { cells, approved, terms, .. } => self.rebuild_decided(cells, *approved, terms),
            Event::SandboxFailed { failure } => self.sandbox_failed(failure),
            Event::TurnEnded { status, answer, .. } => {
                self.turn_ended(*status, answer);
                Vec::new()
            }
            Event::Note { kind, text } => {
                self.noted(*kind, text);
                Vec::new()
            }
            Event::ModelDelta { .. }
            | Event::RunStarted { .. }
            | Event::ArtifactSaved { .. }
            | Event::SessionEnded { .. } => Vec::new(),
        }
    }

    /// Whether a turn is under way.
    pub fn in_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// The code that waits for approval.
    pub fn proposal(&self) -> Option<&Proposal> {
        self.turn.as_ref()?.proposed.as_ref()
    }

    /// What holds for the session now.
    pub fn info(&self) -> Option<&SessionInfo> {
        self.info.as_deref()
    }

    /// What an approval covers besides the code, as things stand.
    pub fn terms(&self) -> Option<Terms> {
        self.info().map(terms)
    }

    /// How code is asked for now.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Tools)
    }

    fn max_retries(&self) -> u32 {
        self.info.as_ref().map_or(3, |i| i.max_retries)
    }

    fn running(&mut self, step: u32) -> Option<&mut Running> {
        if self.is_rebuilding() {
            return None;
        }
        self.turn.as_mut()?.running.as_mut().filter(|r| r.proposal.step == step)
    }

    fn user_said(&mut self, text: &str) -> Vec<Effect> {
        if self.turn.is_some() || self.info.is_none() || self.is_rebuilding() {
            return Vec::new();
        }
        self.failed = None;
        if self.undecided {
            self.start_without_variables();
        }
        let missing = prompt::unknown_file(text, &self.files);
        let told = missing.map(|name| prompt::unknown_file_note(name, &self.files)).unwrap_or_default();
        self.transcript.push(Message::User(format!("{text}{told}{}", prompt::question_suffix(self.mode()))));
        self.turn = Some(Turn::new(text, self.transcript.len() - 1));
        let warning = missing.map(|name| note(NoteKind::Warning, format!("{name} is not among the input files")));
        let mut effects: Vec<Effect> = warning.into_iter().collect();
        effects.extend(self.ask_model());
        effects
    }

    fn ask_model(&mut self) -> Vec<Effect> {
        let (Some(info), Some(turn)) = (&self.info, &mut self.turn) else { return Vec::new() };
        turn.asking = true;
        let mode = self.mode.unwrap_or(info.mode);
        let system = prompt::system(info, mode, &self.profile, &self.missing);
        let max_tokens = prompt::reply_tokens(info.window);
        let (messages, trimmed) =
            self.fit.messages(system, &self.transcript, turn.question_at, info.window.saturating_sub(max_tokens));
        let mut effects = Vec::new();
        if trimmed > 0 {
            let text = format!("the context window is full: {trimmed} older messages are no longer sent to the model");
            effects.push(note(NoteKind::Trimmed, text));
        }
        effects.push(Effect::CallModel(Prompt {
            messages,
            mode,
            code_allowed: !turn.closing,
            tool: prompt::tool_description(info),
            warmer: std::mem::take(&mut turn.warmer),
            max_tokens,
        }));
        effects
    }

    fn turn_ended(&mut self, status: TurnStatus, answer: &str) {
        let Some(turn) = &mut self.turn else { return };
        let (proposed, running) = (turn.proposed.take(), turn.running.take());
        self.failed = (status == TurnStatus::Failed).then(|| FailedTurn::of(turn)).flatten();
        if let Some(proposal) = proposed.filter(|p| p.how != How::User) {
            self.transcript.push(not_run_id(&proposal.call, "not run: the turn ended"));
        }
        if let Some(running) = running {
            self.tell_unknown_end(&running);
        }
        self.answer_rest("the turn ended");
        let models_words = matches!(status, TurnStatus::Answered | TurnStatus::StepLimit | TurnStatus::ModelError);
        if models_words && !answer.trim().is_empty() {
            self.transcript.push(Message::Assistant { text: answer.to_string(), calls: Vec::new() });
        }
        if status == TurnStatus::SandboxError && self.cells > 0 {
            self.pending_notes.push("the sandbox failed in between: variables of earlier code may be gone".into());
            self.accepted.clear();
        }
        self.turn = None;
    }

    fn noted(&mut self, kind: NoteKind, text: &str) {
        match kind {
            NoteKind::PackagesMissing => {
                self.pending_notes.push(text.to_string());
                self.missing.push(text.to_string());
            }
            NoteKind::TextMode => self.mode = Some(Mode::Text),
            NoteKind::Progress | NoteKind::Warning | NoteKind::Reask | NoteKind::Trimmed | NoteKind::Recovery => {}
        }
    }
}

/// What an approval covers besides the code, as things stand.
fn terms(info: &SessionInfo) -> Terms {
    Terms {
        timeout_seconds: info.policy.timeout_seconds,
        network: info.policy.network.clone(),
        executor: info.executor.clone(),
        tier: info.tier.clone(),
    }
}

fn note(kind: NoteKind, text: impl Into<String>) -> Effect {
    Effect::Emit(Event::Note { kind, text: text.into() })
}

fn end(status: TurnStatus, answer: impl Into<String>, unrepaired: bool) -> Effect {
    Effect::Emit(Event::TurnEnded { status, answer: answer.into(), unrepaired })
}

fn not_run(call: &Call, why: &str) -> Message {
    not_run_id(&call.id, why)
}

fn not_run_id(id: &str, why: &str) -> Message {
    Message::ToolResult { call: id.to_string(), text: why.to_string(), failed: false }
}

#[cfg(test)]
mod tests;
