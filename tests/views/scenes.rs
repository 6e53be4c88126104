//! Screens the tests begin with.

use std::sync::Arc;

use sandscript::core::clean::Clean;
use sandscript::core::command::{Position, SessionRow, Update};
use sandscript::core::event::*;

use super::bench::{Bench, Start};
use super::recorded::{session, until};
use super::tape::Tape;

pub fn narrow() -> Start {
    Start { size: (80, 24), ..Start::default() }
}

pub fn shared(records: Vec<Record>) -> Vec<Arc<Record>> {
    records.into_iter().map(Arc::new).collect()
}

/// A live session up to the `nth` record of a type, after the quiet a question needs.
pub fn moment(start: Start, name: &str, kind: &str, nth: usize) -> Bench {
    let mut bench = Bench::live(start, &until(&session(name), kind, nth));
    bench.advance(400);
    bench.actions();
    bench
}

/// Nothing was asked yet.
pub fn idle() -> Bench {
    moment(narrow(), "repaired", "note", 1)
}

/// Code waits and has the keys.
pub fn waiting() -> Bench {
    moment(narrow(), "repaired", "code_proposed", 1)
}

/// Code has just been proposed.
pub fn proposed(start: Start) -> Bench {
    let mut bench = Bench::live(start, &until(&session("repaired"), "code_proposed", 1));
    bench.actions();
    bench
}

/// The last turn was answered, and this pane has the keys.
pub fn in_pane(name: &str, tabs: usize) -> Bench {
    let mut bench = moment(narrow(), name, "turn_ended", 1);
    for _ in 0..tabs {
        bench.press("tab");
    }
    bench
}

/// A recording that is played.
pub fn replay() -> Bench {
    let mut bench = Bench::new(Start { replay: true, ..narrow() });
    bench.told(&until(&session("repaired"), "run_finished", 1));
    bench.tell(Update::Position(Position { at: 30, total: 77, speed: 1.0, ..Position::default() }));
    bench.actions();
    bench
}

/// The list of sessions, which has one.
pub fn picker() -> Bench {
    let mut bench = Bench::new(Start { pick: true, ..narrow() });
    let row = SessionRow {
        id: "20261130-200512-a1b2c3".into(),
        started: Clean::line("2026-11-30T20:05:12.000Z"),
        folder: Clean::line("/home/ada/sales"),
        model: Clean::line("mistral-nemo"),
        title: Clean::line("Which region grew most?"),
        turns: Some(1),
        status: Some(TurnStatus::Answered),
        bytes: 48_000,
        crashed: false,
        open: false,
    };
    bench.tell(Update::Reply(1, sandscript::core::command::Answer::Sessions(vec![row])));
    bench.actions();
    bench
}

/// Nothing isolates here.
pub fn consent() -> Bench {
    let mut bench = Bench::new(narrow());
    bench.tell(Update::Unsandboxed { failure: Failure::new("no sandbox works here", "", "") });
    bench.advance(400);
    bench.actions();
    bench
}

/// The model is not there.
pub fn no_start() -> Bench {
    let mut bench = Bench::new(narrow());
    let failure = Failure::new("no model server answers", "connection refused", "ollama serve");
    bench.tell(Update::StartFailed { failure, models: Vec::new() });
    bench.advance(400);
    bench.actions();
    bench
}

/// All retries were used up.
pub fn failed() -> Bench {
    moment(narrow(), "exhausted", "turn_ended", 1)
}

/// Code of `info` waits.
pub fn proposing(info: SessionInfo, code: &str) -> Bench {
    let mut tape = Tape::began(info);
    tape.say("Which region grew most?").reply("I group.", code);
    let mut bench = Bench::live(narrow(), &shared(tape.cut()));
    bench.advance(400);
    bench.actions();
    bench
}

/// The next proposal of a session that goes on.
pub fn proposal(call: &str, code: &str, attempt: u32, timeout_seconds: u64) -> Event {
    let terms = Terms { timeout_seconds, network: Default::default(), executor: "native".into(), tier: "A".into() };
    let (call, code) = (call.into(), code.into());
    Event::CodeProposed(Proposal {
        step: 1,
        attempt,
        call,
        code,
        how: How::Call,
        raw: None,
        terms,
        asked_seconds: None,
    })
}

/// The end of a run that printed nothing.
pub fn ran(step: u32, attempt: u32, outcome: Outcome) -> Event {
    Event::RunFinished(Box::new(RunFinished {
        step,
        attempt,
        exit_code: outcome.exit_code(),
        outcome,
        took_ms: 1,
        peak_bytes: None,
        variables_lost: false,
        artifacts: Vec::new(),
        notes: Vec::new(),
        stdout_blob: None,
        stderr_blob: None,
    }))
}
