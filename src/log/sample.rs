//! A session in which every type of record occurs: `docs/sample-session.jsonl`. The schema page, the types and the sample
//! are held together here; `cargo test --lib log::sample::write -- --ignored` writes the sample anew.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::line;
use super::reader::{Entry, Reader};
use crate::core::event::*;
use crate::core::policy::{Capabilities, Hold, Limit, Network, SecurityPolicy};

/// Name of the type of an event. A new variant does not compile until it is here, and then it is missed in `TYPES`.
fn type_of(event: &Event) -> &'static str {
    match event {
        Event::SessionStarted(_) => "session_started",
        Event::SessionResumed(_) => "session_resumed",
        Event::InputsListed { .. } => "inputs_listed",
        Event::UserSaid { .. } => "user_said",
        Event::ModelDelta { .. } => "model_delta",
        Event::ModelReplied(_) => "model_replied",
        Event::ModelFailed(_) => "model_failed",
        Event::SandboxFailed { .. } => "sandbox_failed",
        Event::CodeProposed(_) => "code_proposed",
        Event::CodeApproved { .. } => "code_approved",
        Event::TermsChanged { .. } => "terms_changed",
        Event::CodeRejected { .. } => "code_rejected",
        Event::RunStarted { .. } => "run_started",
        Event::RunOutput { .. } => "run_output",
        Event::RunResult { .. } => "run_result",
        Event::RunFinished(_) => "run_finished",
        Event::ArtifactSaved { .. } => "artifact_saved",
        Event::ModelChanged { .. } => "model_changed",
        Event::LimitsChanged { .. } => "limits_changed",
        Event::RebuildDecided { .. } => "rebuild_decided",
        Event::TurnEnded { .. } => "turn_ended",
        Event::Note { .. } => "note",
        Event::SessionEnded { .. } => "session_ended",
    }
}

const TYPES: [&str; 23] = [
    "session_started",
    "session_resumed",
    "inputs_listed",
    "user_said",
    "model_delta",
    "model_replied",
    "model_failed",
    "sandbox_failed",
    "code_proposed",
    "code_approved",
    "terms_changed",
    "code_rejected",
    "run_started",
    "run_output",
    "run_result",
    "run_finished",
    "artifact_saved",
    "model_changed",
    "limits_changed",
    "rebuild_decided",
    "turn_ended",
    "note",
    "session_ended",
];

fn terms() -> Terms {
    Terms { timeout_seconds: 10, network: Network::Off, executor: "subprocess".into(), tier: "-".into() }
}

fn said(text: &str) -> Event {
    Event::UserSaid { text: text.into() }
}

fn replied(text: &str, calls: &[(&str, &str)]) -> Event {
    let call = |(id, code): &(&str, &str)| Call {
        id: (*id).into(),
        code: (*code).into(),
        timeout_seconds: None,
        how: How::Fence,
        raw: None,
    };
    Event::ModelReplied(Box::new(Reply {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        usage: Some(Usage { prompt: 812, completion: 47 }),
        tokens_per_second: Some(12.5),
        finish: "stop".into(),
        ..Reply::default()
    }))
}

fn proposed(step: u32, attempt: u32, call: &str, code: &str) -> Event {
    Event::CodeProposed(Proposal {
        step,
        attempt,
        call: call.into(),
        code: code.into(),
        how: How::Fence,
        raw: None,
        terms: terms(),
        asked_seconds: None,
    })
}

fn approved(step: u32, attempt: u32, call: &str) -> Event {
    approved_for(step, attempt, call, 10)
}

fn approved_for(step: u32, attempt: u32, call: &str, timeout_seconds: u64) -> Event {
    let terms = Terms { timeout_seconds, ..terms() };
    Event::CodeApproved { step, attempt, call: call.into(), edited: None, by: "user".into(), terms }
}

fn started(step: u32, attempt: u32) -> Event {
    Event::RunStarted { step, attempt, terms: terms(), runtime: "/usr/bin/python3.12".into() }
}

fn printed(step: u32, stream: StreamName, text: &str) -> Event {
    Event::RunOutput { step, stream, text: text.into(), dropped: 0 }
}

fn finished(step: u32, attempt: u32, code: i32, artifacts: Vec<Artifact>) -> Event {
    Event::RunFinished(Box::new(RunFinished {
        step,
        attempt,
        outcome: Outcome::Exited { code },
        exit_code: code,
        took_ms: 312,
        peak_bytes: Some(88_080_384),
        variables_lost: false,
        artifacts,
        notes: Vec::new(),
        stdout_blob: None,
        stderr_blob: None,
    }))
}

fn ended(status: TurnStatus, answer: &str) -> Event {
    Event::TurnEnded { status, answer: answer.into(), unrepaired: false }
}

fn info(started: &str) -> Box<SessionInfo> {
    Box::new(SessionInfo {
        version: "0.1.0".into(),
        id: "20261130-200512-a1b2c3".into(),
        started: started.into(),
        model: "mistral-nemo".into(),
        base_url: "http://localhost:11434/v1".into(),
        mode: Mode::Text,
        window: 8192,
        executor: "subprocess".into(),
        tier: "-".into(),
        capabilities: Capabilities::from([(Limit::WallTime, Hold::Enforced), (Limit::Memory, Hold::BestEffort)]),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/home/ada/sales".into(),
        python: "3.12.4".into(),
        packages: vec!["numpy".into(), "pandas".into()],
    })
}

/// The events of the sample with their moments.
fn events() -> Vec<(u64, Event)> {
    const WRONG: &str =
        "import pandas as pd\ndf = pd.read_csv('sales.csv')\nprint(df.groupby('Region')['growth'].sum())\n";
    const RIGHT: &str = "print(df.groupby('region')['growth'].sum())\n";
    const SAVE: &str = "df.to_csv('copy.csv')\ndf.head(2)\n";
    const ERROR: &str =
        "Traceback (most recent call last):\n  File \"<cell 1>\", line 3, in <module>\nKeyError: 'Region'\n";
    let table = Table {
        columns: vec![(String::new(), "int64".into()), ("region".into(), "object".into())],
        rows: vec![vec!["0".into(), "North".into()], vec!["1".into(), "South".into()]],
        total_rows: 120,
        total_columns: 4,
    };
    let bundle = ResultBundle { last: true, text: "  region\n0 North\n1 South".into(), table: Some(table), png: None };
    let copy = Artifact { name: "copy.csv".into(), bytes: 4096 };
    let profile = "sales.csv: 120 rows; columns region (text), growth (number)";
    let unreachable = Failure::new("no server answers", "connection refused", "start it: ollama serve");
    vec![
        (0, Event::SessionStarted(info("2026-11-30T20:05:12.000Z"))),
        (4, Event::InputsListed { files: 1, bytes: 5120, names: vec!["sales.csv".into()], profile: profile.into() }),
        (
            6,
            Event::Note {
                kind: NoteKind::PackagesMissing,
                text: "scipy, matplotlib and openpyxl are not there".into(),
            },
        ),
        (20, said("Which region grew most?")),
        (1450, Event::ModelDelta { channel: Channel::Text, text: "I will group by region.".into() }),
        (1480, Event::ModelDelta { channel: Channel::Code, text: WRONG.into() }),
        (1510, replied("I will group by region.", &[("a1b2c3d4e", WRONG)])),
        (1512, proposed(1, 1, "a1b2c3d4e", WRONG)),
        (4200, approved(1, 1, "a1b2c3d4e")),
        (4201, started(1, 1)),
        (4500, printed(1, StreamName::Stderr, ERROR)),
        (4513, finished(1, 1, 1, Vec::new())),
        (6000, replied("The column is called region.", &[("f5g6h7i8j", RIGHT)])),
        (6002, proposed(1, 2, "f5g6h7i8j", RIGHT)),
        (6500, Event::TermsChanged { step: 1, attempt: 2, call: "f5g6h7i8j".into(), timeout_seconds: 30 }),
        (7000, approved_for(1, 2, "f5g6h7i8j", 30)),
        (7001, started(1, 2)),
        (7300, printed(1, StreamName::Stdout, "region\nNorth    12.5\nSouth     3.1\n")),
        (7313, finished(1, 2, 0, Vec::new())),
        (9000, replied("North grew most, by 12.5.", &[])),
        (9001, ended(TurnStatus::Answered, "North grew most, by 12.5.")),
        (20_000, said("Save a copy and show me the first rows.")),
        (21_500, replied("", &[("k9l0m1n2o", SAVE)])),
        (21_502, proposed(2, 1, "k9l0m1n2o", SAVE)),
        (23_000, approved(2, 1, "k9l0m1n2o")),
        (23_001, started(2, 1)),
        (23_300, Event::RunResult { step: 2, result: bundle }),
        (23_313, finished(2, 1, 0, vec![copy])),
        (25_000, replied("The copy is in copy.csv.", &[])),
        (25_001, ended(TurnStatus::Answered, "The copy is in copy.csv.")),
        (
            27_000,
            Event::ArtifactSaved { step: 2, name: "copy.csv".into(), bytes: 4096, path: "/home/ann/copy.csv".into() },
        ),
        (30_000, said("Now delete the file.")),
        (31_500, replied("", &[("p3q4r5s6t", "import os; os.remove('sales.csv')\n")])),
        (31_502, proposed(3, 1, "p3q4r5s6t", "import os; os.remove('sales.csv')\n")),
        (33_000, Event::CodeRejected { step: 3, attempt: 1, call: "p3q4r5s6t".into(), reason: None }),
        (33_001, ended(TurnStatus::Rejected, "")),
        (36_000, said("And how many rows has it?")),
        (
            36_400,
            Event::SandboxFailed { failure: Failure::new("Python did not start", "it was removed", "reinstall it") },
        ),
        (36_401, ended(TurnStatus::SandboxError, "Python did not start: it was removed")),
        (40_000, said("Thanks. Is there anything else in it?")),
        (
            45_000,
            Event::ModelFailed(ModelFailure {
                kind: ModelFailureKind::Unreachable,
                failure: unreachable,
                partial: String::new(),
            }),
        ),
        (45_001, ended(TurnStatus::ModelError, "")),
        (50_000, Event::SessionEnded { reason: "the person quit".into() }),
        (51_000, Event::SessionResumed(info("2026-12-01T08:30:00.000Z"))),
        (
            53_000,
            Event::RebuildDecided {
                cells: vec![RebuildCell { step: 1, code: RIGHT.into() }, RebuildCell { step: 2, code: SAVE.into() }],
                approved: false,
                by: "user".into(),
                terms: terms(),
            },
        ),
        (
            54_000,
            Event::ModelChanged {
                model: "qwen2.5-coder".into(),
                base_url: "http://localhost:11434/v1".into(),
                mode: Mode::Text,
                window: 8192,
            },
        ),
        (54_500, Event::LimitsChanged { timeout_seconds: 60, max_retries: 1, max_steps: 20 }),
        (60_000, Event::SessionEnded { reason: "the person quit".into() }),
    ]
}

/// The records of the sample.
pub fn records() -> Vec<Record> {
    let record = |(seq, (at_ms, event))| Record { v: SCHEMA_VERSION, seq: seq as u64, at_ms, event };
    events().into_iter().enumerate().map(record).collect()
}

/// The text of the sample.
pub fn text() -> String {
    records().iter().map(|record| line::encode(record).unwrap()).collect()
}

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

#[test]
fn every_type_is_in_the_sample_and_in_the_schema() {
    let in_sample: BTreeSet<&str> = records().iter().map(|r| type_of(&r.event)).collect();
    assert_eq!(in_sample, BTreeSet::from(TYPES));
    let schema = std::fs::read_to_string(docs("log.md")).unwrap();
    let described: BTreeSet<&str> =
        schema.lines().filter_map(|l| l.strip_prefix("### `")).filter_map(|l| l.strip_suffix('`')).collect();
    assert_eq!(described, BTreeSet::from(TYPES));
    for record in records() {
        let line = line::encode(&record).unwrap();
        assert!(line.contains(&format!("\"type\":\"{}\"", type_of(&record.event))), "{line}");
    }
}

/// Each field of each record of the sample has its row in the section of its type.
#[test]
fn every_field_is_in_the_schema() {
    let schema = std::fs::read_to_string(docs("log.md")).unwrap();
    for record in records() {
        // Its fields are those of the first record.
        let kind = type_of(&record.event).replace("session_resumed", "session_started");
        let heading = format!("### `{kind}`\n");
        let section = schema.split_once(&heading).unwrap().1.split("\n### ").next().unwrap();
        let serde_json::Value::Object(fields) = serde_json::to_value(&record.event).unwrap() else { panic!("{kind}") };
        for field in fields.keys().filter(|field| *field != "type") {
            assert!(section.contains(&format!("`{field}`")), "{field} of {kind} is not described in docs/log.md");
        }
    }
}

#[test]
fn the_sample_is_what_is_written_and_reads_back() {
    let path = docs("sample-session.jsonl");
    let stored = std::fs::read_to_string(&path).unwrap();
    assert_eq!(stored, text(), "if the change is meant: cargo test --lib log::sample::write -- --ignored");
    let mut reader = Reader::new(stored.as_bytes(), None);
    let read: Vec<Entry> = reader.by_ref().collect();
    assert_eq!(read, records().into_iter().map(|r| Entry::Known(Box::new(r))).collect::<Vec<_>>());
    let report = reader.report();
    assert_eq!((report.torn, report.damaged, report.newer, report.open_run), (false, false, false, None));
    assert_eq!(report.warnings, Vec::<String>::new());
}

#[test]
#[ignore = "writes docs/sample-session.jsonl"]
fn write() {
    std::fs::write(docs("sample-session.jsonl"), text()).unwrap();
}
