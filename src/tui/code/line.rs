//! One line of code as it is shown. Owns the way from the characters that will run to those that are drawn: nothing is
//! left out, and what cannot be seen is drawn by name.
//!
//! What is drawn comes from [`Clean::code`]; the raw line is walked beside it, so that every piece knows the bytes it
//! stands for, and colours and searches that speak of the raw text find their place.

use std::borrow::Cow;
use std::ops::Range;

use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use unicode_width::UnicodeWidthChar;

use crate::core::clean::Clean;
use crate::tui::theme::{Role, Theme};
use crate::tui::wrap::{Atoms, TAB};

/// Characters before a place that decide how the place is shown: one more than the marks `Clean` lets stand.
const CONTEXT: usize = 5;

/// Spaces of one tab.
const SPACES: &str = "    ";

/// A place in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// Bytes of the raw line before it.
    pub raw: usize,
    /// Bytes of the cleaned line before it.
    clean: usize,
    /// Columns before it.
    pub column: usize,
}

/// A piece of a line as it is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where it starts.
    pub at: Mark,
    /// Bytes of the raw line it stands for.
    pub raw: Range<usize>,
    /// What is drawn.
    pub shown: Cow<'a, str>,
    /// Its columns, at least one.
    pub width: usize,
    /// The character is shown by its name.
    pub named: bool,
}

/// The pieces of a line from a place on.
pub struct Pieces<'a> {
    raw: &'a str,
    clean: &'a str,
    at: Mark,
    atoms: Atoms<'a>,
}

impl<'a> Pieces<'a> {
    fn at(raw: &'a str, clean: &'a str, at: Mark) -> Self {
        Self { raw, clean, at, atoms: Atoms::at(clean, at.clean) }
    }

    /// Takes a piece of `raw` and `clean` bytes.
    fn take(&mut self, raw: usize, clean: usize, shown: Cow<'a, str>, width: usize, named: bool) -> Piece<'a> {
        let at = self.at;
        self.at = Mark { raw: at.raw + raw, clean: at.clean + clean, column: at.column + width };
        Piece { at, raw: at.raw..self.at.raw, shown, width, named }
    }

    /// Takes one character by itself.
    fn take_char(&mut self, c: char, clean: usize) -> Piece<'a> {
        let shown = &self.clean[self.at.clean..self.at.clean + clean];
        let (shown, width, named) = match c.width().unwrap_or(0) {
            // A mark without a character under it cannot be seen.
            0 => named(c),
            width => (Cow::Borrowed(shown), width, false),
        };
        let piece = self.take(c.len_utf8(), clean, shown, width, named);
        self.atoms = Atoms::at(self.clean, self.at.clean);
        piece
    }
}

fn named(c: char) -> (Cow<'static, str>, usize, bool) {
    let name = format!("<U+{:04X}>", u32::from(c));
    let width = name.len();
    (Cow::Owned(name), width, true)
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let c = self.raw[self.at.raw..].chars().next()?;
        let rest = &self.clean[self.at.clean..];
        if !rest.starts_with(c) {
            let len = name_len(rest);
            let (shown, width, _) = if len > 0 { (Cow::Borrowed(&rest[..len]), len, true) } else { named(c) };
            let piece = self.take(c.len_utf8(), len, shown, width, true);
            self.atoms = Atoms::at(self.clean, self.at.clean);
            return Some(piece);
        }
        if c == '\t' {
            let width = TAB - self.at.column % TAB;
            let piece = self.take(1, 1, Cow::Borrowed(&SPACES[..width]), width, false);
            self.atoms = Atoms::at(self.clean, self.at.clean);
            return Some(piece);
        }
        let atom = self.atoms.next()?;
        // A sign that belongs to what follows it may have taken the start of a name with it.
        if atom.width > 0 && self.raw[self.at.raw..].starts_with(atom.text) {
            return Some(self.take(atom.text.len(), atom.text.len(), Cow::Borrowed(atom.text), atom.width, false));
        }
        Some(self.take_char(c, c.len_utf8()))
    }
}

/// Length of the name at the start of cleaned text, 0 if there is none.
fn name_len(clean: &str) -> usize {
    if clean.starts_with("<U+") { clean.find('>').map_or(0, |at| at + 1) } else { 0 }
}

/// The cleaned form of `raw` from byte `from` on: as if all of it had been cleaned.
fn clean_from(raw: &str, from: usize) -> String {
    let back = raw[..from].char_indices().rev().nth(CONTEXT - 1).map_or(0, |(at, _)| at);
    // A carriage return ends a line of Python, so a line feed was put behind it that is not part of the line.
    let clean = Clean::code(&raw[back..]).into_string().replace('\n', "");
    let mut rest = clean.as_str();
    for c in raw[back..from].chars() {
        rest = rest.strip_prefix(c).unwrap_or_else(|| &rest[name_len(rest)..]);
    }
    rest.to_owned()
}

/// A line made ready to be drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    clean: String,
    /// Columns from one mark to the next, at most.
    limit: usize,
    /// Starts of rows; the first is the start of the line. Where lines are not wrapped: places to start drawing from.
    pub marks: Vec<Mark>,
    /// The last piece, which more text may change, and how many characters before it are named.
    last: (Mark, usize),
    /// Columns of the line.
    pub columns: usize,
    /// Characters shown by name.
    pub named: usize,
}

impl Shown {
    /// The line `raw`, with a mark after at most `limit` columns.
    pub fn new(raw: &str, limit: usize) -> Self {
        let mut shown = Self {
            clean: String::new(),
            limit,
            marks: vec![Mark::default()],
            last: (Mark::default(), 0),
            columns: 0,
            named: 0,
        };
        shown.extend(raw);
        shown
    }

    /// Takes the line as it is now; it begins with what it was.
    pub fn extend(&mut self, raw: &str) {
        let (from, named) = self.last;
        self.clean.truncate(from.clean);
        self.clean.push_str(&clean_from(raw, from.raw));
        self.named = named;
        let mut row = self.marks.last().copied().unwrap_or_default();
        let mut column = from.column;
        for piece in Pieces::at(raw, &self.clean, from) {
            if piece.at.column > row.column && piece.at.column + piece.width - row.column > self.limit {
                row = piece.at;
                self.marks.push(row);
            }
            self.last = (piece.at, self.named);
            self.named += usize::from(piece.named);
            column = piece.at.column + piece.width;
        }
        self.columns = column;
    }

    /// The pieces from `mark` on; `raw` is the line this was made of.
    pub fn pieces<'a>(&'a self, raw: &'a str, mark: Mark) -> Pieces<'a> {
        Pieces::at(raw, &self.clean, mark)
    }

    /// Columns from one mark to the next, at most.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The number of the last mark at or before byte `at` of the raw line.
    pub fn mark_before(&self, at: usize) -> usize {
        self.marks.partition_point(|mark| mark.raw <= at).saturating_sub(1)
    }
}

/// Columns and named characters of a line, without keeping what they were counted on.
pub fn measure(raw: &str) -> (usize, usize) {
    if raw.bytes().all(|b| matches!(b, b' '..=b'~')) {
        return (raw.len(), 0);
    }
    let shown = Shown::new(raw, usize::MAX);
    (shown.columns, shown.named)
}

/// One line of code as spans, what cannot be seen by name.
pub fn spans(raw: &str, style: Style, theme: Theme) -> Vec<Span<'static>> {
    let clean = clean_from(raw, 0);
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut plain = String::new();
    for piece in Pieces::at(raw, &clean, Mark::default()) {
        if piece.named {
            if !plain.is_empty() {
                spans.push(Span::styled(std::mem::take(&mut plain), style));
            }
            spans.push(Span::styled(piece.shown.into_owned(), style.patch(named_style(theme))));
        } else {
            plain.push_str(&piece.shown);
        }
    }
    if !plain.is_empty() {
        spans.push(Span::styled(plain, style));
    }
    spans
}

/// How a character that is shown by name looks.
pub fn named_style(theme: Theme) -> Style {
    theme.style(Role::Code).add_modifier(Modifier::REVERSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drawn(raw: &str) -> String {
        let shown = Shown::new(raw, usize::MAX);
        shown.pieces(raw, Mark::default()).map(|piece| piece.shown.into_owned()).collect()
    }

    #[test]
    fn what_cannot_be_seen_is_named_and_counted() {
        assert_eq!(drawn("a\u{202e}b\tc"), "a<U+202E>b  c");
        assert_eq!(drawn("<U+202E>"), "<U+202E>");
        assert_eq!(drawn("a\rb\r>c\nd"), "a<U+000D>b<U+000D>>c<U+000A>d", "what should not be in one line");
        assert_eq!(measure("<U+202E>"), (8, 0));
        assert_eq!(measure("a\u{202e}\r"), (17, 2));
        assert_eq!(drawn("\u{301}x"), "<U+0301>x", "a mark without a base");
        assert_eq!(drawn("\u{600}\u{202e}"), "\u{600}<U+202E>", "a sign before a name");
        assert_eq!(drawn(&format!("e{}", "\u{301}".repeat(6))), "e\u{301}\u{301}\u{301}\u{301}<U+0301><U+0301>");
        assert_eq!(measure("日本"), (4, 0));
    }

    #[test]
    fn rows_start_where_the_width_is_used_up() {
        let shown = Shown::new("abcdefghij\u{202e}k", 12);
        let rows: Vec<(usize, usize)> = shown.marks.iter().map(|m| (m.raw, m.column)).collect();
        assert_eq!(rows, [(0, 0), (10, 10)]);
        assert_eq!(
            (shown.mark_before(0), shown.mark_before(9), shown.mark_before(10), shown.mark_before(99)),
            (0, 0, 1, 1)
        );
    }

    fn hostile() -> impl Strategy<Value = Vec<&'static str>> {
        let part = proptest::sample::select(vec![
            "a",
            "<",
            ">",
            "<U+202E>",
            "\u{202e}",
            "\u{301}",
            "日",
            "\t",
            "\u{1b}",
            "é",
            "🇩",
            "\u{600}",
            "\u{915}\u{94d}",
            "\u{1100}",
            "\u{1161}",
            "\u{fe0f}",
            "👍🏽",
        ]);
        proptest::collection::vec(part, 0..40)
    }

    proptest! {
        #[test]
        fn pieces_stand_for_every_byte_and_fit_their_rows(parts in hostile(), limit in 12usize..30) {
            let raw = parts.concat();
            let shown = Shown::new(&raw, limit);
            let mut end = 0;
            for (i, mark) in shown.marks.iter().enumerate() {
                let to = shown.marks.get(i + 1).map_or(raw.len(), |m| m.raw);
                let mut used = 0;
                for piece in shown.pieces(&raw, *mark).take_while(|piece| piece.raw.start < to) {
                    prop_assert_eq!(piece.raw.start, end);
                    prop_assert!(piece.width > 0);
                    end = piece.raw.end;
                    used += piece.width;
                }
                prop_assert!(used <= limit, "{} in {:?}", used, shown);
                prop_assert_eq!(end, to);
            }
        }

        #[test]
        fn a_line_that_grows_is_shown_as_if_it_came_at_once(parts in hostile(), limit in 12usize..30) {
            let mut raw = String::new();
            let mut shown = Shown::new("", limit);
            for part in parts {
                raw.push_str(part);
                shown.extend(&raw);
            }
            let whole = Shown::new(&raw, limit);
            prop_assert_eq!(&shown.clean, &whole.clean);
            prop_assert_eq!((shown.columns, shown.named), (whole.columns, whole.named));
        }
    }
}
