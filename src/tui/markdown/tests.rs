use super::*;
use crate::tui::theme::{Role, ThemeName};
use crate::tui::wrap::{joined, line_width};
use proptest::prelude::*;
use ratatui::style::Modifier;
use std::time::{Duration, Instant};

fn theme() -> Theme {
    Theme::new(ThemeName::Dark)
}

fn doc(text: &str) -> Doc {
    let mut doc = Doc::new();
    doc.push(text);
    doc
}

fn shown(text: &str, width: u16) -> Vec<String> {
    let mut doc = doc(text);
    doc.layout(width, theme()).iter().map(|line| joined(line).trim_end().to_owned()).collect()
}

#[test]
fn blocks_are_apart_and_lists_are_together() {
    assert_eq!(
        shown("# Title\ntext *with* **weight** and `code`\n\n- one\n- two\n  1. a\n  2. b\n\n7. seven\n8. eight\n", 40),
        [
            "Title",
            "",
            "text with weight and code",
            "",
            "• one",
            "• two",
            "  1. a",
            "  2. b",
            "",
            "7. seven",
            "8. eight"
        ]
    );
    assert_eq!(
        shown("> quoted text that is long\n>\n> - item\n", 14),
        ["│ quoted text", "│ that is long", "│", "│ • item"]
    );
    assert_eq!(shown("- one\n\n  more\n- [x] done\n-\n", 20), ["• one", "", "  more", "• [x] done", "•"]);
    assert_eq!(shown("a\n\n---\n\nb\nc  \nd", 8), ["a", "", "────────", "", "b", "c", "d"]);
    assert_eq!(shown("", 10), Vec::<String>::new());
}

#[test]
fn long_items_continue_under_their_text() {
    assert_eq!(shown("10. one two three four\n", 14), ["10. one two", "    three four"]);
}

#[test]
fn styles_tell_what_a_text_is() {
    let mut doc = doc("## Head\n\n*a* **b** ~~c~~ `d`\n");
    let lines = doc.layout(40, theme());
    let style = |line: usize, text: &str| lines[line].spans.iter().find(|s| s.content == text).unwrap().style;
    assert!(style(0, "Head").add_modifier.contains(Modifier::BOLD | Modifier::UNDERLINED));
    assert!(style(2, "a").add_modifier.contains(Modifier::ITALIC));
    assert!(style(2, "b").add_modifier.contains(Modifier::BOLD));
    assert!(style(2, "c").add_modifier.contains(Modifier::CROSSED_OUT));
    assert_eq!(style(2, "d"), theme().style(Role::Code));
}

#[test]
fn code_in_a_sentence_is_told_without_colours_too() {
    let mut doc = doc("use `x` here");
    assert_eq!(joined(&doc.layout(40, Theme::new(ThemeName::Mono))[0]), "use `x` here");
    assert_eq!(joined(&doc.layout(40, theme())[0]), "use x here");
}

#[test]
fn links_show_their_address() {
    assert_eq!(
        shown("[a *b*](http://x/y) <http://z> [http://q](http://q) <me@x.org>", 80),
        ["a b (http://x/y) http://z http://q me@x.org"]
    );
    assert_eq!(shown("![plot](a.png) [](b)", 80), ["image: plot (a.png)  (b)"]);
    assert_eq!(shown("see [x][1]\n\n[1]: http://hidden\n", 80), ["see [x][1]", "", "[1]: http://hidden"]);
    assert_eq!(shown("`[a]:` [b](c)]:\n\n    [x]:\n\n<p>[y]:", 80), ["[a]: b (c)]:", "", "  [x]:", "", "<p>[y]:"]);
}

#[test]
fn code_is_set_in_and_coloured_when_it_is_closed() {
    let text = "```python\nimport os\nx = 'é'\n```\n";
    assert_eq!(shown(text, 40), ["  import os", "  x = 'é'"]);
    let keyword = |text: &str| {
        let mut doc = doc(text);
        doc.layout(40, theme())[0]
            .spans
            .iter()
            .any(|s| s.content == "import" && s.style == theme().style(Role::Keyword))
    };
    assert!(keyword(text) && keyword("> ```py\n> import os\n> ```") && !keyword("```python\nimport os\nx = "));
    assert!(!keyword("```rust\nimport os\n```\n"));
    for long in ["x\n".repeat(200), "a.".repeat(200) + "\n", "value = 123456\n".repeat(199).repeat(3)] {
        assert!(!keyword(&format!("```python\nimport os\n{long}```\n")));
    }
    assert_eq!(shown("- a\n  ```\n  x  y\n  ```\n", 40), ["• a", "    x  y"]);
    assert_eq!(shown("```\na b c d e f g h\n```", 12), ["  a b c d e", "      f g h"]);
}

#[test]
fn html_is_text() {
    assert_eq!(
        shown("<div>\n<b>x</b>\n</div>\n\na <i>b</i><br>c", 40),
        ["<div>", "<b>x</b>", "</div>", "", "a <i>b</i>", "c"]
    );
}

const TABLE: &str =
    "| Region | Sales | Note |\n|---|---:|:-:|\n| North | 12 | good `x` |\n| South-West | 1234567 | a longer note |\n";

#[test]
fn tables_fit_the_width() {
    assert_eq!(
        shown(TABLE, 60),
        [
            "Region     │   Sales │     Note",
            "───────────┼─────────┼──────────────",
            "North      │      12 │    good x",
            "South-West │ 1234567 │ a longer note"
        ]
    );
    assert_eq!(
        shown(TABLE, 30),
        [
            "Region   │   Sales │   Note",
            "─────────┼─────────┼─────────",
            "North    │      12 │  good x",
            "South-We │ 1234567 │ a longer",
            "st       │         │   note"
        ]
    );
    assert_eq!(
        shown(TABLE, 24),
        [
            "Region: North",
            "Sales: 12",
            "Note: good x",
            "────────────────────────",
            "Region: South-West",
            "Sales: 1234567",
            "Note: a longer note"
        ]
    );
    assert_eq!(shown("a | b\n--|--\nx<br>y | \n", 40), ["a │ b", "──┼──", "x │", "y │"]);
}

#[test]
fn nothing_made_by_the_parser_acts_on_a_terminal() {
    let text = "&#27;[31mred &#x202E;x &#x9b; &#x301;&#x301;&#x301;&#x301;&#x301;&#x301; &#10;y `&#27;` <a&#27;>\n\n\
                [l](http://x&#27;]0;t) ![i](&#x202e;)\n\n| &#27; |\n|--|\n| &#x200b;z |\n\n<p>&#27;\n\n~~~py&#27;\n&#27;\n~~~\n";
    for line in shown(text, 80) {
        assert!(!line.contains(crate::core::clean::is_hidden), "{line:?}");
        assert!(!line.contains('\u{301}'), "{line:?}");
    }
    assert!(shown(text, 80).concat().contains("<U+202E>x"));
}

#[test]
fn the_raw_text_is_what_was_written() {
    assert_eq!(doc("# a\r\n*b*\x1b[2J\u{202e}").raw(), "# a\n*b*<U+202E>");
}

#[test]
fn a_change_of_width_or_theme_makes_the_lines_anew() {
    let mut doc = doc("one two three");
    assert_eq!(doc.layout(7, theme()).len(), 2);
    assert_eq!(doc.layout(20, theme()).len(), 1);
    assert_eq!(doc.layout(20, Theme::new(ThemeName::Mono)).len(), 1);
    doc.set("other");
    assert_eq!(joined(&doc.layout(20, theme())[0]), "other");
    assert_eq!(doc.lines().len(), 1);
}

/// Feeds `text` in pieces of `len` bytes and lays out after each; returns the longest time of one.
fn stream(text: &str, len: usize, width: u16) -> (Doc, Duration, Duration) {
    let mut doc = Doc::new();
    let (mut all, mut worst) = (Duration::ZERO, Duration::ZERO);
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.ceil_char_boundary(len.min(rest.len())));
        rest = more;
        let begun = Instant::now();
        doc.push(piece);
        doc.layout(width, theme());
        all += begun.elapsed();
        worst = worst.max(begun.elapsed());
    }
    (doc, all, worst)
}

#[test]
fn a_megabyte_costs_the_same_a_piece_at_its_end_as_at_its_start() {
    let text = "A paragraph with *some* words, `code` and a [link](http://x).\n\n- one\n- two\n\n".repeat(12_000);
    let (mut doc, all, _) = stream(&text, 500, 80);
    assert!(all < Duration::from_secs(100), "{all:?}");
    let begun = Instant::now();
    for _ in 0..200 {
        doc.push("more ");
        doc.layout(80, theme());
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn overlong_blocks_are_shown_as_written_and_cost_what_is_new() {
    let texts = [
        "word ".repeat(200_000),
        format!("```\n{}", "some line of code\n".repeat(40_000)),
        "\t- item\n".repeat(60_000),
        format!("{}\n\n# Head\n\n*after*\n", "long\nlines\n".repeat(40_000)),
    ];
    for text in texts {
        let (mut doc, all, _) = stream(&text, 20_000, 80);
        assert!(all < Duration::from_secs(100), "{all:?}");
        let mut whole = Doc::new();
        whole.set(&text);
        assert!(whole.layout(80, theme()) == doc.layout(80, theme()), "{}", &text[..20]);
    }
}

#[test]
fn a_wide_table_of_many_rows_is_laid_out() {
    let row = |cell: &str| format!("|{}\n", format!("{cell}|").repeat(40));
    let text = row("name") + &row("---") + &row("value 1").repeat(500);
    let (doc, _, worst) = stream(&text, 40_000, 120);
    assert!(worst < Duration::from_secs(30), "{worst:?}");
    assert_eq!(doc.lines().len(), 500 * 40 + 499);
    assert!(doc.lines().iter().all(|line| line_width(line) <= 120));
}

#[test]
fn text_made_to_be_slow_is_not() {
    let texts = [
        "[".repeat(100_000),
        "![".repeat(50_000),
        "*a_ ".repeat(30_000),
        "**".repeat(60_000),
        ">".repeat(100_000),
        "- ".repeat(50_000),
        "`` ` ".repeat(30_000),
        "<a ".repeat(40_000),
        "&#27;".repeat(30_000),
        "[a](".repeat(30_000),
        "\n".repeat(500_000),
        "~~a".repeat(40_000),
        format!("{}\n{}\n{}", "|a".repeat(5000), "|-".repeat(5000), "|\n".repeat(5000)),
        "e\u{301}".repeat(50_000),
        "x\u{301}".to_owned() + &"\u{301}".repeat(200_000),
    ];
    for text in texts {
        let begun = Instant::now();
        let mut doc = doc(&text);
        doc.layout(80, theme());
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}: {:?}", &text[..12], begun.elapsed());
    }
}

fn markdown() -> impl Strategy<Value = Vec<&'static str>> {
    let part = proptest::sample::select(vec![
        "a",
        "word ",
        "\n",
        "\n\n",
        "- ",
        "1. ",
        "2) ",
        "> ",
        "# ",
        "#",
        "```",
        "```python\n",
        "~~~\n",
        "    ",
        "\t",
        "*",
        "**",
        "_",
        "`",
        "| ",
        "|",
        "|--|\n",
        "---",
        "===",
        "[",
        "](",
        ")",
        "[x]: /y\n",
        "[x]",
        "<br>",
        "<div>",
        "</div>\n",
        "<!-- ",
        "-->",
        "&#27;",
        "\\",
        "日本",
        "e\u{301}",
        "\u{301}",
        "\u{202e}",
        "\x1b",
        "[31m",
        "\x1b]0;",
        "\x07",
        "\r",
        "\r\n",
        "~~",
        "![",
        "http://x ",
        "<http://x>",
        "* ",
        "+ ",
        "a | b\n",
        "import x\n",
        ": ",
        "  ",
        "=\n",
        "-\n",
        "[^1]: ",
    ]);
    proptest::collection::vec(part, 0..50)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_pieces_give_the_lines_of_the_whole(parts in markdown(), cuts in proptest::collection::vec(0usize..200, 0..12), width in 2u16..60) {
        let text = parts.concat();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut.min(text.len()))).collect();
        cuts.sort_unstable();
        cuts.push(text.len());
        let mut pieces = Doc::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&text[from..cut]);
            pieces.layout(width, theme());
            from = cut;
        }
        let mut whole = doc(&text);
        whole.layout(width, theme());
        prop_assert_eq!(pieces.lines(), whole.lines());
        prop_assert_eq!(pieces.raw(), whole.raw());
    }

    #[test]
    fn nothing_stands_between_blocks(parts in markdown()) {
        let text = doc(&parts.concat()).raw().to_owned();
        let mut at = 0;
        for block in blocks(&text, 0, text.len()) {
            prop_assert!(text[at..block.range.start].trim().is_empty(), "{:?}", &text[at..block.range.start]);
            at = block.range.end;
        }
        prop_assert!(text[at..].trim().is_empty(), "{:?}", &text[at..]);
    }

    #[test]
    fn no_line_is_wider_and_none_acts_on_a_terminal(parts in markdown(), width in 0u16..60) {
        let text = parts.concat();
        let mut doc = doc(&text);
        for line in doc.layout(width, theme()) {
            prop_assert!(line_width(line) <= usize::from(width).max(MIN_WIDTH), "{:?}", line);
            prop_assert!(!joined(line).contains(crate::core::clean::is_hidden), "{:?}", line);
        }
    }
}
