//! Large pastes. In the draft each is one character of the private range, so that cursor, deletion and undo take it for one
//! letter; here is what it stands for.

use std::borrow::Cow;

use crate::tui::edit::cells::{BLOCKS, block_of};

/// Lines up to which a paste is shown as it is: more would not fit into the prompt.
const MAX_LINES: usize = 10;

/// Characters up to which a paste is shown as it is: some screens' width of one line, wrapped with every key.
const MAX_CHARS: usize = 4000;

/// What the marks stand for.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    texts: Vec<String>,
    labels: Vec<String>,
}

impl Blocks {
    /// Keeps `text` and returns its mark, if it is too large to be shown.
    pub fn hold(&mut self, text: &str) -> Option<char> {
        // A line end at the end begins no line.
        let lines = text.strip_suffix('\n').unwrap_or(text).split('\n').count();
        let label = if lines > MAX_LINES {
            format!("[pasted {lines} lines]")
        } else {
            let chars = text.chars().count();
            (chars > MAX_CHARS).then(|| format!("[pasted {chars} characters]"))?
        };
        let mark = u32::try_from(self.texts.len()).ok().and_then(|n| char::from_u32(u32::from(BLOCKS) + n))?;
        block_of(mark)?;
        self.texts.push(text.to_owned());
        self.labels.push(label);
        Some(mark)
    }

    /// What is shown for the marks.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The text with the blocks in place of their marks.
    pub fn expand(&self, draft: &str) -> String {
        let mut out = String::with_capacity(draft.len());
        for c in draft.chars() {
            match block_of(c) {
                Some(block) => out.push_str(self.texts.get(block).map_or("", |text| text)),
                None => out.push(c),
            }
        }
        out
    }
}

/// The character; a mark that was typed or pasted would stand for a block that is not meant.
pub fn no_mark(c: char) -> char {
    if block_of(c).is_some() { char::REPLACEMENT_CHARACTER } else { c }
}

/// The text without marks.
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if text.contains(|c| block_of(c).is_some()) { text.chars().map(no_mark).collect() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_pastes_become_blocks() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.hold(&"x\n".repeat(10)), None);
        assert_eq!(blocks.hold(&"x\n".repeat(11)), Some(BLOCKS));
        assert_eq!(blocks.hold(&"é".repeat(4001)), Some('\u{100001}'));
        assert_eq!(blocks.labels(), ["[pasted 11 lines]", "[pasted 4001 characters]"]);
        assert_eq!(blocks.expand("a\u{100000}b"), format!("a{}b", "x\n".repeat(11)));
    }

    #[test]
    fn marks_from_outside_are_no_marks() {
        assert_eq!(without_marks("a\u{100000}\u{10fffd}b"), "a\u{fffd}\u{fffd}b");
        assert_eq!(Blocks::default().expand("a\u{100000}"), "a");
    }
}
