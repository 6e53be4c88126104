//! What the person types: lines from standard input with the moment each arrived, and which of them belong together.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Lines that come faster than this were pasted, or typed ahead: they are one text, and none of them is an answer. A person
/// who answers one question and then the next takes longer.
const TOGETHER: Duration = Duration::from_millis(150);

/// Lines on their way to the loop; it takes them at once.
const CHANNEL: usize = 256;

/// Longest line, bytes: more is no message to anybody.
const MAX_LINE: usize = 1024 * 1024;

/// How long the thread may take to let go of standard input.
const LET_GO: Duration = Duration::from_secs(1);

/// Orders to the thread.
const PAUSE: u8 = b'p';
const GO_ON: u8 = b'g';

/// What came from standard input.
#[derive(Debug, PartialEq)]
pub enum Typed {
    /// A whole line without its end, and when it arrived.
    Line(String, Instant),
    /// A line that was too long, and is left out.
    TooLong,
    /// There is no more.
    End,
}

/// Standard input, read by a thread of its own: so that the moment a line arrives is known, whatever else goes on.
pub struct Keyboard {
    lines: mpsc::Receiver<Typed>,
    paused: mpsc::Receiver<()>,
    control: PipeWriter,
}

impl Keyboard {
    /// Reads from now on.
    pub fn start() -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let (reader, control) = io::pipe()?;
        let (tell, lines) = mpsc::channel(CHANNEL);
        let (tell_paused, paused) = mpsc::channel(1);
        std::thread::Builder::new().name("standard input".into()).spawn(move || {
            read(input, reader, &tell, &tell_paused);
            let _ = tell.blocking_send(Typed::End);
        })?;
        Ok(Self { lines, paused, control })
    }

    /// What comes next; after the end, nothing ever. Dropping it loses nothing.
    pub async fn next(&mut self) -> Typed {
        match self.lines.recv().await {
            Some(typed) => typed,
            None => std::future::pending().await,
        }
    }

    /// Leaves standard input to another program.
    pub async fn pause(&mut self) {
        // At the end of the input the thread is gone and does not answer.
        if self.control.write_all(&[PAUSE]).is_ok() {
            let _ = timeout(LET_GO, self.paused.recv()).await;
        }
    }

    /// Reads again.
    pub fn go_on(&mut self) {
        let _ = self.control.write_all(&[GO_ON]);
    }
}

/// Reads until the end of the input, of the program, or of its trust in this thread.
fn read(input: OwnedFd, mut control: PipeReader, tell: &mpsc::Sender<Typed>, paused: &mpsc::Sender<()>) {
    let mut input = File::from(input);
    let mut lines = Lines::default();
    let mut buffer = [0; 4096];
    loop {
        match wait(&input, &control) {
            Ok(Ready::Order) => {
                let mut order = [0];
                match control.read(&mut order) {
                    Ok(1) if order == [PAUSE] => {
                        if paused.blocking_send(()).is_err() || !matches!(control.read(&mut order), Ok(1)) {
                            return;
                        }
                    }
                    Ok(1) => {}
                    Ok(_) | Err(_) => return,
                }
            }
            Ok(Ready::Input) => match input.read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    for typed in lines.feed(&buffer[..n], Instant::now()) {
                        if tell.blocking_send(typed).is_err() {
                            return;
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            },
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

enum Ready {
    Input,
    Order,
}

/// Waits without taking anything: an order first, so that what is typed for another program is left to it.
fn wait(input: &File, control: &PipeReader) -> Result<Ready, Errno> {
    let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN), PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE)?;
    Ok(if fds[0].any().unwrap_or(false) { Ready::Order } else { Ready::Input })
}

/// Bytes on their way into lines.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
    too_long: bool,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], at: Instant) -> Vec<Typed> {
        let mut typed = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.too_long |= self.begun.len() + text.len() > MAX_LINE;
            if self.too_long {
                self.begun.clear();
            } else {
                self.begun.extend_from_slice(text);
            }
            if !ended {
                continue;
            }
            let line = std::mem::take(&mut self.begun);
            let text = String::from_utf8_lossy(&line);
            let text = text.strip_suffix('\r').unwrap_or(&text).to_string();
            typed.push(if std::mem::take(&mut self.too_long) { Typed::TooLong } else { Typed::Line(text, at) });
        }
        typed
    }
}

/// Lines that came together.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// The lines.
    pub text: String,
    /// How many.
    pub lines: usize,
    /// When the first of them arrived.
    pub first_at: Instant,
}

/// Puts lines together that come together.
#[derive(Debug, Default)]
pub struct Burst {
    block: Option<(Block, Instant)>,
}

impl Burst {
    /// A line arrived. Gives back what came before it and does not belong to it.
    pub fn push(&mut self, line: String, at: Instant) -> Option<Block> {
        let before = self.due(at);
        match &mut self.block {
            Some((block, last_at)) => {
                block.text.push('\n');
                block.text.push_str(&line);
                block.lines += 1;
                *last_at = at;
            }
            None => self.block = Some((Block { text: line, lines: 1, first_at: at }, at)),
        }
        before
    }

    /// When [`due`](Self::due) is to be asked.
    pub fn deadline(&self) -> Option<Instant> {
        self.block.as_ref().map(|(_, last_at)| *last_at + TOGETHER)
    }

    /// The lines nothing can belong to any more.
    pub fn due(&mut self, now: Instant) -> Option<Block> {
        self.block.take_if(|(_, last_at)| now >= *last_at + TOGETHER).map(|(block, _)| block)
    }

    /// The lines, whatever may come.
    pub fn take(&mut self) -> Option<Block> {
        self.block.take().map(|(block, _)| block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn bytes_become_whole_lines_however_they_are_split() {
        let at = Instant::now();
        let bytes = "one\r\n\ntw\u{f6}\nnot ended".as_bytes();
        let expected = ["one", "", "twö"].map(|l| Typed::Line(l.into(), at));
        for split in 0..bytes.len() {
            let mut lines = Lines::default();
            let mut typed = lines.feed(&bytes[..split], at);
            typed.extend(lines.feed(&bytes[split..], at));
            assert_eq!(typed, expected, "{split}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_the_next_is_whole() {
        let at = Instant::now();
        let mut lines = Lines::default();
        for _ in 0..=MAX_LINE / 4096 {
            assert_eq!(lines.feed(&[b'x'; 4096], at), []);
        }
        assert_eq!(lines.feed(b"x\ny\n", at), [Typed::TooLong, Typed::Line("y".into(), at)]);
    }

    #[test]
    fn lines_that_come_together_are_one_text() {
        let start = Instant::now();
        let mut burst = Burst::default();
        assert_eq!(burst.push("a".into(), start), None);
        assert_eq!(burst.push("y".into(), start + ms(149)), None);
        assert_eq!(burst.due(start + ms(298)), None);
        let both = Block { text: "a\ny".into(), lines: 2, first_at: start };
        assert_eq!(burst.push("b".into(), start + ms(300)), Some(both));
        let alone = Block { text: "b".into(), lines: 1, first_at: start + ms(300) };
        assert_eq!(burst.due(start + ms(450)), Some(alone));
        assert_eq!(burst.deadline(), None);
    }
}
