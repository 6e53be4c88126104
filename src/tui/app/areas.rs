//! Where things are on the screen. Wide screens have columns, narrow ones a stack, small ones a pane at a time with tabs.

use ratatui::layout::{Constraint, Layout, Rect};

use super::overlay::Overlay;
use super::{App, Focus, Pane};
use crate::tui::story::Activity;

/// From this size on all three panes are seen at once.
const WIDE: u16 = 100;
const TALL: u16 = 20;

/// From this size on the chat and one other pane are seen.
pub(super) const MEDIUM_WIDE: u16 = 60;
const MEDIUM_TALL: u16 = 18;

/// Where things are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Areas {
    /// The panes with their borders; empty where one is not seen.
    chat: Rect,
    code: Rect,
    output: Rect,
    /// The code within its border, without what is said below it.
    pub(super) code_text: Rect,
    /// What is said below the code.
    pub(super) code_words: Rect,
    /// The text field with its border.
    pub(super) text: Rect,
    /// The draft in it.
    pub(super) draft: Rect,
    /// What is asked outside of the code pane.
    pub(super) ask: Rect,
    /// Names of the panes where one is seen at a time.
    pub(super) tabs: Rect,
    pub(super) status: Rect,
    /// What lies over the panes.
    pub(super) over: Rect,
    pub(super) whole: Rect,
    /// The panes have borders.
    pub(super) bordered: bool,
}

impl Areas {
    /// A pane with its border.
    pub(super) fn of(&self, pane: Pane) -> Rect {
        match pane {
            Pane::Chat => self.chat,
            Pane::Code => self.code,
            Pane::Output => self.output,
        }
    }

    /// A pane without its border.
    pub(super) fn inner(&self, pane: Pane) -> Rect {
        let area = self.of(pane);
        if self.bordered { inside(area) } else { area }
    }
}

/// The chat, and what is right of it.
fn columns(area: Rect) -> [Rect; 2] {
    Layout::horizontal([Constraint::Percentage(46), Constraint::Fill(1)]).areas(area)
}

/// The code, and the output below it.
fn rows(area: Rect) -> [Rect; 2] {
    Layout::vertical([Constraint::Percentage(58), Constraint::Fill(1)]).areas(area)
}

/// Within a border.
fn inside(area: Rect) -> Rect {
    if area.width < 3 || area.height < 3 {
        return Rect::new(area.x, area.y, 0, 0);
    }
    Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2)
}

impl App {
    /// Works out where things are, and what is in them.
    pub(super) fn arrange(&mut self, whole: Rect) {
        let mut areas = Areas { whole, ..Areas::default() };
        let wide = whole.width >= WIDE && whole.height >= TALL;
        let medium = whole.width >= MEDIUM_WIDE && whole.height >= MEDIUM_TALL;
        areas.bordered = (wide || medium) && whole.width >= 20;
        let frame = if areas.bordered { 2 } else { 0 };
        let draft_rows = if self.replay {
            1
        } else {
            self.composer.height(whole.width.saturating_sub(frame)).min((whole.height / 3).max(1))
        };
        let ask_rows = self.question_rows(whole.width);
        let [panes, ask, text, status] = Layout::vertical([
            Constraint::Fill(1),
            Constraint::Length(ask_rows),
            Constraint::Length(draft_rows + frame),
            Constraint::Length(1),
        ])
        .areas(whole);
        (areas.ask, areas.status) = (ask, status);
        if wide && self.zoomed.is_none() && self.replay {
            areas.text = text;
            let [left, right] = columns(panes);
            areas.chat = left;
            [areas.code, areas.output] = rows(right);
        } else if wide && self.zoomed.is_none() {
            // The text field stands below the chat.
            let above = Rect::new(whole.x, whole.y, whole.width, panes.height + text.height);
            let [left, right] = columns(above);
            let draft_rows = self.composer.height(left.width.saturating_sub(frame)).min((whole.height / 3).max(1));
            [areas.chat, areas.text] =
                Layout::vertical([Constraint::Fill(1), Constraint::Length(draft_rows + frame)]).areas(left);
            [areas.code, areas.output] = rows(right);
            areas.ask = Rect { y: above.bottom(), ..areas.ask };
        } else {
            areas.text = text;
            self.stack(&mut areas, panes, medium);
        }
        areas.draft = if areas.bordered { inside(areas.text) } else { areas.text };
        areas.over = over(whole, self.overlay.as_ref(), areas.bordered);
        self.areas = areas;
        self.fill();
    }

    /// One pane, or the chat with one pane below it.
    fn stack(&mut self, areas: &mut Areas, panes: Rect, medium: bool) {
        if let Some(pane) = self.zoomed {
            return Self::place(areas, pane, panes);
        }
        if medium && self.is_welcome() {
            areas.chat = panes;
            return;
        }
        if medium {
            let below = self.lower_pane();
            let chat = if self.focus == Focus::Pane(below) { 35 } else { 45 };
            let [top, bottom] = Layout::vertical([Constraint::Percentage(chat), Constraint::Fill(1)]).areas(panes);
            areas.chat = top;
            return Self::place(areas, below, bottom);
        }
        let [tabs, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(panes);
        areas.tabs = tabs;
        Self::place(areas, self.single_pane(), rest);
    }

    fn place(areas: &mut Areas, pane: Pane, area: Rect) {
        match pane {
            Pane::Chat => areas.chat = area,
            Pane::Code => areas.code = area,
            Pane::Output => areas.output = area,
        }
    }

    /// Below the chat: the pane with the keys, else the one where something happens.
    pub(super) fn lower_pane(&self) -> Pane {
        match self.focus {
            Focus::Pane(pane @ (Pane::Code | Pane::Output)) => pane,
            Focus::Pane(Pane::Chat) | Focus::Text | Focus::Ask => match self.story.activity {
                Activity::Approval | Activity::Model(_) | Activity::Writing { .. } if !self.output_is_newer() => {
                    Pane::Code
                }
                Activity::Approval => Pane::Code,
                Activity::Idle if !self.has_output() => Pane::Code,
                Activity::Idle
                | Activity::Model(_)
                | Activity::Writing { .. }
                | Activity::Sandbox(_)
                | Activity::Run { .. } => Pane::Output,
            },
        }
    }

    /// The model writes no code yet and the last run left something to read.
    fn output_is_newer(&self) -> bool {
        self.story.live_code.is_empty() && self.story.attempts.last().is_some_and(|a| a.output.is_finished())
    }

    /// The last attempt ran, so that there is more to read than its code.
    fn has_output(&self) -> bool {
        self.story.attempts.last().is_some_and(|a| a.began_ms.is_some() || a.output.is_finished())
    }

    /// The pane that is seen where there is room for one.
    pub(super) fn single_pane(&self) -> Pane {
        match self.focus {
            Focus::Pane(pane) => pane,
            Focus::Text | Focus::Ask => match self.story.activity {
                Activity::Approval => Pane::Code,
                Activity::Run { .. } => Pane::Output,
                Activity::Idle | Activity::Model(_) | Activity::Writing { .. } | Activity::Sandbox(_) => Pane::Chat,
            },
        }
    }

    /// Nothing happened yet that there would be something to show of.
    pub(super) fn is_welcome(&self) -> bool {
        let panes_wanted = self.editing.is_some() || matches!(self.focus, Focus::Pane(Pane::Code | Pane::Output));
        self.story.chat.is_empty() && self.story.attempts.is_empty() && !self.replay && !panes_wanted
    }

    /// Prepares what is in sight.
    fn fill(&mut self) {
        let areas = self.areas;
        let chat = areas.inner(Pane::Chat);
        if chat.area() > 0 {
            self.story.chat.layout(chat.width, chat.height, self.theme);
        }
        let code = areas.inner(Pane::Code);
        let rows = self.approval_rows(code.width).min(code.height.saturating_sub(1));
        let [text, words] = Layout::vertical([Constraint::Fill(1), Constraint::Length(rows)]).areas(code);
        (self.areas.code_text, self.areas.code_words) = (text, words);
        if text.area() > 0 {
            self.prepare_code(text.width, text.height);
            // What is hidden is said there, and that may need another row.
            let again = self.approval_rows(code.width).min(code.height.saturating_sub(1));
            if again != rows {
                let [text, words] = Layout::vertical([Constraint::Fill(1), Constraint::Length(again)]).areas(code);
                (self.areas.code_text, self.areas.code_words) = (text, words);
                self.prepare_code(text.width, text.height);
            }
        }
        let output = areas.inner(Pane::Output);
        if output.area() > 0 {
            let theme = self.theme;
            let shown = self.shown();
            let run = match shown.and_then(|at| self.story.attempts.get_mut(at)) {
                Some(attempt) => &mut attempt.output,
                None => &mut self.no_output,
            };
            run.layout(output.width, output.height, theme, &mut self.figures);
            while let Some(hash) = self.figures.needs() {
                self.ask(crate::core::command::Question::Blob(hash.clone()), super::For::Figure(hash));
            }
        }
        if !self.replay {
            self.composer.layout(areas.draft.width, areas.draft.height);
        }
        self.lay_over(areas.over);
        self.lay_question();
    }

    fn lay_over(&mut self, area: Rect) {
        let inner = inside(area);
        match &mut self.overlay {
            Some(Overlay::Lines { lines, .. }) => lines.layout(inner.width, inner.height),
            Some(Overlay::Pager(pager)) => pager.layout(inner.width, inner.height, self.theme),
            Some(Overlay::Picker(picker)) => {
                picker.layout(usize::from(inner.height.saturating_sub(1)) / picker.rows_of_item());
            }
            Some(Overlay::Line(_)) | None => {}
        }
    }
}

/// Where what lies over the panes lies.
fn over(whole: Rect, overlay: Option<&Overlay>, roomy: bool) -> Rect {
    match overlay {
        Some(Overlay::Pager(_)) => whole,
        Some(Overlay::Lines { .. }) => {
            let margin = if roomy { 4 } else { 0 };
            let width = whole.width.saturating_sub(margin).min(110);
            whole.centered(Constraint::Length(width), Constraint::Length(whole.height.saturating_sub(margin / 2)))
        }
        Some(Overlay::Picker(_)) => {
            let width = whole.width.saturating_sub(if roomy { 6 } else { 0 }).min(100);
            let height = whole.height.saturating_sub(if roomy { 4 } else { 0 }).min(30);
            whole.centered(Constraint::Length(width), Constraint::Length(height))
        }
        Some(Overlay::Line(_)) => {
            let height = 3.min(whole.height);
            let below = if roomy { 2 } else { 1 };
            let y = whole.bottom().saturating_sub(height + below);
            let width = whole.width.min(90);
            Rect::new(whole.x + (whole.width - width) / 2, y.max(whole.y), width, height)
        }
        None => Rect::default(),
    }
}
