//! The signals the conversation answers to. Ctrl-Z is left to the system: there is no screen to give back.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
pub enum Notice {
    /// Ctrl-C.
    Interrupt,
    /// End in an orderly way; the number of the signal.
    End(i32),
}

/// Listens to them.
pub struct Signals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one. Dropping it loses nothing.
    pub async fn next(&mut self) -> Notice {
        tokio::select! {
            _ = self.interrupt.recv() => Notice::Interrupt,
            _ = self.quit.recv() => Notice::End(nix::libc::SIGQUIT),
            _ = self.terminate.recv() => Notice::End(nix::libc::SIGTERM),
            _ = self.hangup.recv() => Notice::End(nix::libc::SIGHUP),
        }
    }
}
