//! How a run ended, in the words of the pane's title and the lines below its output.

use super::RunOutput;
use crate::core::clean::Clean;
use crate::core::event::{Outcome, RunFinished};
use crate::core::render::mib;
use crate::tui::theme::Role;

/// What is kept of how a run ended.
#[derive(Debug, Clone)]
pub(super) struct End {
    outcome: Outcome,
    exit_code: i32,
    took_ms: u64,
    peak_bytes: Option<u64>,
    stdout: Option<String>,
    stderr: Option<String>,
}

impl End {
    pub fn new(finished: &RunFinished) -> Self {
        Self {
            outcome: finished.outcome.clone(),
            exit_code: finished.exit_code,
            took_ms: finished.took_ms,
            peak_bytes: finished.peak_bytes,
            stdout: finished.stdout_blob.clone(),
            stderr: finished.stderr_blob.clone(),
        }
    }

    pub fn blobs(&self) -> (Option<&str>, Option<&str>) {
        (self.stdout.as_deref(), self.stderr.as_deref())
    }
}

impl RunOutput {
    /// What the title of the pane says of the run, part by part: exit code, limit hit, time, memory; or how long it has run at
    /// this time of the session.
    pub fn title(&self, now_ms: u64) -> Vec<(String, Role)> {
        let Some(end) = &self.end else {
            let Some((begun, limit)) = self.begun else { return Vec::new() };
            if self.is_cut_off {
                return vec![("interrupted by a crash".into(), Role::Bad)];
            }
            let seconds = now_ms.saturating_sub(begun) as f64 / 1000.0;
            return vec![(format!("running {seconds:.1} of {limit} s"), Role::Strong)];
        };
        let role = if end.outcome.is_success() { Role::Good } else { Role::Bad };
        let mut parts = vec![(format!("exit {}", end.exit_code), role)];
        parts.extend(self.limit(&end.outcome).map(|words| (words, Role::Bad)));
        parts.push((format!("{:.2} s", end.took_ms as f64 / 1000.0), Role::Dim));
        parts.extend(end.peak_bytes.map(|bytes| (mib(bytes), Role::Dim)));
        parts
    }

    fn limit(&self, outcome: &Outcome) -> Option<String> {
        match outcome {
            Outcome::Exited { .. } => None,
            Outcome::Signaled { signal } => Some(format!("signal {signal}")),
            Outcome::TimeLimit => Some(match self.begun {
                Some((_, limit)) => format!("time limit {limit} s"),
                None => "time limit".into(),
            }),
            Outcome::CpuLimit => Some("processor time limit".into()),
            Outcome::MemoryLimit => Some("memory limit".into()),
            Outcome::OutputLimit => Some("output limit".into()),
            Outcome::Cancelled => Some("interrupted".into()),
            Outcome::SetupFailed { .. } => Some("could not start".into()),
            Outcome::BackendLost { .. } => Some("the sandbox was lost".into()),
        }
    }
}

/// What is said below the output.
pub(super) fn notes(finished: &RunFinished) -> Vec<String> {
    let mut notes = Vec::new();
    if let Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } = &finished.outcome {
        notes.push(Clean::line(&failure.to_string()).into_string());
        if !failure.hint.is_empty() {
            notes.push(format!("hint: {}", Clean::line(&failure.hint)));
        }
    }
    let artifacts = finished.artifacts.iter();
    notes.extend(artifacts.map(|file| format!("file {} ({})", Clean::line(&file.name), mib(file.bytes))));
    notes.extend(finished.notes.iter().map(|note| Clean::line(note).into_string()));
    if finished.variables_lost {
        notes.push("the variables of earlier code are gone".into());
    }
    notes
}
