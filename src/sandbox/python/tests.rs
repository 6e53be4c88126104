use std::os::unix::fs::symlink;

use super::*;

/// A folder of programs that answer as an interpreter does and count how often they are asked.
struct Pretend(tempfile::TempDir);

impl Pretend {
    fn new() -> Self {
        let pretend = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(pretend.path("site")).unwrap();
        pretend
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn interpreter(&self, name: &str, version: &str) -> Interpreter {
        Interpreter {
            path: self.path(name),
            version: version.into(),
            base_path: self.path(name),
            abi: "abi".into(),
            prefix: self.path(""),
            base_prefix: self.path(""),
            site_dirs: vec![self.path("site")],
            venv_site: "lib/python3/site-packages".into(),
            stdlib: vec!["json".into()],
            packages: BTreeMap::from([("numpy".into(), "2.0".into())]),
            has_pip: true,
            has_ensurepip: true,
        }
    }

    /// Writes a program. A shell does it: a file that a thread here held open for writing could not be started while
    /// another thread starts a process.
    fn program(&self, name: &str, script: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let write = r#"rm -f "$1"; printf '%s\n' "$2" > "$1"; chmod 755 "$1""#;
        let script = format!("#!/bin/sh\necho asked >> '{}'\n{script}", self.path("asked").display());
        let status = std::process::Command::new("sh").args(["-c", write, "sh"]).arg(path).arg(script).status();
        assert!(status.unwrap().success());
    }

    fn python(&self, name: &str, version: &str) -> Interpreter {
        let interpreter = self.interpreter(name, version);
        let answer = serde_json::to_string(&interpreter).unwrap();
        self.program(name, &format!("echo noise\necho '{PROBE_MARK}{answer}'\necho more noise"));
        interpreter
    }

    fn asked(&self) -> usize {
        std::fs::read_to_string(self.path("asked")).unwrap_or_default().lines().count()
    }

    async fn resolve(&self, choice: &Choice, env: &Env) -> Result<Interpreter, SetupError> {
        resolve(choice, env, &self.path("cache")).await
    }
}

/// An environment with these folders in `PATH`, before those with the shell's own programs.
fn env(path: &[PathBuf], more: &[(&str, &str)]) -> Env {
    let path = std::env::join_paths(path.iter().cloned().chain(["/bin".into()])).unwrap();
    let more = more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    std::iter::once((OsString::from("PATH"), path)).chain(more).collect()
}

#[tokio::test]
async fn the_active_environment_comes_before_the_path() {
    let pretend = Pretend::new();
    let active = pretend.python("venv/bin/python", "3.12.1");
    let first = pretend.python("one/python3", "3.11.1");
    pretend.python("two/python3", "3.10.1");
    let path = [pretend.path("one"), pretend.path("two")];
    let root = pretend.path("venv");
    let found = pretend.resolve(&Choice::Auto, &env(&path, &[("VIRTUAL_ENV", root.to_str().unwrap())])).await;
    assert_eq!(found.unwrap(), active);
    assert_eq!(pretend.resolve(&Choice::Auto, &env(&path, &[("VIRTUAL_ENV", "")])).await.unwrap(), first);
}

#[tokio::test]
async fn nothing_is_taken_from_the_working_folder() {
    // The tests run in the folder of the package.
    let relative = [PathBuf::from("src"), PathBuf::from("."), PathBuf::new()];
    for path in &relative {
        let candidates = candidates(&Choice::Path("lib.rs".into()), &env(std::slice::from_ref(path), &[]));
        assert_eq!(candidates, Vec::<PathBuf>::new());
    }
    let found = in_path(OsStr::new("python3"), &env(&relative, &[]));
    assert_eq!(found, [PathBuf::from("/bin/python3")]);
    let active = candidates(&Choice::Auto, &Env::from_iter([("VIRTUAL_ENV", ".venv")]));
    assert_eq!(active, Vec::<PathBuf>::new());
}

#[tokio::test]
async fn the_answer_is_kept_until_something_changes() {
    let pretend = Pretend::new();
    let path = [pretend.path("bin")];
    let home = pretend.path("home");
    let home = home.to_str().unwrap();
    let expected = pretend.python("bin/python3", "3.11.1");
    let plain = env(&path, &[("HOME", home)]);
    for _ in 0..3 {
        assert_eq!(pretend.resolve(&Choice::Auto, &plain).await.unwrap(), expected);
    }
    assert_eq!(pretend.asked(), 1);

    // What does not decide which interpreter it is.
    let other = env(&path, &[("HOME", home), ("EDITOR", "vi"), ("PIP_INDEX_URL", "x")]);
    pretend.resolve(&Choice::Auto, &other).await.unwrap();
    assert_eq!(pretend.asked(), 1);

    // What does: a version manager's variable and its file, an installed package, another program.
    let chosen = env(&path, &[("HOME", home), ("PYENV_VERSION", "3.12")]);
    pretend.resolve(&Choice::Auto, &chosen).await.unwrap();
    assert_eq!(pretend.asked(), 2);
    std::fs::create_dir_all(pretend.path("home/.pyenv")).unwrap();
    std::fs::write(pretend.path("home/.pyenv/version"), "3.12").unwrap();
    pretend.resolve(&Choice::Auto, &chosen).await.unwrap();
    assert_eq!(pretend.asked(), 3);
    std::fs::create_dir(pretend.path("site/pandas")).unwrap();
    pretend.resolve(&Choice::Auto, &chosen).await.unwrap();
    assert_eq!(pretend.asked(), 4);
    let upgraded = pretend.python("bin/python3", "3.11.10");
    assert_eq!(pretend.resolve(&Choice::Auto, &chosen).await.unwrap(), upgraded);
    assert_eq!(pretend.asked(), 5);
}

#[tokio::test]
async fn a_spoilt_or_unwritable_cache_costs_only_time() {
    let pretend = Pretend::new();
    let expected = pretend.python("bin/python3", "3.11.1");
    let env = env(&[pretend.path("bin")], &[]);
    pretend.resolve(&Choice::Auto, &env).await.unwrap();
    for file in std::fs::read_dir(pretend.path("cache/python")).unwrap() {
        std::fs::write(file.unwrap().path(), "{\"probe\": 1}").unwrap();
    }
    assert_eq!(pretend.resolve(&Choice::Auto, &env).await.unwrap(), expected);
    std::fs::write(pretend.path("file"), "").unwrap();
    assert_eq!(resolve(&Choice::Auto, &env, &pretend.path("file")).await.unwrap(), expected);
}

#[tokio::test]
async fn an_unusable_candidate_does_not_hide_the_next() {
    let pretend = Pretend::new();
    pretend.program("shim/python3", "echo 'pyenv: python3: command not found' >&2; exit 127");
    pretend.program("old/python3", &format!("echo '{PROBE_MARK}{{\"version\": \"3.8.18\"}}'"));
    std::fs::create_dir_all(pretend.path("text")).unwrap();
    std::fs::write(pretend.path("text/python3"), "not executable").unwrap();
    let good = pretend.python("good/python3", "3.9.0");
    let path = ["shim", "old", "text", "good"].map(|name| pretend.path(name));
    assert_eq!(pretend.resolve(&Choice::Auto, &env(&path, &[])).await.unwrap(), good);
}

#[tokio::test]
async fn what_is_wrong_is_said_with_a_hint() {
    let pretend = Pretend::new();
    pretend.program("broken", "echo '\u{1b}[31mno libpython' >&2; exit 1");
    pretend.program("old", &format!("echo '{PROBE_MARK}{{\"version\": \"3.8.18\"}}'"));
    pretend.program("liar", &format!("echo '{PROBE_MARK}{{\"version\": \"3.12.0\"}}'"));
    symlink("nowhere", pretend.path("dangling")).unwrap();
    let cases = [
        ("broken", "did not start", "no libpython", false),
        ("old", "too old", "3.8.18", false),
        ("liar", "did not start", "missing field", false),
        ("gone", "was not found", "", true),
        ("dangling", "was not found", "", true),
        ("site", "was not found", "", true),
    ];
    for (name, what, why, missing) in cases {
        let error = pretend.resolve(&Choice::Path(pretend.path(name)), &env(&[], &[])).await.unwrap_err();
        assert!(error.failure.what.contains(what), "{error:?}");
        assert!(error.failure.why.contains(why) && !error.failure.why.contains('\u{1b}'), "{error:?}");
        assert!(error.failure.hint.contains("--python"), "{error:?}");
        assert_eq!(error.missing, missing, "{name}");
    }
    let nothing = Env::from_iter([("PATH", "/nonexistent")]);
    let error = pretend.resolve(&Choice::Auto, &nothing).await.unwrap_err();
    assert_eq!(error.failure.what, "Python was not found");
    assert!(error.missing);
}

#[tokio::test]
async fn a_bare_name_is_looked_up_in_the_path() {
    let pretend = Pretend::new();
    let expected = pretend.python("bin/python3.99", "3.99.0");
    let env = env(&[pretend.path("bin")], &[]);
    assert_eq!(pretend.resolve(&Choice::Path("python3.99".into()), &env).await.unwrap(), expected);
}

#[test]
fn keys_are_not_passed_on() {
    let env = Env::from_iter([
        ("PATH", "/bin"),
        ("https_proxy", "p"),
        ("PIP_INDEX_URL", "i"),
        ("PIP_TARGET", "elsewhere"),
        ("PYTHONPATH", "/tmp"),
        ("PYTHONHOME", "/tmp"),
        ("OPENAI_API_KEY", "k"),
        ("AWS_SECRET_ACCESS_KEY", "k"),
        ("LD_PRELOAD", "x"),
    ]);
    let names: Vec<&str> = env.passed().filter_map(|(name, _)| name.to_str()).collect();
    assert_eq!(names, ["PATH", "PIP_INDEX_URL", "https_proxy"]);
}

#[tokio::test]
async fn the_real_interpreter_knows_itself() {
    let cache = tempfile::tempdir().unwrap();
    let python = resolve(&Choice::Auto, &Env::of_process(), cache.path()).await.unwrap();
    assert!(python.path.is_absolute() && python.base_path.is_absolute());
    assert!(new_enough(&python.version));
    for name in ["json", "os", "math", "sys", "sqlite3", "_thread"] {
        assert!(python.stdlib.iter().any(|module| module == name), "{name}");
    }
    for name in ["numpy", "pip", "site-packages", "__pycache__"] {
        assert!(!python.stdlib.iter().any(|module| module == name), "{name}");
    }
    assert!(python.venv_site.is_relative() && python.venv_site.ends_with("site-packages"));
    // It is no shim: asked again, it names itself.
    let again = probe(&python.path, &Env::of_process()).await.unwrap();
    assert_eq!(again, python);
}
