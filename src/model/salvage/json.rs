//! A reader of JSON as models write it.
//!
//! It reads everything that is JSON as JSON is read, and besides that: raw line ends in strings, single quotes, triple
//! quotes and backticks around strings, bare keys, trailing commas, Python's words for the three literals, and a literal
//! `\n` between tokens. It never completes what was cut, and it keeps an escape it does not know as it stands, so that the
//! inside of a string is what the model wrote.

use serde_json::{Map, Number, Value};

/// Deepest nesting read; calls need four levels, and the reader calls itself for each.
const MAX_DEPTH: usize = 32;

/// Why text is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It ends too early.
    Cut,
    /// It is something else.
    Bad,
}

/// Reads the value `text` starts with; returns it and where it ends.
pub fn read(text: &str) -> Result<(Value, usize), Flaw> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    Ok((value, reader.at))
}

/// Decodes the escapes of JSON in `text`; what is none of them stays.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + escape(&rest[at..], '\'', &mut out)..];
    }
    out.push_str(rest);
    out
}

/// Decodes the escape `text` starts with; returns how long it is. `quote` may be escaped besides the quote of JSON.
fn escape(text: &str, quote: char, out: &mut String) -> usize {
    let Some(kind) = text[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let plain = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '"' | '\\' | '/' => kind,
        'u' => {
            if let Some((decoded, length)) = unicode(text) {
                out.push(decoded);
                return length;
            }
            out.push_str("\\u");
            return 2;
        }
        other if other == quote => other,
        other => {
            out.push('\\');
            out.push(other);
            return 1 + other.len_utf8();
        }
    };
    out.push(plain);
    1 + kind.len_utf8()
}

fn unicode(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let first = unit(0)?;
    if let Some(alone) = char::from_u32(u32::from(first)) {
        return Some((alone, 6));
    }
    let pair = [first, unit(6)?];
    let decoded = char::decode_utf16(pair).next()?.ok()?;
    Some((decoded, 12))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Result<char, Flaw> {
        self.rest().chars().next().ok_or(Flaw::Cut)
    }

    /// Skips white space, also where it is written as an escape.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let trimmed = ["\\n", "\\t", "\\r"].iter().find_map(|e| trimmed.strip_prefix(e)).unwrap_or(trimmed);
            if trimmed.len() == rest.len() {
                return;
            }
            self.at = self.text.len() - trimmed.len();
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Flaw> {
        if depth > MAX_DEPTH {
            return Err(Flaw::Bad);
        }
        self.skip();
        match self.peek()? {
            '{' => self.object(depth),
            '[' => self.array(depth),
            '"' | '\'' | '`' => self.string().map(Value::String),
            c if c == '-' || c.is_ascii_digit() => self.number(),
            c if c.is_ascii_alphabetic() => self.literal(),
            _ => Err(Flaw::Bad),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Flaw> {
        self.at += 1;
        let mut map = Map::new();
        loop {
            self.skip();
            let key = match self.peek()? {
                '}' => break,
                '"' | '\'' => self.string()?,
                c if c.is_ascii_alphabetic() || c == '_' => self.word()?.to_owned(),
                _ => return Err(Flaw::Bad),
            };
            self.skip();
            if self.peek()? != ':' {
                return Err(Flaw::Bad);
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            if !self.comma('}')? {
                break;
            }
        }
        self.at += 1;
        Ok(Value::Object(map))
    }

    fn array(&mut self, depth: usize) -> Result<Value, Flaw> {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.peek()? == ']' {
                break;
            }
            items.push(self.value(depth + 1)?);
            if !self.comma(']')? {
                break;
            }
        }
        self.at += 1;
        Ok(Value::Array(items))
    }

    /// Whether a comma follows (and takes it) and not `close` (which stays).
    fn comma(&mut self, close: char) -> Result<bool, Flaw> {
        self.skip();
        match self.peek()? {
            ',' => {
                self.at += 1;
                Ok(true)
            }
            c if c == close => Ok(false),
            _ => Err(Flaw::Bad),
        }
    }

    fn number(&mut self) -> Result<Value, Flaw> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(rest.len());
        self.at += length;
        let flaw = if length == rest.len() { Flaw::Cut } else { Flaw::Bad };
        let number: Number = serde_json::from_str(&rest[..length]).map_err(|_| flaw)?;
        Ok(Value::Number(number))
    }

    fn word(&mut self) -> Result<&'a str, Flaw> {
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).ok_or(Flaw::Cut)?;
        self.at += length;
        Ok(&rest[..length])
    }

    fn literal(&mut self) -> Result<Value, Flaw> {
        let rest = self.rest();
        let words = [
            ("true", Value::Bool(true)),
            ("True", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("False", Value::Bool(false)),
            ("null", Value::Null),
            ("None", Value::Null),
        ];
        let flaw = if words.iter().any(|(word, _)| word.starts_with(rest)) { Flaw::Cut } else { Flaw::Bad };
        let (word, value) = words.into_iter().find(|(word, _)| rest.starts_with(word)).ok_or(flaw)?;
        self.at += word.len();
        Ok(value)
    }

    fn string(&mut self) -> Result<String, Flaw> {
        let rest = self.rest();
        for mark in ["\"\"\"", "'''", "```"] {
            if rest.starts_with(mark) {
                return self.long_string(mark);
            }
        }
        let quote = self.peek()?;
        let mut out = String::new();
        let mut inner = &rest[1..];
        loop {
            let stop = inner.find(['\\', quote]).ok_or(Flaw::Cut)?;
            out.push_str(&inner[..stop]);
            inner = &inner[stop..];
            if inner.starts_with(quote) {
                self.at = self.text.len() - inner.len() + 1;
                return Ok(out);
            }
            inner = &inner[escape(inner, quote, &mut out)..];
        }
    }

    /// A string between three quotes or backticks. Code may hold the same three, so only those count that the structure
    /// goes on after. The inside is not JSON, so nothing in it is decoded.
    fn long_string(&mut self, mark: &str) -> Result<String, Flaw> {
        let inner = &self.rest()[mark.len()..];
        let mut from = 0;
        while let Some(found) = inner[from..].find(mark) {
            let mut end = from + found;
            while inner[end + 1..].starts_with(mark) {
                end += 1;
            }
            let after = &inner[end + mark.len()..];
            if goes_on(after) {
                self.at = self.text.len() - after.len();
                return Ok(if mark == "```" { without_tag(&inner[..end]) } else { &inner[..end] }.to_owned());
            }
            from = end + mark.len();
        }
        Err(Flaw::Cut)
    }
}

/// Whether the structure around a value goes on with `text`.
fn goes_on(text: &str) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.skip();
    let Ok(next) = reader.peek() else { return true };
    if next == '}' || next == ']' {
        return true;
    }
    if next != ',' {
        return false;
    }
    reader.at += 1;
    reader.skip();
    let key = match reader.peek() {
        Ok('}') | Err(_) => return true,
        Ok('"' | '\'') => {
            let rest = reader.rest();
            rest[1..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').strip_prefix(['"', '\''])
        }
        Ok(_) => Some(reader.rest().trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_')),
    };
    key.is_some_and(|after| after.trim_start().starts_with(':'))
}

/// The inside of a fenced value without the word behind the opening backticks.
fn without_tag(inner: &str) -> &str {
    match inner.split_once('\n') {
        Some((tag, body)) if tag.trim_end().bytes().all(|b| b.is_ascii_alphanumeric()) => body,
        _ => inner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn whole(text: &str) -> Value {
        let (value, end) = read(text).expect(text);
        assert_eq!(&text[end..], "");
        value
    }

    #[test]
    fn reads_what_models_write() {
        let code = json!({"code": "a\nb"});
        for text in [
            r#"{"code": "a\nb"}"#,
            "{\"code\": \"a\nb\"}",
            "{'code': 'a\\nb'}",
            "{code: \"a\\nb\",}",
            "{\"code\": \"\"\"a\nb\"\"\"}",
            "{\"code\": '''a\nb''', }",
            "{\"code\": `a\nb`}",
            "{\"code\": ```python\na\nb```}",
            "\\n{\\n \"code\": \"a\\nb\"\\n}",
        ] {
            assert_eq!(whole(text), code, "{text}");
        }
        assert_eq!(
            whole("{a: None, b: True, c: false, d: [1, -2.5e1,]}"),
            json!({"a":null,"b":true,"c":false,"d":[1,-25.0]})
        );
    }

    #[test]
    fn keeps_words_and_unknown_escapes_inside_strings() {
        assert_eq!(
            whole(r#"{"code": "x = None\nre.sub('\d+', True)"}"#),
            json!({"code": "x = None\nre.sub('\\d+', True)"})
        );
        assert_eq!(whole(r#"["\ud83d\ude00 \ud83d \u00zz"]"#), json!(["😀 \\ud83d \\u00zz"]));
    }

    #[test]
    fn long_strings_end_where_the_structure_goes_on() {
        let code = "def f():\n    \"\"\"Doc.\"\"\"\n    return \"a\"";
        assert_eq!(whole(&format!("{{\"code\": \"\"\"{code}\"\"\", \"timeout_seconds\": 5}}"))["code"], code);
    }

    #[test]
    fn what_is_cut_or_else_is_said_so() {
        for text in ["", "{", "{\"code", "{\"code\": \"a", "{\"code\": \"a\"", "{\"code\": \"\"\"a\"\"", "[1,", "{code"]
        {
            assert_eq!(read(text), Err(Flaw::Cut), "{text}");
        }
        for text in ["print(1)", "{\"code\": \"print(\"a\")\"}", "{1: 2}", "{,}", "{\"a\" 1}", "<x>", &"[".repeat(1000)]
        {
            assert_eq!(read(text), Err(Flaw::Bad), "{text}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::String),
            "[\"'`\\\\\nnu{}:,# ]{0,12}".prop_map(Value::String),
        ];
        leaf.prop_recursive(4, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                proptest::collection::btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_json(value in any_json(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            prop_assert_eq!(read(&text), Ok((value, text.len())));
        }

        #[test]
        fn cut_json_is_never_a_value(value in any_json(), at: usize) {
            let text = serde_json::to_string(&json!({"code": value})).unwrap();
            let mut at = at % text.len();
            while !text.is_char_boundary(at) { at -= 1; }
            prop_assert!(read(&text[..at]).is_err());
        }

        #[test]
        fn nothing_panics(text in "[\\\\\"'`{}\\[\\]:,nu0-9 a-zé\n]{0,40}") {
            let _ = read(&text);
            let _ = unescape(&text);
        }
    }
}
