//! The lines of a code as Python counts them. Owns the raw text and where its lines begin, kept while text is appended.

use super::line::{Shown, measure};

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineAt {
    /// First byte.
    pub start: usize,
    /// Byte behind it, without its line feed.
    pub end: usize,
    /// Number of line feeds before it: the colours count lines by those alone.
    pub feeds: usize,
    /// First byte behind the last line feed before it.
    pub after_feed: usize,
    /// Columns.
    pub columns: usize,
    /// Characters shown by name.
    pub named: usize,
}

/// A code and its lines. There is always one line at least.
#[derive(Debug, Clone)]
pub struct Text {
    code: String,
    lines: Vec<LineAt>,
    /// The last line is not ended yet.
    open: bool,
    /// The last line, so that one that grows is not measured anew.
    last: Shown,
}

impl Text {
    /// The lines of `code`.
    pub fn new(code: &str) -> Self {
        let mut text = Self { code: String::new(), lines: Vec::new(), open: true, last: Shown::new("", usize::MAX) };
        text.split(code);
        text
    }

    /// The raw code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The lines.
    pub fn lines(&self) -> &[LineAt] {
        &self.lines
    }

    /// The raw text of a line, with a lone carriage return at its end if that ends it.
    pub fn line(&self, index: usize) -> &str {
        self.lines.get(index).and_then(|line| self.code.get(line.start..line.end)).unwrap_or_default()
    }

    /// Takes the code as it is now. Returns the first line that is not as it was, and whether that one only grew.
    pub fn set(&mut self, code: &str) -> (usize, bool) {
        let Some(more) = code.strip_prefix(self.code.as_str()) else {
            *self = Self::new(code);
            return (0, false);
        };
        if more.is_empty() {
            return (self.lines.len(), false);
        }
        let ends_in_return = self.code.ends_with('\r');
        let grows = self.open;
        if grows || (ends_in_return && more.starts_with('\n')) {
            self.lines.pop();
        }
        let first = self.lines.len();
        if !grows {
            self.last = Shown::new("", usize::MAX);
        }
        self.split(more);
        (first, grows)
    }

    /// Appends text and finds the lines behind those that are known.
    fn split(&mut self, more: &str) {
        let mut start = self.lines.last().map_or(0, |line| line.end);
        if !self.lines.is_empty() && self.code.as_bytes().get(start) == Some(&b'\n') {
            start += 1;
        } else if !self.lines.is_empty() && self.code[start..].starts_with("\r\n") {
            start += 2;
        }
        self.code.push_str(more);
        let (mut feeds, mut after_feed) = self.feeds_before(start);
        let bytes = self.code.as_bytes();
        self.open = true;
        let mut at = start;
        while let Some(len) = bytes[at..].iter().position(|b| matches!(b, b'\n' | b'\r')) {
            let sign = at + len;
            let (end, next) = match bytes[sign..] {
                [b'\n', ..] => (sign, sign + 1),
                [_, b'\n', ..] => (sign, sign + 2),
                _ => (sign + 1, sign + 1),
            };
            let (columns, named) = measure(&self.code[at..end]);
            self.lines.push(LineAt { start: at, end, feeds, after_feed, columns, named });
            if bytes[next - 1] == b'\n' {
                (feeds, after_feed) = (feeds + 1, next);
            }
            at = next;
            self.open = at < bytes.len();
        }
        if self.open || self.lines.is_empty() {
            let raw = &self.code[at..];
            if at == start {
                self.last.extend(raw);
            } else {
                self.last = Shown::new(raw, usize::MAX);
            }
            let (columns, named) = (self.last.columns, self.last.named);
            self.lines.push(LineAt { start: at, end: self.code.len(), feeds, after_feed, columns, named });
            self.open = true;
        }
    }

    /// Line feeds before `start`, which is behind the last line, and where the last of them ends.
    fn feeds_before(&self, start: usize) -> (usize, usize) {
        match self.lines.last() {
            None => (0, 0),
            Some(line) if self.code.as_bytes().get(start.wrapping_sub(1)) == Some(&b'\n') => (line.feeds + 1, start),
            Some(line) => (line.feeds, line.after_feed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clean::Clean;
    use proptest::prelude::*;

    fn lines(text: &Text) -> Vec<&str> {
        (0..text.lines().len()).map(|i| text.line(i)).collect()
    }

    #[test]
    fn lines_are_those_python_counts() {
        assert_eq!(lines(&Text::new("")), [""]);
        assert_eq!(lines(&Text::new("a\r\nb\n\nc\n")), ["a", "b", "", "c"]);
        assert_eq!(lines(&Text::new("# a\rimport os\n")), ["# a\r", "import os"]);
        assert_eq!(lines(&Text::new("\n")), [""]);
        let text = Text::new("# a\rb\nc");
        assert_eq!(text.lines().iter().map(|l| (l.feeds, l.after_feed)).collect::<Vec<_>>(), [(0, 0), (0, 0), (1, 6)]);
    }

    #[test]
    fn only_what_is_new_is_told_as_changed() {
        let mut text = Text::new("a\nb");
        assert_eq!(text.set("a\nbc"), (1, true));
        assert_eq!(text.set("a\nbc\n"), (1, true));
        assert_eq!(text.set("a\nbc\nd\ne"), (2, false));
        assert_eq!(text.set("a\nbc\nd\ne"), (4, false));
        assert_eq!(text.set("x"), (0, false));
    }

    proptest! {
        #[test]
        fn growing_equals_setting_at_once(parts in proptest::collection::vec(
            proptest::sample::select(vec!["a", "\n", "\r", "\r\n", "日", "\u{301}", "\u{202e}", "\t"]), 0..30)) {
            let mut text = Text::new("");
            let mut code = String::new();
            for part in parts {
                code.push_str(part);
                text.set(&code);
            }
            let whole = Text::new(&code);
            prop_assert_eq!(text.lines(), whole.lines());
            prop_assert_eq!(text.open, whole.open);
            let clean = Clean::code(&code);
            let counted = clean.as_str().strip_suffix('\n').unwrap_or(clean.as_str()).split('\n').count();
            prop_assert_eq!(whole.lines().len(), counted);
        }
    }
}
