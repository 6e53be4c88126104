use std::path::Path;

use serde_json::json;

use super::*;
use crate::core::event::{Call, Channel, How};
use crate::core::transcript::Message;
use crate::model::connect::{Connected, ModelConfig, connect};
use crate::model::secret::Secret;
use crate::model::support::{Exchange, MODEL, Piece, Say, Server};

const CHAT: &str = "POST /v1/chat/completions";

fn config(server: &Server) -> ModelConfig {
    config_at(server.url())
}

fn config_at(base_url: String) -> ModelConfig {
    ModelConfig {
        base_url,
        model: MODEL.into(),
        key: None,
        temperature: 0.1,
        mode: None,
        window: None,
        cache_dir: None,
    }
}

async fn connected(server: &Server) -> Connected {
    connect(config(server)).await.unwrap()
}

fn question(mode: Mode) -> Prompt {
    let messages = vec![Message::System("Be exact.".into()), Message::User("What is 2+2?".into())];
    Prompt { messages, mode, code_allowed: true, tool: String::new(), warmer: false, max_tokens: 50 }
}

async fn ask(connected: &Connected, prompt: Prompt) -> Vec<Delta> {
    connected.model.stream(prompt).collect().await
}

/// The last delta, of which there is exactly one kind.
fn done(deltas: &[Delta]) -> Draft {
    match deltas.last() {
        Some(Delta::Done(draft)) => (**draft).clone(),
        other => panic!("no reply: {other:?}"),
    }
}

fn failed(deltas: &[Delta]) -> ModelFailure {
    match deltas.last() {
        Some(Delta::Failed(failure)) => failure.clone(),
        other => panic!("no failure: {other:?}"),
    }
}

fn words(deltas: &[Delta]) -> String {
    let piece = |delta: &Delta| match delta {
        Delta::Piece(Channel::Text, text) => Some(text.clone()),
        Delta::Piece(..) | Delta::Status(_) | Delta::Warning(_) | Delta::Done(_) | Delta::Failed(_) => None,
    };
    deltas.iter().filter_map(piece).collect()
}

fn statuses(deltas: &[Delta]) -> Vec<&str> {
    let mut texts = Vec::new();
    for delta in deltas {
        if let Delta::Status(text) = delta {
            texts.push(text.as_str());
        }
    }
    texts
}

fn refuse(status: u16, message: &str) -> Say {
    let body = json!({"error": {"message": message}});
    Say::Reply(Exchange::on(CHAT).status(status).header("retry-after", "0").json(&body))
}

fn text_chunk(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

#[tokio::test]
async fn words_and_a_call_come_through() {
    let server = Server::chat(vec![Say::Calls("I add.".into(), vec!["print(2+2)".into()]), Say::text("It is 4.")]);
    let connected = connected(&server).await;
    let deltas = ask(&connected, question(Mode::Tools)).await;
    assert_eq!(words(&deltas), "I add.");
    let draft = done(&deltas);
    assert_eq!(draft.candidates[0].readings, ["print(2+2)"]);
    assert_eq!(draft.reply.usage, Some(Usage { prompt: 100, completion: 20 }));

    let mut prompt = question(Mode::Tools);
    let id = draft.candidates[0].id.clone();
    let call = Call { id: id.clone(), code: "print(2+2)".into(), timeout_seconds: None, how: How::Call, raw: None };
    prompt.messages.push(Message::Assistant { text: "I add.".into(), calls: vec![call] });
    prompt.messages.push(Message::ToolResult { call: id, text: "exit_code: 0\nstdout:\n4".into(), failed: false });
    assert_eq!(done(&ask(&connected, prompt).await).reply.text, "It is 4.");

    let chats = server.chats();
    assert_eq!(chats.len(), 2);
    let body = chats[0].json();
    assert_eq!((&body["model"], &body["max_tokens"], &body["temperature"]), (&json!(MODEL), &json!(50), &json!(0.1)));
    assert_eq!(chats[0].header("authorization"), None, "no key, no header");
    assert_eq!(chats[1].json()["messages"][3]["role"], "tool");
}

#[tokio::test]
async fn each_call_of_a_session_has_its_own_id() {
    let server = Server::chat(vec![Say::Calls(String::new(), vec!["1".into(), "2".into()]), Say::call("3")]);
    let connected = connected(&server).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.extend(done(&ask(&connected, question(Mode::Tools)).await).candidates.into_iter().map(|c| c.id));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn the_key_goes_to_its_endpoint_and_not_along_a_redirect() {
    let elsewhere = Server::chat(vec![Say::text("gotcha")]);
    let target = format!("{}/chat/completions", elsewhere.url());
    let redirect = Exchange::on(CHAT).status(307).header("location", &target);
    let server = Server::chat(vec![Say::Reply(redirect)]);
    let key = Secret::new("sk-0123456789");
    let connected = connect(ModelConfig { key, ..config(&server) }).await.unwrap();
    let failure = failed(&ask(&connected, question(Mode::Text)).await);
    assert!(failure.failure.why.contains("127.0.0.1"), "{failure:?}");
    assert_eq!(server.chats()[0].header("authorization"), Some("Bearer sk-0123456789"));
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn user_information_is_sent_as_such_and_never_shown() {
    let server = Server::chat(vec![refuse(401, "who are you, sk-0123456789?")]);
    let base_url = server.url().replace("http://", "http://me:ge%20heim@");
    let key = Secret::new("sk-0123456789");
    let connected = connect(ModelConfig { base_url, key, ..config(&server) }).await.unwrap();
    let failure = failed(&ask(&connected, question(Mode::Text)).await);
    assert_eq!(failure.kind, Kind::Refused);
    assert!(!format!("{failure:?} {}", connected.base_url).contains("heim"), "{failure:?}");
    assert!(!format!("{failure:?}").contains("sk-0"), "{failure:?}");
    // "me:ge heim" in base 64.
    assert_eq!(server.chats()[0].header("authorization"), Some("Basic bWU6Z2UgaGVpbQ=="));
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let busy = || refuse(503, "server busy, please try again");
    let server = Server::chat(vec![busy(), busy(), Say::text("4")]);
    let deltas = ask(&connected(&server).await, question(Mode::Text)).await;
    assert_eq!(done(&deltas).reply.text, "4");
    assert_eq!(server.chats().len(), 3);
    assert!(statuses(&deltas)[1].starts_with("retry 2/3: "), "{deltas:?}");
}

#[tokio::test]
async fn a_busy_server_is_given_up_after_three_retries() {
    let server = Server::chat((0..9).map(|_| refuse(429, "slow down")).collect());
    let failure = failed(&ask(&connected(&server).await, question(Mode::Text)).await);
    assert_eq!(server.chats().len(), 4);
    assert!(failure.failure.why.contains("slow down"));
}

#[tokio::test]
async fn a_deterministic_500_is_asked_once() {
    let server = Server::chat(vec![refuse(500, "Failed to parse tool call arguments as JSON"), Say::text("no")]);
    let failure = failed(&ask(&connected(&server).await, question(Mode::Tools)).await);
    assert_eq!((failure.kind, server.chats().len()), (Kind::NoTools, 1));
}

#[tokio::test]
async fn a_loading_server_is_waited_for_without_counting_retries() {
    let server = Server::chat(vec![refuse(503, "Loading model"), Say::text("4")]);
    let deltas = ask(&connected(&server).await, question(Mode::Text)).await;
    assert_eq!(done(&deltas).reply.text, "4");
    assert!(statuses(&deltas).iter().all(|s| !s.starts_with("retry")), "{deltas:?}");
}

async fn connected_in(server: &Server, folder: &Path) -> Connected {
    connect(ModelConfig { cache_dir: Some(folder.to_owned()), ..config(server) }).await.unwrap()
}

#[tokio::test]
async fn a_refused_field_is_changed_once_and_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.";
    let temperature = "Unsupported value: 'temperature' does not support 0.1";
    let says = vec![refuse(400, tokens), refuse(400, temperature), Say::text("4"), Say::text("5"), Say::text("6")];
    let server = Server::chat(says);
    let first = connected_in(&server, folder.path()).await;
    assert_eq!(done(&ask(&first, question(Mode::Text)).await).reply.text, "4");
    ask(&first, question(Mode::Text)).await;
    ask(&connected_in(&server, folder.path()).await, question(Mode::Text)).await;
    let chats = server.chats();
    assert_eq!(chats.len(), 5);
    assert_eq!(chats[1].json()["max_completion_tokens"], 50);
    for chat in &chats[2..] {
        let body = chat.json();
        assert!(body.get("max_tokens").is_none() && body.get("temperature").is_none(), "{body}");
        assert_eq!(body["max_completion_tokens"], 50);
    }
}

#[tokio::test]
async fn a_change_that_does_not_help_is_not_repeated_or_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::chat((0..5).map(|_| refuse(400, "max_tokens is wrong")).collect());
    let failure = failed(&ask(&connected_in(&server, folder.path()).await, question(Mode::Text)).await);
    assert!(failure.failure.why.contains("max_tokens is wrong"));
    assert_eq!(server.chats().len(), 2);
    assert!(!folder.path().join("models.json").exists());
}

#[tokio::test]
async fn a_complaint_about_content_changes_nothing_where_there_are_no_calls() {
    let server = Server::chat(vec![refuse(400, "content must be a string"), Say::text("no")]);
    failed(&ask(&connected(&server).await, question(Mode::Tools)).await);
    assert_eq!(server.chats().len(), 1);
}

#[tokio::test]
async fn a_reply_that_breaks_off_keeps_its_words_and_is_not_asked_again() {
    for end in [Piece::Cut, Piece::Reset] {
        let cut = Exchange::on(CHAT)
            .header("content-type", "text/event-stream")
            .body(text_chunk("half an ans") + "data: {\"choi");
        let server = Server::chat(vec![Say::Reply(cut.piece(Piece::Pause(Duration::from_millis(50))).piece(end))]);
        let deltas = ask(&connected(&server).await, question(Mode::Text)).await;
        let failure = failed(&deltas);
        assert_eq!((failure.kind, failure.partial.as_str()), (Kind::BrokeOff, "half an ans"));
        assert_eq!(words(&deltas), "half an ans");
        assert_eq!(server.chats().len(), 1);
    }
}

#[tokio::test]
async fn an_end_without_a_finish_is_no_answer() {
    let end = Exchange::on(CHAT).header("content-type", "text/event-stream").body(text_chunk("half"));
    let server = Server::chat(vec![Say::Reply(end)]);
    let failure = failed(&ask(&connected(&server).await, question(Mode::Text)).await);
    assert_eq!((failure.kind, failure.partial.as_str()), (Kind::BrokeOff, "half"));
}

#[tokio::test]
async fn a_connection_that_breaks_before_any_payload_is_tried_again() {
    let nothing = Exchange::on(CHAT).silent().piece(Piece::Cut);
    let only_life = Exchange::on(CHAT).header("content-type", "text/event-stream").body(": ping\n\n").piece(Piece::Cut);
    let server = Server::chat(vec![Say::Reply(nothing), Say::Reply(only_life), Say::text("4")]);
    let deltas = ask(&connected(&server).await, question(Mode::Text)).await;
    assert_eq!(done(&deltas).reply.text, "4");
    assert_eq!(server.chats().len(), 3);
}

#[tokio::test]
async fn dropping_the_stream_hangs_up() {
    let held = Exchange::on(CHAT).header("content-type", "text/event-stream").body(text_chunk("on and"));
    let server = Server::chat(vec![Say::Reply(held.piece(Piece::Hold))]);
    let mut stream = connected(&server).await.model.stream(question(Mode::Text));
    assert_eq!(stream.next().await, Some(Delta::Piece(Channel::Text, "on and".into())));
    drop(stream);
    // The connection is closed by a task of this runtime, so the wait must not block it.
    tokio::task::spawn_blocking(move || server.wait_for_hang_up()).await.unwrap();
}

#[tokio::test]
async fn dropping_the_stream_before_the_first_byte_hangs_up_too() {
    let server = Server::chat(vec![Say::Reply(Exchange::on(CHAT).silent().piece(Piece::Hold))]);
    let connected = connected(&server).await;
    let mut stream = connected.model.stream(question(Mode::Text));
    while server.chats().is_empty() {
        let waited = tokio::time::timeout(Duration::from_millis(10), stream.next()).await;
        assert!(waited.is_err(), "{waited:?}");
    }
    drop(stream);
    // The connection is closed by a task of this runtime, so the wait must not block it.
    tokio::task::spawn_blocking(move || server.wait_for_hang_up()).await.unwrap();
}

#[tokio::test]
async fn an_end_that_is_said_need_not_be_waited_for() {
    let finish = json!({"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}]});
    let open = Exchange::on(CHAT).header("content-type", "text/event-stream").body(format!("data: {finish}\n\n"));
    let server = Server::chat(vec![Say::Reply(open.piece(Piece::Hold))]);
    assert_eq!(done(&ask(&connected(&server).await, question(Mode::Text)).await).reply.text, "4");
}

#[tokio::test]
async fn a_body_that_was_not_streamed_is_a_reply_too() {
    let message = json!({"role": "assistant", "content": "4"});
    let body = json!({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]});
    let padded = Exchange::on(CHAT).header("content-type", "application/json; charset=utf-8");
    let padded = padded.body("\n\n").body(serde_json::to_string_pretty(&body).unwrap());
    let server = Server::chat(vec![Say::Reply(padded)]);
    assert_eq!(done(&ask(&connected(&server).await, question(Mode::Text)).await).reply.text, "4");
}

#[tokio::test]
async fn events_under_a_wrong_content_type_are_read() {
    let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let events = format!("{}data: {finish}\n\ndata: [DONE]\n\n", text_chunk("4"));
    let server =
        Server::chat(vec![Say::Reply(Exchange::on(CHAT).header("content-type", "application/json").body(events))]);
    assert_eq!(done(&ask(&connected(&server).await, question(Mode::Text)).await).reply.text, "4");
}

#[tokio::test]
async fn half_a_body_is_a_broken_line_and_no_word_of_the_server() {
    let half = Exchange::on(CHAT).header("content-type", "application/json").body(r#"{"choices": [{"mess"#);
    let server = Server::chat(vec![Say::Reply(half.piece(Piece::Cut))]);
    let failure = failed(&ask(&connected(&server).await, question(Mode::Text)).await);
    assert_eq!(failure.kind, Kind::BrokeOff, "{failure:?}");
    assert!(failure.failure.what.contains("broke in the middle"));
}

#[tokio::test]
async fn a_body_without_end_is_not_kept() {
    let endless = Exchange::on(CHAT).header("content-type", "application/json").body("{").body(" ".repeat(9 << 20));
    let server = Server::chat(vec![Say::Reply(endless.piece(Piece::Hold))]);
    let failure = failed(&ask(&connected(&server).await, question(Mode::Text)).await);
    assert_eq!(failure.failure.what, "the reply is larger than a reply can be");
}

#[tokio::test]
async fn a_web_page_is_no_reply() {
    let page = Exchange::on(CHAT).header("content-type", "text/html").body("<html><title>Log in</title></html>");
    let server = Server::chat(vec![Say::Reply(page)]);
    let failure = failed(&ask(&connected(&server).await, question(Mode::Text)).await);
    assert_eq!(failure.failure.why, "Log in");
}

#[tokio::test]
async fn an_error_inside_the_stream_does_not_show_the_key() {
    let error = json!({"error": {"message": "bad key sk-0123456789"}});
    let server = Server::chat(vec![Say::Reply(Exchange::on(CHAT).events(&[error]))]);
    let key = Secret::new("sk-0123456789");
    let connected = connect(ModelConfig { key, ..config(&server) }).await.unwrap();
    let failure = failed(&ask(&connected, question(Mode::Text)).await);
    assert!(failure.failure.why.contains("bad key ***"), "{failure:?}");
}

#[tokio::test]
async fn a_conversation_out_of_order_is_our_bug_and_not_sent() {
    let server = Server::chat(vec![]);
    let prompt = Prompt { messages: vec![Message::System("s".into())], ..question(Mode::Tools) };
    let failure = failed(&ask(&connected(&server).await, prompt).await);
    assert!(failure.failure.hint.contains("our bug"));
    assert!(server.chats().is_empty());
}

#[tokio::test]
async fn ollama_is_spoken_natively() {
    let call = json!({"function": {"name": "execute_python", "arguments": {"code": "print(4)"}}});
    let lines = [
        json!({"model": "nemo", "message": {"role": "assistant", "content": "I "}, "done": false}),
        json!({"model": "nemo", "message": {"role": "assistant", "content": "add.", "tool_calls": [call]}, "done": false}),
        json!({"model": "nemo", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
            "prompt_eval_count": 90, "eval_count": 12}),
    ];
    let show = json!({"capabilities": ["completion", "tools"], "template": "{{ [AVAILABLE_TOOLS] }}",
        "model_info": {"llama.context_length": 131072}});
    let server = Server::play(vec![
        Exchange::on("GET /api/version").json(&json!({"version": "0.33.0"})),
        Exchange::on("POST /api/show").json(&show),
        Exchange::on("GET /api/ps").json(&json!({"models": []})),
        Exchange::on("POST /api/chat").lines(&lines),
    ]);
    let connected = connect(ModelConfig { model: "nemo".into(), ..config(&server) }).await.unwrap();
    let mut prompt = question(Mode::Tools);
    let call = Call { id: "abcdefgh1".into(), code: "1/0".into(), timeout_seconds: None, how: How::Call, raw: None };
    prompt.messages.push(Message::Assistant { text: String::new(), calls: vec![call] });
    prompt.messages.push(Message::ToolResult { call: "abcdefgh1".into(), text: "exit_code: 1".into(), failed: true });
    let deltas = ask(&connected, prompt).await;
    assert_eq!(words(&deltas), "I add.");
    let draft = done(&deltas);
    assert_eq!(draft.candidates[0].readings, ["print(4)"]);
    assert_eq!(draft.reply.usage, Some(Usage { prompt: 90, completion: 12 }));
    let body = server.chats()[0].json();
    assert_eq!(body["options"]["num_ctx"], 8192);
    assert_eq!(body["messages"][3]["tool_name"], "execute_python");
    assert_eq!(body["messages"].as_array().unwrap().last().unwrap()["role"], "user", "tools and system come back");
}

#[tokio::test]
async fn a_cut_by_the_server_is_said() {
    let finish = json!({"choices": [{"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2048, "completion_tokens": 1}});
    let server = Server::chat(vec![Say::Reply(Exchange::on(CHAT).events(&[finish]))]);
    let mut prompt = question(Mode::Text);
    prompt.messages.push(Message::User("many words ".repeat(3000)));
    let deltas = ask(&connected(&server).await, prompt).await;
    assert!(deltas.iter().any(|d| matches!(d, Delta::Warning(s) if s.starts_with("the server cut"))), "{deltas:?}");
    done(&deltas);
}

#[tokio::test]
async fn what_is_larger_than_the_window_is_said_before_it_is_sent() {
    let server = Server::chat(vec![Say::text("4"), Say::text("4")]);
    let connected = connected(&server).await;
    let mut prompt = question(Mode::Text);
    prompt.messages.push(Message::User("x".repeat(120_000)));
    let deltas = ask(&connected, prompt).await;
    assert!(matches!(&deltas[0], Delta::Warning(s) if s.contains("to a window of 8192")), "{deltas:?}");
    let deltas = ask(&connected, question(Mode::Text)).await;
    assert!(!deltas.iter().any(|delta| matches!(delta, Delta::Warning(_))), "{deltas:?}");
}

#[tokio::test]
async fn a_compressed_reply_is_named_and_was_not_asked_for() {
    let packed = |status| {
        Say::Reply(Exchange::on(CHAT).status(status).header("content-encoding", "gzip").body(b"\x1f\x8b\x08garbage"))
    };
    let server = Server::chat(vec![packed(200), packed(418)]);
    let connected = connected(&server).await;
    let failure = failed(&ask(&connected, question(Mode::Text)).await);
    assert_eq!(failure.failure.what, "the server sent a compressed reply although none was asked for");
    assert!(!failure.failure.hint.is_empty());
    let failure = failed(&ask(&connected, question(Mode::Text)).await);
    assert!(failure.failure.what.contains("418") && failure.failure.why.is_empty(), "{failure:?}");
    assert_eq!(server.chats()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn a_silent_cut_is_told_from_a_bad_estimate() {
    for (read, estimated, window, cut) in [
        (4096, 9000, 8192, true),
        (2048, 6000, 8192, true),
        (8190, 8500, 8192, true),
        (5000, 6500, 8192, false),
        (4500, 7000, 8192, false),
        (8000, 8100, 8192, false),
        // A server that leaves out what it had cached.
        (70, 6000, 8192, false),
        (0, 100, 8192, false),
    ] {
        assert_eq!(silently_cut(read, estimated, window), cut, "{read} of {estimated}");
    }
}

#[test]
fn the_wait_grows_and_varies() {
    for retry in 1..=MAX_RETRIES {
        let usual = BACKOFF * 2u32.pow(retry - 1);
        let wait = backoff(retry);
        assert!(wait >= usual / 2 && wait < usual * 3 / 2, "{retry}: {wait:?}");
    }
}

/// The proxy is set for a child of this test, which is this test again: the environment of a process is not changed.
#[test]
fn this_machine_is_never_reached_through_a_proxy() {
    const CHILD: &str = "SANDSCRIPT_TEST_BASE_URL";
    if let Ok(base_url) = std::env::var(CHILD) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for base_url in [base_url.clone(), base_url.replace("127.0.0.1", "localhost")] {
                done(&ask(&connect(config_at(base_url)).await.unwrap(), question(Mode::Text)).await);
            }
        });
        return;
    }
    let server = Server::chat(vec![Say::text("4"), Say::text("4")]);
    let proxy = Server::play(vec![]);
    let address = format!("http://127.0.0.1:{}", proxy.port());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "model::client::tests::this_machine_is_never_reached_through_a_proxy"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, &address);
    }
    let output = child.env_remove("NO_PROXY").env_remove("no_proxy").env(CHILD, server.url()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!((server.chats().len(), proxy.requests().len()), (2, 0));
}
