//! What one piece of a stream says: an error, a part of the reply, its end, nothing, or something that cannot be read.

use serde_json::Value;

use super::decode::{decode, is_sign_of_life};
use super::{MAX_REPLY_BYTES, ReplyBuilder, Stop, UNREADABLE, fields};
use crate::core::event::Channel;
use crate::model::errors;

/// The mark of servers behind which nothing follows.
const NOTHING_FOLLOWS: &str = "[DONE]";

impl ReplyBuilder {
    /// Takes what could not be read by itself, at the end: a body that was not streamed, a page of a proxy, or the rest of
    /// something broken.
    pub(super) fn take_stray(&mut self) {
        let stray = std::mem::take(&mut self.stray);
        let stray = stray.trim();
        if stray.is_empty() || self.complete() {
            return;
        }
        let value = decode(stray);
        if let Some(value) = value.as_ref().filter(|_| !self.answered) {
            self.value("", value, &mut Vec::new());
            self.end();
        } else if let Some(error) = value.and_then(|value| fields::error("", &value)) {
            self.failure = Some(errors::in_stream(&error));
        } else if !self.answered && !stray.starts_with('{') {
            self.failure = Some(errors::in_stream(stray));
        } else if self.stop == Stop::No {
            self.fail(UNREADABLE);
        }
    }

    /// Takes a line that is no field of an event.
    pub(super) fn bare(&mut self, line: &str, out: &mut Vec<(Channel, String)>) {
        let trimmed = line.trim();
        if trimmed.starts_with(NOTHING_FOLLOWS) || is_sign_of_life(trimmed) {
            return self.event("", trimmed, out);
        }
        // Lines of a body over several lines belong to it, even where one of them is a value.
        let in_body = !self.answered && self.stray.starts_with(['{', '[']);
        match decode(trimmed) {
            Some(value @ (Value::Object(_) | Value::Array(_))) if !in_body => self.value("", &value, out),
            Some(_) | None => self.keep_stray(trimmed),
        }
    }

    fn keep_stray(&mut self, text: &str) {
        if self.stray.len() + text.len() > MAX_REPLY_BYTES {
            return self.fail("the server sends no events");
        }
        self.stray.push_str(text);
        self.stray.push('\n');
    }

    pub(super) fn event(&mut self, event: &str, data: &str, out: &mut Vec<(Channel, String)>) {
        let trimmed = data.trim();
        if trimmed.starts_with(NOTHING_FOLLOWS) {
            self.take_stray();
            self.stop = Stop::Done;
            return;
        }
        match decode(trimmed) {
            Some(value) => self.value(event, &value, out),
            None if event == "error" => self.failure = Some(errors::in_stream(trimmed)),
            None if is_sign_of_life(trimmed) => {}
            // Some send the time with it.
            None if is_sign_of_life(event) && !event.is_empty() && !trimmed.contains(['{', '[', '"']) => {}
            None => self.unreadable(trimmed),
        }
    }

    /// A piece that cannot be read is a hole in the reply, unless the server said before that the reply is over.
    fn unreadable(&mut self, text: &str) {
        if self.stop == Stop::No { self.fail(UNREADABLE) } else { self.keep_stray(text) }
    }

    pub(super) fn value(&mut self, event: &str, value: &Value, out: &mut Vec<(Channel, String)>) {
        match value {
            Value::Object(_) => self.object(event, value, out),
            Value::Array(items) => {
                for item in items {
                    if !self.complete() {
                        self.value(event, item, out);
                    }
                }
            }
            Value::Null => {}
            Value::String(text) if is_sign_of_life(text) => {}
            Value::String(_) | Value::Number(_) | Value::Bool(_) => match event {
                "error" => self.failure = Some(errors::in_stream(&value.to_string())),
                _ if is_sign_of_life(event) && !event.is_empty() => {}
                _ => self.unreadable(&value.to_string()),
            },
        }
    }

    fn object(&mut self, event: &str, value: &Value, out: &mut Vec<(Channel, String)>) {
        if let Some(error) = fields::error(event, value) {
            self.failure = Some(errors::in_stream(&error));
            return;
        }
        if self.stop == Stop::No && !self.stray.is_empty() {
            return self.fail(UNREADABLE);
        }
        self.usage = fields::usage(value).or(self.usage);
        self.timed_usage = fields::timed_usage(value).or(self.timed_usage);
        self.speed = fields::speed(value).or(self.speed);
        if let Some(choices) = value.get("choices").and_then(Value::as_array) {
            // We ask for one choice; pieces of others must not be mixed in.
            for choice in choices.iter().filter(|choice| fields::count(choice.get("index")).unwrap_or(0) == 0) {
                self.choice(choice, out);
            }
        } else if let Some(message) = value.get("message").filter(|message| message.is_object()) {
            self.message(message, true, out);
        }
        if value.get("done").is_some_and(|done| done == true || done == "true") {
            self.answered = true;
            self.finish = fields::word(value.get("done_reason")).unwrap_or("stop").to_owned();
            if !self.complete() {
                self.stop = Stop::Done;
            }
        }
    }

    fn choice(&mut self, choice: &Value, out: &mut Vec<(Channel, String)>) {
        if let Some(error) = fields::error("", choice) {
            self.failure = Some(errors::in_stream(&error));
            return;
        }
        if let Some(delta) = choice.get("delta").filter(|delta| !delta.is_null()) {
            self.message(delta, false, out);
        }
        // Some servers close a stream with the whole message once more.
        if let Some(message) = choice.get("message").filter(|message| message.is_object())
            && self.is_empty()
        {
            self.message(message, true, out);
        }
        let Some(finish) = fields::word(choice.get("finish_reason")) else { return };
        if finish == "error" {
            self.failure = Some(errors::in_stream("the server ended the reply with the word `error`"));
            return;
        }
        self.finish = finish.to_owned();
        self.answered = true;
        self.end();
    }
}
