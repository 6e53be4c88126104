//! OpenAI-compatible `/v1/chat/completions`: the request.

use serde_json::{Value, json};

use super::history;
use super::profile::Learned;
use crate::core::event::Mode;
use crate::core::transcript::Prompt;

/// The body of a request. Nothing is in it that some server is known to reject, unless it was found to accept it:
/// no empty lists, no nulls, no `parallel_tool_calls`.
pub(super) fn body(model: &str, temperature: f64, messages: Vec<Value>, prompt: &Prompt, learned: &Learned) -> Value {
    let mut body = json!({"model": model, "messages": messages, "stream": true});
    let tokens = if learned.max_completion_tokens { "max_completion_tokens" } else { "max_tokens" };
    body[tokens] = json!(prompt.max_tokens);
    if !learned.no_temperature {
        body["temperature"] = json!(temperature);
    }
    if !learned.no_stream_options {
        body["stream_options"] = json!({"include_usage": true});
    }
    if prompt.mode == Mode::Tools && prompt.code_allowed {
        body["tools"] = json!([history::tool(&prompt.tool)]);
        if !learned.no_tool_choice {
            body["tool_choice"] = json!("auto");
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(mode: Mode, code_allowed: bool) -> Prompt {
        Prompt { messages: Vec::new(), mode, code_allowed, tool: String::new(), warmer: false, max_tokens: 700 }
    }

    fn fields(body: &Value) -> Vec<&str> {
        body.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_whole_request() {
        let body = body(
            "m",
            0.1,
            vec![json!({"role": "user", "content": "u"})],
            &prompt(Mode::Tools, true),
            &Learned::default(),
        );
        assert_eq!(
            fields(&body),
            ["max_tokens", "messages", "model", "stream", "stream_options", "temperature", "tool_choice", "tools"]
        );
        assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(700), &json!(0.1)));
        assert_eq!(body["tools"][0]["function"]["parameters"]["required"], json!(["code"]));
    }

    #[test]
    fn no_tools_in_text_mode_or_where_code_is_not_allowed() {
        for prompt in [prompt(Mode::Text, true), prompt(Mode::Tools, false)] {
            let body = body("m", 0.1, Vec::new(), &prompt, &Learned::default());
            assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
        }
    }

    #[test]
    fn what_was_learned_is_kept_to() {
        let learned = Learned {
            max_completion_tokens: true,
            no_temperature: true,
            no_stream_options: true,
            no_tool_choice: true,
            ..Learned::default()
        };
        let body = body("m", 0.1, Vec::new(), &prompt(Mode::Tools, true), &learned);
        assert_eq!(fields(&body), ["max_completion_tokens", "messages", "model", "stream", "tools"]);
    }
}
