//! The configuration and its layers: defaults < file < profile < environment < flags.
//!
//! Every layer is a table of the same shape, checked on its own so that an error names where the key stands. Nothing is
//! read from the working folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::core::event::Mode;
use crate::core::policy::SecurityPolicy;
use crate::error::{Error, Result};
use crate::places::read_text;

/// Largest configuration file read, bytes: real ones have a few KiB.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Seconds a run may be allowed at most: a day.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

/// The whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The language model.
    pub model: ModelConfig,
    /// The loop of attempts and steps.
    pub agent: AgentConfig,
    /// Limits of every run.
    pub policy: SecurityPolicy,
    /// Where code runs.
    pub sandbox: SandboxConfig,
    /// The session log.
    pub log: LogConfig,
    /// The screen.
    pub ui: UiConfig,
    /// Keys of the screen: name of an action → its keys, in place of the default ones.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Named changes of `policy`, chosen with `--profile`.
    pub profiles: BTreeMap<String, Table>,
}

/// Section `model`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Address of the server, with or without `/v1`.
    pub base_url: String,
    /// Model name.
    pub name: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// How code is asked for.
    pub mode: ModeSetting,
    /// Context window in tokens; 0 asks the server.
    pub window: u32,
    /// Environment variable that holds the key.
    pub key_env: String,
    /// File that holds the key; empty for none.
    pub key_file: String,
    /// Whether sample rows of the inputs may go to a server that is not on this machine.
    pub send_rows: bool,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            base_url: "http://localhost:11434/v1".into(),
            name: "mistral-nemo".into(),
            temperature: 0.1,
            mode: ModeSetting::Auto,
            window: 0,
            key_env: "SANDSCRIPT_API_KEY".into(),
            key_file: String::new(),
            send_rows: false,
        }
    }
}

/// How code is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModeSetting {
    /// Tool calls where the model can, fenced code where it cannot.
    #[default]
    Auto,
    /// Tool calls.
    Tools,
    /// Fenced code.
    Text,
}

impl ModeSetting {
    /// The fixed mode, `None` for auto.
    pub fn fixed(self) -> Option<Mode> {
        match self {
            ModeSetting::Auto => None,
            ModeSetting::Tools => Some(Mode::Tools),
            ModeSetting::Text => Some(Mode::Text),
        }
    }
}

/// Section `agent`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentConfig {
    /// Times failed code is sent back, per step.
    pub max_retries: u32,
    /// Pieces of code of one turn.
    pub max_steps: u32,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self { max_retries: 3, max_steps: 20 }
    }
}

/// Section `sandbox`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    /// Executor: `auto` or a name.
    pub executor: String,
    /// Interpreter: `auto` or a path.
    pub python: String,
}

impl Default for SandboxConfig {
    fn default() -> Self {
        Self { executor: "auto".into(), python: "auto".into() }
    }
}

/// Section `log`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Whether keys of known shapes are blacked out.
    pub redact: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { redact: true }
    }
}

/// Section `ui`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UiConfig {
    /// Colours.
    pub theme: ThemeSetting,
    /// The wheel scrolls and clicks choose a pane.
    pub mouse: bool,
    /// Things move: counting seconds, a sign of life.
    pub motion: bool,
    /// How figures are drawn.
    pub graphics: GraphicsSetting,
    /// The terminal is told when an approval is due or a long turn ends while it has no focus.
    pub notify: bool,
}

impl Default for UiConfig {
    fn default() -> Self {
        Self { theme: ThemeSetting::Auto, mouse: true, motion: true, graphics: GraphicsSetting::Auto, notify: true }
    }
}

/// Colours of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThemeSetting {
    /// Light where the terminal says so (`COLORFGBG`), else dark.
    #[default]
    Auto,
    /// For dark terminals.
    Dark,
    /// For light terminals.
    Light,
    /// Without colours.
    Mono,
}

/// How figures are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphicsSetting {
    /// The best the terminal is known to have.
    #[default]
    Auto,
    /// Kitty's protocol.
    Kitty,
    /// iTerm2's protocol.
    Iterm2,
    /// Sixel.
    Sixel,
    /// Two pixels a character.
    Blocks,
    /// Not at all.
    None,
}

/// What the environment and the command line say about the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Path given with `--config`.
    pub file: Option<PathBuf>,
    /// Default path, read if it is there.
    pub default_file: Option<PathBuf>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// `-c key=value`, in order; flags of their own come last.
    pub settings: Vec<(String, String)>,
    /// `--profile`.
    pub profile: Option<String>,
}

impl Config {
    /// Reads and merges all layers.
    pub fn load(sources: &Sources) -> Result<Config> {
        let mut table = table_of(&Config::default())?;
        if let Some((path, text)) = read_file(sources)? {
            let layer = parse_layer(&text, &path.display().to_string())?;
            merge(&mut table, layer);
        }
        if let Some(name) = &sources.profile {
            let profile = profile_table(&table, name)?;
            merge(&mut table, Table::from_iter([("policy".to_string(), Value::Table(profile))]));
        }
        if let Some(name) = unknown_variable(&table, &sources.environment) {
            return Err(bad(&format!("unknown key {name}"), "environment variable"));
        }
        for (key, text) in environment_settings(&table, &sources.environment) {
            let origin = format!("environment variable {}", variable(&key));
            apply(&mut table, &key, &text, &origin)?;
        }
        for (key, text) in &sources.settings {
            apply(&mut table, key, text, "command line")?;
        }
        let config: Config = table.try_into().map_err(|e: toml::de::Error| bad(e.message(), "configuration"))?;
        config.check()?;
        Ok(config)
    }

    /// The text of `config.example.toml` and `config init`: every key at its default.
    pub fn example() -> &'static str {
        include_str!("../config.example.toml")
    }

    /// What must hold between and beyond the types.
    fn check(&self) -> Result<()> {
        let p = &self.policy;
        let positive = [
            ("policy.timeout_seconds", p.timeout_seconds),
            ("policy.max_memory_bytes", p.max_memory_bytes),
            ("policy.max_processes", p.max_processes),
            ("policy.max_open_files", p.max_open_files),
            ("policy.max_file_bytes", p.max_file_bytes),
            ("policy.scratch_bytes", p.scratch_bytes),
            ("policy.max_output_bytes", p.max_output_bytes),
            ("agent.max_steps", u64::from(self.agent.max_steps)),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, n)| *n == 0) {
            return Err(bad(&format!("{key} must be more than 0"), "configuration"));
        }
        if p.timeout_seconds > MAX_TIMEOUT_SECONDS {
            return Err(bad(&format!("policy.timeout_seconds may be {MAX_TIMEOUT_SECONDS} at most"), "configuration"));
        }
        if !(p.max_cpus.is_finite() && p.max_cpus > 0.0) {
            return Err(bad("policy.max_cpus must be more than 0", "configuration"));
        }
        let tag = p.docker_image.rsplit('/').next().and_then(|name| name.split_once(':')).map(|(_, tag)| tag);
        if !p.docker_image.contains("@sha256:") && matches!(tag, None | Some("" | "latest")) {
            return Err(bad(
                &format!("policy.docker_image needs a fixed tag, not '{}'", p.docker_image),
                "configuration",
            ));
        }
        if !(0.0..=2.0).contains(&self.model.temperature) {
            return Err(bad("model.temperature must be between 0 and 2", "configuration"));
        }
        Ok(())
    }
}

fn bad(what: &str, origin: &str) -> Error {
    // With a broken file `config show` ends in the same error; the example does not.
    Error::usage(
        format!("bad {origin}"),
        what.trim(),
        "every key is in config.example.toml; `sandscript config init --config FILE` writes it",
    )
}

fn table_of(config: &Config) -> Result<Table> {
    Table::try_from(config)
        .map_err(|e| Error::new(crate::error::Kind::Internal, "the defaults could not be written", e.to_string(), ""))
}

fn read_file(sources: &Sources) -> Result<Option<(PathBuf, String)>> {
    let (path, must) = match (&sources.file, &sources.default_file) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return Ok(None),
    };
    match read_text(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(Some((path.clone(), text))),
        Err(e) if !must && e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::usage(
            format!("cannot read the configuration {}", path.display()),
            e.to_string(),
            "`sandscript config init` writes one with every key",
        )),
    }
}

/// A layer that holds known keys only.
fn parse_layer(text: &str, origin: &str) -> Result<Table> {
    let layer: Table = toml::from_str(text).map_err(|e| bad(&located(text, &e), origin))?;
    // Checked as the real types, so that the error says which line of which file is wrong.
    toml::from_str::<Config>(text).map_err(|e| bad(&located(text, &e), origin))?;
    for (name, profile) in layer.get("profiles").and_then(Value::as_table).into_iter().flatten() {
        let profile = profile.clone();
        profile.try_into::<SecurityPolicy>().map_err(|e| bad(&format!("profiles.{name}: {}", e.message()), origin))?;
    }
    Ok(layer)
}

fn located(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| 1 + text.bytes().take(span.start).filter(|b| *b == b'\n').count());
    let message = error.message().trim();
    match line {
        Some(line) => format!("line {line}: {message}"),
        None => message.to_string(),
    }
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) if key != "profiles" => merge(old, new),
            (Some(Value::Table(old)), Value::Table(new)) => old.extend(new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

fn profile_table(table: &Table, name: &str) -> Result<Table> {
    let configured = table.get("profiles").and_then(Value::as_table);
    if let Some(profile) = configured.and_then(|p| p.get(name)).and_then(Value::as_table) {
        return Ok(profile.clone());
    }
    if name == "strict" {
        let strict = SecurityPolicy::strict();
        return Table::try_from(&strict).map_err(|e| bad(&e.to_string(), "profile"));
    }
    let mut names: Vec<&str> = configured.into_iter().flatten().map(|(n, _)| n.as_str()).collect();
    names.push("strict");
    Err(Error::usage(format!("no profile '{name}'"), "", format!("profiles: {}", names.join(", "))))
}

/// `SANDSCRIPT_` + the key in capitals, `_` for the dots.
fn variable(key: &str) -> String {
    format!("SANDSCRIPT_{}", key.to_uppercase().replace('.', "_"))
}

/// Settings the environment makes: only known keys are looked for, so other `SANDSCRIPT_` variables (a key) pass.
fn environment_settings(table: &Table, environment: &[(String, String)]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (section, values) in table {
        let Value::Table(values) = values else { continue };
        if section == "profiles" {
            continue;
        }
        for key in values.keys() {
            let key = format!("{section}.{key}");
            let name = variable(&key);
            found.extend(environment.iter().filter(|(n, _)| *n == name).map(|(_, v)| (key.clone(), v.clone())));
        }
    }
    found
}

/// A variable that looks like a setting and is none: `SANDSCRIPT_` and a section, but no key of it.
fn unknown_variable<'a>(table: &Table, environment: &'a [(String, String)]) -> Option<&'a str> {
    let is_setting = |name: &str| {
        let sections = table.iter().filter(|(section, _)| *section != "profiles");
        sections.filter_map(|(section, keys)| Some((section, keys.as_table()?))).any(|(section, keys)| {
            name.starts_with(&format!("{}_", variable(section)))
                && !keys.keys().any(|key| name == variable(&format!("{section}.{key}")))
        })
    };
    environment.iter().map(|(name, _)| name.as_str()).find(|name| is_setting(name))
}

/// Sets one key from text, read as TOML of the kind the default has.
fn apply(table: &mut Table, key: &str, text: &str, origin: &str) -> Result<()> {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let Some(old) = table.get(section).and_then(|s| s.get(name)) else {
        return Err(bad(&format!("unknown key '{key}'"), origin));
    };
    let value = match (old, parse_value(text)) {
        (Value::Float(_), Some(Value::Integer(n))) => Value::Float(n as f64),
        (Value::String(_), _) if key != "policy.network" => Value::String(text.to_string()),
        (Value::Array(_), None) => {
            Value::Array(text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(Value::from).collect())
        }
        (_, Some(value)) => value,
        (_, None) => Value::String(text.to_string()),
    };
    let mut single = Table::new();
    single.insert(section.to_string(), Value::Table(Table::from_iter([(name.to_string(), value.clone())])));
    single.try_into::<Config>().map_err(|e| bad(&format!("{key}: {}", e.message()), origin))?;
    if let Some(Value::Table(section)) = table.get_mut(section) {
        section.insert(name.to_string(), value);
    }
    Ok(())
}

fn parse_value(text: &str) -> Option<Value> {
    toml::from_str::<Table>(&format!("v = {text}")).ok()?.remove("v")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        (folder, Sources { file: Some(path), ..Sources::default() })
    }

    fn why(sources: &Sources) -> String {
        Config::load(sources).unwrap_err().to_string()
    }

    #[test]
    fn the_example_holds_every_key_at_its_default() {
        let example: Table = toml::from_str(Config::example()).unwrap();
        let mut defaults = table_of(&Config::default()).unwrap();
        defaults.remove("profiles");
        let mut shown = example.clone();
        shown.remove("profiles");
        assert_eq!(shown, defaults);
        let parsed: Config = toml::from_str(Config::example()).unwrap();
        let strict: SecurityPolicy = parsed.profiles["strict"].clone().try_into().unwrap();
        assert_eq!(strict, SecurityPolicy::strict());
    }

    #[test]
    fn later_layers_win() {
        let (_folder, mut s) = file("[policy]\ntimeout_seconds = 1\nmax_cpus = 2.5\nmax_processes = 3\n");
        s.environment =
            vec![("SANDSCRIPT_POLICY_MAX_PROCESSES".into(), "4".into()), ("SANDSCRIPT_API_KEY".into(), "x".into())];
        s.settings = vec![("policy.max_processes".into(), "5".into()), ("model.temperature".into(), "1".into())];
        let c = Config::load(&s).unwrap();
        assert_eq!((c.policy.timeout_seconds, c.policy.max_cpus, c.policy.max_processes), (1, 2.5, 5));
        assert_eq!(c.model.temperature, 1.0);
    }

    #[test]
    fn a_profile_changes_the_policy_and_flags_change_the_profile() {
        let (_folder, mut s) = file("[policy]\nmax_cpus = 4.0\n[profiles.big]\nmax_memory_bytes = 1073741824\n");
        s.profile = Some("strict".into());
        s.settings = vec![("policy.max_cpus".into(), "2".into())];
        let c = Config::load(&s).unwrap();
        assert_eq!((c.policy.max_memory_bytes, c.policy.max_cpus), (128 * 1024 * 1024, 2.0));
        s.profile = Some("big".into());
        assert_eq!(Config::load(&s).unwrap().policy.max_memory_bytes, 1 << 30);
        s.profile = Some("none".into());
        assert!(why(&s).contains("no profile 'none'"));
    }

    #[test]
    fn errors_name_the_place_and_the_key() {
        let (_folder, s) = file("[policy]\n\ntimeout = 3\n");
        let text = why(&s);
        assert!(text.contains("config.toml") && text.contains("line 3") && text.contains("timeout"), "{text}");
        let (_folder, s) = file("[profiles.x]\nspeed = 3\n");
        assert!(why(&s).contains("profiles.x"), "{}", why(&s));
        let (_folder, s) = file("[policy\n");
        assert!(why(&s).contains("line 1"), "{}", why(&s));
        let s = Sources { settings: vec![("policy.speed".into(), "1".into())], ..Sources::default() };
        assert!(why(&s).contains("unknown key 'policy.speed'"), "{}", why(&s));
        let s = Sources {
            environment: vec![("SANDSCRIPT_POLICY_TIMEOUT_SECONDS".into(), "soon".into())],
            ..Sources::default()
        };
        assert!(why(&s).contains("SANDSCRIPT_POLICY_TIMEOUT_SECONDS"), "{}", why(&s));
        let s = Sources { file: Some("/nowhere/config.toml".into()), ..Sources::default() };
        assert!(why(&s).contains("/nowhere/config.toml"), "{}", why(&s));
    }

    #[test]
    fn a_misspelt_variable_is_an_error_and_a_key_is_none() {
        let with = |name: &str| Sources { environment: vec![(name.into(), "5".into())], ..Sources::default() };
        assert!(why(&with("SANDSCRIPT_POLICY_TIMEOUT_SECOND")).contains("SANDSCRIPT_POLICY_TIMEOUT_SECOND"));
        for fine in ["SANDSCRIPT_API_KEY", "SANDSCRIPT_TEST_PYTHON", "POLICY_X"] {
            assert!(Config::load(&with(fine)).is_ok(), "{fine}");
        }
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        for (key, value) in [
            ("policy.timeout_seconds", "0"),
            ("policy.timeout_seconds", "-1"),
            ("policy.timeout_seconds", "99999999"),
            ("policy.max_cpus", "nan"),
            ("policy.docker_image", "python"),
            ("policy.docker_image", "python:latest"),
            ("policy.docker_image", "host:5000/python"),
            ("model.temperature", "9"),
            ("model.mode", "magic"),
        ] {
            let s = Sources { settings: vec![(key.into(), value.into())], ..Sources::default() };
            assert!(Config::load(&s).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn lists_and_networks_can_be_set_from_text() {
        let set = |key: &str, value: &str| {
            let s = Sources { settings: vec![(key.into(), value.into())], ..Sources::default() };
            Config::load(&s).unwrap().policy
        };
        assert_eq!(set("policy.packages", "pandas, numpy").packages, ["pandas", "numpy"]);
        assert!(set("policy.packages", "[]").packages.is_empty());
        assert!(set("policy.packages", "").packages.is_empty());
        use crate::core::policy::Network;
        assert_eq!(set("policy.network", "on").network, Network::On);
        assert_eq!(set("policy.network", "{list = [\"a.org\"]}").network, Network::List(vec!["a.org".into()]));
    }

    #[test]
    fn the_model_name_may_look_like_a_number() {
        let s = Sources { settings: vec![("model.name".into(), "7".into())], ..Sources::default() };
        assert_eq!(Config::load(&s).unwrap().model.name, "7");
    }
}
