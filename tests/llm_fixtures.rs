//! What servers really send (`tests/fixtures/llm`): every fixture is replayed whole, byte by byte and cut at every offset,
//! and gives the same pieces and the same reply each time; the snapshot beside it says which.
//!
//! The first two lines of a fixture begin with `#` and describe it; the first may say `mode tools`, `mode text` or
//! `mode closing`, and `body` where it is no stream.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::fs;
use std::path::{Path, PathBuf};

use sandscript::core::event::{Channel, Mode, ModelFailure};
use sandscript::model::accumulate::ReplyBuilder;
use sandscript::model::sse::SseReader;
use sandscript::model::{Candidate, Draft};
use serde_json::{Value, json};

/// Fixtures up to this length are replayed to the end for every offset; for longer ones that takes minutes.
const SMALL_BYTES: usize = 1024;

/// How far the reader is followed behind a cut.
const SPLIT_WINDOW_BYTES: usize = 64;

struct Fixture {
    name: String,
    mode: Mode,
    code_allowed: bool,
    streamed: bool,
    bytes: Vec<u8>,
}

#[derive(Debug, PartialEq)]
struct Replay {
    text: String,
    reasoning: String,
    code: String,
    result: Result<Draft, ModelFailure>,
}

fn fixtures() -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/llm");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    paths.iter().filter_map(|path| fixture(path)).collect()
}

fn fixture(path: &Path) -> Option<Fixture> {
    let all = fs::read(path).unwrap();
    let mut parts = all.splitn(3, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(parts.next().unwrap()).into_owned();
    let second = String::from_utf8_lossy(parts.next().unwrap()).into_owned();
    assert!(head.starts_with('#') && second.starts_with('#'), "{path:?}");
    // Replies with another status are the business of the clients.
    let chat = head.starts_with("# mode") || (head.starts_with("# POST") && second.contains("status 200"));
    chat.then(|| Fixture {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        mode: if head.starts_with("# mode text") { Mode::Text } else { Mode::Tools },
        code_allowed: !head.starts_with("# mode closing"),
        streamed: !head.ends_with(" body") && !second.contains("application/json"),
        bytes: parts.next().unwrap().to_vec(),
    })
}

fn replay<'a>(fixture: &Fixture, pieces: impl Iterator<Item = &'a [u8]>) -> Replay {
    let mut reader = SseReader::new();
    let mut builder = ReplyBuilder::new(fixture.mode, fixture.code_allowed, 1);
    let mut shown = Vec::new();
    for piece in pieces {
        for item in reader.feed(piece) {
            shown.extend(builder.push(&item));
        }
        if builder.complete() {
            break;
        }
    }
    for item in reader.finish() {
        shown.extend(builder.push(&item));
    }
    collect(shown, builder)
}

fn collect(shown: Vec<(Channel, String)>, builder: ReplyBuilder) -> Replay {
    let of = |channel| shown.iter().filter(|(c, _)| *c == channel).map(|(_, text)| text.as_str()).collect::<String>();
    Replay {
        text: of(Channel::Text),
        reasoning: of(Channel::Reasoning),
        code: of(Channel::Code),
        result: builder.finish(),
    }
}

fn whole(fixture: &Fixture) -> Replay {
    if fixture.streamed {
        return replay(fixture, std::iter::once(fixture.bytes.as_slice()));
    }
    let mut builder = ReplyBuilder::new(fixture.mode, fixture.code_allowed, 1);
    let shown = builder.body(&String::from_utf8_lossy(&fixture.bytes));
    collect(shown, builder)
}

fn describe(replay: &Replay) -> String {
    let candidate = |c: &Candidate| {
        json!({
            "id": c.id, "readings": c.readings, "gate": c.gate, "or_text": c.or_text,
            "timeout_seconds": c.timeout_seconds, "how": c.how, "raw": c.raw,
        })
    };
    let result = match &replay.result {
        Ok(draft) => json!({
            "reply": draft.reply,
            "candidates": draft.candidates.iter().map(candidate).collect::<Vec<Value>>(),
        }),
        Err(failure) => json!({ "failure": failure }),
    };
    let shown = json!({ "text": replay.text, "reasoning": replay.reasoning, "code": replay.code });
    serde_json::to_string_pretty(&json!({ "shown": shown, "result": result })).unwrap()
}

#[test]
fn each_fixture_gives_what_its_snapshot_says() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("fixtures/llm/snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for fixture in fixtures() {
            insta::assert_snapshot!(fixture.name.clone(), describe(&whole(&fixture)));
        }
    });
}

/// The builder sees nothing but items, so for each offset it is enough that the reader, cut there, gives the same items and
/// is in the same state a little later. Small fixtures go all the way.
#[test]
fn every_split_gives_the_same() {
    for fixture in fixtures().iter().filter(|fixture| fixture.streamed) {
        let bytes = &fixture.bytes;
        let mut before = SseReader::new();
        for at in 0..bytes.len() {
            let later = (at + SPLIT_WINDOW_BYTES).min(bytes.len());
            let (mut cut, mut uncut) = (before.clone(), before.clone());
            let mut items = cut.feed(&bytes[at..at + 1]);
            items.extend(cut.feed(&bytes[at + 1..later]));
            assert_eq!(items, uncut.feed(&bytes[at..later]), "{} cut behind {at}", fixture.name);
            assert_eq!(cut, uncut, "{} cut behind {at}", fixture.name);
            before.feed(&bytes[at..at + 1]);
        }
        let expected = whole(fixture);
        assert_eq!(replay(fixture, bytes.chunks(1)), expected, "{} byte by byte", fixture.name);
        for at in 0..if bytes.len() <= SMALL_BYTES { bytes.len() } else { 0 } {
            let (first, second) = bytes.split_at(at);
            assert_eq!(replay(fixture, [first, second].into_iter()), expected, "{} cut at {at}", fixture.name);
        }
    }
}

/// Whatever arrives before the connection breaks: no prefix of a stream may become another answer or other code.
#[test]
fn a_prefix_is_never_an_answer() {
    for fixture in fixtures().iter().filter(|fixture| fixture.streamed) {
        let full = whole(fixture).result;
        let bytes = &fixture.bytes;
        let step = bytes.len() / SMALL_BYTES * 13 + 1;
        for at in (0..bytes.len()).step_by(step) {
            if let Ok(draft) = replay(fixture, std::iter::once(&bytes[..at])).result {
                let Ok(full) = &full else { panic!("{} cut at {at} became {draft:?}", fixture.name) };
                assert_eq!(draft.candidates, full.candidates, "{} cut at {at}", fixture.name);
                assert_eq!(draft.reply.text, full.reply.text, "{} cut at {at}", fixture.name);
            }
        }
    }
}
