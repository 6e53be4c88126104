//! Deltas of a stream, put together into one reply.

use super::Draft;
use super::sse::SseItem;
use crate::core::event::{Channel, Mode, ModelFailure};

/// Puts one reply together.
#[derive(Debug)]
pub struct ReplyBuilder {}

impl ReplyBuilder {
    /// A builder for one reply. `first_id` numbers its calls, see [`nine_char_id`].
    pub fn new(_mode: Mode, _code_allowed: bool, _first_id: u64) -> Self {
        Self {}
    }

    /// Takes the next item of the stream; returns the pieces of text it brings, for the screen.
    pub fn push(&mut self, _item: &SseItem) -> Vec<(Channel, String)> {
        Vec::new()
    }

    /// Takes a whole body that was not streamed.
    pub fn body(&mut self, _text: &str) -> Vec<(Channel, String)> {
        Vec::new()
    }

    /// Whether to stop reading now: the rest is of no use.
    pub fn complete(&self) -> bool {
        false
    }

    /// Whether the server said that the reply is over. Only numbers may still come, so a silence now is no failure.
    pub fn ended(&self) -> bool {
        false
    }

    /// Takes the end of the stream.
    pub fn finish(self) -> Result<Draft, ModelFailure> {
        Ok(Draft::default())
    }
}

/// The id of the `counter`th call of a session: nine letters or digits, as some templates accept nothing else.
pub fn nine_char_id(counter: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut rest = counter;
    let mut id = ['0'; 9];
    id[0] = 'c';
    for place in id[1..].iter_mut().rev() {
        *place = char::from(DIGITS[(rest % 36) as usize]);
        rest /= 36;
    }
    id.iter().collect()
}
