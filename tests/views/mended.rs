//! What reviews found, each as the shortest way to see it.

use sandscript::core::command::*;
use sandscript::core::event::*;
use sandscript::core::policy::Network;
use sandscript::tui::msg::Action;

use super::bench::{Bench, Start};
use super::recorded::{session, until};
use super::scenes::*;
use super::tape::{Tape, info};

fn terms() -> Terms {
    Terms { timeout_seconds: 10, network: Network::Off, executor: "native".into(), tier: "A".into() }
}

fn typed(bench: &mut Bench, text: &str) {
    bench.type_str(text);
    bench.press("enter");
    bench.advance(50);
}

fn approves(bench: &mut Bench) -> usize {
    bench.orders().iter().filter(|o| matches!(o, Command::Approve { .. })).count()
}

/// Cells of a session that goes on wait to be run again or not.
fn rebuilding() -> Bench {
    let mut bench = Bench::new(narrow());
    let records = session("resumed");
    let resumed = until(&records, "session_resumed", 1).len() - 1;
    bench.tell(Update::Past(records[..resumed].to_vec()));
    for record in &records[resumed..] {
        bench.told(std::slice::from_ref(record));
    }
    bench.tell(Update::AskRebuild { cells: vec![(1, "x = 1\n".into())], terms: terms() });
    bench.advance(1000);
    bench.actions();
    bench
}

#[test]
fn a_session_whose_pane_was_cleared_still_has_content() {
    let mut bench = in_pane("repaired", 0);
    typed(&mut bench, "/clear");
    assert!(bench.app().has_content());
}

#[test]
fn an_answer_that_was_followed_by_anything_is_no_answer() {
    for other in ["ctrl-z", "ctrl-c", "tab", "up", "f1", "pageup", "x"] {
        let mut bench = waiting();
        bench.press("y");
        bench.advance(100);
        bench.press(other);
        bench.advance(5000);
        assert_eq!(approves(&mut bench), 0, "{other}");
    }
}

#[test]
fn cells_run_again_as_they_were_shown() {
    let mut bench = rebuilding();
    assert!(bench.shows("10 s"), "the terms are shown:\n{}", bench.screen());
    bench.press("y");
    bench.advance(1000);
    let cells = vec![(1, "x = 1\n".to_string())];
    assert_eq!(bench.orders(), [Command::Rebuild { approved: true, cells, terms: terms() }]);
}

#[test]
fn code_of_ones_own_waits_until_it_is_clear_which_variables_there_are() {
    let mut bench = rebuilding();
    bench.press("tab");
    bench.press("i");
    typed(&mut bench, "/run print(1)");
    assert!(!bench.orders().iter().any(|o| matches!(o, Command::Propose { .. })));
    assert!(bench.shows("/run print(1)"), "nothing typed is lost:\n{}", bench.screen());
}

#[test]
fn an_approval_that_was_refused_leaves_the_code_waiting() {
    let mut bench = waiting();
    let proposal = until(&session("repaired"), "code_proposed", 1).last().unwrap().event.clone();
    let Event::CodeProposed(Proposal { step, attempt, call, terms, .. }) = proposal else { unreachable!() };
    let stale = Terms { timeout_seconds: terms.timeout_seconds + 1, ..terms };
    bench.stream(Event::CodeApproved { step, attempt, call, edited: None, by: "user".into(), terms: stale });
    bench.advance(1000);
    assert!(bench.shows("waiting for you"), "{}", bench.screen());
    bench.press("y");
    bench.advance(1000);
    assert_eq!(approves(&mut bench), 1);
}

#[test]
fn a_text_left_with_ctrl_c_comes_back_with_the_editor() {
    let mut bench = waiting();
    bench.press("e");
    bench.advance(200);
    bench.type_str("kept = 1");
    bench.press("ctrl-c");
    bench.advance(1000);
    assert!(!bench.shows("kept = 1"), "the code is as it was");
    bench.press("e");
    bench.advance(200);
    assert!(bench.shows("kept = 1"), "{}", bench.screen());
}

#[test]
fn deleting_a_session_asks_about_the_code_again() {
    let mut bench = waiting();
    bench.press("i");
    typed(&mut bench, "/sessions");
    let asked = bench.orders().into_iter().find_map(|o| match o {
        Command::Ask(id, Question::Sessions) => Some(id),
        _ => None,
    });
    let row = SessionRow {
        id: "20260101-000000-000000".into(),
        started: Default::default(),
        folder: Default::default(),
        model: Default::default(),
        title: Default::default(),
        turns: None,
        status: None,
        bytes: 1,
        crashed: false,
        open: false,
    };
    bench.tell(Update::Reply(asked.unwrap(), Answer::Sessions(vec![row])));
    bench.press("ctrl-x");
    bench.advance(1000);
    assert!(bench.shows("Delete session 20260101-000000-000000?"), "{}", bench.screen());
    bench.press("n");
    bench.advance(1000);
    bench.press("esc");
    bench.advance(1000);
    bench.press("y");
    bench.advance(1000);
    assert_eq!(approves(&mut bench), 1, "{}", bench.screen());
}

#[test]
fn a_replay_shows_the_code_that_ran() {
    let mut bench = Bench::new(Start { replay: true, ..narrow() });
    let mut tape = Tape::began(info());
    tape.say("q").reply("", "models_text = 1\n");
    let before = shared(tape.cut());
    bench.told(&before);
    bench.press("tab");
    assert!(bench.shows("models_text"));
    tape.approve(Some("persons_text = 2\n"));
    bench.told(&shared(tape.cut()));
    assert!(bench.shows("persons_text") && !bench.shows("models_text"), "{}", bench.screen());
    bench.tell(Update::Reset);
    bench.told(&before);
    assert!(bench.shows("models_text") && !bench.shows("persons_text"), "{}", bench.screen());
}

#[test]
fn a_cell_that_could_not_run_again_changes_no_other_attempt() {
    let mut bench = rebuilding();
    let cells = vec![RebuildCell { step: 1, code: "x = 1\n".into() }];
    bench.stream(Event::RebuildDecided { cells, approved: true, by: "user".into(), terms: terms() });
    let before = bench.screen().matches("could not start").count();
    let failure = Failure::new("no sandbox", "", "");
    bench.stream(ran(1, 0, Outcome::SetupFailed { failure, missing: false }));
    assert_eq!(bench.screen().matches("could not start").count(), before, "{}", bench.screen());
}

#[test]
fn another_model_can_be_named_before_the_session_begins() {
    let mut bench = no_start();
    bench.press("backtab");
    typed(&mut bench, "/model other");
    let named = |o: &Command| matches!(o, Command::Start { model: Some(name), .. } if name == "other");
    assert!(bench.orders().iter().any(named), "{}", bench.screen());
    let mut bench = no_start();
    bench.press("M");
    bench.advance(1000);
    bench.press("esc");
    let actions = bench.actions();
    assert!(!actions.iter().any(|a| matches!(a, Action::Leave(_))), "one is back at the question: {actions:?}");
}

#[test]
fn the_next_match_is_no_rejection() {
    let mut bench = moment(narrow(), "repaired", "model_delta", 20);
    bench.press("tab");
    bench.press("/");
    bench.type_str("e");
    bench.press("enter");
    let records = session("repaired");
    let at = until(&records, "model_delta", 20).len();
    bench.told(&until(&records, "code_proposed", 1)[at..]);
    bench.advance(2000);
    bench.press("n");
    bench.advance(2000);
    assert!(!bench.shows("Why not?"), "{}", bench.screen());
}

#[test]
fn hostile_numbers_of_a_log_are_only_large() {
    let mut tape = Tape::began(info());
    tape.say("q");
    let mut bench = Bench::live(narrow(), &shared(tape.cut()));
    let usage = Some(Usage { prompt: u64::MAX, completion: u64::MAX });
    bench.stream(Event::ModelReplied(Box::new(Reply { text: "x".into(), usage, ..Reply::default() })));
    bench.stream(Event::TurnEnded { status: TurnStatus::Answered, answer: "x".into(), unrepaired: false });
    let Event::CodeProposed(own) = proposal("own-1-1", "x", u32::MAX, u64::MAX) else { unreachable!() };
    bench.stream(Event::CodeProposed(Proposal { step: u32::MAX, how: How::User, ..own }));
    bench.stream(Event::TurnEnded { status: TurnStatus::Rejected, answer: String::new(), unrepaired: false });
    bench.stream(Event::UserSaid { text: "again".into() });
    let call = Call { id: "c".into(), code: "y".into(), timeout_seconds: Some(u64::MAX), how: How::Call, raw: None };
    bench.stream(Event::ModelReplied(Box::new(Reply { calls: vec![call], ..Reply::default() })));
    assert!(bench.shows("again"));
}

#[test]
fn code_of_ones_own_is_checked_too() {
    let mut bench = idle();
    let Event::CodeProposed(own) = proposal("own-1-1", "x = 'a\n", 1, 10) else { unreachable!() };
    bench.stream(Event::CodeProposed(Proposal { how: How::User, ..own }));
    let asked = bench.orders().into_iter().find_map(|o| match o {
        Command::Ask(id, Question::Compile(code)) if code == "x = 'a\n" => Some(id),
        _ => None,
    });
    let error = Some((1, "unterminated string".to_string()));
    bench.tell(Update::Reply(asked.unwrap(), Answer::Compiled(error)));
    bench.advance(1000);
    assert!(bench.shows("does not compile: line 1: unterminated string"), "{}", bench.screen());
}

#[test]
fn code_behind_emptiness_is_said_beside_the_key() {
    let wide = format!("print('nice'){}; hidden()\n", " ".repeat(3000));
    let bench = proposing(info(), &wide);
    assert!(bench.shows("line 1 goes on behind 3000 spaces"), "{}", bench.screen());
    let deep = format!("print('nice')\n{}hidden()\n", "\n".repeat(500));
    let bench = proposing(info(), &deep);
    assert!(bench.shows("line 502 comes behind 500 empty lines"), "{}", bench.screen());
}

#[test]
fn words_that_begin_when_the_question_is_seen_are_words_however_slowly_they_come() {
    for gap in [0, 60, 150, 250, 400, 1000] {
        let mut bench = proposed(narrow());
        assert!(bench.shows("y run"), "it is seen at once:\n{}", bench.screen());
        for c in "yes please".chars() {
            let key = if c == ' ' { "space".to_string() } else { c.to_string() };
            bench.press(&key);
            bench.advance(gap);
        }
        bench.advance(5000);
        assert_eq!(approves(&mut bench), 0, "{gap} ms");
        assert!(bench.shows("> yes please"), "{gap} ms:\n{}", bench.screen());
    }
}

#[test]
fn a_draft_that_was_cleared_is_found_again() {
    let mut bench = idle();
    bench.type_str("a long thought");
    bench.press("ctrl-c");
    assert!(!bench.shows("a long thought"));
    bench.press("up");
    assert!(bench.shows("> a long thought"), "{}", bench.screen());
}
