//! The screen as a person sees it: recorded sessions folded to a moment and drawn, and keys pressed in a time that stands
//! still between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr, missing_docs)]

mod bench;
mod drawn;
mod driven;
mod guard;
mod keys;
mod mended;
mod recorded;
mod scenes;
mod tape;
