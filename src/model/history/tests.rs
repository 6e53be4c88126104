use super::*;
use crate::core::event::How;
use proptest::prelude::*;

const OPENAI: Rules = Rules { ollama: false, null_content: false, user_after_result: false };
const OLLAMA: Rules = Rules { ollama: true, ..OPENAI };
const NEMO: Rules = Rules { user_after_result: true, ..OPENAI };

fn call(id: &str, code: &str) -> Call {
    let raw = Some("{\"code\": \"broken".into());
    Call { id: id.into(), code: code.into(), timeout_seconds: None, how: How::Recovered, raw }
}

fn said(text: &str, calls: &[Call]) -> Message {
    Message::Assistant { text: text.into(), calls: calls.to_vec() }
}

fn result(id: &str, text: &str, failed: bool) -> Message {
    Message::ToolResult { call: id.into(), text: text.into(), failed }
}

fn prompt(mode: Mode, messages: Vec<Message>) -> Prompt {
    Prompt { messages, mode, code_allowed: true, tool: String::new(), warmer: false, max_tokens: 100 }
}

fn failed_round(mode: Mode) -> Prompt {
    prompt(
        mode,
        vec![
            Message::System("Be exact.".into()),
            Message::User("Sum?".into()),
            said("I add.", &[call("abc123def", "print(1+)\n")]),
            result("abc123def", "exit_code: 1\nstderr:\nSyntaxError", true),
        ],
    )
}

fn rendered(prompt: &Prompt, rules: Rules) -> Value {
    let messages = render(prompt, rules);
    check(&messages, rules).unwrap();
    Value::Array(messages)
}

#[test]
fn calls_for_an_openai_server() {
    assert_eq!(
        rendered(&failed_round(Mode::Tools), OPENAI),
        json!([
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": "Sum?"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "abc123def", "type": "function",
                "function": {"name": "execute_python", "arguments": "{\"code\":\"print(1+)\\n\"}"}}]},
            {"role": "tool", "tool_call_id": "abc123def", "content": "exit_code: 1\nstderr:\nSyntaxError"},
        ])
    );
}

#[test]
fn calls_for_ollama() {
    let messages = rendered(&failed_round(Mode::Tools), OLLAMA);
    assert_eq!(
        messages[2]["tool_calls"],
        json!([{"function": {"name": "execute_python", "arguments": {"code": "print(1+)\n"}}}])
    );
    let result =
        json!({"role": "tool", "tool_name": "execute_python", "content": "exit_code: 1\nstderr:\nSyntaxError"});
    assert_eq!(messages[3], result);
}

#[test]
fn text_mode_has_no_trace_of_calls() {
    assert_eq!(
        rendered(&failed_round(Mode::Text), OPENAI),
        json!([
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": "Sum?"},
            {"role": "assistant", "content": "I add.\n\n```python\nprint(1+)\n```"},
            {"role": "user", "content": "exit_code: 1\nstderr:\nSyntaxError"},
        ])
    );
}

#[test]
fn a_fence_is_longer_than_any_in_the_code() {
    assert_eq!(fenced("x = '''\n````\n'''"), "`````python\nx = '''\n````\n'''\n`````");
    assert_eq!(fenced(""), "```python\n\n```");
}

#[test]
fn null_content_where_it_was_learned() {
    let rules = Rules { null_content: true, ..OPENAI };
    assert_eq!(rendered(&failed_round(Mode::Tools), rules)[2]["content"], Value::Null);
}

#[test]
fn a_mistral_template_sees_a_user_message_last() {
    let messages = rendered(&failed_round(Mode::Tools), NEMO);
    assert_eq!(messages[4], json!({"role": "assistant", "content": FILLER}));
    assert_eq!(messages[5], json!({"role": "user", "content": AFTER_FAILURE}));
}

#[test]
fn follow_ups_stay_so_that_requests_only_append() {
    let mut prompt = failed_round(Mode::Tools);
    let first = render(&prompt, NEMO);
    prompt.messages.push(said("", &[call("abc123deg", "print(2)")]));
    prompt.messages.push(result("abc123deg", "exit_code: 0", false));
    let second = render(&prompt, NEMO);
    assert_eq!(second[..first.len()], first[..]);
    assert_eq!(second.last().unwrap()["content"], AFTER_SUCCESS);
    prompt.messages.push(Message::User("In euros?".into()));
    let third = rendered(&prompt, NEMO);
    assert_eq!(third[8], json!({"role": "assistant", "content": FILLER}));
    assert_eq!(third[9], json!({"role": "user", "content": "In euros?"}));
    prompt.messages.pop();
    prompt.code_allowed = false;
    assert_eq!(render(&prompt, NEMO).last().unwrap()["content"], AFTER_SUCCESS_NO_TOOLS);
}

#[test]
fn every_call_gets_one_result_directly_after() {
    let calls = [call("aaaaaaaa1", "1"), call("aaaaaaaa2", "2"), call("aaaaaaaa3", "3")];
    let prompt = prompt(
        Mode::Tools,
        vec![
            Message::User("Go".into()),
            said("", &calls),
            result("aaaaaaaa2", "two", false),
            result("aaaaaaaa1", "one", false),
            result("aaaaaaaa1", "one again", false),
            result("zzzzzzzzz", "of nobody", false),
            Message::User("And?".into()),
        ],
    );
    let messages = rendered(&prompt, OPENAI);
    let contents: Vec<&str> = (2..5).map(|n| messages[n]["content"].as_str().unwrap()).collect();
    assert_eq!(contents, ["one", "two", NO_RESULT]);
    assert_eq!(messages[5]["content"], "And?");
}

#[test]
fn neighbours_are_joined_and_empty_words_dropped() {
    let prompt = prompt(
        Mode::Tools,
        vec![
            Message::System("s".into()),
            Message::User("a".into()),
            said(" ", &[]),
            Message::System("inputs changed".into()),
            Message::User("b".into()),
        ],
    );
    assert_eq!(rendered(&prompt, OPENAI)[1]["content"], "a\n\ninputs changed\n\nb");
}

#[test]
fn the_checker_finds_each_broken_rule() {
    let user = json!({"role": "user", "content": "u"});
    let tool = json!({"role": "tool", "tool_call_id": "abc123def", "content": "r"});
    let asks = |id: &str, arguments: &str, content: &str| {
        json!({"role": "assistant", "content": content, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": TOOL, "arguments": arguments}}]})
    };
    let good = asks("abc123def", r#"{"code":"1"}"#, "");
    assert_eq!(check(&[user.clone(), good.clone(), tool.clone()], OPENAI), Ok(()));
    for (row, messages) in [
        (71, vec![user.clone(), asks("abc123def", r#"{"code":"1"#, ""), tool.clone()]),
        (75, vec![json!({"role": "user", "content": "u", "name": "x"})]),
        (75, vec![json!({"role": "user", "content": null})]),
        (75, vec![user.clone(), json!({"role": "assistant", "content": "", "tool_calls": []}), user.clone()]),
        (77, vec![user.clone(), good.clone(), user.clone()]),
        (77, vec![user.clone(), good.clone()]),
        (77, vec![user.clone(), good.clone(), tool.clone(), tool.clone()]),
        (77, vec![user.clone(), tool.clone()]),
        (80, vec![user.clone(), asks("call_1", r#"{"code":"1"}"#, ""), tool.clone()]),
        (80, vec![user.clone(), good.clone(), tool.clone(), good.clone(), tool.clone()]),
        (81, vec![user.clone(), asks("abc123def", r#"{"code":"1"}"#, "words"), tool.clone()]),
        (0, vec![user.clone(), user.clone()]),
        (0, vec![json!({"role": "assistant", "content": "first"}), user.clone()]),
        (0, vec![user.clone(), json!({"role": "system", "content": "late"})]),
        (0, vec![]),
    ] {
        assert!(check(&messages, OPENAI).is_err(), "row {row}: {messages:?}");
    }
    assert!(check(&[user, good, tool], NEMO).is_err(), "a result last");
}

fn any_message() -> impl Strategy<Value = Message> {
    let id = "[a-c]{9}";
    prop_oneof![
        "[ -~\n]{0,8}".prop_map(Message::User),
        "[ -~\n]{0,8}".prop_map(Message::System),
        ("[ -~\n]{0,8}", proptest::collection::vec((0u32..1_000_000, "[ -~`\n]{0,8}"), 0..3)).prop_map(
            |(text, calls)| {
                let calls: Vec<Call> = calls.iter().map(|(n, code)| call(&format!("c{n:08}"), code)).collect();
                said(&text, &calls)
            }
        ),
        (id, "[ -~\n]{0,8}", any::<bool>()).prop_map(|(id, text, failed)| result(&id, &text, failed)),
    ]
}

proptest! {
    /// Whatever the core says between a first question and a last one can be sent.
    #[test]
    fn any_conversation_passes_the_checker(
        middle in proptest::collection::vec(any_message(), 0..8), text_mode: bool, ollama: bool, user_after_result: bool,
    ) {
        let mut ids = BTreeSet::new();
        let fresh = middle.iter().all(|m| match m {
            Message::Assistant { calls, .. } => calls.iter().all(|c| ids.insert(c.id.clone())),
            Message::System(_) | Message::User(_) | Message::ToolResult { .. } => true,
        });
        prop_assume!(fresh);
        let mut messages = vec![Message::System("s".into()), Message::User("q".into())];
        messages.extend(middle);
        messages.push(Message::User("last".into()));
        let prompt = prompt(if text_mode { Mode::Text } else { Mode::Tools }, messages);
        let rules = Rules { ollama, null_content: false, user_after_result };
        let rendered = render(&prompt, rules);
        prop_assert_eq!(check(&rendered, rules), Ok(()));
    }
}
