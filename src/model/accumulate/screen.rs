//! Sorting the words of a reply into text and code while they come, and seeing the first block close.

use crate::core::event::Channel;
use crate::model::salvage::fence::{self, Open, Tag};

/// Longest beginning of a line that is held back because it may still become a fence, bytes.
const MAX_HELD: usize = 80;

/// Follows the lines of a reply.
#[derive(Debug, Default)]
pub struct Screen {
    /// The line so far.
    line: String,
    /// How much of it has been shown.
    shown: usize,
    open: Option<Open>,
    /// A Python block has been closed.
    pub block_closed: bool,
}

impl Screen {
    /// Takes the next words; returns the pieces to show and how many bytes of `words` were taken. With `stop` nothing
    /// is taken behind the first closed Python block.
    pub fn feed(&mut self, words: &str, stop: bool) -> (Vec<(Channel, String)>, usize) {
        let mut out = Vec::new();
        let mut taken = 0;
        for part in words.split_inclusive('\n') {
            taken += part.len();
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.end_line(&mut out);
                if stop && self.block_closed {
                    break;
                }
            } else if !self.may_be_fence() {
                self.show(&mut out);
            }
        }
        (out, taken)
    }

    /// Whether a Python block is open.
    pub fn in_python(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.tag == Tag::Python)
    }

    fn end_line(&mut self, out: &mut Vec<(Channel, String)>) {
        match &self.open {
            Some(open) if open.closes(&self.line) => {
                self.block_closed |= open.tag == Tag::Python;
                // The fence itself belongs to the text only where the block does.
                self.hide_or_show(out);
                self.open = None;
            }
            Some(_) => self.show(out),
            None => match fence::open(&self.line) {
                Some(open) => {
                    self.open = Some(open);
                    self.hide_or_show(out);
                }
                None => self.show(out),
            },
        }
        self.line.clear();
        self.shown = 0;
    }

    fn hide_or_show(&mut self, out: &mut Vec<(Channel, String)>) {
        if self.channel() == Channel::Text {
            self.show(out);
        }
    }

    fn channel(&self) -> Channel {
        match self.open.as_ref().map(|open| open.tag) {
            Some(Tag::Python | Tag::Call | Tag::Tool) => Channel::Code,
            Some(Tag::Plain | Tag::Other) | None => Channel::Text,
        }
    }

    fn show(&mut self, out: &mut Vec<(Channel, String)>) {
        let text = &self.line[self.shown..];
        if !text.is_empty() {
            out.push((self.channel(), text.to_owned()));
        }
        self.shown = self.line.len();
    }

    /// Whether the line so far may become a fence: white space, list markers, backticks and tildes, then a word.
    fn may_be_fence(&self) -> bool {
        let begun = self.line.trim_start_matches(|c: char| c.is_ascii_digit() || " \t-*+.)".contains(c));
        self.shown == 0 && self.line.len() <= MAX_HELD && (begun.is_empty() || begun.starts_with(['`', '~']))
    }
}
