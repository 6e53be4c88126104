//! Code of the person's own, run in the session: between turns, or as the repair of a step the model could not repair.

use super::turn::Turn;
use super::{Effect, Session, end, terms};
use crate::core::event::{How, Proposal, TurnStatus};

/// A turn that ended with a failed step, in case the person repairs it.
#[derive(Debug)]
pub(super) struct FailedTurn {
    question: String,
    question_at: usize,
    step: u32,
    runs: u32,
}

impl FailedTurn {
    /// What is kept of a turn that failed; nothing where no step is open.
    pub(super) fn of(turn: &Turn) -> Option<Self> {
        let open = turn.open.first()?;
        Some(Self { question: turn.question.clone(), question_at: turn.question_at, step: open.step, runs: open.runs })
    }
}

impl Session {
    /// The step that failed at the end of the last turn, which the person may repair.
    pub fn repairable(&self) -> Option<u32> {
        self.failed.as_ref().map(|f| f.step)
    }

    /// The question of that turn; empty where the code was the person's own.
    pub fn failed_question(&self) -> Option<&str> {
        self.failed.as_ref().map(|f| f.question.as_str())
    }

    /// How code of the person's own would be proposed; nothing while a turn is under way.
    pub fn own_proposal(&self, code: &str, repairs: Option<u32>) -> Option<Proposal> {
        let info = self.info.as_ref().filter(|_| self.turn.is_none() && !self.is_rebuilding() && !self.undecided)?;
        let failed = self.failed.as_ref().filter(|f| Some(f.step) == repairs);
        let (step, attempt) = failed.map_or((self.steps.saturating_add(1), 1), |f| (f.step, f.runs.saturating_add(1)));
        Some(Proposal {
            step,
            attempt,
            // Unlike any id of a call: those have nine letters or digits.
            call: format!("own-{step}-{attempt}"),
            code: code.to_string(),
            how: How::User,
            raw: None,
            terms: terms(info),
            asked_seconds: None,
        })
    }

    /// Begins a turn for code of the person's own.
    pub(super) fn own_code_proposed(&mut self, proposal: &Proposal) {
        if self.turn.is_some() || self.info.is_none() || self.is_rebuilding() {
            return;
        }
        let mut turn = match self.failed.take().filter(|f| f.step == proposal.step) {
            Some(failed) => {
                let mut turn = Turn::new(&failed.question, failed.question_at);
                // What failed before stays open until this succeeds.
                turn.open = vec![super::turn::OpenStep { step: failed.step, runs: failed.runs, failures: Vec::new() }];
                turn
            }
            None => {
                self.steps = self.steps.max(proposal.step);
                Turn::new("", self.transcript.len())
            }
        };
        turn.steps = 1;
        turn.proposed = Some(proposal.clone());
        self.turn = Some(turn);
    }

    /// The person's code ran well: the model goes on where it was a repair.
    pub(super) fn own_code_ran(&mut self) -> Vec<Effect> {
        let Some(turn) = &self.turn else { return Vec::new() };
        if turn.question.is_empty() {
            return vec![end(TurnStatus::Answered, String::new(), false)];
        }
        self.ask_model()
    }
}
