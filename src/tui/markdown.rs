//! Markdown that arrives piece by piece, as lines of our own. Owns what is laid out once and what again: blocks that are
//! finished stay as they are, the last one is made anew when there is more of it. So the work is proportional to the text.
//!
//! The lines depend on the text, the width and the theme alone, never on the pieces the text came in.

use ratatui::text::Line;

use crate::tui::theme::Theme;
use crate::tui::wrap;
use fence::Paints;
use source::{Block, MAX_BLOCK, Source, blocks, end_of_plain};

mod fence;
mod render;
mod source;
mod table;

/// Longest line of an overlong block of which the rows are made anew when it grows, bytes.
const MAX_OPEN_LINE: usize = 4 * 1024;

/// Narrowest width lines are made for, columns: half of it may go to quotes and lists. A narrower pane cuts them off.
const MIN_WIDTH: usize = 8;

/// A text in Markdown and its lines.
#[derive(Debug, Default)]
pub struct Doc {
    source: Source,
    /// What the lines were made for.
    made_for: Option<(u16, Theme)>,
    /// There is text that has no lines yet.
    dirty: bool,
    lines: Vec<Line<'static>>,
    /// Bytes of the text and number of lines that stay as they are.
    done: (usize, usize),
    /// The overlong block that is open.
    overlong: Option<Overlong>,
    paints: Paints,
}

/// A block that is shown as it is written while it grows.
#[derive(Debug)]
struct Overlong {
    start: usize,
    /// Its end was looked for up to here.
    searched: usize,
}

impl Doc {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends raw text.
    pub fn push(&mut self, raw: &str) {
        self.source.push(raw);
        self.dirty = true;
    }

    /// Takes another raw text.
    pub fn set(&mut self, raw: &str) {
        *self = Self::default();
        self.push(raw);
    }

    /// The text as it was written, clean, for copying.
    pub fn raw(&self) -> &str {
        self.source.text()
    }

    /// The lines as of the last layout.
    pub fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    /// Makes the lines for a width in columns. None is wider, as long as there are eight columns.
    pub fn layout(&mut self, width: u16, theme: Theme) -> &[Line<'static>] {
        let made_for = Some((width, theme));
        if self.made_for != made_for {
            self.made_for = made_for;
            self.dirty = true;
            self.done = (0, 0);
            self.overlong = None;
        }
        if std::mem::take(&mut self.dirty) {
            self.lines.truncate(self.done.1);
            while self.lay_out_more(usize::from(width).max(MIN_WIDTH), theme) {}
        }
        &self.lines
    }

    /// Lays out the text behind what is done. True if there is more to do: an overlong block began or ended.
    fn lay_out_more(&mut self, width: usize, theme: Theme) -> bool {
        if self.overlong.is_some() {
            return self.lay_out_overlong(width);
        }
        let complete = self.source.complete();
        let blocks = blocks(self.source.text(), self.done.0, complete);
        // A block is finished when the next one has begun for good. Two lines decide that: the second one
        // may turn a line of a paragraph into the head of a table.
        let two_lines =
            |at: usize| self.source.text().get(at..complete).is_some_and(|t| t.matches('\n').nth(1).is_some());
        let begun = |block: &Block| two_lines(block.range.start);
        let last = blocks.iter().rposition(begun).unwrap_or(0);
        for (i, block) in blocks.iter().enumerate() {
            if i == last {
                self.done = (block.range.start, self.lines.len());
            }
            if !self.lines.is_empty() {
                self.lines.push(Line::default());
            }
            if block.overlong {
                let start = block.range.start;
                self.overlong = Some(Overlong { start, searched: start + MAX_BLOCK });
                self.done.1 = self.lines.len();
                return true;
            }
            let text = &self.source.text()[block.range.clone()];
            self.lines.extend(render::lines(text, width, theme, i < last, &mut self.paints));
        }
        false
    }

    fn lay_out_overlong(&mut self, width: usize) -> bool {
        let Some(block) = &mut self.overlong else { return false };
        let (text, complete) = (self.source.text(), self.source.complete());
        if let Some(end) = end_of_plain(text, block.start, block.searched, complete) {
            self.lines.extend(plain(&text[self.done.0..end], width));
            self.done = (end, self.lines.len());
            self.overlong = None;
            return true;
        }
        block.searched = complete;
        // Lines up to the last one that is complete and not empty stay as they are.
        let whole = text[..complete].trim_end_matches('\n').len() + 1;
        if whole > self.done.0 && whole <= complete {
            self.lines.extend(plain(&text[self.done.0..whole], width));
            self.done = (whole, self.lines.len());
        }
        // A tab has the length of a space, so places in it are places in the text.
        let open = text[self.done.0..].replace('\t', " ");
        if open.len() > MAX_OPEN_LINE && !open.contains('\n') {
            // The last row may change with what follows, and the one before it if a character does.
            let sure = self.source.sure() - self.done.0;
            let rows = wrap::rows(&open, width, 0);
            let kept = rows[..rows.len().saturating_sub(2)].iter().take_while(|row| row.end <= sure).count();
            self.lines.extend(rows[..kept].iter().map(|row| Line::raw(open[row.clone()].to_owned())));
            let at = rows.get(kept).map_or(0, |row| row.start);
            self.done = (self.done.0 + at, self.lines.len());
            self.lines.extend(plain(&open[at..], width));
        } else {
            self.lines.extend(plain(&open, width));
        }
        false
    }
}

/// Text as it is written, without empty lines at its end.
fn plain(text: &str, width: usize) -> Vec<Line<'static>> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Vec::new();
    }
    let text = text.replace('\t', " ");
    let rows = |line| wrap::rows(line, width, 0).into_iter().map(|row| Line::raw(line[row].to_owned()));
    text.split('\n').flat_map(rows).collect()
}

#[cfg(test)]
mod tests;
