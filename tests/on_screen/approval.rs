//! Code that waits: run, edited, rejected.

use crate::common::{exit_codes, of};
use crate::person::{MEDIUM, Person, SMALL, WIDE, printed, statuses};
use crate::support::Say;

#[test]
fn a_question_is_answered_by_code_the_person_let_run() {
    for size in [WIDE, MEDIUM, SMALL] {
        let mut person = Person::on(size, vec![Say::call("print(6 * 7)"), Say::text("It is forty-two.")]);
        person.asks("What is it?");
        person.sees("print(6 * 7)");
        person.answers("y");
        person.sees("It is forty-two.");
        person.wait_for_record("turn_ended", "answered");
        let log = person.log();
        assert_eq!((printed(&log).as_str(), exit_codes(&log)), ("42\n", vec![0]));
        assert_eq!(of(&log, "code_approved")[0]["by"], "user");
        assert!(person.told().contains("42"), "{}", person.told());
        if size == WIDE {
            person.sees("exit 0");
            person.sees_that("the output is in its pane", |screen| screen.lines().any(|l| l.contains("│  42 ")));
        }
        person.quits();
        person.sees("go on with: sandscript resume ");
    }
}

#[test]
fn what_the_person_made_of_the_code_runs_and_the_model_is_told() {
    for size in [WIDE, MEDIUM, SMALL] {
        let mut person = Person::on(size, vec![Say::call("print('theirs')"), Say::text("Noted.")]);
        person.asks("Go");
        person.answers("e");
        person.sees("back to the question");
        person.press("end");
        for _ in "theirs')".chars() {
            person.press("backspace");
        }
        person.writes("mine')");
        person.press("esc");
        person.is_asked();
        person.press("d");
        person.sees("+ print('mine')");
        person.sees("- print('theirs')");
        person.press("esc");
        person.sees_no("- print('theirs')");
        person.answers("y");
        person.sees("Noted.");
        person.wait_for_record("turn_ended", "answered");
        let log = person.log();
        assert_eq!(printed(&log), "mine\n");
        assert_eq!(of(&log, "code_proposed")[0]["code"], "print('theirs')");
        assert_eq!(of(&log, "code_approved")[0]["edited"], "print('mine')");
        assert!(person.told().contains("print('mine')"), "{}", person.told());
    }
}

#[test]
fn an_edit_that_does_not_compile_is_marked_and_can_be_mended() {
    let mut person = Person::with(vec![Say::call("print(1)"), Say::text("Noted.")]);
    person.asks("Go");
    person.answers("e");
    person.sees("back to the question");
    person.press("end");
    person.press("backspace");
    person.sees("1 print(1 ");
    person.press("esc");
    person.sees("does not compile: line 1");
    person.answers("e");
    person.sees("back to the question");
    person.press("end");
    person.writes(" + 1)");
    person.press("esc");
    person.is_asked();
    person.sees_no("does not compile");
    person.answers("y");
    person.wait_for_record("turn_ended", "answered");
    assert_eq!(printed(&person.log()), "2\n");
}

#[test]
fn an_edit_taken_back_is_no_edit() {
    let mut person = Person::with(vec![Say::call("print(1)"), Say::text("Noted.")]);
    person.asks("Go");
    person.answers("e");
    person.sees("back to the question");
    person.writes("#");
    person.press("ctrl-r");
    person.sees_no("#print(1)");
    person.press("esc");
    person.answers("y");
    person.wait_for_record("turn_ended", "answered");
    assert!(of(&person.log(), "code_approved")[0]["edited"].is_null());
}

#[test]
fn a_reason_goes_to_the_model_word_for_word_and_the_turn_goes_on() {
    let reason = "use \"Region\", not 'region' – it's the col\\umn";
    for size in [WIDE, MEDIUM, SMALL] {
        let mut person =
            Person::on(size, vec![Say::call("print('no')"), Say::call("print('yes')"), Say::text("Better.")]);
        person.asks("Go");
        person.answers("n");
        person.sees("Why not?");
        person.pty.type_str(reason);
        person.sees("umn");
        person.enter();
        person.sees("print('yes')");
        let messages = person.server.chats()[1].json()["messages"].clone();
        let told =
            messages.as_array().unwrap().iter().any(|m| m["content"].as_str().is_some_and(|c| c.contains(reason)));
        assert!(told, "{messages}");
        person.answers("y");
        person.wait_for_record("turn_ended", "answered");
        let log = person.log();
        assert_eq!(printed(&log), "yes\n");
        assert_eq!(of(&log, "code_rejected")[0]["reason"], reason);
    }
}

#[test]
fn a_rejection_without_a_reason_ends_the_turn() {
    let mut person = Person::with(vec![Say::call("print('no')"), Say::text("Next.")]);
    person.asks("Go");
    person.answers("n");
    person.sees("Why not?");
    person.enter();
    person.wait_for_record("turn_ended", "rejected");
    person.sees("Ctrl-D quit");
    let log = person.log();
    assert!(of(&log, "run_started").is_empty() && of(&log, "code_approved").is_empty());
    person.asks("Then something else");
    person.sees("Next.");
    assert!(person.told().contains("not run"), "{}", person.told());
}

#[test]
fn escape_in_the_reason_goes_back_to_the_question() {
    let mut person = Person::with(vec![Say::call("print(1)"), Say::text("Noted.")]);
    person.asks("Go");
    person.answers("n");
    person.sees("Why not?");
    person.press("esc");
    person.sees_no("Why not?");
    person.answers("y");
    person.sees("Noted.");
}

#[test]
fn escape_at_the_question_ends_the_turn() {
    let mut person = Person::with(vec![Say::call("print('no')")]);
    person.asks("Go");
    person.is_asked();
    person.press("esc");
    person.wait_for_record("turn_ended", "rejected");
    assert!(of(&person.log(), "run_started").is_empty());
}

#[test]
fn a_time_limit_of_this_run_is_shown_and_holds() {
    let mut person = Person::with(vec![Say::call("while True: pass"), Say::text("Too slow.")]);
    person.asks("Go");
    person.answers("t");
    person.sees("Time limit of this run");
    person.press("backspace");
    person.press("backspace");
    person.press("1");
    person.enter();
    person.sees("· 1 s");
    person.answers("y");
    person.sees("Too slow.");
    person.sees("hit the time limit");
    let log = person.log();
    assert_eq!(of(&log, "run_started")[0]["terms"]["timeout_seconds"], 1);
    assert_eq!(exit_codes(&log), [124]);
}

#[test]
fn enter_never_lets_code_run() {
    for size in [WIDE, SMALL] {
        let mut person = Person::on(size, vec![Say::call("print('no')")]);
        person.asks("Go");
        person.is_asked();
        for _ in 0..3 {
            person.enter();
        }
        person.watches_that_nothing_happens();
        person.is_asked();
        assert_eq!(statuses(&person.log()), [""; 0]);
        assert!(of(&person.log(), "code_approved").is_empty());
    }
}

#[test]
fn everything_at_once_is_not_offered_where_nothing_isolates() {
    let mut person = Person::with(vec![Say::call("print('no')")]);
    person.asks("Go");
    person.is_asked();
    assert!(!person.screen().contains("run all"), "{}", person.screen());
    person.press("a");
    person.sees("this executor does not isolate");
    assert!(of(&person.log(), "code_approved").is_empty());
}

#[test]
fn code_of_the_persons_own_is_asked_for_like_any_other() {
    let mut person = Person::with(vec![]);
    person.asks("/run print(1+1)");
    person.answers("y");
    person.sees("ran well");
    person.asks("/run");
    person.sees("then you are asked");
    person.writes("print(3)");
    person.press("esc");
    person.answers("y");
    person.sees("step 2 · ");
    person.wait_for_record("run_finished", "\"step\":2");
    let log = person.log();
    assert_eq!(printed(&log), "2\n3\n");
    assert!(person.server.chats().is_empty());
}
