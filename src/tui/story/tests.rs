use super::*;
use crate::core::event::{StreamName, Table};
use crate::core::policy::Network;

/// More than is kept of an earlier run.
const MUCH: usize = 1024 * 1024;

/// What is kept of an earlier run without tables, bytes, at most.
const LITTLE: usize = 128 * 1024;

fn fold(story: &mut Story, events: Vec<Event>) {
    for event in events {
        story.fold(&Record { v: 1, seq: 0, at_ms: 0, event });
    }
}

fn terms() -> Terms {
    Terms { timeout_seconds: 10, network: Network::Off, executor: "test".into(), tier: "-".into() }
}

fn proposed(step: u32, attempt: u32) -> Event {
    Event::CodeProposed(Proposal {
        step,
        attempt,
        call: format!("c{step}-{attempt}"),
        code: "print(1)".into(),
        how: How::Call,
        raw: None,
        terms: terms(),
        asked_seconds: None,
    })
}

fn run(step: u32, attempt: u32) -> Vec<Event> {
    let text = "a line that is as long as lines are\n".repeat(MUCH / 36);
    vec![
        Event::RunStarted { step, attempt, terms: terms(), runtime: String::new() },
        Event::RunOutput { step, stream: StreamName::Stdout, text, dropped: 0 },
        Event::RunFinished(Box::new(RunFinished {
            step,
            attempt,
            outcome: Outcome::Exited { code: 0 },
            exit_code: 0,
            took_ms: 1,
            peak_bytes: None,
            variables_lost: false,
            artifacts: vec![],
            notes: vec![],
            stdout_blob: None,
            stderr_blob: None,
        })),
    ]
}

fn large(story: &Story) -> Vec<usize> {
    let large = |(at, a): (usize, &Attempt)| (a.output.cost() > LITTLE).then_some(at);
    story.attempts.iter().enumerate().filter_map(large).collect()
}

#[test]
fn little_is_kept_of_earlier_runs_whatever_was_rejected_in_between() {
    let mut story = Story::default();
    for step in 1..=4 {
        fold(&mut story, vec![proposed(step, 1)]);
        fold(&mut story, run(step, 1));
        let reason = Some("no".to_string());
        for _ in 0..3 {
            fold(&mut story, vec![proposed(step + 1, 1)]);
            let (step, call) = (step + 1, format!("c{}-1", step + 1));
            fold(&mut story, vec![Event::CodeRejected { step, attempt: 1, call, reason: reason.clone() }]);
        }
    }
    // The last two that ran, each three rejected ones from the next.
    assert_eq!(large(&story), [8, 12]);
}

#[test]
fn little_is_kept_of_cells_that_ran_again() {
    let mut story = Story::default();
    for step in 1..=5 {
        fold(&mut story, vec![proposed(step, 1)]);
        fold(&mut story, run(step, 1));
    }
    for step in 1..=5 {
        fold(&mut story, run(step, 0));
    }
    assert_eq!(large(&story), [3, 4]);
}

#[test]
fn the_oldest_of_very_many_runs_are_let_go() {
    let mut story = Story::default();
    let row = || vec!["a cell of some length".to_string(); 50];
    let columns = (0..50).map(|n| (format!("c{n}"), "object".to_string())).collect();
    let table = Table { columns, rows: (0..200).map(|_| row()).collect(), total_rows: 200, total_columns: 50 };
    let result = crate::core::event::ResultBundle { last: true, text: String::new(), table: Some(table), png: None };
    let cost = |story: &Story| story.attempts.iter().map(|a| a.output.cost()).sum::<usize>();
    for step in 1..=70 {
        fold(&mut story, vec![proposed(step, 1)]);
        let mut events = run(step, 1);
        events[1] = Event::RunResult { step, result: result.clone() };
        fold(&mut story, events);
    }
    assert!(cost(&story) < OLDER_RUNS + 4 * MUCH, "{}", cost(&story));
    let last = story.attempts.last().map(|a| a.output.logical_text());
    assert!(last.is_some_and(|t| t.contains("a cell of some length")));
    let first = &story.attempts[0].output;
    assert!(first.is_finished() && first.logical_text().contains("no longer kept"), "{}", first.logical_text());
}
