//! Keys written down, and texts with the cursor in them, for the tests of this folder and of the prompt.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::buffer::{Buffer, CellWidth};

use super::text::Pos;

/// A key by its name: `C-` Ctrl, `A-` Alt, `S-` Shift, then a character or the name of a key.
pub fn key(name: &str) -> KeyEvent {
    let mut mods = KeyModifiers::NONE;
    let mut rest = name;
    while let Some((mark, behind)) = rest.split_once('-').filter(|(m, b)| m.len() == 1 && !b.is_empty()) {
        mods |= match mark {
            "C" => KeyModifiers::CONTROL,
            "A" => KeyModifiers::ALT,
            "S" => KeyModifiers::SHIFT,
            _ => panic!("no such key: {name}"),
        };
        rest = behind;
    }
    let code = match rest {
        "Left" => KeyCode::Left,
        "Right" => KeyCode::Right,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "PgUp" => KeyCode::PageUp,
        "PgDn" => KeyCode::PageDown,
        "Enter" => KeyCode::Enter,
        "Tab" if mods.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        "Tab" => KeyCode::Tab,
        "Back" => KeyCode::Backspace,
        "Del" => KeyCode::Delete,
        "Ins" => KeyCode::Insert,
        "Esc" => KeyCode::Esc,
        "Space" => KeyCode::Char(' '),
        one => KeyCode::Char(one.chars().next().unwrap()),
    };
    KeyEvent::new(code, mods)
}

/// The keys of a line such as `ab C-w Left`: a word that is no name of a key is typed.
pub fn keys(line: &str) -> Vec<KeyEvent> {
    let named = ["Left", "Right", "Up", "Down", "Home", "End", "PgUp", "PgDn", "Enter", "Tab", "Back", "Del", "Ins"];
    let is_name = |word: &str| word.get(1..2) == Some("-") || ["Esc", "Space"].contains(&word) || named.contains(&word);
    let words = line.split_whitespace();
    words
        .flat_map(|word| match is_name(word) {
            true => vec![key(word)],
            false => word.chars().map(|c| KeyEvent::from(KeyCode::Char(c))).collect(),
        })
        .collect()
}

/// Takes the cursor `|` out of a text.
pub fn with_cursor(marked: &str) -> (String, Pos) {
    let (before, behind) = marked.split_once('|').expect("a cursor is in the text");
    (format!("{before}{behind}"), Pos::default().after(before))
}

/// Puts the cursor into a text.
pub fn mark_cursor(text: &str, pos: Pos) -> String {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    lines[pos.row].insert(pos.col, '|');
    lines.join("\n")
}

/// A row of the screen as it is read, without the cells that wide characters cover.
pub fn row_of(buf: &Buffer, y: u16) -> String {
    let mut row = String::new();
    let mut x = buf.area.x;
    while x < buf.area.right() {
        row.push_str(buf[(x, y)].symbol());
        x += buf[(x, y)].symbol().cell_width().max(1);
    }
    row.trim_end().to_owned()
}

/// Any keys, with letters that are hard.
pub fn any_keys() -> impl Strategy<Value = Vec<KeyEvent>> {
    let names = vec![
        "Left",
        "Right",
        "Up",
        "Down",
        "Home",
        "End",
        "PgUp",
        "PgDn",
        "Enter",
        "S-Enter",
        "Tab",
        "S-Tab",
        "Back",
        "Del",
        "C-Left",
        "C-Right",
        "S-Left",
        "S-Right",
        "S-Up",
        "S-Down",
        "S-Home",
        "S-End",
        "C-S-Left",
        "C-S-Right",
        "C-Home",
        "C-End",
        "C-w",
        "C-k",
        "C-u",
        "A-d",
        "A-Back",
        "C-x",
        "A-w",
        "C-v",
        "C-/",
        "C-y",
        "C-j",
        "C-a",
        "C-e",
        "S-PgDn",
        "Esc",
        "C-r",
        "C-c",
        "S-C-End",
        "S-C-Home",
    ];
    let letters = "ab :#@/\\\"'(\t漢é\u{301}\u{200d}👨👩🇩🇪\u{fe0f}\u{202e}א\u{1100}\u{1161}ﾞ\u{100000}";
    let letters: Vec<char> = letters.chars().collect();
    let key = prop_oneof![
        proptest::sample::select(names).prop_map(key),
        proptest::sample::select(letters).prop_map(|c| KeyEvent::from(KeyCode::Char(c))),
    ];
    proptest::collection::vec(key, 0..60)
}

/// Texts that are hard.
pub fn any_text() -> impl Strategy<Value = String> {
    let parts = vec![
        "a",
        "word ",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "    ",
        "漢字",
        "e\u{301}",
        "👨\u{200d}👩\u{200d}👧",
        "🇩🇪",
        "\u{202e}",
        "\u{301}",
        "אב",
        ":",
        "\u{0}",
        "\u{1b}[31m",
        "#",
        "\"",
        "\u{2028}",
    ];
    proptest::collection::vec(proptest::sample::select(parts), 0..30).prop_map(|parts| parts.concat())
}
