//! Pieces of a reply on their way into records.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::event::{Channel, Event};

/// Pieces of a reply are put together for this long, so that a fast model does not write a record a token.
const DELTA_BATCH: Duration = Duration::from_millis(30);

/// A word longer than this is no key, and is passed on in parts.
const MAX_WORD: usize = 512;

/// Pieces of one channel that were not recorded yet.
#[derive(Default)]
pub(super) struct Batch {
    pending: Option<(Channel, String)>,
    pub(super) due: Option<Instant>,
}

impl Batch {
    /// Adds a piece; gives back what must be recorded before it.
    pub(super) fn push(&mut self, channel: Channel, text: &str) -> Option<Event> {
        if let Some((same, pending)) = &mut self.pending
            && *same == channel
        {
            pending.push_str(text);
            self.due.get_or_insert_with(|| Instant::now() + DELTA_BATCH);
            return None;
        }
        let before = self.take();
        self.pending = Some((channel, text.to_string()));
        self.due = Some(Instant::now() + DELTA_BATCH);
        before
    }

    /// Whole words of what was put together; the last one may not be whole yet and waits for its next piece. A key that
    /// is cut in two would not be recognised on its way into the log.
    pub(super) fn take_words(&mut self) -> Option<Event> {
        self.due = None;
        let (channel, text) = self.pending.as_mut()?;
        let end = text.char_indices().rfind(|(_, c)| c.is_whitespace()).map_or(0, |(at, c)| at + c.len_utf8());
        let rest = match end {
            0 if text.len() < MAX_WORD => return None,
            0 => String::new(),
            end => text.split_off(end),
        };
        let event = Event::ModelDelta { channel: *channel, text: std::mem::replace(text, rest) };
        self.pending.take_if(|(_, text)| text.is_empty());
        Some(event)
    }

    /// All that was put together.
    pub(super) fn take(&mut self) -> Option<Event> {
        self.due = None;
        self.pending.take().map(|(channel, text)| Event::ModelDelta { channel, text })
    }
}
