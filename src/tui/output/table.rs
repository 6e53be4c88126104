//! A table a program showed. Owns its view: which columns and rows are seen, by which column it is sorted, and how it is
//! drawn. The first column is the index and stays in sight.

use std::cmp::Ordering;

use ratatui::buffer::{Buffer, CellWidth};
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;

use super::grouped;
use crate::core::clean::Clean;
use crate::core::event::Table;
use crate::tui::search::Needle;
use crate::tui::theme::{Role, Theme};

/// Rows of a table within other output: enough to see what it is.
const INLINE: usize = 12;
/// And at least, however small the pane.
const FEWEST: usize = 2;
/// Widest column, in columns of the screen: three of them still fit beside each other in half a screen.
const MAX_COLUMN: usize = 28;
/// Longest cell that is kept, bytes. The sandbox cuts cells shorter than this; a log from elsewhere may not have.
const MAX_CELL: usize = 1024;
/// Most rows and columns that are kept, as many as the sandbox sends.
const MAX_ROWS: usize = 200;
/// See [`MAX_ROWS`].
const MAX_COLUMNS: usize = 51;
/// Between two columns.
const GAP: u16 = 2;
/// Rows above the cells: names and types.
const HEADER: usize = 2;

/// A table and how a person looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct TableView {
    columns: Vec<Column>,
    rows: Vec<Vec<Clean>>,
    total_rows: u64,
    total_columns: u64,
    /// Rows in the order they are shown in.
    order: Vec<usize>,
    sort: Option<(usize, Sort)>,
    /// The selected column.
    selected: usize,
    /// First column on the screen behind the index.
    left: usize,
    /// First row on the screen.
    top: usize,
    /// Cells on the screen at the last layout: rows.
    height: usize,
    /// Columns of the screen at the last layout.
    width: u16,
    /// Rows it shows within other output.
    inline: usize,
}

/// What the allocator adds to a short text, bytes, about.
const ALLOCATED: usize = 16;

#[derive(Debug, Clone, PartialEq)]
struct Column {
    name: Clean,
    kind: Clean,
    /// Right-aligned.
    number: bool,
    width: u16,
}

/// Order of a sorted table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Smallest first.
    Up,
    /// Largest first.
    Down,
}

impl TableView {
    /// Takes a table; what is larger than the sandbox sends is cut.
    pub fn new(table: &Table) -> Self {
        let cell = |text: &String| cell(text);
        let rows: Vec<Vec<Clean>> =
            table.rows.iter().take(MAX_ROWS).map(|row| row.iter().take(MAX_COLUMNS).map(cell).collect()).collect();
        let columns = table.columns.iter().take(MAX_COLUMNS).enumerate();
        let columns: Vec<Column> = columns
            .map(|(at, (name, kind))| {
                let (name, kind) = (self::cell(name), self::cell(kind));
                let cells = rows.iter().filter_map(|row| row.get(at));
                let widest = cells.chain([&name, &kind]).map(|text| columns_of(text.as_str())).max().unwrap_or(0);
                // The sign of the sort order stands behind the name.
                let widest = widest.max(columns_of(name.as_str()) + 2).clamp(1, MAX_COLUMN);
                Column { number: is_number(kind.as_str()), width: u16::try_from(widest).unwrap_or(1), name, kind }
            })
            .collect();
        Self {
            order: (0..rows.len()).collect(),
            selected: usize::from(columns.len() > 1),
            left: 1,
            top: 0,
            height: INLINE,
            inline: INLINE,
            width: 0,
            sort: None,
            columns,
            rows,
            total_rows: table.total_rows,
            total_columns: table.total_columns,
        }
    }

    /// What it takes in memory, bytes, about.
    pub fn cost(&self) -> usize {
        let cell = |cell: &Clean| cell.as_str().len() + size_of::<Clean>() + ALLOCATED;
        self.rows.iter().flatten().map(cell).sum::<usize>() + self.columns.len() * size_of::<Column>()
    }

    /// One line that names it.
    pub fn title(&self) -> String {
        format!("table {} rows × {} columns", grouped(self.total_rows), grouped(self.total_columns))
    }

    /// Rows of the screen it takes within other output.
    pub fn inline_rows(&self) -> usize {
        HEADER + self.rows.len().min(self.inline) + 1
    }

    /// Within other output it takes no more than a pane of this height, so that its header is seen with its end.
    pub fn set_room(&mut self, height: u16) {
        self.inline = usize::from(height).saturating_sub(HEADER + 1).clamp(FEWEST, INLINE);
    }

    /// Takes the size of the screen it is drawn on, before a frame.
    pub fn layout(&mut self, width: u16, height: u16) {
        self.width = width;
        self.height = usize::from(height).saturating_sub(HEADER + 1).max(1);
        self.top = self.top.min(self.rows.len().saturating_sub(self.height));
        self.show_selected();
    }

    /// Selects the column to the right or to the left.
    pub fn select(&mut self, right: bool) {
        let last = self.columns.len().saturating_sub(1);
        self.selected = if right { (self.selected + 1).min(last) } else { self.selected.saturating_sub(1) };
        self.show_selected();
    }

    /// Selects the last column, or the first.
    pub fn select_end(&mut self, last: bool) {
        self.selected = if last { self.columns.len().saturating_sub(1) } else { 0 };
        self.show_selected();
    }

    /// Towards the end, or the start where negative.
    pub fn scroll(&mut self, rows: isize) {
        self.top = self.top.saturating_add_signed(rows).min(self.rows.len().saturating_sub(self.height));
    }

    /// Rows of cells on the screen.
    pub fn page(&self) -> isize {
        isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1)
    }

    /// Sorts by the selected column: smallest first, largest first, as it came.
    pub fn sort(&mut self) {
        let column = self.selected;
        self.sort = match self.sort {
            Some((at, Sort::Up)) if at == column => Some((column, Sort::Down)),
            Some((at, Sort::Down)) if at == column => None,
            Some(_) | None => Some((column, Sort::Up)),
        };
        self.order = (0..self.rows.len()).collect();
        let Some((column, sort)) = self.sort else { return };
        let cell = |row: &usize| self.rows.get(*row).and_then(|cells| cells.get(column)).map_or("", Clean::as_str);
        let mut keyed: Vec<(Key<'_>, usize)> = self.order.iter().map(|row| (Key::new(cell(row)), *row)).collect();
        keyed.sort_by(|(a, _), (b, _)| a.compare(b, sort));
        self.order = keyed.into_iter().map(|(_, row)| row).collect();
        self.top = 0;
    }

    /// Whether a name or a cell has it.
    pub fn has(&self, needle: &Needle) -> bool {
        let names = self.columns.iter().map(|column| &column.name);
        names.chain(self.rows.iter().flatten()).any(|text| needle.find(text.as_str(), 0).is_some())
    }

    /// The cells as text: a line for each row as it is sorted, tabs between.
    pub fn text(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = &str>| cells.collect::<Vec<_>>().join("\t") + "\n";
        let mut out = line(&mut self.columns.iter().map(|column| column.name.as_str()));
        for row in self.order.iter().filter_map(|row| self.rows.get(*row)) {
            out.push_str(&line(&mut row.iter().map(Clean::as_str)));
        }
        out
    }

    /// Columns on the screen: which, and where each begins. The index first.
    fn shown(&self, width: u16) -> Vec<(usize, u16)> {
        let mut shown = Vec::new();
        let mut x = 0;
        for at in std::iter::once(0).chain(self.left.max(1)..self.columns.len()) {
            if x >= width {
                break;
            }
            let Some(column) = self.columns.get(at) else { break };
            shown.push((at, x));
            x += column.width + GAP;
        }
        shown
    }

    /// Moves the window so that the selected column is whole in it.
    fn show_selected(&mut self) {
        if self.selected == 0 {
            self.left = 1;
            return;
        }
        self.left = self.left.clamp(1, self.selected);
        while self.left < self.selected {
            let whole = |(at, x): &(usize, u16)| {
                *at == self.selected && self.columns.get(*at).is_some_and(|column| x + column.width <= self.width)
            };
            if self.shown(self.width).iter().any(whole) {
                return;
            }
            self.left += 1;
        }
    }

    fn footer(&self, shown: &[(usize, u16)], rows: usize) -> String {
        let mut parts = Vec::new();
        let here = self.rows.len() as u64;
        let columns = grouped(self.total_columns);
        match here < self.total_rows {
            true => parts.push(format!("{here} of {} rows × {columns} columns", grouped(self.total_rows))),
            false => parts.push(format!("{} rows × {columns} columns", grouped(self.total_rows))),
        }
        if rows < self.rows.len() {
            parts.push(format!("rows {}–{} here", self.top + 1, self.top + rows));
        }
        let (first, last) = (shown.get(1).map_or(0, |s| s.0), shown.last().map_or(0, |s| s.0));
        if shown.len() < self.columns.len() {
            parts.push(format!("columns {first}–{last} here"));
        }
        if let Some((column, sort)) = self.sort
            && let Some(column) = self.columns.get(column)
        {
            let sign = match sort {
                Sort::Up => '↑',
                Sort::Down => '↓',
            };
            parts.push(format!("by {} {sign}", column.name));
        }
        parts.join(" · ")
    }

    /// Draws its rows from `skip` on. `chosen` shows which column the keys act on.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme, skip: usize, look: Look<'_>) {
        let area = area.intersection(buf.area);
        let shown = self.shown(area.width);
        let cells = self.rows.len().min(if look.whole { self.height } else { self.inline });
        for (line, y) in (skip..HEADER + cells + 1).zip(area.y..area.bottom()) {
            if line == HEADER + cells {
                buf.set_stringn(area.x, y, self.footer(&shown, cells), usize::from(area.width), theme.style(Role::Dim));
                continue;
            }
            for (at, x) in &shown {
                let Some(column) = self.columns.get(*at) else { continue };
                let room = column.width.min(area.width - x);
                let (text, style) = self.cell(*at, line, theme, look);
                put(buf, area.x + x, y, room, &text, column.number, style);
            }
        }
    }

    /// Text and look of a cell, counted from the names.
    fn cell(&self, at: usize, line: usize, theme: Theme, look: Look<'_>) -> (String, Style) {
        let Some(column) = self.columns.get(at) else { return Default::default() };
        let chosen = look.chosen && at == self.selected;
        match line {
            0 => {
                let sign = match self.sort {
                    Some((by, Sort::Up)) if by == at => " ↑",
                    Some((by, Sort::Down)) if by == at => " ↓",
                    Some(_) | None => "",
                };
                let style = theme.style(if chosen { Role::Selected } else { Role::Title });
                // The sign is seen even where the name is cut.
                let room = usize::from(column.width) - columns_of(sign);
                (fit(column.name.as_str(), room) + sign, style)
            }
            1 => (column.kind.to_string(), theme.style(Role::Dim)),
            _ => {
                let row = self.order.get(self.top + line - HEADER).and_then(|row| self.rows.get(*row));
                let text = row.and_then(|row| row.get(at)).map_or("", Clean::as_str);
                let style = match look.needle {
                    Some(needle) if needle.find(text, 0).is_some() => theme.style(Role::Found),
                    Some(_) | None if at == 0 => theme.style(Role::Dim),
                    Some(_) | None => theme.style(Role::Text),
                };
                (text.to_owned(), if chosen { style.add_modifier(Modifier::BOLD) } else { style })
            }
        }
    }
}

/// How a table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub struct Look<'a> {
    /// It has the whole pane; else it stands within other output.
    pub whole: bool,
    /// The keys act on it.
    pub chosen: bool,
    /// What is searched for.
    pub needle: Option<&'a Needle>,
}

/// A cell, clean and not too long.
fn cell(text: &str) -> Clean {
    let end = (0..=MAX_CELL.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut clean = Clean::line(&text[..end]);
    if end < text.len() {
        clean.push(&Clean::line("…"));
    }
    clean
}

/// By the name pandas has for the type.
fn is_number(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    ["int", "uint", "float", "complex", "decimal", "double"].iter().any(|name| kind.starts_with(name))
}

fn columns_of(text: &str) -> usize {
    if text.is_ascii() {
        // Nothing in clean text of one line is without a width.
        return text.len();
    }
    text.graphemes(true).map(|g| usize::from(g.cell_width())).sum()
}

/// Cuts to `room` columns; what was cut ends with `…`.
fn fit(text: &str, room: usize) -> String {
    if columns_of(text) <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let mut out = String::new();
    for cluster in text.graphemes(true) {
        let width = usize::from(cluster.cell_width());
        if width > left {
            break;
        }
        left -= width;
        out.push_str(cluster);
    }
    if room > 0 {
        out.push('…');
    }
    out
}

fn put(buf: &mut Buffer, x: u16, y: u16, room: u16, text: &str, right: bool, style: Style) {
    let text = fit(text, usize::from(room));
    let free = room.saturating_sub(u16::try_from(columns_of(&text)).unwrap_or(room));
    let x = if right { x + free } else { x };
    buf.set_stringn(x, y, text, usize::from(room), style);
}

/// What a cell is sorted by.
enum Key<'a> {
    Number(f64),
    Text(&'a str),
    /// Missing; last in both orders.
    Missing,
}

impl<'a> Key<'a> {
    fn new(text: &'a str) -> Self {
        let trimmed = text.trim();
        if matches!(trimmed, "" | "NaN" | "nan" | "None" | "NaT" | "<NA>" | "null") {
            return Key::Missing;
        }
        match trimmed.parse::<f64>().or_else(|_| trimmed.replace([',', '_'], "").parse()) {
            Ok(number) if !number.is_nan() => Key::Number(number),
            Ok(_) | Err(_) => Key::Text(trimmed),
        }
    }

    fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        let turned = |order: Ordering| match sort {
            Sort::Up => order,
            Sort::Down => order.reverse(),
        };
        match (self, other) {
            (Key::Number(a), Key::Number(b)) => turned(a.total_cmp(b)),
            (Key::Text(a), Key::Text(b)) => turned(a.cmp(b)),
            (Key::Number(_), Key::Text(_)) => turned(Ordering::Less),
            (Key::Text(_), Key::Number(_)) => turned(Ordering::Greater),
            (Key::Missing, Key::Missing) => Ordering::Equal,
            (Key::Missing, Key::Number(_) | Key::Text(_)) => Ordering::Greater,
            (Key::Number(_) | Key::Text(_), Key::Missing) => Ordering::Less,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::ThemeName;

    fn table(columns: &[(&str, &str)], rows: &[&[&str]]) -> TableView {
        let own = |text: &&str| (*text).to_owned();
        TableView::new(&Table {
            columns: columns.iter().map(|(a, b)| (own(a), own(b))).collect(),
            rows: rows.iter().map(|row| row.iter().map(own).collect()).collect(),
            total_rows: rows.len() as u64,
            total_columns: columns.len() as u64 - 1,
        })
    }

    fn screen(view: &mut TableView, width: u16, height: u16) -> Vec<String> {
        view.layout(width, height);
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        view.draw(area, &mut buf, Theme::new(ThemeName::Dark), 0, Look { whole: true, chosen: true, needle: None });
        (0..height)
            .map(|y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned())
            .collect()
    }

    fn column(view: &mut TableView, at: usize) -> Vec<String> {
        view.text().lines().skip(1).map(|line| line.split('\t').nth(at).unwrap().to_owned()).collect()
    }

    #[test]
    fn numbers_are_on_the_right_and_the_rest_on_the_left() {
        let mut view = table(
            &[("", "int64"), ("name", "object"), ("n", "float64")],
            &[&["0", "日本", "1.5"], &["1", "b", "22.25"]],
        );
        assert_eq!(
            screen(&mut view, 40, 5),
            [
                "       name          n",
                "int64  object  float64",
                "    0  日 本         1.5",
                "    1  b         22.25",
                "2 rows × 2 columns"
            ]
        );
    }

    #[test]
    fn sorting_knows_numbers_and_leaves_the_missing_last() {
        let rows: &[&[&str]] = &[&["0", "10"], &["1", "NaN"], &["2", "9"], &["3", "-1e3"], &["4", "1,000"]];
        let mut view = table(&[("", "int64"), ("v", "object")], rows);
        view.sort();
        assert_eq!(column(&mut view, 1), ["-1e3", "9", "10", "1,000", "NaN"]);
        assert_eq!(screen(&mut view, 30, 8)[7], "5 rows × 1 columns · by v ↑");
        view.sort();
        assert_eq!(column(&mut view, 1), ["1,000", "10", "9", "-1e3", "NaN"]);
        view.sort();
        assert_eq!(column(&mut view, 0), ["0", "1", "2", "3", "4"]);
    }

    #[test]
    fn forty_columns_are_walked_through_with_the_index_in_sight() {
        let names: Vec<String> = (0..41).map(|i| format!("column_{i}")).collect();
        let columns: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "int64")).collect();
        let row: Vec<String> = (0..41).map(|i| format!("cell {i}")).collect();
        let row: Vec<&str> = row.iter().map(String::as_str).collect();
        let mut view = table(&columns, &[&row]);
        for at in 1..41 {
            let shown = screen(&mut view, 60, 5);
            assert!(shown[0].contains("column_0"), "{shown:?}");
            assert!(shown[2].contains(&format!("cell {at}")), "{at}: {shown:?}");
            view.select(true);
        }
        view.select_end(false);
        assert!(screen(&mut view, 60, 5)[2].contains("cell 1"));
        assert!(screen(&mut view, 60, 5)[3].contains("columns 1–"));
    }

    #[test]
    fn hostile_cells_stay_in_their_cell() {
        let mut view = table(
            &[("", "int64"), ("\u{1b}[2Jna\nme", "ob\tject")],
            &[&["0", "\u{1b}]0;t\u{7}a\r\nb\u{202e}"], &["1"], &["2", &"x".repeat(5000), "more"]],
        );
        let shown = screen(&mut view, 60, 6);
        assert_eq!(shown[0], "       na me");
        assert_eq!(shown[2], "    0  a b<U+202E>");
        assert!(shown[4].ends_with("xxx…"), "{shown:?}");
        assert!(view.cost() < 3000);
    }

    #[test]
    fn a_long_table_scrolls_and_says_where() {
        let numbers: Vec<String> = (0..200).map(|i| i.to_string()).collect();
        let rows: Vec<Vec<&str>> = numbers.iter().map(|n| vec![n.as_str()]).collect();
        let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
        let mut view = table(&[("", "int64")], &rows);
        view.total_rows = 12_345;
        view.layout(50, 10);
        view.scroll(10_000);
        assert_eq!(screen(&mut view, 50, 10)[9], "200 of 12,345 rows × 0 columns · rows 194–200 here");
        view.scroll(-3);
        assert_eq!(screen(&mut view, 50, 10)[2].trim(), "190");
    }

    proptest! {
        #[test]
        fn any_table_is_drawn_at_any_size(
            columns in proptest::collection::vec((any::<String>(), any::<String>()), 0..6),
            rows in proptest::collection::vec(proptest::collection::vec(any::<String>(), 0..7), 0..6),
            width in 0u16..40, height in 0u16..12, skip in 0usize..12, keys in proptest::collection::vec(0u8..6, 0..12),
        ) {
            let mut view = TableView::new(&Table { columns, rows, total_rows: u64::MAX, total_columns: 3 });
            for key in keys {
                match key {
                    0 => view.select(true),
                    1 => view.select(false),
                    2 => view.sort(),
                    3 => view.scroll(isize::MAX),
                    4 => view.select_end(true),
                    _ => view.scroll(isize::MIN),
                }
            }
            view.layout(width, height);
            let area = Rect::new(3, 2, width, height);
            let mut buf = Buffer::empty(area);
            view.draw(area, &mut buf, Theme::new(ThemeName::Light), skip, Look { whole: true, chosen: true, needle: Needle::new("a").as_ref() });
            view.draw(area, &mut buf, Theme::new(ThemeName::Light), skip, Look::default());
        }
    }
}
