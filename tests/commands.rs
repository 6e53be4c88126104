//! The commands beside `exec`: what they print and how they end.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod common;
mod support;

use common::{Machine, Ran};
use support::{Say, Server};

fn run(m: &Machine, arguments: &[&str]) -> Ran {
    Ran(m.bare(arguments).output().unwrap())
}

#[test]
fn the_configuration_is_found_shown_and_written_once() {
    let m = Machine::new();
    let path = run(&m, &["config", "path"]).out();
    assert!(path.trim().ends_with("home/.config/sandscript/config.toml"), "{path}");
    let shown = run(&m, &["-c", "policy.timeout_seconds=33", "config", "show"]).out();
    assert!(shown.contains("timeout_seconds = 33"), "{shown}");
    assert_eq!(run(&m, &["config", "init"]).code(), 0);
    assert_eq!(std::fs::read_to_string(path.trim()).unwrap(), include_str!("../config.example.toml"));
    std::fs::write(path.trim(), "[agent]\nmax_steps = 3\n").unwrap();
    run(&m, &["config", "init"]).failed(2, &["there already", "hint:"]);
    assert_eq!(std::fs::read_to_string(path.trim()).unwrap(), "[agent]\nmax_steps = 3\n");
    assert!(run(&m, &["config", "show"]).out().contains("max_steps = 3"));
}

#[test]
fn sessions_are_listed_with_their_outcome_and_shown_by_the_start_of_their_name() {
    let m = Machine::new();
    assert_eq!(run(&m, &["sessions", "list"]).out(), "no sessions yet\n");
    run(&m, &["sessions", "show", "last"]).failed(2, &["no session", "hint:"]);
    let server = Server::chat(vec![Say::call("1/0"), Say::text("one"), Say::call("1/0")]);
    assert_eq!(m.run(&server, &["first question"]).code(), 0);
    m.run(&server, &["--max-retries", "0", "second question"]).failed(4, &["sessions show last"]);
    let list = run(&m, &["sessions", "list"]).out();
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "{list}");
    assert!(lines[0].contains("failed") && lines[1].contains("second question"), "{list}");
    assert!(lines[2].contains("answered") && lines[3].contains("first question"), "{list}");
    let id = lines[0].split(' ').next().unwrap();
    let shown = run(&m, &["sessions", "show", id]);
    assert!(shown.out().contains("ZeroDivisionError") && shown.out().contains("Failed"), "{}", shown.out());
    let json = run(&m, &["sessions", "show", id, "--json"]);
    assert_eq!(json.out(), std::fs::read_to_string(m.logs().last().unwrap()).unwrap());
    for line in run(&m, &["sessions", "list", "--json"]).out().lines() {
        let session: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(session["id"].is_string() && session["status"].is_string(), "{line}");
    }
    run(&m, &["sessions", "show", "2"]).failed(2, &["2 sessions begin with 2", "hint:"]);
    run(&m, &["sessions", "show", "nonesuch"]).failed(2, &["nonesuch", "hint:"]);
}

#[test]
fn a_hostile_log_prints_nothing_but_text() {
    let m = Machine::new();
    // It states numbers, so it is asked to compute once and then taken as it is.
    let hostile = || Say::text("x\u{1b}]0;title\u{7}\u{9b}2J\u{202e}y");
    let server = Server::chat(vec![hostile(), hostile()]);
    assert_eq!(m.run(&server, &["a\u{1b}[31mb"]).code(), 0);
    let log = &m.logs()[0];
    let mut text = std::fs::read(log).unwrap();
    text.extend_from_slice(b"\x1b[2J not a record\n{\"v\":1,\"seq\":99,\x00\x00\n");
    std::fs::write(log, text).unwrap();
    for arguments in [&["sessions", "list"][..], &["sessions", "show", "last"], &["sessions", "show", "last", "--json"]]
    {
        let ran = run(&m, arguments);
        assert_eq!(ran.code(), 0, "{}", ran.err());
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!ran.out().contains(bad), "{arguments:?}: {:?}", ran.out());
    }
    assert!(run(&m, &["sessions", "show", "last"]).out().contains("warning: line"));
}

#[test]
fn a_replay_without_a_terminal_prints_the_transcript_of_any_log() {
    let m = Machine::new();
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sample-session.jsonl");
    let shown = run(&m, &["replay", sample, "--speed", "4", "--idle-limit", "0.5"]);
    assert_eq!(shown.code(), 0, "{}", shown.err());
    assert!(shown.out().contains("You: Which region grew most?"), "{}", shown.out());
    assert!(shown.out().contains("KeyError: 'Region'") && !shown.out().contains("warning"), "{}", shown.out());

    // A folder of somebody else, whose program was killed in a run.
    let text = std::fs::read_to_string(sample).unwrap();
    let killed = &text[..text.find("{\"v\":1,\"seq\":11,").unwrap() + 20];
    std::fs::create_dir(m.path("work/sent")).unwrap();
    m.write("sent/log.jsonl", killed);
    for name in ["sent", "./sent", "sent/log.jsonl"] {
        let shown = run(&m, &["replay", name]);
        assert!(shown.out().contains("warning: step 1 was interrupted by a crash"), "{name}: {}", shown.out());
        assert!(shown.out().contains("warning: line 12: cut off"), "{name}: {}", shown.out());
        assert_eq!(run(&m, &["sessions", "show", name]).out(), shown.out(), "{name}");
    }

    m.write("sent/other.txt", "not a log\n");
    run(&m, &["replay", "sent/other.txt"]).failed(2, &["holds no record", "hint:"]);
    run(&m, &["replay", "sent/nowhere"]).failed(2, &["no such file", "hint:"]);
    run(&m, &["replay", "."]).failed(2, &["no session", "hint:"]);
    run(&m, &["replay", "last"]).failed(2, &["no session", "hint:"]);
    for bad in ["--speed=0", "--speed=fast", "--idle-limit=-1"] {
        let ran = run(&m, &["replay", "sent", bad]);
        assert_eq!(ran.code(), 2, "{bad}");
        assert!(ran.err().contains("give a number from"), "{}", ran.err());
    }
}

#[test]
fn help_shows_how_to_begin() {
    let m = Machine::new();
    let help = run(&m, &["--help"]);
    assert_eq!(help.code(), 0);
    assert!(help.out().contains("sandscript exec --allow-unsandboxed"), "{}", help.out());
    let exec = run(&m, &["exec", "--help"]).out();
    assert!(exec.contains("Exit codes: 0 answered"), "{exec}");
    assert_eq!(run(&m, &[]).code(), 2);
}
