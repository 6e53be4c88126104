//! Runs code before its packages are all there: a sandbox is opened at once, the environment is made ready beside it, and
//! only code that imports more than the standard library waits.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, watch};

use super::packages::{self, Environment, Prepared, State};
use super::python::{Env, Interpreter};
use super::{Cell, Check, Executor, Finished, OpenRequest, Output, Sandbox, SetupError};
use crate::core::event::{NoteKind, Outcome};
use crate::core::policy::{Capabilities, SecurityPolicy};

/// Outputs between the inner sandbox and the driver.
const CHANNEL: usize = 32;

/// An executor whose Python environment may still be in the making.
pub struct Provisioned<E> {
    /// Where code runs; its Python is the one of `environment`.
    pub inner: E,
    /// What is made ready.
    pub environment: Environment,
    /// The interpreter it is made of.
    pub interpreter: Interpreter,
    /// The environment variables pip is started with.
    pub env: Env,
}

/// How far the environment is.
#[derive(Debug, Clone, Default)]
struct Stage {
    doing: String,
    done: Option<Prepared>,
}

impl<E: Executor> Executor for Provisioned<E> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn tier(&self) -> String {
        self.inner.tier()
    }

    fn capabilities(&self, policy: &SecurityPolicy) -> Capabilities {
        self.inner.capabilities(policy)
    }

    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Box<dyn Sandbox>, SetupError>> {
        let opening = self.inner.open(request);
        if matches!(self.environment.state, State::Ready(_)) {
            return opening;
        }
        let (environment, interpreter, env) = (self.environment.clone(), self.interpreter.clone(), self.env.clone());
        async move {
            let inner: Arc<dyn Sandbox> = Arc::from(opening.await?);
            let (tell, stage) = watch::channel(Stage::default());
            let making = interpreter.clone();
            let maker = tokio::spawn(async move {
                let mut progress = |p: packages::Progress| {
                    tell.send_modify(|stage| stage.doing = p.to_string());
                };
                let prepared = packages::ensure(&environment, &making, &env, &mut progress).await;
                tell.send_modify(|stage| stage.done = Some(prepared));
            });
            let (stops, maker) = (watch::Sender::new(0), maker.abort_handle());
            let waiting = Waiting { inner, stage, interpreter, stops, maker, told: Arc::default() };
            Ok(Box::new(waiting) as Box<dyn Sandbox>)
        }
        .boxed()
    }
}

/// A sandbox whose packages may still be on their way.
struct Waiting {
    inner: Arc<dyn Sandbox>,
    stage: watch::Receiver<Stage>,
    interpreter: Interpreter,
    /// How often a stop was asked for. The inner sandbox is only asked for something under the lock of this count, so that a
    /// stop comes either before a run is handed on, and is seen, or after it, and reaches it there.
    stops: watch::Sender<u64>,
    maker: tokio::task::AbortHandle,
    /// What is missing was said.
    told: Arc<std::sync::atomic::AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.maker.abort();
    }
}

impl Sandbox for Waiting {
    fn run(&self, cell: Cell) -> mpsc::Receiver<Output> {
        let (send, receive) = mpsc::channel(CHANNEL);
        let run = Run {
            inner: self.inner.clone(),
            stage: self.stage.clone(),
            interpreter: self.interpreter.clone(),
            stops: self.stops.subscribe(),
            before: *self.stops.borrow(),
            told: self.told.clone(),
            send,
        };
        tokio::spawn(run.go(cell));
        receive
    }

    fn check(&self, code: String) -> BoxFuture<'static, Result<Check, SetupError>> {
        self.inner.check(code)
    }

    fn interrupt(&self) {
        self.stops.send_modify(|stops| {
            *stops += 1;
            self.inner.interrupt();
        });
    }

    fn runtime(&self) -> String {
        self.inner.runtime()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.maker.abort();
        self.stops.send_modify(|stops| *stops += 1);
        self.inner.close()
    }
}

/// One run on its way through the gate.
struct Run {
    inner: Arc<dyn Sandbox>,
    stage: watch::Receiver<Stage>,
    interpreter: Interpreter,
    stops: watch::Receiver<u64>,
    /// Stops that were asked for before it was.
    before: u64,
    told: Arc<std::sync::atomic::AtomicBool>,
    send: mpsc::Sender<Output>,
}

impl Run {
    async fn go(mut self, cell: Cell) {
        let (mut stops, before, send) = (self.stops.clone(), self.before, self.send.clone());
        let stopped = async {
            // An error means that the sandbox is gone.
            let _ = stops.wait_for(|stops| *stops > before).await;
        };
        let waited = tokio::select! {
            biased;
            () = stopped => false,
            () = send.closed() => return,
            () = self.packages(&cell.code) => true,
        };
        if waited {
            self.say_missing().await;
        }
        let Some(mut output) = waited.then(|| self.hand_on(cell)).flatten() else {
            let _ = send.send(Output::Finished(Box::new(Finished::new(Outcome::Cancelled)))).await;
            return;
        };
        loop {
            let piece = tokio::select! {
                piece = output.recv() => piece,
                // Nobody reads: dropping the inner output ends the run.
                () = send.closed() => return,
            };
            let Some(piece) = piece else { return };
            if send.send(piece).await.is_err() {
                return;
            }
        }
    }

    /// Hands the cell to the inner sandbox unless a stop was asked for.
    fn hand_on(&self, cell: Cell) -> Option<mpsc::Receiver<Output>> {
        let stops = self.stops.borrow();
        (*stops == self.before).then(|| self.inner.run(cell))
    }

    /// Waits for the packages where the code needs them, saying what is being done.
    async fn packages(&mut self, code: &str) {
        if self.stage.borrow().done.is_some() {
            return;
        }
        // Code that does not compile, or cannot be looked at, fails by itself and at once.
        let Ok(Check { error: None, imports }) = self.inner.check(code.to_string()).await else { return };
        if !packages::needs_packages(&imports, &self.interpreter) {
            return;
        }
        loop {
            let Stage { doing, done } = self.stage.borrow_and_update().clone();
            if done.is_some() {
                let text = "the packages are ready; the code runs".to_string();
                let _ = self.send.send(Output::Notice(NoteKind::Progress, text)).await;
                return;
            }
            let text = if doing.is_empty() { "preparing the Python packages".into() } else { doing };
            if self.send.send(Output::Notice(NoteKind::Progress, text)).await.is_err() {
                return;
            }
            if self.stage.changed().await.is_err() {
                return;
            }
        }
    }

    async fn say_missing(&self) {
        let Some(prepared) = self.stage.borrow().done.clone() else { return };
        if prepared.missing.is_empty() || self.told.swap(true, std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let _ = self.send.send(Output::Notice(NoteKind::PackagesMissing, missing_text(&prepared))).await;
    }
}

/// What cannot be imported, for person and model.
pub fn missing_text(prepared: &Prepared) -> String {
    let missing: Vec<String> = prepared.missing.iter().map(|m| format!("{} ({})", m.name, m.why)).collect();
    format!("not installed: {}; do without", missing.join(", "))
}
