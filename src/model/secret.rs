//! Keys that must not be printed.

/// A key. Neither `{:?}` nor an error shows it; it is read in one place, where the request header is made.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A server that echoes a key this short cannot be told from one that uses the word.
const SHORTEST_HIDDEN: usize = 8;

impl Secret {
    /// A key; `None` if there is nothing but white space.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key itself, for the header.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the key, for words of a server that may repeat it.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_HIDDEN { text.to_owned() } else { text.replace(&self.0, "***") }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_printed() {
        let key = Secret::new(" sk-1234567890\n").unwrap();
        assert_eq!(format!("{key:?} {key}"), "Secret(***) ***");
        assert_eq!(key.hide_in("bad key sk-1234567890!"), "bad key ***!");
        assert_eq!(key.expose(), "sk-1234567890");
    }

    #[test]
    fn a_word_as_a_key_stays_a_word() {
        assert_eq!(Secret::new("ollama").unwrap().hide_in("run ollama serve"), "run ollama serve");
        assert_eq!(Secret::new("  "), None);
    }
}
