//! What happened, as the screen tells it: the chat, and every attempt of every step with its output. Folded from the records
//! alone, so that a replay shows what was seen live, and seeking is folding again.

use std::collections::VecDeque;

use crate::core::event::{
    Channel, Event, Failure, How, ModelFailureKind, NoteKind, Outcome, Proposal, Record, RunFinished, Terms,
    TurnStatus, Usage,
};
use crate::core::session::Session;

use super::chat::{Chat, Entry};
use super::output::RunOutput;
use super::theme::Role;

/// Runs before the last one keep little of their output in memory; all of it is in the log.
const WHOLE_RUNS: usize = 2;

/// What is kept of the output of all runs before those, bytes; the oldest is let go first. Some 500 runs that printed much.
const OLDER_RUNS: usize = 32 * 1024 * 1024;

/// Longest code shown while it is being written, bytes: a model in a loop writes for minutes.
const MAX_LIVE_CODE: usize = 256 * 1024;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It waits for approval.
    Waits,
    /// It was approved and did not begin yet, or could not.
    Approved,
    /// It runs.
    Runs,
    /// It was rejected.
    Rejected,
    /// The turn ended before it ran.
    NotRun,
    /// It ended well.
    Good,
    /// It failed.
    Bad(Outcome),
}

/// Characters of the last line a failed run printed, which says most of why.
const LAST_LINE: usize = 160;

/// One attempt of a step.
#[derive(Debug)]
pub struct Attempt {
    /// What was proposed.
    pub proposal: Proposal,
    /// What ran, where the person changed it.
    pub edited: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
    /// What it printed.
    pub output: RunOutput,
    /// When its code began, milliseconds of the session.
    pub began_ms: Option<u64>,
}

impl Attempt {
    /// The code that ran or would run.
    pub fn code(&self) -> &str {
        self.edited.as_deref().unwrap_or(&self.proposal.code)
    }
}

/// What is being waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The person.
    Idle,
    /// The first words of the model, since then.
    Model(u64),
    /// The rest of its reply: bytes of words, reasoning and code so far.
    Writing {
        /// When the first piece came.
        since_ms: u64,
        /// Bytes of words.
        words: usize,
        /// Bytes of reasoning.
        reasoning: usize,
        /// Bytes of code.
        code: usize,
    },
    /// An approval.
    Approval,
    /// The sandbox, before the code begins.
    Sandbox(u64),
    /// The end of a run: when it began, and its time limit in seconds.
    Run {
        /// When it began.
        since_ms: u64,
        /// Its limit.
        limit_s: u64,
    },
}

/// All of it.
#[derive(Debug)]
pub struct Story {
    /// The state of the conversation.
    pub session: Session,
    /// The left pane.
    pub chat: Chat,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
    /// Code the model is writing.
    pub live_code: String,
    /// What is being waited for.
    pub activity: Activity,
    /// A line about it, such as "loading model".
    pub progress: String,
    /// Tokens of the last exchange.
    pub usage: Option<Usage>,
    /// Tokens a second of the last reply.
    pub tokens_per_second: Option<f64>,
    /// Names of the input files.
    pub files: Vec<String>,
    /// Moment of the last record, milliseconds of the session.
    pub now_ms: u64,
    /// Somebody said or ran something, whatever the chat pane still shows of it.
    pub has_content: bool,
    /// The last question.
    pub question: String,
    /// How the last turn ended; nothing while one is under way.
    pub ended: Option<TurnStatus>,
    /// Why the sandbox could not run what was approved; it waits to be approved once more.
    pub stalled: Option<Failure>,
    running: Option<usize>,
    /// Runs whose output is whole, oldest first.
    whole: VecDeque<usize>,
    /// Runs of whose output little is kept, oldest first, and how many bytes.
    older: VecDeque<(usize, usize)>,
    /// Sum of those bytes.
    older_bytes: usize,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            session: Session::default(),
            chat: Chat::default(),
            attempts: Vec::new(),
            live_code: String::new(),
            activity: Activity::Idle,
            progress: String::new(),
            usage: None,
            tokens_per_second: None,
            files: Vec::new(),
            now_ms: 0,
            has_content: false,
            question: String::new(),
            ended: None,
            stalled: None,
            running: None,
            whole: VecDeque::new(),
            older: VecDeque::new(),
            older_bytes: 0,
        }
    }
}

impl Story {
    /// Takes a record in.
    pub fn fold(&mut self, record: &Record) {
        self.now_ms = record.at_ms;
        let waited = self.session.proposal().is_some();
        // What is to be done is done by the driver; here the state alone is of interest.
        drop(self.session.step(&record.event));
        match &record.event {
            Event::ModelDelta { channel, text } => self.delta(*channel, text),
            Event::RunOutput { stream, text, dropped, .. } => {
                if let Some(run) = self.run() {
                    run.output.text(*stream, text, *dropped);
                }
            }
            Event::RunResult { result, .. } => {
                if let Some(run) = self.run() {
                    run.output.result(result);
                }
            }
            // The approval did not fit what waits: it waits still.
            Event::CodeApproved { .. } if waited && self.session.proposal().is_some() => {}
            event => self.fact(event),
        }
    }

    /// The attempt that waits for approval.
    pub fn waiting(&self) -> Option<&Attempt> {
        let proposal = self.session.proposal()?;
        self.attempts.last().filter(|a| a.proposal.call == proposal.call)
    }

    /// The attempt of a step before this one.
    pub fn before(&self, at: usize) -> Option<&Attempt> {
        let step = self.attempts.get(at)?.proposal.step;
        self.attempts[..at].iter().rev().find(|a| a.proposal.step == step)
    }

    /// Retries used and allowed, while an attempt behind the first is at work.
    pub fn retries(&self) -> Option<(u32, u32)> {
        let attempt = self.attempts.last().filter(|_| self.session.in_turn())?.proposal.attempt;
        let allowed = self.session.info()?.max_retries;
        (attempt > 1).then(|| (attempt - 1, allowed))
    }

    fn run(&mut self) -> Option<&mut Attempt> {
        self.attempts.get_mut(self.running?)
    }

    fn delta(&mut self, channel: Channel, text: &str) {
        let (words, reasoning, code) = match channel {
            Channel::Text => (text.len(), 0, 0),
            Channel::Reasoning => (0, text.len(), 0),
            Channel::Code => (0, 0, text.len()),
        };
        self.activity = match self.activity {
            Activity::Writing { since_ms, words: w, reasoning: r, code: c } => {
                Activity::Writing { since_ms, words: w + words, reasoning: r + reasoning, code: c + code }
            }
            Activity::Idle | Activity::Model(_) | Activity::Approval | Activity::Sandbox(_) | Activity::Run { .. } => {
                Activity::Writing { since_ms: self.now_ms, words, reasoning, code }
            }
        };
        match channel {
            Channel::Text => self.chat.model_words(text),
            Channel::Reasoning => self.chat.reasoning(text.len()),
            Channel::Code if self.live_code.len() < MAX_LIVE_CODE => self.live_code.push_str(text),
            Channel::Code => {}
        }
    }

    fn fact(&mut self, event: &Event) {
        match event {
            Event::SessionStarted(info) => self.chat.push(Entry::began(info)),
            Event::SessionResumed(info) => {
                self.settle(Verdict::NotRun);
                self.activity = Activity::Idle;
                self.chat.push(Entry::resumed(info));
            }
            Event::InputsListed { files, bytes, names, .. } => {
                self.files.clone_from(names);
                self.chat.push(Entry::inputs(*files, *bytes));
            }
            Event::UserSaid { text } => {
                self.has_content = true;
                self.question.clone_from(text);
                self.ended = None;
                self.chat.push(Entry::person(text));
                self.wait_for_model();
            }
            Event::ModelReplied(reply) => {
                self.live_code.clear();
                self.usage = reply.usage.or(self.usage);
                self.tokens_per_second = reply.tokens_per_second.or(self.tokens_per_second);
                self.chat.model_replied(&reply.text, reply.reasoning_bytes);
                // What is made of it comes with the next record.
                self.wait_for_model();
            }
            Event::ModelFailed(failed) => {
                self.live_code.clear();
                self.chat.model_replied(&failed.partial, 0);
                if failed.kind != ModelFailureKind::Interrupted {
                    self.chat.push(Entry::failure(&failed.failure));
                }
                self.wait_for_model();
            }
            Event::CodeProposed(proposal) => self.proposed(proposal),
            Event::TermsChanged { timeout_seconds, .. } => {
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.proposal.terms.timeout_seconds = *timeout_seconds;
                }
            }
            Event::CodeApproved { edited, .. } => {
                self.stalled = None;
                if let Some(attempt) = self.attempts.last_mut() {
                    attempt.edited.clone_from(edited);
                    attempt.verdict = Verdict::Approved;
                }
                self.activity = Activity::Sandbox(self.now_ms);
            }
            Event::CodeRejected { reason, .. } => {
                self.stalled = None;
                self.settle(Verdict::Rejected);
                self.chat.push(Entry::rejected(reason.as_deref()));
                self.activity = if reason.is_some() { Activity::Model(self.now_ms) } else { Activity::Idle };
            }
            Event::RunStarted { step, attempt, terms, .. } => self.run_started(*step, *attempt, terms),
            Event::RunFinished(finished) => self.run_finished(finished),
            Event::SandboxFailed { failure } => self.chat.push(Entry::failure(failure)),
            Event::ArtifactSaved { path, bytes, .. } => self.chat.push(Entry::saved(path, *bytes)),
            Event::ModelChanged { model, .. } => self.chat.push(Entry::note(&format!("the model is {model} now"))),
            Event::LimitsChanged { timeout_seconds, max_retries, max_steps } => self.chat.push(Entry::note(&format!(
                "limits: {timeout_seconds} s a run, {max_retries} retries, {max_steps} steps"
            ))),
            Event::RebuildDecided { cells, approved, .. } => {
                let text = if *approved {
                    self.activity = Activity::Sandbox(self.now_ms);
                    match cells.len() {
                        1 => "running an earlier cell again".to_string(),
                        many => format!("running {many} earlier cells again"),
                    }
                } else {
                    "earlier cells are not run again: their variables are gone".to_string()
                };
                self.chat.push(Entry::note(&text));
            }
            Event::TurnEnded { status, answer, unrepaired } => {
                self.settle(Verdict::NotRun);
                self.live_code.clear();
                self.stalled = None;
                self.ended = Some(*status);
                self.activity = Activity::Idle;
                self.progress.clear();
                self.chat.turn_ended(*status, answer, *unrepaired);
            }
            Event::Note { kind: NoteKind::Progress, text } if self.session.in_turn() => {
                self.progress.clone_from(text);
            }
            Event::Note { kind, text } => {
                self.chat.push(Entry::warning(*kind, text));
                if *kind == NoteKind::Reask && self.session.in_turn() {
                    self.wait_for_model();
                }
            }
            Event::SessionEnded { .. } => self.settle(Verdict::NotRun),
            // Taken before.
            Event::ModelDelta { .. } | Event::RunOutput { .. } | Event::RunResult { .. } => {}
        }
    }

    fn wait_for_model(&mut self) {
        self.activity = Activity::Model(self.now_ms);
        self.progress.clear();
    }

    /// What waited or ran does so no more.
    fn settle(&mut self, verdict: Verdict) {
        self.cut_off();
        if let Some(attempt) = self.attempts.last_mut() {
            match attempt.verdict {
                Verdict::Waits | Verdict::Approved | Verdict::Runs => attempt.verdict = verdict,
                Verdict::Rejected | Verdict::NotRun | Verdict::Good | Verdict::Bad(_) => {}
            }
        }
    }

    /// The records end, or go on elsewhere, while code ran: nobody saw how that ended.
    pub fn cut_off(&mut self) {
        let Some(at) = self.running.take() else { return };
        if let Some(run) = self.attempts.get_mut(at) {
            run.output.cut_off();
            run.verdict = Verdict::NotRun;
            self.chat.step_became(at, "interrupted by a crash".into(), Role::Bad);
        }
        self.activity = Activity::Idle;
    }

    fn proposed(&mut self, proposal: &Proposal) {
        self.has_content = true;
        self.live_code.clear();
        self.settle(Verdict::NotRun);
        if proposal.how == How::User {
            self.ended = None;
        }
        self.attempts.push(Attempt {
            proposal: proposal.clone(),
            edited: None,
            verdict: Verdict::Waits,
            output: RunOutput::new(),
            began_ms: None,
        });
        self.chat.push(Entry::step(self.attempts.len() - 1, proposal));
        self.activity = Activity::Approval;
    }

    fn run_started(&mut self, step: u32, attempt: u32, terms: &Terms) {
        let at = if attempt == 0 {
            // A cell of before, run again: shown where it ran well.
            self.attempts.iter().rposition(|a| a.proposal.step == step && a.verdict == Verdict::Good)
        } else {
            self.attempts.iter().rposition(|a| a.proposal.step == step && a.proposal.attempt == attempt)
        };
        self.running = at;
        self.activity = Activity::Run { since_ms: self.now_ms, limit_s: terms.timeout_seconds };
        self.progress.clear();
        let Some(at) = at else { return };
        let now = self.now_ms;
        if let Some(run) = self.attempts.get_mut(at) {
            run.output = RunOutput::new();
            run.output.begin(now, terms.timeout_seconds);
            run.verdict = Verdict::Runs;
            if run.began_ms.replace(now).is_some() {
                // Not for the first time.
                self.whole.retain(|run| *run != at);
                self.older.retain(|(run, _)| *run != at);
                self.older_bytes = self.older.iter().map(|(_, bytes)| bytes).sum();
            }
        }
        self.whole.push_back(at);
        self.make_room();
    }

    /// Keeps less of runs that are not the newest.
    fn make_room(&mut self) {
        while self.whole.len() > WHOLE_RUNS
            && let Some(older) = self.whole.pop_front()
        {
            if let Some(run) = self.attempts.get_mut(older) {
                run.output.compact();
                let bytes = run.output.cost();
                self.older.push_back((older, bytes));
                self.older_bytes += bytes;
            }
        }
        while self.older_bytes > OLDER_RUNS
            && let Some((oldest, bytes)) = self.older.pop_front()
        {
            self.older_bytes -= bytes;
            if let Some(run) = self.attempts.get_mut(oldest) {
                run.output.let_go();
            }
        }
    }

    fn run_finished(&mut self, finished: &RunFinished) {
        let stalled = match &finished.outcome {
            Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => Some(failure),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::TimeLimit
            | Outcome::CpuLimit
            | Outcome::MemoryLimit
            | Outcome::OutputLimit
            | Outcome::Cancelled => None,
        };
        // One that could not begin has no `run_started`.
        let is = |a: &Attempt| (a.proposal.step, a.proposal.attempt) == (finished.step, finished.attempt);
        let at = self.running.take().or_else(|| self.attempts.iter().rposition(is));
        if let Some(run) = at.and_then(|at| self.attempts.get_mut(at)) {
            let printed = run.output.logical_text();
            let last = printed.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            run.output.finish(finished);
            run.verdict = match &finished.outcome {
                _ if stalled.is_some() => Verdict::Waits,
                outcome if outcome.is_success() => Verdict::Good,
                outcome => Verdict::Bad(outcome.clone()),
            };
            let (mut text, role) = became(finished);
            if matches!(finished.outcome, Outcome::Exited { code } if code != 0) && !last.is_empty() {
                let last: String = last.trim().chars().take(LAST_LINE).collect();
                text.push_str(&format!(": {last}"));
            }
            self.chat.step_became(at.unwrap_or_default(), text, role);
        }
        if let Some(failure) = stalled {
            self.chat.push(Entry::failure(failure));
        }
        self.stalled = stalled.filter(|_| self.session.proposal().is_some()).cloned();
        self.activity = match (self.stalled.is_some(), self.session.in_turn()) {
            (true, _) => Activity::Approval,
            (false, true) => Activity::Model(self.now_ms),
            (false, false) => Activity::Idle,
        };
    }
}

/// How a run ended, in a few words.
fn became(finished: &RunFinished) -> (String, Role) {
    let seconds = finished.took_ms as f64 / 1000.0;
    match &finished.outcome {
        Outcome::Exited { code: 0 } => (format!("ran well, {seconds:.2} s"), Role::Good),
        Outcome::Exited { code } => (format!("failed, exit {code}"), Role::Bad),
        Outcome::Signaled { signal } => (format!("ended by signal {signal}"), Role::Bad),
        Outcome::TimeLimit => ("hit the time limit".into(), Role::Bad),
        Outcome::CpuLimit => ("hit the processor time limit".into(), Role::Bad),
        Outcome::MemoryLimit => ("hit the memory limit".into(), Role::Bad),
        Outcome::OutputLimit => ("printed too much".into(), Role::Bad),
        Outcome::Cancelled => ("interrupted".into(), Role::Text),
        Outcome::SetupFailed { .. } => ("could not start".into(), Role::Bad),
        Outcome::BackendLost { .. } => ("the sandbox was lost".into(), Role::Bad),
    }
}

#[cfg(test)]
mod tests;
