//! pip, run by the environment's own Python: wheels only, with the user's index and certificate settings, and never longer
//! than this program lives.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::unix::pipe;

use super::inputs::shown;
use super::packages::Requirement;
use super::python::{Env, Interpreter};

/// Longest run of pip. The default packages are 120 MB: 20 minutes is a line of 1 Mbit/s.
const INSTALL_LIMIT: Duration = Duration::from_secs(20 * 60);

/// How much of pip's output is read, in bytes; it writes a few lines for each package.
const MAX_OUTPUT: u64 = 16 * 1024 * 1024;

/// Longest text from pip that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Runs a command in a session of its own and kills all of it when standard input ends, which it does however this program
/// ends.
const GUARD: &str = "\
import os, signal, subprocess, sys, threading
os.setsid()
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
def watch():
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(1 if child.wait() else 0)
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

/// Installs what can be had: all together, and where that fails one by one, so that one bad name costs only itself.
pub(super) async fn install(
    python: &Path,
    interpreter: &Interpreter,
    wanted: &[&Requirement],
    env: &Env,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Report {
    if !interpreter.has_pip {
        let minor = interpreter.version.rsplit_once('.').map_or("3", |(minor, _)| minor);
        let hint =
            format!("apt install python3-venv (or python{minor}-venv), or take another Python with --python PATH");
        if !interpreter.has_ensurepip {
            return Report::all_failed(wanted, "this Python has neither pip nor ensurepip", hint);
        }
        let run = run(interpreter, python, &["-I", "-m", "ensurepip"], env, progress).await;
        if let Some(why) = run.failure() {
            return Report::all_failed(wanted, &format!("ensurepip failed: {why}"), hint);
        }
    }
    let all = pip(python, interpreter, wanted, env, progress).await;
    let Some(why) = all.failure() else { return Report::default() };
    if all.unreachable || wanted.len() == 1 {
        return Report { unreachable: all.unreachable, ..Report::all_failed(wanted, &why, all.hint(interpreter)) };
    }
    let mut report = Report::default();
    for requirement in wanted {
        let one = pip(python, interpreter, &[requirement], env, progress).await;
        let Some(why) = one.failure() else { continue };
        report.hint = one.hint(interpreter);
        report.failed.insert(requirement.text().to_owned(), why);
        report.unreachable |= one.unreachable;
    }
    report
}

async fn pip(
    python: &Path,
    interpreter: &Interpreter,
    wanted: &[&Requirement],
    env: &Env,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Run {
    // The interpreter's pip is visible in the environment and takes it for its own. Bytecode is compiled now, once,
    // because no run may write into the environment later.
    let mut args = vec!["-I", "-m", "pip", "install", "--only-binary", ":all:", "--no-user", "--no-input"];
    args.extend(["--disable-pip-version-check", "--no-warn-script-location", "--progress-bar", "off"]);
    // One retry: a network that is not there must be told in seconds.
    args.extend(["--retries", "1", "--"]);
    args.extend(wanted.iter().map(|requirement| requirement.text()));
    run(interpreter, python, &args, env, progress).await
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
async fn run(
    interpreter: &Interpreter,
    python: &Path,
    args: &[&str],
    env: &Env,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Run {
    let mut run = Run::default();
    match tokio::time::timeout(INSTALL_LIMIT, follow(interpreter, python, args, env, &mut run, progress)).await {
        Ok(Ok(ok)) => run.ok = ok,
        Ok(Err(e)) => run.complaint = format!("{} did not start: {e}", python.display()),
        Err(_) => run.complaint = format!("not done after {} minutes", INSTALL_LIMIT.as_secs() / 60),
    }
    if run.complaint.is_empty() {
        run.complaint = "pip failed and did not say why".into();
    }
    run
}

async fn follow(
    interpreter: &Interpreter,
    python: &Path,
    args: &[&str],
    env: &Env,
    run: &mut Run,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> std::io::Result<bool> {
    let (reader, writer) = std::io::pipe()?;
    let mut command = tokio::process::Command::new(&interpreter.path);
    command.args(["-I", "-B", "-c", GUARD]).arg(python).args(args).current_dir("/").env_clear().envs(env.passed());
    // Not `kill_on_drop`: that would kill the guard and leave pip. Dropping the child closes its standard input instead.
    command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
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
            ["looking for pandas", "downloading pandas (13.1 MB)", "installing 2 packages", "looking for red"]
        );
    }
}
