//! pip, run in a virtual environment: wheels only, with the user's index and certificate settings, never longer than this
//! program lives, and without starting anything that came with a wheel.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;

use super::inputs::shown;
use super::local::RUNNER;
use super::packages::Requirement;
use super::process;
use super::python::{Env, Interpreter};

/// Longest run of pip. The default packages are 120 MB: 20 minutes is a line of 1 Mbit/s.
const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);

/// How much of pip's output is read, in bytes; it writes a few lines for each package.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;

/// Longest text from pip that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Folder in the environment for pip's temporary files: when pip is killed they stay, and here the next one finds them.
const TEMPORARY: &str = "pip-tmp";

/// Runs pip for an environment without its `.pth` files, which a wheel may bring and Python runs at each start: code from
/// a package runs in a sandbox or not at all. Without `site` Python does not see that it is in an environment, so that is
/// said here. Arguments: root of the environment, folders with packages as JSON, arguments of pip.
const START_PIP: &str = "\
import json, runpy, sys
root, folders, *arguments = sys.argv[1:]
sys.prefix = sys.exec_prefix = root
sys.path += json.loads(folders)
sys.argv = ['pip', *arguments]
runpy.run_module('pip', run_name='__main__', alter_sys=True)
";

/// What is being done, for the person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Another process holds the lock.
    Waiting,
    /// The index is asked for a package.
    Looking(String),
    /// A file comes.
    Downloading {
        /// Which package.
        package: String,
        /// Its size as pip writes it, such as `12.4 MB`.
        size: String,
    },
    /// This many packages are unpacked.
    Installing(usize),
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Progress::Waiting => f.write_str("another sandscript is preparing the packages"),
            Progress::Looking(package) => write!(f, "looking for {package}"),
            Progress::Downloading { package, size } => write!(f, "downloading {package} ({size})"),
            Progress::Installing(1) => f.write_str("installing 1 package"),
            Progress::Installing(count) => write!(f, "installing {count} packages"),
        }
    }
}

/// What came of an installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Requirements that failed, as pip takes them, and why.
    pub failed: BTreeMap<String, String>,
    /// The index could not be reached, so another try may help.
    pub unreachable: bool,
    /// What to do; empty when nothing failed.
    pub hint: String,
}

impl Report {
    fn all_failed(wanted: &[&Requirement], why: &str, hint: String) -> Self {
        let failed = wanted.iter().map(|r| (r.text().to_owned(), why.to_owned())).collect();
        Self { failed, unreachable: false, hint }
    }
}

/// The environment to install into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// Its root.
    pub root: &'a Path,
    /// Its folder of packages.
    pub site: &'a Path,
    /// The interpreter it was made for.
    pub interpreter: &'a Interpreter,
    /// The variables of this process.
    pub env: &'a Env,
}

/// Installs what can be had: all together, and where that fails one by one, so that one bad name costs only itself.
pub(super) async fn install(
    target: Target<'_>,
    wanted: &[&Requirement],
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Report {
    let has_pip = target.interpreter.has_pip || target.site.join("pip").is_dir();
    if !has_pip && let Err(report) = bring_pip(target, wanted, progress).await {
        return report;
    }
    let all = pip(target, wanted, progress).await;
    let Some(why) = all.failure() else { return Report::default() };
    let hint = all.hint(target.interpreter);
    if all.unreachable || wanted.len() == 1 {
        return Report { unreachable: all.unreachable, ..Report::all_failed(wanted, &why, hint) };
    }
    let mut report = Report::default();
    for requirement in wanted {
        let one = pip(target, &[requirement], progress).await;
        let Some(why) = one.failure() else { continue };
        report.hint = one.hint(target.interpreter);
        report.failed.insert(requirement.text().to_owned(), why);
        report.unreachable |= one.unreachable;
    }
    report
}

/// Installs the pip that came with Python. The environment is still empty then.
async fn bring_pip(
    target: Target<'_>,
    wanted: &[&Requirement],
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(), Report> {
    let minor = target.interpreter.version.rsplit_once('.').map_or("3", |(minor, _)| minor);
    let hint = format!("apt install python3-venv (or python{minor}-venv), or take another Python with --python PATH");
    if !target.interpreter.has_ensurepip {
        return Err(Report::all_failed(wanted, "this Python has neither pip nor ensurepip", hint));
    }
    let run = run(target, &["-I", "-m", "ensurepip"], progress).await;
    match run.failure() {
        Some(why) => Err(Report::all_failed(wanted, &format!("ensurepip failed: {why}"), hint)),
        None => Ok(()),
    }
}

async fn pip(target: Target<'_>, wanted: &[&Requirement], progress: &mut (dyn FnMut(Progress) + Send)) -> Run {
    // The environment's own packages first, as its Python sees them, so that what is there is not fetched again.
    let folders: Vec<&Path> =
        std::iter::once(target.site).chain(target.interpreter.site_dirs.iter().map(|dir| dir.as_path())).collect();
    let (Some(root), Ok(folders)) = (target.root.to_str(), serde_json::to_string(&folders)) else {
        return Run { complaint: "the path of the environment is not plain text".into(), ..Run::default() };
    };
    let mut args = vec!["-I", "-S", "-B", "-c", START_PIP, root, &folders];
    args.extend(["install", "--only-binary", ":all:", "--no-user", "--no-input", "--disable-pip-version-check"]);
    // One retry: a network that is not there must be told in seconds. Bytecode is compiled (the default): it is done
    // once, here, because no run may write into the environment later.
    args.extend(["--no-warn-script-location", "--progress-bar", "off", "--retries", "1", "--"]);
    args.extend(wanted.iter().map(|requirement| requirement.text()));
    run(target, &args, progress).await
}

/// How a run of pip went.
#[derive(Debug, Default)]
struct Run {
    ok: bool,
    unreachable: bool,
    no_wheel: bool,
    /// The first error line.
    complaint: String,
}

impl Run {
    /// Why it failed, if it did.
    fn failure(&self) -> Option<String> {
        if self.ok {
            None
        } else if self.unreachable {
            Some("the package index cannot be reached".into())
        } else if self.no_wheel {
            Some("the package index has no such package, or no wheel of it for this Python".into())
        } else {
            Some(self.complaint.clone())
        }
    }

    fn hint(&self, interpreter: &Interpreter) -> String {
        if self.unreachable {
            "check the network and pip's index and proxy settings, then start again".into()
        } else if self.no_wheel {
            let version = &interpreter.version;
            format!("check the name in policy.packages; wheels for Python {version} are needed, else --python PATH")
        } else {
            "try: python3 -m pip download --only-binary :all: NAME".into()
        }
    }

    /// Takes note of a line of pip's output.
    fn note(&mut self, line: &str) {
        let unreachable = ["after connection broken by", "Could not fetch URL", "ProxyError", "SSLError"];
        self.unreachable |= unreachable.iter().any(|words| line.contains(words));
        self.no_wheel |= line.contains("No matching distribution found");
        let error = line.starts_with("ERROR:") || line.contains("Error: ");
        if error && self.complaint.is_empty() {
            self.complaint = shown(line.trim_start_matches("ERROR:").trim(), MAX_SHOWN);
        }
    }
}

/// Runs the environment's Python under the guard and follows what it prints.
async fn run(target: Target<'_>, args: &[&str], progress: &mut (dyn FnMut(Progress) + Send)) -> Run {
    let mut run = Run::default();
    let temporary = target.root.join(TEMPORARY);
    let made = clear(temporary.clone(), true).await;
    let followed = async {
        made?;
        follow(target, args, &mut run, progress).await
    };
    let followed = tokio::time::timeout(INSTALL_LIMIT, followed).await;
    // What stays is removed before the next run.
    let _ = clear(temporary, false).await;
    match followed {
        Ok(Ok(ok)) => run.ok = ok,
        Ok(Err(e)) => run.complaint = format!("{} did not start: {e}", target.interpreter.path.display()),
        Err(_) => run.complaint = format!("not done after {} minutes", INSTALL_LIMIT.as_secs() / 60),
    }
    if run.complaint.is_empty() {
        run.complaint = "pip failed and did not say why".into();
    }
    run
}

/// Removes a folder and makes it anew. It may hold much: not on this thread.
async fn clear(folder: PathBuf, anew: bool) -> std::io::Result<()> {
    let work = move || {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        if anew { std::fs::create_dir(&folder) } else { Ok(()) }
    };
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other).flatten()
}

async fn follow(
    target: Target<'_>,
    args: &[&str],
    run: &mut Run,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> std::io::Result<bool> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = tokio::process::Command::new(&target.interpreter.path);
    // As a guard the runner kills what it started when its standard input ends, which it does however this program ends.
    command.args(["-I", "-B", "-c", RUNNER, "guard"]).arg(target.root.join("bin/python")).args(args);
    command.current_dir("/").env_clear().envs(target.env.passed());
    command.env("TMPDIR", target.root.join(TEMPORARY));
    // Not `kill_on_drop`: that would kill the guard and leave pip. Dropping the child closes its standard input instead.
    command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = process::start(&mut command)?;
    // The command holds the writing ends; the reading loop ends when the last one is closed.
    drop(command);
    let stdin = child.stdin.take();
    let reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut reader = BufReader::new(reader.take(MAX_OUTPUT));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line);
        run.note(&text);
        if let Some(step) = progress_in(&text) {
            progress(step);
        }
        line.clear();
    }
    drop(reader);
    let status = child.wait().await?;
    drop(stdin);
    Ok(status.success())
}

/// What a line of pip says it is doing.
fn progress_in(line: &str) -> Option<Progress> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("Collecting ") {
        let end = rest.find(|c: char| c.is_whitespace() || "=<>!~[;(".contains(c)).unwrap_or(rest.len());
        return Some(Progress::Looking(shown(&rest[..end], MAX_SHOWN)));
    }
    if let Some(rest) = line.strip_prefix("Downloading ") {
        let (url, size) = rest.strip_suffix(')')?.rsplit_once(" (")?;
        let file = url.rsplit('/').next().filter(|file| file.ends_with(".whl"))?;
        let package = file.split('-').next().unwrap_or_default();
        return Some(Progress::Downloading { package: shown(package, MAX_SHOWN), size: shown(size, MAX_SHOWN) });
    }
    let names = line.strip_prefix("Installing collected packages: ")?;
    Some(Progress::Installing(names.split(',').count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_of_pip_are_told() {
        let said = "Collecting pandas>=2 (from x)\n  Downloading pandas-2.2.3-cp311-cp311-linux.whl.metadata (89 kB)\n  \
                    Downloading https://host/p/pandas-2.2.3-cp311-cp311-linux.whl (13.1 MB)\n\
                    Using cached numpy-2.0-cp311.whl (18 MB)\nInstalling collected packages: numpy, pandas\n\
                    Collecting \u{1b}\u{202e}red\n";
        let told: Vec<String> = said.lines().filter_map(progress_in).map(|step| step.to_string()).collect();
        assert_eq!(
            told,
            ["looking for pandas", "downloading pandas (13.1 MB)", "installing 2 packages", "looking for <U+202E>red"]
        );
    }

    #[tokio::test]
    async fn an_interrupted_pip_leaves_nothing_the_next_does_not_remove() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::of_process();
        let interpreter =
            super::super::python::resolve(&super::super::python::Choice::Auto, &env, folder.path()).await.unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(&interpreter.path, folder.path().join("bin/python")).unwrap();
        let target = Target { root: folder.path(), site: folder.path(), interpreter: &interpreter, env: &env };
        let temporary = folder.path().join(TEMPORARY);
        std::fs::create_dir_all(temporary.join("pip-install-old")).unwrap();
        let code = "import os, sys, tempfile; name = tempfile.mkdtemp(); alone = [os.path.basename(name)]\n\
                    print('Collecting', os.listdir(sys.argv[1]) == alone)";
        let mut told = Vec::new();
        let mut progress = |step| told.push(step);
        assert!(run(target, &["-I", "-c", code, temporary.to_str().unwrap()], &mut progress).await.ok);
        assert_eq!(told, [Progress::Looking("True".into())]);
        assert!(!temporary.exists());
    }

    #[tokio::test]
    async fn pip_ends_when_nobody_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let env = Env::of_process();
        let choice = super::super::python::Choice::Auto;
        let interpreter = super::super::python::resolve(&choice, &env, folder.path()).await.unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink(&interpreter.path, folder.path().join("bin/python")).unwrap();
        let target = Target { root: folder.path(), site: folder.path(), interpreter: &interpreter, env: &env };
        let path = folder.path().join("lock");
        let code = "import fcntl, sys, time; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX)\n\
                    print('Collecting started', flush=True); time.sleep(600)";
        let args = ["-I", "-c", code, path.to_str().unwrap()];
        let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
        let mut progress = |step| started.send(step).unwrap();
        tokio::select! {
            _ = run(target, &args, &mut progress) => panic!("it ended by itself"),
            step = has_started.recv() => assert_eq!(step, Some(Progress::Looking("started".into()))),
        }
        // The kernel frees the lock when the process is gone.
        let lock = std::fs::File::open(&path).unwrap();
        let gone = tokio::task::spawn_blocking(move || lock.lock());
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap().unwrap().unwrap();
    }
}
