//! A sandbox that is a runner process on this machine.
//!
//! One task owns the process, its pipes and a deadline behind the runner's own; everybody else only sends. The task never
//! waits for whoever reads the output: text that cannot go on waits in the capture, which is bounded.

use std::collections::BTreeSet;
use std::path::PathBuf;
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
use super::{Cell, Check, Finished, Output, Sandbox, SetupError};
use crate::core::event::{Failure, Outcome};

mod task;

/// The runner's source, given to Python as `-c`: there is no file the code could change.
pub const RUNNER: &str = include_str!("../../assets/runner.py");

// The kernel takes no longer argument (32 pages).
const _: () = assert!(RUNNER.len() < 128 * 1024);

/// Time for Python to come up: seconds on a cold disk, not minutes.
const START: Duration = Duration::from_secs(30);
/// Time to hand over a command; the runner reads at once unless something stopped it.
const SEND: Duration = Duration::from_secs(5);
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
    /// How often an interrupt was asked for; a count, so that none is lost or late.
    interrupts: watch::Sender<u64>,
    runtime: String,
}

enum Request {
    Run { cell: Cell, tx: mpsc::Sender<Output>, interrupts: u64 },
    Check { code: String, reply: oneshot::Sender<Result<Check, SetupError>> },
    Close { done: oneshot::Sender<()> },
}

impl LocalSandbox {
    /// Starts a runner and waits until it is up.
    pub async fn start(mut setup: Setup) -> Result<Self, SetupError> {
        let runner = Runner::start(&mut setup.command).await?;
        let (requests, inbox) = mpsc::channel(CHANNEL);
        let (interrupts, interrupted) = watch::channel(0);
        let runtime = setup.runtime.clone();
        tokio::spawn(Task::new(setup, runner, inbox, interrupted).serve());
        Ok(Self { requests, interrupts, runtime })
    }
}

impl Sandbox for LocalSandbox {
    fn run(&self, cell: Cell) -> mpsc::Receiver<Output> {
        let (tx, rx) = mpsc::channel(CHANNEL);
        let interrupts = *self.interrupts.borrow();
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
        Box::pin(async move {
            if code.len() > MAX_CODE {
                return Ok(Check { error: Some((1, "the code is longer than 1 MiB".into())), imports: Vec::new() });
            }
            let (reply, answer) = oneshot::channel();
            let closed = || lost("the sandbox is closed", "");
            requests.send(Request::Check { code, reply }).await.map_err(|_| closed())?;
            match timeout(CHECK, answer).await {
                Ok(answer) => answer.map_err(|_| closed())?,
                Err(_) => Err(lost("the code could not be checked", "the runner does not answer")),
            }
        })
    }

    fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    fn runtime(&self) -> String {
        self.runtime.clone()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let requests = self.requests.clone();
        Box::pin(async move {
            let (done, closed) = oneshot::channel();
            if requests.send(Request::Close { done }).await.is_ok() {
                let _ = closed.await;
            }
        })
    }
}

fn lost(what: &str, why: &str) -> SetupError {
    SetupError { failure: Failure::new(what, why, ""), missing: false }
}

/// The process with its pipes. Dropping it closes its standard input, and so ends it with everything below it; a kill
/// would leave what lives below it to itself.
struct Runner {
    child: Child,
    pid: u32,
    /// `None` once it is told to end.
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    decoder: Decoder,
    errors: JoinHandle<String>,
}

impl Runner {
    async fn start(command: &mut Command) -> Result<Self, SetupError> {
        let what = "Python could not be started";
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| SetupError {
            missing: error.kind() == std::io::ErrorKind::NotFound,
            failure: Failure::new(what, error.to_string(), "install Python 3.9 or newer, or name one with --python"),
        })?;
        let pid = child.id().unwrap_or(0);
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(lost(what, "it has no pipes"));
        };
        let errors = tokio::spawn(read_errors(stderr));
        let mut runner = Self { child, pid, stdin: Some(stdin), stdout, decoder: Decoder::default(), errors };
        match timeout(START, runner.hello()).await {
            Ok(true) => Ok(runner),
            Ok(false) => {
                let why = runner.last_words().await;
                Err(SetupError {
                    failure: Failure::new(what, why, "Python 3.9 or newer is needed; name one with --python"),
                    missing: false,
                })
            }
            Err(_) => {
                let _ = runner.child.start_kill();
                Err(lost(what, "it was not up after 30 s"))
            }
        }
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

    /// Hands over a command; whether it was taken.
    async fn send(&mut self, kind: u8, parts: &[&[u8]]) -> bool {
        let Some(stdin) = &mut self.stdin else { return false };
        let mut bytes = Vec::new();
        frames::put(kind, parts, &mut bytes);
        matches!(timeout(SEND, stdin.write_all(&bytes)).await, Ok(Ok(())))
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
