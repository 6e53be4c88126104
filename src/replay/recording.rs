//! A log as a replay needs it: all its records in memory, the places to jump to, and what was wrong with it.
//!
//! Any file that claims to be a log is opened: torn, damaged, of a crashed or a later program, or from somewhere else.
//! What is left out is said in a warning.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::core::clean::Clean;
use crate::core::command::Mark;
use crate::core::event::{Event, Failure, Record, TurnStatus};
use crate::log::blobs::Blobs;
use crate::log::reader::{Entry, Reader};
use crate::log::{blobs_of, list};

/// Most records kept: ten times the longest session the screen is measured with. They take about half a GiB.
const MAX_RECORDS: usize = 1_000_000;

/// Most bytes of log and blobs kept. An honest session stays far below, for long output is in blobs that are read only
/// when asked for; a hostile one, all of empty table cells, takes some eight times as much memory.
const MAX_BYTES: u64 = 128 * 1024 * 1024;

/// Unknown types named in a warning; a log can make one up on every line.
const NAMED_TYPES: usize = 8;

/// Longest name of a type in a warning, characters.
const TYPE_NAME: usize = 40;

/// Longest pause between two records that is played at all, milliseconds: a day. Longer ones come from a broken clock or a
/// hostile log, and nobody waits for them.
const MAX_GAP_MS: u64 = 24 * 60 * 60 * 1000;

/// Longest stretch of one stream that is one step, milliseconds of the recording. Pieces come every 30 ms, which is too
/// little to step through; a second of it is a few lines.
const STEP_MS: u64 = 1000;

/// A session to play back.
#[derive(Debug)]
pub struct Recording {
    /// The records, in order.
    pub records: Vec<Arc<Record>>,
    /// Records that begin a question or an attempt or show a failure.
    pub marks: Arc<[(usize, Mark)]>,
    /// What is wrong with the log, one clean line each.
    pub warnings: Arc<[String]>,
    /// Numbers of shown records at which a step ends. Pieces of one stream within a second are one step.
    pub(super) steps: Vec<usize>,
    /// The session's blobs.
    pub(super) blobs: Blobs,
}

/// Records that are known, and what is to be said of the others.
struct Read {
    records: Vec<Arc<Record>>,
    unknown: u64,
    types: BTreeSet<String>,
    full: bool,
}

impl Recording {
    /// Reads the log in the folder of a session, or the log at a path. Takes as long as reading takes: not for a task.
    pub fn open(session: &Path) -> Result<Self, Failure> {
        Self::open_within(session, MAX_RECORDS, MAX_BYTES)
    }

    fn open_within(session: &Path, max_records: usize, max_bytes: u64) -> Result<Self, Failure> {
        let mut reader = Reader::open(session)?;
        let read = read(&mut reader, max_records, max_bytes);
        if read.records.is_empty() {
            return Err(reader.report().no_record(session));
        }
        let mut warnings = reader.report().remarks(list::is_open(session));
        if read.full {
            // How a part ends says nothing about the whole.
            warnings = reader.report().warnings.clone();
            warnings.insert(0, format!("the log is too large; only its first {} records are here", read.records.len()));
        }
        warnings.extend(unknown_warning(&read));
        let warnings = warnings.iter().map(|text| Clean::line(text).into_string()).collect();
        Ok(Self::new(read.records, warnings, blobs_of(session)))
    }

    pub(super) fn new(records: Vec<Arc<Record>>, warnings: Vec<String>, blobs: Blobs) -> Self {
        let marks = records.iter().enumerate().filter_map(|(at, record)| Some((at, mark(&record.event)?))).collect();
        let steps = steps(&records);
        Self { records, marks, warnings: warnings.into(), steps, blobs }
    }

    /// The moment of each record in milliseconds from the first, pauses shortened to `idle_limit_ms`.
    pub(super) fn moments(&self, idle_limit_ms: Option<u64>) -> Vec<u64> {
        let longest = idle_limit_ms.map_or(MAX_GAP_MS, |limit| limit.min(MAX_GAP_MS));
        let mut before = self.records.first().map_or(0, |first| first.at_ms);
        let mut moment = 0u64;
        let shorten = |record: &Arc<Record>| {
            // Time that falls stands still.
            moment = moment.saturating_add(record.at_ms.saturating_sub(before).min(longest));
            before = before.max(record.at_ms);
            moment
        };
        self.records.iter().map(shorten).collect()
    }
}

fn read(reader: &mut Reader<impl std::io::BufRead>, max_records: usize, max_bytes: u64) -> Read {
    let mut read = Read { records: Vec::new(), unknown: 0, types: BTreeSet::new(), full: false };
    while let Some(entry) = reader.next() {
        if read.records.len() == max_records || reader.bytes_read() > max_bytes {
            read.full = true;
            break;
        }
        match entry {
            Entry::Known(record) => read.records.push(Arc::from(record)),
            Entry::Unknown { kind, .. } => {
                read.unknown += 1;
                if read.types.len() < NAMED_TYPES {
                    read.types.insert(kind.chars().take(TYPE_NAME).collect());
                }
            }
        }
    }
    read
}

fn unknown_warning(read: &Read) -> Option<String> {
    let names = || read.types.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match read.unknown {
        0 => None,
        1 => Some(format!("a record of the unknown type {} is not shown", names())),
        n => Some(format!("{n} records of unknown types are not shown: {}", names())),
    }
}

/// What a record marks.
fn mark(event: &Event) -> Option<Mark> {
    match event {
        Event::UserSaid { .. } => Some(Mark::Question),
        Event::CodeProposed(_) => Some(Mark::Attempt),
        Event::ModelFailed(_) | Event::SandboxFailed { .. } => Some(Mark::Failure),
        Event::RunFinished(finished) => (!finished.outcome.is_success()).then_some(Mark::Failure),
        Event::TurnEnded { status, .. } => match status {
            TurnStatus::Failed | TurnStatus::StepLimit => Some(Mark::Failure),
            // What failed was marked already, or the person ended it.
            TurnStatus::ModelError | TurnStatus::SandboxError => None,
            TurnStatus::Answered | TurnStatus::Rejected | TurnStatus::Stopped => None,
        },
        Event::SessionStarted(_)
        | Event::InputsListed { .. }
        | Event::ModelDelta { .. }
        | Event::ModelReplied(_)
        | Event::CodeApproved { .. }
        | Event::CodeRejected { .. }
        | Event::RunStarted { .. }
        | Event::RunOutput { .. }
        | Event::RunResult { .. }
        | Event::ArtifactSaved { .. }
        | Event::Note { .. }
        | Event::SessionEnded { .. } => None,
    }
}

/// Where steps end, so that going back stops where going on did.
fn steps(records: &[Arc<Record>]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut first = 0;
    for (at, record) in records.iter().enumerate().skip(1) {
        let began = &records[first];
        let within = record.at_ms.saturating_sub(began.at_ms) <= STEP_MS;
        if !(within && same_stream(&began.event, &record.event)) {
            ends.push(at);
            first = at;
        }
    }
    ends.push(records.len());
    ends
}

/// Whether two records are pieces of the same stream.
fn same_stream(one: &Event, two: &Event) -> bool {
    match (one, two) {
        (Event::ModelDelta { channel: one, .. }, Event::ModelDelta { channel: two, .. }) => one == two,
        (Event::RunOutput { step: s, stream: one, .. }, Event::RunOutput { step: t, stream: two, .. }) => {
            (s, one) == (t, two)
        }
        (_, _) => false,
    }
}

#[cfg(test)]
mod tests;
