//! Colours of Python code. Owns the parsing into roles and the thread it runs on: patterns of a syntax can take seconds
//! on a hostile line, so it is off the drawing path and has bounds.
//!
//! A text that changes is parsed from its first changed line to the line after which nothing differs any more.

use std::ops::Range;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use syntect::parsing::{ParseState, Scope, ScopeStack, ScopeStackOp, SyntaxSet};
use tokio::sync::mpsc;

use crate::tui::theme::Role;

/// Longest line that is coloured, bytes. Patterns may need time that grows with the square of a line.
const MAX_LINE: usize = 2000;

/// Lines that are coloured; a longer text is no code a person reads. The rest stays plain.
const MAX_LINES: usize = 20_000;

/// Longest time one request is parsed for; the lines behind are coloured with the next one. Other code waits meanwhile, and
/// a text of nothing but hostile lines would take many minutes.
const BUDGET: Duration = Duration::from_secs(5);

/// Results that wait to be taken. The screen takes them with every frame.
const RESULTS: usize = 8;

/// A run of bytes of a line and what it is. Text between runs is ordinary.
pub type Run = (Role, Range<usize>);

/// What the parts of a code are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Painted {
    /// The runs of each line of the text split at `\n`. There may be fewer lines than in the text; the rest is plain.
    pub lines: Vec<Vec<Run>>,
}

/// Colours Python at once. Only for short code: what takes longer than a frame goes to a [`Highlighter`].
pub fn paint(code: &str) -> Painted {
    let mut painter = Painter::default();
    painter.paint(code.into(), Duration::MAX);
    Painted { lines: painter.runs }
}

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// Which scopes play which role; the innermost scope that is listed decides. `None` is ordinary text, whatever is around.
static ROLES: LazyLock<Vec<(Scope, Option<Role>)>> = LazyLock::new(|| {
    let table = [
        ("comment", Some(Role::Comment)),
        ("constant.character.escape", Some(Role::Constant)),
        ("constant.other.placeholder", Some(Role::Constant)),
        ("storage.type.string", Some(Role::Str)),
        ("string", Some(Role::Str)),
        ("meta.interpolation", None),
        ("source.python.embedded", None),
        ("constant", Some(Role::Constant)),
        ("keyword.operator.logical", Some(Role::Keyword)),
        ("keyword.operator", Some(Role::Operator)),
        ("keyword", Some(Role::Keyword)),
        ("storage", Some(Role::Keyword)),
        ("variable.language", Some(Role::Constant)),
        ("variable.function", Some(Role::Name)),
        ("entity.name", Some(Role::Name)),
        ("entity.other.inherited-class", Some(Role::Name)),
        ("support.function", Some(Role::Name)),
        ("support.type", Some(Role::Name)),
        ("punctuation.section", Some(Role::Operator)),
        ("punctuation.separator.decimal", Some(Role::Constant)),
        ("punctuation.separator", Some(Role::Operator)),
        ("punctuation.accessor", Some(Role::Operator)),
    ];
    table.into_iter().filter_map(|(name, role)| Some((Scope::new(name).ok()?, role))).collect()
});

fn role(stack: &ScopeStack) -> Option<Role> {
    let found = |scope: &Scope| ROLES.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope));
    stack.scopes.iter().rev().find_map(found).and_then(|(_, role)| *role)
}

/// Where the parser stands between two lines.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    parse: ParseState,
    scopes: ScopeStack,
}

impl State {
    fn new() -> Option<Self> {
        let syntax = SYNTAXES.find_syntax_by_extension("py")?;
        Some(Self { parse: ParseState::new(syntax), scopes: ScopeStack::new() })
    }

    /// Parses one line. A line that cannot be parsed is plain.
    fn line(&mut self, line: &str) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let Ok(ops) = self.parse.parse_line(&format!("{line}\n"), &SYNTAXES) else { return runs };
        let mut from = 0;
        for (to, op) in ops.iter().chain([&(line.len(), ScopeStackOp::Noop)]) {
            let to = (*to).min(line.len());
            if let Some(role) = role(&self.scopes).filter(|_| from < to) {
                match runs.last_mut() {
                    Some((last, range)) if *last == role && range.end == from => range.end = to,
                    _ => runs.push((role, from..to)),
                }
            }
            from = from.max(to);
            if self.scopes.apply(op).is_err() {
                break;
            }
        }
        runs
    }
}

/// Colours one text after the other, each from where it differs from the one before.
#[derive(Default)]
struct Painter {
    code: Arc<str>,
    runs: Vec<Vec<Run>>,
    /// States behind the lines. Equal neighbours share one, so that most lines cost a pointer.
    states: Vec<Arc<State>>,
}

impl Painter {
    /// Parses for at most `budget`, and goes on from there with the next text.
    fn paint(&mut self, code: Arc<str>, budget: Duration) {
        let old_code = std::mem::replace(&mut self.code, code.clone());
        let old: Vec<&str> = old_code.split('\n').take(self.states.len()).collect();
        let new: Vec<&str> = code.split('\n').take(MAX_LINES).collect();
        let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
        let most = old.len().min(new.len()) - head;
        // Only lines up to the end of the text can be taken over from it: the old one may have been left half done.
        let whole = old.len() == old_code.split('\n').take(MAX_LINES).count();
        let same_end = || old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
        let tail = if whole { same_end() } else { 0 };

        let mut old_runs = self.runs.split_off(head);
        let mut old_states = self.states.split_off(head);
        let Some(mut state) = self.states.last().cloned().or_else(|| State::new().map(Arc::new)) else { return };
        let begun = Instant::now();
        for (i, line) in new.iter().enumerate().skip(head) {
            let left = new.len() - i;
            if left <= tail {
                // The state before this line, then and now.
                let at = old_states.len() - left;
                let before = if at == 0 { self.states.get(head.wrapping_sub(1)) } else { old_states.get(at - 1) };
                if before.is_some_and(|before| **before == *state) {
                    self.runs.extend(old_runs.drain(at..));
                    self.states.extend(old_states.drain(at..));
                    return;
                }
            }
            if begun.elapsed() > budget {
                return;
            }
            let mut next = State::clone(&state);
            self.runs.push(if line.len() > MAX_LINE { Vec::new() } else { next.line(line) });
            if next != *state {
                state = Arc::new(next);
            }
            self.states.push(state.clone());
        }
    }
}

/// Code that waits to be coloured: for each id its newest text.
#[derive(Default)]
struct Waiting {
    jobs: Vec<(u64, Arc<str>)>,
    warm: bool,
    closed: bool,
}

/// A box of letters between the screen and the thread, not shared state: what is in it is taken whole. No channel of the
/// library lets a newer request take the place of an older one.
#[derive(Default)]
struct Post {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Post {
    fn open(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work; `None` when there will be no more.
    fn take(&self) -> Option<Vec<(u64, Arc<str>)>> {
        let mut waiting = self.open();
        loop {
            if waiting.closed {
                return None;
            }
            if !waiting.jobs.is_empty() || std::mem::take(&mut waiting.warm) {
                return Some(std::mem::take(&mut waiting.jobs));
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Colours code on a thread of its own. The thread ends when this is dropped.
pub struct Highlighter {
    post: Arc<Post>,
}

impl Highlighter {
    /// Starts the thread. The syntax is loaded with the first request. If there is no thread to be had, code stays plain.
    pub fn start() -> (Self, mpsc::Receiver<(u64, Arc<Painted>)>) {
        let (results, receiver) = mpsc::channel(RESULTS);
        let post = Arc::new(Post::default());
        let for_thread = post.clone();
        let _ = std::thread::Builder::new().name("highlight".into()).spawn(move || work(&for_thread, &results));
        (Self { post }, receiver)
    }

    /// Asks for the colours of `code`. Never blocks; a request of the same id that still waits is replaced.
    pub fn request(&self, id: u64, code: Arc<str>) {
        let mut waiting = self.post.open();
        match waiting.jobs.iter_mut().find(|(other, _)| *other == id) {
            Some(job) => job.1 = code,
            None => waiting.jobs.push((id, code)),
        }
        drop(waiting);
        self.post.changed.notify_one();
    }

    /// Loads the syntax ahead of the first request: it takes some tens of milliseconds.
    pub fn warm(&self) {
        self.post.open().warm = true;
        self.post.changed.notify_one();
    }
}

impl Drop for Highlighter {
    fn drop(&mut self) {
        self.post.open().closed = true;
        self.post.changed.notify_one();
    }
}

/// Code that uses most patterns, so that they are compiled.
const SAMPLE: &str = "import a as b\n@c\nclass D(E):\n    async def f(self, x: int = 1, *y) -> str:\n        \"\"\"d\"\"\"\n        \
                      return [f'{i:.2f}' for i in g(x)[1:2] if not i] + {'k': r'v\\n'}  # c\ntry:\n    x = lambda: 0x1f\n\
                      except E as e:\n    raise\nwith open('f') as f, g: print(f.read() % (1.5, None))\n";

fn work(post: &Post, results: &mpsc::Sender<(u64, Arc<Painted>)>) {
    let mut painter = Painter::default();
    while let Some(jobs) = post.take() {
        if jobs.is_empty() {
            paint(SAMPLE);
        }
        for (id, code) in jobs {
            painter.paint(code, BUDGET);
            if results.blocking_send((id, Arc::new(Painted { lines: painter.runs.clone() }))).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(code: &str) -> Vec<(Role, String)> {
        let painted = paint(code);
        let lines = code.split('\n').zip(&painted.lines);
        lines
            .flat_map(|(line, runs)| runs.iter().map(|(role, range)| (*role, line[range.clone()].to_owned())))
            .collect()
    }

    fn role_of(code: &str, word: &str) -> Option<Role> {
        seen(code).into_iter().find(|(_, text)| text.contains(word)).map(|(role, _)| role)
    }

    #[test]
    fn the_parts_of_python_have_their_roles() {
        let code = "import os\nclass A(B):\n    def f(self, n=1.5):\n        # why\n        return len(\"ü\" + x) if None else True\n";
        for (word, role) in [
            ("import", Role::Keyword),
            ("class", Role::Keyword),
            ("A", Role::Name),
            ("def", Role::Keyword),
            ("f", Role::Name),
            ("1.5", Role::Constant),
            ("# why", Role::Comment),
            ("return", Role::Keyword),
            ("len", Role::Name),
            ("\"ü\"", Role::Str),
            ("None", Role::Constant),
            ("True", Role::Constant),
        ] {
            assert!(seen(code).contains(&(role, word.to_owned())), "{word}: {:?}", seen(code));
        }
        assert_eq!(role_of("x = 1", "x"), None);
        assert_eq!(role_of("f'{total:.1f} of'", "total"), None);
        assert_eq!(role_of("f'{total:.1f} of'", " of"), Some(Role::Str));
    }

    #[test]
    fn runs_are_in_order_and_on_boundaries_of_characters() {
        let code = "s = '日本\u{202e}\u{301}' \"\"\"\r\nx é\n\"\"\" \\\n@é\ndef é(:\n\x1b[2J\0\n(((";
        let painted = paint(code);
        for (line, runs) in code.split('\n').zip(&painted.lines) {
            let mut from = 0;
            for (_, range) in runs {
                assert!(
                    range.start >= from && range.start < range.end && line.get(range.clone()).is_some(),
                    "{line:?} {runs:?}"
                );
                from = range.end;
            }
        }
        assert_eq!(painted.lines.len(), code.split('\n').count());
    }

    #[test]
    fn long_lines_and_long_texts_are_plain_beyond_their_bounds() {
        let code = format!("x = 1\n# {}\ny = 2", "a".repeat(MAX_LINE));
        let painted = paint(&code);
        assert_eq!(painted.lines[1], []);
        assert_eq!(painted.lines[2].last(), Some(&(Role::Constant, 4..5)));
        assert_eq!(paint(&"\n".repeat(MAX_LINES + 5)).lines.len(), MAX_LINES);
    }

    #[test]
    fn painting_after_a_change_equals_painting_anew() {
        let mut painter = Painter::default();
        let texts = [
            "a = 1\nb = 2\nc = 3",
            "a = 1\nb = '''2\nc = 3",
            "a = 1\nb = '''2\nc = 3\nd'''\ne = 4",
            "a = 1\nb = 2\nc = 3\nd'''\ne = 4",
            "0\na = 1\nb = 2\nc = 3\nd'''\ne = 4",
            "",
            "\n",
            "x = 'é'\n\n\nx = 'é'",
            "x = 'é'",
            "y = 1\nx = 'é'",
        ];
        for text in texts {
            painter.paint(text.into(), Duration::MAX);
            assert_eq!(painter.runs, paint(text).lines, "{text:?}");
            assert_eq!(painter.states.len(), painter.runs.len());
        }
    }

    #[test]
    fn what_was_left_for_lack_of_time_is_done_with_the_next_request() {
        let code: Arc<str> = "x = 1\n".repeat(50).into();
        let mut painter = Painter::default();
        painter.paint(code.clone(), Duration::ZERO);
        assert_eq!(painter.runs.len(), 0);
        painter.paint(code.clone(), Duration::MAX);
        assert_eq!(painter.runs, paint(&code).lines);
    }

    #[test]
    fn a_change_of_one_line_does_not_parse_the_others() {
        let mut painter = Painter::default();
        let code = "value = call('text', 12)\n".repeat(400);
        let begun = Instant::now();
        painter.paint(code.as_str().into(), Duration::MAX);
        let whole = begun.elapsed();
        let begun = Instant::now();
        painter.paint(format!("{}x = 1\n{}", &code[..5000], &code[5000..]).into(), Duration::MAX);
        assert!(begun.elapsed() * 5 < whole, "{:?} of {whole:?}", begun.elapsed());
    }

    #[test]
    fn the_newest_request_is_answered() {
        let (highlighter, mut results) = Highlighter::start();
        highlighter.warm();
        for i in 0..100 {
            highlighter.request(7, format!("x = {i}\n").into());
        }
        highlighter.request(8, "y = 1".into());
        let mut last = Vec::new();
        while !last.iter().any(|(id, _)| *id == 8) {
            last.push(results.blocking_recv().unwrap());
        }
        assert!(last.len() < 100);
        let (_, painted) = last.iter().rfind(|(id, _)| *id == 7).unwrap();
        assert_eq!(painted.lines[0].last(), Some(&(Role::Constant, 4..6)));
        drop(highlighter);
        assert!(results.blocking_recv().is_none(), "the thread has ended");
    }
}
