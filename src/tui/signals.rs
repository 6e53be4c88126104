//! The signals the screen answers to.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// End in an orderly way; the number of the signal.
    End(i32),
    /// Stop, as after Ctrl-Z.
    Stop,
    /// Go on after a stop that could not be prepared for.
    Continue,
    /// The window has another size.
    Resize,
}

/// Listens to them.
pub struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
    stop: Signal,
    cont: Signal,
    window: Signal,
}

impl Signals {
    /// Listens from now on. These signals do nothing by themselves any more for the rest of the program.
    pub fn new() -> io::Result<Self> {
        let stop = SignalKind::from_raw(nix::libc::SIGTSTP);
        let cont = SignalKind::from_raw(nix::libc::SIGCONT);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            stop: signal(stop)?,
            cont: signal(cont)?,
            window: signal(SignalKind::window_change())?,
        })
    }

    /// The next one. Dropping it loses nothing.
    pub async fn next(&mut self) -> Notice {
        tokio::select! {
            _ = self.terminate.recv() => Notice::End(nix::libc::SIGTERM),
            _ = self.hangup.recv() => Notice::End(nix::libc::SIGHUP),
            _ = self.interrupt.recv() => Notice::End(nix::libc::SIGINT),
            _ = self.quit.recv() => Notice::End(nix::libc::SIGQUIT),
            _ = self.stop.recv() => Notice::Stop,
            _ = self.cont.recv() => Notice::Continue,
            _ = self.window.recv() => Notice::Resize,
        }
    }
}
