//! What was said, in one internal form. Renderers in `model/history.rs` turn it into what a server accepts.

use super::event::{Call, Mode};

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Who the model is and what it has.
    System(String),
    /// From the person, or from us on their behalf.
    User(String),
    /// From the model. With calls, `text` is what it said beside them.
    Assistant {
        /// Words.
        text: String,
        /// Code it wanted to run; each id gets exactly one [`Message::ToolResult`] right after.
        calls: Vec<Call>,
    },
    /// What became of a call.
    ToolResult {
        /// Id of the call.
        call: String,
        /// The pinned text of `core/render.rs`.
        text: String,
        /// The run failed, so that the code must be fixed: some templates want a user message after it.
        failed: bool,
    },
}

/// One request to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The conversation, the system message first.
    pub messages: Vec<Message>,
    /// How code is asked for.
    pub mode: Mode,
    /// Whether code may be asked for at all (not in a closing summary).
    pub code_allowed: bool,
    /// What the tool does, in tools mode.
    pub tool: String,
    /// Sample less predictably: at the usual temperature this model repeated itself.
    pub warmer: bool,
    /// Bound on the tokens of the reply.
    pub max_tokens: u32,
}
