//! As much of Python's grammar as an export needs: where strings and lines end, which names a piece of code binds and
//! which it uses. It decides two things, and a wrong decision costs looks and never meaning: whether code can stand in a
//! script as it is, and whether a failed attempt is still needed because later code uses what it defined.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::core::clean::is_hidden;

/// A piece of a line. Strings are passed over, but names inside of them count where they are format strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    /// A name inside a format string: used, never bound.
    Inside(&'a str),
    Number,
    Text,
    Sign(char),
}

/// A logical line: what stands between two line ends outside of brackets.
#[derive(Debug, Default)]
struct Line<'a> {
    tokens: Vec<Token<'a>>,
    /// It begins at the left margin.
    at_margin: bool,
}

/// The lines of some code, and whether it ends outside of strings and brackets.
struct Scan<'a> {
    lines: Vec<Line<'a>>,
    closed: bool,
}

fn is_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn scan(code: &str) -> Scan<'_> {
    let mut scan = Scan { lines: Vec::new(), closed: true };
    let mut line = Line { at_margin: true, ..Line::default() };
    let (mut rest, mut depth) = (code, 0usize);
    while let Some(c) = rest.chars().next() {
        let width = match c {
            '\n' if depth == 0 => {
                scan.lines.push(std::mem::take(&mut line));
                line.at_margin = rest[1..].chars().next().is_some_and(|c| !c.is_whitespace());
                1
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '\\' => {
                scan.closed = rest.len() > 1;
                1 + rest[1..].chars().next().map_or(0, char::len_utf8)
            }
            '\'' | '"' => {
                let (width, closed) = string(rest, c);
                scan.closed &= closed;
                if is_format(&line, code, rest) {
                    names_inside(&rest[..width], &mut line.tokens);
                }
                line.tokens.push(Token::Text);
                width
            }
            '(' | '[' | '{' | ')' | ']' | '}' => {
                depth = if matches!(c, '(' | '[' | '{') { depth + 1 } else { depth.saturating_sub(1) };
                line.tokens.push(Token::Sign(c));
                1
            }
            c if is_name(c) => {
                let width = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let token = if c.is_numeric() { Token::Number } else { Token::Name(&rest[..width]) };
                line.tokens.push(token);
                width
            }
            c => {
                if !c.is_whitespace() {
                    line.tokens.push(Token::Sign(c));
                }
                c.len_utf8()
            }
        };
        rest = &rest[width..];
    }
    scan.lines.push(line);
    scan.closed &= depth == 0;
    scan
}

/// Whether the string that begins at `rest` has an `f` right before it.
fn is_format(line: &Line, code: &str, rest: &str) -> bool {
    let before = code[..code.len() - rest.len()].chars().next_back();
    let Some(Token::Name(prefix)) = line.tokens.last() else { return false };
    before.is_some_and(is_name) && prefix.len() <= 2 && prefix.contains(['f', 'F'])
}

/// Length of the string `text` begins with, and whether it ends in the code.
fn string(text: &str, quote: char) -> (usize, bool) {
    let triple = text.as_bytes().get(..3).is_some_and(|three| three.iter().all(|b| char::from(*b) == quote));
    let mark = if triple { 3 } else { 1 };
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(mark) {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '\n' if !triple => return (at, false),
            c if c == quote && (!triple || text[at..].chars().take(3).filter(|c| *c == quote).count() == 3) => {
                return (at + mark, true);
            }
            _ => {}
        }
    }
    (text.len(), false)
}

fn names_inside<'a>(text: &'a str, tokens: &mut Vec<Token<'a>>) {
    let mut rest = text;
    while let Some(start) = rest.find(is_name) {
        rest = &rest[start..];
        let width = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        tokens.push(Token::Inside(&rest[..width]));
        rest = &rest[width..];
    }
}

/// What some code needs from before it and what it leaves behind. Names only; what stands in functions counts as well,
/// which keeps an attempt too many at worst.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Names<'a> {
    /// Names it uses before it binds them.
    pub(super) used: BTreeSet<&'a str>,
    /// Names it binds.
    pub(super) bound: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    /// Those of `code`.
    pub(super) fn of(code: &'a str) -> Self {
        let mut names = Self::default();
        for line in scan(code).lines {
            let bound = bound_at(&line.tokens);
            for (at, token) in line.tokens.iter().enumerate() {
                let (Token::Name(name) | Token::Inside(name)) = token else { continue };
                let attribute = at > 0 && line.tokens[at - 1] == Token::Sign('.');
                if !bound.contains(&at) && !attribute && !names.bound.contains(name) {
                    names.used.insert(name);
                }
            }
            let at = |at: usize| if let Some(Token::Name(name)) = line.tokens.get(at) { Some(*name) } else { None };
            names.bound.extend(bound.into_iter().filter_map(at));
            // `x += 1` needs what it binds.
            names.bound.extend(augmented(&line.tokens));
        }
        names
    }
}

fn augmented<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    match tokens {
        [Token::Name(name), Token::Sign('+' | '-' | '*' | '/' | '%' | '&' | '|' | '^' | '@'), rest @ ..] => {
            let sign = rest.iter().find(|t| !matches!(t, Token::Sign('*' | '/')));
            (sign == Some(&Token::Sign('='))).then_some(*name)
        }
        _ => None,
    }
}

/// Places of the names a line binds.
fn bound_at(tokens: &[Token]) -> Vec<usize> {
    let first = usize::from(tokens.first() == Some(&Token::Name("async")));
    let name_at = |word: &str| tokens.iter().position(|t| *t == Token::Name(word));
    match tokens.get(first) {
        Some(Token::Name("import")) => imported(tokens, first + 1),
        Some(Token::Name("from")) => name_at("import").map_or(Vec::new(), |at| imported(tokens, at + 1)),
        Some(Token::Name("def" | "class")) => vec![first + 1],
        Some(Token::Name("for")) => (first + 1..name_at("in").unwrap_or(first)).collect(),
        Some(Token::Name("with" | "except")) => after_as(tokens),
        _ => assigned(tokens),
    }
}

fn after_as(tokens: &[Token]) -> Vec<usize> {
    tokens.iter().enumerate().filter(|(_, t)| **t == Token::Name("as")).map(|(at, _)| at + 1).collect()
}

/// `a.b as c, d`: c and d; without `as` the first part of the name.
fn imported(tokens: &[Token], from: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut start = from;
    while start < tokens.len() {
        let len =
            tokens[start..].iter().position(|t| matches!(t, Token::Sign(',' | ';'))).unwrap_or(tokens.len() - start);
        let part = &tokens[start..start + len];
        let named = part.iter().position(|t| *t == Token::Name("as")).map(|at| at + 1);
        let first = part.iter().position(|t| matches!(t, Token::Name(_)));
        found.extend(named.or(first).map(|at| start + at));
        start += len + 1;
    }
    found
}

/// Targets of `a = b, (c, d) = …`, `a: int = …` and `a := …`.
fn assigned(tokens: &[Token]) -> Vec<usize> {
    let mut found = Vec::new();
    let (mut start, mut depth) = (0, 0usize);
    for (at, token) in tokens.iter().enumerate() {
        let sign = |at: usize| if let Some(Token::Sign(c)) = tokens.get(at) { Some(*c) } else { None };
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Sign(';') => start = at + 1,
            Token::Sign('=') if sign(at + 1) == Some('=') || at.checked_sub(1).and_then(sign) == Some('=') => {}
            Token::Sign('=') if at.checked_sub(1).and_then(sign) == Some(':') => found.extend(at.checked_sub(2)),
            Token::Sign('=') if depth == 0 => {
                found.extend(targets(tokens, start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Names of `tokens[start..end]` that stand alone between commas and brackets.
fn targets(tokens: &[Token], start: usize, end: usize) -> Vec<usize> {
    let colon = |at: usize| tokens.get(at) == Some(&Token::Sign(':'));
    let word = matches!(tokens.get(start), Some(Token::Name("else" | "try" | "finally")));
    // `a: int = …` binds a, `if x: a = …` binds what stands behind the colon.
    let (start, end) = match (start..end).rfind(|at| colon(*at)) {
        Some(_) if colon(start + 1) && !word => (start, start + 1),
        Some(at) => (at + 1, end),
        None => (start, end),
    };
    let border = |at: Option<&Token>| matches!(at, None | Some(Token::Sign(',' | '(' | ')' | '*' | '[' | ']')));
    let part = &tokens[start..end];
    // `a[i] = …` and `a.b = …` bind nothing: a bracket or a dot follows a name.
    let follows = |at: usize| matches!(part.get(at + 1), Some(Token::Sign('[' | '(' | '.')));
    let alone = |at: &usize| {
        let before = at.checked_sub(1).and_then(|at| part.get(at));
        matches!(part[*at], Token::Name(_)) && border(before) && border(part.get(at + 1)) && !follows(*at)
    };
    let indexed = part.windows(2).any(|two| matches!(two, [Token::Name(_), Token::Sign('[')]));
    (0..part.len()).filter(|at| !indexed && alone(at)).map(|at| start + at).collect()
}

/// Code with the line ends Python makes of all of them.
pub(super) fn with_plain_lines(code: &str) -> String {
    code.replace("\r\n", "\n").replace('\r', "\n")
}

/// Whether code can stand among other code in a script and mean the same, with nothing in it that cannot be seen.
pub(super) fn fits_in_a_script(code: &str) -> bool {
    let scan = scan(code);
    let alone = |line: &Line| {
        // These must stand at the start of what is compiled, or before any use of the name.
        line.at_margin && matches!(line.tokens.first(), Some(Token::Name("global" | "nonlocal")))
            || line.tokens.starts_with(&[Token::Name("from"), Token::Name("__future__")])
    };
    // `# /// script` begins a block that tools obey.
    let block = |line: &str| line.starts_with("# ///");
    scan.closed && !scan.lines.iter().any(alone) && !code.lines().any(block) && !code.contains(cannot_be_seen)
}

fn cannot_be_seen(c: char) -> bool {
    // Emoji need variation selectors.
    is_hidden(c) && !matches!(c, '\n' | '\t' | '\u{FE00}'..='\u{FE0F}')
}

/// Whether the code uses a name.
pub(super) fn mentions(code: &str, name: &str) -> bool {
    scan(code).lines.iter().any(|line| line.tokens.contains(&Token::Name(name)))
}

/// Code as a call that compiles and runs it, which can stand anywhere whatever the code holds.
pub(super) fn as_call(code: &str, file: &str) -> String {
    let mut call = String::from("exec(compile(\n");
    let lines: Vec<&str> = code.split_inclusive('\n').collect();
    for line in if lines.is_empty() { vec![""] } else { lines } {
        call.push_str("    ");
        push_literal(&mut call, line);
        call.push('\n');
    }
    call.pop();
    call.push_str(",\n    ");
    push_literal(&mut call, file);
    call.push_str(", \"exec\"))\n");
    call
}

fn push_literal(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '\\' | '"' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            c if cannot_be_seen(c) => write!(out, "\\U{:08x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> (Vec<&str>, Vec<&str>) {
        let Names { used, bound } = Names::of(code);
        (used.into_iter().collect(), bound.into_iter().collect())
    }

    #[test]
    fn what_code_binds_is_found() {
        for (code, expected) in [
            ("import pandas as pd, os.path", vec!["os", "pd"]),
            ("from a.b import (\n  c,\n  d as e,\n)", vec!["c", "e"]),
            ("a = b = 1; c: int = 2", vec!["a", "b", "c"]),
            ("a, (b, *c) = x\n[d, e] = y", vec!["a", "b", "c", "d", "e"]),
            ("def f(x=1): pass\nclass C: pass", vec!["C", "f"]),
            ("for k, v in d.items():\n    pass", vec!["k", "v"]),
            ("with open('x') as f, g() as h: pass", vec!["f", "h"]),
            ("if (n := 3) > 2: m = 1", vec!["m", "n"]),
            ("a.b = 1\nc[0] = 2\nf(x=3)\nd == 4\ne <= 5", vec![]),
            ("x = 1\nx += 2\ny //= 2", vec!["x", "y"]),
            ("'''\na = 1\n'''\n# b = 2", vec![]),
        ] {
            assert_eq!(names(code).1, expected, "{code}");
        }
    }

    #[test]
    fn what_code_needs_is_found() {
        for (code, expected) in [
            ("df = pd.read_csv('x')\ndf.head()", vec!["pd"]),
            ("df = df.dropna()", vec!["df"]),
            ("df = (\n df\n  .x)", vec!["df"]),
            ("x += 1", vec!["x"]),
            ("df['a'] = 1", vec!["df"]),
            ("a = f'{total:.2f}'", vec!["2f", "f", "total"]),
            ("'total' \"x\" b'y'", vec!["b"]),
        ] {
            assert_eq!(names(code).0, expected, "{code}");
        }
    }

    #[test]
    fn only_what_is_closed_and_visible_stands_as_it_is() {
        for good in
            ["x = 1\n", "d = {'a': (1,\n2)}\n", "s = '''\n'''\n", "'\\''", "f\"\"\"{x}\"\"\"", "", "# é ❤\u{fe0f}"]
        {
            assert!(fits_in_a_script(good), "{good:?}");
        }
        for bad in [
            "x = (1",
            "s = '''",
            "s = 'a\n",
            "x = 1 \\",
            "x = 1\0",
            "a = '\u{202e}'",
            "from __future__ import annotations",
            "x = 1\nglobal x",
            "# /// script\n# ///",
            "\x0c",
        ] {
            assert!(!fits_in_a_script(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_call_holds_any_text() {
        let call = as_call("a = \"\\n\"\n\u{0}\u{202e}'''", "<cell 1>");
        let expected = "exec(compile(\n    \"a = \\\"\\\\n\\\"\\n\"\n    \"\\U00000000\\U0000202e'''\",\n    \"<cell 1>\", \"exec\"))\n";
        assert_eq!(call, expected);
        assert_eq!(as_call("", "<cell 1>"), "exec(compile(\n    \"\",\n    \"<cell 1>\", \"exec\"))\n");
    }
}
