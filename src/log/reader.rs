//! Reads any file that claims to be a log, from the first line to the last, in bounded memory. Owns the rules of what
//! counts as good.
//!
//! A line is good if it ends with a line feed, its checksum is right, it is a record, and its number follows. Bad bytes
//! behind the last good line are a torn tail, which a crash leaves; bad bytes before a good line are damage. Neither ends
//! the reading, and both are reported, never passed over in silence.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::blobs::Blobs;
use super::line::{self, Envelope};
use super::{blobs_of, log_file, open_untrusted};
use crate::core::event::{Event, Failure, Record, SCHEMA_VERSION};

/// Warnings that are kept word for word; the others are only counted.
const MAX_WARNINGS: usize = 20;

/// Bytes of blobs read for one log, in all: honest ones hold a few large tables and texts.
const MAX_BLOB_BYTES: u64 = 256 * 1024 * 1024;

/// A good line.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A record.
    Known(Box<Record>),
    /// A record of a type, or in a form, this version does not know.
    Unknown {
        /// Position in the session.
        seq: u64,
        /// Milliseconds since the first record.
        at_ms: u64,
        /// Name of its type. From outside: to be cleaned before it is shown.
        kind: String,
        /// The line as it stands. From outside as well.
        line: String,
    },
}

/// What was found while reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// What is wrong, in order, at most twenty.
    pub warnings: Vec<String>,
    /// Warnings beyond those, only counted.
    pub more_warnings: u64,
    /// Lines that are not good.
    pub bad_lines: u64,
    /// The bytes from [`good_end`](Self::good_end) on are not a good line.
    pub torn: bool,
    /// Something in the middle is bad or missing: the session can be shown and not continued.
    pub damaged: bool,
    /// Some line has a higher schema version: the session can be shown and not continued.
    pub newer: bool,
    /// Number the next record gets.
    pub next_seq: u64,
    /// Moment of the last record.
    pub last_at_ms: u64,
    /// Offset behind the last good line.
    pub good_end: u64,
    /// Step whose run started and never finished: interrupted by a crash, if nobody writes to the log.
    pub open_run: Option<u32>,
}

impl Report {
    /// What a person who reads the session must know, one line each: how it ended where its end is missing, and what is
    /// wrong with the log. `open`: a program is writing to it.
    pub fn remarks(&self, open: bool) -> Vec<String> {
        let run = self.open_run.map(|step| match open {
            true => format!("step {step} is running, another sandscript has the session open"),
            false => format!("step {step} was interrupted by a crash; its end is not known"),
        });
        let newer = self.newer.then(|| "a newer sandscript wrote it, some of it may not be shown".to_owned());
        let more = (self.more_warnings > 0).then(|| format!("and {} warnings more", self.more_warnings));
        run.into_iter().chain(newer).chain(self.warnings.iter().cloned()).chain(more).collect()
    }

    /// The failure to say where the log of `session` had no good line.
    pub fn no_record(&self, session: &Path) -> Failure {
        let why = self.warnings.first().map_or("it is empty", String::as_str);
        let hint = "name another session; see your own with: sandscript sessions list";
        Failure::new(format!("{} holds no record of a session", log_file(session).display()), why, hint)
    }
}

/// Iterator over the good lines of a log.
pub struct Reader<R> {
    input: R,
    blobs: Option<Blobs>,
    /// What may still be read from blobs: a small log can name a large one on every line.
    blob_bytes_left: u64,
    line: Vec<u8>,
    /// Bytes of the input taken so far.
    offset: u64,
    /// Number of the line, from 1.
    number: u64,
    /// Bad lines since the last good one.
    bad_before: bool,
    ended: bool,
    report: Report,
}

impl Reader<BufReader<File>> {
    /// Opens the log in the folder of a session, or a log by its own path.
    pub fn open(session: &Path) -> Result<Self, Failure> {
        let path = log_file(session);
        let file = open_untrusted(OpenOptions::new().read(true), &path).map_err(|e| {
            let hint = "name a session folder or a log in it; see your own with: sandscript sessions list";
            Failure::new(format!("cannot read the log {}", path.display()), e.to_string(), hint)
        })?;
        Ok(Self::new(BufReader::new(file), Some(blobs_of(session))))
    }
}

impl<R: BufRead> Reader<R> {
    /// Reads a log from anywhere. Without `blobs` a record that is kept as a blob is [`Entry::Unknown`].
    pub fn new(input: R, blobs: Option<Blobs>) -> Self {
        let report = Report::default();
        Self {
            input,
            blobs,
            blob_bytes_left: MAX_BLOB_BYTES,
            line: Vec::new(),
            offset: 0,
            number: 0,
            bad_before: false,
            ended: false,
            report,
        }
    }

    /// What was found so far; whole once the iterator has ended.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Bytes read so far, of the log and of the blobs its records are kept in.
    pub fn bytes_read(&self) -> u64 {
        self.offset + (MAX_BLOB_BYTES - self.blob_bytes_left)
    }

    /// Reads the rest for the sake of the report.
    pub fn finish(mut self) -> Report {
        while self.next().is_some() {}
        self.report
    }

    /// Takes the next line into `self.line`. `Ok(false)`: it has no end or is too long.
    fn take_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let mut fits = true;
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if bytes.is_empty() {
                return Ok(false);
            }
            let end = bytes.iter().position(|b| *b == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            fits &= self.line.len() + part.len() < line::MAX_LINE;
            if fits {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            self.offset += taken as u64;
            if end.is_some() {
                return Ok(fits);
            }
        }
    }

    fn bad(&mut self, why: &str) {
        self.bad_before = true;
        self.report.bad_lines += 1;
        self.warn(format!("line {}: {why}", self.number));
    }

    fn warn(&mut self, text: String) {
        if self.report.warnings.len() < MAX_WARNINGS {
            self.report.warnings.push(text);
        } else {
            self.report.more_warnings += 1;
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.report.torn = self.bad_before;
    }

    fn good(&mut self, envelope: Envelope) -> Entry {
        let report = &mut self.report;
        report.damaged |= self.bad_before || envelope.seq != report.next_seq;
        report.newer |= envelope.v > u64::from(SCHEMA_VERSION);
        report.last_at_ms = report.last_at_ms.max(envelope.at_ms);
        report.good_end = self.offset;
        let gap = envelope.seq - report.next_seq;
        report.next_seq = envelope.seq.saturating_add(1);
        self.bad_before = false;
        if gap > 0 {
            self.warn(format!("line {}: {gap} records before it are missing", self.number));
        }
        let entry = self.entry(envelope);
        if let Entry::Known(record) = &entry {
            self.follow_run(&record.event);
        }
        entry
    }

    fn entry(&mut self, envelope: Envelope) -> Entry {
        let (seq, at_ms) = (envelope.seq, self.report.last_at_ms);
        let event = match &envelope.blob {
            None => line::event(&self.line),
            Some(name) => self.event_from_blob(name, seq),
        };
        match event {
            Some(event) => {
                let v = u32::try_from(envelope.v).unwrap_or(u32::MAX);
                Entry::Known(Box::new(Record { v, seq, at_ms, event }))
            }
            None => {
                let line = String::from_utf8_lossy(&self.line).into_owned();
                Entry::Unknown { seq, at_ms, kind: envelope.kind, line }
            }
        }
    }

    fn event_from_blob(&mut self, name: &str, seq: u64) -> Option<Event> {
        let failure = match self.blobs.as_ref()?.get(name, line::MAX_RECORD.min(self.blob_bytes_left)) {
            Ok(bytes) => {
                self.blob_bytes_left -= bytes.len() as u64;
                let whole = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
                let same = line::envelope(whole).is_ok_and(|inner| inner.seq == seq && inner.blob.is_none());
                return line::event(whole).filter(|_| same);
            }
            Err(failure) => failure,
        };
        self.warn(format!("line {}: {failure}", self.number));
        None
    }

    fn follow_run(&mut self, event: &Event) {
        match event {
            Event::RunStarted { step, .. } => self.report.open_run = Some(*step),
            Event::RunFinished(_) => self.report.open_run = None,
            Event::SessionStarted(_)
            | Event::InputsListed { .. }
            | Event::UserSaid { .. }
            | Event::ModelDelta { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::CodeProposed(_)
            | Event::CodeApproved { .. }
            | Event::CodeRejected { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::SandboxFailed { .. }
            | Event::ArtifactSaved { .. }
            | Event::TurnEnded { .. }
            | Event::Note { .. }
            | Event::SessionEnded { .. } => {}
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        while !self.ended {
            let before = self.offset;
            self.number += 1;
            match self.take_line() {
                Ok(true) => match line::envelope(&self.line) {
                    Ok(envelope) if envelope.seq < self.report.next_seq => self.bad("its number was there before"),
                    Ok(envelope) => return Some(self.good(envelope)),
                    Err(why) => self.bad(why),
                },
                Ok(false) if self.offset == before => self.end(),
                Ok(false) => self.bad("cut off or too long"),
                Err(e) => {
                    self.warn(format!("line {}: {e}", self.number));
                    self.report.damaged = true;
                    self.end();
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::sealed;
    use crate::log::sample;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> (Vec<Entry>, Report) {
        let mut reader = Reader::new(bytes, None);
        let entries = reader.by_ref().collect();
        (entries, reader.finish())
    }

    fn note(seq: u64, at_ms: u64) -> String {
        sealed(&format!(r#"{{"v":1,"seq":{seq},"at_ms":{at_ms},"type":"note","kind":"warning","text":"x""#))
    }

    #[test]
    fn unknown_types_are_kept_as_they_are() {
        let odd = sealed(r#"{"v":1,"seq":1,"at_ms":5,"type":"weather","sky":"blue""#);
        let (entries, report) = read(format!("{}{odd}{}", note(0, 1), note(2, 6)).as_bytes());
        let line = odd.trim_end().to_owned();
        assert_eq!(entries[1], Entry::Unknown { seq: 1, at_ms: 5, kind: "weather".into(), line });
        assert_eq!((report.next_seq, report.damaged, report.newer), (3, false, false));
    }

    #[test]
    fn a_higher_version_is_read_only() {
        let (entries, report) = read(note(0, 1).replace("\"v\":1", "\"v\":2").as_bytes());
        assert!(entries.is_empty() && report.torn, "the checksum covers the version");
        let newer = sealed(r#"{"v":2,"seq":0,"at_ms":0,"type":"session_ended","reason":"x""#);
        let (entries, report) = read(newer.as_bytes());
        assert_eq!((entries.len(), report.newer, report.damaged), (1, true, false));
    }

    #[test]
    fn time_never_falls() {
        let (entries, report) = read([note(0, 9), note(1, 3), note(2, 10)].concat().as_bytes());
        let times: Vec<u64> = entries.iter().map(|e| if let Entry::Known(r) = e { r.at_ms } else { 0 }).collect();
        assert_eq!((times, report.last_at_ms), (vec![9, 9, 10], 10));
    }

    #[test]
    fn damage_in_the_middle_is_passed_over_and_told() {
        let zeros = "\0".repeat(5000);
        let long = "x".repeat(line::MAX_LINE * 3);
        for bad in ["\n", "{}\n", &format!("{zeros}\n"), &format!("{long}\n"), &zeros, &note(0, 1), ""] {
            let (entries, report) = read(format!("{}{bad}{}{}", note(0, 1), note(2, 2), note(3, 3)).as_bytes());
            assert!(report.damaged && !report.torn, "{bad:.20?}");
            assert!(entries.len() >= 2 && report.next_seq == 4, "{bad:.20?}");
            assert!(!report.warnings.is_empty(), "{bad:.20?}");
        }
    }

    #[test]
    fn a_bad_tail_is_torn_and_not_damage() {
        for bad in ["{\"v\":1", "\0\0\0", "\0\0\0\n", "{}\n{}\n", note(1, 1).trim_end(), &note(0, 1)] {
            let (entries, report) = read(format!("{}{bad}", note(0, 1)).as_bytes());
            assert_eq!((entries.len(), report.torn, report.damaged), (1, true, false), "{bad:?}");
            assert_eq!(report.good_end, note(0, 1).len() as u64);
        }
    }

    #[test]
    fn warnings_are_bounded() {
        let (_, report) = read("bad\n".repeat(10_000).as_bytes());
        assert_eq!((report.warnings.len(), report.bad_lines), (MAX_WARNINGS, 10_000));
        assert_eq!(report.remarks(false).pop().unwrap(), "and 9980 warnings more");
    }

    #[test]
    fn an_unfinished_run_is_found() {
        let text = sample::text();
        let end = text.find("\"type\":\"run_finished\"").unwrap();
        let (_, report) = read(&text.as_bytes()[..end]);
        assert_eq!(report.open_run, Some(1));
        assert!(report.remarks(false)[0].contains("interrupted by a crash"), "{:?}", report.remarks(false));
        assert!(report.remarks(true)[0].contains("is running"), "{:?}", report.remarks(true));
        assert_eq!(read(text.as_bytes()).1.open_run, None);
    }

    #[test]
    fn a_pointer_leads_to_its_own_record_only() {
        let session = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_session(session.path());
        let own = blobs.put(note(0, 1).as_bytes()).unwrap();
        let to =
            |seq: u64, blob: &str| sealed(&format!(r#"{{"v":1,"seq":{seq},"at_ms":1,"type":"note","blob":"{blob}""#));
        let chain = blobs.put(to(1, &own).as_bytes()).unwrap();
        let log = [to(0, &own), to(1, &own), to(2, &chain), to(3, "../log.jsonl")].concat();
        let mut reader = Reader::new(log.as_bytes(), Some(blobs));
        let known: Vec<bool> = reader.by_ref().map(|e| matches!(e, Entry::Known(_))).collect();
        assert_eq!(known, [true, false, false, false]);
        assert!(!reader.report().damaged);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let (entries, report) = read(&bytes);
            prop_assert!(entries.is_empty());
            prop_assert_eq!(report.torn, !bytes.is_empty());
        }

        #[test]
        fn a_sealed_object_is_read_without_panic(body in "\\{(\"(v|seq|at_ms|type|text|step|blob)\":(0|1|-3|1e99|\"note\"|\"run_output\"|null|\\[\\]),?){0,6}") {
            read(sealed(&body).as_bytes());
        }

        #[test]
        fn a_truncated_log_yields_its_whole_lines(cut in 0usize..8000) {
            let text = sample::text();
            let cut = cut.min(text.len());
            let part = &text.as_bytes()[..cut];
            let (entries, report) = read(part);
            let whole = part.iter().filter(|b| **b == b'\n').count();
            prop_assert_eq!(entries.len(), whole);
            prop_assert!(!report.damaged);
            prop_assert_eq!(report.torn, cut > 0 && part[cut - 1] != b'\n');
        }

        #[test]
        fn a_changed_byte_is_noticed(at in 0usize..7000, flip in 1u8..=255) {
            let mut bytes = sample::text().into_bytes();
            bytes[at] ^= flip;
            let (entries, report) = read(&bytes);
            prop_assert!(report.damaged || report.torn);
            prop_assert!(entries.len() < sample::records().len());
        }
    }
}
