//! `sandscript exec`: one question without a screen. It is a user interface like the screen: it sends commands to the
//! driver, shows records, and approves code by itself where that is allowed.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::agent;
use crate::cli::{Common, Exec};
use crate::core::event::TurnStatus;
use crate::error::{Error, Kind, Result};
use crate::places::Places;
use crate::sandbox::inputs::Inputs;
use crate::start;

mod stops;
mod turn;
mod view;

use stops::Stops;
use turn::{Ended, Turn};
use view::View;
pub use view::last_line;

/// Longest question read from standard input, bytes.
const MAX_PROMPT_BYTES: u64 = 1024 * 1024;

/// Records between the driver and us; a slow terminal holds the driver up, never the memory.
const CHANNEL: usize = 64;

/// Runs the command. What went wrong is in the error; it was not printed yet.
pub async fn run(args: &Exec, common: &Common, places: &Places) -> Result<()> {
    let mut view = View::new(args.json);
    let mut stops = Stops::new(args.deadline)?;
    let result = question(args, common, places, &mut view, &mut stops).await;
    view.close(result, &mut stops).await
}

async fn question(args: &Exec, common: &Common, places: &Places, view: &mut View, stops: &mut Stops) -> Result<()> {
    let options = start::Options {
        max_retries: args.max_retries,
        allow_unsandboxed: args.allow_unsandboxed,
        keep: if args.ephemeral { start::Keep::Nothing } else { start::Keep::New },
    };
    let mut waiting = |text: &str| view.progress.waiting(text);
    let prepared = async {
        let argument = args.prompt.clone();
        // Standard input may take its time; a stop does not wait for it.
        let prompt = tokio::task::spawn_blocking(move || prompt(&argument)).await.unwrap_or_else(|_| bug())?;
        args.output.as_deref().map_or(Ok(()), check_output)?;
        let starter = start::Starter::new(common, places)?;
        Ok((prompt, starter.open(&options, &mut waiting).await.map_err(|failed| failed.error)?))
    };
    let (prompt, opened) = tokio::select! {
        prepared = prepared => prepared?,
        stop = stops.next() => return Err(stop.error()),
    };
    view.redactor = opened.redactor.clone();
    args.output.as_deref().map_or(Ok(()), |file| check_no_input(file, &opened.parts.open.inputs))?;
    let (orders, commands) = mpsc::channel(CHANNEL);
    let (sender, updates) = mpsc::channel(CHANNEL);
    let driver = tokio::spawn(agent::run(opened.parts, commands, sender));
    let out = args.out.as_ref().map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone()));
    let ended = Turn { orders, updates, stops, out }.run(prompt, view).await?;
    // After a stop the driver may hang in a system call; it ends with the program.
    if ended.stop.is_none() && driver.await.is_err() {
        return bug();
    }
    finish(args, ended, view)
}

fn bug<T>() -> Result<T> {
    Err(Error::new(Kind::Internal, "a task ended unexpectedly", "", "this is a bug; please report it"))
}

fn finish(args: &Exec, ended: Ended, view: &mut View) -> Result<()> {
    // What was done so far is worth a look, where it was kept.
    let look = if args.ephemeral { "" } else { "see what was done: sandscript sessions show last" };
    if let Some(stop) = &ended.stop {
        let mut error = stop.error();
        if error.failure.hint.is_empty() {
            error.failure.hint = look.into();
        }
        return Err(error);
    }
    let Some(kind) = Kind::of_turn(ended.status) else {
        if ended.unrepaired {
            view.warn("a step failed and was not repaired; the answer may be wrong");
        }
        view.answer(&ended.answer);
        let answer = view.redactor.text(ended.answer);
        return args.output.as_deref().map_or(Ok(()), |file| write_answer(file, &answer));
    };
    if let Some(failure) = ended.failure.filter(|_| matches!(kind, Kind::Model | Kind::Sandbox)) {
        return Err(Error { kind, failure });
    }
    let (what, hint) = match ended.status {
        TurnStatus::Failed => (ended.answer, look),
        TurnStatus::StepLimit => {
            let so_far =
                if ended.answer.trim().is_empty() { String::new() } else { format!("; so far: {}", ended.answer) };
            (format!("the limit of steps was reached{so_far}"), "raise it with -c agent.max_steps=N")
        }
        TurnStatus::ModelError => ("the model gave no usable reply".into(), "try another model with -m"),
        TurnStatus::SandboxError => (ended.answer, look),
        TurnStatus::Rejected | TurnStatus::Stopped | TurnStatus::Answered => ("the turn was stopped".into(), ""),
    };
    Err(Error::new(kind, what, "", hint))
}

/// Whether the answer can be written there, before anything is asked.
fn check_output(file: &Path) -> Result<()> {
    let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let hint = "give -o a file in a folder that is there";
    if !folder.is_dir() {
        return Err(Error::usage(format!("cannot write {}", file.display()), "its folder is not there", hint));
    }
    if file.is_dir() {
        return Err(Error::usage(format!("cannot write {}", file.display()), "it is a folder", hint));
    }
    Ok(())
}

/// The person's data is never written over.
fn check_no_input(file: &Path, inputs: &Inputs) -> Result<()> {
    let Ok(same) = file.canonicalize() else { return Ok(()) };
    let is_input = |path: &PathBuf| path.canonicalize().is_ok_and(|p| p == same);
    if inputs.files.iter().any(|input| is_input(&input.path)) {
        let why = "it is one of the input files";
        return Err(Error::usage(format!("will not write {}", file.display()), why, "give -o another name"));
    }
    Ok(())
}

fn write_answer(file: &Path, answer: &str) -> Result<()> {
    // A pipe that nobody reads is an error and not waited for.
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let opened = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(file);
    opened.and_then(|mut f| f.write_all(format!("{}\n", answer.trim_end()).as_bytes())).map_err(|e| {
        let hint = "the answer was printed; choose another place with -o";
        Error::new(Kind::Internal, format!("cannot write {}", file.display()), e.to_string(), hint)
    })
}

fn prompt(argument: &str) -> Result<String> {
    let mut text = argument.to_string();
    if argument == "-" {
        text.clear();
        let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_string(&mut text);
        read.map_err(|e| Error::usage("cannot read the question", e.to_string(), "give it as UTF-8 text"))?;
        if text.len() as u64 > MAX_PROMPT_BYTES {
            return Err(Error::usage("the question is too long", "more than 1 MiB", "put data into files"));
        }
    }
    if text.trim().is_empty() {
        return Err(Error::usage(
            "there is no question",
            "",
            "write: sandscript exec \"How many rows has sales.csv?\"",
        ));
    }
    Ok(text)
}
