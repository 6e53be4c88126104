//! What `exec` prints, and where.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use crate::core::clean::Clean;
use crate::core::event::{Event, NoteKind, Record, SCHEMA_VERSION, TurnStatus};
use crate::error::{Error, Kind, Result};
use crate::log::line;
use crate::log::redact::Redactor;
use crate::printer::Printer;
use crate::progress::Progress;

use super::stops::Stops;

/// How long what is printed is waited for after a stop.
const PRINT_GRACE: Duration = Duration::from_millis(500);

/// What is printed where.
pub struct View {
    json: bool,
    /// What is shown while it works.
    pub progress: Progress,
    /// Blacks out keys in what is printed.
    pub redactor: Redactor,
    /// Standard output.
    pub printer: Printer,
    /// A `turn_ended` record was printed; it is the last line.
    ended: bool,
    seq: u64,
    at_ms: u64,
}

impl View {
    /// `json` prints every record as a line.
    pub fn new(json: bool) -> Self {
        let progress = Progress::new(std::io::stderr().is_terminal() && !json);
        let redactor = Redactor::new(Vec::new());
        Self { json, progress, redactor, printer: Printer::new(), ended: false, seq: 0, at_ms: 0 }
    }

    /// Shows a record; `after_end` says that the turn is over.
    pub fn record(&mut self, record: &Record, after_end: bool) {
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

    /// Prints the answer.
    pub fn answer(&mut self, answer: &str) {
        // Apart from what was shown while it worked.
        self.progress.line("\n");
        if !self.json {
            let answer = self.redactor.text(answer.trim().to_string());
            self.printer.push(format!("{}\n", Clean::text(&answer)));
        }
    }

    /// Something the person must see, terminal or not.
    pub fn warn(&mut self, text: &str) {
        self.progress.clear();
        let _ = writeln!(std::io::stderr(), "warning: {}", Clean::text(text));
    }

    /// Prints what is left. With `--json` the last line is always a `turn_ended` record.
    pub async fn close(&mut self, result: Result<()>, stops: &mut Stops) -> Result<()> {
        self.progress.clear();
        if let Err(error) = &result
            && self.json
            && !self.ended
        {
            self.printer.push(last_line(error, self.seq, self.at_ms));
        }
        let stopped = result.as_ref().is_err_and(|e| matches!(e.kind, Kind::Interrupted | Kind::Deadline));
        let printed = if stopped {
            // A reader that does not read must not hold the end up.
            tokio::time::timeout(PRINT_GRACE, self.printer.finish()).await.unwrap_or(Ok(()))
        } else {
            tokio::select! {
                printed = self.printer.finish() => printed,
                stop = stops.next() => return result.and(Err(stop.error())),
            }
        };
        let failed = |e: std::io::Error| {
            let hint = "free space, or print to another place; the answer is in the session log";
            Error::new(Kind::Internal, "cannot write to standard output", e.to_string(), hint)
        };
        result.and(printed.map_err(failed))
    }
}

/// The `turn_ended` record of an error before the end of the turn.
pub fn last_line(error: &Error, seq: u64, at_ms: u64) -> String {
    let (status, answer) = (status_of(error.kind), error.to_string());
    let event = Event::TurnEnded { status, answer, unrepaired: false };
    line::encode(&Record { v: SCHEMA_VERSION, seq, at_ms, event }).unwrap_or_default()
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
