//! The real program in a terminal, and what can be measured from outside: bytes, time, wake-ups, memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::common::{Machine, python};
use super::pty::Pty;
use super::support::{MODEL, Say, Server};

/// Size of the terminal.
pub const COLUMNS: u16 = 120;
pub const ROWS: u16 = 40;

/// Longest wait for anything; a figure that is missed so far is a failure of the program.
const LIMIT: Duration = Duration::from_secs(60);

/// A terminal that was silent for this long shows all that comes of a key: longer than the program's own clock beats.
const QUIET: Duration = Duration::from_millis(150);

/// A thread that reads files is kept for 10 s, and ends; what is said in passing stands for less.
const KEPT: Duration = Duration::from_secs(11);

/// Longer than the time in which a question takes no answer.
const HELD: Duration = Duration::from_millis(400);

/// Colour of the border of what has the keys.
const FOCUS: vt100::Color = vt100::Color::Idx(6);

/// What begins and ends a frame.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

pub struct Stage {
    pub pty: Pty,
    /// Both last as long as the program.
    _machine: Machine,
    _server: Option<Server>,
}

impl Stage {
    /// A live session on the executor that does not isolate, so that only the screen is measured.
    pub fn live(says: Vec<Say>, flags: &[&str]) -> Self {
        let machine = Machine::new();
        let server = Server::chat(says);
        let url = server.url();
        let mut arguments = vec!["--executor", "subprocess", "--base-url", &url, "-m", MODEL, "--python", python()];
        arguments.extend(["-c", "policy.packages=[]"]);
        arguments.extend(flags);
        let pty = start(&machine, &arguments);
        Self { pty, _machine: machine, _server: Some(server) }
    }

    pub fn replay(log: &Path, flags: &[&str]) -> Self {
        let machine = Machine::new();
        let mut arguments = vec!["replay", log.to_str().unwrap()];
        arguments.extend(flags);
        let pty = start(&machine, &arguments);
        Self { pty, _machine: machine, _server: None }
    }

    /// Says yes to the executor and waits until a question can be asked.
    pub fn begin(&mut self) {
        self.wait(|s| s.contains("y go on") || s.contains("input file"));
        if !self.pty.screen().contains("input file") {
            self.pty.read_until(HELD, |_| false);
            self.pty.press("y");
        }
        self.wait_for("input file");
    }

    /// Asks, and approves the code that comes.
    pub fn ask(&mut self, question: &str) {
        self.settle();
        self.pty.type_str(question);
        self.settle();
        self.pty.press("enter");
    }

    pub fn approve(&mut self) {
        self.wait_for("y run");
        // A key right behind the question, or right before another one, is no answer.
        self.pty.read_until(HELD, |_| false);
        self.pty.press("y");
        self.wait(|s| !s.contains("y run"));
    }

    /// Gives the keys to the pane of this name.
    pub fn focus(&mut self, pane: &str) {
        for _ in 0..8 {
            self.settle();
            if self.has_keys(pane) {
                return;
            }
            self.pty.press("tab");
        }
        panic!("{pane} does not get the keys:\n{}", self.pty.screen());
    }

    /// Its border has another colour than those of the others.
    fn has_keys(&self, pane: &str) -> bool {
        let screen = self.pty.parsed();
        let title = format!("╭ {pane}");
        for row in 0..ROWS {
            let text: String = (0..COLUMNS)
                .map(|c| screen.cell(row, c).map(|c| c.contents()).filter(|c| !c.is_empty()).unwrap_or(" "))
                .collect();
            let Some(at) = text.find(&title) else { continue };
            let column = text[..at].chars().count() as u16;
            return screen.cell(row, column).is_some_and(|c| c.fgcolor() == FOCUS);
        }
        false
    }

    /// What the program is called by the system.
    pub fn process(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pty.pid()))
    }

    pub fn wait(&mut self, seen: impl Fn(&str) -> bool) {
        let found = self.pty.read_until(LIMIT, |pty| seen(&plain(pty)));
        assert!(found, "this does not come:\n{}", self.pty.screen());
    }

    pub fn wait_for(&mut self, text: &str) {
        let found = self.pty.read_until(LIMIT, |pty| plain(pty).contains(text));
        assert!(found, "no {text:?}:\n{}", self.pty.screen());
    }

    /// Waits until nothing is drawn any more.
    pub fn settle(&mut self) {
        let mut before = usize::MAX;
        while before != self.pty.raw().len() {
            before = self.pty.raw().len();
            self.pty.read_until(QUIET, |_| false);
        }
    }

    /// Types a letter the terminal does not show yet; the time until the terminal is sent it.
    pub fn echo(&mut self, letter: char) -> Duration {
        let from = self.pty.raw().len();
        let letter = letter.to_string();
        let start = Instant::now();
        self.pty.type_str(&letter);
        let found = self.pty.read_until(LIMIT, |pty| find(&pty.raw()[from..], letter.as_bytes()).is_some());
        let took = start.elapsed();
        assert!(found, "no {letter:?}:\n{}", self.pty.screen());
        took
    }

    /// Presses a key while nothing else goes on; the time until the next frame is there.
    pub fn frame_after(&mut self, key: &str) -> Duration {
        self.settle();
        let from = self.pty.raw().len();
        let start = Instant::now();
        self.pty.press(key);
        let found = self.pty.read_until(LIMIT, |pty| frame_end(&pty.raw()[from..]).is_some());
        let took = start.elapsed();
        assert!(found, "nothing is drawn after {key}:\n{}", self.pty.screen());
        took
    }

    /// Presses a key; the time until the screen says so.
    pub fn until(&mut self, key: &str, seen: impl Fn(&str) -> bool) -> Duration {
        self.settle();
        let start = Instant::now();
        self.pty.press(key);
        self.wait(seen);
        start.elapsed()
    }

    pub fn frames(&self) -> usize {
        count(self.pty.raw(), BEGIN)
    }

    /// Voluntary context switches of all threads within `time`, while nothing is done. A thread that ends counts as one.
    pub fn wake_ups(&mut self, time: Duration) -> u64 {
        self.pty.read_until(KEPT, |_| false);
        let before = switches(&self.process());
        self.pty.read_until(time, |_| false);
        let after = switches(&self.process());
        let ended = before.keys().filter(|thread| !after.contains_key(*thread)).count() as u64;
        let woken = after.iter().map(|(thread, count)| count - before.get(thread).unwrap_or(&0));
        ended + woken.sum::<u64>()
    }

    /// Resident memory now and at its highest, bytes.
    pub fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(self.process().join("status")).unwrap();
        (field(&status, "VmRSS:") * 1024, field(&status, "VmHWM:") * 1024)
    }
}

/// What is on the screen; a key and its word are kept together by a space of their own.
fn plain(pty: &Pty) -> String {
    pty.screen().replace('\u{a0}', " ")
}

fn start(machine: &Machine, arguments: &[&str]) -> Pty {
    Pty::start(&machine.bare(arguments), COLUMNS, ROWS)
}

/// From the start of the program until the screen has this word.
pub fn first_frame(machine: &Machine, arguments: &[&str], word: &str) -> Duration {
    let command = machine.bare(arguments);
    let begun = Instant::now();
    let mut pty = Pty::start(&command, COLUMNS, ROWS);
    assert!(pty.read_until(LIMIT, |pty| pty.screen().contains(word)), "{}", pty.screen());
    let took = begun.elapsed();
    pty.signal(nix::sys::signal::Signal::SIGTERM);
    pty.exit_code();
    took
}

/// The same for a recording.
pub fn first_frame_of(log: &Path, word: &str) -> Duration {
    first_frame(&Machine::new(), &["replay", log.to_str().unwrap()], word)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|w| w == part)
}

/// Where the first frame that begins in these bytes ends in them.
fn frame_end(bytes: &[u8]) -> Option<usize> {
    let begin = find(bytes, BEGIN)?;
    find(&bytes[begin..], END).map(|end| begin + end)
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|w| *w == part).count()
}

fn switches(process: &Path) -> BTreeMap<OsString, u64> {
    let threads = std::fs::read_dir(process.join("task")).unwrap().flatten();
    let status = threads.filter_map(|t| Some((t.file_name(), std::fs::read_to_string(t.path().join("status")).ok()?)));
    status.map(|(thread, s)| (thread, field(&s, "voluntary_ctxt_switches:"))).collect()
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
