use super::*;
use crate::tui::highlight::paint;
use crate::tui::theme::{Role, Theme, ThemeName};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use std::time::{Duration, Instant};

fn theme() -> Theme {
    Theme::new(ThemeName::Dark)
}

fn draw(view: &mut CodeView, width: u16, height: u16) -> Buffer {
    view.layout(width, height);
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    view.draw(buf.area, &mut buf, theme());
    buf
}

fn rows(buf: &Buffer) -> Vec<String> {
    let row = |y| (0..buf.area.width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..buf.area.height).map(row).collect()
}

fn shown(view: &mut CodeView, width: u16, height: u16) -> Vec<String> {
    rows(&draw(view, width, height))
}

#[test]
fn long_lines_go_on_in_the_next_row_with_a_sign() {
    let mut view = CodeView::new("x = 1\nprint('a rather long line')\ny\n");
    assert_eq!(shown(&mut view, 18, 6), ["1 x = 1", "2 print('a rather", "↳ long line')", "3 y", "", ""]);
    assert_eq!(view.hidden(), Hidden::default());
    assert_eq!(view.line_count(), 3);
}

#[test]
fn what_is_beyond_the_edges_is_counted() {
    let code = format!("a\u{202e}\n{}\nb\nc\nd\n", "x".repeat(30));
    let mut view = CodeView::new(&code);
    view.layout(18, 2);
    // The second row of the pane holds the first of two rows of the long line.
    assert_eq!(view.hidden(), Hidden { lines_below: 4, invisible_chars: 1, ..Hidden::default() });
    view.scroll_lines(2);
    view.layout(18, 2);
    assert_eq!(view.hidden(), Hidden { lines_above: 2, lines_below: 2, invisible_chars: 1, wide_lines: 0 });
    view.set_wrap(false);
    view.scroll_top();
    assert_eq!(shown(&mut view, 18, 3), ["1 a<U+202E>", "2 xxxxxxxxxxxxxxx›", "3 b"]);
    assert_eq!(view.hidden(), Hidden { lines_below: 2, wide_lines: 1, invisible_chars: 1, lines_above: 0 });
    view.scroll_columns(999);
    assert_eq!(shown(&mut view, 18, 2), ["1 ‹", "2 ‹xxxxxxxxxxxxxxx"]);
    view.scroll_bottom();
    assert_eq!(shown(&mut view, 18, 2)[1], "5 ‹");
    assert_eq!(view.hidden().lines_above, 3);
}

#[test]
fn invisible_characters_are_named_in_reverse_and_colours_keep_their_place() {
    let code = "s = '\u{202e}é' # no\n# a\rimport os\n";
    let mut view = CodeView::new(code);
    view.set_painted(Arc::new(paint(code)));
    let buf = draw(&mut view, 40, 4);
    assert_eq!(rows(&buf)[..3], ["1 s = '<U+202E>é' # no", "2 # a<U+000D>", "3 import os"]);
    assert!(buf[(7, 0)].modifier.contains(Modifier::REVERSED) && buf[(14, 0)].modifier.contains(Modifier::REVERSED));
    let colour = |x, y| buf[(x, y)].fg;
    let expected = |role: Role| theme().style(role).fg.unwrap();
    assert_eq!(
        (colour(6, 0), colour(15, 0), colour(16, 0)),
        (expected(Role::Str), expected(Role::Str), expected(Role::Str))
    );
    assert!(!buf[(15, 0)].modifier.contains(Modifier::REVERSED));
    assert_eq!(colour(19, 0), expected(Role::Comment));
}

#[test]
fn an_error_stands_under_its_line() {
    let mut view = CodeView::new("a\nb(\nc");
    view.set_error(Some((2, "'(' was never\x1b[2J closed".into())));
    let buf = draw(&mut view, 30, 5);
    assert_eq!(rows(&buf), ["1 a", "2 b(", "  ! '(' was never closed", "3 c", ""]);
    assert_eq!(buf[(0, 1)].fg, theme().style(Role::Bad).fg.unwrap());
    view.set_error(Some((u32::MAX, "elsewhere".into())));
    assert_eq!(shown(&mut view, 30, 3), ["1 a", "2 b(", "3 c"]);
    view.set_error(None);
    assert_eq!(shown(&mut view, 30, 3), ["1 a", "2 b(", "3 c"]);
}

#[test]
fn scrolling_stays_within_the_code() {
    let code: String = (0..100).map(|i| format!("line {i}\n")).collect();
    let mut view = CodeView::new(&code);
    view.layout(20, 10);
    view.scroll_lines(i64::MAX);
    assert_eq!(shown(&mut view, 20, 10)[9], "100 line 99");
    view.scroll_page(false);
    assert_eq!(shown(&mut view, 20, 10)[0], " 82 line 81");
    view.scroll_lines(i64::MIN);
    assert_eq!(shown(&mut view, 20, 10)[0], "  1 line 0");
    view.show_line(50);
    assert!(shown(&mut view, 20, 10).iter().any(|row| row == " 50 line 49"));
    let before = shown(&mut view, 20, 10);
    view.show_line(51);
    assert_eq!(shown(&mut view, 20, 10), before, "what is visible is not moved");
    view.show_line(u32::MAX);
    assert_eq!(shown(&mut view, 20, 10)[9], "100 line 99");
}

#[test]
fn streaming_code_is_followed_until_one_scrolls_up() {
    let mut view = CodeView::new("");
    view.set_follow(true);
    let mut code = String::new();
    for i in 0..50 {
        code.push_str(&format!("line {i}\n"));
        view.set_code(&code);
        view.layout(20, 5);
    }
    assert_eq!(shown(&mut view, 20, 5)[4], "50 line 49");
    view.scroll_lines(-1);
    code.push_str("more\n");
    view.set_code(&code);
    assert_eq!(shown(&mut view, 20, 5)[4], "49 line 48");
    assert_eq!(view.raw(), code);
}

#[test]
fn a_search_goes_round_and_into_view() {
    let code: String = (0..100).map(|i| format!("line {i} {}\n", if i % 30 == 0 { "Key" } else { "" })).collect();
    let mut view = CodeView::new(&code);
    view.layout(30, 5);
    view.set_search(Some("key"));
    for expected in ["line 0 Key", "line 30 Key", "line 60 Key", "line 90 Key", "line 0 Key"] {
        assert!(view.next_match(true));
        assert!(shown(&mut view, 30, 5).iter().any(|row| row.ends_with(expected)), "{expected}");
    }
    assert!(view.next_match(false));
    let buf = draw(&mut view, 30, 5);
    let row = rows(&buf).iter().position(|row| row.ends_with("line 90 Key")).unwrap() as u16;
    assert_eq!(buf[(12, row)].bg, theme().style(Role::Found).bg.unwrap());
    assert!(buf[(12, row)].modifier.contains(Modifier::UNDERLINED));
    view.set_search(Some("nowhere"));
    assert!(!view.next_match(true));
    view.set_search(None);
    assert!(!view.next_match(true));
}

#[test]
fn a_match_far_to_the_right_is_scrolled_to() {
    let mut view = CodeView::new(&format!("{}needle{}", "x ".repeat(5000), " y".repeat(5000)));
    view.set_wrap(false);
    view.layout(40, 3);
    view.set_search(Some("needle"));
    assert!(view.next_match(true));
    assert!(shown(&mut view, 40, 3)[0].contains("needle"));
    view.set_wrap(true);
    view.scroll_top();
    view.layout(40, 3);
    assert!(view.next_match(true));
    assert!(shown(&mut view, 40, 3).concat().contains("needle"));
}

#[test]
fn large_code_is_quick() {
    let codes = [
        "value = call('text', 12)\n".repeat(20_000),
        "x".repeat(1_000_000),
        format!("a{}", "\u{301}".repeat(200_000)),
        "\n".repeat(200_000),
        "日\u{202e}".repeat(100_000),
    ];
    for code in codes {
        for wrap in [true, false] {
            let mut view = CodeView::new(&code);
            view.set_wrap(wrap);
            let _ = draw(&mut view, 80, 40);
            let begun = Instant::now();
            for _ in 0..20 {
                view.scroll_bottom();
                let _ = draw(&mut view, 80, 40);
                view.scroll_top();
                view.scroll_columns(100);
                let _ = draw(&mut view, 80, 40);
                view.scroll_page(true);
                let _ = draw(&mut view, 80, 40);
            }
            // A key costs well under a millisecond in a release build; this is a debug build on a busy machine.
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        }
    }
}

#[test]
fn code_that_grows_costs_what_is_new() {
    let mut code = "x".repeat(500_000);
    let mut view = CodeView::new(&code);
    view.set_follow(true);
    view.layout(80, 40);
    let begun = Instant::now();
    for _ in 0..200 {
        code.push_str("word ");
        view.set_code(&code);
        let _ = draw(&mut view, 80, 40);
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

fn hostile() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(vec![
        "a",
        "word",
        "<U+202E>",
        "\u{202e}",
        "\u{301}",
        "日",
        "\t",
        "\u{1b}[2J",
        "é",
        "🇩🇪",
        "\u{600}",
        "\u{915}\u{94d}",
        "\u{1100}",
        "\n",
        "\r",
        "\r\n",
        "'",
        "# ",
        "(",
        "\u{9b}",
        "\u{2028}",
    ]);
    proptest::collection::vec(part, 0..80).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn all_of_any_code_is_shown_and_nothing_else_is_drawn(code in hostile(), width in 0u16..60) {
        let mut view = CodeView::new(&code);
        view.set_painted(Arc::new(paint(&code)));
        let width = width + 16;
        view.layout(width, 400);
        prop_assert_eq!(view.hidden().lines_below, 0);
        let mut buf = Buffer::empty(Rect::new(0, 0, width + 4, 402));
        view.draw(Rect::new(2, 1, width, 400), &mut buf, theme());
        let blank = |x, y| buf[(x, y)].symbol() == " ";
        prop_assert!((0..402).all(|y| blank(0, y) && blank(1, y) && blank(width + 2, y) && blank(width + 3, y)));
        let mut text = String::new();
        let gutter = view.gutter() as u16;
        for y in 1..401 {
            text.extend((2 + gutter..2 + width).map(|x| buf[(x, y)].symbol()));
        }
        let wanted: String = Clean::code(&code).as_str().split_whitespace().collect();
        let got: String = text.split_whitespace().collect();
        // A mark that has nothing under it is drawn by name as well.
        let bare = |text: &str| text.replace("<U+0301>", "").replace('\u{301}', "");
        prop_assert_eq!(bare(&got), bare(&wanted));
    }

    #[test]
    fn no_size_and_no_key_breaks_it(code in hostile(), keys in proptest::collection::vec((0u8..9, 0u16..30, 0u16..9), 0..20)) {
        let mut view = CodeView::new(&code);
        view.set_search(Some("a"));
        view.set_error(Some((2, code.clone())));
        for (key, width, height) in keys {
            match key {
                0 => view.scroll_lines(3),
                1 => view.scroll_lines(-2),
                2 => view.scroll_columns(5),
                3 => view.scroll_bottom(),
                4 => { view.next_match(true); }
                5 => { view.next_match(false); }
                6 => view.set_wrap(width % 2 == 0),
                7 => view.set_code(&format!("{}{code}", view.raw())),
                _ => view.set_code("x"),
            }
            view.layout(width, height);
            let mut buf = Buffer::empty(Rect::new(0, 0, 20, 5));
            view.draw(Rect::new(3, 1, 40, 40), &mut buf, theme());
        }
    }
}
