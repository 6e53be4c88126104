//! Seeing that a model only repeats itself.

/// Equal pieces in a row after which nothing new is to be expected. Ollama gives up at 30; a ruler of dashes is shorter.
const MAX_EQUAL_PIECES: usize = 60;

/// Equal lines in a row.
const MAX_EQUAL_LINES: usize = 40;

/// Shortest line that counts: tables and code repeat brackets.
const MIN_LINE_BYTES: usize = 4;

/// White space in a row, bytes: deeper than any indentation, shorter than minutes of waiting.
const MAX_BLANK_BYTES: usize = 400;

/// Follows one channel of a reply.
#[derive(Debug, Default)]
pub struct Repeats {
    bytes: usize,
    piece: String,
    pieces: usize,
    pieces_start: usize,
    line: String,
    last_line: String,
    lines: usize,
    lines_start: usize,
    blank: usize,
}

impl Repeats {
    /// Takes the next piece; once the text repeats itself, returns how many bytes at its end say nothing
    /// new.
    pub fn feed(&mut self, piece: &str) -> Option<usize> {
        if piece.is_empty() {
            return None;
        }
        if piece == self.piece {
            self.pieces += 1;
        } else {
            self.piece.clear();
            self.piece.push_str(piece);
            self.pieces = 1;
            self.pieces_start = self.bytes + piece.len();
        }
        let mut start = (self.pieces > MAX_EQUAL_PIECES).then_some(self.pieces_start);
        for part in piece.split_inclusive('\n') {
            let content = part.trim_end();
            self.blank =
                if content.trim_start().is_empty() { self.blank + part.len() } else { part.len() - content.len() };
            self.bytes += part.len();
            if self.blank > MAX_BLANK_BYTES {
                start = start.or(Some(self.bytes - self.blank));
            }
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.end_line();
            }
            if self.lines > MAX_EQUAL_LINES {
                start = start.or(Some(self.lines_start));
            }
        }
        start.map(|start| self.bytes - start)
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() {
            return; // Blank lines between equal ones do not make them different.
        }
        if line == self.last_line && line.trim().len() >= MIN_LINE_BYTES {
            self.lines += 1;
        } else {
            self.last_line = line;
            self.lines = 1;
            self.lines_start = self.bytes;
        }
    }

    /// White space at the end, bytes.
    pub fn blank(&self) -> usize {
        self.blank
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(pieces: impl Iterator<Item = &'static str>) -> Option<usize> {
        let mut repeats = Repeats::default();
        let mut bytes = 0;
        let mut pieces = pieces;
        pieces.find_map(|piece| {
            bytes += piece.len();
            repeats.feed(piece).map(|tail| bytes - tail)
        })
    }

    #[test]
    fn tells_where_the_new_ends() {
        use std::iter::{once, repeat_n};
        assert_eq!(until(once("It is ").chain(repeat_n("so ", 100))), Some(9));
        assert_eq!(until(once("Sum:\n").chain(["to", "tal\n", "\n"].into_iter().cycle().take(1000))), Some(11));
        assert_eq!(until(once("42").chain(["\n", " \n"].into_iter().cycle().take(1000))), Some(2));
    }

    #[test]
    fn lets_ordinary_text_pass() {
        let code = ["for i in x:\n", "    ", "}\n", "    ", "}\n", "\n"];
        assert_eq!(until(code.into_iter().cycle().take(500)), None);
        assert_eq!(until(std::iter::repeat_n("-", MAX_EQUAL_PIECES)), None);
    }
}
