//! The editor of the code pane: code in Python's shape, what is typed and what is drawn of it. The bytes it gives back are
//! the bytes that run, so that nothing changes but what the person changes.
//!
//! Before a frame [`Editor::layout`] is told the size; drawing then costs what is visible.

mod draw;
mod indent;

use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::layout::{Position, Rect};

use crate::core::clean::Clean;

use super::buffer::TextBuffer;
use super::cells::{Look, byte_at, cells, column_of};
use super::keys::{Edit, edit_of};
use super::paint::{Paint, Painted};
use super::text::Pos;

/// Columns kept in sight beside the cursor where a line is wider than the pane.
const MARGIN: usize = 4;

/// Columns of code below which line numbers are left out.
const MIN_CODE: u16 = 12;

/// What part of the text is seen.
#[derive(Debug, Clone, Copy, Default)]
struct View {
    top: usize,
    left: usize,
    width: u16,
    height: u16,
    /// Columns of the signs and numbers left of the code.
    gutter: u16,
    /// Number of the first line that is seen.
    first_number: usize,
    /// Column of the cursor in its line, measured once a frame.
    column: usize,
}

/// Code that is edited.
#[derive(Debug, Clone)]
pub struct Editor {
    models_text: String,
    buffer: TextBuffer,
    error: Option<Clean>,
    view: View,
    /// The view goes with the cursor; not while the person looks around with the wheel.
    is_following: bool,
    /// The text has a `\r` within a line, which Python counts as a line end.
    has_returns: bool,
}

impl Editor {
    /// An editor of `start_text`; `models_text` is what [`Editor::reset`] goes back to.
    pub fn new(models_text: &str, start_text: &str) -> Self {
        Self {
            models_text: models_text.to_owned(),
            buffer: TextBuffer::new(start_text),
            error: None,
            view: View::default(),
            is_following: true,
            has_returns: start_text.contains('\r') || models_text.contains('\r'),
        }
    }

    /// The text, to the byte what would run.
    pub fn text(&self) -> String {
        self.buffer.text().to_string()
    }

    /// Whether it is another text than the model's.
    pub fn is_changed(&self) -> bool {
        !self.buffer.text().is(&self.models_text)
    }

    /// Grows with every change of the text.
    pub fn version(&self) -> u64 {
        self.buffer.text().version()
    }

    /// Goes back to the model's text; can be undone.
    pub fn reset(&mut self) {
        let text = self.models_text.clone();
        self.set_text(&text);
    }

    /// Makes `text` of the whole text as one step, as after an external editor.
    pub fn set_text(&mut self, text: &str) {
        self.has_returns |= text.contains('\r');
        self.buffer.set_text(text);
        self.is_following = true;
    }

    /// Does what a key says; `false` if it is no key of an editor.
    pub fn handle(&mut self, key: KeyEvent) -> bool {
        let Some(edit) = edit_of(key) else { return false };
        match edit {
            Edit::Enter | Edit::Newline => self.enter(),
            Edit::Tab => self.tab(),
            Edit::BackTab => self.shift_levels(false),
            Edit::Backspace => self.backspace(),
            Edit::Insert(_)
            | Edit::Delete
            | Edit::DeleteToSpace
            | Edit::DeleteWordLeft
            | Edit::DeleteWordRight
            | Edit::DeleteToStart
            | Edit::DeleteToEnd
            | Edit::Cut
            | Edit::Copy
            | Edit::Paste
            | Edit::Undo
            | Edit::Redo
            | Edit::Go(..) => self.buffer.perform(edit, usize::from(self.view.height.max(2) - 1)),
        }
        self.is_following = true;
        true
    }

    /// Inserts a block as one step.
    pub fn paste(&mut self, text: &str) {
        self.buffer.paste(text);
        self.is_following = true;
    }

    /// The selected text, which a paste inside inserts from now on.
    pub fn copy(&mut self) -> Option<&str> {
        self.buffer.copy()
    }

    /// What was cut, copied or deleted last.
    pub fn killed(&self) -> &str {
        self.buffer.killed()
    }

    /// Takes the colours of the lines of `version`: for each line between two `\n`, ranges of its bytes in order. Lines that
    /// changed since keep what they have.
    pub fn set_painted(&mut self, version: u64, painted: Arc<Painted>) {
        let painted = Arc::unwrap_or_clone(painted);
        self.buffer.text_mut().set_paint(version, painted.into_iter().map(Paint::new));
    }

    /// Marks a line, counted from 1 as Python counts, with what is wrong with it. The mark goes with the line.
    pub fn set_error(&mut self, error: Option<(u32, String)>) {
        let row = error.as_ref().map(|(number, _)| self.row_of(*number as usize));
        self.error = error.map(|(_, message)| Clean::line(&message));
        self.buffer.text_mut().mark(row);
    }

    /// Puts the cursor where the code of a line begins; counted as Python counts.
    pub fn go_to_line(&mut self, number: u32) {
        let row = self.row_of(number as usize);
        self.buffer.go_to(Pos::new(row, self.indent_of(row).len()), false);
        self.is_following = true;
    }

    /// The number of the line with the cursor and the column, both from 1, as one would tell a person.
    pub fn place(&self) -> (usize, usize) {
        let pos = self.buffer.cursor();
        (self.number_of(pos.row), column_of(self.buffer.text().body(pos.row), pos.col, Look::Code) + 1)
    }

    // ---- what is seen ------------------------------------------------------------------------------------------------

    /// Prepares a frame of this size.
    pub fn layout(&mut self, width: u16, height: u16) {
        let rows = self.buffer.text().rows();
        let digits = self.number_of(rows - 1).to_string().len() as u16;
        // A sign, the number, a space.
        let gutter = if width >= digits + 2 + MIN_CODE { digits + 2 } else { 0 };
        let height = if self.has_message(height) { height - 1 } else { height };
        let pos = self.buffer.cursor();
        let column = column_of(self.buffer.text().body(pos.row), pos.col, Look::Code);
        self.view = View { width: width - gutter, height, gutter, column, ..self.view };
        if self.is_following {
            self.follow();
        }
        self.view.top = self.view.top.min(rows - 1);
        self.view.first_number = self.number_of(self.view.top);
    }

    /// The message takes the last row, as a line of code may be too long to write beside.
    fn has_message(&self, height: u16) -> bool {
        self.error.is_some() && height > 1
    }

    fn follow(&mut self) {
        let pos = self.buffer.cursor();
        let (width, height) = (usize::from(self.view.width).max(1), usize::from(self.view.height).max(1));
        self.view.top = self.view.top.clamp((pos.row + 1).saturating_sub(height), pos.row);
        let column = self.view.column;
        // All of a wide letter or a name, so far as the pane is wide enough, and the mark of a cut line.
        let rest = self.buffer.text().body(pos.row).get(pos.col..).unwrap_or_default();
        let right = column + cells(rest, Look::Code).next().map_or(1, |cell| cell.width + 1).min(width);
        if column < self.view.left + MARGIN.min(column) || right > self.view.left + width {
            let margin = MARGIN.min(width / 4);
            let least = (right + margin).saturating_sub(width).min(column);
            let most = column.saturating_sub(margin).max(least);
            self.view.left = if right <= width { 0 } else { self.view.left.clamp(least, most) };
        }
    }

    /// Scrolls by lines without moving the cursor, until the next key.
    pub fn scroll(&mut self, lines: isize) {
        let last = self.buffer.text().rows().saturating_sub(usize::from(self.view.height).max(1));
        self.view.top = self.view.top.saturating_add_signed(lines).min(last);
        self.is_following = false;
    }

    /// Puts the cursor where the mouse is, counted from the corner of the area.
    pub fn click(&mut self, column: u16, row: u16) {
        self.point(column, row, false);
    }

    /// Selects from where the mouse was pressed to where it is.
    pub fn drag(&mut self, column: u16, row: u16) {
        self.point(column, row, true);
    }

    fn point(&mut self, column: u16, row: u16, extend: bool) {
        if row >= self.view.height && !extend {
            return;
        }
        let row = (self.view.top + usize::from(row)).min(self.buffer.text().rows() - 1);
        let column = self.view.left + usize::from(column.saturating_sub(self.view.gutter));
        let col = byte_at(self.buffer.text().body(row), column, Look::Code);
        self.buffer.go_to(Pos::new(row, col), extend);
        self.is_following = true;
    }

    /// Where the cursor of the terminal belongs in the frame that was laid out; nowhere while it is out of sight.
    pub fn cursor(&self, area: Rect) -> Option<Position> {
        let pos = self.buffer.cursor();
        let row = pos.row.checked_sub(self.view.top)?;
        let column = self.view.column.checked_sub(self.view.left)?;
        let x = u16::try_from(column).ok()?.checked_add(self.view.gutter)?;
        let y = u16::try_from(row).ok()?;
        let is_inside = x < area.width && y < area.height.min(self.view.height);
        is_inside.then(|| Position::new(area.x.saturating_add(x), area.y.saturating_add(y)))
    }

    // ---- numbers as Python counts ------------------------------------------------------------------------------------

    fn number_of(&self, row: usize) -> usize {
        if !self.has_returns {
            return row + 1;
        }
        row + 1 + (0..row).map(|row| self.returns_in(row)).sum::<usize>()
    }

    fn row_of(&self, number: usize) -> usize {
        let rows = self.buffer.text().rows();
        let mut end = 0;
        for row in 0..rows {
            end += 1 + if self.has_returns { self.returns_in(row) } else { 0 };
            if end >= number {
                return row;
            }
        }
        rows - 1
    }

    fn returns_in(&self, row: usize) -> usize {
        self.buffer.text().body(row).bytes().filter(|b| *b == b'\r').count()
    }
}

#[cfg(test)]
mod tests;
