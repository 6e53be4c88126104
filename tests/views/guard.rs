//! Nothing typed is ever taken for an answer, and nothing runs but what was shown.

use std::time::Duration;

use proptest::prelude::*;
use sandscript::core::command::{Answer, Command, Question, Update};
use sandscript::core::event::*;
use sandscript::core::policy::{Capabilities, Hold, Limit, Network};
use sandscript::tui::keys::{BINDINGS, Scope};
use sandscript::tui::msg::{Action, Msg};

use super::bench::{Bench, Start};
use super::recorded::{RIGHT, WRONG, session, until};
use super::scenes::*;
use super::tape::{info, native};

fn decides(order: &Command) -> bool {
    matches!(order, Command::Approve { .. } | Command::Reject { .. } | Command::Interrupt | Command::Amend { .. })
}

/// What stands in the text field: it is what an editor would be given.
fn draft(bench: &mut Bench) -> String {
    bench.actions();
    while !matches!(bench.picture().lines().next(), Some(head) if head.contains("cursor")) {
        bench.press("tab");
    }
    bench.press("ctrl-g");
    match &bench.actions()[..] {
        [Action::Edit { text, suffix: ".md" }] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// The keys that answer an approval, those of the pane, and others.
fn typed() -> impl Strategy<Value = char> {
    let keys = BINDINGS.iter().filter(|b| matches!(b.scope, Scope::Approval | Scope::Pane)).flat_map(|b| b.keys);
    let letters: Vec<char> = keys.filter_map(|k| k.parse().ok()).chain("yyyyes please".chars()).collect();
    // A slash offers commands and a question mark at the start asks for help.
    proptest::sample::select(letters.into_iter().filter(|c| !"/?".contains(*c)).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Typing that begins before the question takes the keys is never an answer, however slow it goes on.
    #[test]
    fn words_that_began_before_the_question_opened_are_words(
        first in 0u64..300,
        keys in proptest::collection::vec((typed(), 0u64..1200), 1..12),
    ) {
        let mut bench = proposed(narrow());
        bench.advance(first);
        for (key, gap) in &keys {
            bench.press(&key.to_string());
            bench.advance(*gap);
        }
        bench.advance(2000);
        prop_assert!(!bench.orders().iter().any(decides));
        let expected: String = keys.iter().map(|(key, _)| *key).collect();
        prop_assert_eq!(draft(&mut bench), expected);
    }

    /// An answer key that is followed by another within 150 ms is the start of a word, and comes into the draft with it.
    #[test]
    fn words_that_are_typed_at_an_open_question_are_words(
        quiet in 300u64..3000,
        first in proptest::sample::select("yneatE".chars().collect::<Vec<_>>()),
        keys in proptest::collection::vec((typed(), 0u64..149), 1..10),
    ) {
        let mut bench = proposed(narrow());
        bench.advance(quiet);
        bench.press(&first.to_string());
        let mut expected = first.to_string();
        let mut gap = 100;
        for (key, next) in &keys {
            bench.advance(gap);
            bench.press(&key.to_string());
            expected.push(*key);
            gap = *next;
        }
        bench.advance(2000);
        prop_assert!(!bench.orders().iter().any(decides));
        prop_assert_eq!(draft(&mut bench), expected);
    }

    /// A lone `y` with quiet on both sides runs what is shown; the property would hold of a screen that never answers.
    #[test]
    fn a_lone_key_with_quiet_on_both_sides_answers(before in 300u64..2000, behind in 150u64..2000) {
        let mut bench = proposed(narrow());
        bench.advance(before);
        bench.press("y");
        bench.advance(behind);
        let orders = bench.orders();
        let approved = matches!(&orders[..], [Command::Approve { edited: None, .. }]);
        prop_assert!(approved, "{:?}", orders);
    }
}

#[test]
fn yes_please_and_enter_run_nothing_and_are_said_at_any_speed() {
    for gap in [0, 1, 5, 9, 20, 60, 149, 151, 299, 301, 700] {
        for wait in [0, 100, 299] {
            let mut bench = proposed(narrow());
            bench.advance(wait);
            for key in "yes please".chars() {
                bench.press(&key.to_string());
                bench.advance(gap);
            }
            bench.press("enter");
            bench.advance(1);
            // A paste of these would have a line end there; typing does not.
            bench.advance(2000);
            let orders = bench.orders();
            assert!(!orders.iter().any(decides), "gap {gap}, wait {wait}: {orders:?}");
            let kept = bench.shows("queued: yes please") || draft(&mut bench).trim_end() == "yes please";
            assert!(kept, "gap {gap}, wait {wait}:\n{}", bench.screen());
        }
    }
}

#[test]
fn a_paste_while_a_key_waits_to_be_an_answer_is_text() {
    let mut bench = waiting();
    bench.press("y");
    bench.send(Msg::Paste("es, but not like that".into()));
    bench.advance(1000);
    assert!(!bench.orders().iter().any(decides));
    assert_eq!(draft(&mut bench), "yes, but not like that");
}

#[test]
fn enter_never_approves() {
    let mut bench = waiting();
    for _ in 0..3 {
        bench.press("enter");
        bench.advance(1000);
    }
    assert_eq!(bench.orders(), []);
}

#[test]
fn a_proposal_that_is_replaced_takes_the_key_with_it() {
    let mut bench = waiting();
    bench.press("y");
    bench.advance(100);
    bench.stream(proposal("other0001", "os.remove('a')\n", 1, 10));
    bench.advance(100);
    bench.advance(1000);
    assert!(!bench.orders().iter().any(decides), "the key was meant for other code");
}

#[test]
fn what_is_typed_for_one_proposal_decides_nothing_about_the_next() {
    for (key, typed) in [("n", "not like that"), ("t", "0")] {
        let mut bench = waiting();
        bench.press(key);
        bench.advance(200);
        bench.type_str(typed);
        bench.stream(proposal("other0001", "os.remove('a')\n", 1, 10));
        bench.press("enter");
        bench.advance(1000);
        let orders = bench.orders();
        assert!(!orders.iter().any(decides), "{orders:?}");
    }
}

#[test]
fn what_runs_is_what_was_edited_to_the_byte() {
    let mut bench = waiting();
    bench.press("e");
    bench.advance(200);
    bench.send(Msg::Paste("# \u{202e}mine\t\n".into()));
    bench.press("esc");
    bench.advance(600);
    let orders = bench.orders();
    let [Command::Ask(id, Question::Compile(checked))] = &orders[..] else { panic!("{orders:?}") };
    bench.tell(Update::Reply(*id, Answer::Compiled(None)));
    bench.press("y");
    bench.advance(600);
    let orders = bench.orders();
    let [Command::Approve { edited: Some(ran), step: 1, attempt: 1, .. }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(ran, checked);
    assert_eq!(*ran, format!("# \u{202e}mine\t\n{WRONG}"));
}

#[test]
fn an_edit_that_ends_where_it_began_is_none() {
    let mut bench = waiting();
    bench.press("e");
    bench.advance(200);
    bench.type_str("x");
    bench.press("backspace");
    bench.press("esc");
    bench.advance(600);
    bench.press("y");
    bench.advance(600);
    assert!(bench.orders().iter().any(|order| matches!(order, Command::Approve { edited: None, .. })));
}

#[test]
fn the_text_of_the_persons_own_editor_is_asked_and_run_to_the_byte() {
    let mut bench = waiting();
    bench.press("E");
    bench.advance(600);
    assert!(matches!(&bench.actions()[..], [Action::Edit { text, .. }] if text == WRONG));
    bench.send(Msg::EditorClosed(Ok(RIGHT.into())));
    bench.advance(600);
    assert!(!bench.orders().iter().any(decides), "the question comes back first");
    bench.press("y");
    bench.advance(600);
    assert!(bench.orders().iter().any(|o| matches!(o, Command::Approve { edited: Some(text), .. } if text == RIGHT)));
}

#[test]
fn an_editor_that_failed_changes_nothing() {
    let mut bench = waiting();
    bench.press("E");
    bench.advance(600);
    bench.send(Msg::EditorClosed(Err(Failure::new("the editor failed", "exit 1", ""))));
    assert!(bench.shows("the editor failed") && bench.shows("\"Region\"") && !bench.shows("edited by you"));
}

#[test]
fn an_edit_of_a_proposal_that_is_gone_runs_nothing_and_stays() {
    let mut bench = waiting();
    bench.press("e");
    bench.advance(200);
    bench.type_str("mine");
    bench.stream(proposal("other0001", "os.remove('a')\n", 1, 10));
    assert!(bench.shows("mineimport pandas"), "what is being written is not taken away");
    bench.press("esc");
    bench.advance(600);
    assert!(bench.shows("not run: other code waits"));
    bench.press("y");
    bench.advance(600);
    let orders = bench.orders();
    assert!(
        orders.iter().all(|o| matches!(o, Command::Approve { edited: None, call, .. } if call == "other0001")),
        "the new one is asked as it is: {orders:?}"
    );
}

#[test]
fn an_older_attempt_that_is_looked_at_is_not_what_y_runs() {
    let mut bench = moment(narrow(), "repaired", "code_proposed", 2);
    bench.press("[");
    assert!(bench.shows("this is an older attempt"));
    bench.press("y");
    bench.advance(600);
    assert_eq!(bench.orders(), []);
    assert!(bench.shows("▸2 ?"), "the code that waits is shown");
    bench.press("y");
    bench.advance(600);
    assert!(matches!(&bench.orders()[..], [Command::Approve { attempt: 2, .. }]));
}

#[test]
fn a_pane_that_was_enlarged_gives_way_to_the_question() {
    let mut bench = moment(narrow(), "repaired", "run_finished", 1);
    for _ in 0..3 {
        bench.press("tab");
    }
    bench.press("z");
    assert!(!bench.shows("╭ Code"));
    bench
        .told(&until(&session("repaired"), "code_proposed", 2)[until(&session("repaired"), "run_finished", 1).len()..]);
    bench.advance(600);
    assert!(bench.shows("╭ Code") && bench.shows("y run"), "{}", bench.screen());
}

#[test]
fn code_that_cannot_be_seen_is_not_run() {
    for size in [(1, 1), (3, 3), (20, 2)] {
        let mut bench = moment(Start { size, ..Start::default() }, "repaired", "code_proposed", 1);
        bench.press("y");
        bench.advance(600);
        let orders = bench.orders();
        let seen = bench.shows("import");
        assert_eq!(orders.iter().any(decides), seen, "{size:?}: {orders:?}");
    }
}

// ---- run all ---------------------------------------------------------------------------------------------------------

/// Everything runs without asking from now on.
fn runs_all() -> Bench {
    let mut bench = proposing(info(), RIGHT);
    bench.press("a");
    bench.advance(600);
    bench.press("y");
    bench.advance(600);
    let orders = bench.orders();
    let [Command::Approve { step, attempt, call, terms, by, edited }] = &orders[..] else { panic!("{orders:?}") };
    let (call, edited, by, terms) = (call.clone(), edited.clone(), by.clone(), terms.clone());
    let (step, attempt) = (*step, *attempt);
    assert_eq!(by, "run_all");
    bench.stream(Event::CodeApproved { step, attempt, call, edited, by, terms });
    bench.stream(ran(step, attempt, Outcome::Exited { code: 1 }));
    bench
}

fn runs_by_itself(bench: &mut Bench, event: Event) -> bool {
    bench.actions();
    bench.stream(event);
    bench.advance(1000);
    bench.orders().iter().any(|order| matches!(order, Command::Approve { .. }))
}

#[test]
fn run_all_runs_what_comes_on_the_same_terms() {
    assert!(runs_by_itself(&mut runs_all(), proposal("next00001", "print(1)\n", 2, 10)));
}

#[test]
fn run_all_is_offered_only_where_files_and_network_are_enforced() {
    for limit in [Limit::HostFiles, Limit::Network] {
        for hold in [Hold::BestEffort, Hold::No] {
            let mut capabilities: Capabilities = native();
            capabilities.0.insert(limit, hold);
            let mut bench = proposing(SessionInfo { capabilities, ..info() }, RIGHT);
            assert!(bench.shows("y run") && !bench.shows("run all"), "{limit:?} {hold:?}");
            bench.press("a");
            bench.advance(600);
            assert!(!bench.shows("Run everything"), "{limit:?} {hold:?}");
            bench.press("y");
            bench.advance(600);
            bench.orders();
            assert!(!runs_by_itself(&mut bench, proposal("next00001", "print(1)\n", 2, 10)));
        }
    }
}

#[test]
fn run_all_ends_with_what_allowed_it() {
    let other = |change: &dyn Fn(&mut Terms)| {
        let mut event = proposal("next00001", "print(1)\n", 2, 10);
        if let Event::CodeProposed(proposal) = &mut event {
            change(&mut proposal.terms);
        }
        event
    };
    let changes: [&dyn Fn(&mut Terms); 4] =
        [&|t| t.network = Network::On, &|t| t.executor = "docker".into(), &|t| t.tier = "C".into(), &|t| {
            t.timeout_seconds = 20
        }];
    for change in changes {
        let mut bench = runs_all();
        assert!(!runs_by_itself(&mut bench, other(change)));
        assert!(bench.shows("y run"), "it is asked again");
        assert!(!runs_by_itself(&mut bench, proposal("next00002", "print(1)\n", 3, 10)), "it has ended for good");
    }
    let inputs = Event::InputsListed { files: 1, bytes: 1, names: vec!["x.csv".into()], profile: String::new() };
    for event in [Event::SessionResumed(Box::new(info())), inputs] {
        let mut bench = runs_all();
        bench.stream(event);
        assert!(!runs_by_itself(&mut bench, proposal("next00001", "print(1)\n", 2, 10)));
    }
}

#[test]
fn no_to_run_all_and_esc_lead_back_to_the_question() {
    for key in ["n", "esc"] {
        let mut bench = proposing(info(), RIGHT);
        bench.press("a");
        bench.advance(600);
        bench.press(key);
        bench.advance(600);
        assert_eq!(bench.orders(), [], "{key}");
        assert!(bench.shows("y run"), "{key}:\n{}", bench.screen());
    }
}

#[test]
fn a_changed_limit_is_shown_and_approved_with_the_code() {
    let mut bench = waiting();
    bench.press("t");
    bench.advance(200);
    bench.press("ctrl-u");
    bench.type_str("90");
    bench.press("enter");
    let orders = bench.orders();
    let [Command::Amend { step: 1, attempt: 1, call, timeout_seconds: 90 }] = &orders[..] else { panic!("{orders:?}") };
    bench.stream(Event::TermsChanged { step: 1, attempt: 1, call: call.clone(), timeout_seconds: 90 });
    bench.advance(600);
    assert!(bench.shows("· 90 s"));
    bench.press("y");
    bench.advance(600);
    assert!(matches!(&bench.orders()[..], [Command::Approve { terms, .. }] if terms.timeout_seconds == 90));
}

#[test]
fn a_reason_goes_out_verbatim_and_esc_from_it_decides_nothing() {
    let mut bench = waiting();
    bench.press("n");
    bench.advance(200);
    bench.type_str("half");
    bench.press("esc");
    bench.advance(600);
    assert_eq!(bench.orders(), []);
    assert!(bench.shows("y run"));
    bench.press("n");
    bench.advance(200);
    bench.type_str("the column is \"region\"");
    bench.press("enter");
    let reason = Some("the column is \"region\"".to_string());
    assert!(matches!(&bench.orders()[..], [Command::Reject { reason: r, .. }] if *r == reason));
}

#[test]
fn a_question_is_open_no_sooner_than_after_its_quiet() {
    let mut bench = proposed(narrow());
    assert!(bench.deadline().is_some_and(|at| at <= Duration::from_millis(300)));
    bench.advance(299);
    assert!(bench.shows("code came"));
    bench.advance(1);
    assert!(bench.shows("y run"));
}
