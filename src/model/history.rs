//! The transcript as each kind of server accepts it.
//!
//! One internal form, three renderings: calls for OpenAI-compatible servers, calls for Ollama, and text mode without any.
//! Every rule servers are known to reject a conversation for is kept by [`render`] and looked over by [`check`] before
//! each request, so that a broken rule is our bug with a name and not a 400 of somebody else's template.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::salvage::TOOL;
use crate::core::event::{Call, Mode};
use crate::core::transcript::{Message, Prompt};

/// Length of a call id: Mistral's templates raise on any other.
const ID_CHARS: usize = 9;

/// How a server wants calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Ollama's own form: arguments as an object, results by tool name.
    pub ollama: bool,
    /// Content beside calls is `null`, not `""`.
    pub null_content: bool,
    /// A result is followed by a short assistant message and a user message. Mistral's templates show tools and system
    /// prompt only if the last message is a user's.
    pub user_after_result: bool,
}

/// A message after the conversation was put in order.
enum Turn<'a> {
    System(&'a str),
    User(String),
    Words(String),
    Calls(&'a [Call]),
    Result { call: &'a str, text: &'a str, failed: bool },
}

/// Stands for the result of a call that never got one, because the program was stopped in between.
const NO_RESULT: &str = "not run: interrupted";

/// The assistant's part between a result and our words; templates that alternate roles want one.
const FILLER: &str = "I have read the result.";
const AFTER_FAILURE: &str =
    "The code failed. Find the cause in the error above and call execute_python again with the whole corrected code.";
const AFTER_SUCCESS: &str =
    "The code ran. Answer my question from its output, or call execute_python again if something is still missing.";
const AFTER_SUCCESS_NO_TOOLS: &str = "Answer now, in words, from the output you have.";

/// The messages of a request.
pub fn render(prompt: &Prompt, rules: Rules) -> Vec<Value> {
    let turns = in_order(&prompt.messages);
    let turns = match prompt.mode {
        Mode::Text => as_text(turns),
        Mode::Tools if rules.user_after_result => with_follow_ups(turns, prompt.code_allowed),
        Mode::Tools => turns,
    };
    merge(turns).iter().flat_map(|turn| to_json(turn, rules)).collect()
}

/// One result for each call, in the order of the calls, directly after them; a missing one is made up.
fn in_order(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        match message {
            Message::System(text) if at == 0 => turns.push(Turn::System(text)),
            // Templates take one system message, at the start.
            Message::System(text) | Message::User(text) => turns.push(Turn::User(text.clone())),
            Message::Assistant { text, calls } if calls.is_empty() => turns.push(Turn::Words(text.clone())),
            Message::Assistant { text, calls } => {
                turns.push(Turn::Words(text.clone()));
                turns.push(Turn::Calls(calls));
                let after = messages.get(at + 1..).unwrap_or_default();
                turns.extend(calls.iter().map(|call| result_of(call, after)));
            }
            // Placed with its call.
            Message::ToolResult { .. } => {}
        }
    }
    turns
}

fn result_of<'a>(call: &'a Call, after: &'a [Message]) -> Turn<'a> {
    for message in after {
        match message {
            Message::ToolResult { call: id, text, failed } if *id == call.id => {
                return Turn::Result { call: id, text, failed: *failed };
            }
            Message::ToolResult { .. } => {}
            Message::System(_) | Message::User(_) | Message::Assistant { .. } => break,
        }
    }
    Turn::Result { call: &call.id, text: NO_RESULT, failed: true }
}

/// Calls become fenced blocks after the words, results become user messages.
fn as_text(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    let turn = |turn| match turn {
        Turn::Calls(calls) => {
            let blocks: Vec<String> = calls.iter().map(|call| fenced(&call.code)).collect();
            Turn::Words(blocks.join("\n\n"))
        }
        Turn::Result { text, .. } => Turn::User(text.to_owned()),
        Turn::System(_) | Turn::User(_) | Turn::Words(_) => turn,
    };
    turns.into_iter().map(turn).collect()
}

/// The code between fences longer than any run of backticks in it.
fn fenced(code: &str) -> String {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}python\n{}\n{fence}", code.trim_end_matches('\n'))
}

/// Adds the filler and our words after each group of results. The same in the middle as at the end, so that a later
/// request begins with the bytes of this one and the server's prefix cache holds.
fn with_follow_ups(turns: Vec<Turn<'_>>, code_allowed: bool) -> Vec<Turn<'_>> {
    let mut out = Vec::with_capacity(turns.len());
    let mut any_failed = false;
    let mut turns = turns.into_iter().peekable();
    while let Some(turn) = turns.next() {
        let after_result = match &turn {
            Turn::Result { failed, .. } => {
                any_failed |= failed;
                true
            }
            Turn::System(_) | Turn::User(_) | Turn::Words(_) | Turn::Calls(_) => false,
        };
        out.push(turn);
        let next = turns.peek();
        if !after_result || matches!(next, Some(Turn::Result { .. })) {
            continue;
        }
        out.push(Turn::Words(FILLER.to_owned()));
        let words = match (any_failed, code_allowed || next.is_some()) {
            (true, true) => AFTER_FAILURE,
            (false, true) => AFTER_SUCCESS,
            (true | false, false) => AFTER_SUCCESS_NO_TOOLS,
        };
        if !matches!(next, Some(Turn::User(_))) {
            out.push(Turn::User(words.to_owned()));
        }
        any_failed = false;
    }
    out
}

/// Joins neighbours of one role and drops empty words: some templates raise on either.
fn merge(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    let mut out: Vec<Turn<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        match (out.last_mut(), turn) {
            (_, Turn::Words(text)) if text.trim().is_empty() => {}
            (Some(Turn::User(before)), Turn::User(text)) | (Some(Turn::Words(before)), Turn::Words(text)) => {
                before.push_str("\n\n");
                before.push_str(&text);
            }
            // With calls some templates drop the words and others the calls: the calls are what counts.
            (Some(last @ Turn::Words(_)), calls @ Turn::Calls(_)) => *last = calls,
            (_, turn) => out.push(turn),
        }
    }
    out
}

fn to_json(turn: &Turn<'_>, rules: Rules) -> Option<Value> {
    Some(match turn {
        Turn::System(text) if text.trim().is_empty() => return None,
        Turn::System(text) => json!({"role": "system", "content": text}),
        Turn::User(text) => json!({"role": "user", "content": text}),
        Turn::Words(text) => json!({"role": "assistant", "content": text}),
        Turn::Calls(calls) => {
            let content = if rules.null_content { Value::Null } else { json!("") };
            let calls: Vec<Value> = calls.iter().map(|call| call_json(call, rules)).collect();
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Turn::Result { text, .. } if rules.ollama => json!({"role": "tool", "tool_name": TOOL, "content": text}),
        Turn::Result { call, text, .. } => json!({"role": "tool", "tool_call_id": call, "content": text}),
    })
}

/// The call written anew from what was understood: broken text of the model never goes back to a server.
fn call_json(call: &Call, rules: Rules) -> Value {
    let mut arguments = json!({"code": call.code});
    if let Some(seconds) = call.timeout_seconds {
        arguments["timeout_seconds"] = json!(seconds);
    }
    if rules.ollama {
        return json!({"function": {"name": TOOL, "arguments": arguments}});
    }
    json!({"id": call.id, "type": "function", "function": {"name": TOOL, "arguments": arguments.to_string()}})
}

/// The tool as it is offered, with the words of `core/prompt.rs`.
pub fn tool(description: &str) -> Value {
    json!({"type": "function", "function": {
        "name": TOOL,
        "description": description,
        "parameters": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "The whole Python source to run"},
                "timeout_seconds": {"type": "integer", "description": "Time limit, only where the usual one is too short"}
            },
            "required": ["code"]
        }
    }})
}

/// Looks over the messages before they are sent. An error is our bug.
pub fn check(messages: &[Value], rules: Rules) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<String> = Vec::new();
    let mut before = "";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        only_known_fields(message).map_err(|what| format!("message {at}: {what}"))?;
        if role != "tool" && !waiting.is_empty() {
            return Err(format!("message {at}: a call has no result"));
        }
        match role {
            "system" if at == 0 => {}
            "user" if before != "user" => {}
            "assistant" if matches!(before, "user" | "tool") => {
                waiting = calls_of(message, rules, &mut seen).map_err(|what| format!("message {at}: {what}"))?;
            }
            "tool" => {
                let expected = (!waiting.is_empty()).then(|| waiting.remove(0));
                let answered = message["tool_call_id"].as_str().map(str::to_owned);
                if expected.is_none() || (!rules.ollama && answered != expected) {
                    return Err(format!("message {at}: a result that answers no call"));
                }
            }
            role => return Err(format!("message {at}: {role} after {before:?}")),
        }
        before = role;
    }
    match before {
        "user" => Ok(()),
        "tool" if waiting.is_empty() && !rules.user_after_result => Ok(()),
        last => Err(format!("the last message is of {last:?}")),
    }
}

fn only_known_fields(message: &Value) -> Result<(), String> {
    for (name, value) in message.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("role" | "content" | "tool_call_id" | "tool_name", Value::String(_)) => {}
            ("content", Value::Null) if message.get("tool_calls").is_some() => {}
            ("tool_calls", Value::Array(calls)) if !calls.is_empty() => {}
            (name, _) => return Err(format!("the field {name} must not be there or not be so")),
        }
    }
    Ok(())
}

/// The ids of a message's calls, which must be of the right form, new, and hold readable arguments.
fn calls_of(message: &Value, rules: Rules, seen: &mut BTreeSet<String>) -> Result<Vec<String>, String> {
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !calls.is_empty() && !message["content"].as_str().unwrap_or_default().is_empty() {
        return Err("words beside a call".to_owned());
    }
    let mut ids = Vec::new();
    for call in calls {
        let arguments = &call["function"]["arguments"];
        let parsed = if rules.ollama {
            arguments.clone()
        } else {
            serde_json::from_str(arguments.as_str().unwrap_or_default()).unwrap_or_default()
        };
        if !parsed["code"].is_string() {
            return Err("arguments that hold no code".to_owned());
        }
        let id = call["id"].as_str().unwrap_or_default().to_owned();
        let good = id.len() == ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric());
        let usable = rules.ollama || (good && seen.insert(id.clone()));
        if !usable {
            return Err(format!("the call id {id:?} is of no good form or used before"));
        }
        ids.push(id);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests;
