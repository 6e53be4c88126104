//! What sandscript costs beside the program it runs, as ratios in one run: `cargo bench --bench overhead`.
//!
//! A scripted model answers at once. Measured against the *resolved* interpreter (no shim of a version manager), medians.
//! Set `SANDSCRIPT_TEST_PYTHON` to choose the interpreter.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{MODEL, Say, Server};

/// Runs of each kind.
const RUNS: usize = 21;

/// Bytes the flood prints.
const FLOOD: usize = 200_000_000;

fn main() {
    // `cargo test --benches` passes this; there is nothing to test here.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let python = resolved_python();
    println!("interpreter: {}", python.display());
    let home = tempfile::tempdir().unwrap();
    let base = median(RUNS, || time(Command::new(&python).args(["-I", "-c", "print(1)"])).0);
    println!("python -I -c 'print(1)'             {:8.1} ms", ms(base));

    exec(&python, home.path(), "print(1)", &[]);
    let mut memory = 0;
    let whole = median(RUNS, || {
        let run = exec(&python, home.path(), "print(1)", &[]);
        memory = memory.max(run.memory);
        run.took
    });
    println!("exec, one cell print(1)             {:8.1} ms  = {:.2} x  (at most 5)", ms(whole), ratio(whole, base));
    println!("exec, resident memory               {:8.1} MB          (at most 40)", memory as f64 / 1e6);

    for (name, code) in [
        ("lines of 1,000", format!("for i in range({}):\n    print('x' * 999)", FLOOD / 1_000)),
        ("lines of 10", format!("for i in range({}):\n    print('123456789')", FLOOD / 10)),
        ("blocks of 1 MB", format!("for i in range({}):\n    print('x' * 999_999)", FLOOD / 1_000_000)),
    ] {
        flood(&python, home.path(), name, &code);
    }
}

fn flood(python: &Path, home: &Path, name: &str, code: &str) {
    let bare = median(3, || time(Command::new(python).args(["-I", "-c", code])).0);
    let flags = ["-c", "policy.max_output_bytes=1073741824", "--timeout", "120"];
    let mut memory = 0;
    let mut output = 0;
    let ours = median(3, || {
        let run = exec(python, home, code, &flags);
        memory = memory.max(run.memory);
        output = output.max(run.output);
        run.took
    });
    println!("200 MB in {name:15} into a pipe {:8.0} ms", ms(bare));
    println!("200 MB in {name:15} exec        {:8.0} ms  = {:.2} x  (at most 3)", ms(ours), ratio(ours, bare));
    println!(
        "          memory {:.1} MB (at most 60), --json {:.2} MB (at most 3)",
        memory as f64 / 1e6,
        output as f64 / 1e6
    );
}

struct Run {
    took: Duration,
    memory: u64,
    output: usize,
}

/// One whole `exec` with a model that sends `code` and then an answer.
fn exec(python: &Path, home: &Path, code: &str, flags: &[&str]) -> Run {
    let server = Server::chat(vec![Say::call(code), Say::text("Done.")]);
    let work = home.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandscript"));
    command
        .args(["exec", "--json", "--executor", "subprocess", "--allow-unsandboxed", "-c", "policy.packages=[]"])
        .args(["--base-url", &server.url(), "-m", MODEL, "--python"])
        .arg(python)
        .args(flags)
        .arg("What is it?")
        .current_dir(&work)
        .env_clear()
        .env("HOME", home)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let (took, out, memory) = time(&mut command);
    assert!(String::from_utf8_lossy(&out).contains("Done."), "{}", String::from_utf8_lossy(&out));
    Run { took, memory, output: out.len() }
}

/// Wall time, standard output, and peak resident memory of the process itself.
fn time(command: &mut Command) -> (Duration, Vec<u8>, u64) {
    use std::io::Read;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let (mut out, mut memory) = (Vec::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = pipe.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        // The bare program floods this pipe too; only the records of ours are kept and looked at.
        if out.len() < 8_000_000 {
            out.extend_from_slice(&buffer[..n]);
        }
        if n < 4096 {
            memory = memory.max(peak(&status));
        }
    }
    assert!(child.wait().unwrap().success());
    (start.elapsed(), out, memory)
}

fn peak(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn resolved_python() -> PathBuf {
    let named = std::env::var_os("SANDSCRIPT_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let out = Command::new(named).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    PathBuf::from(String::from_utf8_lossy(&out.stdout).trim())
}

fn median(runs: usize, mut run: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..runs).map(|_| run()).collect();
    times.sort();
    times[runs / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(ours: Duration, theirs: Duration) -> f64 {
    ours.as_secs_f64() / theirs.as_secs_f64()
}
