//! Standard output from a thread of its own: a reader that does not read holds nothing else up, neither a stop nor a
//! deadline.

use std::collections::VecDeque;
use std::io::Write;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::error::{Error, Kind, Result};

/// Lines between us and the thread.
const CHANNEL: usize = 16;

/// Lines that may wait here before the producer should pause.
const ROOM: usize = 64;

/// Standard output. A reader that went away is no error of ours: what is left is dropped.
pub struct Printer {
    lines: Option<mpsc::Sender<Order>>,
    done: Option<oneshot::Receiver<std::io::Result<()>>>,
    waiting: VecDeque<Order>,
}

/// What the thread is to do.
enum Order {
    Print(String),
    /// Tell when all before it was printed.
    Tell(oneshot::Sender<Instant>),
}

impl Printer {
    /// Starts the thread.
    pub fn new() -> Self {
        let (lines, mut queue) = mpsc::channel::<Order>(CHANNEL);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut out = std::io::stdout();
            let mut result = Ok(());
            while let (Some(order), true) = (queue.blocking_recv(), result.is_ok()) {
                match order {
                    Order::Print(text) => result = out.write_all(text.as_bytes()).and_then(|()| out.flush()),
                    // Who asked may not want to know any more.
                    Order::Tell(printed) => drop(printed.send(Instant::now())),
                }
            }
            let _ = tell.send(result);
        });
        Self { lines: Some(lines), done: Some(done), waiting: VecDeque::new() }
    }

    /// Something to print, after what waits already.
    pub fn push(&mut self, text: String) {
        self.waiting.push_back(Order::Print(text));
    }

    /// Tells when everything pushed so far was printed; never, if nobody reads any more.
    pub fn mark(&mut self) -> oneshot::Receiver<Instant> {
        let (tell, printed) = oneshot::channel();
        self.waiting.push_back(Order::Tell(tell));
        printed
    }

    /// Whether nothing can be printed any more.
    pub fn is_gone(&self) -> bool {
        self.lines.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Whether the producer may go on.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < ROOM
    }

    /// Whether [`pass_on`](Self::pass_on) has something to do.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands one text to the thread as soon as it takes it. Dropping it loses nothing.
    pub async fn pass_on(&mut self) {
        let Some(lines) = &self.lines else { return self.waiting.clear() };
        match lines.reserve().await {
            Ok(permit) => {
                if let Some(order) = self.waiting.pop_front() {
                    permit.send(order);
                }
            }
            Err(_) => self.waiting.clear(),
        }
    }

    /// Waits until everything is printed.
    pub async fn finish(&mut self) -> std::io::Result<()> {
        while self.waits() {
            self.pass_on().await;
        }
        self.lines = None;
        let Some(done) = self.done.take() else { return Ok(()) };
        match done.await {
            Ok(Err(e)) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// Prints at once; false when nobody reads any more.
pub fn print_now(text: &str) -> Result<bool> {
    print_bytes_now(text.as_bytes())
}

/// Prints at once what is a file more than a text; false when nobody reads any more.
pub fn print_bytes_now(bytes: &[u8]) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(Error::new(Kind::Internal, "cannot write to standard output", e.to_string(), "free space there")),
    }
}

impl Default for Printer {
    fn default() -> Self {
        Self::new()
    }
}
