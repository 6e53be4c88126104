//! A view of styled lines: help, diffs, what a pager shows. Lines are wrapped when they come into view, so that a text of
//! any length opens at once.

use std::collections::HashMap;
use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;

use crate::tui::search::Needle;
use crate::tui::theme::{Role, Theme};
use crate::tui::top::{self, Top};
use crate::tui::wrap;

/// Columns by which the rows that continue a line are set in.
const INDENT: usize = 2;

/// Rows a found place is moved to below the top, as a share of the height.
const FOUND_AT: usize = 3;

/// A view of lines. What is in them went through `Clean`.
#[derive(Debug, Default)]
pub struct Lines {
    lines: Vec<Line<'static>>,
    /// Rows of the lines that are visible.
    wrapped: HashMap<usize, Vec<Line<'static>>>,
    top: Top,
    width: usize,
    height: usize,
    /// Line and row of it.
    rows: Vec<(usize, usize)>,
    needle: Option<Needle>,
    current: Option<(usize, Range<usize>)>,
}

impl Lines {
    /// A view of `lines`, at its top.
    pub fn new(lines: Vec<Line<'static>>) -> Self {
        Self { lines, ..Self::default() }
    }

    /// Shows other lines, at the same place.
    pub fn set_lines(&mut self, lines: Vec<Line<'static>>) {
        self.lines = lines;
        self.wrapped.clear();
        self.current = None;
    }

    /// The text of all lines, for copying.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [wrap::joined(line), "\n".into()]).collect()
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The visible lines: the first, and the one behind the last. As of the last layout.
    pub fn visible(&self) -> Range<usize> {
        self.top.line..self.rows.last().map_or(self.top.line, |(line, _)| line + 1)
    }

    /// Makes the rows for a pane of this size. To be called before drawing whenever anything changed.
    pub fn layout(&mut self, width: u16, height: u16) {
        if self.width != usize::from(width) {
            self.wrapped.clear();
        }
        (self.width, self.height) = (usize::from(width), usize::from(height));
        self.top = self.moved(0).min(self.lowest());
        self.rows.clear();
        let mut skip = self.top.row;
        for line in self.top.line..self.lines.len() {
            let rows = self.rows_of(line);
            let room = self.height - self.rows.len();
            self.rows.extend((skip..rows).map(|row| (line, row)).take(room));
            skip = 0;
            if self.rows.len() >= self.height {
                break;
            }
        }
        let visible = self.visible();
        self.wrapped.retain(|line, _| visible.contains(line));
    }

    fn rows_of(&mut self, line: usize) -> usize {
        let width = self.width;
        let Some(text) = self.lines.get(line) else { return 1 };
        self.wrapped.entry(line).or_insert_with(|| wrap::wrap_indented(text, width, INDENT)).len()
    }

    fn moved(&mut self, delta: i64) -> Top {
        let (top, lines) = (self.top, self.lines.len());
        top::moved(top, delta, lines, &mut |line| self.rows_of(line))
    }

    fn lowest(&mut self) -> Top {
        let (height, lines) = (self.height, self.lines.len());
        top::lowest(height, lines, &mut |line| self.rows_of(line))
    }

    /// Scrolls by rows, down if positive.
    pub fn scroll_lines(&mut self, delta: i64) {
        self.top = self.moved(delta).min(self.lowest());
    }

    /// Scrolls by what is visible but one row, down or up.
    pub fn scroll_page(&mut self, down: bool) {
        let rows = i64::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(i64::MAX);
        self.scroll_lines(if down { rows } else { -rows });
    }

    /// Scrolls to the start.
    pub fn scroll_top(&mut self) {
        self.top = Top::default();
    }

    /// Scrolls to the end.
    pub fn scroll_bottom(&mut self) {
        self.top = self.lowest();
    }

    /// Marks what is searched for; nothing ends the search.
    pub fn set_search(&mut self, text: Option<&str>) {
        self.needle = text.and_then(Needle::new);
        self.current = None;
    }

    /// Goes to the next place of what is searched for, or the one before, and around the ends. False if there is none.
    pub fn next_match(&mut self, forward: bool) -> bool {
        let Some((line, range)) = self.find(forward) else { return false };
        let row = self.row_of(line, range.start);
        let place = Top { line, row };
        self.current = Some((line, range));
        let top = std::mem::replace(&mut self.top, place);
        let height = i64::try_from(self.height).unwrap_or(i64::MAX);
        let first = self.moved(1 - height);
        let third = i64::try_from(self.height / FOUND_AT).unwrap_or(0);
        self.top = if (first..=place).contains(&top) { top } else { self.moved(-third) };
        true
    }

    fn find(&self, forward: bool) -> Option<(usize, Range<usize>)> {
        let needle = self.needle.as_ref()?;
        let count = self.lines.len();
        let (start, from, to) = match &self.current {
            Some((line, range)) => (*line, range.end, range.start),
            None => (self.top.line, 0, usize::MAX),
        };
        // The line it starts in comes again at the end, whole.
        (0..=count).filter(|_| count > 0).find_map(|i| {
            let line = if forward { start + i } else { start + count - i } % count;
            let text = self.lines.get(line).map(wrap::joined)?;
            let found = match (forward, i) {
                (true, 0) => needle.find(&text, from),
                (true, _) => needle.find(&text, 0),
                (false, 0) => needle.rfind(&text, to),
                (false, _) => needle.rfind(&text, usize::MAX),
            };
            Some((line, found?))
        })
    }

    /// The row of a line in which byte `at` of its text is. Spaces at breaks are not counted, so this is where it begins.
    fn row_of(&mut self, line: usize, at: usize) -> usize {
        let count = self.rows_of(line);
        let Some(text) = self.lines.get(line).map(|line| wrap::expand_tabs(line).into_owned()) else { return 0 };
        let joined = wrap::joined(&text);
        let rows = wrap::rows(&joined, self.width, INDENT.min(self.width / 2));
        rows.partition_point(|row| row.start <= at).saturating_sub(1).min(count.saturating_sub(1))
    }

    /// Draws what the last layout made ready.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        for (y, (line, row)) in (area.y..area.bottom()).zip(&self.rows) {
            let Some(text) = self.wrapped.get(line).and_then(|rows| rows.get(*row)) else { continue };
            buf.set_line(area.x, y, text, area.width);
            let at = Rect { y, height: 1, ..area };
            let current = self.current.as_ref().is_some_and(|(found, _)| found == line);
            self.draw_found(text, current, at, buf, theme);
        }
    }

    /// Marks what is searched for in a row. What a break divides is found, but not marked.
    fn draw_found(&self, row: &Line<'static>, current: bool, at: Rect, buf: &mut Buffer, theme: Theme) {
        let Some(needle) = &self.needle else { return };
        let text = wrap::joined(row);
        let mut style = theme.style(Role::Found);
        if current {
            style = style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD);
        }
        for found in needle.all(&text) {
            let from = u16::try_from(wrap::width(&text[..found.start])).unwrap_or(u16::MAX).min(at.width);
            let width = u16::try_from(wrap::width(&text[found])).unwrap_or(u16::MAX).min(at.width - from);
            buf.set_style(Rect { x: at.x + from, width, ..at }, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::ThemeName;
    use std::time::{Duration, Instant};

    fn shown(view: &mut Lines, width: u16, height: u16) -> Vec<String> {
        view.layout(width, height);
        let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
        view.draw(buf.area, &mut buf, Theme::new(ThemeName::Dark));
        let row = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn numbered(count: usize) -> Vec<Line<'static>> {
        (0..count).map(|i| Line::raw(format!("this is line {i}"))).collect()
    }

    #[test]
    fn lines_wrap_and_scroll_by_rows() {
        let mut view = Lines::new(numbered(3));
        assert_eq!(shown(&mut view, 10, 3), ["this is", "  line 0", "this is"]);
        view.scroll_lines(1);
        assert_eq!(shown(&mut view, 10, 3), ["  line 0", "this is", "  line 1"]);
        view.scroll_bottom();
        assert_eq!(shown(&mut view, 10, 3), ["  line 1", "this is", "  line 2"]);
        assert_eq!(view.visible(), 1..3);
        view.scroll_page(false);
        view.scroll_page(false);
        assert_eq!(shown(&mut view, 20, 2), ["this is line 0", "this is line 1"]);
        assert_eq!(view.text(), "this is line 0\nthis is line 1\nthis is line 2\n");
    }

    #[test]
    fn a_search_brings_its_place_into_view() {
        let mut view = Lines::new(numbered(1000));
        view.layout(10, 6);
        view.set_search(Some("line 777"));
        assert!(view.next_match(true));
        assert!(shown(&mut view, 10, 6).contains(&"  line 777".to_owned()));
        view.set_search(Some("is"));
        for _ in 0..5 {
            assert!(view.next_match(false));
        }
        assert!(view.visible().contains(&775), "{:?}", view.visible());
        view.set_search(Some("nothing"));
        assert!(!view.next_match(true) && !Lines::default().next_match(true));
    }

    #[test]
    fn a_long_text_opens_at_once_and_an_empty_one_too() {
        assert_eq!(shown(&mut Lines::default(), 5, 2), ["", ""]);
        let mut lines = numbered(200_000);
        lines.push(Line::raw("x ".repeat(250_000)));
        let mut view = Lines::new(lines);
        let begun = Instant::now();
        for _ in 0..20 {
            view.scroll_bottom();
            shown(&mut view, 80, 40);
            view.scroll_lines(-1);
            shown(&mut view, 80, 40);
            view.scroll_top();
            shown(&mut view, 80, 40);
        }
        assert!(begun.elapsed() < Duration::from_secs(80), "{:?}", begun.elapsed());
        for (width, height) in [(0, 0), (1, 1), (2, 0), (0, 2)] {
            shown(&mut view, width, height);
        }
    }
}
