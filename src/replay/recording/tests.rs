use std::path::PathBuf;

use super::*;
use crate::core::event::{Channel, NoteKind, SCHEMA_VERSION, StreamName};
use crate::log::line::{self, sealed};
use crate::log::{LOG_FILE, writer::LogWriter};

/// A session folder with this log.
fn session(log: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("20261130-200512-a1b2c3");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join(LOG_FILE), log).unwrap();
    (root, folder)
}

fn sample() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sample-session.jsonl")).unwrap()
}

fn line(seq: u64, at_ms: u64, rest: &str) -> String {
    sealed(&format!(r#"{{"v":1,"seq":{seq},"at_ms":{at_ms},{rest}"#))
}

fn note(seq: u64) -> String {
    line(seq, seq, r#""type":"note","kind":"warning","text":"x""#)
}

#[test]
fn the_marks_are_the_questions_attempts_and_failures() {
    let (_root, folder) = session(sample());
    let recording = Recording::open(&folder).unwrap();
    let of = |wanted: Mark| recording.marks.iter().filter(|(_, mark)| *mark == wanted).count();
    // One run failed, the sandbox did and the model did.
    assert_eq!((of(Mark::Question), of(Mark::Attempt), of(Mark::Failure)), (5, 4, 3));
    for (at, mark) in recording.marks.iter() {
        let event = &recording.records[*at].event;
        assert_eq!(matches!(event, Event::UserSaid { .. }), *mark == Mark::Question, "{event:?}");
    }
    assert_eq!(recording.warnings[..], [] as [String; 0]);
}

#[test]
fn a_session_that_crashed_says_so() {
    let text = sample();
    let end = text.find("\"type\":\"run_finished\"").unwrap();
    let (_root, folder) = session(&text[..end]);
    let recording = Recording::open(&folder).unwrap();
    assert!(recording.records.len() > 5);
    assert!(recording.warnings[0].contains("step 1 was interrupted by a crash"), "{:?}", recording.warnings);
    assert!(recording.warnings[1].contains("cut off"), "{:?}", recording.warnings);
}

#[tokio::test]
async fn a_session_that_is_open_did_not_crash() {
    let text = sample();
    let end = text.find("\n{\"v\":1,\"seq\":10,").unwrap() + 1;
    let (_root, folder) = session(&text[..end]);
    let (writer, _) = LogWriter::open(&folder).unwrap();
    let warnings = Recording::open(&folder).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("step 1 is running"), "{warnings:?}");
    drop(writer);
    assert!(Recording::open(&folder).unwrap().warnings[0].contains("crash"));
}

#[test]
fn damaged_and_later_logs_play_with_a_warning() {
    let log = format!("{}\0\0\0\n{}{}", note(0), note(1), note(5));
    let (_root, folder) = session(log);
    let recording = Recording::open(&folder).unwrap();
    assert_eq!(recording.records.len(), 3);
    assert!(recording.warnings[0].contains("zero bytes"), "{:?}", recording.warnings);
    assert!(recording.warnings[1].contains("3 records before it are missing"), "{:?}", recording.warnings);

    let later = sealed(r#"{"v":9,"seq":1,"at_ms":1,"type":"note","kind":"warning","text":"x""#);
    let (_root, folder) = session(note(0) + &later);
    let recording = Recording::open(&folder).unwrap();
    assert!(recording.warnings[0].contains("newer"), "{:?}", recording.warnings);
}

#[test]
fn records_of_unknown_types_are_counted_and_named_within_bounds() {
    let (_root, folder) = session(note(0) + &line(1, 1, r#""type":"weather\u001b[2J""#));
    let recording = Recording::open(&folder).unwrap();
    assert_eq!(recording.warnings[..], ["a record of the unknown type weather is not shown"]);

    let odd = (1..1000).map(|seq| line(seq, 1, &format!(r#""type":"{seq}{}""#, "y".repeat(1000))));
    let (_root, folder) = session(note(0) + &odd.collect::<String>());
    let recording = Recording::open(&folder).unwrap();
    assert!(recording.warnings[0].starts_with("999 records of unknown types"), "{:?}", recording.warnings);
    assert!(recording.warnings[0].len() < 500, "{:?}", recording.warnings);
}

#[test]
fn what_is_no_log_is_refused_with_a_hint() {
    for log in ["", "not a log\n", "{}\n", "\0\0\0\0"] {
        let (_root, folder) = session(log);
        let refused = Recording::open(&folder).unwrap_err();
        assert!(refused.what.contains("no record") && !refused.why.is_empty(), "{refused:?}");
        assert!(refused.hint.contains("sessions list"), "{refused:?}");
    }
    let (_root, folder) = session("");
    assert!(Recording::open(&folder.join("no")).unwrap_err().what.contains("cannot read"));
    assert!(Recording::open(Path::new("/dev/zero")).unwrap_err().why.contains("not a regular file"));
}

#[test]
fn a_log_without_an_end_is_cut_at_the_limit() {
    let (_root, folder) = session((0..100).map(note).collect::<String>());
    let recording = Recording::open_within(&folder, 10, MAX_BYTES).unwrap();
    assert_eq!(recording.records.len(), 10);
    assert!(recording.warnings[0].contains("only its first 10 records"), "{:?}", recording.warnings);
    let recording = Recording::open_within(&folder, MAX_RECORDS, 1000).unwrap();
    assert!((5..20).contains(&recording.records.len()), "{}", recording.records.len());
    assert_eq!(Recording::open_within(&folder, 100, MAX_BYTES).unwrap().warnings.len(), 0);
}

#[test]
fn a_record_in_a_blob_is_found_beside_a_log_of_any_name() {
    let (_root, folder) = session("");
    let long = note(0);
    let name = Blobs::of_session(&folder).put(long.as_bytes()).unwrap();
    let sent = folder.join("sent.jsonl");
    std::fs::write(&sent, line(0, 0, &format!(r#""type":"note","blob":"{name}""#))).unwrap();
    assert_eq!(Recording::open(&sent).unwrap().records.len(), 1);
}

#[test]
fn streams_are_told_apart_in_steps() {
    let printed = |step, stream| Event::RunOutput { step, stream, text: "x".into(), dropped: 0 };
    let (out, err) = (StreamName::Stdout, StreamName::Stderr);
    let words = |channel| Event::ModelDelta { channel, text: "x".into() };
    let quiet = || Event::Note { kind: NoteKind::Progress, text: "x".into() };
    let events = [
        (0, words(Channel::Text)),
        (1, words(Channel::Text)),
        (2, words(Channel::Reasoning)),
        (3, printed(1, out)),
        (4, printed(1, out)),
        (5, printed(1, err)),
        (6, printed(2, err)),
        (1006, printed(2, err)),
        (1007, printed(2, err)),
        (1007, quiet()),
        (1007, quiet()),
    ];
    let record = |(seq, (at_ms, event))| Arc::new(Record { v: SCHEMA_VERSION, seq: seq as u64, at_ms, event });
    let records: Vec<_> = events.into_iter().enumerate().map(record).collect();
    assert_eq!(steps(&records), [2, 3, 5, 6, 8, 9, 10, 11]);
    assert!(records.iter().all(|r| line::encode(r).is_ok()));
}
