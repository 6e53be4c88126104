//! kill -9 at any moment: the log opens, nothing before the last barrier is missing, no process stays, and the next
//! question is answered.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

mod common;
mod support;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Machine, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sandscript::core::event::Event;
use sandscript::log::reader::{Entry, Reader};
use support::{Say, Server};

/// Kills, each at another moment.
const KILLS: u64 = 50;

/// Longest delay before a kill: a run of this test takes about 400 ms.
const SPAN_MS: u64 = 500;

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_synced() {
    let m = Machine::new();
    let began = m.path("tmp/began");
    // A child that leaves the session and the process group, and output all the time.
    let code = format!(
        "import os, subprocess, time\nopen({:?}, 'w').close()\n\
         subprocess.Popen(['sleep', '600'], start_new_session=True)\n\
         for i in range(20):\n    print('line', i, flush=True)\n    time.sleep(0.01)",
        began.display().to_string()
    );
    let mut moments = std::collections::BTreeSet::new();
    for round in 0..KILLS {
        let _ = std::fs::remove_file(&began);
        let server = Server::chat(vec![Say::call(&code), Say::text("done"), Say::text("done")]);
        let mut child = m.exec(&server, &["--json", "q"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Every part of the span is hit, in an order that does not depend on how fast the machine gets.
        let delay = round * 37 % KILLS * SPAN_MS / KILLS;
        std::thread::sleep(Duration::from_millis(delay));
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        wait(&mut child, Duration::from_secs(20));
        nothing_is_left(&m, delay);
        let last = check_log(&m, server.chats().len(), began.exists(), delay);
        moments.insert(last);
        let _ = std::fs::remove_dir_all(m.path("home/.local"));
        if round % 10 == 9 {
            let server = Server::chat(vec![Say::call("print(1)"), Say::text("It is 1.")]);
            assert_eq!(m.run(&server, &["q"]).out(), "It is 1.\n");
            let _ = std::fs::remove_dir_all(m.path("home/.local"));
        }
    }
    // The kills hit different phases, or the test would prove little.
    assert!(moments.len() >= 4, "{moments:?}");
}

/// The log holds every fact that the outside saw the consequence of. Gives back how far it got.
fn check_log(m: &Machine, chats: usize, began: bool, delay: u64) -> &'static str {
    let logs = m.logs();
    let Some(log) = logs.first() else {
        assert_eq!(chats, 0, "a request without a log, {delay} ms");
        return "before the log";
    };
    let mut reader = Reader::open(log.parent().unwrap()).unwrap();
    let events: Vec<Event> = reader
        .by_ref()
        .map(|entry| match entry {
            Entry::Known(record) => record.event,
            Entry::Unknown { line, .. } => panic!("unknown record {line}"),
        })
        .collect();
    let report = reader.finish();
    assert!(!report.damaged && report.next_seq == events.len() as u64, "{delay} ms: {report:?}");
    let has = |test: fn(&Event) -> bool| events.iter().any(test);
    let said = has(|e| matches!(e, Event::UserSaid { .. }));
    let started = has(|e| matches!(e, Event::RunStarted { .. }));
    let finished = has(|e| matches!(e, Event::RunFinished(_)));
    assert!(chats == 0 || said, "asked before the question was logged, {delay} ms");
    assert!(!began || started, "run before it was logged, {delay} ms");
    assert!(chats < 2 || finished, "asked again before the end of the run was logged, {delay} ms");
    assert_eq!(report.open_run.is_some(), started && !finished, "{delay} ms");
    match (said, started, finished) {
        (false, ..) => "before the question",
        (true, false, _) => "before the run",
        (true, true, false) => "in the run",
        (true, true, true) => "after the run",
    }
}

/// Every process of this machine has its folder in its environment or its arguments.
fn nothing_is_left(m: &Machine, delay: u64) {
    let marker = m.root.path().display().to_string();
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        let left = processes_with(&marker);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "left after a kill at {delay} ms: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn processes_with(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == own || name.parse::<u32>().is_err() {
            continue;
        }
        let read = |file: &str| {
            let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = read("cmdline");
        if command.contains(marker) || read("environ").contains(marker) {
            found.push(command.chars().take(200).collect());
        }
    }
    found
}
