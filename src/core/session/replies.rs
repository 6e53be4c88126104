//! What is made of a reply of the model, or of its failure.

use std::collections::{BTreeSet, VecDeque};

use super::turn::{Queued, normalised};
use super::{Effect, MAX_CALLS, MAX_REASKS, Session, end, not_run, note};
use crate::core::event::{Call, How, Mode, ModelFailure, ModelFailureKind, NoteKind, Problem, Reply, TurnStatus};
use crate::core::transcript::Message;
use crate::core::{numbers, prompt};

impl Session {
    pub(super) fn model_replied(&mut self, reply: &Reply) -> Vec<Effect> {
        if let Some(usage) = reply.usage {
            self.fit.calibrate(usage);
        }
        let Some(turn) = self.turn.as_mut().filter(|t| t.asking) else { return Vec::new() };
        turn.asking = false;
        if turn.closing {
            let answer = if reply.text.trim().is_empty() { turn.last_said.clone() } else { reply.text.clone() };
            return vec![end(TurnStatus::StepLimit, answer, !turn.open.is_empty())];
        }
        match (&reply.calls[..], &reply.problem) {
            ([], Some(problem)) => self.unusable_reply(reply, problem),
            ([], None) => self.answered(reply),
            ([_, ..], _) => self.calls_came(reply),
        }
    }

    /// Sorts the calls of a reply: quotations and too many are answered at once, the rest is proposed.
    fn calls_came(&mut self, reply: &Reply) -> Vec<Effect> {
        let mode = self.mode();
        let Some(turn) = &self.turn else { return Vec::new() };
        let mut calls = reply.calls.clone();
        // Ids are made here and differ; those of a log from elsewhere may not.
        let mut seen = BTreeSet::new();
        calls.retain(|c| seen.insert(c.id.clone()));
        let surplus = calls.split_off(calls.len().min(MAX_CALLS));
        if let Some(problem) = &reply.problem {
            // A call behind the good ones could not be read.
            self.pending_notes.push(prompt::problem_for_model(problem, mode));
        }
        let (old, new): (Vec<Call>, Vec<Call>) =
            calls.iter().cloned().partition(|c| turn.succeeded.contains(&normalised(&c.code)));
        if let (Mode::Text, [only], false) = (mode, &new[..], turn.restarted)
            && turn.has_failed(&only.code)
        {
            return self.restart();
        }
        let told = calls.into_iter().chain(surplus.iter().cloned()).collect();
        self.transcript.push(Message::Assistant { text: reply.text.clone(), calls: told });
        self.transcript.extend(surplus.iter().map(|c| not_run(c, prompt::TOO_MANY_CALLS)));
        let quoted = prompt::already_ran(&turn.question);
        self.transcript.extend(old.iter().map(|c| not_run(c, &quoted)));
        if new.is_empty() {
            return self.only_quoted(reply);
        }
        let mut effects = Vec::new();
        if let Some(problem) = &reply.problem {
            effects.push(note(NoteKind::Warning, prompt::problem_for_person(problem)));
        }
        if !surplus.is_empty() {
            effects.push(note(
                NoteKind::Warning,
                format!("{} calls beyond the first {MAX_CALLS} are not run", surplus.len()),
            ));
        }
        if mode == Mode::Tools && new.iter().any(is_fenced) {
            effects.push(self.switch_to_text("the model writes fenced code instead of calling the tool"));
        }
        effects.extend(self.take_calls(new));
        effects
    }

    /// Gives each call its step: the oldest open ones first, then new ones.
    pub(super) fn take_calls(&mut self, calls: Vec<Call>) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let mut open = turn.open.iter().map(|o| o.step).collect::<VecDeque<_>>();
        for call in calls {
            let queued = match open.pop_front() {
                Some(step) => Queued { step, nth: 0, call },
                None => {
                    self.steps = self.steps.saturating_add(1);
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
    pub(super) fn restart(&mut self) -> Vec<Effect> {
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
        self.transcript.retain_mut(|m| match m {
            Message::ToolResult { call, .. } => !failed.contains(call),
            Message::Assistant { calls, .. } if calls.is_empty() => true,
            Message::Assistant { calls, .. } => {
                calls.retain(|c| !failed.contains(&c.id));
                !calls.is_empty()
            }
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
    pub(super) fn only_quoted(&mut self, reply: &Reply) -> Vec<Effect> {
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
    pub(super) fn answered(&mut self, reply: &Reply) -> Vec<Effect> {
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

    pub(super) fn end_answered(&mut self, answer: String) -> Vec<Effect> {
        let unrepaired = self.turn.as_ref().is_some_and(|t| !t.open.is_empty());
        let mut effects = Vec::new();
        if unrepaired {
            effects.push(note(NoteKind::Warning, "the model answered although a step failed and was not repaired"));
        }
        effects.push(end(TurnStatus::Answered, answer, unrepaired));
        effects
    }

    /// A reply that cannot be used is asked for again, twice at most; calls lost twice lead to text mode.
    pub(super) fn unusable_reply(&mut self, reply: &Reply, problem: &Problem) -> Vec<Effect> {
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
    pub(super) fn give_up(&mut self, reply: &Reply, problem: &Problem) -> Vec<Effect> {
        let text = reply.text.trim();
        if !text.is_empty() && *problem == Problem::AnnouncedOnly {
            return self.end_answered(reply.text.clone());
        }
        vec![
            note(NoteKind::Warning, format!("{}, {} times", prompt::problem_for_person(problem), MAX_REASKS + 1)),
            end(TurnStatus::ModelError, reply.text.clone(), false),
        ]
    }

    pub(super) fn switch_to_text(&mut self, why: &str) -> Effect {
        self.mode = Some(Mode::Text);
        note(NoteKind::TextMode, format!("{why}: from now on it is asked for fenced code"))
    }

    pub(super) fn model_failed(&mut self, failure: &ModelFailure) -> Vec<Effect> {
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
        if failure.kind == ModelFailureKind::Interrupted {
            self.transcript.push(Message::User(prompt::STOPPED_REPLY.into()));
        }
        effects.push(end(status, String::new(), false));
        effects
    }
}

fn is_fenced(call: &Call) -> bool {
    match call.how {
        How::Fence => true,
        How::Recovered => call.raw.as_deref().is_some_and(|raw| raw.contains("```")),
        How::Call | How::User => false,
    }
}
