//! Indentation as Python wants it.

use crate::tui::edit::buffer::LineEdit;
use crate::tui::edit::cells::{Look, TAB_STOP, column_of};
use crate::tui::edit::keys::Edit;

use super::{Editor, Pos};

impl Editor {
    /// The spaces and tabs a line begins with.
    pub(super) fn indent_of(&self, row: usize) -> &str {
        let body = self.buffer.text().body(row);
        let rest = body.trim_start_matches([' ', '\t']);
        body.get(..body.len() - rest.len()).unwrap_or_default()
    }

    /// A new line goes on where this one began, behind a colon one level deeper.
    pub(super) fn enter(&mut self) {
        let from = self.buffer.selection().map_or(self.buffer.cursor(), |(start, _)| start);
        let before = self.buffer.text().body(from.row).get(..from.col).unwrap_or_default();
        let indent = self.indent_of(from.row);
        let mut line = format!("\n{}", indent.get(..from.col).unwrap_or(indent));
        if without_comment(before).trim_end().ends_with(':') {
            line.push_str(if indent.starts_with('\t') { "\t" } else { "    " });
        }
        self.buffer.insert(&line);
    }

    pub(super) fn tab(&mut self) {
        if self.buffer.selection().is_some() {
            return self.shift_levels(true);
        }
        let pos = self.buffer.cursor();
        let body = self.buffer.text().body(pos.row);
        let before = body.get(..pos.col).unwrap_or_default();
        // A line that begins with tabs goes on with tabs: Python refuses a mixture.
        if !before.is_empty() && before.bytes().all(|b| b == b'\t') {
            return self.buffer.insert("\t");
        }
        let column = column_of(body, pos.col, Look::Code);
        self.buffer.insert(&" ".repeat(TAB_STOP - column % TAB_STOP));
    }

    /// Moves the lines of the selection, or the one with the cursor, one level right or left.
    pub(super) fn shift_levels(&mut self, deeper: bool) {
        let pos = self.buffer.cursor();
        let (start, end) = self.buffer.selection().unwrap_or((pos, pos));
        // A line the selection only just reaches has nothing selected in it.
        let last = if end.col == 0 && end.row > start.row { end.row - 1 } else { end.row };
        let edits: Vec<_> = (start.row..=last).filter_map(|row| self.level_edit(row, deeper)).collect();
        self.buffer.replace_in_lines(&edits);
    }

    fn level_edit(&self, row: usize, deeper: bool) -> Option<LineEdit> {
        let indent = self.indent_of(row);
        if !deeper {
            return Some(LineEdit { row, from: 0, to: level(indent), new: String::new() }).filter(|edit| edit.to > 0);
        }
        let new = if indent.starts_with('\t') { "\t" } else { "    " };
        let is_empty = self.buffer.text().body(row).is_empty();
        (!is_empty).then(|| LineEdit { row, from: 0, to: 0, new: new.to_owned() })
    }

    /// In the indentation one level goes, elsewhere one letter.
    pub(super) fn backspace(&mut self) {
        let pos = self.buffer.cursor();
        let before = self.buffer.text().body(pos.row).get(..pos.col).unwrap_or_default();
        let is_indent = !before.is_empty() && before.bytes().all(|b| matches!(b, b' ' | b'\t'));
        if self.buffer.selection().is_some() || !is_indent || before.ends_with('\t') {
            return self.buffer.perform(Edit::Backspace, 1);
        }
        let spaces = before.len() - before.trim_end_matches(' ').len();
        let column = column_of(before, before.len(), Look::Code);
        let back = match column % TAB_STOP {
            0 => TAB_STOP,
            over => over,
        };
        let from = pos.col - back.min(spaces);
        self.buffer.replace(Pos::new(pos.row, from), pos, "");
    }
}

/// Bytes of the first level of an indentation, so that a level ends at a tab stop.
fn level(indent: &str) -> usize {
    if indent.starts_with('\t') {
        return 1;
    }
    let spaces = indent.len() - indent.trim_start_matches(' ').len();
    match spaces % TAB_STOP {
        over if over > 0 => over,
        _ => TAB_STOP.min(spaces),
    }
}

/// The code of a line that ends at the cursor. Strings over several lines are not known here; a colon in one is taken for
/// code, which costs a Backspace.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', Some(_)) => {
                chars.next();
            }
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('#', None) => return line.get(..at).unwrap_or_default(),
            _ => {}
        }
    }
    line
}
