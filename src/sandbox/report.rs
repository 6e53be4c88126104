//! What the runner reports in words: how a run ended and what a compile check found. Numbers saturate, unknown lines are
//! ignored, and text is cleaned, for the process that wrote them shares a user with the code.

use super::Check;
use crate::core::clean::Clean;
use crate::core::event::{Failure, Outcome};

/// Notes of one run and modules of one check that are kept.
const MAX_LINES: usize = 200;
/// Characters of one note or name.
const MAX_CHARS: usize = 300;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Wall time, milliseconds.
    pub took_ms: u64,
    /// Peak resident memory, bytes.
    pub peak_bytes: Option<u64>,
    /// The variables of earlier cells are gone.
    pub variables_lost: bool,
    /// For the model and the person.
    pub notes: Vec<String>,
}

/// Reads the end of a run: lines of `key value`.
pub fn finished(body: &[u8]) -> Report {
    let text = String::from_utf8_lossy(body);
    let mut report = Report {
        outcome: lost("the runner said an end that is not understood"),
        took_ms: 0,
        peak_bytes: None,
        variables_lost: false,
        notes: Vec::new(),
    };
    for (key, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match key {
            "outcome" => report.outcome = outcome(value),
            "took" => report.took_ms = value.parse().unwrap_or(0),
            "peak" => report.peak_bytes = value.parse().ok().filter(|bytes| *bytes > 0),
            "lost" => report.variables_lost = value == "1",
            "note" if report.notes.len() < MAX_LINES => report.notes.push(short(value)),
            _ => {}
        }
    }
    report
}

fn outcome(words: &str) -> Outcome {
    let (word, number) = words.split_once(' ').unwrap_or((words, ""));
    match (word, number.parse::<u8>()) {
        ("exited", Ok(code)) => Outcome::Exited { code: code.into() },
        ("signaled", Ok(signal)) => Outcome::Signaled { signal: signal.into() },
        ("time", _) => Outcome::TimeLimit,
        ("cpu", _) => Outcome::CpuLimit,
        ("output", _) => Outcome::OutputLimit,
        ("cancelled", _) => Outcome::Cancelled,
        ("unfit", _) => unfit(number),
        ("breach", _) => lost("the code wrote into the connection between worker and runner"),
        _ => lost("the runner said an end that is not understood"),
    }
}

fn lost(why: &str) -> Outcome {
    let failure = Failure::new("the Python worker was stopped", why, "do not write to descriptors you did not open");
    Outcome::BackendLost { failure, missing: false }
}

/// The worker said before any code ran that its limits leave it no room.
fn unfit(why: &str) -> Outcome {
    let hint = "raise the limits of the policy, first policy.max_open_files";
    Outcome::SetupFailed {
        failure: Failure::new("Python cannot work within the limits", short(why), hint),
        missing: false,
    }
}

/// Reads what a check found: line of the first error (0 for none), its message, then the imported modules.
pub fn check(body: &[u8]) -> Check {
    let text = String::from_utf8_lossy(body);
    let mut lines = text.lines();
    let line = lines.next().and_then(|line| line.parse().ok()).unwrap_or(1);
    let message = short(lines.next().unwrap_or_default());
    if line > 0 {
        let message = if message.is_empty() { "it does not compile".into() } else { message };
        return Check { error: Some((line, message)), imports: Vec::new() };
    }
    Check { error: None, imports: lines.take(MAX_LINES).map(short).filter(|name| !name.is_empty()).collect() }
}

fn short(text: &str) -> String {
    Clean::line(text).as_str().chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_end_is_read() {
        let report = finished(b"outcome exited 3\ntook 12\npeak 4096\nlost 1\nnote a \x1b[2Jb\nfuture thing\n");
        assert_eq!(report.outcome, Outcome::Exited { code: 3 });
        assert_eq!((report.took_ms, report.peak_bytes, report.variables_lost), (12, Some(4096), true));
        assert_eq!(report.notes, ["a b"]);
    }

    #[test]
    fn an_end_that_is_not_understood_is_no_success() {
        for body in
            [&b""[..], b"outcome", b"outcome exited", b"outcome exited 300", b"outcome exited -1", b"outcome fine"]
        {
            assert!(matches!(finished(body).outcome, Outcome::BackendLost { .. }), "{body:?}");
        }
    }

    #[test]
    fn limits_too_small_are_told() {
        let Outcome::SetupFailed { failure, .. } = finished(b"outcome unfit no \x1b[2Jroom\n").outcome else {
            panic!()
        };
        assert!(failure.why == "no room" && failure.hint.contains("max_open_files"), "{failure:?}");
    }

    #[test]
    fn a_check_is_read() {
        assert_eq!(check(b"0\n\nnumpy\nos").imports, ["numpy", "os"]);
        assert_eq!(check(b"2\ninvalid syntax\n").error, Some((2, "invalid syntax".into())));
        assert!(check(b"").error.is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..300)) {
            finished(&body);
            check(&body);
        }
    }
}
