//! The whole program, from a question to an answer: the real binary, a scripted model server, a real Python.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg(unix)]

mod common;
mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Machine, Ran, exit_codes, of, python, wait};
use serde_json::Value;
use support::{Exchange, MODEL, Piece, Say, Server};

/// What the runs printed; how many records that took is a matter of time.
fn printed(records: &[Value]) -> String {
    of(records, "run_output").iter().map(|r| r["text"].as_str().unwrap()).collect()
}

#[test]
fn a_question_is_answered_and_logged() {
    let m = Machine::new();
    m.write("sales.csv", "region,amount\nnorth,1\nsouth,41\n");
    let code = "import csv\nprint(sum(int(r['amount']) for r in csv.DictReader(open('sales.csv'))))";
    let server = Server::chat(vec![Say::call(code), Say::text("The sum is 42.")]);
    let ran = m.run(&server, &["What is the sum?"]);
    assert_eq!((ran.code(), ran.out().as_str(), ran.err().as_str()), (0, "The sum is 42.\n", ""));
    let log = m.log();
    let types: Vec<&str> = log.iter().map(|r| r["type"].as_str().unwrap()).collect();
    assert_eq!(types[0], "session_started");
    assert_eq!(types.last(), Some(&"session_ended"));
    for kind in ["inputs_listed", "user_said", "code_proposed", "code_approved", "run_started", "run_finished"] {
        assert_eq!(types.iter().filter(|t| **t == kind).count(), 1, "{kind} in {types:?}");
    }
    assert_eq!(printed(&log), "42\n");
    let seqs: Vec<u64> = log.iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert!(seqs.iter().copied().eq(0..log.len() as u64));
    let told = server.chats()[0].json()["messages"][0]["content"].to_string();
    assert!(told.contains("sales.csv") && told.contains("region") && told.contains("2 rows"), "{told}");

    let list = Ran(m.bare(&["sessions", "list"]).output().unwrap());
    assert!(list.out().contains("What is the sum?"), "{}", list.out());
    let shown = Ran(m.bare(&["sessions", "show", "last"]).output().unwrap());
    assert_eq!(shown.code(), 0);
    for part in ["You: What is the sum?", "import csv", "42", "Answer: The sum is 42."] {
        assert!(shown.out().contains(part), "{part} in {}", shown.out());
    }
}

#[test]
fn with_json_the_records_are_those_of_the_log() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(1)"), Say::text("It is 1.")]);
    let ran = m.run(&server, &["--json", "q"]);
    let log = std::fs::read_to_string(&m.logs()[0]).unwrap();
    assert!(log.starts_with(&ran.out()), "{}\n{log}", ran.out());
    assert_eq!(ran.records().last().unwrap()["type"], "turn_ended");
    assert_eq!(ran.records().last().unwrap()["answer"], "It is 1.");
}

#[test]
fn failures_go_back_until_it_works() {
    let m = Machine::new();
    let server = Server::chat(vec![
        Say::call("print(undefined_a)"),
        Say::call("print(undefined_b)"),
        Say::call("print(7)"),
        Say::text("It is 7."),
    ]);
    let ran = m.run(&server, &["q"]);
    assert_eq!((ran.code(), ran.out().as_str()), (0, "It is 7.\n"));
    let log = m.log();
    assert_eq!(exit_codes(&log), [1, 1, 0]);
    let attempts: Vec<(u64, u64)> =
        of(&log, "run_started").iter().map(|r| (r["step"].as_u64().unwrap(), r["attempt"].as_u64().unwrap())).collect();
    assert_eq!(attempts, [(1, 1), (1, 2), (1, 3)]);
    let told = server.chats()[1].json()["messages"].to_string();
    assert!(told.contains("NameError: name 'undefined_a' is not defined"), "{told}");
}

#[test]
fn retries_used_up_is_exit_code_4_with_the_last_error() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(undefined_a)"), Say::call("print(undefined_b)")]);
    let ran = m.run(&server, &["--max-retries", "1", "q"]);
    ran.failed(4, &["2 times", "NameError: name 'undefined_b' is not defined", "hint:"]);
    assert_eq!(exit_codes(&m.log()), [1, 1]);
}

#[test]
fn of_two_calls_the_failed_one_is_repaired() {
    let m = Machine::new();
    let two = Say::Calls(String::new(), vec!["print(undefined)".into(), "print(2)".into()]);
    let server = Server::chat(vec![two, Say::call("print(1)"), Say::text("1 and 2.")]);
    let ran = m.run(&server, &["--json", "q"]);
    assert_eq!(ran.code(), 0);
    let runs: Vec<(u64, u64, i64)> = of(&ran.records(), "run_finished")
        .iter()
        .map(|r| (r["step"].as_u64().unwrap(), r["attempt"].as_u64().unwrap(), r["exit_code"].as_i64().unwrap()))
        .collect();
    assert_eq!(runs, [(1, 1, 1), (2, 1, 0), (1, 2, 0)]);
    assert_eq!(ran.records().last().unwrap()["unrepaired"], false);
}

#[test]
fn variables_live_on_from_step_to_step() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("x = 20"), Say::call("print(x + 1)"), Say::text("21")]);
    let ran = m.run(&server, &["--json", "q"]);
    assert_eq!(printed(&ran.records()), "21\n");
}

#[test]
fn fenced_code_is_run_too() {
    let m = Machine::new();
    let server =
        Server::chat(vec![Say::text("I will:\n```python\nprint(6 * 7)\n```\nDone: 41"), Say::text("It is 42.")]);
    let ran = m.run(&server, &["--json", "q"]);
    assert_eq!(ran.records().last().unwrap()["answer"], "It is 42.");
    assert_eq!(of(&ran.records(), "code_proposed")[0]["how"], "fence");
    let second = server.chats()[1].json();
    assert!(second["tools"].is_null(), "text mode has no tools: {second}");
}

#[test]
fn recovered_code_runs_only_if_it_compiles() {
    let m = Machine::new();
    let broken = |code: &str| {
        Say::text(&format!("<tool_call>{{\"name\": \"execute_python\", \"arguments\": {{\"code\": '{code}'}}}}"))
    };
    let server = Server::chat(vec![broken("print(1 +"), broken("print(5)"), Say::text("5")]);
    let ran = m.run(&server, &["--json", "q"]);
    let proposed: Vec<String> =
        of(&ran.records(), "code_proposed").iter().map(|r| r["code"].as_str().unwrap().to_string()).collect();
    assert_eq!(proposed, ["print(5)"], "{}", ran.out());
    assert_eq!(of(&ran.records(), "code_proposed")[0]["how"], "recovered");
    assert!(of(&ran.records(), "code_proposed")[0]["raw"].as_str().unwrap().contains("execute_python"));
}

#[test]
fn a_hostile_answer_prints_nothing_but_text() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("a\u{1b}]52;c;aGk=\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}e")]);
    let ran = m.run(&server, &["hello"]);
    assert!(!ran.out().contains('\u{1b}') && !ran.out().contains('\u{9b}') && !ran.out().contains('\u{202e}'));
    assert!(ran.out().starts_with('a'), "{:?}", ran.out());
}

#[test]
fn the_users_file_cannot_change() {
    let m = Machine::new();
    m.write("sales.csv", "a\n1\n");
    let code = "import os\ntry:\n    open('sales.csv', 'w').write('gone')\nexcept OSError as e:\n    print('refused')\n\
                try:\n    os.remove('sales.csv')\nexcept OSError:\n    pass";
    let server = Server::chat(vec![Say::call(code), Say::text("done")]);
    assert_eq!(m.run(&server, &["q"]).code(), 0);
    assert_eq!(std::fs::read_to_string(m.path("work/sales.csv")).unwrap(), "a\n1\n");
}

#[test]
fn files_are_saved_where_asked_and_never_over_others() {
    let m = Machine::new();
    std::fs::create_dir(m.path("out")).unwrap();
    std::fs::write(m.path("out/plot.txt"), "mine").unwrap();
    let server = Server::chat(vec![Say::call("open('plot.txt', 'w').write('theirs')"), Say::text("It is saved.")]);
    let out = m.path("out");
    let answer = m.path("answer.txt");
    let ran = m.run(&server, &["--out", out.to_str().unwrap(), "-o", answer.to_str().unwrap(), "q"]);
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(std::fs::read_to_string(m.path("out/plot.txt")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(m.path("out/plot-2.txt")).unwrap(), "theirs");
    assert_eq!(std::fs::read_to_string(answer).unwrap(), "It is saved.\n");
}

#[test]
fn ephemeral_leaves_nothing_behind() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("print(1)"), Say::text("1")]);
    assert_eq!(m.run(&server, &["--ephemeral", "q"]).code(), 0);
    assert!(m.logs().is_empty());
    assert!(!m.path("home/.local/share/sandscript").exists());
}

#[test]
fn standard_input_is_read_only_for_a_dash() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("hi"), Say::text("hi")]);
    // A pipe that never closes.
    let mut child = m.exec(&server, &["hello"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.take();
    assert!(wait(&mut child, Duration::from_secs(20)).success());
    drop(pipe);
    let mut child = m.exec(&server, &["-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("a question from a pipe".as_bytes()).unwrap();
    assert!(wait(&mut child, Duration::from_secs(20)).success());
    assert!(server.chats()[1].json()["messages"].to_string().contains("a question from a pipe"));
}

fn signal(child: &std::process::Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Waits until the log holds a record of `kind` with `text` in it.
fn wait_for_record(m: &Machine, kind: &str, text: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let log = m.logs().first().map(|l| std::fs::read_to_string(l).unwrap()).unwrap_or_default();
        if log.lines().any(|l| l.contains(&format!("\"type\":\"{kind}\"")) && l.contains(text)) {
            return;
        }
        assert!(Instant::now() < until, "no {kind} with {text}: {log}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupt_stops_the_run_and_keeps_what_was_printed() {
    let m = Machine::new();
    let code = "import time\nprint('half way')\ntime.sleep(60)";
    let server = Server::chat(vec![Say::call(code)]);
    let mut child = m.exec(&server, &["--json", "--timeout", "60", "q"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_record(&m, "run_output", "half way");
    let started = Instant::now();
    signal(&child, nix::sys::signal::Signal::SIGINT);
    let status = wait(&mut child, Duration::from_secs(20));
    assert_eq!(status.code(), Some(130));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let log = m.log();
    assert_eq!(exit_codes(&log), [130]);
    assert_eq!(of(&log, "turn_ended")[0]["status"], "stopped");
    assert_eq!(log.last().unwrap()["type"], "session_ended");
}

#[test]
fn an_interrupt_stops_a_reply() {
    let m = Machine::new();
    let slow = Exchange::on("POST /v1/chat/completions").piece(Piece::Hold);
    let server = Server::chat(vec![Say::Reply(slow)]);
    let mut child = m.exec(&server, &["q"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_record(&m, "user_said", "q");
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, nix::sys::signal::Signal::SIGINT);
    assert_eq!(wait(&mut child, Duration::from_secs(20)).code(), Some(130));
    server.wait_for_hang_up();
}

#[test]
fn the_deadline_ends_it() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("import time\ntime.sleep(60)")]);
    let ran = m.run(&server, &["--deadline", "1", "--timeout", "60", "--json", "q"]);
    assert_eq!(ran.code(), 124, "{}", ran.err());
    assert_eq!(ran.records().last().unwrap()["type"], "turn_ended");
}

#[test]
fn a_run_over_its_time_limit_is_a_failure_that_goes_back() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("x = 1\nwhile True: pass"), Say::call("print(x)"), Say::text("1")]);
    let ran = m.run(&server, &["--timeout", "1", "--json", "q"]);
    assert_eq!(exit_codes(&ran.records()), [124, 0], "{}", ran.out());
    let told = server.chats()[1].json()["messages"].to_string();
    assert!(told.contains("exit_code: 124") && told.contains("time limit of 1 s"), "{told}");
}

#[test]
fn the_output_limit_holds_at_its_default() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("while True: print('x' * 9999)"), Say::text("too much")]);
    let ran = m.run(&server, &["--json", "q"]);
    let records = ran.records();
    let finished = of(&records, "run_finished");
    assert_eq!(
        (finished[0]["outcome"]["kind"].as_str(), &finished[0]["exit_code"]),
        (Some("output_limit"), &153.into())
    );
    assert!(ran.out().len() < 3_000_000, "{}", ran.out().len());
    let kept: u64 = of(&records, "run_output").iter().map(|r| r["text"].as_str().unwrap().len() as u64).sum();
    let dropped: u64 = of(&records, "run_output").iter().map(|r| r["dropped"].as_u64().unwrap_or(0)).sum();
    assert!(kept + dropped > 64 << 20, "{kept} + {dropped}");
}

#[test]
fn loopback_never_goes_through_a_proxy() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("hi")]);
    let mut command = m.exec(&server, &["hello"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, "http://127.0.0.1:1");
    }
    let ran = Ran(command.output().unwrap());
    assert_eq!((ran.code(), ran.out().as_str()), (0, "hi\n"), "{}", ran.err());
}

#[test]
fn the_key_goes_to_the_server_and_nowhere_else() {
    let m = Machine::new();
    let key = "my-very-secret-key-123";
    let code = "import os\nprint(sorted(os.environ), [v for v in os.environ.values() if 'secret' in v])";
    let server = Server::chat(vec![Say::call(code), Say::text(&format!("your key is {key}"))]);
    let ran = Ran(m.exec(&server, &["--json", "q"]).env("SANDSCRIPT_API_KEY", key).output().unwrap());
    assert_eq!(ran.code(), 0, "{}", ran.err());
    assert_eq!(server.chats()[0].header("authorization"), Some(format!("Bearer {key}").as_str()));
    let log = std::fs::read_to_string(&m.logs()[0]).unwrap();
    assert!(!log.contains(key) && !ran.out().contains(key), "{log}");
    assert!(log.contains("[redacted:"), "{log}");
}

// ---- errors: what, why, hint -----------------------------------------------------------------------------------------

#[test]
fn no_server() {
    let m = Machine::new();
    let ran = Ran(m
        .bare(&["exec", "--allow-unsandboxed", "--base-url", "http://127.0.0.1:1", "--python", python(), "q"])
        .output()
        .unwrap());
    ran.failed(3, &["127.0.0.1:1", "hint:"]);
}

#[test]
fn with_json_an_early_error_ends_with_turn_ended_too() {
    let m = Machine::new();
    let base = ["exec", "--json", "--allow-unsandboxed", "--base-url", "http://127.0.0.1:1", "--python", python(), "q"];
    let ran = Ran(m.bare(&base).output().unwrap());
    assert_eq!(ran.code(), 3);
    let last = ran.records().pop().unwrap();
    assert_eq!((last["type"].as_str(), last["status"].as_str()), (Some("turn_ended"), Some("model_error")));
}

#[test]
fn a_wrong_model_name_lists_the_others() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    let ran = m.run(&server, &["-m", "nonesuch", "q"]);
    ran.failed(3, &["nonesuch", MODEL, "hint:"]);
}

#[test]
fn the_default_model_missing_lists_the_others() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    let url = server.url();
    let ran =
        Ran(m.bare(&["exec", "--allow-unsandboxed", "--base-url", &url, "--python", python(), "q"]).output().unwrap());
    ran.failed(3, &["mistral-nemo", MODEL, "hint:"]);
}

#[test]
fn a_server_without_tools_is_asked_for_fenced_code() {
    let m = Machine::new();
    let error = serde_json::json!({"error": {"message": "scripted does not support tools"}});
    let refuse = Exchange::on("POST /v1/chat/completions").status(400).json(&error);
    let server = Server::chat(vec![
        Say::Reply(refuse),
        Say::text("```python\nprint(3)\n```"),
        Say::text("It is 3."),
        Say::text("again"),
    ]);
    let ran = m.run(&server, &["--json", "q"]);
    assert_eq!(ran.records().last().unwrap()["answer"], "It is 3.", "{}", ran.out());
    assert!(of(&ran.records(), "note").iter().any(|n| n["kind"] == "text_mode"));
    // It is remembered: the next session offers no tools.
    assert_eq!(m.run(&server, &["q"]).code(), 0);
    assert!(server.chats().last().unwrap().json()["tools"].is_null());
}

#[test]
fn a_refused_key() {
    let m = Machine::new();
    let error = serde_json::json!({"error": {"message": "Incorrect API key provided"}});
    let server = Server::play(vec![
        Exchange::on("GET /").status(401).json(&error).always(),
        Exchange::on("POST /").status(401).json(&error).always(),
    ]);
    let ran = m.run(&server, &["q"]);
    ran.failed(3, &["key", "hint:", "SANDSCRIPT_API_KEY"]);
}

#[test]
fn a_server_that_dies_in_mid_stream() {
    let m = Machine::new();
    let part =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"The answer is 4\"},\"finish_reason\":null}]}\n\n";
    let cut = Exchange::on("POST /v1/chat/completions")
        .header("content-type", "text/event-stream")
        .body(part)
        .piece(Piece::Cut);
    let server = Server::chat(vec![Say::Reply(cut)]);
    let ran = m.run(&server, &["--json", "q"]);
    assert_eq!(ran.code(), 3);
    assert!(ran.err().contains("hint:"), "{}", ran.err());
    let records = ran.records();
    assert_eq!(of(&records, "model_failed")[0]["kind"], "broke_off");
    assert_eq!(of(&records, "model_failed")[0]["partial"], "The answer is 4");
    assert_eq!(records.last().unwrap()["answer"], "", "a broken reply is no answer");
}

#[test]
fn no_python() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    let url = server.url();
    let arguments = ["exec", "--allow-unsandboxed", "--base-url", &url, "-m", MODEL, "q"];
    let empty = m.path("home");
    let ran = Ran(m.bare(&arguments).env("PATH", &empty).output().unwrap());
    ran.failed(5, &["Python", "hint:"]);
    let ran = m.run(&server, &["--python", "/nowhere/python3", "q"]);
    ran.failed(5, &["/nowhere/python3", "hint:"]);
}

#[test]
fn a_folder_that_cannot_be_read() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    m.run(&server, &["-C", "/nowhere/at/all", "q"]).failed(2, &["/nowhere/at/all", "hint:"]);
    m.run(&server, &["--data", "/nowhere/x.csv", "q"]).failed(2, &["/nowhere/x.csv", "hint:"]);
    if nix::unistd::geteuid().is_root() {
        println!("skipped: a folder without read permission (root may read everything)");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let locked = m.path("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    m.run(&server, &["-C", locked.to_str().unwrap(), "q"]).failed(2, &["locked", "hint:"]);
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_bad_configuration_key() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    m.run(&server, &["-c", "policy.speed=3", "q"]).failed(2, &["policy.speed", "hint:"]);
    let config = m.path("home/.config/sandscript");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "[policy]\nspeed = 3\n").unwrap();
    m.run(&server, &["q"]).failed(2, &["config.toml", "line 2", "speed", "hint:"]);
}

#[test]
fn unread_code_needs_a_sandbox_or_a_yes() {
    let m = Machine::new();
    let auto = Ran(m.bare(&["exec", "q"]).output().unwrap());
    auto.failed(5, &["no usable sandbox", "hint:", "--allow-unsandboxed"]);
    let subprocess = Ran(m.bare(&["exec", "--executor", "subprocess", "q"]).output().unwrap());
    subprocess.failed(6, &["approval", "hint:"]);
    let unknown = Ran(m.bare(&["exec", "--executor", "magic", "q"]).output().unwrap());
    unknown.failed(2, &["magic"]);
}

#[test]
fn no_question() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    m.run(&server, &["  "]).failed(2, &["question", "hint:"]);
    let none = Ran(m.bare(&["exec"]).output().unwrap());
    assert_eq!(none.code(), 2);
}

/// A disk that is full before a run: nothing may run that the log cannot show. Needs a small file system of its own,
/// mounted in a namespace.
#[test]
fn a_full_disk_stops_before_the_run() {
    let m = Machine::new();
    let data = m.path("data");
    std::fs::create_dir(&data).unwrap();
    let marker = m.path("work/ran");
    let code = format!("# {}\nopen({:?}, 'w').write('x')", "x".repeat(300_000), marker.display().to_string());
    let server = Server::chat(vec![Say::call(&code), Say::text("done")]);
    let command = m.exec(&server, &["--json", "q"]);
    let mut script = format!("mount -t tmpfs -o size=128k none {} && exec \"$0\" \"$@\"", data.display());
    script.insert_str(0, "set -e; ");
    let probe = format!("mount -t tmpfs none {}", data.display());
    let possible =
        Command::new("unshare").args(["-Urm", "sh", "-c", &probe]).output().is_ok_and(|o| o.status.success());
    if !possible {
        println!("skipped: a full disk (no mount namespaces here)");
        return;
    }
    let mut wrapped = Command::new("unshare");
    wrapped.args(["-Urm", "sh", "-c", &script]).arg(command.get_program()).args(command.get_args());
    wrapped.current_dir(m.path("work")).env_clear().stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        wrapped.env(name, value.unwrap());
    }
    wrapped.env("XDG_DATA_HOME", &data);
    let ran = Ran(wrapped.output().unwrap());
    assert_eq!(ran.code(), 5, "{} {}", ran.err(), ran.out().chars().take(2000).collect::<String>());
    assert!(!marker.exists(), "the code ran although the log was full");
    assert!(ran.err().contains("space") || ran.out().contains("space"), "{}", ran.err());
    assert_eq!(ran.records().last().unwrap()["status"], "sandbox_error");
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_deadline() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::call("while True: print('x' * 999)"), Say::text("done")]);
    let flags = ["--json", "--deadline", "2", "--timeout", "60", "-c", "policy.max_output_bytes=99999999999", "q"];
    let mut child = m.exec(&server, &flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let pipe = child.stdout.take();
    assert_eq!(wait(&mut child, Duration::from_secs(20)).code(), Some(124));
    drop(pipe);
}

#[test]
fn a_question_from_a_pipe_can_be_interrupted() {
    let m = Machine::new();
    let server = Server::chat(vec![]);
    let mut child = m.exec(&server, &["-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pipe = child.stdin.take();
    // Its handlers are there when it has made the thread that reads.
    let tasks = format!("/proc/{}/task", child.id());
    let until = Instant::now() + Duration::from_secs(20);
    while std::fs::read_dir(&tasks).is_ok_and(|t| t.count() < 3) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, nix::sys::signal::Signal::SIGINT);
    assert_eq!(wait(&mut child, Duration::from_secs(20)).code(), Some(130));
    drop(pipe);
}

#[test]
fn where_the_answer_goes_is_checked_before_anything_is_asked() {
    let m = Machine::new();
    m.write("in.csv", "a\n1\n");
    let server = Server::chat(vec![]);
    m.run(&server, &["-o", "/nowhere/answer.txt", "q"]).failed(2, &["/nowhere/answer.txt", "hint:"]);
    m.run(&server, &["-o", ".", "q"]).failed(2, &["folder", "hint:"]);
    m.run(&server, &["-o", "in.csv", "q"]).failed(2, &["input files", "hint:"]);
    assert!(server.chats().is_empty());
    assert_eq!(std::fs::read_to_string(m.path("work/in.csv")).unwrap(), "a\n1\n");
}

#[test]
fn an_answer_that_cannot_be_printed_is_an_error() {
    let m = Machine::new();
    let server = Server::chat(vec![Say::text("hi")]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = Ran(m.exec(&server, &["hello"]).stdout(full).output().unwrap());
    ran.failed(1, &["standard output", "hint:"]);
}

#[test]
fn pipes_in_place_of_files_are_not_waited_for() {
    let m = Machine::new();
    let pipe = m.path("work/pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    let server = Server::chat(vec![]);
    m.run(&server, &["--config", pipe, "q"]).failed(2, &["pipe", "hint:"]);
    m.run(&server, &["-c", &format!("model.key_file={pipe}"), "q"]).failed(2, &["pipe", "hint:"]);
}

#[test]
fn nothing_lives_below_the_working_folder() {
    let m = Machine::new();
    for (name, value) in [("HOME", "home"), ("XDG_DATA_HOME", "data")] {
        let ran = Ran(m.bare(&["config", "show"]).env(name, value).output().unwrap());
        // A relative XDG folder counts as not set.
        if name == "HOME" {
            ran.failed(2, &["not absolute", "hint:"]);
        }
        assert!(!m.path("work/data").exists());
    }
}

#[test]
fn bad_arguments_end_with_a_record_too() {
    let m = Machine::new();
    for arguments in
        [&["exec", "--json", "--badflag", "q"][..], &["exec", "--json", "--deadline", "99999999999999999999", "q"]]
    {
        let ran = Ran(m.bare(arguments).output().unwrap());
        assert_eq!(ran.code(), 2, "{}", ran.err());
        assert_eq!(ran.records().last().unwrap()["type"], "turn_ended");
    }
    let server = Server::chat(vec![Say::call("1/0"), Say::text("no")]);
    assert_eq!(m.run(&server, &["--max-retries", "4294967295", "q"]).code(), 0);
}

#[test]
fn a_key_that_streams_in_pieces_is_in_no_record() {
    let m = Machine::new();
    let key = "my-very-secret-key-123";
    let mut reply = Exchange::on("POST /v1/chat/completions").header("content-type", "text/event-stream");
    for c in format!("the key is {key} indeed").chars() {
        let chunk =
            serde_json::json!({"choices": [{"index": 0, "delta": {"content": c.to_string()}, "finish_reason": null}]});
        reply = reply.body(format!("data: {chunk}\n\n")).piece(Piece::Pause(Duration::from_millis(35)));
    }
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = Server::chat(vec![Say::Reply(reply.body(end))]);
    let ran = Ran(m.exec(&server, &["--json", "q"]).env("SANDSCRIPT_API_KEY", key).output().unwrap());
    let streamed: String = of(&ran.records(), "model_delta").iter().map(|r| r["text"].as_str().unwrap()).collect();
    assert!(streamed.contains("the key is") && !streamed.contains(key), "{streamed}");
    assert!(of(&ran.records(), "model_delta").len() > 2, "it still streams: {streamed}");
}
