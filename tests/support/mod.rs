//! A scripted HTTP server: replays bytes with pauses, cuts and errors, and keeps what it was asked.
//!
//! It runs in a thread of its own, so it serves tests with paused time and children of the test process alike. Unit tests
//! of `src/model` and the tests of the whole program use this one file.
#![allow(dead_code, missing_docs)]

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Name of the model of [`Server::chat`].
pub const MODEL: &str = "scripted";

/// Longest wait for something that must happen; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// One reply of the script.
#[derive(Clone)]
pub struct Exchange {
    on: String,
    repeat: bool,
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Piece>,
    chunked: bool,
    silent: bool,
}

/// A part of a reply's body.
#[derive(Clone)]
pub enum Piece {
    Bytes(Vec<u8>),
    Pause(Duration),
    /// Nothing more until the client closes the connection.
    Hold,
    /// The connection ends here, in the middle.
    Cut,
    /// The connection is reset here.
    Reset,
}

impl Exchange {
    /// Answers requests whose method and path begin so (`"POST /v1/chat"`), once.
    pub fn on(request: &str) -> Self {
        Self {
            on: request.to_owned(),
            repeat: false,
            status: 200,
            headers: Vec::new(),
            pieces: Vec::new(),
            chunked: true,
            silent: false,
        }
    }

    /// Answers them every time.
    pub fn always(mut self) -> Self {
        self.repeat = true;
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.pieces.push(Piece::Bytes(bytes.into()));
        self
    }

    pub fn piece(mut self, piece: Piece) -> Self {
        self.pieces.push(piece);
        self
    }

    /// Sends the body without chunks, up to the end of the connection.
    pub fn unframed(mut self) -> Self {
        self.chunked = false;
        self
    }

    /// Sends nothing at all, not even a status, before the pieces.
    pub fn silent(mut self) -> Self {
        self.silent = true;
        self.chunked = false;
        self
    }

    pub fn json(self, value: &Value) -> Self {
        self.header("content-type", "application/json").body(value.to_string())
    }

    /// A stream of events.
    pub fn events(self, data: &[Value]) -> Self {
        let events: String = data.iter().map(|d| format!("data: {d}\n\n")).collect();
        self.header("content-type", "text/event-stream").body(events).body("data: [DONE]\n\n")
    }

    /// A stream of JSON lines, as Ollama sends it.
    pub fn lines(self, data: &[Value]) -> Self {
        let lines: String = data.iter().map(|d| format!("{d}\n")).collect();
        self.header("content-type", "application/x-ndjson").body(lines)
    }
}

/// What a scripted model says.
pub enum Say {
    Text(String),
    /// Words, and tool calls with this code.
    Calls(String, Vec<String>),
    /// Anything else.
    Reply(Exchange),
}

impl Say {
    pub fn text(text: &str) -> Self {
        Say::Text(text.to_owned())
    }

    pub fn call(code: &str) -> Self {
        Say::Calls(String::new(), vec![code.to_owned()])
    }

    fn exchange(self) -> Exchange {
        let on = Exchange::on("POST /v1/chat/completions");
        let (text, calls) = match self {
            Say::Reply(exchange) => return exchange,
            Say::Text(text) => (text, Vec::new()),
            Say::Calls(text, calls) => (text, calls),
        };
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let mut data = vec![chunk(json!({"role": "assistant", "content": null}), None)];
        // In two pieces, as a stream comes in pieces.
        let half = (0..=text.len() / 2).rev().find(|n| text.is_char_boundary(*n)).unwrap_or(0);
        let (a, b) = text.split_at(half);
        data.extend([a, b].iter().filter(|t| !t.is_empty()).map(|t| chunk(json!({"content": t}), None)));
        for (index, code) in calls.iter().enumerate() {
            let function = json!({"name": "execute_python", "arguments": json!({"code": code}).to_string()});
            let call = json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": function});
            data.push(chunk(json!({"tool_calls": [call]}), None));
        }
        data.push(chunk(json!({}), Some(finish)));
        data.push(json!({"object": "chat.completion.chunk", "model": MODEL, "choices": [],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}}));
        on.events(&data)
    }
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({"id": "x", "object": "chat.completion.chunk", "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

#[derive(Default)]
struct State {
    script: Vec<Exchange>,
    requests: Vec<Request>,
    /// Connections the client closed while the server still held them.
    hung_up: usize,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// The server. It ends with the value.
pub struct Server {
    port: u16,
    shared: Shared,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Plays the exchanges: each request takes the first unused one it matches, and gets 404 where there is none.
    pub fn play(script: Vec<Exchange>) -> Self {
        Self::play_at(0, script)
    }

    /// The same at this port.
    pub fn play_at(port: u16, script: Vec<Exchange>) -> Self {
        let shared: Shared = Arc::new((Mutex::new(State { script, ..State::default() }), Condvar::new()));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (tell_port, told_port) = mpsc::channel();
        let for_thread = shared.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
                tell_port.send(listener.local_addr().expect("an address").port()).expect("a test that waits");
                tokio::select! {
                    () = accept(listener, for_thread) => {}
                    _ = stopped => {}
                }
            });
        });
        let port = told_port.recv_timeout(PATIENCE).expect("the server starts");
        Self { port, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// An OpenAI-compatible server with the model [`MODEL`] that says these things, one a request. Asked once more, it
    /// answers with an error, so that a test sees the surplus request.
    pub fn chat(says: Vec<Say>) -> Self {
        Self::chat_at(0, says)
    }

    /// The same at this port.
    pub fn chat_at(port: u16, says: Vec<Say>) -> Self {
        let models = json!({"object": "list", "data": [{"id": MODEL, "object": "model", "meta": {"n_ctx": 8192}}]});
        let mut script = vec![Exchange::on("GET /v1/models").json(&models).always()];
        script.extend(says.into_iter().map(Say::exchange));
        let over = json!({"error": {"message": "the script is over"}});
        script.push(Exchange::on("POST /v1/chat/completions").status(500).json(&over).always());
        Self::play_at(port, script)
    }

    /// Base URL, with `/v1`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.0.lock().expect("no panic in the server").requests.clone()
    }

    /// The requests for a reply, without the probes.
    pub fn chats(&self) -> Vec<Request> {
        let is_chat = |r: &Request| r.method == "POST" && (r.path.ends_with("/completions") || r.path == "/api/chat");
        self.requests().into_iter().filter(is_chat).collect()
    }

    /// Waits until the client closed a connection that was held.
    pub fn wait_for_hang_up(&self) {
        let state = self.shared.0.lock().expect("no panic in the server");
        let (_state, waited) =
            self.shared.1.wait_timeout_while(state, PATIENCE, |s| s.hung_up == 0).expect("no panic in the server");
        assert!(!waited.timed_out(), "the client did not close the connection");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Shared) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, shared.clone()));
    }
}

async fn serve(mut stream: TcpStream, shared: Shared) {
    let Some(request) = read_request(&mut stream).await else { return };
    let line = format!("{} {}", request.method, request.path);
    let exchange = {
        let mut state = shared.0.lock().expect("no panic in the server");
        state.requests.push(request);
        match state.script.iter().position(|e| line.starts_with(&e.on)) {
            Some(at) if state.script[at].repeat => state.script[at].clone(),
            Some(at) => state.script.remove(at),
            None => Exchange::on("").status(404).json(&json!({"error": {"message": "File Not Found"}})),
        }
    };
    let hung_up = reply(&mut stream, exchange).await;
    if hung_up {
        shared.0.lock().expect("no panic in the server").hung_up += 1;
        shared.1.notify_all();
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0u8; 4096];
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end + 4;
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> =
        lines.filter_map(|l| l.split_once(':')).map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned())).collect();
    let mut body = bytes.split_off(end);
    let mut request = Request { method, path, headers, body: Vec::new() };
    let length: usize = request.header("content-length").and_then(|v| v.parse().ok()).unwrap_or(0);
    while body.len() < length {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => body.extend_from_slice(&buffer[..n]),
        }
    }
    request.body = body;
    Some(request)
}

/// Sends the reply. Returns whether the client hung up while the server held the connection or still wrote.
async fn reply(stream: &mut TcpStream, exchange: Exchange) -> bool {
    let mut head = format!("HTTP/1.1 {} Scripted\r\nconnection: close\r\n", exchange.status);
    for (name, value) in &exchange.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if exchange.chunked {
        head.push_str("transfer-encoding: chunked\r\n");
    }
    head.push_str("\r\n");
    if !exchange.silent && stream.write_all(head.as_bytes()).await.is_err() {
        return true;
    }
    for piece in exchange.pieces {
        match piece {
            Piece::Bytes(bytes) if bytes.is_empty() => {}
            Piece::Bytes(bytes) => {
                let framed = if exchange.chunked {
                    [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
                } else {
                    bytes
                };
                if stream.write_all(&framed).await.is_err() {
                    return true;
                }
            }
            Piece::Pause(time) => tokio::time::sleep(time).await,
            Piece::Hold => {
                let mut buffer = [0u8; 64];
                while matches!(stream.read(&mut buffer).await, Ok(n) if n > 0) {}
                return true;
            }
            Piece::Cut => return false,
            Piece::Reset => {
                let _ = stream.set_zero_linger();
                return false;
            }
        }
    }
    if exchange.chunked {
        let _ = stream.write_all(b"0\r\n\r\n").await;
    }
    let _ = stream.shutdown().await;
    // Until the client has read it all: closing with unread bytes would reset the connection.
    let mut buffer = [0u8; 64];
    while matches!(stream.read(&mut buffer).await, Ok(n) if n > 0) {}
    false
}
