//! What everything on the screen looks like. Owns the roles; nothing else names a colour.
//!
//! The colours are the sixteen of the terminal, so that the person's own palette holds. Yellow and white are not used on
//! the light theme, blue and black not on the dark one: they cannot be read there on common palettes.

use ratatui::style::{Color, Modifier, Style};

/// A choice of colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// For dark terminals.
    #[default]
    Dark,
    /// For light terminals.
    Light,
    /// No colours, only weight.
    Mono,
}

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Ordinary text.
    Text,
    /// Less important text.
    Dim,
    /// Important text.
    Strong,
    /// Headings and titles of panes.
    Title,
    /// Border of a pane.
    Border,
    /// Border of the pane that has the keys.
    Focus,
    /// Name of the person.
    User,
    /// Name of the model.
    Assistant,
    /// A key in a footer.
    Key,
    /// It went well.
    Good,
    /// It failed, and standard error.
    Bad,
    /// Worth a look.
    Warning,
    /// Selected text.
    Selected,
    /// The line or row the cursor is on.
    Current,
    /// What a search found.
    Found,
    /// An added line of a diff.
    Added,
    /// A removed line of a diff.
    Removed,
    /// Code in a sentence, and characters that are shown by name.
    Code,
    /// Line numbers.
    Number,
    /// Keyword of the language.
    Keyword,
    /// String.
    Str,
    /// Number and constant.
    Constant,
    /// Comment.
    Comment,
    /// Name of a function or class.
    Name,
    /// Operator and punctuation.
    Operator,
}

/// The looks of all roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    name: ThemeName,
}

impl Theme {
    /// The theme of that name.
    pub fn new(name: ThemeName) -> Self {
        Self { name }
    }

    /// Its name.
    pub fn name(self) -> ThemeName {
        self.name
    }

    /// Whether it has colours.
    pub fn has_colour(self) -> bool {
        self.name != ThemeName::Mono
    }

    /// How `role` looks.
    pub fn style(self, role: Role) -> Style {
        let plain = Style::new();
        let (dark, light) = match role {
            Role::Text | Role::Operator => return plain,
            Role::Strong => return plain.add_modifier(Modifier::BOLD),
            Role::Selected => return plain.add_modifier(Modifier::REVERSED),
            Role::Current => return plain.add_modifier(Modifier::UNDERLINED),
            Role::Title => return plain.add_modifier(Modifier::BOLD),
            Role::Found if self.has_colour() => return plain.fg(Color::Black).bg(Color::Yellow),
            Role::Found => return plain.add_modifier(Modifier::REVERSED | Modifier::BOLD),
            Role::Dim | Role::Border | Role::Number | Role::Comment => (Color::DarkGray, Color::DarkGray),
            Role::Focus | Role::User | Role::Key | Role::Code => (Color::Cyan, Color::Blue),
            Role::Assistant | Role::Good | Role::Added | Role::Str => (Color::Green, Color::Green),
            Role::Bad | Role::Removed => (Color::LightRed, Color::Red),
            Role::Warning | Role::Keyword => (Color::Magenta, Color::Magenta),
            Role::Constant => (Color::Cyan, Color::Cyan),
            Role::Name => (Color::LightBlue, Color::Blue),
        };
        let weight = match role {
            Role::User | Role::Assistant | Role::Key | Role::Bad | Role::Warning | Role::Keyword => Modifier::BOLD,
            Role::Dim | Role::Border | Role::Number | Role::Comment if !self.has_colour() => Modifier::DIM,
            Role::Removed if !self.has_colour() => Modifier::CROSSED_OUT,
            Role::Added | Role::Focus if !self.has_colour() => Modifier::BOLD,
            _ => Modifier::empty(),
        };
        let styled = plain.add_modifier(weight);
        match self.name {
            ThemeName::Dark => styled.fg(dark),
            ThemeName::Light => styled.fg(light),
            ThemeName::Mono => styled,
        }
    }
}
