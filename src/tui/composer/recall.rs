//! The prompts of before: one by one with the arrows, by a word of them with Ctrl-R.

use std::collections::BTreeMap;

use super::blocks::without_marks;
use crate::tui::edit::buffer::TextBuffer;
use crate::tui::edit::keys::{Edit, Motion};
use crate::tui::edit::text::Text;

/// Most prompts kept. A year of use; a search reads them all with each key.
const MAX_ENTRIES: usize = 1000;

/// The prompts of before and which of them is in the draft.
#[derive(Debug, Clone, Default)]
pub struct Recall {
    entries: Vec<String>,
    /// The entry in the draft; behind the last is what the person is writing.
    at: usize,
    /// Drafts that were left: the new one, and entries that were changed.
    left: BTreeMap<usize, TextBuffer>,
}

impl Recall {
    /// These prompts, the newest last.
    pub fn new(mut entries: Vec<String>) -> Self {
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        Self { at: entries.len(), entries, left: BTreeMap::new() }
    }

    /// Prompts of earlier sessions become known, the newest last. Those of this one stay the newest.
    pub fn learn(&mut self, mut earlier: Vec<String>) {
        if self.at < self.entries.len() || !self.left.is_empty() {
            // The person is among them; their places would change.
            return;
        }
        earlier.append(&mut self.entries);
        *self = Self::new(earlier);
    }

    /// A prompt was sent. The same again is kept once, where it is newest.
    pub fn add(&mut self, text: &str) {
        self.entries.retain(|entry| entry != text);
        self.entries.push(text.to_owned());
        self.entries.drain(..self.entries.len().saturating_sub(MAX_ENTRIES));
        self.at = self.entries.len();
        self.left.clear();
    }

    /// Puts the next newer or older prompt into the draft, if there is one.
    pub fn go(&mut self, newer: bool, draft: &mut TextBuffer) -> bool {
        let to = if newer { self.at.checked_add(1) } else { self.at.checked_sub(1) };
        let Some(to) = to.filter(|to| *to <= self.entries.len()) else { return false };
        self.go_to(to, draft);
        true
    }

    /// Puts this prompt into the draft; what was there is kept.
    pub fn go_to(&mut self, to: usize, draft: &mut TextBuffer) {
        let entry = |at: usize| self.entries.get(at).map_or("", |entry| entry);
        let mut next = self.left.remove(&to).unwrap_or_else(|| TextBuffer::new(&without_marks(entry(to))));
        next.set_killed(draft.killed().to_owned());
        next.perform(Edit::Go(Motion::Bottom, false), 1);
        let is_entry = self.at < self.entries.len() && draft.text().is(entry(self.at));
        let old = std::mem::replace(draft, next);
        if !is_entry && self.at != to {
            self.left.insert(self.at, old);
        }
        self.at = to;
    }
}

/// A search through the prompts of before.
#[derive(Debug, Clone)]
pub struct Search {
    /// What is looked for.
    pub query: String,
    found: Option<usize>,
    preview: Text,
}

impl Default for Search {
    fn default() -> Self {
        Self { query: String::new(), found: None, preview: Text::new("") }
    }
}

impl Search {
    /// The prompt that was found.
    pub fn found(&self) -> Option<usize> {
        self.found
    }

    /// Its text.
    pub fn preview(&self) -> &Text {
        &self.preview
    }

    /// Looks from the newest on.
    pub fn again(&mut self, recall: &Recall) {
        self.found = None;
        let found = self.find(recall, recall.entries.len());
        self.show(recall, found);
    }

    /// Looks behind what was found; if there is no more, that stays.
    pub fn older(&mut self, recall: &Recall) {
        let found = self.find(recall, self.found.unwrap_or(recall.entries.len())).or(self.found);
        self.show(recall, found);
    }

    fn find(&self, recall: &Recall, before: usize) -> Option<usize> {
        let query = self.query.to_lowercase();
        if query.is_empty() {
            return None;
        }
        recall.entries.get(..before)?.iter().rposition(|entry| entry.to_lowercase().contains(&query))
    }

    fn show(&mut self, recall: &Recall, found: Option<usize>) {
        self.found = found;
        let entry = found.and_then(|at| recall.entries.get(at)).map_or("", |entry| entry);
        self.preview = Text::new(&without_marks(entry));
    }
}
