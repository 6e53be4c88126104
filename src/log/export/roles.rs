//! Which code comes into an export, decided once for all formats, and what a reader must know of that.

use std::collections::BTreeSet;

use super::prose::literal;
use super::python::{Names, with_plain_lines};
use super::story::{Cell, Fate, Story};
use crate::core::event::Outcome;

/// Names told of that nothing in the export defines.
const MAX_UNMET: usize = 8;

/// What an export does with code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It stands there and runs.
    Runs,
    /// It stands there and its failure is passed over.
    Fails {
        /// Kept although failed code is left out: what comes later uses what it defined.
        needed: bool,
    },
    /// It is shown and not run.
    Shown,
    /// It is left out.
    Left,
}

/// What becomes of the code of a session.
pub(super) struct Roles {
    /// Of each piece, in order.
    pub(super) each: Vec<Role>,
    /// Names that code uses and only code defined that is not run.
    unmet: BTreeSet<String>,
}

/// How code ended.
enum End {
    Well,
    /// By itself, with an error.
    Badly,
    /// Something stopped it: it would end so again, or never where there is no limit.
    Stopped,
    /// It did not run.
    Not,
}

fn end(cell: &Cell) -> End {
    match &cell.fate {
        Fate::Waiting | Fate::Rejected(_) | Fate::Approved => End::Not,
        Fate::Begun => End::Stopped,
        Fate::Finished(finished) => match &finished.outcome {
            Outcome::Exited { code: 0 } => End::Well,
            Outcome::Exited { .. } => End::Badly,
            Outcome::Signaled { .. }
            | Outcome::TimeLimit
            | Outcome::CpuLimit
            | Outcome::MemoryLimit
            | Outcome::OutputLimit
            | Outcome::Cancelled => End::Stopped,
            Outcome::SetupFailed { .. } | Outcome::BackendLost { .. } => End::Not,
        },
    }
}

impl Roles {
    /// Decides. `failed`: failed and rejected code is wanted.
    ///
    /// Variables live on from a failed attempt to its repair, so an attempt that defined what later code uses is needed for
    /// a run from top to bottom.
    pub(super) fn of(story: &Story, failed: bool) -> Self {
        let cells: Vec<(&Cell, String)> = story.cells().map(|cell| (cell, with_plain_lines(cell.code()))).collect();
        let mut each = Vec::with_capacity(cells.len());
        // What later code uses; what of it was defined only by code that is not run.
        let (mut wanted, mut unmet) = (BTreeSet::new(), BTreeSet::new());
        for (cell, code) in cells.iter().rev() {
            let names = Names::of(code);
            let met = || names.bound.iter().filter(|name| wanted.contains(**name)).map(|name| (*name).to_owned());
            let role = match end(cell) {
                End::Well => Role::Runs,
                End::Badly if met().next().is_some() => Role::Fails { needed: true },
                End::Badly if failed => Role::Fails { needed: false },
                End::Badly => Role::Left,
                End::Stopped | End::Not => {
                    if matches!(end(cell), End::Stopped) {
                        unmet.extend(met());
                    }
                    if failed { Role::Shown } else { Role::Left }
                }
            };
            each.push(role);
            match role {
                Role::Runs => {
                    for name in &names.bound {
                        wanted.remove(*name);
                        unmet.remove(*name);
                    }
                }
                // Nobody knows how far it came, so an attempt before it may be needed as well.
                Role::Fails { .. } => unmet.retain(|name| !names.bound.contains(name.as_str())),
                Role::Shown | Role::Left => continue,
            }
            wanted.extend(names.used.into_iter().map(str::to_owned));
        }
        each.reverse();
        Self { each, unmet }
    }

    /// What a reader of a file with code must know first, one line each, in Markdown.
    pub(super) fn preface(&self, story: &Story) -> Vec<String> {
        let mut lines = Vec::new();
        let list = |names: &[String]| names.iter().map(|name| literal(name)).collect::<Vec<_>>().join(", ");
        if let Some(info) = &story.info {
            let python = if info.python.is_empty() { "unknown" } else { &info.python };
            let packages = if info.packages.is_empty() { "none".into() } else { list(&info.packages) };
            lines.push(format!("Python {}; packages: {packages}", literal(python)));
        }
        if !story.inputs.is_empty() {
            lines.push(format!("run it in the folder that holds {}", list(&story.inputs)));
        }
        match self.each.iter().filter(|role| **role == Role::Left).count() {
            0 => {}
            1 => lines.push("1 piece of code that failed or was not run is left out (`--failed` keeps it)".into()),
            n => lines
                .push(format!("{n} pieces of code that failed or were not run are left out (`--failed` keeps them)")),
        }
        if self.each.contains(&Role::Fails { needed: true }) {
            lines.push("an attempt that failed is kept where later code uses what it defined".into());
        }
        if !self.unmet.is_empty() {
            let names: Vec<String> = self.unmet.iter().take(MAX_UNMET).cloned().collect();
            lines.push(format!("only code that was stopped, and is not run here, defined {}", list(&names)));
        }
        if !story.restarts.is_empty() {
            let reasons = story.restarts.join("; ");
            lines.push(format!(
                "the session used several Pythons one after the other, not one for all of it ({reasons})"
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::event::{Event, RunFinished, Terms};
    use crate::core::policy::Network;
    use crate::log::export::story;

    fn session(cells: &[(&str, Outcome)]) -> Story {
        let events = cells.iter().zip(1..).flat_map(|((code, outcome), step)| {
            let terms =
                Terms { timeout_seconds: 10, network: Network::Off, executor: "subprocess".into(), tier: "-".into() };
            let call = step.to_string();
            let proposal = serde_json::from_value(serde_json::json!({
                "step": step, "attempt": 1, "call": call, "code": code, "how": "call", "terms": terms,
            }));
            let finished: RunFinished = serde_json::from_value(serde_json::json!({
                "step": step, "attempt": 1, "outcome": outcome, "exit_code": 0, "took_ms": 1,
            }))
            .unwrap();
            [
                Event::CodeProposed(proposal.unwrap()),
                Event::CodeApproved { step, attempt: 1, call, edited: None, by: "user".into(), terms },
                Event::RunFinished(Box::new(finished)),
            ]
        });
        story::of_events(events)
    }

    const GOOD: Outcome = Outcome::Exited { code: 0 };
    const BAD: Outcome = Outcome::Exited { code: 1 };

    #[test]
    fn a_failed_attempt_stays_only_where_what_it_defined_is_used() {
        let needed = Role::Fails { needed: true };
        for (cells, expected) in [
            (vec![("df = 1", BAD), ("print(df)", GOOD)], vec![needed, Role::Runs]),
            (vec![("df = 1", BAD), ("df = 2\nprint(df)", GOOD)], vec![Role::Left, Role::Runs]),
            (vec![("df = 1", BAD), ("other.df", GOOD)], vec![Role::Left, Role::Runs]),
            (vec![("a = 1", BAD), ("b = a", BAD), ("print(b)", GOOD)], vec![needed, needed, Role::Runs]),
            (vec![("df = 1", BAD), ("df = 3", GOOD), ("print(df)", GOOD)], vec![Role::Left, Role::Runs, Role::Runs]),
            (vec![("df = 1", Outcome::TimeLimit), ("print(df)", GOOD)], vec![Role::Left, Role::Runs]),
        ] {
            assert_eq!(Roles::of(&session(&cells), false).each, expected, "{cells:?}");
        }
        let all = session(&[("df = 1", BAD), ("x = 1", Outcome::TimeLimit)]);
        assert_eq!(Roles::of(&all, true).each, [Role::Fails { needed: false }, Role::Shown]);
    }

    #[test]
    fn what_only_stopped_code_defined_is_told() {
        let story = session(&[("df = 1", Outcome::TimeLimit), ("print(df)", GOOD)]);
        let preface = Roles::of(&story, false).preface(&story);
        assert!(preface.iter().any(|line| line.ends_with("not run here, defined df")), "{preface:?}");
        let story = session(&[("df = 1", GOOD), ("df = 2", Outcome::TimeLimit), ("print(df)", GOOD)]);
        assert!(Roles::of(&story, false).unmet.is_empty());
    }
}
