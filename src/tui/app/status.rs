//! What is said beside the panes: the question, what an approval covers, and the line at the bottom.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::ask::Asking;
use super::panes::EditFor;
use super::{App, Focus, Pane};
use crate::core::clean::Clean;
use crate::core::event::{Failure, Terms};
use crate::core::policy::{Hold, Limit, Network};
use crate::core::render::BYTES_PER_TOKEN;
use crate::tui::keys::{Act, Scope};
use crate::tui::story::{Activity, Attempt};
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

    // ---- an approval -------------------------------------------------------------------------------------------------

    /// What stands below the code: what an approval covers, what is not seen, and the keys in the last line.
    pub(super) fn approval_lines(&self) -> Vec<Line<'static>> {
        if let Some(editing) = &self.editing {
            let (line, column) = editing.editor.place();
            let back = match editing.purpose {
                EditFor::Proposal(_) => "done, back to the question",
                EditFor::Own(_) => "done, then you are asked",
            };
            let keys = [(Act::Leave, back), (Act::Reset, "model's text"), (Act::Diff, "changes")];
            let mut spans = self.key_words(&keys.map(|(act, word)| (Scope::Editor, act, word)));
            let changed = if editing.editor.is_changed() { "edited" } else { "not edited" };
            let place = together(&format!("line {line}, column {column}"));
            spans.push(self.span(Role::Dim, format!("{DOT}{}{DOT}{place}", together(changed))));
            return vec![Line::from(spans)];
        }
        let (Some(Asking::Approval), Some(waiting)) = (&self.asking, self.story.waiting()) else { return Vec::new() };
        let mut lines = vec![self.terms_line(&waiting.proposal.terms, waiting.proposal.asked_seconds)];
        if let Some(failure) = &self.story.stalled {
            let hint = if failure.hint.is_empty() { String::new() } else { format!("{DOT}hint: {}", failure.hint) };
            lines.push(Line::from(self.span(Role::Bad, few(&format!("{failure}{hint}"), FAILURE_WORDS))));
        }
        lines.extend(self.unseen_line());
        let here = self.focus == Focus::Pane(Pane::Code);
        if here && !self.is_answerable() {
            // Keys that do nothing yet are not offered.
            lines.push(Line::from(self.span(Role::Warning, "code waits for you")));
            return lines;
        }
        if !here {
            let how = if self.composer.is_empty() { "" } else { ", your draft is kept" };
            let tab = self.keys.first_of(Scope::Always, Act::NextPane);
            lines.push(Line::from(vec![
                self.span(Role::Warning, "code waits for you"),
                Span::raw(": "),
                self.span(Role::Key, tab),
                Span::raw(format!(" to answer{how}")),
            ]));
            return lines;
        }
        let run = if self.story.stalled.is_some() { "try again" } else { "run" };
        let mut acts = vec![(Scope::Approval, Act::Run, run)];
        if self.code.pinned.is_some() {
            acts = vec![(Scope::Pane, Act::NextAttempt, "to the code that waits")];
        }
        acts.push((Scope::Approval, Act::Edit, "edit"));
        acts.push((Scope::Approval, Act::External, "$EDITOR"));
        acts.push((Scope::Approval, Act::Reject, "reject"));
        if self.may_run_all() && self.code.pinned.is_none() {
            acts.push((Scope::Approval, Act::RunAll, "run all"));
        }
        acts.push((Scope::Approval, Act::Limit, "time limit"));
        if self.has_changes() {
            acts.push((Scope::Pane, Act::Diff, "changes"));
        }
        acts.push((Scope::Always, Act::Stop, "end the turn"));
        lines.push(Line::from(self.key_words(&acts)));
        lines
    }

    /// What an approval covers, and what of it is not seen.
    fn covered_lines(&self, waiting: &Attempt) -> Vec<Line<'static>> {
        let mut lines = vec![self.terms_line(&waiting.proposal.terms, waiting.proposal.asked_seconds)];
        lines.extend(self.unseen_line());
        lines
    }

    /// There is no room for what an approval covers, so that none can be given.
    pub(super) fn is_cramped(&self) -> bool {
        let (Some(Asking::Approval), Some(waiting), None) = (&self.asking, self.story.waiting(), &self.editing) else {
            return false;
        };
        let room = self.areas.code_words;
        let said = rows_of(&self.covered_lines(waiting), room.width);
        // The keys take the last row at least.
        said >= room.height || self.areas.code_text.area() == 0
    }

    /// What stands there instead.
    pub(super) fn cramped_line(&self) -> Line<'static> {
        Line::from(self.span(Role::Warning, "too small to run it"))
    }

    fn terms_line(&self, terms: &Terms, asked: Option<u64>) -> Line<'static> {
        let capabilities = self.story.session.info().map(|info| &info.capabilities);
        let hold = |limit| capabilities.map_or(Hold::No, |c| c.hold(limit));
        let tier = if terms.tier == "-" { String::new() } else { format!(" {}", few(&terms.tier, NAME)) };
        let mut spans = vec![Span::raw(format!("in {}{tier}", few(&terms.executor, NAME)))];
        let dot = || self.span(Role::Dim, DOT);
        spans.push(dot());
        spans.push(match hold(Limit::HostFiles) {
            Hold::Enforced => self.span(Role::Good, "isolated"),
            Hold::BestEffort => self.span(Role::Warning, "isolated as well as this machine can"),
            Hold::No => self.span(Role::Warning, "NOT isolated: it has all your rights"),
        });
        spans.push(dot());
        spans.push(match (&terms.network, hold(Limit::Network)) {
            (Network::Off, Hold::Enforced) => Span::raw("no network"),
            (Network::Off, Hold::BestEffort | Hold::No) => self.span(Role::Warning, "network is not held"),
            (Network::List(hosts), _) => {
                self.span(Role::Warning, format!("network: {}", Clean::line(&hosts.join(", "))))
            }
            (Network::On, _) => self.span(Role::Warning, "network on"),
        });
        spans.push(dot());
        let default = self.story.session.info().map_or(terms.timeout_seconds, |i| i.policy.timeout_seconds);
        let limit = match asked {
            Some(asked) => format!("{}\u{a0}s (it asked for {asked}\u{a0}s)", terms.timeout_seconds),
            None => format!("{}\u{a0}s", terms.timeout_seconds),
        };
        spans.push(if terms.timeout_seconds == default && asked.is_none() {
            Span::raw(limit)
        } else {
            self.span(Role::Warning, limit)
        });
        Line::from(spans)
    }

    /// What of the code cannot be seen, and what is wrong with it.
    fn unseen_line(&self) -> Option<Line<'static>> {
        let hidden = self.code.view.hidden();
        let mut parts = Vec::new();
        let many = |n: usize, one: &str, more: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {more}") };
        if hidden.lines_above > 0 {
            parts.push(many(hidden.lines_above, "line above", "lines above"));
        }
        if hidden.lines_below > 0 {
            parts.push(many(hidden.lines_below, "line below", "lines below"));
        }
        if hidden.wide_lines > 0 {
            parts.push(many(hidden.wide_lines, "line is wider than the pane", "lines are wider than the pane"));
        }
        if hidden.invisible_chars > 0 {
            let invisible = "invisible character, shown by name";
            parts.push(many(hidden.invisible_chars, invisible, "invisible characters, shown by name"));
        }
        if self.shown() != self.story.attempts.len().checked_sub(1) {
            parts.push("this is an older attempt, not the one that waits".into());
        }
        if let Some((line, message)) = &self.code.error {
            parts.push(format!("does not compile: line {line}: {}", few(message, FAILURE_WORDS)));
        }
        (!parts.is_empty()).then(|| Line::from(self.span(Role::Warning, parts.join(DOT))))
    }

    /// Rows of all that.
    pub(super) fn approval_rows(&self, width: u16) -> u16 {
        rows_of(&self.approval_lines(), width)
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

/// Longest name of an executor or its tier beside the keys of an approval, characters.
const NAME: usize = 24;

/// Longest message of a failure there, characters: the whole stands in the chat or beside its line.
const FAILURE_WORDS: usize = 160;

/// The first characters of a text in one line.
fn few(text: &str, most: usize) -> String {
    let line = Clean::line(text).into_string();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most).chain(['…']).collect()
}

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
