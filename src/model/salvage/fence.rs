//! Fenced blocks, by the rules of CommonMark where models keep them.
//!
//! Two liberties: a fence may be indented as deep as it likes and may stand behind a list marker, because models put code
//! into lists. That much indentation is then taken off each line of the block.

use std::ops::Range;

/// Shortest fence.
const MIN_MARKS: usize = 3;

/// How much deeper than its opening a closing fence may stand (CommonMark): deeper ones belong to the code.
const MAX_CLOSE_INDENT: usize = 3;

/// An opening fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    indent: usize,
    tabs: bool,
    mark: char,
    marks: usize,
    /// What kind of block it says it is.
    pub tag: Tag,
    /// What stands behind the tag.
    pub rest: String,
}

/// What a block says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// Python.
    Python,
    /// Nothing.
    Plain,
    /// Something a call may stand in.
    Call,
    /// Our tool: code, or a call of it.
    Tool,
    /// Anything else: never code to run.
    Other,
}

impl Tag {
    fn of(word: &str) -> Self {
        match word.to_ascii_lowercase().as_str() {
            "python" | "py" | "python3" => Self::Python,
            "" => Self::Plain,
            super::TOOL => Self::Tool,
            "json" | "json5" | "jsonc" | "xml" | "tool_call" | "tool_calls" | "tool" => Self::Call,
            _ => Self::Other,
        }
    }
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its lines, without the indentation of the fence and without the last line end.
    pub body: String,
    /// Where they stand.
    pub inner: Range<usize>,
    /// Where what follows starts.
    pub end: usize,
    /// Whether its closing fence came.
    pub closed: bool,
}

/// Reads `line` as an opening fence.
pub fn open(line: &str) -> Option<Open> {
    let line = line.trim_end();
    let blank = |c: char| c == ' ' || c == '\t';
    let after_blank = line.trim_start_matches(blank);
    let lead = &line[..line.len() - after_blank.len()];
    let fence = after_marker(after_blank).unwrap_or(after_blank);
    let mark = fence.chars().next().filter(|c| *c == '`' || *c == '~')?;
    let info = fence.trim_start_matches(mark);
    let marks = fence.len() - info.len();
    if marks < MIN_MARKS || (mark == '`' && info.contains('`')) {
        return None;
    }
    // `{python}` and `{.python}` are spellings of notebooks.
    let info = info.trim().trim_start_matches(['{', '.']);
    let word = info.len() - info.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-+#.".contains(c)).len();
    let tabs = fence.len() == after_blank.len() && !lead.is_empty() && lead.bytes().all(|b| b == b'\t');
    let rest = info[word..].trim_start_matches('}').trim().to_owned();
    Some(Open { indent: line.len() - fence.len(), tabs, mark, marks, tag: Tag::of(&info[..word]), rest })
}

/// What stands behind a list marker.
fn after_marker(text: &str) -> Option<&str> {
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let after = if digits.len() == text.len() {
        text.strip_prefix(['-', '*', '+'])?
    } else {
        digits.strip_prefix(['.', ')'])?
    };
    after.starts_with(' ').then(|| after.trim_start_matches(' '))
}

impl Open {
    /// Whether `line` closes this fence.
    pub fn closes(&self, line: &str) -> bool {
        let line = line.trim_end();
        let fence = line.trim_start_matches([' ', '\t']);
        line.len() - fence.len() <= self.indent + MAX_CLOSE_INDENT
            && fence.len() >= self.marks
            && fence.chars().all(|c| c == self.mark)
    }

    /// A line of the block without the indentation of the fence.
    pub fn strip<'a>(&self, line: &'a str) -> &'a str {
        let blank = if self.tabs { '\t' } else { ' ' };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let width = line.chars().take(self.indent).take_while(|c| *c == blank).count();
        &line[width..]
    }

    /// Reads the block that this fence opens, from the end of its line at `start`.
    pub fn block(&self, text: &str, start: usize) -> Block {
        let mut lines = Vec::new();
        let mut at = start;
        let mut inner_end = start;
        let mut closed = false;
        while at < text.len() && !closed {
            let line_end = text[at..].find('\n').map_or(text.len(), |n| at + n);
            let line = &text[at..line_end];
            closed = self.closes(line);
            at = (line_end + 1).min(text.len());
            if !closed {
                lines.push(self.strip(line));
                inner_end = at;
            }
        }
        Block { body: lines.join("\n"), inner: start..inner_end, end: at, closed }
    }
}

/// The inside of `text` if it is one fenced block and nothing else.
pub fn whole(text: &str) -> Option<String> {
    let text = text.trim();
    let (first, _) = text.split_once('\n')?;
    let fence = open(first).filter(|fence| fence.tag != Tag::Other)?;
    let block = fence.block(text, first.len() + 1);
    (block.closed && block.end == text.len()).then_some(block.body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Tag, Block) {
        let first = text.split('\n').next().unwrap_or_default();
        let fence = open(first).expect(text);
        (fence.tag, fence.block(text, (first.len() + 1).min(text.len())))
    }

    #[test]
    fn tags() {
        for (line, tag) in [
            ("```python", Tag::Python),
            ("``` Py ", Tag::Python),
            ("~~~PYTHON3", Tag::Python),
            ("```{python}", Tag::Python),
            ("```{.python .numberLines}", Tag::Python),
            ("```python:main.py", Tag::Python),
            ("1. ```python", Tag::Python),
            ("   - ```py", Tag::Python),
            ("        ```python", Tag::Python),
            ("```", Tag::Plain),
            ("```json", Tag::Call),
            ("```bash", Tag::Other),
            ("```python2", Tag::Other),
            ("```pycon", Tag::Other),
            ("```output", Tag::Other),
        ] {
            assert_eq!(open(line).map(|o| o.tag), Some(tag), "{line}");
        }
        for line in ["``", "``python", "```a`b", "use ```python", "-```", "", "1.```"] {
            assert_eq!(open(line), None, "{line}");
        }
    }

    #[test]
    fn closes_as_long_alone_and_not_too_deep() {
        let (_, block) = read("````python\na\n```\nb```\n    ````\n`````  \nrest");
        assert_eq!((block.body.as_str(), block.closed), ("a\n```\nb```\n    ````", true));
        assert_eq!(block.end, "````python\na\n```\nb```\n    ````\n`````  \n".len());
        assert_eq!(read("~~~py\na\n```\n~~~").1.body, "a\n```");
        assert!(!read("```python\na\n``").1.closed);
        assert!(!read("```python").1.closed);
    }

    #[test]
    fn takes_off_the_indentation_of_the_fence_and_no_more() {
        assert_eq!(read("   ```py\n   if x:\n       y\n  z\n   ```").1.body, "if x:\n    y\nz");
        assert_eq!(read("2. ```py\n   x\n   ```").1.body, "x");
        assert_eq!(read("\t```py\n\tx\n\t\ty\n\t```").1.body, "x\n\ty");
        assert_eq!(read("```py\r\n  x\r\n```\r\n").1.body, "  x");
    }

    #[test]
    fn a_whole_fence() {
        assert_eq!(whole("\n```python\nprint(1)\n```\n").as_deref(), Some("print(1)"));
        for text in ["print(1)", "```", "```python\nx", "```python\nx\n```\ny", "```bash\nls\n```"] {
            assert_eq!(whole(text), None, "{text}");
        }
    }
}
