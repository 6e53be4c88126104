//! Draws what lies over the panes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::inside;
use crate::core::clean::Clean;
use crate::tui::app::App;
use crate::tui::app::overlay::{Kind, Line as Typed, Overlay, Picker};
use crate::tui::keys::{Act, Scope};
use crate::tui::theme::Role;
use crate::tui::wrap;

impl App {
    pub(super) fn paint_overlay(&self, area: Rect, buf: &mut Buffer) {
        let Some(overlay) = &self.overlay else { return };
        Clear.render(area, buf);
        let style = self.theme.style(Role::Focus);
        let boxed = |title: String, foot: &str| {
            Block::bordered()
                .border_type(BorderType::Rounded)
                .border_style(style)
                .title(Line::styled(format!(" {title} "), self.theme.style(Role::Title)))
                .title_bottom(Line::styled(format!(" {foot} "), self.theme.style(Role::Dim)))
        };
        let inner = inside(area);
        match overlay {
            Overlay::Lines { title, lines } => {
                boxed(title.clone(), "Esc close · / search · c copy").render(area, buf);
                lines.draw(inner, buf, self.theme);
            }
            Overlay::Pager(pager) => {
                boxed("Output".into(), "Esc close · / search · w wrap").render(area, buf);
                pager.draw(inner, buf, self.theme);
            }
            Overlay::Picker(picker) => self.paint_picker(picker, area, buf, &boxed),
            Overlay::Line(typed) => {
                boxed(typed.title.clone(), "Enter done · Esc back").render(area, buf);
                let (text, _) = typed_view(typed, inner.width);
                buf.set_stringn(inner.x, inner.y, text, usize::from(inner.width), self.theme.style(Role::Text));
            }
        }
    }

    fn paint_picker(
        &self,
        picker: &Picker,
        area: Rect,
        buf: &mut Buffer,
        boxed: &dyn Fn(String, &str) -> Block<'static>,
    ) {
        let title = match picker.kind {
            Kind::Sessions => "Sessions",
            Kind::Models => "Models",
        };
        let foot = self.picker_foot(picker.kind, area.width);
        let found = picker.found().count();
        let count = if picker.filter.is_empty() {
            format!("{title} · {found}")
        } else {
            format!("{title} · {found} of {}", picker.items.len())
        };
        boxed(count, &foot).render(area, buf);
        let inner = inside(area);
        if inner.area() == 0 {
            return;
        }
        let width = usize::from(inner.width);
        let filter = Clean::line(&picker.filter);
        buf.set_stringn(inner.x, inner.y, format!("/ {filter}"), width, self.theme.style(Role::Strong));
        if found == 0 {
            let words = if picker.loading { "looking…" } else { "nothing found" };
            self.paint_words(words, Rect { y: inner.y + 1, height: inner.height - 1, ..inner }, buf);
            return;
        }
        let rows = picker.rows_of_item() as u16;
        let mut y = inner.y + 1;
        for (at, item) in picker.found().enumerate().skip(picker.top) {
            if y + rows > inner.bottom() {
                break;
            }
            let chosen = at == picker.chosen;
            let sign = if chosen { "▸ " } else { "  " };
            let role = if chosen { Role::Strong } else { Role::Text };
            buf.set_stringn(inner.x, y, sign, width, self.theme.style(Role::Key));
            buf.set_stringn(inner.x + 2, y, item.text.as_str(), width.saturating_sub(2), self.theme.style(role));
            if rows > 1 {
                let detail = item.detail.as_str();
                buf.set_stringn(inner.x + 2, y + 1, detail, width.saturating_sub(2), self.theme.style(Role::Dim));
            }
            if chosen && self.theme.has_colour() {
                buf.set_style(Rect::new(inner.x, y, inner.width, 1), self.theme.style(Role::Focus));
            }
            y += rows;
        }
    }

    /// What the keys do in a list, in as many words as there is room for.
    fn picker_foot(&self, kind: Kind, width: u16) -> String {
        let (acts, more): (&[(Act, &str)], &str) = match kind {
            Kind::Sessions => (
                &[(Act::Choose, "continue"), (Act::Replay, "replay"), (Act::Rename, "rename"), (Act::Delete, "delete")],
                "",
            ),
            Kind::Models => (&[(Act::Choose, "choose")], " · type another name"),
        };
        let key = |act| self.keys.first_of(Scope::Picker, act);
        let close = self.keys.first_of(Scope::Always, Act::Stop);
        let foot = |dot: &str| {
            let words = acts.iter().map(|(act, word)| format!("{} {word}", key(*act))).collect::<Vec<_>>();
            format!("{}{more}{dot}{close} close", words.join(dot))
        };
        let room = usize::from(width.saturating_sub(4));
        let long = foot(" · ");
        let forms = [long.clone(), long.replace(" close", ""), foot(" ").replace("Ctrl-", "^").replace(" close", "")];
        let last = forms[2].clone();
        forms.into_iter().find(|form| wrap::width(form) <= room).unwrap_or(last)
    }
}

/// What is seen of a typed line, and the column of the cursor in it.
pub(super) fn typed_view(typed: &Typed, width: u16) -> (String, u16) {
    let text = typed.text();
    let at = typed.buffer.cursor().col.min(text.len());
    let before = Clean::line(text.get(..at).unwrap_or_default()).into_string();
    let after = Clean::line(text.get(at..).unwrap_or_default()).into_string();
    let column = wrap::width(&before);
    let room = usize::from(width).saturating_sub(1);
    let from = column.saturating_sub(room);
    let shown = wrap::cut(&Line::raw(before + &after), from, usize::from(width));
    (wrap::joined(&shown).into_owned(), (column - from) as u16)
}
