//! Questions that a single key answers: may this code run, may nothing isolate it, what now that it failed. They share one
//! way of taking the keys (see [`Question`](crate::tui::question::Question)), so that nothing typed is ever an answer.

use crossterm::event::KeyEvent;

use super::overlay::{Line, Overlay, Purpose};
use super::{App, Focus, For, Pane};
use crate::core::command::{Command, Question as Asked};
use crate::core::event::{Failure, Proposal, Terms};
use crate::core::policy::{Hold, Limit};
use crate::tui::Exit;
use crate::tui::keys::{Act, Scope};
use crate::tui::lines::Lines;

/// What is asked.
#[derive(Debug)]
pub(super) enum Asking {
    /// May the code that is shown run?
    Approval,
    /// The turn ended with a failed step. What now?
    Failed,
    /// May code run where nothing isolates it?
    Unsandboxed(Failure),
    /// The session could not begin. Try again?
    StartFailed(Failure),
    /// May these cells run again?
    Rebuild { lines: Box<Lines>, cells: Vec<(u32, String)>, terms: Terms },
    /// Really run everything without asking?
    RunAll,
    /// Really delete this session? What was asked before is asked again afterwards.
    Delete { id: String, below: Option<Box<Asking>> },
}

impl App {
    /// Something is asked from now on.
    pub(super) fn pose(&mut self, asking: Asking) {
        // A key pressed for the question before is none for this one.
        self.give_back();
        self.asking = Some(asking);
        self.settled = false;
        self.question.show(self.now, self.last_typed);
    }

    /// The approval once more, after the person looked elsewhere and came back. Typing ahead is no danger here.
    pub(super) fn pose_back(&mut self) {
        self.pose(Asking::Approval);
        self.question.show_again(self.now);
        self.settle_question();
    }

    pub(super) fn withdraw(&mut self) {
        self.give_back();
        self.asking = None;
        if self.focus == Focus::Ask {
            self.focus = if self.replay { Focus::Pane(Pane::Chat) } else { Focus::Text };
        }
    }

    /// Where the keys of the question go to.
    fn target(&self) -> Focus {
        match self.asking {
            Some(Asking::Approval) => Focus::Pane(Pane::Code),
            Some(_) | None => Focus::Ask,
        }
    }

    /// The question takes the keys when there was quiet, unless something is being written.
    pub(super) fn settle_question(&mut self) {
        if self.asking.is_none() || self.settled || !self.question.is_open(self.now) {
            return;
        }
        self.settled = true;
        // Who steps through what a search found goes on with that.
        let free = self.overlay.is_none() && self.editing.is_none() && self.searching.is_none();
        if self.composer.is_empty() && free {
            self.focus = self.target();
            // What is asked about is seen.
            self.zoomed.take_if(|pane| self.focus == Focus::Pane(Pane::Code) && *pane != Pane::Code);
        }
    }

    /// The question had the keys before something lay over it.
    pub(super) fn had_keys(&self) -> bool {
        self.focus == self.target()
    }

    /// The question has the keys.
    pub(super) fn is_answerable(&self) -> bool {
        self.asking.is_some() && self.focus == self.target() && self.question.is_open(self.now)
    }

    /// The scope of its keys.
    fn ask_scope(&self) -> Option<Scope> {
        match self.asking.as_ref()? {
            Asking::Approval => Some(Scope::Approval),
            Asking::Failed => Some(Scope::Failed),
            Asking::Unsandboxed(_)
            | Asking::StartFailed(_)
            | Asking::Rebuild { .. }
            | Asking::RunAll
            | Asking::Delete { .. } => Some(Scope::Confirm),
        }
    }

    /// A key while the question has them; `false` if it is none of its.
    pub(super) fn question_key(&mut self, key: KeyEvent) -> bool {
        let Some(act) = self.ask_scope().and_then(|scope| self.keys.act(scope, key)) else { return false };
        self.question.press(act, key, self.now);
        true
    }

    /// A key that was pressed for an answer was part of a word: it goes to the text field.
    pub(super) fn give_back(&mut self) -> bool {
        let Some(key) = self.question.disturbed() else { return false };
        if !self.replay {
            self.focus = Focus::Text;
            self.compose(key);
        }
        true
    }

    /// The answer.
    pub(super) fn answer(&mut self, act: Act) {
        match (self.asking.take(), act) {
            (Some(Asking::Approval), act) => {
                self.asking = Some(Asking::Approval);
                self.answer_approval(act);
            }
            (Some(Asking::Failed), Act::Retry) => {
                self.withdraw();
                self.retry();
            }
            (Some(Asking::Failed), Act::Repair) => {
                self.withdraw();
                self.repair();
            }
            (Some(Asking::Failed), Act::OtherModel) => {
                self.asking = Some(Asking::Failed);
                self.pick_model();
            }
            (Some(Asking::Unsandboxed(_)), Act::Yes) => {
                self.unsandboxed = true;
                self.withdraw();
                self.start(None);
            }
            (Some(Asking::Unsandboxed(_)), Act::No) => self.leave(Exit::Quit),
            (Some(Asking::StartFailed(_)), Act::Yes) => {
                self.withdraw();
                self.start(None);
            }
            (asking @ Some(Asking::StartFailed(_)), Act::OtherModel) => {
                self.asking = asking;
                self.pick_model();
            }
            (Some(Asking::StartFailed(_)), Act::No) => self.leave(Exit::Quit),
            (Some(Asking::Rebuild { cells, terms, .. }), Act::Yes | Act::No) => {
                self.withdraw();
                self.send(Command::Rebuild { approved: act == Act::Yes, cells, terms });
            }
            (Some(Asking::RunAll), Act::Yes) => {
                self.run_all = self.story.waiting().map(|a| a.proposal.terms.clone());
                self.pose_back();
                self.approve(RUN_ALL);
            }
            (Some(Asking::RunAll), Act::No) => self.pose_back(),
            (Some(Asking::Delete { id, below }), Act::Yes | Act::No) => {
                self.withdraw();
                if act == Act::Yes {
                    self.ask(Asked::Delete(id), For::Word);
                }
                if let Some(below) = below {
                    self.pose(*below);
                }
                self.pick_session();
            }
            (asking, _) => self.asking = asking,
        }
    }

    /// Asks the last question again.
    pub(super) fn retry(&mut self) {
        let question = self.story.session.failed_question().filter(|q| !q.is_empty());
        let question = question.unwrap_or(&self.story.question).to_string();
        if question.is_empty() {
            return self.say("nothing was asked yet");
        }
        self.say_to_model(question);
    }

    pub(super) fn start(&mut self, model: Option<String>) {
        self.starting = Some("starting".into());
        self.send(Command::Start { unsandboxed: self.unsandboxed, model });
    }

    // ---- approval ----------------------------------------------------------------------------------------------------

    fn answer_approval(&mut self, act: Act) {
        match act {
            Act::Run | Act::RunAll if self.code.pinned.take().is_some() => {
                self.say("now it shows the code that waits: read it, then answer");
            }
            Act::Edit => self.edit_proposal(),
            Act::External => self.edit_outside(),
            Act::Reject => {
                let Some(waiting) = self.story.waiting() else { return };
                let title = "Why not? (empty: the turn ends)";
                let purpose = Purpose::Reject(waiting.proposal.call.clone());
                self.overlay = Some(Overlay::Line(Line::new(title, "", purpose)));
            }
            Act::Limit => {
                let Some(waiting) = self.story.waiting() else { return };
                let Proposal { call, terms, .. } = waiting.proposal.clone();
                let (title, now) = ("Time limit of this run, seconds", terms.timeout_seconds.to_string());
                self.overlay = Some(Overlay::Line(Line::new(title, &now, Purpose::Limit(call))));
            }
            // What is not seen is not approved.
            Act::Run | Act::RunAll if self.is_cramped() => {
                self.say("the window is too small to show what would run");
            }
            Act::RunAll if self.may_run_all() => self.pose(Asking::RunAll),
            Act::Run => self.approve("user"),
            Act::RunAll => self.say("only where files and network are held: this executor does not isolate"),
            _ => {}
        }
    }

    /// Everything may run without asking only where nobody's files and no network are in reach.
    pub(super) fn may_run_all(&self) -> bool {
        let holds = |limit| self.story.session.info().is_some_and(|i| i.capabilities.hold(limit) == Hold::Enforced);
        holds(Limit::HostFiles) && holds(Limit::Network)
    }

    /// Approves exactly what is shown: the bytes and the terms.
    pub(super) fn approve(&mut self, by: &str) {
        let Some(waiting) = self.story.waiting() else { return };
        let Proposal { step, attempt, call, terms, code, .. } = waiting.proposal.clone();
        let edited = self.code.edited_for(&call).filter(|text| *text != code).map(str::to_string);
        self.withdraw();
        self.code.pinned = None;
        self.focus = Focus::Text;
        self.send(Command::Approve { step, attempt, call, edited, by: by.into(), terms });
    }

    /// What waits, if it is the code of this call: something typed for one piece says nothing about another.
    fn waiting_for(&mut self, call: &str) -> Option<Proposal> {
        let waiting = self.story.waiting().map(|attempt| &attempt.proposal).filter(|p| p.call == call).cloned();
        if waiting.is_none() {
            self.say("other code waits now, or none: nothing was decided");
        }
        waiting
    }

    pub(super) fn reject(&mut self, call: &str, reason: Option<String>) {
        let Some(Proposal { step, attempt, call, .. }) = self.waiting_for(call) else {
            if let Some(reason) = reason {
                // It may be wanted for the other.
                self.composer.paste(&reason);
            }
            return;
        };
        self.withdraw();
        self.focus = Focus::Text;
        self.send(Command::Reject { step, attempt, call, reason });
    }

    pub(super) fn limit(&mut self, call: &str, typed: &str) {
        let Some(Proposal { step, attempt, call, .. }) = self.waiting_for(call) else { return };
        match typed.trim().parse() {
            Ok(timeout_seconds @ 1..=MAX_SECONDS) => {
                self.send(Command::Amend { step, attempt, call, timeout_seconds });
                self.pose_back();
            }
            Ok(_) | Err(_) => self.say(format!("a time limit is a number of seconds from 1 to {MAX_SECONDS}")),
        }
    }

    /// Whether what is proposed now runs without asking: the terms are those it was allowed for.
    pub(super) fn runs_by_itself(&self, terms: &Terms) -> bool {
        self.run_all.as_ref() == Some(terms) && self.may_run_all()
    }
}

/// Who approves where everything was approved beforehand.
pub(super) const RUN_ALL: &str = "run_all";

/// Longest time limit of a run, seconds: a day, as in the configuration.
const MAX_SECONDS: u64 = 86_400;
