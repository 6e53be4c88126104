//! `--plain`: the real binary over pipes, as a person behind a screen reader uses it: lines in, lines out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg(unix)]

mod common;
#[cfg(target_os = "linux")]
mod pty;
mod support;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{Machine, Ran, exit_codes, of, python, wait};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Exchange, MODEL, Piece, Say, Server};

/// Longer than anything takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a person takes to answer at least: longer than what is typed counts as typed before the question.
const A_MOMENT: Duration = Duration::from_millis(400);

const APPROVE: &str = "Run this in subprocess (NOT isolated), limit 10 s? [y/n/e/t/?]";

struct Plain {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// What was waited for before this is past.
    seen: usize,
}

impl Plain {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let (tell, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut buffer) {
                if tell.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, output, bytes: Vec::new(), seen: 0 }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).unwrap()
    }

    /// Waits until `text` is printed, behind what was waited for before.
    fn wait_for(&mut self, text: &str) {
        let until = Instant::now() + LIMIT;
        loop {
            let found = self.bytes[self.seen..].windows(text.len()).position(|w| w == text.as_bytes());
            if let Some(at) = found {
                self.seen += at + text.len();
                return;
            }
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.bytes.extend(bytes),
                Err(e) => panic!("no {text:?}: {e}\n{}", self.text()),
            }
        }
    }

    fn type_line(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Waits for a question, reads it as a person does, and answers.
    fn answer(&mut self, question: &str, line: &str) {
        self.wait_for(question);
        std::thread::sleep(A_MOMENT);
        self.type_line(line);
    }

    fn consent(&mut self) {
        self.answer("Go on without isolation, with every piece of code still asked? [y/n/?]", "y");
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// No more is typed.
    fn close(&mut self) {
        self.input = None;
    }

    /// The exit code and all that was printed.
    fn end(mut self) -> (i32, String) {
        let status = wait(&mut self.child, LIMIT);
        while let Ok(bytes) = self.output.recv_timeout(LIMIT) {
            self.bytes.extend(bytes);
        }
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(errors, "", "{}", self.text());
        (status.code().unwrap_or(-1), self.text())
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn command(m: &Machine, server: &Server, arguments: &[&str]) -> Command {
    let url = server.url();
    let mut all = vec!["--plain", "--executor", "subprocess", "--base-url", &url, "-m", MODEL];
    all.extend(["--python", python(), "-c", "policy.packages=[]"]);
    all.extend(arguments);
    m.bare(&all)
}

/// The program in front of a session whose code may run.
fn begin(m: &Machine, server: &Server, arguments: &[&str]) -> Plain {
    let mut plain = Plain::start(&mut command(m, server, arguments));
    plain.consent();
    plain
}

/// A call that comes after a while.
fn slow_call(code: &str, after: Duration) -> Say {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({"id": "x", "object": "chat.completion.chunk", "model": MODEL,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let function = json!({"name": "execute_python", "arguments": json!({"code": code}).to_string()});
    let call = json!({"index": 0, "id": "call_0", "type": "function", "function": function});
    let data = [chunk(json!({"tool_calls": [call]}), None), chunk(json!({}), Some("tool_calls"))];
    Say::Reply(Exchange::on("POST /v1/chat/completions").piece(Piece::Pause(after)).events(&data))
}

fn runs(m: &Machine) -> usize {
    of(&m.log(), "run_started").len()
}

#[test]
fn a_question_is_asked_its_code_approved_and_answered() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("x = 6\nprint(x * 7)"), Say::text("It is 42."), Say::text("Bye then.")]);
    let mut plain = begin(&m, &server, &["What is 6 times 7?"]);
    plain.wait_for("You: What is 6 times 7?");
    plain.wait_for("Code, step 1, 2 lines:\n   1  x = 6\n   2  print(x * 7)\n");
    plain.answer(APPROVE, "y");
    plain.wait_for("   42\nexit 0");
    plain.wait_for("Answer: It is 42.\n");
    plain.type_line("Thank you");
    plain.wait_for("You: Thank you\n");
    plain.wait_for("Answer: Bye then.\n");
    plain.type_line("/quit");
    let (code, text) = plain.end();
    assert_eq!(code, 0);
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("go on with: sandscript --plain resume "), "{text}");
    assert!(!text.contains('│'), "nothing is drawn: {text}");
    let log = m.log();
    assert_eq!(exit_codes(&log), [0]);
    assert_eq!(of(&log, "code_approved")[0]["by"], "user");
    assert_eq!(log.last().unwrap()["type"], "session_ended");
}

#[test]
fn a_reason_goes_to_the_model_and_without_one_the_turn_ends() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print('mean')"), Say::call("print('median')")]);
    let mut plain = begin(&m, &server, &["q"]);
    plain.answer(APPROVE, "n use the median instead");
    plain.wait_for("rejected: use the median instead");
    plain.answer(APPROVE, "n");
    plain.wait_for("Rejected");
    plain.type_line("/quit");
    assert_eq!(plain.end().0, 0);
    assert_eq!(runs(&m), 0);
    let told = server.chats()[1].json()["messages"].to_string();
    assert!(told.contains("use the median instead"), "{told}");
}

#[test]
fn what_is_typed_ahead_approves_nothing_and_is_sent_when_it_is_its_turn() {
    let m = Machine::new();
    let server =
        Server::chat(vec![slow_call("print(1)", Duration::from_secs(2)), Say::text("One."), Say::text("Yes what?")]);
    let mut plain = begin(&m, &server, &["q"]);
    plain.wait_for("You: q");
    plain.type_line("y");
    plain.wait_for("Queued as your next message: y\n");
    plain.wait_for(APPROVE);
    // The question stands; it is answered by what is typed now.
    plain.wait_for("\n");
    std::thread::sleep(A_MOMENT);
    assert_eq!(runs(&m), 0);
    plain.type_line("y");
    plain.wait_for("Answer: One.");
    plain.wait_for("You: y\n");
    plain.wait_for("Answer: Yes what?");
    plain.close();
    assert_eq!(plain.end().0, 0);
    let said: Vec<String> = of(&m.log(), "user_said").iter().map(|r| r["text"].as_str().unwrap().into()).collect();
    assert_eq!(said, ["q", "y"]);
}

#[test]
fn nothing_but_an_answer_answers() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(1)"), Say::text("One."), Say::text("Pleased.")]);
    let mut plain = begin(&m, &server, &["q"]);
    for (line, told) in [
        ("", "Enter alone is no answer."),
        ("   ", "Enter alone is no answer."),
        ("yes please", "That is no answer: yes please\n"),
        ("yes", "That is no answer: yes\n"),
        ("t forever", "Write t and a number of seconds"),
        ("foo\ny", "That is no answer: foo y\n"),
        ("?", "y: run it, exactly as it was printed\n"),
        ("/nonsense", "There is no command /nonsense."),
    ] {
        plain.answer(APPROVE, line);
        plain.wait_for(told);
    }
    plain.answer(APPROVE, "t 20");
    plain.wait_for("time limit 20 s");
    assert_eq!(runs(&m), 0);
    plain.answer("limit 20 s? [y/n/e/t/?]", "y");
    plain.wait_for("Answer: One.");
    // Nothing that was typed is lost.
    plain.type_line("/send");
    plain.wait_for("You: yes please\n");
    plain.close();
    plain.wait_for("Answer: Pleased.");
    assert_eq!(plain.end().0, 0);
    let log = m.log();
    assert_eq!(of(&log, "run_started")[0]["terms"]["timeout_seconds"], 20);
    assert_eq!(of(&log, "user_said")[1]["text"], "yes please\nyes\nfoo\ny\n/nonsense");
}

fn editor(m: &Machine, script: &str) -> String {
    let path = m.path("home/my editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    format!("'{}'", path.display())
}

#[test]
fn an_edit_is_shown_as_a_difference_and_asked_again() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("a = 1\nprint(a)\n"), Say::text("It is 3.")]);
    let editor = editor(&m, "sed -i 's/a = 1/a = 3/' \"$1\"");
    let mut plain = Plain::start(command(&m, &server, &["q"]).env("EDITOR", editor));
    plain.consent();
    plain.answer(APPROVE, "e");
    plain.wait_for("- a = 1\n+ a = 3\n  print(a)\n");
    plain.answer("Run the edited code in subprocess (NOT isolated), limit 10 s? [y/n/e/t/?]", "y");
    plain.wait_for("approved as edited\n");
    plain.wait_for("   3\n");
    plain.wait_for("Answer: It is 3.");
    plain.close();
    assert_eq!(plain.end().0, 0);
    let log = m.log();
    assert_eq!(of(&log, "code_approved")[0]["edited"], "a = 3\nprint(a)\n");
    assert_eq!(of(&log, "code_proposed")[0]["code"], "a = 1\nprint(a)\n");
}

#[test]
fn an_edit_that_does_not_compile_is_said_and_an_editor_that_fails_changes_nothing() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(1)"), Say::text("It is 1.")]);
    let first = m.path("tmp/first");
    let script = format!("if test -e {0}; then exit 3; fi; touch {0}; echo 'print(' > \"$1\"", first.display());
    let editor = editor(&m, &script);
    let mut plain = Plain::start(command(&m, &server, &["q"]).env("EDITOR", editor));
    plain.consent();
    plain.answer(APPROVE, "e");
    plain.wait_for("warning: the edited code does not compile: line 1: ");
    plain.answer("Run the edited code in", "e");
    plain.wait_for("error: the editor failed: it ended with exit code 3\n");
    plain.wait_for("Run the edited code in");
    plain.close();
    let (code, _) = plain.end();
    assert_eq!((code, runs(&m)), (0, 0));
}

#[test]
fn code_of_ones_own_is_asked_like_any_other() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("Hello.")]);
    let mut plain = begin(&m, &server, &["hello"]);
    plain.wait_for("Answer: Hello.");
    plain.type_line("/run n = 20\nprint(n + 1)");
    plain.wait_for("Code, step 1, 2 lines, your own:\n   1  n = 20\n   2  print(n + 1)\n");
    assert_eq!(runs(&m), 0);
    plain.answer(APPROVE, "y");
    plain.wait_for("   21\nexit 0");
    plain.close();
    assert_eq!(plain.end().0, 0);
}

#[test]
fn the_end_of_input_is_waited_for_while_something_goes_on_and_ends_a_question() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("Just words."), Say::call("print(1)")]);
    let mut plain = begin(&m, &server, &["q"]);
    plain.close();
    let (code, text) = plain.end();
    assert_eq!(code, 0);
    assert!(text.contains("Answer: Just words.\n"), "{text}");

    let mut plain = begin(&m, &server, &["again"]);
    plain.close();
    let (code, text) = plain.end();
    assert_eq!(code, 0);
    assert!(text.contains(APPROVE) && text.contains("Rejected"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("go on with: "), "{text}");

    // Without a yes nothing begins, and there is nothing to go on with.
    let mut plain = Plain::start(&mut command(&m, &server, &["q"]));
    plain.close();
    let (code, text) = plain.end();
    assert_eq!(code, 0);
    assert!(text.contains("[y/n/?]") && !text.contains("go on with"), "{text}");
    assert_eq!(server.chats().len(), 2);
}

#[test]
fn a_session_in_which_nothing_was_said_leaves_nothing_behind() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    let mut plain = begin(&m, &server, &[]);
    plain.wait_for("session ");
    plain.type_line("/quit");
    let (code, text) = plain.end();
    assert!(code == 0 && !text.contains("go on with"), "{text}");
    assert!(m.logs().is_empty(), "{:?}", m.logs());
}

#[test]
fn an_interrupt_stops_the_run_and_the_session_goes_on() {
    let m = Machine::new();
    let server =
        Server::chat(vec![Say::call("import time\nprint('half way')\ntime.sleep(60)"), Say::text("Here I am.")]);
    let mut plain = begin(&m, &server, &["--timeout", "60", "q"]);
    plain.answer("limit 60 s? [y/n/e/t/?]", "y");
    plain.wait_for("   half way\n");
    let started = Instant::now();
    plain.signal(Signal::SIGINT);
    plain.wait_for("Stopping. Ctrl-C again within 2 s quits.\n");
    plain.wait_for("exit 130");
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    plain.wait_for("Stopped");
    plain.type_line("are you there?");
    plain.wait_for("Answer: Here I am.");
    plain.close();
    assert_eq!(plain.end().0, 0);
    assert_eq!(of(&m.log(), "turn_ended")[0]["status"], "stopped");
}

#[test]
fn a_second_interrupt_quits_and_a_signal_to_end_ends_in_order() {
    let m = Machine::new();
    let sleep = || Say::call("import time\nprint('begun')\ntime.sleep(60)");
    let server = Server::chat(vec![sleep(), sleep()]);
    for (signals, code) in [(&[Signal::SIGINT, Signal::SIGINT][..], 0), (&[Signal::SIGTERM][..], 143)] {
        let mut plain = begin(&m, &server, &["--timeout", "60", "q"]);
        plain.answer("limit 60 s? [y/n/e/t/?]", "y");
        plain.wait_for("   begun\n");
        for signal in signals {
            plain.signal(*signal);
            // The next one is a signal of its own.
            if signals.len() > 1 && *signal == Signal::SIGINT && !plain.text().contains("Stopping.") {
                plain.wait_for("Stopping.");
            }
        }
        let (ended, text) = plain.end();
        assert_eq!(ended, code, "{text}");
        assert!(text.lines().last().unwrap().starts_with("go on with: "), "{text}");
        let last = m.logs().into_iter().max_by_key(|l| std::fs::metadata(l).unwrap().modified().unwrap()).unwrap();
        let log = common::records(&std::fs::read_to_string(last).unwrap());
        assert_eq!(log.last().unwrap()["type"], "session_ended");
        assert_eq!(exit_codes(&log), [130]);
    }
}

#[test]
fn whatever_is_printed_the_output_is_lines_of_text() {
    let m = Machine::new();
    let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\t\u{202e}\r\u{8}end";
    // Python would take the carriage return for the end of the comment.
    let code = format!(
        "# {}\nprint('\\x1b[31mred\\x1b[0m\\x07\\x08\\tand\\x9b2J')\nprint('10%\\r20%')\n'\\x1b[2J'",
        hostile.replace('\r', "")
    );
    let server = Server::chat(vec![
        Say::Calls(format!("I say {hostile}"), vec![code]),
        Say::text(&format!("The end: {hostile}")),
    ]);
    let mut plain = begin(&m, &server, &[&format!("What about {}?", hostile)]);
    plain.wait_for("warning: ");
    plain.wait_for(" invisible characters, printed by their names\n");
    plain.answer(APPROVE, "y");
    plain.wait_for("   red    and");
    plain.wait_for("\n   20%\n");
    plain.wait_for("Answer: The end: ");
    plain.type_line(&format!("/nonsense{hostile}"));
    plain.wait_for("There is no command");
    plain.close();
    let (code, text) = plain.end();
    assert_eq!(code, 0);
    let bad: Vec<char> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert!(bad.is_empty() && !text.contains('\u{202e}'), "{bad:?} in {text:?}");
    assert!(text.contains("<U+202E>"), "{text}");
}

#[test]
fn a_flood_is_printed_by_its_ends() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("for i in range(100000): print('line', i)"), Say::text("Done.")]);
    let mut plain = begin(&m, &server, &["q"]);
    plain.answer(APPROVE, "y");
    plain.wait_for("Answer: Done.");
    plain.close();
    let (_, text) = plain.end();
    assert!(text.contains("   line 0\n   line 1\n") && text.contains("   line 99999\nexit 0"), "{text}");
    assert!(text.contains("not printed here: sandscript sessions show ") && text.lines().count() < 400, "{text}");
}

#[test]
fn a_session_goes_on_and_its_variables_are_rebuilt_if_the_person_wants() {
    let m = Machine::new();
    let server = Server::chat(vec![
        Say::call("x = 20"),
        Say::text("It is set."),
        Say::call("print(x + 1)"),
        Say::text("It is 21."),
    ]);
    let mut plain = begin(&m, &server, &["set x"]);
    plain.answer(APPROVE, "y");
    plain.wait_for("Answer: It is set.");
    plain.close();
    let (_, text) = plain.end();
    let id = text.lines().last().unwrap().rsplit(' ').next().unwrap().to_string();

    let mut plain = begin(&m, &server, &["resume", &id]);
    plain.wait_for("You: set x\n");
    plain.wait_for("Answer: It is set.\n");
    plain.wait_for("session continued");
    plain.wait_for("This code ran well earlier in the session:\nstep 1\n   1  x = 20\n");
    plain.answer("Run this cell again in subprocess (NOT isolated), limit 10 s each? [y/n/?]", "y");
    plain.wait_for("exit 0");
    plain.wait_for("the variables of steps 1 are back");
    plain.type_line("and one more?");
    plain.answer(APPROVE, "y");
    plain.wait_for("   21\n");
    plain.wait_for("Answer: It is 21.");
    plain.close();
    assert_eq!(plain.end().0, 0);
    assert_eq!(of(&m.log(), "rebuild_decided")[0]["approved"], true);

    // The list of sessions, where none is named.
    let mut plain = Plain::start(&mut command(&m, &server, &["resume"]));
    plain.wait_for("1: set x, ");
    plain.wait_for("Number of the session to go on with, 1 to 1 (n: none)?\n");
    plain.type_line("7");
    plain.wait_for("Number of the session to go on with");
    plain.type_line("1");
    plain.consent();
    plain.wait_for("1 earlier question: sandscript --plain replay ");
    plain.answer("Run these 2 cells again in", "n");
    plain.wait_for("earlier cells are not run again");
    plain.close();
    assert_eq!(plain.end().0, 0);

    let shown = Ran(m.bare(&["--plain", "replay", &id]).output().unwrap());
    assert!(shown.code() == 0 && shown.out().contains("Answer: It is 21."), "{}{}", shown.out(), shown.err());
    let nothing = Ran(m.bare(&["--plain", "resume", "nonesuch"]).output().unwrap());
    nothing.failed(2, &["nonesuch"]);
}

#[test]
fn a_session_that_cannot_begin_is_tried_again() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("Hello.")]);
    let mut command = command(&m, &server, &["-m", "nonesuch", "hello"]);
    let mut plain = Plain::start(&mut command);
    plain.consent();
    plain.wait_for("nonesuch");
    plain.wait_for(&format!("model {MODEL}\n"));
    plain.answer("Try again? [y/n/m NAME/?]", &format!("m {MODEL}"));
    plain.wait_for("Answer: Hello.");
    plain.close();
    assert_eq!(plain.end().0, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn in_a_terminal_it_prompts_lends_the_keys_to_an_editor_and_sends_no_codes() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(1)"), Say::text("It is 5.")]);
    let editor = editor(&m, "printf 'editing: '; read word; echo \"print($word)\" > \"$1\"");
    let mut pty = pty::Pty::start(command(&m, &server, &[]).env("EDITOR", editor), 100, 60);
    let answer = |pty: &mut pty::Pty, question: &str, line: &str| {
        pty.wait_for(question);
        std::thread::sleep(A_MOMENT);
        pty.type_str(line);
    };
    answer(&mut pty, "[y/n/?]", "y\n");
    pty.wait_for("\n>");
    pty.type_str("what is it?\n");
    answer(&mut pty, "[y/n/e/t/?]", "e\n");
    pty.wait_for("editing:");
    // Ours if anything but the editor read it.
    pty.type_str("2+3\n");
    pty.wait_for("+ print(2+3)");
    answer(&mut pty, "Run the edited code in subprocess (NOT isolated), limit 10 s? [y/n/e/t/?]", "y\n");
    pty.wait_for("Answer: It is 5.\n>");
    pty.press("ctrl-c");
    pty.wait_for("Ctrl-C again within 2 s quits");
    pty.wait_for("Ctrl-D.\n>");
    pty.press("ctrl-d");
    assert_eq!(pty.exit_code(), 0);
    let screen = pty.screen();
    assert!(screen.trim_end().lines().last().unwrap().starts_with("go on with: "), "{screen}");
    assert!(!screen.contains("You: what is it?"), "the terminal shows what was typed already: {screen}");
    assert!(!pty.raw().contains(&0x1b), "{screen}");
    pty.assert_cooked();
}

#[test]
fn options_stand_before_or_behind_a_command_and_a_question_before_none() {
    let m = Machine::new();
    for arguments in [&["--plain", "replay", "nonesuch"][..], &["replay", "nonesuch", "--plain"]] {
        Ran(m.bare(arguments).output().unwrap()).failed(2, &["nonesuch"]);
    }
    let listed = Ran(m.bare(&["-m", "x", "sessions", "list"]).output().unwrap());
    assert_eq!((listed.code(), listed.out().as_str()), (0, "no sessions yet\n"));
    Ran(m.bare(&["hello", "sessions", "list"]).output().unwrap()).failed(2, &["hello"]);
}
