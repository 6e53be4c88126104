//! Commands that are typed: `/model`, `/run`, and the like.

use std::path::PathBuf;

use super::{App, For};
use crate::core::command::{Change, Command, Question as Asked};
use crate::core::policy::{Hold, Limit};
use crate::tui::Exit;
use crate::tui::lines::Lines;
use crate::tui::msg::Action;
use crate::tui::theme::{Theme, ThemeName};

use super::overlay::Overlay;

/// The commands, with what they do.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("/help", "keys and commands"),
    ("/model", "choose another model; /model NAME takes it"),
    ("/executor", "where code runs, and what it holds"),
    ("/retry", "ask the last question again"),
    ("/edit", "edit the failed code and run it"),
    ("/run", "write code of your own and run it in the session; or /run CODE"),
    ("/attach", "/attach PATH: a further input file or folder"),
    ("/save", "/save [FOLDER]: the files the code made, into a folder"),
    ("/export", "/export ipynb|py|md|cast [FILE]: this session as a file"),
    ("/sessions", "earlier sessions: continue, replay, rename, delete"),
    ("/resume", "the same"),
    ("/replay", "play this session from its start"),
    ("/new", "a new session"),
    ("/theme", "/theme dark|light|mono"),
    ("/set", "/set timeout|retries|steps|mouse|motion|notify VALUE"),
    ("/clear", "clear the chat pane; the session goes on"),
    ("/quit", "quit"),
];

impl App {
    /// What is offered while typing.
    pub(super) fn offer_words(&mut self) {
        let names: Vec<(&str, &str)> = COMMANDS.iter().map(|(name, help)| (&name[1..], *help)).collect();
        self.composer.set_candidates(&names, &self.story.files);
    }

    pub(super) fn slash(&mut self, text: &str) {
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match name {
            "help" => self.help(),
            "model" if rest.is_empty() => self.pick_model(),
            "model" => self.choose_model(rest.into()),
            "executor" => self.show_executor(),
            "retry" => self.retry(),
            "edit" => self.repair(),
            "run" if self.story.session.own_proposal("", None).is_none() => {
                self.say("code of your own runs between turns, when nothing else is asked");
                // Nothing typed is lost.
                self.composer.set_text(&format!("/{text}"));
            }
            "run" if rest.is_empty() => self.own_code(),
            "run" => self.send(Command::Propose { code: rest.into(), repairs: None }),
            "attach" if rest.is_empty() => self.say("write /attach PATH"),
            "attach" => self.send(Command::Set(Change::Attach(PathBuf::from(rest)))),
            "save" => self.send(Command::Save(if rest.is_empty() { ".".into() } else { PathBuf::from(rest) })),
            "export" => self.export(rest),
            "sessions" | "resume" => self.pick_session(),
            "replay" => match self.session_id().map(str::to_string) {
                Some(id) => self.leave(Exit::Replay(id)),
                None => self.say("there is no session yet"),
            },
            "new" => self.leave(Exit::New),
            "theme" => self.set_theme(rest),
            "set" => self.set(rest),
            "clear" => self.story.chat.clear(),
            "quit" | "exit" => self.leave(Exit::Quit),
            _ => {
                self.say(format!("there is no command /{name}; /help lists them"));
                // Nothing typed is lost.
                self.composer.set_text(&format!("/{text}"));
            }
        }
    }

    fn export(&mut self, rest: &str) {
        let (format, path) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !["ipynb", "py", "md", "cast"].contains(&format) {
            return self.say("write /export ipynb, py, md or cast, and a file if you like");
        }
        let path = Some(path.trim()).filter(|p| !p.is_empty()).map(PathBuf::from);
        self.ask(Asked::Export { format: format.into(), path }, For::Word);
    }

    fn set_theme(&mut self, name: &str) {
        let name = match name {
            "dark" => ThemeName::Dark,
            "light" => ThemeName::Light,
            "mono" => ThemeName::Mono,
            _ => return self.say("write /theme dark, light or mono"),
        };
        self.theme = Theme::new(name);
    }

    fn set(&mut self, rest: &str) {
        let (key, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let value = value.trim();
        let on = match value {
            "on" | "true" => Some(true),
            "off" | "false" => Some(false),
            _ => None,
        };
        match (key, value.parse::<u32>().ok(), on) {
            ("timeout", Some(n @ 1..=86_400), _) => self.send(Command::Set(Change::Timeout(n.into()))),
            ("retries", Some(n), _) => self.send(Command::Set(Change::MaxRetries(n))),
            ("steps", Some(n @ 1..), _) => self.send(Command::Set(Change::MaxSteps(n))),
            ("mouse", _, Some(on)) => {
                self.settings.mouse = on;
                self.outbox.push(Action::SetMouse(on));
                self.say(if on { "the wheel scrolls, a click chooses a pane" } else { "the mouse is the terminal's" });
            }
            ("motion", _, Some(on)) => self.settings.motion = on,
            ("notify", _, Some(on)) => self.settings.notify = on,
            _ => self.say("write /set timeout N, retries N, steps N, or mouse, motion, notify on or off"),
        }
    }

    /// Which limits hold where code runs.
    fn show_executor(&mut self) {
        let Some(info) = self.story.session.info() else { return self.say("the session has not begun yet") };
        let mut lines = vec![format!("{} · tier {} · Python {}", info.executor, info.tier, info.python), String::new()];
        for (limit, name) in LIMITS {
            let hold = match info.capabilities.hold(*limit) {
                Hold::Enforced => "enforced",
                Hold::BestEffort => "best effort",
                Hold::No => "no",
            };
            lines.push(format!("  {name:<28} {hold}"));
        }
        let lines = lines.into_iter().map(|l| crate::core::clean::Clean::line(&l).into_string().into()).collect();
        self.overlay = Some(Overlay::Lines { title: "Where code runs".into(), lines: Lines::new(lines) });
    }
}

/// The limits, as people read them.
const LIMITS: &[(Limit, &str)] = &[
    (Limit::HostFiles, "your files are out of reach"),
    (Limit::Network, "network"),
    (Limit::Kill, "stop ends every process"),
    (Limit::WallTime, "time"),
    (Limit::CpuTime, "processor time"),
    (Limit::CpuRate, "share of processors"),
    (Limit::Memory, "memory"),
    (Limit::Processes, "processes"),
    (Limit::OpenFiles, "open files"),
    (Limit::FileSize, "size of a file"),
    (Limit::Scratch, "size of the scratch folder"),
    (Limit::Output, "output"),
];
