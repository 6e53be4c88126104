//! What the person types, clicks and pastes. Owns the thread that reads the terminal.
//!
//! crossterm's own event stream is not used: it reads in the task that polls it, so half an escape sequence or the end of
//! the terminal holds the whole screen up, and more than a kilobyte typed or pasted at once waits for the next key. Here
//! all reading is done by a thread of its own, which is woken by the terminal and by nothing else, and is ended before
//! another program is given the terminal.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self as blocking, RecvTimeoutError};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc;

/// Events read and not taken yet. A paste without brackets is one for each character; beyond this the terminal waits.
const WAITING: usize = 1024;

/// How long the thread's end is waited for. It only takes longer in the middle of an escape sequence, and then ends with
/// the next byte.
const END: Duration = Duration::from_millis(50);

/// The shortest time crossterm reads for: with none at all it looks at nothing.
const LOOK: Duration = Duration::from_millis(1);

/// Reads the terminal until it is stopped or dropped.
pub struct Input {
    events: mpsc::Receiver<Event>,
    /// Dropping it wakes the thread up.
    stop: UnixStream,
    /// Closed by the thread when it ends.
    ended: blocking::Receiver<()>,
}

impl Input {
    /// Begins to read.
    pub fn start() -> io::Result<Self> {
        let (sender, events) = mpsc::channel(WAITING);
        let (stop, stopped) = UnixStream::pair()?;
        let (alive, ended) = blocking::channel::<()>();
        std::thread::Builder::new().name("keys".into()).spawn(move || {
            read(&stopped, &sender);
            drop(alive);
        })?;
        Ok(Self { events, stop, ended })
    }

    /// The next event; nothing when the terminal is gone. Dropping it loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// An event that is there already.
    pub fn ready(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Stops reading. What was read and not taken is handed over: somebody typed it.
    pub fn stop(mut self) -> VecDeque<Event> {
        drop(self.stop);
        let mut left = VecDeque::new();
        let until = Instant::now() + END;
        let mut running = true;
        while running && Instant::now() < until {
            // The thread may wait for room.
            running = self.ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout);
            left.extend(std::iter::from_fn(|| self.events.try_recv().ok()));
        }
        left
    }
}

/// Reads until it is stopped or the terminal is gone.
fn read(stop: &UnixStream, events: &mpsc::Sender<Event>) {
    let stdin = io::stdin();
    loop {
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let [keys, stopped] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::POLLERR));
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        if !stopped.is_empty() || keys.intersects(gone) {
            return;
        }
        loop {
            match event::poll(LOOK) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => return,
            }
            match event::read().map(|event| events.blocking_send(event)) {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
}
