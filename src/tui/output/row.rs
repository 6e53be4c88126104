//! Lines of output as rows of the screen. Owns the rule by which a line is wrapped: after so many columns, as a terminal
//! does it, at the borders of what a reader takes for one character.
//!
//! Counting the rows of a line and drawing them walk the same way, so what was counted is what is drawn.

use std::ops::Range;

use ratatui::buffer::CellWidth;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::ink::{Ink, Piece, is_visible, pieces};
use crate::core::clean::Clean;
use crate::tui::theme::{Role, Theme};

/// Columns between tab stops, as on every terminal.
const TAB: usize = 8;

/// Bytes of one drawn character. A base with four marks needs 20; beyond it are only marks that colours between them
/// brought past [`Clean`].
const MAX_CLUSTER: usize = 32;

/// A line that can be drawn: clean text and how its parts look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Styled {
    text: String,
    /// Where each ink begins, in bytes of `text`.
    inks: Vec<(usize, Ink)>,
}

impl Styled {
    /// Takes a kept line.
    pub fn new(raw: &str) -> Self {
        let mut line = Self::default();
        let mut ink = Ink::default();
        for piece in pieces(raw) {
            match piece {
                Piece::Text(text) => {
                    let text = Clean::text(text).into_string();
                    // A line separator of Unicode is no end of a line here.
                    line.text.extend(text.chars().map(|c| if c == '\n' { ' ' } else { c }));
                }
                Piece::Colour(body) => {
                    ink.apply(body);
                    line.inks.push((line.text.len(), ink));
                }
            }
        }
        line
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The text of a kept line, clean and without colours.
pub fn plain(raw: &str) -> String {
    Styled::new(raw).text
}

/// A line in its last state, where `\r` began it again.
pub fn last_state(raw: &str) -> &str {
    if !raw.contains('\r') {
        return raw;
    }
    raw.rsplit('\r').find(|state| is_visible(state)).unwrap_or_default()
}

/// What is drawn where.
struct Spot<'a> {
    /// Place in the text, bytes.
    at: usize,
    row: usize,
    column: usize,
    width: usize,
    /// The character with its marks; `\t` for a tab.
    cluster: &'a str,
}

/// Walks over what is drawn, in rows of `width` columns, or in one row without.
fn walk<'a>(text: &'a str, width: Option<usize>, mut see: impl FnMut(Spot<'a>) -> bool) {
    let limit = width.map_or(usize::MAX, |w| w.max(1));
    let (mut row, mut column) = (0, 0);
    for (at, cluster) in text.grapheme_indices(true) {
        let tab = cluster == "\t";
        // A tab goes to the end of the row at most.
        let least = if tab { 1 } else { usize::from(cluster.cell_width()) };
        if least == 0 {
            continue;
        }
        if column > 0 && column + least > limit {
            row += 1;
            column = 0;
        }
        let wide = if tab { TAB - column % TAB } else { least }.min(limit - column);
        if !see(Spot { at, row, column, width: wide, cluster }) {
            return;
        }
        column += wide;
    }
}

/// Columns of a kept line that holds nothing but printable ASCII and colours.
fn simple_columns(raw: &str) -> Option<usize> {
    let printable = |text: &str| text.bytes().all(|b| matches!(b, b' '..=b'~'));
    if printable(raw) {
        return Some(raw.len());
    }
    if !raw.is_ascii() {
        return None;
    }
    pieces(raw).try_fold(0, |sum, piece| match piece {
        Piece::Text(text) => printable(text).then(|| sum + text.len()),
        Piece::Colour(_) => Some(sum),
    })
}

/// Columns of characters that stand alone whatever is beside them; nothing of all others. Most text that is not English is
/// made of these, and is measured many times faster for it.
fn simple_width(c: char) -> Option<usize> {
    match c {
        ' '..='~' | '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{2FF}' | '\u{391}'..='\u{3A1}' | '\u{3A3}'..='\u{482}' => {
            Some(1)
        }
        '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205E}' | '\u{2190}'..='\u{21FF}' | '\u{2500}'..='\u{259F}' => {
            Some(1)
        }
        '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' => {
            Some(2)
        }
        _ => None,
    }
}

/// Rows of a line of nothing but such characters and colours.
fn count_simple(raw: &str, width: usize) -> Option<usize> {
    let (mut row, mut column) = (0, 0);
    for piece in pieces(raw) {
        let Piece::Text(text) = piece else { continue };
        for c in text.chars() {
            let wide = simple_width(c)?;
            if column > 0 && column + wide > width {
                row += 1;
                column = 0;
            }
            column += wide;
        }
    }
    Some(row + 1)
}

/// How many rows of `width` columns a kept line takes; at least one.
pub fn count(raw: &str, width: usize) -> usize {
    let width = width.max(1);
    if let Some(columns) = simple_columns(raw) {
        return columns.div_ceil(width).max(1);
    }
    count_simple(raw, width).unwrap_or_else(|| count_walking(raw, width))
}

fn count_walking(raw: &str, width: usize) -> usize {
    let mut last = 0;
    walk(Styled::new(raw).text(), Some(width), |spot| {
        last = spot.row;
        true
    });
    last + 1
}

/// Which row of a line a byte of its text is in.
pub fn row_at(text: &str, width: usize, byte: usize) -> usize {
    let mut found = 0;
    walk(text, Some(width), |spot| {
        found = spot.row;
        spot.at < byte
    });
    found
}

/// Which column of a line a byte of its text is in, where it is not wrapped.
pub fn column_at(text: &str, byte: usize) -> usize {
    let mut found = 0;
    walk(text, None, |spot| {
        found = spot.column;
        spot.at < byte
    });
    found
}

/// How lines are painted.
#[derive(Debug, Clone, Copy)]
pub struct Paint<'a> {
    /// The theme.
    pub theme: Theme,
    /// What everything has that the program gave no colour.
    pub base: Style,
    /// What a search found, in bytes of the text.
    pub found: &'a [Range<usize>],
    /// Where the match begins that the person is at.
    pub current: Option<usize>,
}

impl Paint<'_> {
    fn style(&self, line: &Styled, at: usize) -> Style {
        let before = line.inks.partition_point(|(start, _)| *start <= at);
        let ink = before.checked_sub(1).and_then(|i| line.inks.get(i)).map(|(_, ink)| *ink).unwrap_or_default();
        let style = self.base.patch(ink.style(self.theme));
        let next = self.found.partition_point(|range| range.end <= at);
        match self.found.get(next) {
            Some(range) if range.contains(&at) => {
                let style = style.patch(self.theme.style(Role::Found));
                if self.current == Some(range.start) {
                    style.add_modifier(Modifier::UNDERLINED | Modifier::BOLD)
                } else {
                    style
                }
            }
            _ => style,
        }
    }
}

/// The rows `wanted` of a line, wrapped.
pub fn wrapped(line: &Styled, width: usize, wanted: Range<usize>, paint: Paint<'_>) -> Vec<Line<'static>> {
    let mut rows: Vec<Painter> = Vec::new();
    walk(line.text(), Some(width), |spot| {
        if spot.row >= wanted.end {
            return false;
        }
        if let Some(at) = spot.row.checked_sub(wanted.start) {
            rows.resize_with(rows.len().max(at + 1), Painter::default);
            rows[at].put(spot.cluster, spot.width, paint.style(line, spot.at));
        }
        true
    });
    rows.resize_with(rows.len().max(wanted.len().min(1)), Painter::default);
    rows.into_iter().map(Painter::finish).collect()
}

/// The columns `wanted` of a line that is not wrapped.
pub fn cut(line: &Styled, wanted: Range<usize>, paint: Paint<'_>) -> Line<'static> {
    let mut row = Painter::default();
    walk(line.text(), None, |spot| {
        let end = spot.column + spot.width;
        if spot.column >= wanted.end {
            return false;
        }
        if end <= wanted.start {
            return true;
        }
        let style = paint.style(line, spot.at);
        if spot.column >= wanted.start && end <= wanted.end {
            row.put(spot.cluster, spot.width, style);
        } else {
            // Half of a wide character is no character.
            let inside = end.min(wanted.end) - spot.column.max(wanted.start);
            row.put("\t", inside, style);
        }
        true
    });
    row.finish()
}

/// Builds a row of as few spans as there are styles.
#[derive(Default)]
struct Painter {
    spans: Vec<Span<'static>>,
}

impl Painter {
    fn put(&mut self, cluster: &str, width: usize, style: Style) {
        if self.spans.last().is_none_or(|span| span.style != style) {
            self.spans.push(Span::styled(String::new(), style));
        }
        let Some(span) = self.spans.last_mut() else { return };
        let text = span.content.to_mut();
        if cluster == "\t" || usize::from(cluster.cell_width()) > width {
            text.extend(std::iter::repeat_n(' ', width));
        } else if cluster.len() > MAX_CLUSTER {
            text.extend(cluster.chars().take(MAX_CLUSTER / 4));
        } else {
            text.push_str(cluster);
        }
    }

    fn finish(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::ThemeName;

    fn paint() -> Paint<'static> {
        Paint { theme: Theme::new(ThemeName::Dark), base: Style::new(), found: &[], current: None }
    }

    fn texts(raw: &str, width: usize) -> Vec<String> {
        let line = Styled::new(raw);
        let rows = wrapped(&line, width, 0..count(raw, width), paint());
        rows.iter().map(|row| row.spans.iter().map(|s| s.content.as_ref()).collect()).collect()
    }

    #[test]
    fn lines_are_wrapped_by_what_they_take_on_the_screen() {
        assert_eq!(texts("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(texts("", 4), [""]);
        assert_eq!(texts("日本語", 5), ["日本", "語"]);
        assert_eq!(texts("日本語", 1), [" ", " ", " "]);
        assert_eq!(texts("a\tb", 20), ["a       b"]);
        assert_eq!(texts("abcdef\tx", 7), ["abcdef ", "x"]);
        assert_eq!(texts("e\u{301}e\u{301}", 1), ["e\u{301}", "e\u{301}"]);
        assert_eq!(texts("\u{1b}[31mab\u{1b}[0mcd", 3), ["abc", "d"]);
    }

    #[test]
    fn colours_become_styles_and_the_found_is_marked() {
        let line = Styled::new("a\u{1b}[31mb\u{1b}[0mc");
        let row = cut(&line, 0..9, Paint { found: std::slice::from_ref(&(2..3)), ..paint() });
        assert_eq!(row.spans[1].style.fg, Some(ratatui::style::Color::Red));
        assert_eq!(row.spans[2].style, Theme::new(ThemeName::Dark).style(Role::Found));
    }

    #[test]
    fn a_window_onto_a_long_line_cuts_wide_characters() {
        let line = Styled::new("a日b");
        let text = |range| cut(&line, range, paint()).spans.iter().map(|s| s.content.to_string()).collect::<String>();
        assert_eq!(text(0..3), "a日");
        assert_eq!(text(0..2), "a ");
        assert_eq!(text(2..4), " b");
        assert_eq!(text(9..12), "");
    }

    #[test]
    fn hostile_text_is_inert() {
        let zalgo = "\u{1b}[0m\u{301}".repeat(10_000);
        let rows = texts(&format!("\u{1b}]52;c;aGk=\u{7}a{zalgo}\u{202e}\u{1b}[2J\u{9b}1mb"), 40);
        assert_eq!(rows.len(), 1);
        assert!(rows[0].len() < 100, "{rows:?}");
        assert!(rows[0].ends_with("<U+202E>b") && rows[0].starts_with('a'), "{rows:?}");
        assert!(!rows[0].chars().any(char::is_control));
    }

    #[test]
    fn redraws_show_their_last_state() {
        assert_eq!(last_state("10%\r20%\r\u{1b}[0m"), "20%");
        assert_eq!(last_state("plain"), "plain");
        assert_eq!(last_state("\r\r"), "");
    }

    #[test]
    fn simple_characters_are_as_wide_as_they_are_drawn_and_stand_alone() {
        let simple: Vec<char> = ('\0'..=char::MAX).filter(|c| simple_width(*c).is_some()).collect();
        for c in &simple {
            assert_eq!(simple_width(*c), Some(usize::from(c.to_string().as_str().cell_width())), "{c:?}");
            assert_eq!(plain(&c.to_string()), c.to_string());
        }
        let text: String = simple.iter().collect();
        assert_eq!(text.graphemes(true).count(), simple.len());
        assert_eq!(count_simple(&text, 7), Some(count_walking(&text, 7)));
        assert_eq!(count("日本語", 1), count_walking("日本語", 1));
    }

    proptest! {
        #[test]
        fn what_is_counted_is_what_is_drawn(raw in "[ -~]{0,12}(\u{1b}\\[31m|\t|日|e\u{301}|é|\u{200b}|[ -~]{0,9}){0,12}", width in 1usize..30) {
            let rows = texts(&raw, width);
            prop_assert_eq!(rows.len(), count(&raw, width));
            for row in &rows {
                prop_assert!(row.graphemes(true).map(|g| usize::from(g.cell_width())).sum::<usize>() <= width);
            }
            let drawn: String = rows.concat().split_whitespace().collect();
            let cleaned: String = plain(&raw).split_whitespace().collect();
            if width > 1 && !raw.contains('\u{200b}') {
                prop_assert_eq!(drawn, cleaned);
            }
        }

        #[test]
        fn a_place_is_in_the_row_that_draws_it(raw in "[a-z日]{1,40}", width in 2usize..12) {
            let text = plain(&raw);
            for (at, c) in text.char_indices() {
                let row = row_at(&text, width, at);
                prop_assert!(texts(&raw, width)[row].contains(c));
            }
        }
    }
}
