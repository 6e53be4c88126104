//! What the loop and the screen say to each other.

use std::sync::Arc;

use crossterm::event::{KeyEvent, MouseEvent};

use super::Exit;
use super::highlight::Painted;
use super::output::figure::FigureReady;
use crate::core::command::{Command, Update};
use crate::core::event::Failure;

/// Something happened.
#[derive(Debug)]
pub enum Msg {
    /// A key was pressed or repeats.
    Key(KeyEvent),
    /// Text was pasted as a block.
    Paste(String),
    /// The mouse.
    Mouse(MouseEvent),
    /// The window has another size, columns and rows.
    Resize(u16, u16),
    /// The terminal got or lost the focus.
    Focus(bool),
    /// The task behind the screen says something.
    Update(Update),
    /// The person's own editor ended.
    EditorClosed(Result<String, Failure>),
    /// The text could not be put into the clipboard.
    CopyFailed(Failure),
    /// Colours of the code with this number.
    Painted(u64, Arc<Painted>),
    /// A figure was made, or could not be.
    Figure(FigureReady),
    /// The moment asked for by the deadline has come.
    Tick,
}

/// Something to be done that the screen cannot do itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Order the task behind the screen.
    Send(Command),
    /// Leave the screen.
    Leave(Exit),
    /// Stop, as Ctrl-Z does.
    Suspend,
    /// Have a text edited by the person's own editor; [`Msg::EditorClosed`] answers.
    Edit {
        /// The text.
        text: String,
        /// End of the file's name, for the editor to know the language.
        suffix: &'static str,
    },
    /// Put this into the clipboard.
    Copy(String),
    /// Tell the person, who looks elsewhere.
    Notify(String),
    /// Take the mouse or leave it to the terminal.
    SetMouse(bool),
}
