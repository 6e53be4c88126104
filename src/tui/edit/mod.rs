//! Editing text: what the code pane and the prompt share.
//!
//! The text is ours and not a widget's. The ready-made text area was tried: it counts characters where a person sees one
//! letter (`é` of two characters, a flag, a family), so that Backspace halves a letter, and it lays out the whole text on
//! every key, which 20,000 lines do not bear. Here a cursor stands on grapheme boundaries only, a key costs what its line
//! costs, and a frame what is visible.
//!
//! - [`text`]: the lines, and the one way to change them;
//! - [`history`]: undo and redo;
//! - [`buffer`]: cursor, selection and everything a key can do to them;
//! - [`keys`]: which key does what;
//! - [`cells`]: what a line looks like, column by column;
//! - [`paint`]: colours that came late and follow the text;
//! - [`editor`]: the editor of the code pane.

pub mod buffer;
pub mod cells;
pub mod editor;
pub mod history;
pub mod keys;
pub mod paint;
#[cfg(test)]
pub mod testing;
pub mod text;
