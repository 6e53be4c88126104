//! Outcomes as the pinned text of a tool message.
