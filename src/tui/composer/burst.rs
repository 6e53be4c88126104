//! Pastes the terminal did not announce: the lines come as keys, and an Enter among them must not send. What tells them
//! from typing is time. Nobody types three keys within a few milliseconds of each other.
//!
//! Behind such a run Enter is a line end at once. Behind anything else it may still be the first line of a paste of short
//! lines, so it waits a moment that nobody sees: if more text follows in it, it was a line end, else it sends.

use std::time::{Duration, Instant};

/// Keys of a paste follow each other closer than this. The closest two a person hits are some 10 ms apart.
const GAP: Duration = Duration::from_millis(8);

/// How long Enter waits for more. A little more than [`GAP`], far below the 50 ms that are felt.
const WAIT: Duration = Duration::from_millis(10);

/// Keys that follow each other this closely before Enter is taken for a part of a paste. Two may be an accident.
const MIN_RUN: u32 = 3;

/// The times of the last keys.
#[derive(Debug, Clone, Default)]
pub struct Burst {
    last: Option<Instant>,
    /// Keys in a row with no pause between them.
    run: u32,
    due: Option<Instant>,
}

impl Burst {
    /// A key of text came.
    pub fn typed(&mut self, now: Instant) {
        let is_close = self.last.is_some_and(|last| now.saturating_duration_since(last) < GAP);
        self.run = if is_close { self.run.saturating_add(1) } else { 1 };
        self.last = Some(now);
    }

    /// Whether the last key is one of a paste.
    pub fn is_paste(&self) -> bool {
        self.run > MIN_RUN
    }

    /// Enter waits.
    pub fn wait(&mut self, now: Instant) {
        self.due = Some(now + WAIT);
    }

    /// When it stops waiting.
    pub fn pending(&self) -> Option<Instant> {
        self.due
    }

    /// The same, and it waits no longer.
    pub fn take_pending(&mut self) -> Option<Instant> {
        self.due.take()
    }

    /// It waits no longer.
    pub fn cancel(&mut self) {
        self.due = None;
    }
}
