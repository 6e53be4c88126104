//! Text from a log as Markdown. The person's words stand in a quotation and the model's as the Markdown they are, unless
//! they would swallow what comes after them; then they are quoted as well, since a quotation ends where it ends. Remote
//! images are disarmed: a page that is opened must not tell anybody that it was.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::core::clean::{Clean, Sanitizer, collapse_cr, strip_sgr};
use crate::core::event::{Table, TurnStatus};

/// Rows and columns of a table that are written: as many as the runner sends (design §6), with the index.
const MAX_ROWS: usize = 200;
const MAX_COLUMNS: usize = 51;

/// A paragraph that must still be one when it stands behind the text.
const PROBE: &str = "sandscript-probe";

/// Words as Markdown that ends where it ends.
pub(super) fn prose(text: &str) -> String {
    let text = without_images(Clean::text(text.trim()).as_str());
    if stays_within(&text) { format!("{text}\n") } else { quoted(&text) }
}

/// Words as a quotation.
pub(super) fn quotation(text: &str) -> String {
    quoted(&without_images(Clean::text(text.trim()).as_str()))
}

fn quoted(text: &str) -> String {
    let line = |line: &str| if line.is_empty() { ">\n".to_owned() } else { format!("> {line}\n") };
    if text.is_empty() { ">\n".into() } else { text.lines().map(line).collect() }
}

fn parser(text: &str) -> pulldown_cmark::OffsetIter<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).into_offset_iter()
}

/// Whether what follows the text stays what it is: nothing is left open, and there is no HTML, which may leave more open
/// than Markdown knows.
fn stays_within(text: &str) -> bool {
    let probed = format!("{text}\n\n{PROBE}\n");
    let (mut depth, mut last) = (0usize, String::new());
    for (event, _) in parser(&probed) {
        match event {
            Event::Html(_) | Event::InlineHtml(_) | Event::Start(Tag::HtmlBlock) => return false,
            Event::Start(Tag::Paragraph) if depth == 0 => {
                last.clear();
                depth = 1;
            }
            Event::Start(_) => {
                last.clear();
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(text) if depth == 1 => last.push_str(&text),
            _ => last.clear(),
        }
    }
    last == PROBE && matches!(parser(&probed).last(), Some((Event::End(TagEnd::Paragraph), _)))
}

/// Turns images into their text.
fn without_images(text: &str) -> String {
    let mut starts: Vec<usize> = parser(text)
        .filter(|(event, _)| matches!(event, Event::Start(Tag::Image { .. })))
        .filter(|(_, range)| text[range.start..].starts_with("!["))
        .map(|(_, range)| range.start + 1)
        .collect();
    starts.sort_unstable();
    let mut out = String::with_capacity(text.len() + starts.len());
    let mut from = 0;
    for at in starts {
        out.push_str(&text[from..at]);
        out.push('\\');
        from = at;
    }
    out.push_str(&text[from..]);
    out
}

/// One line that is no Markdown, whatever it holds.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in Clean::line(text).as_str().chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&' | '$' | '~' | '#' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Text between fences that it cannot close. Ends with a line end.
pub(super) fn fence(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let mark = "`".repeat(longest.max(2) + 1);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{mark}{language}\n{text}{end}{mark}\n")
}

/// Code between fences, with what cannot be seen named.
pub(super) fn code(code: &str) -> String {
    fence("python", Clean::code(code).as_str())
}

/// What a program printed, with the last state of redrawn lines and its colours, and no other control sequence.
pub(super) fn coloured(text: &str) -> String {
    let mut sanitizer = Sanitizer::new();
    let mut out = sanitizer.feed(text.as_bytes());
    out.push_str(&sanitizer.finish());
    collapse_cr(&out)
}

/// The same without colours.
pub(super) fn plain(text: &str) -> String {
    Clean::text(&strip_sgr(&coloured(text))).into_string()
}

/// Header and rows of a table, cleaned and as long as each other, and its true size where it is larger.
pub(super) fn cells(table: &Table) -> (Vec<String>, Vec<Vec<String>>, Option<String>) {
    let header: Vec<String> =
        table.columns.iter().take(MAX_COLUMNS).map(|(name, _)| Clean::line(name).into_string()).collect();
    let fill = |row: &Vec<String>| {
        let cell = |at: usize| row.get(at).map(|cell| Clean::line(cell).into_string()).unwrap_or_default();
        (0..header.len()).map(cell).collect()
    };
    let rows: Vec<Vec<String>> = table.rows.iter().take(MAX_ROWS).map(fill).collect();
    // The index is a column here and is not counted there.
    let whole = table.total_rows == rows.len() as u64 && table.total_columns < header.len().max(1) as u64;
    let size = (!whole).then(|| format!("{} rows × {} columns", table.total_rows, table.total_columns));
    (header, rows, size)
}

/// A table in Markdown.
pub(super) fn table(table: &Table) -> String {
    let (header, rows, size) = cells(table);
    if header.is_empty() {
        return size.map(|size| format!("{size}\n")).unwrap_or_default();
    }
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| literal(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = line(&header);
    out.push_str(&format!("|{}\n", " --- |".repeat(header.len())));
    out.extend(rows.iter().map(|row| line(row)));
    out.extend(size.map(|size| format!("\n{size}\n")));
    out
}

/// How a turn ended, where it is no plain answer.
pub(super) fn end(status: TurnStatus, unrepaired: bool) -> Option<&'static str> {
    match status {
        TurnStatus::Answered if unrepaired => Some("A step failed and was not repaired."),
        TurnStatus::Answered => None,
        TurnStatus::Failed => Some("The turn failed."),
        TurnStatus::Rejected => Some("The code was rejected."),
        TurnStatus::Stopped => Some("The turn was stopped."),
        TurnStatus::StepLimit => Some("The limit of steps was reached."),
        TurnStatus::ModelError => Some("The model failed."),
        TurnStatus::SandboxError => Some("The sandbox failed."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_markdown_stays_and_what_is_left_open_is_quoted() {
        for plain in
            ["**bold** and `code`", "- a\n- b", "| a | b |\n|---|---|\n| 1 | 2 |", "```python\nx\n```", "# Title"]
        {
            assert_eq!(prose(plain), format!("{plain}\n"));
        }
        for open in ["```python\nx", "<!-- hidden", "<details>", "a <b>b", "- a\n  ```\n  x\n\n~~~", "<script>\n"] {
            assert!(prose(open).lines().all(|line| line.starts_with('>')), "{}", prose(open));
        }
        assert_eq!(quotation("a\n\nb\r# c\u{2028}d"), "> a\n>\n> b\n> # c\n> d\n");
    }

    #[test]
    fn images_become_text() {
        assert_eq!(prose("see ![chart](http://x/y.png) `![a](b)`"), "see !\\[chart](http://x/y.png) `![a](b)`\n");
        let nested = prose("![![a](b)](c)");
        assert!(!parser(&nested).any(|(e, _)| matches!(e, Event::Start(Tag::Image { .. }))), "{nested}");
    }

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fence("text", "a ```` b\n```"), "`````text\na ```` b\n```\n`````\n");
        assert_eq!(fence("", ""), "```\n```\n");
    }

    #[test]
    fn a_table_keeps_its_shape_whatever_is_in_it() {
        let hostile = Table {
            columns: vec![("".into(), "int64".into()), ("a|b\n".into(), "object".into())],
            rows: vec![vec!["0".into()], vec!["1".into(), "<img src=x>\u{1b}[2J".into(), "extra".into()]],
            total_rows: 2,
            total_columns: 1,
        };
        assert_eq!(table(&hostile), "|  | a\\|b  |\n| --- | --- |\n| 0 |  |\n| 1 | \\<img src=x\\> |\n");
        let larger = Table { total_rows: 9, ..hostile };
        assert!(table(&larger).ends_with("\n\n9 rows × 1 columns\n"));
    }

    #[test]
    fn output_keeps_colours_only_where_they_are_wanted() {
        assert_eq!(coloured("1%\r2%\n\x1b[31mred\x1b[2J\x1b]0;x\x07"), "2%\n\x1b[31mred");
        assert_eq!(plain("1%\r2%\n\x1b[31mred\x1b[2J\u{202e}"), "2%\nred<U+202E>");
    }

    proptest! {
        #[test]
        fn nothing_behind_prose_changes(text in "[a-z \n`~<>!\\[\\]()#*|\\-\\\\_:=&;/\"'.\t]{0,60}|[ab\n`>\\- <!/]{0,30}") {
            let page = format!("{}\n{PROBE}\n", prose(&text));
            let last: Vec<_> = parser(&page).map(|(event, _)| event).collect();
            prop_assert!(last.len() >= 3);
            let behind = &last[last.len() - 3..];
            prop_assert_eq!(behind, &[Event::Start(Tag::Paragraph), Event::Text(PROBE.into()), Event::End(TagEnd::Paragraph)][..]);
            prop_assert!(!last.iter().any(|e| matches!(e, Event::Start(Tag::Image { .. }))), "{}", page);
        }
    }
}
