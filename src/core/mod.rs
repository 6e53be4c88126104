//! The pure centre of the program: what can happen ([`event`]), what was said ([`transcript`]), what is allowed
//! ([`policy`]) and what is done next ([`session`]).
//!
//! Nothing in here reads a clock, a file or a socket, and nothing is asynchronous: a session is folded from its records,
//! live and in a replay alike, so every decision can be tested as a table of events and effects.

pub mod clean;
pub mod command;
pub mod event;
pub mod fit;
pub mod numbers;
pub mod policy;
pub mod prompt;
pub mod render;
pub mod session;
pub mod show;
pub mod transcript;
