//! What ends the waiting from outside: signals and the deadline.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use crate::error::{Error, Kind, Result};

/// Why the waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// `--deadline`.
    Deadline,
}

impl Stop {
    /// What the command ends with.
    pub fn error(self) -> Error {
        match self {
            Stop::Signal => Error::new(Kind::Interrupted, "interrupted", "", ""),
            Stop::Deadline => {
                Error::new(Kind::Deadline, "the deadline was reached", "", "give more time with --deadline")
            }
        }
    }
}

/// The signals that mean stop, and the deadline.
pub struct Stops {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    deadline: Option<Instant>,
}

impl Stops {
    /// Listens from now on; `seconds` is the deadline.
    pub fn new(seconds: Option<u64>) -> Result<Self> {
        let failed = |e: std::io::Error| Error::new(Kind::Internal, "cannot listen for signals", e.to_string(), "");
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
            deadline: seconds.and_then(|s| Instant::now().checked_add(Duration::from_secs(s))),
        })
    }

    /// The next reason to stop. The deadline comes once. Dropping it loses nothing.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Signal,
            _ = self.terminate.recv() => Stop::Signal,
            _ = self.hangup.recv() => Stop::Signal,
            () = until(self.deadline) => {
                self.deadline = None;
                Stop::Deadline
            }
        }
    }
}

/// Waits until then, for ever where there is no such moment.
pub async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
