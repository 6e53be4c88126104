//! Pieces of a reply on their way into records.

use std::time::Duration;

use tokio::time::Instant;

use crate::core::event::{Channel, Event};

/// Pieces of a reply are put together for this long, so that a fast model does not write a record a token.
const DELTA_BATCH: Duration = Duration::from_millis(30);

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
            return None;
        }
        let before = self.take();
        self.pending = Some((channel, text.to_string()));
        self.due = Some(Instant::now() + DELTA_BATCH);
        before
    }

    /// What was put together so far.
    pub(super) fn take(&mut self) -> Option<Event> {
        self.due = None;
        self.pending.take().map(|(channel, text)| Event::ModelDelta { channel, text })
    }
}
