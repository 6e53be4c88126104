//! The program: arguments in, exit code out.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use sandscript::cli::{Cli, Command};
use sandscript::error::{Error, Kind, Result};
use sandscript::places::Places;
use sandscript::{config_command, exec, export_command, printer, replay_command, sandbox, sessions, show};

fn main() -> ExitCode {
    sandbox::process::harden_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
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

fn run(cli: &Cli) -> Result<()> {
    let places = Places::of_process()?;
    match &cli.command {
        Command::Exec(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|e| Error::new(Kind::Internal, "the asynchronous runtime cannot start", e.to_string(), ""))?;
            let result = runtime.block_on(exec::run(args, &cli.common, &places));
            // What is left (a slow name look-up) must not hold the end up.
            runtime.shutdown_background();
            result
        }
        Command::Replay(args) => replay_command::run(args, &places),
        Command::Export(args) => export_command::run(args, &cli.common, &places),
        Command::Sessions(command) => sessions::run(command, &places),
        Command::Config(command) => config_command::run(command, &cli.common, &places),
    }
}
