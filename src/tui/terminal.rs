//! The terminal of the person. Owns taking it, drawing on it and giving it back; what is read from it is in
//! [`super::input`], and what every end of the program undoes in [`super::guard`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::pending;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;
use std::time::Duration;

use crossterm::clipboard::CopyToClipboard;
use crossterm::event::Event;
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use tokio::time::Instant;

use super::external::{self, External};
use super::guard;
use super::input::Input;
use super::run::{Incoming, Screen, View};
use super::signals::{Notice, Signals};
use crate::core::clean::Clean;
use crate::core::event::Failure;

/// Longest text put into the clipboard, bytes: terminals drop an OSC 52 sequence over 100,000 bytes, and base64 makes four
/// bytes of three.
pub const MAX_COPY_BYTES: usize = 74_000;

/// Longest notice, characters; a desktop shows one line.
const MAX_NOTICE: usize = 120;

/// How long a stop may take to reach a thread other than the one that asked for it.
const SETTLE: Duration = Duration::from_millis(10);

/// A signal to go on within this time after a stop of our own was the one that ended it.
const WOKEN: Duration = Duration::from_millis(200);

/// Memory kept for the bytes of a frame, bytes; a screen full of changes needs a tenth, a figure may need more.
const KEPT_FRAME: usize = 1024 * 1024;

/// Collects the bytes of a frame, so that it goes out in one write: the backend flushes in the middle.
#[derive(Clone, Default)]
struct Bytes(Rc<RefCell<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bytes {
    fn send(&self) -> io::Result<()> {
        let mut bytes = self.0.borrow_mut();
        let sent = guard::send(&bytes);
        bytes.clear();
        bytes.shrink_to(KEPT_FRAME);
        sent
    }
}

/// The terminal, taken. Dropping it gives everything back.
pub struct Tui {
    terminal: Terminal<CrosstermBackend<Bytes>>,
    bytes: Bytes,
    signals: Signals,
    /// Nothing while another program has the terminal.
    input: Option<Input>,
    /// Typed before another program got the terminal, and not taken yet.
    left: VecDeque<Event>,
    mouse: bool,
    /// The terminal knows string sequences; the console of Linux would print some of them.
    strings: bool,
    /// When the last stop of our own ended.
    woken: Option<Instant>,
    /// The window changed since the last frame. It may have the old size again, but not the old picture: a terminal forgets
    /// what does not fit.
    resized: bool,
}

impl Tui {
    /// Takes the terminal. Must be called inside the runtime, by the thread that will draw.
    pub fn enter(mouse: bool) -> Result<Self, Failure> {
        let term = std::env::var("TERM").ok();
        if let Some(failure) = refusal(io::stdin().is_terminal(), io::stdout().is_terminal(), term.as_deref()) {
            return Err(failure);
        }
        let failed = |e: io::Error| Failure::new("the terminal cannot be taken", e.to_string(), "");
        let signals = Signals::new().map_err(failed)?;
        let bytes = Bytes::default();
        let terminal = Terminal::new(CrosstermBackend::new(bytes.clone())).map_err(failed)?;
        let strings = term.as_deref() != Some("linux");
        let mut tui = Self {
            terminal,
            bytes,
            signals,
            input: None,
            left: VecDeque::new(),
            mouse,
            strings,
            woken: None,
            resized: false,
        };
        tui.claim().map_err(failed)?;
        Ok(tui)
    }
}

/// Why there can be no screen.
fn refusal(stdin: bool, stdout: bool, term: Option<&str>) -> Option<Failure> {
    let hint = "ask one question without a screen: sandscript exec PROMPT";
    let refuse = |why: &str| Some(Failure::new("the screen needs a terminal", why, hint));
    match (stdin, stdout, term) {
        (false, _, _) => refuse("standard input is none"),
        (_, false, _) => refuse("standard output is none"),
        (_, _, Some("dumb")) => refuse("TERM is \"dumb\""),
        (true, true, _) => None,
    }
}

impl Tui {
    /// Clears the screen, so that the next frame is a whole one. `Terminal::clear` would ask the terminal for its cursor.
    fn forget(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((ratatui::layout::Position::ORIGIN, size)))
    }
}

impl Screen for Tui {
    async fn next(&mut self) -> Incoming {
        let event = async {
            match &mut self.input {
                Some(_) if !self.left.is_empty() => self.left.pop_front(),
                Some(input) => input.next().await,
                None => pending().await,
            }
        };
        let incoming = tokio::select! {
            biased;
            () = guard::panicked() => Incoming::Panicked,
            notice = self.signals.next() => Incoming::Notice(notice),
            event = event => event.map_or(Incoming::Gone, Incoming::Event),
        };
        self.resized |= matches!(incoming, Incoming::Notice(Notice::Resize));
        incoming
    }

    fn ready(&mut self) -> Option<Incoming> {
        let input = self.input.as_mut()?;
        self.left.pop_front().or_else(|| input.ready()).map(Incoming::Event)
    }

    fn draw(&mut self, view: &mut impl View) -> io::Result<()> {
        if !guard::is_taken() {
            return Ok(());
        }
        queue!(self.bytes, BeginSynchronizedUpdate)?;
        if std::mem::take(&mut self.resized) {
            self.forget()?;
        }
        draw(&mut self.terminal, view)?;
        queue!(self.bytes, EndSynchronizedUpdate)?;
        self.bytes.send()
    }

    fn release(&mut self) -> io::Result<()> {
        if let Some(input) = self.input.take() {
            self.left.extend(input.stop());
        }
        guard::give_back()
    }

    fn claim(&mut self) -> io::Result<()> {
        // Another program may have changed the modes without our knowing; what is raw already would not be set again.
        guard::give_back()?;
        guard::take(self.mouse)?;
        self.forget()?;
        if self.input.is_none() {
            self.input = Some(Input::start()?);
        }
        Ok(())
    }

    fn stop(&mut self, all: bool) -> io::Result<()> {
        let taken = guard::is_taken();
        if taken {
            self.release()?;
        }
        // The whole process group, for a script around us to stop with us. Not SIGTSTP, which we listen to ourselves, and
        // not SIGSTOP: like SIGTSTP this one is ignored where no shell could wake us up again.
        let group = Pid::from_raw(0);
        kill(if all { group } else { Pid::this() }, Signal::SIGTTIN)?;
        std::thread::sleep(SETTLE);
        self.woken = Some(Instant::now());
        if taken { self.claim() } else { Ok(()) }
    }

    fn resume(&mut self) -> io::Result<()> {
        let known = self.woken.is_some_and(|at| at.elapsed() < WOKEN);
        if guard::is_taken() && !known { self.claim() } else { Ok(()) }
    }

    fn edit(&mut self, text: &str, suffix: &str) -> Result<External, Failure> {
        self.release().map_err(|e| Failure::new("the terminal cannot be given back", e.to_string(), ""))?;
        let value = |name: &str| std::env::var(name).ok();
        external::start(&external::command(value("VISUAL"), value("EDITOR")), text, suffix)
    }

    fn set_mouse(&mut self, on: bool) -> io::Result<()> {
        self.mouse = on;
        if guard::is_taken() { guard::send(if on { guard::MOUSE_ON } else { guard::MOUSE_OFF }) } else { Ok(()) }
    }

    fn copy(&mut self, text: &str) -> Result<(), Failure> {
        if text.len() > MAX_COPY_BYTES {
            let why = format!("{} bytes; terminals take {MAX_COPY_BYTES}", text.len());
            return Err(Failure::new("too long to be copied", why, "write it to a file with /export"));
        }
        if !self.strings {
            return Err(Failure::new("this terminal has no clipboard", "", "select the text with the mouse"));
        }
        // What is pasted into a shell must not act there.
        let plain: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        let written = queue!(self.bytes, CopyToClipboard::to_clipboard_from(plain)).and_then(|()| self.bytes.send());
        written.map_err(|e| Failure::new("cannot copy", e.to_string(), ""))
    }

    fn notify(&mut self, text: &str) -> io::Result<()> {
        if !guard::is_taken() {
            return Ok(());
        }
        guard::send(notice(text, self.strings).as_bytes())
    }
}

impl Drop for Tui {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = self.release();
        if let Some(message) = guard::late_message() {
            let _ = writeln!(io::stderr(), "{message}");
        }
    }
}

/// Lays out and draws one frame, both for the same size: if the window changes in between, the frame stays empty and
/// another one is drawn at once.
pub(super) fn draw<B: ratatui::backend::Backend>(
    terminal: &mut Terminal<B>,
    view: &mut impl View,
) -> Result<(), B::Error> {
    /// Frames tried while the window changes; the next signal of a change asks for another one anyway.
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        terminal.autoresize()?;
        let area = terminal.get_frame().area();
        if area.is_empty() {
            return Ok(());
        }
        view.layout(area);
        let mut same = true;
        terminal.draw(|frame| {
            same = frame.area() == area;
            if same {
                view.draw(frame);
            }
        })?;
        if same {
            break;
        }
    }
    Ok(())
}

/// The bell, and a notice for terminals that show them. A semicolon would begin another command of theirs.
fn notice(text: &str, strings: bool) -> String {
    let line: String =
        Clean::line(text).as_str().chars().map(|c| if c == ';' { ',' } else { c }).take(MAX_NOTICE).collect();
    if strings { format!("\x07\x1b]9;{line}\x07") } else { "\x07".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_screen_without_a_terminal_on_both_sides() {
        assert_eq!(refusal(true, true, Some("xterm-256color")), None);
        assert_eq!(refusal(true, true, None), None);
        for (stdin, stdout, term, word) in
            [(false, true, "xterm", "input"), (true, false, "xterm", "output"), (true, true, "dumb", "dumb")]
        {
            let failure = refusal(stdin, stdout, Some(term)).unwrap();
            assert!(failure.why.contains(word) && failure.hint.contains("exec"), "{failure:?}");
        }
    }

    #[test]
    fn a_notice_cannot_leave_its_sequence() {
        assert_eq!(notice("done", true), "\x07\x1b]9;done\x07");
        assert_eq!(notice("4;1;\x1b\\\x07\u{9c}x\ny", true), "\x07\x1b]9;4,1,x y\x07");
        assert_eq!(notice("done", false), "\x07");
        assert!(notice(&"x".repeat(1000), true).len() < 200);
    }
}
