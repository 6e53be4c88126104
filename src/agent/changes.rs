//! Settings the person changes while the session goes on, a session that goes on after a break, and questions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Agent, Connection};
use crate::core::command::{Answer, Change, Question, Update};
use crate::core::event::{Event, Failure, NoteKind, Record, Terms};
use crate::sandbox::inputs::Inputs;

/// Records of an earlier part of the session told at once.
const HISTORY_BATCH: usize = 1024;

/// What was made anew.
pub(super) enum Changed {
    Model(Result<Connection, Failure>),
    Inputs(Result<(Inputs, String), Failure>),
}

impl Agent {
    /// Folds and tells what happened before the break. The clock goes on where it stopped.
    pub(super) async fn tell_history(&mut self, history: Vec<Record>) {
        let last = history.last().map_or(0, |r| r.at_ms);
        self.started = Instant::now().checked_sub(Duration::from_millis(last)).unwrap_or(self.started);
        for record in &history {
            // What was to be done then was done or is lost.
            drop(self.session.step(&record.event));
            if let Event::RunFinished(finished) = &record.event {
                self.made.extend(finished.artifacts.iter().map(|a| (finished.step, a.clone())));
            }
        }
        let records: Vec<Arc<Record>> = history.into_iter().map(Arc::new).collect();
        for batch in records.chunks(HISTORY_BATCH) {
            let _ = self.updates.send(Update::Past(batch.to_vec())).await;
        }
    }

    /// Asks whether the cells of a continued session run again.
    pub(super) async fn ask_rebuild(&mut self) {
        let cells = self.session.rebuildable().iter().map(|c| (c.step, c.code.clone())).collect::<Vec<_>>();
        if let (Some(terms), false) = (self.session.terms(), cells.is_empty()) {
            let _ = self.updates.send(Update::AskRebuild { cells, terms }).await;
        }
    }

    /// Cells run again only as they were shown, on the terms that were shown; else it is asked again.
    pub(super) async fn rebuild(&mut self, approved: bool, shown: &[(u32, String)], terms: Terms) {
        let cells = self.session.rebuildable().to_vec();
        let same = shown.iter().map(|(step, code)| (*step, code)).eq(cells.iter().map(|c| (c.step, &c.code)));
        if !same || self.session.terms().as_ref() != Some(&terms) {
            return self.ask_rebuild().await;
        }
        if !cells.is_empty() {
            self.record(Event::RebuildDecided { cells, approved, by: "user".into(), terms }).await;
        }
    }

    pub(super) async fn change(&mut self, change: Change) {
        let tell = self.tell_changed.clone();
        match change {
            Change::Model(name) => {
                let connecting = self.changes.connect(name);
                tokio::spawn(async move { tell.send(Changed::Model(connecting.await)).await });
            }
            Change::Attach(_) if self.session.in_turn() || self.session.is_rebuilding() => {
                self.note(NoteKind::Warning, "files can be added when the turn is over".into()).await;
            }
            Change::Attach(path) => {
                let attaching = self.changes.attach(path);
                tokio::spawn(async move { tell.send(Changed::Inputs(attaching.await)).await });
            }
            Change::Timeout(seconds) => self.limits(Some(seconds), None, None).await,
            Change::MaxRetries(n) => self.limits(None, Some(n), None).await,
            Change::MaxSteps(n) => self.limits(None, None, Some(n)).await,
        }
    }

    async fn limits(&mut self, timeout: Option<u64>, retries: Option<u32>, steps: Option<u32>) {
        let Some(info) = self.session.info() else { return };
        let changed = Event::LimitsChanged {
            timeout_seconds: timeout.unwrap_or(info.policy.timeout_seconds),
            max_retries: retries.unwrap_or(info.max_retries),
            max_steps: steps.unwrap_or(info.max_steps),
        };
        self.record(changed).await;
    }

    pub(super) async fn changed(&mut self, changed: Changed) {
        match changed {
            Changed::Model(Ok(connection)) => {
                self.model = connection.model;
                self.remember_text_mode = connection.remember_text_mode;
                self.record(connection.changed).await;
                for text in connection.notes {
                    self.note(NoteKind::Warning, text).await;
                }
            }
            Changed::Inputs(Ok((inputs, profile))) if !self.session.in_turn() && !self.session.is_rebuilding() => {
                self.open.inputs = inputs;
                // The files of a sandbox are fixed when it is opened.
                if let Some(Ok(sandbox)) = self.sandbox.take().as_ref().and_then(|opening| opening.peek()) {
                    sandbox.close().await;
                }
                self.list_inputs(profile).await;
            }
            Changed::Inputs(Ok(_)) => {
                self.note(NoteKind::Warning, "files can be added when the turn is over".into()).await;
            }
            Changed::Model(Err(failure)) | Changed::Inputs(Err(failure)) => self.explain(&failure).await,
        }
    }

    /// Answers in a task of its own: a question never holds the session up.
    pub(super) fn ask(&mut self, id: u64, question: Question) {
        let updates = self.updates.clone();
        let reply = async move |answer: Result<Answer, Failure>| {
            let _ = updates.send(Update::Reply(id, answer.unwrap_or_else(Answer::Failed))).await;
        };
        match question {
            Question::Models => {
                let models = self.changes.models();
                tokio::spawn(async move { reply(models.await.map(Answer::Models)).await });
            }
            Question::Compile(code) => {
                let opening = self.opening();
                tokio::spawn(async move {
                    let checked = match opening.await {
                        Ok(sandbox) => sandbox.check(code).await,
                        Err(error) => Err(error),
                    };
                    reply(checked.map(|check| Answer::Compiled(check.error)).map_err(|e| e.failure)).await;
                });
            }
            Question::Blob(_)
            | Question::OpenFigure(_)
            | Question::Sessions
            | Question::Rename { .. }
            | Question::Delete(_)
            | Question::Export { .. }
            | Question::History
            | Question::Remember(_) => {
                let (desk, barrier) = (self.desk.clone(), self.log.barrier());
                tokio::spawn(async move {
                    // An export shows what happened so far; a disk that fails is told of elsewhere.
                    let _ = barrier.await;
                    let answer = tokio::task::spawn_blocking(move || desk.answer(question)).await;
                    reply(answer.map_err(|e| Failure::new("that question failed", e.to_string(), ""))).await;
                });
            }
        }
    }
}
