//! When a question may be answered by a single key. Owns the rule that nothing typed for the text field is ever taken for an
//! answer: a question that appears while somebody types gets none of their keys, and a key counts only when no other
//! follows at once, as it does in a word.

use std::time::Duration;

use crossterm::event::KeyEvent;
use tokio::time::Instant;

use super::keys::Act;

/// Quiet before a question takes keys: longer than between two keys of somebody who types.
const QUIET: Duration = Duration::from_millis(300);

/// A key is an answer when no other follows within this time: in words they come faster.
const ALONE: Duration = Duration::from_millis(150);

/// A question on the screen.
#[derive(Debug, Clone, Default)]
pub struct Question {
    opens: Option<Instant>,
    pending: Option<(Act, KeyEvent, Instant)>,
}

impl Question {
    /// It appears now; `last_typed` is when a printable key came last.
    pub fn show(&mut self, now: Instant, last_typed: Option<Instant>) {
        let quiet_since = last_typed.map_or(now, |typed| typed.max(now));
        *self = Self { opens: Some(quiet_since + QUIET), pending: None };
    }

    /// The person came back to it by a key of their own: it takes keys at once.
    pub fn show_again(&mut self, now: Instant) {
        *self = Self { opens: Some(now), pending: None };
    }

    /// A printable key went to the text field: wait for quiet again.
    pub fn typed(&mut self, now: Instant) {
        if let Some(opens) = &mut self.opens {
            *opens = (*opens).max(now + QUIET);
        }
    }

    /// When it takes keys.
    pub fn opens(&self) -> Option<Instant> {
        self.opens
    }

    /// It takes keys.
    pub fn is_open(&self, now: Instant) -> bool {
        self.opens.is_some_and(|opens| now >= opens)
    }

    /// A key that answers was pressed; it acts when its time has passed alone.
    pub fn press(&mut self, act: Act, key: KeyEvent, now: Instant) {
        self.pending = Some((act, key, now + ALONE));
    }

    /// Another key came: the one that was pressed before was no answer and is given back.
    pub fn disturbed(&mut self) -> Option<KeyEvent> {
        self.pending.take().map(|(_, key, _)| key)
    }

    /// When [`due`](Self::due) is to be asked.
    pub fn deadline(&self) -> Option<Instant> {
        self.pending.map(|(_, _, due)| due)
    }

    /// The answer whose time has passed.
    pub fn due(&mut self, now: Instant) -> Option<Act> {
        self.pending.take_if(|(_, _, due)| now >= *due).map(|(act, _, _)| act)
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::*;

    fn key() -> KeyEvent {
        KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE)
    }

    #[test]
    fn it_opens_after_quiet() {
        let start = Instant::now();
        let mut question = Question::default();
        assert!(!question.is_open(start));
        question.show(start, None);
        assert!(!question.is_open(start + Duration::from_millis(299)));
        assert!(question.is_open(start + Duration::from_millis(300)));
        question.typed(start + Duration::from_millis(200));
        assert!(!question.is_open(start + Duration::from_millis(499)));
        assert!(question.is_open(start + Duration::from_millis(500)));
    }

    #[test]
    fn a_key_alone_answers_and_a_key_of_a_word_is_given_back() {
        let start = Instant::now();
        let mut question = Question::default();
        question.show(start, None);
        question.press(Act::Run, key(), start);
        assert_eq!(question.due(start + Duration::from_millis(149)), None);
        assert_eq!(question.deadline(), Some(start + ALONE));
        assert_eq!(question.due(start + ALONE), Some(Act::Run));
        assert_eq!(question.due(start + ALONE), None, "it answers once");
        question.press(Act::Run, key(), start);
        assert_eq!(question.disturbed(), Some(key()));
        assert_eq!(question.due(start + ALONE), None);
    }
}
