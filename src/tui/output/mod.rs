//! What a run printed and showed, as a person reads it. Owns the output pane's state: the text of both streams, tables and
//! figures in the order they came, where the person reads, and what they search for.
//!
//! [`RunOutput`] folds the records of one run. Before a frame `layout` works out what is in sight, and `draw` puts that on the
//! screen; both cost what is in sight and what is new, however much was printed.

pub mod buffer;
pub mod figure;
mod find;
pub mod ink;
mod keys;
pub mod pager;
pub mod row;
pub mod table;
mod title;
mod view;

use ratatui::text::Line;

use self::buffer::{Buffer, Kind, Place};
use self::row::plain;
use self::table::TableView;
use self::title::End;
use crate::core::event::{ResultBundle, RunFinished, StreamName};
use crate::tui::scroll::Scroll;
use crate::tui::search::Needle;

/// Tables and figures of one run; what comes after them is only counted.
const MAX_ITEMS: usize = 100;
/// Tables of the newest run, bytes; the oldest are let go first. One of 200 × 50 ordinary cells takes 400 KiB.
const MAX_TABLES: usize = 4 * 1024 * 1024;
/// Tables of an older run, bytes.
const COMPACT_TABLES: usize = 256 * 1024;

/// The output of one run.
#[derive(Debug)]
pub struct RunOutput {
    buffer: Buffer,
    items: Vec<Item>,
    /// Tables and figures that found no room.
    left_out: u64,
    scroll: Scroll,
    /// What stood at the top of the screen, so that it stays there.
    anchor: Option<Anchor>,
    wrap: bool,
    /// First column on the screen where lines are not wrapped.
    left: usize,
    needle: Option<Needle>,
    hit: Option<Hit>,
    /// When it began, milliseconds of the session, and its time limit, seconds.
    begun: Option<(u64, u64)>,
    end: Option<End>,
    /// It will never end: what ran it was gone.
    is_cut_off: bool,
    /// The table or figure the keys act on.
    chosen: Option<usize>,
    /// That one has the whole pane.
    zoomed: bool,
    width: u16,
    height: u16,
    /// Columns after which lines were wrapped at the last layout.
    laid_out: Option<Option<usize>>,
    seen: Vec<Seen>,
}

#[derive(Debug)]
enum Item {
    Table(Box<TableView>),
    Figure {
        hash: String,
        /// Columns and rows it takes.
        cells: (u16, u16),
    },
    /// A table that was let go; its title.
    Gone(String),
}

impl Item {
    fn cost(&self) -> usize {
        match self {
            Item::Table(table) => table.cost(),
            Item::Figure { .. } | Item::Gone(_) => 0,
        }
    }
}

/// A place in the output, and a column of its line counted over its rows.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    place: Place,
    column: usize,
    /// Rows of the place before the first in sight.
    within: usize,
}

/// What was found last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hit {
    place: Place,
    /// Bytes of the text before it.
    at: usize,
}

/// What is in sight.
#[derive(Debug)]
enum Seen {
    Text { kind: Kind, line: Line<'static> },
    Item { item: usize, skip: u16, rows: u16 },
}

impl Default for RunOutput {
    fn default() -> Self {
        Self::new()
    }
}

impl RunOutput {
    /// Of a run that has printed nothing yet.
    pub fn new() -> Self {
        Self {
            buffer: Buffer::default(),
            items: Vec::new(),
            left_out: 0,
            scroll: Scroll::new(),
            anchor: None,
            wrap: true,
            left: 0,
            needle: None,
            hit: None,
            begun: None,
            end: None,
            is_cut_off: false,
            chosen: None,
            zoomed: false,
            width: 0,
            height: 0,
            laid_out: None,
            seen: Vec::new(),
        }
    }

    /// The run began, at this time of the session and with this limit.
    pub fn begin(&mut self, at_ms: u64, timeout_seconds: u64) {
        self.begun = Some((at_ms, timeout_seconds));
    }

    /// Something was printed, `dropped` bytes of the stream having been left out just before.
    pub fn text(&mut self, stream: StreamName, text: &str, dropped: u64) {
        self.buffer.push(stream, text, dropped);
    }

    /// Something was shown. The text form is only taken where there is no other.
    pub fn result(&mut self, result: &ResultBundle) {
        if let Some(table) = &result.table {
            self.add_item(Item::Table(Box::new(TableView::new(table))));
        }
        if let Some(hash) = &result.png {
            self.add_item(Item::Figure { hash: hash.clone(), cells: (0, 1) });
        }
        if result.table.is_none() && result.png.is_none() {
            self.buffer.add(Kind::Value, &result.text);
        }
    }

    /// The run ended.
    pub fn finish(&mut self, finished: &RunFinished) {
        self.buffer.end_open_lines();
        if self.left_out > 0 {
            self.buffer.add(Kind::Note, &format!("{} more tables and figures", grouped(self.left_out)));
        }
        for note in title::notes(finished) {
            self.buffer.add(Kind::Note, &note);
        }
        self.end = Some(End::new(finished));
    }

    /// It never ended: what ran it was gone.
    pub fn cut_off(&mut self) {
        self.buffer.end_open_lines();
        self.is_cut_off = true;
    }

    /// Keeps little; for a run that is no longer the newest.
    pub fn compact(&mut self) {
        self.buffer.compact();
        self.let_tables_go(COMPACT_TABLES);
    }

    /// Keeps nothing but how the run ended; for one of the oldest of many.
    pub fn let_go(&mut self) {
        *self = Self { begun: self.begun, end: self.end.take(), wrap: self.wrap, ..Self::new() };
        self.buffer.add(Kind::Note, "what it printed is no longer kept here; it is in the log");
    }

    /// Bytes that are kept, about.
    pub fn cost(&self) -> usize {
        self.buffer.cost() + self.items.iter().map(Item::cost).sum::<usize>()
    }

    /// Whether the run ended.
    pub fn is_finished(&self) -> bool {
        self.end.is_some() || self.is_cut_off
    }

    /// Whether it printed and showed nothing.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Blobs that hold all that was kept of standard output and standard error, where that is more than is here.
    pub fn blobs(&self) -> (Option<&str>, Option<&str>) {
        self.end.as_ref().map_or((None, None), End::blobs)
    }

    /// What the pane shows, for another program: no wraps, no signs, no colours. Of a table that has the whole pane, its cells.
    pub fn logical_text(&self) -> String {
        if let Some(Item::Table(table)) = self.zoomed_item() {
            return table.text();
        }
        let mut out = String::new();
        let mut place = self.buffer.first();
        while let Some(at) = place {
            if let Some(kept) = self.buffer.line(at) {
                match kept.kind {
                    Kind::Item => match self.item(&kept.text).and_then(|item| self.items.get(item)) {
                        Some(Item::Table(table)) => out.push_str(&table.text()),
                        Some(Item::Gone(title)) => out.push_str(&format!("[{title}]\n")),
                        Some(Item::Figure { .. }) => out.push_str("[figure]\n"),
                        None => {}
                    },
                    Kind::Gap => out.push_str(&format!("{}\n", gap_words(&kept.text))),
                    Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note => {
                        out.push_str(plain(&kept.text).trim_end());
                        out.push('\n');
                    }
                }
            }
            place = self.buffer.after(at);
        }
        out
    }

    fn add_item(&mut self, item: Item) {
        if self.items.len() >= MAX_ITEMS {
            self.left_out += 1;
            return;
        }
        self.buffer.add_item(self.items.len());
        self.items.push(item);
        self.let_tables_go(MAX_TABLES);
    }

    /// Lets the oldest tables go until the rest takes no more than `keep`; the newest stays.
    fn let_tables_go(&mut self, keep: usize) {
        let mut sum: usize = self.items.iter().map(Item::cost).sum();
        let newest = self.items.len().saturating_sub(1);
        for item in self.items.iter_mut().take(newest) {
            if sum <= keep {
                return;
            }
            sum -= item.cost();
            if let Item::Table(table) = item {
                *item = Item::Gone(format!("{}, no longer kept here", table.title()));
            }
        }
    }

    /// The table or figure a line stands for.
    fn item(&self, text: &str) -> Option<usize> {
        text.parse().ok().filter(|item| *item < self.items.len())
    }

    fn zoomed_item(&self) -> Option<&Item> {
        self.chosen.filter(|_| self.zoomed).and_then(|item| self.items.get(item))
    }
}

fn gap_words(bytes: &str) -> String {
    let bytes = bytes.parse().unwrap_or(u64::MAX);
    format!("… {} left out …", crate::core::render::mib(bytes))
}

/// A number with a comma between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests;
