//! Capture of what a program prints: bytes in, few and small [`Output::Text`] out, however much is printed.
//!
//! The first 256 KiB of a stream go on as they come, in batches of about 30 ms; after that a short tail now and then, so that
//! the screen lives and the log stays small; the very end always. What is left out is counted, and the whole (up to
//! 16 MiB) is kept in a file as soon as something is left out.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::NamedTempFile;
use tokio::time::Instant;

use super::Output;
use crate::core::clean::Sanitizer;
use crate::core::event::StreamName;

/// Between two batches: fast enough to look immediate.
const BATCH: Duration = Duration::from_millis(30);
/// Between two batches that only redraw a line, as progress bars do.
const REDRAW: Duration = Duration::from_millis(200);
/// Between two looks at a flood.
const FLOOD: Duration = Duration::from_millis(250);
/// Bytes of a stream that go on as they come.
const HEAD: u64 = 256 * 1024;
/// Bytes of one look at a flood.
const LOOK: usize = 4 * 1024;
/// Bytes of a stream in the records of one run, together.
const BUDGET: u64 = 1024 * 1024;
/// Bytes of the end that always go on.
const TAIL: usize = 8 * 1024;
/// Bytes of a stream kept in a file.
const MAX_SPOOL: u64 = 16 * 1024 * 1024;

/// Captures one stream of one run.
pub struct Capture {
    stream: StreamName,
    sanitizer: Sanitizer,
    line: Line,
    /// Left out before what waits in `line`.
    dropped: u64,
    /// Bytes in records so far.
    sent: u64,
    started: Instant,
    last: Option<Instant>,
    spool: Spool,
}

impl Capture {
    /// For `stream`; where the records leave something out, the whole is kept in a file in the folder `keep`.
    pub fn new(stream: StreamName, keep: PathBuf, now: Instant) -> Self {
        Self {
            stream,
            sanitizer: Sanitizer::new(),
            line: Line::default(),
            dropped: 0,
            sent: 0,
            started: now,
            last: None,
            spool: Spool { folder: keep, head: String::new(), file: None, bytes: 0, failed: false },
        }
    }

    /// Takes bytes, `skipped` others having been left out by the runner just before.
    pub fn push(&mut self, skipped: u64, bytes: &[u8]) {
        if skipped > 0 {
            let rest = self.sanitizer.finish();
            self.add(&rest);
            // What waits cannot be joined with what comes after the gap.
            self.dropped = self.dropped.saturating_add(skipped).saturating_add(self.line.clear());
            self.spool.start();
            self.spool.write(&format!("\n[{skipped} bytes were not kept]\n"));
        }
        let text = self.sanitizer.feed(bytes);
        self.add(&text);
    }

    fn add(&mut self, text: &str) {
        self.spool.write(text);
        self.line.add(text);
        // Whoever reads may be slow: what waits for him is bounded.
        let most = usize::try_from(HEAD.saturating_sub(self.sent)).unwrap_or(usize::MAX).max(TAIL);
        if self.line.text.len() > most + TAIL {
            self.shorten(most);
        }
    }

    /// Leaves only the last `keep` bytes waiting.
    fn shorten(&mut self, keep: usize) {
        let gone = self.line.shorten(keep);
        if gone > 0 {
            self.dropped = self.dropped.saturating_add(gone);
            self.spool.start();
        }
    }

    /// When the next batch is due, `None` if nothing waits.
    pub fn due(&self) -> Option<Instant> {
        if self.line.is_empty() || (self.sent >= BUDGET - TAIL as u64) {
            return None;
        }
        let pace = if self.sent >= HEAD {
            FLOOD
        } else if self.line.is_redraw() {
            REDRAW
        } else {
            BATCH
        };
        Some(self.last.map_or(self.started, |last| last + pace))
    }

    /// The batch that is due now.
    pub fn batch(&mut self, now: Instant) -> Option<Output> {
        if self.due()? > now {
            return None;
        }
        self.last = Some(now);
        let room = usize::try_from(HEAD.saturating_sub(self.sent)).unwrap_or(usize::MAX).max(LOOK);
        self.shorten(room);
        self.send()
    }

    /// What waits, now.
    pub fn flush(&mut self) -> Option<Output> {
        if self.due().is_some() { self.send() } else { None }
    }

    fn send(&mut self) -> Option<Output> {
        let text = self.line.take();
        let dropped = std::mem::take(&mut self.dropped);
        if text.is_empty() && dropped == 0 {
            return None;
        }
        self.sent += text.len() as u64;
        Some(Output::Text { stream: self.stream, text, dropped })
    }

    /// The end of the stream: the last batch, and the file that keeps the whole where the records do not.
    pub fn finish(mut self) -> (Option<Output>, Option<PathBuf>) {
        let rest = self.sanitizer.finish();
        self.add(&rest);
        let room = usize::try_from(HEAD.saturating_sub(self.sent)).unwrap_or(usize::MAX).max(TAIL);
        self.shorten(room);
        (self.send(), self.spool.finish())
    }
}

/// Text that waits. A line that is drawn again with `\r` is there once, in its last state; a leading `\r` says that the
/// line begun in an earlier batch is drawn again.
#[derive(Default)]
struct Line {
    text: String,
    /// Where the unfinished line begins in `text`.
    start: usize,
    /// The batch before left a line unfinished.
    open: bool,
    /// A `\r` came and nothing after it yet.
    returned: bool,
}

impl Line {
    fn add(&mut self, text: &str) {
        for part in text.split_inclusive(['\r', '\n']) {
            let body = part.trim_end_matches(['\r', '\n']);
            if self.returned && !body.is_empty() {
                self.redraw();
            }
            self.text.push_str(body);
            if part.ends_with('\n') {
                self.text.push('\n');
                self.start = self.text.len();
            }
            self.returned = part.ends_with('\r') || (self.returned && part == body && body.is_empty());
        }
    }

    fn redraw(&mut self) {
        self.text.truncate(self.start);
        if self.start == 0 && self.open {
            self.text.push('\r');
        }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn is_redraw(&self) -> bool {
        self.text.starts_with('\r') && self.start == 0
    }

    /// Keeps the last `keep` bytes, from the start of a line where one is near; returns how many went.
    fn shorten(&mut self, keep: usize) -> u64 {
        if self.text.len() <= keep {
            return 0;
        }
        let mut cut = floor(&self.text, self.text.len() - keep);
        if let Some(end) = self.text[cut..].find('\n').filter(|end| *end < keep / 4) {
            cut += end + 1;
        }
        self.text.drain(..cut);
        self.start = self.start.saturating_sub(cut);
        self.open = false;
        cut as u64
    }

    fn clear(&mut self) -> u64 {
        let gone = self.text.len() as u64;
        *self = Self::default();
        gone
    }

    fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.open = !text.ends_with('\n');
        }
        self.start = 0;
        text
    }
}

/// The last place up to `at` where `text` can be cut.
pub(super) fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The file that keeps the whole. Until something is left out the text is only remembered: at most what went on.
struct Spool {
    folder: PathBuf,
    head: String,
    file: Option<BufWriter<NamedTempFile>>,
    bytes: u64,
    failed: bool,
}

impl Spool {
    fn write(&mut self, text: &str) {
        let Some(file) = self.file.as_mut().filter(|_| !self.failed && self.bytes < MAX_SPOOL) else {
            if self.file.is_none() && !self.failed {
                self.head.push_str(text);
            }
            return;
        };
        let text = &text[..floor(text, usize::try_from(MAX_SPOOL - self.bytes).unwrap_or(usize::MAX))];
        self.bytes += text.len() as u64;
        // A full disk costs the kept text, never the run.
        self.failed = file.write_all(text.as_bytes()).is_err();
    }

    fn start(&mut self) {
        if self.file.is_some() || self.failed {
            return;
        }
        // Its name is ours and new, its mode 0600.
        match tempfile::Builder::new().prefix("output-").suffix(".txt").tempfile_in(&self.folder) {
            Ok(file) => {
                self.file = Some(BufWriter::new(file));
                let head = std::mem::take(&mut self.head);
                self.write(&head);
            }
            Err(_) => self.failed = true,
        }
    }

    fn finish(self) -> Option<PathBuf> {
        let file = self.file.filter(|_| !self.failed)?.into_inner().ok()?;
        Some(file.keep().ok()?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Rig {
        capture: Capture,
        now: Instant,
        texts: Vec<(String, u64)>,
        _keep: tempfile::TempDir,
    }

    impl Rig {
        fn new() -> Self {
            let keep = tempfile::tempdir().unwrap();
            let now = Instant::now();
            let capture = Capture::new(StreamName::Stdout, keep.path().to_path_buf(), now);
            Self { capture, now, texts: Vec::new(), _keep: keep }
        }

        fn push(&mut self, millis: u64, skipped: u64, bytes: &[u8]) {
            self.now += Duration::from_millis(millis);
            self.capture.push(skipped, bytes);
            let out = self.capture.batch(self.now);
            self.note(out);
        }

        fn note(&mut self, out: Option<Output>) {
            if let Some(Output::Text { text, dropped, .. }) = out {
                self.texts.push((text, dropped));
            }
        }

        fn finish(mut self) -> (Vec<(String, u64)>, Option<String>) {
            let capture =
                std::mem::replace(&mut self.capture, Capture::new(StreamName::Stdout, PathBuf::new(), self.now));
            let (out, spool) = capture.finish();
            self.note(out);
            (self.texts, spool.map(|path| std::fs::read_to_string(path).unwrap()))
        }
    }

    fn strings(texts: &[(String, u64)]) -> Vec<&str> {
        texts.iter().map(|(text, _)| text.as_str()).collect()
    }

    #[test]
    fn ordinary_output_comes_whole_in_batches() {
        let mut rig = Rig::new();
        rig.push(100, 0, b"one\n");
        rig.push(1, 0, b"two\n");
        rig.push(1, 0, b"thr");
        rig.push(40, 0, b"ee\n");
        rig.push(1, 0, b"end");
        let (texts, spool) = rig.finish();
        assert_eq!(strings(&texts), ["one\n", "two\nthree\n", "end"]);
        assert_eq!(spool, None);
    }

    #[test]
    fn a_progress_bar_is_few_records_with_its_last_state() {
        let mut rig = Rig::new();
        for i in 0..=10_000 {
            rig.push(0, 0, format!("\r{:3}%", i / 100).as_bytes());
            rig.now += Duration::from_micros(100);
        }
        rig.push(1, 0, b"\ndone\n");
        let (mut texts, _) = rig.finish();
        assert!(texts.len() <= 8, "{}", texts.len());
        assert_eq!(texts.pop().unwrap().0, "\ndone\n");
        assert_eq!(texts.last().unwrap().0, "\r100%");
        assert!(texts[1..].iter().all(|(text, dropped)| text.starts_with('\r') && *dropped == 0), "{texts:?}");
    }

    #[test]
    fn line_ends_of_two_characters_are_no_redraw() {
        let mut rig = Rig::new();
        rig.push(0, 0, b"one\r\ntwo\r");
        rig.push(0, 0, b"\nthree\r\r\n");
        assert_eq!(strings(&rig.finish().0), ["one\ntwo", "\nthree\n"]);
    }

    #[test]
    fn a_flood_is_counted_and_kept() {
        let mut rig = Rig::new();
        let line = format!("{}\n", "x".repeat(999));
        for _ in 0..20_000 {
            rig.push(1, 0, line.as_bytes());
        }
        rig.push(0, 0, b"the end\n");
        let (texts, spool) = rig.finish();
        let sent: usize = texts.iter().map(|(text, _)| text.len()).sum();
        let dropped: u64 = texts.iter().map(|(_, dropped)| dropped).sum();
        assert_eq!(sent as u64 + dropped, 20_000_008);
        assert!(sent <= 1024 * 1024 + TAIL, "{sent}");
        assert!(texts.len() < 600, "{}", texts.len());
        assert!(texts.last().unwrap().0.ends_with("xx\nthe end\n"));
        assert_eq!(spool.unwrap().len(), MAX_SPOOL as usize);
    }

    #[test]
    fn what_the_runner_skipped_is_counted() {
        let mut rig = Rig::new();
        rig.push(0, 0, b"first\n");
        rig.push(1, 0, b"waits\n");
        rig.push(1, 1000, b"last\n");
        let (texts, spool) = rig.finish();
        assert_eq!(texts, [("first\n".into(), 0), ("last\n".into(), 1006)]);
        assert_eq!(spool.unwrap(), "first\nwaits\n\n[1000 bytes were not kept]\nlast\n");
    }

    #[test]
    fn one_endless_line_stays_small() {
        let mut rig = Rig::new();
        for _ in 0..100 {
            rig.push(30, 0, &[b'y'; 200_000]);
        }
        let (texts, _) = rig.finish();
        let sent: usize = texts.iter().map(|(text, _)| text.len()).sum();
        let dropped: u64 = texts.iter().map(|(_, dropped)| dropped).sum();
        assert!(sent < 600_000, "{sent}");
        assert_eq!(sent as u64 + dropped, 20_000_000);
    }

    proptest! {
        #[test]
        fn any_bytes_at_any_time(
            chunks in prop::collection::vec((0u64..300, 0u64..3, prop::collection::vec(any::<u8>(), 0..200)), 0..40)
        ) {
            let mut rig = Rig::new();
            for (millis, skipped, bytes) in &chunks {
                rig.push(*millis, skipped.saturating_sub(1), bytes);
            }
            let (texts, _) = rig.finish();
            prop_assert!(texts.iter().all(|(text, _)| !text.trim_start_matches('\r').contains('\r')));
        }

        #[test]
        fn plain_text_is_never_lost_or_doubled(chunks in prop::collection::vec((0u64..60, "[a-z\n]{0,30}"), 0..40)) {
            let mut rig = Rig::new();
            for (millis, text) in &chunks {
                rig.push(*millis, 0, text.as_bytes());
            }
            let want: String = chunks.iter().map(|(_, text)| text.as_str()).collect();
            prop_assert_eq!(strings(&rig.finish().0).concat(), want);
        }
    }
}
