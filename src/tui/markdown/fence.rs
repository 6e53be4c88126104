//! Code in a message. Owns which code is coloured, and remembers the colours: code is laid out again with every change of
//! the width, and while the block it stands in grows.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use ratatui::text::{Line, Span};

use crate::tui::highlight::{Painted, Run, paint};
use crate::tui::theme::{Role, Theme};
use crate::tui::wrap;

/// Longest code that is coloured at once, lines. More takes longer than a frame.
const MAX_PAINTED_LINES: usize = 200;

/// Longest code that is coloured at once, bytes.
const MAX_PAINTED: usize = 8 * 1024;

/// Longest line of code that is coloured at once, bytes. Patterns take time that grows with the square of a hostile line;
/// so many of these as fit into the code take less than two frames.
const MAX_PAINTED_LINE: usize = 240;

/// Columns by which code is set in.
const CODE_INDENT: usize = 2;

/// Columns by which the rows that continue a line of code are set in.
const CODE_CONTINUED: usize = 4;

/// Colours of code that was painted before, by the hash of the code.
pub type Paints = HashMap<u64, Painted>;

/// Whether a block of code ends with its closing fence.
pub fn is_closed(block: &str) -> bool {
    let Some((_, last)) = block.trim_end().rsplit_once('\n') else { return false };
    let fence = last.trim_start_matches(['>', ' ']);
    fence.len() >= 3 && (fence.bytes().all(|b| b == b'`') || fence.bytes().all(|b| b == b'~'))
}

/// The rows of a block of code, at most `width` columns wide.
pub fn rows(
    language: &str,
    code: &str,
    closed: bool,
    width: usize,
    theme: Theme,
    paints: &mut Paints,
) -> Vec<Line<'static>> {
    let code = code.strip_suffix('\n').unwrap_or(code);
    let is_python = matches!(language, "python" | "py" | "python3");
    let is_short = code.len() <= MAX_PAINTED
        && code.split('\n').count() <= MAX_PAINTED_LINES
        && code.split('\n').all(|line| line.len() <= MAX_PAINTED_LINE);
    let painted = (is_python && closed && is_short).then(|| painted(code, paints));
    let mut rows = Vec::new();
    for (i, line) in code.split('\n').enumerate() {
        let line = match painted {
            Some(painted) => coloured(line, painted.lines.get(i).map_or(&[], Vec::as_slice), theme),
            None => Line::from(Span::styled(line.to_owned(), theme.style(Role::Code))),
        };
        rows.extend(wrap::wrap_indented(&line, width.saturating_sub(CODE_INDENT), CODE_CONTINUED));
    }
    rows.iter_mut().for_each(|row| row.spans.insert(0, Span::raw(" ".repeat(CODE_INDENT))));
    rows
}

fn painted<'a>(code: &str, paints: &'a mut Paints) -> &'a Painted {
    let mut hasher = DefaultHasher::new();
    code.hash(&mut hasher);
    paints.entry(hasher.finish()).or_insert_with(|| paint(code))
}

fn coloured(line: &str, runs: &[Run], theme: Theme) -> Line<'static> {
    let mut spans = Vec::new();
    let mut at = 0;
    for (role, range) in runs {
        let (Some(before), Some(text)) = (line.get(at..range.start), line.get(range.clone())) else { break };
        spans.push(Span::raw(before.to_owned()));
        spans.push(Span::styled(text.to_owned(), theme.style(*role)));
        at = range.end;
    }
    spans.push(Span::raw(line.get(at..).unwrap_or_default().to_owned()));
    spans.retain(|span| !span.content.is_empty());
    Line::from(spans)
}
