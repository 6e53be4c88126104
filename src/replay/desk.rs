//! Answers questions beside a replay, one at a time, so that no more than one blob is in memory on its way.

use std::collections::VecDeque;

use tokio::task::JoinHandle;

use crate::core::command::{Answer, Question, Update};
use crate::core::event::Failure;
use crate::log::blobs::{Blobs, MAX_TEXT_FILE};

/// Largest blob a question is answered with, bytes: kept output is the largest kind there is.
const MAX_BLOB: u64 = MAX_TEXT_FILE;

pub(super) struct Desk {
    blobs: Blobs,
    /// In the order they came. Each is small, and the screen keeps its own note of each.
    waiting: VecDeque<(u64, Question)>,
    work: Work,
}

enum Work {
    Idle,
    Looking(u64, JoinHandle<Answer>),
    Ready(Update),
}

impl Desk {
    pub(super) fn new(blobs: Blobs) -> Self {
        Self { blobs, waiting: VecDeque::new(), work: Work::Idle }
    }

    pub(super) fn ask(&mut self, id: u64, question: Question) {
        self.waiting.push_back((id, question));
        self.begin_next();
    }

    pub(super) fn has_reply(&self) -> bool {
        matches!(self.work, Work::Ready(_))
    }

    pub(super) fn take_reply(&mut self) -> Option<Update> {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Ready(update) => {
                self.begin_next();
                Some(update)
            }
            other => {
                self.work = other;
                None
            }
        }
    }

    /// Waits until an answer is found. Dropping it loses nothing.
    pub(super) async fn look(&mut self) {
        let Work::Looking(id, task) = &mut self.work else { return std::future::pending().await };
        let answer = task.await.unwrap_or_else(|e| {
            Answer::Failed(Failure::new("the question was not answered", e.to_string(), "please report it"))
        });
        self.work = Work::Ready(Update::Reply(*id, answer));
    }

    fn begin_next(&mut self) {
        if !matches!(self.work, Work::Idle) {
            return;
        }
        let Some((id, question)) = self.waiting.pop_front() else { return };
        self.work = match question {
            Question::Blob(name) => {
                let blobs = self.blobs.clone();
                Work::Looking(id, tokio::task::spawn_blocking(move || blob(&blobs, &name)))
            }
            Question::Models | Question::Compile(_) => failed(id, "a replay has no model and runs nothing"),
            Question::OpenFigure(_)
            | Question::Sessions
            | Question::Rename { .. }
            | Question::Delete(_)
            | Question::Export { .. }
            | Question::History
            | Question::Remember(_) => failed(id, "a replay only shows"),
        };
    }
}

fn failed(id: u64, why: &str) -> Work {
    let failure = Failure::new("this is not possible here", why, "leave the replay first");
    Work::Ready(Update::Reply(id, Answer::Failed(failure)))
}

fn blob(blobs: &Blobs, name: &str) -> Answer {
    blobs.get(name, MAX_BLOB).map_or_else(Answer::Failed, |bytes| Answer::Blob(bytes.into()))
}
