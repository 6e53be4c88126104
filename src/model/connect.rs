//! Finds out what is at a base URL, and makes the client for it. Costs no tokens and at most about two seconds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join3};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use super::ChatModel;
use super::client::{Client, Dialect, Setup};
use super::endpoint::{Endpoint, Place};
use super::errors::{self, Asked};
use super::http::{self, Http};
use super::ollama::{self, tokens};
use super::profile::Memory;
use super::secret::Secret;
use super::words::server_words;
use crate::core::event::{Mode, ModelFailure};

/// Time for each of the two rounds of questions to a near server. What does not answer by then is taken as unknown.
const PROBE: Duration = Duration::from_secs(1);

/// Time for the questions to a far server, which get no second round as a rule.
const PROBE_FAR: Duration = Duration::from_secs(2);

/// Largest answer that is read: lists of public gateways with prices and all are about 1 MiB.
const MAX_PROBE_BYTES: usize = 4 * 1024 * 1024;

/// Most objects in an answer that is decoded: each costs hundreds of bytes, however short it is written.
const MAX_PROBE_OBJECTS: usize = 150_000;

/// Models that are remembered for a message.
const MAX_MODELS: usize = 500;

/// Window where no server tells one.
const ASSUMED_WINDOW: u32 = 8192;

/// Below this a profile of a few tables, a question and one repair do not fit.
const SMALL_WINDOW: u32 = 4096;

/// Models that were measured to fence their code although tools were offered.
const FENCES_INSTEAD: &[&str] = &["qwen2.5-coder"];

/// What a client is asked to be.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Base URL as the person wrote it.
    pub base_url: String,
    /// Model name.
    pub model: String,
    /// Key, if there is one.
    pub key: Option<Secret>,
    /// Sampling temperature.
    pub temperature: f64,
    /// How code is asked for; `None` leaves it to what is known of the model.
    pub mode: Option<Mode>,
    /// Context window in tokens; `None` leaves it to the server.
    pub window: Option<u32>,
    /// Folder for what is learned; `None` keeps nothing.
    pub cache_dir: Option<PathBuf>,
}

/// A model that answers, and what is known of it.
pub struct Connected {
    /// The model.
    pub model: Arc<dyn ChatModel>,
    /// How code should be asked for at the start.
    pub mode: Mode,
    /// Context window in tokens.
    pub window: u32,
    /// The server told the window, or was told it.
    pub window_known: bool,
    /// What the person should know, one line each.
    pub notes: Vec<String>,
    /// Base URL without user information.
    pub base_url: String,
    /// Nothing sent there leaves this machine.
    pub loopback: bool,
    memory: Memory,
}

impl Connected {
    /// Remembers for later sessions that this model does better in text mode.
    pub fn remember_text_mode(&self) {
        self.memory.update(|learned| learned.text_mode = true);
    }
}

/// What was found out about server and model.
#[derive(Debug)]
struct Found {
    dialect: Dialect,
    tools: bool,
    template: Option<String>,
    window: Option<u32>,
    warm: bool,
}

/// Finds out what is there and makes the client for it.
pub async fn connect(config: ModelConfig) -> Result<Connected, ModelFailure> {
    let endpoint = Endpoint::parse(&config.base_url)?;
    let base_url = endpoint.shown();
    let mut asked =
        Asked { base_url: base_url.clone(), model: config.model.clone(), key: config.key.clone(), ..Asked::default() };
    let http = Http::new(endpoint.clone(), config.key.as_ref(), &asked)?;
    let mut notes = Vec::new();
    let found = look(&http, &mut asked, &mut notes).await?;

    let memory = Memory::new(config.cache_dir, &base_url, &config.model);
    let window_known = config.window.is_some() || found.window.is_some();
    let window = config.window.or(found.window).unwrap_or(ASSUMED_WINDOW);
    if !window_known {
        notes.push(format!("the server does not tell its window: {window} tokens are assumed (model.window)"));
    } else if window < SMALL_WINDOW {
        notes.push(format!("the model's window of {window} tokens is small: long conversations will be cut"));
    }
    if config.key.is_some() && !endpoint.https() && endpoint.place() == Place::Public {
        notes.push(format!("the key goes to {base_url} without encryption"));
    }
    let mode = config.mode.unwrap_or_else(|| usual_mode(&config.model, &found, memory.load().text_mode));
    let setup = Setup {
        user_after_result: wants_user_after_result(&config.model, &found, endpoint.place()),
        dialect: found.dialect,
        temperature: config.temperature,
        memory: memory.clone(),
        warm: found.warm,
        window,
        asked,
        http,
    };
    let model = Arc::new(Client::new(setup));
    let loopback = endpoint.is_loopback();
    Ok(Connected { model, mode, window, window_known, notes, base_url, loopback, memory })
}

/// The models a server lists, at most 500.
pub async fn models(config: &ModelConfig) -> Result<Vec<String>, ModelFailure> {
    let endpoint = Endpoint::parse(&config.base_url)?;
    let asked = Asked { base_url: endpoint.shown(), model: config.model.clone(), ..Asked::default() };
    let http = Http::new(endpoint.clone(), config.key.as_ref(), &asked)?;
    match probe(http.get(&endpoint.openai("/models")), PROBE_FAR).await {
        Answer::Json(list) => {
            Ok(listed_models(&list).into_iter().map(|(id, _)| id.to_string()).take(MAX_MODELS).collect())
        }
        Answer::Dead(why) => Err(asked.unreachable(&why)),
        Answer::Late => Err(asked.unreachable("it does not answer in time")),
        Answer::Status(status, body) => Err(errors::refusal(&asked, status, None, &body, jiff::Timestamp::now()).0),
    }
}

/// Tools, unless they are known not to work.
fn usual_mode(model: &str, found: &Found, remembered: bool) -> Mode {
    let fences = FENCES_INSTEAD.iter().any(|name| model.to_ascii_lowercase().contains(name));
    if remembered || fences || !found.tools { Mode::Text } else { Mode::Tools }
}

/// Mistral's own templates hide tools and system prompt after a result (`reference/llm-protocol.md` §0.1). Where the
/// template is not known, the name tells; Mistral's cloud does it right.
fn wants_user_after_result(model: &str, found: &Found, place: Place) -> bool {
    const NAMES: [&str; 6] = ["mistral", "nemo", "mixtral", "ministral", "devstral", "codestral"];
    match &found.template {
        Some(template) if !template.is_empty() => template.contains("[AVAILABLE_TOOLS]"),
        Some(_) | None => {
            let model = model.to_ascii_lowercase();
            place != Place::Public && NAMES.iter().any(|name| model.contains(name))
        }
    }
}

/// An answer to a probe.
#[derive(Debug)]
enum Answer {
    /// A JSON body of a success.
    Json(Value),
    /// Anything else with a status.
    Status(u16, String),
    /// Nothing within the time.
    Late,
    /// No connection.
    Dead(String),
}

impl Answer {
    fn json(&self) -> Option<&Value> {
        match self {
            Answer::Json(value) => Some(value),
            Answer::Status(..) | Answer::Late | Answer::Dead(_) => None,
        }
    }
}

async fn probe(request: Option<RequestBuilder>, patience: Duration) -> Answer {
    let Some(request) = request else { return Answer::Dead("the address is no URL".to_owned()) };
    let asking = async {
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() && !error.is_timeout() => return Answer::Dead(http::reason(&error)),
            Err(_) => return Answer::Late,
        };
        let status = response.status();
        let body = http::short_text(&mut response, MAX_PROBE_BYTES, patience).await;
        let decodable = status.is_success() && body.bytes().filter(|b| *b == b'{').count() <= MAX_PROBE_OBJECTS;
        match decodable.then(|| serde_json::from_str(&body).ok()).flatten() {
            Some(value) => Answer::Json(value),
            None => Answer::Status(status.as_u16(), body),
        }
    };
    tokio::time::timeout(patience, asking).await.unwrap_or(Answer::Late)
}

/// Asks the routes that tell servers apart, all at once.
async fn look(http: &Http, asked: &mut Asked, notes: &mut Vec<String>) -> Result<Found, ModelFailure> {
    let at = http.endpoint();
    let patience = if at.place() == Place::Public { PROBE_FAR } else { PROBE };
    let (version, props, models) = join3(
        probe(http.get(&at.server("/api/version")), patience),
        probe(http.get(&at.server("/props")), patience),
        probe(http.get(&at.openai("/models")), patience),
    )
    .await;
    if let (Answer::Dead(why), Answer::Dead(_), Answer::Dead(_)) = (&version, &props, &models) {
        return Err(asked.unreachable(why));
    }
    if let (Answer::Late, Answer::Late, Answer::Late) = (&version, &props, &models) {
        notes.push(format!("{} is slow to answer: what it is could not be found out", asked.base_url));
    }
    if let Answer::Status(401, body) = &models {
        return Err(errors::refusal(asked, 401, None, body, jiff::Timestamp::now()).0);
    }
    let listed = models.json().map(listed_models).unwrap_or_default();
    asked.models = listed.iter().map(|m| m.0.to_owned()).take(MAX_MODELS).collect();
    asked.more_models = listed.len() - asked.models.len();
    let entry = listed.iter().find(|(id, entry)| is_listed(id, entry, &asked.model)).map(|(_, entry)| *entry);
    if version.json().is_some_and(|v| v["version"].is_string()) {
        asked.ollama = true;
        return look_at_ollama(http, asked, entry.is_some()).await;
    }
    if entry.is_none() && !listed.is_empty() {
        // A public gateway may serve what it does not list; a server of one's own lists what it has.
        if at.place() != Place::Public {
            return Err(asked.no_model(""));
        }
        notes.push(format!("{} does not list the model {}", asked.base_url, asked.model));
    }
    let props = props.json().filter(|p| p["default_generation_settings"].is_object());
    Ok(Found {
        dialect: Dialect::OpenAi,
        tools: props.is_none_or(|p| p["chat_template_caps"]["supports_tool_calls"] != json!(false)),
        template: props.and_then(|p| p["chat_template"].as_str()).map(str::to_owned),
        window: props
            .and_then(|p| tokens(&p["default_generation_settings"]["n_ctx"]))
            .or_else(|| entry.and_then(window_of)),
        // A llama.cpp server that tells its properties has loaded its model.
        warm: props.is_some() || at.place() == Place::Public,
    })
}

async fn look_at_ollama(http: &Http, asked: &Asked, is_listed: bool) -> Result<Found, ModelFailure> {
    let at = http.endpoint();
    let (show, ps) = join(
        probe(http.post(&at.server("/api/show"), &json!({"model": asked.model})), PROBE),
        probe(http.get(&at.server("/api/ps")), PROBE),
    )
    .await;
    // A server that only looks like Ollama may list what it does not describe.
    if let Answer::Status(404, body) = &show
        && !is_listed
    {
        return Err(asked.no_model(&server_words(body)));
    }
    if let Answer::Status(status @ (401 | 403), body) = &show {
        return Err(errors::refusal(asked, *status, None, body, jiff::Timestamp::now()).0);
    }
    let null = Value::Null;
    let facts = ollama::facts(&asked.model, show.json().unwrap_or(&null), ps.json().unwrap_or(&null));
    Ok(Found {
        dialect: Dialect::Ollama,
        tools: facts.tools,
        template: Some(facts.template),
        window: Some(facts.window),
        warm: facts.loaded,
    })
}

/// Ids and entries of a model list.
fn listed_models(list: &Value) -> Vec<(&str, &Value)> {
    let entries = list["data"].as_array().or_else(|| list["models"].as_array()).or_else(|| list.as_array());
    entries.into_iter().flatten().filter_map(|entry| Some((entry["id"].as_str()?, entry))).collect()
}

/// Whether an entry means this model: by id, alias, `:latest`, or below a folder (`models/NAME`).
fn is_listed(id: &str, entry: &Value, model: &str) -> bool {
    let alias = || entry["aliases"].as_array().into_iter().flatten().any(|a| a == model);
    ollama::is_model(&json!(id), model) || id.strip_suffix(model).is_some_and(|rest| rest.ends_with('/')) || alias()
}

/// The window of an entry: llama.cpp, vLLM, and the names gateways use.
fn window_of(entry: &Value) -> Option<u32> {
    ["max_model_len", "context_length", "context_window", "max_context_length"]
        .iter()
        .fold(tokens(&entry["meta"]["n_ctx"]), |found, name| found.or_else(|| tokens(&entry[*name])))
}

#[cfg(test)]
mod tests;
