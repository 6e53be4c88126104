//! sandscript: ask a question about data, read and approve the Python a language model writes, and run it in a sandbox.
//!
//! The layers and their arrows: `core` is pure and knows nobody; `model`, `sandbox` and `log` know `core`; the driver
//! task `agent` knows all of them; user interfaces talk to the driver through channels, and the screen, `tui`, knows
//! nothing but `core`.
#![warn(missing_docs)]

pub mod agent;
pub mod backstage;
pub mod cli;
pub mod config;
pub mod config_command;
pub mod core;
pub mod desk;
pub mod error;
pub mod exec;
pub mod export_command;
pub mod log;
pub mod model;
pub mod places;
pub mod plain;
pub mod printer;
pub mod progress;
pub mod replay;
pub mod sandbox;
pub mod screen;
pub mod sessions;
pub mod start;
pub mod tui;

pub use crate::core::show;
