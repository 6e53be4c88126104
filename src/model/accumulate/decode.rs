//! JSON as servers write it, a little more liberal than the standard; and what is plainly no JSON and no loss.

use serde_json::Value;

/// What servers and proxies send as data only to keep a connection open.
const SIGNS_OF_LIFE: [&str; 8] =
    ["", "ping", "pong", "heartbeat", "keepalive", "keep-alive", "keep_alive", "openrouter processing"];

/// What stands for half of a character.
const REPLACEMENT: &str = "\\ufffd";

/// Bytes of the escape of one UTF-16 unit (`\ud83d`).
const ESCAPE_BYTES: usize = 6;

/// Whether text that is no JSON is known to carry nothing. Everything else may have been a piece of the reply.
pub fn is_sign_of_life(text: &str) -> bool {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == ':');
    SIGNS_OF_LIFE.iter().any(|known| text.eq_ignore_ascii_case(known))
}

/// Decodes JSON. Half of a character, which servers in Python cut between two pieces, becomes U+FFFD, and a number beyond
/// all bounds becomes `null`: neither is worth a reply.
pub fn decode(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&mended(text)).ok())
}

fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_string = false;
    while let Some(first) = rest.chars().next() {
        let (length, replaced) = match first {
            '\\' if in_string => escape(rest),
            '-' | '0'..='9' if !in_string => number(rest),
            other => (other.len_utf8(), None),
        };
        in_string ^= first == '"';
        let (taken, behind) = rest.split_at(length);
        out.push_str(replaced.unwrap_or(taken));
        rest = behind;
    }
    out
}

/// Length of the escape `text` begins with, and what takes its place.
fn escape(text: &str) -> (usize, Option<&'static str>) {
    match (unit(text), text.get(ESCAPE_BYTES..).and_then(unit)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (2 * ESCAPE_BYTES, None),
        (Some(0xD800..=0xDFFF), _) => (ESCAPE_BYTES, Some(REPLACEMENT)),
        (Some(_), _) => (ESCAPE_BYTES, None),
        (None, _) => (text.chars().take(2).map(char::len_utf8).sum(), None),
    }
}

/// The UTF-16 unit whose escape `text` begins with.
fn unit(text: &str) -> Option<u16> {
    let digits = text.get(..ESCAPE_BYTES)?.strip_prefix("\\u")?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Length of the number `text` begins with, and what takes its place.
fn number(text: &str) -> (usize, Option<&'static str>) {
    let length = text.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(text.len());
    let endless = text[..length].parse::<f64>().is_ok_and(f64::is_infinite);
    (length, endless.then_some("null"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn halves_of_characters_and_endless_numbers_do_no_harm() {
        for (text, value) in [
            (r#"{"a":"x\ud83d"}"#, json!({"a": "x\u{fffd}"})),
            (
                r#"["\ude00y","\ud83d\ude00","\ud83d\ud83d\ude00","\ud83d\n"]"#,
                json!(["\u{fffd}y", "😀", "\u{fffd}😀", "\u{fffd}\n"]),
            ),
            (
                r#"{"a":"\\ud83d \" 1e400 \ud83d","b":[1e400,-1e999,1.5]}"#,
                json!({"a": "\\ud83d \" 1e400 \u{fffd}", "b": [null, null, 1.5]}),
            ),
        ] {
            assert_eq!(decode(text), Some(value), "{text}");
        }
        for text in ["", "{", r#"{"a":"\ud83d"#, r#""\ud8"#, r#""\uü000""#, "1e400e", "{\"a\":1e400"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }

    #[test]
    fn only_known_words_are_signs_of_life() {
        for word in ["", " ", "ping", "PING", ": OPENROUTER PROCESSING", "keep-alive"] {
            assert!(is_sign_of_life(word), "{word}");
        }
        for word in ["x", "import os", "\"ping", "{", "pingping", "3"] {
            assert!(!is_sign_of_life(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn what_can_be_read_is_left_alone(text in "[\\\\u\"dD8e90-9a-f\\-+.E{}:, ü]{0,40}") {
            let strict = serde_json::from_str::<Value>(&text).ok();
            prop_assert!(strict.is_none() || strict.as_ref() == serde_json::from_str(&mended(&text)).ok().as_ref());
            decode(&text);
        }
    }
}
