//! Code in replies that are no clean calls.
