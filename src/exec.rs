//! `sandscript exec`: one question without a screen. It is a user interface like the screen: it sends commands to the
//! driver, shows records, and approves code by itself where that is allowed.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::agent::{self, Command};
use crate::cli::{Common, Exec};
use crate::core::clean::Clean;
use crate::core::event::{Event, Failure, NoteKind, Proposal, Record, SCHEMA_VERSION, TurnStatus};
use crate::error::{Error, Kind, Result};
use crate::log::line;
use crate::log::redact::Redactor;
use crate::places::Places;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::start;

/// Longest question read from standard input, bytes.
const MAX_PROMPT_BYTES: u64 = 1024 * 1024;

/// Records between the driver and us; a slow terminal holds the driver up, never the memory.
const CHANNEL: usize = 64;

/// How long the end of a turn may take after it was told to stop: the sandbox's ladder is 2 s, with slack.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long what is printed is waited for after a stop: a reader that does not read must not hold the end up.
const PRINT_GRACE: Duration = Duration::from_millis(500);

/// Runs the command. What went wrong is in the error; it was not printed yet.
pub async fn run(args: &Exec, common: &Common, places: &Places) -> Result<()> {
    let mut view = View::new(args);
    let result = question(args, common, places, &mut view).await;
    view.close(&result).await;
    result
}

/// Why the waiting ended before the driver said so.
enum Stop {
    Signal,
    Deadline,
}

async fn question(args: &Exec, common: &Common, places: &Places, view: &mut View) -> Result<()> {
    let mut signals = Signals::new()?;
    let deadline = args.deadline.map(|s| Instant::now() + Duration::from_secs(s));
    let options = start::Options {
        max_retries: args.max_retries,
        allow_unsandboxed: args.allow_unsandboxed,
        ephemeral: args.ephemeral,
        common,
    };
    let mut waiting = |text: &str| view.progress.waiting(text);
    let prepared = async {
        let argument = args.prompt.clone();
        // Standard input may take its time; a stop does not wait for it.
        let prompt = tokio::task::spawn_blocking(move || prompt(&argument)).await.unwrap_or_else(|_| bug())?;
        Ok((prompt, start::open(&options, places, &mut waiting).await?))
    };
    let (prompt, opened) = tokio::select! {
        prepared = prepared => prepared?,
        stop = stopped(&mut signals, deadline) => return Err(stop_error(&stop)),
    };
    view.redactor = opened.redactor.clone();
    let (orders, commands) = mpsc::channel(CHANNEL);
    let (sender, records) = mpsc::channel(CHANNEL);
    let driver = tokio::spawn(agent::run(opened.parts, commands, sender));
    let out = args.out.as_ref().map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone()));
    let turn = Turn { orders, records, signals, deadline, stop: None, out };
    let ended = turn.run(prompt, view).await?;
    if driver.await.is_err() {
        return bug();
    }
    finish(args, ended, view)
}

fn bug<T>() -> Result<T> {
    Err(Error::new(Kind::Internal, "a task ended unexpectedly", "", "this is a bug; please report it"))
}

/// How the turn ended.
struct Ended {
    status: TurnStatus,
    answer: String,
    unrepaired: bool,
    stop: Option<Stop>,
    failure: Option<Failure>,
}

struct Turn {
    orders: mpsc::Sender<Command>,
    records: mpsc::Receiver<Record>,
    signals: Signals,
    deadline: Option<Instant>,
    /// Why it was told to stop.
    stop: Option<Stop>,
    /// Where the files go that were made.
    out: Option<PathBuf>,
}

impl Turn {
    async fn run(mut self, prompt: String, view: &mut View) -> Result<Ended> {
        self.order(Command::Say(prompt)).await;
        let mut give_up = None;
        let mut ended = None;
        let mut failure = None;
        let mut open = true;
        while open || view.printer.waits() {
            tokio::select! {
                record = self.records.recv(), if open && (view.printer.has_room() || self.stop.is_some()) => {
                    let Some(record) = record else { open = false; continue };
                    view.record(&record, ended.is_some());
                    if let Event::CodeProposed(p) = record.event {
                        self.approve(p).await;
                    } else if let Event::ModelFailed(failed) = record.event {
                        failure = Some(failed.failure);
                    } else if let Event::TurnEnded { status, answer, unrepaired } = record.event
                        && ended.is_none()
                    {
                        ended = Some((status, answer, unrepaired));
                        if let Some(out) = self.out.take() {
                            self.order(Command::Save(out)).await;
                        }
                        self.order(Command::Shutdown).await;
                    }
                }
                () = view.printer.pass_on(), if view.printer.waits() => {}
                why = stopped(&mut self.signals, self.deadline) => {
                    // A second signal reaches the driver as a second interrupt, which kills at once.
                    self.order(Command::Interrupt).await;
                    self.deadline = None;
                    self.stop.get_or_insert(why);
                    give_up.get_or_insert(Instant::now() + STOP_GRACE);
                }
                () = until(give_up) => break,
                () = view.progress.tick() => {}
            }
        }
        if open {
            // Told to stop, it took too long; dropping the orders ends the driver.
            self.order(Command::Shutdown).await;
            ended.get_or_insert((TurnStatus::Stopped, String::new(), false));
        }
        let Some((status, answer, unrepaired)) = ended else { return bug() };
        Ok(Ended { status, answer, unrepaired, stop: self.stop, failure })
    }

    /// After a stop nothing is approved any more.
    async fn approve(&self, proposal: Proposal) {
        if self.stop.is_none() {
            let Proposal { step, attempt, call, terms, .. } = proposal;
            self.order(Command::Approve { step, attempt, call, edited: None, by: "exec".into(), terms }).await;
        }
    }

    async fn order(&self, command: Command) {
        // A driver that is gone ends the records too, which ends the loop.
        let _ = self.orders.send(command).await;
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn stopped(signals: &mut Signals, deadline: Option<Instant>) -> Stop {
    tokio::select! {
        () = signals.next() => Stop::Signal,
        () = until(deadline) => Stop::Deadline,
    }
}

fn stop_error(stop: &Stop) -> Error {
    match stop {
        Stop::Signal => Error::new(Kind::Interrupted, "interrupted", "", ""),
        Stop::Deadline => Error::new(Kind::Deadline, "the deadline was reached", "", "give more time with --deadline"),
    }
}

fn finish(args: &Exec, ended: Ended, view: &mut View) -> Result<()> {
    if let Some(stop) = &ended.stop {
        return Err(stop_error(stop));
    }
    let Some(kind) = Kind::of_turn(ended.status) else {
        if ended.unrepaired {
            view.warn("a step failed and was not repaired; the answer may be wrong");
        }
        if let Some(file) = &args.output {
            write_answer(file, &view.redactor.text(ended.answer.clone()))?;
        }
        view.answer(&ended.answer);
        return Ok(());
    };
    if let Some(failure) = ended.failure.filter(|_| kind == Kind::Model) {
        return Err(Error { kind, failure });
    }
    let (what, hint) = match ended.status {
        TurnStatus::Failed => (ended.answer, "say more precisely what you want, or try another model with -m"),
        TurnStatus::StepLimit => {
            let so_far =
                if ended.answer.trim().is_empty() { String::new() } else { format!("; so far: {}", ended.answer) };
            (format!("the limit of steps was reached{so_far}"), "raise it with -c agent.max_steps=N")
        }
        TurnStatus::ModelError => ("the model gave no usable reply".into(), "try again, or another model with -m"),
        TurnStatus::SandboxError => (ended.answer, ""),
        TurnStatus::Rejected | TurnStatus::Stopped | TurnStatus::Answered => ("the turn was stopped".into(), ""),
    };
    Err(Error::new(kind, what, "", hint))
}

fn write_answer(file: &Path, answer: &str) -> Result<()> {
    std::fs::write(file, format!("{}\n", answer.trim_end())).map_err(|e| {
        Error::new(
            Kind::Internal,
            format!("cannot write {}", file.display()),
            e.to_string(),
            "the answer is in the session log",
        )
    })
}

fn prompt(argument: &str) -> Result<String> {
    let mut text = argument.to_string();
    if argument == "-" {
        text.clear();
        let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_string(&mut text);
        read.map_err(|e| Error::usage("cannot read the question", e.to_string(), "give it as UTF-8 text"))?;
        if text.len() as u64 > MAX_PROMPT_BYTES {
            return Err(Error::usage("the question is too long", "more than 1 MiB", "put data into files"));
        }
    }
    if text.trim().is_empty() {
        return Err(Error::usage(
            "there is no question",
            "",
            "write: sandscript exec \"How many rows has sales.csv?\"",
        ));
    }
    Ok(text)
}

/// What is printed where.
struct View {
    json: bool,
    progress: Progress,
    redactor: Redactor,
    printer: Printer,
    /// A `turn_ended` record was printed; it is the last line.
    ended: bool,
    seq: u64,
    at_ms: u64,
}

impl View {
    fn new(args: &Exec) -> Self {
        let progress = Progress::new(std::io::stderr().is_terminal() && !args.json);
        let redactor = Redactor::new(Vec::new());
        Self { json: args.json, progress, redactor, printer: Printer::new(), ended: false, seq: 0, at_ms: 0 }
    }

    fn record(&mut self, record: &Record, after_end: bool) {
        (self.seq, self.at_ms) = (record.seq + 1, record.at_ms);
        if self.json && !self.ended {
            self.ended = matches!(record.event, Event::TurnEnded { .. });
            let redacted = Record { event: self.redactor.event(record.event.clone()), ..record.clone() };
            if let Ok(line) = line::encode(&redacted) {
                self.printer.push(line);
            }
        }
        match &record.event {
            Event::Note { kind: NoteKind::Warning, text } if after_end => self.warn(text),
            event => self.progress.record(event),
        }
    }

    fn answer(&mut self, answer: &str) {
        // Apart from what was shown while it worked.
        self.progress.line("\n");
        if !self.json {
            let answer = self.redactor.text(answer.trim().to_string());
            self.printer.push(format!("{}\n", Clean::text(&answer)));
        }
    }

    fn warn(&mut self, text: &str) {
        self.progress.clear();
        let _ = writeln!(std::io::stderr(), "warning: {}", Clean::text(text));
    }

    /// With `--json` the last line is always a `turn_ended` record.
    async fn close(&mut self, result: &Result<()>) {
        self.progress.clear();
        if let Err(error) = result
            && self.json
            && !self.ended
        {
            let (status, answer) = (status_of(error.kind), error.to_string());
            let event = Event::TurnEnded { status, answer, unrepaired: false };
            let record = Record { v: SCHEMA_VERSION, seq: self.seq, at_ms: self.at_ms, event };
            if let Ok(line) = line::encode(&record) {
                self.printer.push(line);
            }
        }
        let stopped = result.as_ref().is_err_and(|e| matches!(e.kind, Kind::Interrupted | Kind::Deadline));
        self.printer.finish(stopped.then_some(PRINT_GRACE)).await;
    }
}

/// How an error before the end of the turn stands in a `turn_ended` record.
fn status_of(kind: Kind) -> TurnStatus {
    match kind {
        Kind::Internal | Kind::Usage | Kind::Unsolved => TurnStatus::Failed,
        Kind::Model => TurnStatus::ModelError,
        Kind::Sandbox => TurnStatus::SandboxError,
        Kind::Approval => TurnStatus::Rejected,
        Kind::Deadline | Kind::Interrupted => TurnStatus::Stopped,
    }
}

/// The signals that mean stop.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let failed = |e: std::io::Error| Error::new(Kind::Internal, "cannot listen for signals", e.to_string(), "");
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
