//! The recorded sessions in `tests/sessions/`: what each holds, and that the files are what is written here.
//! `cargo test --test views recorded::write -- --ignored` writes them anew, as when the schema changes.

use std::path::PathBuf;
use std::sync::Arc;

use sandscript::core::event::*;
use sandscript::log::blobs::Blobs;
use sandscript::log::line;
use sandscript::log::reader::{Entry, Reader};

use super::tape::{Tape, failed, info, subprocess};

pub const WRONG: &str = "import pandas as pd\n\ndf = pd.read_csv(\"sales.csv\")\ngrowth = df.groupby(\"Region\")[\"growth\"].sum()\nprint(growth.sort_values(ascending=False))\n";
pub const RIGHT: &str = "import pandas as pd\n\ndf = pd.read_csv(\"sales.csv\")\ngrowth = df.groupby(\"region\")[\"growth\"].sum()\nprint(growth.sort_values(ascending=False))\ndf.head(3)\n";
const TRACEBACK: &str = "Traceback (most recent call last):\n  File \"<cell 1>\", line 4, in <module>\n    growth = df.groupby(\"Region\")[\"growth\"].sum()\n             ~~~~~~~~~~^^^^^^^^^^\nKeyError: 'Region'\n";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/sessions")
}

pub fn blobs() -> Blobs {
    Blobs::of_session(&folder())
}

/// A recorded session as it is read from its file.
pub fn session(name: &str) -> Vec<Arc<Record>> {
    let reader = Reader::open(&folder().join(format!("{name}.jsonl"))).unwrap();
    let known = reader.map(|entry| match entry {
        Entry::Known(record) => Arc::from(record),
        Entry::Unknown { kind, .. } => panic!("{name}: {kind} is not known"),
    });
    known.collect()
}

/// The records up to the `nth` (from 1) of a type, with it.
pub fn until(records: &[Arc<Record>], kind: &str, nth: usize) -> Vec<Arc<Record>> {
    let of_kind = |record: &Record| serde_json::to_value(&record.event).unwrap()["type"] == kind;
    let mut places = records.iter().enumerate().filter(|(_, record)| of_kind(record));
    let (last, _) = places.nth(nth - 1).unwrap_or_else(|| panic!("no {nth} records of type {kind}"));
    records[..=last].to_vec()
}

/// A failed attempt, a repair, and a table.
fn repaired() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.note(NoteKind::PackagesMissing, "scipy is not there: code cannot import it");
    tape.say("Which region grew most?").note(NoteKind::Progress, "loading model");
    tape.reply("I will group the sales by **region** and add up the growth:\n\n1. read the file\n2. group\n", WRONG);
    tape.fails(TRACEBACK);
    tape.reply("The column is called `region`, in small letters.", RIGHT);
    tape.approve(None).starts();
    tape.prints(
        StreamName::Stdout,
        "region\nNorth    12.5\nWest      7.25\nSouth     3.1\nName: growth, dtype: float64\n",
    );
    let text = |rows: &[[&str; 4]]| rows.iter().map(|row| row.map(String::from).to_vec()).collect();
    tape.shows(ResultBundle {
        last: true,
        text: "  region  month  growth\n0  North  1  4.5\n1  South  1  1.1\n2   West  2  7.25".into(),
        table: Some(Table {
            columns: [("", "int64"), ("region", "object"), ("month", "int64"), ("growth", "float64")]
                .map(|(name, kind)| (name.into(), kind.into()))
                .to_vec(),
            rows: text(&[["0", "North", "1", "4.5"], ["1", "South", "1", "1.1"], ["2", "West", "2", "7.25"]]),
            total_rows: 120,
            total_columns: 3,
        }),
        png: None,
    });
    let mut finished = tape.finished(failed(0));
    finished.artifacts = vec![Artifact { name: "growth.csv".into(), bytes: 4096 }];
    tape.event(20, Event::RunFinished(Box::new(finished)));
    let answer = "**North** grew most, by 12.5:\n\n| region | growth |\n|---|---:|\n| North | 12.5 |\n| West | 7.25 |\n| South | 3.1 |\n";
    tape.reply(answer, "");
    tape.closed()
}

/// One piece is rejected with a reason, the next without.
fn rejected() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Clean the table up.");
    tape.reply("I will drop what is empty.", "df = df.dropna()\ndf.to_csv(\"sales.csv\")\n");
    tape.reject(Some("do not overwrite my file, write clean.csv"));
    tape.reply("I write another file.", "df = df.dropna()\ndf.to_csv(\"clean.csv\")\n");
    tape.reject(None);
    tape.closed()
}

/// Much is printed, in colours and on both streams.
fn long_output() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Show every row and what is odd about it.");
    tape.reply("I print all rows.", "for row in rows:\n    show(row)\n");
    tape.approve(None).starts();
    for row in 1..=300 {
        let colour = 31 + row % 6;
        tape.prints(
            StreamName::Stdout,
            &format!("row {row:3}  \u{1b}[{colour}mregion {}\u{1b}[0m  growth {}\n", row % 7, row * 3),
        );
        if row % 100 == 0 {
            tape.prints(StreamName::Stderr, &format!("UserWarning: row {row} has no month\n"));
        }
    }
    tape.prints(StreamName::Stdout, "\r 10%|█         |\r100%|██████████|\n");
    let wide = format!("the longest line: {}\n", "0123456789 ".repeat(30));
    tape.prints(StreamName::Stdout, &wide);
    let mut finished = tape.finished(failed(0));
    finished.notes = vec!["a file of 300 MiB was not kept".into()];
    finished.took_ms = 8312;
    tape.event(20, Event::RunFinished(Box::new(finished)));
    tape.reply("All 300 rows are there.", "");
    tape.closed()
}

/// A figure; its picture lies among the blobs.
fn figure() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Draw the growth.");
    tape.reply("", "df.plot.bar()\nplt.show()\n");
    tape.approve(None).starts();
    let png = Some(hash(&picture()));
    tape.shows(ResultBundle { last: false, text: "<Figure size 640x480 with 1 Axes>".into(), table: None, png });
    tape.ends(failed(0)).reply("Here it is.", "");
    tape.closed()
}

/// Four bars on white, as a figure has them.
fn picture() -> Vec<u8> {
    let (width, height) = (160, 120);
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    let bar = |x: u32| (x % 40 >= 8).then(|| [96, 40, 72, 20][(x / 40) as usize]);
    let pixel = |x: u32, y: u32| if bar(x).is_some_and(|top| height - y < top) { [31, 119, 180] } else { [255; 3] };
    let pixels: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    bytes
}

fn hash(bytes: &[u8]) -> String {
    let kept = tempfile::tempdir().unwrap();
    Blobs::of_session(kept.path()).put(bytes).unwrap()
}

/// A run is interrupted, then a reply.
fn interrupted() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Count to a million.");
    tape.reply("I count.", "import time\nfor i in range(1_000_000):\n    print(i)\n    time.sleep(0.1)\n");
    tape.approve(None).starts();
    tape.prints(StreamName::Stdout, "0\n1\n2\n3\n").ends(Outcome::Cancelled);
    tape.say("Then tell me a story.").writes(Channel::Text, "Once upon a time ").writes(Channel::Text, "there was ");
    let failure = Failure::new("the reply was stopped", "", "");
    let partial = "Once upon a time there was ".into();
    tape.event(300, Event::ModelFailed(ModelFailure { kind: ModelFailureKind::Interrupted, failure, partial }));
    tape.closed()
}

/// The server of the model went away.
fn unreachable() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Which region grew most?");
    let failure = Failure::new(
        "no model server answers at http://localhost:11434",
        "connection refused",
        "start it with: ollama serve",
    );
    let partial = String::new();
    tape.event(5000, Event::ModelFailed(ModelFailure { kind: ModelFailureKind::Unreachable, failure, partial }));
    tape.closed()
}

/// All retries fail.
fn exhausted() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Which region grew most?");
    for (word, attempt) in [("Region", 1), ("REGION", 2), ("area", 3), ("zone", 4)] {
        tape.reply(if attempt == 1 { "I group." } else { "Another name." }, &WRONG.replace("Region", word));
        tape.fails(&TRACEBACK.replace("Region", word));
    }
    tape.closed()
}

/// The sandbox cannot start; the code waits again, and the person gives up.
fn stalled() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Which region grew most?").reply("I group.", RIGHT).approve(None);
    let failure = Failure::new("the sandbox could not start", "no user namespaces here", "see: sandscript doctor");
    tape.ends(Outcome::SetupFailed { failure, missing: false }).reject(None);
    tape.closed()
}

/// Code that is changed by the person before it runs.
fn edited() -> Vec<Record> {
    let mut tape = Tape::began(info());
    tape.say("Which region grew most?").reply("I group.", WRONG).approve(Some(RIGHT)).starts();
    tape.prints(StreamName::Stdout, "North    12.5\n").ends(failed(0));
    tape.reply("North, by 12.5.", "");
    tape.closed()
}

/// Everything is made to mislead.
fn hostile() -> Vec<Record> {
    let escape = "\u{1b}]52;c;cHduZWQ=\u{7}\u{1b}[2J\u{1b}[31m\u{9b}8m\u{1b}]0;owned\u{1b}\\";
    let bidi = "\u{202e}evil\u{2066}\u{200f}";
    let zalgo = format!("Z{}", "\u{0301}\u{0489}".repeat(200));
    let all = |word: &str| format!("{word} {escape} {bidi} {zalgo} \u{200b}\u{feff}\u{e0041}\0\u{85}end");
    let mut from = subprocess();
    for field in [&mut from.id, &mut from.model, &mut from.executor, &mut from.tier, &mut from.folder, &mut from.python]
    {
        *field = all(&format!("{field} "));
    }
    let mut tape = Tape::began(from);
    tape.inputs(&[&all("sales.csv"), "../../etc/passwd"]);
    for kind in [NoteKind::Warning, NoteKind::Progress, NoteKind::Reask] {
        tape.note(kind, &all("note"));
    }
    tape.say(&all("question")).writes(Channel::Reasoning, &all("thought")).writes(Channel::Text, &all("text"));
    let code = format!(
        "# {}\nif access_level != \"user{}\":  # check\n    os.remove(\"a\")\nx = \"{}\"\nprint(\"ok\"){}import os; os.system(\"id\")\n",
        all("comment"),
        "\u{202e} \u{2066}",
        zalgo,
        " ".repeat(300)
    );
    tape.writes(Channel::Code, &code).replied(&all("text"), &code, Some(9999), How::Recovered);
    tape.approve(None).starts();
    tape.prints(StreamName::Stdout, &all("out")).prints(StreamName::Stderr, &format!("\n{}\n", all("err")));
    tape.shows(ResultBundle {
        last: true,
        text: all("value"),
        table: Some(Table {
            columns: vec![(all("index"), all("type")), (all("column"), String::new())],
            rows: vec![vec![all("cell"), "1".into()], vec![], vec!["x".into(); 5]],
            total_rows: u64::MAX,
            total_columns: u64::MAX,
        }),
        png: Some(all("hash")),
    });
    tape.shows(ResultBundle { last: false, text: all("figure"), table: None, png: Some("../../etc/passwd".into()) });
    let mut finished = tape.finished(failed(1));
    finished.notes = vec![all("note")];
    finished.artifacts = vec![Artifact { name: all("file"), bytes: u64::MAX }];
    (finished.took_ms, finished.peak_bytes) = (u64::MAX, Some(u64::MAX));
    tape.event(20, Event::RunFinished(Box::new(finished)));
    let failure = Failure::new(all("what"), all("why"), all("hint"));
    let partial = all("partial");
    tape.event(20, Event::ModelFailed(ModelFailure { kind: ModelFailureKind::Other, failure, partial }));
    tape.event(5, Event::ArtifactSaved { step: 1, name: all("file"), bytes: 1, path: all("path") });
    tape.closed()
}

/// The program was killed while code ran; the file ends in the middle of a line.
fn crashed_tape() -> Tape {
    let mut tape = Tape::began(info());
    tape.say("Read the file.")
        .reply("", "import pandas as pd\ndf = pd.read_csv(\"sales.csv\")\nprint(len(df))\n")
        .runs("120\n");
    tape.reply("It has 120 rows.", "");
    tape.say("Now sum it up.").reply("I add up.", "print(df[\"growth\"].sum())\n").approve(None).starts();
    tape.prints(StreamName::Stdout, "adding up…\n");
    tape
}

/// That session goes on the next day.
fn resumed() -> Vec<Record> {
    let mut tape = crashed_tape();
    let mut today = info();
    (today.started, today.model) = ("2026-12-01T08:30:00.000Z".into(), "qwen2.5-coder".into());
    tape.event(2000, Event::SessionResumed(Box::new(today)));
    tape.inputs(&["sales.csv"]);
    tape.cut()
}

fn all() -> Vec<(&'static str, Vec<Record>)> {
    vec![
        ("repaired", repaired()),
        ("rejected", rejected()),
        ("long-output", long_output()),
        ("figure", figure()),
        ("interrupted", interrupted()),
        ("unreachable", unreachable()),
        ("exhausted", exhausted()),
        ("stalled", stalled()),
        ("edited", edited()),
        ("hostile", hostile()),
        ("crashed", crashed_tape().cut()),
        ("resumed", resumed()),
    ]
}

fn text(name: &str, records: &[Record]) -> String {
    let mut text: String = records.iter().map(|record| line::encode(record).unwrap()).collect();
    if name == "crashed" {
        let torn = text.lines().next_back().map_or(0, |last| last.len() / 2);
        text.truncate(text.len() - torn);
    }
    text
}

#[test]
fn the_recordings_are_what_is_written_here() {
    for (name, records) in all() {
        let stored = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
        let hint = "if the change is meant: cargo test --test views recorded::write -- --ignored";
        assert!(stored == text(name, &records), "{name} differs; {hint}");
    }
    assert_eq!(blobs().get(&hash(&picture()), 1 << 20).unwrap(), picture());
}

/// What follows from a fact is decided when it is recorded; a recording in which the model is asked again because its
/// answer was not believed shows something else than it says.
#[test]
fn no_recording_holds_a_question_that_was_asked_again_by_accident() {
    for (name, records) in all().iter().filter(|(name, _)| *name != "hostile") {
        let asked = |r: &Record| matches!(&r.event, Event::Note { kind: NoteKind::Reask, .. });
        assert!(!records.iter().any(asked), "{name}");
    }
}

#[test]
#[ignore = "writes tests/sessions"]
fn write() {
    for (name, records) in all() {
        std::fs::write(folder().join(format!("{name}.jsonl")), text(name, &records)).unwrap();
    }
    blobs().put(&picture()).unwrap();
}
