//! What the prompt and the list over it look like.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget};
use unicode_width::UnicodeWidthStr;

use super::complete::{Item, Popup};
use super::{Composer, PROMPT_WIDTH};
use crate::core::clean::Clean;
use crate::tui::edit::cells::{Cell, Strip, column_of, draw_line};
use crate::tui::edit::text::Pos;
use crate::tui::theme::{Role, Theme};

/// Entries of the list that are seen at once.
const MAX_LISTED: u16 = 8;

/// What stands before the words that are looked for.
const SEARCH: &str = "search: ";

impl Composer {
    /// Draws what [`Composer::layout`] prepared.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        if area.is_empty() {
            return;
        }
        let mut below = area;
        if let Some(search) = &self.search {
            let line = self.search_line(area.width);
            buf.set_stringn(area.x, area.y, SEARCH, usize::from(area.width), theme.style(Role::Key));
            let x = area.x.saturating_add(SEARCH.len() as u16).min(area.right());
            let role = if search.found().is_none() && !search.query.is_empty() { Role::Bad } else { Role::Text };
            buf.set_stringn(x, area.y, line, usize::from(area.right() - x), theme.style(role));
            below = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        self.draw_rows(below, buf, theme);
    }

    fn draw_rows(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let text = self.shown_text();
        let selected = self.buffer.selection().filter(|_| self.search.is_none());
        let rows = self.view.rows.iter().enumerate().skip(self.view.top);
        for (y, (index, row)) in (area.y..area.bottom()).zip(rows) {
            let is_above = y == area.y && index > 0;
            let is_below = y + 1 == area.bottom() && index + 1 < self.view.rows.len();
            let sign = match (is_above, is_below) {
                (true, _) => "↑",
                (false, true) => "↓",
                (false, false) if index == 0 && self.search.is_none() => ">",
                (false, false) => " ",
            };
            let role = if is_above || is_below { Role::Dim } else { Role::Key };
            buf.set_stringn(area.x, y, sign, usize::from(area.width.min(PROMPT_WIDTH)), theme.style(role));
            let style = |cell: &Cell<'_>, named: bool| {
                let style = theme.style(if named { Role::Code } else { Role::Text });
                let pos = Pos::new(row.row, row.start + cell.at);
                let is_selected = selected.is_some_and(|(start, end)| (start..end).contains(&pos));
                if is_selected { style.patch(theme.style(Role::Selected)) } else { style }
            };
            let width = area.width.saturating_sub(PROMPT_WIDTH);
            let strip = Strip { x: area.x.saturating_add(PROMPT_WIDTH), y, width };
            draw_line(row.text(text), self.look(), 0, strip, buf, style);
        }
    }

    /// The end of what is looked for, as far as it fits with the cursor behind it.
    fn search_line(&self, width: u16) -> Clean {
        let query = self.search.as_ref().map_or("", |search| &search.query);
        let room = usize::from(width).saturating_sub(SEARCH.len() + 1);
        // No character is narrower than a column.
        let mut skip = query.chars().count().saturating_sub(room);
        loop {
            let line = Clean::line(&query.chars().skip(skip).collect::<String>());
            if line.as_str().width() <= room {
                return line;
            }
            skip += 1;
        }
    }

    /// Where the cursor of the terminal belongs.
    pub fn cursor(&self, area: Rect) -> Option<Position> {
        let (x, y) = if self.search.is_some() {
            (SEARCH.len() + self.search_line(area.width).as_str().width(), 0)
        } else {
            let pos = self.buffer.cursor();
            let index = super::wrap::row_of(&self.view.rows, pos);
            let row = self.view.rows.get(index)?;
            let column = column_of(row.text(self.buffer.text()), pos.col.saturating_sub(row.start), self.look());
            (column + usize::from(PROMPT_WIDTH), index.checked_sub(self.view.top)?)
        };
        // A mark wider than the screen has its end at the edge.
        let x = u16::try_from(x).unwrap_or(u16::MAX).min(area.width.checked_sub(1)?);
        let y = u16::try_from(y).ok().filter(|y| *y < area.height)?;
        Some(Position::new(area.x.saturating_add(x), area.y.saturating_add(y)))
    }

    /// Draws the list of what can be completed at the bottom of the area above the prompt.
    pub fn draw_popup(&self, above: Rect, buf: &mut Buffer, theme: Theme) {
        let above = above.intersection(buf.area);
        let Some(popup) = self.popup() else { return };
        let room = above.height.saturating_sub(2).min(MAX_LISTED);
        if room == 0 || above.width < 4 {
            return;
        }
        let height = room.min(popup.items.len() as u16);
        let labels = widest(popup, |item| &item.label);
        let helps = widest(popup, |item| &item.help);
        let inner = if helps > 0 { labels + 2 + helps } else { labels };
        // Borders and a space on each side.
        let width = (inner.saturating_add(4)).min(usize::from(above.width)) as u16;
        let area = Rect { x: above.x, y: above.bottom() - height - 2, width, height: height + 2 };
        Clear.render(area, buf);
        Block::bordered().border_style(theme.style(Role::Border)).render(area, buf);
        let first = (popup.selected + 1).saturating_sub(usize::from(height));
        for (y, (index, item)) in (area.y + 1..area.bottom() - 1).zip(popup.items.iter().enumerate().skip(first)) {
            let row = Rect { x: area.x + 1, y, width: width - 2, height: 1 };
            draw_item(item, labels, index == popup.selected, row, buf, theme);
        }
    }
}

fn widest(popup: &Popup, part: impl Fn(&Item) -> &Clean) -> usize {
    popup.items.iter().map(|item| part(item).as_str().width()).max().unwrap_or(0)
}

fn draw_item(item: &Item, labels: usize, is_selected: bool, row: Rect, buf: &mut Buffer, theme: Theme) {
    let look = |role| {
        let style = theme.style(role);
        if is_selected { style.patch(theme.style(Role::Selected)) } else { style }
    };
    buf.set_style(row, if is_selected { theme.style(Role::Selected) } else { Style::new() });
    let width = usize::from(row.width).saturating_sub(2);
    buf.set_stringn(row.x + 1, row.y, item.label.as_str(), width, look(Role::Key));
    let indent = labels + 2;
    if indent < width {
        buf.set_stringn(row.x + 1 + indent as u16, row.y, item.help.as_str(), width - indent, look(Role::Dim));
    }
}
