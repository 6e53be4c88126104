use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::super::keys::edit_of;
use super::super::testing::{any_keys, any_text, keys, mark_cursor, with_cursor};
use super::*;

fn buffer(marked: &str) -> TextBuffer {
    let (text, pos) = with_cursor(marked);
    let mut buffer = TextBuffer::new(&text);
    buffer.go_to(pos, false);
    buffer
}

fn press(buffer: &mut TextBuffer, line: &str) {
    for key in keys(line) {
        buffer.perform(edit_of(key).unwrap(), 3);
    }
}

fn marked(buffer: &TextBuffer) -> String {
    mark_cursor(&buffer.text().to_string(), buffer.cursor())
}

fn check(cases: &[(&str, &str, &str)]) {
    for (before, line, after) in cases {
        let mut buffer = buffer(before);
        press(&mut buffer, line);
        assert_eq!(marked(&buffer), *after, "{before:?} and {line}");
    }
}

#[test]
fn letters_are_typed_and_erased_whole() {
    check(&[
        ("|", "ab", "ab|"),
        ("ab|", "Back", "a|"),
        ("e\u{301}|x", "Back", "|x"),
        ("|e\u{301}x", "Del", "|x"),
        ("👨\u{200d}👩\u{200d}👧|", "Back", "|"),
        ("🇩🇪🇫🇷|", "Back", "🇩🇪|"),
        ("漢字|", "Back", "漢|"),
        ("אב|ג", "Back", "א|ג"),
        ("a\n|b", "Back", "a|b"),
        ("a\r\n|b", "Back", "a|b"),
        ("a|\r\nb", "Del", "a|b"),
        ("|", "Back", "|"),
        ("|", "Del", "|"),
        ("|\u{301}", "e", "e\u{301}|"),
    ]);
}

#[test]
fn the_cursor_moves_by_letters_and_across_lines() {
    check(&[
        ("|e\u{301}x", "Right", "e\u{301}|x"),
        ("e\u{301}|x", "Left", "|e\u{301}x"),
        ("a|\nb", "Right", "a\n|b"),
        ("a\r\n|b", "Left", "a|\r\nb"),
        ("ab|c", "C-a", "|abc"),
        ("a|bc\r\n", "C-e", "abc|\r\n"),
        ("  a|b", "Home", "  |ab"),
        ("  |ab", "Home", "|  ab"),
        ("a\nb\nc|", "C-Home", "|a\nb\nc"),
        ("a|\nb\nc", "C-End", "a\nb\nc|"),
        ("1\n2\n3\n4\n5|", "PgUp", "1\n2|\n3\n4\n5"),
        ("1|\n2\n3", "PgDn", "1\n2\n3|"),
    ]);
}

#[test]
fn up_and_down_keep_the_column_that_is_seen() {
    check(&[
        ("abcd|\nx\nabcd", "Down Down", "abcd\nx\nabcd|"),
        ("ab|c\n漢字", "Down", "abc\n漢|字"),
        ("abc|\n漢字", "Down", "abc\n漢|字"),
        ("\tx|\nabcdef", "Down", "\tx\nabcde|f"),
        ("abc\nx|", "Down", "abc\nx|"),
        ("ab|c", "Up", "|abc"),
        ("a|bc", "Down", "abc|"),
        ("abcd|\nx\nabcd", "Down Left Down", "abcd\nx\n|abcd"),
    ]);
}

#[test]
fn words_are_skipped_and_deleted() {
    check(&[
        ("|foo.bar baz", "C-Right", "foo|.bar baz"),
        ("foo|.bar baz", "A-f", "foo.bar| baz"),
        ("foo.bar |baz", "A-b", "foo.|bar baz"),
        ("foo|\n\n  bar", "A-f", "foo\n\n  bar|"),
        ("foo.bar|", "A-Back", "foo.|"),
        ("x foo.bar  |", "C-w", "x |"),
        ("foo\n|bar", "C-w", "foo|bar"),
        ("foo\n|bar", "A-Back", "foo|bar"),
        ("foo\n  |bar", "A-Back", "foo\n|bar"),
        ("nai\u{308}ve|", "A-Back", "|"),
        ("|foo bar", "A-d", "| bar"),
        ("foo|\nbar", "A-d", "foo|bar"),
        ("foo| \nbar", "A-d", "foo|\nbar"),
        ("漢字|", "C-w", "|"),
    ]);
}

#[test]
fn the_rest_of_a_line_is_deleted_and_can_be_pasted() {
    check(&[
        ("a|bc\nd", "C-k", "a|\nd"),
        ("a|\r\nd", "C-k", "a|d"),
        ("ab|c", "C-u", "|c"),
        ("a\n|c", "C-u", "a|c"),
        ("a|bc", "C-k C-v C-v", "abcbc|"),
        ("|", "C-k C-v", "|"),
    ]);
}

#[test]
fn a_selection_is_replaced_cut_and_copied() {
    check(&[
        ("a|bcd", "S-Right S-Right x", "ax|d"),
        ("a|bcd", "S-Right S-Right C-x End C-v", "adbc|"),
        ("a|bcd", "S-End A-w End C-v", "abcdbcd|"),
        ("ab\nc|d", "S-Up Back", "a|d"),
        ("|foo bar", "C-S-Right Del", "| bar"),
        ("a|bc", "S-Right S-Right Left", "a|bc"),
        ("a|bc", "S-Right S-Right Right", "abc|"),
        ("a|bc", "S-Right Home S-End x", "x|"),
        ("ab|c", "S-Left S-Right x", "abx|c"),
        ("|abc", "C-x", "|abc"),
    ]);
}

#[test]
fn undo_takes_back_steps_and_redo_does_them_again() {
    check(&[
        ("|", "one Space two C-/", "one |"),
        ("|", "one Space two A-u A-u", "|"),
        ("|", "one Space two A-u A-u A-r", "one |"),
        ("|", "one C-_ C-y", "one|"),
        ("abc|", "Back Back A-u", "abc|"),
        ("a|bc", "Del Del A-u", "a|bc"),
        ("a|b", "S-Right x A-u", "ab|"),
        ("a|b", "x Left Right y A-u", "ax|b"),
        ("a|", "C-/ C-y", "a|"),
        ("ab|", "Back A-u x A-r", "abx|"),
    ]);
}

#[test]
fn a_paste_is_one_step_with_plain_line_ends() {
    let mut buffer = buffer("x|y");
    buffer.paste("a\r\nb\rc\n");
    assert_eq!(marked(&buffer), "xa\nb\nc\n|y");
    press(&mut buffer, "A-u");
    assert_eq!(marked(&buffer), "x|y");
}

#[test]
fn a_whole_new_text_is_one_step_and_keeps_the_cursor_before_the_difference() {
    for (old, new) in [
        ("a\nb|\nc\nd", "a\nb\nX\nd"),
        ("a|", ""),
        ("|", "a\nb\n"),
        ("|a\nb", "a\nx\nb"),
        ("a\n|a", "a\na\na"),
        ("a\n|a\na", "a"),
        ("|x\r\n", "x\n"),
    ] {
        let mut buffer = buffer(old);
        buffer.set_text(new);
        assert_eq!(buffer.text().to_string(), new);
        press(&mut buffer, "A-u");
        assert_eq!(marked(&buffer), old);
    }
    let mut buffer = buffer("a\nb|\nc\nd");
    buffer.set_text("a\nb\nX\nd");
    assert_eq!(marked(&buffer), "a\nb|\nX\nd");
}

#[test]
fn several_replacements_are_one_step_and_the_cursor_stays_with_its_text() {
    let mut buffer = buffer("ab\ncd|");
    let edit = |row, from, to, new: &str| LineEdit { row, from, to, new: new.into() };
    buffer.replace_in_lines(&[edit(0, 0, 0, "  "), edit(1, 0, 1, "")]);
    assert_eq!(marked(&buffer), "  ab\nd|");
    press(&mut buffer, "A-u");
    assert_eq!(marked(&buffer), "ab\ncd|");
    press(&mut buffer, "A-r");
    assert_eq!(buffer.text().to_string(), "  ab\nd");
}

#[test]
fn a_long_line_and_many_lines_are_edited_in_time() {
    let lines = "word ".repeat(1000) + "\n" + &"x = 1\n".repeat(20_000);
    let mut buffer = TextBuffer::new(&lines);
    let start = std::time::Instant::now();
    for _ in 0..20 {
        press(&mut buffer, "End x Enter y Down Up Home C-Right A-Back A-u C-End z C-Home");
    }
    // 300 keys of at most 50 ms, in a build that is not optimised.
    assert!(start.elapsed() < std::time::Duration::from_secs(100), "{:?}", start.elapsed());
}

fn on_boundary(buffer: &TextBuffer) -> bool {
    let pos = buffer.cursor();
    let body = buffer.text().body(pos.row);
    pos.col == body.len() || body.grapheme_indices(true).any(|(at, _)| at == pos.col)
}

proptest! {
    #[test]
    fn no_keys_panic_or_part_a_letter_and_all_is_undone(text in any_text(), keys in any_keys()) {
        let mut buffer = TextBuffer::new(&text);
        for edit in keys.into_iter().filter_map(edit_of) {
            buffer.perform(edit, 2);
            prop_assert!(on_boundary(&buffer), "{:?} after {edit:?}", marked(&buffer));
        }
        for _ in 0..60 {
            buffer.perform(Edit::Undo, 2);
            prop_assert!(on_boundary(&buffer));
        }
        prop_assert_eq!(buffer.text().to_string(), text);
    }

    #[test]
    fn what_was_undone_is_done_again(text in any_text(), keys in any_keys()) {
        let mut buffer = TextBuffer::new(&text);
        for edit in keys.into_iter().filter_map(edit_of).filter(|e| !matches!(e, Edit::Undo | Edit::Redo)) {
            buffer.perform(edit, 2);
        }
        let wanted = buffer.text().to_string();
        (0..60).for_each(|_| buffer.perform(Edit::Undo, 2));
        prop_assert_eq!(buffer.text().to_string(), text);
        (0..60).for_each(|_| buffer.perform(Edit::Redo, 2));
        prop_assert_eq!(buffer.text().to_string(), wanted);
    }

    #[test]
    fn a_whole_new_text_arrives_and_is_undone(old in any_text(), new in any_text()) {
        let mut buffer = TextBuffer::new(&old);
        buffer.set_text(&new);
        prop_assert_eq!(buffer.text().to_string(), new);
        buffer.perform(Edit::Undo, 2);
        prop_assert_eq!(buffer.text().to_string(), old);
    }
}
