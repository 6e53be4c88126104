//! What the task behind tells, in words, and what follows from it.

use tokio::time::Instant;

use super::{For, Talk};
use crate::core::clean::Clean;
use crate::core::command::{Answer, Update};
use crate::core::event::{Event, How, NoteKind, Record, TurnStatus};
use crate::core::show;
use crate::plain::ask::{Asking, model_lines};

/// Between code and the number of its line: a frame would be read aloud.
const SIGN: &str = "  ";

/// What happened before a session was continued.
#[derive(Debug, Default)]
pub(super) struct Past {
    questions: u64,
    last: String,
}

impl Talk {
    /// The task behind says something.
    pub fn told(&mut self, update: Update, now: Instant) {
        self.now = now;
        match update {
            Update::Records(records) => {
                let begins = matches!(records.as_slice(), [only] if matches!(only.event, Event::SessionResumed(_)));
                if begins {
                    self.tell_past();
                }
                for record in &records {
                    self.record(record);
                }
            }
            Update::Past(records) => records.iter().for_each(|record| self.record(record)),
            Update::Starting(text) => {
                self.waiting.begin(&text, now);
                self.say(&format!("· {}\n", Clean::line(&text)));
            }
            Update::Unsandboxed { failure } => {
                // Its remedy is a flag of `exec`; here the person is asked.
                self.say(&show::failure_lines(&failure.to_string(), ""));
                self.asking = Some(Asking::Unsandboxed);
            }
            Update::StartFailed { failure, models } => {
                self.say(&show::failure_lines(&failure.to_string(), &failure.hint));
                self.say(&model_lines(&models));
                self.asking = Some(Asking::StartFailed(failure, models));
            }
            Update::AskRebuild { cells, terms } => {
                self.say("\nThis code ran well earlier in the session:\n");
                for (step, code) in &cells {
                    self.say(&format!("step {step}\n{}", show::numbered(code, SIGN)));
                }
                self.asking = Some(Asking::Rebuild { cells, terms });
            }
            Update::Reply(id, answer) => {
                if let Some(purpose) = self.waits_for.remove(&id) {
                    self.replied(purpose, answer);
                    // It may have been the last that was waited for.
                    self.asked &= !self.silent;
                }
            }
            // A session that is live is told once and has no position.
            Update::Reset | Update::Position(_) | Update::Ended => {}
        }
    }

    fn record(&mut self, record: &Record) {
        let event = &record.event;
        // What is to be done is done by the driver; here the state alone is of interest.
        drop(self.session.step(event));
        self.note(event);
        if let Some(past) = &mut self.past {
            match event {
                Event::UserSaid { .. } => {
                    past.questions += 1;
                    past.last = show::event(event, true);
                }
                Event::TurnEnded { .. } => past.last.push_str(&show::event(event, true)),
                _ => {}
            }
            return;
        }
        self.waiting.record(event, self.now);
        let text = self.text(event);
        self.say(&text);
        self.after(event);
    }

    /// What is remembered of a fact, past or present.
    fn note(&mut self, event: &Event) {
        match event {
            Event::UserSaid { text } => {
                self.content = true;
                self.last_question.clone_from(text);
            }
            Event::CodeProposed(proposal) => {
                self.content = true;
                self.edited = None;
                self.last_code.clone_from(&proposal.code);
            }
            Event::CodeApproved { edited: Some(edited), .. } => self.last_code.clone_from(edited),
            Event::RunFinished(finished) => self.made_files |= !finished.artifacts.is_empty(),
            _ => {}
        }
    }

    /// A fact in words.
    fn text(&mut self, event: &Event) -> String {
        match event {
            Event::UserSaid { .. } if std::mem::take(&mut self.echoed) => String::new(),
            Event::CodeProposed(proposal) => {
                let attempt =
                    if proposal.attempt > 1 { format!(", attempt {}", proposal.attempt) } else { String::new() };
                let code = show::numbered(&proposal.code, SIGN);
                let lines = code.lines().count();
                let lines = if lines == 1 { "1 line".to_string() } else { format!("{lines} lines") };
                let how = match proposal.how {
                    How::Recovered => ", recovered from a broken call",
                    How::User => ", your own",
                    How::Call | How::Fence => "",
                };
                let head = format!("\nCode, step {}{attempt}, {lines}{how}:\n", proposal.step);
                head + &code
            }
            // Its difference was printed before it was approved.
            Event::CodeApproved { edited: Some(_), .. } => "approved as edited\n".into(),
            Event::RunOutput { stream, text, dropped, .. } => self.output.text(*stream, text, *dropped),
            Event::RunFinished(_) => {
                let id = self.session.info().map(|info| Clean::line(&info.id).into_string()).unwrap_or_default();
                self.output.end(&id) + &show::event(event, true)
            }
            Event::Note { kind: NoteKind::Progress, text } if !self.waiting.takes_note(text, self.now) => String::new(),
            Event::Note { .. } => show::event(event, false),
            event => show::event(event, true),
        }
    }

    /// What follows from a fact.
    fn after(&mut self, event: &Event) {
        match event {
            Event::SessionStarted(_) | Event::SessionResumed(_) => {
                self.live = true;
                self.asking = None;
                self.sent = false;
                self.waiting.end();
            }
            // Inputs are the last to be told before the session is there, but for the question about earlier cells.
            Event::InputsListed { .. } => self.next_in_queue(),
            Event::UserSaid { .. }
            | Event::CodeProposed(_)
            | Event::CodeApproved { .. }
            | Event::CodeRejected { .. }
            | Event::TermsChanged { .. }
            | Event::RebuildDecided { .. } => self.sent = false,
            Event::TurnEnded { status, .. } => {
                self.sent = false;
                self.turn_ended(*status);
            }
            _ => {}
        }
        let waits = self.session.proposal().is_some();
        match &self.asking {
            None if waits => self.asking = Some(Asking::Approval),
            Some(Asking::Approval) if !waits => {
                self.asking = None;
                self.shown = None;
            }
            None | Some(_) => {}
        }
        // After a rebuild, or a question about one.
        self.next_in_queue();
    }

    fn turn_ended(&mut self, status: TurnStatus) {
        self.asking.take_if(|a| matches!(a, Asking::Approval));
        match status {
            TurnStatus::Answered | TurnStatus::StepLimit => {}
            TurnStatus::Failed
            | TurnStatus::Rejected
            | TurnStatus::Stopped
            | TurnStatus::ModelError
            | TurnStatus::SandboxError => {
                // What was to come next may not fit any more.
                if !self.queue.is_empty() {
                    self.held.extend(self.queue.drain(..));
                    self.say("What you typed meanwhile is not sent. /send sends it now, /drop forgets it.\n");
                }
            }
        }
        if status == TurnStatus::Failed && self.session.repairable().is_some() {
            self.say("Write a hint for the model, or /retry, /edit to repair the code yourself, /model NAME.\n");
        }
    }

    fn tell_past(&mut self) {
        let Some(past) = self.past.take() else { return };
        if past.questions > 1 {
            let id = self.session.info().map(|info| Clean::line(&info.id).into_string()).unwrap_or_default();
            let earlier = past.questions - 1;
            let many = if earlier == 1 { "question" } else { "questions" };
            self.say(&format!("{earlier} earlier {many}: sandscript --plain replay {id}\n"));
        }
        self.say(&past.last);
    }

    fn replied(&mut self, purpose: For, answer: Answer) {
        match (purpose, answer) {
            (For::Nothing, _) => {}
            (For::Check(call), Answer::Compiled(error)) => self.checked(&call, error),
            // The sandbox could not say; it will when the code runs.
            (For::Check(_), _) => {}
            (For::Word, Answer::Done(text)) => self.say(&format!("{}\n", Clean::text(&text))),
            (For::Word, Answer::Models(names)) => {
                let lines = model_lines(&names);
                self.say(if lines.is_empty() { "the server names no models\n" } else { &lines });
            }
            (For::Word, Answer::Failed(failure)) => {
                self.say(&show::failure_lines(&failure.to_string(), &failure.hint));
            }
            (For::Word, Answer::Compiled(_) | Answer::Blob(_) | Answer::Sessions(_) | Answer::History(_)) => {}
        }
    }
}
