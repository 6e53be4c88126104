//! From everything that came to a [`Draft`].

use super::calls::MAX_CALLS;
use super::{ReplyBuilder, Stop};
use crate::core::event::{Mode, Problem, Reply};
use crate::model::salvage::{TOOL, Verdict, args, text};
use crate::model::{Candidate, Draft};

/// Tokens of an empty reply that are no sign of a swallowed call: the end mark, and one for luck.
const MAX_EMPTY_TOKENS: u64 = 2;

/// Words of servers for "the token limit was reached".
const CUT_WORDS: [&str; 4] = ["length", "max_tokens", "model_length", "max_output_tokens"];

/// Words of servers for "the model made a call".
const CALL_WORDS: [&str; 3] = ["tool_calls", "function_call", "tool_use"];

impl ReplyBuilder {
    pub(super) fn assemble(self) -> Draft {
        let cut = self.stop == Stop::Repeats || CUT_WORDS.contains(&self.finish.to_lowercase().as_str());
        let (text, verdicts) =
            if self.code_allowed { self.code(cut) } else { (self.words.trim().to_owned(), Vec::new()) };
        let (candidates, unusable) = usable(verdicts, self.next_id);
        let problem = if candidates.is_empty() { unusable.or_else(|| self.problem(&text)) } else { None };
        Draft {
            reply: Reply {
                text,
                calls: Vec::new(),
                problem,
                usage: self.usage.or(self.timed_usage),
                tokens_per_second: self.speed,
                reasoning_bytes: self.reasoning.len() as u64,
                finish: self.finish,
            },
            candidates,
        }
    }

    /// The words without the code, and the code.
    fn code(&self, cut: bool) -> (String, Vec<Verdict>) {
        let words = self.words.trim();
        if !self.calls.is_empty() {
            let each = self.calls.list().iter().map(|call| args::native(&call.name, &call.arguments, cut));
            return (words.to_owned(), each.collect());
        }
        let found = text::read(&self.words, cut);
        if found.verdicts.is_empty() {
            let drafts = if words.is_empty() { text::calls_only(&self.reasoning, cut) } else { Vec::new() };
            return (words.to_owned(), drafts);
        }
        // In text mode what follows the code was written without its result. Behind what may be text it is kept with it.
        let or_text = found.verdicts.iter().any(|verdict| matches!(verdict, Verdict::Code(c) if c.or_text));
        let after = if self.mode == Mode::Text || or_text { "" } else { found.after.as_str() };
        let both = [found.before.as_str(), after].into_iter().filter(|words| !words.is_empty());
        (both.collect::<Vec<_>>().join("\n\n"), found.verdicts)
    }

    /// Whether the reply ends with complete calls.
    pub(super) fn ends_with_call(&mut self) -> bool {
        if !self.calls.is_empty() {
            return self.calls.all_closed();
        }
        let complete = |verdict: &Verdict| matches!(verdict, Verdict::Code(found) if !found.or_text);
        let found = text::read(&self.words, true);
        !found.verdicts.is_empty() && found.verdicts.iter().all(complete) && found.after.is_empty()
    }

    /// What is wrong with a reply that holds no code.
    fn problem(&self, text: &str) -> Option<Problem> {
        let tools = self.mode == Mode::Tools && self.code_allowed;
        let says_call = tools && CALL_WORDS.contains(&self.finish.as_str());
        if text.is_empty() {
            let written = self.usage.or(self.timed_usage).map_or(0, |usage| usage.completion);
            let swallowed = tools && self.reasoning.is_empty() && written > MAX_EMPTY_TOKENS;
            return Some(if says_call {
                Problem::AnnouncedOnly
            } else if swallowed {
                Problem::LostCall
            } else {
                Problem::Empty
            });
        }
        (says_call || self.code_allowed && announces(text)).then_some(Problem::AnnouncedOnly)
    }
}

/// The candidates before the first that cannot be used: what follows it may build on it. With none, what was wrong.
fn usable(verdicts: Vec<Verdict>, first_id: u64) -> (Vec<Candidate>, Option<Problem>) {
    let mut candidates: Vec<Candidate> = Vec::new();
    if verdicts.len() > MAX_CALLS {
        return (candidates, Some(Problem::BrokenCall { why: "there are more calls than can be meant".into() }));
    }
    for (verdict, place) in verdicts.into_iter().zip(0u64..) {
        let id = nine_char_id(first_id.wrapping_add(place));
        match verdict {
            Verdict::Code(found) => candidates.push(Candidate { id, ..*found }),
            Verdict::Cut => return (candidates, Some(Problem::Cut)),
            Verdict::Broken(why) => return (candidates, Some(Problem::BrokenCall { why })),
        }
    }
    (candidates, None)
}

/// Whether a text ends by announcing code that does not come. Words that merely sound like it are an answer.
fn announces(text: &str) -> bool {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_lowercase();
    let begins = ["i will", "i'll", "let me", "let's", "now i", "calling", "i am going to", "i'm going to"];
    let intends = begins.iter().any(|words| last.contains(words));
    let ends_open = last.ends_with(':') || last.ends_with("...") || last.ends_with('…');
    let names = |words: &[&str]| words.iter().any(|word| last.contains(word));
    (intends && names(&[TOOL])) || (ends_open && (intends || names(&[TOOL])) && names(&["code", "python", TOOL]))
}

/// The id of the `counter`th call of a session: nine letters or digits, as some templates accept nothing else.
pub fn nine_char_id(counter: u64) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut rest = counter;
    let mut id = ['0'; 9];
    id[0] = 'c';
    for place in id[1..].iter_mut().rev() {
        *place = char::from(DIGITS[(rest % 36) as usize]);
        rest /= 36;
    }
    id.iter().collect()
}
