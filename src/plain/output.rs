//! What a program prints, in lines to be read from the top: whole lines only, the first of them as they come, and of the
//! rest the last, with a count of those between. Nobody listens to a million lines; all that is kept is in the log.

use std::collections::VecDeque;

use crate::core::event::{Event, StreamName};
use crate::show;

/// Lines and bytes of a run that are printed as they come.
const HEAD_LINES: usize = 200;
const HEAD_BYTES: usize = 16 * 1024;

/// Lines printed of what follows, at the end of the run.
const TAIL_LINES: usize = 20;

/// Longest line, bytes.
const MAX_LINE: usize = 2000;

/// Longest line that is waited for, bytes: more is shown in parts.
const MAX_BEGUN: usize = 8 * 1024;

/// The output of one run.
#[derive(Debug, Default)]
pub struct Output {
    /// Lines that are not ended yet, one a stream.
    begun: [String; 2],
    lines: usize,
    bytes: usize,
    tail: VecDeque<String>,
    skipped: u64,
}

impl Output {
    /// Takes a piece in. Gives back what is printed at once.
    pub fn text(&mut self, stream: StreamName, text: &str, dropped: u64) -> String {
        let mut shown = String::new();
        if dropped > 0 {
            shown.push_str(&self.end_line(stream));
            shown.push_str(&self.line(stream, "", dropped));
        }
        let begun = &mut self.begun[index(stream)];
        begun.push_str(text);
        let ended = begun.rfind('\n').map_or(0, |at| at + 1);
        let rest = begun.split_off(ended);
        let whole = std::mem::replace(begun, rest);
        // A line feed alone ends a line: a carriage return draws it anew.
        for line in whole.split_terminator('\n') {
            shown.push_str(&self.line(stream, line, 0));
        }
        if self.begun[index(stream)].len() > MAX_BEGUN {
            shown.push_str(&self.end_line(stream));
        }
        shown
    }

    /// The run ended. Gives back what was held back; `id` is the session's.
    pub fn end(&mut self, id: &str) -> String {
        let mut shown = self.end_line(StreamName::Stdout);
        shown.push_str(&self.end_line(StreamName::Stderr));
        if self.skipped > 0 {
            let many = if self.skipped == 1 { "line is" } else { "lines are" };
            shown.push_str(&format!("   [{} {many} not printed here: sandscript sessions show {id}]\n", self.skipped));
        }
        shown.extend(self.tail.drain(..));
        *self = Self::default();
        shown
    }

    fn end_line(&mut self, stream: StreamName) -> String {
        let line = std::mem::take(&mut self.begun[index(stream)]);
        if line.is_empty() { line } else { self.line(stream, &line, 0) }
    }

    fn line(&mut self, stream: StreamName, line: &str, dropped: u64) -> String {
        // An empty line is one, too.
        let text = if dropped > 0 { String::new() } else { format!("{line}\n") };
        let shown = cut(show::event(&Event::RunOutput { step: 0, stream, text, dropped }, true));
        if self.lines < HEAD_LINES && self.bytes < HEAD_BYTES {
            (self.lines, self.bytes) = (self.lines + 1, self.bytes + shown.len());
            return shown;
        }
        self.tail.push_back(shown);
        if self.tail.len() > TAIL_LINES {
            self.tail.pop_front();
            self.skipped += 1;
        }
        String::new()
    }
}

fn index(stream: StreamName) -> usize {
    match stream {
        StreamName::Stdout => 0,
        StreamName::Stderr => 1,
    }
}

fn cut(mut line: String) -> String {
    if line.len() <= MAX_LINE {
        return line;
    }
    let end = (0..=MAX_LINE).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    let more = line.split_off(end).trim_end().chars().count();
    line.push_str(&format!(" [{more} more characters]\n"));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(output: &mut Output, text: &str) -> String {
        output.text(StreamName::Stdout, text, 0)
    }

    #[test]
    fn only_whole_lines_are_printed_and_a_redrawn_line_once() {
        let mut output = Output::default();
        assert_eq!(stdout(&mut output, "a"), "");
        assert_eq!(output.text(StreamName::Stderr, "warning\n", 0), " ! warning\n");
        assert_eq!(stdout(&mut output, "b\n\n10%"), "   ab\n   \n");
        assert_eq!(stdout(&mut output, "\r20%"), "");
        assert_eq!(stdout(&mut output, "\r30%"), "");
        assert_eq!(output.end("x"), "   30%\n");
        assert_eq!(output.end("x"), "");
    }

    #[test]
    fn of_a_flood_the_first_and_the_last_lines_are_printed() {
        let mut output = Output::default();
        let shown: String = (0..1000).map(|n| stdout(&mut output, &format!("{n}\n"))).collect();
        assert_eq!(shown.lines().count(), HEAD_LINES);
        let end = output.end("ID");
        let lines: Vec<&str> = end.lines().collect();
        assert_eq!(lines[0], "   [780 lines are not printed here: sandscript sessions show ID]");
        assert_eq!((lines[1], lines[TAIL_LINES]), ("   980", "   999"));
        assert_eq!(stdout(&mut output, "next run\n"), "   next run\n");
    }

    #[test]
    fn long_lines_and_gaps_are_said() {
        let mut output = Output::default();
        let shown = stdout(&mut output, &format!("{}\n", "é".repeat(5000)));
        assert!(shown.len() < MAX_LINE + 40 && shown.ends_with("more characters]\n"), "{shown}");
        assert_eq!(output.text(StreamName::Stdout, "on\n", 7), "   [… 7 bytes left out …]\n   on\n");
        // A line without an end is not waited for for ever.
        assert!(!stdout(&mut output, &"x".repeat(MAX_BEGUN + 1)).is_empty());
    }
}
