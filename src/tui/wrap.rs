//! Text in columns. Owns how wide text is on a terminal, where a line is broken, and what of it shows in a window of
//! columns. Everything here goes forward only, so a line of a million characters costs no more than a million characters.
//!
//! The unit is the [`Atom`]: what a person sees as one character. Unicode has clusters without a bound (a chain of
//! conjuncts, a heap of Hangul letters); those wider than two columns are taken apart, so that no atom is.

use std::borrow::Cow;
use std::ops::Range;

use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns from one tab stop to the next, as code of the model is indented.
pub const TAB: usize = 4;

/// Narrowest width there is: a wide character must fit. Columns.
const MIN_WIDTH: usize = 2;

/// One character as a person sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Atom<'a> {
    /// Where it starts in its text, bytes.
    pub start: usize,
    /// Its text.
    pub text: &'a str,
    /// Columns: 0, 1 or 2.
    pub width: usize,
}

impl Atom<'_> {
    /// Where it ends in its text, bytes.
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The atoms of a text, in order.
#[derive(Debug, Clone, Copy)]
pub struct Atoms<'a> {
    text: &'a str,
    pos: usize,
    /// End of a cluster that is taken apart.
    split_until: usize,
}

impl<'a> Atoms<'a> {
    /// The atoms from `pos` on, which is a boundary of characters.
    pub fn at(text: &'a str, pos: usize) -> Self {
        Self { text, pos, split_until: pos }
    }

    fn take(&mut self, len: usize, width: usize) -> Atom<'a> {
        let start = self.pos;
        self.pos += len;
        Atom { start, text: &self.text[start..self.pos], width }
    }
}

/// The atoms of `text`.
pub fn atoms(text: &str) -> Atoms<'_> {
    Atoms::at(text, 0)
}

impl<'a> Iterator for Atoms<'a> {
    type Item = Atom<'a>;

    fn next(&mut self) -> Option<Atom<'a>> {
        let bytes = self.text.as_bytes();
        let first = *bytes.get(self.pos)?;
        // Nothing joins two ASCII characters. This is nearly all text, so it is the fast way.
        if first.is_ascii() && bytes.get(self.pos + 1).is_none_or(u8::is_ascii) {
            return Some(self.take(1, usize::from(!first.is_ascii_control())));
        }
        if self.pos >= self.split_until {
            let cluster = self.text[self.pos..].graphemes(true).next()?;
            let width = if cluster.contains(char::is_control) { 0 } else { cluster.width() };
            if width <= MIN_WIDTH {
                return Some(self.take(cluster.len(), width));
            }
            self.split_until = self.pos + cluster.len();
        }
        let rest = &self.text[self.pos..self.split_until];
        let len = rest.char_indices().skip(1).find(|(_, c)| c.width() != Some(0)).map_or(rest.len(), |(at, _)| at);
        let width = rest[..len].width().min(MIN_WIDTH);
        Some(self.take(len, width))
    }
}

/// The last boundary of characters at or before byte `at`.
pub fn boundary_before(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The first boundary of characters at or behind byte `at`.
pub fn boundary_behind(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Columns a text takes. Tabs count as nothing here: they are expanded before.
pub fn width(text: &str) -> usize {
    atoms(text).map(|atom| atom.width).sum()
}

/// Columns a line takes.
pub fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

/// Breaks a line into rows of at most `width` columns: at spaces, which are dropped there, between wide characters, and
/// within words that are longer than a row. Tabs become spaces. Widths below two count as two.
pub fn wrap(line: &Line<'static>, width: usize) -> Vec<Line<'static>> {
    wrap_indented(line, width, 0)
}

/// Like [`wrap`], with `indent` spaces before every row but the first; at most half of the width.
pub fn wrap_indented(line: &Line<'static>, width: usize, indent: usize) -> Vec<Line<'static>> {
    let width = width.max(MIN_WIDTH);
    let indent = indent.min(width / 2).min(width - MIN_WIDTH);
    let line = expand_tabs(line);
    let joined = joined(&line);
    if joined.is_ascii() && joined.len() <= width {
        return vec![line.into_owned()];
    }
    let mut slicer = Slicer::new(&line);
    let row = |(i, range)| {
        let mut row = slicer.take(range);
        if i > 0 && indent > 0 {
            row.spans.insert(0, Span::raw(" ".repeat(indent)));
        }
        row
    };
    rows(&joined, width, indent).into_iter().enumerate().map(row).collect()
}

/// Where a row may end.
struct Break<'a> {
    end: usize,
    resume: Atoms<'a>,
}

/// The rows of a text without tabs, as byte ranges: the first of `width` columns, the others of `indent` fewer.
pub fn rows(text: &str, width: usize, indent: usize) -> Vec<Range<usize>> {
    let width = width.max(MIN_WIDTH);
    let mut rows = Vec::new();
    let mut atoms = atoms(text);
    let (mut start, mut used, mut room, mut has_text) = (0, 0, width, false);
    let mut chance: Option<Break<'_>> = None;
    loop {
        let before = atoms;
        let Some(atom) = atoms.next() else { break };
        // Spaces behind text never overflow: they are what is dropped where a row ends.
        if atom.text == " " && has_text {
            let end = chance.take().filter(|b| b.resume.pos == atom.start).map_or(atom.start, |b| b.end);
            chance = Some(Break { end, resume: atoms });
            used += 1;
            continue;
        }
        if atom.width == 2 && used > 0 && chance.as_ref().is_none_or(|b| b.resume.pos != atom.start) {
            chance = Some(Break { end: atom.start, resume: before });
        }
        if used + atom.width > room && used > 0 {
            let Break { end, resume } = chance.take().unwrap_or(Break { end: atom.start, resume: before });
            rows.push(start..end);
            atoms = resume;
            (start, used, room, has_text) = (resume.pos, 0, width.saturating_sub(indent).max(MIN_WIDTH), false);
            continue;
        }
        used += atom.width;
        has_text |= atom.text != " ";
        if atom.width == 2 {
            chance = Some(Break { end: atom.end(), resume: atoms });
        }
    }
    let end = chance.filter(|b| used > room && b.end >= start).map_or(text.len(), |b| b.end);
    rows.push(start..end);
    rows
}

/// What shows of a line in the window of `width` columns from column `from` on. A wide character that is cut in half
/// becomes a space. Tabs become spaces.
pub fn cut(line: &Line<'static>, from: usize, width: usize) -> Line<'static> {
    let line = expand_tabs(line);
    let joined = joined(&line);
    let to = from.saturating_add(width);
    let (mut column, mut start, mut end) = (0, None, 0);
    let (mut left, mut right) = (0, 0);
    for atom in atoms(&joined) {
        let next = column + atom.width;
        if column >= to && atom.width > 0 {
            break;
        }
        if next > to {
            right = to - column.max(from);
            break;
        }
        if column < from && next > from {
            left = (next - from).min(width);
        } else if column >= from {
            // A mark at the edge belongs to the character that is cut off.
            if start.is_some() || atom.width > 0 {
                start.get_or_insert(atom.start);
                end = atom.end();
            }
        }
        column = next;
    }
    let mut shown = start.map_or_else(|| empty_like(&line), |start| Slicer::new(&line).take(start..end));
    if left > 0 {
        shown.spans.insert(0, Span::raw(" ".repeat(left)));
    }
    if right > 0 {
        shown.spans.push(Span::raw(" ".repeat(right)));
    }
    shown
}

/// Replaces each tab by spaces up to the next tab stop.
pub fn expand_tabs<'a>(line: &'a Line<'static>) -> Cow<'a, Line<'static>> {
    if !line.spans.iter().any(|span| span.content.contains('\t')) {
        return Cow::Borrowed(line);
    }
    let mut out = empty_like(line);
    let mut column = 0;
    for span in &line.spans {
        let mut text = String::with_capacity(span.content.len());
        for (i, piece) in span.content.split('\t').enumerate() {
            if i > 0 {
                let spaces = TAB - column % TAB;
                text.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            text.push_str(piece);
            column += width(piece);
        }
        out.spans.push(Span::styled(text, span.style));
    }
    Cow::Owned(out)
}

/// The text of a line without its styles.
pub fn joined<'a>(line: &'a Line<'_>) -> Cow<'a, str> {
    match line.spans.as_slice() {
        [] => Cow::Borrowed(""),
        [one] => Cow::Borrowed(&one.content),
        many => Cow::Owned(many.iter().map(|span| span.content.as_ref()).collect()),
    }
}

fn empty_like(line: &Line<'_>) -> Line<'static> {
    Line { style: line.style, alignment: line.alignment, spans: Vec::new() }
}

/// Takes pieces out of a styled line, from left to right.
struct Slicer<'a> {
    line: &'a Line<'static>,
    span: usize,
    /// Where that span starts in the joined text.
    base: usize,
}

impl<'a> Slicer<'a> {
    fn new(line: &'a Line<'static>) -> Self {
        Self { line, span: 0, base: 0 }
    }

    /// The piece at `range` of the joined text; it starts where the one before ended or later.
    fn take(&mut self, range: Range<usize>) -> Line<'static> {
        let mut out = empty_like(self.line);
        while let Some(span) = self.line.spans.get(self.span) {
            let end = self.base + span.content.len();
            let from = range.start.max(self.base) - self.base;
            let to = range.end.min(end).saturating_sub(self.base);
            if from < to {
                let piece = span.content.get(from..to).unwrap_or_default();
                out.spans.push(Span::styled(piece.to_owned(), span.style));
            }
            if end > range.end {
                break;
            }
            self.base = end;
            self.span += 1;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::style::{Color, Style};
    use std::time::{Duration, Instant};

    fn texts(rows: &[Line<'static>]) -> Vec<String> {
        rows.iter().map(|row| joined(row).into_owned()).collect()
    }

    fn wrapped(text: &str, width: usize) -> Vec<String> {
        texts(&wrap(&Line::raw(text.to_owned()), width))
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrapped("which region grew most", 12), ["which region", "grew most"]);
        assert_eq!(wrapped("a  b", 2), ["a", "b"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("  indented text", 10), ["  indented", "text"]);
        assert_eq!(wrapped("", 10), [""]);
        assert_eq!(wrapped("abc   ", 4), ["abc"]);
        assert_eq!(wrapped("      x", 4), ["    ", "  x"]);
    }

    #[test]
    fn wide_characters_break_between_each_other() {
        assert_eq!(wrapped("日本語の文", 5), ["日本", "語の", "文"]);
        assert_eq!(wrapped("ab日本", 3), ["ab", "日", "本"]);
        assert_eq!(wrapped("日本", 1), ["日", "本"]);
        assert_eq!((width("日本"), width("e\u{301}"), width("👍🏽"), width("🇩🇪")), (4, 1, 2, 2));
    }

    #[test]
    fn continued_rows_are_indented_and_not_wider() {
        let rows = wrap_indented(&Line::raw("ab cdefghi jk"), 10, 4);
        assert_eq!(texts(&rows), ["ab cdefghi", "    jk"]);
        let rows = wrap_indented(&Line::raw("ab cdefghijk"), 10, 4);
        assert_eq!(texts(&rows), ["ab", "    cdefgh", "    ijk"]);
    }

    #[test]
    fn styles_stay_on_their_text() {
        let red = Style::new().fg(Color::Red);
        let line = Line::from(vec![Span::raw("one two"), Span::styled("three four", red), Span::raw("!")]);
        let rows = wrap(&line, 12);
        assert_eq!(texts(&rows), ["one twothree", "four!"]);
        assert_eq!(rows[1].spans, [Span::styled("four", red), Span::raw("!")]);
    }

    #[test]
    fn tabs_reach_the_next_stop() {
        assert_eq!(wrapped("a\tb\t\tc", 40), ["a   b       c"]);
        assert_eq!(joined(&cut(&Line::raw("a\tb"), 2, 3)), "  b");
    }

    #[test]
    fn a_window_shows_its_columns_and_halves_as_spaces() {
        let line = Line::raw("a日本b");
        assert_eq!(joined(&cut(&line, 0, 99)), "a日本b");
        assert_eq!(joined(&cut(&line, 2, 3)), " 本");
        assert_eq!(joined(&cut(&line, 1, 3)), "日 ");
        assert_eq!(joined(&cut(&line, 2, 1)), " ");
        assert_eq!(joined(&cut(&line, 6, 5)), "");
        assert_eq!(joined(&cut(&Line::raw("e\u{301}x"), 1, 5)), "x");
    }

    #[test]
    fn clusters_without_a_bound_cost_no_more_than_their_length() {
        let begun = Instant::now();
        for unit in ["x", "\u{1100}", "\u{600}", "\u{915}\u{94d}", "日", "a\u{301}"] {
            let line = Line::raw(unit.repeat(200_000));
            let rows = wrap(&line, 80);
            assert!(rows.iter().all(|row| line_width(row) <= 80), "{unit:?}");
            assert!(rows.len() > 2000, "{unit:?}");
            cut(&line, 100_000, 80);
        }
        assert!(begun.elapsed() < Duration::from_secs(100), "{:?}", begun.elapsed());
    }

    fn text() -> impl Strategy<Value = String> {
        let part = proptest::sample::select(vec![
            "a",
            "word",
            " ",
            "  ",
            "日",
            "e\u{301}",
            "👍🏽",
            "🇩",
            "\u{1100}",
            "\u{600}",
            "\u{915}\u{94d}",
            "-",
            "\t",
            "é",
            "❤\u{fe0f}",
        ]);
        proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    fn styled(text: &str, cuts: &[usize]) -> Line<'static> {
        let mut line = Line::default();
        let mut rest = text;
        for cut in cuts {
            let at = rest.char_indices().map(|(i, _)| i).nth(*cut).unwrap_or(rest.len());
            line.spans.push(Span::styled(rest[..at].to_owned(), Style::new().fg(Color::Indexed(*cut as u8))));
            rest = &rest[at..];
        }
        line.spans.push(Span::raw(rest.to_owned()));
        line
    }

    proptest! {
        #[test]
        fn rows_hold_the_whole_text_and_are_not_wider(
            text in text(), cuts in proptest::collection::vec(0usize..9, 0..4), width in 2usize..30, indent in 0usize..9,
        ) {
            let line = styled(&text, &cuts);
            let rows = wrap_indented(&line, width, indent);
            let all = joined(&expand_tabs(&line)).into_owned();
            let kept: String = rows.iter().map(|row| joined(row).replace(' ', "")).collect();
            prop_assert_eq!(kept, all.replace(' ', ""));
            for row in &rows {
                prop_assert!(super::width(&joined(row)) <= width, "{:?}", row);
            }
            for row in &rows[..rows.len() - 1] {
                prop_assert!(!joined(row).is_empty(), "{:?}", rows);
            }
        }

        #[test]
        fn windows_side_by_side_hold_the_whole_line(
            text in text(), cuts in proptest::collection::vec(0usize..9, 0..4), width in 1usize..12,
        ) {
            let line = styled(&text, &cuts);
            let all = joined(&expand_tabs(&line)).into_owned();
            let total = super::width(&all);
            for from in (0..=total).step_by(width) {
                let shown = cut(&line, from, width);
                prop_assert!(super::width(&joined(&shown)) <= width, "{:?}", shown);
                // A sign that belongs to what follows it may be cut off from it; then what follows is measured anew.
                if !all.contains('\u{600}') {
                    prop_assert_eq!(super::width(&joined(&shown)), width.min(total.saturating_sub(from)), "{:?}", shown);
                }
            }
            let whole = cut(&line, 0, usize::MAX);
            let visible = |text: &str| text.trim_start_matches(|c: char| c.width() == Some(0)).to_owned();
            prop_assert_eq!(visible(&joined(&whole)), visible(&all));
        }
    }
}
