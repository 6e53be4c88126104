//! The commands that have a screen: a new session, an earlier one that goes on, a recording. Puts the screen and the task
//! behind it together, and one after the other where the person goes from one to the next.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::backstage;
use crate::cli::{Common, Replay, Resume};
use crate::config::{Config, GraphicsSetting, ThemeSetting};
use crate::core::command::{Command, Update};
use crate::core::event::Failure;
use crate::desk::Desk;
use crate::error::{Error, Kind, Result};
use crate::log::{fork, list};
use crate::places::Places;
use crate::replay::{self, Recording};
use crate::sessions;
use crate::start::{Keep, Starter};
use crate::tui::app::{App, Begin};
use crate::tui::highlight::Highlighter;
use crate::tui::keys::Keys;
use crate::tui::msg::Msg;
use crate::tui::output::figure::Figures;
use crate::tui::run::{self, Ended};
use crate::tui::terminal::Tui;
use crate::tui::theme::ThemeName;
use crate::tui::{Exit, Graphics, Settings};

/// What is shown.
#[derive(Debug, Clone)]
enum Show {
    /// A new session, and its first question.
    New(Option<String>),
    /// The session in this folder goes on.
    Resume(PathBuf),
    /// A recording: a folder or a log file.
    Replay(PathBuf, replay::Options),
    /// The list of sessions.
    Pick,
}

/// `sandscript [PROMPT]`.
pub async fn new(prompt: Option<&str>, common: &Common, places: &Places) -> Result<u8> {
    run(Show::New(prompt.map(str::to_string)), common, places).await
}

/// `sandscript resume`.
pub async fn resume(args: &Resume, common: &Common, places: &Places) -> Result<u8> {
    let name = if args.last { Some("last") } else { args.session.as_deref() };
    let show = match name {
        Some(name) => Show::Resume(list::find(&places.data, name).map_err(usage)?),
        None => Show::Pick,
    };
    run(show, common, places).await
}

/// `sandscript replay`: in the panes or, where standard output is no terminal, as text.
pub async fn replay(args: &Replay, common: &Common, places: &Places) -> Result<u8> {
    let session = list::find_any(&places.data, &args.session).map_err(usage)?;
    if !std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return sessions::print(&session, false).map(|()| 0);
    }
    let options =
        replay::Options { speed: args.speed, idle_limit_ms: Some((args.idle_limit * 1000.0) as u64), paused: false };
    run(Show::Replay(session, options), common, places).await
}

fn usage(failure: Failure) -> Error {
    Error { kind: Kind::Usage, failure }
}

/// Shows one thing after the other until the person is done. The exit code.
async fn run(first: Show, common: &Common, places: &Places) -> Result<u8> {
    let mut starter = Starter::new(common, places)?;
    let settings = settings(starter.config(), places);
    let keys = Keys::new(&settings.keys).map_err(usage)?;
    let mut tui = Tui::enter(settings.mouse).map_err(usage)?;
    let mut show = first;
    let mut last = None;
    let result = loop {
        let stage = Stage { starter: &mut starter, settings: &settings, keys: &keys, places };
        let (ended, session) = match stage.play(&mut tui, show.clone()).await {
            Ok(shown) => shown,
            Err(error) => break Err(error),
        };
        last = session.or(last);
        let exit = match ended {
            Ended::Left(exit) => exit,
            Ended::Signal(number) => break Ok(128 + u8::try_from(number).unwrap_or(0)),
        };
        show = match next(exit, &show, places) {
            Ok(Some(next)) => next,
            Ok(None) => break Ok(0),
            Err(error) => break Err(error),
        };
    };
    drop(tui);
    if let Some(id) = last {
        // There is nobody to tell where standard error is closed.
        let _ = writeln!(std::io::stderr(), "go on with: sandscript resume {id}");
    }
    result
}

/// What comes next; nothing if the person is done.
fn next(exit: Exit, show: &Show, places: &Places) -> Result<Option<Show>> {
    let found = |id: &str| list::find(&places.data, id).map_err(usage);
    Ok(match exit {
        Exit::Quit => None,
        Exit::New => Some(Show::New(None)),
        Exit::Resume(id) => Some(Show::Resume(found(&id)?)),
        Exit::Replay(id) => Some(Show::Replay(found(&id)?, replay::Options::default())),
        Exit::Fork(id, step) => {
            // What a log says of its name is not to be trusted; where it lies is known.
            let source = match show {
                Show::Replay(path, _) => path.clone(),
                Show::New(_) | Show::Resume(_) | Show::Pick => found(&id)?,
            };
            if !is_kept(&source, places) {
                let why = "it is not among the sessions that are kept here";
                return Err(Error::usage("will not continue this recording", why, "it can be replayed and exported"));
            }
            let copy = fork::fork(&places.data, &source, step, Timestamp::now());
            Some(Show::Resume(copy.map_err(|failure| Error { kind: Kind::Internal, failure })?))
        }
    })
}

/// Whether a session lies among those that are kept here.
fn is_kept(session: &Path, places: &Places) -> bool {
    session.starts_with(places.data.join("sessions"))
}

struct Stage<'a> {
    starter: &'a mut Starter,
    settings: &'a Settings,
    keys: &'a Keys,
    places: &'a Places,
}

impl Stage<'_> {
    /// Shows one thing. How it ended, and the session that can be continued.
    async fn play(self, tui: &mut Tui, show: Show) -> Result<(Ended, Option<String>)> {
        let (orders, commands) = mpsc::channel(backstage::CHANNEL);
        let (tell, mut updates) = mpsc::channel(backstage::CHANNEL);
        let is_replay = matches!(show, Show::Replay(..));
        let pick = matches!(show, Show::Pick);
        let may_fork = matches!(&show, Show::Replay(path, _) if is_kept(path, self.places));
        let is_new = matches!(show, Show::New(_));
        let prompt = if let Show::New(prompt) = &show { prompt.clone() } else { None };
        let session = match &show {
            Show::Replay(path, _) | Show::Resume(path) => Some(path.clone()),
            Show::New(_) | Show::Pick => None,
        };
        let desk = backstage::desk(self.starter, self.places, session);
        let behind = match show {
            Show::New(_) => tokio::spawn(backstage::live(self.starter.clone(), Keep::New, desk, commands, tell)),
            Show::Resume(folder) => {
                tokio::spawn(backstage::live(self.starter.clone(), Keep::Behind(folder), desk, commands, tell))
            }
            Show::Replay(path, options) => tokio::spawn(recorded(path, options, desk, commands, tell)),
            Show::Pick => tokio::spawn(answers(desk, commands, tell)),
        };
        let (highlighter, mut painted) = Highlighter::start();
        let variable = |name: &str| self.places.variable(name).map(str::to_string);
        let (figures, mut pictures) = Figures::start(self.settings.graphics, &variable, cell_pixels());
        let mut app = App::new(Begin {
            settings: self.settings.clone(),
            keys: self.keys.clone(),
            replay: is_replay,
            may_fork,
            pick,
            prompt,
            highlighter,
            figures,
        });
        let background = |context: &mut std::task::Context<'_>| {
            use std::task::Poll::{Pending, Ready};
            if let Ready(Some((id, painted))) = painted.poll_recv(context) {
                return Ready(Msg::Painted(id, painted));
            }
            match pictures.poll_recv(context) {
                Ready(Some(ready)) => Ready(Msg::Figure(ready)),
                Ready(None) | Pending => Pending,
            }
        };
        let ended = run::run(&mut app, tui, orders.clone(), &mut updates, background).await;
        if app.session_id().is_none() {
            // Nothing was begun that must be ended in order.
            behind.abort();
        }
        backstage::wind_up(orders, &mut updates, behind, drop).await;
        let session = app.session_id().filter(|_| !is_replay).map(str::to_string);
        let session = if app.has_content() {
            session
        } else {
            session.filter(|_| is_new).into_iter().for_each(|id| backstage::forget(self.places, &id));
            None
        };
        let ended = ended.map_err(|failure| Error { kind: Kind::Internal, failure })?;
        Ok((ended, session))
    }
}

/// Only answers questions.
async fn answers(desk: Desk, mut commands: mpsc::Receiver<Command>, updates: mpsc::Sender<Update>) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Ask(id, question) => {
                if backstage::reply(&desk, id, question, &updates).await.is_none() {
                    return;
                }
            }
            Command::Shutdown => return,
            Command::Say(_)
            | Command::Approve { .. }
            | Command::Reject { .. }
            | Command::Propose { .. }
            | Command::Amend { .. }
            | Command::Interrupt
            | Command::Save(_)
            | Command::Set(_)
            | Command::Rebuild { .. }
            | Command::Start { .. }
            | Command::Transport(_) => {}
        }
    }
}

/// A recording.
async fn recorded(
    path: PathBuf,
    options: replay::Options,
    desk: Desk,
    commands: mpsc::Receiver<Command>,
    updates: mpsc::Sender<Update>,
) {
    let opened = tokio::task::spawn_blocking(move || Recording::open(&path)).await;
    let failure = match opened {
        Ok(Ok(recording)) => return replay::run(recording, options, desk, commands, updates).await,
        Ok(Err(failure)) => failure,
        Err(e) => Failure::new("the recording cannot be read", e.to_string(), ""),
    };
    let _ = updates.send(Update::StartFailed { failure, models: Vec::new() }).await;
}

// ---- settings --------------------------------------------------------------------------------------------------------

/// The configured choices, as far as this terminal allows them.
fn settings(config: &Config, places: &Places) -> Settings {
    let no_colour = places.variable("NO_COLOR").is_some_and(|v| !v.is_empty());
    let theme = match config.ui.theme {
        _ if no_colour => ThemeName::Mono,
        ThemeSetting::Mono => ThemeName::Mono,
        ThemeSetting::Dark => ThemeName::Dark,
        ThemeSetting::Light => ThemeName::Light,
        ThemeSetting::Auto => {
            if is_light(places.variable("COLORFGBG")) {
                ThemeName::Light
            } else {
                ThemeName::Dark
            }
        }
    };
    let graphics = match config.ui.graphics {
        // Pictures are nothing but colours.
        _ if theme == ThemeName::Mono => Graphics::None,
        GraphicsSetting::Auto => Graphics::Auto,
        GraphicsSetting::Kitty => Graphics::Kitty,
        GraphicsSetting::Iterm2 => Graphics::Iterm2,
        GraphicsSetting::Sixel => Graphics::Sixel,
        GraphicsSetting::Blocks => Graphics::Blocks,
        GraphicsSetting::None => Graphics::None,
    };
    let ui = &config.ui;
    Settings { theme, mouse: ui.mouse, motion: ui.motion, graphics, notify: ui.notify, keys: config.keys.clone() }
}

/// `COLORFGBG` is "foreground;background" in the numbers of the sixteen colours; 7 and 15 are the white ones.
fn is_light(colours: Option<&str>) -> bool {
    let background = colours.and_then(|c| c.rsplit(';').next()?.parse::<u8>().ok());
    matches!(background, Some(7 | 15))
}

/// Size of a character in pixels, where the terminal says.
fn cell_pixels() -> Option<(u16, u16)> {
    let size = crossterm::terminal::window_size().ok()?;
    let (columns, rows) = (size.columns.max(1), size.rows.max(1));
    Some((size.width / columns, size.height / rows)).filter(|(width, height)| *width > 0 && *height > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_terminals_are_known_by_their_word() {
        for (value, light) in [("0;15", true), ("0;default;7", true), ("15;0", false), ("", false), ("x", false)] {
            assert_eq!(is_light(Some(value)), light, "{value}");
        }
        assert!(!is_light(None));
    }

    #[test]
    fn only_sessions_that_are_kept_here_are_continued() {
        let data = tempfile::tempdir().unwrap();
        let mut places = Places::of_process().unwrap();
        places.data = data.path().to_path_buf();
        let show = Show::Replay(Path::new("/elsewhere/session").into(), replay::Options::default());
        let error = next(Exit::Fork("x".into(), 1), &show, &places).unwrap_err();
        assert!(error.to_string().contains("will not continue"), "{error}");
    }
}
