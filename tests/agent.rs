//! The driver with a scripted model and a scripted sandbox, in paused time: what is stopped stops, in every phase, and
//! the log tells the whole story.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use sandscript::agent::{self, Changes, Command, Connection, Parts, Update};
use sandscript::core::command::{Answer, Change, Question};
use sandscript::core::event::{
    Event, Failure, How, Mode, ModelFailureKind, NoteKind, Outcome, Problem, Record, Reply, SessionInfo, StreamName,
    Terms, TurnStatus,
};
use sandscript::core::policy::{Capabilities, SecurityPolicy};
use sandscript::core::transcript::Prompt;
use sandscript::desk::Desk;
use sandscript::log::redact::Redactor;
use sandscript::log::writer::LogWriter;
use sandscript::model::{Candidate, ChatModel, Delta, Draft};
use sandscript::sandbox::inputs::Inputs;
use sandscript::sandbox::{Cell, Check, Executor, Finished, OpenRequest, Output, Sandbox, SetupError};
use tokio::sync::mpsc;

// ---- a scripted model ------------------------------------------------------------------------------------------------

/// Each reply: its deltas, and whether it goes on for ever after them.
struct Model(Mutex<VecDeque<(Vec<Delta>, bool)>>);

impl ChatModel for Model {
    fn stream(&self, _: Prompt) -> BoxStream<'static, Delta> {
        let (deltas, endless) = self.0.lock().unwrap().pop_front().expect("another reply in the script");
        let stream = futures_util::stream::iter(deltas);
        if endless { stream.chain(futures_util::stream::pending()).boxed() } else { stream.boxed() }
    }
}

fn says(text: &str) -> (Vec<Delta>, bool) {
    (vec![Delta::Done(Box::new(Draft { reply: reply(text), candidates: vec![] }))], false)
}

fn reply(text: &str) -> Reply {
    Reply { text: text.into(), ..Reply::default() }
}

fn codes(codes: &[(&str, bool)]) -> (Vec<Delta>, bool) {
    let candidates = codes.iter().enumerate().map(|(i, (code, gate))| Candidate {
        id: format!("call{i:05}"),
        readings: vec![(*code).to_string()],
        gate: *gate,
        or_text: false,
        timeout_seconds: None,
        how: if *gate { How::Recovered } else { How::Call },
        raw: None,
    });
    (vec![Delta::Done(Box::new(Draft { reply: reply(""), candidates: candidates.collect() }))], false)
}

// ---- a scripted sandbox ----------------------------------------------------------------------------------------------

/// Code is what it does: `print X`, `fail`, `hang` until it is interrupted, `stubborn` until the second interrupt, `die`.
#[derive(Clone, Default)]
struct Box0 {
    opening: Duration,
    checking: Duration,
    refuses: bool,
    opened: Arc<AtomicUsize>,
    ran: Arc<Mutex<Vec<String>>>,
    closed: Arc<AtomicUsize>,
}

impl Executor for Box0 {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self, _: &SecurityPolicy) -> Capabilities {
        Capabilities::default()
    }

    fn open(&self, _: OpenRequest) -> BoxFuture<'static, Result<Box<dyn Sandbox>, SetupError>> {
        let this = self.clone();
        Box::pin(async move {
            tokio::time::sleep(this.opening).await;
            if this.refuses {
                return Err(SetupError {
                    failure: Failure::new("no sandbox", "it is broken", "mend it"),
                    missing: false,
                });
            }
            this.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(Open { rules: this, interrupts: tokio::sync::watch::channel(0).0 }) as Box<dyn Sandbox>)
        })
    }
}

struct Open {
    rules: Box0,
    interrupts: tokio::sync::watch::Sender<u32>,
}

impl Sandbox for Open {
    fn run(&self, cell: Cell) -> mpsc::Receiver<Output> {
        self.rules.ran.lock().unwrap().push(cell.code.clone());
        let (send, receive) = mpsc::channel(8);
        let before = *self.interrupts.borrow();
        let mut interrupts = self.interrupts.subscribe();
        tokio::spawn(async move {
            let _ = send.send(Output::Started).await;
            let say = |text: &str| Output::Text { stream: StreamName::Stdout, text: text.into(), dropped: 0 };
            let outcome = match cell.code.split_once(' ').unwrap_or((&cell.code, "")) {
                ("print", text) => {
                    let _ = send.send(say(text)).await;
                    Outcome::Exited { code: 0 }
                }
                ("hang", _) | ("stubborn", _) => {
                    let _ = send.send(say("half")).await;
                    let wanted = before + 1 + u32::from(cell.code == "stubborn");
                    interrupts.wait_for(|n| *n >= wanted).await.unwrap();
                    Outcome::Cancelled
                }
                ("die", _) => return,
                _ => Outcome::Exited { code: 1 },
            };
            let _ = send.send(Output::Finished(Box::new(Finished::new(outcome)))).await;
        });
        receive
    }

    fn check(&self, code: String) -> BoxFuture<'static, Result<Check, SetupError>> {
        let wait = self.rules.checking;
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            let error = code.starts_with("broken").then(|| (1, "invalid syntax".to_string()));
            Ok(Check { error, imports: vec![] })
        })
    }

    fn interrupt(&self) {
        self.interrupts.send_modify(|n| *n += 1);
    }

    fn runtime(&self) -> String {
        "scripted".into()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.rules.closed.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {})
    }
}

// ---- a person --------------------------------------------------------------------------------------------------------

struct Person {
    orders: mpsc::Sender<Command>,
    updates: mpsc::Receiver<Update>,
    /// Updates that are no records.
    told: Vec<Update>,
    waiting: VecDeque<Arc<Record>>,
    seen: Vec<Event>,
    driver: tokio::task::JoinHandle<()>,
    _keep: tempfile::TempDir,
}

impl Person {
    fn with(replies: Vec<(Vec<Delta>, bool)>, rules: &Box0) -> Self {
        Self::continuing(replies, rules, LogWriter::ephemeral(), vec![])
    }

    fn continuing(replies: Vec<(Vec<Delta>, bool)>, rules: &Box0, log: LogWriter, history: Vec<Record>) -> Self {
        let keep = tempfile::tempdir().unwrap();
        let open =
            OpenRequest { policy: SecurityPolicy::default(), inputs: Inputs::default(), keep: keep.path().into() };
        let parts = Parts {
            info: info(),
            model: Arc::new(Model(Mutex::new(replies.into()))),
            remember_text_mode: Box::new(|| {}),
            executor: Arc::new(rules.clone()),
            open,
            profile: String::new(),
            log,
            redactor: Redactor::new(vec![]),
            changes: Arc::new(Later),
            desk: Desk {
                data: keep.path().into(),
                session: None,
                folder: keep.path().into(),
                redactor: Redactor::new(vec![]),
            },
            history,
        };
        let (orders, commands) = mpsc::channel(8);
        let (sender, updates) = mpsc::channel(8);
        let driver = tokio::spawn(agent::run(parts, commands, sender));
        Self { orders, updates, told: vec![], waiting: VecDeque::new(), seen: vec![], driver, _keep: keep }
    }

    async fn order(&self, command: Command) {
        self.orders.send(command).await.unwrap();
    }

    /// Reads records until one fits, approving nothing.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        let reading = async {
            loop {
                while self.waiting.is_empty() {
                    match self.updates.recv().await.expect("more records") {
                        Update::Records(records) | Update::Past(records) => self.waiting.extend(records),
                        other => self.told.push(other),
                    }
                }
                let record = self.waiting.pop_front().unwrap();
                self.seen.push(record.event.clone());
                if fits(&record.event) {
                    return record.event.clone();
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(600), reading).await.expect("it comes to that")
    }

    /// Reads on until something other than a record comes.
    async fn told(&mut self) -> Update {
        let reading = async {
            loop {
                match self.updates.recv().await.expect("an update") {
                    Update::Records(records) | Update::Past(records) => self.waiting.extend(records),
                    other => return other,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(600), reading).await.expect("it comes to that")
    }

    async fn ask(&mut self) {
        self.order(Command::Say("what?".into())).await;
    }

    async fn approve(&mut self) {
        let Event::CodeProposed(p) = self.until(|e| matches!(e, Event::CodeProposed(_))).await else { unreachable!() };
        let (step, attempt, call, terms) = (p.step, p.attempt, p.call, p.terms);
        self.order(Command::Approve { step, attempt, call, edited: None, by: "user".into(), terms }).await;
    }

    async fn turn_ends(&mut self) -> (TurnStatus, String) {
        match self.until(|e| matches!(e, Event::TurnEnded { .. })).await {
            Event::TurnEnded { status, answer, .. } => (status, answer),
            _ => unreachable!(),
        }
    }

    /// Ends the session and gives back everything that was recorded.
    async fn shut_down(mut self) -> Vec<Event> {
        self.order(Command::Shutdown).await;
        self.until(|e| matches!(e, Event::SessionEnded { .. })).await;
        self.driver.await.unwrap();
        self.seen
    }
}

/// What may change: a model of any name but `none`, and no files.
struct Later;

impl Changes for Later {
    fn connect(&self, model: String) -> BoxFuture<'static, Result<Connection, Failure>> {
        Box::pin(async move {
            if model == "none" {
                return Err(Failure::new("no model none", "", "take another"));
            }
            let (base_url, mode) = ("http://localhost".to_string(), Mode::Text);
            let changed = Event::ModelChanged { model, base_url, mode, window: 4096 };
            let model = Arc::new(Model(Mutex::new(vec![says("from the other")].into())));
            Ok(Connection { model, remember_text_mode: Box::new(|| {}), changed, notes: vec!["slow".into()] })
        })
    }

    fn models(&self) -> BoxFuture<'static, Result<Vec<String>, Failure>> {
        Box::pin(async { Ok(vec!["a".into(), "b".into()]) })
    }

    fn attach(&self, _: std::path::PathBuf) -> BoxFuture<'static, Result<(Inputs, String), Failure>> {
        Box::pin(async { Ok((Inputs::default(), "more.csv: 3 rows".into())) })
    }
}

fn info() -> SessionInfo {
    SessionInfo {
        version: "0".into(),
        id: "s".into(),
        started: "2026-01-01T00:00:00Z".into(),
        model: "m".into(),
        base_url: "http://localhost".into(),
        mode: Mode::Tools,
        window: 8192,
        executor: "scripted".into(),
        tier: "-".into(),
        capabilities: Capabilities::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/data".into(),
        python: "3.12.1".into(),
        packages: vec![],
    }
}

fn outcomes(events: &[Event]) -> Vec<Outcome> {
    let outcome = |e: &Event| if let Event::RunFinished(f) = e { Some(f.outcome.clone()) } else { None };
    events.iter().filter_map(outcome).collect()
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered() {
    let rules = Box0::default();
    let mut p = Person::with(vec![codes(&[("print 3", false)]), says("It is 3.")], &rules);
    p.ask().await;
    p.approve().await;
    assert_eq!(p.turn_ends().await, (TurnStatus::Answered, "It is 3.".into()));
    let events = p.shut_down().await;
    assert_eq!(outcomes(&events), [Outcome::Exited { code: 0 }]);
    assert_eq!((rules.opened.load(Ordering::SeqCst), rules.closed.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_without_an_approval_of_exactly_that() {
    let rules = Box0::default();
    let mut p = Person::with(vec![codes(&[("print 3", false)])], &rules);
    p.ask().await;
    let Event::CodeProposed(shown) = p.until(|e| matches!(e, Event::CodeProposed(_))).await else { unreachable!() };
    let (step, attempt, terms) = (shown.step, shown.attempt, shown.terms);
    p.order(Command::Approve { step, attempt, call: "another".into(), edited: None, by: "user".into(), terms }).await;
    p.until(|e| matches!(e, Event::Note { kind: NoteKind::Warning, .. })).await;
    p.shut_down().await;
    assert!(rules.ran.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_stopped_and_what_was_said_is_kept() {
    let words = vec![Delta::Piece(sandscript::core::event::Channel::Text, "I think".into())];
    let mut p = Person::with(vec![(words, true)], &Box0::default());
    p.ask().await;
    p.until(|e| matches!(e, Event::ModelDelta { .. })).await;
    p.order(Command::Interrupt).await;
    let Event::ModelFailed(failed) = p.until(|e| matches!(e, Event::ModelFailed(_))).await else { unreachable!() };
    assert_eq!((failed.kind, failed.partial.as_str()), (ModelFailureKind::Interrupted, "I think"));
    assert_eq!(p.turn_ends().await.0, TurnStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_is_slow_to_open_can_be_stopped() {
    let rules = Box0 { opening: Duration::from_secs(100), ..Box0::default() };
    let mut p = Person::with(vec![codes(&[("print 3", false)])], &rules);
    p.ask().await;
    p.approve().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::Stopped);
    let events = p.shut_down().await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(outcomes(&events), [Outcome::Cancelled]);
    assert!(rules.ran.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_compile_check_can_be_stopped() {
    let rules = Box0 { checking: Duration::from_secs(100), ..Box0::default() };
    let mut p = Person::with(vec![codes(&[("print 3", true)])], &rules);
    p.ask().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_stopped_and_what_it_printed_is_kept() {
    let mut p = Person::with(vec![codes(&[("hang", false)])], &Box0::default());
    p.ask().await;
    p.approve().await;
    p.until(|e| matches!(e, Event::RunOutput { .. })).await;
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::Stopped);
    assert_eq!(outcomes(&p.shut_down().await), [Outcome::Cancelled]);
}

#[tokio::test(start_paused = true)]
async fn shutting_down_in_a_run_records_its_end() {
    for code in ["hang", "stubborn"] {
        let rules = Box0::default();
        let mut p = Person::with(vec![codes(&[(code, false)])], &rules);
        p.ask().await;
        p.approve().await;
        p.until(|e| matches!(e, Event::RunOutput { .. })).await;
        let events = p.shut_down().await;
        let ends: Vec<&Event> = events.iter().rev().take(3).collect();
        assert!(
            matches!(ends[..], [Event::SessionEnded { .. }, Event::TurnEnded { .. }, Event::RunFinished(_)]),
            "{ends:?}"
        );
        assert_eq!(rules.closed.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn code_behind_a_broken_call_does_not_run_and_the_model_is_told() {
    let rules = Box0::default();
    let calls = [("print 1", false), ("broken", true), ("print 3", false)];
    let mut p = Person::with(vec![codes(&calls), says("1")], &rules);
    p.ask().await;
    let Event::ModelReplied(reply) = p.until(|e| matches!(e, Event::ModelReplied(_))).await else { unreachable!() };
    assert!(matches!(reply.problem, Some(Problem::BrokenCall { .. })), "{reply:?}");
    p.approve().await;
    p.turn_ends().await;
    assert_eq!(*rules.ran.lock().unwrap(), ["print 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_opened_ends_the_turn_with_its_hint() {
    let rules = Box0 { refuses: true, ..Box0::default() };
    for gated in [false, true] {
        let mut p = Person::with(vec![codes(&[("print 3", gated)])], &rules);
        p.ask().await;
        if !gated {
            p.approve().await;
            p.until(|e| matches!(e, Event::RunFinished(_))).await;
            p.order(Command::Interrupt).await;
        }
        let (status, answer) = p.turn_ends().await;
        assert_eq!((status, answer.as_str()), (TurnStatus::SandboxError, "no sandbox: it is broken"));
        let hinted = |e: &Event| matches!(e, Event::Note { text, .. } if text.contains("hint: mend it"));
        assert!(p.seen.iter().any(hinted), "{:?}", p.seen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_dies_is_replaced_at_the_next_question() {
    let rules = Box0::default();
    let mut p = Person::with(vec![codes(&[("die", false)]), codes(&[("print 4", false)]), says("4")], &rules);
    p.ask().await;
    p.approve().await;
    p.until(|e| matches!(e, Event::RunFinished(_))).await;
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::SandboxError);
    p.ask().await;
    p.approve().await;
    assert_eq!(p.turn_ends().await, (TurnStatus::Answered, "4".into()));
    assert_eq!(rules.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_at_the_question_rejects_it() {
    let rules = Box0::default();
    let mut p = Person::with(vec![codes(&[("print 3", false)])], &rules);
    p.ask().await;
    p.until(|e| matches!(e, Event::CodeProposed(_))).await;
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::Rejected);
    assert!(rules.ran.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_records_fold_to_the_state_of_the_driver() {
    let script = vec![codes(&[("fail", false), ("print 2", false)]), codes(&[("print 1", false)]), says("1 and 2")];
    let mut p = Person::with(script, &Box0::default());
    p.ask().await;
    for _ in 0..3 {
        p.approve().await;
    }
    p.turn_ends().await;
    let events = p.shut_down().await;
    let mut folded = sandscript::core::session::Session::default();
    let mut decided = Vec::new();
    for event in &events {
        for effect in folded.step(event) {
            if let sandscript::core::session::Effect::Emit(event) = effect {
                decided.push(event);
            }
        }
    }
    // A fold decides the very facts that were recorded.
    let recorded = |e: &&Event| matches!(e, Event::CodeProposed(_) | Event::TurnEnded { .. });
    let (decided, recorded): (Vec<&Event>, Vec<&Event>) =
        (decided.iter().filter(recorded).collect(), events.iter().filter(recorded).collect());
    assert_eq!(decided, recorded);
    assert!(!folded.in_turn());
}

#[tokio::test(start_paused = true)]
async fn code_of_the_persons_own_runs_when_it_is_approved() {
    let rules = Box0::default();
    let mut p = Person::with(vec![], &rules);
    p.order(Command::Propose { code: "print 7".into(), repairs: None }).await;
    p.approve().await;
    assert_eq!(p.turn_ends().await, (TurnStatus::Answered, String::new()));
    assert_eq!(*rules.ran.lock().unwrap(), ["print 7"]);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_opened_can_be_tried_again() {
    let rules = Box0 { refuses: true, ..Box0::default() };
    let mut p = Person::with(vec![codes(&[("print 3", false)])], &rules);
    p.ask().await;
    let Event::CodeProposed(proposal) = p.until(|e| matches!(e, Event::CodeProposed(_))).await else { unreachable!() };
    for _ in 0..2 {
        let (step, attempt, call) = (proposal.step, proposal.attempt, proposal.call.clone());
        let (by, terms) = ("user".to_string(), proposal.terms.clone());
        p.order(Command::Approve { step, attempt, call, edited: None, by, terms }).await;
        let Event::RunFinished(end) = p.until(|e| matches!(e, Event::RunFinished(_))).await else { unreachable!() };
        assert!(matches!(end.outcome, Outcome::SetupFailed { .. }));
    }
    p.order(Command::Interrupt).await;
    assert_eq!(p.turn_ends().await.0, TurnStatus::SandboxError);
}

#[tokio::test(start_paused = true)]
async fn a_changed_time_limit_is_what_runs() {
    let mut p = Person::with(vec![codes(&[("print 3", false)]), says("3")], &Box0::default());
    p.ask().await;
    let Event::CodeProposed(shown) = p.until(|e| matches!(e, Event::CodeProposed(_))).await else { unreachable!() };
    let (step, attempt, call) = (shown.step, shown.attempt, shown.call.clone());
    p.order(Command::Amend { step, attempt, call: call.clone(), timeout_seconds: 77 }).await;
    let terms = Terms { timeout_seconds: 77, ..shown.terms };
    p.order(Command::Approve { step, attempt, call, edited: None, by: "user".into(), terms }).await;
    let Event::RunStarted { terms, .. } = p.until(|e| matches!(e, Event::RunStarted { .. })).await else {
        unreachable!()
    };
    assert_eq!(terms.timeout_seconds, 77);
}

#[tokio::test(start_paused = true)]
async fn another_model_answers_from_the_next_request_on() {
    let mut p = Person::with(vec![], &Box0::default());
    p.order(Command::Set(Change::Model("none".into()))).await;
    p.until(|e| matches!(e, Event::Note { text, .. } if text.contains("hint: take another"))).await;
    p.order(Command::Set(Change::Model("other".into()))).await;
    p.until(|e| matches!(e, Event::Note { text, .. } if text == "slow")).await;
    p.ask().await;
    assert_eq!(p.turn_ends().await, (TurnStatus::Answered, "from the other".into()));
}

#[tokio::test(start_paused = true)]
async fn limits_and_inputs_change_between_turns() {
    let rules = Box0::default();
    let mut p = Person::with(vec![codes(&[("print 1", false)]), says("1"), codes(&[("print 2", false)])], &rules);
    p.order(Command::Set(Change::Timeout(44))).await;
    p.ask().await;
    let fits = |e: &Event| matches!(e, Event::CodeProposed(p) if p.terms.timeout_seconds == 44);
    assert!(fits(&p.until(|e| matches!(e, Event::CodeProposed(_))).await));
    p.order(Command::Set(Change::Attach("more.csv".into()))).await;
    p.until(|e| matches!(e, Event::Note { text, .. } if text.contains("when the turn is over"))).await;
    let terms = Terms { timeout_seconds: 44, ..proposal_terms(&p.seen) };
    let (call, by) = ("call00000".to_string(), "user".to_string());
    p.order(Command::Approve { step: 1, attempt: 1, call, edited: None, by, terms }).await;
    p.turn_ends().await;
    p.order(Command::Set(Change::Attach("more.csv".into()))).await;
    p.until(|e| matches!(e, Event::InputsListed { profile, .. } if profile == "more.csv: 3 rows")).await;
    assert_eq!(rules.closed.load(Ordering::SeqCst), 1, "the next code sees the new files");
}

fn proposal_terms(seen: &[Event]) -> Terms {
    let terms = |e: &Event| if let Event::CodeProposed(p) = e { Some(p.terms.clone()) } else { None };
    seen.iter().filter_map(terms).next_back().unwrap()
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_while_the_model_writes() {
    let mut p = Person::with(vec![(vec![], true)], &Box0::default());
    p.ask().await;
    p.order(Command::Ask(1, Question::Models)).await;
    assert_eq!(p.told().await, Update::Reply(1, Answer::Models(vec!["a".into(), "b".into()])));
    p.order(Command::Ask(2, Question::Compile("bad(".into()))).await;
    assert!(matches!(p.told().await, Update::Reply(2, Answer::Compiled(_))));
    p.order(Command::Ask(3, Question::Blob("x".into()))).await;
    assert!(matches!(p.told().await, Update::Reply(3, Answer::Failed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_continued_session_tells_its_past_and_runs_its_cells_when_it_may() {
    let mut p = Person::with(vec![codes(&[("print 1", false)]), says("1")], &Box0::default());
    p.ask().await;
    p.approve().await;
    p.turn_ends().await;
    let past = p.shut_down().await;
    let record = |(seq, event): (usize, &Event)| Record { v: 1, seq: seq as u64, at_ms: 5000, event: event.clone() };
    let history: Vec<Record> = past.iter().enumerate().map(record).collect();
    for approved in [true, false] {
        let rules = Box0::default();
        let mut p = Person::continuing(vec![says("still 1")], &rules, LogWriter::ephemeral(), history.clone());
        let Update::AskRebuild { cells, terms } = p.told().await else { panic!("it asks") };
        assert_eq!(cells, [(1, "print 1".to_string())]);
        assert!(rules.ran.lock().unwrap().is_empty(), "nothing runs before it is approved");
        p.until(|e| matches!(e, Event::SessionResumed(_))).await;
        // Other cells or other terms than those that wait are asked again, and nothing runs.
        let stale = Terms { timeout_seconds: 99, ..terms.clone() };
        for (cells, terms) in [(vec![(1, "print 2".to_string())], terms.clone()), (cells.clone(), stale)] {
            p.order(Command::Rebuild { approved: true, cells, terms }).await;
            assert!(matches!(p.told().await, Update::AskRebuild { .. }));
        }
        assert!(rules.ran.lock().unwrap().is_empty());
        p.order(Command::Rebuild { approved, cells, terms }).await;
        if approved {
            p.until(|e| matches!(e, Event::Note { text, .. } if text.contains("are back"))).await;
        }
        p.ask().await;
        assert_eq!(p.turn_ends().await, (TurnStatus::Answered, "still 1".into()));
        assert_eq!(rules.ran.lock().unwrap().len(), usize::from(approved));
        assert!(p.seen.iter().any(|e| matches!(e, Event::SessionResumed(_))));
    }
}
