//! `--plain`: the conversation as lines that only ever follow one another, for screen readers and poor terminals. No boxes,
//! no colours, nothing that moves, no escape codes; what is typed are whole lines. A user interface like the screen, with
//! the same task behind it.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io::{self, IsTerminal};
use std::pin::Pin;
use std::time::Duration;

use nix::sys::signal::{self, kill};
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::backstage;
use crate::cli::{Common, Replay, Resume};
use crate::core::command::{Command, Update};
use crate::core::event::Failure;
use crate::error::{Error, Kind, Result};
use crate::log::list;
use crate::places::Places;
use crate::printer::Printer;
use crate::sessions;
use crate::start::{Keep, Starter};
use crate::tui::theme::{Theme, ThemeName};
use crate::tui::wrap::joined;
use crate::tui::{diff, external};

mod ask;
mod choose;
mod notices;
mod output;
mod slash;
mod talk;
mod typed;
mod waiting;

use choose::Chosen;
use notices::{Notice, Signals};
use talk::{Action, Begin, EditFor, Talk};
use typed::{Burst, Keyboard, Typed};

/// What a tab is printed as: how far it goes is the terminal's affair, and nothing but line feeds controls it here.
const TAB: &str = "    ";

/// How long what is left to print may take at the end, and before an editor takes the terminal.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long after an editor's end a Ctrl-C meant for it may still come: both get the signal.
const EDITOR_ECHO: Duration = Duration::from_millis(200);

/// `sandscript --plain [PROMPT]`.
pub async fn new(prompt: Option<&str>, common: &Common, places: &Places) -> Result<u8> {
    let starter = Starter::new(common, places)?;
    Front::new()?.run(Keep::New, prompt.map(str::to_string), starter, places).await
}

/// `sandscript --plain resume`.
pub async fn resume(args: &Resume, common: &Common, places: &Places) -> Result<u8> {
    let starter = Starter::new(common, places)?;
    let mut front = Front::new()?;
    let name = if args.last { Some("last") } else { args.session.as_deref() };
    let folder = match name {
        Some(name) => list::find(&places.data, name).map_err(|failure| Error { kind: Kind::Usage, failure })?,
        None => match front.choose(&places.data).await? {
            Chosen::Session(folder) => folder,
            Chosen::Left(code) => return Ok(code),
        },
    };
    front.run(Keep::Behind(folder), None, starter, places).await
}

/// `sandscript --plain replay`: prints what happened.
pub fn replay(args: &Replay, places: &Places) -> Result<u8> {
    let found = list::find_any(&places.data, &args.session);
    sessions::print(&found.map_err(|failure| Error { kind: Kind::Usage, failure })?, false).map(|()| 0)
}

/// Text as it may be printed: lines, and nothing that controls a terminal. All of it was cleaned before; this is the last
/// gate.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push(c),
            '\t' => out.push_str(TAB),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// What a person changed, as lines with `-` and `+`.
fn difference(old: &str, new: &str) -> String {
    let theme = Theme::new(ThemeName::Mono);
    diff::diff(old, new, theme).iter().map(|line| format!("{}\n", joined(line))).collect()
}

/// How it was left.
enum Left {
    Quit,
    Signal(i32),
}

/// Standard input, standard output and signals.
struct Front {
    keyboard: Keyboard,
    printer: Printer,
    signals: Signals,
    /// When an editor was closed.
    edited: Option<Instant>,
}

type Editing = Pin<Box<dyn Future<Output = std::result::Result<String, Failure>>>>;

/// What is between the person and the task behind.
struct Desk {
    talk: Talk,
    burst: Burst,
    orders: mpsc::Sender<Command>,
    /// Orders the task behind had no room for.
    outbox: VecDeque<Command>,
    /// Tells when the last question was printed.
    printed: Option<oneshot::Receiver<Instant>>,
    /// Command of the person's editor.
    editor: String,
    /// It has the terminal: its process, its end, and what becomes of the text.
    editing: Option<(Option<u32>, Editing, EditFor)>,
    left: Option<Left>,
}

/// What was waited for.
enum Happened {
    Notice(Notice),
    Typed(Typed),
    Update(Option<Update>),
    /// The question was printed.
    Printed(Option<Instant>),
    /// Something was printed, or an order was taken.
    Passed,
    Edited(std::result::Result<String, Failure>),
    Time,
}

impl Front {
    fn new() -> Result<Self> {
        let failed = |what: &str, e: io::Error| Error::new(Kind::Internal, what, e.to_string(), "");
        let signals = Signals::new().map_err(|e| failed("cannot listen for signals", e))?;
        let keyboard = Keyboard::start().map_err(|e| failed("cannot read standard input", e))?;
        Ok(Self { keyboard, printer: Printer::new(), signals, edited: None })
    }

    /// A conversation from its start to its end. The exit code.
    async fn run(mut self, keep: Keep, prompt: Option<String>, starter: Starter, places: &Places) -> Result<u8> {
        let (orders, commands) = mpsc::channel(backstage::CHANNEL);
        let (tell, mut updates) = mpsc::channel(backstage::CHANNEL);
        let session = if let Keep::Behind(folder) = &keep { Some(folder.clone()) } else { None };
        let begin = Begin {
            prompt,
            resumes: session.is_some(),
            terminal: io::stdin().is_terminal(),
            motion: starter.config().ui.motion,
        };
        let is_new = keep == Keep::New;
        let answers = backstage::desk(&starter, places, session);
        let variable = |name: &str| places.variable(name).map(str::to_string);
        let behind = tokio::spawn(backstage::live(starter, keep, answers, commands, tell));
        let mut desk = Desk {
            talk: Talk::new(begin, Instant::now()),
            burst: Burst::default(),
            orders,
            outbox: VecDeque::new(),
            printed: None,
            editor: external::command(variable("VISUAL"), variable("EDITOR")),
            editing: None,
            left: None,
        };
        let left = self.converse(&mut desk, &mut updates).await;
        let Desk { mut talk, orders, outbox, editing, .. } = desk;
        end_editor(editing).await;
        for command in outbox {
            // A task that takes no orders any more is ended by the end of the channel.
            let _ = orders.try_send(command);
        }
        let printer = &mut self.printer;
        let last_words = |update| {
            talk.told(update, Instant::now());
            printer.push(talk.take_printed().map(|(text, _)| text).unwrap_or_default());
        };
        backstage::wind_up(orders, &mut updates, behind, last_words).await;
        if let Some((id, false)) = talk.session_id().filter(|_| is_new) {
            backstage::forget(places, id);
        }
        talk.farewell();
        self.printer.push(talk.take_printed().map(|(text, _)| text).unwrap_or_default());
        // A reader that does not read must not hold the end up.
        if let Ok(Err(e)) = timeout(LAST_WORDS, self.printer.finish()).await {
            let hint = "nothing is lost: sandscript resume --last";
            return Err(Error::new(Kind::Internal, "cannot write to standard output", e.to_string(), hint));
        }
        Ok(match left? {
            Left::Quit => 0,
            Left::Signal(number) => exit_code(number),
        })
    }

    async fn converse(&mut self, desk: &mut Desk, updates: &mut mpsc::Receiver<Update>) -> Result<Left> {
        loop {
            for action in desk.talk.take_actions() {
                self.perform(desk, action).await;
            }
            // Where nobody reads any more, nobody is there.
            if self.printer.is_gone() {
                return Ok(Left::Quit);
            }
            if let Some(left) = desk.left.take() {
                return Ok(left);
            }
            self.print(desk);
            match self.wait(desk, updates).await {
                Happened::Notice(Notice::Interrupt) if desk.editing.is_some() || self.is_echo() => {}
                Happened::Notice(Notice::Interrupt) => desk.talk.interrupt(Instant::now()),
                Happened::Notice(Notice::End(number)) => return Ok(Left::Signal(number)),
                Happened::Typed(typed) => desk.typed(typed),
                Happened::Update(Some(update)) => desk.talk.told(update, Instant::now()),
                Happened::Update(None) => {
                    let hint = "this is a bug; please report it. Nothing is lost: sandscript resume --last";
                    return Err(Error::new(Kind::Internal, "a part of the program failed", "", hint));
                }
                Happened::Printed(at) => {
                    desk.printed = None;
                    at.into_iter().for_each(|at| desk.talk.question_printed(at));
                }
                Happened::Edited(result) => {
                    self.keyboard.go_on();
                    self.edited = Some(Instant::now());
                    if let Some((_, _, purpose)) = desk.editing.take() {
                        desk.talk.editor_closed(result, purpose, Instant::now());
                    }
                }
                Happened::Passed => {}
                Happened::Time => desk.tick(),
            }
        }
    }

    /// Waits for the next thing. An editor has the terminal alone: nothing is printed or read meanwhile.
    async fn wait(&mut self, desk: &mut Desk, updates: &mut mpsc::Receiver<Update>) -> Happened {
        let Self { keyboard, printer, signals, .. } = self;
        let deadline = desk.talk.deadline().into_iter().chain(desk.burst.deadline()).min();
        let Desk { orders, outbox, printed, editing, .. } = desk;
        let free = editing.is_none();
        let (has_room, waits) = (printer.has_room(), printer.waits());
        tokio::select! {
            biased;
            notice = signals.next() => Happened::Notice(notice),
            result = edited(editing) => Happened::Edited(result),
            typed = keyboard.next(), if free => Happened::Typed(typed),
            at = question_printed(printed) => Happened::Printed(at),
            () = printer.pass_on(), if waits => Happened::Passed,
            room = orders.reserve(), if !outbox.is_empty() => {
                match (room, outbox.pop_front()) {
                    (Ok(room), Some(order)) => room.send(order),
                    (Ok(_), None) => {}
                    (Err(_), _) => outbox.clear(),
                }
                Happened::Passed
            }
            update = updates.recv(), if free && has_room => Happened::Update(update),
            () = until(deadline), if free => Happened::Time,
        }
    }

    /// A Ctrl-C that was meant for the editor.
    fn is_echo(&self) -> bool {
        self.edited.is_some_and(|at| at.elapsed() < EDITOR_ECHO)
    }

    fn print(&mut self, desk: &mut Desk) {
        if let Some((text, is_question)) = desk.talk.take_printed() {
            self.printer.push(text);
            desk.printed = is_question.then(|| self.printer.mark());
        }
    }

    async fn perform(&mut self, desk: &mut Desk, action: Action) {
        match action {
            Action::Send(command) => desk.outbox.push_back(command),
            Action::Quit => desk.left = Some(Left::Quit),
            Action::Edit { text, purpose } => {
                self.print(desk);
                let marked = self.printer.mark();
                let printed = async {
                    while self.printer.waits() {
                        self.printer.pass_on().await;
                    }
                    marked.await
                };
                // What does not get printed is no reason to wait for ever.
                let _ = timeout(LAST_WORDS, printed).await;
                self.keyboard.pause().await;
                match external::start(&desk.editor, &text, ".py") {
                    Ok(editor) => desk.editing = Some((editor.pid(), Box::pin(editor.wait()), purpose)),
                    Err(failure) => {
                        self.keyboard.go_on();
                        desk.talk.editor_closed(Err(failure), purpose, Instant::now());
                    }
                }
            }
        }
    }
}

impl Desk {
    fn typed(&mut self, typed: Typed) {
        match typed {
            Typed::Line(line, at) => {
                self.talk.typed();
                if let Some(block) = self.burst.push(line, at) {
                    self.talk.block(block, Instant::now());
                }
            }
            Typed::TooLong => self.talk.too_long(),
            Typed::End => {
                if let Some(block) = self.burst.take() {
                    self.talk.block(block, Instant::now());
                }
                self.talk.end_of_input();
            }
        }
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if let Some(block) = self.burst.due(now) {
            self.talk.block(block, now);
        }
        self.talk.tick(now);
    }
}

/// Ends an editor that is still there.
async fn end_editor(editing: Option<(Option<u32>, Editing, EditFor)>) {
    let Some((pid, reading, _)) = editing else { return };
    if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
        // It may have ended already.
        let _ = kill(Pid::from_raw(pid), signal::Signal::SIGTERM);
    }
    let _ = timeout(LAST_WORDS, reading).await;
}

async fn edited(editing: &mut Option<(Option<u32>, Editing, EditFor)>) -> std::result::Result<String, Failure> {
    match editing {
        Some((_, reading, _)) => reading.await,
        None => pending().await,
    }
}

/// When the question was printed; nothing if it never will be.
async fn question_printed(printed: &mut Option<oneshot::Receiver<Instant>>) -> Option<Instant> {
    match printed {
        Some(printed) => printed.await.ok(),
        None => pending().await,
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}

/// As a shell gives it for a program that was ended by this signal.
fn exit_code(signal: i32) -> u8 {
    128 + u8::try_from(signal).unwrap_or(0)
}
