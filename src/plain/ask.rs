//! Questions, in words: what is asked, what it means, and what an answer is. Answers are whole lines; an empty line is
//! none, and neither is anything that is not exactly one of those that are offered.

use crate::core::clean::Clean;
use crate::core::command::{Command, Question as Asked};
use crate::core::event::{Failure, Proposal, Terms};
use crate::core::policy::{Capabilities, Hold, Limit, Network};
use crate::core::show;

use super::talk::{Action, EditFor, For, Talk};

/// Longest time limit of a run, seconds: a day, as in the configuration.
pub(super) const MAX_SECONDS: u64 = 86_400;

/// What is asked.
#[derive(Debug, Clone)]
pub(super) enum Asking {
    /// May code run where nothing isolates it?
    Unsandboxed,
    /// The session could not begin. Try again? The models the server has, where the configured one is not among them.
    StartFailed(Failure, Vec<String>),
    /// May these cells run again?
    Rebuild { cells: Vec<(u32, String)>, terms: Terms },
    /// May this run?
    Approval,
}

impl Talk {
    /// The line that asks, with all an answer covers besides what was printed before it.
    pub(super) fn question(&mut self) -> Option<String> {
        Some(match self.asking.clone()? {
            Asking::Unsandboxed => {
                "Go on without isolation, with every piece of code still asked? [y/n/?] ".to_string()
            }
            Asking::StartFailed(..) => "Try again? [y/n/m NAME/?] ".to_string(),
            Asking::Rebuild { cells, terms } => {
                let count = cells.len();
                let what = if count == 1 { "this cell".to_string() } else { format!("these {count} cells") };
                let place = self.place(&terms);
                format!("Run {what} again in {place}, limit {} s each? [y/n/?] ", terms.timeout_seconds)
            }
            Asking::Approval => {
                let proposal = self.session.proposal()?.clone();
                let text = self.approval_line(&proposal);
                self.shown = Some(proposal);
                text
            }
        })
    }

    fn approval_line(&self, proposal: &Proposal) -> String {
        let edited = self.edited_for(&proposal.call);
        let mut text = String::new();
        match unseen(edited.unwrap_or(&proposal.code)) {
            0 => {}
            1 => text.push_str("warning: 1 invisible character, printed by its name\n"),
            n => text.push_str(&format!("warning: {n} invisible characters, printed by their names\n")),
        }
        if let Some(asked) = proposal.asked_seconds {
            text.push_str(&format!("the model asked for {asked} s\n"));
        }
        let what = if edited.is_some() { "the edited code" } else { "this" };
        let terms = &proposal.terms;
        text.push_str(&format!("Run {what} in {}, limit {} s? [y/n/e/t/?] ", self.place(terms), terms.timeout_seconds));
        text
    }

    /// Where code runs, and what does not hold there.
    fn place(&self, terms: &Terms) -> String {
        let none = Capabilities::default();
        let capabilities = self.session.info().map_or(&none, |info| &info.capabilities);
        let isolation = match capabilities.hold(Limit::HostFiles) {
            Hold::Enforced => "isolated",
            Hold::BestEffort => "isolated as well as this machine can",
            Hold::No => "NOT isolated",
        };
        let network = match (&terms.network, capabilities.hold(Limit::Network)) {
            (Network::Off, Hold::Enforced) => String::new(),
            // It has all rights of the person, this one too.
            (Network::Off, Hold::No) if capabilities.hold(Limit::HostFiles) == Hold::No => String::new(),
            (Network::Off, Hold::BestEffort | Hold::No) => ", network not held".into(),
            (Network::List(hosts), _) => format!(", network: {}", Clean::line(&hosts.join(" "))),
            (Network::On, _) => ", network on".into(),
        };
        let tier = if terms.tier == "-" { String::new() } else { format!(" {}", Clean::line(&terms.tier)) };
        format!("{}{tier} ({isolation}{network})", Clean::line(&terms.executor))
    }

    /// A line that came alone, long enough after the question.
    pub(super) fn answer(&mut self, line: &str) {
        let Some(asking) = self.asking.clone() else { return };
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match (asking, word, rest.trim()) {
            (asking, "?", "") => {
                let text = self.explanation(&asking);
                self.say(&text);
            }
            (Asking::Unsandboxed, "y", "") => {
                self.unsandboxed = true;
                self.start(None);
            }
            (Asking::StartFailed(..), "y", "") => self.start(None),
            (Asking::StartFailed(..), "m", name) if !name.is_empty() => self.start(Some(name.to_string())),
            (Asking::Unsandboxed | Asking::StartFailed(..), "n", "") => self.actions.push(Action::Quit),
            (Asking::Rebuild { cells, terms }, "y" | "n", "") => {
                self.asking = None;
                let (cells, terms) = (cells.clone(), terms.clone());
                self.order(Command::Rebuild { approved: word == "y", cells, terms });
            }
            (Asking::Approval, "y", "") => self.approve(),
            (Asking::Approval, "n", reason) => self.reject(Some(reason.to_string()).filter(|r| !r.is_empty())),
            (Asking::Approval, "e", "") => self.edit_proposal(),
            (Asking::Approval, "t", seconds) => self.limit(seconds),
            (asking, ..) => self.no_answer(&asking, line),
        }
    }

    /// What was typed is no answer. It is kept, in case it was meant for the model.
    pub(super) fn no_answer(&mut self, asking: &Asking, text: &str) {
        self.held.push(text.to_string());
        let expected = expected(asking);
        self.say(&format!(
            "That is no answer: {}\nAnswer {expected}. To send what you typed to the model, write /send\n",
            short(text)
        ));
    }

    /// Only Enter.
    pub(super) fn nothing_typed(&mut self) {
        if let Some(asking) = self.asking.clone() {
            self.say(&format!("Enter alone is no answer. Answer {}.\n", expected(&asking)));
        }
    }

    fn explanation(&self, asking: &Asking) -> String {
        match asking {
            Asking::Unsandboxed => {
                "y: code runs with all your rights; each piece is printed and asked before it runs\nn: quit\n".into()
            }
            Asking::StartFailed(failure, models) => format!(
                "{}{}y: try again\nm NAME: try with another model\nn: quit\n",
                show::failure_lines(&failure.to_string(), &failure.hint),
                model_lines(models)
            ),
            Asking::Rebuild { .. } => "y: the cells printed above run again, so that their variables are back\n\
                 n: the session goes on without the variables\n"
                .into(),
            Asking::Approval => format!(
                "y: run it, exactly as it was printed\n\
                 n: do not run it, and end the turn\n\
                 n REASON: do not run it; the model reads the reason and tries again\n\
                 e: edit it in your editor; you are asked again before it runs\n\
                 t SECONDS: another time limit for this run, at most {MAX_SECONDS}\n\
                 /help: what else can be typed\n"
            ),
        }
    }

    fn start(&mut self, model: Option<String>) {
        self.asking = None;
        self.actions.push(Action::Send(Command::Start { unsandboxed: self.unsandboxed, model }));
        self.waiting.begin("waiting for the session to begin", self.now);
    }

    /// Approves exactly what was printed: the bytes and the terms.
    fn approve(&mut self) {
        let Some(Proposal { step, attempt, call, terms, .. }) = self.shown.take() else { return };
        let edited = self.edited_for(&call).map(str::to_string);
        self.order(Command::Approve { step, attempt, call, edited, by: "user".into(), terms });
    }

    fn reject(&mut self, reason: Option<String>) {
        let Some(Proposal { step, attempt, call, .. }) = self.shown.take() else { return };
        self.order(Command::Reject { step, attempt, call, reason });
    }

    fn limit(&mut self, typed: &str) {
        let Some(Proposal { step, attempt, call, .. }) = self.shown.clone() else { return };
        match typed.parse() {
            Ok(timeout_seconds @ 1..=MAX_SECONDS) => {
                self.order(Command::Amend { step, attempt, call, timeout_seconds });
            }
            Ok(_) | Err(_) => self.say(&format!("Write t and a number of seconds from 1 to {MAX_SECONDS}.\n")),
        }
    }

    fn edit_proposal(&mut self) {
        let Some(Proposal { call, code, .. }) = self.shown.clone() else { return };
        let text = self.edited_for(&call).unwrap_or(&code).to_string();
        self.actions.push(Action::Edit { text, purpose: EditFor::Proposal { call, code } });
    }

    /// The person edited what is proposed.
    pub(super) fn proposal_edited(&mut self, call: String, code: &str, text: String) {
        if text.trim().is_empty() {
            return self.say("Nothing was left of the code; it is as it was.\n");
        }
        if text == code {
            self.edited = None;
            return self.say("The code is as the model wrote it.\n");
        }
        self.say(&super::difference(code, &text));
        self.ask(Asked::Compile(text.clone()), For::Check(call.clone()));
        self.edited = Some((call, text));
    }

    /// The compile check of an edited code.
    pub(super) fn checked(&mut self, call: &str, error: Option<(u32, String)>) {
        if let (Some(_), Some((line, message))) = (self.edited_for(call), error) {
            self.say(&format!("warning: the edited code does not compile: line {line}: {}\n", Clean::line(&message)));
        }
    }

    fn edited_for(&self, call: &str) -> Option<&str> {
        self.edited.as_ref().filter(|(edited, _)| edited == call).map(|(_, text)| text.as_str())
    }
}

fn expected(asking: &Asking) -> &'static str {
    match asking {
        Asking::Unsandboxed | Asking::Rebuild { .. } => "y or n, or ? for more",
        Asking::StartFailed(..) => "y, n or m NAME, or ? for more",
        Asking::Approval => "y, n, n REASON, e or t SECONDS, or ? for more",
    }
}

/// Names of models, one a line.
pub(super) fn model_lines(models: &[String]) -> String {
    models.iter().map(|name| format!("model {}\n", Clean::line(name))).collect()
}

/// The beginning of what was typed, on one line.
pub(super) fn short(text: &str) -> String {
    /// Enough to know it again.
    const MAX: usize = 60;
    let line = Clean::line(text).into_string();
    let mut chars = line.chars();
    let begun: String = chars.by_ref().take(MAX).collect();
    if chars.next().is_some() { format!("{begun}…") } else { begun }
}

/// Characters of a code that cannot be seen and are printed by their names.
fn unseen(code: &str) -> usize {
    let named = Clean::code(code).as_str().matches("<U+").count();
    // What looks like a name in the code itself is none.
    named - code.matches("<U+").count().min(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_cannot_be_seen_are_counted() {
        for (code, count) in [
            ("print(1)\n\tx = 2\r\n", 0),
            ("a\u{202e}b\u{200b}", 2),
            ("x\ry", 1),
            ("'<U+202E>'", 0),
            ("'<U+202E>'\u{202e}", 1),
            ("e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}", 2),
        ] {
            assert_eq!(unseen(code), count, "{code:?}");
        }
    }

    #[test]
    fn what_was_typed_is_told_in_short() {
        assert_eq!(short("a\u{1b}[31m b\nc"), "a b c");
        assert_eq!(short(&"x".repeat(61)), format!("{}…", "x".repeat(60)));
    }
}
