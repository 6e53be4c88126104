//! What a line looks like, column by column: which piece of it stands where, and what is drawn for it. Owns tab stops and
//! the names of characters that cannot be seen; cursor, mouse and drawing all measure with this.
//!
//! Everything drawn here went through [`Clean`]. A cluster is measured by the sum of what is really drawn, so that the
//! cursor stands right behind `<U+202E>` as behind a tab or a wide character.

use ratatui::buffer::{Buffer, CellWidth};
use ratatui::style::Style;
use unicode_segmentation::UnicodeSegmentation;

use crate::core::clean::Clean;

/// Columns between tab stops, as for one level of Python.
pub const TAB_STOP: usize = 4;

/// Bytes of one cluster that are drawn. Any letter fits; a million combining marks on one are named to here and counted
/// beyond.
const MAX_CLUSTER: usize = 64;

/// How characters are shown.
#[derive(Debug, Clone, Copy)]
pub enum Look<'a> {
    /// As code: every character that cannot be seen by name.
    Code,
    /// As prose: joined emoji fall into their parts; only what would leave nothing to see is named. A character of the
    /// private range that begins with [`BLOCKS`] stands for a block and is shown as the label with its number.
    Prose(&'a [String]),
}

/// The first character that stands for a block.
pub const BLOCKS: char = '\u{100000}';

/// The number of the block that `c` stands for.
pub fn block_of(c: char) -> Option<usize> {
    // The last two characters of the plane are no characters.
    matches!(c, BLOCKS..='\u{10FFFD}').then(|| (u32::from(c) - u32::from(BLOCKS)) as usize)
}

/// One cluster of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Its first byte in the line.
    pub at: usize,
    /// Its bytes.
    pub raw: &'a str,
    /// The column where it begins.
    pub column: usize,
    /// How many columns it takes.
    pub width: usize,
}

/// The clusters of `line` from the left.
pub fn cells<'a>(line: &'a str, look: Look<'a>) -> impl Iterator<Item = Cell<'a>> {
    let (mut at, mut column) = (0, 0);
    std::iter::from_fn(move || {
        let raw = first_cluster(line.get(at..)?)?;
        let width = width_of(raw, column, look);
        let cell = Cell { at, raw, column, width };
        at += raw.len();
        column += width;
        Some(cell)
    })
}

fn first_cluster(rest: &str) -> Option<&str> {
    match rest.as_bytes() {
        // Between two ASCII characters there is always a boundary (`\r\n` is no part of a line): long lines of code
        // are measured without a look into tables.
        [a] if a.is_ascii() => Some(rest),
        [a, b, ..] if a.is_ascii() && b.is_ascii() => rest.get(..1),
        _ => rest.graphemes(true).next(),
    }
}

fn width_of(raw: &str, column: usize, look: Look<'_>) -> usize {
    match raw.as_bytes() {
        b"\t" => TAB_STOP - column % TAB_STOP,
        [b' '..=b'~'] => 1,
        _ => drawn(&show(raw, look).text).map(|(_, width)| width).sum(),
    }
}

/// The column of the byte `at`.
pub fn column_of(line: &str, at: usize, look: Look<'_>) -> usize {
    cells(line, look).take_while(|cell| cell.at < at).last().map_or(0, |cell| cell.column + cell.width)
}

/// The byte whose cluster stands at `column`, or where the line ends.
pub fn byte_at(line: &str, column: usize, look: Look<'_>) -> usize {
    cells(line, look).find(|cell| cell.column + cell.width > column).map_or(line.len(), |cell| cell.at)
}

/// What is drawn for a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The text; a tab is left as it is.
    pub text: Clean,
    /// It is a name and not the text itself.
    pub named: bool,
}

/// What is drawn for the cluster `raw`.
pub fn show(raw: &str, look: Look<'_>) -> Shown {
    let short = cut(raw);
    let mut text = match look {
        Look::Code => Clean::code(short),
        Look::Prose(labels) => match short.chars().next().and_then(block_of) {
            Some(block) => {
                return Shown { text: Clean::line(labels.get(block).map_or("[?]", |label| label)), named: true };
            }
            None => Clean::text(short),
        },
    };
    // A control character would end a line of code.
    let is_shown = short != "\r" && drawn(&text).any(|(_, width)| width > 0);
    // A name is longer than any character, and what is left out makes the text shorter.
    let mut named = text.as_str().len() > short.len();
    if !is_shown && raw != "\t" {
        text = named_all(short);
        named = true;
    }
    if short.len() < raw.len() {
        let rest = raw.get(short.len()..).map_or(0, |rest| rest.chars().count());
        text.push(&Clean::line(&format!("<+{rest}>")));
        named = true;
    }
    Shown { text, named }
}

fn cut(raw: &str) -> &str {
    let mut end = raw.len().min(MAX_CLUSTER);
    while !raw.is_char_boundary(end) {
        end -= 1;
    }
    raw.get(..end).unwrap_or_default()
}

fn named_all(raw: &str) -> Clean {
    Clean::line(&raw.chars().map(|c| format!("<U+{:04X}>", u32::from(c))).collect::<String>())
}

/// The pieces of clean text as a terminal takes them, with their widths.
fn drawn(text: &Clean) -> impl Iterator<Item = (&str, usize)> {
    let pieces = text.as_str().graphemes(true).filter(|piece| !piece.contains(char::is_control));
    pieces.map(|piece| (piece, usize::from(piece.cell_width())))
}

/// A part of one row of the screen.
#[derive(Debug, Clone, Copy)]
pub struct Strip {
    /// Left end.
    pub x: u16,
    /// The row.
    pub y: u16,
    /// Columns.
    pub width: u16,
}

/// Draws what of `line` stands from the column `left` on. `style` is asked for each cluster. Returns whether more of the
/// line stands to the right.
pub fn draw_line(
    line: &str,
    look: Look<'_>,
    left: usize,
    strip: Strip,
    buf: &mut Buffer,
    mut style: impl FnMut(&Cell<'_>, bool) -> Style,
) -> bool {
    let right = left + usize::from(strip.width);
    for cell in cells(line, look) {
        if cell.column >= right {
            return true;
        }
        if cell.column + cell.width <= left {
            continue;
        }
        let shown = show(cell.raw, look);
        let style = style(&cell, shown.named);
        if cell.raw == "\t" {
            fill(strip, cell.column.saturating_sub(left), cell.column + cell.width - left, buf, style);
            continue;
        }
        let mut column = cell.column;
        for (piece, width) in drawn(&shown.text) {
            if column < left || column + width > right {
                // Half of a wide character cannot be drawn.
                fill(strip, column.saturating_sub(left), (column + width).saturating_sub(left), buf, style);
            } else {
                let x = strip.x.saturating_add((column - left) as u16);
                buf.set_stringn(x, strip.y, piece, width, style);
            }
            column += width;
        }
    }
    false
}

fn fill(strip: Strip, from: usize, to: usize, buf: &mut Buffer, style: Style) {
    for column in from..to.min(usize::from(strip.width)) {
        if let Some(cell) = buf.cell_mut((strip.x.saturating_add(column as u16), strip.y)) {
            cell.set_symbol(" ").set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    const PROSE: Look<'static> = Look::Prose(&[]);

    fn columns(line: &str, look: Look<'_>) -> Vec<(usize, usize, usize)> {
        cells(line, look).map(|c| (c.at, c.column, c.width)).collect()
    }

    #[test]
    fn clusters_take_the_columns_of_what_is_drawn() {
        assert_eq!(columns("a漢e\u{301}\tb", Look::Code), [(0, 0, 1), (1, 1, 2), (4, 3, 1), (7, 4, 4), (8, 8, 1)]);
        assert_eq!(columns("\u{202e}x", Look::Code), [(0, 0, 8), (3, 8, 1)]);
        let family = "👨\u{200d}👩";
        assert_eq!(columns(family, Look::Code), [(0, 0, 12)]);
        assert_eq!(columns(family, PROSE), [(0, 0, 4)]);
        assert_eq!(columns("ab\r", Look::Code), [(0, 0, 1), (1, 1, 1), (2, 2, 8)]);
    }

    #[test]
    fn nothing_is_without_a_width() {
        for hidden in ["\u{301}", "\u{200b}", "\u{0}", "\u{1b}", "\u{1161}", "\u{feff}", "\u{2028}", "\u{7f}", "\r"] {
            for look in [Look::Code, PROSE] {
                let shown = show(hidden, look);
                assert!(shown.named && shown.text.as_str().starts_with("<U+"), "{hidden:?} is {shown:?}");
            }
        }
    }

    #[test]
    fn printable_ascii_is_what_clean_leaves_alone() {
        for c in ' '..='~' {
            let raw = c.to_string();
            assert_eq!(show(&raw, Look::Code), Shown { text: Clean::code(&raw), named: false });
            assert_eq!(columns(&raw, Look::Code), [(0, 0, 1)]);
        }
    }

    #[test]
    fn a_million_marks_are_counted() {
        let raw = format!("e{}", "\u{301}".repeat(1_000_000));
        let shown = show(&raw, Look::Code);
        assert!(shown.text.as_str().ends_with("<+999969>"), "{}", shown.text);
        assert!(shown.text.as_str().len() < 400);
    }

    #[test]
    fn a_block_is_shown_as_its_label() {
        let labels = ["[pasted 20 lines]".to_owned()];
        let line = format!("a{BLOCKS}b");
        assert_eq!(columns(&line, Look::Prose(&labels)), [(0, 0, 1), (1, 1, 17), (5, 18, 1)]);
        assert_eq!(show("\u{100005}", Look::Prose(&labels)).text.as_str(), "[?]");
    }

    #[test]
    fn bytes_and_columns_are_found_from_each_other() {
        let line = "\t漢x";
        assert_eq!([0, 1, 4, 5].map(|at| column_of(line, at, Look::Code)), [0, 4, 6, 7]);
        assert_eq!([0, 3, 4, 5, 6, 7, 99].map(|c| byte_at(line, c, Look::Code)), [0, 0, 1, 1, 4, 5, 5]);
    }

    fn row(line: &str, left: usize, width: u16) -> (String, bool) {
        let mut buf = Buffer::empty(Rect::new(0, 0, width, 1));
        let more = draw_line(line, Look::Code, left, Strip { x: 0, y: 0, width }, &mut buf, |_, _| Style::new());
        (buf.content().iter().map(|c| c.symbol()).collect(), more)
    }

    #[test]
    fn a_window_of_a_line_is_drawn() {
        assert_eq!(row("abcdef", 2, 3), ("cde".into(), true));
        assert_eq!(row("abc", 2, 3), ("c  ".into(), false));
        assert_eq!(row("漢字x", 1, 4), (" 字 x".into(), false), "half of a character is blank");
        assert_eq!(row("a漢", 0, 2), ("a ".into(), false));
        assert_eq!(row("\u{202e}", 3, 3), ("202".into(), false));
        assert_eq!(row("\tx", 2, 3), ("  x".into(), false));
    }

    proptest! {
        #[test]
        fn drawing_stays_in_its_strip(line in ".*", left in 0usize..40, x in 0u16..12, width in 0u16..12) {
            let line = line.replace('\n', "");
            let mut buf = Buffer::filled(Rect::new(0, 0, 30, 1), ratatui::buffer::Cell::new("#"));
            draw_line(&line, Look::Code, left, Strip { x, y: 0, width }, &mut buf, |_, _| Style::new());
            for column in (0..x).chain(x + width..30) {
                prop_assert_eq!(buf[(column, 0)].symbol(), "#");
            }
        }

        #[test]
        fn every_byte_belongs_to_one_cell(line in ".*") {
            let line = line.replace('\n', "");
            for look in [Look::Code, PROSE] {
                let joined: String = cells(&line, look).map(|c| c.raw).collect();
                prop_assert_eq!(&joined, &line);
                prop_assert!(cells(&line, look).all(|c| c.width > 0));
                let clusters: Vec<&str> = line.graphemes(true).collect();
                prop_assert_eq!(cells(&line, look).map(|c| c.raw).collect::<Vec<_>>(), clusters);
            }
        }
    }
}
