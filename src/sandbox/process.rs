//! Processes of this machine: hardening our own and ending those of a run.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// Passes over the process table before we give up: each ends what it finds, so more are needed only against code that
/// forks faster than it is killed.
#[cfg(target_os = "linux")]
const MAX_PASSES: usize = 50;

/// Makes the memory and the environment of this program, keys among them, unreadable for other processes of the same user.
pub fn harden_process() {
    // Best effort: it can only fail on a kernel that does not know it.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_dumpable(false);
    ignore_file_size_signal();
}

/// A write over `ulimit -f` is an error with a message, not the end of the program.
#[allow(unsafe_code)]
fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, so no code of ours runs in a signal context; nothing else here sets this signal.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGXFSZ, nix::sys::signal::SigHandler::SigIgn) };
}

/// Runners and guards this program started. They leave its session, and so do the orphans that come up to it; nothing else
/// below it does. Locked while one starts and while orphans are killed, so that none is taken for an orphan.
static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn started() -> MutexGuard<'static, BTreeSet<u32>> {
    // A panic cannot leave a set of numbers half-made.
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a runner or a guard.
pub(super) fn start(command: &mut Command) -> std::io::Result<Child> {
    let mut started = started();
    let child = command.spawn()?;
    started.extend(child.id());
    Ok(child)
}

/// Has what loses its parent below this program, such as a runner that was killed by its code, come up to it.
pub(super) fn adopt_orphans() {
    // Best effort: it can only fail on a kernel that does not know it.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_child_subreaper(true);
}

/// Kills a runner with everything below it or started with `folder` in its environment, when it cannot do so itself, and
/// the orphans. What lives below it goes first: orphans that do not come up to us can no longer be found by descent.
pub(super) fn kill_run(runner: u32, folder: &Path) {
    let runner = Pid::from_raw(i32::try_from(runner).unwrap_or(0));
    if runner.as_raw() <= 1 {
        return;
    }
    // Stopped it makes no new worker; errors mean that it is gone already.
    let _ = kill(runner, Signal::SIGSTOP);
    #[cfg(target_os = "linux")]
    linux::kill_all(|table| linux::members(table, runner, folder));
    #[cfg(not(target_os = "linux"))]
    let _ = folder;
    let _ = kill(runner, Signal::SIGKILL);
    kill_orphans();
}

/// Kills what came up to us from runners that are gone, with everything below it.
pub(super) fn kill_orphans() {
    #[cfg(target_os = "linux")]
    {
        let mut started = started();
        linux::kill_all(|table| linux::orphans(table, &mut started));
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStrExt;

    use nix::sys::wait::{WaitPidFlag, waitpid};

    /// A process as the kernel tells of it.
    pub struct Process {
        parent: i32,
        session: i32,
        /// It ended and was not asked for yet.
        dead: bool,
    }

    pub type Processes = BTreeMap<i32, Process>;

    /// Kills what `find` finds until it twice finds nothing: the table is read in pieces, so what changes its parent
    /// meanwhile can be missed once.
    pub fn kill_all(mut find: impl FnMut(&Processes) -> Vec<i32>) {
        let mut clean = 0;
        for _ in 0..MAX_PASSES {
            let found = find(&processes());
            clean = if found.is_empty() { clean + 1 } else { 0 };
            if clean == 2 {
                return;
            }
            for pid in found {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Living processes below `root`, or with `folder` in their environment; never `root` or ourselves.
    pub fn members(table: &Processes, root: Pid, folder: &Path) -> Vec<i32> {
        let (own, root) = (std::process::id() as i32, root.as_raw());
        let belongs = |pid: i32| below(table, pid, |up| up == root) || marked(pid, folder);
        let others = table.iter().filter(|(pid, process)| !process.dead && **pid > 1 && **pid != own && **pid != root);
        others.map(|(pid, _)| *pid).filter(|pid| belongs(*pid)).collect()
    }

    /// Living orphans and what is below them. Dead ones are asked for, since nobody else does; `started` loses those that
    /// are no children of ours any more, for their numbers may come again.
    pub fn orphans(table: &Processes, started: &mut BTreeSet<u32>) -> Vec<i32> {
        let own = std::process::id() as i32;
        let Some(session) = table.get(&own).map(|process| process.session) else { return Vec::new() };
        let is_child = |pid: i32| table.get(&pid).is_some_and(|process| process.parent == own);
        started.retain(|pid| i32::try_from(*pid).is_ok_and(is_child));
        let children = table.iter().filter(|(_, process)| process.parent == own && process.session != session);
        let orphans = children.filter(|(pid, _)| u32::try_from(**pid).is_ok_and(|pid| !started.contains(&pid)));
        let orphans: BTreeSet<i32> = orphans.map(|(pid, _)| *pid).collect();
        for pid in orphans.iter().filter(|pid| table.get(pid).is_some_and(|process| process.dead)) {
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        let living = table.iter().filter(|(_, process)| !process.dead).map(|(pid, _)| *pid);
        living.filter(|pid| orphans.contains(pid) || below(table, *pid, |up| orphans.contains(&up))).collect()
    }

    /// Whether an ancestor of a process is meant.
    fn below(table: &Processes, pid: i32, meant: impl Fn(i32) -> bool) -> bool {
        let mut up = pid;
        // A table read in pieces may hold a circle; no chain is longer than the table.
        for _ in 0..table.len() {
            match table.get(&up) {
                Some(process) if meant(process.parent) => return true,
                Some(process) => up = process.parent,
                None => return false,
            }
        }
        false
    }

    fn processes() -> Processes {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Processes::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| Some((pid, process(pid)?))).collect()
    }

    fn process(pid: i32) -> Option<Process> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything, so count from the last one.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
        let dead = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        Some(Process { parent, session: fields.nth(1)?.parse().ok()?, dead })
    }

    fn marked(pid: i32, folder: &Path) -> bool {
        let name = folder.as_os_str().as_bytes();
        let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
        !name.is_empty() && environ.windows(name.len()).any(|part| part == name)
    }
}
