//! Showing the code of a call while its arguments are still being written.
//!
//! This is for the screen only: what runs is read anew when the call is whole.

use crate::model::salvage::json;

/// How far the code of one call has been shown.
#[derive(Debug, Default)]
pub struct CodePeek {
    /// Where the code goes on in the arguments; 0 while its start has not been found.
    at: usize,
    over: bool,
}

impl CodePeek {
    /// Returns the code in `arguments` that has not been shown yet. The arguments only ever grow.
    pub fn read(&mut self, arguments: &str) -> String {
        if self.over || arguments.len() < self.at {
            return String::new();
        }
        if self.at == 0 {
            match start(arguments) {
                Some(at) => self.at = at,
                None => return String::new(),
            }
        }
        let Some(rest) = arguments.get(self.at..) else { return String::new() };
        let (length, over) = known(rest);
        self.at += length;
        self.over = over;
        json::unescape(&rest[..length])
    }
}

/// Where the code starts: behind `"code": "`.
fn start(arguments: &str) -> Option<usize> {
    let (_, rest) = arguments.split_once("\"code\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    Some(arguments.len() - rest.len())
}

/// How much of a string that is still being written can be decoded, and whether its end came.
fn known(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return (at, true),
            b'\\' => match escape_length(&bytes[at..]) {
                Some(length) => at += length,
                None => return (at, false),
            },
            _ => at += 1,
        }
    }
    (at, false)
}

/// Length of the escape `bytes` start with; none while it is not whole. Half of a surrogate pair cannot be decoded.
fn escape_length(bytes: &[u8]) -> Option<usize> {
    let length = match bytes.get(1)? {
        b'u' if matches!(bytes.get(2), Some(b'd' | b'D'))
            && matches!(bytes.get(3), Some(b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B')) =>
        {
            12
        }
        b'u' => 6,
        // The first byte of a longer character: the rest of it follows by itself.
        _ => 2,
    };
    (bytes.len() >= length).then_some(length)
}
