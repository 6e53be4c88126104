//! A session as a recording of a terminal, asciicast v2: what `sessions show` prints, in colours of ours, at the pace of the
//! session. Times between records are shortened; every question is a marker. Input is never recorded, since there is none.

use std::path::Path;

use serde::Serialize;

use super::json::json_line;
use super::{Entries, Exported, list};
use crate::core::clean::Clean;
use crate::core::event::{Event, Failure, NoteKind, Record, StreamName};
use crate::core::show;
use crate::log::reader::Entry;

/// Size of the terminal, in characters.
const COLUMNS: u32 = 100;
const LINES: u32 = 30;

/// Longest pause, milliseconds: nobody watches a person think.
const MAX_IDLE_MS: u64 = 2000;

/// Longest name of a marker, characters: players show it on a line.
const MAX_MARKER: usize = 60;

/// Width of a tab, in spaces: players disagree about it.
const TAB: &str = "    ";

/// Writes the recording.
pub(super) fn write(session: &Path) -> Result<Exported, Failure> {
    let mut entries = Entries::open(session)?;
    let mut recording = Recording::default();
    for entry in entries.by_ref() {
        recording.add(&entry);
    }
    let warnings = entries.finish()?;
    let title = super::super::care::title(session).unwrap_or(recording.question);
    let header = Header {
        version: 2,
        width: COLUMNS,
        height: LINES,
        timestamp: recording.started,
        title: title.as_str(),
        idle_time_limit: MAX_IDLE_MS as f64 / 1000.0,
    };
    let bytes = format!("{}{}", json_line(&header), recording.lines).into_bytes();
    Ok(Exported { bytes, extra_files: Vec::new(), warnings })
}

/// The first line. Some players look for the version at its start.
#[derive(Serialize)]
struct Header<'a> {
    version: u32,
    width: u32,
    height: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<i64>,
    title: &'a str,
    idle_time_limit: f64,
}

#[derive(Default)]
struct Recording {
    lines: String,
    /// Moment of the record at hand.
    at_ms: u64,
    /// Moment of the last one that showed something, in the session and here.
    shown_at_ms: u64,
    shown_ms: u64,
    started: Option<i64>,
    /// The first one.
    question: Clean,
}

impl Recording {
    fn add(&mut self, entry: &Entry) {
        self.at_ms = match entry {
            Entry::Known(record) => record.at_ms,
            Entry::Unknown { at_ms, .. } => *at_ms,
        };
        match entry {
            Entry::Known(record) => self.record(record),
            Entry::Unknown { kind, .. } => {
                self.show("2", &format!("· a record of the unknown type {}\n", Clean::line(kind)));
            }
        }
    }

    fn record(&mut self, record: &Record) {
        if let Event::SessionStarted(info) = &record.event {
            let started = info.started.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
            self.started = self.started.or(started.filter(|seconds| *seconds >= 0));
        }
        if let Event::UserSaid { text } = &record.event {
            let question = list::title(text);
            let name: String = question.as_str().chars().take(MAX_MARKER).collect();
            self.event("m", &name);
            if self.question.as_str().is_empty() {
                self.question = question;
            }
        }
        self.show(colour(&record.event), &show::event(&record.event, true));
    }

    /// Prints text, each line in its colour, so that a marker can be jumped to without what came before.
    fn show(&mut self, colour: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut out = String::with_capacity(text.len() + 16);
        for line in text.split_inclusive('\n') {
            let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\r\n"));
            let line = line.replace('\t', TAB);
            match line.is_empty() || colour.is_empty() {
                true => out.push_str(&line),
                false => out.push_str(&format!("\u{1b}[{colour}m{line}\u{1b}[0m")),
            }
            out.push_str(end);
        }
        self.event("o", &out);
    }

    fn event(&mut self, code: &str, data: &str) {
        self.shown_ms += self.at_ms.saturating_sub(self.shown_at_ms).min(MAX_IDLE_MS);
        self.shown_at_ms = self.at_ms;
        let seconds = self.shown_ms as f64 / 1000.0;
        self.lines.push_str(&json_line(&(seconds, code, data)));
    }
}

/// Colour of what is shown of an event, as the parameters of its sequence; empty for the terminal's own.
fn colour(event: &Event) -> &'static str {
    match event {
        Event::UserSaid { .. } => "1;36",
        Event::TurnEnded { .. } => "1",
        Event::RunOutput { stream: StreamName::Stderr, .. }
        | Event::ModelFailed(_)
        | Event::SandboxFailed { .. }
        | Event::CodeRejected { .. } => "31",
        Event::RunFinished(finished) if !finished.outcome.is_success() => "31",
        Event::RunFinished(_) => "32",
        Event::Note { kind: NoteKind::Warning | NoteKind::PackagesMissing | NoteKind::Recovery, .. } => "33",
        Event::SessionStarted(_)
        | Event::SessionResumed(_)
        | Event::TermsChanged { .. }
        | Event::ModelChanged { .. }
        | Event::LimitsChanged { .. }
        | Event::RebuildDecided { .. }
        | Event::InputsListed { .. }
        | Event::Note { .. }
        | Event::ArtifactSaved { .. } => "2",
        Event::CodeProposed(_) | Event::CodeApproved { .. } => "34",
        Event::RunOutput { stream: StreamName::Stdout, .. }
        | Event::RunResult { .. }
        | Event::ModelReplied(_)
        | Event::ModelDelta { .. }
        | Event::RunStarted { .. }
        | Event::SessionEnded { .. } => "",
    }
}
