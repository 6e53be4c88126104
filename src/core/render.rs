//! Runs as the text the model reads: the pinned tool message of design §4.

use super::clean;
use super::event::{Outcome, StreamName};
use super::policy::SecurityPolicy;

/// Bytes of a token until the server's own count is known: text of code and English is 3 to 4.
pub const BYTES_PER_TOKEN: f64 = 3.2;

/// What the model gets of each stream, bytes, where the window is large enough (design §4).
pub const MODEL_OUTPUT_BYTES: usize = 8 * 1024;

/// Share of the window one stream may take: with two full streams two thirds stay for the conversation.
const WINDOW_SHARE: usize = 6;

/// Bytes of each stream that go to a model with a window of `window` tokens.
pub fn model_output_bytes(window: u32) -> usize {
    let window_bytes = (f64::from(window) * BYTES_PER_TOKEN) as usize;
    MODEL_OUTPUT_BYTES.min(window_bytes / WINDOW_SHARE).max(512)
}

/// The beginning and the end of a text, with the size of what is between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadTail {
    head: String,
    tail: String,
    dropped: u64,
    limit: usize,
}

impl HeadTail {
    /// Keeps `limit` bytes, half of them from each end.
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Adds text that comes after `dropped` bytes nobody kept.
    pub fn push(&mut self, text: &str, dropped: u64) {
        if text.starts_with('\r') && !text.starts_with("\r\n") && dropped == 0 {
            self.forget_unfinished_line();
        }
        if dropped > 0 {
            self.dropped = self.dropped.saturating_add(dropped);
            // What comes after a hole belongs to the end, or the text would read as if nothing were missing.
            self.push_tail(text);
        } else if self.tail.is_empty() && self.dropped == 0 {
            let room = floor_boundary(text, (self.limit / 2).saturating_sub(self.head.len()));
            self.head.push_str(&text[..room]);
            self.push_tail(&text[room..]);
        } else {
            self.push_tail(text);
        }
    }

    /// A progress bar draws its line again and again; only the last state counts.
    fn forget_unfinished_line(&mut self) {
        let end = if self.tail.is_empty() { &mut self.head } else { &mut self.tail };
        end.truncate(end.rfind('\n').map_or(0, |at| at + 1));
    }

    fn push_tail(&mut self, text: &str) {
        self.tail.push_str(text);
        let keep = self.limit - self.limit / 2;
        // Cutting only at twice the size keeps the work linear.
        if self.tail.len() > 2 * keep.max(1) {
            self.cut_tail(keep);
        }
    }

    fn cut_tail(&mut self, keep: usize) {
        if self.tail.len() > keep {
            let cut = ceil_boundary(&self.tail, self.tail.len() - keep);
            self.dropped = self.dropped.saturating_add(cut as u64);
            self.tail.drain(..cut);
        }
    }

    /// Nothing was printed.
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty() && self.dropped == 0
    }

    /// The text with a mark where something is missing, and how many bytes that is.
    pub fn text(&self) -> (String, u64) {
        let mut whole = self.clone();
        whole.cut_tail(self.limit - self.limit / 2);
        if whole.dropped == 0 {
            return (plain(&(whole.head + &whole.tail)), 0);
        }
        let (head, tail) = (plain(&whole.head), plain(&whole.tail));
        (format!("{}\n[… {} bytes left out …]\n{}", head.trim_end(), whole.dropped, tail), whole.dropped)
    }
}

/// Redraws collapsed, colours and control characters gone.
fn plain(text: &str) -> String {
    clean::Clean::text(&clean::strip_sgr(&clean::collapse_cr(text))).to_string()
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, mut at: usize) -> usize {
    while at < text.len() && !text.is_char_boundary(at) {
        at += 1;
    }
    at.min(text.len())
}

/// What a run printed and produced, as far as the model will read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    stdout: HeadTail,
    stderr: HeadTail,
    results: HeadTail,
}

impl Heard {
    /// Keeps `limit` bytes of each stream.
    pub fn new(limit: usize) -> Self {
        Self { stdout: HeadTail::new(limit), stderr: HeadTail::new(limit), results: HeadTail::new(limit) }
    }

    /// Adds a piece of output.
    pub fn output(&mut self, stream: StreamName, text: &str, dropped: u64) {
        match stream {
            StreamName::Stdout => self.stdout.push(text, dropped),
            StreamName::Stderr => self.stderr.push(text, dropped),
        }
    }

    /// Adds the text form of a value.
    pub fn result(&mut self, text: &str) {
        if !self.results.is_empty() {
            self.results.push("\n", 0);
        }
        self.results.push(text, 0);
    }

    /// Nothing was printed and no value came.
    pub fn is_silent(&self) -> bool {
        self.stdout.is_empty() && self.stderr.is_empty() && self.results.is_empty()
    }

    /// Standard output and values, for an answer where the model gave no words.
    pub fn said(&self) -> String {
        let (stdout, _) = self.stdout.text();
        let (results, _) = self.results.text();
        [stdout.trim(), results.trim()].into_iter().filter(|t| !t.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Last line of standard error: what went wrong, in Python's words.
    pub fn last_error(&self) -> String {
        let (stderr, _) = self.stderr.text();
        stderr.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default().trim().to_string()
    }

    /// The line of the code that raised the error: the last line of source in a traceback.
    pub fn error_source(&self) -> Option<String> {
        let (stderr, _) = self.stderr.text();
        let marks = |line: &str| line.chars().all(|c| matches!(c, ' ' | '^' | '~'));
        let source = stderr.lines().rev().find(|l| l.starts_with("    ") && !marks(l))?;
        Some(source.trim().to_string())
    }

    /// The tool message (design §4): `exit_code: N`, the streams that are not empty, values, notes.
    pub fn message(&self, exit_code: i32, notes: &[String]) -> String {
        let mut lines = vec![format!("exit_code: {exit_code}")];
        let mut cuts = Vec::new();
        for (label, part) in [("stdout", &self.stdout), ("stderr", &self.stderr), ("result", &self.results)] {
            let (text, dropped) = part.text();
            let text = text.trim_end();
            if !text.is_empty() {
                lines.push(format!("{label}:\n{text}"));
            }
            if dropped > 0 {
                cuts.push(format!("note: {dropped} bytes of {label} were left out in the middle"));
            }
        }
        lines.extend(cuts);
        lines.extend(notes.iter().map(|n| format!("note: {n}")));
        lines.join("\n")
    }
}

/// The note about a limit that ended a run.
pub fn limit_note(outcome: &Outcome, policy: &SecurityPolicy, timeout_seconds: u64) -> Option<String> {
    match outcome {
        Outcome::Exited { .. } => None,
        Outcome::Signaled { signal } => {
            Some(format!("the program was ended by signal {signal}{}", signal_name(*signal)))
        }
        Outcome::TimeLimit => Some(format!("stopped: the time limit of {timeout_seconds} s was reached")),
        Outcome::CpuLimit => Some("stopped: the processor time limit was reached".into()),
        Outcome::MemoryLimit => {
            Some(format!("stopped: the memory limit of {} was exceeded", mib(policy.max_memory_bytes)))
        }
        Outcome::OutputLimit => {
            Some(format!("stopped: more than {} were printed to one stream; print less", mib(policy.max_output_bytes)))
        }
        Outcome::Cancelled => Some("interrupted by the user".into()),
        Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } => Some(failure.to_string()),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// A size for people: `512 MiB`, `1.5 MiB`, `812 bytes`.
pub fn mib(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes < 1024 {
        format!("{bytes} bytes")
    } else if bytes < MIB {
        format!("{} KiB", bytes / 1024)
    } else if bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{:.1} MiB", bytes as f64 / MIB as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(stdout: &str, stderr: &str) -> Heard {
        let mut h = Heard::new(64);
        h.output(StreamName::Stdout, stdout, 0);
        h.output(StreamName::Stderr, stderr, 0);
        h
    }

    #[test]
    fn the_tool_message_is_pinned() {
        assert_eq!(heard("", "").message(0, &[]), "exit_code: 0");
        assert_eq!(heard("  42\n\n", "").message(0, &[]), "exit_code: 0\nstdout:\n  42");
        assert_eq!(
            heard("a\n", "KeyError: 'b'\n").message(1, &["variables are kept".into()]),
            "exit_code: 1\nstdout:\na\nstderr:\nKeyError: 'b'\nnote: variables are kept"
        );
    }

    #[test]
    fn a_value_comes_after_the_streams() {
        let mut h = heard("a\n", "");
        h.result("3.5");
        assert_eq!(h.message(0, &[]), "exit_code: 0\nstdout:\na\nresult:\n3.5");
    }

    #[test]
    fn the_middle_is_left_out_and_counted() {
        let mut h = Heard::new(20);
        h.output(StreamName::Stdout, &"é".repeat(100), 0);
        let text = h.message(0, &[]);
        assert_eq!(
            text,
            "exit_code: 0\nstdout:\nééééé\n[… 180 bytes left out …]\nééééé\nnote: 180 bytes of stdout were left out in the middle"
        );
    }

    #[test]
    fn what_the_sandbox_left_out_is_counted_too() {
        let mut h = Heard::new(64);
        h.output(StreamName::Stdout, "a\n", 0);
        h.output(StreamName::Stdout, "z\n", 1_000);
        assert_eq!(
            h.message(0, &[]),
            "exit_code: 0\nstdout:\na\n[… 1000 bytes left out …]\nz\nnote: 1000 bytes of stdout were left out in the middle"
        );
    }

    #[test]
    fn redraws_and_colours_do_not_reach_the_model() {
        let mut h = Heard::new(640);
        for i in 0..20 {
            h.output(StreamName::Stderr, &format!("\r\u{1b}[31m{i}%\u{1b}[0m"), 0);
        }
        assert_eq!(h.message(0, &[]), "exit_code: 0\nstderr:\n19%");
    }

    #[test]
    fn outcomes_have_their_exit_codes() {
        let lost = |missing| Outcome::BackendLost { failure: crate::core::event::Failure::new("", "", ""), missing };
        let table = [
            (Outcome::Exited { code: 3 }, 3),
            (Outcome::Exited { code: 124 }, 124),
            (Outcome::Signaled { signal: 11 }, 139),
            (Outcome::TimeLimit, 124),
            (Outcome::CpuLimit, 124),
            (Outcome::MemoryLimit, 137),
            (Outcome::OutputLimit, 153),
            (Outcome::Cancelled, 130),
            (lost(true), 127),
            (lost(false), 126),
        ];
        for (outcome, code) in table {
            assert_eq!(outcome.exit_code(), code, "{outcome:?}");
        }
    }
}
