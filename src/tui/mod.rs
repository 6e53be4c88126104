//! The screen. It folds the records it is told into what it shows, and turns keys into commands; it knows `core` and
//! channels and nothing else of ours, so a replay and a live session look the same to it.

use std::collections::BTreeMap;

pub mod app;
pub mod chat;
pub mod code;
pub mod composer;
pub mod diff;
pub mod edit;
pub mod external;
pub mod guard;
pub mod highlight;
pub mod input;
pub mod keys;
pub mod lines;
pub mod markdown;
pub mod msg;
pub mod output;
pub mod question;
pub mod run;
pub mod scroll;
pub mod search;
pub mod signals;
pub mod story;
pub mod terminal;
pub mod theme;
pub mod top;
pub mod wrap;

/// What the person chose about the screen (section `ui` and `keys` of the configuration).
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Colours; mono where `NO_COLOR` is set.
    pub theme: theme::ThemeName,
    /// The wheel scrolls and clicks choose a pane; off leaves the mouse to the terminal.
    pub mouse: bool,
    /// Things move: a spinner, counting seconds.
    pub motion: bool,
    /// How figures are drawn.
    pub graphics: Graphics,
    /// The terminal is told when an approval is due or a long turn ends while it has no focus.
    pub notify: bool,
    /// Keys of actions, by the name of the action, in place of the default ones.
    pub keys: BTreeMap<String, Vec<String>>,
}

/// How figures are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Graphics {
    /// The best the terminal is known to have.
    #[default]
    Auto,
    /// Kitty's protocol.
    Kitty,
    /// iTerm2's protocol.
    Iterm2,
    /// Sixel.
    Sixel,
    /// Two pixels a character.
    Blocks,
    /// Not at all; a line names the figure.
    None,
}

/// How the screen was left.
#[derive(Debug, Clone, PartialEq)]
pub enum Exit {
    /// The person is done.
    Quit,
    /// Go on with this session.
    Resume(String),
    /// Go on with a copy of this session that ends with this step.
    Fork(String, u32),
    /// Play this session.
    Replay(String),
    /// Begin a new session.
    New,
}
