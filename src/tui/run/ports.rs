//! What the loop talks to: the view it shows and the terminal it shows it on. Tests have their own of both.

use std::future::Future;
use std::io;

use crossterm::event::Event;
use ratatui::Frame;
use ratatui::layout::Rect;
use tokio::time::Instant;

use crate::core::event::Failure;
use crate::tui::Exit;
use crate::tui::external::External;
use crate::tui::msg::{Action, Msg};
use crate::tui::signals::Notice;

/// What is shown, as the loop sees it.
pub trait View {
    /// Takes something in. What is to be done about it is pushed to `actions`.
    fn update(&mut self, msg: Msg, now: Instant, actions: &mut Vec<Action>);
    /// Computes whatever drawing needs.
    fn layout(&mut self, area: Rect);
    /// Draws; changes nothing.
    fn draw(&self, frame: &mut Frame);
    /// When [`Msg::Tick`] is wanted. Nothing costs nothing.
    fn deadline(&self) -> Option<Instant>;
    /// Whether something changed since the last call.
    fn take_dirty(&mut self) -> bool;
}

/// Something from the terminal or the system.
#[derive(Debug)]
pub enum Incoming {
    /// A key, a paste, the mouse, the focus.
    Event(Event),
    /// A signal.
    Notice(Notice),
    /// The terminal is gone.
    Gone,
    /// Another part of the program panicked on the thread that draws; the screen was given back.
    Panicked,
}

/// A terminal, as the loop sees it.
pub trait Screen {
    /// The next thing that comes. Dropping it loses nothing.
    fn next(&mut self) -> impl Future<Output = Incoming>;
    /// An event that is there already.
    fn ready(&mut self) -> Option<Incoming>;
    /// Draws one frame.
    fn draw(&mut self, view: &mut impl View) -> io::Result<()>;
    /// Gives the terminal to another program.
    fn release(&mut self) -> io::Result<()>;
    /// Takes it back; the next frame is a whole one.
    fn claim(&mut self) -> io::Result<()>;
    /// Stops this program, or `all` of its process group, and returns when it goes on.
    fn stop(&mut self, all: bool) -> io::Result<()>;
    /// The program goes on after a stop it was not asked about.
    fn resume(&mut self) -> io::Result<()>;
    /// Gives the terminal to the person's editor and starts it.
    fn edit(&mut self, text: &str, suffix: &str) -> Result<External, Failure>;
    /// Takes the mouse or leaves it.
    fn set_mouse(&mut self, on: bool) -> io::Result<()>;
    /// Puts text into the clipboard.
    fn copy(&mut self, text: &str) -> Result<(), Failure>;
    /// Rings, and shows a notice where the terminal can.
    fn notify(&mut self, text: &str) -> io::Result<()>;
}

/// How the loop ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// The person left.
    Left(Exit),
    /// A signal of that number, or the end of the terminal (SIGHUP). The exit code is 128 more.
    Signal(i32),
}
