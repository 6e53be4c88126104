//! A run from its opened sandbox to its end in the log.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::FutureExt;

use super::{Activity, Agent};
use crate::core::event::{Artifact, Event, Failure, NoteKind, Outcome, ResultBundle, RunFinished};
use crate::core::session::Run;
use crate::sandbox::artifacts;
use crate::sandbox::{Cell, Finished, Output, Sandbox, SetupError};

impl Agent {
    /// Puts the remedy where the person sees it.
    pub(super) async fn explain(&mut self, failure: &Failure) {
        let hint = if failure.hint.is_empty() { String::new() } else { format!("\nhint: {}", failure.hint) };
        self.note(NoteKind::Warning, format!("{failure}{hint}")).await;
    }

    pub(super) async fn opened(&mut self, opened: Result<Arc<dyn Sandbox>, SetupError>) {
        let Activity::Starting { run, .. } = std::mem::replace(&mut self.activity, Activity::Idle) else { return };
        let sandbox = match opened {
            Ok(sandbox) => sandbox,
            Err(SetupError { failure, missing }) => {
                self.sandbox = None;
                self.finish_unstarted(&run, Outcome::SetupFailed { failure, missing }).await;
                return;
            }
        };
        let (step, attempt, terms) = (run.step, run.attempt, run.terms.clone());
        self.record(Event::RunStarted { step, attempt, terms, runtime: sandbox.runtime() }).await;
        // Nothing runs that the log might not show.
        let barrier = self.log.barrier().boxed();
        self.activity = Activity::Syncing { run, sandbox, barrier };
    }

    pub(super) async fn synced(&mut self, synced: Result<(), Failure>) {
        let Activity::Syncing { run, sandbox, .. } = std::mem::replace(&mut self.activity, Activity::Idle) else {
            return;
        };
        if let Err(failure) = synced {
            self.finish_unstarted(&run, Outcome::SetupFailed { failure, missing: false }).await;
            return;
        }
        let cell = Cell { number: run.cell, code: run.code.clone(), timeout_seconds: run.terms.timeout_seconds };
        let output = sandbox.run(cell);
        self.activity = Activity::Running { run, sandbox, output };
    }

    pub(super) async fn output(&mut self, output: Option<Output>) {
        let Activity::Running { run, .. } = &self.activity else { return };
        let step = run.step;
        match output {
            Some(Output::Started) => {}
            Some(Output::Notice(kind, text)) => self.note(kind, text).await,
            Some(Output::Text { stream, text, dropped }) => {
                self.record(Event::RunOutput { step, stream, text, dropped }).await;
            }
            Some(Output::Value(value)) => {
                let png = self.keep_png(value.png).await;
                let result = ResultBundle { last: value.last, text: value.text, table: value.table, png };
                self.record(Event::RunResult { step, result }).await;
            }
            Some(Output::Finished(finished)) => {
                let run = run.clone();
                self.finished(&run, *finished).await;
            }
            None => {
                let run = run.clone();
                self.sandbox = None;
                let failure = Failure::new("the sandbox went away", "", "ask again to start a new one");
                self.finish_unstarted(&run, Outcome::BackendLost { failure, missing: false }).await;
            }
        }
    }

    pub(super) async fn finished(&mut self, run: &Run, finished: Finished) {
        self.activity = Activity::Idle;
        let stdout_blob = self.keep_spool(finished.stdout_spool).await;
        let stderr_blob = self.keep_spool(finished.stderr_spool).await;
        if let Outcome::BackendLost { failure, .. } | Outcome::SetupFailed { failure, .. } = &finished.outcome {
            self.explain(&failure.clone()).await;
        }
        self.made.extend(finished.artifacts.iter().map(|a| (run.step, a.clone())));
        self.record(Event::RunFinished(Box::new(RunFinished {
            step: run.step,
            attempt: run.attempt,
            exit_code: finished.outcome.exit_code(),
            outcome: finished.outcome,
            took_ms: finished.took_ms,
            peak_bytes: finished.peak_bytes,
            variables_lost: finished.variables_lost,
            artifacts: finished.artifacts,
            notes: finished.notes,
            stdout_blob,
            stderr_blob,
        })))
        .await;
        self.sync().await;
    }

    /// Copies the files that were made into `folder`, never over an existing one.
    pub(super) async fn save(&mut self, folder: PathBuf) {
        for (step, artifact) in self.made.clone() {
            let (keep, to, only) = (self.open.keep.clone(), folder.clone(), [artifact.clone()]);
            let saved = tokio::task::spawn_blocking(move || artifacts::save(&only, &keep, &to)).await;
            let artifacts::Saved { saved, failed } = saved.unwrap_or_default();
            for path in saved {
                let Artifact { name, bytes } = artifact.clone();
                let path = path.display().to_string();
                self.record(Event::ArtifactSaved { step, name, bytes, path }).await;
            }
            for text in failed {
                self.note(NoteKind::Warning, text).await;
            }
        }
    }

    /// Output that is longer than its records becomes a blob of the session.
    async fn keep_spool(&mut self, path: Option<PathBuf>) -> Option<String> {
        let (path, blobs, mut redactor) = (path?, self.log.blobs()?, self.redactor.clone());
        let keep = move || {
            let name = blobs.put_text_file(&path, &mut redactor).ok();
            let _ = std::fs::remove_file(&path);
            name
        };
        tokio::task::spawn_blocking(keep).await.ok()?
    }

    async fn keep_png(&mut self, png: Option<Vec<u8>>) -> Option<String> {
        let (png, blobs) = (png?, self.log.blobs()?);
        tokio::task::spawn_blocking(move || blobs.put(&png).ok()).await.ok()?
    }

    /// The end of a run that never began.
    pub(super) async fn finish_unstarted(&mut self, run: &Run, outcome: Outcome) {
        self.finished(run, Finished::new(outcome)).await;
    }

    /// A barrier whose failure is shown; the next run will refuse to start.
    pub(super) async fn sync(&mut self) {
        if let Err(failure) = self.log.barrier().await {
            self.explain(&failure).await;
        }
    }
}
