//! However it ends, the terminal is as it was and the session can go on.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::common::{Machine, of};
use crate::person::{Person, SMALL, WIDE};
use crate::support::{Exchange, Piece, Say, Server};

const SLEEPS: &str = "import time\nprint('half way')\ntime.sleep(60)";

/// Before code that runs.
fn running() -> Person {
    let mut person = Person::with_flags(WIDE, vec![Say::call(SLEEPS)], &["--timeout", "60"]);
    person.asks("Go");
    person.answers("y");
    person.sees("  half way");
    person
}

#[test]
fn signals_leave_the_terminal_as_it_was_and_a_session_that_can_go_on() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut person = running();
        person.pty.signal(signal);
        assert_eq!(person.pty.exit_code(), code, "{signal}: {}", person.screen());
        person.pty.assert_given_back();
        person.pty.assert_cooked();
        person.sees("go on with: sandscript resume ");
        let log = person.log();
        assert_eq!(of(&log, "run_finished").len(), 1, "the end of the run is in the log");
        assert_eq!(log.last().unwrap()["type"], "session_ended");
    }
}

#[test]
fn signals_at_any_question_leave_the_terminal_as_it_was() {
    let (machine, server) = (Machine::new(), Server::chat(vec![]));
    let command = crate::person::program(&machine, &server.url(), &[]);
    let mut person = Person::before(machine, server, &command, WIDE);
    person.sees("y go on");
    person.pty.signal(Signal::SIGTERM);
    assert_eq!(person.pty.exit_code(), 143);
    person.pty.assert_given_back();
    person.pty.assert_cooked();
    assert!(!person.screen().contains("go on with"), "nothing was begun: {}", person.screen());
}

#[test]
fn a_kill_loses_nothing_that_was_seen() {
    let mut person = running();
    person.wait_for_record("run_output", "half way");
    person.pty.signal(Signal::SIGKILL);
    assert_eq!(person.pty.exit_code(), 1);
    person.starts(WIDE, &["resume", "--last"], vec![Say::text("Back.")]);
    person.agrees("y go on");
    person.sees("half way");
    person.sees("interrupted");
    person.begins();
    person.asks("Are you back?");
    person.sees("Back.");
    assert_eq!(of(&person.log(), "run_started").len(), 1, "nothing is run again by itself");
}

#[test]
fn a_server_that_dies_is_said_and_what_it_said_is_kept() {
    for size in [WIDE, SMALL] {
        let words = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"I was about to say that\"},\"finish_reason\":null}]}\n\n";
        let cut = Exchange::on("POST /v1/chat/completions")
            .header("content-type", "text/event-stream")
            .body(words)
            .piece(Piece::Pause(Duration::from_millis(200)))
            .piece(Piece::Reset);
        let mut person = Person::on(size, vec![Say::Reply(cut), Say::text("Here again.")]);
        person.asks("Go");
        person.wait_for_record("turn_ended", "model_error");
        person.sees("hint:");
        person.sees("Ctrl-D quit");
        assert_eq!(of(&person.log(), "model_failed")[0]["partial"], "I was about to say that");
        person.asks("/retry");
        person.sees("Here again.");
        person.quits();
    }
}

#[test]
fn a_server_that_is_gone_is_said_and_the_session_goes_on() {
    let mut person = Person::with(vec![]);
    let port = person.server.port();
    person.server = Server::chat(vec![]);
    person.asks("Are you there?");
    person.wait_for_record("turn_ended", "model_error");
    person.sees(&format!("127.0.0.1:{port}"));
    person.sees("hint:");
    person.quits();
}
