//! Searching in an output: from match to match, over the end to the start.

use std::borrow::Cow;

use super::buffer::{Kept, Kind, Place};
use super::row::{column_at, plain, row_at};
use super::{Hit, Item, RunOutput};
use crate::tui::search::Needle;

impl RunOutput {
    /// Searches for this from now on, or no more.
    pub fn set_search(&mut self, typed: Option<&str>) {
        self.needle = typed.and_then(Needle::new);
        self.hit = None;
    }

    /// Goes to the next match or to the one before, beginning at the top of the screen. False if there is none.
    pub fn next_match(&mut self, forward: bool) -> bool {
        let Some(needle) = self.needle.clone() else { return false };
        let place = self.hit.map(|hit| hit.place).or(self.anchor.map(|anchor| anchor.place));
        let origin = place.filter(|place| self.buffer.line(*place).is_some()).or(self.buffer.first());
        let Some(origin) = origin else { return false };
        let beyond = self.hit.filter(|hit| hit.place == origin).map(|hit| hit.at);
        if let Some(at) = self.match_in(&needle, origin, forward, beyond) {
            self.go_to(Hit { place: origin, at });
            return true;
        }
        let mut place = origin;
        loop {
            let next = if forward { self.buffer.after(place) } else { self.buffer.before(place) };
            let Some(next) = next.or_else(|| if forward { self.buffer.first() } else { self.buffer.last() }) else {
                return false;
            };
            place = next;
            if let Some(at) = self.match_in(&needle, place, forward, None) {
                self.go_to(Hit { place, at });
                return true;
            }
            if place == origin {
                return false;
            }
        }
    }

    /// The first match of a line, or the last; behind or before `beyond` where that is given.
    fn match_in(&self, needle: &Needle, place: Place, forward: bool, beyond: Option<usize>) -> Option<usize> {
        let kept = self.buffer.line(place)?;
        if kept.kind == Kind::Item {
            let table = self.item(&kept.text).and_then(|item| self.items.get(item));
            let has = matches!(table, Some(Item::Table(table)) if table.has(needle));
            return (has && beyond.is_none()).then_some(0);
        }
        let text = searched(&kept);
        // Most lines do not have it.
        needle.find(&text, 0)?;
        let found = needle.all(&text).collect::<Vec<_>>();
        let mut starts = found.iter().map(|range| range.start);
        match forward {
            true => starts.find(|at| beyond.is_none_or(|beyond| *at > beyond)),
            false => starts.rfind(|at| beyond.is_none_or(|beyond| *at < beyond)),
        }
    }

    fn go_to(&mut self, hit: Hit) {
        self.hit = Some(hit);
        self.zoomed = false;
        let Some(kept) = self.buffer.line(hit.place) else { return };
        let text = searched(&kept);
        let (mut row, mut left) = (self.buffer.row_of(hit.place), self.left);
        let mut item = None;
        match (kept.kind, self.wrapped()) {
            (Kind::Item, _) => item = self.item(&kept.text),
            (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note | Kind::Gap, Some(width)) => {
                row += row_at(&text, width, hit.at);
            }
            (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note | Kind::Gap, None) => {
                let column = column_at(&text, hit.at);
                if column < left || column >= left + self.room() {
                    left = column.saturating_sub(self.room() / 3);
                }
            }
        }
        self.left = left;
        self.chosen = item.or(self.chosen);
        self.scrolled(|scroll| scroll.show(row));
    }
}

/// A line as it is searched; the ordinary one as it is.
fn searched<'a>(kept: &'a Kept<'_>) -> Cow<'a, str> {
    match kept.text.bytes().all(|b| matches!(b, b' '..=b'~')) {
        true => Cow::Borrowed(&kept.text),
        false => Cow::Owned(plain(&kept.text)),
    }
}
