//! Code that fails: its attempts, and what a person can do when the model gives up.

use crate::common::{exit_codes, of};
use crate::person::{MEDIUM, Person, SMALL, WIDE, printed, statuses};
use crate::support::Say;

#[test]
fn attempts_are_tabs_with_what_changed_between_them() {
    let says = vec![Say::call("print(undefined)"), Say::call("undefined = 7\nprint(undefined)"), Say::text("It is 7.")];
    let mut person = Person::with(says);
    person.asks("Go");
    person.answers("y");
    person.sees("1 ✗");
    person.sees("retry 1/3");
    person.sees("undefined = 7");
    person.answers("y");
    person.sees("It is 7.");
    person.sees("1 ✗ ▸2 ✓");
    person.press("tab");
    person.press("[");
    person.sees("▸1 ✗  2 ✓");
    person.sees_no("undefined = 7");
    person.sees("NameError");
    person.press("]");
    person.sees("undefined = 7");
    person.press("d");
    person.sees("+ undefined = 7");
    person.press("esc");
    person.sees_no("+ undefined = 7");
    assert_eq!(exit_codes(&person.log()), [1, 0]);
}

#[test]
fn what_runs_is_what_is_shown() {
    let says = vec![Say::call("print(undefined)"), Say::call("print('mended')"), Say::text("Mended.")];
    let mut person = Person::with(says);
    person.asks("Go");
    person.answers("y");
    person.sees("mended");
    person.is_asked();
    person.press("[");
    person.sees("not the one that would run");
    person.press("y");
    person.sees("this is the attempt that would run");
    person.sees("mended");
    assert_eq!(of(&person.log(), "code_approved").len(), 1);
    person.press("y");
    person.sees("Mended.");
}

#[test]
fn a_question_comes_forward_where_a_pane_fills_the_screen() {
    let mut person = Person::with(vec![Say::text("First."), Say::call("print('seen')"), Say::text("Done.")]);
    person.asks("One");
    person.sees("First.");
    person.press("tab");
    person.press("z");
    person.sees_no("Output");
    person.asks("Two");
    person.is_asked();
    person.sees("print('seen')");
    person.press("y");
    person.sees("Done.");
}

/// Before a turn in which the model has given up.
fn given_up(size: (u16, u16), more: Vec<Say>) -> Person {
    let mut says = vec![Say::call("print(undefined_a)"), Say::call("print(undefined_b)")];
    says.extend(more);
    let mut person = Person::with_flags(size, says, &["-c", "agent.max_retries=1"]);
    person.asks("First question");
    person.sees("undefined_a");
    person.answers("y");
    person.sees("undefined_b");
    person.answers("y");
    person.wait_for_record("turn_ended", "failed");
    person.sees("e edit and run");
    person
}

#[test]
fn a_step_nobody_could_repair_is_edited_and_run_and_the_model_goes_on() {
    for size in [WIDE, MEDIUM, SMALL] {
        let mut person = given_up(size, vec![Say::text("So it is nine.")]);
        person.press("e");
        person.sees("then you are asked");
        person.press("end");
        for _ in "undefined_b)".chars() {
            person.press("backspace");
        }
        person.writes("9)");
        person.press("esc");
        person.answers("y");
        person.sees("So it is nine.");
        person.wait_for_record("turn_ended", "answered");
        let log = person.log();
        assert_eq!(statuses(&log), ["failed", "answered"]);
        assert_eq!(exit_codes(&log), [1, 1, 0]);
        assert_eq!(printed(&log).lines().last(), Some("9"));
        assert!(person.told().contains("print(9)"), "{}", person.told());
    }
}

#[test]
fn a_hint_can_simply_be_typed() {
    // It begins with a key of the question, and is typed as a person types.
    let mut person = given_up(WIDE, vec![Say::text("Thank you.")]);
    for key in "retry with \"b\"".chars() {
        person.press(&key.to_string());
        person.watches(std::time::Duration::from_millis(40));
    }
    person.sees("> retry with \"b\"");
    person.enter();
    person.sees("Thank you.");
    let log = person.log();
    let said: Vec<&str> = of(&log, "user_said").iter().map(|r| r["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["First question", "retry with \"b\""]);
}

#[test]
fn the_question_is_asked_again() {
    let mut person = given_up(WIDE, vec![Say::text("Now I know.")]);
    person.press("r");
    person.sees("Now I know.");
    person.wait_for_record("turn_ended", "answered");
    assert_eq!(of(&person.log(), "user_said").iter().filter(|r| r["text"] == "First question").count(), 2);
}

#[test]
fn another_model_is_chosen_from_a_list() {
    let mut person = given_up(WIDE, vec![]);
    person.press("M");
    person.sees("Models · 1");
    person.enter();
    person.sees("the model is scripted now");
    person.sees("What now?");
}
