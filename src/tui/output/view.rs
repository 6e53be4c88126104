//! What of an output is in sight, and drawing it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::buffer::{Kind, Place};
use super::figure::Figures;
use super::row::{self, Paint, Styled};
use super::table::Look;
use super::{Anchor, Hit, Item, RunOutput, Seen, gap_words};
use crate::tui::theme::{Role, Theme};

/// Columns of the sign in front of each row.
const SIGN: u16 = 2;
/// Rows of a figure within other output: large enough to read, and some text still beside it.
const FIGURE_ROWS: u16 = 20;

impl RunOutput {
    /// Works out what is in sight in a pane of this size, before a frame. Wants the figures that are.
    pub fn layout(&mut self, width: u16, height: u16, theme: Theme, figures: &mut Figures) {
        figures.frame();
        (self.width, self.height) = (width, height);
        self.size_items(figures);
        if self.zoomed_item().is_some() {
            return;
        }
        let wrapped = self.wrapped();
        let items = &self.items;
        let rows = |item: usize| items.get(item).map_or(1, Item::rows);
        let rewrapped = self.laid_out.replace(wrapped).is_some_and(|before| before != wrapped);
        let total = self.buffer.layout(wrapped, &rows);
        if rewrapped && !self.scroll.follows() {
            self.scroll.rewrapped(self.anchored(self.anchor), total);
        }
        self.hold();
        self.scroll.layout(total, usize::from(height));
        self.drop_anchor();
        self.look(theme, figures);
    }

    /// Draws what the layout found to be in sight.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme, figures: &Figures) {
        let area = area.intersection(buf.area);
        if let Some(item) = self.chosen.filter(|_| self.zoomed) {
            self.draw_item(item, 0, area, buf, theme, figures);
            return;
        }
        let mut y = area.y;
        for seen in &self.seen {
            if y >= area.bottom() {
                return;
            }
            match seen {
                Seen::Text { kind, line } => {
                    let (sign, role) = sign(*kind);
                    let width = usize::from(SIGN.min(area.width));
                    buf.set_stringn(area.x, y, sign, width, theme.style(role));
                    if let Some(room) = area.width.checked_sub(SIGN).filter(|room| *room > 0) {
                        buf.set_line(area.x + SIGN, y, line, room);
                    }
                    y += 1;
                }
                Seen::Item { item, skip, rows } => {
                    let indent = SIGN.min(area.width);
                    let rows = (*rows).min(area.bottom() - y);
                    let part = Rect { x: area.x + indent, y, width: area.width - indent, height: rows };
                    self.draw_item(*item, *skip, part, buf, theme, figures);
                    y += rows;
                }
            }
        }
    }

    fn draw_item(&self, at: usize, skip: u16, area: Rect, buf: &mut Buffer, theme: Theme, figures: &Figures) {
        let Some(item) = self.items.get(at) else { return };
        match item {
            Item::Table(table) => {
                let look = Look { whole: self.zoomed, chosen: self.chosen == Some(at), needle: self.needle.as_ref() };
                table.draw(area, buf, theme, usize::from(skip), look);
            }
            Item::Figure { hash, cells } => figures.draw(hash, *cells, skip, area, buf, theme),
            Item::Gone(title) => {
                if area.width > 0 && area.height > 0 {
                    buf.set_stringn(area.x, area.y, title, usize::from(area.width), theme.style(Role::Dim));
                }
            }
        }
    }

    /// Columns of text.
    pub(super) fn room(&self) -> usize {
        usize::from(self.width.saturating_sub(SIGN).max(1))
    }

    /// Columns after which lines are wrapped, where they are.
    pub(super) fn wrapped(&self) -> Option<usize> {
        self.wrap.then(|| self.room())
    }

    fn size_items(&mut self, figures: &mut Figures) {
        let zoomed = self.chosen.filter(|_| self.zoomed);
        let room = self.width.saturating_sub(SIGN).max(1);
        for (at, item) in self.items.iter_mut().enumerate() {
            let whole = zoomed == Some(at);
            match item {
                Item::Table(table) if whole => table.layout(self.width, self.height),
                Item::Table(table) => {
                    table.set_room(self.height);
                    let rows = u16::try_from(table.inline_rows()).unwrap_or(u16::MAX);
                    table.layout(room, rows);
                }
                Item::Figure { hash, cells } if whole => {
                    *cells = figures.fit(hash, (self.width, self.height), true);
                    figures.want(hash, *cells);
                }
                Item::Figure { hash, cells } => {
                    *cells = figures.fit(hash, (room, FIGURE_ROWS.min(self.height).max(1)), false);
                }
                Item::Gone(_) => {}
            }
        }
    }

    /// Keeps the text at the top of the screen where it is, whatever came or went above it.
    pub(super) fn hold(&mut self) {
        if self.scroll.follows() || self.anchor.is_none() {
            return;
        }
        let top = self.anchored(self.anchor);
        if top != self.scroll.top() {
            self.scroll.moved(top);
        }
    }

    /// The row an anchor is in.
    fn anchored(&self, anchor: Option<Anchor>) -> usize {
        let Some(anchor) = anchor else { return self.scroll.top() };
        let first = self.buffer.row_of(anchor.place);
        let Some(kept) = self.buffer.line(anchor.place) else { return first };
        let within = match (kept.kind, self.wrapped()) {
            (Kind::Item, _) => anchor.within,
            (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note | Kind::Gap, Some(width)) => anchor.column / width,
            (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note | Kind::Gap, None) => 0,
        };
        first + within.min(kept.rows.saturating_sub(1))
    }

    /// Remembers what is at the top of the screen.
    pub(super) fn drop_anchor(&mut self) {
        let Some((place, within)) = self.buffer.locate(self.scroll.top()) else {
            self.anchor = None;
            return;
        };
        let column = within * self.room();
        // A row that began in the middle of another width stays that place, so that going back and forth comes back.
        if let Some(old) = self.anchor
            && old.place == place
            && self.wrapped().is_none_or(|width| old.column / width == within)
        {
            self.anchor = Some(Anchor { within, ..old });
            return;
        }
        self.anchor = Some(Anchor { place, column, within });
    }

    /// Collects what is in sight.
    fn look(&mut self, theme: Theme, figures: &mut Figures) {
        self.seen.clear();
        let Some((mut place, mut within)) = self.buffer.locate(self.scroll.top()) else { return };
        let mut items = Vec::new();
        loop {
            let left = usize::from(self.height).saturating_sub(self.seen_rows());
            if left == 0 {
                break;
            }
            let Some(kept) = self.buffer.line(place) else { break };
            let rows = kept.rows.saturating_sub(within).min(left);
            match kept.kind {
                Kind::Item => {
                    if let Some(item) = self.item(&kept.text) {
                        let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
                        self.seen.push(Seen::Item { item, skip: short(within), rows: short(rows) });
                        items.push(item);
                    }
                }
                Kind::Gap => {
                    let line = Line::styled(gap_words(&kept.text), theme.style(Role::Dim));
                    self.seen.push(Seen::Text { kind: Kind::Gap, line });
                }
                kind @ (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note) => {
                    let lines = self.styled(&kept.text, kind, place, within..within + rows, theme);
                    self.seen.extend(lines.into_iter().map(|line| Seen::Text { kind, line }));
                }
            }
            let Some(next) = self.buffer.after(place) else { break };
            (place, within) = (next, 0);
        }
        if self.chosen.is_none_or(|chosen| !items.contains(&chosen)) {
            self.chosen = items.first().copied();
        }
        for item in items {
            if let Some(Item::Figure { hash, cells }) = self.items.get(item) {
                figures.want(hash, *cells);
            }
        }
    }

    fn seen_rows(&self) -> usize {
        let rows = |seen: &Seen| match seen {
            Seen::Text { .. } => 1,
            Seen::Item { rows, .. } => usize::from(*rows),
        };
        self.seen.iter().map(rows).sum()
    }

    /// Some rows of a line, painted.
    fn styled(
        &self,
        raw: &str,
        kind: Kind,
        place: Place,
        rows: std::ops::Range<usize>,
        theme: Theme,
    ) -> Vec<Line<'static>> {
        let line = Styled::new(raw);
        let found = self.needle.as_ref().map(|needle| needle.all(line.text()).collect::<Vec<_>>()).unwrap_or_default();
        let current = self.hit.filter(|hit| hit.place == place).map(|Hit { at, .. }| at);
        let paint = Paint { theme, base: base(kind, theme), found: &found, current };
        match self.wrapped() {
            Some(width) => row::wrapped(&line, width, rows, paint),
            None => vec![row::cut(&line, self.left..self.left + self.room(), paint)],
        }
    }
}

impl Item {
    fn rows(&self) -> usize {
        match self {
            Item::Table(table) => table.inline_rows(),
            Item::Figure { cells, .. } => usize::from(cells.1.max(1)),
            Item::Gone(_) => 1,
        }
    }
}

/// The sign in front of a row, so that the streams are told apart without colours.
fn sign(kind: Kind) -> (&'static str, Role) {
    match kind {
        Kind::Stdout | Kind::Item => ("  ", Role::Text),
        Kind::Stderr => ("! ", Role::Bad),
        Kind::Value => ("= ", Role::Good),
        Kind::Note => ("· ", Role::Dim),
        Kind::Gap => ("  ", Role::Dim),
    }
}

fn base(kind: Kind, theme: Theme) -> Style {
    match kind {
        Kind::Stdout | Kind::Value | Kind::Item => theme.style(Role::Text),
        // A traceback in bold is hard to read.
        Kind::Stderr => Style { add_modifier: Modifier::empty(), ..theme.style(Role::Bad) },
        Kind::Note | Kind::Gap => theme.style(Role::Dim),
    }
}
