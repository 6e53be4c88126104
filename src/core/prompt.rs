//! The words the model reads, and how much of the conversation fits into its window.

use super::event::{Mode, Problem, SessionInfo, Usage};
use super::transcript::Message;

/// Bytes of a token until the server's own count is known: text of code and English is 3 to 4.
pub const BYTES_PER_TOKEN: f64 = 3.2;

/// Longest reply asked for, tokens: long programs take 1,500, and a small model that runs away must end.
const MAX_REPLY_TOKENS: u32 = 2048;

/// What is left of the window's budget after old rounds were dropped: one big step, so that prefix caches hold.
const TRIM_TO: f64 = 0.6;

/// Tokens of a reply in a window of `window`: a quarter at most.
pub fn reply_tokens(window: u32) -> u32 {
    MAX_REPLY_TOKENS.min(window / 4).max(256)
}

/// Asks for the end of a turn that took too many steps.
pub const SUMMARISE: &str = "Stop here: no more code can be run for this question. Say in a few sentences what was \
found out so far and what is still open.";

/// The system message.
pub fn system(info: &SessionInfo, mode: Mode, profile: &str, missing: &[String]) -> String {
    let python = if info.python.is_empty() { "Python 3".to_string() } else { format!("Python {}", info.python) };
    let have: Vec<_> = info.packages.iter().filter(|p| !missing.contains(p)).map(String::as_str).collect();
    let packages = if have.is_empty() {
        "only the standard library is installed".to_string()
    } else {
        format!("installed packages: {}", have.join(", "))
    };
    let how = match mode {
        Mode::Tools => include_str!("../../assets/prompt-tools.txt"),
        Mode::Text => include_str!("../../assets/prompt-text.txt"),
    };
    let mut text = how
        .trim_end()
        .replace("{python}", &python)
        .replace("{packages}", &packages)
        .replace("{seconds}", &info.policy.timeout_seconds.to_string());
    if !profile.is_empty() {
        text.push_str("\n\n");
        text.push_str(profile.trim_end());
    }
    text
}

/// What the model is told about its tool. The rules of the system message are here too: some templates show a model
/// only one of the two.
pub fn tool_description(info: &SessionInfo) -> String {
    let packages = if info.packages.is_empty() { "the standard library only".into() } else { info.packages.join(", ") };
    format!(
        "Runs Python code and returns exit_code, stdout and stderr. Packages: {packages}. Variables, imports and functions \
         stay for later calls. Only what is printed, or is the value of the last line, comes back. If exit_code is not 0, \
         read stderr and call again with the whole corrected code."
    )
}

/// What is added to a question in text mode, where no tool in the request reminds a small model to compute.
pub fn question_suffix(mode: Mode) -> &'static str {
    match mode {
        Mode::Tools => "",
        Mode::Text => "\n\nIf this takes data or arithmetic, start with one ```python block that computes it.",
    }
}

/// What follows the result of a run in text mode, where no tool protocol says what comes next. `source` is the line that
/// raised the error.
pub fn after_run(question: &str, failed: bool, silent: bool, source: Option<&str>) -> String {
    if failed {
        let line = source.map(|s| format!(" at this line:\n    {s}\nDo that step another way")).unwrap_or_default();
        let how = if line.is_empty() { ". Find the cause" } else { "" };
        format!("The run failed{line}{how} and send the whole corrected code in one ```python block.")
    } else if silent {
        "Nothing was printed. Send one ```python block that prints the value asked for.".into()
    } else {
        format!(
            "Now answer in words, without code, using the values exactly as printed. Only if something is still missing, \
             send more code.\nQuestion: {question}"
        )
    }
}

/// Told after code opened a file that is not there.
pub fn files_note(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("{n:?}")).collect();
    format!("the files are in the working directory and are opened by exactly these names: {}", names.join(", "))
}

/// Result of a call that is a quotation.
pub fn already_ran(question: &str) -> String {
    format!(
        "not run: this code has already run, its output is above. Answer in words, without code, using the values exactly as \
         printed.\nQuestion: {question}"
    )
}

/// Result of a call the person rejected.
pub fn rejected(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => {
            format!("not run: the user rejected this code and says: {reason}\nDo not send the same code again.")
        }
        None => "not run: the user rejected this code.".into(),
    }
}

/// Asks a model that guessed to compute.
pub fn please_compute(mode: Mode) -> &'static str {
    match mode {
        Mode::Tools => "Nothing has been computed yet. Call execute_python with code that computes the answer.",
        Mode::Text => "Nothing has been computed yet. Send one ```python block that computes the answer.",
    }
}

/// Asks for an answer that rests on the output.
pub fn please_use_output(question: &str, output: &str) -> String {
    format!(
        "Your answer holds none of the numbers in the output:\n{output}\nAnswer again in words, using the values exactly \
         as printed.\nQuestion: {question}"
    )
}

/// What was wrong with a reply, for the person.
pub fn problem_for_person(problem: &Problem) -> String {
    match problem {
        Problem::Empty => "the model sent an empty reply".into(),
        Problem::LostCall => "the server lost a tool call of the model".into(),
        Problem::Cut => "the reply was cut at its token limit inside the code".into(),
        Problem::BrokenCall { why } => format!("the model's call could not be read ({why})"),
        Problem::AnnouncedOnly => "the model announced code and sent none".into(),
    }
}

/// What was wrong with a reply, for the model.
pub fn problem_for_model(problem: &Problem, mode: Mode) -> String {
    let how = match mode {
        Mode::Tools => "Call execute_python with the argument code, correctly escaped as JSON.",
        Mode::Text => "Send the complete code in one ```python block.",
    };
    match problem {
        Problem::Empty => "Your reply was empty. Answer in words, or send code to run.".into(),
        Problem::LostCall => format!("Your call did not arrive. {how}"),
        Problem::Cut => format!("Your code was cut off because it was too long. Write shorter code. {how}"),
        Problem::BrokenCall { why } => format!("Your call could not be read: {why}. {how}"),
        Problem::AnnouncedOnly => format!("No code arrived. {how}"),
    }
}

/// Which part of the conversation is sent.
#[derive(Debug)]
pub struct Fit {
    /// Messages before this one are no longer sent.
    first: usize,
    bytes_per_token: f64,
    /// Bytes of the last request, to be compared with the server's count.
    last_bytes: usize,
    /// The server said it is too long although our count says it fits.
    shrink: bool,
}

impl Default for Fit {
    fn default() -> Self {
        Self { first: 0, bytes_per_token: BYTES_PER_TOKEN, last_bytes: 0, shrink: false }
    }
}

impl Fit {
    /// Learns from the server's count. Only ever towards fewer bytes a token than assumed: the count of a server that
    /// cut the request silently is too low, and must not make us send more.
    pub fn calibrate(&mut self, usage: Usage) {
        if usage.prompt > 100 && self.last_bytes > 0 {
            let measured = self.last_bytes as f64 / usage.prompt as f64;
            self.bytes_per_token = measured.clamp(1.5, BYTES_PER_TOKEN);
        }
    }

    /// Messages from `index` on were removed; what is sent begins there at the latest.
    pub fn rewind(&mut self, index: usize) {
        self.first = self.first.min(index);
    }

    /// The next request is trimmed whatever our own count says.
    pub fn shrink(&mut self) {
        self.shrink = true;
    }

    /// The messages to send within `budget` tokens, and how many were left out newly. The question of the turn stays.
    pub fn messages(
        &mut self,
        system: String,
        transcript: &[Message],
        question: usize,
        budget: u32,
    ) -> (Vec<Message>, usize) {
        let budget_bytes = f64::from(budget) * self.bytes_per_token;
        let sizes: Vec<usize> = transcript.iter().map(size).collect();
        let total = |first: usize| {
            let kept_question = if question < first { sizes.get(question).copied().unwrap_or(0) } else { 0 };
            system.len() + kept_question + sizes[first.min(sizes.len())..].iter().sum::<usize>()
        };
        let before = self.first;
        if total(self.first) as f64 > budget_bytes || self.shrink {
            let goal = budget_bytes * TRIM_TO * if self.shrink { 0.5 } else { 1.0 };
            while total(self.first) as f64 > goal {
                let Some(next) = next_round(transcript, self.first) else { break };
                self.first = next;
            }
            self.shrink = false;
        }
        self.last_bytes = total(self.first);
        let mut messages = vec![Message::System(system)];
        if question < self.first {
            messages.extend(transcript.get(question).cloned());
        }
        messages.extend(transcript[self.first.min(transcript.len())..].iter().cloned());
        (messages, self.first - before)
    }
}

/// Where the round after the one at `first` begins; `None` if it is the last one, which is never dropped.
fn next_round(transcript: &[Message], first: usize) -> Option<usize> {
    let starts = |m: &Message| !matches!(m, Message::ToolResult { .. });
    let next = (first + 1..transcript.len()).find(|i| starts(&transcript[*i]))?;
    Some(next)
}

/// Bytes a message will take, with its frame.
fn size(message: &Message) -> usize {
    const FRAME: usize = 24;
    FRAME
        + match message {
            Message::System(text) | Message::User(text) | Message::ToolResult { text, .. } => text.len(),
            Message::Assistant { text, calls } => {
                text.len() + calls.iter().map(|c| c.code.len() + FRAME).sum::<usize>()
            }
        }
}
