//! Long sessions: a log of 100,000 records, opened and sought in the program and in this process; many runs of much output.

use std::io::Write;
use std::path::Path;
use std::task::Poll;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Rect;
use sandscript::core::command::{Command, Transport, Update};
use sandscript::core::event::{
    Channel, Event, How, Mode, Outcome, Proposal, Record, Reply, ResultBundle, RunFinished, SCHEMA_VERSION,
    SessionInfo, StreamName, Table, Terms, TurnStatus,
};
use sandscript::core::policy::{Capabilities, SecurityPolicy};
use sandscript::desk::Desk;
use sandscript::log::line;
use sandscript::log::redact::Redactor;
use sandscript::replay::{self, Options, Recording};
use sandscript::tui::app::{App, Begin};
use sandscript::tui::highlight::Highlighter;
use sandscript::tui::keys::Keys;
use sandscript::tui::msg::Msg;
use sandscript::tui::output::figure::Figures;
use sandscript::tui::run::View;
use sandscript::tui::story::Story;
use sandscript::tui::theme::{Theme, ThemeName};
use sandscript::tui::{Graphics, Settings};
use tokio::sync::mpsc;

use super::print::{below, mb, ms, slowest};
use super::stage::{COLUMNS, ROWS, Stage, first_frame_of};

/// Records of the log.
const RECORDS: u64 = 100_000;

/// Records of one question of it.
const TURN: u64 = 100;

/// Runs of each kind.
const RUNS: usize = 7;

/// Begins the argument that makes this program measure itself.
pub const KEEP: &str = "--keep=";

/// Attempts of the session that is measured for its memory, and bytes each prints.
const ATTEMPTS: u32 = 500;
const PRINTED: usize = 1024 * 1024;

/// Records of one kind: a name, and the event of a number and a run.
type Kind<'a> = (&'a str, &'a dyn Fn(u64, u64) -> Event);

pub fn replay() {
    let folder = tempfile::tempdir().unwrap();
    write_log(folder.path(), RECORDS, turn);
    in_process(folder.path(), "many turns");
    in_terminal(folder.path());
    // Whatever such a log is full of.
    let reply = |_, at| delta(Channel::Text, format!(" word {at}{}", if at % 20 == 0 { "\n\n- " } else { "" }));
    let line = |_, at| delta(Channel::Text, format!(" word {at}"));
    let code = |_, at| delta(Channel::Code, format!("value_{at} = {at}\n"));
    let program = |n, at| match (n, at) {
        (0, 1..4) => proposed(1, "print(1)").swap_remove(at as usize - 1),
        _ => printed(1, format!("\u{1b}[31mline {at}\u{1b}[0m of what the program prints\n").repeat(3)),
    };
    let attempts = |n, at| match at % 4 {
        3 => finished((n * TURN + at) as u32 / 4).swap_remove(0),
        of => proposed((n * TURN + at) as u32 / 4, "print(1)").swap_remove(of as usize),
    };
    let kinds: [Kind; 5] = [
        ("one reply", &reply),
        ("one line", &line),
        ("one code", &code),
        ("one run", &program),
        ("attempts", &attempts),
    ];
    for (name, record) in kinds {
        write_log(folder.path(), RECORDS, record);
        in_process(folder.path(), name);
    }
}

fn in_terminal(folder: &Path) {
    let end = format!(" {RECORDS}/{RECORDS} ");
    let mut opens: Vec<Duration> = (0..RUNS).map(|_| first_frame_of(folder, &format!("/{RECORDS} "))).collect();
    opens.sort();
    below("replay opens, slowest", ms(opens[RUNS - 1]), 1000.0, "ms");

    let mut stage = Stage::replay(folder, &[]);
    stage.wait_for(&format!("/{RECORDS} "));
    stage.pty.press(" ");
    stage.wait_for("‖");
    stage.until("g", |s| s.contains(&format!(" 0/{RECORDS} ")));
    let count = stage.wake_ups(Duration::from_secs(5));
    below("wake-ups in 5 s: replay paused", count as f64, 0.0, "");
    let mut seeks = Vec::new();
    for _ in 0..RUNS {
        seeks.push(stage.until("G", |s| s.contains(&end)));
        for _ in 0..3 {
            seeks.push(another_mark(&mut stage, "<"));
        }
        seeks.push(another_mark(&mut stage, ">"));
        seeks.push(stage.until("g", |s| s.contains(&format!(" 0/{RECORDS} "))));
        seeks.push(another_mark(&mut stage, ">"));
    }
    seeks.sort();
    below("replay seeks, slowest", ms(seeks[seeks.len() - 1]), 200.0, "ms");
    println!("  median {:.1}, slowest {}", ms(seeks[seeks.len() / 2]), slowest(&seeks));
    let (now, peak) = stage.memory();
    println!("  memory {:.1} MB, at most {:.1} MB", mb(now), mb(peak));
}

fn another_mark(stage: &mut Stage, key: &str) -> Duration {
    stage.settle();
    let before = position(&stage.pty.screen());
    stage.until(key, |s| position(s) != before)
}

/// Which record the bar says.
fn position(screen: &str) -> Option<u64> {
    let end = screen.find(&format!("/{RECORDS} "))?;
    screen[..end].rsplit(' ').next()?.parse().ok()
}

fn in_process(folder: &Path, name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let start = Instant::now();
        let recording = Recording::open(folder).unwrap();
        println!("in process, {name}: read in {:.1} ms", ms(start.elapsed()));
        let total = recording.records.len();
        let (orders, commands) = mpsc::channel(64);
        let (sender, mut updates) = mpsc::channel(64);
        let desk =
            Desk { data: "/nowhere".into(), session: None, folder: "/nowhere".into(), redactor: Redactor::new(vec![]) };
        let task = tokio::spawn(replay::run(
            recording,
            Options { paused: true, ..Options::default() },
            desk,
            commands,
            sender,
        ));
        let mut app = app();
        let mut terminal = Terminal::new(TestBackend::new(COLUMNS, ROWS)).unwrap();
        until_position(&mut app, &mut updates, 0).await;
        draw(&mut app, &mut terminal);
        below(&format!("in process, {name}: opened and drawn"), ms(start.elapsed()), 1000.0, "ms");
        let mut times = Vec::new();
        for percent in [100, 0, 50, 99, 1, 75, 74, 100].repeat(RUNS) {
            let at = total * percent / 100;
            let start = Instant::now();
            orders.send(Command::Transport(Transport::Seek(at))).await.unwrap();
            until_position(&mut app, &mut updates, at).await;
            draw(&mut app, &mut terminal);
            times.push(start.elapsed());
        }
        times.sort();
        below(
            &format!("in process, {name}: sought, folded and drawn, slowest"),
            ms(times[times.len() - 1]),
            200.0,
            "ms",
        );
        println!("  median {:.1}, slowest {}", ms(times[times.len() / 2]), slowest(&times));
        drop(orders);
        task.await.unwrap();
    });
}

async fn until_position(app: &mut App, updates: &mut mpsc::Receiver<Update>, at: usize) {
    loop {
        let update = updates.recv().await.unwrap();
        let there = matches!(&update, Update::Position(p) if p.at == at);
        app.update(Msg::Update(update), tokio::time::Instant::now(), &mut Vec::new());
        if there {
            return;
        }
    }
}

fn draw(app: &mut App, terminal: &mut Terminal<TestBackend>) {
    app.layout(Rect::new(0, 0, COLUMNS, ROWS));
    terminal.draw(|frame| app.draw(frame)).unwrap();
}

fn app() -> App {
    let settings = Settings {
        theme: ThemeName::Dark,
        mouse: true,
        motion: true,
        graphics: Graphics::Blocks,
        notify: false,
        keys: Default::default(),
    };
    let (highlighter, mut painted) = Highlighter::start();
    let (figures, pictures) = Figures::start(Graphics::Blocks, &|_| None, None);
    drop(pictures);
    // Colours come from a thread of their own, and are not waited for.
    tokio::spawn(async move {
        std::future::poll_fn(|context| match painted.poll_recv(context) {
            Poll::Ready(Some(_)) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        })
        .await;
    });
    let keys = Keys::new(&settings.keys).unwrap();
    App::new(Begin { settings, keys, replay: true, may_fork: false, pick: false, prompt: None, highlighter, figures })
}

/// Many runs of much output, as the screen keeps them. Each kind in a process of its own, whose memory is measured.
pub fn memory() {
    for (kind, name) in [("text", ""), ("tables", " and a table")] {
        let me = std::env::current_exe().unwrap();
        let out = std::process::Command::new(me).arg(format!("{KEEP}{kind}")).output().unwrap();
        let bytes = String::from_utf8(out.stdout).unwrap().trim().parse().unwrap();
        below(&format!("{ATTEMPTS} runs of 1 MiB{name}, as the screen keeps them"), mb(bytes), 80.0, "MB");
    }
}

/// Folds them and prints what that took.
pub fn keep(kind: &str) {
    let before = resident();
    let mut story = Story::default();
    let mut seq = 0;
    let mut fold = |story: &mut Story, event| {
        story.fold(&Record { v: SCHEMA_VERSION, seq, at_ms: seq, event });
        seq += 1;
    };
    fold(&mut story, started());
    for n in 0..ATTEMPTS {
        for event in run_of_much(n, kind == "tables") {
            fold(&mut story, event);
        }
        story.chat.layout(55, 30, Theme::new(ThemeName::Dark));
    }
    println!("{}", resident() - before);
}

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

fn run_of_much(n: u32, tables: bool) -> Vec<Event> {
    let mut events = vec![said(n.into())];
    events.extend(proposed(n + 1, "print(df)\n"));
    let line = format!("line of run {n}, as long as lines of a program are, more or less\n");
    for _ in 0..16 {
        events.push(printed(n + 1, line.repeat(PRINTED / 16 / line.len())));
    }
    if tables {
        events.push(Event::RunResult { step: n + 1, result: table(200, 20) });
    }
    events.extend(finished(n + 1));
    events.push(ended());
    events
}

// ---- the log -----------------------------------------------------------------------------------------------------------

fn write_log(folder: &Path, records: u64, record: impl Fn(u64, u64) -> Event) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(folder.join("log.jsonl")).unwrap());
    for seq in 0..records {
        let event = if seq == 0 { started() } else { record(seq / TURN, seq % TURN) };
        let record = Record { v: SCHEMA_VERSION, seq, at_ms: seq * 40, event };
        file.write_all(line::encode(&record).unwrap().as_bytes()).unwrap();
    }
    file.flush().unwrap();
}

/// Record `at` of question `n`: words and code as they are written, a run, what it prints and shows, an answer.
fn turn(n: u64, at: u64) -> Event {
    let step = n as u32 + 1;
    let code = "print(df.groupby('region').sum())\n".repeat(10);
    match at {
        0 | 1 => said(n),
        2..40 => delta(
            Channel::Text,
            format!(" word {at} of a **reply**{}", if at.is_multiple_of(7) { "\n\n- " } else { "" }),
        ),
        40..50 => delta(Channel::Code, "print(df.groupby('region').sum())\n".into()),
        50 => replied("I will group them."),
        51..54 => proposed(step, &code).swap_remove(at as usize - 51),
        54..96 => printed(step, format!("line {at} of what the program prints, as long as lines are\n").repeat(3)),
        96 => Event::RunResult { step, result: table(20, 8) },
        97 => finished(step).swap_remove(0),
        98 => delta(Channel::Text, "The **north** grew most.".into()),
        _ => ended(),
    }
}

fn said(n: u64) -> Event {
    Event::UserSaid { text: format!("Which region grew most in year {n}?") }
}

fn delta(channel: Channel, text: String) -> Event {
    Event::ModelDelta { channel, text }
}

fn replied(text: &str) -> Event {
    Event::ModelReplied(Box::new(Reply { text: text.into(), ..Reply::default() }))
}

fn terms() -> Terms {
    Terms {
        timeout_seconds: 10,
        network: SecurityPolicy::default().network,
        executor: "native".into(),
        tier: "A".into(),
    }
}

/// Proposed, approved, begun.
fn proposed(step: u32, code: &str) -> Vec<Event> {
    let call = format!("c{step:08}");
    let proposal = Proposal {
        step,
        attempt: 1,
        call: call.clone(),
        code: code.into(),
        how: How::Call,
        raw: None,
        terms: terms(),
        asked_seconds: None,
    };
    vec![
        Event::CodeProposed(proposal),
        Event::CodeApproved { step, attempt: 1, call, edited: None, by: "user".into(), terms: terms() },
        Event::RunStarted { step, attempt: 1, terms: terms(), runtime: "/usr/bin/python3".into() },
    ]
}

fn printed(step: u32, text: String) -> Event {
    Event::RunOutput { step, stream: StreamName::Stdout, text, dropped: 0 }
}

fn finished(step: u32) -> Vec<Event> {
    vec![Event::RunFinished(Box::new(RunFinished {
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
    }))]
}

fn ended() -> Event {
    Event::TurnEnded { status: TurnStatus::Answered, answer: "The **north** grew most.".into(), unrepaired: false }
}

fn table(rows: usize, columns: usize) -> ResultBundle {
    let names = (0..columns).map(|n| (format!("column {n}"), "float64".to_owned())).collect();
    let cells = (0..rows).map(|row| (0..columns).map(|n| format!("{row}.{n}25")).collect()).collect();
    let table = Table { columns: names, rows: cells, total_rows: 4000, total_columns: columns as u64 };
    ResultBundle { last: true, text: "a table".into(), table: Some(table), png: None }
}

fn started() -> Event {
    Event::SessionStarted(Box::new(SessionInfo {
        version: "0.1.0".into(),
        id: "20261201-000000-000000".into(),
        started: "2026-12-01T00:00:00Z".into(),
        model: "scripted".into(),
        base_url: "http://localhost".into(),
        mode: Mode::Tools,
        window: 8192,
        executor: "native".into(),
        tier: "A".into(),
        capabilities: Capabilities::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/data".into(),
        python: "3.12.4".into(),
        packages: vec!["pandas".into()],
    }))
}
