//! The task that owns a runner: takes requests, frames and the clock as they come, one at a time.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::{MAX_CODE, Request, Runner, Setup, lost};
use crate::core::event::{Failure, Outcome, StreamName};
use crate::sandbox::artifacts::{self, Collected, Snapshot};
use crate::sandbox::frames::{Frame, kind};
use crate::sandbox::output::Capture;
use crate::sandbox::process::kill_run;
use crate::sandbox::report::{self, Report};
use crate::sandbox::{Cell, Check, Finished, Output, SetupError, value};

/// From the interrupt to the kill, as in the runner.
const GRACE: Duration = Duration::from_secs(2);
/// What the runner may take beyond its own deadlines before it counts as stuck: its hunt for descendants and a busy machine.
const SLACK: Duration = Duration::from_secs(5);
/// Time for the runner to end after its standard input did.
const CLOSE: Duration = Duration::from_secs(5);
/// Longest run, so that no clock overflows.
const MAX_RUN: Duration = Duration::from_secs(7 * 24 * 3600);
/// Bytes of the values of one run together, as in the runner.
const MAX_VALUES_BYTES: usize = 64 * 1024 * 1024;
/// Retry while whoever reads the output is slow.
const RETRY: Duration = Duration::from_millis(30);
/// Values of one run that may come, as in the runner.
const MAX_VALUES: usize = 100;
/// One read, bytes.
const READ: usize = 64 * 1024;

/// The run that is going on.
struct Run {
    cell: Cell,
    tx: mpsc::Sender<Output>,
    /// Interrupts asked for before it was.
    interrupts: u64,
    /// Values that wait for whoever reads.
    outgoing: VecDeque<Output>,
    values: usize,
    value_bytes: usize,
    stdout: Capture,
    stderr: Capture,
    /// The workspace as it was before.
    before: Snapshot,
    started: Instant,
    deadline: Instant,
    /// Nobody reads any more.
    abandoned: bool,
    /// Interrupts handed on.
    sent: u64,
}

impl Run {
    /// Hands on what is due as far as there is room.
    fn flush(&mut self, now: Instant) {
        while self.tx.capacity() > 0 {
            let next = self.outgoing.pop_front();
            let Some(next) = next.or_else(|| self.stdout.batch(now)).or_else(|| self.stderr.batch(now)) else { return };
            // There is room, or nobody reads.
            let _ = self.tx.try_send(next);
        }
    }

    /// When to look again.
    fn due(&self, now: Instant) -> Instant {
        let text = [self.stdout.due(), self.stderr.due()].into_iter().flatten().min();
        let waits = if self.outgoing.is_empty() { text } else { Some(now) };
        let waits = waits.map(|due| if self.tx.capacity() == 0 { due.max(now + RETRY) } else { due });
        waits.map_or(self.deadline, |due| due.min(self.deadline))
    }
}

/// What the task wakes up for.
enum Wake {
    Request(Option<Request>),
    Interrupt,
    Read(usize),
    Abandoned,
    Due,
}

pub(super) struct Task {
    setup: Setup,
    runner: Option<Runner>,
    inbox: mpsc::Receiver<Request>,
    interrupted: watch::Receiver<u64>,
    /// Runs that wait for their turn.
    waiting: VecDeque<(Cell, mpsc::Sender<Output>, u64)>,
    /// Checks the runner was asked for, in order.
    checks: VecDeque<oneshot::Sender<Result<Check, SetupError>>>,
    run: Option<Run>,
    /// Cells finished since the runner started: there may be variables.
    cells: u64,
    /// The runner went between two runs and took variables along.
    lost: bool,
}

impl Task {
    pub(super) fn new(
        setup: Setup,
        runner: Runner,
        inbox: mpsc::Receiver<Request>,
        interrupted: watch::Receiver<u64>,
    ) -> Self {
        Self {
            setup,
            runner: Some(runner),
            inbox,
            interrupted,
            waiting: VecDeque::new(),
            checks: VecDeque::new(),
            run: None,
            cells: 0,
            lost: false,
        }
    }

    pub(super) async fn serve(mut self) {
        let mut buffer = vec![0; READ];
        let done = loop {
            if self.run.is_none()
                && let Some((cell, tx, interrupts)) = self.waiting.pop_front()
            {
                self.begin(cell, tx, interrupts).await;
            }
            match self.wake(&mut buffer).await {
                Wake::Request(Some(Request::Run { cell, tx, interrupts })) => {
                    self.waiting.push_back((cell, tx, interrupts));
                }
                Wake::Request(Some(Request::Check { code, reply })) => self.check(code, reply).await,
                Wake::Request(Some(Request::Close { done })) => break Some(done),
                Wake::Request(None) => break None,
                Wake::Interrupt => self.interrupt().await,
                Wake::Read(0) => self.runner_ended().await,
                Wake::Read(count) => self.take(&buffer[..count]).await,
                Wake::Abandoned => self.abandon().await,
                Wake::Due => self.due().await,
            }
            if let Some(run) = &mut self.run {
                run.flush(Instant::now());
            }
        };
        self.close().await;
        if let Some(done) = done {
            let _ = done.send(());
        }
    }

    async fn wake(&mut self, buffer: &mut [u8]) -> Wake {
        let now = Instant::now();
        let (due, abandoned) = self.run.as_ref().map_or((None, true), |run| (Some(run.due(now)), run.abandoned));
        let runner = &mut self.runner;
        let tx = self.run.as_ref().map(|run| &run.tx);
        tokio::select! {
            biased;
            Ok(()) = self.interrupted.changed() => Wake::Interrupt,
            request = self.inbox.recv() => Wake::Request(request),
            () = async { sleep_until(due.unwrap_or(now)).await }, if due.is_some() => Wake::Due,
            () = async { if let Some(tx) = tx { tx.closed().await } }, if !abandoned => Wake::Abandoned,
            count = async {
                match runner {
                    Some(runner) => runner.stdout.read(buffer).await.unwrap_or(0),
                    None => std::future::pending().await,
                }
            } => Wake::Read(count),
        }
    }

    /// A runner, a new one if the old one is gone.
    async fn runner(&mut self) -> Result<&mut Runner, SetupError> {
        if self.runner.is_none() {
            self.runner = Some(Runner::start(&mut self.setup.command).await?);
            self.cells = 0;
        }
        self.runner.as_mut().ok_or_else(|| lost("the runner is gone", ""))
    }

    async fn begin(&mut self, cell: Cell, tx: mpsc::Sender<Output>, interrupts: u64) {
        if tx.is_closed() {
            return; // nobody wants it any more
        }
        let before = self.snapshot().await;
        let now = Instant::now();
        let limit = Duration::from_secs(cell.timeout_seconds).min(MAX_RUN);
        let mut run = Run {
            interrupts,
            outgoing: VecDeque::new(),
            values: 0,
            value_bytes: 0,
            stdout: Capture::new(StreamName::Stdout, self.setup.keep.clone(), now),
            stderr: Capture::new(StreamName::Stderr, self.setup.keep.clone(), now),
            before,
            started: now,
            deadline: now + limit + GRACE + SLACK,
            abandoned: false,
            sent: 0,
            cell,
            tx,
        };
        if run.cell.code.len() > MAX_CODE {
            let failure = Failure::new("the code is longer than 1 MiB", "", "read the data from a file");
            self.run = Some(run);
            return self.finish(Finished::new(Outcome::SetupFailed { failure, missing: false })).await;
        }
        if *self.interrupted.borrow_and_update() > interrupts {
            self.run = Some(run);
            return self.finish(Finished::new(Outcome::Cancelled)).await;
        }
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let head = [&run.cell.number.to_be_bytes()[..], &millis.to_be_bytes()[..]].concat();
        let code = std::mem::take(&mut run.cell.code);
        self.run = Some(run);
        match self.runner().await {
            Ok(runner) => {
                if !runner.send(kind::RUN, &[&head, code.as_bytes()]).await {
                    return self.runner_ended().await;
                }
            }
            Err(error) => {
                let SetupError { failure, missing } = error;
                return self.finish(Finished::new(Outcome::SetupFailed { failure, missing })).await;
            }
        }
        self.interrupt().await;
    }

    async fn check(&mut self, code: String, reply: oneshot::Sender<Result<Check, SetupError>>) {
        match self.runner().await {
            Ok(runner) => {
                let sent = runner.send(kind::CHECK, &[code.as_bytes()]).await;
                self.checks.push_back(reply);
                if !sent {
                    self.runner_ended().await;
                }
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Hands on the interrupts that were asked for since the run was; the runner knows what a second one means.
    async fn interrupt(&mut self) {
        let asked = *self.interrupted.borrow_and_update();
        let (Some(run), Some(runner)) = (&mut self.run, &mut self.runner) else { return };
        let due = asked.saturating_sub(run.interrupts).saturating_add(run.abandoned.into()).min(2);
        if run.sent == 0 && due > 0 {
            run.deadline = run.deadline.min(Instant::now() + GRACE + SLACK);
        }
        while run.sent < due {
            run.sent += 1;
            // A runner that takes nothing is stuck: the deadline deals with it.
            runner.send(kind::INTERRUPT, &[]).await;
        }
    }

    /// Nobody reads: the run is stopped as if the person had asked.
    async fn abandon(&mut self) {
        if let Some(run) = &mut self.run {
            run.abandoned = true;
        }
        self.interrupt().await;
    }

    async fn due(&mut self) {
        let now = Instant::now();
        if self.run.as_ref().is_some_and(|run| now >= run.deadline) {
            self.end_stuck("the runner did not answer and was replaced").await;
        }
    }

    async fn take(&mut self, bytes: &[u8]) {
        if let Some(runner) = &mut self.runner {
            runner.decoder.push(bytes);
        }
        loop {
            let Some(runner) = &mut self.runner else { return };
            match runner.decoder.next_frame() {
                Ok(Some(frame)) => {
                    if let Some(report) = self.frame(frame).await {
                        self.finished(report).await;
                    }
                }
                Ok(None) => return,
                Err(error) => return self.end_stuck(&format!("the runner broke its protocol: {error}")).await,
            }
        }
    }

    /// Takes a frame in; returns the report that ends the run.
    async fn frame(&mut self, frame: Frame) -> Option<Report> {
        if frame.kind == kind::CHECKED {
            if let Some(reply) = self.checks.pop_front() {
                let _ = reply.send(Ok(report::check(&frame.body)));
            }
            return None;
        }
        let run = self.run.as_mut()?;
        match frame.kind {
            kind::STARTED => {
                run.started = Instant::now();
                run.outgoing.push_back(Output::Started);
            }
            kind::STDOUT | kind::STDERR => {
                let (skipped, bytes) = frame.body.split_first_chunk()?;
                let capture = if frame.kind == kind::STDOUT { &mut run.stdout } else { &mut run.stderr };
                capture.push(u64::from_be_bytes(*skipped), bytes);
            }
            kind::VALUE if run.values < MAX_VALUES && run.value_bytes < MAX_VALUES_BYTES => {
                run.values += 1;
                run.value_bytes += frame.body.len();
                // What was printed before it comes before it.
                run.outgoing.extend(run.stdout.flush());
                run.outgoing.extend(run.stderr.flush());
                // Decoding a large picture takes time: not on this thread.
                let value = tokio::task::spawn_blocking(move || value::read(&frame.body)).await;
                run.outgoing.extend(value.ok().map(Output::Value));
            }
            kind::FINISHED => return Some(report::finished(&frame.body)),
            _ => {}
        }
        None
    }

    /// The workspace as it is. Looks through a folder: not on this thread.
    async fn snapshot(&self) -> Snapshot {
        let workspace = self.setup.workspace.clone();
        // What cannot be read now cannot be read later: there is nothing to compare with.
        tokio::task::spawn_blocking(move || Snapshot::take(&workspace).ok()).await.ok().flatten().unwrap_or_default()
    }

    /// What the run made. Copies files: not on this thread.
    async fn collect(&self, before: Snapshot) -> Collected {
        let Setup { workspace, inputs, keep, .. } = &self.setup;
        let (workspace, inputs, keep) = (workspace.clone(), inputs.clone(), keep.clone());
        let collected =
            tokio::task::spawn_blocking(move || artifacts::collect(&workspace, &before, &inputs, &keep)).await;
        collected.map_err(std::io::Error::other).flatten().unwrap_or_else(|error| Collected {
            artifacts: Vec::new(),
            skipped: vec![format!("the files it made could not be kept: {error}")],
        })
    }

    async fn finished(&mut self, report: Report) {
        self.cells += 1;
        let finished = Finished {
            took_ms: report.took_ms,
            peak_bytes: report.peak_bytes,
            variables_lost: report.variables_lost,
            notes: report.notes,
            ..Finished::new(report.outcome)
        };
        self.finish(finished).await;
    }

    /// Ends the run: the last text, then the end. Whoever reads may take his time, so a task of its own hands them over.
    async fn finish(&mut self, mut finished: Finished) {
        let Some(run) = self.run.take() else { return };
        let collected = self.collect(run.before).await;
        finished.artifacts = collected.artifacts;
        finished.notes.extend(collected.skipped);
        finished.variables_lost |= std::mem::take(&mut self.lost);
        finished.notes.splice(0..0, std::mem::take(&mut self.setup.notes));
        let mut last = run.outgoing;
        for (capture, spool) in [(run.stdout, &mut finished.stdout_spool), (run.stderr, &mut finished.stderr_spool)] {
            let (text, path) = capture.finish();
            last.extend(text);
            *spool = path;
        }
        last.push_back(Output::Finished(Box::new(finished)));
        tokio::spawn(async move {
            for output in last {
                if run.tx.send(output).await.is_err() {
                    return;
                }
            }
        });
    }

    /// The runner closed its end: by itself, or something killed it.
    async fn runner_ended(&mut self) {
        let Some(mut runner) = self.runner.take() else { return };
        self.bury(&mut runner).await;
        let why = runner.last_words().await;
        self.end_lost("the Python runner ended unexpectedly", &why).await;
    }

    /// The runner is there and of no use.
    async fn end_stuck(&mut self, why: &str) {
        let Some(mut runner) = self.runner.take() else { return };
        self.bury(&mut runner).await;
        let late = self.run.as_ref().is_some_and(|run| Instant::now() >= run.deadline);
        if late && let Some(run) = &self.run {
            let outcome = if run.sent > 0 { Outcome::Cancelled } else { Outcome::TimeLimit };
            let took_ms = u64::try_from(run.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let notes = vec![why.to_string()];
            let lost = std::mem::take(&mut self.cells) > 0;
            return self.finish(Finished { took_ms, notes, variables_lost: lost, ..Finished::new(outcome) }).await;
        }
        self.end_lost("the Python runner was replaced", why).await;
    }

    async fn end_lost(&mut self, what: &str, why: &str) {
        self.lost |= std::mem::take(&mut self.cells) > 0;
        for reply in self.checks.drain(..) {
            let _ = reply.send(Err(lost(what, why)));
        }
        if let Some(run) = &self.run {
            let failure = Failure::new(what, why, "run it again: a new one is started");
            let took_ms = u64::try_from(run.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            let outcome =
                if run.sent > 0 { Outcome::Cancelled } else { Outcome::BackendLost { failure, missing: false } };
            self.finish(Finished { took_ms, ..Finished::new(outcome) }).await;
        }
    }

    /// Makes sure that a runner and everything below it is dead, before it is reaped and its number is free for others.
    /// Looks through the process table: not on this thread.
    async fn bury(&self, runner: &mut Runner) {
        let (pid, folder) = (runner.pid, self.setup.scratch.path().to_path_buf());
        let _ = tokio::task::spawn_blocking(move || kill_run(pid, &folder)).await;
        let _ = timeout(CLOSE, runner.child.wait()).await;
    }

    async fn close(mut self) {
        if let Some(mut runner) = self.runner.take() {
            // It ends within a moment of its standard input unless something stopped it.
            runner.stdin = None;
            if timeout(CLOSE, runner.child.wait()).await.is_err() {
                self.bury(&mut runner).await;
            }
        }
        self.end_lost("the sandbox was closed", "").await;
        for (_, tx, _) in self.waiting.drain(..) {
            // Its channel is empty: there is room.
            let _ = tx.try_send(Output::Finished(Box::new(Finished::new(Outcome::Cancelled))));
        }
        let scratch = self.setup.scratch;
        let _ = tokio::task::spawn_blocking(move || scratch.close()).await;
    }
}
