//! A session as a Markdown page.

use super::roles::{Role, Roles};
use super::story::{Cell, Part, Shown, Story};
use super::{Exported, Figures, Options, prose};
use crate::core::event::{ResultBundle, StreamName};

/// Writes the page.
pub(super) fn write(story: &Story, options: &Options, figures: &mut Figures) -> Exported {
    let roles = Roles::of(story, options.failed);
    let mut page = Page { text: String::new(), extra: Vec::new(), figures, folder: options.figures.as_deref() };
    page.text = format!("# {}\n\n{}\n", prose::literal(story.title.as_str()), story.origin());
    page.block(&roles.preface(story).iter().map(|line| format!("- {line}\n")).collect::<String>());
    let mut roles = roles.each.iter();
    let mut questions = 0;
    for part in &story.parts {
        match part {
            Part::Question(text) => {
                questions += 1;
                page.block(&format!("## Question {questions}\n"));
                page.block(&prose::quotation(text));
            }
            Part::Words(text) => page.block(&prose::prose(text)),
            Part::Cell(cell) => {
                if roles.next().is_some_and(|role| *role != Role::Left) {
                    page.cell(cell);
                }
            }
            Part::Answer { status, text, unrepaired } => {
                if let Some(end) = prose::end(*status, *unrepaired) {
                    page.block(&format!("*{end}*\n"));
                }
                if !text.trim().is_empty() {
                    page.block(&prose::prose(text));
                }
            }
            Part::Failed(failure) => page.block(&format!("*Error:* {}\n", prose::literal(&failure.to_string()))),
            Part::Note(text) => page.block(&format!("*Note:* {}\n", prose::literal(text))),
        }
    }
    let mut exported = Exported { bytes: page.text.into_bytes(), extra_files: page.extra, warnings: Vec::new() };
    exported.warnings.extend(missing_figures(story, options));
    exported
}

fn missing_figures(story: &Story, options: &Options) -> Option<String> {
    let figure = |shown: &Shown| matches!(shown, Shown::Value(ResultBundle { png: Some(_), .. }));
    let any = story.cells().any(|cell| cell.shown.iter().any(figure));
    (any && options.figures.is_none()).then(|| "figures are left out: they need files beside the page".into())
}

struct Page<'a> {
    text: String,
    extra: Vec<(String, Vec<u8>)>,
    figures: &'a mut Figures,
    folder: Option<&'a str>,
}

impl Page<'_> {
    /// A block with a blank line before it.
    fn block(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
    }

    fn cell(&mut self, cell: &Cell) {
        self.block(&format!("**{}**\n", prose::literal(&cell.headline())));
        self.block(&prose::code(cell.code()));
        for shown in &cell.shown {
            match shown {
                Shown::Text(stream, text) => self.block(&output(*stream, text)),
                Shown::Value(value) => self.value(value),
            }
        }
        let files = cell.finished().map(|finished| finished.artifacts.as_slice()).unwrap_or_default();
        for file in files {
            self.block(&format!("*File:* {}\n", prose::literal(&file.name)));
        }
    }

    fn value(&mut self, value: &ResultBundle) {
        if let Some(table) = &value.table {
            self.block(&prose::table(table));
        } else if value.png.is_none() {
            self.block(&prose::fence("text", &prose::plain(&value.text)));
        }
        if let Some(name) = &value.png {
            self.figure(name);
        }
    }

    fn figure(&mut self, name: &str) {
        let number = self.extra.len() + 1;
        let Some(folder) = self.folder else { return self.block("*Figure, left out.*\n") };
        match self.figures.get(name) {
            Some(bytes) => {
                let file = format!("{folder}/figure-{number}.png");
                self.block(&format!("![figure {number}]({})\n", link(&file)));
                self.extra.push((file, bytes));
            }
            None => self.block("*Figure, cannot be read.*\n"),
        }
    }
}

/// Text of a stream between fences.
pub(super) fn output(stream: StreamName, text: &str) -> String {
    let name = match stream {
        StreamName::Stdout => "text",
        StreamName::Stderr => "stderr",
    };
    prose::fence(name, &prose::plain(text))
}

/// A relative path as the target of a link.
fn link(path: &str) -> String {
    let keep = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
    path.bytes().map(|b| if keep(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
