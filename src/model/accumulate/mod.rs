//! Deltas of a stream, put together into one reply.
//!
//! Owns the meaning of what a server sends: the chunks of OpenAI-compatible servers, whole bodies, and the lines of
//! Ollama's native interface. Everything is decoded into plain JSON values and picked apart field by field, because real
//! servers leave out, rename and retype all of them. Three rules hold: an error anywhere is looked for before an answer; a
//! stream without its end is a failure and never an answer; and a piece that cannot be read makes the whole reply one,
//! because code with a hole is code the model did not write. Only what is known to carry nothing is passed over.

use serde_json::Value;

use self::calls::Calls;
use self::decode::decode;
use self::repeat::Repeats;
use self::screen::Screen;
use self::think::{Sorted, Think};
use super::Draft;
use super::sse::{SseItem, SseReader};
use crate::core::event::{Channel, Failure, Mode, ModelFailure, ModelFailureKind, Usage};

pub use self::assemble::nine_char_id;

mod assemble;
mod calls;
mod decode;
mod fields;
mod payload;
mod peek;
mod repeat;
mod screen;
mod think;

/// Largest reply kept, bytes: several times the longest a model may write within any bound on tokens we set.
const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// White space behind a complete call after which no second call is expected, bytes.
const MAX_BLANK_AFTER_CALL: usize = 8;

/// How often the words are looked through for complete calls; each time costs their length.
const MAX_BLANK_CHECKS: u32 = 16;

/// Why a reply with a hole is none.
const UNREADABLE: &str = "the server sent a piece that cannot be read";

/// Marks of chat templates that leak into the end of a reply.
const END_MARKS: [&str; 7] =
    ["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<end_of_turn>", "</s>"];

/// Puts one reply together.
#[derive(Debug)]
pub struct ReplyBuilder {
    mode: Mode,
    code_allowed: bool,
    next_id: u64,
    words: String,
    reasoning: String,
    calls: Calls,
    think: Think,
    screen: Screen,
    content_repeats: Repeats,
    reasoning_repeats: Repeats,
    /// The words were already looked at in this run of white space.
    blank_checked: bool,
    blank_checks: u32,
    usage: Option<Usage>,
    timed_usage: Option<Usage>,
    speed: Option<f64>,
    finish: String,
    stop: Stop,
    /// What could not be read, as far as it is not known to carry nothing: perhaps a body over several lines. It is a
    /// failure once more of the reply comes behind it.
    stray: String,
    /// A message was seen, so that this is a chat reply at all.
    answered: bool,
    failure: Option<ModelFailure>,
}

/// Why no more is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// More is read.
    No,
    /// The server said that the reply is over; numbers may follow.
    Ended,
    /// The server said that nothing follows.
    Done,
    /// We have all we need.
    Enough,
    /// It only repeats itself.
    Repeats,
}

impl ReplyBuilder {
    /// A builder for one reply. `first_id` numbers its calls, see [`nine_char_id`]: the next reply of the session starts
    /// behind the candidates of this one.
    pub fn new(mode: Mode, code_allowed: bool, first_id: u64) -> Self {
        Self {
            mode,
            code_allowed,
            next_id: first_id,
            words: String::new(),
            reasoning: String::new(),
            calls: Calls::default(),
            think: Think::default(),
            screen: Screen::default(),
            content_repeats: Repeats::default(),
            reasoning_repeats: Repeats::default(),
            blank_checked: false,
            blank_checks: 0,
            usage: None,
            timed_usage: None,
            speed: None,
            finish: String::new(),
            stop: Stop::No,
            stray: String::new(),
            answered: false,
            failure: None,
        }
    }

    /// Takes the next item of the stream; returns the pieces of text it brings, for the screen. After
    /// [`complete`](Self::complete) it takes nothing.
    pub fn push(&mut self, item: &SseItem) -> Vec<(Channel, String)> {
        let mut out = Vec::new();
        if self.complete() {
            return out;
        }
        match item {
            SseItem::Comment => {}
            SseItem::TooLong => self.fail("the server sent a piece larger than any reply"),
            SseItem::Event { event, data } => self.event(event, data, &mut out),
            SseItem::Bare(line) => self.bare(line, &mut out),
        }
        out
    }

    /// Takes a whole body that was not streamed, or that turns out to be a stream after all.
    pub fn body(&mut self, text: &str) -> Vec<(Channel, String)> {
        let mut out = Vec::new();
        let trimmed = text.trim_start_matches('\u{feff}').trim();
        match decode(trimmed) {
            Some(value @ (Value::Object(_) | Value::Array(_))) => {
                self.value("", &value, &mut out);
                self.end();
            }
            _ => {
                let mut reader = SseReader::new();
                let mut items = reader.feed(text.as_bytes());
                items.extend(reader.finish());
                out.extend(items.iter().flat_map(|item| self.push(item)));
            }
        }
        out
    }

    /// Whether to stop reading now: the rest is of no use.
    pub fn complete(&self) -> bool {
        self.failure.is_some() || matches!(self.stop, Stop::Done | Stop::Enough | Stop::Repeats)
    }

    /// Whether the server said that the reply is over. Only numbers may still come, so a silence now is no failure.
    pub fn ended(&self) -> bool {
        self.stop != Stop::No
    }

    /// Takes the end of the stream.
    pub fn finish(mut self) -> Result<Draft, ModelFailure> {
        self.take_stray();
        for sorted in self.think.finish() {
            self.sorted(sorted, &mut Vec::new());
        }
        if let Some((rest, length)) = think::without_opener(&self.words) {
            self.reasoning.push_str(&self.words[..length]);
            self.words = rest.to_owned();
        }
        while let Some(rest) = END_MARKS.iter().find_map(|mark| self.words.trim_end().strip_suffix(mark)) {
            self.words.truncate(rest.len());
        }
        if let Some(mut failure) = self.failure {
            failure.partial = self.words;
            return Err(failure);
        }
        let nothing = !self.answered && self.stop != Stop::Done;
        if self.stop == Stop::No || nothing {
            let why = if self.answered { "the stream ended without its end" } else { "the server sent no reply" };
            let mut failure = broke_off(why);
            failure.partial = self.words;
            return Err(failure);
        }
        Ok(self.assemble())
    }

    /// Takes a delta or a message; in a `whole` one each call is whole.
    fn message(&mut self, message: &Value, whole: bool, out: &mut Vec<(Channel, String)>) {
        self.answered = true;
        let (mut text, mut reasoning) = match message {
            Value::String(text) => (text.clone(), String::new()),
            other => fields::content(other.get("content")),
        };
        if text.is_empty() {
            text.push_str(fields::word(message.get("refusal")).unwrap_or_default());
        }
        reasoning.push_str(&fields::reasoning(message));
        let call_bytes = self.calls.bytes();
        let adds = !text.is_empty() || !reasoning.is_empty();
        self.reasoning_piece(reasoning, out);
        self.content_piece(&text, out);
        let code = self.calls.take(message, whole);
        if !code.is_empty() && self.code_allowed {
            out.push((Channel::Code, code));
        }
        // The end was not the end, so what could not be read behind it was part of the reply.
        if !self.stray.is_empty() && (adds || self.calls.bytes() > call_bytes) {
            self.fail(UNREADABLE);
        }
        if self.calls.too_many {
            self.fail("the reply has more calls than can be meant");
        }
        if self.words.len() + self.reasoning.len() + self.calls.bytes() > MAX_REPLY_BYTES {
            self.fail("the reply is larger than any bound on its tokens allows");
        }
        self.check_blank();
    }

    fn content_piece(&mut self, text: &str, out: &mut Vec<(Channel, String)>) {
        for sorted in self.think.feed(text) {
            if self.stop != Stop::Enough {
                self.sorted(sorted, out);
            }
        }
        let tail = self.content_repeats.feed(text);
        if let Some(tail) = tail.filter(|_| !self.complete()) {
            self.stop = Stop::Repeats;
            let mut keep = self.words.len().saturating_sub(tail);
            while !self.words.is_char_boundary(keep) {
                keep -= 1;
            }
            self.words.truncate(keep);
        }
        if !text.trim().is_empty() {
            self.blank_checked = false;
        }
    }

    fn sorted(&mut self, sorted: Sorted, out: &mut Vec<(Channel, String)>) {
        match sorted {
            Sorted::Reasoning(text) => self.reasoning_piece(text, out),
            Sorted::Words(text) if !self.code_allowed => {
                self.words.push_str(&text);
                out.push((Channel::Text, text));
            }
            Sorted::Words(text) => {
                let stop = self.mode == Mode::Text;
                let (pieces, taken) = self.screen.feed(&text, stop);
                out.extend(pieces);
                self.words.push_str(&text[..taken]);
                if stop && self.screen.block_closed {
                    self.stop = Stop::Enough;
                }
            }
        }
    }

    fn reasoning_piece(&mut self, text: String, out: &mut Vec<(Channel, String)>) {
        if text.is_empty() {
            return;
        }
        if self.reasoning_repeats.feed(&text).is_some() {
            self.stop = Stop::Repeats;
        }
        self.reasoning.push_str(&text);
        out.push((Channel::Reasoning, text));
    }

    /// Stops where a call is complete and only white space follows: a model can go on like that for minutes.
    fn check_blank(&mut self) {
        if !self.code_allowed || self.complete() {
            return;
        }
        let behind_arguments = self.calls.trailing_blank() > MAX_BLANK_AFTER_CALL;
        if behind_arguments && self.calls.all_closed() {
            self.stop = Stop::Enough;
            return;
        }
        let behind_words = self.content_repeats.blank() > MAX_BLANK_AFTER_CALL;
        let may_end_call = !self.calls.is_empty() || self.words.trim_end().ends_with(['`', '~', '}', ']', '>']);
        if !behind_words || self.blank_checked || self.screen.in_python() || !may_end_call {
            return;
        }
        self.blank_checked = true;
        self.blank_checks += 1;
        if self.blank_checks <= MAX_BLANK_CHECKS && self.ends_with_call() {
            self.stop = Stop::Enough;
        }
    }

    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.reasoning.is_empty() && self.calls.is_empty()
    }

    /// The server said so.
    fn end(&mut self) {
        if self.stop == Stop::No {
            self.stop = Stop::Ended;
        }
    }

    fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| broke_off(why));
    }
}

fn broke_off(why: &str) -> ModelFailure {
    ModelFailure {
        kind: ModelFailureKind::BrokeOff,
        failure: Failure::new(
            "the model's reply broke off",
            why,
            "ask again; if it stays, look into the log of the model server",
        ),
        partial: String::new(),
    }
}
