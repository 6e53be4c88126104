//! The executor without isolation: the code runs as the person's own user. It is kept from disturbing by accident, with
//! limits, a clean environment, a folder of its own and copies of the inputs; nothing here stops hostile code from
//! reading the person's files or using the network, and [`Executor::capabilities`] says so.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use tokio::process::Command;

use super::inputs::{Input, Inputs};
use super::local::{LocalSandbox, RUNNER, Setup};
use super::{Executor, OpenRequest, Sandbox, SetupError};
use crate::core::event::Failure;
use crate::core::policy::{Capabilities, Hold, Limit, SecurityPolicy};

/// Bytes of inputs that are copied for a session: a copy costs disk and start-up time.
const MAX_COPIED: u64 = 256 * 1024 * 1024;
/// Bytes copied between two looks at whether anybody still waits: well below a second from a slow disk.
const STEP: u64 = 8 * 1024 * 1024;
/// Inputs left out that are named, each with its reason; the others are counted. More would fill the model's context.
const MAX_NAMED: usize = 8;
/// Threads of the numeric libraries at most: each one takes address space of its own.
const MAX_THREADS: u64 = 2;
/// Where the code finds programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs code as the person's own user.
#[derive(Debug, Clone)]
pub struct SubprocessExecutor {
    /// The interpreter, resolved.
    pub python: PathBuf,
}

/// How far the limits hold, with any interpreter and policy.
pub fn capabilities() -> Capabilities {
    let root = nix::unistd::geteuid().is_root();
    // Root may raise its own limits again and is not counted for processes.
    let (rlimit, processes) = if root { (Hold::BestEffort, Hold::No) } else { (Hold::Enforced, Hold::BestEffort) };
    Capabilities::from([
        // Code may kill the supervisor and hide what it started.
        (Limit::WallTime, Hold::BestEffort),
        (Limit::CpuTime, Hold::BestEffort),
        (Limit::CpuRate, Hold::No),
        (Limit::Memory, Hold::BestEffort),
        (Limit::Processes, processes),
        (Limit::FileSize, rlimit),
        (Limit::Scratch, Hold::No),
        (Limit::OpenFiles, rlimit),
        (Limit::Output, Hold::Enforced),
        (Limit::Network, Hold::No),
        (Limit::HostFiles, Hold::No),
        (Limit::Kill, Hold::BestEffort),
    ])
}

impl Executor for SubprocessExecutor {
    fn name(&self) -> &'static str {
        "subprocess"
    }

    fn capabilities(&self, _: &SecurityPolicy) -> Capabilities {
        capabilities()
    }

    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Box<dyn Sandbox>, SetupError>> {
        let python = self.python.clone();
        Box::pin(async move {
            let OpenRequest { policy, inputs, keep } = request;
            let names = inputs.files.iter().map(|file| file.name.clone()).collect();
            // Goes when this future is dropped: then the copying ends too.
            let waits = Arc::new(());
            let waiting = Arc::downgrade(&waits);
            let prepared = tokio::task::spawn_blocking(move || prepare(&inputs, &waiting)).await;
            drop(waits);
            let (scratch, notes) = prepared.map_err(std::io::Error::other).flatten().map_err(|error| SetupError {
                failure: Failure::new(
                    "the working folder could not be made",
                    error.to_string(),
                    "free space in the folder for temporary files, or set TMPDIR",
                ),
                missing: false,
            })?;
            let command = command(&python, scratch.path(), &policy);
            let runtime = python.display().to_string();
            let workspace = scratch.path().join(WORKSPACE);
            let setup = Setup { command, runtime, keep, scratch, workspace, inputs: names, notes };
            let sandbox = LocalSandbox::start(setup).await?;
            Ok(Box::new(sandbox) as Box<dyn Sandbox>)
        })
    }
}

/// The runner under `policy` in the folder `scratch`. The environment is made, not inherited: keys stay here.
fn command(python: &Path, scratch: &Path, policy: &SecurityPolicy) -> Command {
    let threads = (policy.max_cpus.ceil() as u64).clamp(1, MAX_THREADS);
    let mut folder = OsString::from("scratch=");
    folder.push(scratch);
    let mut command = Command::new(python);
    // -I ignores the person's PYTHON* variables and packages, and a `random.py` in the working folder.
    command.args(["-I", "-u", "-B", "-X", "utf8", "-c", RUNNER, "run"]);
    command.args([
        format!("memory={}", policy.max_memory_bytes),
        format!("output={}", policy.max_output_bytes),
        format!("files={}", policy.max_open_files),
        format!("fsize={}", policy.max_file_bytes),
        format!("procs={}", policy.max_processes),
        format!("threads={threads}"),
    ]);
    command.arg(folder).current_dir(scratch.join(WORKSPACE)).env_clear();
    command.env("PATH", PATH).env("LANG", "C.UTF-8").env("LC_ALL", "C.UTF-8").env("MPLBACKEND", "Agg");
    command.env("HOME", scratch.join(HOME)).env("MPLCONFIGDIR", scratch.join(HOME)).env("TMPDIR", scratch.join(TMP));
    for name in ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"] {
        command.env(name, threads.to_string());
    }
    if let Some(zone) = std::env::var_os("TZ") {
        command.env("TZ", zone);
    }
    command
}

const WORKSPACE: &str = "workspace";
const HOME: &str = "home";
const TMP: &str = "tmp";

/// Makes the folder of a sandbox (mode 0700) and copies the inputs into it while somebody is waiting; returns what to tell
/// about them.
fn prepare(inputs: &Inputs, waiting: &Weak<()>) -> std::io::Result<(tempfile::TempDir, Vec<String>)> {
    let scratch =
        tempfile::Builder::new().prefix("sandscript-").permissions(Permissions::from_mode(0o700)).tempdir()?;
    for name in [WORKSPACE, HOME, TMP] {
        std::fs::create_dir(scratch.path().join(name))?;
    }
    let workspace = scratch.path().join(WORKSPACE);
    let mut left = MAX_COPIED;
    let (mut notes, mut unnamed) = (Vec::new(), 0u64);
    for input in &inputs.files {
        match copy(input, &workspace, left, waiting) {
            Ok(bytes) => left -= bytes,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => return Err(error),
            Err(_) if notes.len() == MAX_NAMED => unnamed += 1,
            Err(error) => notes.push(format!("the input {} is not there: {error}", input.name)),
        }
    }
    match unnamed {
        0 => {}
        1 => notes.push("1 more input is not there".into()),
        count => notes.push(format!("{count} more inputs are not there")),
    }
    Ok((scratch, notes))
}

/// Copies one input, read-only, if it has at most `left` bytes; returns how many it has. The person's own file is never
/// given to the code. (The standard library asks the file system to share the blocks where it can.)
fn copy(input: &Input, workspace: &Path, left: u64, waiting: &Weak<()>) -> std::io::Result<u64> {
    let name = Path::new(&input.name);
    if !name.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(std::io::Error::other("its name leaves the folder"));
    }
    let mut options = File::options();
    // It was a regular file when it was listed; a pipe in its place must not hold us up.
    let mut from = options.read(true).custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(&input.path)?;
    let found = from.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let too_large = || std::io::Error::other("the inputs together exceed 256 MiB, the most that is copied here");
    if found.len() > left {
        return Err(too_large());
    }
    let path = workspace.join(name);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut to = File::options().write(true).create_new(true).mode(0o444).open(&path)?;
    let copied = copy_bytes(&mut from, &mut to, left, waiting).and_then(|bytes| to.flush().map(|()| bytes));
    let result = match copied {
        Ok(bytes) if bytes == left && from.read(&mut [0])? > 0 => Err(too_large()),
        other => other,
    };
    if result.is_err() {
        let _ = std::fs::remove_file(&path);
    }
    result
}

/// Copies at most `left` bytes: a file may grow while it is copied.
fn copy_bytes(from: &mut File, to: &mut File, left: u64, waiting: &Weak<()>) -> std::io::Result<u64> {
    let mut done = 0;
    loop {
        if waiting.strong_count() == 0 {
            return Err(std::io::Error::other("nobody waits for it any more"));
        }
        match std::io::copy(&mut from.take(STEP.min(left - done)), to)? {
            0 => return Ok(done),
            count => done += count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(folder: &Path, name: &str, bytes: u64) -> Input {
        let path = folder.join(name.replace('/', "_"));
        std::fs::write(&path, "x".repeat(bytes as usize)).unwrap();
        Input::new(name, path, bytes)
    }

    #[test]
    fn inputs_are_copied_read_only_with_their_folders() {
        let home = tempfile::tempdir().unwrap();
        let inputs =
            Inputs { files: vec![input(home.path(), "a.csv", 3), input(home.path(), "sub/b.csv", 4)], notes: vec![] };
        let waits = Arc::new(());
        let (scratch, notes) = prepare(&inputs, &Arc::downgrade(&waits)).unwrap();
        assert_eq!(notes, Vec::<String>::new());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(scratch.path()), 0o700);
        assert_eq!(mode(&scratch.path().join("workspace/sub/b.csv")) & 0o222, 0);
        assert_eq!(std::fs::read(scratch.path().join("workspace/a.csv")).unwrap(), b"xxx");
        drop(waits);
        let (scratch, _) = prepare(&inputs, &Weak::new()).unwrap();
        assert!(!scratch.path().join("workspace/a.csv").exists(), "copied for nobody");
    }

    #[test]
    fn a_file_of_many_steps_is_copied_whole() {
        let home = tempfile::tempdir().unwrap();
        let (waits, big) = (Arc::new(()), input(home.path(), "big", 2 * STEP + 5));
        assert_eq!(copy(&big, &home.path().join("w"), MAX_COPIED, &Arc::downgrade(&waits)).unwrap(), 2 * STEP + 5);
        assert_eq!(home.path().join("w/big").metadata().unwrap().len(), 2 * STEP + 5);
    }

    #[test]
    fn names_that_leave_and_files_too_large_are_left_out() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        let waits = Arc::new(());
        let waiting = Arc::downgrade(&waits);
        let mut evil = input(home.path(), "a", 1);
        for name in ["../a", "/a", "./../a"] {
            evil.name = name.into();
            assert!(copy(&evil, &workspace, 100, &waiting).is_err(), "{name}");
        }
        assert!(copy(&input(home.path(), "big", 11), &workspace, 10, &waiting).is_err());
        assert_eq!(copy(&input(home.path(), "fits", 10), &workspace, 10, &waiting).unwrap(), 10);
        assert!(!workspace.join("big").exists());
    }

    #[test]
    fn a_pipe_in_place_of_an_input_does_not_hold_us_up() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = copy(&Input::new("pipe", path, 1), home.path(), 10, &Weak::new()).unwrap_err();
        assert_eq!(error.to_string(), "it is no regular file");
    }

    #[test]
    fn few_of_the_inputs_left_out_are_named() {
        let home = tempfile::tempdir().unwrap();
        let missing = |number| Input::new(format!("{number}.csv"), home.path().join("missing"), 1);
        let notes = |count| {
            let inputs = Inputs { files: (0..count).map(missing).collect(), notes: vec![] };
            prepare(&inputs, &Weak::new()).unwrap().1
        };
        assert_eq!(notes(MAX_NAMED).len(), MAX_NAMED);
        assert_eq!(notes(MAX_NAMED + 1).last().unwrap(), "1 more input is not there");
        let many = notes(632);
        assert_eq!((many.len(), many.last().unwrap().as_str()), (MAX_NAMED + 1, "624 more inputs are not there"));
    }

    #[test]
    fn it_does_not_claim_to_isolate() {
        let executor = SubprocessExecutor { python: "python3".into() };
        assert!(!executor.capabilities(&SecurityPolicy::default()).isolates());
    }
}
