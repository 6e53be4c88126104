//! The one loop of the screen. Owns when something is read, when something is drawn, and nothing of what is shown.
//!
//! It waits for one thing, takes all that is ready besides without waiting, keys first, and draws once. While nothing
//! happens it does nothing: there is no clock but the moment the view itself asks for.

use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::{Instant, sleep_until, timeout};

use super::msg::{Action, Msg};
use super::signals::Notice;
use crate::core::command::{Command, Update};
use crate::core::event::Failure;

/// Shortest time between two frames: 60 a second are as many as a terminal shows.
const FRAME: Duration = Duration::from_micros(16_667);

/// Longest time spent taking what is ready before a frame: half a frame's time, so that a flood cannot hold it up.
const DRAIN: Duration = Duration::from_millis(8);

/// Most things taken before a frame, should the clock be of no use.
const MAX_DRAIN: usize = 512;

/// How long orders not sent yet may take when the screen is left.
const LAST_ORDERS: Duration = Duration::from_secs(1);

/// How long an editor may take to end when the program is told to.
const EDITOR_END: Duration = Duration::from_secs(1);

/// How long after an editor's end a Ctrl-C meant for it may still come: both get the signal, and the one that is ended by it
/// may be seen first.
const EDITOR_ECHO: Duration = Duration::from_millis(200);

mod ports;

pub use ports::{Ended, Incoming, Screen, View};

/// Runs the screen until it is left. `background` is polled for what workers of the screen send; it wakes the loop through
/// the context it is given, as the `poll_recv` of a channel does. A channel that is closed must be pending for ever.
pub async fn run(
    view: &mut impl View,
    screen: &mut impl Screen,
    commands: mpsc::Sender<Command>,
    updates: &mut mpsc::Receiver<Update>,
    background: impl FnMut(&mut Context<'_>) -> Poll<Msg>,
) -> Result<Ended, Failure> {
    let mut shell = Shell {
        view,
        screen,
        commands,
        outbox: VecDeque::new(),
        updates: Some(updates),
        background,
        editing: None,
        edited: None,
        dirty: true,
        next_frame: Instant::now(),
        next_tick: Instant::now(),
        actions: Vec::new(),
        ended: None,
    };
    let result = shell.run().await;
    shell.close().await;
    result
}

type Reading = Pin<Box<dyn Future<Output = Result<String, Failure>>>>;

struct Shell<'a, V, S, B> {
    view: &'a mut V,
    screen: &'a mut S,
    commands: mpsc::Sender<Command>,
    /// Orders the task behind had no room for. Each is a key somebody pressed, so there are never many.
    outbox: VecDeque<Command>,
    /// Nothing when the task behind has ended.
    updates: Option<&'a mut mpsc::Receiver<Update>>,
    background: B,
    /// The person's editor has the terminal: its process and its end.
    editing: Option<(Option<u32>, Reading)>,
    /// When it ended.
    edited: Option<Instant>,
    dirty: bool,
    /// When the next frame may be drawn, and the next tick told, at the earliest.
    next_frame: Instant,
    next_tick: Instant,
    actions: Vec<Action>,
    ended: Option<Ended>,
}

/// What was waited for.
enum Happened {
    Incoming(Incoming),
    Edited(Result<String, Failure>),
    Msg(Msg),
    Update(Option<Update>),
    /// There is room for an order again.
    Room,
    /// It is time to draw or to tick.
    Time,
}

impl<V: View, S: Screen, B: FnMut(&mut Context<'_>) -> Poll<Msg>> Shell<'_, V, S, B> {
    async fn run(&mut self) -> Result<Ended, Failure> {
        loop {
            self.frame()?;
            let happened = self.wait().await;
            self.take(happened)?;
            self.drain().await?;
            if self.tick_at().is_some_and(|at| at <= Instant::now()) {
                self.next_tick = Instant::now() + FRAME;
                self.tell(Msg::Tick)?;
            }
            if let Some(ended) = self.ended.take() {
                return Ok(ended);
            }
        }
    }

    async fn wait(&mut self) -> Happened {
        let frame_at = self.frame_at();
        let tick_at = self.tick_at();
        let wake_at = frame_at.into_iter().chain(tick_at).min();
        let Self { screen, editing, commands, outbox, background, updates, .. } = self;
        tokio::select! {
            biased;
            incoming = screen.next() => Happened::Incoming(incoming),
            result = edited(editing) => Happened::Edited(result),
            msg = poll_fn(|context| background(context)) => Happened::Msg(msg),
            room = commands.reserve(), if !outbox.is_empty() => {
                match (room, outbox.pop_front()) {
                    (Ok(room), Some(order)) => room.send(order),
                    (Ok(_), None) => {}
                    (Err(_), _) => outbox.clear(),
                }
                Happened::Room
            }
            update = received(updates) => Happened::Update(update),
            () = until(wake_at) => Happened::Time,
        }
    }

    /// Takes what is ready, without waiting. Keys come first, but a flood of them holds the task behind up no longer than
    /// a frame.
    async fn drain(&mut self) -> Result<(), Failure> {
        let until = Instant::now() + DRAIN;
        let mut updated = false;
        for _ in 0..MAX_DRAIN {
            if self.ended.is_some() || Instant::now() >= until {
                break;
            }
            if let Some(incoming) = self.screen.ready() {
                self.take(Happened::Incoming(incoming))?;
                continue;
            }
            if let Some(msg) = self.background_ready().await {
                self.tell(msg)?;
                continue;
            }
            let Some(update) = self.update_ready() else { return Ok(()) };
            updated = true;
            self.tell(Msg::Update(update))?;
        }
        // There is more than enough to do, so that no wait lets the other tasks run.
        tokio::task::yield_now().await;
        if updated || self.ended.is_some() {
            return Ok(());
        }
        self.update_ready().map_or(Ok(()), |update| self.tell(Msg::Update(update)))
    }

    async fn background_ready(&mut self) -> Option<Msg> {
        poll_fn(|context| match (self.background)(context) {
            Poll::Ready(msg) => Poll::Ready(Some(msg)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn update_ready(&mut self) -> Option<Update> {
        self.updates.as_mut()?.try_recv().ok()
    }

    fn take(&mut self, happened: Happened) -> Result<(), Failure> {
        match happened {
            Happened::Incoming(Incoming::Event(event)) => self.event(event),
            Happened::Incoming(Incoming::Notice(notice)) => self.notice(notice),
            Happened::Incoming(Incoming::Gone) => {
                self.ended = Some(Ended::Signal(nix::libc::SIGHUP));
                Ok(())
            }
            Happened::Incoming(Incoming::Panicked) => {
                let hint = "this is a bug; please report it. Nothing is lost: sandscript resume --last";
                Err(Failure::new("a part of the program failed", "", hint))
            }
            Happened::Edited(result) => {
                self.editing = None;
                self.edited = Some(Instant::now());
                self.screen.claim().map_err(gone)?;
                self.dirty = true;
                self.tell(Msg::EditorClosed(result))
            }
            Happened::Msg(msg) => self.tell(msg),
            Happened::Update(Some(update)) => self.tell(Msg::Update(update)),
            Happened::Update(None) => {
                self.updates = None;
                self.tell(Msg::Update(Update::Ended))
            }
            Happened::Room | Happened::Time => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Key(key) => match key.kind {
                KeyEventKind::Press | KeyEventKind::Repeat => self.tell(Msg::Key(key)),
                KeyEventKind::Release => Ok(()),
            },
            Event::Paste(text) => self.tell(Msg::Paste(text)),
            Event::Mouse(mouse) => self.tell(Msg::Mouse(mouse)),
            Event::Resize(columns, rows) => self.resized(columns, rows),
            Event::FocusGained => self.tell(Msg::Focus(true)),
            Event::FocusLost => self.tell(Msg::Focus(false)),
        }
    }

    fn resized(&mut self, columns: u16, rows: u16) -> Result<(), Failure> {
        self.dirty = true;
        self.tell(Msg::Resize(columns, rows))
    }

    fn notice(&mut self, notice: Notice) -> Result<(), Failure> {
        let editing = self.editing.is_some();
        match notice {
            // Keys of the editor, which come to all programs of the terminal.
            Notice::End(nix::libc::SIGINT | nix::libc::SIGQUIT)
                if editing || self.edited.is_some_and(|at| at.elapsed() < EDITOR_ECHO) =>
            {
                Ok(())
            }
            Notice::End(signal) => {
                self.ended = Some(Ended::Signal(signal));
                Ok(())
            }
            Notice::Stop => self.stop(false),
            Notice::Continue => {
                self.dirty = true;
                self.screen.resume().map_err(gone)
            }
            // The size is read again after the editor.
            Notice::Resize if editing => Ok(()),
            Notice::Resize => crossterm::terminal::size().map_or(Ok(()), |(columns, rows)| self.resized(columns, rows)),
        }
    }

    fn stop(&mut self, all: bool) -> Result<(), Failure> {
        self.screen.stop(all).map_err(gone)?;
        self.dirty = true;
        Ok(())
    }

    /// Tells the view, and does what it wants done.
    fn tell(&mut self, msg: Msg) -> Result<(), Failure> {
        self.view.update(msg, Instant::now(), &mut self.actions);
        for action in std::mem::take(&mut self.actions) {
            self.perform(action)?;
        }
        self.dirty |= self.view.take_dirty();
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Result<(), Failure> {
        match action {
            Action::Send(command) => self.send(command),
            Action::Leave(exit) => {
                self.ended.get_or_insert(Ended::Left(exit));
            }
            Action::Suspend => self.stop(true)?,
            Action::Edit { text, suffix } => self.edit(&text, suffix)?,
            Action::Copy(text) => {
                if let Err(failure) = self.screen.copy(&text) {
                    return self.tell(Msg::CopyFailed(failure));
                }
            }
            Action::Notify(text) => self.screen.notify(&text).map_err(gone)?,
            Action::SetMouse(on) => self.screen.set_mouse(on).map_err(gone)?,
        }
        Ok(())
    }

    /// Never waits, and keeps the order.
    fn send(&mut self, command: Command) {
        if !self.outbox.is_empty() {
            return self.outbox.push_back(command);
        }
        match self.commands.try_send(command) {
            Ok(()) | Err(TrySendError::Closed(_)) => {}
            Err(TrySendError::Full(command)) => self.outbox.push_back(command),
        }
    }

    fn edit(&mut self, text: &str, suffix: &str) -> Result<(), Failure> {
        if self.editing.is_some() {
            return Ok(());
        }
        match self.screen.edit(text, suffix) {
            Ok(editor) => {
                self.editing = Some((editor.pid(), Box::pin(editor.wait())));
                Ok(())
            }
            Err(failure) => self.take(Happened::Edited(Err(failure))),
        }
    }

    /// When to draw; nothing if there is nothing new or nowhere to draw.
    fn frame_at(&self) -> Option<Instant> {
        let draw = self.dirty && self.editing.is_none();
        draw.then_some(self.next_frame)
    }

    /// When the view wants to be woken, but no more often than frames are drawn.
    fn tick_at(&self) -> Option<Instant> {
        let wanted = self.view.deadline().filter(|_| self.editing.is_none())?;
        Some(wanted.max(self.next_tick))
    }

    fn frame(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.frame_at().is_some_and(|at| at <= now) {
            self.screen.draw(self.view).map_err(gone)?;
            self.dirty = self.view.take_dirty();
            self.next_frame = now + FRAME;
        }
        Ok(())
    }

    /// Sends the last orders and ends an editor that is still there.
    async fn close(&mut self) {
        if let Some((pid, reading)) = self.editing.take() {
            if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
                // It may have ended already.
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
            let _ = timeout(EDITOR_END, reading).await;
        }
        let outbox = std::mem::take(&mut self.outbox);
        let sent = timeout(LAST_ORDERS, async {
            for command in outbox {
                if self.commands.send(command).await.is_err() {
                    break;
                }
            }
        });
        // A task that takes no orders any more is ended by the end of the channel.
        let _ = sent.await;
    }
}

fn gone(error: io::Error) -> Failure {
    Failure::new("the terminal failed", error.to_string(), "go on with: sandscript resume --last")
}

async fn edited(editing: &mut Option<(Option<u32>, Reading)>) -> Result<String, Failure> {
    match editing {
        Some((_, reading)) => reading.await,
        None => pending().await,
    }
}

async fn received(updates: &mut Option<&mut mpsc::Receiver<Update>>) -> Option<Update> {
    match updates {
        Some(updates) => updates.recv().await,
        None => pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

#[cfg(test)]
#[path = "run/tests.rs"]
mod tests;
