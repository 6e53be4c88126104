use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::core::event::{
    Artifact, Failure, How, ModelFailure, ModelFailureKind, Outcome, Problem, Reply, ResultBundle, RunFinished,
    StreamName,
};
use crate::core::policy::{Capabilities, Network, SecurityPolicy};

fn info() -> SessionInfo {
    SessionInfo {
        version: "0".into(),
        id: "s".into(),
        started: "2026-01-01T00:00:00Z".into(),
        model: "m".into(),
        base_url: "http://localhost".into(),
        mode: Mode::Tools,
        window: 8192,
        executor: "test".into(),
        tier: "-".into(),
        capabilities: Capabilities::default(),
        policy: SecurityPolicy::default(),
        max_retries: 3,
        max_steps: 20,
        folder: "/data".into(),
        python: "3.12.1".into(),
        packages: vec!["pandas".into()],
    }
}

/// Plays the driver: emitted facts are stepped again, and what is left to do is kept.
struct Play {
    session: Session,
    facts: Vec<Event>,
    asked: Vec<Prompt>,
    runs: Vec<Run>,
}

impl Play {
    fn new(info: SessionInfo) -> Self {
        let mut play = Self { session: Session::default(), facts: vec![], asked: vec![], runs: vec![] };
        play.fact(Event::SessionStarted(Box::new(info)));
        play
    }

    fn asked(text: &str) -> Self {
        let mut play = Self::new(info());
        play.fact(Event::UserSaid { text: text.into() });
        play
    }

    fn fact(&mut self, event: Event) {
        let mut todo = VecDeque::from([event]);
        while let Some(event) = todo.pop_front() {
            self.facts.push(event.clone());
            for effect in self.session.step(&event) {
                match effect {
                    Effect::Emit(event) => todo.push_back(event),
                    Effect::CallModel(prompt) => self.asked.push(prompt),
                    Effect::Run(run) => self.runs.push(run),
                }
            }
        }
    }

    fn replies(&mut self, text: &str, codes: &[&str]) {
        let calls =
            codes.iter().enumerate().map(|(i, code)| call(&format!("c{}{i}", self.facts.len()), code, How::Call));
        let reply = Reply { text: text.into(), calls: calls.collect(), ..Reply::default() };
        self.fact(Event::ModelReplied(Box::new(reply)));
    }

    fn broken(&mut self, problem: Problem) {
        let reply = Reply { problem: Some(problem), ..Reply::default() };
        self.fact(Event::ModelReplied(Box::new(reply)));
    }

    fn approve(&mut self, edited: Option<&str>) {
        let p = self.session.proposal().expect("a proposal").clone();
        self.fact(Event::CodeApproved {
            step: p.step,
            attempt: p.attempt,
            call: p.call,
            edited: edited.map(Into::into),
            by: "user".into(),
            terms: p.terms,
        });
    }

    fn reject(&mut self, reason: Option<&str>) {
        let p = self.session.proposal().expect("a proposal").clone();
        let reason = reason.map(Into::into);
        self.fact(Event::CodeRejected { step: p.step, attempt: p.attempt, call: p.call, reason });
    }

    fn propose_own(&mut self, code: &str, repairs: Option<u32>) {
        let proposal = self.session.own_proposal(code, repairs).expect("no turn is under way");
        self.fact(Event::CodeProposed(proposal));
    }

    fn prints(&mut self, stream: StreamName, text: &str) {
        let step = self.runs.last().expect("a run").step;
        self.fact(Event::RunOutput { step, stream, text: text.into(), dropped: 0 });
    }

    fn ends(&mut self, outcome: Outcome) {
        let run = self.runs.last().expect("a run").clone();
        self.fact(finished(&run, outcome));
    }

    /// Approves and runs what is proposed.
    fn runs(&mut self, out: &str, err: &str, code: i32) {
        self.approve(None);
        self.prints(StreamName::Stdout, out);
        self.prints(StreamName::Stderr, err);
        self.ends(Outcome::Exited { code });
    }

    fn ended(&self) -> Option<(TurnStatus, &str, bool)> {
        match self.facts.last() {
            Some(Event::TurnEnded { status, answer, unrepaired }) => Some((*status, answer, *unrepaired)),
            _ => None,
        }
    }

    /// The last request as short lines.
    fn last_request(&self) -> Vec<String> {
        self.asked.last().expect("a request").messages.iter().map(short).collect()
    }

    fn proposals(&self) -> Vec<(u32, u32, String)> {
        let proposed = self.facts.iter().filter_map(|f| match f {
            Event::CodeProposed(p) => Some((p.step, p.attempt, p.code.clone())),
            _ => None,
        });
        proposed.collect()
    }
}

fn short(message: &Message) -> String {
    match message {
        Message::System(_) => "system".into(),
        Message::User(text) => format!("user: {text}"),
        Message::Assistant { text, calls } => {
            let codes: Vec<_> = calls.iter().map(|c| c.code.as_str()).collect();
            format!("assistant: {text} {codes:?}")
        }
        Message::ToolResult { text, .. } => format!("tool: {text}"),
    }
}

fn call(id: &str, code: &str, how: How) -> Call {
    Call { id: id.into(), code: code.into(), timeout_seconds: None, how, raw: None }
}

fn finished(run: &Run, outcome: Outcome) -> Event {
    Event::RunFinished(Box::new(RunFinished {
        step: run.step,
        attempt: run.attempt,
        exit_code: outcome.exit_code(),
        outcome,
        took_ms: 5,
        peak_bytes: None,
        variables_lost: false,
        artifacts: Vec::<Artifact>::new(),
        notes: vec![],
        stdout_blob: None,
        stderr_blob: None,
    }))
}

#[test]
fn a_question_is_answered_after_a_run() {
    let mut p = Play::asked("how many?");
    p.replies("", &["print(3)"]);
    p.runs("3\n", "", 0);
    assert_eq!(
        p.last_request(),
        ["system", "user: how many?", "assistant:  [\"print(3)\"]", "tool: exit_code: 0\nstdout:\n3"]
    );
    p.replies("There are 3.", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "There are 3.", false)));
    assert!(!p.session.in_turn());
}

#[test]
fn failures_are_attempts_of_one_step_and_success_closes_it() {
    let mut p = Play::asked("q");
    for (n, code) in [(1, 1), (2, 1), (3, 0)] {
        p.replies("", &[&format!("v{n}")]);
        p.runs("", &format!("Error {n}\n"), code);
    }
    assert_eq!(p.proposals(), [(1, 1, "v1".into()), (1, 2, "v2".into()), (1, 3, "v3".into())]);
    p.replies("", &["more"]);
    assert_eq!(p.proposals().last(), Some(&(2, 1, "more".into())));
}

#[test]
fn retries_are_bounded_per_step() {
    let mut p = Play::new(SessionInfo { max_retries: 1, ..info() });
    p.fact(Event::UserSaid { text: "q".into() });
    p.replies("", &["a"]);
    p.runs("", "E1\n", 1);
    p.replies("", &["b"]);
    p.runs("", "ValueError: E2\n", 1);
    assert_eq!(
        p.ended(),
        Some((TurnStatus::Failed, "The code of step 1 failed 2 times. Last error: ValueError: E2", false))
    );
    assert_eq!(p.runs.len(), 2);
}

#[test]
fn the_same_failure_twice_ends_early() {
    let mut p = Play::asked("q");
    p.replies("", &["a"]);
    p.runs("", "E\n", 1);
    p.replies("", &["a\n\n"]);
    p.runs("", "E\n", 1);
    let (status, answer, _) = p.ended().expect("an end");
    assert_eq!(status, TurnStatus::Failed);
    assert!(answer.contains("same code failed with the same error"), "{answer}");
}

#[test]
fn two_calls_are_two_steps_and_the_first_is_repaired() {
    let mut p = Play::asked("q");
    p.replies("", &["bad", "good"]);
    p.runs("", "E\n", 1);
    assert_eq!(p.asked.len(), 1, "the second call comes before the model is asked again");
    p.runs("ok\n", "", 0);
    p.replies("", &["fixed"]);
    assert_eq!(p.proposals(), [(1, 1, "bad".into()), (2, 1, "good".into()), (1, 2, "fixed".into())]);
    p.runs("ok\n", "", 0);
    p.replies("done", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "done", false)));
}

#[test]
fn an_answer_with_an_open_step_is_marked() {
    let mut p = Play::asked("q");
    p.replies("", &["bad"]);
    p.runs("", "E\n", 1);
    p.replies("it is 7", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "it is 7", true)));
    assert!(p.facts.iter().any(|f| matches!(f, Event::Note { kind: NoteKind::Warning, .. })));
}

#[test]
fn a_quotation_is_not_run_and_words_are_asked_for_once() {
    let mut p = Play::asked("q");
    p.replies("", &["print(1)"]);
    p.runs("one\n", "", 0);
    p.replies("", &["print(1)  \n"]);
    assert_eq!(p.runs.len(), 1);
    assert!(p.last_request().last().expect("one").contains("has already run"));
    p.replies("", &["print(1)"]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "one", false)));
}

#[test]
fn a_quotation_beside_new_code_is_skipped() {
    let mut p = Play::asked("q");
    p.replies("", &["x=1"]);
    p.runs("", "", 0);
    p.replies("", &["x=1", "print(x)"]);
    assert_eq!(p.proposals().last(), Some(&(2, 1, "print(x)".into())));
    p.runs("1\n", "", 0);
    let request = p.last_request();
    let results = request.iter().filter(|m| m.starts_with("tool:")).count();
    assert_eq!(results, 3, "each call id has its result: {request:?}");
}

#[test]
fn only_exactly_what_was_proposed_can_be_approved() {
    let mut p = Play::asked("q");
    p.replies("", &["a"]);
    let proposal = p.session.proposal().expect("one").clone();
    let other = Terms { timeout_seconds: 99, ..proposal.terms.clone() };
    let (call, terms) = (proposal.call.clone(), proposal.terms.clone());
    for (step, attempt, call, terms) in [
        (2, 1, call.clone(), terms.clone()),
        (1, 2, call.clone(), terms.clone()),
        (1, 1, "other".to_string(), terms.clone()),
        (1, 1, call.clone(), other),
    ] {
        p.fact(Event::CodeApproved { step, attempt, call, edited: None, by: "user".into(), terms });
        assert!(p.runs.is_empty());
    }
    p.approve(None);
    assert_eq!(p.runs.len(), 1);
    let again = Event::CodeApproved { step: 1, attempt: 1, call, edited: None, by: "user".into(), terms };
    p.fact(again);
    assert_eq!(p.runs.len(), 1, "an approval is used once");
}

#[test]
fn an_edit_runs_and_is_told() {
    let mut p = Play::asked("q");
    p.replies("", &["a"]);
    p.approve(Some("b"));
    assert_eq!(p.runs[0].code, "b");
    p.ends(Outcome::Exited { code: 0 });
    let request = p.last_request();
    assert!(request.last().expect("one").contains("the user changed the code before it ran; this ran:\nb"));
    p.replies("", &["a"]);
    assert_eq!(p.runs.len(), 1, "the model quotes its own text");
}

#[test]
fn a_rejection_with_a_reason_goes_on_and_cancels_the_rest() {
    let mut p = Play::asked("q");
    p.replies("", &["a", "b"]);
    p.reject(Some("use the other \"file\""));
    let request = p.last_request();
    assert!(request[3].contains("use the other \"file\""), "{request:?}");
    assert!(request[4].starts_with("tool: not run"), "{request:?}");
    p.replies("", &["c"]);
    assert_eq!(p.proposals().last(), Some(&(3, 1, "c".into())));
}

#[test]
fn a_rejection_without_a_reason_ends_the_turn() {
    let mut p = Play::asked("q");
    p.replies("", &["a", "b"]);
    p.reject(None);
    assert_eq!(p.ended(), Some((TurnStatus::Rejected, "", false)));
    p.fact(Event::UserSaid { text: "again".into() });
    let request = p.last_request();
    assert_eq!(request.iter().filter(|m| m.starts_with("tool:")).count(), 2, "{request:?}");
}

#[test]
fn a_rejected_attempt_is_not_counted() {
    let mut p = Play::asked("q");
    p.replies("", &["a"]);
    p.runs("", "E\n", 1);
    p.replies("", &["b"]);
    p.reject(Some("no"));
    p.replies("", &["c"]);
    assert_eq!(p.proposals().last(), Some(&(1, 2, "c".into())));
}

#[test]
fn an_interrupted_run_keeps_what_was_printed() {
    let mut p = Play::asked("q");
    p.replies("", &["loop"]);
    p.approve(None);
    p.prints(StreamName::Stdout, "half\n");
    p.ends(Outcome::Cancelled);
    assert_eq!(p.ended(), Some((TurnStatus::Stopped, "", false)));
    p.fact(Event::UserSaid { text: "go on".into() });
    assert!(p.last_request().contains(&"tool: exit_code: 130\nstdout:\nhalf\nnote: interrupted by the user".into()));
}

#[test]
fn a_sandbox_that_fails_is_no_attempt_and_is_not_told() {
    let mut p = Play::asked("q");
    p.replies("", &["a", "b"]);
    p.approve(None);
    p.ends(Outcome::SetupFailed { failure: Failure::new("no Docker", "", "start it"), missing: true });
    assert_eq!((p.ended(), p.runs.len()), (None, 1), "nothing is run again by itself");
    p.approve(None);
    assert_eq!(p.runs.last().expect("a run").code, "a", "approved once more, it is tried once more");
    p.ends(Outcome::SetupFailed { failure: Failure::new("no Docker", "", "start it"), missing: true });
    p.reject(None);
    assert_eq!(p.ended(), Some((TurnStatus::SandboxError, "no Docker", false)));
    p.fact(Event::UserSaid { text: "again".into() });
    assert!(!p.last_request().iter().any(|m| m.contains("Docker")));
    p.replies("", &["a"]);
    assert_eq!(p.proposals().last(), Some(&(3, 1, "a".into())));
}

#[test]
fn the_step_limit_asks_for_a_summary_without_code() {
    let mut p = Play::new(SessionInfo { max_steps: 2, ..info() });
    p.fact(Event::UserSaid { text: "q".into() });
    p.replies("", &["a"]);
    p.runs("1\n", "", 0);
    p.replies("", &["b", "c"]);
    p.runs("2\n", "", 0);
    assert_eq!(p.runs.len(), 2);
    assert!(!p.asked.last().expect("one").code_allowed);
    p.replies("so far 2", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::StepLimit, "so far 2", false)));
}

#[test]
fn fenced_code_in_place_of_a_call_leads_to_text_mode() {
    let mut p = Play::asked("q");
    let reply = Reply { calls: vec![call("c1", "a", How::Fence)], ..Reply::default() };
    p.fact(Event::ModelReplied(Box::new(reply)));
    assert_eq!(p.session.mode(), Mode::Text);
    p.runs("1\n", "", 0);
    assert_eq!(p.asked.last().expect("one").mode, Mode::Text);
}

#[test]
fn lost_calls_are_asked_again_then_text_mode_then_an_error() {
    let mut p = Play::asked("q");
    p.broken(Problem::LostCall);
    assert_eq!((p.asked.len(), p.session.mode()), (2, Mode::Tools));
    p.broken(Problem::LostCall);
    assert_eq!((p.asked.len(), p.session.mode()), (3, Mode::Text));
    p.broken(Problem::LostCall);
    assert_eq!(p.ended().map(|e| e.0), Some(TurnStatus::ModelError));
}

#[test]
fn a_server_without_tools_leads_to_text_mode_at_once() {
    let mut p = Play::asked("q");
    let failure = Failure::new("no tools", "", "");
    let failed = ModelFailure { kind: ModelFailureKind::NoTools, failure, partial: String::new() };
    p.fact(Event::ModelFailed(failed.clone()));
    assert_eq!((p.asked.len(), p.session.mode()), (2, Mode::Text));
    p.fact(Event::ModelFailed(failed));
    assert_eq!(p.ended().map(|e| e.0), Some(TurnStatus::ModelError));
}

#[test]
fn a_guess_about_data_is_sent_back_once() {
    let mut p = Play::new(info());
    p.fact(Event::InputsListed { files: 1, bytes: 9, names: vec!["a.csv".into()], profile: "a.csv".into() });
    p.fact(Event::UserSaid { text: "q".into() });
    p.replies("It is 42.", &[]);
    assert_eq!(p.asked.len(), 2);
    p.replies("It is 42.", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "It is 42.", false)));
}

#[test]
fn a_file_the_question_names_and_nobody_has_is_told() {
    let listed = |files: u64| Event::InputsListed {
        files,
        bytes: 9,
        names: vec!["cars.csv".into(), "sub/sales.tsv".into()],
        profile: "p".into(),
    };
    for (files, question, told) in [
        (2, "How many rows has cars2.csv?", true),
        (2, "How many rows has cars.csv?", false),
        (2, "Sum of (sales.tsv), please.", false),
        (2, "What is a csv?", false),
        (3, "How many rows has cars2.csv?", false),
    ] {
        let mut p = Play::new(info());
        p.fact(listed(files));
        p.fact(Event::UserSaid { text: question.into() });
        let noted =
            |e: &Event| matches!(e, Event::Note { text, .. } if text == "cars2.csv is not among the input files");
        assert_eq!(p.facts.iter().any(noted), told, "{question} of {files}");
        assert_eq!(p.last_request()[1].contains("There is no file \"cars2.csv\""), told, "{question} of {files}");
    }
}

#[test]
fn a_long_time_limit_is_clamped_and_both_are_told() {
    let mut p = Play::asked("q");
    let mut asks = call("c1", "a", How::Call);
    asks.timeout_seconds = Some(600);
    p.fact(Event::ModelReplied(Box::new(Reply { calls: vec![asks], ..Reply::default() })));
    let proposal = p.session.proposal().expect("one").clone();
    assert_eq!((proposal.terms.timeout_seconds, proposal.asked_seconds), (10, Some(600)));
    p.runs("", "", 0);
    assert!(p.last_request().last().expect("one").contains("you asked for 600 s; the limit is 10 s"));
}

#[test]
fn a_full_window_drops_whole_rounds_and_keeps_the_question() {
    let mut p = Play::new(SessionInfo { window: 2048, ..info() });
    p.fact(Event::UserSaid { text: "the question".into() });
    for n in 0..12 {
        p.replies("", &[&format!("print({n})")]);
        p.runs(&"x".repeat(1_000), "", 0);
    }
    let request = p.last_request();
    assert!(request.contains(&"user: the question".into()));
    assert!(request.len() < 20, "{}", request.len());
    assert!(!request[2].starts_with("tool:"), "no result without its call: {request:?}");
    assert!(p.facts.iter().any(|f| matches!(f, Event::Note { kind: NoteKind::Trimmed, .. })));
    let bytes: usize = request.iter().map(String::len).sum();
    assert!(bytes < 6_000, "{bytes}");
}

#[test]
fn missing_packages_are_told_with_the_next_result() {
    let mut p = Play::asked("q");
    p.replies("", &["import scipy"]);
    p.approve(None);
    let text = "scipy is not installed".to_string();
    p.fact(Event::Note { kind: NoteKind::PackagesMissing, text });
    p.ends(Outcome::Exited { code: 1 });
    assert!(p.last_request().last().expect("one").contains("note: scipy is not installed"));
}

#[test]
fn code_of_the_persons_own_runs_and_is_told_with_the_next_question() {
    let mut p = Play::new(info());
    p.propose_own("x = 2", None);
    p.runs("two\n", "", 0);
    assert_eq!((p.ended(), p.asked.len()), (Some((TurnStatus::Answered, "", false)), 0));
    p.fact(Event::UserSaid { text: "what is x?".into() });
    let told = "user: I ran this code in the session myself:\n```python\nx = 2\n```\nexit_code: 0\nstdout:\ntwo";
    assert_eq!(p.last_request()[1..], [told, "user: what is x?"]);
    assert_eq!(p.session.own_proposal("y", None), None, "a turn is under way");
}

#[test]
fn code_of_the_persons_own_fails_and_is_rejected_like_any_other() {
    let mut p = Play::new(info());
    p.propose_own("1/0", None);
    p.runs("", "ZeroDivisionError: division by zero\n", 1);
    let why = "The code of step 1 failed once. Last error: ZeroDivisionError: division by zero";
    assert_eq!((p.ended(), p.asked.len()), (Some((TurnStatus::Failed, why, false)), 0));
    p.propose_own("2", None);
    p.reject(None);
    assert_eq!(p.ended(), Some((TurnStatus::Rejected, "", false)));
    p.fact(Event::UserSaid { text: "q".into() });
    assert_eq!(p.last_request().len(), 3, "rejected code is not told: {:?}", p.last_request());
}

#[test]
fn a_repair_of_the_person_is_the_next_attempt_and_the_model_answers() {
    let mut p = Play::new(SessionInfo { max_retries: 0, ..info() });
    p.fact(Event::UserSaid { text: "how many?".into() });
    p.replies("", &["len(x)"]);
    p.runs("", "NameError: x\n", 1);
    assert_eq!(p.ended().map(|e| e.0), Some(TurnStatus::Failed));
    assert_eq!(p.session.repairable(), Some(1));
    p.propose_own("print(3)", Some(1));
    assert_eq!(p.proposals().last(), Some(&(1, 2, "print(3)".into())));
    p.runs("3\n", "", 0);
    assert!(p.last_request().last().expect("one").contains("print(3)"));
    p.replies("There are 3.", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "There are 3.", false)));
    assert_eq!(p.session.repairable(), None);
}

#[test]
fn a_repair_that_fails_can_be_repaired_again() {
    let mut p = Play::new(SessionInfo { max_retries: 0, ..info() });
    p.fact(Event::UserSaid { text: "how many?".into() });
    p.replies("", &["a"]);
    p.runs("", "E: 1\n", 1);
    p.propose_own("b", Some(1));
    p.runs("", "E: 2\n", 1);
    assert_eq!(p.session.repairable(), Some(1));
    p.propose_own("c", Some(1));
    assert_eq!(p.proposals().last(), Some(&(1, 3, "c".into())));
    p.runs("3\n", "", 0);
    p.replies("3", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "3", false)));
}

#[test]
fn a_changed_time_limit_is_approved_as_it_is_shown() {
    let mut p = Play::asked("q");
    p.replies("", &["a"]);
    let shown = p.session.proposal().expect("one").clone();
    let (step, attempt, call) = (shown.step, shown.attempt, shown.call.clone());
    p.fact(Event::TermsChanged { step, attempt, call: call.clone(), timeout_seconds: 60 });
    let by = "user".to_string();
    p.fact(Event::CodeApproved { step, attempt, call, edited: None, by, terms: shown.terms });
    assert_eq!(p.runs.len(), 0, "an approval of the old limit does not hold");
    p.approve(None);
    assert_eq!(p.runs.last().expect("a run").terms.timeout_seconds, 60);
}

/// A session with two cells that ran well, continued in another process in the middle of a turn.
fn continued() -> Play {
    let mut p = Play::asked("q");
    p.replies("", &["x = 1", "y = 2"]);
    p.runs("1\n", "", 0);
    p.runs("2\n", "", 0);
    p.fact(Event::SessionResumed(Box::new(SessionInfo { max_retries: 1, ..info() })));
    assert_eq!(p.ended(), Some((TurnStatus::Stopped, "the session was interrupted", false)));
    p
}

#[test]
fn a_continued_session_runs_its_cells_again_and_says_what_is_not_back() {
    let mut p = continued();
    p.fact(Event::InputsListed { files: 0, bytes: 0, names: vec![], profile: String::new() });
    let cells = p.session.rebuildable().to_vec();
    assert_eq!(cells.iter().map(|c| (c.step, c.code.as_str())).collect::<Vec<_>>(), [(1, "x = 1"), (2, "y = 2")]);
    let terms = p.runs[0].terms.clone();
    p.fact(Event::RebuildDecided { cells, approved: true, by: "user".into(), terms });
    assert_eq!((p.runs.len(), p.runs[2].attempt, p.runs[2].code.as_str()), (3, 0, "x = 1"));
    p.fact(Event::UserSaid { text: "too early".into() });
    assert!(!p.session.in_turn(), "the variables come first");
    p.ends(Outcome::Exited { code: 0 });
    p.ends(Outcome::Exited { code: 1 });
    let note = "the variables of steps 1 are back; steps 2 could not be rebuilt";
    assert!(matches!(p.facts.last(), Some(Event::Note { text, .. }) if text == note), "{:?}", p.facts.last());
    p.fact(Event::UserSaid { text: "go on".into() });
    p.replies("", &["z"]);
    p.runs("3\n", "", 0);
    assert!(p.last_request().last().expect("one").contains(note), "{:?}", p.last_request());
}

#[test]
fn a_continued_session_whose_cells_do_not_run_again_says_so_to_the_model() {
    for decided in [true, false] {
        let mut p = continued();
        let cells = p.session.rebuildable().to_vec();
        let terms = p.runs[0].terms.clone();
        if decided {
            p.fact(Event::RebuildDecided { cells, approved: false, by: "user".into(), terms });
        }
        p.fact(Event::UserSaid { text: "go on".into() });
        assert!(p.session.rebuildable().is_empty());
        p.replies("", &["z"]);
        p.runs("3\n", "", 0);
        assert!(p.last_request().last().expect("one").contains("no variable of earlier code exists"));
    }
}

#[test]
fn cells_of_a_python_that_is_gone_are_not_offered() {
    let mut p = Play::asked("q");
    p.replies("", &["x = 1", "loop"]);
    p.runs("1\n", "", 0);
    p.approve(None);
    let run = p.runs.last().expect("a run").clone();
    let Event::RunFinished(mut lost) = finished(&run, Outcome::TimeLimit) else { unreachable!() };
    lost.variables_lost = true;
    p.fact(Event::RunFinished(lost));
    p.fact(Event::SessionResumed(Box::new(info())));
    assert!(p.session.rebuildable().is_empty());
}

/// Any event, fitting or not.
fn any_event() -> impl Strategy<Value = Event> {
    let terms = || Terms { timeout_seconds: 10, network: Network::Off, executor: "test".into(), tier: "-".into() };
    let outcome = prop_oneof![
        Just(Outcome::Exited { code: 0 }),
        Just(Outcome::Exited { code: 1 }),
        Just(Outcome::TimeLimit),
        Just(Outcome::Cancelled),
        Just(Outcome::BackendLost { failure: Failure::new("x", "", ""), missing: false }),
    ];
    let problem =
        prop_oneof![Just(None), Just(Some(Problem::Empty)), Just(Some(Problem::LostCall)), Just(Some(Problem::Cut))];
    let how = prop_oneof![Just(How::Call), Just(How::Fence), Just(How::Recovered)];
    let calls = prop::collection::vec(("[a-c]{1}", how), 0..4);
    let failure = prop_oneof![
        Just(ModelFailureKind::NoTools),
        Just(ModelFailureKind::TooLong),
        Just(ModelFailureKind::BadCall),
        Just(ModelFailureKind::Interrupted),
        Just(ModelFailureKind::BrokeOff)
    ];
    prop_oneof![
        Just(Event::SessionStarted(Box::new(info()))),
        Just(Event::UserSaid { text: "q".into() }),
        (calls, problem).prop_map(|(calls, problem)| {
            let calls = calls.into_iter().map(|(code, how)| call(&code, &code, how)).collect();
            Event::ModelReplied(Box::new(Reply { text: "t1".into(), calls, problem, ..Reply::default() }))
        }),
        failure.prop_map(|kind| Event::ModelFailed(ModelFailure {
            kind,
            failure: Failure::new("x", "", ""),
            partial: "p".into()
        })),
        (1u32..4, 1u32..4, "[a-c]{1}", prop::option::of("[a-c]{1}")).prop_map(move |(step, attempt, call, edited)| {
            Event::CodeApproved { step, attempt, call, edited, by: "user".into(), terms: terms() }
        }),
        ("[a-d]{1}", 1u32..4).prop_map(move |(code, step)| {
            Event::CodeProposed(Proposal {
                step,
                attempt: 1,
                call: code.clone(),
                code,
                how: How::Call,
                raw: None,
                terms: terms(),
                asked_seconds: None,
            })
        }),
        ("[a-d]{1}", 1u32..4).prop_map(move |(code, step)| {
            Event::CodeProposed(Proposal {
                step,
                attempt: 1,
                call: format!("own-{step}-1"),
                code,
                how: How::User,
                raw: None,
                terms: terms(),
                asked_seconds: None,
            })
        }),
        Just(Event::SessionResumed(Box::new(info()))),
        (prop::collection::vec((1u32..4, "[a-c]{1}"), 0..3), any::<bool>()).prop_map(move |(cells, approved)| {
            let cells = cells.into_iter().map(|(step, code)| RebuildCell { step, code }).collect();
            Event::RebuildDecided { cells, approved, by: "user".into(), terms: terms() }
        }),
        Just(Event::SandboxFailed { failure: Failure::new("x", "", "") }),
        (1u32..4, 1u32..4, "[a-c]{1}", prop::option::of("[a-c]{1}"))
            .prop_map(|(step, attempt, call, reason)| Event::CodeRejected { step, attempt, call, reason }),
        (1u32..4, any::<String>(), 0u64..9).prop_map(|(step, text, dropped)| Event::RunOutput {
            step,
            stream: StreamName::Stdout,
            text,
            dropped
        }),
        (1u32..4, any::<String>()).prop_map(|(step, text)| Event::RunResult {
            step,
            result: ResultBundle { text, ..ResultBundle::default() }
        }),
        (1u32..4, outcome).prop_map(|(step, outcome)| {
            let terms =
                Terms { timeout_seconds: 1, network: Network::Off, executor: String::new(), tier: String::new() };
            finished(&Run { step, attempt: 1, cell: 1, code: String::new(), terms }, outcome)
        }),
        Just(Event::TurnEnded { status: TurnStatus::Stopped, answer: "a".into(), unrepaired: false }),
    ]
}

proptest! {
    /// No sequence of events panics, and nothing runs but what was proposed and then approved, once.
    #[test]
    fn nothing_runs_unapproved(events in prop::collection::vec(any_event(), 0..60)) {
        let mut play = Play::new(info());
        let mut rebuild = Vec::new();
        for event in events {
            let proposed = play.session.proposal().cloned();
            let before = play.runs.len();
            if let Event::RebuildDecided { cells, approved: true, .. } = &event {
                rebuild.extend(cells.clone());
            }
            play.fact(event.clone());
            for run in &play.runs[before..] {
                if run.attempt == 0 {
                    let at = rebuild.iter().position(|c| c.step == run.step && c.code == run.code);
                    rebuild.remove(at.expect("an approved cell"));
                    continue;
                }
                let proposed = proposed.clone().expect("a run follows a proposal");
                let Event::CodeApproved { step, attempt, edited, terms, .. } = &event else {
                    panic!("a run follows an approval, not {event:?}");
                };
                prop_assert_eq!((run.step, run.attempt), (*step, *attempt));
                prop_assert_eq!((proposed.step, proposed.attempt), (*step, *attempt));
                prop_assert_eq!(&run.code, edited.as_ref().unwrap_or(&proposed.code));
                prop_assert_eq!(&run.terms, terms);
            }
            prop_assert!(play.runs.len() <= before + 1);
        }
    }

    /// Each request answers every call id exactly once, right after the reply that holds it.
    #[test]
    fn every_call_has_its_result(events in prop::collection::vec(any_event(), 0..60)) {
        let mut play = Play::new(info());
        for event in events {
            play.fact(event);
        }
        for prompt in &play.asked {
            let mut waiting: Vec<&str> = Vec::new();
            for message in &prompt.messages {
                match message {
                    Message::ToolResult { call, .. } => {
                        let at = waiting.iter().position(|w| w == call);
                        prop_assert!(at.is_some(), "a result without its call");
                        waiting.remove(at.unwrap_or_default());
                    }
                    Message::Assistant { calls, .. } => {
                        prop_assert!(waiting.is_empty());
                        waiting = calls.iter().map(|c| c.id.as_str()).collect();
                    }
                    Message::System(_) | Message::User(_) => prop_assert!(waiting.is_empty()),
                }
            }
            prop_assert!(waiting.is_empty());
        }
    }
}

#[test]
fn an_answer_with_other_numbers_than_the_output_is_asked_for_again_once() {
    let mut p = Play::asked("how much?");
    p.replies("", &["print(30.45)"]);
    p.runs("mean: 30.45\n", "", 0);
    p.replies("It is 31.7.", &[]);
    let request = p.last_request();
    assert!(request.last().expect("one").contains("none of the numbers in the output:\nmean: 30.45"), "{request:?}");
    p.replies("It is 31.7.", &[]);
    assert_eq!(p.ended(), Some((TurnStatus::Answered, "It is 31.7.", false)));
}

#[test]
fn in_text_mode_the_next_move_is_said_with_each_result() {
    let mut p = Play::new(SessionInfo { mode: Mode::Text, ..info() });
    p.fact(Event::UserSaid { text: "how many?".into() });
    assert!(p.last_request()[1].starts_with("user: how many?\n\nIf this takes data or arithmetic"));
    p.replies("", &["x = df['a']"]);
    p.runs("", "Traceback (most recent call last):\n  File \"<cell 1>\", line 1, in <module>\n    x = df['a']\n        ^^\nNameError: name 'df' is not defined\n", 1);
    let told = p.last_request().pop().expect("one");
    assert!(told.contains("The run failed at this line:\n    x = df['a']\nDo that step another way"), "{told}");
    p.replies("", &["x = 1"]);
    p.runs("", "", 0);
    assert!(p.last_request().pop().expect("one").contains("Nothing was printed."));
    p.replies("", &["print(1)"]);
    p.runs("1\n", "", 0);
    assert!(p.last_request().pop().expect("one").ends_with("Question: how many?"));
}

#[test]
fn a_model_that_copies_its_failed_code_is_asked_afresh_once() {
    let mut p = Play::new(SessionInfo { mode: Mode::Text, ..info() });
    p.fact(Event::InputsListed { files: 1, bytes: 9, names: vec!["a.csv".into()], profile: "a.csv".into() });
    p.fact(Event::UserSaid { text: "q".into() });
    p.replies("", &["x = 1"]);
    p.runs("", "", 0);
    p.replies("", &["open('data/a.csv')"]);
    p.runs("", "FileNotFoundError: no data/a.csv\n", 1);
    assert!(p.last_request().pop().expect("one").contains("opened by exactly these names: \"a.csv\""));
    p.replies("I try again.", &["open('data/a.csv')"]);
    assert_eq!(p.runs.len(), 2, "it is not run again");
    let request = p.last_request();
    assert!(!request.iter().any(|m| m.contains("open('data/a.csv')")), "{request:?}");
    assert!(request.iter().any(|m| m.contains("x = 1")), "what worked stays: {request:?}");
    assert!(request.last().expect("one").contains("\"a.csv\""), "{request:?}");
    assert!(p.asked.last().expect("one").warmer);
    p.replies("", &["open('data/a.csv')"]);
    p.runs("", "FileNotFoundError: no data/a.csv\n", 1);
    assert_eq!(p.ended().map(|e| e.0), Some(TurnStatus::Failed), "the same failure twice ends it");
}
