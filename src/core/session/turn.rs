//! What is known of the turn under way.

use std::collections::VecDeque;

use crate::core::event::{Call, Proposal};
use crate::core::render::Heard;

/// One turn: from what the person said to an end.
#[derive(Debug)]
pub(super) struct Turn {
    /// The question.
    pub(super) question: String,
    /// Where in the transcript it stands.
    pub(super) question_at: usize,
    /// A request is under way; only then a reply or a failure counts.
    pub(super) asking: bool,
    /// Calls of the present reply that were not proposed yet.
    pub(super) queue: VecDeque<Queued>,
    pub(super) proposed: Option<Proposal>,
    pub(super) running: Option<Running>,
    /// Steps whose last run failed, oldest first.
    pub(super) open: Vec<OpenStep>,
    /// Steps begun in this turn.
    pub(super) steps: u32,
    pub(super) reasks: u32,
    pub(super) lost_calls: u32,
    /// Code that ran well in this turn, normalised.
    pub(super) succeeded: Vec<String>,
    /// Output of the last run that ended well, in case the model finds no words.
    pub(super) last_said: String,
    pub(super) asked_for_words: bool,
    pub(super) asked_to_compute: bool,
    pub(super) asked_to_use_output: bool,
    /// The model repeated failed code and was asked anew, without seeing it.
    pub(super) restarted: bool,
    /// Code tried to open a file that is not there.
    pub(super) missed_file: bool,
    /// The next request is sampled less predictably.
    pub(super) warmer: bool,
    /// The closing summary was asked for; the turn ends with the next reply.
    pub(super) closing: bool,
    pub(super) trimmed_for_server: bool,
    /// The sandbox could not run what was approved, and why; what was proposed waits again.
    pub(super) stalled: Option<String>,
}

#[derive(Debug)]
pub(super) struct Queued {
    pub(super) step: u32,
    /// Which step of the turn it is; 0 for a further attempt of an open one.
    pub(super) nth: u32,
    pub(super) call: Call,
}

#[derive(Debug)]
pub(super) struct OpenStep {
    pub(super) step: u32,
    pub(super) runs: u32,
    /// Code and error of each failed run.
    pub(super) failures: Vec<(String, String)>,
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) proposal: Proposal,
    pub(super) code: String,
    pub(super) heard: Heard,
    /// The code differs from what the model wrote.
    pub(super) edited: bool,
}

impl Turn {
    pub(super) fn new(question: &str, question_at: usize) -> Self {
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
            stalled: None,
        }
    }

    /// Whether this code ran and failed in a step that is still open.
    pub(super) fn has_failed(&self, code: &str) -> bool {
        let code = normalised(code);
        self.open.iter().flat_map(|o| &o.failures).any(|(failed, _)| *failed == code)
    }
}

/// Code without what makes no difference when it is quoted: blank lines and space at the ends of lines.
pub(super) fn normalised(code: &str) -> String {
    code.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n")
}
