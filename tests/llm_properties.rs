//! Properties of the readers of model replies: nothing panics, what is cut is never code, and code arrives as it was
//! written, whatever it holds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use proptest::prelude::*;
use sandscript::core::event::{Channel, Mode, Problem};
use sandscript::model::accumulate::{ReplyBuilder, nine_char_id};
use sandscript::model::salvage::{Verdict, args, text};
use sandscript::model::sse::{SseItem, SseReader};
use sandscript::model::{Candidate, Draft};
use serde_json::json;

const TOOL: &str = "execute_python";

/// Code in every spelling that may confuse a reader of JSON, XML, fences or Python.
fn any_code() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z =()\\[\\]{}:,.#]{1,6}",
        "[\"'`\\\\]{1,4}",
        Just("\n".to_owned()),
        Just("\n    ".to_owned()),
        Just("\\n".to_owned()),
        Just("None".to_owned()),
        Just("\"}".to_owned()),
        Just("\"\"\"".to_owned()),
        Just("</tool_call>".to_owned()),
        Just("</parameter>".to_owned()),
        Just("```python\n".to_owned()),
        Just("\n```\n".to_owned()),
        Just("ü😀\u{0}\t\r".to_owned()),
    ];
    // It begins like code, not like a block or a value around code.
    proptest::collection::vec(part, 0..12).prop_map(|parts| format!("x = 1{}", parts.concat()))
}

fn first_reading(verdict: &Verdict) -> Option<&str> {
    match verdict {
        Verdict::Code(found) => found.readings.first().map(String::as_str),
        Verdict::Cut | Verdict::Broken(_) => None,
    }
}

fn call(code: &str) -> String {
    json!({"name": TOOL, "arguments": {"code": code, "timeout_seconds": 5}}).to_string()
}

fn wrapped(form: usize, call: &str) -> String {
    match form % 5 {
        0 => format!("<tool_call>\n{call}\n</tool_call>"),
        1 => format!("Words.\n[TOOL_CALLS][{call}]"),
        2 => format!("```json\n{call}\n```"),
        3 => call.to_owned(),
        _ => format!("Words before.\n{call}\nWords behind."),
    }
}

fn finish(chunks: &[serde_json::Value], mode: Mode) -> (Vec<(Channel, String)>, Result<Draft, String>) {
    let mut builder = ReplyBuilder::new(mode, true, 0);
    let mut shown = Vec::new();
    for chunk in chunks {
        shown.extend(builder.push(&SseItem::Event { event: String::new(), data: chunk.to_string() }));
    }
    builder.push(&SseItem::Event { event: String::new(), data: "[DONE]".into() });
    (shown, builder.finish().map_err(|failure| failure.failure.to_string()))
}

fn pieces<'a>(text: &'a str, cuts: &[usize]) -> Vec<&'a str> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    at.extend([0, text.len()]);
    at.retain(|at| text.is_char_boundary(*at));
    at.sort_unstable();
    at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn only(draft: &Draft) -> &Candidate {
    assert_eq!(draft.candidates.len(), 1, "{draft:?}");
    &draft.candidates[0]
}

proptest! {
    #[test]
    fn a_clean_call_is_the_code_and_is_shown_as_it_is(code in any_code(), cuts in proptest::collection::vec(any::<usize>(), 0..5)) {
        let arguments = json!({"code": code}).to_string();
        let name = json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": TOOL}}]}}]});
        let chunk = |p: &&str| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": p}}]}}]});
        let chunks: Vec<_> = std::iter::once(name).chain(pieces(&arguments, &cuts).iter().map(chunk)).collect();
        let (shown, draft) = finish(&chunks, Mode::Tools);
        let draft = draft.unwrap();
        prop_assert_eq!(&only(&draft).readings[0], &code);
        prop_assert!(only(&draft).gate || only(&draft).readings.len() == 1);
        let shown: String = shown.into_iter().map(|(_, text)| text).collect();
        prop_assert_eq!(shown, code);
    }

    #[test]
    fn a_call_in_the_text_is_the_code(code in any_code(), form: usize) {
        let text = wrapped(form, &call(&code));
        let found = text::read(&text, false);
        prop_assert_eq!(found.verdicts.len(), 1, "{}", text);
        prop_assert_eq!(first_reading(&found.verdicts[0]), Some(code.as_str()), "{}", text);
    }

    #[test]
    fn raw_line_ends_in_arguments_are_the_same_code(code in any_code()) {
        let clean = json!({"code": code}).to_string();
        // An escape is a line end only where no backslash stands before it.
        let raw = clean.replace("\\\\", "\u{1}").replace("\\n", "\n").replace('\u{1}', "\\\\");
        let verdict = args::native(TOOL, &raw, false);
        prop_assert_eq!(first_reading(&verdict), Some(code.as_str()), "{}", raw);
    }

    #[test]
    fn cut_arguments_are_never_code(code in any_code(), at: usize, cut: bool) {
        let arguments = json!({"timeout_seconds": 5, "code": code}).to_string();
        let mut at = 1 + at % (arguments.len() - 1);
        while !arguments.is_char_boundary(at) { at -= 1; }
        let verdict = args::native(TOOL, &arguments[..at], cut);
        prop_assert!(!matches!(verdict, Verdict::Code(_)), "{:?}", verdict);
    }

    #[test]
    fn a_cut_call_in_the_text_is_never_code(code in any_code(), form in 0usize..4, at: usize) {
        let call = call(&code);
        let text = wrapped(form, &call);
        let start = text.find(&call).unwrap();
        let mut at = start + at % call.len();
        while !text.is_char_boundary(at) { at -= 1; }
        let verdicts = text::read(&text[..at], true).verdicts;
        prop_assert!(!verdicts.iter().any(|v| matches!(v, Verdict::Code(_))), "{:?}", verdicts);
    }

    #[test]
    fn a_fenced_block_is_the_code(lines in proptest::collection::vec("[ -_a-z{|}]{0,12}", 1..8), cuts in proptest::collection::vec(any::<usize>(), 0..5), text_mode: bool) {
        let code = format!("x = 1\n{}", lines.join("\n"));
        let text = format!("Words.\n\n```python\n{code}\n```\n");
        let chunk = |p: &&str| json!({"choices": [{"index": 0, "delta": {"content": p}}]});
        let chunks: Vec<_> = pieces(&text, &cuts).iter().map(chunk).collect();
        let (shown, draft) = finish(&chunks, if text_mode { Mode::Text } else { Mode::Tools });
        let draft = draft.unwrap();
        prop_assert_eq!(&only(&draft).readings[0], &code);
        prop_assert_eq!(&draft.reply.text, "Words.");
        let shown: String = shown.iter().filter(|(channel, _)| *channel == Channel::Code).map(|(_, text)| text.as_str()).collect();
        prop_assert_eq!(shown, format!("{code}\n"));
    }

    #[test]
    fn a_block_cut_by_the_limit_is_never_code(code in "[a-z0-9 =()\n]{0,40}") {
        let chunks = [json!({"choices": [{"delta": {"content": format!("```python\n{code}")}, "finish_reason": "length"}]})];
        let draft = finish(&chunks, Mode::Tools).1.unwrap();
        prop_assert_eq!(draft.candidates, vec![]);
        prop_assert_eq!(draft.reply.problem, Some(Problem::Cut));
    }

    #[test]
    fn no_text_panics_and_no_code_is_made_up(parts in proptest::collection::vec(part_of_a_reply(), 0..16), cut: bool) {
        let text = parts.concat();
        let found = text::read(&text, cut);
        text::calls_only(&text, cut);
        args::native(TOOL, &text, cut);
        // Line by line, the first reading stands in the text, but for its escapes.
        let plain: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
        for reading in found.verdicts.iter().filter_map(first_reading).filter(|reading| !reading.contains('\\') && !text.contains('\\')) {
            let reading: String = reading.chars().filter(|c| c.is_alphanumeric()).collect();
            prop_assert!(plain.contains(&reading), "{} in {}", reading, text);
        }
    }

    #[test]
    fn no_stream_panics(parts in proptest::collection::vec(part_of_a_stream(), 0..12), text_mode: bool, allowed: bool) {
        let bytes: Vec<u8> = parts.concat();
        let mode = if text_mode { Mode::Text } else { Mode::Tools };
        let mut reader = SseReader::new();
        let mut builder = ReplyBuilder::new(mode, allowed, u64::MAX);
        for item in reader.feed(&bytes).into_iter().chain(reader.finish()) {
            builder.push(&item);
        }
        if let Ok(draft) = builder.finish() {
            prop_assert!(allowed || draft.candidates.is_empty());
            for candidate in draft.candidates {
                prop_assert!(!candidate.readings.is_empty());
                prop_assert!(candidate.gate || candidate.readings.len() == 1);
                prop_assert!(!candidate.readings[0].trim().is_empty());
            }
        }
        ReplyBuilder::new(mode, allowed, 0).body(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn ids_are_nine_letters_or_digits_and_differ(a in 0u64..1_000_000_000, b in 0u64..1_000_000_000) {
        let id = nine_char_id(a);
        prop_assert!(id.len() == 9 && id.bytes().all(|c| c.is_ascii_alphanumeric()));
        prop_assert_eq!(a == b, id == nine_char_id(b));
    }
}

fn part_of_a_reply() -> impl Strategy<Value = String> {
    let known = [
        "```",
        "```python\n",
        "```json\n",
        "\n```\n",
        "~~~\n",
        "\n",
        "    ",
        "1. ",
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "<function=execute_python>",
        "<parameter=code>",
        "</parameter>",
        "</function>",
        "<|python_tag|>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "execute_python(",
        "execute_python",
        "print(1)",
        "{\"name\": ",
        "\"arguments\": ",
        "{\"code\": ",
        "\"execute_python\"",
        "\"\"\"",
        "\"",
        "'",
        "`",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\\",
        "\\n",
        "null",
        "é",
        "<think>",
        "</think>",
        "x = 1",
        "=",
        "(",
        ")",
    ];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(String::from), ".{0,3}"]
}

fn part_of_a_stream() -> impl Strategy<Value = Vec<u8>> {
    let chunk = (part_of_a_reply(), part_of_a_reply(), 0usize..12).prop_map(|(a, b, form)| {
        let value = match form {
            0 => json!({"choices": [{"delta": {"content": a}}]}),
            1 => json!({"choices": [{"delta": {"reasoning": a, "content": b}, "finish_reason": "stop"}]}),
            2 => json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": b, "function": {"name": TOOL, "arguments": a}}]}}]}),
            3 => json!({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": a + &b}}]}}]}),
            4 => json!({"message": {"content": a, "tool_calls": [{"function": {"name": b, "arguments": {"code": 1}}}]}}),
            5 => json!({"done": true, "done_reason": a, "eval_count": 1, "eval_duration": 0}),
            6 => json!({"error": a}),
            7 => json!([{"choices": {"delta": a}}]),
            8 => json!({"choices": [{"index": -1.5, "delta": [a], "message": {"content": [b, {"text": [1]}]}}], "usage": [a]}),
            9 => json!({"choices": [{"message": {"content": a, "function_call": {"name": TOOL, "arguments": [b]}}, "finish_reason": "length"}]}),
            10 => json!({"timings": {"predicted_per_second": "inf", "prompt_n": -4, "predicted_n": 1e300}, "usage": {"prompt_tokens": 1e300}}),
            _ => json!(a),
        };
        format!("data: {value}\n\n").into_bytes()
    });
    prop_oneof![
        4 => chunk,
        1 => Just(b"data: [DONE]\n\n".to_vec()),
        1 => part_of_a_reply().prop_map(String::into_bytes),
        1 => Just(b"event: error\n".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

/// The lines of one reply in each framing, with its end.
fn framings() -> Vec<Vec<String>> {
    let parts = ["```python\n", "x = 1\n", "x = x * 100\n", "print(x)\n", "```"];
    let delta = |text: &&str| json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string();
    let native = |text: &&str| json!({"message": {"role": "assistant", "content": text}, "done": false}).to_string();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string();
    let data = |line: String| format!("data: {line}\n");
    vec![
        parts.iter().map(native).chain([json!({"message": {"content": ""}, "done": true}).to_string()]).collect(),
        parts.iter().map(delta).chain([end.clone()]).collect(),
        parts.iter().map(delta).chain([end, "[DONE]".to_owned()]).map(data).collect(),
    ]
}

fn read(lines: &[String]) -> Result<Draft, String> {
    let mut reader = SseReader::new();
    let mut builder = ReplyBuilder::new(Mode::Tools, true, 0);
    let mut items = reader.feed(format!("{}\n", lines.join("\n")).as_bytes());
    items.extend(reader.finish());
    items.iter().for_each(|item| drop(builder.push(item)));
    builder.finish().map_err(|failure| failure.failure.to_string())
}

/// Whatever of one line is lost: what is left of it is never passed over.
#[test]
fn a_damaged_line_is_never_passed_over() {
    for lines in framings() {
        let whole = read(&lines).unwrap();
        assert_eq!(only(&whole).readings[0], "x = 1\nx = x * 100\nprint(x)", "{lines:?}");
        for (at, line) in lines.iter().enumerate().take(5) {
            let content = line.trim_end();
            // A field without a value carries nothing by the standard.
            let shortest = if content.starts_with("data") { "data: ".len() } else { 0 };
            let heads = (shortest + 1..content.len()).map(|cut| &content[..cut]);
            // What begins with a colon is a comment.
            let tails = (1..content.len()).map(|cut| &content[cut..]).filter(|tail| !tail.starts_with(':'));
            for left in heads.chain(tails) {
                let mut damaged = lines.clone();
                damaged[at] = line.replace(content, left);
                if let Ok(draft) = read(&damaged) {
                    assert_eq!(draft.candidates, whole.candidates, "line {at} became {left}");
                }
            }
        }
    }
}

#[test]
fn words_behind_a_hole_behind_the_end_are_not_taken() {
    let delta = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]}).to_string();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).to_string();
    let lines = [delta("a"), end, "{\"choices\": [".to_owned(), delta("c")];
    assert!(read(&lines).unwrap_err().contains("cannot be read"));
    assert_eq!(read(&lines[..3]).unwrap().reply.text, "a");
}
