//! The arguments of a call, in every shape models give them.

use serde_json::{Map, Value};

use super::python::{self, readings};
use super::{Name, TOOL, Verdict, json};
use crate::core::event::How;
use crate::model::Candidate;

/// Keys models use for the code, besides `code`.
const CODE_KEYS: [&str; 11] = [
    "code",
    "python",
    "python_code",
    "script",
    "source",
    "source_code",
    "program",
    "snippet",
    "input",
    "cmd",
    "command",
];

/// Keys for the time limit.
const TIMEOUT_KEYS: [&str; 4] = ["timeout_seconds", "timeout", "timeout_s", "timeout_sec"];

/// Keys that wrap the arguments once more.
const WRAPPERS: [&str; 5] = ["arguments", "parameters", "args", "params", "kwargs"];

/// Keys whose string is never code, if it is the only one.
const NOT_CODE_KEYS: [&str; 11] =
    ["name", "function", "tool", "type", "id", "error", "message", "result", "output", "answer", "description"];

/// How often arguments are unwrapped: servers encode once too often, or twice; more is a trick.
const MAX_UNWRAPS: u32 = 2;

/// Longest time limit worth passing on, seconds; the policy clamps it further.
const MAX_TIMEOUT_SECONDS: f64 = 86_400.0;

const NO_JSON: &str = "the arguments of the call are no JSON";
const NO_CODE: &str = "the call carries no code";

/// Judges the arguments of a native call as the server sent them.
pub fn native(name: &str, raw: &str, cut: bool) -> Verdict {
    let kind = Name::of(name);
    match serde_json::from_str(raw.trim()) {
        Ok(value) => Args { kind, name, raw, clean: true }.value(&value, MAX_UNWRAPS),
        Err(_) => Args { kind, name, raw, clean: false }.text(raw, cut),
    }
}

/// Judges arguments found in a text, `raw` being all of the call.
pub fn found(name: &str, value: &Value, raw: &str) -> Verdict {
    Args { kind: Name::of(name), name, raw, clean: false }.value(value, MAX_UNWRAPS)
}

/// Judges arguments found in a text that are no value, or a broken one.
pub fn found_text(name: &str, arguments: &str, raw: &str, cut: bool) -> Verdict {
    Args { kind: Name::of(name), name, raw, clean: false }.text(arguments, cut)
}

/// Whether `map` is the arguments of our tool and can be nothing else, though no name says so.
pub fn unmistakable(map: &Map<String, Value>) -> bool {
    map.get("code").and_then(Value::as_str).is_some_and(python::does_something)
        && map.keys().all(|key| key == "code" || TIMEOUT_KEYS.contains(&key.as_str()))
}

struct Args<'a> {
    kind: Name,
    name: &'a str,
    raw: &'a str,
    clean: bool,
}

struct Picked {
    code: String,
    timeout: Option<u64>,
    /// A string under the key `code`, not unwrapped.
    exact: bool,
}

impl Args<'_> {
    fn text(&self, text: &str, cut: bool) -> Verdict {
        let text = text.trim();
        let Some(first) = text.chars().next() else { return Verdict::Broken(NO_CODE.into()) };
        // Three quotes in front are a docstring.
        let docstring = text.starts_with("\"\"\"") || text.starts_with("'''");
        if "{[\"'`\\".contains(first) && !docstring {
            match json::read(text) {
                Ok((value, end)) if only_closers(&text[end..]) => return self.value(&value, MAX_UNWRAPS),
                // A whole object and then more: which of it was meant is a guess.
                Ok((Value::Object(_), _)) => return Verdict::Broken(NO_JSON.into()),
                Err(json::Flaw::Cut) => return Verdict::Cut,
                Ok(_) | Err(json::Flaw::Bad) => {}
            }
        }
        if first == '{' {
            return self.broken_object(text);
        }
        // Python in place of JSON.
        if cut { Verdict::Cut } else { self.code(Picked { code: text.to_owned(), timeout: None, exact: false }) }
    }

    /// An object that even the lenient reader cannot read.
    fn broken_object(&self, text: &str) -> Verdict {
        let escaped = text.contains("{\\\"") || text.contains("{\\n");
        if escaped
            && let Ok(inner) = serde_json::from_str::<String>(&format!("\"{text}\""))
            && let Ok((value, end)) = json::read(&inner)
            && only_closers(&inner[end..])
        {
            return self.value(&value, MAX_UNWRAPS);
        }
        match between_key_and_end(text) {
            Some((code, timeout)) => self.code(Picked { code: json::unescape(code), timeout, exact: false }),
            None => Verdict::Broken(NO_JSON.into()),
        }
    }

    fn value(&self, value: &Value, unwraps: u32) -> Verdict {
        match value {
            Value::Object(map) => match pick(map, unwraps, self.kind != Name::Alias) {
                Some(picked) => self.code(picked),
                None if self.kind == Name::Other => self.no_such_tool(),
                None => Verdict::Broken(NO_CODE.into()),
            },
            Value::String(text) => match object_in(text) {
                Some(inner) if unwraps > 0 => Args { clean: false, ..*self }.value(&inner, unwraps - 1),
                _ if text.trim().is_empty() => Verdict::Broken(NO_CODE.into()),
                _ => self.code(Picked { code: text.clone(), timeout: None, exact: false }),
            },
            Value::Array(items) => match items.as_slice() {
                [item @ Value::Object(_)] if unwraps > 0 => Args { clean: false, ..*self }.value(item, unwraps - 1),
                _ => Verdict::Broken(NO_CODE.into()),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => Verdict::Broken(NO_CODE.into()),
        }
    }

    fn no_such_tool(&self) -> Verdict {
        let name: String = self.name.chars().take(40).collect();
        Verdict::Broken(format!("there is no tool `{name}`, only `{TOOL}`"))
    }

    fn code(&self, picked: Picked) -> Verdict {
        if self.kind == Name::Other {
            return self.no_such_tool();
        }
        let code = python::own_call(&picked.code).unwrap_or_else(|| picked.code.clone());
        if code.trim().is_empty() {
            return Verdict::Broken("the code of the call is empty".into());
        }
        let list = readings(&code);
        let as_it_is = list == [picked.code];
        let clean = self.clean && picked.exact && self.kind == Name::Ours && as_it_is;
        Verdict::Code(Box::new(Candidate {
            id: String::new(),
            readings: list,
            gate: !clean,
            or_text: false,
            timeout_seconds: picked.timeout,
            how: if clean { How::Call } else { How::Recovered },
            raw: (!clean).then(|| self.raw.to_owned()),
        }))
    }
}

/// Finds code and time limit in the arguments.
fn pick(map: &Map<String, Value>, unwraps: u32, lone_string: bool) -> Option<Picked> {
    let timeout = map.iter().find(|(key, _)| TIMEOUT_KEYS.contains(&plain(key).as_str())).and_then(|(_, v)| seconds(v));
    let with_timeout = |picked: Picked| Picked { timeout: picked.timeout.or(timeout), exact: false, ..picked };
    for wanted in CODE_KEYS {
        let Some((key, value)) = map.iter().find(|(key, _)| plain(key) == wanted) else { continue };
        match value {
            Value::String(text) => {
                let inner = object_in(text).filter(|inner| unwraps > 0 && inner.get("code").is_some());
                if let Some(Value::Object(inner)) = inner {
                    return pick(&inner, unwraps - 1, false).map(with_timeout);
                }
                return Some(Picked { code: text.clone(), timeout, exact: key == "code" });
            }
            Value::Array(lines) => {
                let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
                let lines = lines.filter(|lines| !lines.is_empty())?;
                let code =
                    lines.iter().map(|line| line.strip_suffix('\n').unwrap_or(line)).collect::<Vec<_>>().join("\n");
                return Some(Picked { code, timeout, exact: false });
            }
            Value::Object(inner) if unwraps > 0 => return pick(inner, unwraps - 1, false).map(with_timeout),
            Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    for wrapper in WRAPPERS {
        let inner = match map.get(wrapper) {
            Some(Value::Object(inner)) => Some(Value::Object(inner.clone())),
            Some(Value::String(text)) => object_in(text),
            _ => None,
        };
        if let Some(Value::Object(inner)) = inner
            && unwraps > 0
        {
            return pick(&inner, unwraps - 1, lone_string).map(with_timeout);
        }
    }
    let mut others = map.iter().filter(|(key, _)| !TIMEOUT_KEYS.contains(&plain(key).as_str()));
    match (others.next(), others.next()) {
        (Some((key, Value::String(code))), None) if lone_string && !NOT_CODE_KEYS.contains(&plain(key).as_str()) => {
            Some(Picked { code: code.clone(), timeout, exact: false })
        }
        _ => None,
    }
}

fn plain(key: &str) -> String {
    key.trim().to_lowercase().replace('-', "_")
}

/// The object that `text` spells, also where it is a string that spells it.
fn object_in(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '"']) {
        return None;
    }
    match json::read(text) {
        Ok((value @ Value::Object(_), end)) if only_closers(&text[end..]) => Some(value),
        Ok((Value::String(inner), end)) if end == text.len() && inner.trim_start().starts_with('{') => {
            object_in(&inner)
        }
        Ok(_) | Err(_) => None,
    }
}

/// What may stand behind the arguments without changing them: brackets and tags that close something else.
fn only_closers(text: &str) -> bool {
    let text = text.trim();
    let tag = text.starts_with('<') && text.ends_with('>') && !text.contains(['{', '\n']);
    tag || text.chars().all(|c| "}])`; \n\t".contains(c))
}

/// Code whose quotes were not escaped: from the key to the quote before the end of the object.
fn between_key_and_end(text: &str) -> Option<(&str, Option<u64>)> {
    let (_, after_key) = text.split_once("\"code\"")?;
    let code = after_key.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let end = code.trim_end();
    let mut end = end.strip_suffix('}')?.trim_end();
    while let Some(outer) = end.strip_suffix(['}', ']']) {
        end = outer.trim_end();
    }
    if let Some(inner) = end.strip_suffix('"') {
        return Some((inner, None));
    }
    // The time limit may stand behind the code.
    let (before, last) = end.rsplit_once(',')?;
    let (key, value) = last.split_once(':')?;
    let known = TIMEOUT_KEYS.contains(&key.trim().trim_matches('"'));
    let timeout = seconds(&Value::String(value.trim().to_owned()));
    before.trim_end().strip_suffix('"').filter(|_| known).map(|inner| (inner, timeout))
}

/// A time limit as models write it, in whole seconds.
fn seconds(value: &Value) -> Option<u64> {
    let amount = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => {
            let text = text.trim().to_lowercase();
            let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let amount: f64 = text[..text.len() - unit.len()].parse().ok()?;
            match unit.trim() {
                "" | "s" | "sec" | "secs" | "second" | "seconds" => amount,
                "m" | "min" | "mins" | "minute" | "minutes" => amount * 60.0,
                _ => return None,
            }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    // Rounded up, so that half a second is not none.
    (amount > 0.0).then(|| amount.min(MAX_TIMEOUT_SECONDS).ceil() as u64)
}
