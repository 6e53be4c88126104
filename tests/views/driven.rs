//! What keys, facts and time do to the screen, beyond single keys and the guard of the approval.

use std::sync::Arc;
use std::time::Instant;

use proptest::prelude::*;
use sandscript::core::command::*;
use sandscript::core::event::*;
use sandscript::core::policy::Network;
use sandscript::tui::Exit;
use sandscript::tui::keys::BINDINGS;
use sandscript::tui::msg::{Action, Msg};

use super::bench::{Bench, Start, key_of};
use super::recorded::{session, until};
use super::scenes::*;
use super::tape::{Tape, info};

fn answered() -> Event {
    Event::TurnEnded { status: TurnStatus::Answered, answer: "Done.".into(), unrepaired: false }
}

fn says(bench: &mut Bench) -> Vec<String> {
    let said = |order| if let Command::Say(text) = order { Some(text) } else { None };
    bench.orders().into_iter().filter_map(said).collect()
}

fn typed(bench: &mut Bench, text: &str) {
    bench.type_str(text);
    bench.press("enter");
    bench.advance(50);
}

// ---- Esc -------------------------------------------------------------------------------------------------------------

#[test]
fn esc_ends_the_search_and_then_the_zoom() {
    let mut bench = in_pane("long-output", 3);
    bench.press("z");
    bench.press("/");
    bench.type_str("row");
    bench.press("enter");
    bench.orders();
    bench.press("esc");
    bench.press("n");
    assert!(bench.shows("> n"), "the search is over: n is a letter");
    let mut bench = in_pane("long-output", 3);
    bench.press("z");
    bench.press("esc");
    assert!(bench.shows("╭ Chat") && bench.orders().is_empty(), "the zoom is over");
}

#[test]
fn esc_stops_what_runs_whatever_is_open() {
    let mut bench = moment(narrow(), "long-output", "run_output", 100);
    for _ in 0..3 {
        bench.press("tab");
    }
    bench.press("z");
    bench.press("esc");
    assert_eq!(bench.orders(), [Command::Interrupt]);
    bench.press("esc");
    assert_eq!(bench.orders(), [Command::Interrupt], "the second one kills");
}

#[test]
fn esc_while_code_waits_rejects_it_and_ends_the_turn() {
    let mut bench = waiting();
    bench.press("esc");
    assert_eq!(bench.orders(), [Command::Interrupt]);
    bench.advance(5000);
    bench.press("y");
    bench.advance(1000);
    assert!(!bench.orders().iter().any(|o| matches!(o, Command::Approve { .. })), "it was rejected already");
}

#[test]
fn esc_deletes_no_session_and_leads_back_to_the_list() {
    let mut bench = picker();
    bench.press("ctrl-x");
    bench.advance(600);
    bench.press("esc");
    assert!(bench.shows("╭ Sessions") && !bench.shows("Delete session"), "{}", bench.screen());
    let orders = bench.orders();
    assert!(!orders.iter().any(|o| matches!(o, Command::Ask(_, Question::Delete(_)))), "{orders:?}");
}

#[test]
fn ctrl_c_clears_then_stops_then_quits_and_forgets_after_a_while() {
    let mut bench = moment(narrow(), "long-output", "run_output", 100);
    bench.type_str("a draft");
    bench.press("ctrl-c");
    assert!(bench.orders().is_empty() && !bench.shows("a draft"));
    bench.press("ctrl-c");
    assert_eq!(bench.orders(), [Command::Interrupt]);
    bench.advance(3000);
    bench.press("ctrl-c");
    assert_eq!(bench.actions(), [Action::Send(Command::Interrupt)]);
    bench.press("ctrl-c");
    assert_eq!(bench.actions(), [Action::Leave(Exit::Quit)]);
}

// ---- the queue -------------------------------------------------------------------------------------------------------

#[test]
fn what_is_said_while_busy_waits_for_the_answer_and_goes_out_one_by_one() {
    let mut bench = moment(narrow(), "repaired", "model_delta", 20);
    typed(&mut bench, "and by month?");
    typed(&mut bench, "and by week?");
    assert_eq!(says(&mut bench), Vec::<String>::new());
    assert!(bench.shows("queued: and by month?") && bench.shows("2 queued"));
    bench.stream(answered());
    assert_eq!(says(&mut bench), ["and by month?"]);
    bench.advance(1000);
    assert_eq!(says(&mut bench), Vec::<String>::new(), "the second waits for its turn");
    bench.stream(Event::UserSaid { text: "and by month?".into() });
    bench.stream(answered());
    assert_eq!(says(&mut bench), ["and by week?"]);
}

#[test]
fn what_waits_is_given_back_when_the_turn_does_not_end_well() {
    for status in [
        TurnStatus::Stopped,
        TurnStatus::Failed,
        TurnStatus::Rejected,
        TurnStatus::ModelError,
        TurnStatus::SandboxError,
    ] {
        let mut bench = moment(narrow(), "repaired", "model_delta", 20);
        typed(&mut bench, "and by month?");
        bench.type_str("or");
        bench.stream(Event::TurnEnded { status, answer: String::new(), unrepaired: false });
        bench.advance(1000);
        assert_eq!(says(&mut bench), Vec::<String>::new(), "{status:?}");
        bench.press("ctrl-g");
        let actions = bench.actions();
        assert!(matches!(&actions[..], [Action::Edit { text, .. }] if text == "and by month?\nor"), "{actions:?}");
    }
}

#[test]
fn what_is_given_back_has_no_empty_line_behind_it() {
    let mut bench = moment(narrow(), "repaired", "model_delta", 20);
    typed(&mut bench, "and by month?");
    bench.stream(Event::TurnEnded { status: TurnStatus::Stopped, answer: String::new(), unrepaired: false });
    bench.press("ctrl-g");
    let actions = bench.actions();
    assert!(matches!(&actions[..], [Action::Edit { text, .. }] if text == "and by month?"), "{actions:?}");
}

#[test]
fn a_question_that_came_before_the_session_goes_out_when_it_can() {
    let mut bench = Bench::new(Start { prompt: Some("Which region grew most?".into()), ..narrow() });
    bench.tell(Update::Starting("looking for Python".into()));
    assert_eq!(says(&mut bench), Vec::<String>::new());
    bench.told(&until(&session("repaired"), "inputs_listed", 1));
    assert_eq!(says(&mut bench), ["Which region grew most?"]);
}

/// The records of the earlier part come first; what was typed meanwhile waits for the end of them and for the answer to
/// the question about its variables.
#[test]
fn a_question_typed_while_a_session_is_read_again_waits_for_its_variables() {
    let mut bench = Bench::new(narrow());
    typed(&mut bench, "and now?");
    let records = session("resumed");
    let resumed = until(&records, "session_resumed", 1).len() - 1;
    bench.tell(Update::Past(records[..resumed].to_vec()));
    for record in &records[resumed..] {
        bench.told(std::slice::from_ref(record));
    }
    let terms = Terms { timeout_seconds: 10, network: Network::Off, executor: "native".into(), tier: "A".into() };
    bench.tell(Update::AskRebuild { cells: vec![(1, "x = 1\n".into())], terms: terms.clone() });
    bench.advance(1000);
    assert_eq!(says(&mut bench), Vec::<String>::new());
    bench.press("y");
    bench.advance(1000);
    let cells = vec![(1, "x = 1\n".to_string())];
    assert_eq!(bench.orders(), [Command::Rebuild { approved: true, cells, terms: terms.clone() }]);
    let (code, by) = ("x = 1\n".to_string(), "user".to_string());
    let cells = [1, 2].map(|step| RebuildCell { step, code: code.clone() }).to_vec();
    bench.stream(Event::RebuildDecided { cells, approved: true, by, terms: terms.clone() });
    for step in [1, 2] {
        assert_eq!(says(&mut bench), Vec::<String>::new(), "nothing is said between the cells");
        bench.stream(Event::RunStarted { step, attempt: 0, terms: terms.clone(), runtime: "python".into() });
        bench.stream(ran(step, 0, Outcome::Exited { code: 0 }));
    }
    assert_eq!(says(&mut bench), ["and now?"]);
}

#[test]
fn nothing_is_announced_of_a_past_that_is_read_again() {
    let mut bench = Bench::new(narrow());
    bench.send(Msg::Focus(false));
    let records = session("resumed");
    let resumed = until(&records, "session_resumed", 1).len() - 1;
    bench.tell(Update::Past(records[..resumed].to_vec()));
    assert_eq!(bench.actions(), []);
}

// ---- focus -----------------------------------------------------------------------------------------------------------

#[test]
fn a_question_leaves_a_draft_alone_and_is_reached_by_tab() {
    let mut bench = proposed(narrow());
    bench.type_str("wait");
    bench.advance(5000);
    assert!(bench.shows("> wait") && bench.shows("Tab to answer, your draft is kept"));
    bench.press("y");
    bench.advance(1000);
    assert!(bench.shows("> waity") && bench.orders().is_empty());
    bench.press("tab");
    bench.advance(400);
    bench.press("y");
    bench.advance(400);
    assert!(matches!(&bench.orders()[..], [Command::Approve { .. }]));
    assert!(bench.shows("> waity"), "the draft is still there");
}

#[test]
fn who_comes_by_tab_is_asked_after_a_quiet_of_its_own() {
    let mut bench = proposed(narrow());
    bench.type_str("wait");
    bench.advance(5000);
    bench.press("tab");
    bench.press("y");
    bench.advance(1000);
    assert!(bench.orders().is_empty() && bench.shows("> waity"));
}

#[test]
fn a_question_elsewhere_does_not_lie_under_a_list_that_is_open() {
    let mut bench = moment(narrow(), "repaired", "model_delta", 20);
    bench.press("f1");
    bench.told(&session("repaired")[until(&session("repaired"), "model_delta", 20).len()..][..4]);
    bench.advance(2000);
    bench.press("y");
    bench.advance(1000);
    assert!(bench.shows("╭ Keys") && bench.orders().is_empty());
}

#[test]
fn a_person_who_looks_elsewhere_is_called_for_an_approval_and_after_a_long_turn() {
    let mut bench = moment(narrow(), "repaired", "model_delta", 20);
    bench.send(Msg::Focus(false));
    let rest = session("repaired");
    let from = until(&rest, "model_delta", 20).len();
    bench.advance(11_000);
    bench.told(&rest[from..until(&rest, "code_proposed", 1).len()]);
    assert!(matches!(&bench.actions()[..], [Action::Notify(text)] if text.contains("waits for your approval")));
    bench.stream(answered());
    assert!(matches!(&bench.actions()[..], [Action::Notify(text)] if text.contains("the turn is over")));
    bench.send(Msg::Focus(true));
    bench.stream(proposal("other0001", "print(1)\n", 1, 10));
    assert_eq!(bench.actions(), []);
}

// ---- reading ---------------------------------------------------------------------------------------------------------

#[test]
fn what_is_read_stays_where_it_is_while_more_comes_and_says_so() {
    let mut bench = moment(narrow(), "long-output", "run_output", 100);
    for _ in 0..3 {
        bench.press("tab");
    }
    bench.press("home");
    let before = bench.screen();
    let row = before.lines().find(|row| row.contains("row   1")).unwrap().to_string();
    let records = session("long-output");
    let (from, to) = (until(&records, "run_output", 100).len(), until(&records, "run_output", 150).len());
    bench.told(&records[from..to]);
    assert!(bench.screen().contains(&row), "the position is held");
    assert!(bench.shows("50 new below ↓"), "{}", bench.screen());
    bench.press("end");
    assert!(!bench.shows("new below"));
    let next = until(&records, "run_output", 160).len();
    bench.told(&records[to..next]);
    assert!(bench.shows("row 159"), "it follows again");
}

#[test]
fn the_chat_is_held_too_and_the_persons_own_words_lead_back_to_its_end() {
    let mut bench = in_pane("repaired", 0);
    bench.press("pageup");
    bench.stream(Event::Note { kind: NoteKind::Warning, text: "one more".into() });
    assert!(bench.shows("Chat · 1 new below"), "{}", bench.screen());
    bench.stream(Event::UserSaid { text: "Go on.".into() });
    assert!(bench.shows("Go on.") && !bench.shows("new below"));
}

// ---- idle ------------------------------------------------------------------------------------------------------------

/// A state, and how it is made.
type Scene = (&'static str, fn() -> Bench);

const AT_REST: &[Scene] = &[
    ("nothing asked yet", idle),
    ("approval", waiting),
    ("approval with a draft", || {
        let mut bench = proposed(narrow());
        bench.type_str("wait");
        bench
    }),
    ("answered", || in_pane("repaired", 0)),
    ("a table", || in_pane("repaired", 3)),
    ("a figure that is not there", || in_pane("figure", 3)),
    ("failed", failed),
    ("consent", consent),
    ("no start", no_start),
    ("sessions", picker),
    ("replay paused", replay),
    ("replay of what was running", || {
        let mut bench = Bench::new(Start { replay: true, ..narrow() });
        bench.told(&until(&session("long-output"), "run_output", 9));
        bench
    }),
    ("replay before its first record", || Bench::new(Start { replay: true, ..narrow() })),
    ("stalled", || moment(narrow(), "stalled", "run_finished", 1)),
    ("stopped by the sandbox", || moment(narrow(), "stalled", "turn_ended", 1)),
    ("editing", || {
        let mut bench = waiting();
        bench.press("e");
        bench.advance(200);
        bench.type_str("x");
        bench
    }),
    ("help", || {
        let mut bench = idle();
        bench.press("?");
        bench
    }),
    ("a reason", || {
        let mut bench = waiting();
        bench.press("n");
        bench.advance(200);
        bench
    }),
    ("the task behind is gone", || {
        let mut bench = moment(narrow(), "repaired", "model_delta", 20);
        bench.tell(Update::Ended);
        bench
    }),
];

#[test]
fn nothing_ticks_while_nothing_happens() {
    for (name, make) in AT_REST {
        let mut bench = make();
        bench.advance(10_000);
        assert_eq!(bench.deadline(), None, "{name}");
        let ticks = bench.ticks;
        bench.advance(3_600_000);
        assert_eq!(bench.ticks, ticks, "{name}");
    }
}

#[test]
fn time_is_counted_ten_times_a_second_and_less_where_nothing_shall_move() {
    for (motion, most) in [(true, 101), (false, 3)] {
        let mut bench = moment(Start { motion, ..narrow() }, "long-output", "run_output", 100);
        bench.advance(10_000);
        bench.ticks = 0;
        bench.advance(10_000);
        assert!((1..=most).contains(&bench.ticks), "{}", bench.ticks);
    }
}

// ---- a replay --------------------------------------------------------------------------------------------------------

#[test]
fn a_replay_orders_nothing_but_to_be_played() {
    for record in (1..=session("repaired").len()).step_by(4) {
        let mut bench = Bench::new(Start { replay: true, ..narrow() });
        bench.told(&session("repaired")[..record]);
        bench.actions();
        for key in ["y", "n", "a", "e", "E", "t", "enter", "esc", "r", "ctrl-g"] {
            bench.press(key);
            bench.advance(700);
        }
        assert!(bench.orders().iter().all(|o| matches!(o, Command::Transport(_))), "record {record}");
    }
}

#[test]
fn a_seek_shows_what_was_shown_on_the_way_there() {
    let records = session("repaired");
    let mut sought = Bench::new(Start { replay: true, ..narrow() });
    sought.told(&records);
    for at in (1..=records.len()).rev().step_by(7) {
        sought.tell(Update::Reset);
        sought.told(&records[..at]);
        let mut stepped = Bench::new(Start { replay: true, ..narrow() });
        for record in &records[..at] {
            stepped.told(std::slice::from_ref(record));
        }
        assert_eq!(sought.screen(), stepped.screen(), "record {at}");
    }
}

// ---- hostile and odd -------------------------------------------------------------------------------------------------

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Paste(&'static str),
    Size(u16, u16),
    Wait(u64),
    /// Some of the next records of the recording.
    Records(usize),
    Update(Update),
}

const SIZES: [(u16, u16); 6] = [(0, 0), (1, 1), (3, 3), (20, 5), (80, 24), (300, 100)];

fn step() -> impl Strategy<Value = Step> {
    let more =
        ["enter", "backspace", "delete", "x", "(", "é", "🦀", "\u{202e}", "shift-left", "alt-enter", "?", "@", "/"];
    let keys = BINDINGS.iter().flat_map(|b| b.keys.iter().copied()).chain(more).map(String::from);
    let failure = Failure::new("it failed", "why \u{1b}[2J", "do this");
    let terms = Terms { timeout_seconds: 10, network: Network::On, executor: "x".into(), tier: "-".into() };
    let updates = [
        Update::Reset,
        Update::Past(session("crashed")),
        Update::Starting("x\u{9b}y".into()),
        Update::Unsandboxed { failure: failure.clone() },
        Update::StartFailed { failure: failure.clone(), models: vec!["a\u{1b}".into(), "b".into()] },
        Update::AskRebuild { cells: vec![(1, "x = 1\n\u{202e}".repeat(30))], terms },
        Update::Position(Position {
            at: 3,
            total: 2,
            at_ms: 9,
            marks: [(7, Mark::Failure)].into(),
            ..Default::default()
        }),
        Update::Reply(1, Answer::History(vec!["before".into()])),
        Update::Reply(2, Answer::Compiled(Some((99, "bad\u{7}".into())))),
        Update::Reply(2, Answer::Blob(Arc::from(&b"\xff\x1b[2J"[..]))),
        Update::Reply(3, Answer::Failed(failure)),
        Update::Reply(3, Answer::Sessions(Vec::new())),
        Update::Ended,
    ];
    prop_oneof![
        6 => proptest::sample::select(keys.collect::<Vec<_>>()).prop_map(Step::Key),
        1 => proptest::sample::select(vec!["", "a\nb\n", "\u{1b}[200~", "\u{202e}\r\n\t"]).prop_map(Step::Paste),
        2 => proptest::sample::select(SIZES.to_vec()).prop_map(|(w, h)| Step::Size(w, h)),
        2 => (0u64..700).prop_map(Step::Wait),
        4 => (1usize..30).prop_map(Step::Records),
        1 => proptest::sample::select(updates.to_vec()).prop_map(Step::Update),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn nothing_that_happens_in_any_order_at_any_size_breaks_it(
        name in proptest::sample::select(vec!["repaired", "hostile", "long-output", "exhausted", "figure", "resumed"]),
        first in proptest::sample::select(SIZES.to_vec()),
        replay in any::<bool>(),
        pick in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut records = session(name).into_iter();
        let mut bench = Bench::new(Start { size: first, replay, pick, ..Start::default() });
        for step in steps {
            match step {
                Step::Key(key) => bench.press(&key),
                Step::Paste(text) => bench.send(Msg::Paste(text.into())),
                Step::Size(columns, rows) => bench.resize(columns, rows),
                Step::Wait(ms) => bench.advance(ms),
                Step::Records(count) => bench.told(&records.by_ref().take(count).collect::<Vec<_>>()),
                Step::Update(update) => bench.tell(update),
            }
            // What is on the screen is inert.
            bench.screen();
        }
    }
}

#[test]
fn keys_of_the_bench_are_those_of_the_table() {
    for key in BINDINGS.iter().flat_map(|b| b.keys) {
        key_of(key);
    }
}

// ---- size ------------------------------------------------------------------------------------------------------------

/// `cargo test --release --test views driven::a_long_log -- --ignored --nocapture` prints it.
#[test]
#[ignore = "a measurement"]
fn a_long_log_takes_time_in_proportion_to_its_length() {
    for count in [25_000, 50_000, 100_000] {
        let mut tape = Tape::began(info());
        let mut records = Vec::new();
        while records.len() < count {
            tape.say("Which region grew most?").reply("I group.", "print(1)\n").approve(None).starts();
            for row in 0..60 {
                tape.prints(StreamName::Stdout, &format!("row {row}: \u{1b}[32mgood\u{1b}[0m\n"));
            }
            tape.ends(Outcome::Exited { code: 0 }).reply("It is 1.", "");
            records.extend(shared(tape.cut()));
        }
        records.truncate(count);
        let mut bench = Bench::new(Start { replay: true, ..Start::default() });
        let begun = Instant::now();
        bench.told(&records);
        let folded = begun.elapsed();
        bench.tell(Update::Position(Position { at: count, total: count, ..Default::default() }));
        println!("{count} records: {folded:?} with one frame, {:?} for the next", begun.elapsed() - folded);
    }
}
