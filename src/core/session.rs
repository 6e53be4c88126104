//! The state machine of a conversation: [`Session::step`] takes a fact and says what to do next. It is the only place
//! that decides (design §3, §4).
//!
//! Live, the driver performs the effects and turns what comes of them into events again; in a replay the same events are
//! stepped and the effects dropped. So the whole state must follow from the events alone.

use std::collections::{BTreeSet, VecDeque};

use super::event::{
    Call, Event, How, Mode, ModelFailure, ModelFailureKind, NoteKind, Outcome, Problem, Proposal, Reply, RunFinished,
    SessionInfo, Terms, TurnStatus,
};
use super::numbers;
use super::prompt;
use super::render::{Heard, limit_note, model_output_bytes};
use super::transcript::{Message, Prompt};

/// Replies that could not be used and are asked for again, per turn (design §5).
pub const MAX_REASKS: u32 = 2;

/// Calls taken from one reply: more is a model in a loop, not a plan.
const MAX_CALLS: usize = 16;

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
    fit: prompt::Fit,
    turn: Option<Turn>,
    steps: u32,
    cells: u32,
    /// Distributions that turned out not to be there.
    missing: Vec<String>,
    /// Notes the model gets with the next result.
    pending_notes: Vec<String>,
}

/// One turn: from what the person said to an end.
#[derive(Debug)]
struct Turn {
    /// The question.
    question: String,
    /// Where in the transcript it stands.
    question_at: usize,
    /// A request is under way; only then a reply or a failure counts.
    asking: bool,
    /// Calls of the present reply that were not proposed yet.
    queue: VecDeque<Queued>,
    proposed: Option<Proposal>,
    running: Option<Running>,
    /// Steps whose last run failed, oldest first.
    open: Vec<OpenStep>,
    /// Steps begun in this turn.
    steps: u32,
    reasks: u32,
    lost_calls: u32,
    /// Code that ran well in this turn, normalised.
    succeeded: Vec<String>,
    /// Output of the last run that ended well, in case the model finds no words.
    last_said: String,
    asked_for_words: bool,
    asked_to_compute: bool,
    asked_to_use_output: bool,
    /// The model repeated failed code and was asked anew, without seeing it.
    restarted: bool,
    /// Code tried to open a file that is not there.
    missed_file: bool,
    /// The next request is sampled less predictably.
    warmer: bool,
    /// The closing summary was asked for; the turn ends with the next reply.
    closing: bool,
    trimmed_for_server: bool,
}

#[derive(Debug)]
struct Queued {
    step: u32,
    /// Which step of the turn it is; 0 for a further attempt of an open one.
    nth: u32,
    call: Call,
}

#[derive(Debug)]
struct OpenStep {
    step: u32,
    runs: u32,
    /// Code and error of each failed run.
    failures: Vec<(String, String)>,
}

#[derive(Debug)]
struct Running {
    proposal: Proposal,
    code: String,
    heard: Heard,
    /// The code differs from what the model wrote.
    edited: bool,
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
            Event::InputsListed { profile, names, .. } => {
                self.profile = profile.clone();
                self.files = names.clone();
                Vec::new()
            }
            Event::UserSaid { text } => self.user_said(text),
            Event::ModelReplied(reply) => self.model_replied(reply),
            Event::ModelFailed(failure) => self.model_failed(failure),
            Event::CodeProposed(proposal) => {
                self.code_proposed(proposal);
                Vec::new()
            }
            Event::CodeApproved { step, attempt, edited, terms, .. } => {
                self.code_approved(*step, *attempt, edited.as_deref(), terms)
            }
            Event::CodeRejected { step, attempt, reason } => self.code_rejected(*step, *attempt, reason.as_deref()),
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
            Event::RunFinished(finished) => self.run_finished(finished),
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

    /// How code is asked for now.
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Tools)
    }

    /// Failed runs of the oldest open step and how often it may run in all.
    pub fn retries(&self) -> Option<(u32, u32)> {
        let open = self.turn.as_ref()?.open.first()?;
        Some((open.runs, 1 + self.max_retries()))
    }

    fn max_retries(&self) -> u32 {
        self.info.as_ref().map_or(3, |i| i.max_retries)
    }

    fn running(&mut self, step: u32) -> Option<&mut Running> {
        self.turn.as_mut()?.running.as_mut().filter(|r| r.proposal.step == step)
    }

    // ---- the person speaks -------------------------------------------------------------------------------------------

    fn user_said(&mut self, text: &str) -> Vec<Effect> {
        if self.turn.is_some() || self.info.is_none() {
            return Vec::new();
        }
        self.transcript.push(Message::User(format!("{text}{}", prompt::question_suffix(self.mode()))));
        self.turn = Some(Turn::new(text, self.transcript.len() - 1));
        self.ask_model()
    }

    // ---- the model answers -------------------------------------------------------------------------------------------

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

    fn model_replied(&mut self, reply: &Reply) -> Vec<Effect> {
        let mode = self.mode();
        if let Some(usage) = reply.usage {
            self.fit.calibrate(usage);
        }
        let Some(turn) = self.turn.as_mut().filter(|t| t.asking) else { return Vec::new() };
        turn.asking = false;
        if turn.closing {
            let answer = if reply.text.trim().is_empty() { turn.last_said.clone() } else { reply.text.clone() };
            return vec![end(TurnStatus::StepLimit, answer, !turn.open.is_empty())];
        }
        if reply.calls.is_empty() {
            return match &reply.problem {
                Some(problem) => self.unusable_reply(reply, problem),
                None => self.answered(reply),
            };
        }
        let mut calls = reply.calls.clone();
        calls.truncate(MAX_CALLS);
        let (old, new): (Vec<Call>, Vec<Call>) =
            calls.iter().cloned().partition(|c| turn.succeeded.contains(&normalised(&c.code)));
        if mode == Mode::Text && !turn.restarted && new.first().is_some_and(|c| turn.has_failed(&c.code)) {
            return self.restart();
        }
        self.transcript.push(Message::Assistant { text: reply.text.clone(), calls });
        let quoted = prompt::already_ran(&turn.question);
        self.transcript.extend(old.iter().map(|c| not_run(c, &quoted)));
        if new.is_empty() {
            return self.only_quoted(reply);
        }
        let mut effects = Vec::new();
        if mode == Mode::Tools && new.iter().any(is_fenced) {
            effects.push(self.switch_to_text("the model writes fenced code instead of calling the tool"));
        }
        effects.extend(self.take_calls(new));
        effects
    }

    /// Gives each call its step: the oldest open ones first, then new ones.
    fn take_calls(&mut self, calls: Vec<Call>) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let mut open = turn.open.iter().map(|o| o.step).collect::<VecDeque<_>>();
        for call in calls {
            let queued = match open.pop_front() {
                Some(step) => Queued { step, nth: 0, call },
                None => {
                    self.steps += 1;
                    turn.steps += 1;
                    Queued { step: self.steps, nth: turn.steps, call }
                }
            };
            turn.queue.push_back(queued);
        }
        self.next()
    }

    /// A small model that sees its failed code copies it. So what failed in this turn is hidden from it, and it is asked
    /// once more: measured with a 1.5 B model, this repairs where telling it again does not.
    fn restart(&mut self) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        (turn.restarted, turn.warmer) = (true, true);
        let before = turn.question_at;
        let failed: BTreeSet<String> = self.transcript[before..]
            .iter()
            .filter_map(|m| match m {
                Message::ToolResult { call, failed: true, .. } => Some(call.clone()),
                Message::ToolResult { .. } | Message::System(_) | Message::User(_) | Message::Assistant { .. } => None,
            })
            .collect();
        self.transcript.retain(|m| match m {
            Message::ToolResult { call, .. } => !failed.contains(call),
            Message::Assistant { calls, .. } => calls.is_empty() || calls.iter().any(|c| !failed.contains(&c.id)),
            Message::System(_) | Message::User(_) => true,
        });
        self.fit.rewind(before);
        if turn.missed_file {
            self.transcript.push(Message::User(prompt::files_note(&self.files)));
        }
        let mut effects = vec![note(NoteKind::Reask, "the model repeated code that failed; asking it to start afresh")];
        effects.extend(self.ask_model());
        effects
    }

    /// The reply held only code that already ran well.
    fn only_quoted(&mut self, reply: &Reply) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        if turn.asked_for_words {
            let answer = if reply.text.trim().is_empty() { turn.last_said.clone() } else { reply.text.clone() };
            return self.end_answered(answer);
        }
        turn.asked_for_words = true;
        let mut effects =
            vec![note(NoteKind::Reask, "the model repeated code that already ran; asking for the answer in words")];
        effects.extend(self.ask_model());
        effects
    }

    /// Words without code are the answer, unless they are a guess: then it is asked once to compute, or to use what was
    /// computed.
    fn answered(&mut self, reply: &Reply) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let takes_computing = !self.profile.is_empty() || numbers::has_number(&turn.question);
        let guess = turn.steps == 0 && takes_computing && numbers::has_number(&reply.text);
        let (why, ask) = if guess && !turn.asked_to_compute {
            turn.asked_to_compute = true;
            (
                "the model answered without running any code; asking it to compute",
                prompt::please_compute(self.mode()).into(),
            )
        } else if !turn.asked_to_use_output && !numbers::rests_on(&reply.text, &turn.last_said) {
            turn.asked_to_use_output = true;
            let ask = prompt::please_use_output(&turn.question, &turn.last_said);
            ("the answer holds none of the numbers that were printed; asking again", ask)
        } else {
            return self.end_answered(reply.text.clone());
        };
        // A guess the model can see leaks into its code, so it is asked as if it had said nothing.
        self.transcript.push(Message::User(ask));
        let mut effects = vec![note(NoteKind::Reask, why)];
        effects.extend(self.ask_model());
        effects
    }

    fn end_answered(&mut self, answer: String) -> Vec<Effect> {
        let unrepaired = self.turn.as_ref().is_some_and(|t| !t.open.is_empty());
        let mut effects = Vec::new();
        if unrepaired {
            effects.push(note(NoteKind::Warning, "the model answered although a step failed and was not repaired"));
        }
        effects.push(end(TurnStatus::Answered, answer, unrepaired));
        effects
    }

    /// A reply that cannot be used is asked for again, twice at most; calls lost twice lead to text mode.
    fn unusable_reply(&mut self, reply: &Reply, problem: &Problem) -> Vec<Effect> {
        let mode = self.mode();
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let lost = matches!(problem, Problem::LostCall | Problem::BrokenCall { .. });
        turn.lost_calls += u32::from(lost);
        if turn.reasks >= MAX_REASKS {
            return self.give_up(reply, problem);
        }
        turn.reasks += 1;
        let lost_calls = turn.lost_calls;
        let mut effects = vec![note(NoteKind::Reask, prompt::problem_for_person(problem))];
        if mode == Mode::Tools && lost_calls >= 2 {
            effects.push(self.switch_to_text("tool calls of this model get lost"));
        }
        if !reply.text.trim().is_empty() {
            self.transcript.push(Message::Assistant { text: reply.text.clone(), calls: Vec::new() });
        }
        self.transcript.push(Message::User(prompt::problem_for_model(problem, self.mode())));
        effects.extend(self.ask_model());
        effects
    }

    /// The re-asks are used up: words are better than nothing, silence is an error.
    fn give_up(&mut self, reply: &Reply, problem: &Problem) -> Vec<Effect> {
        let text = reply.text.trim();
        if !text.is_empty() && *problem == Problem::AnnouncedOnly {
            return self.end_answered(reply.text.clone());
        }
        vec![
            note(NoteKind::Warning, format!("{}, {} times", prompt::problem_for_person(problem), MAX_REASKS + 1)),
            end(TurnStatus::ModelError, reply.text.clone(), false),
        ]
    }

    fn switch_to_text(&mut self, why: &str) -> Effect {
        self.mode = Some(Mode::Text);
        note(NoteKind::TextMode, format!("{why}: from now on it is asked for fenced code"))
    }

    fn model_failed(&mut self, failure: &ModelFailure) -> Vec<Effect> {
        let mode = self.mode();
        let Some(turn) = self.turn.as_mut().filter(|t| t.asking) else { return Vec::new() };
        turn.asking = false;
        let (status, mut effects) = match failure.kind {
            ModelFailureKind::NoTools if mode == Mode::Tools => {
                let mut effects = vec![self.switch_to_text("this model or server takes no tools")];
                effects.extend(self.ask_model());
                return effects;
            }
            ModelFailureKind::TooLong if !turn.trimmed_for_server => {
                turn.trimmed_for_server = true;
                self.fit.shrink();
                return self.ask_model();
            }
            ModelFailureKind::BadCall if turn.reasks < MAX_REASKS => {
                turn.reasks += 1;
                let mut effects = vec![note(NoteKind::Reask, "the server could not read the model's call")];
                if turn.reasks > 1 && mode == Mode::Tools {
                    effects.push(self.switch_to_text("the server cannot read this model's calls"));
                }
                effects.extend(self.ask_model());
                return effects;
            }
            ModelFailureKind::Interrupted => (TurnStatus::Stopped, Vec::new()),
            ModelFailureKind::NoTools
            | ModelFailureKind::TooLong
            | ModelFailureKind::BadCall
            | ModelFailureKind::Unreachable
            | ModelFailureKind::Refused
            | ModelFailureKind::NoModel
            | ModelFailureKind::BrokeOff
            | ModelFailureKind::Other => (TurnStatus::ModelError, Vec::new()),
        };
        if !failure.partial.trim().is_empty() {
            self.transcript.push(Message::Assistant { text: failure.partial.clone(), calls: Vec::new() });
        }
        effects.push(end(status, String::new(), false));
        effects
    }

    // ---- code is proposed, approved, run -----------------------------------------------------------------------------

    /// What comes after a proposal was dealt with: the next call of the reply, a closing summary, or the model again.
    fn next(&mut self) -> Vec<Effect> {
        let (Some(info), Some(turn)) = (&self.info, &mut self.turn) else { return Vec::new() };
        let Some(queued) = turn.queue.pop_front() else { return self.ask_model() };
        let attempt = turn.open.iter().find(|o| o.step == queued.step).map_or(0, |o| o.runs) + 1;
        if queued.nth > info.max_steps {
            turn.queue.push_front(queued);
            return self.close_at_step_limit();
        }
        let allowed = info.policy.timeout_seconds;
        let asked = queued.call.timeout_seconds.filter(|s| *s > 0);
        let proposal = Proposal {
            step: queued.step,
            attempt,
            call: queued.call.id,
            code: queued.call.code,
            how: queued.call.how,
            raw: queued.call.raw,
            terms: Terms {
                timeout_seconds: asked.map_or(allowed, |s| s.min(allowed)),
                network: info.policy.network.clone(),
                executor: info.executor.clone(),
                tier: info.tier.clone(),
            },
            asked_seconds: asked.filter(|s| *s > allowed),
        };
        vec![Effect::Emit(Event::CodeProposed(proposal))]
    }

    fn close_at_step_limit(&mut self) -> Vec<Effect> {
        self.answer_rest("the limit of steps is reached");
        let Some(turn) = &mut self.turn else { return Vec::new() };
        turn.closing = true;
        self.transcript.push(Message::User(prompt::SUMMARISE.into()));
        let mut effects =
            vec![note(NoteKind::Warning, "the limit of steps is reached; asking the model for a summary")];
        effects.extend(self.ask_model());
        effects
    }

    /// Every call id gets its result, also those that will not run.
    fn answer_rest(&mut self, why: &str) {
        let Some(turn) = &mut self.turn else { return };
        for queued in turn.queue.drain(..) {
            self.transcript.push(not_run(&queued.call, &format!("not run: {why}")));
        }
    }

    fn code_proposed(&mut self, proposal: &Proposal) {
        if let Some(turn) = &mut self.turn
            && turn.running.is_none()
            && !turn.asking
        {
            turn.proposed = Some(proposal.clone());
        }
    }

    /// Nothing runs unless exactly what was proposed is approved, or an edit of it on the same terms.
    fn code_approved(&mut self, step: u32, attempt: u32, edited: Option<&str>, terms: &Terms) -> Vec<Effect> {
        let (Some(info), Some(turn)) = (&self.info, &mut self.turn) else { return Vec::new() };
        let fits = |p: &Proposal| p.step == step && p.attempt == attempt && p.terms == *terms;
        let Some(proposal) = turn.proposed.take_if(|p| fits(p)) else {
            return vec![note(NoteKind::Warning, "an approval did not fit what is proposed; nothing was run")];
        };
        self.cells += 1;
        let edited = edited.filter(|text| *text != proposal.code);
        let code = edited.unwrap_or(&proposal.code).to_string();
        let run = Run { step, attempt, cell: self.cells, code: code.clone(), terms: terms.clone() };
        let heard = Heard::new(model_output_bytes(info.window));
        turn.running = Some(Running { edited: edited.is_some(), code, heard, proposal });
        vec![Effect::Run(run)]
    }

    fn code_rejected(&mut self, step: u32, attempt: u32, reason: Option<&str>) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let fits = |p: &Proposal| p.step == step && p.attempt == attempt;
        let Some(proposal) = turn.proposed.take_if(|p| fits(p)) else { return Vec::new() };
        let reason = reason.map(str::trim).filter(|r| !r.is_empty());
        self.transcript.push(Message::ToolResult {
            call: proposal.call,
            text: prompt::rejected(reason),
            failed: false,
        });
        self.answer_rest("the user rejected the code before it");
        match reason {
            Some(_) => self.ask_model(),
            None => vec![end(TurnStatus::Rejected, String::new(), false)],
        }
    }

    fn run_finished(&mut self, finished: &RunFinished) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let Some(running) = turn.running.take_if(|r| r.proposal.step == finished.step) else { return Vec::new() };
        match &finished.outcome {
            Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => {
                let why = failure.to_string();
                self.transcript.push(not_run_id(&running.proposal.call, "not run: the sandbox was not available"));
                self.answer_rest("the sandbox was not available");
                vec![end(TurnStatus::SandboxError, why, false)]
            }
            Outcome::Cancelled => {
                self.tell_result(&running, finished);
                self.answer_rest("interrupted by the user");
                vec![end(TurnStatus::Stopped, String::new(), false)]
            }
            Outcome::Exited { code: 0 } => {
                self.tell_result(&running, finished);
                self.succeeded(&running);
                self.next()
            }
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimeLimit
            | Outcome::CpuLimit
            | Outcome::MemoryLimit
            | Outcome::OutputLimit => {
                self.tell_result(&running, finished);
                self.failed(&running, finished)
            }
        }
    }

    fn succeeded(&mut self, running: &Running) {
        let Some(turn) = &mut self.turn else { return };
        turn.open.retain(|o| o.step != running.proposal.step);
        turn.succeeded.push(normalised(&running.code));
        if running.edited {
            // The model will quote its own text, not the edit.
            turn.succeeded.push(normalised(&running.proposal.code));
        }
        if !running.heard.is_silent() {
            turn.last_said = running.heard.said();
        }
    }

    fn failed(&mut self, running: &Running, finished: &RunFinished) -> Vec<Effect> {
        let max_runs = 1 + self.max_retries();
        let (step, error) = (running.proposal.step, error_line(running, finished));
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let failure = (normalised(&running.code), error.clone());
        let at = turn.open.iter().position(|o| o.step == step).unwrap_or_else(|| {
            turn.open.push(OpenStep { step, runs: 0, failures: Vec::new() });
            turn.open.sort_by_key(|o| o.step);
            turn.open.iter().position(|o| o.step == step).unwrap_or_default()
        });
        let open = &mut turn.open[at];
        open.runs += 1;
        let stuck = open.failures.contains(&failure);
        open.failures.push(failure);
        let runs = open.runs;
        if !stuck && runs < max_runs {
            return self.next();
        }
        self.answer_rest("the turn ended");
        let (times, last) = (if runs == 1 { "once".into() } else { format!("{runs} times") }, error.trim());
        let why = if stuck { ": the same code failed with the same error again" } else { "" };
        let text = format!("The code of step {step} failed {times}{why}. Last error: {last}");
        vec![note(NoteKind::Warning, text.clone()), end(TurnStatus::Failed, text, false)]
    }

    /// The result as the model reads it.
    fn tell_result(&mut self, running: &Running, finished: &RunFinished) {
        let mode = self.mode();
        let Some(info) = &self.info else { return };
        let failed = !finished.outcome.is_success();
        let mut notes = Vec::new();
        notes.extend(limit_note(&finished.outcome, &info.policy, running.proposal.terms.timeout_seconds));
        if let Some(asked) = running.proposal.asked_seconds {
            notes.push(format!("you asked for {asked} s; the limit is {} s", info.policy.timeout_seconds));
        }
        notes.extend(finished.notes.iter().cloned());
        if !finished.artifacts.is_empty() {
            let names: Vec<_> = finished.artifacts.iter().map(|a| a.name.as_str()).collect();
            notes.push(format!("files kept: {}", names.join(", ")));
        }
        if finished.variables_lost {
            notes.push("the variables of earlier code are gone; define again what is needed".into());
        }
        if running.heard.last_error().starts_with("FileNotFoundError") && !self.files.is_empty() {
            notes.push(prompt::files_note(&self.files));
            if let Some(turn) = &mut self.turn {
                turn.missed_file = true;
            }
        }
        if running.edited {
            notes.push(format!("the user changed the code before it ran; this ran:\n{}", running.code.trim_end()));
        }
        notes.append(&mut self.pending_notes);
        let mut text = running.heard.message(finished.exit_code, &notes);
        if mode == Mode::Text {
            let question = self.turn.as_ref().map_or("", |t| t.question.as_str());
            let source = running.heard.error_source();
            text.push('\n');
            text.push_str(&prompt::after_run(question, failed, running.heard.is_silent(), source.as_deref()));
        }
        self.transcript.push(Message::ToolResult { call: running.proposal.call.clone(), text, failed });
    }

    // ---- the rest ----------------------------------------------------------------------------------------------------

    fn turn_ended(&mut self, status: TurnStatus, answer: &str) {
        if self.turn.is_none() {
            return;
        }
        if let Some(proposal) = self.turn.as_mut().and_then(|t| t.proposed.take()) {
            self.transcript.push(not_run_id(&proposal.call, "not run: the turn ended"));
        }
        if let Some(running) = self.turn.as_mut().and_then(|t| t.running.take()) {
            self.transcript
                .push(not_run_id(&running.proposal.call, "the turn ended before the end of the run was known"));
        }
        self.answer_rest("the turn ended");
        if !answer.trim().is_empty() && status != TurnStatus::SandboxError {
            self.transcript.push(Message::Assistant { text: answer.to_string(), calls: Vec::new() });
        }
        self.turn = None;
    }

    fn noted(&mut self, kind: NoteKind, text: &str) {
        match kind {
            NoteKind::PackagesMissing => self.pending_notes.push(text.to_string()),
            NoteKind::TextMode => self.mode = Some(Mode::Text),
            NoteKind::Progress | NoteKind::Warning | NoteKind::Reask | NoteKind::Trimmed | NoteKind::Recovery => {}
        }
    }
}

impl Turn {
    fn new(question: &str, question_at: usize) -> Self {
        Self {
            question: question.to_string(),
            question_at,
            asking: false,
            queue: VecDeque::new(),
            proposed: None,
            running: None,
            open: Vec::new(),
            steps: 0,
            reasks: 0,
            lost_calls: 0,
            succeeded: Vec::new(),
            last_said: String::new(),
            asked_for_words: false,
            asked_to_compute: false,
            asked_to_use_output: false,
            restarted: false,
            missed_file: false,
            warmer: false,
            closing: false,
            trimmed_for_server: false,
        }
    }
}

impl Turn {
    /// Whether this code ran and failed in a step that is still open.
    fn has_failed(&self, code: &str) -> bool {
        let code = normalised(code);
        self.open.iter().flat_map(|o| &o.failures).any(|(failed, _)| *failed == code)
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

fn is_fenced(call: &Call) -> bool {
    match call.how {
        How::Fence => true,
        How::Recovered => call.raw.as_deref().is_some_and(|raw| raw.contains("```")),
        How::Call | How::User => false,
    }
}

/// Code without what makes no difference when it is quoted: blank lines and space at the ends of lines.
fn normalised(code: &str) -> String {
    code.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n")
}

fn error_line(running: &Running, finished: &RunFinished) -> String {
    let line = running.heard.last_error();
    match &finished.outcome {
        Outcome::Exited { code } if line.is_empty() => format!("exit code {code}"),
        Outcome::Exited { .. } => line,
        Outcome::Signaled { signal } => format!("ended by signal {signal}"),
        Outcome::TimeLimit => "the time limit was reached".into(),
        Outcome::CpuLimit => "the processor time limit was reached".into(),
        Outcome::MemoryLimit => "the memory limit was exceeded".into(),
        Outcome::OutputLimit => "too much was printed".into(),
        Outcome::Cancelled => "interrupted".into(),
        Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => failure.to_string(),
    }
}

#[cfg(test)]
mod tests;
