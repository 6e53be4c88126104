//! What lies over the panes: help, changes, all output of a run, lists to choose from, a line to type.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::ask::Asking;
use super::{App, Focus, For, Pane};
use crate::core::clean::Clean;
use crate::core::command::{Change, Command, Question as Asked, SessionRow};
use crate::core::event::TurnStatus;
use crate::core::render::mib;
use crate::tui::Exit;
use crate::tui::edit::buffer::TextBuffer;
use crate::tui::edit::keys::{Edit, edit_of};
use crate::tui::keys::{Act, Scope};
use crate::tui::lines::Lines;
use crate::tui::output::pager::Pager;

/// Something over the panes.
#[derive(Debug)]
pub(super) enum Overlay {
    /// Help or changes.
    Lines { title: String, lines: Lines },
    /// All output of a run that was kept.
    Pager(Box<Pager>),
    /// A list to choose from.
    Picker(Picker),
    /// A line to type.
    Line(Line),
}

/// What a typed line is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// Why the code of this call is rejected.
    Reject(String),
    /// A time limit for the code of this call.
    Limit(String),
    /// What to look for in a pane.
    Search(Pane),
    /// The same in what lies over the panes, which is kept here meanwhile.
    SearchOver,
    /// A title for a session.
    Rename(String),
}

/// A line to type.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) title: String,
    pub(super) buffer: TextBuffer,
    pub(super) purpose: Purpose,
    /// What it lies over.
    under: Option<Box<Overlay>>,
}

impl Line {
    pub(super) fn new(title: &str, text: &str, purpose: Purpose) -> Self {
        let mut buffer = TextBuffer::new(text);
        buffer.perform(Edit::Go(crate::tui::edit::keys::Motion::Bottom, false), 1);
        Self { title: title.into(), buffer, purpose, under: None }
    }

    pub(super) fn text(&self) -> String {
        self.buffer.text().to_string()
    }
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) text: Clean,
    pub(super) detail: Clean,
}

/// What is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sessions,
    Models,
}

/// A list to choose from; typing narrows it.
#[derive(Debug)]
pub(super) struct Picker {
    pub(super) kind: Kind,
    pub(super) items: Vec<Item>,
    pub(super) filter: String,
    pub(super) chosen: usize,
    pub(super) loading: bool,
    /// Index of the first row in sight, set by the layout.
    pub(super) top: usize,
}

impl Picker {
    /// The entries that have all the words that were typed.
    pub(super) fn found(&self) -> impl Iterator<Item = &Item> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        self.items.iter().filter(move |item| {
            let text = format!("{} {} {}", item.id, item.text, item.detail).to_lowercase();
            words.iter().all(|word| text.contains(word.as_str()))
        })
    }

    fn current(&self) -> Option<&Item> {
        self.found().nth(self.chosen)
    }

    fn step(&mut self, down: bool, by: usize) {
        let last = self.found().count().saturating_sub(1);
        self.chosen = if down { self.chosen.saturating_add(by).min(last) } else { self.chosen.saturating_sub(by) };
    }

    fn key(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Up => self.step(false, 1),
            KeyCode::Down => self.step(true, 1),
            KeyCode::PageUp => self.step(false, 10),
            KeyCode::PageDown => self.step(true, 10),
            KeyCode::Home => self.chosen = 0,
            KeyCode::End => self.step(true, usize::MAX),
            KeyCode::Backspace => {
                self.filter.pop();
                self.chosen = 0;
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                self.filter.clear();
                self.chosen = 0;
            }
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                self.filter.push(c);
                self.chosen = 0;
            }
            _ => {}
        }
    }

    /// Rows an entry takes: a second one only where there is something to say in it.
    pub(super) fn rows_of_item(&self) -> usize {
        if self.items.iter().any(|item| !item.detail.as_str().is_empty()) { 2 } else { 1 }
    }

    pub(super) fn layout(&mut self, rows: usize) {
        self.chosen = self.chosen.min(self.found().count().saturating_sub(1));
        self.top = self.top.clamp((self.chosen + 1).saturating_sub(rows.max(1)), self.chosen);
    }
}

impl Overlay {
    pub(super) fn sessions() -> Self {
        Self::picker(Kind::Sessions)
    }

    pub(super) fn models() -> Self {
        Self::picker(Kind::Models)
    }

    fn picker(kind: Kind) -> Self {
        Self::Picker(Picker { kind, items: Vec::new(), filter: String::new(), chosen: 0, loading: true, top: 0 })
    }

    pub(super) fn paste(&mut self, text: &str) {
        let line = Clean::line(text);
        match self {
            Overlay::Line(typed) => typed.buffer.paste(line.as_str()),
            Overlay::Picker(picker) => picker.filter.push_str(line.as_str()),
            Overlay::Lines { .. } | Overlay::Pager(_) => {}
        }
    }

    pub(super) fn scroll(&mut self, rows: i64) {
        match self {
            Overlay::Lines { lines, .. } => lines.scroll_lines(rows),
            Overlay::Pager(pager) => pager.scroll_by(rows as isize),
            Overlay::Picker(picker) => picker.step(rows > 0, 1),
            Overlay::Line(_) => {}
        }
    }

    fn page(&mut self, down: bool) {
        match self {
            Overlay::Lines { lines, .. } => lines.scroll_page(down),
            Overlay::Pager(pager) => pager.page(down),
            Overlay::Picker(_) | Overlay::Line(_) => {}
        }
    }

    fn ends(&mut self, end: bool) {
        match self {
            Overlay::Lines { lines, .. } if end => lines.scroll_bottom(),
            Overlay::Lines { lines, .. } => lines.scroll_top(),
            Overlay::Pager(pager) => pager.ends(end),
            Overlay::Picker(_) | Overlay::Line(_) => {}
        }
    }

    fn search(&mut self, text: Option<&str>) {
        match self {
            Overlay::Lines { lines, .. } => lines.set_search(text),
            Overlay::Pager(pager) => pager.set_search(text),
            Overlay::Picker(_) | Overlay::Line(_) => {}
        }
    }

    fn next_match(&mut self, forward: bool) {
        match self {
            Overlay::Lines { lines, .. } => drop(lines.next_match(forward)),
            Overlay::Pager(pager) => drop(pager.next_match(forward)),
            Overlay::Picker(_) | Overlay::Line(_) => {}
        }
    }
}

impl App {
    /// A key while something lies over the panes.
    pub(super) fn overlay_key(&mut self, key: KeyEvent) {
        let Some(mut overlay) = self.overlay.take() else { return };
        match &mut overlay {
            Overlay::Line(_) => self.line_key(overlay, key),
            Overlay::Picker(_) => self.picker_key(overlay, key),
            Overlay::Lines { .. } | Overlay::Pager(_) => {
                if self.reading_key(&mut overlay, key) {
                    self.overlay.get_or_insert(overlay);
                }
            }
        }
    }

    /// A key while something is read; `false` closes it.
    fn reading_key(&mut self, overlay: &mut Overlay, key: KeyEvent) -> bool {
        if matches!(key.code, KeyCode::Esc | KeyCode::Char('q' | '?')) && key.modifiers.is_empty() {
            return false;
        }
        if key.code == KeyCode::Char('n') || key.code == KeyCode::Char('N') {
            overlay.next_match(key.code == KeyCode::Char('n'));
            return true;
        }
        match self.keys.act(Scope::Pane, key).or_else(|| self.keys.act(Scope::Always, key)) {
            Some(Act::Up) => overlay.scroll(-1),
            Some(Act::Down) => overlay.scroll(1),
            Some(Act::PageUp | Act::HalfUp) => overlay.page(false),
            Some(Act::PageDown | Act::HalfDown) => overlay.page(true),
            Some(Act::Top) => overlay.ends(false),
            Some(Act::Bottom) => overlay.ends(true),
            Some(act @ (Act::Left | Act::Right)) => {
                if let Overlay::Pager(pager) = overlay {
                    pager.sideways(act == Act::Right);
                }
            }
            Some(Act::Wrap) => {
                if let Overlay::Pager(pager) = overlay {
                    pager.toggle_wrap();
                }
            }
            Some(Act::Search) => {
                let under = std::mem::replace(overlay, Overlay::sessions());
                let mut line = Line::new("Look for", "", Purpose::SearchOver);
                line.under = Some(Box::new(under));
                *overlay = Overlay::Line(line);
            }
            Some(Act::Copy) => {
                if let Overlay::Lines { lines, .. } = overlay {
                    self.copy(lines.text());
                }
            }
            Some(Act::Cancel | Act::Help) => return false,
            Some(_) | None => {}
        }
        true
    }

    fn line_key(&mut self, overlay: Overlay, key: KeyEvent) {
        let Overlay::Line(mut line) = overlay else { return };
        match key.code {
            KeyCode::Esc => return self.line_closed(line),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return self.line_closed(line),
            KeyCode::Enter => return self.line_typed(line),
            _ => {}
        }
        if let Some(edit) = edit_of(key).filter(|e| !matches!(e, Edit::Newline | Edit::Tab | Edit::BackTab)) {
            line.buffer.perform(edit, 1);
        }
        self.overlay = Some(Overlay::Line(line));
    }

    /// Nothing is lost: one is back where the line was asked for.
    fn line_closed(&mut self, line: Line) {
        match line.purpose {
            Purpose::Rename(_) => {
                self.overlay = Some(Overlay::sessions());
                self.ask(Asked::Sessions, For::Sessions);
            }
            Purpose::SearchOver => self.overlay = line.under.map(|under| *under),
            Purpose::Search(pane) => self.search(pane, None),
            Purpose::Reject(_) | Purpose::Limit(_) => {}
        }
    }

    fn line_typed(&mut self, mut line: Line) {
        let text = line.text();
        match line.purpose {
            Purpose::Reject(call) => self.reject(&call, (!text.trim().is_empty()).then_some(text)),
            Purpose::Limit(call) => self.limit(&call, &text),
            Purpose::Search(pane) => {
                self.search(pane, Some(&text).filter(|t| !t.is_empty()).map(String::as_str));
                self.next_match(pane, true);
            }
            Purpose::SearchOver => {
                if let Some(under) = line.under.as_deref_mut() {
                    under.search(Some(&text).filter(|t| !t.is_empty()).map(String::as_str));
                    under.next_match(true);
                }
                self.overlay = line.under.map(|under| *under);
            }
            Purpose::Rename(id) => {
                self.ask(Asked::Rename { id, title: text }, For::Word);
                self.ask(Asked::Sessions, For::Sessions);
                self.overlay = Some(Overlay::sessions());
            }
        }
    }

    fn picker_key(&mut self, overlay: Overlay, key: KeyEvent) {
        let Overlay::Picker(mut picker) = overlay else { return };
        let always = self.keys.act(Scope::Always, key);
        if matches!(always, Some(Act::Stop | Act::Cancel)) {
            // With nothing behind it, the list is all there is.
            if self.starting.is_none() && self.session_id().is_none() && self.asking.is_none() {
                self.leave(Exit::Quit);
            }
            return;
        }
        let act = self.keys.act(Scope::Picker, key);
        let current = picker.current().cloned();
        match (act, current, picker.kind) {
            (Some(Act::Choose), Some(item), Kind::Sessions) => self.leave(Exit::Resume(item.id)),
            (Some(Act::Replay), Some(item), Kind::Sessions) => self.leave(Exit::Replay(item.id)),
            (Some(Act::Rename), Some(item), Kind::Sessions) => {
                let title = "Title (empty: the first question)";
                self.overlay = Some(Overlay::Line(Line::new(title, item.text.as_str(), Purpose::Rename(item.id))));
            }
            (Some(Act::Delete), Some(item), Kind::Sessions) => {
                let below = self.asking.take().map(Box::new);
                self.pose(Asking::Delete { id: item.id, below });
                self.focus = Focus::Ask;
            }
            (Some(Act::Choose), Some(item), Kind::Models) => self.choose_model(item.id),
            (Some(Act::Choose), None, Kind::Models) if !picker.filter.is_empty() => {
                self.choose_model(picker.filter.clone());
            }
            _ => {
                picker.key(key);
                self.overlay = Some(Overlay::Picker(picker));
            }
        }
    }

    pub(super) fn choose_model(&mut self, name: String) {
        if self.session_id().is_some() {
            self.send(Command::Set(Change::Model(name)));
        } else {
            self.withdraw();
            self.start(Some(name));
        }
    }

    pub(super) fn pick_model(&mut self) {
        self.overlay = Some(Overlay::models());
        self.ask(Asked::Models, For::Models);
    }

    pub(super) fn pick_session(&mut self) {
        self.overlay = Some(Overlay::sessions());
        self.ask(Asked::Sessions, For::Sessions);
    }

    /// Entries came.
    pub(super) fn fill_picker(&mut self, kind: Kind, items: Vec<Item>) {
        if let Some(Overlay::Picker(picker)) = self.overlay.as_mut()
            && picker.kind == kind
        {
            picker.items = items;
            picker.loading = false;
        }
    }

    /// All output of the run that is shown, from the blobs it was kept in.
    pub(super) fn open_pager(&mut self) {
        let output = self.output();
        let (stdout, stderr) = output.blobs();
        match stdout.or(stderr).map(str::to_string) {
            Some(hash) => {
                let name = if stdout.is_some() { "standard output" } else { "standard error" };
                self.ask(Asked::Blob(hash), For::Pager(format!("All {name} that was kept")));
            }
            None => {
                let bytes: Arc<[u8]> = output.logical_text().into_bytes().into();
                self.overlay = Some(Overlay::Pager(Box::new(Pager::new("Output", bytes))));
            }
        }
    }
}

/// A session as an entry.
pub(super) fn session_item(row: SessionRow) -> Item {
    let became = match (row.open, row.crashed, row.status) {
        (true, _, _) => "open elsewhere",
        (false, true, _) => "crashed",
        (false, false, Some(TurnStatus::Answered)) => "answered",
        (false, false, Some(TurnStatus::Failed | TurnStatus::StepLimit)) => "failed",
        (false, false, Some(TurnStatus::Rejected)) => "rejected",
        (false, false, Some(TurnStatus::Stopped)) => "stopped",
        (false, false, Some(TurnStatus::ModelError)) => "model failed",
        (false, false, Some(TurnStatus::SandboxError)) => "sandbox failed",
        (false, false, None) => "no answer",
    };
    let started: String = row.started.as_str().chars().take("2026-11-30T20:05".len()).collect();
    let started = started.replace('T', " ");
    let size = mib(row.bytes);
    let detail = format!("{started} · {became} · {} · {} · {size}", row.model, row.folder);
    let title = if row.title.as_str().is_empty() { Clean::line("(nothing was asked)") } else { row.title };
    Item { id: row.id, text: title, detail: Clean::line(&detail) }
}
