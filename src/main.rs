//! The program: arguments in, exit code out.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use sandscript::cli::{Cli, Command, Sessions};
use sandscript::error::{Error, Kind, Result};
use sandscript::places::Places;
use sandscript::{config_command, exec, export_command, plain, printer, sandbox, screen, sessions, show};

fn main() -> ExitCode {
    sandbox::process::harden_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match run(&cli) {
        Ok(code) => ExitCode::from(code),
        Err(Error { kind, failure }) => {
            let text = show::failure_lines(&failure.to_string(), &failure.hint);
            // There is nobody to tell where standard error is closed.
            let _ = std::io::stderr().write_all(text.as_bytes());
            ExitCode::from(kind.exit_code())
        }
    }
}

/// Help and version are printed and end well; the rest is a usage error.
fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    if arguments.iter().any(|a| a == "exec") && arguments.iter().any(|a| a == "--json") {
        let what = Error::usage("bad arguments", error.kind().to_string(), "");
        let _ = printer::print_now(&exec::last_line(&what, 0, 0));
    }
    ExitCode::from(Kind::Usage.exit_code())
}

/// Runs a command; its exit code.
fn run(cli: &Cli) -> Result<u8> {
    let places = Places::of_process()?;
    let common = &cli.common;
    if let (Some(prompt), Some(_)) = (&cli.prompt, &cli.command) {
        let hint = "put the question into quotes: sandscript \"How many rows?\"";
        return Err(Error::usage(format!("unexpected argument '{prompt}'"), "it stands before a command", hint));
    }
    match &cli.command {
        None if cli.plain => block_on(plain::new(cli.prompt.as_deref(), common, &places)),
        Some(Command::Resume(args)) if cli.plain => block_on(plain::resume(args, common, &places)),
        Some(Command::Replay(args)) if cli.plain => plain::replay(args, &places),
        None => block_on(screen::new(cli.prompt.as_deref(), common, &places)),
        Some(Command::Resume(args)) => block_on(screen::resume(args, common, &places)),
        Some(Command::Replay(args)) => block_on(screen::replay(args, common, &places)),
        Some(Command::Exec(args)) => block_on(exec::run(args, common, &places)).map(|()| 0),
        Some(Command::Export(args)) => export_command::run(args, common, &places).map(|()| 0),
        Some(Command::Sessions { command: Some(command) }) => sessions::run(command, &places).map(|()| 0),
        Some(Command::Sessions { command: None }) => {
            sessions::run(&Sessions::List { limit: 20, json: false }, &places).map(|()| 0)
        }
        Some(Command::Config(command)) => config_command::run(command, common, &places).map(|()| 0),
    }
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(Kind::Internal, "the asynchronous runtime cannot start", e.to_string(), ""))?;
    let result = runtime.block_on(work);
    // What is left (a slow name look-up) must not hold the end up.
    runtime.shutdown_background();
    result
}
