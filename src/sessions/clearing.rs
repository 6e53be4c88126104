//! `sessions rename`, `delete` and `prune`. What is deleted is named and asked first.

use std::io::{BufRead, IsTerminal, Write};
use std::time::SystemTime;

use jiff::Timestamp;

use crate::cli::Prune;
use crate::core::clean::Clean;
use crate::core::event::Failure;
use crate::core::render::mib;
use crate::error::{Error, Kind, Result};
use crate::log::care::{self, Doomed, Plan};
use crate::log::list;
use crate::places::Places;
use crate::printer::print_now;

/// Longest answer that is read, bytes.
const MAX_ANSWER: u64 = 64;

fn failed(failure: Failure) -> Error {
    Error { kind: Kind::Usage, failure }
}

/// Gives a session another title.
pub fn rename(name: &str, title: &str, places: &Places) -> Result<()> {
    let folder = list::find(&places.data, name).map_err(failed)?;
    let title = care::rename(&places.data, &folder, title).map_err(failed)?;
    let id = list::id_of(&folder);
    let text = match title.as_str() {
        "" => format!("session {id} has its first question as the title again\n"),
        title => format!("session {id} is now called {title}\n"),
    };
    print_now(&text).map(drop)
}

/// Deletes a session.
pub fn delete(name: &str, yes: bool, places: &Places) -> Result<()> {
    let folder = list::find(&places.data, name).map_err(failed)?;
    let id = list::id_of(&folder);
    let title = list::summary(&folder).map(|s| format!(", {}", s.title)).unwrap_or_default();
    let what = format!("session {id}, {}{title}", mib(care::size(&folder)));
    if !yes && !confirmed(&format!("delete {what}"))? {
        return print_now("nothing was deleted\n").map(drop);
    }
    care::delete(&places.data, &folder).map_err(failed)?;
    print_now(&format!("deleted {what}\n")).map(drop)
}

/// Deletes what was not used for long.
pub fn prune(args: &Prune, places: &Places) -> Result<()> {
    // An age before the beginning of time is older than everything.
    let before = args.older_than.map(|age| SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
    let plan = care::prune_plan(&places.data, before, args.max_size);
    print_now(&described(&plan))?;
    if plan.goes.is_empty() || args.dry_run {
        return Ok(());
    }
    let count = plan.goes.len();
    if !args.yes && !confirmed(&format!("delete {}", sessions(count)))? {
        return print_now("nothing was deleted\n").map(drop);
    }
    let mut first_failure = None;
    let mut freed = 0;
    for doomed in &plan.goes {
        match care::delete(&places.data, &doomed.path) {
            Ok(()) => freed += doomed.bytes,
            Err(failure) => first_failure = first_failure.or(Some(failure)),
        }
    }
    print_now(&format!("deleted {}\n", mib(freed)))?;
    first_failure.map_or(Ok(()), |failure| Err(failed(failure)))
}

fn sessions(count: usize) -> String {
    if count == 1 { "1 session".into() } else { format!("{count} sessions") }
}

fn described(plan: &Plan) -> String {
    let mut text: String = plan.goes.iter().map(line).collect();
    let open = if plan.open > 0 { format!(", {} of them because it is open", plan.open) } else { String::new() };
    let (goes, stays) = (sessions(plan.goes.len()), sessions(plan.stays));
    let goes_bytes = mib(plan.goes_bytes());
    text.push_str(&format!("to delete: {goes}, {goes_bytes}; to keep: {stays}, {}{open}\n", mib(plan.stays_bytes)));
    text
}

fn line(doomed: &Doomed) -> String {
    let used = Timestamp::try_from(doomed.used).map(|used| used.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
    let title = doomed.summary.as_ref().map_or_else(|| Clean::line("no log that can be read"), |s| s.title.clone());
    format!("{}  last used {used}  {}  {title}\n", doomed.id, mib(doomed.bytes))
}

/// Asks on the terminal. Without one nobody can be asked.
fn confirmed(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Error::usage("nothing was deleted", "there is no terminal to ask on", "say --yes"));
    }
    let no_answer = |e: std::io::Error| Error::usage("nothing was deleted", e.to_string(), "say --yes");
    write!(std::io::stderr(), "{question}: are you sure? [y/N] ").map_err(no_answer)?;
    let mut answer = String::new();
    std::io::Read::take(std::io::stdin().lock(), MAX_ANSWER).read_line(&mut answer).map_err(no_answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
