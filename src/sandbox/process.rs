//! Processes of this machine: hardening our own and ending those of a run.

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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

/// Kills a runner with everything below it or started with `folder` in its environment, when it cannot do so itself.
/// What lives below it goes first, since its orphans can no longer be found by descent.
pub fn kill_run(runner: u32, folder: &Path) {
    let runner = Pid::from_raw(i32::try_from(runner).unwrap_or(0));
    if runner.as_raw() <= 1 {
        return;
    }
    // Stopped it makes no new worker; errors mean that it is gone already.
    let _ = kill(runner, Signal::SIGSTOP);
    #[cfg(target_os = "linux")]
    for _ in 0..MAX_PASSES {
        let found = linux::members(runner, folder);
        if found.is_empty() {
            break;
        }
        for pid in found {
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = folder;
    let _ = kill(runner, Signal::SIGKILL);
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::ffi::OsStrExt;

    /// Living processes below `root`, or with `folder` in their environment; never `root` or ourselves.
    pub fn members(root: Pid, folder: &Path) -> Vec<Pid> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let parents: BTreeMap<i32, i32> = pids.filter_map(|pid| Some((pid, parent(pid)?))).collect();
        let own = std::process::id() as i32;
        let belongs = |pid: i32| pid > 1 && pid != own && pid != root.as_raw();
        let below = |pid: i32| {
            let mut up = pid;
            // A table read in pieces may hold a circle; no chain is longer than the table.
            for _ in 0..parents.len() {
                match parents.get(&up) {
                    Some(parent) if *parent == root.as_raw() => return true,
                    Some(parent) => up = *parent,
                    None => return false,
                }
            }
            false
        };
        let found = parents.keys().copied().filter(|pid| belongs(*pid) && (below(*pid) || marked(*pid, folder)));
        found.map(Pid::from_raw).collect()
    }

    /// Parent of a living process.
    fn parent(pid: i32) -> Option<i32> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold anything, so count from the last one.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = std::str::from_utf8(&stat[end + 1..]).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") { None } else { fields.next()?.parse().ok() }
    }

    fn marked(pid: i32, folder: &Path) -> bool {
        let name = folder.as_os_str().as_bytes();
        let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
        !name.is_empty() && environ.windows(name.len()).any(|part| part == name)
    }
}
