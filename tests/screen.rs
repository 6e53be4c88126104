//! The screen in a real terminal: what is left of it however it ends. The program under test is this test binary, run
//! again in a pty with a small view in place of the real one, so that it can be told to panic.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod pty;

use std::process::Command;
use std::task::Poll;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use nix::sys::signal::Signal;
use pty::{LIMIT, Pty};
use ratatui::Frame;
use ratatui::layout::Rect;
use sandscript::tui::Exit;
use sandscript::tui::msg::{Action, Msg};
use sandscript::tui::run::{Ended, View, run};
use sandscript::tui::terminal::Tui;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Set where [`stand_in`] is the program and not a test.
const STAND_IN: &str = "SANDSCRIPT_TEST_STAND_IN";

/// Shows what it was told; keys make it do what there is to do.
struct Small {
    keys: usize,
    last: String,
    area: Rect,
    dirty: bool,
    deadline: Option<Instant>,
}

impl View for Small {
    fn update(&mut self, msg: Msg, now: Instant, actions: &mut Vec<Action>) {
        self.dirty = true;
        match msg {
            Msg::Key(key) => {
                self.keys += 1;
                self.last = format!("key {:?} {:?}", key.code, key.modifiers);
                match (key.code, key.modifiers) {
                    (KeyCode::Char('q'), KeyModifiers::NONE) => actions.push(Action::Leave(Exit::Quit)),
                    (KeyCode::Char('p'), KeyModifiers::NONE) => panic!("the view failed"),
                    (KeyCode::Char('t'), KeyModifiers::NONE) => {
                        tokio::spawn(async { panic!("a task failed") });
                    }
                    (KeyCode::Char('w'), KeyModifiers::NONE) => {
                        let _ = std::thread::spawn(|| panic!("a worker \x1b]0;failed")).join();
                    }
                    (KeyCode::Char('z'), KeyModifiers::CONTROL) => actions.push(Action::Suspend),
                    (KeyCode::Char('e'), KeyModifiers::NONE) => {
                        actions.push(Action::Edit { text: "one".into(), suffix: ".py" });
                    }
                    (KeyCode::Char('n'), KeyModifiers::NONE) => actions.push(Action::Notify("due".into())),
                    (KeyCode::Char('c'), KeyModifiers::NONE) => actions.push(Action::Copy("text\x1b\n".into())),
                    (KeyCode::Char('C'), _) => actions.push(Action::Copy("x".repeat(100_000))),
                    (KeyCode::Char('m'), KeyModifiers::NONE) => actions.push(Action::SetMouse(false)),
                    (KeyCode::Char('d'), KeyModifiers::NONE) => self.deadline = Some(now + Duration::from_millis(100)),
                    _ => {}
                }
            }
            Msg::Paste(text) => self.last = format!("paste of {}", text.len()),
            Msg::Tick => {
                self.deadline = None;
                self.last = "tick".into();
            }
            Msg::Resize(..) | Msg::Update(_) | Msg::Painted(..) | Msg::Figure(_) => {}
            Msg::Mouse(mouse) => self.last = format!("mouse {:?} {} {}", mouse.kind, mouse.column, mouse.row),
            Msg::Focus(on) => self.last = format!("focus {on}"),
            Msg::CopyFailed(failure) => self.last = format!("not copied: {failure}"),
            Msg::EditorClosed(Ok(text)) => self.last = format!("edited {text:?}"),
            Msg::EditorClosed(Err(failure)) => self.last = format!("not edited: {failure}"),
        }
    }

    fn layout(&mut self, area: Rect) {
        self.area = area;
    }

    fn draw(&self, frame: &mut Frame) {
        let text = format!("{} x {}\n{} keys\n{}", self.area.width, self.area.height, self.keys, self.last);
        frame.render_widget(ratatui::widgets::Paragraph::new(text), frame.area());
        // The last corner: a terminal that wraps there would scroll.
        frame.buffer_mut()[(self.area.width - 1, self.area.height - 1)].set_symbol("#");
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }
}

/// The program of the tests below; as a test by itself it does nothing.
#[test]
fn stand_in() {
    if std::env::var_os(STAND_IN).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let result = runtime.block_on(async {
        let mut tui = Tui::enter(true)?;
        let (_told, mut updates) = mpsc::channel(1);
        let mut view = Small { keys: 0, last: "ready".into(), area: Rect::ZERO, dirty: true, deadline: None };
        run(&mut view, &mut tui, mpsc::channel(1).0, &mut updates, |_| Poll::Pending).await
    });
    match result {
        Ok(Ended::Left(_)) => std::process::exit(0),
        Ok(Ended::Signal(signal)) => std::process::exit(128 + signal),
        Err(failure) => {
            eprintln!("error: {failure}\nhint: {}", failure.hint);
            std::process::exit(1)
        }
    }
}

fn program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "stand_in", "--nocapture", "--test-threads=1"]);
    command.env(STAND_IN, "1").env("PATH", std::env::var_os("PATH").unwrap()).env("RUST_BACKTRACE", "0");
    command
}

/// The program, shown and ready.
fn ready() -> Pty {
    let mut pty = Pty::start(&program(), 60, 10);
    pty.wait_for("ready");
    assert!(pty.parsed().alternate_screen());
    pty
}

/// Given back, with what stood there before and nothing of the screen.
fn assert_clean(pty: &Pty) {
    pty.assert_given_back();
    let screen = pty.screen();
    assert!(screen.contains("running 1 test") && !screen.contains("keys"), "{screen}");
}

#[test]
fn quitting_leaves_the_terminal_as_it_was() {
    let mut pty = ready();
    pty.press("q");
    assert_eq!(pty.exit_code(), 0);
    assert_clean(&pty);
    pty.assert_cooked();
}

#[test]
fn signals_leave_the_terminal_as_it_was_and_their_exit_code() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130), (Signal::SIGQUIT, 131)]
    {
        let mut pty = ready();
        pty.signal(signal);
        assert_eq!(pty.exit_code(), code, "{signal}");
        assert_clean(&pty);
        pty.assert_cooked();
    }
}

#[test]
fn a_panic_is_told_on_the_screen_that_stays() {
    let mut pty = ready();
    pty.press("p");
    assert_eq!(pty.exit_code(), 101);
    pty.assert_given_back();
    pty.assert_cooked();
    let raw = String::from_utf8_lossy(pty.raw()).into_owned();
    let told: Vec<usize> = raw.match_indices("the view failed").map(|found| found.0).collect();
    assert!(told.len() == 1 && Some(told[0]) > raw.rfind("\x1b[?1049l"), "{raw:?}");
}

#[test]
fn a_panic_of_a_task_ends_the_screen_in_an_orderly_way() {
    let mut pty = ready();
    pty.press("t");
    assert_eq!(pty.exit_code(), 1);
    assert_clean(&pty);
    let screen = pty.screen();
    assert!(screen.contains("a task failed") && screen.contains("error: a part of the program failed"), "{screen}");
}

#[test]
fn a_panic_of_a_worker_does_not_paint_over_the_screen_and_is_told_at_the_end() {
    let mut pty = ready();
    pty.press("w");
    pty.wait_for("1 keys");
    assert!(pty.parsed().alternate_screen() && !pty.screen().contains("worker"), "{}", pty.screen());
    pty.press("x");
    pty.wait_for("2 keys");
    pty.press("q");
    assert_eq!(pty.exit_code(), 0);
    assert_clean(&pty);
    assert!(pty.screen().contains("a worker"), "{}", pty.screen());
    assert!(!pty.raw().windows(4).any(|bytes| bytes == b"\x1b]0;"), "the message cannot set the title");
}

#[test]
fn a_terminal_that_goes_away_ends_the_program() {
    let mut pty = ready();
    let pid = pty.pid();
    // Closing the terminal hangs it up; the signal is there as well, so let it not count.
    pty.hang_up();
    let until = std::time::Instant::now() + LIMIT;
    while std::path::Path::new(&format!("/proc/{pid}")).exists() && std::time::Instant::now() < until {
        if pty.has_ended() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it goes on without a terminal");
}

#[test]
fn no_terminal_is_refused_in_words() {
    let out = program().stdin(std::process::Stdio::null()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(err.contains("the screen needs a terminal") && err.contains("sandscript exec"), "{err}");
    assert!(!String::from_utf8_lossy(&out.stdout).contains('\x1b'));

    let mut pty = Pty::start(program().env("TERM", "dumb"), 80, 10);
    assert_eq!(pty.exit_code(), 1);
    assert!(pty.screen().contains("TERM is \"dumb\"") && !pty.raw().contains(&0x1b), "{}", pty.screen());
}

#[test]
fn each_frame_is_one_synchronized_update() {
    let mut pty = ready();
    pty.press("x");
    pty.wait_for("1 keys");
    let raw = String::from_utf8_lossy(pty.raw()).into_owned();
    assert_eq!(raw.matches("\x1b[?2026h").count(), 2, "two frames");
    let frame = raw.rsplit("\x1b[?2026h").next().unwrap();
    assert!(frame.ends_with("\x1b[?2026l"), "{frame:?}");
    assert!(!raw.contains("\x1b[6n") && !raw.contains("\x1b[?u") && !raw.contains("\x1b[c"), "nothing is asked");
}

#[test]
fn keys_pastes_clicks_and_focus_arrive() {
    let mut pty = ready();
    pty.paste(&"line of text\n".repeat(200));
    pty.wait_for("paste of 2600");
    pty.send(b"\x1b[<64;5;3M");
    pty.wait_for("mouse ScrollUp 4 2");
    pty.send(b"\x1b[O");
    pty.wait_for("focus false");
    pty.send(b"\x1b[13;2u");
    pty.wait_for("key Enter KeyModifiers(SHIFT)");
    pty.press("up");
    pty.wait_for("key Up");
    pty.press("d");
    pty.wait_for("tick");
}

#[test]
fn much_typed_at_once_arrives_without_another_key() {
    let mut pty = ready();
    pty.type_str(&"x".repeat(3000));
    pty.wait_for("3000 keys");
    pty.type_str(&"x".repeat(20_000));
    pty.wait_for("23000 keys");
}

#[test]
fn half_an_escape_sequence_holds_nothing_up() {
    let mut pty = ready();
    pty.type_str("x\x1b[");
    pty.wait_for("1 keys");
    pty.resize(50, 8);
    pty.wait_for("50 x 8");
    pty.type_str("A");
    pty.wait_for("key Up");
}

#[test]
fn the_screen_follows_a_storm_of_sizes() {
    let mut pty = ready();
    for i in 0..200 {
        pty.resize(20 + i % 60, 3 + i % 20);
    }
    pty.resize(71, 9);
    pty.wait_for("71 x 9");
    assert!(pty.read_until(LIMIT, |pty| pty.parsed().contents_between(8, 70, 8, 71) == "#"), "{}", pty.screen());
    pty.resize(1, 1);
    pty.resize(60, 10);
    pty.wait_for("60 x 10");
    pty.press("q");
    assert_eq!(pty.exit_code(), 0);
    pty.assert_given_back();
}

#[test]
fn the_mouse_can_be_left_to_the_terminal_and_notices_and_copies_are_sent() {
    let mut pty = ready();
    assert_ne!(pty.parsed().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    pty.type_str("mnc");
    pty.wait_for("3 keys");
    assert_eq!(pty.parsed().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    let raw = String::from_utf8_lossy(pty.raw()).into_owned();
    assert!(raw.contains("\x07\x1b]9;due\x07"));
    assert!(raw.contains("\x1b]52;c;dGV4dAo="), "the escape is not in the clipboard");
    pty.type_str("C");
    pty.wait_for("not copied: too long");
}

#[test]
fn an_editor_gets_the_terminal_and_the_screen_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("my editor");
    std::fs::write(
        &editor,
        "#!/bin/sh\nprintf 'editing '; stty -a | grep -o ' icanon'; read word\necho \"$word\" > \"$1\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut pty = Pty::start(program().env("EDITOR", format!("'{}'", editor.display())), 60, 10);
    pty.wait_for("ready");
    pty.press("e");
    pty.wait_for("editing  icanon");
    pty.assert_given_back();
    pty.type_str("two q\n");
    pty.wait_for("edited \"two q\"");
    assert!(pty.parsed().alternate_screen());
    pty.resize(40, 8);
    pty.wait_for("40 x 8");
    pty.press("e");
    let again = |pty: &Pty| pty.screen().matches("editing  icanon").count() == 2;
    assert!(pty.read_until(LIMIT, again), "{}", pty.screen());
    // Ctrl-C comes to both, and is meant for the editor.
    pty.press("ctrl-c");
    pty.wait_for("not edited: the editor failed");
    pty.press("q");
    assert_eq!(pty.exit_code(), 0);
    assert_clean(&pty);
}

/// A shell with job control, and the program as its job.
fn job() -> (Pty, nix::unistd::Pid) {
    let mut shell = Command::new("sh");
    shell.arg("-i").env("PATH", std::env::var_os("PATH").unwrap()).env("PS1", "$ ").env(STAND_IN, "1");
    // As vi does it on Ctrl-Z: it stops everything that was started with it.
    shell.env("EDITOR", "sh -c 'echo editing; kill -TSTP 0; echo again; read w; echo $w > \"$1\"' editor");
    let mut pty = Pty::start(&shell, 60, 10);
    pty.wait_for("$");
    let exe = std::env::current_exe().unwrap();
    pty.type_str(&format!("clear; '{}' --exact stand_in --nocapture --test-threads=1\r", exe.display()));
    pty.wait_for("ready");
    let children = format!("/proc/{0}/task/{0}/children", pty.pid());
    let child = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    (pty, nix::unistd::Pid::from_raw(child))
}

#[test]
fn suspending_gives_the_shell_its_terminal_and_coming_back_draws_all() {
    let (mut pty, pid) = job();
    for round in 0..3 {
        match round {
            0 | 2 => pty.press("ctrl-z"),
            _ => nix::sys::signal::kill(pid, Signal::SIGTSTP).unwrap(),
        }
        let stopped = |pty: &Pty| !pty.parsed().alternate_screen() && pty.screen().contains("topped");
        assert!(pty.read_until(LIMIT, stopped), "{}", pty.screen());
        pty.assert_given_back();
        pty.type_str("clear; fg\r");
        let back = |pty: &Pty| pty.parsed().alternate_screen() && pty.screen().contains("60 x 10");
        assert!(pty.read_until(LIMIT, back), "{}", pty.screen());
        pty.type_str("x");
        pty.wait_for("key Char('x')");
    }
    pty.press("q");
    assert!(pty.read_until(LIMIT, |pty| !pty.parsed().alternate_screen()));
    pty.assert_given_back();
}

#[test]
fn an_editor_can_be_suspended_with_the_program_behind_it() {
    let (mut pty, _) = job();
    pty.press("e");
    pty.wait_for("topped");
    pty.type_str("fg\r");
    pty.wait_for("again");
    assert!(!pty.parsed().alternate_screen(), "the editor has the terminal still");
    pty.type_str("two\r");
    pty.wait_for("edited \"two\"");
    pty.press("q");
    assert!(pty.read_until(LIMIT, |pty| !pty.parsed().alternate_screen()));
}

#[test]
fn a_stop_it_could_not_prepare_for_is_repaired_when_it_goes_on() {
    let (mut pty, pid) = job();
    nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
    pty.wait_for("topped");
    // The terminal is raw still, where only a line feed ends a line.
    pty.type_str("clear; fg\n");
    let back = |pty: &Pty| pty.screen().contains("60 x 10") && !pty.screen().contains("topped");
    assert!(pty.read_until(LIMIT, back), "{}", pty.screen());
    pty.type_str("x");
    pty.wait_for("key Char('x')");
}

#[test]
fn a_suspend_without_a_shell_to_come_back_from_is_passed_over() {
    let mut pty = ready();
    pty.press("ctrl-z");
    pty.press("x");
    pty.wait_for("2 keys");
}

/// Context switches of all threads so far.
fn switches(pid: nix::unistd::Pid) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("status")).unwrap());
    let counts = |text: String| -> u64 {
        text.lines()
            .filter(|l| l.contains("ctxt_switches"))
            .map(|l| l.split('\t').nth(1).unwrap().parse::<u64>().unwrap())
            .sum()
    };
    status.map(counts).sum()
}

#[test]
fn idle_it_is_not_woken_once() {
    let mut pty = ready();
    pty.press("x");
    pty.wait_for("1 keys");
    std::thread::sleep(Duration::from_millis(300));
    let before = switches(pty.pid());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switches(pty.pid()), before);
}
