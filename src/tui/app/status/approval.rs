//! What stands beside the code that waits: what an approval of it covers, what of it cannot be seen, and the keys.

use ratatui::text::{Line, Span};

use super::{DOT, rows_of, together};
use crate::core::clean::Clean;
use crate::core::event::Terms;
use crate::core::policy::{Hold, Limit, Network};
use crate::tui::app::ask::Asking;
use crate::tui::app::panes::EditFor;
use crate::tui::app::{App, Focus, Pane};
use crate::tui::keys::{Act, Scope};
use crate::tui::story::Attempt;
use crate::tui::theme::Role;

/// Longest name of an executor or its tier beside the keys of an approval, characters.
const NAME: usize = 24;

/// Longest message of a failure there, characters: the whole stands in the chat or beside its line.
const FAILURE_WORDS: usize = 160;

impl App {
    /// What stands below the code: what an approval covers, what is not seen, and the keys in the last line.
    pub(in crate::tui::app) fn approval_lines(&self) -> Vec<Line<'static>> {
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
        // In its first moments a question takes no keys yet: what is typed then goes to the text field.
        let takes_keys = self.question.is_open(self.now);
        if takes_keys && !here {
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
        let mut keys = Line::from(self.key_words(&acts));
        if !takes_keys {
            keys.spans.iter_mut().for_each(|span| span.style = self.theme.style(Role::Dim));
        }
        lines.push(keys);
        lines
    }

    /// What an approval covers, and what of it is not seen.
    fn covered_lines(&self, waiting: &Attempt) -> Vec<Line<'static>> {
        let mut lines = vec![self.terms_line(&waiting.proposal.terms, waiting.proposal.asked_seconds)];
        lines.extend(self.unseen_line());
        lines
    }

    /// There is no room for what an approval covers, so that none can be given.
    pub(in crate::tui::app) fn is_cramped(&self) -> bool {
        let (Some(Asking::Approval), Some(waiting), None) = (&self.asking, self.story.waiting(), &self.editing) else {
            return false;
        };
        let room = self.areas.code_words;
        let said = rows_of(&self.covered_lines(waiting), room.width);
        // The keys take the last row at least.
        said >= room.height || self.areas.code_text.area() == 0
    }

    /// What stands there instead.
    pub(in crate::tui::app) fn cramped_line(&self) -> Line<'static> {
        Line::from(self.span(Role::Warning, "too small to run it"))
    }

    pub(super) fn terms_line(&self, terms: &Terms, asked: Option<u64>) -> Line<'static> {
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
        parts.extend(self.code.concealed.iter().cloned());
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
    pub(in crate::tui::app) fn approval_rows(&self, width: u16) -> u16 {
        rows_of(&self.approval_lines(), width)
    }
}

/// The first characters of a text in one line.
fn few(text: &str, most: usize) -> String {
    let line = Clean::line(text).into_string();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most).chain(['…']).collect()
}
