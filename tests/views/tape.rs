//! Writes sessions down as the driver would: what a person, a model and a sandbox do is given, and what the state machine
//! makes of it is recorded behind it. So a recording is always one that can happen.

use std::collections::VecDeque;

use sandscript::core::event::*;
use sandscript::core::policy::{Capabilities, Hold, Limit, SecurityPolicy};
use sandscript::core::session::{Effect, Session};

/// A session that is being recorded.
#[derive(Default)]
pub struct Tape {
    session: Session,
    records: Vec<Record>,
    at_ms: u64,
    calls: u32,
}

pub fn native() -> Capabilities {
    let held = [Limit::HostFiles, Limit::Network, Limit::Kill, Limit::WallTime, Limit::Memory, Limit::Output];
    Capabilities(held.into_iter().map(|limit| (limit, Hold::Enforced)).collect())
}

pub fn info() -> SessionInfo {
    SessionInfo {
        version: "0.1.0".into(),
        id: "20261130-200512-a1b2c3".into(),
        started: "2026-11-30T20:05:12.000Z".into(),
        model: "mistral-nemo".into(),
        base_url: "http://localhost:11434/v1".into(),
        mode: Mode::Tools,
        window: 8192,
        executor: "native".into(),
        tier: "A".into(),
        capabilities: native(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/home/ada/sales".into(),
        python: "3.12.4".into(),
        packages: vec!["numpy".into(), "pandas".into()],
    }
}

pub fn subprocess() -> SessionInfo {
    let capabilities = Capabilities::from([(Limit::WallTime, Hold::Enforced), (Limit::Memory, Hold::BestEffort)]);
    SessionInfo { executor: "subprocess".into(), tier: "-".into(), capabilities, ..info() }
}

pub fn failed(code: i32) -> Outcome {
    Outcome::Exited { code }
}

impl Tape {
    /// A session that begins in a folder with two files.
    pub fn began(info: SessionInfo) -> Self {
        let mut tape = Self::default();
        tape.event(0, Event::SessionStarted(Box::new(info)));
        tape.inputs(&["sales.csv", "regions.csv"]);
        tape
    }

    pub fn inputs(&mut self, names: &[&str]) -> &mut Self {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let profile = "sales.csv: 120 rows; columns region (text), growth (number)".into();
        self.event(4, Event::InputsListed { files: names.len() as u64, bytes: 52_480, names, profile })
    }

    /// Records a fact, `after` milliseconds behind the one before, and all that follows from it.
    pub fn event(&mut self, after: u64, event: Event) -> &mut Self {
        let mut events = VecDeque::from([(after, event)]);
        while let Some((after, event)) = events.pop_front() {
            self.at_ms += after;
            let record = Record { v: SCHEMA_VERSION, seq: self.records.len() as u64, at_ms: self.at_ms, event };
            for effect in self.session.step(&record.event) {
                match effect {
                    Effect::Emit(event) => events.push_back((1, event)),
                    Effect::CallModel(_) | Effect::Run(_) => {}
                }
            }
            self.records.push(record);
        }
        self
    }

    pub fn say(&mut self, text: &str) -> &mut Self {
        self.event(9000, Event::UserSaid { text: text.into() })
    }

    pub fn note(&mut self, kind: NoteKind, text: &str) -> &mut Self {
        self.event(5, Event::Note { kind, text: text.into() })
    }

    /// A piece of a reply.
    pub fn writes(&mut self, channel: Channel, text: &str) -> &mut Self {
        self.event(400, Event::ModelDelta { channel, text: text.into() })
    }

    /// The model writes, and then has written, some words and a call of `code`.
    pub fn reply(&mut self, words: &str, code: &str) -> &mut Self {
        for piece in words.split_inclusive(' ') {
            self.event(60, Event::ModelDelta { channel: Channel::Text, text: piece.into() });
        }
        for line in code.split_inclusive('\n') {
            self.event(90, Event::ModelDelta { channel: Channel::Code, text: line.into() });
        }
        self.replied(words, code, None, How::Call)
    }

    /// The model has written it, all at once.
    pub fn replied(&mut self, words: &str, code: &str, timeout_seconds: Option<u64>, how: How) -> &mut Self {
        self.calls += 1;
        let id = format!("call{:05}", self.calls);
        let call = Call { id, code: code.into(), timeout_seconds, how, raw: None };
        self.event(
            120,
            Event::ModelReplied(Box::new(Reply {
                text: words.into(),
                calls: if code.is_empty() { Vec::new() } else { vec![call] },
                usage: Some(Usage { prompt: 1140 + u64::from(self.calls) * 210, completion: 64 }),
                tokens_per_second: Some(12.5),
                finish: "stop".into(),
                ..Reply::default()
            })),
        )
    }

    fn proposal(&self) -> Proposal {
        self.session.proposal().unwrap().clone()
    }

    pub fn approve(&mut self, edited: Option<&str>) -> &mut Self {
        let Proposal { step, attempt, call, terms, .. } = self.proposal();
        let edited = edited.map(str::to_string);
        self.event(2600, Event::CodeApproved { step, attempt, call, edited, by: "user".into(), terms })
    }

    pub fn reject(&mut self, reason: Option<&str>) -> &mut Self {
        let Proposal { step, attempt, call, .. } = self.proposal();
        self.event(2600, Event::CodeRejected { step, attempt, call, reason: reason.map(str::to_string) })
    }

    /// The approved code begins.
    pub fn starts(&mut self) -> &mut Self {
        let (step, attempt, terms) = self.approved();
        let runtime = "/usr/bin/python3.12".into();
        self.event(40, Event::RunStarted { step, attempt, terms, runtime })
    }

    fn approved(&self) -> (u32, u32, Terms) {
        let approved = self.records.iter().rev().find_map(|record| match &record.event {
            Event::CodeApproved { step, attempt, terms, .. } => Some((*step, *attempt, terms.clone())),
            _ => None,
        });
        approved.unwrap()
    }

    pub fn prints(&mut self, stream: StreamName, text: &str) -> &mut Self {
        let step = self.approved().0;
        self.event(30, Event::RunOutput { step, stream, text: text.into(), dropped: 0 })
    }

    pub fn shows(&mut self, result: ResultBundle) -> &mut Self {
        let step = self.approved().0;
        self.event(10, Event::RunResult { step, result })
    }

    pub fn finished(&self, outcome: Outcome) -> RunFinished {
        let (step, attempt, _) = self.approved();
        RunFinished {
            step,
            attempt,
            exit_code: outcome.exit_code(),
            outcome,
            took_ms: 312,
            peak_bytes: Some(88_080_384),
            variables_lost: false,
            artifacts: Vec::new(),
            notes: Vec::new(),
            stdout_blob: None,
            stderr_blob: None,
        }
    }

    pub fn ends(&mut self, outcome: Outcome) -> &mut Self {
        let finished = self.finished(outcome);
        self.event(20, Event::RunFinished(Box::new(finished)))
    }

    /// Approves, runs and fails with a traceback.
    pub fn fails(&mut self, traceback: &str) -> &mut Self {
        self.approve(None).starts().prints(StreamName::Stderr, traceback).ends(failed(1))
    }

    /// Approves and runs well.
    pub fn runs(&mut self, printed: &str) -> &mut Self {
        self.approve(None).starts().prints(StreamName::Stdout, printed).ends(failed(0))
    }

    pub fn closed(&mut self) -> Vec<Record> {
        self.event(5000, Event::SessionEnded { reason: "closed".into() });
        self.cut()
    }

    /// What was recorded so far, without an end.
    pub fn cut(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }
}
