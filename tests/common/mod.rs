//! What tests of the whole program share: a machine of its own for each, and what came of a run.
#![allow(dead_code, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{MODEL, Server};

/// A machine of its own for one test: home, data, a folder to work in.
pub struct Machine {
    pub root: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["home", "work", "tmp"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path("work").join(name), text).unwrap();
    }

    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandscript"));
        command
            .args(arguments)
            .current_dir(self.path("work"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("PATH", std::env::var_os("PATH").unwrap())
            .stdin(Stdio::null());
        command
    }

    /// `exec` against `server` with what every test needs.
    pub fn exec(&self, server: &Server, arguments: &[&str]) -> Command {
        let url = server.url();
        let mut all = vec!["exec", "--executor", "subprocess", "--allow-unsandboxed", "--base-url", &url, "-m", MODEL];
        all.extend(["--python", python(), "-c", "policy.packages=[]"]);
        all.extend(arguments);
        self.bare(&all)
    }

    pub fn run(&self, server: &Server, arguments: &[&str]) -> Ran {
        Ran(self.exec(server, arguments).output().unwrap())
    }

    pub fn logs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        walk(&self.path("home/.local/share/sandscript/sessions"), &mut found);
        found.retain(|p| p.ends_with("log.jsonl"));
        found.sort();
        found
    }

    pub fn log(&self) -> Vec<Value> {
        let logs = self.logs();
        assert_eq!(logs.len(), 1, "{logs:?}");
        records(&std::fs::read_to_string(&logs[0]).unwrap())
    }
}

pub fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// The interpreter of the tests, resolved once: a shim would be measured and probed in every test.
pub fn python() -> &'static str {
    static PYTHON: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    PYTHON.get_or_init(|| {
        let named = std::env::var("SANDSCRIPT_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
        let out = Command::new(named).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_string()
    })
}

pub struct Ran(pub Output);

impl Ran {
    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    pub fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub fn records(&self) -> Vec<Value> {
        records(&self.out())
    }

    /// What went wrong, as an assertion on code, words and hint.
    pub fn failed(&self, code: i32, words: &[&str]) {
        let err = self.err();
        assert_eq!(self.code(), code, "{err}{}", self.out());
        assert!(err.starts_with("error: "), "{err}");
        for word in words {
            assert!(err.contains(word), "no {word:?} in {err}");
        }
        assert!(!err.contains("panicked"), "{err}");
    }
}

pub fn records(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

pub fn of<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|r| r["type"] == kind).collect()
}

pub fn exit_codes(records: &[Value]) -> Vec<i64> {
    of(records, "run_finished").iter().map(|r| r["exit_code"].as_i64().unwrap()).collect()
}

pub fn wait(child: &mut std::process::Child, limit: Duration) -> std::process::ExitStatus {
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "the program does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
