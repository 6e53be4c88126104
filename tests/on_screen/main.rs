//! The whole program as a person has it before them: the real binary in a terminal, a scripted model server, a real Python.
//! Each test presses keys, looks at the screen, and reads the log and what the model was told.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../common/mod.rs"]
mod common;
mod person;
#[path = "../pty/mod.rs"]
mod pty;
#[path = "../support/mod.rs"]
mod support;

mod approval;
mod editors;
mod ending;
mod hostile;
mod repairs;
mod sessions;
mod sizes;
mod starting;
mod stopping;
mod typing;
