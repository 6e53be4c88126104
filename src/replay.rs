//! Plays a recorded session: the same records down the same channel as in a live one, paced as they were. It decides
//! nothing and has no effects; the screen folds what it is told.
//!
//! One task owns the player. Each time around it either takes an order, or hands over the one next update that leads from
//! what the screen has been told to what it should show. So an order is obeyed at once even while a long way is being
//! sent, orders that come together are one way, and a slow screen holds the replay up and never the memory.
//!
//! Going back is [`Update::Reset`] and the records from the start: the screen folds them anew, there is no undo.

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::core::command::{Command, Update};

mod desk;
mod player;
mod recording;

use desk::Desk;
use player::Player;
pub use player::{FASTEST, SLOWEST};
pub use recording::Recording;

/// Longest pause between two records unless asked otherwise, milliseconds: long enough to be felt, too short to wait.
pub const DEFAULT_IDLE_LIMIT_MS: u64 = 2000;

/// How to play.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Times the speed of the recording; within [`SLOWEST`] and [`FASTEST`].
    pub speed: f64,
    /// Longest pause between two records, milliseconds; nothing plays them as they were, up to a day.
    pub idle_limit_ms: Option<u64>,
    /// Begin at the start and wait for an order.
    pub paused: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { speed: 1.0, idle_limit_ms: Some(DEFAULT_IDLE_LIMIT_MS), paused: false }
    }
}

/// Plays until it is told to shut down or nobody listens any more. It waits for the next record or order and does nothing
/// in between.
///
/// A step (`Transport::Step`) is one record, or the pieces of one stream (words of the model, output of a program) within a
/// second of the recording, and pauses. A mark leads to the moment just after its record; while playing, the mark that was
/// passed within the last second counts as passed, or one could never get before it. Where there is no further mark it leads
/// to the end or the start. Playing from the end starts over.
///
/// Of the questions only the one for a blob has an answer here. Orders that would change the session do nothing.
pub async fn run(
    recording: Recording,
    options: Options,
    answers: crate::desk::Desk,
    mut commands: mpsc::Receiver<Command>,
    updates: mpsc::Sender<Update>,
) {
    let mut desk = Desk::new(answers);
    let mut player = Player::new(recording, options);
    loop {
        let due = player.due();
        tokio::select! {
            biased;
            command = commands.recv() => match command {
                None | Some(Command::Shutdown) => return,
                Some(Command::Transport(order)) => player.order(order, Instant::now()),
                Some(Command::Ask(id, question)) => desk.ask(id, question),
                // There is no session to change.
                Some(
                    Command::Say(_)
                    | Command::Approve { .. }
                    | Command::Reject { .. }
                    | Command::Propose { .. }
                    | Command::Amend { .. }
                    | Command::Interrupt
                    | Command::Save(_)
                    | Command::Set(_)
                    | Command::Rebuild { .. }
                    | Command::Start { .. },
                ) => {}
            },
            permit = updates.reserve(), if desk.has_reply() || player.has_update() => {
                let Ok(permit) = permit else { return };
                if let Some(update) = desk.take_reply().or_else(|| player.next_update(Instant::now())) {
                    permit.send(update);
                }
            }
            () = desk.look() => {}
            () = sleep_until(due) => player.tick(Instant::now()),
        }
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
