//! A sandbox that is a runner process on this machine.
//!
//! One task owns the process, its pipes and a deadline behind the runner's own; everybody else only sends. The task waits
//! neither for whoever reads the output (text that cannot go on waits in the capture, which is bounded) nor for a runner
//! that does not read or does not come up: a stop reaches it at any time.

use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use task::Task;

use super::frames::{self, Decoder, kind};
use super::process::{adopt_orphans, kill_run, start};
use super::{Cell, Check, Finished, Output, Sandbox, SetupError};
use crate::core::event::{Failure, Outcome};

mod task;

/// The runner's source, given to Python as `-c`: there is no file the code could change.
pub const RUNNER: &str = include_str!("../../assets/runner.py");

// The kernel takes no longer argument (32 pages).
const _: () = assert!(RUNNER.len() < 128 * 1024);

/// Time for Python to come up: seconds on a cold disk, not minutes.
const START: Duration = Duration::from_secs(30);
/// Time for the runner to end after its standard input did, and for the system to end one that was killed.
const CLOSE: Duration = Duration::from_secs(5);
/// Time for the last words of a runner that ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Time for a check with others before it; the runner gives each 5 s.
const CHECK: Duration = Duration::from_secs(30);
/// Requests and outputs that may wait.
const CHANNEL: usize = 64;
/// Source of one cell, bytes; the runner takes 4 MiB.
const MAX_CODE: usize = 1024 * 1024;
/// Standard error of the runner that is kept for the failure text, bytes.
const MAX_ERRORS: usize = 4 * 1024;

/// What a runner is started with.
pub struct Setup {
    /// The runner with its arguments, environment and working folder; its standard streams are set here.
    pub command: Command,
    /// Interpreter or image, for the log.
    pub runtime: String,
    /// Folder for what is kept.
    pub keep: PathBuf,
    /// Folder of this sandbox, removed with it. Stands in the environment of its processes.
    pub scratch: TempDir,
    /// Working folder of the code, in `scratch`.
    pub workspace: PathBuf,
    /// Names of the inputs in it, which are no artifacts.
    pub inputs: BTreeSet<String>,
    /// What the first run should tell: inputs left out.
    pub notes: Vec<String>,
}

/// A runner process and the task that owns it.
pub struct LocalSandbox {
    requests: mpsc::Sender<Request>,
    signals: watch::Sender<Signals>,
    runtime: String,
}

/// What is asked for beside the requests, because it must not wait behind them.
#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    /// How often an interrupt was asked for; a count, so that none is lost or late.
    interrupts: u64,
    /// The end is asked for.
    closing: bool,
}

enum Request {
    Run { cell: Cell, tx: mpsc::Sender<Output>, interrupts: u64 },
    Check { code: String, reply: Reply, interrupts: u64 },
}

type Reply = oneshot::Sender<Result<Check, SetupError>>;

impl LocalSandbox {
    /// Starts a runner and waits until it is up. Dropped before that, it ends the runner.
    pub async fn start(mut setup: Setup) -> Result<Self, SetupError> {
        adopt_orphans();
        let mut runner = Runner::spawn(&mut setup.command)?;
        make_private(setup.keep.clone()).await;
        runner.up(setup.scratch.path()).await?;
        let (requests, inbox) = mpsc::channel(CHANNEL);
        let (signals, signalled) = watch::channel(Signals::default());
        let runtime = setup.runtime.clone();
        tokio::spawn(Task::new(setup, runner, inbox, signalled).serve());
        Ok(Self { requests, signals, runtime })
    }
}

impl Sandbox for LocalSandbox {
    fn run(&self, cell: Cell) -> mpsc::Receiver<Output> {
        let (tx, rx) = mpsc::channel(CHANNEL);
        let interrupts = self.signals.borrow().interrupts;
        if self.requests.try_send(Request::Run { cell, tx: tx.clone(), interrupts }).is_err() {
            let failure = Failure::new("the sandbox is closed", "", "");
            let finished = Finished::new(Outcome::BackendLost { failure, missing: false });
            // The channel is new and empty: there is room.
            let _ = tx.try_send(Output::Finished(Box::new(finished)));
        }
        rx
    }

    fn check(&self, code: String) -> BoxFuture<'static, Result<Check, SetupError>> {
        let requests = self.requests.clone();
        let interrupts = self.signals.borrow().interrupts;
        Box::pin(async move {
            if code.len() > MAX_CODE {
                return Ok(Check { error: Some((1, "the code is longer than 1 MiB".into())), imports: Vec::new() });
            }
            let (reply, answer) = oneshot::channel();
            let closed = || lost("the sandbox is closed", "");
            requests.send(Request::Check { code, reply, interrupts }).await.map_err(|_| closed())?;
            match timeout(CHECK, answer).await {
                Ok(answer) => answer.map_err(|_| closed())?,
                Err(_) => Err(lost("the code could not be checked", "the runner does not answer")),
            }
        })
    }

    fn interrupt(&self) {
        self.signals.send_modify(|signals| signals.interrupts += 1);
    }

    fn runtime(&self) -> String {
        self.runtime.clone()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.signals.send_modify(|signals| signals.closing = true);
        let requests = self.requests.clone();
        // The task drops its end when everything is gone.
        Box::pin(async move { requests.closed().await })
    }
}

fn lost(what: &str, why: &str) -> SetupError {
    SetupError { failure: Failure::new(what, why, ""), missing: false }
}

/// Makes the folder for what is kept, readable for the person only. Where that cannot be done whoever keeps something
/// says so.
async fn make_private(folder: PathBuf) {
    let make = move || std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let _ = tokio::task::spawn_blocking(make).await;
}

/// The process with its pipes. Dropping it closes its standard input, and so ends it with everything below it; a kill
/// would leave what lives below it to itself. Before it is up it does not read, and no code of anybody is below it.
struct Runner {
    child: Child,
    pid: u32,
    is_up: bool,
    /// `None` once it is told to end.
    stdin: Option<ChildStdin>,
    /// Commands on their way.
    outgoing: Vec<u8>,
    stdout: ChildStdout,
    decoder: Decoder,
    errors: JoinHandle<String>,
}

/// What could not be had when there is no Python.
const NO_START: &str = "Python could not be started";

impl Runner {
    fn spawn(command: &mut Command) -> Result<Self, SetupError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = start(command).map_err(|error| SetupError {
            missing: error.kind() == std::io::ErrorKind::NotFound,
            failure: Failure::new(
                NO_START,
                error.to_string(),
                "install Python 3.9 or newer, or name one with --python",
            ),
        })?;
        let pid = child.id().unwrap_or(0);
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(lost(NO_START, "it has no pipes"));
        };
        let errors = tokio::spawn(read_errors(stderr));
        let (stdin, outgoing, decoder) = (Some(stdin), Vec::new(), Decoder::default());
        Ok(Self { child, pid, is_up: false, stdin, outgoing, stdout, decoder, errors })
    }

    /// Waits until it is up; buries it where it does not come up.
    async fn up(&mut self, folder: &Path) -> Result<(), SetupError> {
        let said = timeout(START, self.hello()).await;
        if said == Ok(true) {
            self.is_up = true;
            return Ok(());
        }
        self.bury(folder).await;
        if said.is_err() {
            return Err(lost(NO_START, "it was not up after 30 s"));
        }
        let why = self.last_words().await;
        let hint = "Python 3.9 or newer is needed; name one with --python";
        Err(SetupError { failure: Failure::new(NO_START, why, hint), missing: false })
    }

    /// Waits for the first word; whether it was the right one.
    async fn hello(&mut self) -> bool {
        let mut buffer = [0; 256];
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => return frame.kind == kind::HELLO,
                Ok(None) => {}
                Err(_) => return false,
            }
            match self.stdout.read(&mut buffer).await {
                Ok(0) | Err(_) => return false,
                Ok(count) => self.decoder.push(&buffer[..count]),
            }
        }
    }

    /// Puts a command on its way.
    fn send(&mut self, kind: u8, parts: &[&[u8]]) {
        frames::put(kind, parts, &mut self.outgoing);
    }

    /// Writes what is on its way and waits for something to read; how much it was, 0 at the end. Dropping it loses nothing.
    async fn exchange(&mut self, buffer: &mut [u8]) -> usize {
        loop {
            let Self { stdin, stdout, outgoing, .. } = self;
            let write = async {
                match stdin {
                    Some(stdin) if !outgoing.is_empty() => stdin.write(outgoing).await,
                    Some(_) | None => std::future::pending().await,
                }
            };
            let wrote = tokio::select! {
                count = stdout.read(buffer) => return count.unwrap_or(0),
                wrote = write => wrote,
            };
            match wrote {
                Ok(count) if count > 0 => drop(outgoing.drain(..count)),
                // It reads no more: its end, or the deadline, is noticed elsewhere.
                Ok(_) | Err(_) => outgoing.clear(),
            }
        }
    }

    /// Makes sure that it and everything below it is dead, before it is reaped and its number is free for others. Looks
    /// through the process table: not on this thread.
    async fn bury(&mut self, folder: &Path) {
        let (pid, folder) = (self.pid, folder.to_path_buf());
        let _ = tokio::task::spawn_blocking(move || kill_run(pid, &folder)).await;
        let _ = timeout(CLOSE, self.child.wait()).await;
    }

    /// Why it ended, as far as can be told in short time.
    async fn last_words(&mut self) -> String {
        let status = timeout(LAST_WORDS, self.child.wait()).await;
        let errors = timeout(LAST_WORDS, &mut self.errors).await.ok().and_then(Result::ok).unwrap_or_default();
        match (errors.lines().rfind(|line| !line.trim().is_empty()), status) {
            (Some(line), _) => line.to_string(),
            (None, Ok(Ok(status))) => status.to_string(),
            (None, _) => String::new(),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // No number once it is reaped.
        if let Some(pid) = self.child.id().filter(|_| !self.is_up) {
            kill_run(pid, Path::new(""));
        }
    }
}

/// The end of what the runner itself complains about. Cleaned, for the code may write there as well.
async fn read_errors(mut stderr: tokio::process::ChildStderr) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count) = stderr.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        let over = kept.len().saturating_sub(MAX_ERRORS);
        kept.drain(..over);
    }
    crate::core::clean::Clean::text(&String::from_utf8_lossy(&kept)).into_string()
}

#[cfg(test)]
mod tests;
