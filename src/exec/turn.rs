//! One turn of the driver, followed to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::stops::{Stop, Stops, until};
use super::view::View;
use crate::agent::{Command, Update};
use crate::core::event::{Event, Failure, Outcome, Proposal, Record, TurnStatus};
use crate::error::Result;

/// How long the end of a turn may take after it was told to stop: the sandbox's ladder is 2 s, with slack.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How long what is left after the end of a turn may take after a stop.
const END_GRACE: Duration = Duration::from_millis(500);

/// How the turn ended.
pub struct Ended {
    /// As the driver says it.
    pub status: TurnStatus,
    /// The answer, or what is known.
    pub answer: String,
    /// A step had failed and was not repaired.
    pub unrepaired: bool,
    /// It was told to stop.
    pub stop: Option<Stop>,
    /// What failed, with its remedy.
    pub failure: Option<Failure>,
}

/// The driver, seen from here.
pub struct Turn<'a> {
    /// Orders to it.
    pub orders: mpsc::Sender<Command>,
    /// What it tells.
    pub updates: mpsc::Receiver<Update>,
    /// What may end the waiting.
    pub stops: &'a mut Stops,
    /// Where the files go that were made.
    pub out: Option<PathBuf>,
}

impl Turn<'_> {
    /// Asks, shows and approves until the session is closed.
    pub async fn run(mut self, prompt: String, view: &mut View) -> Result<Ended> {
        self.order(Command::Say(prompt)).await;
        let (mut stop, mut give_up, mut ended, mut failure) = (None, None, None, None);
        let mut open = true;
        while open || view.printer.waits() {
            tokio::select! {
                update = self.updates.recv(), if open && (view.printer.has_room() || stop.is_some()) => {
                    let Some(update) = update else { open = false; continue };
                    for record in records(update) {
                        view.record(&record, ended.is_some());
                        failure = failure_of(&record.event).or(failure);
                        // After a stop nothing is approved any more.
                        if let (Event::CodeProposed(proposal), None) = (&record.event, stop) {
                            self.approve(proposal.clone()).await;
                        }
                        if is_stalled(&record.event) {
                            self.order(Command::Interrupt).await;
                        }
                        if let (Event::TurnEnded { status, answer, unrepaired }, None) = (&record.event, &ended) {
                            ended = Some((*status, answer.clone(), *unrepaired));
                            self.close().await;
                        }
                    }
                }
                () = view.printer.pass_on(), if view.printer.waits() => {}
                why = self.stops.next() => {
                    // A second signal reaches the driver as a second interrupt, which kills at once.
                    self.order(Command::Interrupt).await;
                    stop.get_or_insert(why);
                    let grace = if ended.is_some() { END_GRACE } else { STOP_GRACE };
                    give_up.get_or_insert(Instant::now() + grace);
                }
                () = until(give_up) => break,
                () = view.progress.tick() => {}
            }
        }
        if open {
            // Told to stop, it took too long.
            self.order(Command::Shutdown).await;
        }
        let (status, answer, unrepaired) = match ended {
            Some(ended) => ended,
            None if stop.is_some() => (TurnStatus::Stopped, String::new(), false),
            None => return super::bug(),
        };
        Ok(Ended { status, answer, unrepaired, stop, failure })
    }

    async fn approve(&self, proposal: Proposal) {
        let Proposal { step, attempt, call, terms, .. } = proposal;
        self.order(Command::Approve { step, attempt, call, edited: None, by: "exec".into(), terms }).await;
    }

    async fn close(&mut self) {
        if let Some(out) = self.out.take() {
            self.order(Command::Save(out)).await;
        }
        self.order(Command::Shutdown).await;
    }

    async fn order(&self, command: Command) {
        // A driver that is gone ends the records too, which ends the loop.
        let _ = self.orders.send(command).await;
    }
}

/// The records of an update; the others are for a screen.
fn records(update: Update) -> Vec<Arc<Record>> {
    match update {
        Update::Records(records) => records,
        // A single question begins a session of its own.
        Update::Past(_)
        | Update::Reset
        | Update::Starting(_)
        | Update::Unsandboxed { .. }
        | Update::StartFailed { .. }
        | Update::AskRebuild { .. }
        | Update::Position(_)
        | Update::Reply(..)
        | Update::Ended => Vec::new(),
    }
}

/// The sandbox could not run what was approved; trying again is for a person to decide.
fn is_stalled(event: &Event) -> bool {
    matches!(event, Event::RunFinished(f) if matches!(f.outcome, Outcome::SetupFailed { .. } | Outcome::BackendLost { .. }))
}

/// What a fact says of a failure that ends the turn.
fn failure_of(event: &Event) -> Option<Failure> {
    if let Event::ModelFailed(failed) = event {
        return Some(failed.failure.clone());
    }
    if let Event::SandboxFailed { failure } = event {
        return Some(failure.clone());
    }
    if let Event::RunFinished(finished) = event
        && let Outcome::SetupFailed { failure, .. } | Outcome::BackendLost { failure, .. } = &finished.outcome
    {
        return Some(failure.clone());
    }
    None
}
