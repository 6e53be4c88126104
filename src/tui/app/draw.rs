//! Draws the screen. Changes nothing: everything was prepared by the layout.

mod over;
mod welcome;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use self::over::typed_view;
use super::ask::Asking;
use super::overlay::Overlay;
use super::status::tab_style;
use super::{App, Focus, PANES, Pane};
use crate::core::clean::Clean;
use crate::core::command::{Mark, Position as Place};
use crate::tui::output::RunOutput;
use crate::tui::story::Verdict;
use crate::tui::theme::Role;
use crate::tui::wrap;

impl App {
    pub(super) fn paint(&self, frame: &mut Frame) {
        let areas = self.areas;
        let buf = frame.buffer_mut();
        self.paint_chat(buf);
        self.paint_code(buf);
        self.paint_output(buf);
        self.paint_tabs(areas.tabs, buf);
        self.paint_question(areas.ask, buf);
        if self.replay {
            self.paint_transport(areas.draft, buf);
            self.border(areas.text, Line::from(" Replay "), false, buf);
        } else {
            self.paint_text(buf);
        }
        self.paint_status(areas.status, buf);
        self.paint_overlay(areas.over, buf);
        if let Some(cursor) = self.cursor() {
            frame.set_cursor_position(cursor);
        }
    }

    /// Where the cursor of the terminal belongs.
    fn cursor(&self) -> Option<Position> {
        match (&self.overlay, &self.editing, self.focus) {
            (Some(Overlay::Line(typed)), _, _) => {
                let inner = inside(self.areas.over);
                Some(Position::new(inner.x + typed_view(typed, inner.width).1, inner.y))
            }
            (Some(Overlay::Picker(picker)), _, _) => {
                let inner = inside(self.areas.over);
                let width = wrap::width(Clean::line(&picker.filter).as_str()) as u16;
                Some(Position::new((inner.x + 2 + width).min(inner.right().saturating_sub(1)), inner.y))
            }
            (Some(Overlay::Lines { .. } | Overlay::Pager(_)), _, _) => None,
            (None, Some(editing), _) => editing.editor.cursor(self.areas.code_text),
            (None, None, Focus::Text) if !self.replay => self.composer.cursor(self.areas.draft),
            (None, None, _) => None,
        }
    }

    fn border(&self, area: Rect, title: Line<'static>, has_keys: bool, buf: &mut Buffer) {
        if !self.areas.bordered || area.area() == 0 {
            return;
        }
        let role = if has_keys { Role::Focus } else { Role::Border };
        let kind = if has_keys && !self.theme.has_colour() { BorderType::Thick } else { BorderType::Rounded };
        Block::bordered().border_type(kind).border_style(self.theme.style(role)).title(title).render(area, buf);
    }

    fn title(&self, spans: Vec<Span<'static>>) -> Line<'static> {
        if spans.is_empty() {
            return Line::default();
        }
        let mut all = vec![Span::raw(" ")];
        all.extend(spans);
        all.push(Span::raw(" "));
        Line::from(all)
    }

    fn name(&self, text: &'static str) -> Span<'static> {
        Span::styled(text, self.theme.style(Role::Title))
    }

    fn has_keys(&self, pane: Pane) -> bool {
        self.overlay.is_none() && self.focus == Focus::Pane(pane)
    }

    // ---- panes -------------------------------------------------------------------------------------------------------

    fn paint_chat(&self, buf: &mut Buffer) {
        let area = self.areas.of(Pane::Chat);
        if area.area() == 0 {
            return;
        }
        let mut title = vec![self.name("Chat")];
        title.extend(self.chat_state());
        self.border(area, self.title(title), self.has_keys(Pane::Chat), buf);
        let inner = self.areas.inner(Pane::Chat);
        self.story.chat.draw(inner, buf, self.theme);
        if self.is_welcome() {
            self.paint_welcome(inner, buf);
        }
    }

    /// Where the person reads in the chat.
    fn chat_state(&self) -> Option<Span<'static>> {
        let below = self.story.chat.new_below();
        if below > 0 {
            return Some(Span::styled(format!(" · {below} new below ↓"), self.theme.style(Role::Warning)));
        }
        let reads = !self.story.chat.follows();
        reads.then(|| Span::styled(" · more below ↓", self.theme.style(Role::Dim)))
    }

    fn paint_code(&self, buf: &mut Buffer) {
        let area = self.areas.of(Pane::Code);
        if area.area() == 0 {
            return;
        }
        let has_keys = self.has_keys(Pane::Code);
        self.border(area, self.code_title(), has_keys, buf);
        let text = self.areas.code_text;
        match &self.editing {
            Some(editing) => editing.editor.draw(text, buf, self.theme),
            None if self.code.view.raw().is_empty() => {
                self.paint_words("code appears here; /run writes code of your own", text, buf);
            }
            None => self.code.view.draw(text, buf, self.theme),
        }
        if self.is_cramped() {
            self.paint_lines(&[self.cramped_line()], self.areas.code_words, buf);
        } else {
            self.paint_approval(self.areas.code_words, buf);
        }
    }

    /// A few words where there is nothing else.
    fn paint_words(&self, words: &str, area: Rect, buf: &mut Buffer) {
        if area.area() > 0 {
            buf.set_stringn(area.x, area.y, words, usize::from(area.width), self.theme.style(Role::Dim));
        }
    }

    /// What stands below the code. The keys, its last line, are there however much is said before them.
    fn paint_approval(&self, area: Rect, buf: &mut Buffer) {
        let mut lines = self.approval_lines();
        let keys = lines.pop().into_iter().collect::<Vec<_>>();
        let last = super::status::rows_of(&keys, area.width).min(area.height);
        let [said, keys_area] = Layout::vertical([Constraint::Fill(1), Constraint::Length(last)]).areas(area);
        self.paint_lines(&lines, said, buf);
        self.paint_lines(&keys, keys_area, buf);
    }

    fn code_title(&self) -> Line<'static> {
        let mut spans = vec![self.name("Code")];
        spans.extend(self.code_state());
        self.title(spans)
    }

    /// Which step and attempts, and whose code it is.
    fn code_state(&self) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        let dim = self.theme.style(Role::Dim);
        if self.editing.is_some() {
            return vec![Span::styled(" · editing", self.theme.style(Role::Warning))];
        }
        if !self.story.live_code.is_empty() && self.code.pinned.is_none() {
            return vec![Span::styled(" · being written", dim)];
        }
        let Some(at) = self.shown() else { return spans };
        let step = self.story.attempts[at].proposal.step;
        spans.push(Span::raw(format!(" · step {step}")));
        let attempts = self.story.attempts.iter().enumerate().filter(|(_, a)| a.proposal.step == step);
        for (index, attempt) in attempts {
            let (sign, role) = match &attempt.verdict {
                Verdict::Waits => ("?", Role::Warning),
                Verdict::Approved | Verdict::Runs => ("…", Role::Text),
                Verdict::Rejected | Verdict::NotRun => ("–", Role::Dim),
                Verdict::Good => ("✓", Role::Good),
                Verdict::Bad(_) => ("✗", Role::Bad),
            };
            let chosen = if index == at { "▸" } else { " " };
            let number = attempt.proposal.attempt;
            spans.push(Span::styled(format!(" {chosen}"), self.theme.style(Role::Key)));
            spans.push(Span::styled(format!("{number} {sign}"), self.theme.style(role)));
        }
        spans.push(Span::styled(self.code_origin(at), self.theme.style(Role::Warning)));
        spans
    }

    fn paint_output(&self, buf: &mut Buffer) {
        let area = self.areas.of(Pane::Output);
        if area.area() == 0 {
            return;
        }
        let mut spans = vec![self.name("Output")];
        spans.extend(self.output_state());
        self.border(area, self.title(spans), self.has_keys(Pane::Output), buf);
        let inner = self.areas.inner(Pane::Output);
        let output = self.shown_output();
        match output.is_finished() {
            true if output.is_empty() => self.paint_words("it printed nothing", inner, buf),
            false if output.is_empty() => self.paint_words("what the code prints appears here", inner, buf),
            true | false => output.draw(inner, buf, self.theme, &self.figures),
        }
    }

    fn shown_output(&self) -> &RunOutput {
        self.shown().and_then(|at| self.story.attempts.get(at)).map_or(&self.no_output, |attempt| &attempt.output)
    }

    /// How the run ended or how long it goes on, and where the person reads.
    fn output_state(&self) -> Vec<Span<'static>> {
        let output = self.shown_output();
        let mut spans = Vec::new();
        for (text, role) in output.title(self.now_ms()) {
            spans.push(Span::styled(" · ", self.theme.style(Role::Dim)));
            spans.push(Span::styled(text, self.theme.style(role)));
        }
        let below = output.new_below();
        if below > 0 {
            spans.push(Span::styled(format!(" · {below} new below ↓"), self.theme.style(Role::Warning)));
        }
        spans
    }

    fn paint_tabs(&self, area: Rect, buf: &mut Buffer) {
        if area.area() == 0 {
            return;
        }
        let shown = self.zoomed.unwrap_or_else(|| self.single_pane());
        let mut spans = Vec::new();
        for pane in PANES {
            let name = match pane {
                Pane::Chat => "Chat",
                Pane::Code => "Code",
                Pane::Output => "Output",
            };
            spans.push(Span::styled(format!(" {name} "), tab_style(pane == shown, self.theme)));
        }
        // What is the title of a pane elsewhere.
        let mut state: Vec<Span<'static>> = match shown {
            Pane::Chat => self.chat_state().into_iter().collect(),
            Pane::Code => self.code_state(),
            Pane::Output => self.output_state(),
        };
        if !self.queue.is_empty() && self.session_id().is_some() {
            state.push(Span::raw(format!(" · {} queued", self.queue.len())));
        }
        if let Some(first) = state.first_mut() {
            first.content = first.content.trim_start_matches([' ', '·']).to_string().into();
        }
        spans.extend(state);
        buf.set_line(area.x, area.y, &cut_short(&Line::from(spans), usize::from(area.width)), area.width);
    }

    fn paint_text(&self, buf: &mut Buffer) {
        let has_keys = self.overlay.is_none() && self.editing.is_none() && self.focus == Focus::Text;
        let mut title = Vec::new();
        if let Some(first) = self.queue.front() {
            let text: String = Clean::line(first).as_str().chars().take(40).collect();
            title.push(Span::styled(format!("queued: {text}"), self.theme.style(Role::Dim)));
        }
        self.border(self.areas.text, self.title(title), has_keys, buf);
        self.composer.draw(self.areas.draft, buf, self.theme);
        if has_keys {
            let above = Rect::new(
                self.areas.text.x,
                self.areas.whole.y,
                self.areas.text.width,
                self.areas.text.y.saturating_sub(self.areas.whole.y),
            );
            self.composer.draw_popup(above, buf, self.theme);
        }
    }

    /// Lines, wrapped, from the top of an area.
    fn paint_lines(&self, lines: &[Line<'static>], area: Rect, buf: &mut Buffer) -> u16 {
        let rows = lines.iter().flat_map(|line| wrap::wrap(line, usize::from(area.width).max(1)));
        let mut used = 0;
        for (row, y) in rows.zip(area.top()..area.bottom()) {
            buf.set_line(area.x, y, &row, area.width);
            used += 1;
        }
        used
    }

    fn paint_question(&self, area: Rect, buf: &mut Buffer) {
        let (before, behind) = self.question_lines();
        if area.area() == 0 || before.is_empty() {
            return;
        }
        let rows = |lines: &[Line<'static>]| super::status::rows_of(lines, area.width);
        let mut rest = area;
        if rows(&before) + rows(&behind) < area.height {
            let role = if self.focus == Focus::Ask { Role::Focus } else { Role::Border };
            let rule = "─".repeat(usize::from(area.width));
            buf.set_stringn(area.x, area.y, rule, usize::from(area.width), self.theme.style(role));
            rest = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        // Where there is no room for all of it, the keys stay.
        let keys = rows(&behind).min(rest.height);
        let [rest, keys] = Layout::vertical([Constraint::Fill(1), Constraint::Length(keys)]).areas(rest);
        let used = self.paint_lines(&before, rest, buf);
        if rows(&before) > used && rest.area() > 0 {
            let end = (rest.right() - 1, rest.bottom() - 1);
            buf[end].set_symbol("…").set_style(self.theme.style(Role::Warning));
        }
        if let Some(Asking::Rebuild { lines, .. }) = &self.asking {
            lines.draw(Rect { y: rest.y + used, height: rest.height - used, ..rest }, buf, self.theme);
        }
        self.paint_lines(&behind, keys, buf);
    }

    // ---- bottom ------------------------------------------------------------------------------------------------------

    fn paint_status(&self, area: Rect, buf: &mut Buffer) {
        if area.area() == 0 {
            return;
        }
        let (mut parts, right) = self.status_parts(area.width);
        let room = usize::from(area.width).saturating_sub(right.width() + 3);
        let width = |parts: &[(u8, Span<'static>)]| {
            parts.iter().map(|(_, s)| s.width()).sum::<usize>() + 3 * parts.len().saturating_sub(1)
        };
        // Where there is no room, the least important part goes.
        while width(&parts) > room && parts.len() > 1 {
            let least = parts.iter().map(|(rank, _)| *rank).max();
            if let Some(at) = parts.iter().rposition(|(rank, _)| Some(*rank) == least) {
                parts.remove(at);
            }
        }
        let mut spans = vec![Span::raw(" ")];
        for (at, (_, span)) in parts.into_iter().enumerate() {
            if at > 0 {
                spans.push(Span::styled(" · ", self.theme.style(Role::Dim)));
            }
            spans.push(span);
        }
        let left = cut_short(&Line::from(spans), room + 1);
        buf.set_line(area.x, area.y, &left, area.width);
        let x = area.right().saturating_sub(right.width() as u16 + 1).max(area.x);
        buf.set_line(x, area.y, &right, area.width);
    }

    fn paint_transport(&self, area: Rect, buf: &mut Buffer) {
        let Some(place) = &self.position else { return self.paint_words("reading the recording…", area, buf) };
        if area.area() == 0 {
            return;
        }
        let sign = if place.playing { "▶" } else { "‖" };
        let speed = if place.speed == 1.0 { String::new() } else { format!(" ×{}", place.speed) };
        let mark = place.marks.iter().filter(|(at, _)| *at < place.at).count();
        let head = format!("{sign} {} / {}{speed} ", clock(place.at_ms), clock(place.end_ms));
        let width = usize::from(area.width);
        let mut tail = format!(" {}/{}", place.at, place.total);
        if width >= usize::from(super::areas::MEDIUM_WIDE) {
            tail.push_str(&format!(" · mark {mark}/{}", place.marks.len()));
        }
        let room = width.saturating_sub(wrap::width(&head) + wrap::width(&tail));
        buf.set_stringn(area.x, area.y, &head, width, self.theme.style(Role::Strong));
        let x = area.x + wrap::width(&head) as u16;
        self.paint_bar(place, Rect::new(x, area.y, room as u16, 1).intersection(area), buf);
        if room > 0 {
            buf.set_stringn(x + room as u16, area.y, &tail, width, self.theme.style(Role::Dim));
        }
    }

    /// How far the recording is, with its marks.
    fn paint_bar(&self, place: &Place, area: Rect, buf: &mut Buffer) {
        if area.width == 0 {
            return;
        }
        let cells = u64::from(area.width);
        let cell_of = |at: usize| {
            let at = u64::try_from(at).unwrap_or(u64::MAX);
            (at.saturating_mul(cells) / (place.total.max(1) as u64)).min(cells - 1) as u16
        };
        let done = if place.at == 0 { 0 } else { cell_of(place.at - 1) + 1 };
        for x in 0..area.width {
            let (sign, role) = if x < done { ("━", Role::Focus) } else { ("─", Role::Dim) };
            buf.set_string(area.x + x, area.y, sign, self.theme.style(role));
        }
        for (at, mark) in place.marks.iter() {
            let (sign, role) = match mark {
                Mark::Question => ("?", Role::User),
                Mark::Attempt => ("▪", Role::Text),
                Mark::Failure => ("✗", Role::Bad),
            };
            buf.set_string(area.x + cell_of(*at), area.y, sign, self.theme.style(role));
        }
    }
}

/// A line of at most so many columns; one that is cut ends with a sign.
fn cut_short(line: &Line<'static>, width: usize) -> Line<'static> {
    if wrap::line_width(line) <= width {
        return line.clone();
    }
    let mut line = wrap::cut(line, 0, width.saturating_sub(1));
    line.spans.push(Span::raw(if width > 0 { "…" } else { "" }));
    line
}

fn inside(area: Rect) -> Rect {
    Rect::new(
        area.x.saturating_add(1),
        area.y.saturating_add(1),
        area.width.saturating_sub(2),
        area.height.saturating_sub(2),
    )
}

/// `1:03`, `1:02:03`.
fn clock(ms: u64) -> String {
    let s = ms / 1000;
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m}:{s:02}") }
}
