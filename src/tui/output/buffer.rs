//! What one run printed, bounded. Owns the order of its lines, what is kept of them, and where each is in rows.
//!
//! The first lines stay, the last lines stay, and what was between them is counted. Lines are kept as they came, in blocks,
//! so that a million short lines cost little more than their text and dropping is dropping a block. A line belongs to one
//! stream and stays where it began: if the other stream prints before it is finished, it goes on above that.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::mem::size_of;

use self::open::Open;
use super::ink::Ink;
use super::row;
use crate::core::event::StreamName;

mod open;
mod places;

/// What is kept of the beginning, bytes: as much as reaches the log as it comes.
const HEAD: usize = 256 * 1024;
/// What is kept of the end, bytes: the end is read more often.
const TAIL: usize = 512 * 1024;
/// What is kept of each end once a run is an older one, bytes. A session may have hundreds of runs.
const COMPACT: usize = 32 * 1024;
/// Longest line, bytes; a longer one is cut and says so. Longer lines are not read but slow every frame they are in.
pub(super) const MAX_LINE: usize = 32 * 1024;
/// Size of a block, bytes: small against what is kept, large against what a block costs.
const BLOCK: usize = 16 * 1024;
/// What a line costs besides its text, bytes.
const LINE_COST: usize = size_of::<Meta>();

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Printed to standard output.
    Stdout,
    /// Printed to standard error.
    Stderr,
    /// Text form of a result.
    Value,
    /// Something the person should know.
    Note,
    /// Bytes that were left out before they came here; the text is their number.
    Gap,
    /// A table or figure; the text is its number.
    Item,
}

/// Where a line or what stands for one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line.
    Line {
        /// Number of its block.
        block: u64,
        /// Its place in the block.
        index: usize,
    },
    /// The row that stands for the dropped middle.
    Middle,
    /// A table or figure whose line was in the dropped middle.
    Displaced(usize),
}

#[derive(Debug, Clone, Copy)]
struct Meta {
    start: u32,
    len: u32,
    rows: u32,
    kind: Kind,
}

#[derive(Debug, Default)]
struct Block {
    id: u64,
    text: String,
    lines: Vec<Meta>,
    /// Rows of all its lines that were counted.
    rows: usize,
    /// Lines that were counted.
    counted: usize,
    /// Some of its lines are tables or figures, whose rows change.
    items: bool,
}

impl Block {
    fn cost(&self) -> usize {
        self.text.len() + self.lines.len() * LINE_COST
    }

    fn text_of(&self, meta: Meta) -> &str {
        let start = meta.start as usize;
        self.text.get(start..start + meta.len as usize).unwrap_or_default()
    }

    fn set_rows(&mut self, index: usize, rows: usize) {
        let Some(meta) = self.lines.get_mut(index) else { return };
        self.rows = self.rows + rows - meta.rows as usize;
        meta.rows = saturate(rows);
    }

    fn forget_rows(&mut self) {
        self.rows = 0;
        self.counted = 0;
        self.lines.iter_mut().for_each(|meta| meta.rows = 0);
    }

    fn count(&mut self, width: Option<usize>, item_rows: &dyn Fn(usize) -> usize) {
        let from = if self.items { 0 } else { self.counted };
        for index in from..self.lines.len() {
            let Some(meta) = self.lines.get(index).copied() else { continue };
            match (meta.kind, width) {
                (Kind::Item, _) => {
                    let item = self.text_of(meta).parse().unwrap_or(usize::MAX);
                    self.set_rows(index, item_rows(item));
                }
                _ if index < self.counted => {}
                (Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note, Some(width)) => {
                    self.set_rows(index, row::count(self.text_of(meta), width));
                }
                (Kind::Gap, _) | (_, None) => self.set_rows(index, 1),
            }
        }
        self.counted = self.lines.len();
    }
}

/// A line to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text as it came, with colours.
    pub text: Cow<'a, str>,
    /// Its rows at the last layout.
    pub rows: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Buffer {
    head: VecDeque<Block>,
    head_cost: usize,
    /// Nothing more is added to the head.
    head_full: bool,
    tail: VecDeque<Block>,
    tail_cost: usize,
    next_block: u64,
    stdout: Open,
    stderr: Open,
    dropped_bytes: u64,
    dropped_lines: u64,
    displaced: Vec<usize>,
    displaced_rows: Vec<usize>,
    /// For what the rows were counted: columns where lines are wrapped.
    width: Option<Option<usize>>,
}

impl Buffer {
    /// Takes what a stream printed, `dropped` bytes of it having been left out just before.
    pub fn push(&mut self, stream: StreamName, text: &str, dropped: u64) {
        if dropped > 0 {
            if self.open(stream).place.is_some() {
                self.end_line(stream);
            }
            self.gap(dropped);
        }
        for piece in text.split_inclusive(['\n', '\r']) {
            if let Some(body) = piece.strip_suffix('\n') {
                self.extend(stream, body);
                self.end_line(stream);
            } else if let Some(body) = piece.strip_suffix('\r') {
                self.extend(stream, body);
                self.open(stream).redraw();
            } else {
                self.extend(stream, piece);
            }
        }
    }

    /// Adds whole lines that no stream printed.
    pub fn add(&mut self, kind: Kind, text: &str) {
        for line in text.lines() {
            let mut open = Open::default();
            open.extend(row::last_state(line));
            let mut shown = String::new();
            open.write(&mut shown);
            let place = self.place(kind);
            self.fill(place, &shown);
        }
    }

    /// Adds the place of a table or figure.
    pub fn add_item(&mut self, item: usize) {
        let place = self.place(Kind::Item);
        self.fill(place, &item.to_string());
        if let Some(block) = self.block_mut(place.0) {
            block.items = true;
        }
    }

    /// Keeps little of what is kept; for runs that are no longer the newest.
    pub fn compact(&mut self) {
        self.end_open_lines();
        self.head_full = true;
        while self.head.len() > 1 && self.head_cost > COMPACT {
            let Some(block) = self.head.pop_back() else { break };
            self.head_cost -= block.cost();
            self.drop_block(block, true);
        }
        self.trim(COMPACT);
        for block in self.head.iter_mut().chain(&mut self.tail) {
            block.text.shrink_to_fit();
            block.lines.shrink_to_fit();
        }
    }

    /// Ends the lines that are begun; the program has ended.
    pub fn end_open_lines(&mut self) {
        for stream in [StreamName::Stdout, StreamName::Stderr] {
            if self.open(stream).place.is_some() {
                self.end_line(stream);
            }
        }
    }

    /// Whether nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Bytes and lines of the dropped middle.
    pub fn dropped(&self) -> (u64, u64) {
        (self.dropped_bytes, self.dropped_lines)
    }

    /// Bytes that are kept, about.
    pub fn cost(&self) -> usize {
        let open = |open: &Open| open.text.capacity() + open.before.as_ref().map_or(0, |(_, text)| text.capacity());
        let blocks = self.head.iter().chain(&self.tail);
        blocks.map(|b| b.text.capacity() + b.lines.capacity() * LINE_COST).sum::<usize>()
            + open(&self.stdout)
            + open(&self.stderr)
    }

    fn open(&mut self, stream: StreamName) -> &mut Open {
        match stream {
            StreamName::Stdout => &mut self.stdout,
            StreamName::Stderr => &mut self.stderr,
        }
    }

    fn extend(&mut self, stream: StreamName, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.open(stream).place.is_none() {
            let place = self.place(kind_of(stream));
            self.open(stream).place = Some(place);
        }
        self.open(stream).extend(text);
    }

    fn end_line(&mut self, stream: StreamName) {
        let place = match self.open(stream).place {
            Some(place) => place,
            None => self.place(kind_of(stream)),
        };
        let open = self.open(stream);
        if open.before.is_none() && open.cut == 0 && open.ink == Ink::default() {
            // The ordinary line is not copied twice.
            let text = std::mem::take(&mut open.text);
            self.fill(place, &text);
            self.open(stream).text = text;
        } else {
            let mut shown = String::new();
            open.write(&mut shown);
            self.fill(place, &shown);
        }
        self.open(stream).end();
    }

    fn gap(&mut self, bytes: u64) {
        let last = self.tail.back_mut().or(self.head.back_mut());
        if let Some(block) = last
            && let Some(meta) = block.lines.last().copied()
            && meta.kind == Kind::Gap
        {
            let sum = bytes.saturating_add(block.text_of(meta).parse().unwrap_or(0));
            let start = meta.start as usize;
            block.text.replace_range(start..start + meta.len as usize, &gap_text(sum));
            return;
        }
        let place = self.place(Kind::Gap);
        self.fill(place, &gap_text(bytes));
    }

    /// A new line at the end, still without text.
    fn place(&mut self, kind: Kind) -> (u64, usize) {
        self.head_full |= self.head_cost >= HEAD;
        let blocks = if self.head_full { &mut self.tail } else { &mut self.head };
        if blocks.back().is_none_or(|block| block.cost() >= BLOCK) {
            blocks.push_back(Block { id: self.next_block, ..Block::default() });
            self.next_block += 1;
        }
        if self.head_full {
            self.tail_cost += LINE_COST;
        } else {
            self.head_cost += LINE_COST;
        }
        let Some(block) = blocks.back_mut() else { return (0, 0) };
        block.lines.push(Meta { start: 0, len: 0, rows: 0, kind });
        (block.id, block.lines.len() - 1)
    }

    /// Gives a line its text.
    fn fill(&mut self, place: (u64, usize), text: &str) {
        let in_head = self.head.back().is_some_and(|block| place.0 <= block.id);
        let Some(block) = self.block_mut(place.0) else { return };
        let start = saturate(block.text.len());
        block.text.push_str(text);
        if let Some(meta) = block.lines.get_mut(place.1) {
            meta.start = start;
            meta.len = saturate(text.len());
        }
        if place.1 < block.counted {
            block.forget_rows();
        }
        if in_head {
            self.head_cost += text.len();
        } else {
            self.tail_cost += text.len();
            self.trim(TAIL);
        }
    }

    /// Drops from the front of the tail until `keep` bytes and at most a block more are left.
    fn trim(&mut self, keep: usize) {
        while let Some(front) = self.tail.front().map(Block::cost) {
            if self.tail_cost < keep + front || self.tail.len() < 2 {
                return;
            }
            self.tail_cost -= front;
            if let Some(block) = self.tail.pop_front() {
                self.drop_block(block, false);
            }
        }
    }

    /// Counts what is dropped; `before` what was dropped already, or behind it.
    fn drop_block(&mut self, block: Block, before: bool) {
        let mut items = Vec::new();
        for meta in &block.lines {
            let text = block.text_of(*meta);
            match meta.kind {
                Kind::Item => items.extend(text.parse::<usize>()),
                Kind::Gap => self.dropped_bytes = self.dropped_bytes.saturating_add(text.parse().unwrap_or(0)),
                Kind::Stdout | Kind::Stderr | Kind::Value | Kind::Note => {
                    self.dropped_lines += 1;
                    self.dropped_bytes = self.dropped_bytes.saturating_add(u64::from(meta.len) + 1);
                }
            }
        }
        let at = if before { 0 } else { self.displaced.len() };
        self.displaced.splice(at..at, items);
        for open in [&mut self.stdout, &mut self.stderr] {
            if open.place.is_some_and(|(id, _)| id == block.id) {
                self.dropped_bytes = self.dropped_bytes.saturating_add(open.text.len() as u64 + open.cut);
                // What it goes on with is a line of its own.
                open.end();
            }
        }
    }

    fn block(&self, id: u64) -> Option<&Block> {
        let in_head = usize::try_from(id).ok().and_then(|id| self.head.get(id));
        in_head.or_else(|| self.tail.get(usize::try_from(id.checked_sub(self.tail.front()?.id)?).ok()?))
    }

    fn block_mut(&mut self, id: u64) -> Option<&mut Block> {
        find_mut(&mut self.head, &mut self.tail, id)
    }
}

fn kind_of(stream: StreamName) -> Kind {
    match stream {
        StreamName::Stdout => Kind::Stdout,
        StreamName::Stderr => Kind::Stderr,
    }
}

/// All of one length, so that one can be written over another.
fn gap_text(bytes: u64) -> String {
    format!("{bytes:020}")
}

/// Numbers of blocks have no gaps within the head and within the tail; those of the head begin with 0.
fn find_mut<'a>(head: &'a mut VecDeque<Block>, tail: &'a mut VecDeque<Block>, id: u64) -> Option<&'a mut Block> {
    let first = tail.front().map(|block| block.id);
    match usize::try_from(id).ok().filter(|id| *id < head.len()) {
        Some(at) => head.get_mut(at),
        None => tail.get_mut(usize::try_from(id.checked_sub(first?)?).ok()?),
    }
}

/// Blocks and lines are far smaller than this can say.
fn saturate(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
