//! Ollama's native `/api/chat`: the request, and what its other routes tell about a model.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::history;
use super::profile::Learned;
use crate::core::event::Mode;
use crate::core::transcript::Prompt;

/// How long the server keeps the model after the last request: reading an answer and thinking about it takes minutes, and
/// loading it again as long.
const KEEP_ALIVE: &str = "30m";

/// Window that is asked for where the model allows more: it holds a conversation and still fits a small machine.
const USUAL_WINDOW: u32 = 8192;

/// Windows in tokens that servers may tell. A prompt needs more than the least; no model has come near the most.
const BELIEVABLE_WINDOWS: RangeInclusive<u32> = 256..=10_000_000;

/// The body of a request. The window is the same in each, because the server loads the model anew when it changes;
/// `tool_choice` is not known there.
pub(super) fn body(
    (model, temperature, window): (&str, f64, u32),
    messages: Vec<Value>,
    prompt: &Prompt,
    learned: &Learned,
) -> Value {
    let mut options = json!({"num_ctx": window, "num_predict": prompt.max_tokens});
    if !learned.no_temperature {
        options["temperature"] = json!(temperature);
    }
    let mut body =
        json!({"model": model, "messages": messages, "stream": true, "keep_alive": KEEP_ALIVE, "options": options});
    if !learned.no_think {
        body["think"] = json!(false);
    }
    if prompt.mode == Mode::Tools && prompt.code_allowed {
        body["tools"] = json!([history::tool(&prompt.tool)]);
    }
    body
}

/// What `/api/show` and `/api/ps` tell about a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// The model can call tools, as far as is known.
    pub(super) tools: bool,
    /// Its chat template.
    pub(super) template: String,
    /// The window to ask for.
    pub(super) window: u32,
    /// It is in memory.
    pub(super) loaded: bool,
}

/// Reads them. The window is the larger of the loaded one and what the model allows of the usual one, so that a loaded
/// model is not loaded again; a window the model was made with counts like a loaded one.
pub(super) fn facts(model: &str, show: &Value, ps: &Value) -> Facts {
    let own = show["model_info"].as_object().into_iter().flatten().find(|(name, _)| name.ends_with(".context_length"));
    let own = own.and_then(|(_, value)| tokens(value));
    let made_with = show["parameters"].as_str().unwrap_or_default().lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("num_ctx"))
            .then(|| words.next()?.parse().ok().filter(|n| BELIEVABLE_WINDOWS.contains(n)))?
    });
    let running = ps["models"].as_array().into_iter().flatten().find(|m| is_model(&m["model"], model));
    let loaded_with = running.and_then(|m| tokens(&m["context_length"]));
    let usual = own.map_or(USUAL_WINDOW, |own| own.min(USUAL_WINDOW));
    let window =
        [loaded_with, made_with.map(|n| own.map_or(n, |own| own.min(n)))].into_iter().flatten().fold(usual, u32::max);
    let capabilities = show["capabilities"].as_array();
    Facts {
        tools: capabilities.is_none_or(|all| all.iter().any(|c| c == "tools")),
        template: show["template"].as_str().unwrap_or_default().to_owned(),
        window,
        loaded: running.is_some(),
    }
}

/// Names without a tag mean `:latest`.
pub(super) fn is_model(listed: &Value, name: &str) -> bool {
    let listed = listed.as_str().unwrap_or_default();
    listed == name || listed.strip_suffix(":latest") == Some(name) || name.strip_suffix(":latest") == Some(listed)
}

/// A believable window.
pub(super) fn tokens(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| BELIEVABLE_WINDOWS.contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_request() {
        let prompt = Prompt {
            messages: Vec::new(),
            mode: Mode::Tools,
            code_allowed: true,
            tool: String::new(),
            warmer: false,
            max_tokens: 700,
        };
        let body = body(("m", 0.1, 8192), vec![json!({"role": "user", "content": "u"})], &prompt, &Learned::default());
        assert_eq!(body["options"], json!({"num_ctx": 8192, "num_predict": 700, "temperature": 0.1}));
        assert_eq!(
            (&body["keep_alive"], &body["think"], &body["stream"]),
            (&json!("30m"), &json!(false), &json!(true))
        );
        assert!(body["tools"].is_array());
        assert!(body.get("tool_choice").is_none() && body.get("max_tokens").is_none());
        let text = Prompt { mode: Mode::Text, ..prompt };
        let learned = Learned { no_think: true, no_temperature: true, ..Learned::default() };
        let body = super::body(("m", 0.1, 8192), Vec::new(), &text, &learned);
        assert!(
            body.get("tools").is_none() && body.get("think").is_none() && body["options"].get("temperature").is_none()
        );
    }

    #[test]
    fn the_window_is_the_larger_of_loaded_and_usual() {
        let show =
            |own: u32, parameters: &str| json!({"model_info": {"llama.context_length": own}, "parameters": parameters});
        let ps = |n: u32| json!({"models": [{"model": "other:latest", "context_length": 99999}, {"model": "m:latest", "context_length": n}]});
        let none = json!({"models": []});
        for (show, ps, window) in [
            (show(131_072, ""), none.clone(), 8192),
            (show(2048, ""), none.clone(), 2048),
            (show(131_072, ""), ps(4096), 8192),
            (show(131_072, ""), ps(32_768), 32_768),
            (show(131_072, "stop \"x\"\nnum_ctx    16384"), none.clone(), 16_384),
            (show(4096, "num_ctx 16384"), none.clone(), 4096),
            (Value::Null, Value::Null, 8192),
            (show(1, "num_ctx 1"), ps(1), 8192),
            (show(u32::MAX, "num_ctx 4294967295"), ps(u32::MAX), 8192),
            (json!({"model_info": {"llama.context_length": -1}, "parameters": "num_ctx x"}), none, 8192),
        ] {
            assert_eq!(facts("m", &show, &ps).window, window, "{show} {ps}");
        }
        assert!(facts("m", &Value::Null, &ps(4096)).loaded);
        assert!(!facts("n", &Value::Null, &ps(4096)).loaded);
    }

    #[test]
    fn tools_unless_the_server_says_otherwise() {
        assert!(facts("m", &json!({"capabilities": ["completion", "tools"]}), &Value::Null).tools);
        assert!(!facts("m", &json!({"capabilities": ["completion"]}), &Value::Null).tools);
        assert!(facts("m", &json!({}), &Value::Null).tools);
    }
}
