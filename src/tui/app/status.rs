//! What is said beside the panes: the question, what an approval covers, and the line at the bottom.

mod approval;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::ask::Asking;
use super::{App, Focus};
use crate::core::clean::Clean;
use crate::core::event::Failure;

use crate::core::render::BYTES_PER_TOKEN;
use crate::tui::keys::{Act, Scope};
use crate::tui::story::Activity;
use crate::tui::theme::Role;
use crate::tui::wrap;

/// Rows the code of cells that may run again takes.
const REBUILD_ROWS: u16 = 8;

/// What stands between two parts of a line.
const DOT: &str = " · ";

impl App {
    fn span(&self, role: Role, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.theme.style(role))
    }

    /// `y run · e edit`: the keys that there are. A row never ends between a key and its words.
    fn key_words(&self, acts: &[(Scope, Act, &str)]) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for (scope, act, word) in acts {
            let key = self.keys.first_of(*scope, *act);
            if key.is_empty() {
                continue;
            }
            if !spans.is_empty() {
                spans.push(self.span(Role::Dim, DOT));
            }
            spans.push(self.span(Role::Key, key));
            spans.push(Span::raw(together(&format!(" {word}"))));
        }
        spans
    }

    // ---- other questions ---------------------------------------------------------------------------------------------

    /// The question outside of the code pane: what is said before and behind what scrolls.
    pub(super) fn question_lines(&self) -> (Vec<Line<'static>>, Vec<Line<'static>>) {
        let Some(asking) = &self.asking else { return Default::default() };
        let strong = |text: String| Line::from(self.span(Role::Warning, text));
        let failure = |f: &Failure| {
            let mut lines = vec![strong(Clean::line(&f.to_string()).into_string())];
            if !f.hint.is_empty() {
                lines.push(Line::raw(format!("hint: {}", Clean::line(&f.hint))));
            }
            lines
        };
        let (text, acts): (Vec<Line<'static>>, Vec<(Scope, Act, &str)>) = match asking {
            Asking::Approval => return Default::default(),
            Asking::Failed if self.story.session.failed_question().is_none_or(str::is_empty) => (
                vec![strong("Your code failed.".into())],
                vec![(Scope::Failed, Act::Repair, "edit and run"), (Scope::Always, Act::Stop, "leave it")],
            ),
            Asking::Failed => (
                vec![strong("The step could not be repaired. What now? Or just type a hint.".into())],
                vec![
                    (Scope::Failed, Act::Repair, "edit and run"),
                    (Scope::Failed, Act::Retry, "retry"),
                    (Scope::Failed, Act::OtherModel, "other model"),
                    (Scope::Always, Act::Stop, "leave it"),
                ],
            ),
            Asking::Unsandboxed(reason) => {
                let mut lines = vec![strong(
                    "Nothing here isolates code from your files: it would run with all your rights.".into(),
                )];
                lines.extend(failure(reason).into_iter().map(|line| line.style(Style::new())));
                lines.push(Line::raw("Go on without? Each piece is asked."));
                (lines, vec![(Scope::Confirm, Act::Yes, "go on"), (Scope::Confirm, Act::No, "quit")])
            }
            Asking::StartFailed(reason) => (
                failure(reason),
                vec![
                    (Scope::Confirm, Act::Yes, "try again"),
                    (Scope::Confirm, Act::OtherModel, "other model"),
                    (Scope::Confirm, Act::No, "quit"),
                ],
            ),
            Asking::Rebuild { cells, lines, terms } => {
                let mut acts =
                    vec![(Scope::Confirm, Act::Yes, "run them again"), (Scope::Confirm, Act::No, "go on without")];
                if lines.visible().len() < lines.len() {
                    acts.push((Scope::Pane, Act::Down, "the rest of them"));
                }
                let count = cells.len();
                let cells = if count == 1 { "1 accepted cell".into() } else { format!("{count} accepted cells") };
                (
                    vec![
                        strong(format!(
                            "The variables are gone with the Python of this session. Run its {cells} again?"
                        )),
                        self.terms_line(terms, None),
                    ],
                    acts,
                )
            }
            Asking::RunAll => (
                vec![strong(
                    "Run everything the model writes in this session without asking? \
                     It ends when executor, limits, network or inputs change."
                        .into(),
                )],
                vec![(Scope::Confirm, Act::Yes, "yes, run all"), (Scope::Confirm, Act::No, "no, ask me")],
            ),
            Asking::Delete { id, .. } => (
                vec![strong(format!("Delete session {}? It cannot be had back.", Clean::line(id)))],
                vec![(Scope::Confirm, Act::Yes, "delete"), (Scope::Confirm, Act::No, "keep")],
            ),
        };
        let keys = Line::from(if self.is_answerable() {
            self.key_words(&acts)
        } else if self.focus == Focus::Ask {
            // Keys that do nothing yet are not offered.
            Vec::new()
        } else {
            self.key_words(&[(Scope::Always, Act::NextPane, "to answer")])
        });
        (text, vec![keys])
    }

    /// Rows the question takes, with a row above it.
    pub(super) fn question_rows(&self, width: u16) -> u16 {
        let (before, behind) = self.question_lines();
        if before.is_empty() {
            return 0;
        }
        let scrolled = match &self.asking {
            Some(Asking::Rebuild { lines, .. }) => REBUILD_ROWS.min(lines.len() as u16),
            Some(_) | None => 0,
        };
        1 + rows_of(&before, width) + scrolled + rows_of(&behind, width)
    }

    pub(super) fn lay_question(&mut self) {
        let (before, behind) = self.question_lines();
        let width = self.areas.ask.width;
        let used = 1 + rows_of(&before, width) + rows_of(&behind, width);
        let height = self.areas.ask.height.saturating_sub(used);
        if let Some(Asking::Rebuild { lines, .. }) = &mut self.asking {
            lines.layout(width, height);
        }
    }

    // ---- the line at the bottom --------------------------------------------------------------------------------------

    /// What goes on, in a few words.
    fn doing(&self) -> Option<(String, Role)> {
        let seconds = |since: u64| self.now_ms().saturating_sub(since) as f64 / 1000.0;
        if let Some(starting) = &self.starting {
            return Some((format!("{}…", Clean::line(starting)), Role::Text));
        }
        let progress = if self.story.progress.is_empty() { "" } else { self.story.progress.as_str() };
        match self.story.activity {
            Activity::Idle => None,
            Activity::Approval if self.replay => Some(("waited for approval".into(), Role::Text)),
            Activity::Approval if matches!(self.asking, Some(Asking::Approval)) && !self.question.is_open(self.now) => {
                Some(("code came".into(), Role::Warning))
            }
            Activity::Approval => Some(("waiting for you".into(), Role::Warning)),
            Activity::Model(since) => {
                let what = if progress.is_empty() { "waiting for the model" } else { progress };
                Some((format!("{}, {:.0} s", Clean::line(what), seconds(since)), Role::Text))
            }
            Activity::Writing { since_ms, words, reasoning, code } => {
                let bytes = words + reasoning + code;
                let what = match (code > 0, words > 0) {
                    (true, _) => "writing code",
                    (false, true) => "writing",
                    (false, false) => "thinking",
                };
                let tokens = bytes as f64 / BYTES_PER_TOKEN;
                let rate = tokens / seconds(since_ms).max(0.1);
                Some((format!("{what}, {tokens:.0} tokens, {rate:.0}/s"), Role::Text))
            }
            Activity::Sandbox(since) => {
                let what = if progress.is_empty() { "starting Python" } else { progress };
                Some((format!("{}, {:.0} s", Clean::line(what), seconds(since)), Role::Text))
            }
            Activity::Run { since_ms, limit_s } => {
                Some((format!("running {:.1} of {limit_s} s", seconds(since_ms)), Role::Text))
            }
        }
    }

    /// Parts of the line at the bottom, the most important first, and what stands at its right end.
    pub(super) fn status_parts(&self, width: u16) -> (Vec<(u8, Span<'static>)>, Line<'static>) {
        let mut parts = Vec::new();
        if let Some((text, _)) = &self.remark {
            parts.push((0, self.span(Role::Strong, Clean::line(text).into_string())));
            // A remark passes; meanwhile it needs the room.
            return (parts, self.ways_out(0));
        }
        if let Some(info) = self.story.session.info() {
            parts.push((3, Span::raw(Clean::line(&info.model).into_string())));
            let tier = if info.tier == "-" { String::new() } else { format!(" {}", Clean::line(&info.tier)) };
            let executor = format!("{}{tier}", Clean::line(&info.executor));
            parts.push(if info.capabilities.isolates() {
                (2, Span::raw(executor))
            } else {
                (2, self.span(Role::Warning, format!("{executor}, not isolated")))
            });
        }
        if let Some((doing, role)) = self.doing() {
            parts.push((0, self.span(role, doing)));
        }
        if let Some((used, allowed)) = self.story.retries() {
            parts.push((1, self.span(Role::Warning, format!("retry {used}/{allowed}"))));
        }
        if !self.queue.is_empty() {
            parts.push((1, Span::raw(format!("{} queued", self.queue.len()))));
        }
        if self.run_all.is_some() {
            parts.push((1, self.span(Role::Warning, "runs all")));
        }
        if let (Some(usage), Some(info)) = (self.story.usage, self.story.session.info()) {
            let used = usage.prompt.saturating_add(usage.completion);
            let role = if used / 8 > u64::from(info.window) / 10 { Role::Warning } else { Role::Text };
            parts.push((4, self.span(role, format!("{}/{} tokens", short(used), short(info.window.into())))));
        }
        (parts, self.ways_out(width))
    }

    /// How to stop, and how to leave; in a replay, as far as there is room, how to go through it.
    fn ways_out(&self, width: u16) -> Line<'static> {
        let mut acts: Vec<(Scope, Act, &str)> = Vec::new();
        if self.is_busy() {
            acts.push((Scope::Always, Act::Stop, "stop"));
        }
        if self.replay {
            acts.push((Scope::Replay, Act::Quit, "quit"));
        } else if self.session_id().is_none() || !self.is_busy() {
            acts.push((Scope::Always, Act::Quit, "quit"));
        }
        let spans = |acts: &[(Scope, Act, &str)]| {
            let mut spans = self.key_words(acts);
            spans.push(self.span(Role::Dim, DOT));
            spans.push(self.span(Role::Key, "?"));
            spans.push(Span::raw(" help"));
            Line::from(spans)
        };
        let moving = if self.replay { TRANSPORT } else { &[] };
        let with = |count: usize| {
            let moving = moving[..count].iter().map(|(act, word)| (Scope::Replay, *act, *word));
            spans(&moving.chain(acts.iter().copied()).collect::<Vec<_>>())
        };
        let width = usize::from(width);
        let fits = |line: &Line<'_>| line.width() + STATE.min(width / 4) <= width;
        (1..=moving.len()).rev().map(with).find(fits).unwrap_or_else(|| spans(&acts))
    }
}

/// How one goes through a replay, the most wanted first.
const TRANSPORT: &[(Act, &str)] = &[
    (Act::Play, "play"),
    (Act::StepOn, "step"),
    (Act::StepBack, "back"),
    (Act::NextMark, "mark"),
    (Act::PreviousMark, "mark before"),
    (Act::Faster, "faster"),
    (Act::Slower, "slower"),
    (Act::Fork, "fork"),
];

/// Columns that are left to what goes on.
const STATE: usize = 24;

/// A text that stays in one row.
fn together(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// Rows that lines take when they are wrapped.
pub(super) fn rows_of(lines: &[Line<'static>], width: u16) -> u16 {
    let width = usize::from(width).max(1);
    let rows: usize = lines.iter().map(|line| wrap::wrap(line, width).len()).sum();
    u16::try_from(rows).unwrap_or(u16::MAX)
}

/// `1.2k`, `8k`.
fn short(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..10_000 if !n.is_multiple_of(1000) => format!("{:.1}k", n as f64 / 1000.0),
        _ => format!("{}k", n / 1000),
    }
}

/// A style for the names of panes.
pub(super) fn tab_style(chosen: bool, theme: crate::tui::theme::Theme) -> Style {
    if chosen { theme.style(Role::Title).patch(theme.style(Role::Focus)) } else { theme.style(Role::Dim) }
}
