//! Length-prefixed frames between the program and the runner: one byte type, four bytes length (big endian), body.
//!
//! What is read here passed through a process the code can attack, so a length is checked before anything is kept for it
//! and a frame that breaks the rules ends the connection.

/// Largest frame but a value, bytes: the runner forwards at most 256 KiB of output in one.
pub const MAX_FRAME: usize = 1024 * 1024;

/// Largest value, bytes: a figure of 5 MiB with its text and table.
pub const MAX_VALUE: usize = 6 * 1024 * 1024;

/// Bytes of type and length.
const HEAD: usize = 5;

/// Types of the frames that come from the runner. Others are ignored, so that a newer runner may say more.
pub mod kind {
    /// The runner is up: its Python version.
    pub const HELLO: u8 = b'H';
    /// The code starts: cell number.
    pub const STARTED: u8 = b'S';
    /// Standard output: bytes skipped before (u64), bytes.
    pub const STDOUT: u8 = b'O';
    /// Standard error likewise.
    pub const STDERR: u8 = b'E';
    /// A value, see [`crate::sandbox::value`].
    pub const VALUE: u8 = b'V';
    /// End of a run: lines of `key value`.
    pub const FINISHED: u8 = b'F';
    /// What a compile check found: number of the check (u32), then line, message, imports, one a line.
    pub const CHECKED: u8 = b'X';

    /// To the runner: cell number (u32), time limit in ms (u64), source.
    pub const RUN: u8 = b'R';
    /// To the runner: number of the check (u32), source.
    pub const CHECK: u8 = b'C';
    /// To the runner: interrupt; a second one kills.
    pub const INTERRUPT: u8 = b'I';
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type, see [`kind`].
    pub kind: u8,
    /// Its body.
    pub body: Vec<u8>,
}

/// A length that no honest runner sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// The type byte.
    pub kind: u8,
    /// The length announced.
    pub bytes: usize,
}

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a frame of type {} announced {} bytes", self.kind, self.bytes)
    }
}

/// Appends a frame to `out`. Bodies of ours are far below 4 GiB; a longer one would be cut, never mislabelled.
pub fn put(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    out.push(kind);
    out.extend_from_slice(&bytes.to_be_bytes());
    let end = out.len() + bytes as usize;
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.truncate(end);
}

/// Splits bytes into frames, however they arrive.
#[derive(Debug)]
pub struct Decoder {
    /// Largest frame but a value.
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out.
    used: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { limit: MAX_FRAME, buffer: Vec::new(), used: 0 }
    }
}

impl Decoder {
    /// Reads the frames inside a value, each of which may be as large as the value.
    pub fn of_value(body: &[u8]) -> Self {
        Self { limit: MAX_VALUE, buffer: body.to_vec(), used: 0 }
    }

    /// Takes what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame, `None` until more arrived. After an error the stream is of no use.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, TooLong> {
        let rest = &self.buffer[self.used..];
        let [kind, a, b, c, d, ..] = *rest else { return Ok(None) };
        let bytes = u32::from_be_bytes([a, b, c, d]) as usize;
        let limit = if kind == kind::VALUE { MAX_VALUE } else { self.limit };
        if bytes > limit {
            return Err(TooLong { kind, bytes });
        }
        let Some(body) = rest.get(HEAD..HEAD + bytes) else { return Ok(None) };
        let frame = Frame { kind, body: body.to_vec() };
        self.used += HEAD + bytes;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(decoder: &mut Decoder) -> Result<Vec<Frame>, TooLong> {
        std::iter::from_fn(|| decoder.next_frame().transpose()).collect()
    }

    #[test]
    fn length_is_checked_before_the_body_arrives() {
        let mut decoder = Decoder::default();
        decoder.push(&[kind::STDOUT, 0, 0x10, 0, 1]);
        assert_eq!(decoder.next_frame(), Err(TooLong { kind: kind::STDOUT, bytes: MAX_FRAME + 1 }));
    }

    #[test]
    fn a_value_may_be_larger_than_other_frames() {
        let mut decoder = Decoder::default();
        decoder.push(&[kind::VALUE, 0, 0x60, 0, 0]);
        assert_eq!(decoder.next_frame(), Ok(None));
        let mut decoder = Decoder::default();
        decoder.push(&[kind::VALUE, 0, 0x60, 0, 1]);
        assert!(decoder.next_frame().is_err());
    }

    proptest! {
        #[test]
        fn any_frames_survive_any_split(
            frames in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..50),
        ) {
            let mut bytes = Vec::new();
            for (kind, body) in &frames {
                let (a, b) = body.split_at(body.len() / 2);
                put(*kind, &[a, b], &mut bytes);
            }
            let (mut decoder, mut got, mut rest, mut cuts) = (Decoder::default(), Vec::new(), &bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                decoder.push(now);
                got.extend(all(&mut decoder).unwrap());
                rest = later;
            }
            let want: Vec<_> = frames.into_iter().map(|(kind, body)| Frame { kind, body }).collect();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_bytes_never_keep_more_than_they_are(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            if let Ok(frames) = all(&mut decoder) {
                let taken: usize = frames.iter().map(|frame| HEAD + frame.body.len()).sum();
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
