//! What is typed is never lost and never taken for an answer.

use std::time::Duration;

use crate::common::of;
use crate::person::{Person, WIDE};
use crate::support::{Exchange, Piece, Say};

/// A reply that comes after a while.
fn later(after: Duration, code: &str) -> Say {
    let arguments = serde_json::json!({ "code": code }).to_string();
    let call = serde_json::json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [
        {"index": 0, "id": "call_0", "type": "function", "function": {"name": "execute_python", "arguments": arguments}}]}}]});
    let reply = Exchange::on("POST /v1/chat/completions")
        .header("content-type", "text/event-stream")
        .piece(Piece::Pause(after))
        .body(format!("data: {call}\n\ndata: [DONE]\n\n"));
    Say::Reply(reply)
}

/// Types as somebody who needs so long for a key, and Enter at the end.
fn types(person: &mut Person, text: &str, a_key: Duration) {
    for c in text.chars() {
        person.press(&c.to_string());
        person.watches(a_key);
    }
    person.press("enter");
}

/// Nothing ran, and the text is on the screen: as a draft or in the queue.
fn assert_kept(person: &mut Person, text: &str) {
    person.watches_that_nothing_happens();
    let log = person.log();
    assert!(of(&log, "code_approved").is_empty() && of(&log, "run_started").is_empty(), "{}", person.screen());
    assert!(of(&log, "code_rejected").is_empty(), "{}", person.screen());
    let screen = person.screen();
    let found = screen.contains(&format!("> {text}")) || screen.contains(&format!("queued: {text}"));
    assert!(found, "{text:?} is lost:\n{screen}");
}

#[test]
fn a_sentence_typed_as_the_question_appears_is_no_answer() {
    for ms in [0, 20, 60, 120, 400] {
        let mut person = Person::with(vec![Say::call("print('no')")]);
        person.asks("Go");
        person.sees("print('no')");
        types(&mut person, "yes please", Duration::from_millis(ms));
        assert_kept(&mut person, "yes please");
    }
}

#[test]
fn a_sentence_that_the_question_appears_into_is_no_answer() {
    for ms in [0, 20, 60, 120, 400] {
        // In the middle of the sentence, whatever the speed.
        let mut person = Person::with(vec![later(Duration::from_millis(5 * ms + 10), "print('no')")]);
        person.asks("Go");
        person.wait_for_requests(1);
        types(&mut person, "yes please", Duration::from_millis(ms));
        person.sees("print('no')");
        assert_kept(&mut person, "yes please");
    }
}

#[test]
fn a_sentence_typed_after_the_question_took_the_keys_is_no_answer() {
    for ms in [0, 20, 60, 120] {
        for text in ["yes please", "no, not that", "explain it first", "try it with b"] {
            let mut person = Person::with(vec![Say::call("print('no')")]);
            person.asks("Go");
            person.is_asked();
            types(&mut person, text, Duration::from_millis(ms));
            assert_kept(&mut person, text);
        }
    }
}

#[test]
fn a_draft_is_kept_while_code_waits_and_tab_leads_to_it() {
    let mut person = Person::with(vec![later(Duration::from_millis(300), "print('yes')"), Say::text("Done.")]);
    person.asks("Go");
    person.wait_for_requests(1);
    person.writes("my draft y");
    person.sees("code waits for you");
    person.sees("your draft is kept");
    person.watches_that_nothing_happens();
    person.press("y");
    person.sees("my draft yy");
    assert!(of(&person.log(), "code_approved").is_empty());
    person.press("tab");
    person.answers("y");
    person.sees("Done.");
    person.sees("> my draft yy");
}

#[test]
fn what_is_said_while_the_model_is_busy_is_sent_when_it_is_done() {
    let mut person =
        Person::with(vec![later(Duration::from_millis(300), "print(1)"), Say::text("One."), Say::text("And two.")]);
    person.asks("Go");
    person.wait_for_requests(1);
    person.asks("And then?");
    person.sees("1 queued");
    person.sees("queued: And then?");
    person.answers("y");
    person.sees("And two.");
    let said: Vec<String> = of(&person.log(), "user_said").iter().map(|r| r["text"].as_str().unwrap().into()).collect();
    assert_eq!(said, ["Go", "And then?"]);
    assert_eq!(person.server.chats().len(), 3);
}

fn many_lines() -> String {
    (0..200).map(|n| format!("row {n}, with some words")).collect::<Vec<_>>().join("\n")
}

#[test]
fn two_hundred_pasted_lines_are_one_message() {
    let mut person = Person::with(vec![Say::text("Read.")]);
    person.pty.paste(&many_lines());
    person.sees("200 lines");
    person.watches_that_nothing_happens();
    assert!(person.server.chats().is_empty());
    person.enter();
    person.sees("Read.");
    let log = person.log();
    assert_eq!(of(&log, "user_said").len(), 1);
    assert_eq!(of(&log, "user_said")[0]["text"], many_lines());
}

#[test]
fn two_hundred_lines_that_come_as_keys_are_one_message() {
    let mut person = Person::with(vec![Say::text("Read.")]);
    person.pty.type_str(&many_lines().replace('\n', "\r"));
    person.sees("row 199, with some words");
    person.watches_that_nothing_happens();
    assert!(person.server.chats().is_empty());
    person.enter();
    person.sees("Read.");
    let log = person.log();
    assert_eq!(of(&log, "user_said").len(), 1);
    assert_eq!(of(&log, "user_said")[0]["text"], many_lines());
}

#[test]
fn a_paste_at_the_question_is_no_answer() {
    let mut person = Person::with_flags(WIDE, vec![Say::call("print('no')")], &[]);
    person.asks("Go");
    person.is_asked();
    person.pty.paste("y");
    person.sees("> y");
    assert_kept(&mut person, "y");
}
