//! A text as lines, and the one way to change it. Owns what is stored; where a cursor may stand is answered here too,
//! because both are questions of bytes.
//!
//! Lines are split at `\n` only, so that joining them gives the same bytes back. A `\r` before the `\n` belongs to the line
//! end: no cursor stands between them. Any other `\r` is a character like others.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

use super::paint::Paint;

/// A place in a text: before the byte `col` of the line `row`, both counted from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos {
    /// Which line.
    pub row: usize,
    /// How many bytes of it stand before.
    pub col: usize,
}

impl Pos {
    /// A place.
    pub fn new(row: usize, col: usize) -> Self {
        Self { row, col }
    }

    /// Where `text` ends if it is put here.
    pub fn after(self, text: &str) -> Self {
        match text.rsplit_once('\n') {
            None => Self::new(self.row, self.col + text.len()),
            Some((lines, last)) => Self::new(self.row + lines.split('\n').count(), last.len()),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Line {
    text: String,
    paint: Paint,
    /// Version of the text in which the line got its present bytes.
    changed: u64,
}

/// Lines of text; there is always one.
#[derive(Debug, Clone)]
pub struct Text {
    lines: Vec<Line>,
    version: u64,
    /// The last version in which lines came or went.
    reshaped: u64,
    marked: Option<usize>,
}

impl Text {
    /// The text `text`.
    pub fn new(text: &str) -> Self {
        let lines = text.split('\n').map(|line| Line { text: line.to_owned(), ..Line::default() });
        Self { lines: lines.collect(), version: 0, reshaped: 0, marked: None }
    }

    /// How many changes were made.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of lines.
    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The line with all its bytes.
    pub fn line(&self, row: usize) -> &str {
        self.lines.get(row).map_or("", |line| &line.text)
    }

    /// The line without a `\r` that belongs to its end.
    pub fn body(&self, row: usize) -> &str {
        let line = self.line(row);
        let is_last = row + 1 >= self.lines.len();
        if is_last { line } else { line.strip_suffix('\r').unwrap_or(line) }
    }

    /// The colours of the line.
    pub fn paint(&self, row: usize) -> Option<&Paint> {
        self.lines.get(row).map(|line| &line.paint)
    }

    /// Takes colours found for the text of an earlier version. Lines that changed since keep the colours that moved with
    /// them; if lines came or went since, nothing can be told apart and nothing is taken.
    pub fn set_paint(&mut self, version: u64, paint: impl IntoIterator<Item = Paint>) {
        if version < self.reshaped || version > self.version {
            return;
        }
        for (line, paint) in self.lines.iter_mut().zip(paint) {
            if line.changed <= version {
                line.paint = paint;
            }
        }
    }

    /// The marked line.
    pub fn marked(&self) -> Option<usize> {
        self.marked
    }

    /// Marks a line; the mark follows it through changes.
    pub fn mark(&mut self, row: Option<usize>) {
        self.marked = row.map(|row| row.min(self.lines.len() - 1));
    }

    /// Whether the text is `other`, to the byte.
    pub fn is(&self, other: &str) -> bool {
        self.lines.iter().map(|line| line.text.as_str()).eq(other.split('\n'))
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.lines.len() == 1 && self.line(0).is_empty()
    }

    /// What stands between two places.
    pub fn slice(&self, start: Pos, end: Pos) -> String {
        let (start, end) = self.ordered(start, end);
        if start.row == end.row {
            return self.line(start.row).get(start.col..end.col).unwrap_or_default().to_owned();
        }
        let mut out = self.line(start.row).get(start.col..).unwrap_or_default().to_owned();
        for row in start.row + 1..end.row {
            out.push('\n');
            out.push_str(self.line(row));
        }
        out.push('\n');
        out.push_str(self.line(end.row).get(..end.col).unwrap_or_default());
        out
    }

    /// Puts `new` in place of what stands between two places, and returns that and where `new` ends.
    pub fn replace(&mut self, start: Pos, end: Pos, new: &str) -> (String, Pos) {
        let (start, end) = self.ordered(start, end);
        let removed = self.slice(start, end);
        self.version += 1;
        if start.row == end.row && !new.contains('\n') {
            let line = &mut self.lines[start.row];
            line.text.replace_range(start.col..end.col, new);
            line.paint.splice(start.col, end.col, new.len());
            line.changed = self.version;
        } else {
            self.replace_lines(start, end, new);
        }
        (removed, start.after(new))
    }

    fn replace_lines(&mut self, start: Pos, end: Pos, new: &str) {
        let changed = self.version;
        let behind = self.line(end.row).get(end.col..).unwrap_or_default().to_owned();
        let behind_paint = self.lines[end.row].paint.split_off(end.col);
        let mut pieces = new.split('\n');
        let first = &mut self.lines[start.row];
        first.text.truncate(start.col);
        first.text.push_str(pieces.next().unwrap_or_default());
        first.paint.truncate(start.col);
        first.changed = changed;
        let mut fresh: Vec<Line> =
            pieces.map(|piece| Line { text: piece.to_owned(), paint: Paint::default(), changed }).collect();
        let last = fresh.last_mut().unwrap_or(&mut self.lines[start.row]);
        last.paint.append(last.text.len(), behind_paint);
        last.text.push_str(&behind);
        let (gone, came) = (end.row - start.row, fresh.len());
        self.lines.splice(start.row + 1..=end.row, fresh);
        if gone != came {
            self.reshaped = changed;
        }
        self.move_mark(start, end.row, came);
    }

    fn move_mark(&mut self, start: Pos, last: usize, came: usize) {
        let Some(row) = self.marked else { return };
        // A line that is pushed down whole takes its mark along.
        let pushed = row > last || (row == last && start == Pos::new(last, 0));
        self.marked = match row {
            _ if pushed => Some(row + came + start.row - last),
            _ if row > start.row => Some(row.min(start.row + came)),
            _ => Some(row),
        };
    }

    fn ordered(&self, a: Pos, b: Pos) -> (Pos, Pos) {
        let (a, b) = (self.clamp(a), self.clamp(b));
        (a.min(b), a.max(b))
    }

    /// The nearest place before that exists: text can be cut there.
    fn clamp(&self, pos: Pos) -> Pos {
        if pos.row >= self.lines.len() {
            let row = self.lines.len() - 1;
            return Pos::new(row, self.line(row).len());
        }
        let line = self.line(pos.row);
        let mut col = pos.col.min(line.len());
        while !line.is_char_boundary(col) {
            col -= 1;
        }
        Pos::new(pos.row, col)
    }

    // ---- where a cursor may stand ------------------------------------------------------------------------------------

    /// The end of the line.
    pub fn end_of(&self, row: usize) -> Pos {
        Pos::new(row, self.body(row).len())
    }

    /// The end of the text.
    pub fn end(&self) -> Pos {
        self.end_of(self.lines.len() - 1)
    }

    /// The nearest place where a cursor may stand: inside of a cluster, that is behind it.
    pub fn snap(&self, pos: Pos) -> Pos {
        let pos = self.clamp(pos);
        let body = self.body(pos.row);
        let col = pos.col.min(body.len());
        let mut cursor = GraphemeCursor::new(col, body.len(), true);
        match cursor.is_boundary(body, 0) {
            Ok(false) => Pos::new(pos.row, cursor.next_boundary(body, 0).ok().flatten().unwrap_or(body.len())),
            Ok(true) | Err(_) => Pos::new(pos.row, col),
        }
    }

    /// The place one cluster on; at the end of a line the start of the next.
    pub fn next(&self, pos: Pos) -> Option<Pos> {
        let rest = self.body(pos.row).get(pos.col..).unwrap_or_default();
        match rest.graphemes(true).next() {
            Some(cluster) => Some(Pos::new(pos.row, pos.col + cluster.len())),
            None if pos.row + 1 < self.lines.len() => Some(Pos::new(pos.row + 1, 0)),
            None => None,
        }
    }

    /// The place one cluster back; at the start of a line the end of the one before.
    pub fn prev(&self, pos: Pos) -> Option<Pos> {
        let before = self.body(pos.row).get(..pos.col).unwrap_or_default();
        match before.graphemes(true).next_back() {
            Some(cluster) => Some(Pos::new(pos.row, pos.col - cluster.len())),
            None => pos.row.checked_sub(1).map(|row| self.end_of(row)),
        }
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (row, line) in self.lines.iter().enumerate() {
            if row > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&line.text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::Role;

    fn at(row: usize, col: usize) -> Pos {
        Pos::new(row, col)
    }

    #[test]
    fn lines_joined_are_the_bytes_they_came_from() {
        for text in ["", "\n", "a", "a\n", "a\r\nb\r\n", "a\rb\n\n", "\r", "\r\n\r", "漢\u{202e}\u{0}"] {
            assert_eq!(Text::new(text).to_string(), text);
            assert!(Text::new(text).is(text));
            assert!(!Text::new(text).is(&format!("{text}\n")));
        }
    }

    #[test]
    fn a_replacement_and_its_inverse_give_the_text_back() {
        for (start, end, new) in [
            (at(0, 1), at(0, 1), "x"),
            (at(0, 1), at(2, 1), ""),
            (at(0, 2), at(1, 0), "\n\n"),
            (at(2, 2), at(2, 2), "\nx\r\ny"),
            (at(0, 0), at(9, 9), "q"),
        ] {
            let mut text = Text::new("ab\ncd\r\nef");
            let (removed, end) = text.replace(start, end, new);
            assert_eq!(text.slice(start, end), new);
            text.replace(start, end, &removed);
            assert_eq!(text.to_string(), "ab\ncd\r\nef");
        }
    }

    #[test]
    fn places_that_do_not_exist_are_taken_for_the_nearest_before() {
        let mut text = Text::new("aé");
        text.replace(at(0, 2), at(0, 99), "x");
        assert_eq!(text.to_string(), "ax");
        assert_eq!(text.slice(at(7, 7), at(0, 0)), "ax");
    }

    #[test]
    fn no_cursor_stands_inside_a_letter_or_a_line_end() {
        let text = Text::new("e\u{301}x\r\ny");
        assert_eq!(text.snap(at(0, 1)), at(0, 3));
        assert_eq!(text.snap(at(0, 5)), at(0, 4));
        assert_eq!(text.next(at(0, 4)), Some(at(1, 0)));
        assert_eq!(text.prev(at(1, 0)), Some(at(0, 4)));
        assert_eq!(text.prev(at(0, 3)), Some(at(0, 0)));
        assert_eq!((text.prev(at(0, 0)), text.next(at(1, 1))), (None, None));
    }

    #[test]
    fn the_mark_follows_its_line() {
        let marked = |start, end, new: &str| {
            let mut text = Text::new("a\nb\nc\nd");
            text.mark(Some(2));
            text.replace(start, end, new);
            text.marked()
        };
        assert_eq!(marked(at(0, 1), at(0, 1), "\n\n"), Some(4), "lines before it");
        assert_eq!(marked(at(0, 1), at(1, 1), ""), Some(1), "fewer lines before it");
        assert_eq!(marked(at(2, 0), at(2, 0), "\n"), Some(3), "pushed down");
        assert_eq!(marked(at(2, 1), at(2, 1), "\n"), Some(2), "split at its end");
        assert_eq!(marked(at(3, 0), at(3, 1), "x\ny"), Some(2), "lines behind it");
        assert_eq!(marked(at(0, 0), at(3, 1), ""), Some(0), "removed");
    }

    #[test]
    fn colours_that_come_late_are_kept_from_lines_that_changed_meanwhile() {
        let red = || Paint::new(vec![(Role::Bad, 0..1)]);
        let role = |text: &Text, row| text.paint(row).and_then(|p| p.role_at(0));
        let mut text = Text::new("a\nb");
        text.replace(at(0, 0), at(0, 0), "x");
        text.set_paint(0, [red(), red()]);
        assert_eq!((role(&text, 0), role(&text, 1)), (None, Some(Role::Bad)));
        text.replace(at(0, 0), at(0, 0), "\n");
        assert_eq!(role(&text, 2), Some(Role::Bad), "moved with its line");
        let mut again = text.clone();
        again.set_paint(1, [red(), red()]);
        assert_eq!(role(&again, 0), None, "the lines are others by now");
        text.set_paint(text.version(), [red(), red(), red()]);
        assert_eq!(role(&text, 0), Some(Role::Bad));
    }

    #[test]
    fn a_split_line_keeps_its_colours_on_both_sides() {
        let mut text = Text::new("ab cd");
        text.set_paint(0, [Paint::new(vec![(Role::Name, 0..2), (Role::Str, 3..5)])]);
        text.replace(at(0, 2), at(0, 3), "\n  ");
        assert_eq!(text.paint(0).and_then(|p| p.role_at(1)), Some(Role::Name));
        assert_eq!(text.paint(1).and_then(|p| p.role_at(2)), Some(Role::Str));
    }
}
