//! A session as a Jupyter notebook, nbformat 4.5.
//!
//! It runs from top to bottom in the folder of the data: code that failed carries a tag that lets the run go on, code that
//! must not run (rejected, or stopped at a limit) is text. Data of ours stands under one key of the metadata.

use serde_json::{Value, json};

use super::json::json_page;
use super::roles::{Role, Roles};
use super::story::{Cell, Fate, Part, Shown, Story};
use super::{Exported, Figures, Options, md, prose};
use crate::core::clean::Clean;
use crate::core::event::{Failure, Outcome, ResultBundle, StreamName, Table};

/// What Python writes before the calls that led to an error.
const TRACEBACK: &str = "Traceback (most recent call last):";

/// Writes the notebook.
pub(super) fn write(story: &Story, options: &Options, figures: &mut Figures) -> Result<Exported, Failure> {
    let roles = Roles::of(story, options.failed);
    let mut book = Book { cells: Vec::new(), runs: 0, figures };
    let preface: String = roles.preface(story).iter().map(|line| format!("- {line}\n")).collect();
    book.words(&format!("# {}\n\n{}\n\n{preface}", prose::literal(story.title.as_str()), story.origin()), &[]);
    let mut roles = roles.each.iter();
    let mut questions = 0;
    for part in &story.parts {
        match part {
            Part::Question(text) => {
                questions += 1;
                book.words(&format!("## Question {questions}\n\n{}", prose::quotation(text)), &[]);
            }
            Part::Words(text) => book.words(&prose::prose(text), &[]),
            Part::Cell(cell) => book.cell(cell, roles.next().copied().unwrap_or(Role::Left)),
            Part::Answer { status, text, unrepaired } => {
                let end = prose::end(*status, *unrepaired).map(|end| format!("*{end}*\n\n")).unwrap_or_default();
                if !end.is_empty() || !text.trim().is_empty() {
                    book.words(&format!("{end}{}", prose::prose(text)), &[]);
                }
            }
            Part::Failed(failure) => book.words(&format!("*Error:* {}", prose::literal(&failure.to_string())), &[]),
            Part::Note(text) => book.words(&format!("*Note:* {}", prose::literal(text)), &[]),
        }
    }
    let notebook = json!({
        "cells": book.cells, "metadata": metadata(story), "nbformat": 4, "nbformat_minor": 5,
    });
    Ok(Exported { bytes: json_page(&notebook).into_bytes(), ..Exported::default() })
}

fn metadata(story: &Story) -> Value {
    let mut language = json!({"name": "python", "file_extension": ".py", "mimetype": "text/x-python"});
    let mut own = json!({});
    if let Some(info) = &story.info {
        if !info.python.is_empty() {
            language["version"] = Clean::line(&info.python).as_str().into();
        }
        own = json!({
            "session": Clean::line(&info.id).as_str(), "version": Clean::line(&info.version).as_str(),
            "model": Clean::line(&info.model).as_str(),
        });
    }
    json!({
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": language, "sandscript": own,
    })
}

struct Book<'a> {
    cells: Vec<Value>,
    /// Code cells so far, which is what a run from top to bottom counts.
    runs: u64,
    figures: &'a mut Figures,
}

impl Book<'_> {
    fn id(&self) -> String {
        format!("cell-{}", self.cells.len() + 1)
    }

    fn words(&mut self, text: &str, tags: &[&str]) {
        let metadata = if tags.is_empty() { json!({}) } else { json!({"tags": tags}) };
        let source = lines(text.trim_end());
        self.cells.push(json!({"cell_type": "markdown", "id": self.id(), "metadata": metadata, "source": source}));
    }

    fn cell(&mut self, cell: &Cell, role: Role) {
        let tags: &[&str] = match role {
            Role::Left => return,
            Role::Shown => return self.shown(cell),
            Role::Fails { .. } => &["failed", "raises-exception"],
            Role::Runs => &[],
        };
        self.runs += 1;
        let mut own = json!({"step": cell.proposal.step, "attempt": cell.proposal.attempt});
        if cell.edited.is_some() {
            own["edited"] = true.into();
        }
        if let Some(finished) = cell.finished() {
            own["exit_code"] = finished.exit_code.into();
            own["took_ms"] = finished.took_ms.into();
        }
        let mut metadata = json!({"sandscript": own});
        if !tags.is_empty() {
            metadata["tags"] = json!(tags);
        }
        let (id, outputs) = (self.id(), self.outputs(cell));
        self.cells.push(json!({
            "cell_type": "code", "id": id, "metadata": metadata, "source": lines(cell.code().trim_end_matches('\n')),
            "outputs": outputs, "execution_count": self.runs,
        }));
    }

    /// Code that must not run, as text.
    fn shown(&mut self, cell: &Cell) {
        let mut text = format!("**{}**\n\n{}", prose::literal(&cell.headline()), prose::code(cell.code()));
        for shown in &cell.shown {
            match shown {
                Shown::Text(stream, output) => text.push_str(&format!("\n{}", md::output(*stream, output))),
                Shown::Value(value) => {
                    text.push_str(&format!("\n{}", prose::fence("text", &prose::plain(&value.text))));
                }
            }
        }
        let tag = if matches!(cell.fate, Fate::Finished(_) | Fate::Begun) { "failed" } else { "not-run" };
        self.words(&text, &[tag]);
    }

    fn outputs(&mut self, cell: &Cell) -> Vec<Value> {
        let mut error = cell.finished().and_then(|finished| error(cell, &finished.outcome));
        let mut outputs = Vec::new();
        let last_error = cell.shown.iter().rposition(|shown| matches!(shown, Shown::Text(StreamName::Stderr, _)));
        for (at, shown) in cell.shown.iter().enumerate() {
            match shown {
                Shown::Text(stream, text) => {
                    let mut text = prose::coloured(text);
                    if let (Some(error), true) = (&mut error, Some(at) == last_error) {
                        take_traceback(&mut text, error);
                    }
                    if !text.is_empty() {
                        let name = match stream {
                            StreamName::Stdout => "stdout",
                            StreamName::Stderr => "stderr",
                        };
                        outputs.push(json!({"output_type": "stream", "name": name, "text": lines(&text)}));
                    }
                }
                Shown::Value(value) => outputs.push(self.value(value)),
            }
        }
        outputs.extend(error.map(|error| error.output()));
        outputs
    }

    fn value(&mut self, value: &ResultBundle) -> Value {
        let mut data = json!({"text/plain": lines(&prose::plain(&value.text))});
        if let Some(table) = &value.table {
            data["text/html"] = lines(&html(table));
        }
        if let Some(png) = value.png.as_ref().and_then(|name| self.figures.get(name)) {
            data["image/png"] = base64(&png).into();
        }
        match value.last {
            true => json!({
                "output_type": "execute_result", "data": data, "metadata": {}, "execution_count": self.runs,
            }),
            false => json!({"output_type": "display_data", "data": data, "metadata": {}}),
        }
    }
}

/// Text as notebooks store it: a list of lines with their ends.
fn lines(text: &str) -> Value {
    text.split_inclusive('\n').collect()
}

/// What ended a cell.
struct Raised {
    name: String,
    value: String,
    traceback: Vec<String>,
}

impl Raised {
    fn output(self) -> Value {
        json!({
            "output_type": "error", "ename": self.name, "evalue": self.value, "traceback": self.traceback,
        })
    }
}

fn error(cell: &Cell, outcome: &Outcome) -> Option<Raised> {
    let name = match outcome {
        Outcome::Exited { code: 0 } => return None,
        Outcome::Exited { .. } => "SystemExit",
        Outcome::Signaled { .. } => "Signal",
        Outcome::TimeLimit | Outcome::CpuLimit => "TimeLimit",
        Outcome::MemoryLimit => "MemoryLimit",
        Outcome::OutputLimit => "OutputLimit",
        Outcome::Cancelled => "KeyboardInterrupt",
        Outcome::SetupFailed { .. } | Outcome::BackendLost { .. } => "SandboxError",
    };
    let value = match &cell.limit {
        Some(limit) => Clean::line(limit).into_string(),
        None => outcome.exit_code().to_string(),
    };
    Some(Raised { name: name.into(), traceback: vec![format!("{name}: {value}")], value })
}

/// Moves the last traceback of a text into the error. A text without one stays.
fn take_traceback(text: &mut String, error: &mut Raised) {
    let start = text.rfind(TRACEBACK).filter(|at| *at == 0 || text[..*at].ends_with('\n'));
    let traceback = prose::plain(&text[start.unwrap_or(0)..]);
    let last = traceback.lines().rev().find(|line| !line.starts_with([' ', '\t']) && !line.is_empty());
    let Some((name, value)) = last.map(|line| line.split_once(": ").unwrap_or((line, ""))) else { return };
    let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    if !is_name || (start.is_none() && value.is_empty()) {
        return;
    }
    (error.name, error.value) = (name.to_owned(), value.to_owned());
    match start {
        Some(start) => {
            error.traceback = traceback.trim_end().lines().map(str::to_owned).collect();
            text.truncate(start);
        }
        None => error.traceback = vec![last.unwrap_or_default().to_owned()],
    }
}

/// A table as HTML.
fn html(table: &Table) -> String {
    let (header, rows, size) = prose::cells(table);
    let row = |tag: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let mut out = format!("<table>\n<thead>\n{}</thead>\n<tbody>\n", row("th", &header));
    out.extend(rows.iter().map(|cells| row("td", cells)));
    out.push_str("</tbody>\n</table>\n");
    out.extend(size.map(|size| format!("<p>{size}</p>\n")));
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Jupyter sets what stands between dollars as a formula.
            '$' => out.push_str("&#36;"),
            c => out.push(c),
        }
    }
    out
}

/// Bytes in the alphabet of RFC 4648, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = char::from(ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]);
            out.push(if at <= three.len() { digit } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_its_standard_says() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd, 0xfb]), "//79+w==");
    }

    #[test]
    fn the_last_traceback_becomes_the_error() {
        let raised =
            || Raised { name: "SystemExit".into(), value: "1".into(), traceback: vec!["SystemExit: 1".into()] };
        for (text, left, name, value, frames) in [
            (
                "warn\nTraceback (most recent call last):\n  File x\nKeyError: 'a: b'\n",
                "warn\n",
                "KeyError",
                "'a: b'",
                3,
            ),
            ("Traceback (most recent call last):\n  File x\na.b.Odd\n", "", "a.b.Odd", "", 3),
            ("  File \"<cell 1>\", line 1\n    x = = 1\nSyntaxError: no\n", "", "SyntaxError", "no", 1),
            ("just words\n", "just words\n", "SystemExit", "1", 1),
            ("", "", "SystemExit", "1", 1),
        ] {
            let (mut rest, mut error) = (text.to_owned(), raised());
            take_traceback(&mut rest, &mut error);
            let expected = if name == "SyntaxError" { text } else { left };
            assert_eq!((rest.as_str(), error.name.as_str(), error.value.as_str()), (expected, name, value), "{text}");
            assert_eq!(error.traceback.len(), frames, "{text}");
        }
    }

    #[test]
    fn cells_of_a_table_are_no_html() {
        let table = Table {
            columns: vec![("<b>".into(), "object".into())],
            rows: vec![vec!["<script>&\"'$".into()]],
            total_rows: 5,
            total_columns: 1,
        };
        let html = html(&table);
        assert!(
            html.contains("<th>&lt;b&gt;</th>") && html.contains("<td>&lt;script&gt;&amp;&quot;&#39;&#36;</td>"),
            "{html}"
        );
        assert!(html.ends_with("<p>5 rows × 1 columns</p>\n"), "{html}");
    }
}
