//! `sandscript config`: where the configuration is and what holds.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use crate::cli::{Common, ConfigCommand};
use crate::config::Config;
use crate::core::clean::Clean;
use crate::error::{Error, Kind, Result};
use crate::places::Places;
use crate::printer::print_now;

/// Runs the command.
pub fn run(command: &ConfigCommand, common: &Common, places: &Places) -> Result<()> {
    let file = common.config.as_ref().unwrap_or(&places.config_file);
    let _read = match command {
        ConfigCommand::Path => print_now(&Clean::text(&format!("{}\n", file.display())).into_string())?,
        ConfigCommand::Show => {
            let config = common.load(places.variables.clone(), Some(places.config_file.clone()))?;
            let text = toml::to_string_pretty(&config).map_err(|e| {
                Error::new(
                    Kind::Internal,
                    "the configuration cannot be shown",
                    e.to_string(),
                    "this is a bug; please report it",
                )
            })?;
            print_now(&Clean::text(&text).into_string())?
        }
        ConfigCommand::Init => {
            init(file)?;
            print_now(&Clean::text(&format!("wrote {}\n", file.display())).into_string())?
        }
    };
    Ok(())
}

/// Writes the example, never over an existing file.
fn init(file: &std::path::Path) -> Result<()> {
    let failed = |e: std::io::Error| {
        if e.kind() == std::io::ErrorKind::AlreadyExists {
            let what = format!("{} is there already and stays as it is", file.display());
            return Error::usage(what, "", "edit it, or write another one with --config FILE");
        }
        Error::usage(
            format!("cannot write {}", file.display()),
            e.to_string(),
            "choose another place with --config FILE",
        )
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let mut created = options.write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    created.write_all(Config::example().as_bytes()).map_err(failed)
}
