use std::time::{Duration, Instant};

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::style::Modifier;

use super::super::testing::{any_keys, any_text, keys, mark_cursor, row_of, with_cursor};
use super::*;
use crate::tui::theme::{Role, Theme, ThemeName};

fn editor(marked: &str) -> Editor {
    let (text, pos) = with_cursor(marked);
    let mut editor = Editor::new(&text, &text);
    editor.buffer.go_to(pos, false);
    editor.layout(40, 10);
    editor
}

fn press(editor: &mut Editor, line: &str) {
    for key in keys(line) {
        assert!(editor.handle(key), "{key:?} is a key of the editor");
    }
}

fn marked(editor: &Editor) -> String {
    mark_cursor(&editor.text(), editor.buffer.cursor())
}

fn check(cases: &[(&str, &str, &str)]) {
    for (before, line, after) in cases {
        let mut editor = editor(before);
        press(&mut editor, line);
        assert_eq!(marked(&editor), *after, "{before:?} and {line}");
    }
}

fn screen(editor: &mut Editor, width: u16, height: u16) -> (Vec<String>, Buffer) {
    editor.layout(width, height);
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    editor.draw(area, &mut buf, Theme::new(ThemeName::Dark));
    ((0..height).map(|y| row_of(&buf, y)).collect(), buf)
}

fn rows(editor: &mut Editor, width: u16, height: u16) -> Vec<String> {
    screen(editor, width, height).0
}

fn place(editor: &Editor) -> Option<(u16, u16)> {
    editor.cursor(Rect::new(0, 0, 40, 10)).map(|p| (p.x, p.y))
}

#[test]
fn a_new_line_is_indented_as_python_wants_it() {
    check(&[
        ("if x:|", "Enter y", "if x:\n    y|"),
        ("    if x:|", "Enter", "    if x:\n        |"),
        ("    x|", "Enter", "    x\n    |"),
        ("\tif x:|", "Enter", "\tif x:\n\t\t|"),
        ("  |  x", "Enter", "  \n  |  x"),
        ("|  x", "Enter", "\n|  x"),
        ("if x:  # why|", "Enter", "if x:  # why\n    |"),
        ("x = '#:'|", "Enter", "x = '#:'\n|"),
        ("# note:|", "Enter", "# note:\n|"),
        ("x = '\\'#' if y else z:|", "Enter", "x = '\\'#' if y else z:\n    |"),
        ("if x:| y", "Enter", "if x:\n    | y"),
        ("a|\r\nb", "Enter", "a\n|\r\nb"),
    ]);
}

#[test]
fn tab_and_backspace_move_by_levels() {
    check(&[
        ("|", "Tab", "    |"),
        ("  |x", "Tab", "    |x"),
        ("ab|", "Tab", "ab  |"),
        ("漢|", "Tab", "漢  |"),
        ("\t|x", "Tab", "\t\t|x"),
        ("        |x", "Back", "    |x"),
        ("      |x", "Back", "    |x"),
        ("\t|x", "Back", "|x"),
        ("\t  |x", "Back", "\t|x"),
        ("    x|", "Back", "    |"),
        ("a\n|b", "Back", "a|b"),
        ("      x|", "S-Tab", "    x|"),
        ("\tx|", "S-Tab", "x|"),
        ("x|", "S-Tab", "x|"),
        ("  |  x", "S-Tab", "|x"),
    ]);
}

#[test]
fn tab_moves_the_selected_lines() {
    check(&[
        ("a|\n\nb\nc", "S-Down S-Down S-Down Tab", "    a\n\n    b\n    c|"),
        ("|a\nb", "S-Down Tab Tab", "        a\n|b"),
        ("|    a\n  b", "S-Down S-End S-Tab", "a\nb|"),
        ("|    a\n\tb", "S-Down S-End S-Tab A-u", "    a\n\tb|"),
        ("|a\nb", "S-Down S-End Tab S-Tab x", "x|"),
    ]);
}

#[test]
fn what_was_not_edited_comes_back_to_the_byte() {
    for text in ["", "x", "x\n", "x\r\ny\r", "\u{feff}x\n\n", "\tx \n"] {
        let mut editor = Editor::new(text, text);
        editor.layout(20, 5);
        press(&mut editor, "C-End C-Home End Down Up PgDn");
        assert_eq!(editor.text(), text);
        assert!(!editor.is_changed());
        assert_eq!(editor.version(), 0);
    }
}

#[test]
fn the_models_text_can_be_had_back_and_that_undone() {
    let mut editor = Editor::new("a\nb\n", "a\nx\n");
    assert!(editor.is_changed());
    editor.reset();
    assert_eq!((editor.text().as_str(), editor.is_changed()), ("a\nb\n", false));
    press(&mut editor, "A-u");
    assert_eq!((editor.text().as_str(), editor.is_changed()), ("a\nx\n", true));
}

#[test]
fn keys_of_the_app_are_not_used() {
    let mut editor = editor("|");
    for key in keys("Esc C-c C-g C-d C-z") {
        assert!(!editor.handle(key), "{key:?}");
    }
}

#[test]
fn a_paste_is_one_step() {
    let mut editor = editor("|");
    editor.paste("a:\r\n  b\rc");
    assert_eq!(marked(&editor), "a:\n  b\nc|");
    press(&mut editor, "A-u");
    assert_eq!(marked(&editor), "|");
}

#[test]
fn lines_are_numbered_and_the_cursor_is_where_the_text_is() {
    let mut editor = editor("a\n\t漢|x\n");
    assert_eq!(rows(&mut editor, 40, 5), [" 1 a", " 2     漢x", " 3", "", ""]);
    assert_eq!(place(&editor), Some((9, 1)));
    assert_eq!(editor.place(), (2, 7));
    assert_eq!(rows(&mut editor, 12, 2), ["a", "    漢x"], "a narrow pane has no numbers");
}

#[test]
fn invisible_characters_are_drawn_by_name_and_the_cursor_stands_behind() {
    let mut editor = editor("x\u{202e}|y\u{200b}");
    assert_eq!(rows(&mut editor, 40, 1), [" 1 x<U+202E>y<U+200B>"]);
    assert_eq!(place(&editor), Some((12, 0)));
    press(&mut editor, "Left");
    editor.layout(40, 1);
    assert_eq!(place(&editor), Some((4, 0)));
    editor.click(8, 0);
    assert_eq!(marked(&editor), "x|\u{202e}y\u{200b}", "a click on a name is a click on its character");
}

#[test]
fn a_line_is_numbered_as_python_counts() {
    let mut editor = Editor::new("", "a\rb\nc\r\nd");
    editor.set_error(Some((3, "bad".into())));
    assert_eq!(rows(&mut editor, 40, 4), [" 1 a<U+000D>b", "!3 c", " 4 d", "! line 3: bad"]);
}

#[test]
fn an_error_stands_at_its_line_and_goes_with_it() {
    let mut editor = editor("|a\nb\nc");
    editor.set_error(Some((2, "expected ':'\u{1b}[2J\nx".into())));
    assert_eq!(rows(&mut editor, 40, 4), [" 1 a", "!2 b", " 3 c", "! line 2: expected ':' x"]);
    press(&mut editor, "Enter");
    assert_eq!(rows(&mut editor, 40, 5), [" 1", " 2 a", "!3 b", " 4 c", "! line 3: expected ':' x"]);
    editor.set_error(None);
    assert_eq!(rows(&mut editor, 40, 5), [" 1", " 2 a", " 3 b", " 4 c", ""]);
    editor.set_error(Some((99, "eof".into())));
    assert_eq!(rows(&mut editor, 40, 5)[3], "!4 c");
}

#[test]
fn the_view_follows_the_cursor_down_and_sideways() {
    let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let mut editor = editor(&format!("|{text}"));
    press(&mut editor, "PgDn PgDn");
    assert_eq!(rows(&mut editor, 40, 3), [" 17 line 17", " 18 line 18", " 19 line 19"]);
    press(&mut editor, "C-End");
    assert_eq!(rows(&mut editor, 40, 3), [" 29 line 29", " 30 line 30", " 31"]);

    let mut editor = self::editor(&format!("|{}", "0123456789".repeat(10)));
    press(&mut editor, "End");
    assert_eq!(rows(&mut editor, 23, 1), [" 1 ‹67890123456789"]);
}

#[test]
fn the_wheel_looks_around_until_the_next_key() {
    let text: String = (1..=30).map(|n| format!("{n}\n")).collect();
    let mut editor = editor(&format!("|{text}"));
    editor.layout(40, 5);
    editor.scroll(10);
    assert_eq!(rows(&mut editor, 40, 5)[0], " 11 11");
    assert_eq!(place(&editor), None);
    editor.scroll(1000);
    assert_eq!(rows(&mut editor, 40, 5)[4], " 31");
    editor.scroll(-1000);
    assert_eq!(rows(&mut editor, 40, 5)[0], "  1 1");
    editor.scroll(10);
    press(&mut editor, "x");
    assert_eq!(rows(&mut editor, 40, 5)[0], "  1 x1");
}

#[test]
fn the_mouse_sets_the_cursor_and_selects() {
    let mut editor = editor("|abc\n漢字");
    editor.layout(40, 5);
    editor.click(6, 1);
    assert_eq!(marked(&editor), "abc\n漢|字");
    editor.click(30, 0);
    assert_eq!(marked(&editor), "abc|\n漢字");
    editor.click(4, 0);
    editor.drag(5, 1);
    assert_eq!(editor.copy(), Some("bc\n漢"));
    editor.click(0, 4);
    assert_eq!(marked(&editor), "abc\n|漢字", "below the text");
}

#[test]
fn the_selection_is_seen_to_the_line_end() {
    let mut editor = editor("a|b\n\nc");
    press(&mut editor, "S-Down S-Down");
    let (_, buf) = screen(&mut editor, 40, 3);
    let reversed = |x, y| buf[(x, y)].modifier.contains(Modifier::REVERSED);
    assert!(!reversed(3, 0) && reversed(4, 0) && reversed(5, 0) && !reversed(6, 0));
    assert!(reversed(3, 1) && !reversed(4, 1), "the end of an empty line");
    assert!(reversed(3, 2) && !reversed(4, 2));
}

#[test]
fn colours_come_late_and_move_with_the_text() {
    let theme = Theme::new(ThemeName::Dark);
    let mut editor = editor("|if x\ny");
    editor.set_painted(0, Arc::new(vec![vec![(Role::Keyword, 0..2)], vec![(Role::Str, 0..1)]]));
    let colour = |editor: &mut Editor, x, y| screen(editor, 40, 3).1[(x, y)].fg;
    let fg = |role| theme.style(role).fg.unwrap();
    assert_eq!(colour(&mut editor, 3, 0), fg(Role::Keyword));
    press(&mut editor, "x Enter");
    assert_eq!(colour(&mut editor, 3, 1), fg(Role::Keyword));
    assert_eq!(colour(&mut editor, 3, 2), fg(Role::Str));
    editor.set_painted(editor.version(), Arc::new(vec![vec![(Role::Name, 0..1)], vec![], vec![(Role::Str, 900..901)]]));
    assert_eq!(colour(&mut editor, 3, 0), fg(Role::Name));
    assert_eq!(colour(&mut editor, 3, 2), ratatui::style::Color::Reset);
}

#[test]
fn large_code_waits_for_nobody() {
    let text = "word ".repeat(1000) + "\n" + &"x = [1, 2, 3]\n".repeat(20_000);
    let mut editor = Editor::new(&text, &text);
    let start = Instant::now();
    for line in ["End", "x", "Left", "Down", "y", "Enter", "C-End", "z", "PgUp", "C-Home", "Del", "A-u"] {
        press(&mut editor, line);
        screen(&mut editor, 80, 24);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

proptest! {
    #[test]
    fn any_keys_in_any_size_leave_a_cursor_in_sight(
        text in any_text(), keys in any_keys(), width in 0u16..30, height in 0u16..8, error in 0u32..5,
    ) {
        let mut editor = Editor::new("", &text);
        editor.set_error((error > 0).then(|| (error, "no".to_owned())));
        let area = Rect::new(2, 1, width, height);
        for key in keys {
            editor.handle(key);
            editor.layout(width, height);
            let mut buf = Buffer::filled(Rect::new(0, 0, 40, 12), ratatui::buffer::Cell::new("#"));
            editor.draw(area, &mut buf, Theme::new(ThemeName::Mono));
            for (index, cell) in buf.content().iter().enumerate() {
                let (x, y) = buf.pos_of(index);
                let is_outside = !area.contains((x, y).into());
                prop_assert!(!is_outside || cell.symbol() == "#", "{x},{y} is {:?}", cell.symbol());
                prop_assert!(!cell.symbol().chars().any(char::is_control));
            }
            if width > 0 && height > 0 {
                let cursor = editor.cursor(area);
                prop_assert!(cursor.is_some_and(|p| area.contains(p)), "{cursor:?} of {:?}", marked(&editor));
            }
        }
        for _ in 0..60 { press(&mut editor, "A-u"); }
        prop_assert_eq!(editor.text(), text);
    }

    #[test]
    fn a_click_finds_the_column_the_cursor_is_drawn_in(text in any_text(), column in 0u16..60, row in 0u16..10) {
        let mut editor = Editor::new("", &text);
        editor.layout(60, 10);
        editor.click(column, row);
        editor.layout(60, 10);
        let first = editor.cursor(Rect::new(0, 0, 60, 10));
        if let Some(first) = first {
            editor.click(first.x, first.y);
            editor.layout(60, 10);
            prop_assert_eq!(editor.cursor(Rect::new(0, 0, 60, 10)), Some(first));
        }
    }
}
