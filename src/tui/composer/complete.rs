//! What can be completed: `/` commands where the draft begins, `@` files anywhere. A name with spaces is quoted,
//! `@"a b.csv"`, with `\` before a quote or a backslash of its own.

use crate::core::clean::Clean;
use crate::tui::edit::buffer::TextBuffer;
use crate::tui::edit::text::Pos;

/// Most entries of the list; a person types on rather than scroll through more.
const MAX_ITEMS: usize = 50;

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What is inserted, safe to show.
    pub label: Clean,
    /// What it is for.
    pub help: Clean,
    insert: String,
}

/// The list over the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popup {
    /// What is offered.
    pub items: Vec<Item>,
    /// Which is chosen.
    pub selected: usize,
    /// Where the completed word begins.
    pub from: Pos,
    /// What is typed of it.
    typed: String,
}

#[derive(Debug, Clone)]
struct Candidate {
    insert: String,
    help: String,
    /// What is compared with what was typed.
    key: String,
}

/// Candidates and the list of those that fit.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    commands: Vec<Candidate>,
    files: Vec<Candidate>,
    popup: Option<Popup>,
    /// The word for which the list was closed.
    closed: Option<Pos>,
}

impl Completion {
    /// Sets what is offered. Names with control characters cannot be typed and are left out.
    pub fn set_candidates(&mut self, commands: &[(&str, &str)], files: &[String]) {
        let command = |(name, help): &(&str, &str)| Candidate {
            insert: format!("/{}", name.trim_start_matches('/')),
            help: (*help).to_owned(),
            key: name.trim_start_matches('/').to_lowercase(),
        };
        let file = |name: &String| Candidate { insert: mention(name), help: String::new(), key: name.to_lowercase() };
        self.commands = commands.iter().map(command).collect();
        self.files = files.iter().filter(|name| !name.contains(char::is_control)).map(file).collect();
    }

    /// The list, while it is open.
    pub fn popup(&self) -> Option<&Popup> {
        self.popup.as_ref()
    }

    /// Whether there is something to take that is not there yet: then Enter takes it, else it sends.
    pub fn is_open_choice(&self) -> bool {
        let Some(popup) = &self.popup else { return false };
        popup.items.get(popup.selected).is_some_and(|item| item.insert != popup.typed)
    }

    /// Looks what fits to the word before the cursor.
    pub fn refresh(&mut self, draft: &TextBuffer) {
        let Some(word) = word_at(draft) else {
            self.popup = None;
            self.closed = None;
            return;
        };
        if self.closed == Some(word.from) {
            self.popup = None;
            return;
        }
        let candidates = if word.is_command { &self.commands } else { &self.files };
        let items = fitting(candidates, &word.name.to_lowercase());
        let old = self.popup.take().filter(|popup| popup.typed == word.typed);
        let selected = old.map_or(0, |popup| popup.selected).min(items.len().saturating_sub(1));
        if !items.is_empty() {
            self.popup = Some(Popup { items, selected, from: word.from, typed: word.typed });
        }
    }

    /// Closes the list until another word begins.
    pub fn close(&mut self) {
        if let Some(popup) = self.popup.take() {
            self.closed = Some(popup.from);
        }
    }

    /// Chooses the next entry or the one before; `false` if the list is not open.
    pub fn choose(&mut self, down: bool) -> bool {
        let Some(popup) = &mut self.popup else { return false };
        let len = popup.items.len();
        popup.selected = if down { popup.selected + 1 } else { popup.selected + len - 1 } % len.max(1);
        true
    }

    /// Puts the chosen entry into the draft; `false` if the list is not open.
    pub fn take(&mut self, draft: &mut TextBuffer) -> bool {
        let Some(popup) = self.popup.take() else { return false };
        let Some(item) = popup.items.get(popup.selected) else { return false };
        let cursor = draft.cursor();
        let rest = draft.text().body(cursor.row).get(cursor.col..).unwrap_or_default();
        let space = if rest.starts_with(' ') { "" } else { " " };
        draft.replace(popup.from, cursor, &format!("{}{space}", item.insert));
        true
    }
}

fn fitting(candidates: &[Candidate], typed: &str) -> Vec<Item> {
    let rank = |candidate: &Candidate| {
        let name = candidate.key.rsplit('/').next().unwrap_or_default();
        match candidate.key.find(typed) {
            Some(0) if candidate.key == typed => Some(0),
            Some(0) => Some(1),
            Some(_) if name.starts_with(typed) => Some(2),
            Some(_) => Some(3),
            None => None,
        }
    };
    let mut found: Vec<_> = candidates.iter().filter_map(|candidate| Some((rank(candidate)?, candidate))).collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.truncate(MAX_ITEMS);
    let item = |candidate: &Candidate| Item {
        label: Clean::line(&candidate.insert),
        help: Clean::line(&candidate.help),
        insert: candidate.insert.clone(),
    };
    found.into_iter().map(|(_, candidate)| item(candidate)).collect()
}

/// How a file is named in a prompt.
fn mention(name: &str) -> String {
    if !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '"') {
        return format!("@{name}");
    }
    format!("@\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

struct Word {
    is_command: bool,
    from: Pos,
    /// All of it, with its sign.
    typed: String,
    /// The name in it.
    name: String,
}

/// The word before the cursor that can be completed.
fn word_at(draft: &TextBuffer) -> Option<Word> {
    let cursor = draft.cursor();
    let before = draft.text().body(cursor.row).get(..cursor.col)?;
    if let Some(name) = before.strip_prefix('/').filter(|_| cursor.row == 0) {
        let is_word = !name.contains(char::is_whitespace);
        return is_word.then(|| Word {
            is_command: true,
            from: Pos::default(),
            typed: before.to_owned(),
            name: name.to_owned(),
        });
    }
    let mention = scan(before).pop().filter(|found| found.end == before.len() && !found.is_closed)?;
    Some(Word {
        is_command: false,
        from: Pos::new(cursor.row, mention.start),
        typed: before.get(mention.start..)?.to_owned(),
        name: mention.name,
    })
}

/// The files a prompt names with `@`, as they are called.
pub fn mentions(text: &str) -> Vec<String> {
    let found = text.lines().flat_map(scan).map(|found| found.name);
    found.filter(|name| !name.is_empty()).collect()
}

struct Mention {
    start: usize,
    end: usize,
    name: String,
    /// It ended with its quote.
    is_closed: bool,
}

/// The mentions in a line. Within a word `@` is a part of an address.
fn scan(line: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut chars = line.char_indices().peekable();
    let mut begins = true;
    while let Some((start, c)) = chars.next() {
        if c != '@' || !begins {
            begins = c.is_whitespace() || matches!(c, '(' | '[' | '{' | '\'' | '"');
            continue;
        }
        let mut mention = Mention { start, end: line.len(), name: String::new(), is_closed: false };
        let is_quoted = chars.next_if(|(_, c)| *c == '"').is_some();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' if is_quoted => {
                    mention.is_closed = true;
                    mention.end = at + 1;
                    break;
                }
                '\\' if is_quoted => mention.name.extend(chars.next().map(|(_, c)| c)),
                _ if !is_quoted && c.is_whitespace() => {
                    mention.end = at;
                    break;
                }
                _ => mention.name.push(c),
            }
        }
        begins = !mention.is_closed;
        found.push(mention);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mention_is_read_as_it_is_written() {
        for name in ["a.csv", "a b.csv", "x/y z.csv", "q\"u.csv", "b\\s \"x", "é\u{301}漢", "b\\s"] {
            assert_eq!(mentions(&format!("look at {} and on", mention(name))), [name]);
            assert_eq!(mentions(&mention(name)), [name]);
        }
        assert_eq!(mentions("me@example.org @a.csv (@\"b c\")@d\n@e"), ["a.csv", "b c", "e"]);
        assert!(mentions("@ @\"\" x").is_empty());
    }
}
