//! Where the lines of a buffer are in rows, and in which order. The order is: head, the row for the dropped middle, the
//! tables and figures that were in it, tail.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::{Block, Buffer, Kept, Kind, Place, find_mut};
use crate::core::render::mib;
use crate::tui::output::row;

impl Buffer {
    /// Counts rows where lines are wrapped after `width` columns, or not wrapped. Only what is new is counted, unless the
    /// width changed. Returns how many there are.
    pub fn layout(&mut self, width: Option<usize>, item_rows: &dyn Fn(usize) -> usize) -> usize {
        if self.width != Some(width) {
            self.head.iter_mut().chain(&mut self.tail).for_each(Block::forget_rows);
            self.width = Some(width);
        }
        for block in self.head.iter_mut().chain(&mut self.tail) {
            if block.items || block.counted < block.lines.len() {
                block.count(width, item_rows);
            }
        }
        for open in [&self.stdout, &self.stderr] {
            let Some((id, index)) = open.place else { continue };
            let mut text = String::new();
            open.write(&mut text);
            let rows = width.map_or(1, |width| row::count(&text, width));
            if let Some(block) = find_mut(&mut self.head, &mut self.tail, id) {
                block.set_rows(index, rows);
            }
        }
        self.displaced_rows = self.displaced.iter().map(|item| item_rows(*item)).collect();
        self.rows()
    }

    fn rows(&self) -> usize {
        let blocks = self.head.iter().chain(&self.tail).map(|block| block.rows).sum::<usize>();
        blocks + self.middle_rows() + self.displaced_rows.iter().sum::<usize>()
    }

    fn middle_rows(&self) -> usize {
        usize::from(self.dropped_bytes > 0)
    }

    /// What row `row` of all belongs to, and which of its rows it is.
    pub fn locate(&self, row: usize) -> Option<(Place, usize)> {
        let mut left = row;
        if let Some(found) = locate_in(&self.head, &mut left) {
            return Some(found);
        }
        if left < self.middle_rows() {
            return Some((Place::Middle, 0));
        }
        left -= self.middle_rows();
        for (at, rows) in self.displaced_rows.iter().enumerate() {
            if left < *rows {
                return Some((Place::Displaced(at), left));
            }
            left -= rows;
        }
        locate_in(&self.tail, &mut left)
    }

    /// The first row of a place. A line that was dropped is in the middle.
    pub fn row_of(&self, place: Place) -> usize {
        let rows = |blocks: &VecDeque<Block>| blocks.iter().map(|block| block.rows).sum::<usize>();
        let head = rows(&self.head);
        match place {
            Place::Middle => head,
            Place::Displaced(at) => head + self.middle_rows() + self.displaced_rows.iter().take(at).sum::<usize>(),
            Place::Line { block: id, index } => {
                let Some(block) = self.block(id) else { return head };
                let before: usize = block.lines.iter().take(index).map(|meta| meta.rows as usize).sum();
                let in_head = self.head.iter().take_while(|b| b.id < id).map(|b| b.rows).sum::<usize>();
                if self.head.back().is_some_and(|last| id <= last.id) {
                    return in_head + before;
                }
                let in_tail: usize = self.tail.iter().take_while(|b| b.id < id).map(|b| b.rows).sum();
                head + self.middle_rows() + self.displaced_rows.iter().sum::<usize>() + in_tail + before
            }
        }
    }

    /// The first place.
    pub fn first(&self) -> Option<Place> {
        first_of(&self.head).or_else(|| self.behind_head())
    }

    /// The last place.
    pub fn last(&self) -> Option<Place> {
        last_of(&self.tail).or_else(|| self.before_tail())
    }

    /// The place behind.
    pub fn after(&self, place: Place) -> Option<Place> {
        match place {
            Place::Line { block, index } => {
                if index + 1 < self.block(block)?.lines.len() {
                    return Some(Place::Line { block, index: index + 1 });
                }
                if self.head.back().is_some_and(|last| block == last.id) {
                    return self.behind_head();
                }
                self.block(block + 1).map(|next| Place::Line { block: next.id, index: 0 })
            }
            Place::Middle if self.displaced.is_empty() => first_of(&self.tail),
            Place::Middle => Some(Place::Displaced(0)),
            Place::Displaced(at) if at + 1 < self.displaced.len() => Some(Place::Displaced(at + 1)),
            Place::Displaced(_) => first_of(&self.tail),
        }
    }

    /// The place before.
    pub fn before(&self, place: Place) -> Option<Place> {
        match place {
            Place::Line { block, index: 0 } => {
                if self.tail.front().is_some_and(|first| block == first.id) {
                    return self.before_tail();
                }
                let before = self.block(block.checked_sub(1)?)?;
                Some(Place::Line { block: before.id, index: before.lines.len().checked_sub(1)? })
            }
            Place::Line { block, index } => Some(Place::Line { block, index: index - 1 }),
            Place::Displaced(0) if self.middle_rows() > 0 => Some(Place::Middle),
            Place::Displaced(0) | Place::Middle => last_of(&self.head),
            Place::Displaced(at) => Some(Place::Displaced(at - 1)),
        }
    }

    fn behind_head(&self) -> Option<Place> {
        if self.middle_rows() > 0 {
            Some(Place::Middle)
        } else if self.displaced.is_empty() {
            first_of(&self.tail)
        } else {
            Some(Place::Displaced(0))
        }
    }

    fn before_tail(&self) -> Option<Place> {
        match self.displaced.len().checked_sub(1) {
            Some(last) => Some(Place::Displaced(last)),
            None if self.middle_rows() > 0 => Some(Place::Middle),
            None => last_of(&self.head),
        }
    }

    /// What is at a place; for the middle, the words that stand for it.
    pub fn line(&self, place: Place) -> Option<Kept<'_>> {
        match place {
            Place::Middle => {
                let bytes = mib(self.dropped().0);
                let text = format!("{bytes} not shown here; O opens all that was kept");
                Some(Kept { kind: Kind::Note, text: Cow::Owned(text), rows: 1 })
            }
            Place::Displaced(at) => Some(Kept {
                kind: Kind::Item,
                text: Cow::Owned(self.displaced.get(at)?.to_string()),
                rows: self.displaced_rows.get(at).copied().unwrap_or(1),
            }),
            Place::Line { block: id, index } => {
                let block = self.block(id)?;
                let meta = *block.lines.get(index)?;
                let rows = meta.rows as usize;
                for open in [&self.stdout, &self.stderr] {
                    if open.place == Some((id, index)) {
                        let mut text = String::new();
                        open.write(&mut text);
                        return Some(Kept { kind: meta.kind, text: Cow::Owned(text), rows });
                    }
                }
                Some(Kept { kind: meta.kind, text: Cow::Borrowed(block.text_of(meta)), rows })
            }
        }
    }
}

fn locate_in(blocks: &VecDeque<Block>, left: &mut usize) -> Option<(Place, usize)> {
    for block in blocks {
        if *left >= block.rows {
            *left -= block.rows;
            continue;
        }
        for (index, meta) in block.lines.iter().enumerate() {
            if *left < meta.rows as usize {
                return Some((Place::Line { block: block.id, index }, *left));
            }
            *left -= meta.rows as usize;
        }
    }
    None
}

fn first_of(blocks: &VecDeque<Block>) -> Option<Place> {
    blocks.front().map(|block| Place::Line { block: block.id, index: 0 })
}

fn last_of(blocks: &VecDeque<Block>) -> Option<Place> {
    blocks.back().map(|block| Place::Line { block: block.id, index: block.lines.len().saturating_sub(1) })
}
