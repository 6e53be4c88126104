//! A program in a terminal of its own: what a person would press and see, and every byte the terminal was sent.
#![allow(dead_code, missing_docs)]

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use vt100::{MouseProtocolMode, Parser};

/// Longer than anything takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20);

pub struct Pty {
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    read: Receiver<Vec<u8>>,
    parser: Parser,
    /// Everything the terminal was sent.
    raw: Vec<u8>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn cells(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl Pty {
    /// Starts `command`, with its arguments, folder and environment, as the leader of a terminal.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            builder.cwd(folder);
        }
        builder.env_clear();
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                builder.env(name, value);
            }
        }
        if builder.get_env("TERM").is_none() {
            builder.env("TERM", "xterm-256color");
        }
        let child = pair.slave.spawn_command(builder).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (sender, read) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        let writer = pair.master.take_writer().unwrap();
        Self {
            master: pair.master,
            writer,
            child,
            read,
            parser: Parser::new(cells(rows), cells(columns), 0),
            raw: Vec::new(),
        }
    }

    /// Closes the window. The key makes the program draw, so that our reading thread lets go of the terminal, too.
    pub fn hang_up(&mut self) {
        self.read = channel().1;
        self.send(b"x");
        self.writer = Box::new(std::io::sink());
        self.master = native_pty_system().openpty(size(1, 1)).unwrap().master;
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).unwrap();
        self.writer.flush().unwrap();
    }

    pub fn type_str(&mut self, text: &str) {
        self.send(text.as_bytes());
    }

    /// Presses a key by its name: `enter`, `esc`, `tab`, `up`, `ctrl-c`, `alt-x`, or one character.
    pub fn press(&mut self, key: &str) {
        let bytes = match key {
            "enter" => b"\r".to_vec(),
            "esc" => b"\x1b".to_vec(),
            "tab" => b"\t".to_vec(),
            "shift-tab" => b"\x1b[Z".to_vec(),
            "backspace" => b"\x7f".to_vec(),
            "delete" => b"\x1b[3~".to_vec(),
            "up" => b"\x1b[A".to_vec(),
            "down" => b"\x1b[B".to_vec(),
            "right" => b"\x1b[C".to_vec(),
            "left" => b"\x1b[D".to_vec(),
            "home" => b"\x1b[H".to_vec(),
            "end" => b"\x1b[F".to_vec(),
            "pageup" => b"\x1b[5~".to_vec(),
            "pagedown" => b"\x1b[6~".to_vec(),
            _ => match (key.strip_prefix("ctrl-"), key.strip_prefix("alt-")) {
                (Some(letter), _) => vec![letter.as_bytes()[0] & 0x1f],
                (_, Some(rest)) => [b"\x1b", rest.as_bytes()].concat(),
                (None, None) => key.as_bytes().to_vec(),
            },
        };
        self.send(&bytes);
    }

    /// Pastes as a terminal does that brackets what is pasted.
    pub fn paste(&mut self, text: &str) {
        self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes());
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.master.resize(size(columns, rows)).unwrap();
        self.parser.screen_mut().set_size(cells(rows), cells(columns));
    }

    /// What is on the screen now, without the spaces at the ends of lines.
    pub fn screen(&self) -> String {
        // A space that does not end a line is a space to who reads.
        let text = self.parser.screen().contents().replace('\u{a0}', " ");
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    pub fn parsed(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Everything the terminal was sent so far.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Takes in what comes until `seen` says so; `false` when the program has closed the terminal or time is up.
    pub fn read_until(&mut self, limit: Duration, mut seen: impl FnMut(&Self) -> bool) -> bool {
        let until = Instant::now() + limit;
        loop {
            while let Ok(bytes) = self.read.try_recv() {
                self.take(&bytes);
            }
            if self.is_whole() && seen(self) {
                return true;
            }
            match self.read.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// The last frame that began has ended: a terminal shows no half ones.
    fn is_whole(&self) -> bool {
        let last = |mark: &[u8]| self.raw.windows(mark.len()).rposition(|bytes| bytes == mark);
        last(b"\x1b[?2026h") <= last(b"\x1b[?2026l")
    }

    fn take(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
        self.raw.extend_from_slice(bytes);
    }

    /// Waits until the screen shows `text`.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        let found = self.read_until(LIMIT, |pty| pty.screen().contains(text));
        assert!(found, "no {text:?} on the screen:\n{}", self.screen());
    }

    /// Waits for the end; 128 and the signal's number more for a program that was killed.
    #[track_caller]
    pub fn exit_code(&mut self) -> u32 {
        // The terminal is closed by the end, unless a child of the program holds it.
        let until = Instant::now() + LIMIT;
        let status = loop {
            self.read_until(Duration::from_millis(20), |_| false);
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() >= until {
                let _ = self.child.kill();
                panic!("the program does not end:\n{}", self.screen());
            }
        };
        self.read_until(Duration::from_millis(200), |_| false);
        status.exit_code()
    }

    /// Every mode of the terminal is as it was.
    pub fn assert_given_back(&self) {
        let screen = self.parser.screen();
        assert!(!screen.alternate_screen(), "the alternate screen stays");
        assert!(!screen.hide_cursor(), "the cursor stays hidden");
        assert!(!screen.bracketed_paste(), "bracketed paste stays on");
        assert_eq!(screen.mouse_protocol_mode(), MouseProtocolMode::None);
        let raw = String::from_utf8_lossy(&self.raw);
        for mode in ["1000", "1002", "1003", "1006", "1015", "1004", "2004", "2026", "1049"] {
            let (on, off) = (raw.rfind(&format!("\x1b[?{mode}h")), raw.rfind(&format!("\x1b[?{mode}l")));
            assert!(on <= off, "mode {mode} stays on");
        }
        assert!(raw.matches("\x1b[>1u").count() <= raw.matches("\x1b[<1u").count(), "keyboard flags stay");
    }

    /// The terminal echoes and hands over lines again, as before the program.
    pub fn assert_cooked(&self) {
        let modes = self.master.get_termios().unwrap();
        let flags = format!("{:?}", modes.local_flags);
        assert!(flags.contains("ICANON") && flags.contains("ECHO") && flags.contains("ISIG"), "{flags}");
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
