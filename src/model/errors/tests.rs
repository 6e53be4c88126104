use super::*;
use proptest::prelude::*;

fn asked() -> Asked {
    Asked {
        base_url: "http://localhost:11434/v1".into(),
        model: "mistral-nemo".into(),
        ollama: true,
        tools: true,
        models: vec!["llama3.2:latest".into(), "qwen3:4b".into()],
        more_models: 0,
        key: Secret::new("sk-very-secret-key"),
    }
}

fn now() -> Timestamp {
    "2026-11-30T12:00:00Z".parse().unwrap()
}

fn refused(status: u16, body: &str) -> (ModelFailure, Then) {
    refusal(&asked(), status, None, body, now())
}

/// Row, status, body, kind, what the client does.
#[test]
fn each_refusal_has_its_kind_and_remedy() {
    use Change::*;
    use Then::*;
    let rows: &[(u32, u16, &str, Kind, Then)] = &[
        (
            59,
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            Kind::Unreachable,
            WaitLoading,
        ),
        (62, 502, "<html><head><title>502 Bad Gateway</title></head></html>", Kind::Other, Retry(None)),
        (64, 400, r#"{"error":"registry.ollama.ai/library/gemma:2b does not support tools"}"#, Kind::NoTools, Fatal),
        (
            64,
            404,
            r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
            Kind::NoTools,
            Fatal,
        ),
        (65, 404, r#"{"error":"model 'mistral-nemo' not found"}"#, Kind::NoModel, Fatal),
        (
            65,
            404,
            r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}}"#,
            Kind::NoModel,
            Fatal,
        ),
        (65, 400, r#"{"error":{"message":"x/y is not a valid model ID","code":400}}"#, Kind::NoModel, Fatal),
        (
            66,
            400,
            r#"{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"}"#,
            Kind::NoTools,
            Fatal,
        ),
        (66, 500, r#"{"error":{"message":"tools param requires --jinja flag"}}"#, Kind::NoTools, Fatal),
        (67, 401, r#"{"error":{"message":"Incorrect API key provided"}}"#, Kind::Refused, Fatal),
        (67, 402, r#"{"error":{"message":"Insufficient credits"}}"#, Kind::Refused, Fatal),
        (67, 403, "", Kind::Refused, Fatal),
        (69, 429, r#"{"error":{"message":"Rate limit reached"}}"#, Kind::Other, Retry(None)),
        (
            67,
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            Kind::Refused,
            Fatal,
        ),
        (
            69,
            503,
            r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
            Kind::Other,
            Retry(None),
        ),
        (69, 504, "", Kind::Other, Retry(None)),
        (69, 408, "", Kind::Other, Retry(None)),
        (
            70,
            500,
            r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: parse error at line 1"}}"#,
            Kind::NoTools,
            Fatal,
        ),
        (
            70,
            500,
            r#"{"error":{"message":"Jinja Exception: Conversation roles must alternate"}}"#,
            Kind::NoTools,
            Fatal,
        ),
        (70, 500, r#"{"error":"no user query found in messages"}"#, Kind::NoTools, Fatal),
        (70, 500, r#"{"error":"something new"}"#, Kind::Other, Fatal),
        (71, 400, r#"{"error":{"message":"invalid tool call arguments"}}"#, Kind::NoTools, Fatal),
        (
            72,
            500,
            r#"{"error":{"message":"The model produced output that does not match the expected format"}}"#,
            Kind::BadCall,
            Fatal,
        ),
        (72, 500, r#"{"error":"error parsing tool call: raw='{\"code' , err=unexpected end"}"#, Kind::BadCall, Fatal),
        (74, 400, r#"{"error":{"message":"invalid message content type: <nil>"}}"#, Kind::Other, Adapt(Content)),
        (
            74,
            400,
            r#"{"error":{"message":"messages: text content blocks must be non-empty"}}"#,
            Kind::Other,
            Adapt(Content),
        ),
        (
            76,
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}"#,
            Kind::Other,
            Adapt(TokensField),
        ),
        (
            76,
            422,
            r#"{"detail":[{"type":"extra_forbidden","loc":["body","max_completion_tokens"],"msg":"Extra inputs are not permitted"}]}"#,
            Kind::Other,
            Adapt(TokensField),
        ),
        (
            76,
            400,
            r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.1"}}"#,
            Kind::Other,
            Adapt(NoTemperature),
        ),
        (
            76,
            400,
            r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#,
            Kind::Other,
            Adapt(NoStreamOptions),
        ),
        (
            76,
            400,
            r#"{"error":{"message":"Unknown field tool_choice is not supported"}}"#,
            Kind::Other,
            Adapt(NoToolChoice),
        ),
        (76, 400, r#"{"error":"\"mistral-nemo\" does not support thinking"}"#, Kind::Other, Adapt(NoThink)),
        (
            82,
            400,
            r#"{"error":{"code":400,"message":"request (10000 tokens) exceeds the available context size (8192 tokens)","type":"exceed_context_size_error"}}"#,
            Kind::TooLong,
            Fatal,
        ),
        (
            82,
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#,
            Kind::TooLong,
            Fatal,
        ),
        (82, 413, "", Kind::TooLong, Fatal),
        (0, 404, "404 page not found", Kind::Unreachable, Fatal),
        (0, 405, "", Kind::Unreachable, Fatal),
        (
            0,
            500,
            r#"{"error":"model requires more system memory (9.1 GiB) than is available (4.0 GiB)"}"#,
            Kind::Other,
            Fatal,
        ),
    ];
    for (row, status, body, kind, then) in rows {
        let (failure, got) = refused(*status, body);
        assert_eq!((failure.kind, got), (*kind, *then), "row {row}: {status} {body}");
        assert!(!failure.failure.what.is_empty() && !failure.failure.hint.is_empty(), "{failure:?}");
    }
}

#[test]
fn an_error_in_the_stream_keeps_its_kind() {
    for (text, kind) in [
        (r#"{"error":{"code":500,"message":"Failed to parse input at pos 12","type":"server_error"}}"#, Kind::BadCall),
        (r#"{"error":"Failed to parse tool call arguments as JSON: syntax error"}"#, Kind::BadCall),
        (r#"{"error":"prompt exceeds context length"}"#, Kind::TooLong),
        (r#"{"object":"error","message":"boom"}"#, Kind::Other),
        ("upstream went away", Kind::Other),
    ] {
        let failure = in_stream(text);
        assert_eq!(failure.kind, kind, "{text}");
        assert!(!failure.failure.why.is_empty() && !failure.failure.why.contains('{'), "{failure:?}");
        assert!(!failure.failure.hint.is_empty(), "{failure:?}");
    }
}

#[test]
fn without_tools_a_template_error_cannot_be_helped_by_text_mode() {
    let asked = Asked { tools: false, ..asked() };
    let (failure, then) = refusal(&asked, 500, None, r#"{"error":"jinja exception"}"#, now());
    assert_eq!((failure.kind, then), (Kind::Other, Then::Fatal));
}

#[test]
fn a_missing_model_lists_what_is_there() {
    let failure = asked().no_model("");
    assert_eq!(failure.failure.what, "the model mistral-nemo is not at http://localhost:11434/v1");
    assert_eq!(failure.failure.why, "it has llama3.2:latest, qwen3:4b");
    assert_eq!(failure.failure.hint, "ollama pull mistral-nemo, or -m llama3.2:latest");
    let many = Asked { models: (0..14).map(|n| format!("m{n}")).collect(), ollama: false, ..asked() };
    let failure = many.no_model("");
    assert!(failure.failure.why.ends_with("m9 and 4 more"), "{}", failure.failure.why);
    assert_eq!(failure.failure.hint, "name one of them: -m m0");
    let more = Asked { more_models: 99_986, ..many };
    assert!(more.no_model("").failure.why.ends_with("m9 and 99990 more"));
}

#[test]
fn hints_for_a_server_that_is_not_there() {
    assert!(asked().unreachable("Connection refused").failure.hint.contains("ollama serve"));
    let other = Asked { base_url: "https://example.com/v1".into(), ..asked() };
    assert!(other.unreachable("dns error").failure.hint.contains("--base-url"));
    assert!(other.unreachable("invalid peer certificate: UnknownIssuer").failure.hint.contains("certificate"));
}

#[test]
fn the_key_never_gets_into_the_words() {
    let (failure, _) = refused(401, r#"{"error":{"message":"Incorrect API key provided: sk-very-secret-key"}}"#);
    assert!(!format!("{failure:?}").contains("very-secret"), "{failure:?}");
    assert!(failure.failure.why.contains("Incorrect API key"));
}

#[test]
fn each_failure_says_what_helps() {
    let bare = Asked::default();
    let mut failures: Vec<ModelFailure> = (100..1000).map(|status| refusal(&bare, status, None, "", now()).0).collect();
    let words = NO_TOOLS.iter().chain(TOO_LONG).chain(NOT_A_CALL).chain(BAD_HISTORY);
    for words in words.chain(&["out of memory", "billing", "temperature", "model not found"]) {
        failures.extend([200, 400, 500].map(|status| refusal(&bare, status, None, words, now()).0));
        failures.push(in_stream(words));
    }
    for asked in [bare, asked()] {
        failures.extend([asked.no_model(""), asked.unreachable(""), packed(&asked), web_page(&asked, "")]);
        failures.push(redirect(&asked, 302, None));
    }
    for failure in failures {
        assert!(!failure.failure.what.is_empty() && !failure.failure.hint.is_empty(), "{failure:?}");
    }
}

#[test]
fn retry_after_in_seconds_and_as_a_date() {
    assert_eq!(retry_after("7", now()), Some(Duration::from_secs(7)));
    assert_eq!(retry_after(" 0.5 ", now()), Some(Duration::from_millis(500)));
    assert_eq!(retry_after("Mon, 30 Nov 2026 12:00:09 GMT", now()), Some(Duration::from_secs(9)));
    assert_eq!(retry_after("Mon, 30 Nov 2026 11:00:00 GMT", now()), Some(Duration::ZERO));
    for odd in ["-3", "NaN", "soon", "", "inf"] {
        assert_eq!(retry_after(odd, now()), None, "{odd}");
    }
}

#[test]
fn a_long_wait_is_said_and_not_sat_through() {
    let (failure, then) = refusal(&asked(), 429, Some("3600"), "", now());
    assert_eq!(then, Then::Fatal);
    assert_eq!(failure.failure.hint, "ask again in 3600 s, as the server wants");
    assert_eq!(refusal(&asked(), 429, Some("4"), "", now()).1, Then::Retry(Some(Duration::from_secs(4))));
}

#[test]
fn a_redirect_names_the_host_and_nothing_else() {
    let failure = redirect(&asked(), 302, Some("https://u:pw@evil.example/steal?k=1"));
    assert_eq!(failure.failure.why, "it points to the host evil.example");
    assert_eq!(redirect(&asked(), 308, Some("//evil.example/x")).failure.why, "it points to the host evil.example");
    assert_eq!(redirect(&asked(), 308, Some("/elsewhere")).failure.why, "it points to the host localhost");
    assert_eq!(redirect(&asked(), 302, None).failure.why, "it does not say where to");
}

proptest! {
    #[test]
    fn any_body_becomes_a_failure(status in 100u16..999, body in "\\PC{0,300}", after in proptest::option::of("\\PC{0,30}")) {
        let (failure, _) = refusal(&asked(), status, after.as_deref(), &body, now());
        prop_assert!(!failure.failure.what.contains('\n') && !failure.failure.hint.is_empty());
        prop_assert!(!in_stream(&body).failure.hint.is_empty());
        prop_assert!(failure.failure.why.chars().count() <= 201);
    }
}
