//! The task that owns a runner: takes requests, frames and the clock as they come, one at a time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::{CLOSE, MAX_CODE, Reply, Request, Runner, START, Setup, Signals, lost};
use crate::core::event::{Failure, Outcome, StreamName};
use crate::sandbox::artifacts::{self, Collected, Snapshot};
use crate::sandbox::frames::{Frame, kind};
use crate::sandbox::output::Capture;
use crate::sandbox::process::kill_orphans;
use crate::sandbox::report::{self, Report};
use crate::sandbox::{Cell, Finished, Output, SetupError, scratch, value};

/// From the interrupt to the kill, as in the runner.
const GRACE: Duration = Duration::from_secs(2);
/// What the runner may take beyond its own deadlines before it counts as stuck: its hunt for descendants and a busy machine.
const SLACK: Duration = Duration::from_secs(5);
/// What it may take beyond the kill that a person asked for: he waits, and the variables are lost anyway.
const STOP_SLACK: Duration = Duration::from_millis(200);
/// Silence after which everything the runner said before a deadline was looked at: this program may have been stopped past
/// it. The runner keeps what does not fit into the pipe, and a busy machine lets it wait.
const SILENCE: Duration = Duration::from_millis(100);
/// Longest look at it, should it never stop talking.
const LAST_FRAMES: Duration = Duration::from_secs(1);
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
    limit: Duration,
    /// The code began.
    started: Option<Instant>,
    /// When the runner counts as stuck: the start has a clock of its own, the run's begins with the code.
    deadline: Instant,
    /// Nobody reads any more.
    abandoned: bool,
    /// Interrupts handed on.
    sent: u64,
}

impl Run {
    /// The code begins. Said once: a clock that could be wound up again would be none.
    fn begins(&mut self, now: Instant) {
        if self.started.is_some() {
            return;
        }
        self.started = Some(now);
        let end = now + self.limit + GRACE + SLACK;
        // A stop that was asked for before holds.
        self.deadline = if self.sent > 0 { end.min(self.deadline) } else { end };
        self.outgoing.push_back(Output::Started);
    }

    fn took_ms(&self) -> u64 {
        let took = self.started.map(|started| started.elapsed()).unwrap_or_default();
        u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
    }

    /// How it ends when the runner is lost: by what was asked for or due before, else by the loss.
    fn outcome(&self, lost: &Failure, at: Instant) -> Outcome {
        if self.sent > 0 {
            Outcome::Cancelled
        } else if self.started.is_some() && at >= self.deadline {
            Outcome::TimeLimit
        } else {
            Outcome::BackendLost { failure: lost.clone(), missing: false }
        }
    }

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
    Signal,
    Read(usize),
    Abandoned,
    Due,
}

pub(super) struct Task {
    setup: Setup,
    runner: Option<Runner>,
    inbox: mpsc::Receiver<Request>,
    signals: watch::Receiver<Signals>,
    /// Runs that wait for their turn.
    waiting: VecDeque<(Cell, mpsc::Sender<Output>, u64)>,
    /// Checks the runner was asked for, by number: an answer is never taken for another's.
    checks: BTreeMap<u32, Reply>,
    next_check: u32,
    run: Option<Run>,
    /// Cells finished since the runner started: there may be variables.
    cells: u64,
    /// Variables went, and no run told the model of it yet.
    lost: bool,
}

/// What happened to a runner whose output ended.
const ENDED: &str = "the Python runner ended unexpectedly";

/// Why there is no runner.
enum NoRunner {
    /// The person did not want to wait for it.
    Stopped,
    Failed(SetupError),
}

impl Task {
    pub(super) fn new(
        setup: Setup,
        runner: Runner,
        inbox: mpsc::Receiver<Request>,
        signals: watch::Receiver<Signals>,
    ) -> Self {
        Self {
            setup,
            runner: Some(runner),
            inbox,
            signals,
            waiting: VecDeque::new(),
            checks: BTreeMap::new(),
            next_check: 0,
            run: None,
            cells: 0,
            lost: false,
        }
    }

    pub(super) async fn serve(mut self) {
        let mut buffer = vec![0; READ];
        while !self.signals.borrow().closing {
            if self.run.is_none()
                && let Some((cell, tx, interrupts)) = self.waiting.pop_front()
            {
                self.begin(cell, tx, interrupts).await;
                continue; // it may be over already, and others wait
            }
            match self.wake(&mut buffer).await {
                Wake::Request(Some(Request::Run { cell, tx, interrupts })) => {
                    self.waiting.push_back((cell, tx, interrupts));
                }
                Wake::Request(Some(Request::Check { code, reply, interrupts })) => {
                    self.check(code, reply, interrupts).await;
                }
                Wake::Request(None) => break,
                Wake::Signal => self.interrupt(),
                Wake::Read(0) => self.end_runner(ENDED, None).await,
                Wake::Read(count) => self.take(&buffer[..count]).await,
                Wake::Abandoned => self.abandon(),
                Wake::Due => self.due(&mut buffer).await,
            }
            if let Some(run) = &mut self.run {
                run.flush(Instant::now());
            }
        }
        self.close().await;
    }

    async fn wake(&mut self, buffer: &mut [u8]) -> Wake {
        let now = Instant::now();
        let (due, abandoned) = self.run.as_ref().map_or((None, true), |run| (Some(run.due(now)), run.abandoned));
        let runner = &mut self.runner;
        let tx = self.run.as_ref().map(|run| &run.tx);
        tokio::select! {
            biased;
            Ok(()) = self.signals.changed() => Wake::Signal,
            request = self.inbox.recv() => Wake::Request(request),
            () = async { sleep_until(due.unwrap_or(now)).await }, if due.is_some() => Wake::Due,
            () = async { if let Some(tx) = tx { tx.closed().await } }, if !abandoned => Wake::Abandoned,
            count = async {
                match runner {
                    Some(runner) => runner.exchange(buffer).await,
                    None => std::future::pending().await,
                }
            } => Wake::Read(count),
        }
    }

    /// A runner, a new one if the old one is gone. It may take long to come up: an interrupt after the first `interrupts`,
    /// or a close, ends the start.
    async fn runner(&mut self, interrupts: u64) -> Result<&mut Runner, NoRunner> {
        if self.runner.is_none() {
            let folder = self.setup.scratch.path();
            let mut runner = Runner::spawn(&mut self.setup.command).map_err(NoRunner::Failed)?;
            let mut signals = self.signals.clone();
            let stopped = async {
                // An error means that nobody wants it any more either.
                let _ = signals.wait_for(|signals| signals.closing || signals.interrupts > interrupts).await;
            };
            let up = tokio::select! {
                biased;
                () = stopped => None,
                up = runner.up(folder) => Some(up),
            };
            match up {
                Some(up) => up.map_err(NoRunner::Failed)?,
                None => {
                    runner.bury(folder).await;
                    return Err(NoRunner::Stopped);
                }
            }
            self.runner = Some(runner);
            self.cells = 0;
        }
        self.runner.as_mut().ok_or_else(|| NoRunner::Failed(lost("the runner is gone", "")))
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
            limit,
            started: None,
            deadline: now + START,
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
        if self.signals.borrow_and_update().interrupts > interrupts {
            self.run = Some(run);
            return self.finish(Finished::new(Outcome::Cancelled)).await;
        }
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let head = [&run.cell.number.to_be_bytes()[..], &millis.to_be_bytes()[..]].concat();
        let code = std::mem::take(&mut run.cell.code);
        let finished = match self.runner(interrupts).await {
            Ok(runner) => {
                runner.send(kind::RUN, &[&head, code.as_bytes()]);
                run.deadline = Instant::now() + START;
                self.run = Some(run);
                return self.interrupt();
            }
            Err(NoRunner::Stopped) => Finished::new(Outcome::Cancelled),
            Err(NoRunner::Failed(SetupError { failure, missing })) => {
                Finished::new(Outcome::SetupFailed { failure, missing })
            }
        };
        self.run = Some(run);
        self.finish(finished).await;
    }

    async fn check(&mut self, code: String, reply: Reply, interrupts: u64) {
        if reply.is_closed() {
            return; // nobody wants it any more
        }
        let number = self.next_check;
        self.next_check = number.wrapping_add(1);
        let error = match self.runner(interrupts).await {
            Ok(runner) => {
                runner.send(kind::CHECK, &[&number.to_be_bytes(), code.as_bytes()]);
                self.checks.insert(number, reply);
                return;
            }
            Err(NoRunner::Stopped) => lost("the code could not be checked", "the start of Python was stopped"),
            Err(NoRunner::Failed(error)) => error,
        };
        let _ = reply.send(Err(error));
    }

    /// Hands on the interrupts that were asked for since the run was; the runner knows what a second one means. Should
    /// something have stopped the runner itself, we do what it does not.
    fn interrupt(&mut self) {
        let asked = self.signals.borrow_and_update().interrupts;
        let (Some(run), Some(runner)) = (&mut self.run, &mut self.runner) else { return };
        let due = asked.saturating_sub(run.interrupts).saturating_add(run.abandoned.into()).min(2);
        while run.sent < due {
            run.sent += 1;
            let grace = if run.sent == 1 { GRACE } else { Duration::ZERO };
            run.deadline = run.deadline.min(Instant::now() + grace + STOP_SLACK);
            runner.send(kind::INTERRUPT, &[]);
        }
    }

    /// Nobody reads: the run is stopped as if the person had asked.
    fn abandon(&mut self) {
        if let Some(run) = &mut self.run {
            run.abandoned = true;
        }
        self.interrupt();
    }

    /// Something is due. A deadline is judged only by a run whose frames were all looked at.
    async fn due(&mut self, buffer: &mut [u8]) {
        let until = Instant::now() + LAST_FRAMES;
        while self.is_late()
            && let Some(runner) = &mut self.runner
            && let Ok(count) = timeout(SILENCE, runner.exchange(buffer)).await
        {
            if count == 0 {
                return self.end_runner(ENDED, None).await;
            }
            self.take(&buffer[..count]).await;
            if Instant::now() >= until {
                break; // it never stops talking
            }
        }
        if self.is_late() {
            self.end_runner("the Python runner was replaced", Some("it did not answer".into())).await;
        }
    }

    fn is_late(&self) -> bool {
        self.run.as_ref().is_some_and(|run| Instant::now() >= run.deadline)
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
                Err(error) => {
                    let why = format!("it broke its protocol: {error}");
                    return self.end_runner("the Python runner was replaced", Some(why)).await;
                }
            }
        }
    }

    /// Takes a frame in; returns the report that ends the run.
    async fn frame(&mut self, frame: Frame) -> Option<Report> {
        if frame.kind == kind::CHECKED {
            let (number, found) = frame.body.split_first_chunk()?;
            let reply = self.checks.remove(&u32::from_be_bytes(*number))?;
            let _ = reply.send(Ok(report::check(found)));
            return None;
        }
        let run = self.run.as_mut()?;
        match frame.kind {
            kind::STARTED => run.begins(Instant::now()),
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
        // Of these two the model hears only that there was no sandbox: what it must know waits for the next result.
        let untold = matches!(finished.outcome, Outcome::BackendLost { .. } | Outcome::SetupFailed { .. });
        finished.variables_lost |= self.lost;
        self.lost = finished.variables_lost && untold;
        if !untold {
            finished.notes.splice(0..0, std::mem::take(&mut self.setup.notes));
        }
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

    /// The runner is of no use any more, or it ended; then its last words say why.
    async fn end_runner(&mut self, what: &str, why: Option<String>) {
        let Some(mut runner) = self.runner.take() else { return };
        let at = Instant::now();
        runner.bury(self.setup.scratch.path()).await;
        let why = match why {
            Some(why) => why,
            None => runner.last_words().await,
        };
        self.end_all(what, &why, at).await;
    }

    /// What was asked of a runner that was lost at that moment ends with it.
    async fn end_all(&mut self, what: &str, why: &str, at: Instant) {
        self.lost |= std::mem::take(&mut self.cells) > 0;
        for reply in std::mem::take(&mut self.checks).into_values() {
            let _ = reply.send(Err(lost(what, why)));
        }
        let Some(run) = &self.run else { return };
        let failure = Failure::new(what, why, "run it again: a new one is started");
        let outcome = run.outcome(&failure, at);
        let said = matches!(outcome, Outcome::BackendLost { .. });
        let notes = if said { Vec::new() } else { vec![format!("{what}: {why}")] };
        let took_ms = run.took_ms();
        self.finish(Finished { took_ms, notes, ..Finished::new(outcome) }).await;
    }

    async fn close(mut self) {
        if let Some(mut runner) = self.runner.take() {
            // It ends within a moment of its standard input unless something stopped it.
            runner.stdin = None;
            if timeout(CLOSE, runner.child.wait()).await.is_err() {
                runner.bury(self.setup.scratch.path()).await;
            }
        }
        self.end_all("the sandbox was closed", "", Instant::now()).await;
        let folder = self.setup.scratch;
        let clear = move || {
            kill_orphans();
            // What it leaves (a file that cannot be removed) its owner tries once more when it is dropped.
            let _ = scratch::remove(folder.path());
        };
        let _ = tokio::task::spawn_blocking(clear).await;
        // Whoever waits for the end waits for this.
        self.inbox.close();
        let mut waiting: Vec<_> = self.waiting.into_iter().map(|(_, tx, _)| tx).collect();
        while let Ok(request) = self.inbox.try_recv() {
            if let Request::Run { tx, .. } = request {
                waiting.push(tx);
            }
        }
        for tx in waiting {
            // Its channel is empty: there is room.
            let _ = tx.try_send(Output::Finished(Box::new(Finished::new(Outcome::Cancelled))));
        }
    }
}
