//! What keys do to an output: scrolling, sorting, choosing a table or figure. A table that has the whole pane takes the keys
//! that scroll.

use super::buffer::{self, Kind};
use super::table::TableView;
use super::{Item, RunOutput};
use crate::tui::scroll::Scroll;

/// Columns a key moves the text where lines are not wrapped.
const SIDE: usize = 8;

impl RunOutput {
    /// Scrolls; the table that has the whole pane, else the output.
    pub fn scroll_by(&mut self, rows: isize) {
        if let Some(table) = self.zoomed_table() {
            table.scroll(rows);
            return;
        }
        self.scrolled(|scroll| match rows < 0 {
            true => scroll.up(rows.unsigned_abs()),
            false => scroll.down(rows.unsigned_abs()),
        });
    }

    /// A screen up or down.
    pub fn page(&mut self, down: bool) {
        if let Some(table) = self.zoomed_table() {
            let page = table.page();
            table.scroll(if down { page } else { -page });
            return;
        }
        self.scrolled(|scroll| if down { scroll.page_down() } else { scroll.page_up() });
    }

    /// Half a screen up or down.
    pub fn half_page(&mut self, down: bool) {
        if let Some(table) = self.zoomed_table() {
            let half = table.page() / 2 + 1;
            table.scroll(if down { half } else { -half });
            return;
        }
        self.scrolled(|scroll| if down { scroll.half_down() } else { scroll.half_up() });
    }

    /// To the end, following what comes, or to the start.
    pub fn ends(&mut self, end: bool) {
        if let Some(table) = self.zoomed_table() {
            table.scroll(if end { isize::MAX } else { isize::MIN });
            return;
        }
        self.scrolled(|scroll| if end { scroll.end() } else { scroll.home() });
    }

    /// To the right or left: a column of the table in sight, else the text where it is not wrapped.
    pub fn sideways(&mut self, right: bool) {
        if let Some(table) = self.table() {
            table.select(right);
        } else if !self.wrap {
            self.left = if right {
                self.left.saturating_add(SIDE).min(buffer::MAX_LINE)
            } else {
                self.left.saturating_sub(SIDE)
            };
        }
    }

    /// Wraps lines, or does not.
    pub fn toggle_wrap(&mut self) {
        self.wrap = !self.wrap;
        self.left = 0;
    }

    /// Whether lines are wrapped.
    pub fn wraps(&self) -> bool {
        self.wrap
    }

    /// Sorts the table in sight by its selected column. False if there is none.
    pub fn sort(&mut self) -> bool {
        self.table().map(TableView::sort).is_some()
    }

    /// Gives the table or figure in sight the whole pane, or takes it back. False if there is none.
    pub fn toggle_zoom(&mut self) -> bool {
        self.zoomed = !self.zoomed && self.chosen.is_some();
        self.zoomed || self.chosen.is_some()
    }

    /// Whether a table or figure has the whole pane.
    pub fn is_zoomed(&self) -> bool {
        self.zoomed
    }

    /// The next table or figure, or the one before. False if there is none.
    pub fn next_item(&mut self, forward: bool) -> bool {
        let next = match self.chosen {
            Some(item) if forward => item + 1,
            Some(item) => item.wrapping_sub(1),
            None if forward => 0,
            None => self.items.len().wrapping_sub(1),
        };
        if next >= self.items.len() {
            return false;
        }
        self.chosen = Some(next);
        let mut places = std::iter::successors(self.buffer.first(), |place| self.buffer.after(*place));
        let place = places.find(|place| {
            self.buffer.line(*place).is_some_and(|kept| kept.kind == Kind::Item && self.item(&kept.text) == Some(next))
        });
        if let Some(place) = place {
            let row = self.buffer.row_of(place);
            self.scrolled(|scroll| scroll.show(row));
        }
        true
    }

    /// The blob of the figure in sight.
    pub fn figure(&self) -> Option<&str> {
        match self.chosen.and_then(|item| self.items.get(item)) {
            Some(Item::Figure { hash, .. }) => Some(hash),
            Some(Item::Table(_) | Item::Gone(_)) | None => None,
        }
    }

    /// The table in sight that the keys act on.
    pub fn table(&mut self) -> Option<&mut TableView> {
        match self.chosen.and_then(|item| self.items.get_mut(item)) {
            Some(Item::Table(table)) => Some(table),
            Some(Item::Figure { .. } | Item::Gone(_)) | None => None,
        }
    }

    /// Whether the end is in sight and followed.
    pub fn follows(&self) -> bool {
        self.scroll.follows()
    }

    /// Rows that came below since the person went away from the end.
    pub fn new_below(&self) -> usize {
        self.scroll.new_below()
    }

    /// First row in sight and how many there are, for a scroll bar.
    pub fn position(&self) -> (usize, usize) {
        (self.scroll.top(), self.scroll.rows())
    }

    fn zoomed_table(&mut self) -> Option<&mut TableView> {
        if self.zoomed { self.table() } else { None }
    }

    /// Moves the reading position, from where its text is now.
    pub(super) fn scrolled(&mut self, how: impl FnOnce(&mut Scroll)) {
        self.hold();
        how(&mut self.scroll);
        self.drop_anchor();
    }
}
