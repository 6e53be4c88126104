//! A sign of life while the person waits: a line now and then, not one a second.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::clean::Clean;
use crate::core::event::{Channel, Event, NoteKind};

/// Time between two lines: every line is read aloud, and half a minute of silence is unsettling.
const BEAT: Duration = Duration::from_secs(10);

/// What is waited for.
#[derive(Debug, Default)]
pub struct Waiting {
    now: Option<Now>,
    /// The last progress note without its figures, so that one that only counts is not printed again.
    noted: String,
}

#[derive(Debug)]
struct Now {
    what: String,
    since: Instant,
    next: Instant,
}

impl Waiting {
    /// Something begins that takes time.
    pub fn begin(&mut self, what: &str, now: Instant) {
        if self.now.as_ref().is_none_or(|w| w.what != what) {
            self.now = Some(Now { what: what.to_string(), since: now, next: now + BEAT });
            self.noted.clear();
        }
    }

    /// It is the person's turn.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// Takes in what a fact says about waiting.
    pub fn record(&mut self, event: &Event, now: Instant) {
        match event {
            Event::UserSaid { .. } | Event::RunFinished(_) => self.begin("waiting for the model", now),
            Event::CodeRejected { reason: Some(_), .. } => self.begin("waiting for the model", now),
            Event::Note { kind: NoteKind::Reask, .. } => self.begin("waiting for the model", now),
            Event::ModelDelta { channel: Channel::Code, .. } => self.begin("waiting: the model writes code", now),
            Event::ModelDelta { channel: Channel::Reasoning, .. } => self.begin("waiting: the model thinks", now),
            Event::ModelDelta { channel: Channel::Text, .. } => self.begin("waiting: the model writes", now),
            Event::CodeApproved { .. } => self.begin("waiting for Python", now),
            Event::RunStarted { terms, .. } => {
                self.begin(&format!("running, at most {} s", terms.timeout_seconds), now);
            }
            Event::CodeProposed(_)
            | Event::TurnEnded { .. }
            | Event::SandboxFailed { .. }
            | Event::CodeRejected { reason: None, .. }
            | Event::SessionEnded { .. } => self.end(),
            Event::SessionStarted(_)
            | Event::SessionResumed(_)
            | Event::InputsListed { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::TermsChanged { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::ArtifactSaved { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::RebuildDecided { .. }
            | Event::Note { .. } => {}
        }
    }

    /// Whether a progress note is printed: one that only counts further is not, until a beat has passed.
    pub fn takes_note(&mut self, text: &str, now: Instant) -> bool {
        let what: String = text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        let due = self.now.as_ref().is_none_or(|w| now >= w.next);
        if what == self.noted && !due {
            return false;
        }
        self.noted = what;
        if let Some(waiting) = &mut self.now {
            waiting.next = now + BEAT;
        }
        true
    }

    /// When [`beat`](Self::beat) is to be asked.
    pub fn deadline(&self) -> Option<Instant> {
        self.now.as_ref().map(|w| w.next)
    }

    /// The line that is due.
    pub fn beat(&mut self, now: Instant) -> Option<String> {
        let waiting = self.now.as_mut().filter(|w| now >= w.next)?;
        waiting.next = now + BEAT;
        Some(format!("still {}, {} s\n", Clean::line(&waiting.what), (now - waiting.since).as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_at_most() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut waiting = Waiting::default();
        assert_eq!(waiting.deadline(), None);
        waiting.begin("waiting for the model", start);
        assert_eq!(waiting.beat(at(9)), None);
        assert_eq!(waiting.beat(at(10)).as_deref(), Some("still waiting for the model, 10 s\n"));
        assert!(waiting.takes_note("loading model, 12 s", at(12)));
        assert!(!waiting.takes_note("loading model, 13 s", at(13)));
        assert_eq!(waiting.beat(at(20)), None, "a note was printed at 12 s");
        assert!(waiting.takes_note("loading model, 22 s", at(22)));
        assert!(waiting.takes_note("something else", at(23)));
        waiting.end();
        assert_eq!(waiting.beat(at(60)), None);
    }
}
