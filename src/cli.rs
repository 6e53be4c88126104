//! Arguments of the command line, and what they mean for the configuration.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::config::{Config, Sources};
use crate::error::{Error, Result};
use crate::log::export::Format;
use crate::replay::{DEFAULT_IDLE_LIMIT_MS, FASTEST, SLOWEST};

/// What a stranger needs to begin.
const AFTER_HELP: &str = "\
Example, in a folder with data, with Ollama and mistral-nemo on this machine:
  sandscript \"How many rows has sales.csv?\"          on the screen
  sandscript exec --allow-unsandboxed \"How many rows has sales.csv?\"

Every option has a key in the configuration file (`sandscript config path`) and an environment variable: \
policy.timeout_seconds, SANDSCRIPT_POLICY_TIMEOUT_SECONDS. Limits at their defaults: 10 s a run, 512 MiB, 3 retries.";

/// Longest time that can be asked for, seconds: a week.
const MAX_SECONDS: u64 = 604_800;

/// Ask a question about data; a language model writes Python, a sandbox runs it, failures are repaired.
#[derive(Debug, Parser)]
#[command(
    name = "sandscript",
    version,
    max_term_width = 100,
    args_override_self = true,
    after_help = AFTER_HELP
)]
pub struct Cli {
    /// The first question of a new session on the screen
    pub prompt: Option<String>,
    /// No boxes and nothing that moves: lines only, for screen readers
    #[arg(long, global = true)]
    pub plain: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer one question without a screen: progress on standard error, the answer on standard output
    Exec(Exec),
    /// Go on with an earlier session
    Resume(Resume),
    /// Play a session back; without a terminal, print what happened in it
    Replay(Replay),
    /// List, show, rename and delete earlier sessions
    Sessions {
        /// What to do with them; without it they are listed
        #[command(subcommand)]
        command: Option<Sessions>,
    },
    /// Write a session as a notebook, a script, a page or a recording
    Export(Export),
    /// Show where the configuration is and what holds
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// `exec`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 answered, 1 internal error, 2 usage or configuration, 3 model unreachable or failed, \
4 retries or steps used up, 5 no usable sandbox, 6 an approval was needed that exec may not give, 124 --deadline reached, \
130 interrupted."
)]
pub struct Exec {
    /// The question; `-` reads it from standard input
    pub prompt: String,
    /// Print every record as a JSON line instead of the answer
    #[arg(long)]
    pub json: bool,
    /// Also write the answer to FILE
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Save the files the code makes into DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub deadline: Option<u64>,
    /// Times failed code is sent back to the model, per step
    #[arg(long, value_name = "N")]
    pub max_retries: Option<u32>,
    /// Run code although the executor does not isolate it from your files
    #[arg(long)]
    pub allow_unsandboxed: bool,
    /// Keep no session log
    #[arg(long)]
    pub ephemeral: bool,
}

/// `replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Session id, the beginning of one, `last`, or the path of a session folder or log
    pub session: String,
    /// Times the speed of the recording, 0.125 to 64
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = parse_speed)]
    pub speed: f64,
    /// Longest pause between two records, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_IDLE_LIMIT_MS as f64 / 1000.0,
        value_parser = parse_idle_limit)]
    pub idle_limit: f64,
}

/// `resume`.
#[derive(Debug, Args)]
pub struct Resume {
    /// Session id, the beginning of one, or `last`; without it a list to choose from
    pub session: Option<String>,
    /// The last session
    #[arg(long, conflicts_with = "session")]
    pub last: bool,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List sessions, newest first
    List {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Print what happened in a session
    Show {
        /// Session id, the beginning of one, `last`, or the path of a session folder or log
        session: String,
        /// Print the records as they are in the log
        #[arg(long)]
        json: bool,
    },
    /// Give a session another title
    Rename {
        /// Session id, the beginning of one, or `last`
        session: String,
        /// The title; an empty one takes the first question again
        title: String,
    },
    /// Delete a session with its files
    Delete {
        /// Session id, the beginning of one, or `last`
        session: String,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Delete sessions that were not used for long, or the longest unused until the rest is small enough
    Prune(Prune),
}

/// `sessions prune`.
#[derive(Debug, Args)]
pub struct Prune {
    /// Not used for this long: hours, days or weeks, such as `12h`, `30d`, `8w`
    #[arg(long, value_name = "AGE", required_unless_present = "max_size", value_parser = parse_age)]
    pub older_than: Option<Duration>,
    /// Size of all that may stay, such as `500M` or `1G`
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Only say what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

/// `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// Session id, the beginning of one, `last`, or the path of a session folder or log
    pub session: String,
    /// Jupyter notebook, Python script, Markdown page or terminal recording (asciicast v2)
    #[arg(long, value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name))
        .try_map(|name| Format::of_name(&name).ok_or("no such format")))]
    pub format: Format,
    /// Write to FILE, over what is there; `-` is standard output
    ///
    /// Without it the file is called sandscript-ID.FORMAT and never written over.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep failed and rejected code, marked so
    #[arg(long)]
    pub failed: bool,
}

/// `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the path of the configuration file
    Path,
    /// Print every key with the value that holds
    Show,
    /// Write a configuration file with every key at its default
    Init,
}

/// Options of every command.
#[derive(Debug, Default, Args)]
pub struct Common {
    /// Model name
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub model: Option<String>,
    /// Address of the model server
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    pub base_url: Option<String>,
    /// Where code runs
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub executor: Option<String>,
    /// Python interpreter
    #[arg(long, global = true, value_name = "PATH", help_heading = "Common options")]
    pub python: Option<String>,
    /// Named set of limits, such as `strict`
    #[arg(long, global = true, value_name = "NAME", help_heading = "Common options")]
    pub profile: Option<String>,
    /// Work in this folder
    #[arg(short = 'C', long = "cd", global = true, value_name = "DIR", help_heading = "Common options")]
    pub folder: Option<PathBuf>,
    /// Further input file or folder; may be repeated
    #[arg(long, global = true, value_name = "PATH", help_heading = "Common options")]
    pub data: Vec<PathBuf>,
    /// Time limit of a run, seconds
    #[arg(long, global = true, value_name = "SECONDS", help_heading = "Common options",
        value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub timeout: Option<u64>,
    /// Memory limit of a run, such as `512M` or `1G`
    #[arg(long, global = true, value_name = "SIZE", help_heading = "Common options")]
    pub memory: Option<String>,
    /// Configuration file
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub config: Option<PathBuf>,
    /// Set one configuration key; may be repeated
    #[arg(short = 'c', global = true, value_name = "KEY=VALUE", help_heading = "Common options")]
    pub settings: Vec<String>,
}

impl Common {
    /// The configuration these options ask for.
    pub fn load(&self, environment: Vec<(String, String)>, default_file: Option<PathBuf>) -> Result<Config> {
        let mut settings = Vec::new();
        for text in &self.settings {
            let (key, value) = text.split_once('=').ok_or_else(|| {
                Error::usage(format!("bad setting '{text}'"), "there is no '='", "write -c policy.timeout_seconds=30")
            })?;
            settings.push((key.trim().to_string(), value.trim().to_string()));
        }
        let mut set = |key: &str, value: &Option<String>| {
            settings.extend(value.iter().map(|v| (key.to_string(), v.clone())));
        };
        set("model.name", &self.model);
        set("model.base_url", &self.base_url);
        set("sandbox.executor", &self.executor);
        set("sandbox.python", &self.python);
        set("policy.timeout_seconds", &self.timeout.map(|n| n.to_string()));
        let memory = self.memory.as_deref().map(parse_size).transpose()?;
        set("policy.max_memory_bytes", &memory.map(|n| n.to_string()));
        let sources =
            Sources { file: self.config.clone(), default_file, environment, settings, profile: self.profile.clone() };
        Config::load(&sources)
    }
}

fn parse_speed(text: &str) -> std::result::Result<f64, String> {
    parse_within(text, SLOWEST, FASTEST)
}

fn parse_idle_limit(text: &str) -> std::result::Result<f64, String> {
    parse_within(text, 0.0, MAX_SECONDS as f64)
}

/// A number that is one, and in range.
fn parse_within(text: &str, min: f64, max: f64) -> std::result::Result<f64, String> {
    let number = text.trim().parse().ok().filter(|n| (min..=max).contains(n));
    number.ok_or_else(|| format!("give a number from {min} to {max}"))
}

/// `12h`, `30d`, `8w`.
fn parse_age(text: &str) -> std::result::Result<Duration, &'static str> {
    let wrong = "give a whole number with h, d or w, such as 30d";
    let (digits, unit) = text.split_at_checked(text.len().wrapping_sub(1)).ok_or(wrong)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        _ => return Err(wrong),
    };
    let number: u64 = digits.parse().map_err(|_| wrong)?;
    number.checked_mul(hours * 3600).map(Duration::from_secs).ok_or(wrong)
}

/// `512M`, `1G`, `1GiB`, `1048576`: bytes, with binary units.
fn parse_size(text: &str) -> Result<u64> {
    let wrong = || Error::usage(format!("bad size '{text}'"), "", "write bytes, or a number with K, M or G");
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.trim()[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1024,
        "m" | "mb" | "mib" => 1024 * 1024,
        "g" | "gb" | "gib" => 1024 * 1024 * 1024,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(parse_size("512M").unwrap(), 512 << 20);
        assert_eq!(parse_size("1GiB").unwrap(), 1 << 30);
        assert_eq!(parse_size("7").unwrap(), 7);
        for bad in ["", "M", "1T", "-1", "1.5G", "99999999999G", "é"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_replay_takes_only_speeds_it_can_play() {
        let parse = |arguments: &[&str]| Cli::try_parse_from([&["sandscript", "replay", "last"], arguments].concat());
        for good in [&[][..], &["--speed", "0.125"], &["--speed", "64"], &["--idle-limit", "0"], &["--idle-limit=.5"]] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in ["0", "-1", "NaN", "inf", "64.1", "fast", ""] {
            assert!(parse(&[&format!("--speed={bad}")]).is_err(), "{bad}");
        }
        for bad in ["-1", "NaN", "1e9", "x"] {
            assert!(parse(&[&format!("--idle-limit={bad}")]).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(parse_age("12h").unwrap(), Duration::from_secs(12 * 3600));
        assert_eq!(parse_age("30d").unwrap(), Duration::from_secs(30 * 86_400));
        assert_eq!(parse_age("8w").unwrap(), Duration::from_secs(56 * 86_400));
        for bad in ["", "d", "30", "30m", "-1d", "1.5d", "99999999999999999d", "3é", "é"] {
            assert!(parse_age(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_win_over_settings() {
        let common = Common {
            timeout: Some(30),
            memory: Some("1G".into()),
            settings: vec!["policy.timeout_seconds=5".into(), "agent.max_steps=7".into()],
            ..Common::default()
        };
        let config = common.load(vec![], None).unwrap();
        assert_eq!((config.policy.timeout_seconds, config.agent.max_steps), (30, 7));
        let common = Common { settings: vec!["nonsense".into()], ..Common::default() };
        assert!(common.load(vec![], None).is_err());
    }
}
