//! The text of a message and its blocks. Owns how pieces of raw text become clean text, and where a block ends for good.
//!
//! Both depend on the text alone, never on how it was cut into pieces. A block ends for good when the first two lines of
//! the next one are complete.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

use crate::core::clean::Cleaner;
use crate::tui::wrap::boundary_behind;

/// Longest block that is read as Markdown, bytes: it is read again with every frame in which it grows. What is longer is
/// shown as it was written. A table of 500 rows and 40 columns takes 200 KiB.
pub const MAX_BLOCK: usize = 256 * 1024;

/// Stands for the colon of `]:` while text is parsed. It is in no clean text.
const COLON: char = '\u{1a}';

/// What the parser knows besides CommonMark.
pub fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Text for the parser, as long as the text itself. A definition (`[name]: address`) would be hidden, and would change
/// blocks before and behind it that are finished; without its colon it is text like any other.
pub fn without_definitions(text: &str) -> Cow<'_, str> {
    if text.contains("]:") { Cow::Owned(text.replace("]:", "]\u{1a}")) } else { Cow::Borrowed(text) }
}

/// Text of the parser as it was written.
pub fn as_written(text: &str) -> String {
    text.replace(COLON, ":")
}

/// The text of a message as it arrives.
#[derive(Debug, Default)]
pub struct Source {
    text: String,
    /// Bytes of `text` that more text does not change.
    sure: usize,
    cleaner: Cleaner,
}

impl Source {
    /// Appends raw text.
    pub fn push(&mut self, raw: &str) {
        self.text.truncate(self.sure);
        self.cleaner.push(raw, &mut self.text);
        self.sure = self.text.len();
        self.cleaner.rest(&mut self.text);
    }

    /// All of the text, clean.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of the text that more text does not change.
    pub fn sure(&self) -> usize {
        self.sure
    }

    /// The start of the last line that is not complete.
    pub fn complete(&self) -> usize {
        self.text[..self.sure].rfind('\n').map_or(0, |at| at + 1)
    }
}

/// A part of the text between two empty lines, as a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Bytes of the text.
    pub range: Range<usize>,
    /// Too long to be read as Markdown.
    pub overlong: bool,
}

/// The blocks of `text` from byte `from` on, where a block begins. `complete` is where its last line begins. If there is
/// an overlong block, it is the last one, and goes on to the end of the text or to where blocks begin anew.
pub fn blocks(text: &str, from: usize, complete: usize) -> Vec<Block> {
    let mut blocks = Vec::new();
    for range in top_level(&text[from..]) {
        let (start, end) = (range.start + from, range.end + from);
        if end.min(complete).saturating_sub(start) > MAX_BLOCK {
            let end = end_of_plain(text, start, start, complete).unwrap_or(text.len());
            blocks.push(Block { range: start..end, overlong: true });
            break;
        }
        blocks.push(Block { range: start..end, overlong: false });
    }
    blocks
}

/// Where the overlong block that begins at `start` ends: behind the first empty line beyond its greatest length. Looks
/// only behind `searched`.
pub fn end_of_plain(text: &str, start: usize, searched: usize, complete: usize) -> Option<usize> {
    // One byte back: the first of two line feeds may have been there already.
    let from = (start + MAX_BLOCK).max(searched.saturating_sub(1));
    let from = boundary_behind(text, from);
    let end = from + text.get(from..complete)?.find("\n\n")? + 2;
    Some(end)
}

/// Whole lines of each block of the highest level.
fn top_level(text: &str) -> Vec<Range<usize>> {
    let text = without_definitions(text);
    let mut depth = 0usize;
    let mut found: Vec<Range<usize>> = Vec::new();
    for (event, range) in Parser::new_ext(&text, options()).into_offset_iter() {
        let is_block = depth == 0;
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => {
                depth -= 1;
                continue;
            }
            Event::Text(_)
            | Event::Code(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::Html(_)
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
        if is_block {
            // What is indented begins behind its spaces, and must be read with them.
            let start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
            found.push(start.max(found.last().map_or(0, |last| last.end))..range.end);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::clean::Clean;
    use proptest::prelude::*;

    fn source(parts: &[&str]) -> Source {
        let mut source = Source::default();
        parts.iter().for_each(|part| source.push(part));
        source
    }

    fn found(text: &str) -> Vec<&str> {
        blocks(text, 0, text.len()).into_iter().map(|b| text[b.range].trim_end()).collect()
    }

    #[test]
    fn blocks_are_whole_lines() {
        assert_eq!(found("# a\ntext\nmore\n\n- x\n\n  y\n- z\n"), ["# a", "text\nmore", "- x\n\n  y\n- z"]);
        assert_eq!(found("a\n\n    code\n"), ["a", "    code"]);
        assert_eq!(found("a\n\n[x]: http://y\n\nb"), ["a", "[x]: http://y", "b"]);
        assert_eq!(found(" \n \n"), [""; 0]);
    }

    #[test]
    fn an_overlong_block_ends_at_an_empty_line() {
        let text = format!("a\n\n{}\n\nb\n\nc\n", "x\n".repeat(MAX_BLOCK));
        let found = blocks(&text, 0, text.len());
        assert_eq!(found.len(), 2);
        assert!(found[1].overlong);
        assert_eq!(text[found[1].range.end..].trim_start(), "b\n\nc\n");
        let open = format!("```\n{}", "x\n".repeat(MAX_BLOCK));
        let found = blocks(&open, 0, open.len());
        assert_eq!(found, [Block { range: 0..open.len(), overlong: true }]);
    }

    #[test]
    fn a_line_that_grows_is_cleaned_once() {
        let mut source = Source::default();
        for n in 0..2000 {
            source.push("wörd ");
            // Nothing of it would be cleaned again with the next piece.
            assert_eq!(source.sure(), 6 * (n + 1));
        }
        source.push("\u{1b}]0;title");
        assert_eq!((source.sure(), source.text().len()), (12_000, 12_007));
    }

    proptest! {
        #[test]
        fn pieces_clean_as_the_whole(parts in proptest::collection::vec(proptest::sample::select(vec![
            "a", "\n", "\r", "\x1b", "[", "]", "31m", "0;t", "\x07", "\\", "\u{9b}", "\u{9d}", "\u{301}", "\u{200b}", "\u{202e}", " ",
        ]), 0..40)) {
            let source = source(&parts);
            let whole = parts.concat();
            let clean = Clean::text(&whole);
            prop_assert_eq!(source.text(), clean.as_str());
            prop_assert!(source.complete() <= source.sure());
        }
    }
}
