//! Puts a session together from the configuration: interpreter, packages, inputs, executor, model and log. Nothing runs
//! yet, and nothing is decided here that the core decides.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures_util::future::{BoxFuture, FutureExt};
use jiff::Timestamp;

use crate::agent::{Changes, Connection, Parts};
use crate::cli::Common;
use crate::config::Config;
use crate::core::event::{Event, Failure, ModelFailureKind, Record, SessionInfo};
use crate::desk::Desk;
use crate::error::{Error, Kind, Result};
use crate::log::FILES_FOLDER;
use crate::log::reader::{Entry, Reader};
use crate::log::redact::Redactor;
use crate::log::writer::LogWriter;
use crate::model::connect::{self, Connected};
use crate::model::endpoint::Endpoint;
use crate::model::secret::Secret;
use crate::places::{Places, read_text, working_folder};
use crate::sandbox::Executor;
use crate::sandbox::OpenRequest;
use crate::sandbox::convert;
use crate::sandbox::inputs::{self, Inputs};
use crate::sandbox::packages::{self, Environment, Requirement, State};
use crate::sandbox::profile::{self, Rows};
use crate::sandbox::provision::{Provisioned, missing_text};
use crate::sandbox::python::{self, Choice, Interpreter};
use crate::sandbox::subprocess::{self, SubprocessExecutor};

/// Key sent where none is configured: local servers ignore it, and some clients of theirs insist on one.
const DEFAULT_KEY: &str = "ollama";

/// Largest key file read, bytes.
const MAX_KEY_BYTES: u64 = 16 * 1024;

/// What the command line asks for beyond the configuration.
pub struct Options {
    /// `--max-retries`.
    pub max_retries: Option<u32>,
    /// Code may run where nothing isolates it.
    pub allow_unsandboxed: bool,
    /// Where the log goes.
    pub keep: Keep,
}

/// Where the log of a session goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Keep {
    /// Into a new session.
    New,
    /// Nowhere.
    Nothing,
    /// Behind that of this session folder.
    Behind(PathBuf),
}

/// A session that can begin.
pub struct Started {
    /// For the driver.
    pub parts: Parts,
    /// A redactor like the driver's, so that printed records are the logged ones.
    pub redactor: Redactor,
    /// Where the files of a session that is not kept are; removed when this is dropped.
    pub temporary: Option<tempfile::TempDir>,
}

/// What a session is made from: what the person configured and where they are.
#[derive(Clone)]
pub struct Starter {
    config: Config,
    places: Places,
    folder: PathBuf,
    data: Vec<PathBuf>,
}

/// Why a session could not be put together.
pub struct StartError {
    /// The error.
    pub error: Error,
    /// Only a word of the person is missing: nothing isolates the code.
    pub unsandboxed: bool,
    /// The model is not there; others may be.
    pub no_model: bool,
}

impl<E: Into<Error>> From<E> for StartError {
    fn from(error: E) -> Self {
        Self { error: error.into(), unsandboxed: false, no_model: false }
    }
}

impl Starter {
    /// Reads the configuration; nothing is looked for yet.
    pub fn new(common: &Common, places: &Places) -> Result<Self> {
        let config = common.load(places.variables.clone(), Some(places.config_file.clone()))?;
        let folder = working_folder(common.folder.as_deref())?;
        Endpoint::parse(&config.model.base_url)
            .map_err(|failed| Error { kind: Kind::Usage, failure: failed.failure })?;
        // Relative to where the person typed it, whatever -C says.
        let data = common.data.iter().map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone())).collect();
        Ok(Self { config, places: places.clone(), folder, data })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Folder the person works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Another model than the configured one.
    pub fn set_model(&mut self, name: String) {
        self.config.model.name = name;
    }

    /// Puts a session together. `progress` is told what takes time.
    pub async fn open(
        &self,
        options: &Options,
        progress: &mut (dyn FnMut(&str) + Send),
    ) -> std::result::Result<Started, StartError> {
        let mut config = self.config.clone();
        config.agent.max_retries = options.max_retries.unwrap_or(config.agent.max_retries);
        check_executor(&config, options.allow_unsandboxed)?;
        let requirements = requirements(&config)?;
        let inputs = self.inputs(None)?;

        progress("looking for Python and the model");
        let (interpreter, connected) =
            tokio::join!(interpreter(&config, &self.places), connect::connect(self.wanted_model()?));
        let interpreter = interpreter?;
        let connected = connected.map_err(|failed| StartError {
            no_model: failed.kind == ModelFailureKind::NoModel,
            error: Error { kind: Kind::Model, failure: failed.failure },
            unsandboxed: false,
        })?;
        let environment = packages::plan(&interpreter, &requirements, &self.places.cache);
        let executor: Arc<dyn Executor> = Arc::new(Provisioned {
            inner: SubprocessExecutor { python: environment.python.clone() },
            environment: environment.clone(),
            interpreter: interpreter.clone(),
            env: self.places.env.clone(),
        });
        let look = Look { executor, environment, rows: rows(&config, connected.loopback) };
        let profile = look.profile(&config, inputs.clone()).await;
        Ok(assemble(Pieces {
            starter: self,
            keep: &options.keep,
            config,
            inputs,
            profile,
            interpreter,
            look,
            connected,
        })?)
    }

    /// The models of the server.
    pub async fn models(&self) -> std::result::Result<Vec<String>, Failure> {
        let wanted = self.wanted_model().map_err(|e| e.failure)?;
        connect::models(&wanted).await.map_err(|failed| failed.failure)
    }

    fn inputs(&self, more: Option<&Path>) -> Result<Inputs> {
        let data: Vec<PathBuf> = self.data.iter().cloned().chain(more.map(Path::to_path_buf)).collect();
        inputs::list(&self.folder, &data, Some(&self.places.home))
            .map_err(|failure| Error { kind: Kind::Usage, failure })
    }

    fn wanted_model(&self) -> Result<connect::ModelConfig> {
        let m = &self.config.model;
        Ok(connect::ModelConfig {
            base_url: m.base_url.clone(),
            model: m.name.clone(),
            key: Secret::new(key(&self.config, &self.places)?.as_deref().unwrap_or(DEFAULT_KEY)),
            temperature: m.temperature,
            mode: m.mode.fixed(),
            window: (m.window > 0).then_some(m.window),
            cache_dir: Some(self.places.cache.clone()),
        })
    }
}

/// What it takes to look into the inputs.
#[derive(Clone)]
struct Look {
    executor: Arc<dyn Executor>,
    environment: Environment,
    rows: Rows,
}

impl Look {
    /// What the model is told about the inputs. Workbooks are looked into only where the packages are there already: the
    /// first question does not wait for an installation.
    async fn profile(&self, config: &Config, mut inputs: Inputs) -> String {
        let folder = tempfile::tempdir().ok().filter(|_| convert::needed(&inputs));
        if let (Some(folder), State::Ready(_)) = (&folder, &self.environment.state) {
            convert::convert(self.executor.as_ref(), &config.policy, &mut inputs, folder.path()).await;
        }
        let rows = self.rows;
        tokio::task::spawn_blocking(move || profile::describe(&inputs, rows)).await.unwrap_or_default()
    }
}

/// What may change while the session goes on.
struct Later {
    starter: Starter,
    look: Look,
    /// What was added so far.
    added: Arc<Mutex<Vec<PathBuf>>>,
}

impl Changes for Later {
    fn connect(&self, model: String) -> BoxFuture<'static, std::result::Result<Connection, Failure>> {
        let mut starter = self.starter.clone();
        starter.set_model(model.clone());
        async move {
            let wanted = starter.wanted_model().map_err(|e| e.failure)?;
            let connected = connect::connect(wanted).await.map_err(|failed| failed.failure)?;
            let changed = Event::ModelChanged {
                model,
                base_url: connected.base_url.clone(),
                mode: connected.mode,
                window: connected.window,
            };
            let connected = Arc::new(connected);
            Ok(Connection {
                model: connected.model.clone(),
                notes: connected.notes.clone(),
                remember_text_mode: Box::new(move || connected.remember_text_mode()),
                changed,
            })
        }
        .boxed()
    }

    fn models(&self) -> BoxFuture<'static, std::result::Result<Vec<String>, Failure>> {
        let starter = self.starter.clone();
        async move { starter.models().await }.boxed()
    }

    fn attach(&self, path: PathBuf) -> BoxFuture<'static, std::result::Result<(Inputs, String), Failure>> {
        let (mut starter, look, added) = (self.starter.clone(), self.look.clone(), self.added.clone());
        async move {
            let path = starter.folder.join(path);
            starter.data.extend(added.lock().map(|a| a.clone()).unwrap_or_default());
            let inputs = starter.inputs(Some(&path)).map_err(|e| e.failure)?;
            if let Ok(mut added) = added.lock() {
                added.push(path);
            }
            let profile = look.profile(&starter.config, inputs.clone()).await;
            Ok((inputs, profile))
        }
        .boxed()
    }
}

struct Pieces<'a> {
    starter: &'a Starter,
    keep: &'a Keep,
    config: Config,
    inputs: Inputs,
    profile: String,
    interpreter: Interpreter,
    look: Look,
    connected: Connected,
}

/// The log a session writes, and what it holds already.
fn open_log(keep: &Keep, places: &Places) -> Result<(LogWriter, Vec<Record>)> {
    let failed = |failure| Error { kind: Kind::Internal, failure };
    match keep {
        Keep::Nothing => Ok((LogWriter::ephemeral(), Vec::new())),
        Keep::New => Ok((LogWriter::create(&places.data, Timestamp::now()).map_err(failed)?, Vec::new())),
        Keep::Behind(folder) => {
            // The lock first, so that what is read is all there is.
            let (log, _) = LogWriter::open(folder).map_err(failed)?;
            let history = Reader::open(folder).map_err(failed)?.filter_map(|entry| match entry {
                Entry::Known(record) => Some(*record),
                Entry::Unknown { .. } => None,
            });
            Ok((log, history.collect()))
        }
    }
}

fn assemble(p: Pieces<'_>) -> Result<Started> {
    let places = &p.starter.places;
    let (log, history) = open_log(p.keep, places)?;
    let temporary = match log.folder() {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|e| {
            Error::new(
                Kind::Internal,
                "cannot make a temporary folder",
                e.to_string(),
                "set TMPDIR to a writable folder",
            )
        })?),
    };
    let keep = match (log.folder(), &temporary) {
        (Some(folder), _) => folder.join(FILES_FOLDER),
        (None, Some(folder)) => folder.path().to_path_buf(),
        (None, None) => return Err(Error::new(Kind::Internal, "the session has no folder", "", "")),
    };
    let mut notes = p.connected.notes.clone();
    let mut packages: Vec<String> = p.config.policy.packages.clone();
    if let State::Ready(prepared) = &p.look.environment.state
        && !prepared.missing.is_empty()
    {
        packages.retain(|name| !prepared.missing.iter().any(|m| m.name == *name));
        let hint = if prepared.hint.is_empty() { String::new() } else { format!("\nhint: {}", prepared.hint) };
        notes.push(format!("{}{hint}", missing_text(prepared)));
    }
    let secrets: Vec<String> = key(&p.config, places)?.into_iter().collect();
    let redactor = if p.config.log.redact { Redactor::new(secrets) } else { Redactor::exact(secrets) };
    let executor = p.look.executor.clone();
    let info = SessionInfo {
        version: env!("CARGO_PKG_VERSION").into(),
        id: log.id().unwrap_or("ephemeral").to_string(),
        started: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        model: p.config.model.name.clone(),
        base_url: p.connected.base_url.clone(),
        mode: p.connected.mode,
        window: p.connected.window,
        executor: executor.name().into(),
        tier: executor.tier(),
        capabilities: executor.capabilities(&p.config.policy),
        policy: p.config.policy.clone(),
        max_retries: p.config.agent.max_retries,
        max_steps: p.config.agent.max_steps,
        folder: p.starter.folder.display().to_string(),
        python: p.interpreter.version.clone(),
        packages,
    };
    let mut inputs = p.inputs;
    inputs.notes.extend(notes);
    let connected = Arc::new(p.connected);
    let desk = Desk {
        data: places.data.clone(),
        session: log.folder().map(Path::to_path_buf),
        folder: p.starter.folder.clone(),
        redactor: redactor.clone(),
    };
    let parts = Parts {
        info,
        model: connected.model.clone(),
        remember_text_mode: Box::new(move || connected.remember_text_mode()),
        executor,
        open: OpenRequest { policy: p.config.policy, inputs, keep },
        profile: p.profile,
        log,
        redactor: redactor.clone(),
        changes: Arc::new(Later { starter: p.starter.clone(), look: p.look, added: Arc::default() }),
        desk,
        history,
    };
    Ok(Started { parts, redactor, temporary })
}

/// Code nobody has read runs only where it cannot reach the person's files, unless they say otherwise. Checked before
/// anything is started or asked.
fn check_executor(config: &Config, allow_unsandboxed: bool) -> std::result::Result<(), StartError> {
    let isolates = match config.sandbox.executor.as_str() {
        "auto" | "subprocess" => subprocess::capabilities().isolates(),
        other => {
            return Err(Error::usage(format!("unknown executor '{other}'"), "", "executors: auto, subprocess").into());
        }
    };
    if isolates || allow_unsandboxed {
        return Ok(());
    }
    let hint = "`--executor subprocess --allow-unsandboxed` runs it with all your rights: only for code you would run yourself";
    let error = if config.sandbox.executor == "auto" {
        let why = "this version has no executor that isolates code from your files";
        Error::new(Kind::Sandbox, "no usable sandbox", why, hint)
    } else {
        let why = "it does not isolate: code that nobody has read could read and delete your files";
        Error::new(Kind::Approval, "the executor subprocess needs your approval", why, hint)
    };
    Err(StartError { error, unsandboxed: true, no_model: false })
}

fn requirements(config: &Config) -> Result<Vec<Requirement>> {
    let parsed = config.policy.packages.iter().map(|text| Requirement::parse(text));
    parsed.collect::<std::result::Result<_, _>>().map_err(|failure| Error { kind: Kind::Usage, failure })
}

async fn interpreter(config: &Config, places: &Places) -> Result<Interpreter> {
    let choice = match config.sandbox.python.as_str() {
        "auto" => Choice::Auto,
        path => Choice::Path(path.into()),
    };
    python::resolve(&choice, &places.env, &places.cache)
        .await
        .map_err(|error| Error { kind: Kind::Sandbox, failure: error.failure })
}

/// The configured key: environment first, then file.
fn key(config: &Config, places: &Places) -> Result<Option<String>> {
    if let Some(key) = places.variable(&config.model.key_env).filter(|k| !k.trim().is_empty()) {
        return Ok(Some(key.trim().to_string()));
    }
    if config.model.key_file.is_empty() {
        return Ok(None);
    }
    let text = read_text(Path::new(&config.model.key_file), MAX_KEY_BYTES).map_err(|e| {
        let what = format!("cannot read the key file {}", config.model.key_file);
        Error::usage(what, e.to_string(), "check model.key_file")
    })?;
    Ok(Some(text.trim().to_string()).filter(|t| !t.is_empty()))
}

/// Rows of the person's files stay on this machine unless they say otherwise.
fn rows(config: &Config, loopback: bool) -> Rows {
    if loopback || config.model.send_rows { Rows::Allowed } else { Rows::SchemaOnly }
}
