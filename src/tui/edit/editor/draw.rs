//! What the editor looks like.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::edit::cells::{Cell, Look, Strip, column_of, draw_line};
use crate::tui::edit::text::Pos;
use crate::tui::theme::{Role, Theme};

use super::Editor;

impl Editor {
    /// Draws what [`Editor::layout`] prepared.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        let view = self.view;
        if area.width <= view.gutter {
            return;
        }
        let mut number = view.first_number;
        let last = self.buffer.text().rows().min(view.top + usize::from(view.height.min(area.height)));
        for (y, row) in (area.y..).zip(view.top..last) {
            self.draw_number(row, number, Strip { x: area.x, y, width: view.gutter }, buf, theme);
            let code = Strip { x: area.x + view.gutter, y, width: view.width.min(area.width - view.gutter) };
            self.draw_code(row, code, buf, theme);
            number += 1 + if self.has_returns { self.returns_in(row) } else { 0 };
        }
        self.draw_message(area, buf, theme);
    }

    fn draw_number(&self, row: usize, number: usize, strip: Strip, buf: &mut Buffer, theme: Theme) {
        if strip.width == 0 {
            return;
        }
        let is_marked = self.error.is_some() && self.buffer.text().marked() == Some(row);
        let role = match row == self.buffer.cursor().row {
            _ if is_marked => Role::Bad,
            true => Role::Strong,
            false => Role::Number,
        };
        let digits = usize::from(strip.width) - 2;
        let sign = if is_marked { '!' } else { ' ' };
        buf.set_stringn(strip.x, strip.y, format!("{sign}{number:>digits$} "), digits + 2, theme.style(role));
    }

    fn draw_code(&self, row: usize, strip: Strip, buf: &mut Buffer, theme: Theme) {
        let text = self.buffer.text();
        let paint = text.paint(row);
        let selected = self.buffer.selection();
        let is_selected = |at: usize| selected.is_some_and(|(a, b)| (a..b).contains(&Pos::new(row, at)));
        let style = |cell: &Cell<'_>, named: bool| {
            let role = if named { Role::Code } else { paint.and_then(|p| p.role_at(cell.at)).unwrap_or(Role::Text) };
            select(theme, theme.style(role), is_selected(cell.at))
        };
        let body = text.body(row);
        let left = self.view.left;
        let is_cut = draw_line(body, Look::Code, left, strip, buf, style);
        let dim = theme.style(Role::Dim);
        let edge = strip.x + strip.width.saturating_sub(1);
        if is_cut {
            buf.set_stringn(edge, strip.y, "›", 1, dim);
        } else if selected.is_some_and(|(start, end)| start.row <= row && row < end.row) {
            // The selected line end, seen on empty lines too.
            let end = column_of(body, body.len(), Look::Code).saturating_sub(left);
            if is_selected(body.len()) && end < usize::from(strip.width) {
                buf.set_stringn(strip.x + end as u16, strip.y, " ", 1, select(theme, Style::new(), true));
            }
        }
        if left > 0 && !body.is_empty() {
            buf.set_stringn(strip.x, strip.y, "‹", 1, dim);
        }
    }

    fn draw_message(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let (Some(message), Some(row)) = (&self.error, self.buffer.text().marked()) else { return };
        if !self.has_message(area.height) {
            return;
        }
        let line = format!("! line {}: {message}", self.number_of(row));
        buf.set_stringn(area.x, area.bottom() - 1, line, usize::from(area.width), theme.style(Role::Bad));
    }
}

fn select(theme: Theme, style: Style, is_selected: bool) -> Style {
    if is_selected { style.patch(theme.style(Role::Selected)) } else { style }
}
