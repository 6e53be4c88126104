//! How much of the conversation fits into the window of the model, and which part is sent.

use super::event::Usage;
use super::render::{BYTES_PER_TOKEN, HeadTail};
use super::transcript::Message;

/// What is left of the budget after old rounds were dropped: one big step, so that prefix caches hold.
const TRIM_TO: f64 = 0.6;

/// Least a shortened result keeps, bytes: its exit code and the last line of an error.
const MIN_RESULT: usize = 300;

/// Bytes the frame of a message takes.
const FRAME: usize = 24;

/// Which part of the conversation is sent.
#[derive(Debug)]
pub struct Fit {
    /// Messages before this one are no longer sent.
    first: usize,
    bytes_per_token: f64,
    /// Bytes of the last request, to be compared with the server's count.
    last_bytes: usize,
    /// The server said it is too long although our count says it fits.
    shrink: bool,
}

impl Default for Fit {
    fn default() -> Self {
        Self { first: 0, bytes_per_token: BYTES_PER_TOKEN, last_bytes: 0, shrink: false }
    }
}

impl Fit {
    /// Learns from the server's count. Only ever towards fewer bytes a token than assumed: the count of a server that
    /// cut the request silently is too low, and must not make us send more.
    pub fn calibrate(&mut self, usage: Usage) {
        if usage.prompt > 100 && self.last_bytes > 0 {
            let measured = self.last_bytes as f64 / usage.prompt as f64;
            self.bytes_per_token = measured.clamp(1.5, BYTES_PER_TOKEN);
        }
    }

    /// Messages from `index` on were removed; what is sent begins there at the latest.
    pub fn rewind(&mut self, index: usize) {
        self.first = self.first.min(index);
    }

    /// The next request is trimmed whatever our own count says.
    pub fn shrink(&mut self) {
        self.shrink = true;
    }

    /// The messages to send within `budget` tokens, and how many were left out newly. The question of the turn stays;
    /// where whole rounds are not enough, the results of the rest are shortened.
    pub fn messages(
        &mut self,
        system: String,
        transcript: &[Message],
        question: usize,
        budget: u32,
    ) -> (Vec<Message>, usize) {
        let budget = (f64::from(budget) * self.bytes_per_token) as usize;
        let budget = if self.shrink { budget / 2 } else { budget };
        let before = self.first;
        // An earlier turn was cut behind its question: without that question the rest of it is in the air.
        while self.first < question && !matches!(transcript.get(self.first), Some(Message::User(_))) {
            self.first += 1;
        }
        let mut messages = self.from(self.first, &system, transcript, question);
        if self.shrink || bytes(&messages) > budget {
            let goal = (budget as f64 * TRIM_TO) as usize;
            while bytes(&messages) > goal {
                let Some(next) = next_round(transcript, self.first, question) else { break };
                self.first = next;
                messages = self.from(next, &system, transcript, question);
            }
            if bytes(&messages) > budget {
                shorten_results(&mut messages, goal);
            }
        }
        self.shrink = false;
        self.last_bytes = bytes(&messages);
        (messages, self.first - before)
    }

    fn from(&self, first: usize, system: &str, transcript: &[Message], question: usize) -> Vec<Message> {
        let mut messages = vec![Message::System(system.to_string())];
        if question < first {
            messages.extend(transcript.get(question).cloned());
        }
        messages.extend(transcript[first.min(transcript.len())..].iter().cloned());
        messages
    }
}

/// Where the round after the one at `first` begins; `None` if it is the last one, which is never dropped. Before the
/// question of the turn a round begins with what a person said, behind it with what the model said: a request must not
/// begin in the middle of an exchange.
fn next_round(transcript: &[Message], first: usize, question: usize) -> Option<usize> {
    let begins = |at: usize| match transcript[at] {
        Message::User(_) => at <= question,
        Message::Assistant { .. } => at > question,
        Message::System(_) | Message::ToolResult { .. } => false,
    };
    (first + 1..transcript.len()).find(|at| begins(*at))
}

/// Cuts the middle out of long results until all messages together have about `goal` bytes.
fn shorten_results(messages: &mut [Message], goal: usize) {
    let results = messages.iter().filter(|m| matches!(m, Message::ToolResult { .. })).count();
    let others: usize = messages.iter().filter(|m| !matches!(m, Message::ToolResult { .. })).map(size).sum();
    let Some(each) = goal.saturating_sub(others).checked_div(results) else { return };
    for message in messages {
        if let Message::ToolResult { text, .. } = message {
            let mut short = HeadTail::new(each.max(MIN_RESULT));
            short.push(text, 0);
            *text = short.text().0;
        }
    }
}

fn bytes(messages: &[Message]) -> usize {
    messages.iter().map(size).sum()
}

/// Bytes a message will take, with its frame.
fn size(message: &Message) -> usize {
    FRAME
        + match message {
            Message::System(text) | Message::User(text) | Message::ToolResult { text, .. } => text.len(),
            Message::Assistant { text, calls } => {
                text.len() + calls.iter().map(|c| c.code.len() + FRAME).sum::<usize>()
            }
        }
}
