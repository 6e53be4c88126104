//! Calls that models write into the text between the marks of their chat template.
//!
//! A mark is only a mark where a call follows it; else it is text that speaks about marks.

use serde_json::{Map, Value};

use super::args;
use super::{Name, TOOL, Verdict, json};

/// Calls found at one place.
#[derive(Debug, PartialEq)]
pub struct Hit {
    /// Where the first one starts.
    pub start: usize,
    /// Where what follows the last one starts.
    pub end: usize,
    /// What they are, in order; never empty.
    pub verdicts: Vec<Verdict>,
}

/// Marks in front of calls in JSON, in XML or in Python.
const OPENERS: [&str; 10] = [
    "<tool_call>",
    "<tool_calls>",
    "<function_call>",
    "<tools>",
    "<|tool_call|>",
    "<|tool_call>",
    "<|python_tag|>",
    "<|python_start|>",
    "[TOOL_CALLS]",
    "[TOOL_CALL]",
];

/// Marks that may stand behind a call.
const CLOSERS: [&str; 15] = [
    "</tool_call>",
    "</tool_calls>",
    "</function_call>",
    "</function>",
    "</invoke>",
    "</tools>",
    "<|/tool_call|>",
    "<tool_call|>",
    "<|python_end|>",
    "[/TOOL_CALLS]",
    "[/TOOL_CALL]",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
    "</s>",
];

/// Most calls read from one value. A reply holds a few; each keeps a copy of the text it came from.
const MAX_CALLS: usize = 32;

/// Looks for calls behind marks that start in `text[from..to]`; they may reach beyond `to`. Takes one of `tries` for each
/// mark that is looked at: each look may read to the end, and a hostile reply may consist of marks.
pub fn find(text: &str, from: usize, to: usize, cut: bool, tries: &mut u32) -> Option<Hit> {
    let mut marks = text[from..to].match_indices(['<', '[']).map(|(at, _)| from + at);
    marks.find_map(|at| {
        if *tries == 0 || !is_mark(&text[at..]) {
            return None;
        }
        *tries -= 1;
        hit(text, from, at, cut)
    })
}

fn is_mark(text: &str) -> bool {
    OPENERS.iter().chain(&["<function", "<invoke", "[CALL_ID]", "[ARGS]"]).any(|mark| text.starts_with(mark))
}

fn hit(text: &str, from: usize, at: usize, cut: bool) -> Option<Hit> {
    let rest = &text[at..];
    let found = |start: usize, (verdicts, end): (Vec<Verdict>, usize)| {
        (!verdicts.is_empty()).then(|| Hit { start, end: after_closers(text, end), verdicts })
    };
    if rest.starts_with("<function") || rest.starts_with("<invoke") {
        return xml(text, at, cut).and_then(|(verdict, end)| found(at, (vec![verdict], end)));
    }
    if rest.starts_with("[CALL_ID]") || rest.starts_with("[ARGS]") {
        let start = name_before(&text[from..at]).map(|length| at - length)?;
        return named(text, start, cut).and_then(|hit| found(start, hit));
    }
    let opener = OPENERS.iter().find(|opener| rest.starts_with(**opener))?;
    let mut inner = at + opener.len();
    inner += text[inner..].len() - text[inner..].trim_start().len();
    // The JSON may be fenced once more inside the mark.
    let fenced = text[inner..].starts_with("```");
    if fenced {
        inner += text[inner..].find('\n')? + 1;
    }
    let hit = match text[inner..].chars().next() {
        None => Some((vec![Verdict::Cut], text.len())),
        Some('{' | '[') if !text[inner + 1..].starts_with(TOOL) => in_json(text, inner, true),
        Some('<') => xml(text, inner, cut).map(|(verdict, end)| (vec![verdict], end)),
        Some(_) if opener.contains("python") || is_own_call(&text[inner..]) => Some(python(text, inner, cut)),
        Some(_) => named(text, inner, cut).or_else(|| arg_pairs(text, inner)),
    };
    let (verdicts, mut end) = hit?;
    if fenced && let Some(after) = text[end..].trim_start().strip_prefix("```") {
        end = text.len() - after.len();
    }
    found(at, (verdicts, end))
}

fn is_own_call(text: &str) -> bool {
    text.strip_prefix('[').unwrap_or(text).strip_prefix(TOOL).is_some_and(|rest| rest.starts_with('('))
}

fn after_closers(text: &str, mut end: usize) -> usize {
    loop {
        let rest = text[end..].trim_start();
        let Some(after) = CLOSERS.iter().find_map(|closer| rest.strip_prefix(closer)) else { return end };
        end = text.len() - after.len();
    }
}

/// Reads one or more values that are calls, one after the other. Behind a mark, anything that looks like one is a call;
/// elsewhere only what can be nothing else.
pub fn in_json(text: &str, at: usize, marked: bool) -> Option<(Vec<Verdict>, usize)> {
    let mut verdicts = Vec::new();
    let mut end = at;
    loop {
        let start = text.len() - text[end..].trim_start_matches([',', ';', ' ', '\n', '\r', '\t']).len();
        if !text[start..].starts_with(['{', '[']) {
            break;
        }
        let (more, next) = match json::read(&text[start..]) {
            // A quote or a word glued to the end means that a string ended too early.
            Ok((_, length))
                if text[start + length..].starts_with(|c: char| "\"'\\".contains(c) || c.is_alphanumeric()) =>
            {
                break;
            }
            Ok((value, length)) => match calls_of(&value, &text[start..start + length], marked) {
                Some(calls) => (calls, start + length),
                None => break,
            },
            Err(flaw) => match broken(text, start, flaw, marked) {
                Some(broken) => broken,
                None => break,
            },
        };
        verdicts.extend(more);
        end = next;
    }
    (!verdicts.is_empty()).then_some((verdicts, end))
}

/// A call in JSON that cannot be read: it must name our tool to be taken for one.
fn broken(text: &str, start: usize, flaw: json::Flaw, marked: bool) -> Option<(Vec<Verdict>, usize)> {
    let region_end = CLOSERS.iter().filter_map(|closer| text[start..].find(closer)).min();
    let region = &text[start..region_end.map_or(text.len(), |length| start + length)];
    let named = ["name", "function", "tool"].iter().any(|key| region.contains(key)) && region.contains(TOOL);
    if !(named || marked && region.contains("code")) {
        return None;
    }
    let end = start + region.len();
    let verdict = match flaw {
        json::Flaw::Cut if region_end.is_none() => Verdict::Cut,
        json::Flaw::Cut => Verdict::Broken("the JSON of the call is not closed".into()),
        json::Flaw::Bad => args::found_text(TOOL, region, region, false),
    };
    Some((vec![verdict], end))
}

/// The calls that `value` spells.
fn calls_of(value: &Value, raw: &str, marked: bool) -> Option<Vec<Verdict>> {
    match value {
        Value::Array(items) if !items.is_empty() && items.len() <= MAX_CALLS => {
            let each: Option<Vec<_>> = items.iter().map(|item| calls_of(item, raw, marked)).collect();
            each.map(|calls| calls.into_iter().flatten().collect())
        }
        Value::Object(map) => match (map.get("tool_calls"), map.get("function_call"), map.get("function")) {
            (Some(calls @ Value::Array(_)), _, _) => calls_of(calls, raw, marked),
            (_, Some(call @ Value::Object(_)), _) | (_, _, Some(call @ Value::Object(_))) => {
                calls_of(call, raw, marked)
            }
            _ => call_of(map, raw, marked).map(|verdict| vec![verdict]),
        },
        _ => None,
    }
}

fn call_of(map: &Map<String, Value>, raw: &str, marked: bool) -> Option<Verdict> {
    let name =
        ["name", "function", "tool", "tool_name", "function_name"].iter().find_map(|key| map.get(*key)?.as_str());
    let Some(name) = name else {
        return args::unmistakable(map).then(|| args::found("", &Value::Object(map.clone()), raw));
    };
    let given = ["arguments", "parameters", "args", "params", "input", "tool_input", "kwargs"]
        .iter()
        .find_map(|key| map.get(*key))
        .cloned();
    let given = given.unwrap_or_else(|| {
        let keys = ["name", "function", "tool", "tool_name", "function_name", "type", "id"];
        Value::Object(
            map.iter().filter(|(key, _)| !keys.contains(&key.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect(),
        )
    });
    if given.get("properties").is_some() {
        return None; // The description of the tool, not a call of it.
    }
    let verdict = args::found(name, &given, raw);
    match (Name::of(name), &verdict) {
        (Name::Ours | Name::Close, _) | (Name::Alias, Verdict::Code(_)) => Some(verdict),
        (Name::Alias | Name::Other, _) => marked.then_some(verdict),
    }
}

fn name_before(text: &str) -> Option<usize> {
    let length = text.len() - text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c)).len();
    (length > 0).then_some(length)
}

/// `name{…}`, `name[ARGS]{…}` and `name[CALL_ID]…[ARGS]{…}`.
fn named(text: &str, start: usize, cut: bool) -> Option<(Vec<Verdict>, usize)> {
    let word = |text: &str| {
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-.".contains(c)).len()
    };
    let length = word(&text[start..]);
    let name = &text[start..start + length];
    let mut rest = &text[start + length..];
    if let Some(id) = rest.strip_prefix("[CALL_ID]") {
        rest = &id[word(id)..];
    }
    rest = rest.strip_prefix("[ARGS]").unwrap_or(rest).trim_start();
    if name.is_empty() || !rest.starts_with('{') {
        return None;
    }
    let at = text.len() - rest.len();
    match json::read(rest) {
        Ok((value, length)) => Some((vec![args::found(name, &value, &text[start..at + length])], at + length)),
        Err(json::Flaw::Cut) => Some((vec![Verdict::Cut], text.len())),
        Err(json::Flaw::Bad) => {
            let length = CLOSERS.iter().filter_map(|closer| rest.find(closer)).min().unwrap_or(rest.len());
            Some((vec![args::found_text(name, &rest[..length], &text[start..at + length], cut)], at + length))
        }
    }
}

/// Python behind the mark of Llama, up to the mark that ends the message.
fn python(text: &str, start: usize, cut: bool) -> (Vec<Verdict>, usize) {
    let closer = CLOSERS.iter().filter_map(|closer| text[start..].find(closer)).min();
    let end = closer.map_or(text.len(), |length| start + length);
    let raw = &text[start..end];
    let verdict = if cut && closer.is_none() {
        Verdict::Cut
    } else {
        args::found("", &Value::String(raw.trim().to_owned()), raw)
    };
    (vec![verdict], end)
}

/// `<function=name>` or `<invoke name="name">` with `<parameter=key>` or `<parameter name="key">` inside.
fn xml(text: &str, at: usize, cut: bool) -> Option<(Verdict, usize)> {
    let rest = &text[at..];
    let head = rest.strip_prefix("<function").or_else(|| rest.strip_prefix("<invoke"))?;
    let (name, body) = named_tag(head)?;
    let start = text.len() - body.len();
    if body.trim_start().starts_with('{') {
        let inner = text.len() - body.trim_start().len();
        let end = closing(text, inner).unwrap_or(text.len());
        let raw = &text[at..end];
        return Some((args::found_text(name, &text[inner..end], raw, cut), end));
    }
    let mut map = Map::new();
    let mut here = start;
    loop {
        let rest = text[here..].trim_start();
        let Some((key, value)) = rest.strip_prefix("<parameter").and_then(named_tag) else { break };
        let value_at = text.len() - value.len();
        let Some((length, end)) = parameter_end(value) else {
            // What is not closed is cut, unless a closed fence inside says where it ends.
            if map.contains_key("code") {
                break;
            }
            let Some(inner) = super::fence::whole(value) else {
                return (Name::of(name) != Name::Other).then_some((Verdict::Cut, text.len()));
            };
            map.insert(key.to_owned(), Value::String(inner));
            here = text.len();
            break;
        };
        map.insert(key.to_owned(), Value::String(value_text(&value[..length]).to_owned()));
        here = value_at + end;
    }
    if map.is_empty() {
        let speaks_of_it = Name::of(name) == Name::Ours && cut;
        return speaks_of_it.then_some((Verdict::Cut, text.len()));
    }
    Some((args::found(name, &Value::Object(map), &text[at..here]), here))
}

/// `=name>` or ` name="name">`: the name and what follows.
fn named_tag(text: &str) -> Option<(&str, &str)> {
    let (head, rest) = text.split_once('>')?;
    let name = head.trim().strip_prefix("name").map_or(head.trim(), str::trim_start).strip_prefix('=')?;
    let name = name.trim().trim_matches(['"', '\'']);
    (!name.is_empty() && !name.contains(['<', '\n'])).then_some((name, rest))
}

/// Where a parameter ends, and where its closing tag does. Code may hold the tag, so only one counts that the structure
/// goes on after.
fn parameter_end(value: &str) -> Option<(usize, usize)> {
    const CLOSE: &str = "</parameter>";
    let goes_on = |after: &str| {
        let after = after.trim_start();
        after.is_empty() || after.starts_with("<parameter") || CLOSERS.iter().any(|closer| after.starts_with(closer))
    };
    let mut closes = value.match_indices(CLOSE).map(|(at, _)| (at, at + CLOSE.len()));
    if let Some(found) = closes.clone().find(|(_, end)| goes_on(&value[*end..])) {
        return Some(found);
    }
    // The tag may be missing altogether, or words may follow.
    closes.next().or_else(|| closing(value, 0).map(|at| (at, at)))
}

/// The value stands on lines of its own: the line ends belong to the tags.
fn value_text(value: &str) -> &str {
    let value = value.strip_prefix('\r').unwrap_or(value);
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

fn closing(text: &str, from: usize) -> Option<usize> {
    ["</function>", "</invoke>", "</tool_call>"]
        .iter()
        .filter_map(|tag| text[from..].find(tag))
        .min()
        .map(|at| from + at)
}

/// `name <arg_key>code</arg_key> <arg_value>…</arg_value>`.
fn arg_pairs(text: &str, start: usize) -> Option<(Vec<Verdict>, usize)> {
    let (name, _) = text[start..].split_once("<arg_key>")?;
    if name.contains('<') {
        return None;
    }
    let mut map = Map::new();
    let mut here = start + name.len();
    while let Some(rest) = text[here..].trim_start().strip_prefix("<arg_key>") {
        let pair = rest.split_once("</arg_key>").and_then(|(key, rest)| {
            let (value, rest) = rest.trim_start().strip_prefix("<arg_value>")?.split_once("</arg_value>")?;
            Some((key, value, rest))
        });
        let Some((key, value, rest)) = pair else { return Some((vec![Verdict::Cut], text.len())) };
        map.insert(key.trim().to_owned(), Value::String(value_text(value).to_owned()));
        here = text.len() - rest.len();
    }
    Some((vec![args::found(name.trim(), &Value::Object(map), &text[start..here])], here))
}
