//! Reasoning inside the content, between tags.

/// Tags models put around reasoning.
const TAGS: [(&str, &str); 3] = [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];

/// Sorts pieces of content into words and reasoning while they come.
#[derive(Debug, Default)]
pub struct Think {
    /// Held back because it may be the beginning of a tag.
    held: String,
    place: Place,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Place {
    /// Nothing but white space has come, so that reasoning may begin.
    #[default]
    Start,
    /// Inside reasoning that ends with this tag.
    Inside(&'static str),
    /// Words have begun: a tag is now part of them.
    Words,
}

/// A sorted piece.
#[derive(Debug, PartialEq)]
pub enum Sorted {
    /// Words for the person.
    Words(String),
    /// Reasoning.
    Reasoning(String),
}

impl Think {
    /// Takes the next piece.
    pub fn feed(&mut self, piece: &str) -> Vec<Sorted> {
        let mut out = Vec::new();
        self.held.push_str(piece);
        loop {
            match self.place {
                Place::Words => {
                    push_words(&mut out, std::mem::take(&mut self.held));
                    return out;
                }
                Place::Start => {
                    let begun = self.held.trim_start();
                    if let Some((open, close)) = TAGS.iter().find(|(open, _)| begun.starts_with(open)) {
                        self.held = begun[open.len()..].to_owned();
                        self.place = Place::Inside(close);
                    } else if TAGS.iter().any(|(open, _)| open.starts_with(begun)) {
                        return out; // Blank so far, or the beginning of a tag.
                    } else {
                        self.place = Place::Words;
                    }
                }
                Place::Inside(close) => {
                    if let Some((reasoning, rest)) = self.held.split_once(close) {
                        push_reasoning(&mut out, reasoning.to_owned());
                        self.held = rest.to_owned();
                        self.place = Place::Start;
                    } else {
                        let keep = (1..close.len()).rev().find(|n| self.held.ends_with(&close[..*n])).unwrap_or(0);
                        let rest = self.held.split_off(self.held.len() - keep);
                        push_reasoning(&mut out, std::mem::replace(&mut self.held, rest));
                        return out;
                    }
                }
            }
        }
    }

    /// Takes the end: what was held back is what it is.
    pub fn finish(&mut self) -> Vec<Sorted> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::new();
        match self.place {
            Place::Inside(_) => push_reasoning(&mut out, held),
            Place::Start | Place::Words => push_words(&mut out, held),
        }
        out
    }
}

fn push_words(out: &mut Vec<Sorted>, text: String) {
    if !text.is_empty() {
        out.push(Sorted::Words(text));
    }
}

fn push_reasoning(out: &mut Vec<Sorted>, text: String) {
    if !text.is_empty() {
        out.push(Sorted::Reasoning(text));
    }
}

/// Words behind a closing tag whose opening one never came (it stood in the template), and how long the reasoning before
/// it is.
pub fn without_opener(words: &str) -> Option<(&str, usize)> {
    TAGS.iter().find_map(|(_, close)| words.split_once(close)).map(|(reasoning, rest)| (rest, reasoning.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sort(pieces: &[&str]) -> (String, String) {
        let mut think = Think::default();
        let mut sorted: Vec<Sorted> = pieces.iter().flat_map(|p| think.feed(p)).collect();
        sorted.extend(think.finish());
        sorted.into_iter().fold(Default::default(), |(mut words, mut reasoning): (String, String), piece| {
            match piece {
                Sorted::Words(text) => words.push_str(&text),
                Sorted::Reasoning(text) => reasoning.push_str(&text),
            }
            (words, reasoning)
        })
    }

    #[test]
    fn sorts_the_same_however_it_is_cut() {
        for (text, words, reasoning) in [
            ("<think>a < b</think>\nHello", "Hello", "a < b"),
            ("\n <thinking>ä</thinking><think>c</think> x", "x", "äc"),
            ("[THINK]a[/THINK]b", "b", "a"),
            ("<think>never closed </thin", "", "never closed </thin"),
            ("<table>", "<table>", ""),
            ("I <think>so</think>", "I <think>so</think>", ""),
            ("<thi", "<thi", ""),
        ] {
            let each: Vec<String> = text.chars().map(String::from).collect();
            let each: Vec<&str> = each.iter().map(String::as_str).collect();
            for pieces in [&[text][..], &each] {
                let (got, thought) = sort(pieces);
                assert_eq!((got.trim(), thought.as_str()), (words, reasoning), "{text}");
            }
        }
    }

    #[test]
    fn a_missing_opener_is_seen_by_the_closer() {
        assert_eq!(without_opener("hm.\n</think>\n4"), Some(("\n4", 4)));
        assert_eq!(without_opener("4"), None);
    }
}
