//! Undo and redo. Owns what was changed, in steps as a person remembers them: a word typed is one step, a paste is one
//! step.

use std::collections::VecDeque;

use super::text::{Pos, Text};

/// Most bytes kept to undo with. A hundred times what people write in a sitting; beyond it the oldest steps are forgotten.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Most bytes that typing or erasing without a pause gathers in one step: more at once would be a surprise to undo.
const MAX_MERGED: usize = 1024;

/// What kind of step it is. Only steps of the first two kinds grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Letters typed.
    Typing,
    /// Letters erased one by one.
    Erasing,
    /// Anything else.
    Whole,
}

/// One replacement: at `start`, `removed` became `inserted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    start: Pos,
    removed: String,
    inserted: String,
}

impl Change {
    /// Makes the change.
    pub fn make(text: &mut Text, start: Pos, end: Pos, new: &str) -> (Self, Pos) {
        let start = start.min(end);
        let (removed, end) = text.replace(start, start.max(end), new);
        (Self { start, removed, inserted: new.to_owned() }, end)
    }

    fn undo(&self, text: &mut Text) {
        text.replace(self.start, self.start.after(&self.inserted), &self.removed);
    }

    fn redo(&self, text: &mut Text) -> Pos {
        text.replace(self.start, self.start.after(&self.removed), &self.inserted).1
    }

    fn cost(&self) -> usize {
        self.removed.len() + self.inserted.len() + size_of::<Self>()
    }
}

#[derive(Debug, Clone)]
struct Step {
    kind: Kind,
    before: Pos,
    changes: Vec<Change>,
}

impl Step {
    fn cost(&self) -> usize {
        self.changes.iter().map(Change::cost).sum()
    }

    /// Takes a change that goes on where this step ended.
    fn join(&mut self, kind: Kind, next: &Change) -> bool {
        let [last] = &mut self.changes[..] else { return false };
        if self.kind != kind || last.removed.len() + last.inserted.len() > MAX_MERGED {
            return false;
        }
        match kind {
            Kind::Typing => {
                let is_behind = next.removed.is_empty() && next.start == last.start.after(&last.inserted);
                if is_behind && !begins_word(&last.inserted, &next.inserted) {
                    last.inserted.push_str(&next.inserted);
                    return true;
                }
                false
            }
            Kind::Erasing if next.start == last.start => {
                last.removed.push_str(&next.removed);
                true
            }
            Kind::Erasing if next.start.after(&next.removed) == last.start => {
                last.start = next.start;
                last.removed.insert_str(0, &next.removed);
                true
            }
            Kind::Erasing | Kind::Whole => false,
        }
    }
}

fn begins_word(before: &str, next: &str) -> bool {
    before.ends_with(char::is_whitespace) && !next.starts_with(char::is_whitespace)
}

/// The steps that can be undone and redone.
#[derive(Debug, Clone, Default)]
pub struct History {
    undo: VecDeque<Step>,
    redo: Vec<Step>,
    bytes: usize,
    /// The last step may grow.
    is_open: bool,
}

impl History {
    /// What comes next is a step of its own.
    pub fn seal(&mut self) {
        self.is_open = false;
    }

    /// Takes the changes of one key; `before` is where the cursor stood.
    pub fn push(&mut self, kind: Kind, before: Pos, changes: Vec<Change>) {
        self.redo.clear();
        self.bytes += changes.iter().map(Change::cost).sum::<usize>();
        let joined = match (&changes[..], self.undo.back_mut()) {
            ([change], Some(last)) if self.is_open => last.join(kind, change),
            _ => false,
        };
        if !joined {
            self.undo.push_back(Step { kind, before, changes });
        }
        self.is_open = true;
        self.forget();
    }

    /// The last step is kept even if it is too large: what was just done can be undone.
    fn forget(&mut self) {
        while self.bytes > MAX_BYTES && self.undo.len() > 1 {
            // Counted anew, as steps that grew cost less than their parts.
            self.undo.pop_front();
            self.bytes = self.undo.iter().map(Step::cost).sum();
        }
    }

    /// Undoes the last step and returns where the cursor stood before it.
    pub fn undo(&mut self, text: &mut Text) -> Option<Pos> {
        let step = self.undo.pop_back()?;
        self.bytes = self.bytes.saturating_sub(step.cost());
        step.changes.iter().rev().for_each(|change| change.undo(text));
        let before = step.before;
        self.redo.push(step);
        self.seal();
        Some(before)
    }

    /// Does the last undone step again and returns where its text ends.
    pub fn redo(&mut self, text: &mut Text) -> Option<Pos> {
        let step = self.redo.pop()?;
        let mut end = step.before;
        for change in &step.changes {
            end = change.redo(text);
        }
        self.bytes += step.cost();
        self.undo.push_back(step);
        self.seal();
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(text: &mut Text, history: &mut History, kind: Kind, new: &str) {
        let at = text.end();
        let (change, _) = Change::make(text, at, at, new);
        history.push(kind, at, vec![change]);
    }

    #[test]
    fn typing_is_undone_word_by_word() {
        let (mut text, mut history) = (Text::new(""), History::default());
        for letter in ["o", "n", "e", " ", "t", "w", "o"] {
            put(&mut text, &mut history, Kind::Typing, letter);
        }
        assert_eq!(history.undo(&mut text), Some(Pos::new(0, 4)));
        assert_eq!(text.to_string(), "one ");
        assert_eq!(history.undo(&mut text), Some(Pos::new(0, 0)));
        assert_eq!(text.to_string(), "");
        assert_eq!(history.undo(&mut text), None);
        assert_eq!(history.redo(&mut text), Some(Pos::new(0, 4)));
        assert_eq!(text.to_string(), "one ");
    }

    #[test]
    fn what_is_typed_after_a_pause_is_a_step_of_its_own() {
        let (mut text, mut history) = (Text::new(""), History::default());
        put(&mut text, &mut history, Kind::Typing, "a");
        history.seal();
        put(&mut text, &mut history, Kind::Typing, "b");
        history.undo(&mut text);
        assert_eq!(text.to_string(), "a");
    }

    #[test]
    fn old_steps_are_forgotten_but_never_the_last() {
        let (mut text, mut history) = (Text::new(""), History::default());
        let large = "x".repeat(MAX_BYTES / 2);
        for _ in 0..4 {
            put(&mut text, &mut history, Kind::Whole, &large);
        }
        assert!(history.undo.len() < 3, "{} steps are kept", history.undo.len());
        put(&mut text, &mut history, Kind::Whole, &"x".repeat(MAX_BYTES * 2));
        assert_eq!(history.undo.len(), 1);
        assert!(history.undo(&mut text).is_some());
    }
}
