//! The state of the screen and what happens to it. Each thing that happens is a [`Msg`]; what is to be done about it that the
//! screen cannot do itself is an [`Action`]. Drawing changes nothing: what it needs is prepared by `layout`.

mod areas;
mod ask;
mod draw;
mod keys;
mod overlay;
mod panes;
mod slash;
mod status;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{MouseEvent, MouseEventKind};
use ratatui::Frame;
use ratatui::layout::{Position as Place, Rect};
use tokio::time::Instant;

use self::areas::Areas;
use self::ask::Asking;
use self::overlay::Overlay;
use self::panes::{CodePane, Editing};
use super::composer::Composer;
use super::highlight::Highlighter;
use super::keys::Keys;
use super::msg::{Action, Msg};
use super::output::RunOutput;
use super::output::figure::Figures;
use super::question::Question;
use super::run::View;
use super::story::{Activity, Story};
use super::theme::Theme;
use super::{Exit, Settings};
use crate::core::command::{Command, Position, Question as Asked};
use crate::core::event::{Failure, Terms};

/// How often elapsed time is drawn anew while something goes on; less often where the person wants no motion.
const BEAT: Duration = Duration::from_millis(100);
const SLOW_BEAT: Duration = Duration::from_secs(5);

/// How long a passing remark stands in the status line.
const REMARK: Duration = Duration::from_secs(6);

/// A second Ctrl-C quits within this time.
const QUIT: Duration = Duration::from_secs(2);

/// A turn that took longer than this is worth a notice when it ends.
const LONG_TURN: Duration = Duration::from_secs(10);

/// Rows the wheel scrolls.
const WHEEL: i64 = 3;

/// What has the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Focus {
    /// The text field.
    Text,
    /// A pane.
    Pane(Pane),
    /// The question at the bottom.
    Ask,
}

/// A pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pane {
    Chat,
    Code,
    Output,
}

const PANES: [Pane; 3] = [Pane::Chat, Pane::Code, Pane::Output];

/// What an answer from the task behind is for.
#[derive(Debug, Clone, PartialEq)]
enum For {
    Figure(String),
    /// The compile check of an edited text.
    Check(String),
    Pager(String),
    Models,
    Sessions,
    /// A line to show.
    Word,
    History,
    Nothing,
}

/// What the screen begins with.
pub struct Begin {
    /// Choices of the person.
    pub settings: Settings,
    /// The keys that hold.
    pub keys: Keys,
    /// A recording is played.
    pub replay: bool,
    /// It lies among the sessions that are kept here, so that one can go on from it.
    pub may_fork: bool,
    /// The list of sessions comes first.
    pub pick: bool,
    /// The first question.
    pub prompt: Option<String>,
    /// Colours of code are made by this thread.
    pub highlighter: Highlighter,
    /// Figures are made by this thread.
    pub figures: Figures,
}

/// The screen.
pub struct App {
    settings: Settings,
    keys: Keys,
    theme: Theme,
    replay: bool,
    may_fork: bool,
    story: Story,
    composer: Composer,
    focus: Focus,
    zoomed: Option<Pane>,
    code: CodePane,
    editing: Option<Editing>,
    /// Shown where nothing ran yet.
    no_output: RunOutput,
    overlay: Option<Overlay>,
    asking: Option<Asking>,
    question: Question,
    /// The question took the keys, or has let them be.
    settled: bool,
    /// Texts that wait for the end of the turn.
    queue: VecDeque<String>,
    /// Everything is run on these terms without asking.
    run_all: Option<Terms>,
    position: Option<Position>,
    /// What takes time before the session begins, and what kept it from beginning.
    starting: Option<String>,
    waiting: BTreeMap<u64, For>,
    next_ask: u64,
    remark: Option<(String, Instant)>,
    /// The pane that is searched: `n` and `N` belong to the search.
    searching: Option<Pane>,
    quit_again: Option<Instant>,
    last_typed: Option<Instant>,
    /// When the last record came, to count on from it.
    heard: Instant,
    turn_began: Option<Instant>,
    has_focus: bool,
    highlighter: Highlighter,
    figures: Figures,
    areas: Areas,
    /// Found out by a layout: to be done with the next message.
    outbox: Vec<Action>,
    dirty: bool,
    now: Instant,
    ended: bool,
    unsandboxed: bool,
}

impl App {
    /// The screen before anything happened.
    pub fn new(begin: Begin) -> Self {
        let now = Instant::now();
        let theme = Theme::new(begin.settings.theme);
        let mut app = Self {
            settings: begin.settings,
            keys: begin.keys,
            theme,
            replay: begin.replay,
            may_fork: begin.may_fork,
            story: Story::default(),
            composer: Composer::new(Vec::new()),
            focus: if begin.replay { Focus::Pane(Pane::Chat) } else { Focus::Text },
            zoomed: None,
            code: CodePane::default(),
            editing: None,
            no_output: RunOutput::new(),
            overlay: None,
            asking: None,
            question: Question::default(),
            settled: false,
            queue: begin.prompt.into_iter().collect(),
            run_all: None,
            position: None,
            starting: (!begin.replay && !begin.pick).then(|| "starting".to_string()),
            waiting: BTreeMap::new(),
            next_ask: 0,
            remark: None,
            searching: None,
            quit_again: None,
            last_typed: None,
            heard: now,
            turn_began: None,
            has_focus: true,
            highlighter: begin.highlighter,
            figures: begin.figures,
            areas: Areas::default(),
            outbox: Vec::new(),
            dirty: true,
            now,
            ended: false,
            unsandboxed: false,
        };
        app.offer_words();
        if begin.pick {
            app.ask(Asked::Sessions, For::Sessions);
            app.overlay = Some(Overlay::sessions());
        } else if !begin.replay {
            app.ask(Asked::History, For::History);
        }
        app
    }

    /// Id of the session, once it began.
    pub fn session_id(&self) -> Option<&str> {
        self.story.session.info().map(|info| info.id.as_str())
    }

    /// Whether anybody said anything.
    pub fn has_content(&self) -> bool {
        self.story.has_content
    }

    // ---- orders ------------------------------------------------------------------------------------------------------

    fn send(&mut self, command: Command) {
        self.outbox.push(Action::Send(command));
    }

    fn ask(&mut self, question: Asked, purpose: For) {
        self.next_ask += 1;
        self.waiting.insert(self.next_ask, purpose);
        self.outbox.push(Action::Send(Command::Ask(self.next_ask, question)));
    }

    fn leave(&mut self, exit: Exit) {
        self.outbox.push(Action::Leave(exit));
    }

    /// A passing remark in the status line.
    fn say(&mut self, text: impl Into<String>) {
        self.remark = Some((text.into(), self.now + REMARK));
    }

    fn say_failure(&mut self, failure: &Failure) {
        let hint = if failure.hint.is_empty() { String::new() } else { format!(" · hint: {}", failure.hint) };
        self.say(format!("{failure}{hint}"));
    }

    /// Tells the person, who looks elsewhere.
    fn notify(&mut self, text: &str) {
        if self.settings.notify && !self.has_focus {
            self.outbox.push(Action::Notify(text.to_string()));
        }
    }

    /// Something goes on that Esc stops.
    fn is_busy(&self) -> bool {
        !self.replay
            && match self.story.activity {
                Activity::Idle => false,
                Activity::Model(_)
                | Activity::Writing { .. }
                | Activity::Approval
                | Activity::Sandbox(_)
                | Activity::Run { .. } => true,
            }
    }

    /// Moment of the session: that of the last record and the time since.
    fn now_ms(&self) -> u64 {
        let since = if self.replay { 0 } else { self.now.saturating_duration_since(self.heard).as_millis() as u64 };
        self.story.now_ms.saturating_add(since)
    }

    /// Index of the attempt that is shown.
    fn shown(&self) -> Option<usize> {
        let last = self.story.attempts.len().checked_sub(1)?;
        Some(self.code.pinned.map_or(last, |at| at.min(last)))
    }

    fn output(&mut self) -> &mut RunOutput {
        match self.shown().and_then(|at| self.story.attempts.get_mut(at)) {
            Some(attempt) => &mut attempt.output,
            None => &mut self.no_output,
        }
    }

    // ---- what is pasted and pointed at -------------------------------------------------------------------------------

    fn paste(&mut self, text: &str) {
        if let Some(overlay) = &mut self.overlay {
            overlay.paste(text);
        } else if let Some(editing) = &mut self.editing {
            editing.editor.paste(text);
        } else if !self.replay {
            self.give_back();
            self.focus = Focus::Text;
            self.composer.paste(text);
        }
    }

    fn mouse(&mut self, event: MouseEvent) {
        if matches!(event.kind, MouseEventKind::Down(_)) {
            self.give_back();
        }
        let place = Place::new(event.column, event.row);
        let over = PANES.into_iter().find(|pane| self.areas.of(*pane).contains(place));
        match event.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                let rows = if event.kind == MouseEventKind::ScrollDown { WHEEL } else { -WHEEL };
                if let Some(overlay) = &mut self.overlay {
                    overlay.scroll(rows);
                } else if let Some(pane) = over {
                    self.scroll(pane, rows);
                }
            }
            MouseEventKind::Down(_) if self.overlay.is_none() => {
                let inner = self.areas.code_text;
                if let Some(editing) = self.editing.as_mut().filter(|_| inner.contains(place)) {
                    editing.editor.click(place.x - inner.x, place.y - inner.y);
                } else if let Some(pane) = over.filter(|_| self.editing.is_none()) {
                    self.focus = Focus::Pane(pane);
                } else if self.areas.text.contains(place) && !self.replay {
                    self.focus = Focus::Text;
                }
            }
            MouseEventKind::Drag(_) if self.overlay.is_none() => {
                let inner = self.areas.code_text;
                if let Some(editing) = self.editing.as_mut().filter(|_| inner.contains(place)) {
                    editing.editor.drag(place.x - inner.x, place.y - inner.y);
                }
            }
            MouseEventKind::Down(_)
            | MouseEventKind::Drag(_)
            | MouseEventKind::Up(_)
            | MouseEventKind::Moved
            | MouseEventKind::ScrollLeft
            | MouseEventKind::ScrollRight => {}
        }
    }

    fn tick(&mut self) {
        self.remark.take_if(|(_, until)| self.now >= *until);
        self.quit_again.take_if(|until| self.now >= *until);
        let sent = self.composer.tick(self.now.into_std());
        self.composed(sent);
        if let Some(act) = self.question.due(self.now) {
            self.answer(act);
        }
        self.settle_question();
    }
}

impl View for App {
    fn update(&mut self, msg: Msg, now: Instant, actions: &mut Vec<Action>) {
        self.now = now;
        self.dirty = true;
        match msg {
            Msg::Key(key) => {
                let sent = self.composer.tick(now.into_std());
                self.composed(sent);
                self.key(key);
            }
            Msg::Paste(text) => self.paste(&text),
            Msg::Mouse(event) => self.mouse(event),
            Msg::Resize(..) => self.figures.forget(),
            Msg::Focus(has) => self.has_focus = has,
            Msg::Update(update) => self.told(update),
            Msg::EditorClosed(result) => self.editor_closed(result),
            Msg::CopyFailed(failure) => self.say_failure(&failure),
            Msg::Painted(id, painted) => self.painted(id, painted),
            Msg::Figure(ready) => self.figures.ready(ready),
            Msg::Tick => self.tick(),
        }
        actions.append(&mut self.outbox);
    }

    fn layout(&mut self, area: Rect) {
        self.arrange(area);
    }

    fn draw(&self, frame: &mut Frame) {
        self.paint(frame);
    }

    fn deadline(&self) -> Option<Instant> {
        let at_once = (!self.outbox.is_empty()).then_some(self.now);
        let beat = if self.settings.motion { BEAT } else { SLOW_BEAT };
        let counts = (self.is_busy() && self.story.activity != Activity::Approval) || self.starting.is_some();
        // Then it takes the keys, and says so.
        let opens = |at: &Instant| self.asking.is_some() && (!self.settled || *at > self.now);
        [
            at_once,
            self.composer.deadline().map(Instant::from_std),
            self.question.deadline(),
            self.question.opens().filter(opens),
            self.remark.as_ref().map(|(_, until)| *until),
            self.quit_again,
            (counts && !self.ended).then(|| self.now + beat),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }
}

/// Colours of a code, as the editor takes them.
fn ranges(painted: Arc<super::highlight::Painted>) -> Arc<super::edit::paint::Painted> {
    match Arc::try_unwrap(painted) {
        Ok(painted) => Arc::new(painted.lines),
        Err(shared) => Arc::new(shared.lines.clone()),
    }
}
