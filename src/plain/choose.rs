//! `resume` without a name: the list of sessions, and the number of one of them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Kind, Result};
use crate::log::list::{self, SessionSummary};

use super::notices::Notice;
use super::typed::Typed;
use super::{Front, LAST_WORDS, exit_code, printable};

/// Sessions that are offered; older ones are continued by their name.
const OFFERED: usize = 20;

/// What the person chose.
pub(super) enum Chosen {
    /// The session in this folder.
    Session(PathBuf),
    /// To leave, with this exit code.
    Left(u8),
}

impl Front {
    /// Lists the last sessions and waits for a number.
    pub(super) async fn choose(&mut self, data: &Path) -> Result<Chosen> {
        let offered: Vec<SessionSummary> = list::list(data).take(OFFERED).collect();
        if offered.is_empty() {
            return Err(Error::usage("there is no session yet", "", "begin one: sandscript --plain"));
        }
        let mut text = String::new();
        for (at, session) in offered.iter().enumerate() {
            let started: String = session.started.as_str().chars().take("2026-11-30T20:05".len()).collect();
            text.push_str(&format!("{}: {}, {}\n", at + 1, session.title, started.replace('T', " ")));
        }
        let ask = format!("Number of the session to go on with, 1 to {} (n: none)?\n", offered.len());
        self.printer.push(printable(&format!("{text}{ask}")));
        loop {
            let waits = self.printer.waits();
            let typed = tokio::select! {
                notice = self.signals.next() => return Ok(Chosen::Left(exit_code(match notice {
                    Notice::Interrupt => nix::libc::SIGINT,
                    Notice::End(number) => number,
                }))),
                () = self.printer.pass_on(), if waits => continue,
                typed = self.keyboard.next() => typed,
            };
            match typed {
                Typed::Line(line, _) if line.trim() == "n" => return self.leave().await,
                Typed::Line(line, _) => {
                    let number = line.trim().parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                    match number.and_then(|at| offered.get(at)) {
                        Some(session) => return Ok(Chosen::Session(session.path.clone())),
                        None => self.printer.push(ask.clone()),
                    }
                }
                Typed::TooLong => self.printer.push(ask.clone()),
                Typed::End => return self.leave().await,
            }
        }
    }

    async fn leave(&mut self) -> Result<Chosen> {
        match tokio::time::timeout(LAST_WORDS, self.printer.finish()).await {
            Ok(Err(e)) => Err(Error::new(Kind::Internal, "cannot write to standard output", e.to_string(), "")),
            Ok(Ok(())) | Err(_) => Ok(Chosen::Left(0)),
        }
    }
}
