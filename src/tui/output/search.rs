//! What a person searches for in output. Small letters find large ones too; a large letter finds only itself.

use std::ops::Range;

/// Text that is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    chars: Vec<char>,
    exact: bool,
}

impl Needle {
    /// What was typed; nothing where nothing was.
    pub fn new(typed: &str) -> Option<Self> {
        let exact = typed.chars().any(char::is_uppercase);
        let chars: Vec<char> = typed.chars().map(|c| fold(c, exact)).collect();
        (!chars.is_empty()).then_some(Self { chars, exact })
    }

    /// Where it stands in `text`, in bytes, without overlaps.
    pub fn find_all(&self, text: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(range) = self.find_from(text, from) {
            from = range.end;
            found.push(range);
        }
        found
    }

    /// Whether it stands in `text`.
    pub fn is_in(&self, text: &str) -> bool {
        self.find_from(text, 0).is_some()
    }

    fn find_from(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let rest = text.get(from..)?;
        let first = *self.chars.first()?;
        rest.char_indices()
            .filter(|(_, c)| fold(*c, self.exact) == first)
            .find_map(|(at, _)| self.ends_at(rest.get(at..)?).map(|len| from + at..from + at + len))
    }

    /// How many bytes it takes at the start of `text`.
    fn ends_at(&self, text: &str) -> Option<usize> {
        let mut chars = text.char_indices();
        for wanted in &self.chars {
            let (_, c) = chars.next()?;
            if fold(c, self.exact) != *wanted {
                return None;
            }
        }
        Some(chars.offset())
    }
}

fn fold(c: char, exact: bool) -> char {
    if exact {
        c
    } else if c.is_ascii() {
        c.to_ascii_lowercase()
    } else {
        c.to_lowercase().next().unwrap_or(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(needle: &str, text: &str) -> Vec<Range<usize>> {
        Needle::new(needle).map(|n| n.find_all(text)).unwrap_or_default()
    }

    #[test]
    fn small_letters_find_large_ones() {
        assert_eq!(find("key", "Key KEY key"), [0..3, 4..7, 8..11]);
        assert_eq!(find("Key", "Key KEY key"), std::slice::from_ref(&(0..3)));
        assert_eq!(find("ÄRGER", "ärger ÄRGER"), std::slice::from_ref(&(7..13)));
        assert_eq!(find("äb", "ÄBäb"), [0..3, 3..6]);
    }

    #[test]
    fn nothing_is_found_in_nothing() {
        assert_eq!(find("", "abc"), [] as [Range<usize>; 0]);
        assert_eq!(find("abc", ""), [] as [Range<usize>; 0]);
        assert_eq!(find("aa", "aaa"), std::slice::from_ref(&(0..2)));
    }
}
