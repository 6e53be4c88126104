//! A text with a cursor: everything a key can do to it that is the same for code and for a prompt.
//!
//! The cursor never stands inside of what a person sees as one letter, and every change can be undone.

use std::cmp::Ordering;

use super::cells::{Look, byte_at, column_of};
use super::history::{Change, History, Kind};
use super::keys::{Edit, Motion};
use super::text::{Pos, Text};

/// A replacement within one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineEdit {
    /// Which line.
    pub row: usize,
    /// The first byte that goes.
    pub from: usize,
    /// The byte behind the last that goes.
    pub to: usize,
    /// What comes there.
    pub new: String,
}

/// A text that is edited.
#[derive(Debug, Clone)]
pub struct TextBuffer {
    text: Text,
    cursor: Pos,
    anchor: Option<Pos>,
    /// The column a run of ups and downs began in.
    goal: Option<usize>,
    history: History,
    killed: String,
}

impl TextBuffer {
    /// A buffer with this text, the cursor at its start.
    pub fn new(text: &str) -> Self {
        Self {
            text: Text::new(text),
            cursor: Pos::default(),
            anchor: None,
            goal: None,
            history: History::default(),
            killed: String::new(),
        }
    }

    /// The text.
    pub fn text(&self) -> &Text {
        &self.text
    }

    /// The text, to colour and mark its lines.
    pub fn text_mut(&mut self) -> &mut Text {
        &mut self.text
    }

    /// Where the cursor stands.
    pub fn cursor(&self) -> Pos {
        self.cursor
    }

    /// What was cut, copied or deleted last.
    pub fn killed(&self) -> &str {
        &self.killed
    }

    /// Sets what a paste inside inserts.
    pub fn set_killed(&mut self, text: String) {
        self.killed = text;
    }

    /// The selected range, if it is not empty.
    pub fn selection(&self) -> Option<(Pos, Pos)> {
        let anchor = self.anchor.filter(|anchor| *anchor != self.cursor)?;
        Some((anchor.min(self.cursor), anchor.max(self.cursor)))
    }

    /// Puts the cursor somewhere; `extend` selects on the way.
    pub fn go_to(&mut self, pos: Pos, extend: bool) {
        self.history.seal();
        self.goal = None;
        self.anchor = extend.then(|| self.anchor.unwrap_or(self.cursor));
        self.cursor = self.text.snap(pos);
    }

    /// Does what a key says; `page` is how many lines a page has. Tab is left to the owner.
    pub fn perform(&mut self, edit: Edit, page: usize) {
        match edit {
            Edit::Insert(c) => self.put(Kind::Typing, c.encode_utf8(&mut [0; 4])),
            Edit::Enter | Edit::Newline => self.put(Kind::Typing, "\n"),
            Edit::Tab | Edit::BackTab => {}
            Edit::Backspace => self.erase(self.text.prev(self.cursor)),
            Edit::Delete => self.erase(self.text.next(self.cursor)),
            Edit::DeleteToSpace => self.kill(self.within_line(self.space_left())),
            Edit::DeleteWordLeft => self.kill(self.within_line(self.word_left())),
            Edit::DeleteWordRight => self.kill(self.within_line(self.word_right())),
            Edit::DeleteToStart => self.kill(self.within_line(Pos::default())),
            Edit::DeleteToEnd => self.kill(self.within_line(self.text.end())),
            Edit::Cut => {
                if self.copy().is_some() {
                    self.put(Kind::Whole, "");
                }
            }
            Edit::Copy => {
                self.copy();
            }
            Edit::Paste => {
                let killed = self.killed.clone();
                self.put(Kind::Whole, &killed);
            }
            Edit::Undo => self.back_to(|history, text| history.undo(text)),
            Edit::Redo => self.back_to(|history, text| history.redo(text)),
            Edit::Go(motion, extend) => self.go(motion, extend, page),
        }
    }

    /// Keeps the selected text for a paste and returns it.
    pub fn copy(&mut self) -> Option<&str> {
        let (start, end) = self.selection()?;
        self.killed = self.text.slice(start, end);
        Some(&self.killed)
    }

    /// Inserts a text as one step, in place of the selection. Line ends of other systems become `\n`.
    pub fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.put(Kind::Whole, &text);
    }

    /// Puts `new` in place of the selection, as one step.
    pub fn insert(&mut self, new: &str) {
        self.put(Kind::Whole, new);
    }

    /// Puts `new` in place of a range, as one step; the cursor stands behind it.
    pub fn replace(&mut self, start: Pos, end: Pos, new: &str) {
        self.change(Kind::Whole, start, end, new);
    }

    /// Makes `new` of the text, as one step that touches only the lines that differ.
    pub fn set_text(&mut self, new: &str) {
        if self.text.is(new) {
            return;
        }
        let fresh: Vec<&str> = new.split('\n').collect();
        let rows = self.text.rows();
        let most = rows.min(fresh.len());
        let head = (0..most).take_while(|row| self.text.line(*row) == fresh[*row]).count();
        let tail = (0..most - head)
            .take_while(|back| self.text.line(rows - 1 - back) == fresh[fresh.len() - 1 - back])
            .count();
        // A whole line more on one side, so that there is something to replace on both.
        let (head, tail) = if head + tail == most { (head.saturating_sub(1), tail) } else { (head, tail) };
        let tail = if head + tail == most { tail.saturating_sub(1) } else { tail };
        let last = rows - 1 - tail;
        let middle = fresh.get(head..fresh.len() - tail).unwrap_or_default().join("\n");
        let old = self.cursor;
        self.change(Kind::Whole, Pos::new(head, 0), Pos::new(last, self.text.line(last).len()), &middle);
        if old.row < head {
            self.cursor = self.text.snap(old);
        }
    }

    /// Makes several replacements, given in the order of the text, as one step. Selection and cursor stay with their text.
    pub fn replace_in_lines(&mut self, edits: &[LineEdit]) {
        let before = self.cursor;
        let mut anchor = self.anchor;
        let mut changes = Vec::new();
        // From the last to the first, so that none moves another.
        for LineEdit { row, from, to, new } in edits.iter().rev() {
            let (change, _) = Change::make(&mut self.text, Pos::new(*row, *from), Pos::new(*row, *to), new);
            changes.push(change);
            for pos in [Some(&mut self.cursor), anchor.as_mut()].into_iter().flatten().filter(|pos| pos.row == *row) {
                if pos.col >= *to {
                    pos.col = pos.col + new.len() - (to - from);
                } else {
                    pos.col = pos.col.min(*from);
                }
            }
        }
        if changes.is_empty() {
            return;
        }
        self.history.seal();
        self.history.push(Kind::Whole, before, changes);
        self.goal = None;
        self.anchor = anchor.map(|anchor| self.text.snap(anchor));
        self.cursor = self.text.snap(self.cursor);
    }

    // ---- changes -----------------------------------------------------------------------------------------------------

    fn put(&mut self, kind: Kind, new: &str) {
        let (start, end) = self.selection().unwrap_or((self.cursor, self.cursor));
        if kind == Kind::Whole || start != end {
            self.history.seal();
        }
        self.change(kind, start, end, new);
    }

    fn change(&mut self, kind: Kind, start: Pos, end: Pos, new: &str) {
        self.anchor = None;
        self.goal = None;
        if start == end && new.is_empty() {
            return;
        }
        let (change, end) = Change::make(&mut self.text, start, end, new);
        self.history.push(kind, self.cursor, vec![change]);
        self.cursor = self.text.snap(end);
    }

    fn erase(&mut self, to: Option<Pos>) {
        if self.selection().is_some() {
            self.put(Kind::Whole, "");
        } else if let Some(to) = to {
            self.change(Kind::Erasing, self.cursor.min(to), self.cursor.max(to), "");
        }
    }

    fn kill(&mut self, to: Pos) {
        if self.selection().is_none() {
            self.anchor = Some(to);
        }
        if self.copy().is_some() {
            self.put(Kind::Whole, "");
        }
        self.anchor = None;
    }

    /// `to`, or the end of the line on the way there; from the end of a line, just across it.
    fn within_line(&self, to: Pos) -> Pos {
        let row = self.cursor.row;
        let edge = match to.row.cmp(&row) {
            Ordering::Equal => return to,
            Ordering::Less => Pos::new(row, 0),
            Ordering::Greater => self.text.end_of(row),
        };
        if edge != self.cursor {
            return edge;
        }
        let across = if to < edge { self.text.prev(edge) } else { self.text.next(edge) };
        across.unwrap_or(edge)
    }

    fn back_to(&mut self, step: impl FnOnce(&mut History, &mut Text) -> Option<Pos>) {
        self.anchor = None;
        self.goal = None;
        if let Some(pos) = step(&mut self.history, &mut self.text) {
            self.cursor = self.text.snap(pos);
        }
    }

    // ---- motions -----------------------------------------------------------------------------------------------------

    fn go(&mut self, motion: Motion, extend: bool, page: usize) {
        let here = self.cursor;
        let selected = self.selection().filter(|_| !extend);
        let to = match motion {
            Motion::Left => selected.map(|(start, _)| start).or(self.text.prev(here)).unwrap_or(here),
            Motion::Right => selected.map(|(_, end)| end).or(self.text.next(here)).unwrap_or(here),
            Motion::WordLeft => self.word_left(),
            Motion::WordRight => self.word_right(),
            Motion::LineStart => Pos::new(here.row, 0),
            Motion::Home => self.home(),
            Motion::LineEnd => self.text.end_of(here.row),
            Motion::Top => Pos::default(),
            Motion::Bottom => self.text.end(),
            Motion::Up => return self.go_rows(-1, extend),
            Motion::Down => return self.go_rows(1, extend),
            Motion::PageUp => return self.go_rows(-page.max(1).cast_signed(), extend),
            Motion::PageDown => return self.go_rows(page.max(1).cast_signed(), extend),
        };
        self.go_to(to, extend);
    }

    fn go_rows(&mut self, by: isize, extend: bool) {
        let column =
            self.goal.unwrap_or_else(|| column_of(self.text.body(self.cursor.row), self.cursor.col, Look::Code));
        let last = self.text.rows() - 1;
        let to = match self.cursor.row.checked_add_signed(by) {
            None if self.cursor.row == 0 => Pos::default(),
            Some(row) if row > last && self.cursor.row == last => self.text.end(),
            row => {
                let row = row.unwrap_or(0).min(last);
                Pos::new(row, byte_at(self.text.body(row), column, Look::Code))
            }
        };
        self.go_to(to, extend);
        self.goal = Some(column);
    }

    fn home(&self) -> Pos {
        let line = self.text.body(self.cursor.row);
        let indent = line.len() - line.trim_start().len();
        Pos::new(self.cursor.row, if self.cursor.col == indent { 0 } else { indent })
    }

    fn word_left(&self) -> Pos {
        let mut here = self.cursor;
        let mut in_word = false;
        while let Some(to) = self.text.prev(here) {
            match self.letter(to).is_some_and(is_word) {
                true => in_word = true,
                false if in_word => break,
                false => {}
            }
            here = to;
        }
        here
    }

    fn word_right(&self) -> Pos {
        let mut here = self.cursor;
        let mut in_word = false;
        while let Some(to) = self.text.next(here) {
            match self.letter(here).is_some_and(is_word) {
                true => in_word = true,
                false if in_word => break,
                false => {}
            }
            here = to;
        }
        here
    }

    /// The first character of the cluster at `pos`; none at the end of a line.
    fn letter(&self, pos: Pos) -> Option<char> {
        self.text.body(pos.row).get(pos.col..).and_then(|rest| rest.chars().next())
    }

    /// Behind the nearest space before some other letter.
    fn space_left(&self) -> Pos {
        let row = self.cursor.row;
        let before = self.text.body(row).get(..self.cursor.col).unwrap_or_default();
        if before.is_empty() {
            return self.text.prev(self.cursor).unwrap_or(self.cursor);
        }
        let rest = before.trim_end().trim_end_matches(|c: char| !c.is_whitespace());
        self.text.snap(Pos::new(row, rest.len()))
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests;
