//! A log of 100,000 records: how long it takes to open, and to seek in it: `cargo bench --bench replay`.
//!
//! The log has the mix of a long session: words and code as they are written, output, and now and then a question and a run.
//! A seek is everything from the order to the position that answers it, received but not folded by a screen.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use sandscript::core::command::{Command, Transport, Update};
use sandscript::core::event::{
    Channel, Event, Outcome, Record, ResultBundle, RunFinished, SCHEMA_VERSION, StreamName, Table,
};
use sandscript::log::line;
use sandscript::replay::{self, Options, Recording};
use tokio::sync::mpsc;

/// Records of the log.
const RECORDS: u64 = 100_000;

/// Runs of each kind.
const RUNS: usize = 7;

/// Places that are sought, in percent of the log: far forward, far back, and near.
const PLACES: [usize; 8] = [100, 0, 50, 99, 1, 75, 74, 100];

fn main() {
    // `cargo test --benches` passes this; there is nothing to test here.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let session = tempfile::tempdir().unwrap();
    let bytes = write_log(session.path());
    println!("log of {RECORDS} records                {:8.1} MB", bytes as f64 / 1e6);
    let mut opens: Vec<Duration> = (0..RUNS).map(|_| time(|| drop(Recording::open(session.path()).unwrap()))).collect();
    opens.sort();
    println!("open, median                      {:8.1} ms  (at most 1000)", ms(opens[RUNS / 2]));
    println!("open, slowest                     {:8.1} ms", ms(opens[RUNS - 1]));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut seeks = runtime.block_on(seeks(Recording::open(session.path()).unwrap()));
    seeks.sort();
    println!("seek, median                      {:8.1} ms  (at most 200)", ms(seeks[seeks.len() / 2]));
    println!("seek, slowest                     {:8.1} ms", ms(seeks[seeks.len() - 1]));
}

async fn seeks(recording: Recording) -> Vec<Duration> {
    let total = recording.records.len();
    let (orders, commands) = mpsc::channel(16);
    let (sender, mut updates) = mpsc::channel(16);
    let task = tokio::spawn(replay::run(recording, Options { paused: true, ..Options::default() }, commands, sender));
    assert!(matches!(updates.recv().await, Some(Update::Position(_))));
    let mut times = Vec::new();
    for place in PLACES.repeat(RUNS) {
        let at = total * place / 100;
        let start = Instant::now();
        orders.send(Command::Transport(Transport::Seek(at))).await.unwrap();
        loop {
            match updates.recv().await.unwrap() {
                Update::Position(position) => {
                    assert_eq!(position.at, at);
                    break;
                }
                Update::Records(_) | Update::Reset => {}
                other => panic!("{other:?}"),
            }
        }
        times.push(start.elapsed());
    }
    drop(orders);
    task.await.unwrap();
    times
}

fn write_log(folder: &Path) -> u64 {
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join("log.jsonl")).unwrap());
    let mut bytes = 0;
    for seq in 0..RECORDS {
        let record = Record { v: SCHEMA_VERSION, seq, at_ms: seq * 40, event: event(seq) };
        let line = line::encode(&record).unwrap();
        bytes += line.len() as u64;
        file.write_all(line.as_bytes()).unwrap();
    }
    file.flush().unwrap();
    bytes
}

fn event(seq: u64) -> Event {
    let step = (seq / 100) as u32;
    match seq % 100 {
        0 => Event::UserSaid { text: format!("Which region grew most in year {seq}?") },
        1..60 => Event::ModelDelta { channel: Channel::Text, text: format!(" word {seq} of a \"reply\"") },
        60..97 => Event::RunOutput {
            step,
            stream: if seq.is_multiple_of(3) { StreamName::Stderr } else { StreamName::Stdout },
            text: format!("line {seq} of what the program prints, as long as lines are\n").repeat(3),
            dropped: 0,
        },
        97 => Event::RunResult { step, result: table() },
        98 => Event::RunFinished(Box::new(RunFinished {
            step,
            attempt: 1,
            outcome: Outcome::Exited { code: 0 },
            exit_code: 0,
            took_ms: 312,
            peak_bytes: Some(88_080_384),
            variables_lost: false,
            artifacts: Vec::new(),
            notes: Vec::new(),
            stdout_blob: None,
            stderr_blob: None,
        })),
        _ => Event::ModelDelta { channel: Channel::Code, text: "print(df.groupby('region').sum())\n".into() },
    }
}

/// A table of ordinary size: 20 rows of 8 columns.
fn table() -> ResultBundle {
    let columns = (0..8).map(|n| (format!("column {n}"), "float64".to_owned())).collect();
    let rows = (0..20).map(|row| (0..8).map(|n| format!("{row}.{n}25")).collect()).collect();
    let table = Table { columns, rows, total_rows: 4000, total_columns: 7 };
    ResultBundle { last: true, text: "a table".into(), table: Some(table), png: None }
}

fn time(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
