//! The prompt: where a person writes to the model. Owns the draft, what completes it, and the prompts of before.
//!
//! The draft is what was typed, to the byte; what is drawn of it is cleaned. Large pastes are blocks: one mark in the draft,
//! deleted as one, sent in full. Enter sends, except where it came in the middle of a paste that the terminal did not
//! announce (see [`burst`]).

pub mod blocks;
pub mod burst;
pub mod complete;
mod draw;
pub mod recall;
mod walk;
pub mod wrap;

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::edit::buffer::TextBuffer;
use super::edit::cells::Look;
use super::edit::keys::{Edit, Motion, edit_of};
use super::edit::text::{Pos, Text};
use blocks::Blocks;
use burst::Burst;
use complete::{Completion, Popup};
use recall::{Recall, Search};
use wrap::{Row, wrap};

/// Most rows the prompt takes of the screen; beyond it scrolls.
pub const MAX_ROWS: u16 = 8;

/// Columns before the draft: the prompt and a space.
const PROMPT_WIDTH: u16 = 2;

/// What became of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is no key of the prompt.
    Ignored,
    /// It was used.
    Used,
    /// The draft is sent; it is empty now.
    Send(String),
}

/// What part of the draft is seen.
#[derive(Debug, Clone, Default)]
struct View {
    rows: Vec<Row>,
    top: usize,
    width: u16,
}

/// The prompt.
#[derive(Debug, Clone)]
pub struct Composer {
    buffer: TextBuffer,
    blocks: Blocks,
    burst: Burst,
    recall: Recall,
    search: Option<Search>,
    completion: Completion,
    view: View,
    /// The column a run of ups and downs began in.
    goal: Option<usize>,
    /// The last key brought an earlier prompt: up and down go on with that wherever the cursor stands.
    is_recalling: bool,
}

impl Composer {
    /// An empty prompt; `history` are the prompts of before, the newest last.
    pub fn new(history: Vec<String>) -> Self {
        Self {
            buffer: TextBuffer::new(""),
            blocks: Blocks::default(),
            burst: Burst::default(),
            recall: Recall::new(history),
            search: None,
            completion: Completion::default(),
            view: View::default(),
            goal: None,
            is_recalling: false,
        }
    }

    /// Prompts of earlier sessions, the newest last.
    pub fn set_history(&mut self, earlier: Vec<String>) {
        self.recall.learn(earlier);
    }

    /// What is offered behind `/` and `@`: commands with a line of help, and files.
    pub fn set_candidates(&mut self, commands: &[(&str, &str)], files: &[String]) {
        self.completion.set_candidates(commands, files);
        self.completion.refresh(&self.buffer);
    }

    /// The draft in full.
    pub fn text(&self) -> String {
        self.blocks.expand(&self.buffer.text().to_string())
    }

    /// Whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.buffer.text().is_empty() && self.search.is_none()
    }

    /// Makes `text` of the draft, as after an external editor; can be undone.
    pub fn set_text(&mut self, text: &str) {
        self.search = None;
        // Blocks stay blocks where nothing was changed.
        if text != self.text() {
            self.buffer.set_text(&blocks::without_marks(text));
            self.buffer.perform(Edit::Go(Motion::Bottom, false), 1);
        }
        self.changed();
    }

    /// Keeps the draft among the prompts of before, to be found again.
    pub fn keep(&mut self) {
        let text = self.text();
        if !text.trim().is_empty() {
            self.recall.add(&text);
        }
    }

    /// Ends a search, or empties the draft; that can be undone.
    pub fn clear(&mut self) {
        self.burst.cancel();
        if self.search.take().is_none() {
            self.buffer.set_text("");
        }
        self.changed();
    }

    /// What was cut, copied or deleted last.
    pub fn killed(&self) -> String {
        self.blocks.expand(self.buffer.killed())
    }

    /// The selected text, which a paste inside inserts from now on.
    pub fn copy(&mut self) -> Option<String> {
        let text = self.buffer.copy()?;
        Some(self.blocks.expand(text))
    }

    // ---- keys --------------------------------------------------------------------------------------------------------

    /// Takes a key that was read at `now`. What waits for its time is due first: call [`Composer::tick`] before.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> Outcome {
        if key.kind == KeyEventKind::Release {
            return Outcome::Ignored;
        }
        if let Some(due) = self.burst.take_pending() {
            if now < due && edit_of(key).is_some_and(is_text) {
                self.buffer.insert("\n");
            } else {
                let sent = self.send();
                self.handle(key, now);
                return sent;
            }
        }
        self.handle(key, now)
    }

    /// When [`Composer::tick`] wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        self.burst.pending()
    }

    /// Sends if Enter was the last of what was typed.
    pub fn tick(&mut self, now: Instant) -> Outcome {
        if self.burst.pending().is_none_or(|due| now < due) {
            return Outcome::Ignored;
        }
        self.burst.cancel();
        self.send()
    }

    /// Inserts a block that the terminal announced.
    pub fn paste(&mut self, text: &str) {
        if self.burst.take_pending().is_some() {
            self.buffer.insert("\n");
        }
        if let Some(search) = &mut self.search {
            search.query.push_str(text.lines().next().unwrap_or_default());
            return search.again(&self.recall);
        }
        let text = blocks::without_marks(text).replace("\r\n", "\n").replace('\r', "\n");
        match self.blocks.hold(&text) {
            Some(mark) => self.buffer.insert(mark.encode_utf8(&mut [0; 4])),
            None => self.buffer.paste(&text),
        }
        self.changed();
    }

    fn handle(&mut self, key: KeyEvent, now: Instant) -> Outcome {
        if self.search.is_some() {
            return self.search_key(key, now);
        }
        if key.code == KeyCode::Char('r') && key.modifiers == KeyModifiers::CONTROL {
            self.search = Some(Search::default());
            self.completion.close();
            return Outcome::Used;
        }
        if key.code == KeyCode::Esc && self.completion.popup().is_some() {
            self.completion.close();
            return Outcome::Used;
        }
        match edit_of(key) {
            Some(edit) => self.edit(edit, now),
            None => Outcome::Ignored,
        }
    }

    fn edit(&mut self, edit: Edit, now: Instant) -> Outcome {
        if is_text(edit) {
            self.burst.typed(now);
        }
        match edit {
            Edit::Enter => return self.enter(now),
            Edit::Tab if self.burst.is_paste() => self.buffer.perform(Edit::Insert('\t'), 1),
            Edit::Tab if self.completion.take(&mut self.buffer) => {}
            // The pages are those of the chat.
            Edit::Tab | Edit::BackTab | Edit::Go(Motion::PageUp | Motion::PageDown, _) => return Outcome::Ignored,
            Edit::Go(Motion::Up, false) => return self.up_or_down(false),
            Edit::Go(Motion::Down, false) => return self.up_or_down(true),
            Edit::Go(Motion::Up, true) => return self.select_row(false),
            Edit::Go(Motion::Down, true) => return self.select_row(true),
            Edit::Insert(c) => self.buffer.perform(Edit::Insert(blocks::no_mark(c)), 1),
            Edit::Newline
            | Edit::Backspace
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
            | Edit::Go(..) => self.buffer.perform(edit, 1),
        }
        self.changed();
        Outcome::Used
    }

    fn enter(&mut self, now: Instant) -> Outcome {
        let cursor = self.buffer.cursor();
        let before = self.buffer.text().body(cursor.row).get(..cursor.col).unwrap_or_default();
        let is_continued = before.ends_with('\\');
        if self.burst.is_paste() {
            self.buffer.perform(Edit::Newline, 1);
        } else if self.completion.is_open_choice() {
            self.completion.take(&mut self.buffer);
        } else if is_continued {
            self.buffer.replace(Pos::new(cursor.row, cursor.col - 1), cursor, "\n");
        } else if self.text().trim().is_empty() {
            return Outcome::Ignored;
        } else {
            self.burst.wait(now);
            return Outcome::Used;
        }
        self.changed();
        Outcome::Used
    }

    fn send(&mut self) -> Outcome {
        let text = self.text().trim_end().to_owned();
        self.recall.add(&text);
        let killed = self.killed();
        self.buffer = TextBuffer::new("");
        self.buffer.set_killed(killed);
        self.blocks = Blocks::default();
        self.changed();
        Outcome::Send(text)
    }

    fn changed(&mut self) {
        self.goal = None;
        self.is_recalling = false;
        self.completion.refresh(&self.buffer);
    }

    // ---- what is seen ------------------------------------------------------------------------------------------------

    /// The list over the prompt, while something can be completed.
    pub fn popup(&self) -> Option<&Popup> {
        self.completion.popup()
    }

    /// Rows the prompt wants at this width, 1 to [`MAX_ROWS`].
    pub fn height(&self, width: u16) -> u16 {
        let most = usize::from(MAX_ROWS);
        let (text, above) = match &self.search {
            Some(search) => (search.preview(), 1),
            None => (self.buffer.text(), 0),
        };
        let rows = wrap(text, self.text_width(width), self.look()).take(most).count();
        (above + rows).min(most) as u16
    }

    /// Prepares a frame of this size.
    pub fn layout(&mut self, width: u16, height: u16) {
        let rows: Vec<Row> = wrap(self.shown_text(), self.text_width(width), self.look()).collect();
        let seen = usize::from(height).max(1);
        let top = match &self.search {
            Some(_) => 0,
            None => {
                let here = wrap::row_of(&rows, self.buffer.cursor());
                let most = rows.len().saturating_sub(seen);
                self.view.top.clamp((here + 1).saturating_sub(seen), here).min(most)
            }
        };
        self.view = View { rows, top, width };
    }

    /// Puts the cursor where the mouse is, counted from the corner of the area.
    pub fn click(&mut self, column: u16, row: u16) {
        let Some(row) = self.view.rows.get(self.view.top + usize::from(row)) else { return };
        if self.search.is_none() {
            let pos = self.pos_at(row, usize::from(column.saturating_sub(PROMPT_WIDTH)));
            self.buffer.go_to(pos, false);
            self.changed();
        }
    }

    fn shown_text(&self) -> &Text {
        self.search.as_ref().map_or(self.buffer.text(), |search| search.preview())
    }

    fn look(&self) -> Look<'_> {
        Look::Prose(self.blocks.labels())
    }

    /// Columns of text; one is left to the cursor behind the last letter.
    fn text_width(&self, width: u16) -> usize {
        usize::from(width.saturating_sub(PROMPT_WIDTH + 1)).max(1)
    }
}

fn is_text(edit: Edit) -> bool {
    matches!(edit, Edit::Insert(_) | Edit::Enter | Edit::Newline | Edit::Tab)
}

#[cfg(test)]
mod tests;
