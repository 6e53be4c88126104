//! Commands that are typed: `/model`, `/run`, and the like.

use std::path::PathBuf;

use crate::core::command::{Change, Command, Question as Asked};

use super::ask::{MAX_SECONDS, short};
use super::talk::{Action, EditFor, For, Talk};

/// The commands, with what they do.
const COMMANDS: &[(&str, &str)] = &[
    ("/help", "this list"),
    ("/model [NAME]", "the models of the server; with a name, take that one"),
    ("/retry", "ask the last question again"),
    ("/edit", "edit the failed code in your editor and run it"),
    ("/run [CODE]", "run code of your own; without any, your editor opens"),
    ("/attach PATH", "a further input file or folder"),
    ("/save [FOLDER]", "the files the code made, into a folder"),
    ("/export FORMAT [FILE]", "this session as ipynb, py, md or cast"),
    ("/set WHAT NUMBER", "timeout, retries or steps"),
    ("/send", "send what was typed and not sent"),
    ("/drop", "forget what waits to be sent"),
    ("/quit", "quit, as Ctrl-D does; Ctrl-C stops what goes on"),
];

/// How code of the person's own begins that waits to be sent.
pub(super) const RUN: &str = "/run ";

impl Talk {
    /// A command, without its slash.
    pub(super) fn slash(&mut self, text: &str) {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "help" => self.help(),
            "model" if rest.is_empty() => self.ask(Asked::Models, For::Word),
            "model" => self.set(Change::Model(rest.into())),
            "retry" if self.last_question.is_empty() => self.say("Nothing was asked yet.\n"),
            "retry" => self.message(self.last_question.clone(), ""),
            "edit" => self.repair(),
            "run" if !self.is_free() => {
                self.held.push(format!("/{text}"));
                self.say("Code of your own runs when nothing else goes on: then write /send\n");
            }
            "run" if rest.is_empty() => self.write(String::new(), None),
            "run" => self.propose(rest.to_string(), None),
            "attach" if rest.is_empty() => self.say("Write /attach PATH\n"),
            "attach" => self.set(Change::Attach(PathBuf::from(rest))),
            "save" if !self.made_files => self.say("The code made no files yet.\n"),
            "save" => {
                let folder = if rest.is_empty() { ".".into() } else { PathBuf::from(rest) };
                self.actions.push(Action::Send(Command::Save(folder)));
            }
            "export" => self.export(rest),
            "set" => self.set_limit(rest),
            "send" => self.send_held(),
            "drop" => self.forget(),
            "quit" | "exit" => self.actions.push(Action::Quit),
            _ => {
                self.held.push(format!("/{text}"));
                self.say(&format!(
                    "There is no command /{}. /help lists them; /send sends what you typed to the model.\n",
                    short(name)
                ));
            }
        }
    }

    fn help(&mut self) {
        let mut text = String::from("What you type goes to the model. Commands:\n");
        text.extend(COMMANDS.iter().map(|(name, help)| format!("{name}: {help}\n")));
        self.say(&text);
    }

    fn set(&mut self, change: Change) {
        self.actions.push(Action::Send(Command::Set(change)));
    }

    fn set_limit(&mut self, rest: &str) {
        let (what, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        match (what, value.trim().parse::<u32>()) {
            ("timeout", Ok(n)) if (1..=MAX_SECONDS).contains(&u64::from(n)) => self.set(Change::Timeout(n.into())),
            ("retries", Ok(n)) => self.set(Change::MaxRetries(n)),
            ("steps", Ok(n @ 1..)) => self.set(Change::MaxSteps(n)),
            _ => self.say("Write /set timeout SECONDS, /set retries N or /set steps N\n"),
        }
    }

    fn export(&mut self, rest: &str) {
        let (format, path) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !["ipynb", "py", "md", "cast"].contains(&format) {
            return self.say("Write /export ipynb, py, md or cast, and a file if you like.\n");
        }
        let path = Some(path.trim()).filter(|p| !p.is_empty()).map(PathBuf::from);
        self.ask(Asked::Export { format: format.into(), path }, For::Word);
    }

    fn repair(&mut self) {
        if !self.is_free() || self.last_code.is_empty() {
            return self.say("There is no failed code to edit now.\n");
        }
        let step = self.session.repairable();
        self.write(self.last_code.clone(), step);
    }

    fn write(&mut self, text: String, repairs: Option<u32>) {
        self.actions.push(Action::Edit { text, purpose: EditFor::Own(repairs) });
    }

    fn send_held(&mut self) {
        let (code, words): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.held).into_iter().partition(|text| text.starts_with(RUN));
        self.held = code;
        if !words.is_empty() {
            return self.message(words.join("\n"), "");
        }
        if self.held.is_empty() {
            return self.say("Nothing waits to be sent.\n");
        }
        let first = self.held.remove(0);
        self.propose(first.strip_prefix(RUN).unwrap_or(&first).to_string(), None);
    }

    fn forget(&mut self) {
        let waited = self.held.len() + self.queue.len();
        self.held.clear();
        self.queue.clear();
        self.say(if waited == 0 { "Nothing waited.\n" } else { "It is forgotten.\n" });
    }
}
