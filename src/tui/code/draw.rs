//! Draws the rows of a [`CodeView`]: number, sign of continuation, the pieces of the line with their colours.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::line::{Piece, named_style};
use super::{CodeView, Row};
use crate::tui::highlight::Run;
use crate::tui::theme::{Role, Theme};
use crate::tui::wrap::{boundary_before, boundary_behind};

/// Stands in place of the number of a row that continues a line.
const CONTINUES: &str = "↳";

/// Stand at the edges behind which a line goes on.
const BEYOND: (&str, &str) = ("‹", "›");

impl CodeView {
    /// Draws what the last layout made ready.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        let gutter = self.gutter();
        for (y, row) in (area.y..area.bottom()).zip(&self.rows) {
            match row {
                Row::Code { line, part } => {
                    self.draw_number(area, y, *line, *part, buf, theme);
                    self.draw_part(right_of(area, y, gutter), *line, *part, buf, theme);
                }
                Row::Error(message) => {
                    let at = right_of(area, y, gutter);
                    buf.set_line(at.x, y, message, at.width);
                    buf.set_style(at, theme.style(Role::Bad));
                }
            }
        }
    }

    fn draw_number(&self, area: Rect, y: u16, line: usize, part: usize, buf: &mut Buffer, theme: Theme) {
        let wrong = self.error.as_ref().is_some_and(|(at, _)| *at == line);
        let style = theme.style(if wrong { Role::Bad } else { Role::Number });
        let digits = self.gutter() - 1;
        let sign = if part == 0 { (line + 1).to_string() } else { CONTINUES.to_owned() };
        buf.set_stringn(area.x, y, format!("{sign:>digits$}"), usize::from(area.width), style);
    }

    /// The visible pieces of a row and the column it starts at.
    fn pieces(&self, line: usize, part: usize) -> (Vec<Piece<'_>>, usize) {
        let Some(shown) = self.shown.get(&line) else { return (Vec::new(), 0) };
        let raw = self.text.line(line);
        if self.wrapped {
            let Some(mark) = shown.marks.get(part).copied() else { return (Vec::new(), 0) };
            let end = shown.marks.get(part + 1).map_or(raw.len(), |next| next.raw);
            return (shown.pieces(raw, mark).take_while(|piece| piece.raw.start < end).collect(), mark.column);
        }
        let first = shown.marks.partition_point(|mark| mark.column <= self.left).saturating_sub(1);
        let mark = shown.marks.get(first).copied().unwrap_or_default();
        let right = self.left + self.text_width();
        let pieces = shown.pieces(raw, mark).skip_while(|piece| piece.at.column + piece.width <= self.left);
        (pieces.take_while(|piece| piece.at.column < right).collect(), self.left)
    }

    fn draw_part(&self, at: Rect, line: usize, part: usize, buf: &mut Buffer, theme: Theme) {
        let (pieces, from) = self.pieces(line, part);
        let visible = pieces.first().map_or(0, |first| first.raw.start)..pieces.last().map_or(0, |last| last.raw.end);
        let found = self.found_in(line, visible);
        let (runs, base) = self.runs(line);
        for piece in &pieces {
            let style = self.style(piece, line, runs, base, &found, theme);
            draw_piece(at, piece, from, style, buf);
        }
        if !self.wrapped {
            self.draw_edges(at, line, buf, theme);
        }
    }

    fn style(
        &self,
        piece: &Piece<'_>,
        line: usize,
        runs: &[Run],
        base: usize,
        found: &[Range<usize>],
        theme: Theme,
    ) -> Style {
        let at = base + piece.raw.start;
        let run = runs.get(runs.partition_point(|(_, range)| range.end <= at));
        let role = run.filter(|(_, range)| range.contains(&at)).map_or(Role::Text, |(role, _)| *role);
        let mut style = theme.style(role);
        if piece.named {
            style = style.patch(named_style(theme));
        }
        if found.iter().any(|range| range.contains(&piece.raw.start)) {
            style = Style::new().patch(theme.style(Role::Found));
        }
        let is_current = |(at, range): &(usize, Range<usize>)| *at == line && range.contains(&piece.raw.start);
        if self.current.as_ref().is_some_and(is_current) {
            style = style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD);
        }
        style
    }

    /// The colours of a line, and where it starts in the line they are counted in.
    fn runs(&self, line: usize) -> (&[Run], usize) {
        let Some(at) = self.text.lines().get(line) else { return (&[], 0) };
        let runs = self.painted.as_ref().and_then(|painted| painted.lines.get(at.feeds));
        (runs.map_or(&[], Vec::as_slice), at.start - at.after_feed)
    }

    /// What is searched for in the visible part of a line: a little more is looked at, for what reaches into it.
    fn found_in(&self, line: usize, visible: Range<usize>) -> Vec<Range<usize>> {
        let Some(needle) = &self.needle else { return Vec::new() };
        let raw = self.text.line(line);
        let from = boundary_before(raw, visible.start.saturating_sub(needle.reach()));
        let to = boundary_behind(raw, visible.end.saturating_add(needle.reach()));
        needle.all(&raw[from..to]).map(|found| found.start + from..found.end + from).collect()
    }

    fn draw_edges(&self, at: Rect, line: usize, buf: &mut Buffer, theme: Theme) {
        let columns = self.text.lines().get(line).map_or(0, |line| line.columns);
        let style = theme.style(Role::Dim);
        if self.left > 0 && columns > 0 {
            buf.set_stringn(at.x, at.y, BEYOND.0, 1, style);
        }
        if columns > self.left + self.text_width() {
            buf.set_stringn(at.right().saturating_sub(1), at.y, BEYOND.1, usize::from(at.width), style);
        }
    }
}

/// What is left of row `y` beside `columns` columns.
fn right_of(area: Rect, y: u16, columns: usize) -> Rect {
    let columns = u16::try_from(columns).unwrap_or(u16::MAX).min(area.width);
    Rect { x: area.x + columns, y, width: area.width - columns, height: 1 }
}

/// Draws a piece whose row starts at column `from`. What is cut by an edge becomes spaces.
fn draw_piece(at: Rect, piece: &Piece<'_>, from: usize, style: Style, buf: &mut Buffer) {
    let start = piece.at.column;
    // One cell a character, unless the piece is one character of any make.
    let single = !piece.named && piece.width <= 2 && !piece.shown.starts_with(' ');
    if single {
        let (Some(x), Ok(width)) = (start.checked_sub(from), u16::try_from(piece.width)) else { return };
        let Ok(x) = u16::try_from(x) else { return };
        if x.saturating_add(width) <= at.width {
            buf.set_stringn(at.x + x, at.y, &piece.shown, piece.width, style);
            buf.set_style(Rect { x: at.x + x, y: at.y, width, height: 1 }, style);
        }
        return;
    }
    for (i, c) in piece.shown.chars().enumerate() {
        let x = (start + i).checked_sub(from).and_then(|x| u16::try_from(x).ok()).filter(|x| *x < at.width);
        if let Some(cell) = x.and_then(|x| buf.cell_mut((at.x + x, at.y))) {
            cell.set_char(c).set_style(style);
        }
    }
}
