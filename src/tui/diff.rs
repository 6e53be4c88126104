//! What changed between two codes, line by line, with what changed within a line marked. The sign at the start of a line
//! tells it without colours.

use std::time::{Duration, Instant};

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use similar::{ChangeTag, DiffOp, TextDiff};

use crate::tui::code::line::spans;
use crate::tui::theme::{Role, Theme};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// Longest text that is compared, lines. Beyond it nobody reads a comparison, and it costs too much between two frames.
const MAX_LINES: usize = 5000;

/// Longest text that is compared, bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// Longest line within which changes are looked for, bytes.
const MAX_INLINE: usize = 2000;

/// Longest time spent on comparing; what is not compared by then is shown as removed and added.
const BUDGET: Duration = Duration::from_millis(25);

/// Share of a line that must be the same for the rest to be marked; below it everything is new.
const ALIKE: f32 = 0.4;

/// The lines that show how `old` became `new`. Both may be raw.
pub fn diff(old: &str, new: &str, theme: Theme) -> Vec<Line<'static>> {
    let is_large = |text: &str| text.len() > MAX_BYTES || text.lines().count() > MAX_LINES;
    if is_large(old) || is_large(new) {
        let head = Line::styled("too long to compare; this is the new code:", theme.style(Role::Warning));
        let lines = new.lines().map(|line| Line::from(spans(line, Style::new(), theme)));
        return std::iter::once(head).chain(lines).collect();
    }
    if old == new {
        return vec![Line::styled("no difference", theme.style(Role::Dim))];
    }
    let deadline = Instant::now() + BUDGET;
    let diff = TextDiff::configure().deadline(deadline).diff_lines(old, new);
    let mut out = Output { lines: Vec::new(), theme, deadline };
    let mut behind = 0;
    for group in diff.grouped_ops(CONTEXT) {
        let start = group.first().map_or(0, |op| op.new_range().start);
        if start > behind || !out.lines.is_empty() {
            out.lines.push(Line::styled(format!("  … line {}", start + 1), theme.style(Role::Dim)));
        }
        for op in &group {
            out.op(&diff, op);
            behind = op.new_range().end;
        }
    }
    out.lines
}

struct Output {
    lines: Vec<Line<'static>>,
    theme: Theme,
    deadline: Instant,
}

impl Output {
    fn op(&mut self, diff: &TextDiff<'_, '_, str>, op: &DiffOp) {
        let (old, new) = (op.old_range(), op.new_range());
        // Lines that were replaced by as many are taken as pairs.
        let pairs = matches!(op, DiffOp::Replace { .. }) && old.len() == new.len();
        let changes: Vec<(ChangeTag, &str)> = diff.iter_changes(op).map(|c| (c.tag(), c.value())).collect();
        let other = |i: usize| {
            let half = old.len();
            let partner = if i < half { i + half } else { i - half };
            changes.get(partner).filter(|_| pairs).map(|(_, line)| *line)
        };
        for (i, (tag, line)) in changes.iter().enumerate() {
            self.line(*tag, line, other(i));
        }
    }

    fn line(&mut self, tag: ChangeTag, line: &str, other: Option<&str>) {
        let (sign, role) = match tag {
            ChangeTag::Equal => ("  ", Role::Text),
            ChangeTag::Delete => ("- ", Role::Removed),
            ChangeTag::Insert => ("+ ", Role::Added),
        };
        let style = self.theme.style(role);
        let mut out = vec![Span::styled(sign, style)];
        let ended = line.ends_with(['\n', '\r']);
        // A change may be of nothing but the ends of lines, so a carriage return is named where something changed.
        let line = match line.strip_suffix('\n') {
            Some(line) if tag == ChangeTag::Equal => line.strip_suffix('\r').unwrap_or(line),
            Some(line) => line,
            None => line,
        };
        match other.and_then(|other| self.parts(line, other.trim_end_matches('\n'))) {
            Some(parts) => {
                for (changed, text) in parts {
                    let style = if changed { style.add_modifier(Modifier::REVERSED) } else { style };
                    out.extend(spans(text, style, self.theme));
                }
            }
            None => out.extend(spans(line, style, self.theme)),
        }
        if !ended && tag != ChangeTag::Equal {
            out.push(Span::styled("  (no line end)", self.theme.style(Role::Dim)));
        }
        self.lines.push(Line::from(out));
    }

    /// The parts of `line`, and whether each is not in `other`. Nothing if the two have too little in common.
    fn parts<'a>(&self, line: &'a str, other: &str) -> Option<Vec<(bool, &'a str)>> {
        if line.len() > MAX_INLINE || other.len() > MAX_INLINE || Instant::now() > self.deadline {
            return None;
        }
        let diff = TextDiff::configure().deadline(self.deadline).diff_words(line, other);
        if diff.ratio() < ALIKE {
            return None;
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for change in diff.iter_all_changes().filter(|change| change.tag() != ChangeTag::Insert) {
            let end = at + change.value().len();
            parts.push((change.tag() == ChangeTag::Delete, line.get(at..end)?));
            at = end;
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::ThemeName;
    use crate::tui::wrap::joined;
    use proptest::prelude::*;

    fn lines(old: &str, new: &str) -> Vec<Line<'static>> {
        diff(old, new, Theme::new(ThemeName::Dark))
    }

    fn texts(old: &str, new: &str) -> Vec<String> {
        lines(old, new).iter().map(|line| joined(line).into_owned()).collect()
    }

    fn marked(line: &Line<'static>) -> String {
        let reversed = line.spans.iter().filter(|span| span.style.add_modifier.contains(Modifier::REVERSED));
        reversed.map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn changes_have_signs_and_their_neighbours() {
        let old: String = (0..20).map(|i| format!("line {i}\n")).collect();
        let new = old.replace("line 10\n", "line ten\n").replace("line 19\n", "");
        assert_eq!(
            texts(&old, &new),
            [
                "  … line 8",
                "  line 7",
                "  line 8",
                "  line 9",
                "- line 10",
                "+ line ten",
                "  line 11",
                "  line 12",
                "  line 13",
                "  … line 17",
                "  line 16",
                "  line 17",
                "  line 18",
                "- line 19"
            ]
        );
        assert_eq!(texts("a\n", "a\n"), ["no difference"]);
        assert_eq!(texts("", "a\n"), ["+ a"]);
        assert_eq!(texts("a\n", "a"), ["- a", "+ a  (no line end)"]);
    }

    #[test]
    fn what_changed_within_a_line_is_marked() {
        let lines = lines("df = read_csv(\"sales.csv\", sep=1)\n", "df = read_csv(\"sales.csv\", sep=2)\n");
        assert_eq!((marked(&lines[0]).as_str(), marked(&lines[1]).as_str()), ("sep=1)", "sep=2)"));
    }

    #[test]
    fn hidden_characters_are_told_from_their_names() {
        assert_eq!(texts("a\u{202e}\n", "a<U+202E>\n"), ["- a<U+202E>", "+ a<U+202E>"]);
        assert_eq!(texts("x\u{1b}[2J", "y")[0], "- x<U+001B>[2J  (no line end)");
        assert_eq!(texts("a\r\nb\r\n", "a\r\nb\n"), ["  a", "- b<U+000D>", "+ b"]);
        assert_eq!(texts("# a\rimport os\n", "# a\n").concat(), "- # a<U+000D>- import os+ # a");
    }

    #[test]
    fn what_is_too_long_is_shown_as_it_is() {
        let shown = texts(&"a\n".repeat(MAX_LINES + 1), "new\u{202e}");
        assert!(shown[0].contains("too long"));
        assert_eq!(shown[1..], ["new<U+202E>"]);
    }

    #[test]
    fn the_worst_texts_are_compared_in_bounded_time() {
        let old: String = (0..MAX_LINES).map(|i| format!("{}\n", i * 7919 % 5000)).collect();
        let new: String = (0..MAX_LINES).map(|i| format!("{}\n", i * 6271 % 5000)).collect();
        let begun = Instant::now();
        assert!(!lines(&old, &new).is_empty());
        let words = |n: usize| (0..900).map(|i| format!("{} ", i * n % 97)).collect::<String>() + "\n";
        assert!(!lines(&words(31).repeat(300), &words(57).repeat(300)).is_empty());
        assert!(begun.elapsed() < Duration::from_secs(80), "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn both_texts_stand_in_it_around_a_change(
            old in "[ab\n]{0,6}", new in "[ab\n]{0,6}",
        ) {
            let shown = texts(&old, &new);
            let side = |signs: [&str; 2]| -> String {
                let of_side = shown.iter().filter(|line| signs.contains(&&line[..2]) && !line.starts_with("  …"));
                of_side.map(|line| line[2..].replace("  (no line end)", "") + "\n").collect()
            };
            if old != new {
                let ended = |text: &str| if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
                prop_assert!(ended(&old).contains(&side(["  ", "- "])), "{:?} {:?}", old, shown);
                prop_assert!(ended(&new).contains(&side(["  ", "+ "])), "{:?} {:?}", new, shown);
            }
        }
    }
}
