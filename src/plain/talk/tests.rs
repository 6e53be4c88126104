use std::sync::Arc;

use super::*;
use crate::core::command::Update;
use crate::core::event::{
    Event, How, Mode, NoteKind, Outcome, Proposal, RebuildCell, Record, RunFinished, SessionInfo, Terms, TurnStatus,
};
use crate::core::policy::{Capabilities, Network, SecurityPolicy};

/// A conversation whose clock the test turns.
struct Rig {
    talk: Talk,
    now: Instant,
    seq: u64,
}

fn terms(timeout_seconds: u64) -> Terms {
    Terms { timeout_seconds, network: Network::Off, executor: "subprocess".into(), tier: "-".into() }
}

fn info() -> Box<SessionInfo> {
    Box::new(SessionInfo {
        version: "1".into(),
        id: "ID".into(),
        started: "2026-01-01T00:00:00Z".into(),
        model: "m".into(),
        base_url: String::new(),
        mode: Mode::Tools,
        window: 8192,
        executor: "subprocess".into(),
        tier: "-".into(),
        capabilities: Capabilities::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/work".into(),
        python: "3.12.0".into(),
        packages: Vec::new(),
    })
}

fn proposed(call: &str) -> Event {
    Event::CodeProposed(Proposal {
        step: 1,
        attempt: 1,
        call: call.into(),
        code: "print(1)".into(),
        how: How::Call,
        raw: None,
        terms: terms(10),
        asked_seconds: None,
    })
}

impl Rig {
    fn new(terminal: bool) -> Self {
        let now = Instant::now();
        let begin = Begin { terminal, motion: true, ..Begin::default() };
        let mut rig = Self { talk: Talk::new(begin, now), now, seq: 0 };
        rig.fact(Event::SessionStarted(info()));
        rig
    }

    /// In a turn, in front of a question nobody saw yet.
    fn in_turn(terminal: bool) -> Self {
        let mut rig = Self::new(terminal);
        rig.fact(Event::UserSaid { text: "q".into() });
        rig.fact(proposed("a"));
        rig
    }

    fn fact(&mut self, event: Event) {
        let record = Record { v: 1, seq: self.seq, at_ms: 0, event };
        self.seq += 1;
        self.talk.told(Update::Records(vec![Arc::new(record)]), self.now);
    }

    /// Time passes, and what is due is printed.
    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.talk.tick(self.now);
    }

    fn printed(&mut self) -> String {
        let Some((text, is_question)) = self.talk.take_printed() else { return String::new() };
        if is_question {
            self.talk.question_printed(self.now);
        }
        text
    }

    /// Waits for what is asked.
    fn question(&mut self) -> String {
        self.wait(50);
        self.printed()
    }

    fn type_line(&mut self, line: &str) {
        self.talk.typed();
        let block = Block { text: line.into(), lines: line.lines().count().max(1), first_at: self.now };
        self.talk.block(block, self.now);
    }

    /// Orders that change the session.
    fn orders(&mut self) -> Vec<Command> {
        let actions = self.talk.take_actions().into_iter();
        let orders = actions.map(|action| match action {
            Action::Send(command) => command,
            Action::Edit { .. } | Action::Quit => panic!("{action:?}"),
        });
        orders.filter(|command| !matches!(command, Command::Ask(..))).collect()
    }
}

fn approval() -> Command {
    let (call, by) = ("a".into(), "user".into());
    Command::Approve { step: 1, attempt: 1, call, edited: None, by, terms: terms(10) }
}

#[test]
fn a_question_takes_answers_when_it_was_printed_and_had_time_to_be_read() {
    for (printed, after, answers) in [(false, 1000, false), (true, 299, false), (true, 300, true)] {
        let mut rig = Rig::in_turn(false);
        rig.wait(50);
        if printed {
            assert!(rig.printed().ends_with("[y/n/e/t/?] \n"));
        }
        rig.wait(after);
        rig.type_line("y");
        let expected = if answers { vec![approval()] } else { vec![] };
        assert_eq!(rig.orders(), expected, "printed {printed}, {after} ms later");
        assert_eq!(rig.talk.queue, if answers { vec![] } else { vec!["y".to_string()] });
        if !answers {
            assert!(
                rig.printed().contains("before the question, so it is no answer. Queued as your next message: y\n")
            );
        }
    }
}

#[test]
fn an_answer_counts_once_and_for_what_was_printed_last() {
    let mut rig = Rig::in_turn(false);
    rig.question();
    rig.wait(300);
    rig.type_line("y");
    rig.type_line("y");
    assert_eq!(rig.orders(), [approval()], "the second came before anything was asked again");

    let mut rig = Rig::in_turn(false);
    rig.question();
    rig.wait(300);
    // Told before the person could know it.
    rig.fact(Event::TermsChanged { step: 1, attempt: 1, call: "a".into(), timeout_seconds: 99 });
    rig.type_line("y");
    assert_eq!(rig.orders(), []);
    assert!(rig.question().contains("limit 99 s?"));
    rig.wait(300);
    rig.type_line("y");
    let [Command::Approve { terms, .. }] = &rig.orders()[..] else { panic!() };
    assert_eq!(terms.timeout_seconds, 99);
}

#[test]
fn what_is_printed_meanwhile_has_the_question_asked_again() {
    let mut rig = Rig::in_turn(true);
    let asked = rig.question();
    assert!(asked.ends_with("limit 10 s? [y/n/e/t/?] "), "{asked}");
    rig.wait(300);
    rig.fact(Event::Note { kind: NoteKind::Warning, text: "look out".into() });
    rig.type_line("y");
    assert_eq!(rig.orders(), []);
    let again = rig.question();
    assert!(again.starts_with("\n· look out\n") && again.ends_with("[y/n/e/t/?] "), "{again:?}");
}

#[test]
fn an_edit_of_one_code_is_none_of_the_next() {
    let mut rig = Rig::in_turn(false);
    rig.question();
    let purpose = EditFor::Proposal { call: "a".into(), code: "print(1)".into() };
    rig.talk.editor_closed(Ok("print(2)".into()), purpose, rig.now);
    assert!(rig.question().contains("Run the edited code in"));
    rig.fact(proposed("a"));
    assert!(rig.question().contains("Run this in"));
    rig.wait(300);
    rig.type_line("y");
    assert_eq!(rig.orders(), [approval()]);
}

#[test]
fn on_a_terminal_what_was_typed_is_not_printed_again_and_there_is_a_prompt() {
    let mut rig = Rig::new(true);
    assert!(rig.question().ends_with("\n> "));
    rig.type_line("hello");
    assert_eq!(rig.orders(), [Command::Say("hello".into())]);
    rig.fact(Event::UserSaid { text: "hello".into() });
    assert_eq!(rig.printed(), "");
    rig.wait(10_000);
    assert_eq!(rig.printed(), "still waiting for the model, 10 s\n");
    rig.type_line("and then?");
    assert_eq!(rig.printed(), "Queued as your next message: and then?\n");
    rig.fact(Event::TurnEnded { status: TurnStatus::Answered, answer: "hi".into(), unrepaired: false });
    assert_eq!(rig.orders(), [Command::Say("and then?".into())]);
    rig.fact(Event::UserSaid { text: "and then?".into() });
    assert_eq!(rig.printed(), "\nAnswer: hi\n\nYou: and then?\n");
}

#[test]
fn what_waits_is_given_back_when_the_turn_fails() {
    let mut rig = Rig::in_turn(false);
    rig.type_line("next");
    rig.fact(Event::CodeRejected { step: 1, attempt: 1, call: "a".into(), reason: None });
    rig.fact(Event::TurnEnded { status: TurnStatus::Rejected, answer: String::new(), unrepaired: false });
    assert_eq!(rig.orders(), []);
    assert!(rig.printed().contains("/send sends it now"));
    rig.type_line("/send");
    assert_eq!(rig.orders(), [Command::Say("next".into())]);
}

#[test]
fn nothing_is_said_while_earlier_cells_run_again() {
    let mut rig = Rig::new(false);
    let cells = vec![RebuildCell { step: 1, code: "x = 1".into() }];
    rig.fact(Event::UserSaid { text: "q".into() });
    rig.fact(proposed("a"));
    let approved = Event::CodeApproved {
        step: 1,
        attempt: 1,
        call: "a".into(),
        edited: None,
        by: "user".into(),
        terms: terms(10),
    };
    rig.fact(approved);
    let finished = |attempt| {
        Event::RunFinished(Box::new(RunFinished {
            step: 1,
            attempt,
            outcome: Outcome::Exited { code: 0 },
            exit_code: 0,
            took_ms: 1,
            peak_bytes: None,
            variables_lost: false,
            artifacts: Vec::new(),
            notes: Vec::new(),
            stdout_blob: None,
            stderr_blob: None,
        }))
    };
    rig.fact(finished(1));
    rig.fact(Event::TurnEnded { status: TurnStatus::Answered, answer: "done".into(), unrepaired: false });
    rig.fact(Event::SessionResumed(info()));
    rig.type_line("one more");
    assert_eq!(rig.orders(), [], "the question about the cells comes first");
    let asked = Update::AskRebuild { cells: vec![(1, "x = 1".into())], terms: terms(10) };
    rig.talk.told(asked, rig.now);
    assert!(rig.question().contains("Run this cell again"));
    rig.wait(300);
    rig.type_line("y");
    assert_eq!(rig.orders(), [Command::Rebuild { approved: true, cells: vec![(1, "x = 1".into())], terms: terms(10) }]);
    rig.fact(Event::RebuildDecided { cells, approved: true, by: "user".into(), terms: terms(10) });
    assert_eq!(rig.orders(), []);
    rig.fact(finished(0));
    assert_eq!(rig.orders(), [Command::Say("one more".into())]);
}

#[test]
fn control_characters_are_not_printable() {
    assert_eq!(printable("a\u{1b}[2J\tb\r\n\u{9b}\u{7}c"), "a[2J    b\nc");
}
