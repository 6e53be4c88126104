//! A server's own words, as one line that can be shown.

use serde_json::Value;

/// Characters of a server's own words that are shown: enough for a sentence, too little for a page.
const MAX_CHARS: usize = 200;

/// The sentence in an error body: the known places of a JSON body, the title or text of a page, else the text.
pub fn server_words(body: &str) -> String {
    let body = body.trim();
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        return one_line(&json_words(&value).unwrap_or_else(|| body.to_owned()));
    }
    let start: String = body.chars().take(64).collect::<String>().to_ascii_lowercase();
    if start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml") {
        return one_line(&page_words(body));
    }
    one_line(body)
}

/// The message of an error value. Codes that decide ("insufficient_quota") are appended, mere kinds of error are not.
fn json_words(value: &Value) -> Option<String> {
    let error = value.get("error").unwrap_or(value);
    let message = ["message", "detail", "msg", "error", "reason"].iter().find_map(|name| text_of(error.get(name)?));
    let message = message.or_else(|| text_of(error))?;
    let extra =
        ["code", "type"].iter().filter_map(|name| error.get(name)?.as_str()).filter(|code| !code.ends_with("error"));
    let extra = extra.collect::<Vec<_>>().join(", ");
    Some(if extra.is_empty() { message } else { format!("{message} ({extra})") })
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        // FastAPI: a list of complaints, each with its place and message.
        Value::Array(items) => {
            let first = items.first()?;
            let place = first.get("loc").map(|loc| format!("{loc} ")).unwrap_or_default();
            let text = first.get("msg").or_else(|| first.get("message")).unwrap_or(first).as_str()?;
            Some(format!("{place}{text}"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn page_words(page: &str) -> String {
    // Lowercasing ASCII keeps byte offsets.
    let lower = page.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|from| {
        let from = from + "<title>".len();
        let to = from + lower.get(from..)?.find("</title>")?;
        page.get(from..to).filter(|t| !t.trim().is_empty())
    });
    if let Some(title) = title {
        return title.to_owned();
    }
    let mut text = String::new();
    let mut inside = false;
    for c in page.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            c if !inside => text.push(c),
            _ => {}
        }
    }
    text
}

/// One line without control, bidi or zero-width characters, at most 200 long.
pub fn one_line(text: &str) -> String {
    let mut line = String::new();
    let mut chars = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()) {
        let word = word.chars().filter(|c| !is_invisible(*c));
        let space = (!line.is_empty()).then_some(' ');
        for c in space.into_iter().chain(word) {
            if chars == MAX_CHARS {
                line.push('…');
                return line;
            }
            line.push(c);
            chars += 1;
        }
    }
    line
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_sentence_is_found_in_each_kind_of_body() {
        for (body, words) in [
            (r#"{"error":{"message":"m","type":"server_error","code":"too_much"}}"#, "m (too_much)"),
            (r#"{"error":"text"}"#, "text"),
            (r#"{"message":"m"}"#, "m"),
            (r#"{"object":"error","message":"m","code":"c"}"#, "m (c)"),
            (r#"{"detail":[{"loc":["body","x"],"msg":"m"}]}"#, r#"["body","x"] m"#),
            (r#"{"detail":"d"}"#, "d"),
            (r#"{"odd":1}"#, r#"{"odd":1}"#),
            ("<html><body><h1>Hi</h1> there</body></html>", "Hi there"),
            ("<!DOCTYPE html><title>Gone</title><p>x", "Gone"),
            ("<!doctype html><title>x", "x"),
            ("upstream\n\tfailed", "upstream failed"),
            ("", ""),
        ] {
            assert_eq!(server_words(body), words, "{body}");
        }
    }

    #[test]
    fn a_line_is_short_and_clean() {
        let line = one_line(&format!("a\u{1b}[31m\r\nb\u{202e}c {}", "x".repeat(500)));
        assert!(line.starts_with("a [31m bc xxx"), "{line}");
        assert_eq!(line.chars().count(), MAX_CHARS + 1);
        assert!(server_words(&format!("{{\"error\":\"{}\"}}", "y".repeat(500))).len() < 210);
    }

    proptest! {
        #[test]
        fn any_body_gives_a_line(body in "\\PC{0,300}|[<>{}a-z\":\n\u{1b}\u{202e}]{0,80}") {
            let line = server_words(&body);
            prop_assert!(!line.chars().any(|c| c.is_control() || is_invisible(c)));
            prop_assert!(line.chars().count() <= MAX_CHARS + 1);
        }
    }
}
