//! What a server's refusal means, and what to do about it.
//!
//! Servers agree on little here, so the words of the body decide before the status does. Each refusal becomes one line of
//! what happened, one of what helps, and one [`Then`] for the client. Keys and user information never get into the words.

use std::time::Duration;

use jiff::Timestamp;

use super::secret::Secret;
use super::words::{one_line, server_words};
use crate::core::event::{Failure, ModelFailure, ModelFailureKind as Kind};

/// Models named in a hint; more is a wall of names.
const MAX_MODELS_NAMED: usize = 10;

/// Longest wait a server may ask for before a retry. Beyond it the person is told rather than kept waiting.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// What the client does about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Ask again, after this long if the server named a time.
    Retry(Option<Duration>),
    /// The server loads the model: ask again until it has.
    WaitLoading,
    /// Change the request in one respect and ask once more.
    Adapt(Change),
    /// Give up.
    Fatal,
}

/// A respect in which requests differ between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// `max_tokens` or `max_completion_tokens`: use the other.
    TokensField,
    /// Leave the temperature to the server.
    NoTemperature,
    /// Do not ask for usage in the stream.
    NoStreamOptions,
    /// Do not send `tool_choice`.
    NoToolChoice,
    /// Content of a message with calls: `null` in place of `""`, or the other way round.
    Content,
    /// Do not mention thinking.
    NoThink,
}

/// Who was asked, for the words of a failure.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Base URL without user information.
    pub base_url: String,
    /// Model name.
    pub model: String,
    /// It is an Ollama server.
    pub ollama: bool,
    /// Tools were offered in the request.
    pub tools: bool,
    /// Models the server said it has, the first of them.
    pub models: Vec<String>,
    /// How many more it has.
    pub more_models: usize,
    /// The key, to keep it out of the server's words.
    pub key: Option<Secret>,
}

impl Asked {
    /// A failure with these words; `why` is cleaned, cut and freed of the key.
    pub fn failure(&self, kind: Kind, what: impl Into<String>, why: &str, hint: impl Into<String>) -> ModelFailure {
        let why = self.key.as_ref().map_or_else(|| why.to_owned(), |key| key.hide_in(why));
        ModelFailure { kind, failure: Failure::new(what, one_line(&why), hint), partial: String::new() }
    }

    /// The model is not there.
    pub fn no_model(&self, why: &str) -> ModelFailure {
        let what = format!("the model {} is not at {}", one_line(&self.model), self.base_url);
        let named: Vec<String> = self.models.iter().take(MAX_MODELS_NAMED).map(|m| one_line(m)).collect();
        let more = self.models.len().saturating_sub(named.len()).saturating_add(self.more_models);
        let there = match (named.is_empty(), more) {
            (true, _) => why.to_owned(),
            (false, 0) => format!("it has {}", named.join(", ")),
            (false, more) => format!("it has {} and {more} more", named.join(", ")),
        };
        let hint = match (self.ollama, named.first()) {
            (true, Some(first)) => format!("ollama pull {}, or -m {first}", one_line(&self.model)),
            (true, None) => format!("ollama pull {}", one_line(&self.model)),
            (false, Some(first)) => format!("name one of them: -m {first}"),
            (false, None) => "name another model with -m".to_owned(),
        };
        // The list is ours and bounded by count; it is not cut like a server's sentence.
        ModelFailure { kind: Kind::NoModel, failure: Failure::new(what, there, hint), partial: String::new() }
    }

    /// Nothing answers.
    pub fn unreachable(&self, why: &str) -> ModelFailure {
        let lower = why.to_ascii_lowercase();
        let hint = if lower.contains("certificate") || lower.contains("tls") {
            "check the address and the server's certificate (http in place of https?)"
        } else if self.base_url.contains(":11434") {
            "start Ollama (ollama serve), or name another server with --base-url"
        } else {
            "start the server, or check --base-url"
        };
        self.failure(Kind::Unreachable, format!("no language model answers at {}", self.base_url), why, hint)
    }
}

/// A refusal by status: what it means and what to do about it. `now` is for a `Retry-After` date.
pub fn refusal(
    asked: &Asked,
    status: u16,
    retry_after: Option<&str>,
    body: &str,
    now: Timestamp,
) -> (ModelFailure, Then) {
    let words = server_words(body);
    if let Some(known) = by_words(asked, status, &words) {
        return known;
    }
    let fatal = |kind, what: String, hint: &str| (asked.failure(kind, what, &words, hint), Then::Fatal);
    match status {
        401 => fatal(Kind::Refused, format!("{} refused the key", asked.base_url), key_hint(asked)),
        402 => fatal(Kind::Refused, format!("{} wants to be paid", asked.base_url), "check the account of the key"),
        403 => fatal(Kind::Refused, format!("{} does not allow this", asked.base_url), key_hint(asked)),
        404 | 405 => {
            let what = format!("there is no chat interface at {} (HTTP {status})", asked.base_url);
            fatal(Kind::Unreachable, what, "check --base-url: it mostly ends in /v1")
        }
        407 => fatal(Kind::Unreachable, "the proxy wants a password".into(), "check HTTP_PROXY and NO_PROXY"),
        413 => fatal(Kind::TooLong, "the conversation is larger than the server takes".into(), TOO_LONG_HINT),
        408 | 409 | 425 | 429 | 502 | 503 | 504 | 520..=524 | 529 => retry(asked, status, retry_after, &words, now),
        // Row 70: a 500 is mostly what the request will always get. It is never asked again blindly.
        _ => fatal(Kind::Other, format!("{} refused the request (HTTP {status})", asked.base_url), REFUSED_HINT),
    }
}

const REFUSED_HINT: &str = "look into the server's log, or use another model or server (-m, --base-url)";
const BAD_CALL_HINT: &str = "ask again, or use text mode: -c model.mode=text";
const TOO_LONG_HINT: &str = "start a new session, or give the model a larger window (model.window)";

/// What the server's words alone tell. `None` leaves it to the status.
pub fn by_words(asked: &Asked, status: u16, words: &str) -> Option<(ModelFailure, Then)> {
    let lower = words.to_ascii_lowercase();
    let has = |needle: &str| lower.contains(needle);
    let any = |needles: &[&str]| needles.iter().any(|n| lower.contains(n));
    let fatal = |kind, what: String, hint: &str| Some((asked.failure(kind, what, words, hint), Then::Fatal));

    if status == 503 && has("loading") {
        let what = format!("{} is still loading the model", asked.base_url);
        let hint = "wait until it is loaded, then ask again";
        return Some((asked.failure(Kind::Unreachable, what, words, hint), Then::WaitLoading));
    }
    if any(NO_TOOLS) || (has("tool") && any(&["not supported", "unsupported"]) && !has("tool_choice")) {
        let what = format!("{} cannot call tools here", one_line(&asked.model));
        return fatal(Kind::NoTools, what, "use text mode: -c model.mode=text");
    }
    if any(TOO_LONG) {
        return fatal(Kind::TooLong, "the conversation is larger than the model's window".into(), TOO_LONG_HINT);
    }
    if any(NOT_A_CALL) {
        let what = "the server could not read the call the model wrote".to_owned();
        return fatal(Kind::BadCall, what, BAD_CALL_HINT);
    }
    if any(BAD_HISTORY) {
        // Text mode sends no calls and keeps the strict order of turns, so it gets past these templates.
        let kind = if asked.tools { Kind::NoTools } else { Kind::Other };
        let what = "the server cannot put this conversation into the model's form".to_owned();
        return fatal(kind, what, "use text mode (-c model.mode=text), or start a new session");
    }
    if (has("model") && any(&["not found", "does not exist", "no such model", "not a valid model", "invalid model"]))
        || has("model_not_found")
    {
        return Some((asked.no_model(&one_line(words)), Then::Fatal));
    }
    if any(&["requires more system memory", "out of memory", "insufficient memory", "cudamalloc"]) {
        return fatal(Kind::Other, "the server has too little memory for the model".into(), "use a smaller model (-m)");
    }
    if any(&["insufficient_quota", "exceeded your current quota", "billing", "credit balance"]) {
        return fatal(Kind::Refused, format!("{} wants to be paid", asked.base_url), "check the account of the key");
    }
    if matches!(status, 400 | 422)
        && let Some(change) = rejected_field(&lower)
    {
        let what = format!("{} refused the request (HTTP {status})", asked.base_url);
        return Some((asked.failure(Kind::Other, what, words, REFUSED_HINT), Then::Adapt(change)));
    }
    None
}

/// Rows 64 and 66.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "does not support function",
    "support tool use",
    "enable-auto-tool-choice",
    "tool-call-parser",
    "requires --jinja",
    "--jinja flag",
];

/// Row 82.
const TOO_LONG: &[&str] = &[
    "exceed_context_size",
    "exceeds the available context",
    "context_length_exceeded",
    "context length",
    "maximum context",
    "context window",
    "prompt is too long",
    "input length exceeds",
    "exceeds context",
];

/// Row 72: what the model wrote did not fit the grammar or could not be read; another sample may.
const NOT_A_CALL: &[&str] = &[
    "error parsing tool call",
    "failed to parse input at pos",
    "output that does not match",
    "does not match the expected",
    "unexpected empty grammar stack",
    "match the grammar",
    "xml syntax error",
    "tool_use_failed",
    "failed to call a function",
];

/// Rows 70, 71: the request itself is at fault, for ever.
const BAD_HISTORY: &[&str] = &[
    "failed to parse tool call arguments",
    "invalid tool call arguments",
    "no user query found",
    "jinja",
    "chat template",
    "conversation roles must alternate",
    "unable to generate parser",
];

/// Rows 74 and 76: the field a 400 or 422 complains about.
fn rejected_field(lower: &str) -> Option<Change> {
    let has = |needle: &str| lower.contains(needle);
    if has("max_tokens") || has("max_completion_tokens") {
        Some(Change::TokensField)
    } else if has("stream_options") {
        Some(Change::NoStreamOptions)
    } else if has("temperature") {
        Some(Change::NoTemperature)
    } else if has("tool_choice") {
        Some(Change::NoToolChoice)
    } else if has("think") {
        Some(Change::NoThink)
    } else if has("content") && ["null", "nil", "none", "empty", "string", "blank"].iter().any(|n| has(n)) {
        Some(Change::Content)
    } else {
        None
    }
}

fn retry(asked: &Asked, status: u16, after: Option<&str>, words: &str, now: Timestamp) -> (ModelFailure, Then) {
    let after = after.and_then(|text| retry_after(text, now));
    let what = match status {
        429 => format!("{} takes no more requests for now", asked.base_url),
        _ => format!("{} is overloaded or not ready (HTTP {status})", asked.base_url),
    };
    match after {
        Some(wait) if wait > MAX_RETRY_AFTER => {
            let hint = format!("ask again in {} s, as the server wants", wait.as_secs());
            (asked.failure(Kind::Other, what, words, hint), Then::Fatal)
        }
        after => (asked.failure(Kind::Other, what, words, "ask again in a moment"), Then::Retry(after)),
    }
}

/// A `Retry-After` header: seconds, or an HTTP date.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    let seconds = at.as_second().saturating_sub(now.as_second());
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// An error that came inside a stream with status 200, as JSON or as plain text (row 54). The request was accepted, so
/// what cannot be parsed is what the model wrote, not the history.
pub fn in_stream(text: &str) -> ModelFailure {
    let asked = Asked { tools: true, ..Asked::default() };
    let words = server_words(text);
    let lower = words.to_ascii_lowercase();
    let (kind, hint) = match by_words(&asked, 200, &words) {
        _ if BAD_HISTORY.iter().any(|n| lower.contains(n)) => (Kind::BadCall, BAD_CALL_HINT.to_owned()),
        Some((known, _)) => (known.kind, known.failure.hint),
        None => (Kind::Other, "look into the log of the model server".to_owned()),
    };
    asked.failure(kind, "the model server reported an error in its reply", &words, hint)
}

/// A redirect: never followed, because the key would go where nobody sent it.
pub fn redirect(asked: &Asked, status: u16, location: Option<&str>) -> ModelFailure {
    let base = reqwest::Url::parse(&asked.base_url).ok();
    let target = base.zip(location).and_then(|(base, location)| base.join(location).ok());
    let to = match target.as_ref().and_then(reqwest::Url::host_str) {
        Some(host) => format!("it points to the host {host}"),
        None => "it does not say where to".to_owned(),
    };
    let what = format!("{} redirects (HTTP {status})", asked.base_url);
    asked.failure(Kind::Unreachable, what, &to, "name the final address with --base-url")
}

/// A reply that is packed, which this program does not ask for and does not unpack.
pub fn packed(asked: &Asked) -> ModelFailure {
    let what = "the server sent a compressed reply although none was asked for";
    asked.failure(Kind::Other, what, "", "switch compression off in the server or in the proxy before it")
}

/// A page where an answer was expected.
pub fn web_page(asked: &Asked, body: &str) -> ModelFailure {
    let what = format!("{} answered with a web page", asked.base_url);
    asked.failure(Kind::Unreachable, what, &server_words(body), "check --base-url, and HTTP_PROXY if there is one")
}

fn key_hint(asked: &Asked) -> &'static str {
    if asked.key.is_some() {
        "put the key into SANDSCRIPT_API_KEY, or name another variable with model.key_env or a file with model.key_file"
    } else {
        "give a key: name its variable in model.key_env, or its file in model.key_file"
    }
}

#[cfg(test)]
mod tests;
