//! What is drawn, at three sizes: `cargo insta review` shows what a change does to it.

use std::sync::Arc;

use sandscript::core::clean::Clean;
use sandscript::core::command::*;
use sandscript::core::event::*;
use sandscript::tui::theme::ThemeName;

use super::bench::{Bench, Start};
use super::recorded::{RIGHT, WRONG, session, until};
use super::scenes::moment;
use super::tape::{Tape, info, subprocess};

const SIZES: [(u16, u16); 3] = [(120, 40), (80, 24), (40, 12)];

/// The pictures of all sizes, one below the other. Each is made from the start: that a screen that was resized looks the
/// same is another test.
fn sizes(make: impl Fn(Start) -> Bench) -> String {
    let picture = |size| make(Start { size, ..Start::default() }).picture();
    SIZES.map(picture).join("\n")
}

/// A live session up to the `nth` record of a type, after the quiet a question needs.
fn at(name: &str, kind: &str, nth: usize) -> String {
    sizes(|start| moment(start, name, kind, nth))
}

fn proposing(start: Start, code: &str) -> Bench {
    let mut tape = Tape::began(info());
    tape.say("Which region grew most?").reply("I group.", code);
    let records: Vec<Arc<Record>> = tape.cut().into_iter().map(Arc::new).collect();
    let mut bench = Bench::live(start, &records);
    bench.advance(400);
    bench
}

macro_rules! drawn {
    ($($name:ident = $text:expr;)*) => {
        $(#[test] fn $name() { insta::assert_snapshot!(stringify!($name), $text); })*
    };
}

drawn! {
    welcome = sizes(|start| moment(start, "repaired", "note", 1));
    starting = sizes(|start| {
        let mut bench = Bench::new(start);
        bench.tell(Update::Starting("installing pandas: 12 of 40 MiB".into()));
        bench.type_str("Which region");
        bench
    });
    loading_the_model = at("repaired", "note", 2);
    streaming_words = at("repaired", "model_delta", 8);
    streaming_code = at("repaired", "model_delta", 20);
    waiting_for_approval = at("repaired", "code_proposed", 1);
    waiting_with_a_draft = sizes(|start| {
        let mut bench = Bench::live(start, &until(&session("repaired"), "code_proposed", 1));
        bench.type_str("but only for 2026");
        bench.advance(1000);
        bench
    });
    approval_with_hidden_lines = sizes(|start| {
        let code: String = (1..=60).map(|n| format!("line_{n} = {n}\n")).collect();
        proposing(start, &code)
    });
    approval_with_wide_lines = sizes(|start| {
        let mut bench = proposing(start, &format!("short = 1\nwide = \"{}\"\nos.remove(wide)\n", "0123456789 ".repeat(20)));
        bench.press("w");
        bench
    });
    approval_with_invisible_characters =
        sizes(|start| proposing(start, "user = \"a\u{202e}b\"  # \u{2066}safe\u{2069}\nname\u{200b} = 1\n"));
    approval_where_nothing_isolates = sizes(|start| {
        let mut tape = Tape::began(subprocess());
        tape.say("Wait.").replied("", "import time\ntime.sleep(60)\n", Some(600), How::Recovered);
        let records: Vec<Arc<Record>> = tape.cut().into_iter().map(Arc::new).collect();
        let mut bench = Bench::live(start, &records);
        bench.advance(400);
        bench
    });
    editing = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 1);
        bench.press("e");
        bench.advance(200);
        bench.press("down");
        bench.press("down");
        bench.type_str("x = (");
        bench
    });
    edited_and_does_not_compile = sizes(does_not_compile);
    editing_again_where_it_does_not_compile = sizes(|start| {
        let mut bench = does_not_compile(start);
        bench.advance(7000);
        bench.press("e");
        bench.advance(200);
        bench
    });
    run_all_question = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 1);
        bench.press("a");
        bench.advance(600);
        bench
    });
    reject_line = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 1);
        bench.press("n");
        bench.advance(200);
        bench.type_str("the column is called region");
        bench
    });
    limit_line = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 1);
        bench.press("t");
        bench.advance(200);
        bench
    });
    rejected = at("rejected", "turn_ended", 1);
    running = at("long-output", "run_output", 12);
    failed_attempt = at("repaired", "run_finished", 1);
    second_attempt_waits = at("repaired", "code_proposed", 2);
    success_with_a_table = at("repaired", "run_finished", 2);
    answered = at("repaired", "turn_ended", 1);
    table_zoomed = sizes(|start| {
        let mut bench = moment(start, "repaired", "turn_ended", 1);
        bench.press("tab");
        bench.press("tab");
        bench.press("tab");
        bench.press("x");
        bench.press("z");
        bench
    });
    long_output = at("long-output", "turn_ended", 1);
    long_output_read_further_up = sizes(|start| {
        let records = session("long-output");
        let mut bench = moment(start, "long-output", "run_output", 200);
        for _ in 0..3 {
            bench.press("tab");
        }
        bench.press("pageup");
        bench.told(&records[until(&records, "run_output", 200).len()..]);
        bench
    });
    figure = sizes(|start| {
        let mut bench = moment(start, "figure", "run_finished", 1);
        for _ in 0..3 {
            bench.press("tab");
        }
        bench.figures();
        bench
    });
    interrupted_run = at("interrupted", "turn_ended", 1);
    interrupted_reply = at("interrupted", "turn_ended", 2);
    model_unreachable = at("unreachable", "turn_ended", 1);
    start_failed = sizes(|start| {
        let mut bench = Bench::new(start);
        let failure = Failure::new("no model server answers at http://localhost:11434", "connection refused", "start it with: ollama serve");
        bench.tell(Update::StartFailed { failure, models: Vec::new() });
        bench.advance(400);
        bench
    });
    consent_question = sizes(|start| {
        let mut bench = Bench::new(start);
        let hint = "sandscript doctor says what is missing";
        let failure = Failure::new("native and docker do not work here", "no user namespaces; no docker socket", hint);
        bench.tell(Update::Unsandboxed { failure });
        bench.advance(400);
        bench
    });
    failed_turn_question = at("exhausted", "turn_ended", 1);
    stalled_sandbox = at("stalled", "run_finished", 1);
    rebuild_question = sizes(|start| {
        let mut bench = Bench::live(start, &session("resumed"));
        let cells = vec![(1, RIGHT.to_string()), (2, "print(df[\"growth\"].sum())\n".into()), (4, WRONG.into())];
        bench.tell(Update::AskRebuild { cells, terms: terms_of(&bench) });
        bench.advance(400);
        bench
    });
    hostile_approval = at("hostile", "code_proposed", 1);
    hostile_end = at("hostile", "session_ended", 1);
    replay_in_the_middle = sizes(|start| replaying(start, "repaired", "run_finished", 1));
    replay_of_a_crash = sizes(|start| replaying(start, "crashed", "run_started", 2));
    replay_of_an_edited_step = sizes(|start| replaying(start, "edited", "run_finished", 1));
    sessions_picker = sizes(|start| {
        let mut bench = Bench::new(Start { pick: true, ..start });
        bench.tell(Update::Reply(1, Answer::Sessions(rows())));
        bench.type_str("sales");
        bench
    });
    models_picker = sizes(|start| {
        let mut bench = Bench::new(start);
        let failure = Failure::new("the server has no model mistral-nemo", "", "ollama pull mistral-nemo");
        let models = ["qwen2.5-coder:7b", "llama3.1:8b"].map(String::from).to_vec();
        bench.tell(Update::StartFailed { failure, models });
        bench.press("down");
        bench
    });
    help = sizes(|start| {
        let mut bench = moment(start, "repaired", "note", 1);
        bench.press("?");
        bench
    });
    pager = sizes(|start| {
        let mut bench = moment(start, "long-output", "turn_ended", 1);
        for _ in 0..3 {
            bench.press("tab");
        }
        bench.press("O");
        bench
    });
    diff_to_the_attempt_before = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 2);
        bench.press("d");
        bench
    });
    attempt_before = sizes(|start| {
        let mut bench = moment(start, "repaired", "code_proposed", 2);
        bench.press("[");
        bench
    });
    completion = sizes(|start| {
        let mut bench = moment(start, "repaired", "note", 1);
        bench.type_str("/re");
        bench
    });
    completion_of_a_file = sizes(|start| {
        let mut bench = moment(start, "repaired", "note", 1);
        bench.type_str("look at @");
        bench
    });
    queued_message = sizes(|start| {
        let mut bench = moment(start, "repaired", "model_delta", 20);
        bench.type_str("and by month, too");
        bench.press("enter");
        bench.advance(100);
        bench
    });
    chat_in_a_narrow_window = sizes(|start| {
        let mut bench = moment(start, "repaired", "turn_ended", 1);
        bench.press("tab");
        bench
    });
    search_in_the_output = sizes(|start| {
        let mut bench = moment(start, "long-output", "turn_ended", 1);
        for _ in 0..3 {
            bench.press("tab");
        }
        bench.press("/");
        bench.type_str("row 150");
        bench.press("enter");
        bench
    });
}

fn does_not_compile(start: Start) -> Bench {
    let mut bench = moment(start, "repaired", "code_proposed", 1);
    bench.press("e");
    bench.advance(200);
    bench.press("down");
    bench.press("down");
    bench.type_str("x = (");
    bench.press("esc");
    let asked = bench.orders().into_iter().find_map(|order| match order {
        Command::Ask(id, Question::Compile(_)) => Some(id),
        _ => None,
    });
    bench.tell(Update::Reply(asked.unwrap(), Answer::Compiled(Some((3, "'(' was never closed".into())))));
    bench.advance(400);
    bench
}

fn terms_of(bench: &Bench) -> Terms {
    assert!(bench.app().session_id().is_some());
    Terms { timeout_seconds: 10, network: Default::default(), executor: "native".into(), tier: "A".into() }
}

/// A replay that stands behind the `nth` record of a type.
fn replaying(start: Start, name: &str, kind: &str, nth: usize) -> Bench {
    let mut bench = Bench::new(Start { replay: true, ..start });
    let all = session(name);
    let shown = until(&all, kind, nth);
    // One by one, as when it is stepped through.
    for record in &shown {
        bench.told(&[Arc::clone(record)]);
    }
    let marks: Vec<(usize, Mark)> = all
        .iter()
        .enumerate()
        .filter_map(|(at, record)| match &record.event {
            Event::UserSaid { .. } => Some((at, Mark::Question)),
            Event::CodeProposed(_) => Some((at, Mark::Attempt)),
            Event::RunFinished(finished) if !finished.outcome.is_success() => Some((at, Mark::Failure)),
            _ => None,
        })
        .collect();
    bench.tell(Update::Position(Position {
        at: shown.len(),
        total: all.len(),
        at_ms: shown.last().map_or(0, |r| r.at_ms),
        end_ms: all.last().map_or(0, |r| r.at_ms),
        playing: false,
        speed: 2.0,
        marks: marks.into(),
        warnings: if name == "crashed" {
            vec!["the log ends in the middle of a line".to_string()].into()
        } else {
            [].into()
        },
    }));
    bench
}

fn rows() -> Vec<SessionRow> {
    let row = |id: &str, title: &str, status, crashed, bytes| SessionRow {
        id: id.into(),
        started: Clean::line("2026-11-30T20:05:12.000Z"),
        folder: Clean::line("/home/ada/sales"),
        model: Clean::line("mistral-nemo"),
        title: Clean::line(title),
        turns: Some(2),
        status,
        bytes,
        crashed,
        open: false,
    };
    vec![
        row("20261130-200512-a1b2c3", "Which region grew most?", Some(TurnStatus::Answered), false, 48_000),
        row(
            "20261129-101500-d4e5f6",
            "Clean the table up, and \u{202e}then tell me what is odd about it and why it is",
            None,
            true,
            3_400_000,
        ),
        row("20261128-090000-071829", "Draw the growth.", Some(TurnStatus::Failed), false, 900),
    ]
}

/// What looks how: the colours of an approval and of changes say what matters.
#[test]
fn an_approval_in_colours() {
    for (name, theme) in [("dark", ThemeName::Dark), ("light", ThemeName::Light), ("mono", ThemeName::Mono)] {
        let start = Start { size: (80, 24), theme, ..Start::default() };
        let mut bench = moment(start, "repaired", "code_proposed", 2);
        bench.colours();
        insta::assert_snapshot!(format!("approval_in_{name}"), bench.looks());
        bench.press("d");
        insta::assert_snapshot!(format!("changes_in_{name}"), bench.looks());
    }
}

#[test]
fn a_screen_that_was_resized_is_drawn_as_one_that_began_so() {
    for (name, kind, nth) in
        [("repaired", "code_proposed", 2), ("long-output", "turn_ended", 1), ("hostile", "run_finished", 1)]
    {
        let mut bench = moment(Start::default(), name, kind, nth);
        for (columns, rows) in [(1, 1), (80, 24), (300, 5), (40, 12), (0, 0), (80, 24)] {
            bench.resize(columns, rows);
        }
        let fresh = moment(Start { size: (80, 24), ..Start::default() }, name, kind, nth);
        assert_eq!(bench.screen(), fresh.screen(), "{name}");
    }
}
