//! Puts a session together from the configuration: interpreter, packages, inputs, executor, model and log. Nothing runs
//! yet, and nothing is decided here that the core decides.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::agent::Parts;
use crate::cli::Common;
use crate::config::Config;
use crate::core::event::SessionInfo;
use crate::error::{Error, Kind, Result};
use crate::log::FILES_FOLDER;
use crate::log::redact::Redactor;
use crate::log::writer::LogWriter;
use crate::model::connect::{self, Connected};
use crate::model::endpoint::Endpoint;
use crate::model::secret::Secret;
use crate::places::{Places, read_text, working_folder};
use crate::sandbox::convert;
use crate::sandbox::inputs::{self, Inputs};
use crate::sandbox::packages::{self, Environment, Requirement, State};
use crate::sandbox::profile::{self, Rows};
use crate::sandbox::provision::{Provisioned, missing_text};
use crate::sandbox::python::{self, Choice, Interpreter};
use crate::sandbox::subprocess::{self, SubprocessExecutor};
use crate::sandbox::{Executor, OpenRequest};

/// Key sent where none is configured: local servers ignore it, and some clients of theirs insist on one.
const DEFAULT_KEY: &str = "ollama";

/// Largest key file read, bytes.
const MAX_KEY_BYTES: u64 = 16 * 1024;

/// What the command line asks for beyond the configuration.
pub struct Options<'a> {
    /// `--max-retries`.
    pub max_retries: Option<u32>,
    /// `--allow-unsandboxed`.
    pub allow_unsandboxed: bool,
    /// `--ephemeral`.
    pub ephemeral: bool,
    /// The common options.
    pub common: &'a Common,
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

/// Puts a session together. `progress` is told what takes time.
pub async fn open(options: &Options<'_>, places: &Places, progress: &mut dyn FnMut(&str)) -> Result<Started> {
    let mut config = options.common.load(places.variables.clone(), Some(places.config_file.clone()))?;
    config.agent.max_retries = options.max_retries.unwrap_or(config.agent.max_retries);
    let folder = working_folder(options.common.folder.as_deref())?;
    check_executor(&config, options.allow_unsandboxed)?;
    Endpoint::parse(&config.model.base_url).map_err(|failed| Error { kind: Kind::Usage, failure: failed.failure })?;
    let requirements = requirements(&config)?;
    // Relative to where the person typed it, whatever -C says.
    let data: Vec<_> =
        options.common.data.iter().map(|p| std::path::absolute(p).unwrap_or_else(|_| p.clone())).collect();
    let inputs =
        inputs::list(&folder, &data, Some(&places.home)).map_err(|failure| Error { kind: Kind::Usage, failure })?;

    progress("looking for Python and the model");
    let (interpreter, connected) = tokio::join!(interpreter(&config, places), connect(&config, places));
    let (interpreter, connected) = (interpreter?, connected?);
    let environment = packages::plan(&interpreter, &requirements, &places.cache);

    let executor: Arc<dyn Executor> = Arc::new(Provisioned {
        inner: SubprocessExecutor { python: environment.python.clone() },
        environment: environment.clone(),
        interpreter: interpreter.clone(),
        env: places.env.clone(),
    });
    let profile = profile(&config, executor.as_ref(), &environment, inputs.clone(), rows(&config, &connected)).await;
    assemble(Pieces {
        options,
        places,
        config,
        folder: &folder,
        inputs,
        profile,
        interpreter,
        environment,
        executor,
        connected,
    })
}

/// What the model is told about the inputs. Workbooks are looked into only where the packages are there already: the first
/// question does not wait for an installation.
async fn profile(
    config: &Config,
    executor: &dyn Executor,
    environment: &Environment,
    mut inputs: Inputs,
    rows: Rows,
) -> String {
    let folder = tempfile::tempdir().ok().filter(|_| convert::needed(&inputs));
    if let (Some(folder), State::Ready(_)) = (&folder, &environment.state) {
        convert::convert(executor, &config.policy, &mut inputs, folder.path()).await;
    }
    tokio::task::spawn_blocking(move || profile::describe(&inputs, rows)).await.unwrap_or_default()
}

struct Pieces<'a> {
    options: &'a Options<'a>,
    places: &'a Places,
    config: Config,
    folder: &'a Path,
    inputs: Inputs,
    profile: String,
    interpreter: Interpreter,
    environment: Environment,
    executor: Arc<dyn Executor>,
    connected: Connected,
}

fn assemble(p: Pieces<'_>) -> Result<Started> {
    let log = if p.options.ephemeral {
        LogWriter::ephemeral()
    } else {
        LogWriter::create(&p.places.data, Timestamp::now())
            .map_err(|failure| Error { kind: Kind::Internal, failure })?
    };
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
    if let State::Ready(prepared) = &p.environment.state
        && !prepared.missing.is_empty()
    {
        packages.retain(|name| !prepared.missing.iter().any(|m| m.name == *name));
        let hint = if prepared.hint.is_empty() { String::new() } else { format!("\nhint: {}", prepared.hint) };
        notes.push(format!("{}{hint}", missing_text(prepared)));
    }
    let secrets: Vec<String> = key(&p.config, p.places)?.into_iter().collect();
    let redactor = if p.config.log.redact { Redactor::new(secrets) } else { Redactor::exact(secrets) };
    let executor = p.executor;
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
        folder: p.folder.display().to_string(),
        python: p.interpreter.version.clone(),
        packages,
    };
    let mut inputs = p.inputs;
    inputs.notes.extend(notes);
    let connected = Arc::new(p.connected);
    let parts = Parts {
        info,
        model: connected.model.clone(),
        remember_text_mode: Box::new(move || connected.remember_text_mode()),
        executor,
        open: OpenRequest { policy: p.config.policy, inputs, keep },
        profile: p.profile,
        log,
        redactor: redactor.clone(),
    };
    Ok(Started { parts, redactor, temporary })
}

/// Code nobody has read runs only where it cannot reach the person's files, unless they say otherwise. Checked before
/// anything is started or asked.
fn check_executor(config: &Config, allow_unsandboxed: bool) -> Result<()> {
    let isolates = match config.sandbox.executor.as_str() {
        "auto" | "subprocess" => subprocess::capabilities().isolates(),
        other => return Err(Error::usage(format!("unknown executor '{other}'"), "", "executors: auto, subprocess")),
    };
    if isolates || allow_unsandboxed {
        return Ok(());
    }
    let hint = "`--executor subprocess --allow-unsandboxed` runs it with all your rights: only for code you would run yourself";
    Err(if config.sandbox.executor == "auto" {
        let why = "this version has no executor that isolates code from your files";
        Error::new(Kind::Sandbox, "no usable sandbox", why, hint)
    } else {
        let why = "it does not isolate: code that nobody has read could read and delete your files";
        Error::new(Kind::Approval, "the executor subprocess needs your approval", why, hint)
    })
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

async fn connect(config: &Config, places: &Places) -> Result<Connected> {
    let m = &config.model;
    let wanted = connect::ModelConfig {
        base_url: m.base_url.clone(),
        model: m.name.clone(),
        key: Secret::new(key(config, places)?.as_deref().unwrap_or(DEFAULT_KEY)),
        temperature: m.temperature,
        mode: m.mode.fixed(),
        window: (m.window > 0).then_some(m.window),
        cache_dir: Some(places.cache.clone()),
    };
    connect::connect(wanted).await.map_err(|failed| Error { kind: Kind::Model, failure: failed.failure })
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
fn rows(config: &Config, connected: &Connected) -> Rows {
    if connected.loopback || config.model.send_rows { Rows::Allowed } else { Rows::SchemaOnly }
}
