//! The runner without the program around it: what a kill -9 of the program leaves to it.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are tests too
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandscript::sandbox::frames::{kind, put};
use sandscript::sandbox::local::RUNNER;

fn ended_within(child: &mut Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Whether a living process has `word` among its arguments.
fn lives(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|entry| entry.file_name() != *std::process::id().to_string())
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|command| String::from_utf8_lossy(&command).contains(word))
}

fn python() -> Command {
    Command::new(std::env::var_os("SANDSCRIPT_TEST_PYTHON").unwrap_or_else(|| "python3".into()))
}

/// A duration no other process sleeps for.
fn odd_sleep(salt: u32) -> String {
    format!("{}.{salt}", 100_000 + std::process::id())
}

/// Far longer than anything takes on a busy machine: what is waited for is the end, not a time.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn the_end_of_its_input_ends_everything_and_removes_the_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let workspace = scratch.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::symlink("/", workspace.join("link")).unwrap();
    let mut command = python();
    command.args(["-I", "-u", "-B", "-X", "utf8", "-c", RUNNER, "run", "memory=536870912", "output=67108864"]);
    command.args(["files=256", "fsize=268435456", "procs=1000", "threads=1"]);
    command.arg(format!("scratch={}", scratch.path().display())).current_dir(&workspace);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let sleep = odd_sleep(1);
    let code = format!(
        "import os, signal, subprocess
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
subprocess.Popen(['sleep', '{sleep}'], start_new_session=True, env={{}})
open('file', 'w').write('x')
os.makedirs('d/e/f')
open('d/e/f/file', 'w').write('x')
for folder, mode in (('d/e/f', 0), ('d/e', 0o500), ('d', 0)): os.chmod(folder, mode)
os.mkdir('deep')
os.chdir('deep')
for _ in range(3000): os.mkdir('deep'); os.chdir('deep')
print('up', flush=True)
while True: print('flood')"
    );
    let mut bytes = Vec::new();
    put(kind::RUN, &[&1u32.to_be_bytes(), &60_000u64.to_be_bytes(), code.as_bytes()], &mut bytes);
    child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
    let (mut stdout, mut seen, mut buffer) = (child.stdout.take().unwrap(), Vec::new(), [0; 4096]);
    while !seen.windows(5).any(|w| w == b"flood") {
        let count = stdout.read(&mut buffer).unwrap();
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    assert!(lives(&sleep));
    // Like a killed program: nobody reads, nobody writes.
    drop((child.stdin.take(), stdout));
    assert!(ended_within(&mut child, LONG).is_some(), "the runner ends");
    assert!(!lives(&sleep));
    assert!(!scratch.path().exists() && Path::new("/tmp").exists());
}

#[test]
fn the_guard_kills_what_it_guards() {
    let sleep = odd_sleep(2);
    let mut command = python();
    command.args(["-I", "-c", RUNNER, "guard", "sh", "-c", &format!("setsid sleep {sleep} & sleep {sleep}")]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !lives(&format!("sleep\0{sleep}")) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child.stdin.take());
    assert!(ended_within(&mut child, LONG).is_some_and(|status| !status.success()));
    assert!(!lives(&sleep));
}

#[test]
fn the_guard_hands_on_the_exit_code() {
    for (script, code) in [("exit 0", 0), ("cat; exit 3", 3), ("kill -TERM $$", 143)] {
        let mut command = python();
        command.args(["-I", "-c", RUNNER, "guard", "sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let status = ended_within(&mut child, LONG).unwrap();
        assert_eq!(status.code(), Some(code), "{script}");
    }
}
