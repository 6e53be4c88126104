//! Picking fields out of what servers send, whatever type they gave them.

use serde_json::Value;

use crate::core::event::Usage;

/// Values of `error` that are none.
const NO_ERROR: [&str; 3] = ["", "none", "null"];

/// A number, also where it is written as text or with a fraction.
pub fn number(value: Option<&Value>) -> Option<f64> {
    let number = match value? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    number.is_finite().then_some(number)
}

/// A count: a number that is not negative.
pub fn count(value: Option<&Value>) -> Option<u64> {
    number(value).filter(|n| *n >= 0.0).map(|n| n as u64)
}

/// Text that is there and not empty.
pub fn word(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

/// The pieces of `content`: what is text, and what is reasoning among its parts.
pub fn content(value: Option<&Value>) -> (String, String) {
    let mut text = String::new();
    let mut reasoning = String::new();
    match value {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(parts)) => {
            for part in parts {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
                if kind.contains("think") || kind.contains("reason") {
                    reasoning.push_str(&words(part));
                } else {
                    text.push_str(&words(part));
                }
            }
        }
        Some(part @ Value::Object(_)) => text.push_str(&words(part)),
        None | Some(Value::Null | Value::Bool(_) | Value::Number(_)) => {}
    }
    (text, reasoning)
}

/// All words in a part of a message.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(words).collect(),
        Value::Object(map) => {
            let keys = ["text", "thinking", "content", "reasoning", "summary"];
            keys.iter().find_map(|key| map.get(*key).map(words)).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The reasoning of a delta or message. Servers that name it twice say the same twice.
pub fn reasoning(message: &Value) -> String {
    let keys = ["reasoning_content", "reasoning", "thinking", "reasoning_details"];
    let mut found = keys.iter().filter_map(|key| message.get(*key)).map(words);
    found.find(|text| !text.is_empty()).unwrap_or_default()
}

/// The error in a payload, as the text to be classified.
pub fn error(event: &str, value: &Value) -> Option<String> {
    let is = |key: &str, word: &str| value.get(key).and_then(Value::as_str) == Some(word);
    let answers =
        value.get("choices").is_some_and(Value::is_array) || value.get("message").is_some_and(Value::is_object);
    let told = match value.get("error") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !NO_ERROR.contains(&text.trim().to_lowercase().as_str()),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Bool(true) | Value::Number(_) | Value::Array(_)) => true,
    };
    let named = event == "error" || is("object", "error") || is("type", "error");
    // FastAPI says `detail`, gateways say `message` beside a status; neither stands in an answer.
    let bare = !answers
        && (value.get("detail").is_some()
            || value.get("errors").is_some()
            || (value.get("message").is_some_and(Value::is_string)
                && ["code", "status", "status_code", "statusCode", "type"]
                    .iter()
                    .any(|key| value.get(*key).is_some())));
    (told || named || bare).then(|| value.to_string())
}

/// Tokens as the server counted them.
pub fn usage(value: &Value) -> Option<Usage> {
    let pair = |from: &Value, prompt: &str, completion: &str| {
        let (prompt, completion) = (count(from.get(prompt)), count(from.get(completion)));
        (prompt.is_some() || completion.is_some())
            .then(|| Usage { prompt: prompt.unwrap_or(0), completion: completion.unwrap_or(0) })
    };
    let told = [value.get("usage"), value.get("x_groq").and_then(|groq| groq.get("usage"))]
        .into_iter()
        .flatten()
        .find_map(|usage| {
            pair(usage, "prompt_tokens", "completion_tokens").or_else(|| pair(usage, "input_tokens", "output_tokens"))
        });
    told.or_else(|| pair(value, "prompt_eval_count", "eval_count"))
}

/// Tokens by the timings of llama.cpp, for servers that were not asked for usage.
pub fn timed_usage(value: &Value) -> Option<Usage> {
    let timings = value.get("timings")?;
    let prompt = count(timings.get("prompt_n"))?.saturating_add(count(timings.get("cache_n")).unwrap_or(0));
    Some(Usage { prompt, completion: count(timings.get("predicted_n"))? })
}

/// Tokens a second while writing.
pub fn speed(value: &Value) -> Option<f64> {
    let llama = || number(value.get("timings")?.get("predicted_per_second"));
    let ollama = || Some(number(value.get("eval_count"))? / number(value.get("eval_duration"))? * 1e9);
    llama().or_else(ollama).filter(|speed| speed.is_finite() && *speed > 0.0)
}
