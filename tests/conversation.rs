//! Whatever happens in a conversation of several turns, each request made of it is in order for every kind of server,
//! and stays within the window.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

use std::collections::VecDeque;

use proptest::prelude::*;
use sandscript::core::event::{
    Call, Event, Failure, How, Mode, ModelFailure, ModelFailureKind, Outcome, Problem, Reply, RunFinished, SessionInfo,
    StreamName, Terms,
};
use sandscript::core::policy::{Capabilities, SecurityPolicy};
use sandscript::core::session::{Effect, Run, Session};
use sandscript::core::transcript::Prompt;
use sandscript::model::history::{self, Rules};

/// What happens next, where it can.
#[derive(Debug, Clone)]
enum Move {
    /// Words, code of the calls.
    Reply(String, Vec<u8>),
    Broken(u8),
    ModelFails(u8),
    /// Approved; bytes printed; exit code.
    Run(usize, i32),
    RunLost,
    Interrupted,
    Reject(bool),
    Ask(usize),
    /// The person runs code of their own, as a repair or not.
    Own(bool),
    /// The session goes on in another process; its cells run again or not.
    Resume(bool),
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        4 => ("[a-z0-9 ]{0,30}", prop::collection::vec(0u8..6, 0..4)).prop_map(|(w, c)| Move::Reply(w, c)),
        1 => (0u8..4).prop_map(Move::Broken),
        1 => (0u8..5).prop_map(Move::ModelFails),
        6 => (prop_oneof![0usize..50, 0usize..9_000], 0i32..2).prop_map(|(n, c)| Move::Run(n, c)),
        1 => Just(Move::RunLost),
        1 => Just(Move::Interrupted),
        1 => any::<bool>().prop_map(Move::Reject),
        2 => prop_oneof![1usize..40, 1usize..3_000].prop_map(Move::Ask),
        1 => any::<bool>().prop_map(Move::Own),
        1 => any::<bool>().prop_map(Move::Resume),
    ]
}

struct Play {
    session: Session,
    asked: Vec<Prompt>,
    running: Option<Run>,
    ids: u32,
}

impl Play {
    fn fact(&mut self, event: Event) {
        let mut todo = VecDeque::from([event]);
        while let Some(event) = todo.pop_front() {
            for effect in self.session.step(&event) {
                match effect {
                    Effect::Emit(event) => todo.push_back(event),
                    Effect::CallModel(prompt) => self.asked.push(prompt),
                    Effect::Run(run) => self.running = Some(run),
                }
            }
        }
    }

    fn play(&mut self, step: &Move) {
        match step {
            Move::Reply(text, codes) => {
                let calls = codes.iter().map(|c| self.call(*c)).collect();
                self.fact(Event::ModelReplied(Box::new(Reply { text: text.clone(), calls, ..Reply::default() })));
            }
            Move::Broken(which) => {
                let why = "x".to_string();
                let problem = [Problem::Empty, Problem::LostCall, Problem::Cut, Problem::BrokenCall { why }]
                    [*which as usize]
                    .clone();
                self.fact(Event::ModelReplied(Box::new(Reply { problem: Some(problem), ..Reply::default() })));
            }
            Move::ModelFails(which) => {
                use ModelFailureKind::{BadCall, BrokeOff, Interrupted, NoTools, TooLong};
                let kind = [NoTools, TooLong, BadCall, Interrupted, BrokeOff][*which as usize];
                let failure = Failure::new("it failed", "", "");
                self.fact(Event::ModelFailed(ModelFailure { kind, failure, partial: "half".into() }));
            }
            Move::Run(bytes, code) => {
                self.approve();
                let Some(run) = self.running.take() else { return };
                let text = "x".repeat(*bytes);
                self.fact(Event::RunOutput { step: run.step, stream: StreamName::Stdout, text, dropped: 0 });
                self.finish(&run, Outcome::Exited { code: *code });
            }
            Move::RunLost | Move::Interrupted => {
                self.approve();
                let Some(run) = self.running.take() else { return };
                let lost = Outcome::BackendLost { failure: Failure::new("gone", "", ""), missing: false };
                let outcome = if matches!(step, Move::RunLost) { lost } else { Outcome::Cancelled };
                self.finish(&run, outcome);
            }
            Move::Reject(with_reason) => {
                let Some(p) = self.session.proposal().cloned() else { return };
                let reason = with_reason.then(|| "no".to_string());
                self.fact(Event::CodeRejected { step: p.step, attempt: p.attempt, call: p.call, reason });
            }
            Move::Own(repair) => {
                let repairs = self.session.repairable().filter(|_| *repair);
                let Some(proposal) = self.session.own_proposal("print(own)", repairs) else { return };
                self.fact(Event::CodeProposed(proposal));
            }
            Move::Resume(approved) => {
                let Some(info) = self.session.info().cloned() else { return };
                self.running = None;
                let terms = Terms {
                    timeout_seconds: 10,
                    network: info.policy.network.clone(),
                    executor: info.executor.clone(),
                    tier: info.tier.clone(),
                };
                self.fact(Event::SessionResumed(Box::new(info)));
                let (cells, by) = (self.session.rebuildable().to_vec(), "user".into());
                self.fact(Event::RebuildDecided { cells, approved: *approved, by, terms });
                while let Some(run) = self.running.take() {
                    self.finish(&run, Outcome::Exited { code: i32::from(run.step % 3 == 0) });
                }
            }
            Move::Ask(bytes) => self.fact(Event::UserSaid { text: "q".repeat(*bytes) }),
        }
    }

    fn call(&mut self, code: u8) -> Call {
        self.ids += 1;
        let id = format!("c{:08}", self.ids);
        Call { id, code: format!("print({code})"), timeout_seconds: None, how: How::Call, raw: None }
    }

    fn approve(&mut self) {
        let Some(p) = self.session.proposal().cloned() else { return };
        let (step, attempt, call, terms) = (p.step, p.attempt, p.call, p.terms);
        self.fact(Event::CodeApproved { step, attempt, call, edited: None, by: "user".into(), terms });
    }

    fn finish(&mut self, run: &Run, outcome: Outcome) {
        self.fact(Event::RunFinished(Box::new(RunFinished {
            step: run.step,
            attempt: run.attempt,
            exit_code: outcome.exit_code(),
            outcome,
            took_ms: 1,
            peak_bytes: None,
            variables_lost: false,
            artifacts: vec![],
            notes: vec![],
            stdout_blob: None,
            stderr_blob: None,
        })));
    }
}

fn info(mode: Mode, window: u32) -> SessionInfo {
    SessionInfo {
        version: "0".into(),
        id: "s".into(),
        started: "2026-01-01T00:00:00Z".into(),
        model: "m".into(),
        base_url: "http://localhost".into(),
        mode,
        window,
        executor: "test".into(),
        tier: "-".into(),
        capabilities: Capabilities::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 4,
        folder: "/data".into(),
        python: "3.12.1".into(),
        packages: vec!["pandas".into()],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_in_order(
        moves in prop::collection::vec(any_move(), 1..80),
        text_mode in any::<bool>(),
        window in prop_oneof![Just(2_048u32), Just(8_192u32)],
    ) {
        let mode = if text_mode { Mode::Text } else { Mode::Tools };
        let mut play = Play { session: Session::default(), asked: vec![], running: None, ids: 0 };
        play.fact(Event::SessionStarted(Box::new(info(mode, window))));
        play.fact(Event::UserSaid { text: "first".into() });
        for step in &moves {
            play.play(step);
        }
        for prompt in &play.asked {
            for rules in [
                Rules { ollama: false, null_content: false, user_after_result: false },
                Rules { ollama: false, null_content: false, user_after_result: true },
                Rules { ollama: true, null_content: false, user_after_result: false },
                Rules { ollama: true, null_content: true, user_after_result: true },
            ] {
                let messages = history::render(prompt, rules);
                prop_assert_eq!(history::check(&messages, rules), Ok(()), "{:?}", prompt.messages);
                let bytes: usize = messages.iter().map(|m| m.to_string().len()).sum();
                // A question of 3,000 bytes and the least of each result always fit; frames of JSON come on top.
                prop_assert!(bytes < (f64::from(window) * 3.2 * 1.7) as usize, "{} bytes in {}", bytes, window);
            }
        }
    }
}
