//! What the code pane shows: the attempt that is chosen, the code the model is writing, or the editor.

use std::sync::Arc;

use super::ask::Asking;
use super::{App, Focus, For, Pane, ranges};
use crate::core::command::{Command, Question as Asked};
use crate::core::event::{Failure, How};
use crate::tui::code::CodeView;
use crate::tui::diff;
use crate::tui::edit::editor::Editor;
use crate::tui::highlight::Painted;
use crate::tui::lines::Lines;
use crate::tui::msg::Action;

use super::overlay::Overlay;

/// What the view shows.
#[derive(Debug, Clone, PartialEq)]
enum Source {
    Nothing,
    Live,
    /// Index of the attempt, how often its text was edited, and whether an edit of it ran.
    Attempt(usize, u32, bool),
}

/// The code pane.
#[derive(Debug)]
pub(super) struct CodePane {
    pub(super) view: CodeView,
    source: Source,
    /// The person looks at an older attempt.
    pub(super) pinned: Option<usize>,
    /// The person's text for a call, until it is approved or rejected.
    edited: Option<(String, String)>,
    edits: u32,
    /// What was in the editor when it was left without being used.
    left: Option<(EditFor, String)>,
    /// Where code stands behind so much emptiness that it may be overlooked.
    pub(super) concealed: Vec<String>,
    /// The call whose text is in the person's own editor.
    outside: Option<String>,
    /// What the check of that text found.
    pub(super) error: Option<(u32, String)>,
    /// Number of the request for colours that is under way, and of what.
    request: u64,
    painting: Option<Painting>,
    /// Bytes of the code that was painted or is being painted.
    painted_len: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
enum Painting {
    View(Source),
    Editor(u64),
}

impl Default for CodePane {
    fn default() -> Self {
        Self {
            view: CodeView::new(""),
            source: Source::Nothing,
            pinned: None,
            edited: None,
            edits: 0,
            left: None,
            outside: None,
            concealed: Vec::new(),
            error: None,
            request: 0,
            painting: None,
            painted_len: None,
        }
    }
}

impl CodePane {
    /// The person's text for this call.
    pub(super) fn edited_for(&self, call: &str) -> Option<&str> {
        self.edited.as_ref().filter(|(c, _)| c == call).map(|(_, text)| text.as_str())
    }
}

/// What the text in the editor is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EditFor {
    /// What is proposed.
    Proposal(String),
    /// The person's own code, maybe the repair of a step.
    Own(Option<u32>),
}

/// The editor is open.
#[derive(Debug)]
pub(super) struct Editing {
    pub(super) editor: Editor,
    pub(super) purpose: EditFor,
    painted: Option<u64>,
}

impl App {
    /// Brings the code pane up to date, before a frame.
    pub(super) fn prepare_code(&mut self, width: u16, height: u16) {
        if let Some(editing) = &mut self.editing {
            editing.editor.layout(width, height);
            self.paint_editor();
            return;
        }
        let source = self.code_source();
        // What an attempt holds is another text once it ran as the person edited it.
        let other_text = source != Source::Live && self.source_text(&source) != self.code.view.raw();
        let changed = source != self.code.source || other_text;
        if changed {
            let code = self.source_text(&source).to_string();
            let mut view = CodeView::new(&code);
            view.set_wrap(self.code.view.wraps());
            let waits = matches!(&source, Source::Attempt(at, _, _) if self.story.attempts.len() == at + 1);
            view.set_error(self.code.error.clone().filter(|_| waits));
            view.set_follow(source == Source::Live);
            self.code.concealed = concealed(&code);
            (self.code.view, self.code.source, self.code.painted_len) = (view, source, None);
        } else if source == Source::Live {
            self.code.view.set_code(&self.story.live_code);
        }
        self.code.view.layout(width, height);
        self.paint_view();
    }

    fn code_source(&self) -> Source {
        if !self.story.live_code.is_empty() && self.code.pinned.is_none() {
            return Source::Live;
        }
        self.shown().map_or(Source::Nothing, |at| {
            let ran_edited = self.story.attempts.get(at).is_some_and(|a| a.edited.is_some());
            Source::Attempt(at, self.code.edits, ran_edited)
        })
    }

    fn source_text(&self, source: &Source) -> &str {
        match source {
            Source::Nothing => "",
            Source::Live => &self.story.live_code,
            Source::Attempt(at, _, _) => self.attempt_text(*at),
        }
    }

    /// The text of an attempt, as the person edited it where they did.
    pub(super) fn attempt_text(&self, at: usize) -> &str {
        let Some(attempt) = self.story.attempts.get(at) else { return "" };
        self.code.edited_for(&attempt.proposal.call).unwrap_or_else(|| attempt.code())
    }

    fn paint_view(&mut self) {
        let code = self.code.view.raw();
        if self.code.painting.is_some() || self.code.painted_len == Some(code.len()) || code.is_empty() {
            return;
        }
        self.code.request += 1;
        self.code.painted_len = Some(code.len());
        self.code.painting = Some(Painting::View(self.code.source.clone()));
        self.highlighter.request(self.code.request, Arc::from(code));
    }

    fn paint_editor(&mut self) {
        let Some(editing) = &mut self.editing else { return };
        let version = editing.editor.version();
        if self.code.painting.is_some() || editing.painted == Some(version) {
            return;
        }
        editing.painted = Some(version);
        self.code.request += 1;
        self.code.painting = Some(Painting::Editor(version));
        self.highlighter.request(self.code.request, Arc::from(editing.editor.text()));
    }

    /// Colours came.
    pub(super) fn painted(&mut self, id: u64, painted: Arc<Painted>) {
        if id != self.code.request {
            return;
        }
        match self.code.painting.take() {
            Some(Painting::View(source)) if source == self.code.source => self.code.view.set_painted(painted),
            Some(Painting::Editor(version)) => {
                if let Some(editing) = &mut self.editing {
                    editing.editor.set_painted(version, ranges(painted));
                }
            }
            Some(Painting::View(_)) | None => {}
        }
    }

    // ---- attempts ----------------------------------------------------------------------------------------------------

    /// To the attempt before or the next.
    pub(super) fn turn_to(&mut self, next: bool) {
        let Some(shown) = self.shown() else { return };
        let last = self.story.attempts.len() - 1;
        let to = if next { shown + 1 } else { shown.saturating_sub(1) };
        self.code.pinned = (to < last).then_some(to);
    }

    /// There is something to compare the shown code with.
    pub(super) fn has_changes(&self) -> bool {
        self.shown().is_some_and(|at| {
            self.story.before(at).is_some() || self.attempt_text(at) != self.story.attempts[at].proposal.code
        })
    }

    /// What changed: the person's edit against the model's text, else against the attempt before.
    pub(super) fn show_diff(&mut self) {
        let Some(at) = self.shown() else { return };
        let attempt = &self.story.attempts[at];
        let shown = self.attempt_text(at);
        let (title, old) = if shown != attempt.proposal.code {
            ("Your changes to the model's code", attempt.proposal.code.as_str())
        } else if let Some(before) = self.story.before(at) {
            ("Changes to the attempt before", before.code())
        } else {
            return self.say("this is the first attempt, and it was not edited");
        };
        let lines = diff::diff(old, shown, self.theme);
        self.overlay = Some(Overlay::Lines { title: title.into(), lines: Lines::new(lines) });
    }

    // ---- editing -----------------------------------------------------------------------------------------------------

    /// Opens the editor on what is proposed.
    pub(super) fn edit_proposal(&mut self) {
        let Some(waiting) = self.story.waiting() else { return };
        let (call, code) = (waiting.proposal.call.clone(), waiting.proposal.code.clone());
        let text = self.attempt_text(self.story.attempts.len() - 1).to_string();
        self.code.pinned = None;
        let mut editor = Editor::new(&code, &text);
        if let Some((line, _)) = &self.code.error {
            editor.go_to_line(*line);
            editor.set_error(self.code.error.clone());
        }
        self.open_editor(editor, EditFor::Proposal(call));
    }

    /// Opens the editor on the code of the failed step.
    pub(super) fn repair(&mut self) {
        let Some(step) = self.story.session.repairable() else {
            return self.say("there is no failed step to repair");
        };
        let code = self.story.attempts.iter().rfind(|a| a.proposal.step == step).map(|a| a.code().to_string());
        let code = code.unwrap_or_default();
        self.open_editor(Editor::new(&code, &code), EditFor::Own(Some(step)));
    }

    /// Opens the editor on code of the person's own.
    pub(super) fn own_code(&mut self) {
        self.open_editor(Editor::new("", ""), EditFor::Own(None));
    }

    fn open_editor(&mut self, mut editor: Editor, purpose: EditFor) {
        if let Some((_, text)) = self.code.left.take_if(|(same, _)| *same == purpose) {
            editor.set_text(&text);
        }
        self.editing = Some(Editing { editor, purpose, painted: None });
        self.zoomed.take_if(|pane| *pane != Pane::Code);
        self.focus = Focus::Pane(Pane::Code);
    }

    /// Leaves the editor; what was written is kept and checked.
    pub(super) fn leave_editor(&mut self) {
        let Some(editing) = self.editing.take() else { return };
        let text = editing.editor.text();
        self.edited(text, editing.purpose);
        if matches!(self.asking, Some(Asking::Approval)) && self.story.waiting().is_some() {
            self.pose_back();
        }
    }

    /// Leaves the editor without using its text, which is kept for the next time it opens.
    pub(super) fn drop_editor(&mut self) {
        let Some(editing) = self.editing.take() else { return };
        self.say("the edit was left and the code is as it was; opening the editor again brings your text back");
        self.code.left = Some((editing.purpose, editing.editor.text()));
        self.pose_again();
    }

    fn edited(&mut self, text: String, purpose: EditFor) {
        match purpose {
            EditFor::Proposal(call) => {
                if self.story.waiting().is_none_or(|a| a.proposal.call != call) {
                    self.pose_again();
                    self.copy(text);
                    return self.say("not run: other code waits; your text is in the clipboard");
                }
                self.code.edits += 1;
                self.code.error = None;
                self.code.edited = Some((call.clone(), text.clone()));
                self.ask(Asked::Compile(text), For::Check(call));
                self.pose(Asking::Approval);
            }
            EditFor::Own(_) if text.trim().is_empty() => {
                self.focus = Focus::Text;
                self.say("there is no code to run");
            }
            EditFor::Own(repairs) if self.story.session.own_proposal(&text, repairs).is_none() => {
                self.focus = Focus::Text;
                self.code.left = Some((EditFor::Own(repairs), text));
                self.say("something else goes on; your code is kept, open the editor again when it is over");
            }
            EditFor::Own(repairs) => {
                self.focus = Focus::Text;
                self.send(Command::Propose { code: text, repairs });
            }
        }
    }

    /// Gives the text to the editor of the person's own: the code where it has the keys, else the draft.
    pub(super) fn edit_outside(&mut self) {
        if let Some(editing) = &self.editing {
            return self.outbox.push(Action::Edit { text: editing.editor.text(), suffix: ".py" });
        }
        if let Some(attempt) = self.story.waiting().filter(|_| self.focus == Focus::Pane(Pane::Code)) {
            let call = attempt.proposal.call.clone();
            let text = self.attempt_text(self.story.attempts.len() - 1).to_string();
            self.code.outside = Some(call);
            return self.outbox.push(Action::Edit { text, suffix: ".py" });
        }
        if !self.replay {
            self.outbox.push(Action::Edit { text: self.composer.text(), suffix: ".md" });
        }
    }

    /// The editor of the person's own ended.
    pub(super) fn editor_closed(&mut self, result: Result<String, Failure>) {
        let call = self.code.outside.take();
        let text = match result {
            Ok(text) => text,
            Err(failure) => return self.say_failure(&failure),
        };
        if let Some(editing) = &mut self.editing {
            editing.editor.set_text(&text);
        } else if let Some(call) = call {
            self.edited(text, EditFor::Proposal(call));
        } else {
            self.composer.set_text(text.trim_end());
        }
    }

    /// What the compile check of an edited text found.
    pub(super) fn checked(&mut self, call: &str, error: Option<(u32, String)>) {
        if self.story.waiting().is_none_or(|waiting| waiting.proposal.call != call) {
            return;
        }
        if let Some((line, message)) = &error {
            self.say(format!("your text does not compile: line {line}: {message}"));
        }
        self.code.error.clone_from(&error);
        let line = error.as_ref().map(|(line, _)| *line);
        self.code.view.set_error(error);
        if let Some(line) = line {
            self.code.view.show_line(line);
        }
    }

    /// What was proposed is decided: the person's text for it was used or is gone.
    pub(super) fn forget_edit(&mut self) {
        self.code.edited = None;
        self.code.error = None;
        self.code.edits += 1;
    }

    /// Words about whose code is shown.
    pub(super) fn code_origin(&self, at: usize) -> &'static str {
        let Some(attempt) = self.story.attempts.get(at) else { return "" };
        let edited = self.attempt_text(at) != attempt.proposal.code;
        match attempt.proposal.how {
            How::User => " · yours",
            _ if edited => " · edited by you",
            How::Recovered => " · recovered from a broken call",
            How::Call | How::Fence => "",
        }
    }
}

/// Spaces within a line, and empty lines, behind which code is easily overlooked: nobody writes that many.
const MANY_SPACES: usize = 40;
const MANY_EMPTY: usize = 20;

/// Places of code that stands behind much emptiness, one line each; a few are enough to make anybody look.
fn concealed(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut empty = 0;
    for (number, line) in code.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if line.trim().is_empty() {
            empty += 1;
            continue;
        }
        if empty >= MANY_EMPTY {
            found.push(format!("line {number} comes behind {empty} empty lines"));
        }
        empty = 0;
        let mut spaces = 0;
        for c in line.trim_end().chars() {
            match (c.is_whitespace(), spaces >= MANY_SPACES) {
                (true, _) => spaces += 1,
                (false, true) => {
                    found.push(format!("line {number} goes on behind {spaces} spaces"));
                    break;
                }
                (false, false) => spaces = 0,
            }
        }
        if found.len() >= 4 {
            break;
        }
    }
    found
}
