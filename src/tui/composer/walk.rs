//! Ways through the draft and to the prompts of before: up and down, and the search.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::wrap::{Row, row_of, wrap};
use super::{Composer, Outcome};
use crate::tui::edit::cells::{byte_at, column_of};
use crate::tui::edit::keys::{Edit, Motion, edit_of};
use crate::tui::edit::text::Pos;

impl Composer {
    // ---- up and down -------------------------------------------------------------------------------------------------

    pub(super) fn up_or_down(&mut self, down: bool) -> Outcome {
        if self.completion.choose(down) {
            return Outcome::Used;
        }
        if !self.is_recalling && self.step(down, false) {
            return Outcome::Used;
        }
        if self.recall.go(down, &mut self.buffer) {
            self.changed();
            self.completion.close();
            self.is_recalling = true;
        }
        Outcome::Used
    }

    pub(super) fn select_row(&mut self, down: bool) -> Outcome {
        if !self.step(down, true) {
            let edge = if down { Motion::Bottom } else { Motion::Top };
            self.buffer.perform(Edit::Go(edge, true), 1);
        }
        Outcome::Used
    }

    /// Moves by a row of the screen; `false` at the first and the last.
    fn step(&mut self, down: bool, extend: bool) -> bool {
        // Laid out anew, as several keys may come between two frames.
        let rows: Vec<Row> = wrap(self.buffer.text(), self.text_width(self.view.width), self.look()).collect();
        let here = row_of(&rows, self.buffer.cursor());
        let to = if down { here.checked_add(1) } else { here.checked_sub(1) };
        let (Some(row), Some(to)) = (rows.get(here), to.and_then(|to| rows.get(to))) else { return false };
        let column = self.goal.unwrap_or_else(|| {
            column_of(row.text(self.buffer.text()), self.buffer.cursor().col.saturating_sub(row.start), self.look())
        });
        let pos = self.pos_at(to, column);
        self.buffer.go_to(pos, extend);
        self.changed();
        self.goal = Some(column);
        true
    }

    pub(super) fn pos_at(&self, row: &Row, column: usize) -> Pos {
        let at = row.start + byte_at(row.text(self.buffer.text()), column, self.look());
        match at == row.end && !row.is_last {
            // The end of a wrapped row is the start of the next.
            true => self.buffer.text().prev(Pos::new(row.row, at)).unwrap_or_default(),
            false => Pos::new(row.row, at),
        }
    }

    // ---- search ------------------------------------------------------------------------------------------------------

    pub(super) fn search_key(&mut self, key: KeyEvent, now: Instant) -> Outcome {
        let Some(search) = &mut self.search else { return Outcome::Ignored };
        if key.code == KeyCode::Char('r') && key.modifiers == KeyModifiers::CONTROL {
            search.older(&self.recall);
            return Outcome::Used;
        }
        if key.code == KeyCode::Esc {
            self.search = None;
            return Outcome::Used;
        }
        let Some(edit) = edit_of(key) else { return Outcome::Ignored };
        match edit {
            Edit::Insert(c) => search.query.push(c),
            Edit::Backspace => {
                search.query.pop();
            }
            Edit::DeleteToStart | Edit::DeleteToSpace | Edit::DeleteWordLeft => search.query.clear(),
            Edit::Enter
            | Edit::Newline
            | Edit::Tab
            | Edit::BackTab
            | Edit::Delete
            | Edit::DeleteWordRight
            | Edit::DeleteToEnd
            | Edit::Cut
            | Edit::Copy
            | Edit::Paste
            | Edit::Undo
            | Edit::Redo
            | Edit::Go(..) => return self.end_search(edit, now),
        }
        search.again(&self.recall);
        Outcome::Used
    }

    /// Takes what was found; a key that is not there for taking acts on it.
    fn end_search(&mut self, edit: Edit, now: Instant) -> Outcome {
        if let Some(found) = self.search.take().and_then(|search| search.found()) {
            self.recall.go_to(found, &mut self.buffer);
        }
        self.changed();
        self.completion.close();
        if matches!(edit, Edit::Enter | Edit::Newline | Edit::Tab) {
            return Outcome::Used;
        }
        self.edit(edit, now)
    }
}
