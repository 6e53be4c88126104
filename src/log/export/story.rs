//! A log as what a reader wants of it: questions, code with its fate and its output, answers.

use std::path::Path;

use super::{Entries, known};
use crate::core::clean::Clean;
use crate::core::event::{
    Event, Failure, NoteKind, Outcome, Proposal, Reply, ResultBundle, RunFinished, SessionInfo, StreamName, TurnStatus,
};
use crate::core::render::limit_note;

/// Parts looked back for the code a record speaks of. It stands among the last calls of one reply; a log from elsewhere that
/// speaks of code it never had must not cost the square of its length.
const LOOK_BACK: usize = 1000;

/// Reasons that are told for several Pythons; who reads on knows enough.
const MAX_RESTARTS: usize = 8;

/// A session, in order.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// What held at its start, or since it was last continued.
    pub(super) info: Option<SessionInfo>,
    /// Title the person gave, or the first question.
    pub(super) title: Clean,
    /// Names of the input files.
    pub(super) inputs: Vec<String>,
    /// What happened.
    pub(super) parts: Vec<Part>,
    /// Why the code did not run in one Python from the first piece to the last, one reason each.
    pub(super) restarts: Vec<String>,
    /// What is wrong with the log.
    pub(super) warnings: Vec<String>,
}

/// A part of a session.
#[derive(Debug)]
pub(super) enum Part {
    /// The person's words.
    Question(String),
    /// The model's words beside its code.
    Words(String),
    /// Code.
    Cell(Box<Cell>),
    /// The end of a turn.
    Answer {
        /// How it ended.
        status: TurnStatus,
        /// The model's words.
        text: String,
        /// A failed step was left.
        unrepaired: bool,
    },
    /// The model or the sandbox failed.
    Failed(Failure),
    /// Something a reader should know.
    Note(String),
}

/// A piece of code.
#[derive(Debug)]
pub(super) struct Cell {
    /// As it was proposed.
    pub(super) proposal: Proposal,
    /// As the person changed it.
    pub(super) edited: Option<String>,
    /// What became of it.
    pub(super) fate: Fate,
    /// What it printed and produced, in order.
    pub(super) shown: Vec<Shown>,
    /// What a limit did to it, in words.
    pub(super) limit: Option<String>,
}

/// What became of code.
#[derive(Debug)]
pub(super) enum Fate {
    /// Nobody said anything to it.
    Waiting,
    /// It may not run.
    Rejected(Option<String>),
    /// It may run, and nothing is known of a run.
    Approved,
    /// It began to run, and its end is not known.
    Begun,
    /// It ran.
    Finished(Box<RunFinished>),
}

/// Something to see of a run.
#[derive(Debug)]
pub(super) enum Shown {
    /// Text, of which control sequences are colours at most once it went through a sanitizer.
    Text(StreamName, String),
    /// A value.
    Value(ResultBundle),
}

impl Cell {
    /// It may be approved: it was not yet, or the sandbox could not run it and it is asked once more.
    fn waits(&self) -> bool {
        match &self.fate {
            Fate::Waiting => true,
            Fate::Finished(end) => {
                matches!(end.outcome, Outcome::SetupFailed { .. } | Outcome::BackendLost { .. })
            }
            Fate::Approved | Fate::Begun | Fate::Rejected(_) => false,
        }
    }

    /// The text that was approved, or is proposed.
    pub(super) fn code(&self) -> &str {
        self.edited.as_deref().unwrap_or(&self.proposal.code)
    }

    /// How it ran.
    pub(super) fn finished(&self) -> Option<&RunFinished> {
        match &self.fate {
            Fate::Finished(finished) => Some(finished),
            Fate::Waiting | Fate::Rejected(_) | Fate::Approved | Fate::Begun => None,
        }
    }

    /// Step and attempt, and what became of it, on one line.
    pub(super) fn headline(&self) -> String {
        let fate = match &self.fate {
            Fate::Waiting => "not run".into(),
            Fate::Rejected(None) => "rejected, not run".into(),
            Fate::Rejected(Some(reason)) => format!("rejected, not run: {}", Clean::line(reason)),
            Fate::Approved => "approved, not run".into(),
            Fate::Begun => "interrupted by a crash".into(),
            Fate::Finished(finished) => {
                let limit = self.limit.as_ref().map(|l| format!(" · {}", Clean::line(l))).unwrap_or_default();
                format!("exit {} · {:.2} s{limit}", finished.exit_code, finished.took_ms as f64 / 1000.0)
            }
        };
        let edited = if self.edited.is_some() { " · edited by the user" } else { "" };
        format!("step {} · attempt {}{edited} · {fate}", self.proposal.step, self.proposal.attempt)
    }

    fn add_text(&mut self, stream: StreamName, text: &str, dropped: u64) {
        let hole = if dropped > 0 { format!("\n[… {dropped} bytes left out …]\n") } else { String::new() };
        match self.shown.last_mut() {
            Some(Shown::Text(last, all)) if *last == stream => {
                all.push_str(&hole);
                all.push_str(text);
            }
            Some(Shown::Text(..) | Shown::Value(_)) | None => {
                self.shown.push(Shown::Text(stream, format!("{}{text}", hole.trim_start())));
            }
        }
    }
}

impl Story {
    /// Reads a log.
    pub(super) fn read(session: &Path) -> Result<Self, Failure> {
        let mut entries = Entries::open(session)?;
        let mut teller = Teller::default();
        for record in entries.by_ref().filter_map(known) {
            teller.follow(record.event);
        }
        let mut story = teller.story;
        story.warnings = entries.finish()?;
        story.title = super::super::care::title(session).unwrap_or_else(|| story.first_question());
        Ok(story)
    }

    fn first_question(&self) -> Clean {
        let question =
            |part: &Part| if let Part::Question(text) = part { Some(super::list::title(text)) } else { None };
        self.parts.iter().find_map(question).unwrap_or_else(|| Clean::line("A session without a question"))
    }

    /// The code, in order.
    pub(super) fn cells(&self) -> impl DoubleEndedIterator<Item = &Cell> {
        self.parts.iter().filter_map(|part| if let Part::Cell(cell) = part { Some(&**cell) } else { None })
    }

    /// Where the session came from, one line, in Markdown.
    pub(super) fn origin(&self) -> String {
        let Some(info) = &self.info else { return "A session of sandscript.".into() };
        let started: String = info.started.chars().take("2026-11-30T20:05".len()).collect();
        let [id, model] = [&info.id, &info.model].map(|text| super::prose::literal(text));
        let started = super::prose::literal(&started.replace('T', " "));
        format!("Session {id} of sandscript, {started} UTC, model {model}.")
    }
}

/// Where the reading of a log stands.
#[derive(Debug, Default)]
struct Teller {
    story: Story,
    /// Place of the cell that runs.
    running: Option<usize>,
    ended: bool,
}

impl Teller {
    fn follow(&mut self, event: Event) {
        if std::mem::take(&mut self.ended) || matches!(event, Event::SessionResumed(_)) {
            self.restart("it was continued later".into());
        }
        match event {
            Event::SessionStarted(info) => self.story.info = Some(*info),
            Event::InputsListed { names, .. } => self.story.inputs = names,
            Event::UserSaid { text } => self.story.parts.push(Part::Question(text)),
            Event::ModelReplied(reply) => self.replied(*reply),
            Event::ModelFailed(failed) => self.story.parts.push(Part::Failed(failed.failure)),
            Event::SandboxFailed { failure } => self.story.parts.push(Part::Failed(failure)),
            Event::CodeProposed(proposal) => self.proposed(proposal),
            Event::CodeApproved { step, attempt, call, edited, .. } => {
                if let Some(cell) = self.waiting((step, attempt, &call)) {
                    (cell.fate, cell.edited) = (Fate::Approved, edited);
                }
            }
            Event::CodeRejected { step, attempt, call, reason } => {
                if let Some(cell) = self.waiting((step, attempt, &call)) {
                    cell.fate = Fate::Rejected(reason);
                }
            }
            Event::RunStarted { step, attempt, .. } => self.started(step, attempt),
            Event::RunOutput { step, stream, text, dropped } => {
                if let Some(cell) = self.cell_of_run(step) {
                    cell.add_text(stream, &text, dropped);
                }
            }
            Event::RunResult { step, result } => {
                if let Some(cell) = self.cell_of_run(step) {
                    cell.shown.push(Shown::Value(result));
                }
            }
            Event::RunFinished(finished) => self.finished(finished),
            Event::TurnEnded { status, answer, unrepaired } => {
                // Where the model gave no answer it may say what was just said.
                let told = matches!(self.story.parts.last(), Some(Part::Failed(last)) if last.to_string() == answer);
                let text = if told { String::new() } else { answer };
                self.story.parts.push(Part::Answer { status, text, unrepaired });
            }
            Event::Note { kind, text } => self.noted(kind, text),
            Event::SessionEnded { .. } => self.ended = true,
            Event::ModelDelta { .. }
            | Event::ArtifactSaved { .. }
            | Event::SessionResumed(_)
            | Event::TermsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::RebuildDecided { .. } => {}
        }
    }

    fn replied(&mut self, reply: Reply) {
        // Words without code come again as the answer.
        if !reply.calls.is_empty() && !reply.text.trim().is_empty() {
            self.story.parts.push(Part::Words(reply.text));
        }
    }

    fn proposed(&mut self, proposal: Proposal) {
        let cell = Cell { proposal, edited: None, fate: Fate::Waiting, shown: Vec::new(), limit: None };
        self.story.parts.push(Part::Cell(Box::new(cell)));
    }

    /// The newest cell of which `is` holds.
    fn newest(&self, is: impl Fn(&Cell) -> bool) -> Option<usize> {
        let last = self.story.parts.iter().enumerate().rev().take(LOOK_BACK);
        last.filter(|(_, part)| matches!(part, Part::Cell(cell) if is(cell))).map(|(at, _)| at).next()
    }

    fn cell(&mut self, at: Option<usize>) -> Option<&mut Cell> {
        match self.story.parts.get_mut(at?) {
            Some(Part::Cell(cell)) => Some(cell),
            Some(Part::Question(_) | Part::Words(_) | Part::Answer { .. } | Part::Failed(_) | Part::Note(_)) | None => {
                None
            }
        }
    }

    fn waiting(&mut self, of: (u32, u32, &str)) -> Option<&mut Cell> {
        let at = self.newest(|cell| cell.waits() && cell.proposal.is(of));
        self.cell(at)
    }

    fn approved(&self, step: u32, attempt: u32) -> Option<usize> {
        let is = |cell: &Cell| cell.proposal.step == step && cell.proposal.attempt == attempt;
        self.newest(|cell| is(cell) && matches!(cell.fate, Fate::Approved))
    }

    fn started(&mut self, step: u32, attempt: u32) {
        self.running = self.approved(step, attempt);
        match self.cell(self.running) {
            Some(cell) => cell.fate = Fate::Begun,
            // Known code that runs again has its variables rebuilt; what it prints was seen the first time.
            None => self.restart("variables were rebuilt by running code again".into()),
        }
    }

    fn cell_of_run(&mut self, step: u32) -> Option<&mut Cell> {
        self.cell(self.running).filter(|cell| cell.proposal.step == step)
    }

    fn finished(&mut self, finished: Box<RunFinished>) {
        let at = self.running.take().or_else(|| self.approved(finished.step, finished.attempt));
        if finished.variables_lost {
            self.restart(format!("variables were lost at step {}", finished.step));
        }
        let policy = self.story.info.as_ref().map(|info| info.policy.clone()).unwrap_or_default();
        let Some(cell) = self.cell(at).filter(|cell| cell.proposal.step == finished.step) else { return };
        cell.limit = limit_note(&finished.outcome, &policy, cell.proposal.terms.timeout_seconds);
        cell.fate = Fate::Finished(finished);
    }

    fn restart(&mut self, reason: String) {
        if self.story.restarts.len() < MAX_RESTARTS && !self.story.restarts.contains(&reason) {
            self.story.restarts.push(reason);
        }
    }

    fn noted(&mut self, kind: NoteKind, text: String) {
        match kind {
            NoteKind::Warning | NoteKind::PackagesMissing => self.story.parts.push(Part::Note(text)),
            NoteKind::Progress | NoteKind::Reask | NoteKind::TextMode | NoteKind::Trimmed | NoteKind::Recovery => {}
        }
    }
}

/// The story of some events.
#[cfg(test)]
pub(super) fn of_events(events: impl IntoIterator<Item = Event>) -> Story {
    let mut teller = Teller::default();
    events.into_iter().for_each(|event| teller.follow(event));
    teller.story
}
