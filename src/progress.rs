//! What `exec` shows on a terminal while it works: finished things as lines, and one line that is drawn again for what is
//! going on. On anything but a terminal it shows nothing.

use std::io::Write;
use std::time::Duration;

use tokio::time::Instant;

use crate::core::clean::Clean;
use crate::core::event::{Channel, Event, NoteKind, StreamName};
use crate::show;

/// How often the line is drawn again while something goes on.
const TICK: Duration = Duration::from_millis(200);

/// Waiting shorter than this is not worth a line.
const QUIET: Duration = Duration::from_millis(300);

/// Bytes of a token, for the count while the model writes.
const BYTES_PER_TOKEN: usize = 4;

/// Longest line drawn again, characters.
const WIDTH: usize = 160;

/// The view on standard error.
pub struct Progress {
    terminal: bool,
    colour: bool,
    now: Option<Now>,
    drawn: bool,
    next_draw: Instant,
    retry: Option<String>,
    max_retries: u32,
}

/// What is going on.
struct Now {
    since: Instant,
    what: What,
}

enum What {
    Waiting(String),
    Writing { code: bool, bytes: usize },
    Running { limit: u64 },
}

impl Progress {
    /// A view that shows nothing unless `terminal`.
    pub fn new(terminal: bool) -> Self {
        Self {
            terminal,
            colour: colour(),
            now: None,
            drawn: false,
            next_draw: Instant::now(),
            retry: None,
            max_retries: 0,
        }
    }

    /// Something before the session takes time.
    pub fn waiting(&mut self, text: &str) {
        self.go_on(What::Waiting(text.to_string()));
        self.draw();
    }

    /// A record came.
    pub fn record(&mut self, event: &Event) {
        if !self.terminal {
            return;
        }
        match event {
            Event::SessionStarted(info) => self.max_retries = info.max_retries,
            Event::UserSaid { .. } => self.go_on(What::Waiting("waiting for the model".into())),
            Event::ModelDelta { channel, text } => return self.delta(*channel, text),
            Event::Note { kind: NoteKind::Progress, text } => return self.waiting(text),
            Event::CodeProposed(proposal) => {
                let retry = proposal.attempt - 1;
                self.retry = (retry > 0).then(|| format!("retry {retry}/{}", self.max_retries));
            }
            Event::RunStarted { terms, .. } => self.go_on(What::Running { limit: terms.timeout_seconds }),
            Event::RunFinished(_) => self.go_on(What::Waiting("waiting for the model".into())),
            Event::TurnEnded { .. } => self.now = None,
            Event::InputsListed { .. }
            | Event::SessionResumed(_)
            | Event::TermsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::RebuildDecided { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::CodeApproved { .. }
            | Event::CodeRejected { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::SandboxFailed { .. }
            | Event::ArtifactSaved { .. }
            | Event::Note { .. }
            | Event::SessionEnded { .. } => {}
        }
        let text = match event {
            // Said again with its hint when the command ends.
            Event::ModelFailed(_) => String::new(),
            other => show::event(other, false),
        };
        let text = self.styled(event, text);
        self.line(&text);
    }

    /// Code stands back, errors and warnings stand out; colours of the terminal, none with `NO_COLOR`.
    fn styled(&self, event: &Event, text: String) -> String {
        const DIM: &str = "2";
        const RED: &str = "31";
        // Yellow cannot be read on white.
        const MAGENTA: &str = "35";
        let style = match event {
            Event::CodeProposed(_) => DIM,
            Event::RunOutput { stream: StreamName::Stderr, .. } | Event::SandboxFailed { .. } => RED,
            Event::Note { kind: NoteKind::Warning | NoteKind::PackagesMissing, .. } => MAGENTA,
            Event::SessionStarted(info) if !info.capabilities.isolates() => MAGENTA,
            Event::SessionStarted(_)
            | Event::SessionResumed(_)
            | Event::TermsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::LimitsChanged { .. }
            | Event::RebuildDecided { .. }
            | Event::InputsListed { .. }
            | Event::UserSaid { .. }
            | Event::ModelDelta { .. }
            | Event::ModelReplied(_)
            | Event::ModelFailed(_)
            | Event::CodeApproved { .. }
            | Event::CodeRejected { .. }
            | Event::RunStarted { .. }
            | Event::RunOutput { .. }
            | Event::RunResult { .. }
            | Event::RunFinished(_)
            | Event::ArtifactSaved { .. }
            | Event::TurnEnded { .. }
            | Event::Note { .. }
            | Event::SessionEnded { .. } => return text,
        };
        if !self.colour || text.is_empty() { text } else { format!("\x1b[{style}m{text}\x1b[0m") }
    }

    fn delta(&mut self, channel: Channel, text: &str) {
        let code = channel == Channel::Code;
        match &mut self.now {
            Some(Now { what: What::Writing { code: same, bytes }, .. }) if *same == code => *bytes += text.len(),
            Some(_) | None => self.go_on(What::Writing { code, bytes: text.len() }),
        }
    }

    fn go_on(&mut self, what: What) {
        if let (Some(Now { what: What::Waiting(_), .. }), What::Waiting(_)) = (&self.now, &what) {
            if let Some(now) = &mut self.now {
                now.what = what;
            }
            return;
        }
        self.now = Some(Now { since: Instant::now(), what });
    }

    /// Prints a finished thing.
    pub fn line(&mut self, text: &str) {
        if self.terminal && !text.is_empty() {
            self.clear();
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    /// Erases the line that is drawn again.
    pub fn clear(&mut self) {
        if self.drawn {
            self.drawn = false;
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }

    /// Waits until the line should be drawn again, and draws it. Never, where nothing goes on.
    pub async fn tick(&mut self) {
        if !self.terminal || self.now.is_none() {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(self.next_draw).await;
        self.draw();
    }

    fn draw(&mut self) {
        self.next_draw = Instant::now() + TICK;
        let Some(now) = &self.now else { return };
        let elapsed = now.since.elapsed();
        if !self.terminal || elapsed < QUIET && !self.drawn {
            return;
        }
        let seconds = elapsed.as_secs_f64();
        let mut text = match &now.what {
            What::Waiting(what) => format!("{what} · {seconds:.0} s"),
            What::Writing { code, bytes } => {
                let tokens = bytes / BYTES_PER_TOKEN;
                let what = if *code { "writing code" } else { "writing" };
                format!("{what} · {tokens} tokens · {:.0}/s", tokens as f64 / seconds.max(0.1))
            }
            What::Running { limit } => format!("running {seconds:.1} s of {limit} s"),
        };
        if let Some(retry) = &self.retry {
            text.push_str(&format!(" · {retry}"));
        }
        text.push_str(" · Ctrl-C stops");
        let text: String = Clean::line(&text).to_string().chars().take(WIDTH).collect();
        // Without line wrap, or a line longer than the terminal is wide could not be erased.
        let _ = write!(std::io::stderr(), "\r\x1b[K\x1b[?7l{text}\x1b[?7h");
        self.drawn = true;
    }
}

/// Whether the person wants colours.
fn colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}
