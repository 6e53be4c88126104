//! The task behind a live session, as every user interface for people has it: put together until it begins, driven to its
//! end, and wound up when the person leaves.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::agent;
use crate::core::command::{Answer, Command, Question, Update};
use crate::core::event::Failure;
use crate::desk::Desk;
use crate::log::redact::Redactor;
use crate::log::{care, list};
use crate::places::Places;
use crate::start::{Keep, Options, Starter};

/// Orders and news on their way; a slow terminal holds the task behind up, never the memory.
pub const CHANNEL: usize = 64;

/// How long the task behind may take to write the end of a session: that of a run, and slack.
const WIND_UP: Duration = Duration::from_secs(5);

/// A live session: put together until it begins, then driven to its end.
pub async fn live(
    mut starter: Starter,
    keep: Keep,
    desk: Desk,
    mut commands: mpsc::Receiver<Command>,
    updates: mpsc::Sender<Update>,
) {
    let mut allow_unsandboxed = false;
    loop {
        let news = updates.clone();
        // Where the person's side is busy the next word will do.
        let mut progress = |text: &str| drop(news.try_send(Update::Starting(text.to_string())));
        let options = Options { max_retries: None, allow_unsandboxed, keep: keep.clone() };
        let failed = match starter.open(&options, &mut progress).await {
            Ok(started) => {
                let temporary = started.temporary;
                agent::run(started.parts, commands, updates).await;
                drop(temporary);
                return;
            }
            Err(failed) => failed,
        };
        let failure = failed.error.failure;
        let update = if failed.unsandboxed {
            Update::Unsandboxed { failure }
        } else {
            let models = if failed.no_model { starter.models().await.unwrap_or_default() } else { Vec::new() };
            Update::StartFailed { failure, models }
        };
        if updates.send(update).await.is_err() {
            return;
        }
        match wait_for_start(&starter, &desk, &mut commands, &updates).await {
            Some((unsandboxed, model)) => {
                allow_unsandboxed |= unsandboxed;
                model.into_iter().for_each(|name| starter.set_model(name));
            }
            None => return,
        }
    }
}

/// Answers questions until the person wants to begin; nothing if they leave.
async fn wait_for_start(
    starter: &Starter,
    desk: &Desk,
    commands: &mut mpsc::Receiver<Command>,
    updates: &mpsc::Sender<Update>,
) -> Option<(bool, Option<String>)> {
    loop {
        match commands.recv().await? {
            Command::Start { unsandboxed, model } => return Some((unsandboxed, model)),
            Command::Ask(id, Question::Models) => {
                let models = starter.models().await.map_or_else(Answer::Failed, Answer::Models);
                updates.send(Update::Reply(id, models)).await.ok()?;
            }
            Command::Ask(id, question) => reply(desk, id, question, updates).await?,
            Command::Shutdown => return None,
            // There is no session yet.
            Command::Say(_)
            | Command::Approve { .. }
            | Command::Reject { .. }
            | Command::Propose { .. }
            | Command::Amend { .. }
            | Command::Interrupt
            | Command::Save(_)
            | Command::Set(_)
            | Command::Rebuild { .. }
            | Command::Transport(_) => {}
        }
    }
}

/// Answers a question in a task of its own; nothing if nobody listens any more.
pub async fn reply(desk: &Desk, id: u64, question: Question, updates: &mpsc::Sender<Update>) -> Option<()> {
    let desk = desk.clone();
    let answer = tokio::task::spawn_blocking(move || desk.answer(question)).await;
    let answer = answer.unwrap_or_else(|e| Answer::Failed(Failure::new("that question failed", e.to_string(), "")));
    updates.send(Update::Reply(id, answer)).await.ok()
}

/// Where the questions of a user interface are answered.
pub fn desk(starter: &Starter, places: &Places, session: Option<PathBuf>) -> Desk {
    let redactor = Redactor::new(Vec::new());
    Desk { data: places.data.clone(), session, folder: starter.folder().to_path_buf(), redactor }
}

/// Ends the task behind. The end of a session is written before anything else begins; a run that hangs is not waited for.
/// What is still told goes to `told`.
pub async fn wind_up(
    orders: mpsc::Sender<Command>,
    updates: &mut mpsc::Receiver<Update>,
    mut behind: JoinHandle<()>,
    mut told: impl FnMut(Update),
) {
    let abort = behind.abort_handle();
    let _ = orders.try_send(Command::Shutdown);
    drop(orders);
    let wound_up = tokio::time::timeout(WIND_UP, async {
        // Answers that are still looked for are not waited for.
        loop {
            tokio::select! {
                _ = &mut behind => break,
                Some(update) = updates.recv() => told(update),
            }
        }
        while let Ok(update) = updates.try_recv() {
            told(update);
        }
    });
    if wound_up.await.is_err() {
        abort.abort();
    }
}

/// Removes a new session that was left before anything was said: it is nobody's loss, and a list of them nobody's gain.
pub fn forget(places: &Places, id: &str) {
    if let Ok(folder) = list::find(&places.data, id) {
        // What cannot be removed is in the list of sessions, where it can be deleted.
        let _ = care::delete(&places.data, &folder);
    }
}
