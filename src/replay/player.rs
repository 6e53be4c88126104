//! Where a replay is and where it is going: pure bookkeeping, told what time it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Options, Recording};
use crate::core::command::{Mark, Position, Transport, Update};
use crate::core::event::Record;

/// Slowest playing, times the speed of the recording.
pub const SLOWEST: f64 = 0.125;

/// Fastest playing, times the speed of the recording.
pub const FASTEST: f64 = 64.0;

/// Shortest time between two updates while playing: what the screen can show, and what live output is batched to.
const TICK: Duration = Duration::from_millis(30);

/// Records in one update. Small enough that an order given on a long way is obeyed within a few milliseconds.
const BATCH: usize = 4096;

/// While playing, a mark passed within this time counts as passed when going back, milliseconds of the person's time.
const GRACE_MS: f64 = 1000.0;

pub(super) struct Player {
    records: Vec<Arc<Record>>,
    /// Moment of each record, pauses shortened.
    moments: Vec<u64>,
    steps: Vec<usize>,
    marks: Arc<[(usize, Mark)]>,
    warnings: Arc<[String]>,
    /// Records the screen was told of.
    shown: usize,
    /// Records it should know.
    target: usize,
    /// A position is owed to it.
    say: bool,
    playing: bool,
    speed: f64,
    /// Moment of the recording at `since`; the clock stands while something waits to be sent.
    clock_ms: f64,
    since: Instant,
}

impl Player {
    pub(super) fn new(recording: Recording, options: Options) -> Self {
        let speed = if options.speed.is_finite() { options.speed.clamp(SLOWEST, FASTEST) } else { 1.0 };
        Self {
            moments: recording.moments(options.idle_limit_ms),
            records: recording.records,
            steps: recording.steps,
            marks: recording.marks,
            warnings: recording.warnings,
            shown: 0,
            target: 0,
            say: true,
            playing: !options.paused,
            speed,
            clock_ms: 0.0,
            since: Instant::now(),
        }
    }

    /// Obeys an order. It is always answered with a position.
    pub(super) fn order(&mut self, order: Transport, now: Instant) {
        self.clock_ms = self.clock_at(now);
        self.say = true;
        match order {
            Transport::Toggle => self.toggle(),
            Transport::Step(on) => {
                self.playing = false;
                self.jump(self.step(on));
            }
            Transport::Mark(on) => self.jump(if on { self.next_mark() } else { self.mark_before() }),
            Transport::Faster(on) => {
                self.speed = (self.speed * if on { 2.0 } else { 0.5 }).clamp(SLOWEST, FASTEST);
            }
            Transport::End(end) => self.jump(if end { self.records.len() } else { 0 }),
            Transport::Seek(to) => self.jump(to),
        }
    }

    fn toggle(&mut self) {
        if !self.playing && self.target == self.records.len() {
            self.jump(0);
        }
        self.playing = !self.playing;
    }

    fn jump(&mut self, to: usize) {
        self.target = to.min(self.records.len());
        self.clock_ms = self.moment_of(self.target) as f64;
        self.playing &= self.target < self.records.len();
    }

    fn step(&self, on: bool) -> usize {
        let behind = self.steps.partition_point(|end| *end <= self.target);
        if on {
            return self.steps.get(behind).copied().unwrap_or(self.records.len());
        }
        let before = self.steps.partition_point(|end| *end < self.target);
        before.checked_sub(1).and_then(|at| self.steps.get(at)).copied().unwrap_or(0)
    }

    fn next_mark(&self) -> usize {
        let behind = self.marks.partition_point(|(at, _)| *at < self.target);
        self.marks.get(behind).map_or(self.records.len(), |(at, _)| at + 1)
    }

    fn mark_before(&self) -> usize {
        let grace = if self.playing { GRACE_MS * self.speed } else { 0.0 };
        let passed = |at: usize| self.moment_of(at + 1) as f64 <= self.clock_ms - grace;
        let before = self.marks.partition_point(|(at, _)| at + 1 < self.target);
        self.marks[..before].iter().rev().find(|(at, _)| passed(*at)).map_or(0, |(at, _)| at + 1)
    }

    /// Moment of the last of so many records.
    fn moment_of(&self, shown: usize) -> u64 {
        shown.checked_sub(1).and_then(|last| self.moments.get(last)).copied().unwrap_or(0)
    }

    fn clock_at(&self, now: Instant) -> f64 {
        let runs = self.playing && !self.has_update();
        let passed = if runs { now.saturating_duration_since(self.since).as_secs_f64() * 1000.0 } else { 0.0 };
        self.clock_ms + passed * self.speed
    }

    /// When the next record is due; nothing while paused, or while something waits to be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        let runs = self.playing && !self.has_update();
        let next = self.moments.get(self.shown).filter(|_| runs)?;
        let wait = (*next as f64 - self.clock_ms) / self.speed / 1000.0;
        // Never negative, and pauses are bounded, so that it is no more than days.
        let wait = Duration::try_from_secs_f64(wait.max(0.0)).unwrap_or(Duration::ZERO);
        self.since.checked_add(wait.max(TICK))
    }

    /// The next record is due: what came until now is to be shown.
    pub(super) fn tick(&mut self, now: Instant) {
        // The timer is coarser than the clock; what it was set for is due.
        let due = self.moment_of(self.shown + 1) as f64;
        self.clock_ms = self.clock_at(now).max(due);
        self.target = self.moments.partition_point(|moment| *moment as f64 <= self.clock_ms);
        self.playing = self.target < self.records.len();
        self.say = true;
    }

    pub(super) fn has_update(&self) -> bool {
        self.say || self.shown != self.target
    }

    /// What the screen is told next on the way to where it should be.
    pub(super) fn next_update(&mut self, now: Instant) -> Option<Update> {
        if self.target < self.shown {
            self.shown = 0;
            return Some(Update::Reset);
        }
        if self.shown < self.target {
            let end = self.target.min(self.shown + BATCH);
            let records = self.records[self.shown..end].to_vec();
            self.shown = end;
            return Some(Update::Records(records));
        }
        if !self.say {
            return None;
        }
        self.say = false;
        self.since = now;
        Some(Update::Position(self.position()))
    }

    fn position(&self) -> Position {
        Position {
            at: self.shown,
            total: self.records.len(),
            at_ms: self.moment_of(self.shown),
            end_ms: self.moment_of(self.records.len()),
            playing: self.playing,
            speed: self.speed,
            marks: Arc::clone(&self.marks),
            warnings: Arc::clone(&self.warnings),
        }
    }
}
