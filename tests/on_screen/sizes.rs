//! The window changes, and programs print more than anybody reads.

use std::time::{Duration, Instant};

use crate::common::of;
use crate::person::{Person, WIDE};
use crate::support::Say;

/// Prints while the window changes.
const CHATTY: &str = "import time\nfor n in range(150):\n    print('row', n, '-' * (n % 90), flush=True)\n    time.sleep(0.01)\nprint('last row')";

#[test]
fn a_storm_of_sizes_while_output_streams_ends_in_the_right_picture() {
    let mut person = Person::with(vec![Say::call(CHATTY), Say::text("All rows.")]);
    person.asks("Go");
    person.answers("y");
    person.sees("row 0");
    for n in 0..100_u16 {
        person.pty.resize(20 + n * 37 % 181, 5 + n * 23 % 56);
        person.watches(Duration::from_millis(10));
    }
    person.pty.resize(120, 40);
    person.sees("All rows.");
    person.sees("last row");
    person.sees("exit 0");
    // What is on the screen is what a screen of this size shows that never had another.
    let after = settled(&mut person);
    person.pty.resize(119, 40);
    person.sees_that("it is narrower", |screen| screen.lines().next().is_some_and(|l| l.chars().count() == 119));
    person.pty.resize(120, 40);
    person.sees_that("it is as before", |screen| screen == after);
    let lines: Vec<&str> = after.lines().collect();
    assert_eq!(lines.len(), 40);
    assert!(lines[0].starts_with('╭') && lines[0].ends_with('╮') && lines[0].chars().count() == 120, "{after}");
    assert!(lines[38].starts_with('╰') && lines[38].ends_with('╯'), "{after}");
    person.quits();
}

/// The picture when nothing changes any more.
fn settled(person: &mut Person) -> String {
    person.sees("Ctrl-D quit");
    person.watches_that_nothing_happens();
    person.screen()
}

#[test]
fn a_question_can_be_answered_at_every_size() {
    for (columns, rows) in [(200, 60), (100, 20), (99, 20), (60, 18), (59, 18), (40, 12), (30, 10)] {
        let mut person = Person::with(vec![Say::call("print('yes')"), Say::text("Done.")]);
        person.asks("Go");
        person.is_asked();
        person.pty.resize(columns, rows);
        person.sees_that("y runs it", |screen| {
            screen.contains("y run") && !screen.contains("code came") && screen.lines().count() <= usize::from(rows)
        });
        person.press("y");
        person.wait_for_record("turn_ended", "answered");
        person.pty.resize(120, 40);
        person.sees("Done.");
        person.quits();
    }
}

#[test]
fn nothing_runs_in_a_window_that_cannot_show_it() {
    let mut person = Person::with(vec![Say::call("print('yes')"), Say::text("Done.")]);
    person.asks("Go");
    person.is_asked();
    person.pty.resize(20, 5);
    person.sees("too small to run it");
    person.press("y");
    person.watches_that_nothing_happens();
    assert!(of(&person.log(), "code_approved").is_empty());
    person.pty.resize(120, 40);
    person.answers("y");
    person.sees("Done.");
}

#[test]
fn keys_are_answered_while_output_floods() {
    let code = "line = 'x' * 98 + '\\n'\nimport sys\nwhile True:\n    sys.stdout.write(line)\n";
    let mut person = Person::with_flags(
        WIDE,
        vec![Say::call(code)],
        &["-c", "policy.max_output_bytes=1099511627776", "--timeout", "60"],
    );
    person.asks("Go");
    person.answers("y");
    person.sees("xxxxxxxx");
    for n in 0..10 {
        let typed = format!("key {n}");
        let started = Instant::now();
        person.writes(&typed);
        // An unoptimised build on a busy machine; what a release build reaches is measured elsewhere.
        assert!(started.elapsed() < Duration::from_millis(1000), "{:?}", started.elapsed());
        person.press("ctrl-c");
        person.sees_no(&typed);
    }
    let started = Instant::now();
    person.press("esc");
    person.wait_for_record("turn_ended", "stopped");
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    assert_eq!(of(&person.log(), "run_finished")[0]["exit_code"], 130);
}
