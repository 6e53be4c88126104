//! Stop means stop: runs, replies, and the way out.

use std::time::{Duration, Instant};

use crate::common::of;
use crate::person::{Person, WIDE, printed, statuses};
use crate::support::{Exchange, Piece, Say};

/// A stop ends what runs within this time.
const STOPPED: Duration = Duration::from_millis(2500);

const SLEEPS: &str = "import time\nprint('half way')\ntime.sleep(60)\nprint('never')";

const STUBBORN: &str = "import time\nprint('half way')\nwhile True:\n    try:\n        time.sleep(60)\n    \
                        except BaseException:\n        pass";

/// Before code that runs and has printed something.
fn running(code: &str, more: Vec<Say>) -> Person {
    let says = [Say::call(code)].into_iter().chain(more).collect();
    let mut person = Person::with_flags(WIDE, says, &["--timeout", "60"]);
    person.asks("Go");
    person.answers("y");
    person.sees("  half way");
    person
}

#[test]
fn escape_stops_a_run_and_what_was_printed_is_kept() {
    for code in [SLEEPS, STUBBORN] {
        let mut person = running(code, vec![Say::text("I see.")]);
        let started = Instant::now();
        person.press("esc");
        // A run that ends at once leaves no time for the first of the two.
        person.sees_that("it is shown", |screen| screen.contains("stopping") || screen.contains("interrupted"));
        assert!(started.elapsed() < STOPPED, "shown at once: {:?}", started.elapsed());
        person.sees("interrupted");
        assert!(started.elapsed() < STOPPED, "{:?}", started.elapsed());
        person.wait_for_record("turn_ended", "stopped");
        let log = person.log();
        assert_eq!(printed(&log).lines().next(), Some("half way"));
        assert_eq!(of(&log, "run_finished")[0]["exit_code"], 130);
        assert!(person.screen().contains("  half way"), "{}", person.screen());
        person.asks("What happened?");
        person.sees("I see.");
        let told = person.told();
        assert!(told.contains("half way") && told.contains("interrupted"), "{told}");
    }
}

#[test]
fn a_second_escape_kills_at_once() {
    let mut person = running(STUBBORN, vec![]);
    let started = Instant::now();
    person.press("esc");
    person.sees("stopping");
    person.press("esc");
    person.wait_for_record("turn_ended", "stopped");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn escape_stops_a_reply() {
    let words = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I was about to say that\"},\"finish_reason\":null}]}\n\n";
    let held = Exchange::on("POST /v1/chat/completions")
        .header("content-type", "text/event-stream")
        .body(words)
        .piece(Piece::Hold);
    let mut person = Person::with(vec![Say::Reply(held)]);
    person.asks("Go");
    // The last word waits: it could be the beginning of a key.
    person.sees("I was about");
    let started = Instant::now();
    person.press("esc");
    person.wait_for_record("turn_ended", "stopped");
    assert!(started.elapsed() < STOPPED, "{:?}", started.elapsed());
    person.server.wait_for_hang_up();
    person.sees("I was about to say that");
    person.sees("Ctrl-D quit");
}

#[test]
fn control_c_clears_then_stops_then_leaves() {
    let mut person = running(SLEEPS, vec![]);
    person.writes("a draft");
    person.press("ctrl-c");
    person.sees_no("a draft");
    assert!(of(&person.log(), "run_finished").is_empty());
    person.press("ctrl-c");
    person.sees("Ctrl-C again quits");
    person.wait_for_record("turn_ended", "stopped");
    person.press("ctrl-c");
    person.is_out();
    let log = person.log();
    assert_eq!(log.last().unwrap()["type"], "session_ended");
    assert_eq!(statuses(&log), ["stopped"]);
}

#[test]
fn one_control_c_never_leaves() {
    let mut person = Person::with(vec![Say::text("Still here.")]);
    person.press("ctrl-c");
    person.sees("Ctrl-C again quits");
    person.sees_no("Ctrl-C again quits");
    person.press("ctrl-c");
    person.sees("Ctrl-C again quits");
    person.asks("Are you there?");
    person.sees("Still here.");
}

#[test]
fn leaving_in_the_middle_of_a_run_ends_it() {
    let mut person = running(SLEEPS, vec![]);
    person.asks("/quit");
    person.is_out();
    let log = person.log();
    assert_eq!(log.last().unwrap()["type"], "session_ended");
    assert_eq!(of(&log, "run_finished").len(), 1, "its end is in the log");
}
