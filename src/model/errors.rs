//! What a server's refusal means, and what to do about it.

use serde_json::Value;

use crate::core::event::{Failure, ModelFailure, ModelFailureKind};

/// Longest piece of a server's message that is shown, characters: enough for a cause, too short for an HTML page.
const MESSAGE_CHARS: usize = 200;

/// The failure behind an error that came inside a stream, as JSON or as plain text.
pub fn in_stream(value_or_text: &str) -> ModelFailure {
    let message = message_of(value_or_text);
    let lower = format!("{} {}", message, value_or_text).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    let (kind, hint) = if has(&["exceed_context", "context size", "context length", "context window", "too long"]) {
        (ModelFailureKind::TooLong, "start a new session, or use a model with a larger window")
    } else if has(&["tool call", "tool_call", "grammar", "invalid tool"]) {
        (ModelFailureKind::BadCall, "ask again, or use text mode")
    } else {
        (ModelFailureKind::Other, "look into the log of the model server")
    };
    ModelFailure {
        kind,
        failure: Failure::new("the model server reported an error in its reply", message, hint),
        partial: String::new(),
    }
}

fn message_of(value_or_text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(value_or_text).ok();
    let found = parsed.as_ref().and_then(find_message).unwrap_or(value_or_text);
    let one_line = found.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.chars().take(MESSAGE_CHARS).collect()
}

fn find_message(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Array(items) => items.first().and_then(find_message),
        Value::Object(map) => ["message", "error", "detail", "msg", "errors", "metadata", "raw"]
            .iter()
            .filter_map(|key| map.get(*key))
            .find_map(find_message),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
