//! As much of Python's spelling as salvage needs: where strings and comments are.
//!
//! Nothing here decides that code is good: it only offers further readings of code that cannot compile as it stands, and
//! Python decides.

use super::fence;
use super::{TOOL, json};

/// Ways to read `code`, best first. More than one only where the first cannot be Python.
pub fn readings(code: &str) -> Vec<String> {
    if let Some(inner) = fence::whole(code) {
        return readings(&inner);
    }
    let mut list = vec![code.to_owned()];
    if stray_backslash(code) {
        let everywhere = json::unescape(code);
        let outside = unescape_outside_strings(code);
        // Escaped quotes mean that all of it was encoded once too often; without them only the line ends were.
        let encoded = code.contains("\\\"");
        list.extend(if encoded { [everywhere, outside] } else { [outside, everywhere] });
    } else if one_line_comment(code) {
        list.insert(0, unescape_outside_strings(code));
    }
    if let Some(flush) = dedent(code) {
        list.push(flush);
    }
    let mut seen = Vec::new();
    list.retain(|reading| {
        !seen.contains(reading) && {
            seen.push(reading.clone());
            true
        }
    });
    list
}

/// Whether code does anything: `42` or a line of a table is an answer that happens to compile.
pub fn does_something(code: &str) -> bool {
    let statement = |line: &str| ["import ", "from ", "del ", "assert "].iter().any(|w| line.starts_with(w));
    code.contains(['(', '=']) || code.lines().any(statement)
}

/// The code inside text that does nothing but call our tool as if it were a function of Python.
pub fn own_call(code: &str) -> Option<String> {
    let call = code.trim();
    let call = call.strip_prefix('[').and_then(|c| c.strip_suffix(']')).unwrap_or(call).trim();
    let call = call.strip_prefix("print(").and_then(|c| c.strip_suffix(')')).unwrap_or(call);
    let given = call.strip_prefix(TOOL)?.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim();
    let given = given.strip_prefix("code").and_then(|g| g.trim_start().strip_prefix('=')).unwrap_or(given).trim_start();
    let literal = given.strip_prefix(['r', 'R']).unwrap_or(given);
    if !literal.starts_with(['"', '\'']) {
        return None;
    }
    let end = string_end(literal, 0);
    let rest = literal[end..].trim_matches([',', ' ', '\n']);
    let time_limit = |rest: &str| rest.split_once('=').is_some_and(|(key, _)| key.trim().starts_with("timeout"));
    if !(rest.is_empty() || time_limit(rest) && !rest.contains(['(', ','])) {
        return None;
    }
    let quotes = if literal.starts_with("\"\"\"") || literal.starts_with("'''") { 3 } else { 1 };
    let inner = literal.get(quotes..end.checked_sub(quotes)?)?;
    Some(if literal.len() == given.len() { json::unescape(inner) } else { inner.to_owned() })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Code,
    Text,
    Comment,
}

/// Cuts `code` into code, strings and comments, in order.
fn parts(code: &str) -> Vec<(Place, &str)> {
    let bytes = code.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < bytes.len() {
        let (place, end) = match bytes[at] {
            b'#' => (Place::Comment, code[at..].find('\n').map_or(code.len(), |n| at + n)),
            b'"' | b'\'' => (Place::Text, string_end(code, at)),
            _ => {
                at += 1;
                continue;
            }
        };
        parts.push((Place::Code, &code[start..at]));
        parts.push((place, &code[at..end]));
        start = end;
        at = end;
    }
    parts.push((Place::Code, &code[start..]));
    parts
}

/// Where the string that starts at `start` ends: after its quote, or before the line end that breaks it.
fn string_end(code: &str, start: usize) -> usize {
    let bytes = code.as_bytes();
    let quote = bytes[start];
    let long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if !long => return at,
            b if b == quote && !long => return at + 1,
            b if b == quote && bytes[at..].starts_with(&[quote; 3]) => return at + 3,
            _ => {}
        }
        at += 1;
    }
    code.len()
}

/// Outside strings and comments a backslash may only stand at the end of a line.
fn stray_backslash(code: &str) -> bool {
    parts(code).iter().any(|(place, part)| {
        *place == Place::Code
            && part.match_indices('\\').any(|(at, _)| !matches!(part.as_bytes().get(at + 1), Some(b'\n' | b'\r')))
    })
}

/// A comment that swallows the rest because the line ends are escapes.
fn one_line_comment(code: &str) -> bool {
    let code = code.trim();
    code.starts_with('#') && !code.contains('\n') && code.contains("\\n")
}

fn unescape_outside_strings(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut in_comment = false;
    let mut rest = code;
    while let Some(next) = rest.chars().next() {
        let escape = [("\\n", '\n'), ("\\t", '\t'), ("\\r", '\r')].into_iter().find(|(e, _)| rest.starts_with(e));
        let plain = escape.map_or(next, |(_, plain)| plain);
        let mut length = escape.map_or(next.len_utf8(), |(e, _)| e.len());
        if plain == '\n' {
            in_comment = false;
        } else if !in_comment && (next == '"' || next == '\'') {
            length = string_end(rest, 0);
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        } else if next == '#' {
            in_comment = true;
        }
        out.push(plain);
        rest = &rest[length..];
    }
    out
}

/// `code` moved to the left edge, where its first line is indented and so cannot be Python.
fn dedent(code: &str) -> Option<String> {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let filled = || code.lines().filter(|line| !line.trim().is_empty());
    let first = filled().next()?;
    if indent(first) == 0 {
        return None;
    }
    let width = indent(first);
    if !filled().all(|line| line.starts_with(&first[..width])) {
        return Some(code.trim_start().to_owned());
    }
    let lines: Vec<&str> = code.split('\n').map(|line| line.get(width..).unwrap_or_default()).collect();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reading_where_the_code_may_be_python() {
        for code in
            [r"print('a\nb')", "x = 1 + \\\n  2", "# a \\n b\nx", "'''\n\\d'''", r#"f("it's \" \n")"#, r"r'\d' + 'b'"]
        {
            assert_eq!(readings(code), [code], "{code}");
        }
    }

    #[test]
    fn further_readings_where_it_cannot_be() {
        for (code, second) in [
            (r"import a\nb('c\n')", "import a\nb('c\\n')"),
            (r"x\n# c\ny", "x\n# c\ny"),
            (r#"print(\"a\")"#, r#"print("a")"#),
            ("\n  if x:\n    y\n", "\nif x:\n  y\n"),
            ("  x\ny", "x\ny"),
        ] {
            assert_eq!(readings(code)[..2], [code, second], "{code}");
        }
        assert_eq!(readings(r"# c\nprint(1)"), ["# c\nprint(1)", r"# c\nprint(1)"]);
        assert_eq!(readings("```py\nx\n```"), ["x"]);
    }

    #[test]
    fn calls_of_our_tool_as_a_function() {
        for call in [
            "execute_python('x = 1')",
            r#"print(execute_python(code="x = 1"))"#,
            r#"[execute_python(code="""x = 1""", timeout_seconds=5)]"#,
            " execute_python( code = r'x = 1', ) ",
        ] {
            assert_eq!(own_call(call).as_deref(), Some("x = 1"), "{call}");
        }
        for other in [
            "execute_python(x)",
            "execute_python('a' + b)",
            "execute_python('a'); f('b')",
            "execute_python(",
            "execute_python(')",
        ] {
            assert_eq!(own_call(other), None, "{other}");
        }
    }

    #[test]
    fn answers_that_happen_to_compile_do_nothing() {
        for code in ["42", "North", "a, b", "[1, 2]", "3 - 2"] {
            assert!(!does_something(code), "{code}");
        }
        for code in ["print(42)", "x = 1", "a\nimport b", "from a import b"] {
            assert!(does_something(code), "{code}");
        }
    }
}
