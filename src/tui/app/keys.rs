//! What a key does: first what lies over the panes has it, then the editor, then a question, then the pane or the text field.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::ask::Asking;
use super::overlay::{Line, Overlay, Purpose};
use super::{App, Focus, PANES, Pane, QUIT};
use crate::core::command::{Command, Question as Asked, Transport};
use crate::tui::Exit;
use crate::tui::composer::Outcome;
use crate::tui::edit::keys as edit_keys;
use crate::tui::keys::{Act, Scope};
use crate::tui::lines::Lines;
use crate::tui::msg::Action;
use crate::tui::story::Activity;
use crate::tui::theme::Role;

/// A character is typed.
fn is_printable(key: KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char(_)) && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) {
        let again = self.quit_again.take();
        let always = self.keys.act(Scope::Always, key);
        // Whatever else is pressed, an answer that was not given yet is taken back: it was the start of a word, or regretted.
        let taken_back = self.question.deadline().is_some() && self.give_back();
        if is_printable(key) && self.asking.is_some() && !self.is_answerable() {
            // Whoever types, wherever, does not answer yet.
            self.question.typed(self.now);
        }
        if always == Some(Act::Suspend) {
            return self.outbox.push(Action::Suspend);
        }
        if self.overlay.is_some() {
            self.overlay_key(key);
            if self.overlay.is_none() && self.asking.is_some() {
                self.settled = false;
                if self.had_keys() {
                    // The person looked elsewhere and comes back: typing ahead is no danger here.
                    self.question.show_again(self.now);
                    self.settle_question();
                } else {
                    // What was asked meanwhile takes the keys after the same quiet as ever.
                    self.question.show(self.now, self.last_typed);
                }
            }
            return;
        }
        if always == Some(Act::Cancel) {
            return self.cancel(again.is_some_and(|until| self.now < until));
        }
        if self.editing.is_some() {
            return self.editor_key(key, always);
        }
        if taken_back {
            // Enter behind a single letter sends nothing.
            if key.code != KeyCode::Enter {
                self.text_key(key, always);
            }
            return;
        }
        match self.focus {
            Focus::Text => self.text_key(key, always),
            Focus::Pane(pane) => self.pane_key(pane, key, always),
            Focus::Ask => self.ask_key(key, always),
        }
    }

    fn ask_key(&mut self, key: KeyEvent, always: Option<Act>) {
        if self.is_answerable() && self.question_key(key) {
            return;
        }
        match self.keys.act(Scope::Pane, key) {
            Some(Act::Up) if key.code == KeyCode::Up => self.scroll_question(-1),
            Some(Act::Down) if key.code == KeyCode::Down => self.scroll_question(1),
            _ if is_printable(key) && !self.replay => {
                self.focus = Focus::Text;
                self.compose(key);
            }
            _ => self.always(always),
        }
    }

    pub(super) fn scroll_question(&mut self, rows: i64) {
        if let Some(Asking::Rebuild { lines, .. }) = &mut self.asking {
            lines.scroll_lines(rows);
        }
    }

    // ---- the text field ----------------------------------------------------------------------------------------------

    fn text_key(&mut self, key: KeyEvent, always: Option<Act>) {
        let empty = self.composer.is_empty();
        if empty && key.code == KeyCode::Char('?') {
            return self.help();
        }
        match always {
            Some(Act::Quit) if empty => return self.leave(Exit::Quit),
            Some(Act::Help | Act::External) => return self.always(always),
            _ => {}
        }
        match self.compose(key) {
            Outcome::Ignored => self.always(always),
            Outcome::Used | Outcome::Send(_) => {}
        }
    }

    /// Gives the key to the text field.
    pub(super) fn compose(&mut self, key: KeyEvent) -> Outcome {
        if is_printable(key) {
            self.last_typed = Some(self.now);
            self.question.typed(self.now);
        }
        let outcome = self.composer.key(key, self.now.into_std());
        self.composed(outcome.clone());
        outcome
    }

    /// What the text field made of a key.
    pub(super) fn composed(&mut self, outcome: Outcome) {
        let Outcome::Send(text) = outcome else { return };
        if text.trim().is_empty() {
            return;
        }
        self.ask(Asked::Remember(text.clone()), super::For::Nothing);
        match text.strip_prefix('/') {
            Some(command) => self.slash(command),
            None => self.say_to_model(text),
        }
    }

    // ---- everywhere --------------------------------------------------------------------------------------------------

    fn always(&mut self, act: Option<Act>) {
        match act {
            Some(Act::Stop) => self.stop(),
            Some(Act::Help) => self.help(),
            Some(Act::NextPane) => self.next_focus(true),
            Some(Act::PreviousPane) => self.next_focus(false),
            Some(Act::External) => self.edit_outside(),
            Some(Act::PageUp) => self.page(self.reading_pane(), false),
            Some(Act::PageDown) => self.page(self.reading_pane(), true),
            Some(Act::Quit) if self.composer.is_empty() => self.leave(Exit::Quit),
            _ => {}
        }
    }

    /// The pane that pages while the text field has the keys.
    fn reading_pane(&self) -> Pane {
        match self.focus {
            Focus::Pane(pane) => pane,
            Focus::Text | Focus::Ask => Pane::Chat,
        }
    }

    /// Esc: closes what is open, or stops what goes on.
    fn stop(&mut self) {
        // Stop means stop, whatever else is open.
        if self.is_busy() && self.story.activity != Activity::Approval {
            self.withdraw();
            self.say("stopping");
            return self.send(Command::Interrupt);
        }
        if let Focus::Pane(pane) = self.focus
            && self.searching == Some(pane)
        {
            return self.search(pane, None);
        }
        if let Focus::Pane(Pane::Output) = self.focus
            && self.output().is_zoomed()
        {
            self.output().toggle_zoom();
            return;
        }
        if self.zoomed.take().is_some() {
            return;
        }
        if matches!(self.asking, Some(Asking::RunAll)) {
            self.give_back();
            return self.pose(Asking::Approval);
        }
        if matches!(self.asking, Some(Asking::Delete { .. })) {
            self.give_back();
            return self.answer(Act::No);
        }
        if self.is_busy() {
            self.withdraw();
            self.say("stopping");
            return self.send(Command::Interrupt);
        }
        if matches!(self.asking, Some(Asking::Failed)) {
            self.withdraw();
        }
        if !self.replay {
            self.focus = Focus::Text;
        }
    }

    /// Ctrl-C: clears the draft, then stops what goes on, then quits.
    fn cancel(&mut self, again: bool) {
        if self.editing.is_some() {
            return self.drop_editor();
        }
        if !self.composer.is_empty() {
            self.composer.keep();
            return self.composer.clear();
        }
        if again || self.replay {
            return self.leave(Exit::Quit);
        }
        if self.is_busy() && self.story.activity != Activity::Approval {
            self.send(Command::Interrupt);
            self.say("stopping · Ctrl-C again quits");
        } else {
            self.say("Ctrl-C again quits");
        }
        self.quit_again = Some(self.now + QUIT);
    }

    pub(super) fn pose_again(&mut self) {
        if self.story.waiting().is_some() {
            self.pose(Asking::Approval);
        } else {
            self.focus = Focus::Text;
        }
    }

    fn next_focus(&mut self, forward: bool) {
        let mut order: Vec<Focus> = Vec::new();
        if !self.replay {
            order.push(Focus::Text);
        }
        if self.asking.as_ref().is_some_and(|a| !matches!(a, Asking::Approval)) {
            order.push(Focus::Ask);
        }
        // Where an approval waits, Tab leads to it first.
        let panes = if self.asking.is_some() { [Pane::Code, Pane::Output, Pane::Chat] } else { PANES };
        order.extend(panes.map(Focus::Pane));
        let at = order.iter().position(|f| *f == self.focus).unwrap_or_default();
        let step = if forward { 1 } else { order.len() - 1 };
        self.focus = order[(at + step) % order.len()];
        self.zoomed = match (self.zoomed, self.focus) {
            (Some(_), Focus::Pane(pane)) => Some(pane),
            (Some(_), Focus::Text | Focus::Ask) | (None, _) => None,
        };
        if self.settled && self.asking.is_some() {
            // Who comes by Tab means it.
            self.question.show(self.now, None);
        }
    }

    pub(super) fn help(&mut self) {
        let theme = self.theme;
        let mut lines = Vec::new();
        let scopes: &[(Scope, &str)] = if self.replay {
            &[(Scope::Replay, "Replay"), (Scope::Pane, "In a pane"), (Scope::Always, "Everywhere")]
        } else {
            &[
                (Scope::Approval, "When code waits for you"),
                (Scope::Always, "Everywhere"),
                (Scope::Pane, "In a pane (Tab goes there)"),
                (Scope::Editor, "Editing code"),
                (Scope::Failed, "When a turn failed"),
                (Scope::Picker, "In a list"),
            ]
        };
        // Narrow screens need the columns for the words.
        let column = if self.areas.whole.width < super::areas::MEDIUM_WIDE { 6 } else { 16 };
        let row = |keys: &str, help: &str| {
            ratatui::text::Line::from(vec![
                ratatui::text::Span::styled(format!("  {keys:<column$}"), theme.style(Role::Key)),
                ratatui::text::Span::raw(format!(" {help}")),
            ])
        };
        for (scope, title) in scopes {
            lines.push(ratatui::text::Line::styled((*title).to_string(), theme.style(Role::Title)));
            lines.extend(self.keys.help(*scope).map(|(keys, help)| row(keys, help)));
            lines.push(ratatui::text::Line::default());
        }
        if !self.replay {
            lines.push(ratatui::text::Line::styled("Commands", theme.style(Role::Title)));
            lines.extend(super::slash::COMMANDS.iter().map(|(name, help)| row(name, help)));
            lines.push(ratatui::text::Line::default());
            lines.push(ratatui::text::Line::styled("Writing", theme.style(Role::Title)));
            lines.push(row("Enter", "send"));
            lines.push(row("Shift-Enter, Alt-Enter", "a new line; also Ctrl-J, or a backslash before Enter"));
            lines.push(row("Ctrl-R", "search what was typed before"));
            lines.push(row("@", "name an input file"));
            lines.extend(edit_keys::HELP.iter().map(|(keys, help)| row(keys, help)));
            lines.push(ratatui::text::Line::default());
            lines.push(row("mouse", "Shift-drag selects text of the terminal; /set mouse off leaves the mouse to it"));
        }
        self.overlay = Some(Overlay::Lines { title: "Keys".into(), lines: Lines::new(lines) });
    }

    // ---- the editor --------------------------------------------------------------------------------------------------

    fn editor_key(&mut self, key: KeyEvent, always: Option<Act>) {
        match self.keys.act(Scope::Editor, key) {
            Some(Act::Leave) => return self.leave_editor(),
            Some(Act::Reset) => {
                if let Some(editing) = &mut self.editing {
                    editing.editor.reset();
                }
                return self.say("the model's text again · Ctrl-/ undoes it");
            }
            Some(Act::Diff) => return self.editor_diff(),
            _ => {}
        }
        match always {
            Some(Act::Help) => return self.help(),
            Some(Act::External) => return self.edit_outside(),
            _ => {}
        }
        let Some(editing) = &mut self.editing else { return };
        editing.editor.handle(key);
    }

    fn editor_diff(&mut self) {
        let Some(editing) = &self.editing else { return };
        let old = match self.story.waiting() {
            Some(attempt) => attempt.proposal.code.clone(),
            None => String::new(),
        };
        let lines = crate::tui::diff::diff(&old, &editing.editor.text(), self.theme);
        self.overlay =
            Some(Overlay::Lines { title: "Your changes to the model's code".into(), lines: Lines::new(lines) });
    }

    // ---- panes -------------------------------------------------------------------------------------------------------

    fn pane_key(&mut self, pane: Pane, key: KeyEvent, always: Option<Act>) {
        if self.searching == Some(pane) && matches!(key.code, KeyCode::Char('n' | 'N')) {
            return self.next_match(pane, key.code == KeyCode::Char('n'));
        }
        if pane == Pane::Code && self.is_answerable() && self.question_key(key) {
            return;
        }
        if self.replay
            && let Some(act) = self.keys.act(Scope::Replay, key)
        {
            return self.transport(act);
        }
        if key.code == KeyCode::Char('?') {
            return self.help();
        }
        let Some(act) = self.keys.act(Scope::Pane, key) else {
            if is_printable(key) && !self.replay && key.code != KeyCode::Char('q') {
                self.focus = Focus::Text;
                self.compose(key);
                return;
            }
            return self.always(always);
        };
        match act {
            Act::Up => self.scroll(pane, -1),
            Act::Down => self.scroll(pane, 1),
            Act::Left => self.sideways(pane, false),
            Act::Right => self.sideways(pane, true),
            Act::HalfUp => self.half_page(pane, false),
            Act::HalfDown => self.half_page(pane, true),
            Act::Top => self.go_to_end(pane, false),
            Act::Bottom => self.go_to_end(pane, true),
            Act::Search => {
                self.overlay = Some(Overlay::Line(Line::new("Look for", "", Purpose::Search(pane))));
            }
            Act::Zoom => self.zoom(pane),
            Act::Copy => self.copy_pane(pane),
            Act::Wrap => match pane {
                Pane::Code => {
                    let wraps = self.code.view.wraps();
                    self.code.view.set_wrap(!wraps);
                }
                Pane::Output => self.output().toggle_wrap(),
                Pane::Chat => self.say("the chat is always wrapped"),
            },
            Act::PreviousAttempt => self.turn_to(false),
            Act::NextAttempt => self.turn_to(true),
            Act::Diff => self.show_diff(),
            Act::NextItem => {
                if !self.output().next_item(true) {
                    self.say("there is no further table or figure in this output");
                }
                self.focus = Focus::Pane(Pane::Output);
            }
            Act::Sort => {
                if !self.output().sort() {
                    self.say("choose a table first: x");
                }
            }
            Act::OpenFigure => match self.output().figure().map(str::to_string) {
                Some(hash) => self.ask(Asked::OpenFigure(hash), super::For::Word),
                None => self.say("choose a figure first: x"),
            },
            Act::Pager => self.open_pager(),
            Act::Compose if !self.replay => self.focus = Focus::Text,
            _ => self.always(always),
        }
    }

    fn transport(&mut self, act: Act) {
        let order = match act {
            Act::Play => Transport::Toggle,
            Act::StepOn => Transport::Step(true),
            Act::StepBack => Transport::Step(false),
            Act::NextMark => Transport::Mark(true),
            Act::PreviousMark => Transport::Mark(false),
            Act::Faster => Transport::Faster(true),
            Act::Slower => Transport::Faster(false),
            Act::First => Transport::End(false),
            Act::Last => Transport::End(true),
            Act::Quit => return self.leave(Exit::Quit),
            Act::Fork => return self.fork(),
            _ => return,
        };
        self.send(Command::Transport(order));
    }

    /// Goes on in a new session behind the last step that ran.
    fn fork(&mut self) {
        if !self.may_fork {
            return self.say("only a session that is kept here can be continued; this recording lies elsewhere");
        }
        let Some(id) = self.session_id().map(str::to_string) else { return };
        let ran = self.story.attempts.iter().rfind(|a| a.output.is_finished());
        match ran.map(|a| a.proposal.step) {
            Some(step) => self.leave(Exit::Fork(id, step)),
            None => self.say("no code has run yet at this place of the recording"),
        }
    }

    pub(super) fn scroll(&mut self, pane: Pane, rows: i64) {
        match pane {
            Pane::Chat => self.story.chat.scroll(rows),
            Pane::Code => match &mut self.editing {
                Some(editing) => editing.editor.scroll(rows as isize),
                None => self.code.view.scroll_lines(rows),
            },
            Pane::Output => self.output().scroll_by(rows as isize),
        }
    }

    fn page(&mut self, pane: Pane, down: bool) {
        match pane {
            Pane::Chat => self.story.chat.page(down),
            Pane::Code => self.code.view.scroll_page(down),
            Pane::Output => self.output().page(down),
        }
    }

    fn half_page(&mut self, pane: Pane, down: bool) {
        let rows = i64::from(self.areas.of(pane).height / 2);
        match pane {
            Pane::Output => self.output().half_page(down),
            Pane::Chat | Pane::Code => self.scroll(pane, if down { rows } else { -rows }),
        }
    }

    fn go_to_end(&mut self, pane: Pane, end: bool) {
        match (pane, end) {
            (Pane::Chat, true) => self.story.chat.end(),
            (Pane::Chat, false) => self.story.chat.home(),
            (Pane::Code, true) => self.code.view.scroll_bottom(),
            (Pane::Code, false) => self.code.view.scroll_top(),
            (Pane::Output, end) => self.output().ends(end),
        }
    }

    fn sideways(&mut self, pane: Pane, right: bool) {
        match pane {
            Pane::Chat => {}
            Pane::Code => self.code.view.scroll_columns(if right { 8 } else { -8 }),
            Pane::Output => self.output().sideways(right),
        }
    }

    /// The chosen table or figure first, else the pane.
    fn zoom(&mut self, pane: Pane) {
        if pane == Pane::Output && self.output().toggle_zoom() {
            self.zoomed = self.output().is_zoomed().then_some(pane);
            return;
        }
        self.zoomed = if self.zoomed.is_some() { None } else { Some(pane) };
    }

    pub(super) fn search(&mut self, pane: Pane, text: Option<&str>) {
        self.searching = text.map(|_| pane);
        match pane {
            Pane::Chat => self.story.chat.set_search(text),
            Pane::Code => self.code.view.set_search(text),
            Pane::Output => self.output().set_search(text),
        }
    }

    pub(super) fn next_match(&mut self, pane: Pane, forward: bool) {
        let found = match pane {
            Pane::Chat => self.story.chat.next_match(forward),
            Pane::Code => self.code.view.next_match(forward),
            Pane::Output => self.output().next_match(forward),
        };
        if !found && self.searching.is_some() {
            self.say("not found");
        }
    }

    fn copy_pane(&mut self, pane: Pane) {
        let text = match pane {
            Pane::Chat => self.story.chat.last_reply().map_or_else(|| self.story.chat.text(), str::to_string),
            Pane::Code => self.code.view.raw().to_string(),
            Pane::Output => self.output().logical_text(),
        };
        self.copy(text);
    }

    pub(super) fn copy(&mut self, text: String) {
        self.say(format!("{} bytes to the clipboard, where the terminal allows it", text.len()));
        self.outbox.push(Action::Copy(text));
    }
}
