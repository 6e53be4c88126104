use std::time::Duration;

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::*;
use crate::tui::edit::testing::{any_keys, key, keys, mark_cursor, row_of, with_cursor};
use crate::tui::theme::{Theme, ThemeName};

/// A composer and a clock: typing is slow unless told otherwise.
struct Typist {
    composer: Composer,
    now: Instant,
}

impl Typist {
    fn new(history: &[&str]) -> Self {
        let mut composer = Composer::new(history.iter().map(|s| (*s).to_owned()).collect());
        composer.set_candidates(
            &[("help", "what can be done"), ("model", "another model"), ("mode", "text or tools"), ("quit", "leave")],
            &["data/sales 2024.csv".into(), "data/sales.csv".into(), "notes.md".into(), "b\u{202e}x.csv".into()],
        );
        composer.layout(40, 8);
        Self { composer, now: Instant::now() }
    }

    /// One key, and what came of it once nothing more followed.
    fn press(&mut self, name: &str) -> Outcome {
        self.one(key(name))
    }

    fn one(&mut self, key: KeyEvent) -> Outcome {
        self.now += Duration::from_millis(100);
        let outcome = self.composer.key(key, self.now);
        match self.composer.deadline() {
            Some(due) => self.composer.tick(due),
            None => outcome,
        }
    }

    /// Keys as a person types them.
    fn type_str(&mut self, line: &str) -> Outcome {
        keys(line).into_iter().fold(Outcome::Ignored, |_, key| self.one(key))
    }

    /// Characters as a terminal sends a paste it does not announce.
    fn flood(&mut self, text: &str) -> Vec<String> {
        let mut sent = Vec::new();
        self.now += Duration::from_millis(100);
        for c in text.chars() {
            let name = match c {
                '\n' => KeyEvent::from(KeyCode::Enter),
                '\t' => KeyEvent::from(KeyCode::Tab),
                c => KeyEvent::from(KeyCode::Char(c)),
            };
            self.now += Duration::from_micros(200);
            if let Outcome::Send(text) = self.composer.key(name, self.now) {
                sent.push(text);
            }
        }
        if let Some(due) = self.composer.deadline()
            && let Outcome::Send(text) = self.composer.tick(due)
        {
            sent.push(text);
        }
        sent
    }

    fn marked(&self) -> String {
        mark_cursor(&self.composer.buffer.text().to_string(), self.composer.buffer.cursor())
    }

    fn screen(&mut self, width: u16) -> Vec<String> {
        let height = self.composer.height(width);
        self.composer.layout(width, height);
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        self.composer.draw(area, &mut buf, Theme::new(ThemeName::Dark));
        (0..height).map(|y| row_of(&buf, y)).collect()
    }

    fn cursor(&self, width: u16) -> Option<(u16, u16)> {
        self.composer.cursor(Rect::new(0, 0, width, 8)).map(|p| (p.x, p.y))
    }

    fn labels(&self) -> Vec<String> {
        self.composer.popup().map_or(vec![], |p| p.items.iter().map(|i| i.label.to_string()).collect())
    }
}

fn sent(text: &str) -> Outcome {
    Outcome::Send(text.to_owned())
}

// ---- sending ---------------------------------------------------------------------------------------------------------

#[test]
fn enter_sends_and_empties_the_draft() {
    let mut t = Typist::new(&[]);
    assert_eq!(t.type_str("hi Space you Enter"), sent("hi you"));
    assert!(t.composer.is_empty());
    assert_eq!(t.press("Enter"), Outcome::Ignored, "nothing is not sent");
    assert_eq!(t.type_str("Space Enter"), Outcome::Ignored);
}

#[test]
fn enter_sends_within_15_milliseconds() {
    let mut t = Typist::new(&[]);
    t.type_str("hi");
    let now = t.now + Duration::from_millis(60);
    assert_eq!(t.composer.key(key("Enter"), now), Outcome::Used);
    let due = t.composer.deadline().unwrap();
    assert!(due <= now + Duration::from_millis(15));
    assert_eq!(t.composer.tick(now + Duration::from_millis(3)), Outcome::Ignored, "not yet");
    assert_eq!(t.composer.tick(due), sent("hi"));
    assert_eq!(t.composer.deadline(), None);
}

#[test]
fn a_line_end_has_keys_of_its_own() {
    for line in ["a S-Enter b", "a A-Enter b", "a C-j b", "a\\ Enter b"] {
        let mut t = Typist::new(&[]);
        t.type_str(line);
        assert_eq!(t.composer.text(), "a\nb", "{line}");
        assert_eq!(t.press("Enter"), sent("a\nb"));
    }
}

#[test]
fn keys_of_the_app_are_ignored() {
    let mut t = Typist::new(&[]);
    for name in ["C-c", "C-d", "C-g", "Esc", "Tab", "S-Tab", "PgUp", "PgDn", "C-z"] {
        assert_eq!(t.press(name), Outcome::Ignored, "{name}");
    }
}

#[test]
fn a_key_after_the_time_of_enter_belongs_to_the_next_draft() {
    let mut t = Typist::new(&[]);
    t.type_str("hi");
    t.composer.key(key("Enter"), t.now + Duration::from_millis(60));
    assert_eq!(t.composer.key(key("x"), t.now + Duration::from_millis(90)), sent("hi"));
    assert_eq!(t.composer.text(), "x");
}

#[test]
fn hot_keys_do_not_lose_what_is_typed_with_enter_in_the_middle() {
    let mut t = Typist::new(&[]);
    for gap in [1, 7, 9, 12, 30, 200] {
        let mut all = String::new();
        for k in keys("yes Space please Enter now") {
            t.now += Duration::from_millis(gap);
            if let Outcome::Send(text) = t.composer.key(k, t.now) {
                all = text;
            }
        }
        all.push_str(&t.composer.text());
        assert_eq!(all.replace('\n', ""), "yes pleasenow", "keys {gap} ms apart");
        t.composer.clear();
    }
}

// ---- pastes ----------------------------------------------------------------------------------------------------------

#[test]
fn twenty_lines_of_plain_keys_are_one_draft() {
    for line in ["", "a", "ab", "abc", "SELECT * FROM t WHERE x = 1", "/help", "x \\", "abc\tx", "@no"] {
        let mut t = Typist::new(&[]);
        let text = format!("{line}\n").repeat(20) + "end";
        assert_eq!(t.flood(&text), Vec::<String>::new(), "{line:?}");
        let want = if line.is_empty() { text.trim_start() } else { &text };
        assert_eq!(t.composer.text().trim_start_matches('\n'), want, "{line:?}");
    }
}

#[test]
fn a_line_end_at_the_end_of_such_a_paste_does_not_send() {
    let mut t = Typist::new(&[]);
    assert!(t.flood("first\nsecond\n").is_empty());
    assert_eq!(t.composer.text(), "first\nsecond\n");
    assert_eq!(t.press("Enter"), sent("first\nsecond"));
}

#[test]
fn two_keys_at_once_and_enter_still_send() {
    let mut t = Typist::new(&[]);
    assert_eq!(t.flood("ok\n"), ["ok"]);
}

#[test]
fn an_announced_paste_is_one_block_and_one_step() {
    let mut t = Typist::new(&[]);
    t.type_str("see");
    t.composer.paste("a\r\nb\rc\n");
    assert_eq!(t.composer.text(), "seea\nb\nc\n");
    t.press("A-u");
    assert_eq!(t.composer.text(), "see");
}

#[test]
fn a_large_paste_is_shown_as_a_mark_and_sent_in_full() {
    let mut t = Typist::new(&[]);
    let block = "line\n".repeat(200);
    t.type_str("see Space");
    t.composer.paste(&block);
    t.type_str("Space now");
    assert_eq!(t.screen(40), ["> see [pasted 200 lines] now"]);
    assert_eq!(t.cursor(40), Some((28, 0)));
    assert_eq!(t.composer.text(), format!("see {block} now"));
    t.type_str("Left Left Left Left Left");
    t.screen(40);
    assert_eq!(t.cursor(40), Some((6, 0)), "the mark is passed as one letter");
    t.type_str("Right Back");
    assert_eq!(t.composer.text(), "see  now");
    t.press("A-u");
    assert_eq!(t.press("Enter"), sent(&format!("see {block} now")));
    assert_eq!(t.composer.text(), "");
}

#[test]
fn a_mark_that_was_cut_can_be_pasted_after_sending() {
    let mut t = Typist::new(&[]);
    let block = "line\n".repeat(20);
    t.composer.paste(&block);
    t.type_str("C-u x Enter C-v");
    assert_eq!(t.composer.text(), block);
}

#[test]
fn marks_cannot_be_forged() {
    let mut t = Typist::new(&["old \u{100000}"]);
    t.composer.paste(&"line\n".repeat(20));
    t.composer.paste("\u{100000}");
    t.type_str("\u{100000}");
    assert_eq!(t.composer.text(), "line\n".repeat(20) + "\u{fffd}\u{fffd}");
    t.press("Up");
    t.type_str("Up");
    assert_eq!(t.composer.text(), "old \u{fffd}");
}

// ---- history ---------------------------------------------------------------------------------------------------------

#[test]
fn up_and_down_go_through_history_and_keep_the_draft() {
    let mut t = Typist::new(&["one", "two\nlines", "three"]);
    t.type_str("draft Up");
    assert_eq!(t.marked(), "three|");
    t.press("Up");
    assert_eq!(t.marked(), "two\nlines|");
    t.press("Up");
    assert_eq!(t.marked(), "one|", "through entries of several lines as well");
    t.press("Up");
    assert_eq!(t.marked(), "one|");
    t.type_str("x Down Down Down");
    assert_eq!(t.marked(), "draft|");
    t.type_str("Down Up Up Up");
    assert_eq!(t.marked(), "onex|", "a changed entry is kept until something is sent");
    assert_eq!(t.press("Enter"), sent("onex"));
    t.press("Up");
    assert_eq!(t.marked(), "onex|");
    t.type_str("Up Up Up");
    assert_eq!(t.marked(), "one|");
}

#[test]
fn up_and_down_move_within_a_draft_first() {
    let mut t = Typist::new(&["old"]);
    t.type_str("abc C-j de Up");
    assert_eq!(t.marked(), "ab|c\nde");
    t.type_str("Down x Up Up");
    assert_eq!(t.marked(), "old|");
    t.press("Down");
    assert_eq!(t.marked(), "abc\ndex|");
}

#[test]
fn up_and_down_move_by_rows_of_the_screen() {
    let mut t = Typist::new(&["old"]);
    t.composer.layout(9, 8);
    t.type_str("aaaa Space bbbb Space cccc Up");
    assert_eq!(t.marked(), "aaaa bbbb| cccc");
    t.type_str("Up Down Down");
    assert_eq!(t.marked(), "aaaa bbbb cccc|");
    t.type_str("Home Right Right Up Up");
    assert_eq!(t.marked(), "old|");
    t.type_str("Down C-Home Right Down Down");
    assert_eq!(t.marked(), "aaaa bbbb c|ccc");
}

#[test]
fn sent_prompts_are_remembered_once() {
    let mut t = Typist::new(&["a", "b"]);
    t.type_str("a Enter");
    t.press("Up");
    assert_eq!(t.marked(), "a|");
    t.press("Up");
    assert_eq!(t.marked(), "b|");
    t.press("Up");
    assert_eq!(t.marked(), "b|");
}

#[test]
fn history_is_searched_while_words_are_typed() {
    let mut t = Typist::new(&["mean of sales", "plot sales", "Mean by region"]);
    t.type_str("draft C-r mean");
    assert_eq!(t.screen(40), ["search: mean", "  Mean by region"]);
    assert_eq!(t.cursor(40), Some((12, 0)));
    t.press("C-r");
    assert_eq!(t.screen(40), ["search: mean", "  mean of sales"]);
    t.press("C-r");
    assert_eq!(t.screen(40)[1], "  mean of sales", "there is no more");
    assert_eq!(t.press("Enter"), Outcome::Used, "taken, not sent");
    assert_eq!(t.marked(), "mean of sales|");
    t.type_str("Down Down Down");
    assert_eq!(t.marked(), "draft|", "the draft is kept");
}

#[test]
fn a_search_is_left_without_a_trace() {
    let mut t = Typist::new(&["mean of sales"]);
    t.type_str("draft C-r mean");
    assert!(!t.composer.is_empty());
    assert_eq!(t.press("Esc"), Outcome::Used);
    assert_eq!(t.marked(), "draft|");
    t.type_str("C-r zzz Back Enter");
    assert_eq!(t.marked(), "draft|", "nothing was found");
    t.type_str("C-r mean Home x");
    assert_eq!(t.marked(), "x|mean of sales", "other keys act on what was found");
    t.composer.clear();
    t.press("C-r");
    t.composer.clear();
    assert_eq!(t.marked(), "|");
}

// ---- completion ------------------------------------------------------------------------------------------------------

#[test]
fn commands_are_completed_where_the_draft_begins() {
    let mut t = Typist::new(&[]);
    t.press("/");
    assert_eq!(t.labels(), ["/help", "/model", "/mode", "/quit"]);
    t.type_str("mod");
    assert_eq!(t.labels(), ["/model", "/mode"]);
    t.press("Down");
    assert_eq!(t.press("Tab"), Outcome::Used);
    assert_eq!(t.marked(), "/mode |");
    assert!(t.composer.popup().is_none());
    t.press("A-u");
    assert_eq!(t.marked(), "/mod|", "one step");
    t.composer.set_text("see");
    t.type_str("Space /");
    assert!(t.composer.popup().is_none());
}

#[test]
fn a_command_that_is_typed_in_full_is_sent_with_one_enter() {
    let mut t = Typist::new(&[]);
    t.type_str("/mode");
    assert_eq!(t.labels(), ["/mode", "/model"]);
    assert_eq!(t.press("Enter"), sent("/mode"));
    t.type_str("/he");
    assert_eq!(t.press("Enter"), Outcome::Used, "taken");
    assert_eq!(t.press("Enter"), sent("/help"));
}

#[test]
fn files_are_completed_anywhere_and_quoted() {
    let mut t = Typist::new(&[]);
    t.type_str("see Space @sal");
    assert_eq!(t.labels(), ["@\"data/sales 2024.csv\"", "@data/sales.csv"]);
    t.press("Enter");
    assert_eq!(t.marked(), "see @\"data/sales 2024.csv\" |");
    t.type_str("and Space @\"DATA/sales.");
    assert_eq!(t.labels(), ["@data/sales.csv"]);
    t.press("Tab");
    assert_eq!(t.marked(), "see @\"data/sales 2024.csv\" and @data/sales.csv |");
    t.type_str("C-u me@sal");
    assert!(t.composer.popup().is_none(), "an address");
    t.type_str("C-u @b");
    assert_eq!(t.labels(), ["@b<U+202E>x.csv"], "a name is shown safely");
}

#[test]
fn esc_closes_the_list_until_another_word() {
    let mut t = Typist::new(&["old"]);
    t.type_str("@no");
    assert_eq!(t.press("Esc"), Outcome::Used);
    assert!(t.composer.popup().is_none());
    t.press("t");
    assert!(t.composer.popup().is_none());
    assert_eq!(t.press("Esc"), Outcome::Ignored);
    t.type_str("Space @no");
    assert_eq!(t.labels(), ["@notes.md"]);
    t.type_str("Up Up Tab");
    assert_eq!(t.marked(), "@not @notes.md |");
}

#[test]
fn a_recalled_command_opens_no_list_so_that_up_goes_on() {
    let mut t = Typist::new(&["one", "/he"]);
    t.type_str("Up Up");
    assert_eq!(t.marked(), "one|");
}

#[test]
fn the_list_is_drawn_at_the_bottom_of_the_area_above() {
    let mut t = Typist::new(&[]);
    t.type_str("/ Down");
    let draw = |t: &Typist, area: Rect| {
        let mut buf = Buffer::empty(Rect::new(0, 0, 40, 8));
        t.composer.draw_popup(area, &mut buf, Theme::new(ThemeName::Mono));
        (0..8).map(|y| row_of(&buf, y)).collect::<Vec<_>>()
    };
    let rows = draw(&t, Rect::new(0, 0, 40, 8));
    let want = [
        "",
        "",
        "┌──────────────────────────┐",
        "│ /help   what can be done │",
        "│ /model  another model    │",
        "│ /mode   text or tools    │",
        "│ /quit   leave            │",
        "└──────────────────────────┘",
    ];
    assert_eq!(rows, want);
    assert_eq!(draw(&t, Rect::new(0, 0, 12, 3))[1], "│ /model   │", "the chosen one is seen");
    t.type_str("Down Down");
    assert_eq!(draw(&t, Rect::new(0, 0, 12, 4))[1..3], ["│ /mode    │", "│ /quit    │"]);
    draw(&t, Rect::new(0, 0, 3, 2));
}

// ---- what is seen ----------------------------------------------------------------------------------------------------

#[test]
fn the_draft_wraps_and_scrolls() {
    let mut t = Typist::new(&[]);
    assert_eq!(t.screen(20), [">"]);
    assert_eq!(t.cursor(20), Some((2, 0)));
    t.composer.set_text("one two three four five six");
    assert_eq!(t.screen(20), ["> one two three", "  four five six"]);
    assert_eq!(t.cursor(20), Some((15, 1)));
    t.composer.set_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n10");
    assert_eq!(t.screen(20), ["↑ 3", "  4", "  5", "  6", "  7", "  8", "  9", "  10"]);
    t.press("C-Home");
    assert_eq!(t.screen(20), ["> 1", "  2", "  3", "  4", "  5", "  6", "  7", "↓ 8"]);
}

#[test]
fn hostile_text_is_drawn_safely_and_sent_as_it_is() {
    let mut t = Typist::new(&[]);
    let text = "\u{1b}[2J\u{202e}x\u{200b}👨\u{200d}👩\u{7}";
    t.composer.paste(text);
    assert_eq!(t.screen(60), ["> <U+001B>[2J<U+202E>x<U+200B>👨👩<U+0007>"]);
    assert_eq!(t.press("Enter"), sent(text));
}

#[test]
fn a_click_sets_the_cursor() {
    let mut t = Typist::new(&[]);
    t.composer.set_text("漢字 x\nabc");
    t.screen(40);
    for (column, row, want) in [(4, 0, "漢|字 x\nabc"), (0, 1, "漢字 x\n|abc"), (30, 1, "漢字 x\nabc|")] {
        t.composer.click(column, row);
        assert_eq!(t.marked(), want);
    }
}

#[test]
fn cleared_text_can_be_had_back() {
    let mut t = Typist::new(&[]);
    t.type_str("precious");
    t.composer.clear();
    assert!(t.composer.is_empty());
    t.press("C-/");
    assert_eq!(t.composer.text(), "precious");
}

#[test]
fn tables_of_keys() {
    for (before, line, after) in [
        ("a|b", "x", "ax|b"),
        ("e\u{301}|", "Back", "|"),
        ("foo bar|", "C-w", "foo |"),
        ("foo\nbar|", "C-u", "foo\n|"),
        ("אב|", "Left x", "אx|ב"),
        ("a|", "S-Left C-x C-v C-v", "aa|"),
        ("ab\nc|d", "S-Up x", "ax|d"),
        ("ab|\ncd", "S-Down S-Down x", "abx|"),
    ] {
        let (text, pos) = with_cursor(before);
        let mut t = Typist::new(&[]);
        t.composer.set_text(&text);
        t.composer.buffer.go_to(pos, false);
        t.type_str(line);
        assert_eq!(t.marked(), after, "{before:?} and {line}");
    }
}

proptest! {
    #[test]
    fn any_keys_at_any_time_leave_a_cursor_in_sight(
        keys in any_keys(), gaps in proptest::collection::vec(0u64..30, 60), pastes in 0usize..3, width in 1u16..30,
        height in 1u16..9,
    ) {
        let mut t = Typist::new(&["old\none", "/he", "\u{100000}漢"]);
        let area = Rect::new(3, 2, width, height);
        for (index, (key, gap)) in keys.into_iter().zip(gaps).enumerate() {
            t.now += Duration::from_millis(gap);
            if t.composer.deadline().is_some_and(|due| due <= t.now) {
                t.composer.tick(t.now);
            }
            t.composer.key(key, t.now);
            if index < pastes {
                t.composer.paste(&"p\u{301}\n".repeat(index * 11 + 1));
            }
            prop_assert!((1..=MAX_ROWS).contains(&t.composer.height(width)));
            t.composer.layout(width, height);
            let mut buf = Buffer::filled(Rect::new(0, 0, 40, 14), ratatui::buffer::Cell::new("#"));
            t.composer.draw(area, &mut buf, Theme::new(ThemeName::Light));
            let outside = |buf: &Buffer| {
                let mut cells = buf.content().iter().enumerate();
                cells.all(|(i, cell)| area.contains(buf.pos_of(i).into()) || cell.symbol() == "#")
            };
            prop_assert!(outside(&buf));
            t.composer.draw_popup(area, &mut buf, Theme::new(ThemeName::Light));
            prop_assert!(outside(&buf));
            prop_assert!(t.composer.cursor(area).is_some_and(|p| area.contains(p)), "{}", t.marked());
        }
    }

    #[test]
    fn a_paste_by_keys_is_never_sent_in_pieces(lines in proptest::collection::vec("[a-z@/ ]{4,12}", 2..20)) {
        let mut t = Typist::new(&[]);
        let text = lines.join("\n");
        prop_assert!(t.flood(&text).is_empty());
        prop_assert_eq!(t.composer.text(), text);
    }
}
