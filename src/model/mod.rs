//! The language model behind one streaming trait, and the clients that speak to servers.

use futures_util::stream::BoxStream;

use crate::core::event::{Channel, How, ModelFailure, Reply};
use crate::core::transcript::Prompt;

/// A language model that streams its reply. Dropping the stream cancels the request.
pub trait ChatModel: Send + Sync {
    /// Asks. The stream ends after [`Delta::Done`] or [`Delta::Failed`], exactly one of which comes.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Delta>;
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// What the server is doing ("loading the model"), for the person.
    Status(String),
    /// Something the person should know.
    Warning(String),
    /// A piece of text, reasoning or code.
    Piece(Channel, String),
    /// The reply is whole.
    Done(Box<Draft>),
    /// There will be no reply.
    Failed(ModelFailure),
}

/// A whole reply before its calls went through the compile gate.
///
/// The gate is the driver's: code that was not a clean call runs only if Python compiles it, and asking Python is the
/// sandbox's business.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draft {
    /// The reply, its `calls` still empty. It has a `problem` only where there are no candidates: calls behind one that
    /// cannot be used are left out, as they may build on it.
    pub reply: Reply,
    /// Code found in the reply, in order.
    pub candidates: Vec<Candidate>,
}

/// Code found in a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Id in the history, nine letters or digits.
    pub id: String,
    /// Readings of the text, best first: never empty. Without `gate` there is one and it is taken as it is; with it the
    /// first that compiles is taken.
    pub readings: Vec<String>,
    /// Whether a reading must compile.
    pub gate: bool,
    /// An ungated failure is no broken call but plain text (an untagged fence): where none compiles, `raw` is text.
    pub or_text: bool,
    /// Time limit asked for, seconds.
    pub timeout_seconds: Option<u64>,
    /// How it was found.
    pub how: How,
    /// The text it was found in, where it was not a clean call. With `or_text` it is all of the reply from the block on, so
    /// that `reply.text` and this together are the whole text where none compiles.
    pub raw: Option<String>,
}

pub mod accumulate;
pub mod client;
pub mod connect;
pub mod endpoint;
pub mod errors;
pub mod history;
mod http;
mod ollama;
mod openai;
pub mod profile;
mod reading;
pub mod salvage;
pub mod secret;
pub mod sse;
mod words;

// One scripted server for unit tests and for tests of the whole program.
#[cfg(test)]
#[path = "../../tests/support/mod.rs"]
mod support;
