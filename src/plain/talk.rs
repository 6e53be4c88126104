//! The conversation as lines: what was told and typed goes in, what is printed and what is to be done comes out. Knows the
//! time only as it is told, and does nothing itself.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::core::clean::Clean;
use crate::core::command::{Command, Question as Asked};
use crate::core::event::{Failure, Proposal};
use crate::core::session::Session;
use crate::core::show;

use super::ask::{Asking, short};
use super::output::Output;
use super::printable;
use super::slash::RUN;
use super::typed::Block;
use super::waiting::Waiting;

/// Quiet after a question was printed: what arrives before was typed before it was read.
const QUIET: Duration = Duration::from_millis(300);

/// The person is asked when nothing was printed for this long, so that the question is the last line and is read once.
const SETTLED: Duration = Duration::from_millis(50);

/// A second Ctrl-C quits within this time.
const QUIT: Duration = Duration::from_secs(2);

mod told;

use told::Past;

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Action {
    /// Tell the task behind.
    Send(Command),
    /// Give a text to the person's editor.
    Edit {
        /// The text.
        text: String,
        /// What becomes of it.
        purpose: EditFor,
    },
    /// The person is done.
    Quit,
}

/// What becomes of an edited text.
#[derive(Debug, Clone, PartialEq)]
pub enum EditFor {
    /// It runs in place of what is proposed, if the person says so.
    Proposal {
        /// Whose code it is.
        call: String,
        /// As the model wrote it.
        code: String,
    },
    /// It is proposed: code of the person's own, and the step it repairs.
    Own(Option<u32>),
}

/// What a reply of the task behind is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum For {
    /// The compile check of the edited code of this call.
    Check(String),
    /// A list of models, or a line, to be printed.
    Word,
    /// Nobody waits for it.
    Nothing,
}

/// How the conversation begins.
#[derive(Debug, Default)]
pub struct Begin {
    /// The first question.
    pub prompt: Option<String>,
    /// An earlier session goes on: what is past is told in short.
    pub resumes: bool,
    /// Lines are typed at a terminal, which echoes them.
    pub terminal: bool,
    /// A line now and then while the person waits.
    pub motion: bool,
}

/// The conversation.
#[derive(Debug)]
pub struct Talk {
    pub(super) session: Session,
    pub(super) asking: Option<Asking>,
    /// The proposal as the last question showed it.
    pub(super) shown: Option<Proposal>,
    /// What the person made of the code of a call.
    pub(super) edited: Option<(String, String)>,
    /// Texts that go to the model one after the other, as soon as it is their turn.
    pub(super) queue: VecDeque<String>,
    /// Texts that were typed and not sent, until the person says what becomes of them.
    pub(super) held: Vec<String>,
    /// An order was given whose fact has not come yet.
    pub(super) sent: bool,
    pub(super) unsandboxed: bool,
    /// The last question of the person, and the code that was proposed last.
    pub(super) last_question: String,
    pub(super) last_code: String,
    /// The code made files.
    pub(super) made_files: bool,
    pub(super) waiting: Waiting,
    pub(super) actions: Vec<Action>,
    pub(super) now: Instant,
    waits_for: BTreeMap<u64, For>,
    next_ask: u64,
    output: Output,
    past: Option<Past>,
    terminal: bool,
    motion: bool,
    /// The session began.
    live: bool,
    /// Somebody said something.
    content: bool,
    /// The text that is sent stands on the terminal already.
    echoed: bool,
    /// Nothing more will be typed.
    silent: bool,
    quit_until: Option<Instant>,
    /// To be printed.
    out: String,
    /// The prompt or the question is what was printed last.
    asked: bool,
    /// The last line has no end, so that the person types behind it.
    open_line: bool,
    printed_at: Instant,
    /// When the question takes answers: not before it was printed.
    opens: Option<Instant>,
}

impl Talk {
    /// A conversation before its first word.
    pub fn new(begin: Begin, now: Instant) -> Self {
        Self {
            session: Session::default(),
            asking: None,
            shown: None,
            edited: None,
            queue: begin.prompt.into_iter().collect(),
            held: Vec::new(),
            sent: false,
            unsandboxed: false,
            last_question: String::new(),
            last_code: String::new(),
            made_files: false,
            waiting: Waiting::default(),
            actions: Vec::new(),
            now,
            waits_for: BTreeMap::new(),
            next_ask: 0,
            output: Output::default(),
            past: begin.resumes.then(Past::default),
            terminal: begin.terminal,
            motion: begin.motion,
            live: false,
            content: false,
            echoed: false,
            silent: false,
            quit_until: None,
            out: String::new(),
            asked: false,
            open_line: false,
            printed_at: now,
            opens: None,
        }
    }

    /// The session, and whether anything was said in it.
    pub fn session_id(&self) -> Option<(&str, bool)> {
        self.session.info().map(|info| (info.id.as_str(), self.content))
    }

    /// The last line.
    pub fn farewell(&mut self) {
        let id = self.session_id().filter(|(_, content)| *content).map(|(id, _)| Clean::line(id).into_string());
        match id {
            Some(id) => self.say(&format!("go on with: sandscript --plain resume {id}\n")),
            // The prompt is left behind.
            None if std::mem::take(&mut self.open_line) => self.out.push('\n'),
            None => {}
        }
    }

    // ---- what is printed and done ------------------------------------------------------------------------------------

    /// Prints whole lines.
    pub(super) fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.open_line) {
            self.out.push('\n');
        }
        self.out.push_str(&printable(text));
        self.asked = false;
        self.opens = None;
        self.printed_at = self.now;
    }

    /// Gives an order; until its fact comes, nothing else is said or asked.
    pub(super) fn order(&mut self, command: Command) {
        self.sent = true;
        self.opens = None;
        self.actions.push(Action::Send(command));
    }

    pub(super) fn ask(&mut self, question: Asked, purpose: For) {
        self.next_ask += 1;
        self.waits_for.insert(self.next_ask, purpose);
        self.actions.push(Action::Send(Command::Ask(self.next_ask, question)));
    }

    /// What is to be printed now, and whether a question is its end.
    pub fn take_printed(&mut self) -> Option<(String, bool)> {
        let is_question = self.asked && self.asking.is_some() && self.opens.is_none();
        (!self.out.is_empty()).then(|| (std::mem::take(&mut self.out), is_question))
    }

    /// What is to be done now.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The question that was taken last is on the person's side now.
    pub fn question_printed(&mut self, at: Instant) {
        if self.asked && self.asking.is_some() {
            self.opens = Some(at + QUIET);
        }
    }

    /// When [`tick`](Self::tick) is to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let ask = (!self.asked && self.is_persons_turn()).then(|| self.printed_at + SETTLED);
        let beat = self.waiting.deadline().filter(|_| self.motion);
        ask.into_iter().chain(beat).min()
    }

    /// Time passed.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        if self.motion
            && let Some(line) = self.waiting.beat(now)
        {
            self.say(&line);
        }
        if self.asked || !self.is_persons_turn() || now < self.printed_at + SETTLED {
            return;
        }
        self.waiting.end();
        if self.silent && self.waits_for.values().all(|purpose| *purpose == For::Nothing) {
            // Nobody is there to answer or to ask on.
            self.actions.push(Action::Quit);
        }
        let question = self.question();
        // Where nothing is asked and no terminal waits, a prompt says nothing.
        if let Some(text) = question.or_else(|| self.terminal.then(|| "> ".to_string())) {
            self.say(&text);
            self.open_line = self.terminal;
            if !self.terminal {
                self.out.push('\n');
            }
        }
        self.asked = true;
    }

    fn is_persons_turn(&self) -> bool {
        !self.sent && (self.asking.is_some() || (self.is_free() && self.queue.is_empty()))
    }

    /// Nothing goes on, so that something can be said to the model.
    pub(super) fn is_free(&self) -> bool {
        self.live && !self.sent && self.asking.is_none() && !self.is_busy() && self.session.rebuildable().is_empty()
    }

    /// Something goes on that can be stopped.
    pub(super) fn is_busy(&self) -> bool {
        self.session.in_turn() || self.session.is_rebuilding()
    }

    // ---- what is typed -----------------------------------------------------------------------------------------------

    /// A line was typed: the terminal is at the start of the next one.
    pub fn typed(&mut self) {
        self.open_line = false;
    }

    /// Lines that came together.
    pub fn block(&mut self, block: Block, now: Instant) {
        self.now = now;
        // What is answered was printed; whatever comes of it, it is printed anew before it can be answered again.
        let early = self.opens.take().is_none_or(|opens| block.first_at < opens);
        self.asked = false;
        self.printed_at = now;
        let Block { text, lines, .. } = block;
        let alone = text.trim();
        if alone.is_empty() {
            return self.nothing_typed();
        }
        if let Some(command) = text.strip_prefix('/') {
            return self.slash(command.trim_end());
        }
        match self.asking.clone() {
            Some(_) if !early && lines == 1 => self.answer(alone),
            Some(asking) if !early => self.no_answer(&asking, &text),
            Some(_) => self.message(text, "That was typed before the question, so it is no answer. "),
            None => {
                // The terminal shows what was typed; a screen reader need not read it twice.
                self.echoed = self.terminal && self.is_free() && self.queue.is_empty();
                self.message(text, "");
            }
        }
    }

    /// A line was left out.
    pub fn too_long(&mut self) {
        self.say("A line longer than 1 MiB was left out.\n");
    }

    /// Nothing more will be typed.
    pub fn end_of_input(&mut self) {
        if self.terminal {
            self.actions.push(Action::Quit);
        }
        // What was piped in is still answered.
        self.silent = true;
        self.asked = false;
    }

    pub(super) fn message(&mut self, text: String, why: &str) {
        self.ask(Asked::Remember(text.clone()), For::Nothing);
        if !self.is_free() || !self.queue.is_empty() {
            self.say(&format!("{why}Queued as your next message: {}\n", short(&text)));
        }
        self.queue.push_back(text);
        self.next_in_queue();
    }

    /// Sends what waits, if nothing goes on.
    pub(super) fn next_in_queue(&mut self) {
        if let Some(text) = self.is_free().then(|| self.queue.pop_front()).flatten() {
            self.order(Command::Say(text));
        }
    }

    /// Ctrl-C.
    pub fn interrupt(&mut self, now: Instant) {
        self.now = now;
        if self.quit_until.is_some_and(|until| now < until) {
            return self.actions.push(Action::Quit);
        }
        self.quit_until = Some(now + QUIT);
        if self.is_busy() {
            self.actions.push(Action::Send(Command::Interrupt));
            self.say("Stopping. Ctrl-C again within 2 s quits.\n");
        } else {
            self.say("Ctrl-C again within 2 s quits; so do /quit and Ctrl-D.\n");
        }
    }

    /// The person's editor was closed.
    pub fn editor_closed(&mut self, result: Result<String, Failure>, purpose: EditFor, now: Instant) {
        self.now = now;
        self.asked = false;
        self.printed_at = now;
        match (result, purpose) {
            (Err(failure), _) => self.say(&show::failure_lines(&failure.to_string(), &failure.hint)),
            (Ok(text), EditFor::Proposal { call, code }) => self.proposal_edited(call, &code, text),
            (Ok(text), EditFor::Own(_)) if text.trim().is_empty() => self.say("Nothing was written.\n"),
            (Ok(code), EditFor::Own(repairs)) => self.propose(code, repairs),
        }
    }

    /// Code of the person's own.
    pub(super) fn propose(&mut self, code: String, repairs: Option<u32>) {
        if self.is_free() {
            self.order(Command::Propose { code, repairs });
        } else {
            self.held.push(format!("{RUN}{code}"));
            self.say("Your code waits until the turn is over: then write /send\n");
        }
    }
}

#[cfg(test)]
mod tests;
