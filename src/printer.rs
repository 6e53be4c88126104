//! Standard output from a thread of its own: a reader that does not read holds nothing else up, neither a stop nor a
//! deadline.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// Lines between us and the thread.
const CHANNEL: usize = 16;

/// Lines that may wait here before the producer should pause.
const ROOM: usize = 64;

/// Standard output. A reader that went away is no error of ours: what is left is dropped.
pub struct Printer {
    lines: Option<mpsc::Sender<String>>,
    done: Option<oneshot::Receiver<()>>,
    waiting: VecDeque<String>,
}

impl Printer {
    /// Starts the thread.
    pub fn new() -> Self {
        let (lines, mut queue) = mpsc::channel::<String>(CHANNEL);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut out = std::io::stdout();
            while let Some(line) = queue.blocking_recv() {
                if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                    break;
                }
            }
            let _ = tell.send(());
        });
        Self { lines: Some(lines), done: Some(done), waiting: VecDeque::new() }
    }

    /// Something to print, after what waits already.
    pub fn push(&mut self, text: String) {
        self.waiting.push_back(text);
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
                if let Some(text) = self.waiting.pop_front() {
                    permit.send(text);
                }
            }
            Err(_) => self.waiting.clear(),
        }
    }

    /// Waits until everything is printed, for `limit` at most.
    pub async fn finish(&mut self, limit: Option<Duration>) {
        let all = async {
            while self.waits() {
                self.pass_on().await;
            }
            self.lines = None;
            if let Some(done) = self.done.take() {
                let _ = done.await;
            }
        };
        match limit {
            Some(limit) => drop(tokio::time::timeout(limit, all).await),
            None => all.await,
        }
    }
}

impl Default for Printer {
    fn default() -> Self {
        Self::new()
    }
}
