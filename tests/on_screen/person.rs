//! Somebody who sits before the screen.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Machine, of, python, records};
use crate::pty::{LIMIT, Pty};
use crate::support::{MODEL, Say, Server};

/// A screen with all three panes beside each other.
pub const WIDE: (u16, u16) = (120, 40);

/// The chat with a pane below it.
pub const MEDIUM: (u16, u16) = (80, 24);

/// One pane at a time.
pub const SMALL: (u16, u16) = (40, 12);

/// Keys that are closer together than 8 ms, and Enter, are a paste. Nobody hits Enter that soon.
const BEFORE_ENTER: Duration = Duration::from_millis(15);

/// How long is looked for something that must not happen: a key answers 150 ms after it was pressed, and a question takes
/// keys 300 ms after it appeared. Both pass in it.
const WATCH: Duration = Duration::from_millis(600);

/// A person, their machine, and the server their model is on.
pub struct Person {
    pub pty: Pty,
    pub machine: Machine,
    pub server: Server,
}

/// The program with what every test needs.
pub fn program(machine: &Machine, url: &str, flags: &[&str]) -> Command {
    let mut all = vec!["--base-url", url, "-m", MODEL, "--python", python(), "-c", "policy.packages=[]"];
    all.extend(flags);
    let mut command = machine.bare(&all);
    command.env("TERM", "xterm-256color").env("RUST_BACKTRACE", "0");
    command
}

/// `resume`, `replay` and the like, with what every test needs.
pub fn program_for(machine: &Machine, url: &str, subcommand: &[&str]) -> Command {
    let mut all = subcommand.to_vec();
    all.extend(["--base-url", url, "-m", MODEL, "--python", python(), "-c", "policy.packages=[]"]);
    let mut command = machine.bare(&all);
    command.env("TERM", "xterm-256color").env("RUST_BACKTRACE", "0");
    command
}

impl Person {
    /// Before a session that has begun, on a wide screen; the model will say these things.
    pub fn with(says: Vec<Say>) -> Self {
        Self::on(WIDE, says)
    }

    /// The same on a screen of another size.
    pub fn on(size: (u16, u16), says: Vec<Say>) -> Self {
        Self::with_flags(size, says, &[])
    }

    /// The same with further arguments.
    pub fn with_flags(size: (u16, u16), says: Vec<Say>, flags: &[&str]) -> Self {
        Self::on_machine(Machine::new(), size, says, flags)
    }

    /// The same on a machine that has something on it already.
    pub fn on_machine(machine: Machine, size: (u16, u16), says: Vec<Say>, flags: &[&str]) -> Self {
        let server = Server::chat(says);
        let command = program(&machine, &server.url(), flags);
        let mut person = Self::before(machine, server, &command, size);
        person.consents();
        person
    }

    /// Before a program that was just started.
    pub fn before(machine: Machine, server: Server, command: &Command, size: (u16, u16)) -> Self {
        Self { pty: Pty::start(command, size.0, size.1), machine, server }
    }

    /// On the same machine, begins another program.
    pub fn starts(&mut self, size: (u16, u16), subcommand: &[&str], says: Vec<Say>) {
        self.server = Server::chat(says);
        let command = program_for(&self.machine, &self.server.url(), subcommand);
        self.pty = Pty::start(&command, size.0, size.1);
    }

    /// Says that code may run with nothing around it, and waits for the session.
    #[track_caller]
    pub fn consents(&mut self) {
        self.agrees("y go on");
        self.begins();
    }

    /// Answers a question with yes, which `keys` on the screen offers, and waits until it counts: a letter that comes
    /// right behind the key would make a word of it.
    #[track_caller]
    pub fn agrees(&mut self, keys: &str) {
        self.sees(keys);
        self.press("y");
        self.sees_no(keys);
    }

    /// Waits until the session has begun.
    #[track_caller]
    pub fn begins(&mut self) {
        // On small screens the rest of the line at the bottom is not shown.
        self.sees("subprocess, not");
        self.sees("Ctrl-D quit");
    }

    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        self.pty.wait_for(text);
    }

    /// Waits until `text` is gone.
    #[track_caller]
    pub fn sees_no(&mut self, text: &str) {
        let gone = self.pty.read_until(LIMIT, |pty| !pty.screen().contains(text));
        assert!(gone, "{text:?} stays on the screen:\n{}", self.pty.screen());
    }

    /// Waits until the screen is as `seen` says.
    #[track_caller]
    pub fn sees_that(&mut self, what: &str, mut seen: impl FnMut(&str) -> bool) {
        let found = self.pty.read_until(LIMIT, |pty| seen(&pty.screen()));
        assert!(found, "not so: {what}\n{}", self.pty.screen());
    }

    pub fn screen(&self) -> String {
        self.pty.screen()
    }

    pub fn press(&mut self, key: &str) {
        self.pty.press(key);
    }

    /// Types what is then seen.
    #[track_caller]
    pub fn writes(&mut self, text: &str) {
        self.pty.type_str(text);
        self.sees(text);
    }

    /// Enter, as a person presses it.
    pub fn enter(&mut self) {
        self.watches(BEFORE_ENTER);
        self.press("enter");
    }

    /// Types a question and sends it.
    #[track_caller]
    pub fn asks(&mut self, question: &str) {
        self.pty.type_str(question);
        // It may have been asked before; behind the sign it is the draft. Long ones are wrapped.
        self.sees(&format!("> {}", question.chars().take(30).collect::<String>().trim_end()));
        self.enter();
    }

    /// Answers the code that waits.
    #[track_caller]
    pub fn answers(&mut self, key: &str) {
        self.is_asked();
        self.press(key);
    }

    /// Waits until code waits and has the keys.
    #[track_caller]
    pub fn is_asked(&mut self) {
        // In its first moments the question takes no keys yet.
        self.sees_that("a question that takes keys", |screen| {
            screen.contains("y run") && !screen.contains("code came")
        });
    }

    /// Sees for some time that nothing comes of it.
    pub fn watches(&mut self, time: Duration) {
        self.pty.read_until(time, |_| false);
    }

    pub fn watches_that_nothing_happens(&mut self) {
        self.watches(WATCH);
    }

    /// Leaves; what is to be seen then is what was before.
    #[track_caller]
    pub fn quits(&mut self) {
        self.press("ctrl-d");
        self.is_out();
    }

    /// The program has ended well and left the terminal as it was.
    #[track_caller]
    pub fn is_out(&mut self) {
        let code = self.pty.exit_code();
        assert_eq!(code, 0, "{}", self.pty.screen());
        self.pty.assert_given_back();
        self.pty.assert_cooked();
    }

    // ---- behind the screen -------------------------------------------------------------------------------------------

    /// Records of the only session.
    pub fn log(&self) -> Vec<Value> {
        self.machine.log()
    }

    /// Waits until a log has a record of this kind with `text` in it.
    #[track_caller]
    pub fn wait_for_record(&mut self, kind: &str, text: &str) -> Value {
        let until = Instant::now() + LIMIT;
        loop {
            for log in self.machine.logs() {
                let written = std::fs::read_to_string(&log).unwrap_or_default();
                // The last line may be on its way.
                let whole = &written[..written.rfind('\n').map_or(0, |end| end + 1)];
                let found = records(whole).into_iter().find(|r| r["type"] == kind && r.to_string().contains(text));
                if let Some(record) = found {
                    return record;
                }
            }
            assert!(Instant::now() < until, "no {kind} with {text:?} in the log:\n{}", self.pty.screen());
            self.watches(Duration::from_millis(10));
        }
    }

    /// Waits until a file has this text.
    #[track_caller]
    pub fn wait_for_file(&mut self, path: &Path, text: &str) {
        let until = Instant::now() + LIMIT;
        while !std::fs::read_to_string(path).is_ok_and(|found| found.contains(text)) {
            assert!(Instant::now() < until, "no {text:?} in {}:\n{}", path.display(), self.pty.screen());
            self.watches(Duration::from_millis(10));
        }
    }

    /// All messages of the last request to the model, as text.
    pub fn told(&self) -> String {
        self.server.chats().last().unwrap().json()["messages"].to_string()
    }

    /// Waits for so many requests to the model.
    #[track_caller]
    pub fn wait_for_requests(&mut self, count: usize) {
        let until = Instant::now() + LIMIT;
        while self.server.chats().len() < count {
            assert!(Instant::now() < until, "{} requests:\n{}", self.server.chats().len(), self.pty.screen());
            self.watches(Duration::from_millis(10));
        }
    }
}

impl Drop for Person {
    /// What a failed test is understood by.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in self.machine.logs() {
                println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            println!("{} requests to the model", self.server.chats().len());
        }
    }
}

/// What the runs of a log printed to standard output.
pub fn printed(log: &[Value]) -> String {
    let output = of(log, "run_output").into_iter().filter(|r| r["stream"] == "stdout");
    output.map(|r| r["text"].as_str().unwrap()).collect()
}

/// How each turn ended.
pub fn statuses(log: &[Value]) -> Vec<&str> {
    of(log, "turn_ended").iter().map(|r| r["status"].as_str().unwrap()).collect()
}
