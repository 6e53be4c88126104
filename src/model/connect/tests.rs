use std::time::Instant;

use super::*;
use crate::core::event::ModelFailureKind as Kind;
use crate::model::support::{Exchange, MODEL, Piece, Server};

fn config(base_url: &str, model: &str) -> ModelConfig {
    ModelConfig {
        base_url: base_url.into(),
        model: model.into(),
        key: None,
        temperature: 0.1,
        mode: None,
        window: None,
        cache_dir: None,
    }
}

async fn refused(config: ModelConfig) -> ModelFailure {
    match connect(config).await {
        Err(failure) => failure,
        Ok(connected) => panic!("connected to {}", connected.base_url),
    }
}

/// As llama.cpp answers (recorded; shortened).
fn llama_cpp(template: &str, caps: Value) -> Server {
    let props = json!({"default_generation_settings": {"params": {"chat_format": "Content-only"}, "n_ctx": 4096},
        "chat_template": template, "chat_template_caps": caps});
    let entry =
        json!({"id": "qwen3:4b", "aliases": ["qwen3:4b", "small"], "meta": {"n_ctx": 8192, "n_ctx_train": 32768}});
    Server::play(vec![
        Exchange::on("GET /props").json(&props).always(),
        Exchange::on("GET /v1/models").json(&json!({"object": "list", "data": [entry]})).always(),
    ])
}

fn ollama(show: Exchange) -> Server {
    let models = json!({"data": [{"id": "llama3.2:latest"}, {"id": "qwen3:4b"}]});
    Server::play(vec![
        Exchange::on("GET /api/version").json(&json!({"version": "0.33.0"})).always(),
        Exchange::on("GET /v1/models").json(&models).always(),
        show.always(),
        Exchange::on("GET /api/ps").json(&json!({"models": [{"model": "qwen3:4b", "context_length": 16384}]})).always(),
    ])
}

#[tokio::test]
async fn llama_cpp_tells_window_and_template() {
    let server = llama_cpp("{% if tools %}", json!({"supports_tool_calls": true}));
    let connected = connect(config(&server.url(), "qwen3:4b")).await.unwrap();
    assert_eq!((connected.window, connected.window_known, connected.mode), (4096, true, Mode::Tools));
    assert!(connected.loopback && connected.notes.is_empty(), "{:?}", connected.notes);
    assert!(connect(config(&server.url(), "small")).await.is_ok(), "an alias");
    let server = llama_cpp("no tools", json!({"supports_tool_calls": false}));
    assert_eq!(connect(config(&server.url(), "qwen3:4b")).await.unwrap().mode, Mode::Text);
}

#[tokio::test]
async fn ollama_tells_capabilities_and_loaded_window() {
    let show = json!({"capabilities": ["completion"], "model_info": {"qwen3.context_length": 40960}});
    let server = ollama(Exchange::on("POST /api/show").json(&show));
    let connected = connect(config(&server.url(), "qwen3:4b")).await.unwrap();
    assert_eq!((connected.window, connected.mode), (16384, Mode::Text));
    let asked = server.requests().into_iter().find(|r| r.path == "/api/show").unwrap();
    assert_eq!(asked.json(), json!({"model": "qwen3:4b"}));
    let with = ModelConfig { window: Some(2048), mode: Some(Mode::Tools), ..config(&server.url(), "qwen3:4b") };
    let connected = connect(with).await.unwrap();
    assert_eq!((connected.window, connected.window_known, connected.mode), (2048, true, Mode::Tools));
    assert!(connected.notes[0].contains("small"));
}

#[tokio::test]
async fn a_missing_model_is_named_with_those_that_are_there() {
    let missing = json!({"error": "model 'mistral-nemo' not found"});
    let server = ollama(Exchange::on("POST /api/show").status(404).json(&missing));
    let failure = refused(config(&server.url(), "mistral-nemo")).await;
    assert_eq!(failure.kind, Kind::NoModel);
    assert_eq!(failure.failure.why, "it has llama3.2:latest, qwen3:4b");
    assert_eq!(failure.failure.hint, "ollama pull mistral-nemo, or -m llama3.2:latest");

    let server = llama_cpp("", Value::Null);
    let failure = refused(config(&server.url(), "mistral-nemo")).await;
    assert_eq!((failure.kind, failure.failure.hint.as_str()), (Kind::NoModel, "name one of them: -m qwen3:4b"));
}

#[tokio::test]
async fn a_listed_model_that_is_not_described_is_taken_as_it_is() {
    let server = ollama(Exchange::on("POST /api/show").status(404).json(&json!({"error": "not found"})));
    let connected = connect(config(&server.url(), "llama3.2")).await.unwrap();
    assert_eq!((connected.window, connected.mode), (8192, Mode::Tools));
}

#[tokio::test]
async fn a_long_list_is_counted_and_one_without_bounds_is_not_decoded() {
    let list = |count: usize| {
        let entries: Vec<Value> = (0..count).map(|n| json!({"id": format!("m{n}")})).collect();
        Server::play(vec![Exchange::on("GET /v1/models").json(&json!({"data": entries})).always()])
    };
    let failure = refused(config(&list(MAX_MODELS + 4500).url(), "x")).await;
    assert!(failure.failure.why.ends_with("m9 and 4990 more"), "{}", failure.failure.why);
    assert!(connect(config(&list(MAX_PROBE_OBJECTS).url(), "x")).await.is_ok(), "as if there were no list");
}

#[tokio::test]
async fn nothing_there_is_said_at_once() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let started = Instant::now();
    let failure = refused(config(&format!("http://user:geheim@localhost:{port}"), MODEL)).await;
    assert_eq!(failure.kind, Kind::Unreachable);
    assert!(failure.failure.why.contains("refused"), "{failure:?}");
    assert!(failure.failure.hint.contains("--base-url"));
    assert!(!format!("{failure:?}").contains("geheim"));
    assert!(started.elapsed() < PROBE);
}

#[tokio::test]
async fn a_server_without_any_of_the_routes_is_taken_as_it_is() {
    let server = Server::play(vec![]);
    let connected = connect(config(&server.url(), "x")).await.unwrap();
    assert_eq!((connected.window, connected.window_known, connected.mode), (ASSUMED_WINDOW, false, Mode::Tools));
    assert!(connected.notes[0].contains("model.window"));
    let paths: Vec<String> = server.requests().into_iter().map(|r| r.path).collect();
    assert_eq!(paths.len(), 3, "{paths:?}");
}

#[tokio::test]
async fn a_server_that_is_too_busy_to_answer_is_not_given_up() {
    let server = Server::play(vec![Exchange::on("GET ").silent().piece(Piece::Hold).always()]);
    let started = Instant::now();
    let connected = connect(config(&server.url(), "x")).await.unwrap();
    assert!(connected.notes[0].contains("slow"), "{:?}", connected.notes);
    assert!(started.elapsed() < PROBE * 3);
}

#[tokio::test]
async fn a_refused_key_is_said_before_the_first_question() {
    let models =
        Exchange::on("GET /v1/models").status(401).json(&json!({"error": {"message": "no such key sk-01234567"}}));
    let server = Server::play(vec![models]);
    let failure = refused(ModelConfig { key: Secret::new("sk-01234567"), ..config(&server.url(), "x") }).await;
    assert_eq!((failure.kind, failure.failure.why.as_str()), (Kind::Refused, "no such key ***"));
}

#[tokio::test]
async fn text_mode_is_remembered_and_can_be_overridden() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::chat(vec![]);
    let config = ModelConfig { cache_dir: Some(folder.path().to_owned()), ..config(&server.url(), MODEL) };
    let connected = connect(config.clone()).await.unwrap();
    assert_eq!(connected.mode, Mode::Tools);
    connected.remember_text_mode();
    assert_eq!(connect(config.clone()).await.unwrap().mode, Mode::Text);
    let tools = ModelConfig { mode: Some(Mode::Tools), ..config };
    assert_eq!(connect(tools).await.unwrap().mode, Mode::Tools);
}

fn found(template: Option<&str>) -> Found {
    let template = template.map(str::to_owned);
    Found { dialect: Dialect::OpenAi, tools: true, template, window: None, warm: true }
}

#[test]
fn who_wants_a_user_message_after_a_result() {
    let wants = |model, template, place| wants_user_after_result(model, &found(template), place);
    assert!(wants("renamed", Some("{{ [AVAILABLE_TOOLS] }}"), Place::Loopback));
    assert!(!wants("mistral-nemo", Some("{% if tools %}<tools>"), Place::Loopback));
    assert!(wants("Mistral-Nemo:12b", None, Place::Loopback));
    assert!(wants("devstral", Some(""), Place::Private));
    assert!(!wants("mistral-large-latest", None, Place::Public));
    assert!(!wants("qwen3", None, Place::Loopback));
}

#[test]
fn models_known_to_fence_start_in_text_mode() {
    assert_eq!(usual_mode("qwen2.5-coder:1.5b", &found(None), false), Mode::Text);
    assert_eq!(usual_mode("Qwen/Qwen2.5-Coder-7B-Instruct", &found(None), false), Mode::Text);
    assert_eq!(usual_mode("qwen3:4b", &found(None), false), Mode::Tools);
}

#[test]
fn windows_and_names_of_model_lists() {
    for (entry, window) in [
        (json!({"meta": {"n_ctx": 8192}}), Some(8192)),
        (json!({"max_model_len": 32768}), Some(32768)),
        (json!({"context_length": 131072}), Some(131072)),
        (json!({"meta": null, "context_window": 131072}), Some(131072)),
        (json!({"context_length": 255}), None),
        (json!({"context_length": u32::MAX}), None),
        (json!({"context_length": "many"}), None),
        (json!({}), None),
    ] {
        assert_eq!(window_of(&entry), window, "{entry}");
    }
    let none = json!({});
    assert!(is_listed("m:latest", &none, "m") && is_listed("models/gemini", &none, "gemini"));
    assert!(!is_listed("not-m", &none, "m") && !is_listed("m:7b", &none, "m"));
    assert_eq!(listed_models(&json!({"data": [{"id": 3}, {"id": "a"}, null]})).len(), 1);
    assert!(listed_models(&json!("odd")).is_empty());
}
