//! Code on its way: proposed, approved or rejected, run, and what became of it.

use super::turn::{OpenStep, Running, normalised};
use super::{Effect, Run, Session, end, not_run, not_run_id, note, terms};
use crate::core::event::{
    Call, Event, Failure, How, Mode, NoteKind, Outcome, Proposal, RebuildCell, RunFinished, Terms, TurnStatus,
};
use crate::core::prompt;
use crate::core::render::{Heard, limit_note, model_output_bytes};
use crate::core::transcript::Message;

impl Session {
    /// What comes after a proposal was dealt with: the next call of the reply, a closing summary, or the model again.
    pub(super) fn next(&mut self) -> Vec<Effect> {
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
            terms: Terms { timeout_seconds: asked.map_or(allowed, |s| s.min(allowed)), ..terms(info) },
            asked_seconds: asked.filter(|s| *s > allowed),
        };
        vec![Effect::Emit(Event::CodeProposed(proposal))]
    }

    pub(super) fn close_at_step_limit(&mut self) -> Vec<Effect> {
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
    pub(super) fn answer_rest(&mut self, why: &str) {
        let Some(turn) = &mut self.turn else { return };
        for queued in turn.queue.drain(..) {
            self.transcript.push(not_run(&queued.call, &format!("not run: {why}")));
        }
    }

    /// What was proposed once is proposed, also where an older version of this program decided so: a log is folded by
    /// its facts.
    pub(super) fn code_proposed(&mut self, proposal: &Proposal) {
        if proposal.how == How::User {
            return self.own_code_proposed(proposal);
        }
        let Some(turn) = self.turn.as_mut().filter(|t| t.running.is_none()) else { return };
        turn.asking = false;
        turn.queue.retain(|q| q.call.id != proposal.call);
        if let Some(replaced) = turn.proposed.take().filter(|p| p.call != proposal.call && p.how != How::User) {
            self.transcript.push(not_run_id(&replaced.call, "not run: replaced by other code"));
        }
        if !self.awaits_result(&proposal.call) {
            self.answer_rest("replaced by other code");
            let Proposal { call, code, how, raw, .. } = proposal.clone();
            let call = Call { id: call, code, timeout_seconds: None, how, raw };
            self.transcript.push(Message::Assistant { text: String::new(), calls: vec![call] });
        }
        if let Some(turn) = &mut self.turn {
            turn.proposed = Some(proposal.clone());
        }
    }

    /// Whether the last reply holds this call and it has no result yet.
    fn awaits_result(&self, id: &str) -> bool {
        for message in self.transcript.iter().rev() {
            match message {
                Message::ToolResult { call, .. } if call == id => return false,
                Message::ToolResult { .. } => {}
                Message::Assistant { calls, .. } => return calls.iter().any(|c| c.id == id),
                Message::System(_) | Message::User(_) => return false,
            }
        }
        false
    }

    /// Nothing runs unless exactly what was proposed is approved, or an edit of it on the same terms.
    pub(super) fn code_approved(
        &mut self,
        shown: (u32, u32, &str),
        edited: Option<&str>,
        terms: &Terms,
    ) -> Vec<Effect> {
        let (Some(info), Some(turn)) = (&self.info, &mut self.turn) else { return Vec::new() };
        let Some(proposal) = turn.proposed.take_if(|p| p.is(shown) && p.terms == *terms) else {
            return vec![note(NoteKind::Warning, "an approval did not fit what is proposed; nothing was run")];
        };
        self.cells += 1;
        turn.stalled = None;
        let edited = edited.filter(|text| *text != proposal.code);
        let code = edited.unwrap_or(&proposal.code).to_string();
        let (step, attempt, _) = shown;
        let run = Run { step, attempt, cell: self.cells, code: code.clone(), terms: terms.clone() };
        let heard = Heard::new(model_output_bytes(info.window));
        turn.running = Some(Running { edited: edited.is_some(), code, heard, proposal });
        vec![Effect::Run(run)]
    }

    pub(super) fn code_rejected(&mut self, shown: (u32, u32, &str), reason: Option<&str>) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let Some(proposal) = turn.proposed.take_if(|p| p.is(shown)) else { return Vec::new() };
        let reason = reason.map(str::trim).filter(|r| !r.is_empty());
        let stalled = turn.stalled.take();
        if proposal.how == How::User {
            let (status, why) =
                stalled.map_or((TurnStatus::Rejected, String::new()), |w| (TurnStatus::SandboxError, w));
            return vec![end(status, why, false)];
        }
        if let (Some(why), None) = (stalled, reason) {
            self.transcript.push(not_run_id(&proposal.call, "not run: the sandbox was not available"));
            self.answer_rest("the sandbox was not available");
            return vec![end(TurnStatus::SandboxError, why, false)];
        }
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

    /// The variables of all earlier cells are gone with their Python.
    pub(super) fn variables_lost(&mut self) {
        if self.cells > 0 {
            self.pending_notes.push("Python was started anew: the variables of earlier code are gone".into());
        }
        self.accepted.clear();
    }

    /// The turn cannot go on; nothing is run again by itself.
    pub(super) fn sandbox_failed(&mut self, failure: &Failure) -> Vec<Effect> {
        if self.turn.is_none() {
            return Vec::new();
        }
        vec![end(TurnStatus::SandboxError, failure.to_string(), false)]
    }

    pub(super) fn run_finished(&mut self, finished: &RunFinished) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let Some(running) = turn.running.take_if(|r| r.proposal.step == finished.step) else { return Vec::new() };
        if finished.variables_lost {
            self.accepted.clear();
        }
        let Some(turn) = &mut self.turn else { return Vec::new() };
        match &finished.outcome {
            Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => {
                // Nothing is run again by itself: the person approves once more, or ends the turn.
                turn.stalled = Some(failure.to_string());
                turn.proposed = Some(running.proposal);
                if matches!(finished.outcome, Outcome::BackendLost { .. }) {
                    self.variables_lost();
                }
                Vec::new()
            }
            Outcome::Cancelled => {
                self.tell_result(&running, finished);
                self.answer_rest("interrupted by the user");
                vec![end(TurnStatus::Stopped, String::new(), false)]
            }
            Outcome::Exited { code: 0 } => {
                self.tell_result(&running, finished);
                self.accepted.push(RebuildCell { step: running.proposal.step, code: running.code.clone() });
                self.succeeded(&running);
                if running.proposal.how == How::User { self.own_code_ran() } else { self.next() }
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

    pub(super) fn succeeded(&mut self, running: &Running) {
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

    pub(super) fn failed(&mut self, running: &Running, finished: &RunFinished) -> Vec<Effect> {
        let max_runs = self.max_retries().saturating_add(1);
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
        // The person's own code is theirs to repair.
        let own = running.proposal.how == How::User;
        if !own && !stuck && runs < max_runs {
            return self.next();
        }
        self.answer_rest("the turn ended");
        let (times, last) = (if runs == 1 { "once".into() } else { format!("{runs} times") }, error.trim());
        let why = if stuck && !own { ": the same code failed with the same error again" } else { "" };
        let text = format!("The code of step {step} failed {times}{why}. Last error: {last}");
        vec![note(NoteKind::Warning, text.clone()), end(TurnStatus::Failed, text, false)]
    }

    /// The result as the model reads it.
    pub(super) fn tell_result(&mut self, running: &Running, finished: &RunFinished) {
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
        if running.proposal.how == How::User {
            let code = running.code.trim_end();
            text = format!("{}\n```python\n{code}\n```\n{text}", prompt::OWN_CODE);
        }
        if mode == Mode::Text {
            let question = self.turn.as_ref().map_or("", |t| t.question.as_str());
            let source = running.heard.error_source();
            text.push('\n');
            text.push_str(&prompt::after_run(question, failed, running.heard.is_silent(), source.as_deref()));
        }
        self.transcript.push(match running.proposal.how {
            How::User => Message::User(text),
            How::Call | How::Fence | How::Recovered => {
                Message::ToolResult { call: running.proposal.call.clone(), text, failed }
            }
        });
    }

    /// A run whose end nobody saw.
    pub(super) fn tell_unknown_end(&mut self, running: &Running) {
        if running.proposal.how != How::User {
            let why = "the turn ended before the end of the run was known";
            self.transcript.push(not_run_id(&running.proposal.call, why));
        }
    }
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
