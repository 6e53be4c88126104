use std::time::Instant;

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use tokio::sync::mpsc;

use super::figure::{FigureReady, Figures, tests as pictures};
use super::*;
use crate::core::event::{Artifact, Failure, Outcome, Table};
use crate::tui::Graphics;
use crate::tui::theme::{Role, Theme, ThemeName};

use StreamName::{Stderr, Stdout};

struct Screen {
    output: RunOutput,
    figures: Figures,
    results: mpsc::Receiver<FigureReady>,
    theme: Theme,
    size: (u16, u16),
}

impl Screen {
    fn new(size: (u16, u16)) -> Self {
        let (figures, results) = Figures::start(Graphics::Blocks, &|_| None, None);
        Self { output: RunOutput::new(), figures, results, theme: Theme::new(ThemeName::Dark), size }
    }

    fn buffer(&mut self) -> ratatui::buffer::Buffer {
        let (width, height) = self.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        self.output.layout(width, height, self.theme, &mut self.figures);
        terminal.draw(|frame| self.output.draw(frame.area(), frame.buffer_mut(), self.theme, &self.figures)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn rows(&mut self) -> Vec<String> {
        let buf = self.buffer();
        let row = |y| (0..buf.area.width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..buf.area.height).map(row).collect()
    }

    fn text(&mut self) -> String {
        self.rows().join("\n")
    }

    /// Draws until the figure in sight is there.
    fn with_figure(&mut self, bytes: std::sync::Arc<[u8]>) {
        self.rows();
        let hash = self.figures.needs().unwrap();
        self.figures.bytes(&hash, bytes);
        self.rows();
        let ready = self.results.blocking_recv().unwrap();
        self.figures.ready(ready);
    }
}

fn finished(outcome: Outcome) -> RunFinished {
    RunFinished {
        step: 1,
        attempt: 1,
        exit_code: outcome.exit_code(),
        outcome,
        took_ms: 312,
        peak_bytes: Some(84 * 1024 * 1024),
        variables_lost: false,
        artifacts: Vec::new(),
        notes: Vec::new(),
        stdout_blob: None,
        stderr_blob: None,
    }
}

fn sales(rows: usize) -> ResultBundle {
    let columns = [("", "int64"), ("Region", "object"), ("Units", "int64"), ("Growth", "float64")];
    let regions = ["North", "South", "East", "West"];
    let row = |i: usize| {
        vec![i.to_string(), regions[i % 4].into(), (i * 37 % 1000).to_string(), format!("{:.2}", i as f64 / 7.0)]
    };
    let table = Table {
        columns: columns.map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec(),
        rows: (0..rows.min(200)).map(row).collect(),
        total_rows: rows as u64,
        total_columns: 3,
    };
    ResultBundle { last: true, text: "the text form".into(), table: Some(table), png: None }
}

fn figure() -> ResultBundle {
    ResultBundle { last: false, text: "<Figure>".into(), table: None, png: Some(pictures::HASH.to_owned()) }
}

fn value(text: &str) -> ResultBundle {
    ResultBundle { text: text.into(), ..ResultBundle::default() }
}

#[test]
fn streams_values_and_notes_are_told_apart() {
    let mut s = Screen::new((60, 15));
    let out = &mut s.output;
    out.begin(1000, 10);
    out.text(Stdout, "reading sales.csv … \u{1b}[32mdone\u{1b}[0m\n", 0);
    out.text(Stderr, "/tmp/cell.py:3: FutureWarning: a long warning that is wrapped where the pane ends\n", 0);
    out.text(Stdout, "progress: 10%\rprogress: 100%\n日本語 and e\u{301}\ta tab\n", 0);
    out.text(Stdout, "after a gap\n", 70_000);
    out.text(Stderr, "KeyError: 'Region'\n", 0);
    out.result(&value("42"));
    let mut end = finished(Outcome::TimeLimit);
    end.artifacts = vec![Artifact { name: "plot.png".into(), bytes: 2048 }];
    end.notes = vec!["stopped: the time limit of 10 s was reached".into()];
    end.variables_lost = true;
    out.finish(&end);
    insta::assert_snapshot!(s.text());
    let buf = s.buffer();
    assert_eq!(buf[(22, 0)].fg, Color::Green);
    assert_eq!((buf[(0, 1)].fg, buf[(5, 1)].fg), (Color::LightRed, Color::LightRed));
    s.theme = Theme::new(ThemeName::Mono);
    assert!(s.buffer().content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
}

#[test]
fn a_table_stands_among_the_text_and_takes_the_pane_when_zoomed() {
    let mut s = Screen::new((60, 15));
    s.output.text(Stdout, "before\n", 0);
    s.output.result(&sales(12_345));
    s.output.text(Stdout, "after\n", 0);
    insta::assert_snapshot!("table_inline", s.text());
    s.output.sideways(true);
    assert!(s.output.sort() && s.output.sort());
    assert!(s.output.toggle_zoom());
    s.output.page(true);
    insta::assert_snapshot!("table_zoomed", s.text());
    assert!(s.output.logical_text().starts_with("\tRegion\tUnits\tGrowth\n"));
    s.output.toggle_zoom();
    assert!(!s.output.is_zoomed());
    assert_eq!(s.rows()[14], "  after");
}

#[test]
fn a_figure_is_named_until_it_is_there() {
    let mut s = Screen::new((60, 15));
    s.output.text(Stdout, "a figure:\n", 0);
    s.output.result(&figure());
    s.output.text(Stdout, "that was it\n", 0);
    assert_eq!(s.rows()[..3], ["  a figure:", "  figure · loading", "  that was it"]);
    s.with_figure(pictures::png(160, 200));
    insta::assert_snapshot!("figure_inline", s.text());
    assert_eq!(s.buffer()[(2, 1)].bg, Color::Rgb(0, 0, 255));
    assert_eq!(s.output.figure(), Some(pictures::HASH));
    assert!(s.output.toggle_zoom());
    s.rows();
    let ready = s.results.blocking_recv().unwrap();
    s.figures.ready(ready);
    let buf = s.buffer();
    assert_eq!(buf[(0, 0)].bg, Color::Rgb(0, 0, 255));
    assert_eq!(buf[(23, 7)].bg, Color::Rgb(255, 0, 0));
}

#[test]
fn the_dropped_middle_is_a_row() {
    let mut s = Screen::new((60, 15));
    for i in 0..300_000 {
        s.output.text(Stdout, &format!("row {i}\n"), 0);
    }
    s.rows();
    s.output.ends(false);
    s.rows();
    let first = Needle::new("O opens").unwrap();
    s.output.needle = Some(first);
    assert!(s.output.next_match(true));
    s.output.set_search(None);
    insta::assert_snapshot!(s.text());
    s.output.ends(true);
    assert_eq!(s.rows()[14], "  row 299999");
    assert!(s.output.buffer.cost() < 3 * 1024 * 1024);
}

#[test]
fn the_reading_position_is_held_while_more_comes() {
    let mut s = Screen::new((30, 6));
    for i in 0..100 {
        s.output.text(Stdout, &format!("row {i}\n"), 0);
    }
    assert_eq!(s.rows()[5], "  row 99");
    s.output.scroll_by(-20);
    assert_eq!(s.rows()[0], "  row 74");
    s.output.text(Stdout, "new\nnew\n", 0);
    assert_eq!((&s.rows()[0][..], s.output.new_below()), ("  row 74", 2));
    s.output.result(&sales(3));
    assert_eq!((&s.rows()[0][..], s.output.new_below()), ("  row 74", 8));
    s.output.ends(true);
    s.output.text(Stderr, "last\n", 0);
    assert_eq!((&s.rows()[5][..], s.output.new_below(), s.output.follows()), ("! last", 0, true));
}

#[test]
fn the_reading_position_is_held_while_the_middle_is_dropped_and_the_width_changes() {
    let mut s = Screen::new((40, 6));
    let print = |s: &mut Screen, from: usize, to: usize| {
        for i in from..to {
            s.output.text(Stdout, &format!("row {i} which is long enough to be wrapped somewhere\n"), 0);
        }
    };
    print(&mut s, 0, 13_000);
    s.rows();
    s.output.scroll_by(-3000);
    let top = s.rows()[0].clone();
    print(&mut s, 13_000, 15_000);
    assert_eq!(s.rows()[0], top);
    for width in [17, 90, 40] {
        s.size.0 = width;
        let words: Vec<String> = s.rows()[0].split_whitespace().map(str::to_owned).collect();
        assert!(words.iter().any(|word| top.contains(word.as_str())), "{words:?} of {top}");
    }
    assert_eq!(s.rows()[0], top);
    assert!(s.output.new_below() >= 3000);
    print(&mut s, 15_000, 60_000);
    assert!(s.rows()[0].contains("not shown here"), "its text is gone");
}

#[test]
fn a_figure_that_grows_above_does_not_move_the_text() {
    let mut s = Screen::new((60, 10));
    s.output.result(&figure());
    for i in 0..30 {
        s.output.text(Stdout, &format!("row {i}\n"), 0);
    }
    s.rows();
    s.output.ends(false);
    s.with_figure(pictures::png(160, 200));
    s.output.ends(true);
    s.output.scroll_by(-5);
    let top = s.rows()[0].clone();
    s.figures.failed(pictures::HASH, "is gone");
    assert_eq!(s.rows()[0], top);
}

#[test]
fn lines_that_are_not_wrapped_are_moved_through() {
    let mut s = Screen::new((14, 3));
    s.output.text(Stdout, "0123456789abcdefghij\nshort\n", 0);
    assert_eq!(s.rows(), ["  0123456789ab", "  cdefghij", "  short"]);
    s.output.toggle_wrap();
    assert_eq!(s.rows(), ["  0123456789ab", "  short", ""]);
    s.output.sideways(true);
    assert_eq!(s.rows(), ["  89abcdefghij", "", ""]);
    assert!(!s.output.wraps());
}

#[test]
fn matches_are_marked_and_walked_through() {
    let mut s = Screen::new((40, 4));
    for i in 0..200 {
        s.output.text(Stdout, &format!("row {i} \u{1b}[31mdata\u{1b}[0m data\n"), 0);
    }
    s.output.result(&sales(4));
    s.rows();
    s.output.ends(false);
    s.output.set_search(Some("ROW 19"));
    assert!(!s.output.next_match(true), "large letters are exact");
    s.output.set_search(Some("row 19"));
    assert!(s.output.next_match(true));
    assert!(s.rows().iter().any(|row| row.starts_with("  row 19 ")));
    assert!(s.output.next_match(true));
    assert!(s.rows().iter().any(|row| row.starts_with("  row 190 ")));
    assert!(s.output.next_match(false));
    let buf = s.buffer();
    let y = (0..4).find(|y| buf[(7, *y)].symbol() == "9" && buf[(8, *y)].symbol() == " ").unwrap();
    let found = s.theme.style(Role::Found);
    assert_eq!((Some(buf[(2, y)].fg), Some(buf[(2, y)].bg)), (found.fg, found.bg));
    assert_ne!(Some(buf[(9, y)].bg), found.bg);
    assert!(s.output.next_match(false), "over the start to the end");
    assert!(s.rows().iter().any(|row| row.starts_with("  row 199 ")));
    s.output.set_search(Some("north"));
    assert!(s.output.next_match(true));
    assert!(s.output.table().is_some());
    s.output.set_search(None);
    assert!(!s.output.next_match(true));
}

#[test]
fn what_is_copied_has_no_wraps_signs_or_colours() {
    let mut s = Screen::new((10, 4));
    s.output.text(Stdout, "a line that is wrapped \u{1b}[31mred\u{1b}[0m\n", 0);
    s.output.text(Stderr, "bad\u{202e}\n", 0);
    s.output.text(Stdout, "x\n", 2048);
    s.output.result(&sales(1));
    s.output.result(&figure());
    s.rows();
    assert_eq!(
        s.output.logical_text(),
        "a line that is wrapped red\nbad<U+202E>\n… 2 KiB left out …\nx\n\tRegion\tUnits\tGrowth\n0\tNorth\t0\t0.00\n[figure]\n"
    );
}

#[test]
fn the_title_says_how_it_ended() {
    let words = |out: &RunOutput| out.title(4100).into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(" · ");
    let mut out = RunOutput::new();
    assert_eq!(words(&out), "");
    out.begin(1000, 10);
    assert_eq!(words(&out), "running 3.1 of 10 s");
    let mut ends = |outcome| {
        out.finish(&finished(outcome));
        words(&out)
    };
    assert_eq!(ends(Outcome::Exited { code: 0 }), "exit 0 · 0.31 s · 84 MiB");
    assert_eq!(ends(Outcome::Exited { code: 124 }), "exit 124 · 0.31 s · 84 MiB");
    assert_eq!(ends(Outcome::TimeLimit), "exit 124 · time limit 10 s · 0.31 s · 84 MiB");
    assert_eq!(ends(Outcome::MemoryLimit), "exit 137 · memory limit · 0.31 s · 84 MiB");
    assert_eq!(ends(Outcome::Cancelled), "exit 130 · interrupted · 0.31 s · 84 MiB");
    assert_eq!(ends(Outcome::Signaled { signal: 11 }), "exit 139 · signal 11 · 0.31 s · 84 MiB");
    let failure = Failure::new("no python", "not\u{1b}[2J there", "install it");
    assert_eq!(ends(Outcome::SetupFailed { failure, missing: true }), "exit 127 · could not start · 0.31 s · 84 MiB");
    assert!(out.logical_text().ends_with("no python: not there\nhint: install it\n"));
}

#[test]
fn tables_and_figures_are_bounded() {
    let mut s = Screen::new((60, 15));
    let mut large = sales(200);
    for row in &mut large.table.as_mut().unwrap().rows {
        row.push("x".repeat(800));
    }
    for _ in 0..120 {
        s.output.result(&large);
    }
    s.output.finish(&finished(Outcome::Exited { code: 0 }));
    assert!(s.text().ends_with("· 20 more tables and figures"));
    let kept = |out: &RunOutput| out.items.iter().filter(|item| matches!(item, Item::Table(_))).count();
    assert!((2..30).contains(&kept(&s.output)), "{}", kept(&s.output));
    s.output.ends(false);
    assert_eq!(s.rows()[0], "  table 200 rows × 3 columns, no longer kept here");
    s.output.compact();
    assert_eq!(kept(&s.output), 1);
    assert!(s.output.next_item(true));
}

#[test]
fn a_frame_costs_what_is_in_sight() {
    let mut s = Screen::new((120, 40));
    s.output.text(Stdout, &"\u{1b}[31mcafé and other words\u{1b}[0m that fill a line\n".repeat(200_000), 0);
    let time = |s: &mut Screen| {
        let begun = Instant::now();
        s.output.layout(s.size.0, s.size.1, s.theme, &mut s.figures);
        begun.elapsed()
    };
    let first = time(&mut s);
    let begun = Instant::now();
    for _ in 0..20 {
        s.output.text(Stdout, "one more\n", 0);
        time(&mut s);
    }
    let each = begun.elapsed() / 20;
    println!("all of it {first:?}, a frame {each:?}");
    assert!(each < first, "{each:?} against {first:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_printed_leaves_its_pane(
        texts in proptest::collection::vec((any::<bool>(), any::<String>(), 0u8..10), 0..12),
        width in 0u16..50, height in 0u16..12,
    ) {
        let mut s = Screen::new((60, 14));
        for (stderr, text, what) in texts {
            match what {
                0 => s.output.result(&sales(3)),
                1 => s.output.result(&value(&text)),
                2 => s.output.result(&ResultBundle { png: Some(text), ..ResultBundle::default() }),
                3 => s.output.toggle_wrap(),
                4 => s.output.scroll_by(-3),
                _ => s.output.text(if stderr { Stderr } else { Stdout }, &text, u64::from(what == 5)),
            }
            s.output.set_search(Some("a"));
            s.output.next_match(what % 2 == 0);
            s.output.layout(width, height, s.theme, &mut s.figures);
            let mut buf = ratatui::buffer::Buffer::empty(ratatui::layout::Rect::new(0, 0, 60, 14));
            let area = ratatui::layout::Rect::new(5, 1, width, height);
            s.output.draw(area, &mut buf, s.theme, &s.figures);
            for y in 0..14 {
                for x in 0..60 {
                    let symbol = buf[(x, y)].symbol();
                    prop_assert!(!symbol.chars().any(char::is_control), "{symbol:?}");
                    if !area.contains((x, y).into()) {
                        prop_assert_eq!(symbol, " ");
                    }
                }
            }
        }
    }
}
