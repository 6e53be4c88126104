//! One exchange with a server: send, wait, read, and what to do when it is refused.
//!
//! Everything happens inside the stream that is handed out, without a task of its own: dropping the stream drops the
//! connection, and servers stop writing when that closes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future;
use futures_util::stream::{self, BoxStream};
use jiff::Timestamp;
use reqwest::Response;
use serde_json::Value;
use tokio::sync::mpsc;

use super::accumulate::ReplyBuilder;
use super::errors::{self, Asked, Change, Then};
use super::history::{self, Rules};
use super::http::{self, Clocks, Http, Out, Teller};
use super::profile::{Learned, Memory};
use super::reading::{LOG_HINT, Reading, silent};
use super::{ChatModel, Delta, Draft, ollama, openai};
use crate::core::event::{Mode, ModelFailure, ModelFailureKind as Kind, Usage};
use crate::core::transcript::Prompt;

/// Repeats of a request that failed on the way, before any payload came.
const MAX_RETRIES: u32 = 3;

/// Wait before the first repeat; it doubles, and chance moves it by up to a half so that clients do not march in step.
const BACKOFF: Duration = Duration::from_millis(500);

/// How often a server that loads its model is asked, and for how long: large models come from slow disks.
const LOADING_POLL: Duration = Duration::from_secs(1);
const LOADING_LIMIT: Duration = Duration::from_secs(600);

/// Deltas that wait for the reader of the stream.
const CHANNEL: usize = 64;

/// Bytes of request a token stands for, before a server has counted: between prose (4.5) and tables of numbers (2).
const BYTES_PER_TOKEN: f64 = 3.2;

/// Counts outside these are no measure of the text: a chat template weighs on a short request, a cache takes away.
const LEAST_BYTES_PER_TOKEN: f64 = 1.5;
const MOST_BYTES_PER_TOKEN: f64 = 6.0;

/// Temperature for a model that repeated itself (measured with a 1.5 B model: at 0.1 it repeats what it wrote).
const WARMER: f64 = 0.6;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Ollama,
}

/// What a client is made of.
pub(super) struct Setup {
    pub(super) http: Http,
    pub(super) dialect: Dialect,
    pub(super) asked: Asked,
    pub(super) temperature: f64,
    pub(super) window: u32,
    pub(super) user_after_result: bool,
    pub(super) memory: Memory,
    /// The server has the model in memory.
    pub(super) warm: bool,
}

/// A client of one model at one server.
pub(super) struct Client(Arc<Inner>);

struct Inner {
    setup: Setup,
    learned: Mutex<Learned>,
    /// Number of the next call id. It starts with the clock, so that a resumed session does not repeat its ids.
    next_id: AtomicU64,
    warm: AtomicBool,
    /// Bytes of request a token stood for in the last exchange.
    bytes_per_token: Mutex<Option<f64>>,
}

/// Why an attempt failed, and what may be done about it.
pub(super) type Trouble = (ModelFailure, Then);

impl Client {
    pub(super) fn new(setup: Setup) -> Self {
        let learned = setup.memory.load();
        let now = Timestamp::now().as_millisecond();
        Self(Arc::new(Inner {
            warm: AtomicBool::new(setup.warm),
            learned: Mutex::new(learned),
            next_id: AtomicU64::new(u64::try_from(now).unwrap_or(0)),
            bytes_per_token: Mutex::new(None),
            setup,
        }))
    }
}

impl ChatModel for Client {
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Delta> {
        let inner = self.0.clone();
        let (out, mut deltas) = mpsc::channel(CHANNEL);
        let work = async move {
            let last = match inner.ask(&prompt, &out).await {
                Ok(draft) => Delta::Done(Box::new(draft)),
                Err(failure) => Delta::Failed(failure),
            };
            let _ = out.send(last).await;
        };
        let deltas = stream::poll_fn(move |context| deltas.poll_recv(context));
        let work = stream::once(work).filter_map(|()| future::ready(None));
        stream::select(deltas, work).boxed()
    }
}

impl Inner {
    /// Attempts until there is a reply or nothing helps.
    async fn ask(&self, prompt: &Prompt, out: &Out) -> Result<Draft, ModelFailure> {
        let mut learned = lock(&self.learned).clone();
        let mut changes: Vec<Change> = Vec::new();
        let mut retries = 0;
        let words = if self.warm.load(Ordering::Relaxed) { "waiting for the model" } else { "loading model" };
        let mut teller = Teller::new(words);
        self.warn_of_size(&self.body(prompt, &learned)?, out).await;
        loop {
            let body = self.body(prompt, &learned)?;
            let (failure, then) = match self.attempt(prompt, &body, &mut teller, out).await {
                Ok(draft) => {
                    self.warm.store(true, Ordering::Relaxed);
                    self.keep(&changes);
                    return Ok(draft);
                }
                Err(trouble) => trouble,
            };
            match then {
                Then::Fatal => return Err(failure),
                Then::Adapt(change) => {
                    learned.apply(change);
                    // Once each, and only where the change changes something.
                    if changes.contains(&change) || self.body(prompt, &learned)? == body {
                        return Err(failure);
                    }
                    changes.push(change);
                }
                Then::WaitLoading => {
                    if teller.elapsed() > LOADING_LIMIT {
                        return Err(failure);
                    }
                    teller.during(out, tokio::time::sleep(LOADING_POLL)).await;
                }
                Then::Retry(_) if retries == MAX_RETRIES => return Err(failure),
                Then::Retry(after) => {
                    retries += 1;
                    let words = format!("retry {retries}/{MAX_RETRIES}: {}", failure.failure.what);
                    let _ = out.send(Delta::Status(words)).await;
                    tokio::time::sleep(after.unwrap_or_else(|| backoff(retries))).await;
                }
            }
        }
    }

    fn rules(&self, learned: &Learned) -> Rules {
        Rules {
            ollama: self.setup.dialect == Dialect::Ollama,
            null_content: learned.null_content,
            user_after_result: self.setup.user_after_result,
        }
    }

    fn body(&self, prompt: &Prompt, learned: &Learned) -> Result<Value, ModelFailure> {
        let Setup { asked, temperature, window, .. } = &self.setup;
        let temperature = if prompt.warmer { temperature.max(WARMER) } else { *temperature };
        let rules = self.rules(learned);
        let messages = history::render(prompt, rules);
        history::check(&messages, rules).map_err(|what| {
            asked.failure(Kind::Other, "the conversation is not in order", &what, "please report this: it is our bug")
        })?;
        Ok(match self.setup.dialect {
            Dialect::OpenAi => openai::body(&asked.model, temperature, messages, prompt, learned),
            Dialect::Ollama => ollama::body((&asked.model, temperature, *window), messages, prompt, learned),
        })
    }

    /// Sends the request once and reads the reply.
    async fn attempt(&self, prompt: &Prompt, body: &Value, teller: &mut Teller, out: &Out) -> Result<Draft, Trouble> {
        let with_tools = prompt.mode == Mode::Tools && prompt.code_allowed;
        let asked = Asked { tools: with_tools, ..self.setup.asked.clone() };
        let endpoint = self.setup.http.endpoint();
        let mut clocks = Clocks::new(endpoint.place(), with_tools);
        let address = match self.setup.dialect {
            Dialect::OpenAi => endpoint.openai("/chat/completions"),
            Dialect::Ollama => endpoint.server("/api/chat"),
        };
        let request = self.setup.http.post(&address, body);
        let request = request.ok_or_else(|| (asked.unreachable("the address is no URL"), Then::Fatal))?;
        let mut response = match clocks.wait(teller, out, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(not_sent(&asked, &error)),
            Err(silence) => return Err((silent(&asked, silence), Then::Fatal)),
        };
        if !response.status().is_success() {
            return Err(refused(&asked, &mut response).await);
        }
        if http::is_packed(&response) {
            return Err((errors::packed(&asked), Then::Fatal));
        }
        if http::header(&response, "content-type").is_some_and(|t| t.starts_with("text/html")) {
            let page = http::error_text(&mut response).await;
            return Err((errors::web_page(&asked, &page), Then::Fatal));
        }
        let builder = ReplyBuilder::new(prompt.mode, prompt.code_allowed, self.next_id.load(Ordering::Relaxed));
        let reading = Reading { asked: &asked, clocks: &mut clocks, teller, out, builder };
        let maybe_whole = self.setup.dialect == Dialect::OpenAi && is_json(&response);
        let draft = reading.read(response, maybe_whole).await.map_err(|(mut failure, then)| {
            // Words of the server again, this time from inside the stream.
            if let Some(key) = &asked.key {
                failure.failure.why = key.hide_in(&failure.failure.why);
            }
            (failure, then)
        })?;
        let calls = u64::try_from(draft.candidates.len()).unwrap_or(0);
        self.next_id.fetch_add(calls, Ordering::Relaxed);
        self.watch_window(body, draft.reply.usage, out).await;
        Ok(draft)
    }

    /// Warns before a request that is larger than the window: the server may refuse it, or cut it without a word.
    async fn warn_of_size(&self, body: &Value, out: &Out) {
        let (estimated, window) = (self.tokens(body), self.setup.window);
        if estimated > u64::from(window) {
            let words = format!(
                "about {estimated} tokens are sent to a window of {window} (model.window): the server may refuse or cut them"
            );
            let _ = out.send(Delta::Warning(words)).await;
        }
    }

    /// About how many tokens a request has.
    fn tokens(&self, body: &Value) -> u64 {
        let bytes_per_token = lock(&self.bytes_per_token).unwrap_or(BYTES_PER_TOKEN);
        (body.to_string().len() as f64 / bytes_per_token) as u64
    }

    /// Warns when the server read far less than it was sent, and learns how many bytes a token stands for.
    async fn watch_window(&self, body: &Value, usage: Option<Usage>, out: &Out) {
        let Some(usage) = usage.filter(|u| u.prompt > 0) else { return };
        let estimated = self.tokens(body);
        // Ollama was told the window, so it cuts what is larger and nothing else; its counts may leave out what was cached.
        let cuts = self.setup.dialect == Dialect::OpenAi || estimated > u64::from(self.setup.window);
        if cuts && silently_cut(usage.prompt, estimated, self.setup.window) {
            let words = format!(
                "the server cut the conversation: about {estimated} tokens were sent, {} were read",
                usage.prompt
            );
            let _ = out.send(Delta::Warning(words)).await;
        } else {
            let counted = body.to_string().len() as f64 / usage.prompt as f64;
            *lock(&self.bytes_per_token) = Some(counted.clamp(LEAST_BYTES_PER_TOKEN, MOST_BYTES_PER_TOKEN));
        }
    }

    /// Keeps what a request was changed by, once the changed request was accepted.
    fn keep(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let apply = |learned: &mut Learned| changes.iter().for_each(|change| learned.apply(*change));
        apply(&mut lock(&self.learned));
        // A file of a few hundred bytes; writing it takes no longer than a token.
        self.setup.memory.update(apply);
    }
}

/// Whether the server dropped part of a conversation without a word: it counted far fewer tokens than were sent, and so
/// many that it filled (half of) a window. Small counts are no sign: some servers leave out what they had cached.
pub fn silently_cut(prompt_tokens: u64, estimated: u64, window: u32) -> bool {
    /// A count below this share of the estimate is no longer an error of the estimate.
    const SHARE: f64 = 0.55;
    /// Half of the smallest window in use; a server that cuts keeps at least about that.
    const SMALLEST_CUT: u64 = 1000;
    let fits_no_more = estimated > u64::from(window) && prompt_tokens.saturating_add(16) >= u64::from(window);
    let far_less = (prompt_tokens as f64) < estimated as f64 * SHARE;
    prompt_tokens >= SMALLEST_CUT && (far_less || fits_no_more)
}

fn is_json(response: &Response) -> bool {
    http::header(response, "content-type").is_some_and(|t| t.to_ascii_lowercase().starts_with("application/json"))
}

/// The request did not get through.
fn not_sent(asked: &Asked, error: &reqwest::Error) -> Trouble {
    let why = http::reason(error);
    if error.is_connect() {
        return (asked.unreachable(&why), Then::Fatal);
    }
    let what = format!("the connection to {} broke before a reply", asked.base_url);
    let failure = asked.failure(Kind::Unreachable, what, &why, LOG_HINT);
    (failure, Then::Retry(None))
}

/// The server answered with a status that is no success.
async fn refused(asked: &Asked, response: &mut Response) -> Trouble {
    let status = response.status().as_u16();
    if response.status().is_redirection() {
        return (errors::redirect(asked, status, http::header(response, "location")), Then::Fatal);
    }
    let retry_after = http::header(response, "retry-after").map(str::to_owned);
    let body = http::error_text(response).await;
    errors::refusal(asked, status, retry_after.as_deref(), &body, Timestamp::now())
}

/// Half a second, doubled with each retry, moved by chance by up to a half.
fn backoff(retry: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let chance = (RandomState::new().hash_one(retry) % 1000) as f64 / 1000.0;
    BACKOFF.mul_f64(f64::from(1u32 << retry.saturating_sub(1).min(8)) * (0.5 + chance))
}

/// The data behind a lock; a panic elsewhere does not make these values wrong.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
