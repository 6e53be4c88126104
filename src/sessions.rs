//! `sandscript sessions`: the list of sessions, one of them as text, and the care of them.

use std::path::Path;

use serde_json::json;

use crate::cli::Sessions;
use crate::core::clean::Clean;
use crate::core::event::TurnStatus;
use crate::core::render::mib;
use crate::error::{Error, Kind, Result};
use crate::log::care;
use crate::log::line;
use crate::log::list::{self, SessionSummary, State};
use crate::log::reader::{Entry, Reader};
use crate::places::Places;
use crate::printer::print_now;
use crate::show;

mod clearing;

/// Runs the command.
pub fn run(command: &Sessions, places: &Places) -> Result<()> {
    match command {
        Sessions::List { limit, json } => list_sessions(*limit, *json, places),
        Sessions::Show { session, json } => {
            let found = list::find_any(&places.data, session);
            print(&found.map_err(|failure| Error { kind: Kind::Usage, failure })?, *json)
        }
        Sessions::Rename { session, title } => clearing::rename(session, title, places),
        Sessions::Delete { session, yes } => clearing::delete(session, *yes, places),
        Sessions::Prune(args) => clearing::prune(args, places),
    }
}

fn list_sessions(limit: usize, json: bool, places: &Places) -> Result<()> {
    let mut last = None;
    for session in list::list(&places.data).take(limit) {
        if !print_now(&if json { json_line(&session) } else { text_line(&session) })? {
            return Ok(());
        }
        last = Some(session.id);
    }
    if json {
        return Ok(());
    }
    let Some(last) = last else { return print_now("no sessions yet\n").map(drop) };
    match list::older_than(&places.data, &last) {
        0 => Ok(()),
        more => print_now(&format!("{more} more, see them with -n {}\n", limit.saturating_add(more))).map(drop),
    }
}

/// Prints the session in a folder, or the log at a path: its records as text or as they are, and in the text what a
/// reader must know of the log.
pub fn print(session: &Path, json: bool) -> Result<()> {
    let failed = |failure| Error { kind: Kind::Usage, failure };
    let mut reader = Reader::open(session).map_err(failed)?;
    let mut empty = true;
    for entry in &mut reader {
        empty = false;
        let text = match (&entry, json) {
            (Entry::Known(record), true) => line::encode(record).unwrap_or_default(),
            (Entry::Known(record), false) => show::event(&record.event, true),
            (Entry::Unknown { line, .. }, true) => format!("{}\n", Clean::line(line)),
            (Entry::Unknown { kind, .. }, false) => format!("· a record of the unknown type {}\n", Clean::line(kind)),
        };
        if !print_now(&text)? {
            return Ok(());
        }
    }
    let report = reader.finish();
    if empty {
        return Err(failed(report.no_record(session)));
    }
    if json {
        return Ok(());
    }
    for remark in report.remarks(list::is_open(session)) {
        if !print_now(&format!("warning: {}\n", Clean::line(&remark)))? {
            break;
        }
    }
    Ok(())
}

fn text_line(s: &SessionSummary) -> String {
    let outcome = match (s.state, s.status) {
        (State::Open, _) => "open",
        (State::Crashed, _) => "crashed",
        (State::Ended, Some(TurnStatus::Answered)) => "answered",
        (State::Ended, Some(TurnStatus::Stopped)) => "stopped",
        (State::Ended, Some(TurnStatus::Rejected)) => "rejected",
        (State::Ended, Some(TurnStatus::ModelError)) => "model failed",
        (State::Ended, Some(TurnStatus::SandboxError)) => "sandbox failed",
        (State::Ended, Some(TurnStatus::Failed | TurnStatus::StepLimit)) => "failed",
        (State::Ended, None) => "no answer",
    };
    let started: String = s.started.as_str().chars().take("2026-11-30T20:05".len()).collect();
    let started = started.replace('T', " ");
    let size = mib(care::size(&s.path));
    format!("{}  {started}  {outcome}  {size}  {}  {}\n    {}\n", s.id, s.model, s.folder, s.title)
}

fn json_line(s: &SessionSummary) -> String {
    let state = match s.state {
        State::Open => "open",
        State::Ended => "ended",
        State::Crashed => "crashed",
    };
    let value = json!({
        "id": s.id, "started": s.started.as_str(), "folder": s.folder.as_str(), "model": s.model.as_str(),
        "title": s.title.as_str(), "turns": s.turns, "status": s.status, "bytes": s.bytes, "total_bytes": care::size(&s.path),
        "state": state,
        "path": s.path.display().to_string(),
    });
    format!("{value}\n")
}
