//! Tables. Owns how their columns share the width of the pane: by content if it fits, with cells wrapped if not, and one
//! line a cell where even that is too narrow to read.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use crate::tui::theme::{Role, Theme};
use crate::tui::wrap;

/// Narrowest column whose cells are wrapped; a narrower one breaks too many words. Columns.
const MIN_CELL: usize = 7;

/// Between two columns.
const BETWEEN: &str = " │ ";

/// Columns of [`BETWEEN`].
const BETWEEN_WIDTH: usize = 3;

/// By how much a long value is set in where each cell has a line of its own. Columns.
const INDENT: usize = 2;

/// A table that was read.
#[derive(Debug, Default)]
pub struct Table {
    /// How the columns are aligned.
    pub alignments: Vec<Alignment>,
    /// The rows; the first one is the head. A cell has one line, or several where it says so.
    pub rows: Vec<Vec<Vec<Line<'static>>>>,
}

impl Table {
    /// The rows of the screen, at most `width` columns wide.
    pub fn lines(&self, width: usize, theme: Theme) -> Vec<Line<'static>> {
        match widths(&self.natural(), width) {
            Some(widths) => self.side_by_side(&widths, theme),
            None => self.one_below_the_other(width, theme),
        }
    }

    /// Widths that hold every cell.
    fn natural(&self) -> Vec<usize> {
        let mut widths = vec![1; self.alignments.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let widest = cell.iter().map(wrap::line_width).max().unwrap_or(0);
                *width = widest.max(*width);
            }
        }
        widths
    }

    fn side_by_side(&self, widths: &[usize], theme: Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let empty = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cell = |(i, width): (usize, &usize)| {
                let lines = row.get(i).unwrap_or(&empty);
                lines.iter().flat_map(|line| wrap::wrap(line, *width)).collect::<Vec<_>>()
            };
            let cells: Vec<Vec<Line<'static>>> = widths.iter().enumerate().map(cell).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            lines.extend((0..height).map(|at| self.row(&cells, at, widths, theme)));
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::styled(rule.join("─┼─"), theme.style(Role::Dim)));
            }
        }
        lines
    }

    /// One row of the screen: the row `at` of each cell.
    fn row(&self, cells: &[Vec<Line<'static>>], at: usize, widths: &[usize], theme: Theme) -> Line<'static> {
        let mut spans = Vec::new();
        for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
            if i > 0 {
                spans.push(Span::styled(BETWEEN, theme.style(Role::Dim)));
            }
            let line = cell.get(at);
            let free = width.saturating_sub(line.map_or(0, wrap::line_width));
            let left = match self.alignments.get(i) {
                Some(Alignment::Right) => free,
                Some(Alignment::Center) => free / 2,
                Some(Alignment::Left | Alignment::None) | None => 0,
            };
            if left > 0 {
                spans.push(Span::raw(" ".repeat(left)));
            }
            spans.extend(line.into_iter().flat_map(|line| line.spans.iter().cloned()));
            // Nothing is behind the last column that it would have to be kept away from.
            if free > left && i + 1 < widths.len() {
                spans.push(Span::raw(" ".repeat(free - left)));
            }
        }
        Line::from(spans)
    }

    fn one_below_the_other(&self, width: usize, theme: Theme) -> Vec<Line<'static>> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                lines.push(Line::styled("─".repeat(width), theme.style(Role::Dim)));
            }
            for (i, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                let name = head.get(i).into_iter().flatten().flat_map(|line| line.spans.iter().cloned());
                let mut spans: Vec<Span<'static>> = name.collect();
                spans.push(Span::styled(": ", theme.style(Role::Dim)));
                for line in cell {
                    spans.extend(line.spans.iter().cloned());
                    lines.extend(wrap::wrap_indented(&Line::from(std::mem::take(&mut spans)), width, INDENT));
                }
            }
        }
        if rows.is_empty() {
            lines.extend(head.iter().flatten().flat_map(|line| wrap::wrap_indented(line, width, INDENT)));
        }
        lines
    }
}

/// Widths of columns that need `natural`, so that all fit into `width`: the widest give first. Nothing if a column would
/// become too narrow to read.
fn widths(natural: &[usize], width: usize) -> Option<Vec<usize>> {
    let room = width.checked_sub(BETWEEN_WIDTH * natural.len().saturating_sub(1))?;
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    let mut sorted = natural.to_vec();
    sorted.sort_unstable();
    let (mut left, mut most) = (room, 0);
    for (i, natural) in sorted.iter().enumerate() {
        most = left / (sorted.len() - i);
        if *natural > most {
            break;
        }
        left -= natural;
    }
    (most >= MIN_CELL).then(|| natural.iter().map(|natural| (*natural).min(most)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_give_first() {
        assert_eq!(widths(&[3, 5], 11), Some(vec![3, 5]));
        assert_eq!(widths(&[3, 50, 20], 45), Some(vec![3, 18, 18]));
        assert_eq!(widths(&[3, 50, 10], 46), Some(vec![3, 27, 10]));
        assert_eq!(widths(&[50, 50], 16), None);
        assert_eq!(widths(&[1; 40], 80), None);
        assert_eq!(widths(&[], 0), Some(vec![]));
    }
}
