//! The screen on a bench: it is pressed, typed into, told things and looked at, in a time that only passes when it is told
//! to. What the loop does around the screen is done here in the same order: tell, tick when it is due, draw.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::{Backend, TestBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};
use sandscript::core::clean::is_hidden;
use sandscript::core::command::{Answer, Command, Question, Update};
use sandscript::core::event::{Event, Record, SCHEMA_VERSION};
use sandscript::tui::app::{App, Begin};
use sandscript::tui::highlight::{Highlighter, Painted};
use sandscript::tui::keys::Keys;
use sandscript::tui::msg::{Action, Msg};
use sandscript::tui::output::figure::{FigureReady, Figures};
use sandscript::tui::run::View;
use sandscript::tui::theme::ThemeName;
use sandscript::tui::{Graphics, Settings};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use unicode_width::UnicodeWidthStr;

use super::recorded;

/// The loop ticks no more often than it draws.
const FRAME: Duration = Duration::from_micros(16_667);

/// What the screen begins with.
#[derive(Debug, Clone)]
pub struct Start {
    pub size: (u16, u16),
    pub theme: ThemeName,
    pub replay: bool,
    pub pick: bool,
    pub prompt: Option<String>,
    pub motion: bool,
    pub keys: Vec<(&'static str, Vec<String>)>,
}

impl Default for Start {
    fn default() -> Self {
        let keys = Vec::new();
        Self { size: (120, 40), theme: ThemeName::Dark, replay: false, pick: false, prompt: None, motion: true, keys }
    }
}

pub struct Bench {
    app: App,
    pub now: Instant,
    next_tick: Instant,
    terminal: Terminal<TestBackend>,
    actions: Vec<Action>,
    painted: Receiver<(u64, Arc<Painted>)>,
    pictures: Receiver<FigureReady>,
    seq: u64,
    at_ms: u64,
    pub ticks: usize,
}

impl Bench {
    pub fn new(start: Start) -> Self {
        let (highlighter, painted) = Highlighter::start();
        let (figures, pictures) = Figures::start(Graphics::Blocks, &|_| None, None);
        let overrides = start.keys.iter().map(|(name, keys)| (name.to_string(), keys.clone())).collect();
        let settings = Settings {
            theme: start.theme,
            mouse: true,
            motion: start.motion,
            graphics: Graphics::Blocks,
            notify: true,
            keys: overrides,
        };
        let keys = Keys::new(&settings.keys).unwrap();
        let (replay, pick, prompt) = (start.replay, start.pick, start.prompt);
        let app = App::new(Begin { settings, keys, replay, may_fork: true, pick, prompt, highlighter, figures });
        let now = Instant::now();
        let terminal = Terminal::new(TestBackend::new(start.size.0, start.size.1)).unwrap();
        let actions = Vec::new();
        let mut bench =
            Self { app, now, next_tick: now, terminal, actions, painted, pictures, seq: 0, at_ms: 0, ticks: 0 };
        bench.draw();
        bench.advance(0);
        bench
    }

    /// A screen that was told these records of a live session and had time to settle.
    pub fn live(start: Start, records: &[Arc<Record>]) -> Self {
        let mut bench = Self::new(start);
        bench.told(records);
        bench
    }

    // ---- what happens to it ------------------------------------------------------------------------------------------

    pub fn send(&mut self, msg: Msg) {
        let mut actions = Vec::new();
        self.app.update(msg, self.now, &mut actions);
        self.actions.extend(actions);
        if self.app.take_dirty() {
            self.draw();
        }
    }

    fn draw(&mut self) {
        let app = &mut self.app;
        self.terminal
            .draw(|frame| {
                app.layout(frame.area());
                app.draw(frame);
            })
            .unwrap();
    }

    /// `y`, `ctrl-c`, `shift-tab`, `enter`.
    pub fn press(&mut self, key: &str) {
        self.send(Msg::Key(key_of(key)));
    }

    /// Types as fast as a person does at best.
    pub fn type_str(&mut self, text: &str) {
        for c in text.chars() {
            self.send(Msg::Key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE)));
            self.advance(20);
        }
    }

    pub fn tell(&mut self, update: Update) {
        self.send(Msg::Update(update));
    }

    /// Tells records as they are.
    pub fn told(&mut self, records: &[Arc<Record>]) {
        if let Some(last) = records.last() {
            (self.seq, self.at_ms) = (last.seq + 1, last.at_ms);
        }
        self.tell(Update::Records(records.to_vec()));
    }

    /// Tells the next fact of the session.
    pub fn stream(&mut self, event: Event) {
        let record = Record { v: SCHEMA_VERSION, seq: self.seq, at_ms: self.at_ms, event };
        self.told(&[Arc::new(record)]);
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.backend_mut().resize(columns, rows);
        self.send(Msg::Resize(columns, rows));
    }

    /// Lets time pass; what is due in it happens at its moment.
    pub fn advance(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        while let Some(at) = self.app.deadline().map(|at| at.max(self.next_tick)).filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.next_tick = self.now + FRAME;
            self.ticks += 1;
            self.send(Msg::Tick);
        }
        self.now = until;
    }

    /// Answers the questions about figures that were asked, and waits until they are drawn.
    pub fn figures(&mut self) {
        // What a layout wants is asked with the next message.
        self.advance(20);
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send(Command::Ask(id, Question::Blob(hash))) => {
                    let bytes = recorded::blobs().get(&hash, 1 << 20).unwrap();
                    self.tell(Update::Reply(id, Answer::Blob(bytes.into())));
                    let ready = self.pictures.blocking_recv().unwrap();
                    self.send(Msg::Figure(ready));
                }
                other => self.actions.push(other),
            }
        }
    }

    /// Waits until the code that is shown has its colours.
    pub fn colours(&mut self) {
        let (id, painted) = self.painted.blocking_recv().unwrap();
        self.send(Msg::Painted(id, painted));
    }

    // ---- what comes of it --------------------------------------------------------------------------------------------

    pub fn app(&self) -> &App {
        &self.app
    }

    pub fn deadline(&self) -> Option<Duration> {
        self.app.deadline().map(|at| at.saturating_duration_since(self.now))
    }

    /// What is to be done since this was asked last, but for the questions every screen begins with.
    pub fn actions(&mut self) -> Vec<Action> {
        let quiet = |action: &Action| {
            matches!(
                action,
                Action::Send(Command::Ask(_, Question::History | Question::Remember(_) | Question::Blob(_)))
            )
        };
        std::mem::take(&mut self.actions).into_iter().filter(|action| !quiet(action)).collect()
    }

    /// The orders among it.
    pub fn orders(&mut self) -> Vec<Command> {
        let order = |action| match action {
            Action::Send(command) => Some(command),
            Action::Leave(_)
            | Action::Suspend
            | Action::Edit { .. }
            | Action::Copy(_)
            | Action::Notify(_)
            | Action::SetMouse(_) => None,
        };
        self.actions().into_iter().filter_map(order).collect()
    }

    fn buffer(&self) -> &Buffer {
        self.terminal.backend().buffer()
    }

    /// Cells of a row, without those behind a wide character.
    fn row(&self, y: u16) -> Vec<(u16, &Cell)> {
        let buffer = self.buffer();
        let mut cells = Vec::new();
        let mut x = 0;
        while x < buffer.area.width {
            let cell = &buffer[(x, y)];
            cells.push((x, cell));
            x += u16::try_from(cell.symbol().width().max(1)).unwrap();
        }
        cells
    }

    /// The text on the screen. Nothing on it acts on a terminal or cannot be seen.
    pub fn screen(&self) -> String {
        let rows = (0..self.buffer().area.height).map(|y| {
            let row: String = self.row(y).iter().map(|(_, cell)| cell.symbol()).collect();
            // A selector behind an emoji is a part of it.
            let hidden = row.chars().find(|c| is_hidden(*c) && !('\u{fe00}'..='\u{fe0f}').contains(c));
            assert_eq!(hidden, None, "{row:?}");
            // Words that stay in one row are joined by spaces that are none for a wrap.
            row.replace('\u{a0}', " ").trim_end().to_string()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    /// The screen, and where the cursor is.
    pub fn picture(&mut self) -> String {
        let (width, height) = (self.buffer().area.width, self.buffer().area.height);
        let visible = self.terminal.backend().cursor_visible();
        let place = self.terminal.backend_mut().get_cursor_position().unwrap();
        let cursor = if visible { format!(", cursor at {},{}", place.x, place.y) } else { String::new() };
        format!("── {width}×{height}{cursor}\n{}\n", self.screen())
    }

    /// Everything on the screen that does not look like ordinary text, row by row.
    pub fn looks(&self) -> String {
        let mut out = String::new();
        for y in 0..self.buffer().area.height {
            let mut runs: Vec<(String, String)> = Vec::new();
            for (_, cell) in self.row(y) {
                let look = look_of(cell);
                match runs.last_mut() {
                    Some((last, text)) if *last == look => text.push_str(cell.symbol()),
                    _ => runs.push((look, cell.symbol().to_string())),
                }
            }
            let says = |text: &str| text.contains(|c: char| !"│┃╭╮╰╯─━┏┓┗┛ ·".contains(c));
            for (look, text) in runs.iter().filter(|(look, text)| !look.is_empty() && says(text)) {
                out.push_str(&format!("{y:2} {look}: {}\n", text.trim()));
            }
        }
        out
    }

    pub fn shows(&self, text: &str) -> bool {
        self.screen().contains(text)
    }
}

fn look_of(cell: &Cell) -> String {
    let mut parts = Vec::new();
    if cell.fg != Color::Reset {
        parts.push(format!("{:?}", cell.fg));
    }
    if cell.bg != Color::Reset {
        parts.push(format!("on {:?}", cell.bg));
    }
    if cell.modifier != Modifier::empty() {
        parts.push(format!("{:?}", cell.modifier));
    }
    parts.join(" ")
}

/// A key by its name.
pub fn key_of(name: &str) -> KeyEvent {
    let mut modifiers = KeyModifiers::NONE;
    let mut rest = name;
    for (prefix, modifier) in
        [("ctrl-", KeyModifiers::CONTROL), ("alt-", KeyModifiers::ALT), ("shift-", KeyModifiers::SHIFT)]
    {
        if let Some(key) = rest.strip_prefix(prefix).filter(|key| !key.is_empty()) {
            (modifiers, rest) = (modifiers | modifier, key);
        }
    }
    let mut chars = rest.chars();
    let code = match (chars.next(), chars.next()) {
        (Some(c), None) => KeyCode::Char(c),
        _ => match rest {
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "backtab" => KeyCode::BackTab,
            "space" => KeyCode::Char(' '),
            "backspace" => KeyCode::Backspace,
            "delete" => KeyCode::Delete,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "pageup" => KeyCode::PageUp,
            "pagedown" => KeyCode::PageDown,
            "f1" => KeyCode::F(1),
            other => panic!("{other} is no key"),
        },
    };
    KeyEvent::new(code, modifiers)
}
