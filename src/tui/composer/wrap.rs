//! The draft in rows of the screen, broken at spaces where there are some.

use crate::tui::edit::cells::{Look, cells};
use crate::tui::edit::text::{Pos, Text};

/// A row of the screen: a part of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which line.
    pub row: usize,
    /// Its first byte.
    pub start: usize,
    /// The byte behind its last.
    pub end: usize,
    /// It is the last of its line.
    pub is_last: bool,
}

impl Row {
    /// What stands in it.
    pub fn text<'a>(&self, text: &'a Text) -> &'a str {
        text.body(self.row).get(self.start..self.end).unwrap_or_default()
    }
}

/// The rows of `text` at `width` columns. A space at the end of a row may hang over by one column.
pub fn wrap<'a>(text: &'a Text, width: usize, look: Look<'a>) -> impl Iterator<Item = Row> {
    let (mut row, mut start) = (0, 0);
    std::iter::from_fn(move || {
        if row >= text.rows() {
            return None;
        }
        let rest = text.body(row).get(start..).unwrap_or_default();
        let len = fitting(rest, width, look);
        let is_last = len == rest.len();
        let found = Row { row, start, end: start + len, is_last };
        (row, start) = if is_last { (row + 1, 0) } else { (row, start + len) };
        Some(found)
    })
}

/// Bytes of `rest` that go into one row; at least one cluster.
fn fitting(rest: &str, width: usize, look: Look<'_>) -> usize {
    let mut behind_space = None;
    for cell in cells(rest, look) {
        let end = cell.at + cell.raw.len();
        let is_space = cell.raw == " ";
        let fits = cell.column + cell.width <= width + usize::from(is_space);
        if !fits && cell.at > 0 {
            return behind_space.unwrap_or(cell.at);
        }
        if is_space {
            behind_space = Some(end);
        }
    }
    rest.len()
}

/// The row the cursor is in.
pub fn row_of(rows: &[Row], pos: Pos) -> usize {
    rows.partition_point(|row| (row.row, row.start) <= (pos.row, pos.col)).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let text = Text::new(text);
        wrap(&text, width, Look::Prose(&[])).map(|row| row.text(&text).to_owned()).collect()
    }

    #[test]
    fn lines_break_behind_spaces() {
        assert_eq!(rows("one two three", 7), ["one two ", "three"]);
        assert_eq!(rows("one two three", 8), ["one two ", "three"]);
        assert_eq!(rows("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(rows("a\n\nb", 3), ["a", "", "b"]);
        assert_eq!(rows("", 3), [""]);
    }

    #[test]
    fn wide_characters_are_not_halved_and_a_narrow_screen_still_gets_one_each() {
        assert_eq!(rows("漢字か", 5), ["漢字", "か"]);
        assert_eq!(rows("漢字", 1), ["漢", "字"]);
        assert_eq!(rows("e\u{301}e\u{301}", 1), ["e\u{301}", "e\u{301}"]);
    }

    #[test]
    fn the_end_of_a_wrapped_row_is_the_start_of_the_next() {
        let text = Text::new("abcdef");
        let all: Vec<Row> = wrap(&text, 3, Look::Prose(&[])).collect();
        let row = |col| row_of(&all, Pos::new(0, col));
        assert_eq!([0, 2, 3, 6].map(row), [0, 0, 1, 1]);
    }
}
