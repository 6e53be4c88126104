//! Records as plain text for people: what `exec` shows on a terminal, `sessions show` prints and a recording plays.
//!
//! Everything is made of [`Clean`] text, so no record can move the cursor or change the terminal.

use crate::core::clean::{Clean, collapse_cr, strip_sgr};
use crate::core::event::{
    Event, How, NoteKind, Outcome, Proposal, ResultBundle, RunFinished, StreamName, Table, TurnStatus,
};
use crate::core::policy::{Capabilities, Hold, Limit};
use crate::core::render::mib;

/// Rows of a table shown as text.
const TABLE_ROWS: usize = 20;

/// A record as text; empty where there is nothing to show. `whole` also shows what a live view has shown already.
pub fn event(event: &Event, whole: bool) -> String {
    match event {
        Event::SessionStarted(info) => format!(
            "session {} · {} · {}\nmodel {} · executor {}: {}\n",
            Clean::line(&info.id),
            Clean::line(&info.started),
            Clean::line(&info.folder),
            Clean::line(&info.model),
            Clean::line(&info.executor),
            isolation(&info.capabilities),
        ),
        Event::InputsListed { files, bytes, .. } => match files {
            0 => String::new(),
            1 => format!("1 input file, {}\n", mib(*bytes)),
            n => format!("{n} input files, {}\n", mib(*bytes)),
        },
        Event::UserSaid { text } if whole => block("You", text),
        Event::UserSaid { .. } | Event::ModelDelta { .. } => String::new(),
        Event::ModelReplied(reply) if reply.text.trim().is_empty() || (reply.calls.is_empty() && !whole) => {
            String::new()
        }
        Event::ModelReplied(reply) if reply.calls.is_empty() => String::new(),
        Event::ModelReplied(reply) => block("Assistant", &reply.text),
        Event::ModelFailed(failed) => failure_lines(&failed.failure.to_string(), &failed.failure.hint),
        Event::SandboxFailed { failure } => failure_lines(&failure.to_string(), &failure.hint),
        Event::CodeProposed(proposal) => code(proposal),
        Event::CodeApproved { edited: Some(edited), .. } => format!("edited by the user:\n{}", numbered(edited, " │ ")),
        Event::CodeApproved { edited: None, .. } => String::new(),
        Event::SessionResumed(info) => format!(
            "\nsession continued · {} · model {} · executor {}\n",
            Clean::line(&info.started),
            Clean::line(&info.model),
            Clean::line(&info.executor)
        ),
        Event::TermsChanged { timeout_seconds, .. } => format!("time limit {timeout_seconds} s\n"),
        Event::ModelChanged { model, .. } => format!("· model {}\n", Clean::line(model)),
        Event::LimitsChanged { timeout_seconds, max_retries, max_steps } => {
            format!("· time limit {timeout_seconds} s, {max_retries} retries, {max_steps} steps\n")
        }
        Event::RebuildDecided { cells, approved: true, .. } => {
            format!("· running {} earlier cells again to have their variables back\n", cells.len())
        }
        Event::RebuildDecided { approved: false, .. } => "· earlier cells are not run again\n".into(),
        Event::CodeRejected { reason, .. } => match reason {
            Some(reason) => format!("rejected: {}\n", Clean::line(reason)),
            None => "rejected\n".into(),
        },
        Event::RunStarted { .. } => String::new(),
        Event::RunOutput { stream, text, dropped, .. } => output(*stream, text, *dropped),
        Event::RunResult { result, .. } => value(result),
        Event::RunFinished(finished) => run_end(finished),
        Event::ArtifactSaved { path, bytes, .. } => format!("saved {} ({})\n", Clean::line(path), mib(*bytes)),
        Event::TurnEnded { status, answer, unrepaired } if whole => turn_end(*status, answer, *unrepaired),
        Event::TurnEnded { .. } => String::new(),
        Event::Note { kind: NoteKind::Progress, .. } if whole => String::new(),
        Event::Note { text, .. } => format!("· {}\n", Clean::text(text)),
        Event::SessionEnded { .. } => String::new(),
    }
}

/// `error:` and `hint:` lines.
pub fn failure_lines(what: &str, hint: &str) -> String {
    let mut text = format!("error: {}\n", Clean::text(what));
    if !hint.is_empty() {
        text.push_str(&format!("hint: {}\n", Clean::text(hint)));
    }
    text
}

/// In a word, whether code nobody has read is safe to run.
pub fn isolation(capabilities: &Capabilities) -> &'static str {
    if capabilities.isolates() {
        "isolated"
    } else if capabilities.hold(Limit::HostFiles) == Hold::No {
        "NOT isolated, code has all your rights"
    } else {
        "isolated as well as this machine allows"
    }
}

fn block(who: &str, text: &str) -> String {
    format!("\n{who}: {}\n", Clean::text(text.trim()))
}

fn code(proposal: &Proposal) -> String {
    let how = if proposal.how == How::Recovered { " · recovered from a broken call" } else { "" };
    let head = format!("\nstep {} · attempt {}{how}\n", proposal.step, proposal.attempt);
    format!("{head}{}\n", numbered(&proposal.code, " │ "))
}

/// Code with the numbers of its lines, and `sign` between the two.
pub fn numbered(code: &str, sign: &str) -> String {
    let code = Clean::code(code).to_string();
    code.lines().enumerate().map(|(i, line)| format!("{:>4}{sign}{line}\n", i + 1)).collect()
}

fn output(stream: StreamName, text: &str, dropped: u64) -> String {
    let sign = match stream {
        StreamName::Stdout => ' ',
        StreamName::Stderr => '!',
    };
    let mut shown = String::new();
    if dropped > 0 {
        shown.push_str(&format!("   [… {dropped} bytes left out …]\n"));
    }
    let plain = Clean::text(&strip_sgr(&collapse_cr(text))).to_string();
    for line in plain.lines() {
        shown.push_str(&format!(" {sign} {line}\n"));
    }
    shown
}

fn value(result: &ResultBundle) -> String {
    let mut shown = match &result.table {
        Some(table) => table_text(table),
        // The text of a figure says nothing.
        None if result.png.is_some() => String::new(),
        None => Clean::text(&result.text).to_string().lines().map(|l| format!(" = {l}\n")).collect(),
    };
    if result.png.is_some() {
        shown.push_str(" = [figure]\n");
    }
    shown
}

fn table_text(table: &Table) -> String {
    let names: Vec<String> = table.columns.iter().map(|(name, _)| Clean::line(name).to_string()).collect();
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .take(TABLE_ROWS)
        .map(|row| row.iter().map(|cell| Clean::line(cell).to_string()).collect())
        .collect();
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|r| r.get(at)).chain(names.get(at));
        cells.map(|c| c.chars().count()).max().unwrap_or(0).min(40)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, w)| format!("{cell:>w$}"));
        format!(" = {}\n", padded.collect::<Vec<_>>().join("  "))
    };
    let mut shown = line(&names);
    shown.extend(rows.iter().map(|row| line(row)));
    if table.total_rows > rows.len() as u64 {
        shown.push_str(&format!(" = {} rows × {} columns\n", table.total_rows, table.total_columns));
    }
    shown
}

fn run_end(finished: &RunFinished) -> String {
    let memory = finished.peak_bytes.map(|b| format!(" · {}", mib(b))).unwrap_or_default();
    let limit = match &finished.outcome {
        Outcome::TimeLimit => " · time limit",
        Outcome::CpuLimit => " · processor time limit",
        Outcome::MemoryLimit => " · memory limit",
        Outcome::OutputLimit => " · output limit",
        Outcome::Cancelled => " · interrupted",
        Outcome::Signaled { .. } => " · ended by a signal",
        Outcome::SetupFailed { .. } => " · could not start",
        Outcome::BackendLost { .. } => " · the sandbox was lost",
        Outcome::Exited { .. } => "",
    };
    let mut shown = format!("exit {} · {:.2} s{memory}{limit}\n", finished.exit_code, finished.took_ms as f64 / 1000.0);
    for file in &finished.artifacts {
        shown.push_str(&format!("· file {} ({})\n", Clean::line(&file.name), mib(file.bytes)));
    }
    for text in &finished.notes {
        shown.push_str(&format!("· {}\n", Clean::line(text)));
    }
    if finished.variables_lost {
        shown.push_str("· the variables of earlier code are gone\n");
    }
    shown
}

fn turn_end(status: TurnStatus, answer: &str, unrepaired: bool) -> String {
    let head = match status {
        TurnStatus::Answered if unrepaired => "Answer (a step failed and was not repaired)",
        TurnStatus::Answered => "Answer",
        TurnStatus::Failed => "Failed",
        TurnStatus::Rejected => "Rejected",
        TurnStatus::Stopped => "Stopped",
        TurnStatus::StepLimit => "Stopped at the limit of steps",
        TurnStatus::ModelError => "The model failed",
        TurnStatus::SandboxError => "The sandbox failed",
    };
    if answer.trim().is_empty() { format!("\n{head}\n") } else { block(head, answer) }
}
