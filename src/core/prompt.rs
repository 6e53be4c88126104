//! The words the model reads.

use super::event::{Mode, Problem, SessionInfo};

/// Longest reply asked for, tokens: long programs take 1,500, and a small model that runs away must end.
const MAX_REPLY_TOKENS: u32 = 2048;

/// Tokens of a reply in a window of `window`: a quarter at most.
pub fn reply_tokens(window: u32) -> u32 {
    MAX_REPLY_TOKENS.min(window / 4).max(256)
}

/// Asks for the end of a turn that took too many steps.
pub const SUMMARISE: &str = "Stop here: no more code can be run for this question. Say in a few sentences what was \
found out so far and what is still open.";

/// Says that code in the history is the person's.
pub const OWN_CODE: &str = "I ran this code in the session myself:";

/// Longest question repeated behind a result: a long one is data, and the model has it above.
const MAX_REPEATED: usize = 500;

/// The system message. `notes` are facts that came up later: packages that could not be had.
pub fn system(info: &SessionInfo, mode: Mode, profile: &str, notes: &[String]) -> String {
    let python = if info.python.is_empty() { "Python 3".to_string() } else { format!("Python {}", info.python) };
    let packages = if info.packages.is_empty() {
        "only the standard library is installed".to_string()
    } else {
        format!("installed packages: {}", info.packages.join(", "))
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
    notes.iter().for_each(|n| text.push_str(&format!("\nNote: {n}")));
    if !profile.is_empty() {
        text.push_str("\n\n");
        text.push_str(profile.trim_end());
    }
    text
}

/// A question as it is repeated.
fn repeated(question: &str) -> String {
    let Some((cut, _)) = question.char_indices().nth(MAX_REPEATED) else { return question.to_string() };
    format!("{}…", &question[..cut])
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
             send more code.\nQuestion: {}",
            repeated(question)
        )
    }
}

/// Endings of data files, for names in questions.
const DATA_ENDINGS: &[&str] = &[".csv", ".tsv", ".xlsx", ".parquet", ".json", ".jsonl"];

/// A data file the question names that is not there.
pub fn unknown_file<'a>(question: &'a str, files: &[String]) -> Option<&'a str> {
    let words = question.split(|c: char| c.is_whitespace() || "\"'`,;:()".contains(c));
    let names =
        words.map(|w| w.trim_end_matches(['.', '?', '!'])).filter(|w| DATA_ENDINGS.iter().any(|e| w.ends_with(e)));
    let is_there = |name: &str| files.iter().any(|f| f == name || f.rsplit('/').next() == name.rsplit('/').next());
    names.into_iter().find(|name| !files.is_empty() && !is_there(name))
}

/// Told with a question that names a file that is not there.
pub fn unknown_file_note(name: &str, files: &[String]) -> String {
    format!(
        "\n\n(There is no file {name:?}: {}. If none of them is meant, say so instead of guessing.)",
        files_note(files)
    )
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
         printed.\nQuestion: {}",
        repeated(question)
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
         as printed.\nQuestion: {}",
        repeated(question)
    )
}

/// Result of a call beyond the number that is taken from one reply.
pub const TOO_MANY_CALLS: &str = "not run: too many calls in one reply; send fewer";

/// Stands for a reply the person stopped.
pub const STOPPED_REPLY: &str = "(I interrupted this reply.)";

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
