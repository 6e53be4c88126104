//! Which key edits how. The keys are those of shells and of common editors where the two agree; undo is not Ctrl-Z, which
//! suspends.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The editing keys, for the help.
pub const HELP: &[(&str, &str)] = &[
    ("← → ↑ ↓", "move; with Shift select"),
    ("Ctrl-← →, Alt-b f", "a word"),
    ("Home End, Ctrl-A E", "ends of the line"),
    ("Ctrl-Home End", "ends of the text"),
    ("Ctrl-/, Alt-u", "undo"),
    ("Ctrl-Y, Alt-r", "redo"),
    ("Ctrl-W, Alt-Backspace", "delete the word before"),
    ("Alt-d", "delete the word behind"),
    ("Ctrl-U, Ctrl-K", "delete to the start, to the end of the line"),
    ("Ctrl-X, Alt-w, Ctrl-V", "cut, copy, paste inside"),
];

/// Where the cursor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// One cluster back.
    Left,
    /// One cluster on.
    Right,
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// To the start of this word or the one before.
    WordLeft,
    /// To the end of this word or the next.
    WordRight,
    /// To the start of the line.
    LineStart,
    /// To where the text of the line begins.
    Home,
    /// To the end of the line.
    LineEnd,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// To the start of the text.
    Top,
    /// To its end.
    Bottom,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit {
    /// Types a character.
    Insert(char),
    /// Enter without Shift, Alt or Ctrl.
    Enter,
    /// A line end, whatever Enter means.
    Newline,
    /// Tab.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Deletes the cluster before.
    Backspace,
    /// Deletes the cluster behind.
    Delete,
    /// Deletes back to a space.
    DeleteToSpace,
    /// Deletes the word before.
    DeleteWordLeft,
    /// Deletes the word behind.
    DeleteWordRight,
    /// Deletes to the start of the line.
    DeleteToStart,
    /// Deletes to the end of the line.
    DeleteToEnd,
    /// Removes the selection, to paste it.
    Cut,
    /// Keeps the selection, to paste it.
    Copy,
    /// Inserts what was cut, copied or deleted by more than a letter last.
    Paste,
    /// Undoes.
    Undo,
    /// Does again.
    Redo,
    /// Moves; `true` selects.
    Go(Motion, bool),
}

/// What the key does, if it edits.
pub fn edit_of(key: KeyEvent) -> Option<Edit> {
    let mods = key.modifiers;
    if key.kind == KeyEventKind::Release
        || !(KeyModifiers::SHIFT | KeyModifiers::CONTROL | KeyModifiers::ALT).contains(mods)
    {
        return None;
    }
    let shift = mods.contains(KeyModifiers::SHIFT);
    let control = mods.contains(KeyModifiers::CONTROL);
    let alt = mods.contains(KeyModifiers::ALT);
    match key.code {
        KeyCode::Char(c) if control && !alt => control_key(c),
        KeyCode::Char(c) if alt && !control => alt_key(c),
        KeyCode::Char(c) if !alt && !control && !c.is_control() => Some(Edit::Insert(c)),
        KeyCode::Enter if mods.is_empty() => Some(Edit::Enter),
        KeyCode::Enter => Some(Edit::Newline),
        KeyCode::Tab if mods.is_empty() => Some(Edit::Tab),
        KeyCode::BackTab => Some(Edit::BackTab),
        KeyCode::Tab if mods == KeyModifiers::SHIFT => Some(Edit::BackTab),
        KeyCode::Backspace if control || alt => Some(Edit::DeleteWordLeft),
        KeyCode::Backspace => Some(Edit::Backspace),
        KeyCode::Delete if control || alt => Some(Edit::DeleteWordRight),
        KeyCode::Delete if shift => Some(Edit::Cut),
        KeyCode::Delete => Some(Edit::Delete),
        KeyCode::Insert if control => Some(Edit::Copy),
        KeyCode::Insert if shift => Some(Edit::Paste),
        code => motion(code, control || alt).map(|motion| Edit::Go(motion, shift)),
    }
}

fn motion(code: KeyCode, far: bool) -> Option<Motion> {
    Some(match (code, far) {
        (KeyCode::Left, false) => Motion::Left,
        (KeyCode::Left, true) => Motion::WordLeft,
        (KeyCode::Right, false) => Motion::Right,
        (KeyCode::Right, true) => Motion::WordRight,
        (KeyCode::Up, _) => Motion::Up,
        (KeyCode::Down, _) => Motion::Down,
        (KeyCode::Home, false) => Motion::Home,
        (KeyCode::Home, true) => Motion::Top,
        (KeyCode::End, false) => Motion::LineEnd,
        (KeyCode::End, true) => Motion::Bottom,
        (KeyCode::PageUp, false) => Motion::PageUp,
        (KeyCode::PageDown, false) => Motion::PageDown,
        _ => return None,
    })
}

fn control_key(c: char) -> Option<Edit> {
    Some(match c.to_ascii_lowercase() {
        'a' => Edit::Go(Motion::LineStart, false),
        'e' => Edit::Go(Motion::LineEnd, false),
        'b' => Edit::Go(Motion::Left, false),
        'f' => Edit::Go(Motion::Right, false),
        'p' => Edit::Go(Motion::Up, false),
        'n' => Edit::Go(Motion::Down, false),
        'h' => Edit::Backspace,
        'j' => Edit::Newline,
        'k' => Edit::DeleteToEnd,
        'u' => Edit::DeleteToStart,
        'w' => Edit::DeleteToSpace,
        'x' => Edit::Cut,
        'v' => Edit::Paste,
        'y' => Edit::Redo,
        // Terminals send one byte for Ctrl-/, Ctrl-_ and Ctrl-7.
        '/' | '_' | '-' | '7' => Edit::Undo,
        _ => return None,
    })
}

fn alt_key(c: char) -> Option<Edit> {
    Some(match c {
        'b' => Edit::Go(Motion::WordLeft, false),
        'f' => Edit::Go(Motion::WordRight, false),
        'd' => Edit::DeleteWordRight,
        'u' => Edit::Undo,
        'r' => Edit::Redo,
        'w' => Edit::Copy,
        '<' => Edit::Go(Motion::Top, false),
        '>' => Edit::Go(Motion::Bottom, false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_app_are_left_to_it() {
        for key in ["c", "d", "g", "z", "l", "o", "q", "t", "r"] {
            let key = KeyEvent::new(KeyCode::Char(key.parse().unwrap()), KeyModifiers::CONTROL);
            assert_eq!(edit_of(key), None, "{key:?}");
        }
        for code in [KeyCode::Esc, KeyCode::F(1)] {
            assert_eq!(edit_of(KeyEvent::new(code, KeyModifiers::NONE)), None);
        }
    }

    #[test]
    fn a_key_that_is_let_go_does_nothing() {
        let key = KeyEvent { kind: KeyEventKind::Release, ..KeyEvent::from(KeyCode::Char('a')) };
        assert_eq!(edit_of(key), None);
    }

    #[test]
    fn the_byte_of_control_slash_undoes() {
        assert_eq!(edit_of(KeyEvent::new(KeyCode::Char('7'), KeyModifiers::CONTROL)), Some(Edit::Undo));
    }

    #[test]
    fn capitals_are_typed() {
        assert_eq!(edit_of(KeyEvent::new(KeyCode::Char('A'), KeyModifiers::SHIFT)), Some(Edit::Insert('A')));
    }
}
