//! The chat pane: what person and model said, and what became of it, in order. Only the entries in sight are laid out, so a
//! long session costs no more than a short one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::markdown::Doc;
use super::search::Needle;
use super::theme::{Role, Theme, ThemeName};
use super::top::{self, Top};
use super::wrap;
use crate::core::clean::Clean;
use crate::core::event::{Failure, How, NoteKind, Proposal, SessionInfo, TurnStatus};
use crate::core::render::mib;

/// One entry.
#[derive(Debug)]
pub struct Entry {
    body: Body,
    /// Width and theme of `rows`; nothing if they are out of date.
    laid: Option<(u16, ThemeName)>,
    rows: Vec<Line<'static>>,
}

#[derive(Debug)]
enum Body {
    /// The person's words, as they stand.
    Person(Clean),
    /// The model's words.
    Model { doc: Box<Doc>, reasoning: u64 },
    /// Code that was proposed: index of the attempt, what it is, what became of it.
    Step { attempt: usize, name: String, became: Option<(String, Role)> },
    /// A line or a few of ours.
    Remark(Role, Clean),
}

impl Entry {
    fn new(body: Body) -> Self {
        Self { body, laid: None, rows: Vec::new() }
    }

    fn remark(role: Role, text: &str) -> Self {
        Self::new(Body::Remark(role, Clean::text(text)))
    }

    /// The session begins.
    pub fn began(info: &SessionInfo) -> Self {
        let text = format!("session {} · {} · Python {}", info.id, info.folder, info.python);
        Self::remark(Role::Dim, &text)
    }

    /// The session goes on.
    pub fn resumed(info: &SessionInfo) -> Self {
        Self::remark(Role::Dim, &format!("continued {} · {} · Python {}", info.started, info.folder, info.python))
    }

    /// The input files.
    pub fn inputs(files: u64, bytes: u64) -> Self {
        let text = match files {
            0 => "no input files here: /attach PATH adds some".to_string(),
            1 => format!("1 input file, {}", mib(bytes)),
            n => format!("{n} input files, {}", mib(bytes)),
        };
        Self::remark(Role::Dim, &text)
    }

    /// The person's words.
    pub fn person(text: &str) -> Self {
        Self::new(Body::Person(Clean::text(text.trim_end())))
    }

    /// Proposed code.
    pub fn step(attempt: usize, proposal: &Proposal) -> Self {
        let whose = match proposal.how {
            How::User => " · yours",
            How::Recovered => " · recovered from a broken call",
            How::Call | How::Fence => "",
        };
        let name = format!("step {} · attempt {}{whose}", proposal.step, proposal.attempt);
        Self::new(Body::Step { attempt, name, became: None })
    }

    /// The person said no.
    pub fn rejected(reason: Option<&str>) -> Self {
        match reason {
            Some(reason) => Self::remark(Role::Text, &format!("rejected: {reason}")),
            None => Self::remark(Role::Text, "rejected"),
        }
    }

    /// Something failed.
    pub fn failure(failure: &Failure) -> Self {
        let hint = if failure.hint.is_empty() { String::new() } else { format!("\nhint: {}", failure.hint) };
        Self::remark(Role::Bad, &format!("{failure}{hint}"))
    }

    fn is_failure(&self) -> bool {
        matches!(self.body, Body::Remark(Role::Bad, _))
    }

    /// A file was copied to the person.
    pub fn saved(path: &str, bytes: u64) -> Self {
        Self::remark(Role::Good, &format!("saved {path} ({})", mib(bytes)))
    }

    /// A word of ours.
    pub fn note(text: &str) -> Self {
        Self::remark(Role::Dim, text)
    }

    /// A note of the log.
    pub fn warning(kind: NoteKind, text: &str) -> Self {
        let role = match kind {
            NoteKind::Warning | NoteKind::PackagesMissing | NoteKind::Recovery | NoteKind::Trimmed => Role::Warning,
            NoteKind::Progress | NoteKind::Reask | NoteKind::TextMode => Role::Dim,
        };
        Self::remark(role, text)
    }

    /// The text without line breaks of the screen.
    fn text(&self) -> String {
        match &self.body {
            Body::Person(text) => format!("You: {text}\n"),
            Body::Model { doc, .. } => format!("Assistant: {}\n", Clean::text(doc.raw())),
            Body::Step { name, became, .. } => {
                let became = became.as_ref().map(|(b, _)| format!(" · {b}")).unwrap_or_default();
                format!("{name}{became}\n")
            }
            Body::Remark(_, text) => format!("{text}\n"),
        }
    }

    fn layout(&mut self, width: u16, theme: Theme) -> usize {
        if self.laid == Some((width, theme.name())) {
            return self.rows.len();
        }
        self.laid = Some((width, theme.name()));
        let columns = usize::from(width).max(1);
        self.rows.clear();
        match &mut self.body {
            Body::Person(text) => {
                self.rows.push(Line::default());
                self.rows.push(Line::styled("You", theme.style(Role::User)));
                let style = theme.style(Role::Text);
                self.rows.extend(plain(text, style, columns, 0));
            }
            Body::Model { doc, reasoning } => {
                self.rows.push(Line::default());
                let mut head = vec![Span::styled("Assistant", theme.style(Role::Assistant))];
                if *reasoning > 0 {
                    head.push(Span::styled(format!(" · {reasoning} bytes of thought"), theme.style(Role::Dim)));
                }
                self.rows.push(Line::from(head));
                self.rows.extend(doc.layout(width, theme).iter().cloned());
            }
            Body::Step { name, became, .. } => {
                let mut spans = vec![
                    Span::styled("▸ ", theme.style(Role::Key)),
                    Span::styled(name.clone(), theme.style(Role::Strong)),
                ];
                if let Some((text, role)) = became {
                    spans.push(Span::styled(format!(" · {text}"), theme.style(*role)));
                }
                self.rows.extend(wrap::wrap_indented(&Line::from(spans), columns, 2));
            }
            Body::Remark(role, text) => {
                let style = theme.style(*role);
                self.rows.extend(plain(text, style, columns, 2));
                if let Some(first) = self.rows.first_mut() {
                    first.spans.insert(0, Span::styled("· ", style));
                }
            }
        }
        self.rows.len()
    }
}

/// Lines of clean text; those behind the first, and what continues a line, are set in by `indent`.
fn plain(text: &Clean, style: Style, columns: usize, indent: usize) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    for line in text.as_str().lines() {
        let wrapped = wrap::wrap(&Line::styled(line.to_string(), style), columns.saturating_sub(indent).max(1));
        for mut row in wrapped {
            if indent > 0 && !rows.is_empty() {
                row.spans.insert(0, Span::raw(" ".repeat(indent)));
            }
            rows.push(row);
        }
    }
    rows
}

/// The pane.
#[derive(Debug)]
pub struct Chat {
    entries: Vec<Entry>,
    /// The last entry is a reply that still grows.
    open: bool,
    top: Top,
    follow: bool,
    /// Entries there were when the person scrolled up.
    seen: usize,
    needle: Option<Needle>,
    width: u16,
    height: u16,
    theme: Theme,
}

impl Default for Chat {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            open: false,
            top: Top::default(),
            follow: true,
            seen: 0,
            needle: None,
            width: 80,
            height: 24,
            theme: Theme::new(ThemeName::Dark),
        }
    }
}

impl Chat {
    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) {
        self.open = false;
        self.entries.push(entry);
    }

    /// Empties the pane; the session goes on.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.open = false;
        self.end();
    }

    /// Whether nobody said anything yet.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|e| matches!(e.body, Body::Remark(..)))
    }

    fn open_reply(&mut self) -> Option<(&mut Doc, &mut u64)> {
        if !self.open {
            self.entries.push(Entry::new(Body::Model { doc: Box::new(Doc::new()), reasoning: 0 }));
            self.open = true;
        }
        let entry = self.entries.last_mut()?;
        entry.laid = None;
        match &mut entry.body {
            Body::Model { doc, reasoning } => Some((doc, reasoning)),
            Body::Person(_) | Body::Step { .. } | Body::Remark(..) => None,
        }
    }

    /// A piece of the reply.
    pub fn model_words(&mut self, text: &str) {
        if let Some((doc, _)) = self.open_reply() {
            doc.push(text);
        }
    }

    /// The model thinks; what is counted, not shown.
    pub fn reasoning(&mut self, bytes: usize) {
        if let Some((_, reasoning)) = self.open_reply() {
            *reasoning += bytes as u64;
        }
    }

    /// The reply is whole: `text` are its words without the code.
    pub fn model_replied(&mut self, text: &str, reasoning_bytes: u64) {
        if !self.open && text.trim().is_empty() {
            return;
        }
        if let Some((doc, reasoning)) = self.open_reply() {
            if doc.raw() != text {
                doc.set(text);
            }
            *reasoning = (*reasoning).max(reasoning_bytes);
        }
        self.open = false;
        if text.trim().is_empty() {
            self.entries.pop();
        }
    }

    /// What became of the code of an attempt.
    pub fn step_became(&mut self, attempt: usize, text: String, role: Role) {
        for entry in self.entries.iter_mut().rev() {
            if let Body::Step { attempt: same, became, .. } = &mut entry.body
                && *same == attempt
            {
                *became = Some((text, role));
                entry.laid = None;
                return;
            }
        }
    }

    /// The turn is over.
    pub fn turn_ended(&mut self, status: TurnStatus, answer: &str, unrepaired: bool) {
        self.open = false;
        let said = |entry: &Entry| match &entry.body {
            Body::Model { doc, .. } => doc.raw().trim() == answer.trim(),
            Body::Remark(_, text) => text.as_str().trim() == Clean::text(answer).as_str().trim(),
            Body::Person(_) | Body::Step { .. } => false,
        };
        let is_said = answer.trim().is_empty() || self.entries.iter().rev().take(3).any(said);
        let (words, role) = match status {
            TurnStatus::Answered if unrepaired => ("answered, but a step failed and was not repaired", Role::Warning),
            TurnStatus::Answered => ("", Role::Good),
            TurnStatus::Failed => ("failed", Role::Bad),
            TurnStatus::Rejected => ("rejected: the turn is over", Role::Text),
            TurnStatus::Stopped => ("stopped", Role::Text),
            TurnStatus::StepLimit => ("stopped at the limit of steps", Role::Warning),
            TurnStatus::ModelError if self.entries.last().is_some_and(Entry::is_failure) => {
                ("/retry asks the question again", Role::Dim)
            }
            TurnStatus::ModelError => ("the model gave no usable reply; /retry asks again", Role::Bad),
            TurnStatus::SandboxError => ("the sandbox was not available", Role::Bad),
        };
        match status {
            TurnStatus::Answered | TurnStatus::StepLimit if !is_said => {
                self.model_words(answer);
                self.open = false;
            }
            TurnStatus::Failed | TurnStatus::SandboxError | TurnStatus::Stopped if !is_said => {
                self.push(Entry::remark(role, answer));
            }
            TurnStatus::Answered
            | TurnStatus::Failed
            | TurnStatus::Rejected
            | TurnStatus::Stopped
            | TurnStatus::StepLimit
            | TurnStatus::ModelError
            | TurnStatus::SandboxError => {}
        }
        let told = status == TurnStatus::Failed && !answer.trim().is_empty();
        if !words.is_empty() && status != TurnStatus::Rejected && !told {
            self.push(Entry::remark(role, words));
        }
    }

    /// All that was said, for another program.
    pub fn text(&self) -> String {
        self.entries.iter().map(Entry::text).collect()
    }

    /// The last answer, for another program.
    pub fn last_reply(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|e| match &e.body {
            Body::Model { doc, .. } => Some(doc.raw()),
            Body::Person(_) | Body::Step { .. } | Body::Remark(..) => None,
        })
    }

    // ---- what is in sight --------------------------------------------------------------------------------------------

    /// Prepares a frame of this size.
    pub fn layout(&mut self, width: u16, height: u16, theme: Theme) {
        (self.width, self.height, self.theme) = (width, height, theme);
        let lowest = self.lowest();
        if self.follow || self.top >= lowest {
            self.top = lowest;
            self.follow = true;
            self.seen = self.entries.len();
        }
        // What is in sight is laid out.
        let mut rows = 0;
        for entry in self.entries.iter_mut().skip(self.top.line) {
            rows += entry.layout(width, theme);
            if rows > usize::from(height) + self.top.row {
                break;
            }
        }
    }

    fn lowest(&mut self) -> Top {
        let (width, height, theme) = (self.width, self.height, self.theme);
        let entries = &mut self.entries;
        let count = entries.len();
        top::lowest(usize::from(height), count, &mut |i| entries[i].layout(width, theme).max(1))
    }

    /// Scrolls by rows.
    pub fn scroll(&mut self, delta: i64) {
        let (width, theme) = (self.width, self.theme);
        let entries = &mut self.entries;
        let count = entries.len();
        self.top = top::moved(self.top, delta, count, &mut |i| entries[i].layout(width, theme).max(1));
        self.follow = false;
        let lowest = self.lowest();
        if self.top >= lowest {
            self.end();
        }
    }

    /// Scrolls by a page.
    pub fn page(&mut self, down: bool) {
        let rows = i64::from(self.height.saturating_sub(2).max(1));
        self.scroll(if down { rows } else { -rows });
    }

    /// To the start.
    pub fn home(&mut self) {
        self.top = Top::default();
        self.follow = false;
    }

    /// To the end, and with what comes.
    pub fn end(&mut self) {
        self.follow = true;
        self.seen = self.entries.len();
    }

    /// Entries that came below while the person read further up.
    pub fn new_below(&self) -> usize {
        if self.follow { 0 } else { self.entries.len().saturating_sub(self.seen) }
    }

    /// Whether the end is in sight and stays there.
    pub fn follows(&self) -> bool {
        self.follow
    }

    /// What is looked for.
    pub fn set_search(&mut self, text: Option<&str>) {
        self.needle = text.and_then(Needle::new);
    }

    /// Goes to the next row with it; `false` if there is none.
    pub fn next_match(&mut self, forward: bool) -> bool {
        let Some(needle) = self.needle.take() else { return false };
        let (width, theme, count) = (self.width, self.theme, self.entries.len());
        let mut found = None;
        for step in 0..=count {
            let Some(line) = (if forward {
                Some((self.top.line + step) % count.max(1))
            } else {
                (self.top.line + count * 2).checked_sub(step).map(|l| l % count.max(1))
            }) else {
                break;
            };
            let Some(entry) = self.entries.get_mut(line) else { break };
            entry.layout(width, theme);
            let has = |row: &usize| needle.find(&wrap::joined(&entry.rows[*row]), 0).is_some();
            let here = |row: &usize| step != 0 || if forward { *row > self.top.row } else { *row < self.top.row };
            let mut rows = (0..entry.rows.len()).filter(here).filter(has);
            if let Some(row) = if forward { rows.next() } else { rows.next_back() } {
                found = Some(Top { line, row });
                break;
            }
        }
        self.needle = Some(needle);
        if let Some(top) = found {
            self.top = top;
            self.follow = false;
        }
        found.is_some()
    }

    /// Rows in sight that are taken, of so many.
    pub fn rows_in_sight(&self, height: u16) -> u16 {
        let rows: usize = self.entries.iter().skip(self.top.line).map(|entry| entry.rows.len()).sum();
        u16::try_from(rows.saturating_sub(self.top.row)).unwrap_or(u16::MAX).min(height)
    }

    /// Draws what is in sight.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let rows = self.entries.iter().skip(self.top.line).flat_map(|entry| &entry.rows).skip(self.top.row);
        for (row, y) in rows.zip(area.top()..area.bottom()) {
            buf.set_line(area.x, y, row, area.width);
            if let Some(needle) = &self.needle {
                let text = wrap::joined(row);
                for hit in needle.all(&text) {
                    let x = wrap::width(&text[..hit.start]) as u16;
                    let width = wrap::width(&text[hit]) as u16;
                    let found = Rect { x: area.x.saturating_add(x), y, width, height: 1 }.intersection(area);
                    buf.set_style(found, theme.style(Role::Found));
                }
            }
        }
    }
}
