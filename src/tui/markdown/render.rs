//! One block of Markdown as styled lines. Owns how headings, lists, quotes, code and links look.
//!
//! The source is clean, but the parser makes characters of its own (`&#27;` is an escape character): what it did not take
//! from the source as it stands is cleaned once more.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

use super::fence::{self, Paints};
use super::source::{as_written, options, without_definitions};
use super::table::Table;
use crate::core::clean::Clean;
use crate::tui::theme::{Role, Theme};
use crate::tui::wrap;

/// Share of the width that quotes and lists may take from what is in them; deeper ones are not set in further.
const MAX_PREFIX: usize = 2;

/// The lines of one block, at most `width` columns wide. `closed` says that nothing is added to it any more.
pub fn lines(block: &str, width: usize, theme: Theme, closed: bool, paints: &mut Paints) -> Vec<Line<'static>> {
    let mut out = Output::new(width, theme, paints);
    let block = without_definitions(block);
    for (event, range) in Parser::new_ext(&block, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => out.start(tag),
            Event::End(TagEnd::CodeBlock) => out.end_code(closed || fence::is_closed(&block[range])),
            Event::End(tag) => out.end(tag),
            Event::Text(text) => out.text(&text),
            Event::Code(text) if theme.has_colour() => out.styled(&clean(&text), theme.style(Role::Code)),
            Event::Code(text) => out.styled(&format!("`{}`", clean(&text)), Style::new()),
            Event::InlineHtml(text) if is_line_break(&text) => out.new_line(),
            Event::Html(text) | Event::InlineHtml(text) => out.html(&text),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => out.text(&text),
            Event::SoftBreak | Event::HardBreak => out.new_line(),
            Event::Rule => out.rule(),
            Event::TaskListMarker(done) => out.styled(if done { "[x] " } else { "[ ] " }, Style::new()),
        }
    }
    out.flush();
    out.lines
}

/// Text of the parser that may be drawn. What is borrowed stands in the clean source as it is.
fn clean(text: &CowStr<'_>) -> String {
    match text {
        CowStr::Borrowed(text) => as_written(text).replace('\n', " "),
        CowStr::Boxed(_) | CowStr::Inlined(_) => {
            let clean = Clean::line(&as_written(text)).into_string();
            // A mark made by name joins those before it, which were counted without it.
            clean.trim_start_matches(|c: char| c.width() == Some(0)).to_owned()
        }
    }
}

fn is_line_break(html: &str) -> bool {
    matches!(html.to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

/// What a block stands in.
enum Container {
    Quote,
    /// An item: what stands before its first line, and the columns of that.
    Item {
        marker: Option<String>,
        width: usize,
    },
}

/// A link or image that is open.
struct Link {
    address: String,
    text: String,
}

struct Output<'p> {
    width: usize,
    theme: Theme,
    paints: &'p mut Paints,
    lines: Vec<Line<'static>>,
    containers: Vec<Container>,
    /// The numbers of the next items of the lists that are open; none for a list without numbers.
    numbers: Vec<Option<u64>>,
    /// An empty line comes before the next block.
    gap: bool,
    styles: Vec<Style>,
    links: Vec<Link>,
    spans: Vec<Span<'static>>,
    /// Lines of the text that is being read, before the one in `spans`.
    read: Vec<Line<'static>>,
    table: Option<Table>,
    /// The language, and the code that is being read.
    code: Option<(String, String)>,
}

impl<'p> Output<'p> {
    fn new(width: usize, theme: Theme, paints: &'p mut Paints) -> Self {
        Self {
            width,
            theme,
            paints,
            lines: Vec::new(),
            containers: Vec::new(),
            numbers: Vec::new(),
            gap: false,
            styles: Vec::new(),
            links: Vec::new(),
            spans: Vec::new(),
            read: Vec::new(),
            table: None,
            code: None,
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = self.theme.style(Role::Title);
                let underlined = matches!(level, HeadingLevel::H1 | HeadingLevel::H2);
                self.styles.push(if underlined { style.add_modifier(Modifier::UNDERLINED) } else { style });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default().to_lowercase()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(first) => {
                self.flush();
                // A list belongs to the text of the item it stands in.
                if !matches!(self.containers.last(), Some(Container::Item { .. })) {
                    self.begin_block();
                }
                self.numbers.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table { alignments, rows: Vec::new() });
            }
            Tag::TableHead => {
                self.begin_row();
                self.styles.push(self.theme.style(Role::Strong));
            }
            Tag::TableRow => self.begin_row(),
            Tag::Emphasis => self.styles.push(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(Style::new().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => self.styles.push(Style::new().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } => self.begin_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.styled("image: ", self.theme.style(Role::Dim));
                self.begin_link(&dest_url);
            }
            Tag::TableCell
            | Tag::FootnoteDefinition(_)
            | Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.end_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
                self.gap = true;
            }
            TagEnd::List(_) => {
                self.numbers.pop();
                self.gap = true;
            }
            TagEnd::Item => {
                self.flush();
                if matches!(self.containers.last(), Some(Container::Item { marker: Some(_), .. })) {
                    self.emit(Line::default());
                }
                self.containers.pop();
                self.gap = false;
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead => {
                self.styles.pop();
            }
            TagEnd::TableCell => self.end_cell(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::TableRow
            | TagEnd::CodeBlock
            | TagEnd::FootnoteDefinition
            | TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) && !self.lines.is_empty() {
            self.emit(Line::default());
        }
    }

    fn end_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    fn begin_item(&mut self) {
        self.flush();
        self.gap = false;
        let marker = match self.numbers.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            Some(None) | None => "• ".to_owned(),
        };
        let width = wrap::width(&marker);
        self.containers.push(Container::Item { marker: Some(marker), width });
    }

    fn begin_link(&mut self, address: &str) {
        self.links.push(Link { address: Clean::line(&as_written(address)).into_string(), text: String::new() });
        self.styles.push(Style::new().add_modifier(Modifier::UNDERLINED));
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some(Link { address, text }) = self.links.pop() else { return };
        let is_same = text == address || address.strip_prefix("mailto:") == Some(&text);
        if !is_same && !address.is_empty() {
            self.styled(&format!(" ({address})"), self.theme.style(Role::Dim));
        }
    }

    fn text(&mut self, text: &CowStr<'_>) {
        if let Some((_, code)) = &mut self.code {
            match text {
                CowStr::Borrowed(text) => code.push_str(&as_written(text)),
                CowStr::Boxed(_) | CowStr::Inlined(_) => code.push_str(Clean::text(&as_written(text)).as_str()),
            }
            return;
        }
        let text = clean(text);
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(&text);
        }
        self.styled(&text, Style::new());
    }

    fn styled(&mut self, text: &str, own: Style) {
        let style = self.styles.iter().fold(Style::new(), |style, more| style.patch(*more)).patch(own);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn html(&mut self, text: &CowStr<'_>) {
        for line in as_written(text).split_inclusive('\n') {
            self.styled(Clean::line(line.trim_end_matches('\n')).as_str(), self.theme.style(Role::Dim));
            if line.ends_with('\n') {
                self.new_line();
            }
        }
    }

    fn new_line(&mut self) {
        self.read.push(Line::from(std::mem::take(&mut self.spans)));
    }

    /// The lines of the text that was read.
    fn take_read(&mut self) -> Vec<Line<'static>> {
        if !self.spans.is_empty() {
            self.new_line();
        }
        std::mem::take(&mut self.read)
    }

    fn flush(&mut self) {
        for line in self.take_read() {
            self.emit(line);
        }
    }

    /// Columns beside the signs of quotes and lists.
    fn room(&self) -> usize {
        let mut prefix = 0;
        for container in &self.containers {
            let width = container.width();
            if prefix + width > self.width / MAX_PREFIX {
                break;
            }
            prefix += width;
        }
        self.width - prefix
    }

    fn emit(&mut self, line: Line<'static>) {
        for row in wrap::wrap(&line, self.room()) {
            self.put(row);
        }
    }

    /// Puts a row that fits behind the signs of quotes and lists.
    fn put(&mut self, row: Line<'static>) {
        let dim = self.theme.style(Role::Dim);
        let mut spans = Vec::with_capacity(row.spans.len() + 1);
        let mut left = self.width - self.room();
        for container in &mut self.containers {
            let Some(rest) = left.checked_sub(container.width()).filter(|_| left > 0) else { break };
            left = rest;
            spans.push(match container {
                Container::Quote => Span::styled("│ ", dim),
                Container::Item { marker, width } => match marker.take() {
                    Some(marker) => Span::styled(marker, dim),
                    None => Span::raw(" ".repeat(*width)),
                },
            });
        }
        // An item that is too deep to be set in has no sign either.
        if let Some(Container::Item { marker, .. }) = self.containers.last_mut() {
            *marker = None;
        }
        spans.extend(row.spans);
        self.lines.push(Line::from(spans));
    }

    fn rule(&mut self) {
        self.begin_block();
        self.put(Line::styled("─".repeat(self.room()), self.theme.style(Role::Dim)));
        self.gap = true;
    }

    fn end_code(&mut self, closed: bool) {
        let Some((language, code)) = self.code.take() else { return };
        for row in fence::rows(&language, &code, closed, self.room(), self.theme, self.paints) {
            self.put(row);
        }
        self.gap = true;
    }

    fn begin_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    fn end_cell(&mut self) {
        let cell = self.take_read();
        if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
            row.push(cell);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table.lines(self.room(), self.theme) {
            let style = line.style;
            let spans = line.spans.into_iter().map(|span| Span::styled(span.content, style.patch(span.style)));
            self.put(Line::from(spans.collect::<Vec<_>>()));
        }
        self.gap = true;
    }
}

impl Container {
    fn width(&self) -> usize {
        match self {
            Self::Quote => 2,
            Self::Item { width, .. } => *width,
        }
    }
}
