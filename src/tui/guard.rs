//! The state of the terminal, process-wide. Owns what is switched on when the screen is taken and how everything is given
//! back, from wherever the program ends: the orderly way, a drop, a panic.
//!
//! It is a matter of the process and not of a value, since a panic hook can reach no value. Nothing here goes through the
//! buffered standard output: a panic in the middle of a write would find it locked.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::thread::ThreadId;

use crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::Notify;

use crate::core::clean::Clean;

/// Alternate screen; then, for that screen only, keys that can be told apart (Shift-Enter from Enter, Esc from the start
/// of a sequence); bracketed paste; focus reports; no cursor.
///
/// A terminal is not asked whether it knows the keyboard flags: its answer would come between the person's keys. One that
/// does not know them ignores the sequence.
const TAKE: &[u8] = b"\x1b[?1049h\x1b[>1u\x1b[?2004h\x1b[?1004h\x1b[?25l";

/// Buttons, drags and the wheel, in the form without limits of size. No plain motion: it would wake us all the time.
pub(super) const MOUSE_ON: &[u8] = b"\x1b[?1000h\x1b[?1002h\x1b[?1006h";

/// Every mouse mode there is, also those we do not use.
pub(super) const MOUSE_OFF: &[u8] = b"\x1b[?1006l\x1b[?1015l\x1b[?1003l\x1b[?1002l\x1b[?1000l";

/// Ends an open string sequence and an open frame, then undoes [`TAKE`]: the keyboard flags before the screen they
/// belong to is left; colours and cursor on the screen that stays.
const GIVE_BACK: [&[u8]; 3] =
    [b"\x1b\\\x1b[?2026l\x1b[<1u", MOUSE_OFF, b"\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l\x1b[0m\x1b[?25h"];

/// Longest panic message that is kept, characters; the first lines say it all.
const MAX_MESSAGE: usize = 4000;

/// Whether the screen is ours.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The thread that draws, while the screen is ours.
static OWNER: Mutex<Option<ThreadId>> = Mutex::new(None);

/// What another thread panicked with while the screen was ours; the first one.
static LATE: Mutex<Option<String>> = Mutex::new(None);

/// The screen was given back by a panic on the thread that draws, but the loop goes on: a task failed, not the loop.
static PANICKED: Notify = Notify::const_new();

/// The terminal, past the buffer of the standard output.
fn out() -> io::Result<&'static File> {
    static OUT: OnceLock<File> = OnceLock::new();
    if let Some(file) = OUT.get() {
        return Ok(file);
    }
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    Ok(OUT.get_or_init(|| file))
}

/// Writes all of it. Another program may have made the terminal non-blocking; then it is waited for.
pub(super) fn send(mut bytes: &[u8]) -> io::Result<()> {
    let mut out = out()?;
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Takes the screen. What was switched on is undone if something fails.
pub(super) fn take(mouse: bool) -> io::Result<()> {
    watch_panics();
    *OWNER.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    TAKEN.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode().and_then(|()| send(TAKE));
    let taken = taken.and_then(|()| if mouse { send(MOUSE_ON) } else { Ok(()) });
    if taken.is_err() {
        // The first failure is the one to tell.
        let _ = give_back();
    }
    taken
}

/// Gives everything back. The second time it does nothing. Each step is tried even if one fails; the first failure is told.
pub fn give_back() -> io::Result<()> {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return Ok(());
    }
    let sent = send(&GIVE_BACK.concat());
    let cooked = disable_raw_mode();
    sent.and(cooked)
}

/// Whether the screen is ours.
pub(super) fn is_taken() -> bool {
    TAKEN.load(Ordering::SeqCst)
}

/// A panic gave the screen back. Dropping it loses nothing.
pub(super) async fn panicked() {
    PANICKED.notified().await;
}

/// What a thread that does not draw panicked with, to be told when the screen is given back.
pub(super) fn late_message() -> Option<Clean> {
    let message = LATE.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    Some(Clean::text(&message))
}

/// Puts our hook before the one that is there; once. A panic of the thread that draws gives the screen back and is then
/// printed. One of another thread must not paint over the screen: it is kept and told at the end.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !is_taken() {
                return before(info);
            }
            if is_owner() {
                // Nobody is left to tell.
                let _ = give_back();
                PANICKED.notify_one();
                return before(info);
            }
            // A second panic must not come from a lock.
            if let Ok(mut late) = LATE.try_lock() {
                late.get_or_insert_with(|| info.to_string().chars().take(MAX_MESSAGE).collect());
            }
        }));
    });
}

fn is_owner() -> bool {
    // If the lock is held, the owner is just being set: that is the thread that draws.
    OWNER.try_lock().map_or(true, |owner| *owner == Some(std::thread::current().id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_that_is_set_is_reset() {
        let back = String::from_utf8(GIVE_BACK.concat()).unwrap();
        let set = String::from_utf8([TAKE, MOUSE_ON].concat()).unwrap();
        let modes: Vec<&str> = set.split("\x1b[?").skip(1).filter_map(|m| m.split_once('h')).map(|m| m.0).collect();
        assert_eq!(modes, ["1049", "2004", "1004", "1000", "1002", "1006"]);
        for mode in modes {
            assert!(back.contains(&format!("\x1b[?{mode}l")), "{mode} stays on");
        }
        assert!(set.contains("\x1b[?25l") && back.ends_with("\x1b[?25h"), "the cursor is shown last");
    }

    #[test]
    fn giving_back_what_was_not_taken_does_nothing() {
        assert!(give_back().is_ok());
        assert!(give_back().is_ok());
    }
}
