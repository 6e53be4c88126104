//! What a person searches for in a pane. Owns the rule that capitals count only if there is one in what is searched for.

use std::ops::Range;

/// Longest text that is searched for, characters. Bounds what a search in a line of a million characters costs.
const MAX_NEEDLE: usize = 200;

/// A text to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    /// In small letters, unless capitals count.
    chars: Vec<char>,
    exact: Option<String>,
}

impl Needle {
    /// What is searched for; nothing if the text is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text: String = text.chars().take(MAX_NEEDLE).collect();
        let exact = text.chars().any(char::is_uppercase);
        let chars: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
        (!chars.is_empty()).then(|| Self { chars, exact: exact.then_some(text) })
    }

    /// The first place at or after byte `from`.
    pub fn find(&self, text: &str, from: usize) -> Option<Range<usize>> {
        let rest = text.get(from..)?;
        if let Some(exact) = &self.exact {
            let at = from + rest.find(exact.as_str())?;
            return Some(at..at + exact.len());
        }
        rest.char_indices().find_map(|(at, _)| {
            let len = self.length_at(&rest[at..])?;
            Some(from + at..from + at + len)
        })
    }

    /// The last place that ends at or before byte `to`.
    pub fn rfind(&self, text: &str, to: usize) -> Option<Range<usize>> {
        self.all(text).take_while(|found| found.end <= to).last()
    }

    /// All places, none of which overlap.
    pub fn all<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.find(text, from)?;
            from = found.end;
            Some(found)
        })
    }

    /// Bytes of `text` that match at its start.
    fn length_at(&self, text: &str) -> Option<usize> {
        let mut wanted = self.chars.iter();
        for (at, c) in text.char_indices() {
            if wanted.as_slice().is_empty() {
                return Some(at);
            }
            if !c.to_lowercase().all(|c| wanted.next() == Some(&c)) {
                return None;
            }
        }
        wanted.as_slice().is_empty().then_some(text.len())
    }

    /// Most bytes a match may take: how far beyond what is visible one must look for a match that reaches into it.
    pub fn reach(&self) -> usize {
        self.chars.len() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(needle: &str, text: &str) -> Vec<(usize, usize)> {
        Needle::new(needle).unwrap().all(text).map(|found| (found.start, found.end)).collect()
    }

    #[test]
    fn capitals_count_only_if_there_is_one() {
        assert_eq!(all("key", "Key KEY key"), [(0, 3), (4, 7), (8, 11)]);
        assert_eq!(all("Key", "Key KEY key"), [(0, 3)]);
        assert_eq!(all("ärger", "ÄRGER"), [(0, 6)]);
        assert_eq!(all("x", "İx"), [(2, 3)]);
        assert_eq!(all("aa", "aaaaa"), [(0, 2), (2, 4)]);
        assert_eq!(Needle::new(""), None);
    }

    #[test]
    fn backwards_finds_the_last_one_before() {
        let needle = Needle::new("a").unwrap();
        assert_eq!(needle.rfind("a a a", 3), Some(2..3));
        assert_eq!(needle.rfind("a a a", 0), None);
        assert_eq!(needle.find("a", 9), None);
        assert_eq!(needle.find("é", 1), None, "not on a boundary");
    }
}
