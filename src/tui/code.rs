//! Code that is read: what is proposed, and the attempts. Owns what a person needs to approve it: nothing of the code is
//! left out, what cannot be seen has a name, and how much is beyond the edges of the pane can be said.
//!
//! Rows are made for the lines that are visible only, in [`CodeView::layout`]; drawing looks them up.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use ratatui::text::Line;

use crate::core::clean::Clean;
use crate::tui::highlight::Painted;
use crate::tui::search::Needle;
use crate::tui::top::{self, Top};
use crate::tui::wrap;
use line::Shown;
use text::Text;

mod draw;
pub mod line;
mod text;

/// Fewest columns for the text of a line; a narrower pane cuts it off. The longest name of a character takes ten.
const MIN_TEXT: usize = 12;

/// Columns between places to start drawing from where lines are not wrapped.
const STEP: usize = 256;

/// Most rows the message of an error takes; the whole of it stands in the output.
const ERROR_ROWS: usize = 4;

/// Rows a found place is moved to below the top, as a share of the height.
const FOUND_AT: usize = 3;

/// What of a code cannot be seen in the pane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hidden {
    /// Lines of which some or all is above the top.
    pub lines_above: usize,
    /// Lines of which some or all is below the bottom.
    pub lines_below: usize,
    /// Lines that are wider than the pane and not wrapped.
    pub wide_lines: usize,
    /// Characters that are invisible or change the direction; they are drawn by name.
    pub invisible_chars: usize,
}

/// A row on the screen.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    /// A part of a line: the one that begins at this mark. Where lines are not wrapped there is one part.
    Code { line: usize, part: usize },
    /// A row of the message under a line.
    Error(Line<'static>),
}

/// A view of code.
#[derive(Debug)]
pub struct CodeView {
    text: Text,
    /// Lines that are visible, and the last one.
    shown: HashMap<usize, Shown>,
    painted: Option<Arc<Painted>>,
    wrapped: bool,
    error: Option<(usize, Clean)>,
    error_rows: Vec<Line<'static>>,
    top: Top,
    /// Columns that are scrolled out on the left.
    left: usize,
    follow: bool,
    width: usize,
    height: usize,
    rows: Vec<Row>,
    hidden: Hidden,
    needle: Option<Needle>,
    /// The place found last: line, and bytes of it.
    current: Option<(usize, Range<usize>)>,
}

impl CodeView {
    /// A view of `code`, at its top.
    pub fn new(code: &str) -> Self {
        Self {
            text: Text::new(code),
            shown: HashMap::new(),
            painted: None,
            wrapped: true,
            error: None,
            error_rows: Vec::new(),
            top: Top::default(),
            left: 0,
            follow: false,
            width: 0,
            height: 0,
            rows: Vec::new(),
            hidden: Hidden::default(),
            needle: None,
            current: None,
        }
    }

    /// The code to the byte, for copying and running. It is not clean.
    pub fn raw(&self) -> &str {
        self.text.code()
    }

    /// Takes the code as it is now. Costs as much as what was appended; other changes cost the whole.
    pub fn set_code(&mut self, code: &str) {
        let (first, grew) = self.text.set(code);
        if first == 0 && !grew {
            self.painted = None;
            self.current = None;
        }
        // The line before may have been kept as the last one.
        let keep = |line: usize| line < first || (grew && line == first);
        self.shown.retain(|line, _| keep(*line));
        if grew && let Some(shown) = self.shown.get_mut(&first) {
            shown.extend(self.text.line(first));
        }
    }

    /// Takes the colours. Those of an earlier state of a code that grew are good for its start.
    pub fn set_painted(&mut self, painted: Arc<Painted>) {
        self.painted = Some(painted);
    }

    /// Marks a line, counted from 1, with a message; or none.
    pub fn set_error(&mut self, error: Option<(u32, String)>) {
        let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1);
        self.error = error.map(|(number, message)| (index(number), Clean::line(&message)));
    }

    /// Whether long lines go on in the next row, which is so at first, or are cut off at the edge.
    pub fn set_wrap(&mut self, wrapped: bool) {
        self.wrapped = wrapped;
        self.left = 0;
        self.top.row = 0;
    }

    /// Whether long lines go on in the next row.
    pub fn wraps(&self) -> bool {
        self.wrapped
    }

    /// Whether the end stays in view while code is appended. Scrolling up ends it, scrolling to the bottom begins it.
    pub fn set_follow(&mut self, follow: bool) {
        self.follow = follow;
    }

    /// Number of lines, as Python counts them.
    pub fn line_count(&self) -> usize {
        self.text.lines().len()
    }

    /// What the pane does not show; as of the last layout.
    pub fn hidden(&self) -> Hidden {
        self.hidden
    }

    /// Columns of the line numbers with the space behind them.
    fn gutter(&self) -> usize {
        self.line_count().to_string().len() + 1
    }

    fn text_width(&self) -> usize {
        self.width.saturating_sub(self.gutter()).max(MIN_TEXT)
    }

    /// Makes the rows for a pane of this size. To be called before drawing whenever anything changed.
    pub fn layout(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (usize::from(width), usize::from(height));
        self.error_rows = self.error_lines();
        let lowest = self.lowest();
        self.top = if self.follow { lowest } else { self.moved(0).min(lowest) };
        if !self.wrapped {
            self.left = self.left.min(self.most_left());
        }
        self.fill();
        let last = self.line_count() - 1;
        let end = self.top.line + self.height;
        self.shown.retain(|line, _| *line == last || (self.top.line..=end).contains(line));
        self.hidden = self.find_hidden();
    }

    fn error_lines(&self) -> Vec<Line<'static>> {
        let Some((_, message)) = &self.error else { return Vec::new() };
        let line = Line::raw(format!("! {message}"));
        let mut rows = wrap::wrap_indented(&wrap::cut(&line, 0, self.text_width() * ERROR_ROWS), self.text_width(), 2);
        rows.truncate(ERROR_ROWS);
        rows
    }

    /// The line made ready, for the width of now.
    fn ready(&mut self, line: usize) -> &Shown {
        let limit = if self.wrapped { self.text_width() } else { STEP };
        let raw = self.text.line(line);
        let shown = self.shown.entry(line).or_insert_with(|| Shown::new(raw, limit));
        if shown.limit() != limit {
            *shown = Shown::new(raw, limit);
        }
        shown
    }

    fn parts(&mut self, line: usize) -> usize {
        let columns = self.text.lines().get(line).map_or(0, |line| line.columns);
        // Most lines fit; how many rows the others take has to be tried.
        if !self.wrapped || columns <= self.text_width() { 1 } else { self.ready(line).marks.len() }
    }

    fn rows_of(&mut self, line: usize) -> usize {
        let error = if self.error.as_ref().is_some_and(|(at, _)| *at == line) { self.error_rows.len() } else { 0 };
        self.parts(line) + error
    }

    fn moved(&mut self, delta: i64) -> Top {
        let (top, lines) = (self.top, self.line_count());
        top::moved(top, delta, lines, &mut |line| self.rows_of(line))
    }

    fn lowest(&mut self) -> Top {
        let (height, lines) = (self.height, self.line_count());
        top::lowest(height, lines, &mut |line| self.rows_of(line))
    }

    fn most_left(&self) -> usize {
        let widest = self.text.lines().iter().map(|line| line.columns).max().unwrap_or(0);
        widest.saturating_sub(self.text_width())
    }

    fn fill(&mut self) {
        self.rows.clear();
        let mut skip = self.top.row;
        for line in self.top.line..self.line_count() {
            let parts = self.parts(line);
            self.ready(line);
            let code = (0..parts).map(|part| Row::Code { line, part });
            let error = self.error.as_ref().filter(|(at, _)| *at == line).map(|_| self.error_rows.clone());
            let rows = code.chain(error.into_iter().flatten().map(Row::Error));
            let room = self.height - self.rows.len();
            self.rows.extend(rows.skip(skip).take(room));
            skip = 0;
            if self.rows.len() >= self.height {
                break;
            }
        }
    }

    fn find_hidden(&mut self) -> Hidden {
        let text_width = self.text_width();
        let lines = self.text.lines();
        let wide = |line: &&text::LineAt| !self.wrapped && line.columns > text_width;
        let (wide_lines, invisible_chars) = (lines.iter().filter(wide).count(), lines.iter().map(|l| l.named).sum());
        let seen = self.rows.iter().rev().find_map(|row| match row {
            Row::Code { line, part } => Some((*line, *part)),
            Row::Error(_) => None,
        });
        // Lines that are visible up to their end.
        let complete = match seen {
            Some((line, part)) if part + 1 >= self.parts(line) => line + 1,
            Some((line, _)) => line,
            None => self.top.line,
        };
        Hidden {
            lines_above: self.top.line + usize::from(self.top.row > 0),
            lines_below: self.line_count() - complete.min(self.line_count()),
            wide_lines,
            invisible_chars,
        }
    }

    /// Scrolls by rows, down if positive.
    pub fn scroll_lines(&mut self, delta: i64) {
        self.follow &= delta >= 0;
        self.top = self.moved(delta).min(self.lowest());
    }

    /// Scrolls by columns, to the right if positive. Where lines are wrapped there is nothing on the right.
    pub fn scroll_columns(&mut self, delta: i64) {
        let step = usize::try_from(delta.unsigned_abs()).unwrap_or(usize::MAX);
        let moved = if delta < 0 { self.left.saturating_sub(step) } else { self.left.saturating_add(step) };
        self.left = if self.wrapped { 0 } else { moved.min(self.most_left()) };
    }

    /// Scrolls by what is visible but one row, down or up.
    pub fn scroll_page(&mut self, down: bool) {
        let rows = i64::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(i64::MAX);
        self.scroll_lines(if down { rows } else { -rows });
    }

    /// Scrolls to the start.
    pub fn scroll_top(&mut self) {
        self.follow = false;
        self.top = Top::default();
        self.left = 0;
    }

    /// Scrolls to the end and stays there.
    pub fn scroll_bottom(&mut self) {
        self.follow = true;
        self.top = self.lowest();
    }

    /// Brings a line, counted from 1, into view.
    pub fn show_line(&mut self, number: u32) {
        let line = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1).min(self.line_count() - 1);
        self.reveal(Top { line, row: 0 });
    }

    fn reveal(&mut self, place: Top) {
        let top = self.top;
        self.top = place;
        let height = i64::try_from(self.height).unwrap_or(i64::MAX);
        let first = self.moved(1 - height);
        let third = i64::try_from(self.height / FOUND_AT).unwrap_or(0);
        let better = self.moved(-third);
        self.top = if (first..=place).contains(&top) { top } else { better };
        self.follow = false;
    }

    /// Marks what is searched for; nothing ends the search.
    pub fn set_search(&mut self, text: Option<&str>) {
        self.needle = text.and_then(Needle::new);
        self.current = None;
    }

    /// Goes to the next place of what is searched for, or the one before, and around the ends. False if there is none.
    pub fn next_match(&mut self, forward: bool) -> bool {
        let Some((line, range)) = self.find(forward) else { return false };
        let part = self.ready(line).mark_before(range.start);
        self.reveal(Top { line, row: if self.wrapped { part } else { 0 } });
        if !self.wrapped {
            self.reveal_columns(line, &range);
        }
        self.current = Some((line, range));
        true
    }

    fn find(&self, forward: bool) -> Option<(usize, Range<usize>)> {
        let needle = self.needle.as_ref()?;
        let count = self.line_count();
        let (start, from, to) = match &self.current {
            Some((line, range)) => (*line, range.end, range.start),
            None => (self.top.line, 0, usize::MAX),
        };
        // The line it starts in comes again at the end, whole.
        (0..=count).find_map(|i| {
            let line = if forward { start + i } else { start + count - i } % count;
            let text = self.text.line(line);
            let found = match (forward, i) {
                (true, 0) => needle.find(text, from),
                (true, _) => needle.find(text, 0),
                (false, 0) => needle.rfind(text, to),
                (false, _) => needle.rfind(text, usize::MAX),
            };
            Some((line, found?))
        })
    }

    fn reveal_columns(&mut self, line: usize, range: &Range<usize>) {
        let Some(shown) = self.shown.get(&line) else { return };
        let mark = shown.marks.get(shown.mark_before(range.start)).copied().unwrap_or_default();
        let mut pieces = shown.pieces(self.text.line(line), mark);
        let column = pieces.find(|piece| piece.raw.end > range.start).map_or(0, |piece| piece.at.column);
        let width = self.text_width();
        if !(self.left..(self.left + width).saturating_sub(range.len())).contains(&column) {
            self.left = column.saturating_sub(width / FOUND_AT).min(self.most_left());
        }
    }
}

#[cfg(test)]
mod tests;
