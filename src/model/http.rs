//! HTTP as all requests to model servers share it: one client per endpoint, its key, and the three clocks.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Delta;
use super::endpoint::{Endpoint, Place};
use super::errors::Asked;
use super::secret::Secret;
use crate::core::event::{ModelFailure, ModelFailureKind as Kind};

/// A host that takes longer to accept a connection is not there.
const CONNECT: Duration = Duration::from_secs(5);

/// First byte from this machine or the local network: a cold start reads gigabytes from a disk, and a client that hangs up
/// makes the server start anew.
const FIRST_BYTE_NEAR: Duration = Duration::from_secs(600);

/// First byte from elsewhere, where models are loaded.
const FIRST_BYTE_FAR: Duration = Duration::from_secs(120);

/// No byte at all in the middle of a reply.
const SILENCE: Duration = Duration::from_secs(120);

/// Keep-alives but no payload: a proxy may send those for a model that is long gone.
const PAYLOAD_SILENCE: Duration = Duration::from_secs(300);

/// No byte while a near server may hold a call back until it is whole (Ollama does): 600 tokens at one a second.
const HELD_CALL: Duration = Duration::from_secs(600);

/// After the server said that the reply is over, the token counts may still come.
const AFTER_END: Duration = Duration::from_secs(2);

/// Waiting is said after this long, once: how long it has been is for the user interface to count.
const FIRST_STATUS: Duration = Duration::from_secs(3);

/// Largest error body that is read. What is shown of it is far less.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// An error body that does not come within this time is not waited for.
const ERROR_BODY: Duration = Duration::from_secs(5);

/// Where deltas go.
pub(super) type Out = mpsc::Sender<Delta>;

/// A client for one endpoint. It follows no redirect and sends the key nowhere else.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Client,
    endpoint: Endpoint,
}

impl Http {
    /// Builds the client; nothing is sent.
    pub(super) fn new(endpoint: Endpoint, key: Option<&Secret>, asked: &Asked) -> Result<Self, ModelFailure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/x-ndjson, application/json"));
        // A stream that is packed comes in lumps, and what a small packed body holds has no bound.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        // User information of the URL takes the place of the key: there is one Authorization header.
        if let Some(key) = key.filter(|_| endpoint.user_info().is_none()) {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose())).map_err(|_| {
                asked.failure(Kind::Refused, "the key cannot be sent", "it holds a line break or the like", KEY_HINT)
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut builder = Client::builder()
            .default_headers(headers)
            .user_agent(concat!("sandscript/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT);
        if endpoint.is_loopback() {
            // No resolver and no proxy gets between this program and this machine. Port 0 means the port of the URL.
            let here = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
            builder = builder.no_proxy().resolve_to_addrs("localhost", &here);
        }
        if !needs_certificates(&endpoint, std::env::vars().filter(|(name, _)| is_proxy_variable(name)).map(|v| v.1)) {
            builder = builder.tls_certs_only([]);
        }
        match builder.build() {
            Ok(client) => Ok(Self { client, endpoint }),
            Err(error) => Err(asked.failure(Kind::Other, "the HTTP client cannot start", &reason(&error), CLIENT_HINT)),
        }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn get(&self, address: &str) -> Option<RequestBuilder> {
        self.request(Method::GET, address)
    }

    pub(super) fn post(&self, address: &str, body: &Value) -> Option<RequestBuilder> {
        let request = self.request(Method::POST, address)?;
        Some(request.header(CONTENT_TYPE, "application/json").body(body.to_string()))
    }

    /// `None` if the address is no URL, which a parsed endpoint rules out.
    fn request(&self, method: Method, address: &str) -> Option<RequestBuilder> {
        let mut url = Url::parse(address).ok()?;
        if let Some((name, password)) = self.endpoint.user_info() {
            url.set_username(name).ok()?;
            url.set_password(Some(password)).ok()?;
        }
        Some(self.client.request(method, url))
    }
}

const CLIENT_HINT: &str = "check HTTP_PROXY and HTTPS_PROXY, and the system's certificates";
const KEY_HINT: &str = "check the key (model.key_env or model.key_file)";

fn is_proxy_variable(name: &str) -> bool {
    ["http_proxy", "https_proxy", "all_proxy"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Reading the system's certificates takes longer than everything else at the start, so it is left out where no
/// encrypted connection can come up: plain http, unless a proxy is itself spoken to over https.
fn needs_certificates(endpoint: &Endpoint, mut proxies: impl Iterator<Item = String>) -> bool {
    let encrypted_proxy = |proxy: String| proxy.to_ascii_lowercase().starts_with("https:");
    endpoint.https() || (!endpoint.is_loopback() && proxies.any(encrypted_proxy))
}

/// The innermost cause. The outer ones repeat the URL.
pub(super) fn reason(error: &reqwest::Error) -> String {
    if error.is_connect() && error.is_timeout() {
        return format!("no connection within {} s", CONNECT.as_secs());
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if cause.is::<reqwest::Error>() { "the connection broke".to_owned() } else { cause.to_string() }
}

/// The body of an error or a probe, as far as it comes within bounds and can be read.
pub(super) async fn short_text(response: &mut Response, max_bytes: usize, patience: Duration) -> String {
    if is_packed(response) {
        return String::new();
    }
    let mut bytes = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > max_bytes {
                bytes.truncate(max_bytes);
                break;
            }
        }
    };
    // What came before the time ran out is still of use.
    let _ = tokio::time::timeout(patience, read).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The body of an error.
pub(super) async fn error_text(response: &mut Response) -> String {
    short_text(response, MAX_ERROR_BYTES, ERROR_BODY).await
}

/// Whether the body is compressed.
pub(super) fn is_packed(response: &Response) -> bool {
    let plain = |value: &HeaderValue| value.is_empty() || value.as_bytes().eq_ignore_ascii_case(b"identity");
    !response.headers().get_all(CONTENT_ENCODING).iter().all(plain)
}

/// A header as text.
pub(super) fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Which clock ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing ever came.
    NoFirstByte(Duration),
    /// Something came, then nothing.
    Quiet(Duration),
    /// Signs of life came, but no payload.
    NoPayload(Duration),
}

/// Says what is being waited for, once, after 3 s.
#[derive(Debug)]
pub(super) struct Teller {
    words: &'static str,
    started: Instant,
    said: bool,
}

impl Teller {
    pub(super) fn new(words: &'static str) -> Self {
        Self { words, started: Instant::now(), said: false }
    }

    /// Waits for the work and tells meanwhile.
    pub(super) async fn during<T>(&mut self, out: &Out, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tokio::time::sleep_until(self.started + FIRST_STATUS), if !self.said => {
                    self.said = true;
                    let words = self.words.to_string();
                    // A closed channel means the stream was dropped, and this future with it.
                    let _ = out.send(Delta::Status(words)).await;
                }
            }
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// The clocks of one request after the connection: first byte, silence, silence of payload.
#[derive(Debug)]
pub(super) struct Clocks {
    first_byte: Duration,
    silence: Duration,
    started: Instant,
    last_byte: Option<Instant>,
    last_payload: Option<Instant>,
    ended: bool,
}

impl Clocks {
    /// Clocks that start now. `held_calls`: the server may hold a call back until it is whole.
    pub(super) fn new(place: Place, held_calls: bool) -> Self {
        let near = place != Place::Public;
        Self {
            first_byte: if near { FIRST_BYTE_NEAR } else { FIRST_BYTE_FAR },
            silence: if near && held_calls { HELD_CALL } else { SILENCE },
            started: Instant::now(),
            last_byte: None,
            last_payload: None,
            ended: false,
        }
    }

    /// Bytes came.
    pub(super) fn heard(&mut self) {
        self.last_byte = Some(Instant::now());
    }

    /// Payload came.
    pub(super) fn payload(&mut self) {
        self.last_payload = Some(Instant::now());
    }

    /// The server said that the reply is over.
    pub(super) fn ended(&mut self) {
        self.ended = true;
    }

    /// Whether payload has come: from then on a request is never repeated.
    pub(super) fn has_payload(&self) -> bool {
        self.last_payload.is_some()
    }

    /// When the patience ends, and with which reason.
    fn deadline(&self) -> (Instant, Silence) {
        let Some(last_byte) = self.last_byte else {
            return (self.started + self.first_byte, Silence::NoFirstByte(self.first_byte));
        };
        if self.ended {
            return (last_byte + AFTER_END, Silence::Quiet(AFTER_END));
        }
        let (payload_from, payload_limit) = match self.last_payload {
            Some(at) => (at, PAYLOAD_SILENCE.max(self.silence)),
            None => (self.started, PAYLOAD_SILENCE.max(self.first_byte)),
        };
        // Before the first payload the server may be reading the prompt, as long as it may take for a first byte.
        let quiet_limit = if self.has_payload() { self.silence } else { self.silence.max(self.first_byte) };
        let quiet = (last_byte + quiet_limit, Silence::Quiet(quiet_limit));
        let empty = (payload_from + payload_limit, Silence::NoPayload(payload_limit));
        if quiet.0 <= empty.0 { quiet } else { empty }
    }

    /// Waits for the work, but no longer than the clocks allow; tells meanwhile as long as nothing came.
    pub(super) async fn wait<T>(
        &self,
        teller: &mut Teller,
        out: &Out,
        work: impl Future<Output = T>,
    ) -> Result<T, Silence> {
        let (deadline, silence) = self.deadline();
        let work = tokio::time::timeout_at(deadline, work);
        let done = if self.has_payload() { work.await } else { teller.during(out, work).await };
        done.map_err(|_| silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::parse(url).unwrap()
    }

    #[test]
    fn certificates_are_read_only_where_something_is_encrypted() {
        let needs =
            |url: &str, proxy: Option<&str>| needs_certificates(&endpoint(url), proxy.map(str::to_owned).into_iter());
        assert!(!needs("http://localhost:11434/v1", None));
        assert!(!needs("http://localhost:11434/v1", Some("https://proxy")), "loopback has no proxy");
        assert!(!needs("http://192.168.1.2:8000", Some("http://proxy")));
        assert!(needs("http://192.168.1.2:8000", Some("HTTPS://proxy")));
        assert!(needs("https://example.com", None));
        assert!(is_proxy_variable("HTTP_PROXY") && is_proxy_variable("all_proxy") && !is_proxy_variable("NO_PROXY"));
    }

    #[test]
    fn a_key_with_a_line_break_is_refused_and_not_shown() {
        let key = Secret::new("abcdefgh\nX-Evil: 1").unwrap();
        let failure = Http::new(endpoint("http://localhost:1"), Some(&key), &Asked::default()).unwrap_err();
        assert!(!format!("{failure:?}").contains("Evil"));
    }

    fn limit(clocks: &Clocks) -> (Duration, Silence) {
        let (deadline, silence) = clocks.deadline();
        (deadline - Instant::now(), silence)
    }

    #[tokio::test(start_paused = true)]
    async fn the_clocks_of_a_far_server() {
        let mut clocks = Clocks::new(Place::Public, true);
        assert_eq!(limit(&clocks), (FIRST_BYTE_FAR, Silence::NoFirstByte(FIRST_BYTE_FAR)));
        clocks.heard();
        clocks.payload();
        tokio::time::advance(Duration::from_secs(100)).await;
        assert_eq!(limit(&clocks), (SILENCE - Duration::from_secs(100), Silence::Quiet(SILENCE)));
        // A keep-alive is a sign of life, but no payload: it does not push the second clock.
        clocks.heard();
        assert_eq!(limit(&clocks), (SILENCE, Silence::Quiet(SILENCE)));
        tokio::time::advance(Duration::from_secs(100)).await;
        clocks.heard();
        assert_eq!(limit(&clocks), (Duration::from_secs(100), Silence::NoPayload(PAYLOAD_SILENCE)));
        clocks.payload();
        clocks.ended();
        assert_eq!(limit(&clocks).0, AFTER_END);
    }

    #[tokio::test(start_paused = true)]
    async fn a_near_server_may_load_read_and_hold_calls_back() {
        let mut clocks = Clocks::new(Place::Loopback, true);
        assert_eq!(limit(&clocks).0, FIRST_BYTE_NEAR);
        tokio::time::advance(Duration::from_secs(30)).await;
        clocks.heard();
        assert_eq!(limit(&clocks), (FIRST_BYTE_NEAR - Duration::from_secs(30), Silence::NoPayload(FIRST_BYTE_NEAR)));
        clocks.payload();
        assert_eq!(limit(&clocks).0, HELD_CALL);
        let mut text_mode = Clocks::new(Place::Private, false);
        text_mode.heard();
        text_mode.payload();
        assert_eq!(limit(&text_mode), (SILENCE, Silence::Quiet(SILENCE)));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_told_and_ends() {
        let (out, mut told) = mpsc::channel(1000);
        let clocks = Clocks::new(Place::Public, false);
        let mut teller = Teller::new("loading model");
        let waited = clocks.wait(&mut teller, &out, std::future::pending::<()>()).await;
        assert_eq!(waited, Err(Silence::NoFirstByte(FIRST_BYTE_FAR)));
        drop(out);
        let mut words = Vec::new();
        while let Some(Delta::Status(text)) = told.recv().await {
            words.push(text);
        }
        assert_eq!(words, ["loading model"]);
    }
}
