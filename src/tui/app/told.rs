//! What the task behind the screen says.

use super::ask::Asking;
use super::overlay::{Item, Kind, Overlay, session_item};
use super::{App, Focus, For, LONG_TURN};
use crate::core::clean::Clean;
use crate::core::command::{Answer, Command, Question, Update};
use crate::core::event::{Event, How, Record, TurnStatus};
use crate::tui::lines::Lines;
use crate::tui::output::pager::Pager;
use crate::tui::story::Story;

impl App {
    pub(super) fn told(&mut self, update: Update) {
        match update {
            Update::Records(records) => {
                for record in &records {
                    self.record(record);
                }
            }
            Update::Past(records) => {
                for record in &records {
                    self.story.fold(record);
                }
                self.heard = self.now;
                self.offer_words();
            }
            Update::Reset => {
                self.story = Story::default();
                self.story.chat.end();
                self.code.pinned = None;
                // Other attempts may come to have the same numbers.
                self.forget_edit();
            }
            Update::Starting(text) => self.starting = Some(text),
            Update::Unsandboxed { failure } => {
                self.starting = None;
                self.pose(Asking::Unsandboxed(failure));
            }
            Update::StartFailed { failure, .. } if self.replay => {
                let text = Clean::text(&format!("{failure}\n{}", failure.hint));
                let lines = text.as_str().lines().map(|l| l.to_string().into()).collect();
                self.overlay = Some(Overlay::Lines { title: "This cannot be played".into(), lines: Lines::new(lines) });
            }
            Update::StartFailed { failure, models } => {
                self.starting = None;
                self.pose(Asking::StartFailed(failure));
                if !models.is_empty() && self.overlay.is_none() {
                    self.overlay = Some(Overlay::models());
                    self.fill_picker(Kind::Models, models.into_iter().map(model_item).collect());
                }
            }
            Update::AskRebuild { cells, terms } => {
                let mut lines = Vec::new();
                for (step, code) in &cells {
                    lines.push(ratatui::text::Line::styled(
                        format!("step {step}"),
                        self.theme.style(crate::tui::theme::Role::Title),
                    ));
                    lines.extend(Clean::code(code).as_str().lines().map(|l| format!("  {l}").into()));
                }
                self.pose(Asking::Rebuild { lines: Box::new(Lines::new(lines)), cells, terms });
            }
            Update::Position(position) => {
                if self.position.is_none() && !position.warnings.is_empty() {
                    self.say(position.warnings.join(" · "));
                }
                if position.at >= position.total {
                    self.story.cut_off();
                }
                self.position = Some(position);
            }
            Update::Reply(id, answer) => {
                if let Some(purpose) = self.waiting.remove(&id) {
                    self.replied(purpose, answer);
                }
            }
            Update::Ended => {
                self.ended = true;
                self.starting = None;
                if self.asking.is_none() && self.overlay.is_none() {
                    self.say("the session has ended; /quit or Ctrl-D leaves");
                }
            }
        }
    }

    fn record(&mut self, record: &Record) {
        let waited = self.story.waiting().map(|a| a.proposal.call.clone());
        self.story.fold(record);
        self.heard = self.now;
        if self.replay {
            return;
        }
        match &record.event {
            Event::SessionStarted(_) | Event::SessionResumed(_) => {
                self.starting = None;
                self.asking.take_if(|a| matches!(a, Asking::StartFailed(_) | Asking::Unsandboxed(_)));
                // What allowed it may be gone.
                self.run_all = None;
            }
            Event::InputsListed { .. } => {
                self.run_all = None;
                self.offer_words();
                self.next_in_queue();
            }
            Event::UserSaid { .. } => {
                self.turn_began = Some(self.now);
                self.story.chat.end();
                self.asking.take_if(|a| matches!(a, Asking::Failed));
            }
            Event::CodeProposed(proposal) => {
                self.turn_began.get_or_insert(self.now);
                self.forget_edit();
                self.code.pinned = None;
                if proposal.how == How::User {
                    self.ask(Question::Compile(proposal.code.clone()), For::Check(proposal.call.clone()));
                }
                if self.runs_by_itself(&proposal.terms.clone()) {
                    self.approve(super::ask::RUN_ALL);
                } else {
                    self.run_all = None;
                    self.pose(Asking::Approval);
                    self.notify("sandscript: code waits for your approval");
                }
            }
            Event::TurnEnded { status, .. } => self.turn_ended(*status),
            Event::RunFinished(_) if self.story.stalled.is_some() => {
                self.pose(Asking::Approval);
            }
            // The last cell that ran again, or none does.
            Event::RunFinished(_) | Event::RebuildDecided { .. } => self.next_in_queue(),
            Event::ModelDelta { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::CodeApproved { .. }
            | Event::TermsChanged { .. }
            | Event::CodeRejected { .. }
            | Event::RunStarted { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::SandboxFailed { .. }
            | Event::ArtifactSaved { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::Note { .. }
            | Event::SessionEnded { .. } => {}
        }
        let waits = self.story.waiting().map(|a| a.proposal.call.clone());
        if waits.is_none() && waited.is_some() && matches!(self.asking, Some(Asking::Approval)) {
            self.withdraw();
        }
    }

    fn turn_ended(&mut self, status: TurnStatus) {
        // What was said of the turn is over with it.
        self.remark = None;
        self.editing.take_if(|e| matches!(e.purpose, super::panes::EditFor::Proposal(_)));
        self.asking.take_if(|a| matches!(a, Asking::Approval));
        if self.focus != Focus::Text && self.editing.is_none() && self.composer.is_empty() {
            self.focus = Focus::Text;
        }
        // One that was cut off in an earlier part of the session is over already.
        let Some(began) = self.turn_began.take() else { return self.next_in_queue() };
        if self.now - began >= LONG_TURN {
            self.notify("sandscript: the turn is over");
        }
        match status {
            TurnStatus::Answered | TurnStatus::StepLimit => self.next_in_queue(),
            TurnStatus::Failed
            | TurnStatus::Rejected
            | TurnStatus::Stopped
            | TurnStatus::ModelError
            | TurnStatus::SandboxError => {
                // What was to come next may not fit any more: it is given back.
                let queued: Vec<String> = self.queue.drain(..).collect();
                if !queued.is_empty() {
                    let draft = Some(self.composer.text()).filter(|draft| !draft.is_empty());
                    self.composer.set_text(&queued.into_iter().chain(draft).collect::<Vec<_>>().join("\n"));
                }
                if status == TurnStatus::Failed && self.story.session.repairable().is_some() {
                    self.pose(Asking::Failed);
                }
            }
        }
    }

    /// The person says something; what goes on is not disturbed by it.
    pub(super) fn say_to_model(&mut self, text: String) {
        self.queue.push_back(text);
        self.next_in_queue();
    }

    /// Sends what waits, if nothing goes on.
    pub(super) fn next_in_queue(&mut self) {
        let free = self.session_id().is_some()
            // A session that goes on is read first.
            && self.starting.is_none()
            && !self.story.session.in_turn()
            && !self.is_busy()
            && self.story.session.rebuildable().is_empty()
            && !self.story.session.is_rebuilding()
            && !self.ended;
        if let Some(text) = free.then(|| self.queue.pop_front()).flatten() {
            // Until the record comes, nothing else is sent.
            self.story.activity = crate::tui::story::Activity::Model(self.now_ms());
            self.asking.take_if(|a| matches!(a, Asking::Failed));
            self.send(Command::Say(text));
        }
    }

    fn replied(&mut self, purpose: For, answer: Answer) {
        match (purpose, answer) {
            (For::Figure(hash), Answer::Blob(bytes)) => self.figures.bytes(&hash, bytes),
            (For::Figure(hash), Answer::Failed(failure)) => self.figures.failed(&hash, &failure.to_string()),
            (For::Pager(title), Answer::Blob(bytes)) => {
                self.overlay = Some(Overlay::Pager(Box::new(Pager::new(&title, bytes))));
            }
            (For::Check(call), Answer::Compiled(error)) => self.checked(&call, error),
            // The sandbox could not say; it will when the code runs.
            (For::Check(_), _) => {}
            (For::Models, Answer::Models(names)) => {
                self.fill_picker(Kind::Models, names.into_iter().map(model_item).collect());
            }
            (For::Sessions, Answer::Sessions(rows)) => {
                let current = self.session_id().map(str::to_string);
                let others = rows.into_iter().filter(|row| Some(&row.id) != current.as_ref());
                self.fill_picker(Kind::Sessions, others.map(session_item).collect());
            }
            (For::History, Answer::History(typed)) => self.composer.set_history(typed),
            (For::Word, Answer::Done(text)) => self.say(text),
            (For::Nothing, _) => {}
            (_, Answer::Failed(failure)) => {
                self.overlay.take_if(|o| matches!(o, Overlay::Picker(p) if p.loading));
                self.say_failure(&failure);
            }
            (
                For::Figure(_) | For::Pager(_) | For::Models | For::Sessions | For::History | For::Word,
                Answer::Models(_)
                | Answer::Compiled(_)
                | Answer::Blob(_)
                | Answer::Sessions(_)
                | Answer::History(_)
                | Answer::Done(_),
            ) => {}
        }
    }
}

fn model_item(name: String) -> Item {
    Item { text: Clean::line(&name), detail: Clean::default(), id: name }
}
