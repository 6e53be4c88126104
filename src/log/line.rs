//! A record as one line of text, and back. Owns the format: the JSON of a [`Record`], inert on a terminal, closed by a
//! checksum of the bytes before it.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::Formatter;

use crate::core::clean::is_hidden;
use crate::core::event::{Event, Record};
use crate::core::policy::SecurityPolicy;

/// Longest line with its line end, bytes: a reader needs no more memory than this. A longer record is kept as a blob.
pub const MAX_LINE: usize = 1024 * 1024;

/// Longest record at all, bytes. Nothing that is said or printed in one piece comes near it; it bounds what a hostile
/// folder can make a reader load.
pub const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// Latest moment of a session, milliseconds (about 31,000 years): sums of a few of them do not overflow.
const MAX_AT_MS: u64 = 1_000_000_000_000_000;

/// What stands before the eight hex digits of the checksum.
const CRC_KEY: &str = ",\"crc\":\"";

/// Length of the checksum field and the end of the object.
const CRC_LEN: usize = CRC_KEY.len() + 8 + "\"}".len();

/// Writes a record as a line with its line end.
///
/// The same text goes to the log and to standard output.
pub fn encode(record: &Record) -> serde_json::Result<String> {
    seal(record)
}

/// Writes the line that stands for a record whose own line is too long and is kept as a blob.
pub fn encode_pointer(envelope: &Envelope, blob: &str) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Pointer<'a> {
        v: u64,
        seq: u64,
        at_ms: u64,
        #[serde(rename = "type")]
        kind: &'a str,
        blob: &'a str,
    }
    let Envelope { v, seq, at_ms, ref kind, .. } = *envelope;
    seal(&Pointer { v, seq, at_ms, kind, blob })
}

fn seal(object: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::with_capacity(256);
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Inert))?;
    bytes.pop();
    let crc = crc32c::crc32c(&bytes);
    let mut line = String::from_utf8(bytes).map_err(serde::ser::Error::custom)?;
    line.push_str(&format!("{CRC_KEY}{crc:08x}\"}}\n"));
    Ok(line)
}

/// Escapes what a terminal would obey or not show, so that a printed line does nothing.
pub(super) struct Inert;

impl Formatter for Inert {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut plain = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_hidden(*c)) {
            writer.write_all(&fragment.as_bytes()[plain..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            plain = at + c.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[plain..])
    }
}

/// What every line has.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// Schema version.
    pub v: u64,
    /// Position in the session.
    pub seq: u64,
    /// Milliseconds since the first record.
    pub at_ms: u64,
    /// Name of the type, any text.
    pub kind: String,
    /// Name of the blob that holds the record where it is too long for a line.
    pub blob: Option<String>,
}

/// Reads the envelope of a line (without its line end) after checking the checksum. The error says what is wrong.
pub fn envelope(line: &[u8]) -> Result<Envelope, &'static str> {
    #[derive(Deserialize)]
    struct Raw {
        v: serde_json::Number,
        seq: u64,
        at_ms: serde_json::Number,
        #[serde(rename = "type")]
        kind: String,
        blob: Option<String>,
    }
    let Some((body, tail)) = line.split_at_checked(line.len().wrapping_sub(CRC_LEN)) else {
        return Err(if line.iter().all(|b| *b == 0) { "empty or zero bytes" } else { "cut off" });
    };
    if tail != format!("{CRC_KEY}{:08x}\"}}", crc32c::crc32c(body)).as_bytes() {
        return Err(if line.contains(&0) { "zero bytes" } else { "the checksum is wrong" });
    }
    let raw: Raw = serde_json::from_slice(line).map_err(|_| "not a record")?;
    Ok(Envelope {
        v: saturate(&raw.v),
        seq: raw.seq,
        at_ms: saturate(&raw.at_ms).min(MAX_AT_MS),
        kind: raw.kind,
        blob: raw.blob,
    })
}

/// Reads the event of a line whose envelope is good. `None`: a type or form this version does not know.
pub fn event(line: &[u8]) -> Option<Event> {
    serde_json::from_slice(line).ok().or_else(|| {
        let mut value = serde_json::from_slice(line).ok()?;
        adapt(&mut value);
        serde_json::from_value(value).ok()
    })
}

/// Makes the best of an event that does not fit: numbers are clamped into what every integer field holds, and limits this
/// version does not know are left out.
fn adapt(value: &mut Value) {
    match value {
        Value::Number(n) if n.as_f64().is_some_and(|f| f.fract() == 0.0) => {
            *n = saturate(n).min(i32::MAX as u64).into();
        }
        Value::Array(items) => items.iter_mut().for_each(adapt),
        Value::Object(fields) => {
            if let (Some(Value::Object(policy)), Ok(Value::Object(known))) =
                (fields.get_mut("policy"), serde_json::to_value(SecurityPolicy::default()))
            {
                policy.retain(|name, _| known.contains_key(name));
            }
            fields.values_mut().for_each(adapt);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn saturate(n: &serde_json::Number) -> u64 {
    // A cast from a float saturates.
    n.as_u64().unwrap_or_else(|| n.as_f64().unwrap_or_default() as u64)
}

/// Closes a hand-written object (without its last brace) with the right checksum.
#[cfg(test)]
pub fn sealed(open_object: &str) -> String {
    format!("{open_object}{CRC_KEY}{:08x}\"}}\n", crc32c::crc32c(open_object.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(text: &str) -> Record {
        Record { v: 1, seq: 7, at_ms: 1234, event: Event::UserSaid { text: text.into() } }
    }

    #[test]
    fn a_line_is_as_documented() {
        let line = encode(&said("4\u{202e}2\n\u{7f}\u{9b}\u{200b}\u{2028}\u{e0041}é")).unwrap();
        let body = r#"{"v":1,"seq":7,"at_ms":1234,"type":"user_said","text":"4\u202e2\n\u007f\u009b\u200b\u2028\udb40\udc41é""#;
        assert_eq!(line, sealed(body));
    }

    #[test]
    fn numbers_that_do_not_fit_are_clamped() {
        let huge = "99999999999999999999999";
        let line = sealed(&format!(
            r#"{{"v":{huge},"seq":3,"at_ms":{huge},"type":"run_output","step":{huge},"stream":"stdout","text":"x","dropped":-5"#
        ));
        let line = line.trim_end().as_bytes();
        let envelope = envelope(line).unwrap();
        assert_eq!((envelope.v, envelope.seq, envelope.at_ms), (u64::MAX, 3, MAX_AT_MS));
        let expected = Event::RunOutput {
            step: i32::MAX as u32,
            stream: crate::core::event::StreamName::Stdout,
            text: "x".into(),
            dropped: 0,
        };
        assert_eq!(event(line), Some(expected));
    }

    #[test]
    fn what_a_later_version_adds_is_ignored() {
        let start = encode(&crate::log::sample::records()[0]).unwrap();
        let body = start.trim_end();
        let body = &body[..body.len() - CRC_LEN];
        let later =
            body.replace("\"timeout_seconds\":10", "\"timeout_seconds\":10,\"max_colours\":7") + ",\"mood\":\"good\"";
        assert_ne!(body, later);
        assert_eq!(event(sealed(&later).trim_end().as_bytes()), Some(crate::log::sample::records()[0].event.clone()));
        assert_eq!(event(br#"{"type":"note","kind":"of a new kind","text":""}"#), None);
    }

    #[test]
    fn bad_lines_are_told_apart() {
        assert_eq!(envelope(b""), Err("empty or zero bytes"));
        assert_eq!(envelope(&[0; 4096]), Err("zero bytes"));
        assert_eq!(envelope(b"{\"v\":1"), Err("cut off"));
        assert_eq!(envelope(sealed("{\"v\":1").trim_end().as_bytes()), Err("not a record"));
        assert_eq!(envelope(sealed(&"[".repeat(5000)).trim_end().as_bytes()), Err("not a record"));
    }

    proptest! {
        #[test]
        fn lines_are_inert_and_come_back(text in any::<String>()) {
            let record = said(&text);
            let line = encode(&record).unwrap();
            let bare = line.strip_suffix('\n').unwrap();
            prop_assert!(!bare.contains(is_hidden), "{:?}", bare);
            prop_assert_eq!(event(bare.as_bytes()), Some(record.event));
        }
    }
}
