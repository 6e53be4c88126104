//! Colours of what a program printed. Owns the reading of `ESC [ … m`, the only control sequence that is left in kept
//! output, and what it comes to on the screen.
//!
//! Colours begun on one line hold on the next, so a line is kept with the ink it begins with written in front of it: every
//! line can then be drawn alone. Two things a terminal would do are not done: text is never concealed (8), and text in the
//! colour of its ground is drawn without colours.

use std::fmt::Write as _;

use ratatui::style::{Color, Modifier, Style};

use crate::tui::theme::Theme;

/// What is switched on at a place of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ink {
    fg: Option<Color>,
    bg: Option<Color>,
    marks: Modifier,
}

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text; other control sequences may be in it.
    Text(&'a str),
    /// Parameters of a colour sequence.
    Colour(&'a str),
}

/// Takes a line apart.
pub fn pieces(raw: &str) -> Pieces<'_> {
    Pieces { rest: raw, colour: None }
}

/// See [`pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'a> {
    rest: &'a str,
    /// Found behind a text that was handed out just now.
    colour: Option<&'a str>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some(body) = self.colour.take() {
            return Some(Piece::Colour(body));
        }
        if self.rest.is_empty() {
            return None;
        }
        let raw = self.rest;
        for (at, introducer) in raw.match_indices("\u{1b}[") {
            let behind = &raw[at + introducer.len()..];
            let body = behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';' || c == ':');
            let Some(rest) = body.strip_prefix('m') else { continue };
            let body = &behind[..behind.len() - body.len()];
            self.rest = rest;
            if at == 0 {
                return Some(Piece::Colour(body));
            }
            self.colour = Some(body);
            return Some(Piece::Text(&raw[..at]));
        }
        self.rest = "";
        Some(Piece::Text(raw))
    }
}

/// Whether there is anything but colours.
pub fn is_visible(raw: &str) -> bool {
    pieces(raw).any(|piece| matches!(piece, Piece::Text(_)))
}

impl Ink {
    /// What is switched on behind `raw`.
    pub fn after(mut self, raw: &str) -> Self {
        if raw.contains('\u{1b}') {
            for piece in pieces(raw) {
                if let Piece::Colour(body) = piece {
                    self.apply(body);
                }
            }
        }
        self
    }

    /// Takes the parameters of a sequence.
    pub fn apply(&mut self, body: &str) {
        let mut codes = body.split(';');
        while let Some(code) = codes.next() {
            let mut parts = code.split(':');
            let number = parts.next().and_then(|n| if n.is_empty() { Some(0) } else { n.parse::<u16>().ok() });
            match number {
                Some(n @ (38 | 48 | 58)) => {
                    let colour = if code.contains(':') { with_colons(parts) } else { colour(&mut codes) };
                    match n {
                        38 => self.fg = colour.or(self.fg),
                        48 => self.bg = colour.or(self.bg),
                        _ => {}
                    }
                }
                Some(4) if parts.next() == Some("0") => self.marks.remove(Modifier::UNDERLINED),
                Some(n) => self.simple(n),
                None => {}
            }
        }
    }

    fn simple(&mut self, code: u16) {
        match code {
            0 => *self = Self::default(),
            1 => self.marks.insert(Modifier::BOLD),
            2 => self.marks.insert(Modifier::DIM),
            3 => self.marks.insert(Modifier::ITALIC),
            4 | 21 => self.marks.insert(Modifier::UNDERLINED),
            7 => self.marks.insert(Modifier::REVERSED),
            9 => self.marks.insert(Modifier::CROSSED_OUT),
            22 => self.marks.remove(Modifier::BOLD | Modifier::DIM),
            23 => self.marks.remove(Modifier::ITALIC),
            24 => self.marks.remove(Modifier::UNDERLINED),
            27 => self.marks.remove(Modifier::REVERSED),
            29 => self.marks.remove(Modifier::CROSSED_OUT),
            30..=37 => self.fg = Some(NAMED[usize::from(code - 30)]),
            39 => self.fg = None,
            40..=47 => self.bg = Some(NAMED[usize::from(code - 40)]),
            49 => self.bg = None,
            90..=97 => self.fg = Some(NAMED[usize::from(code - 90 + 8)]),
            100..=107 => self.bg = Some(NAMED[usize::from(code - 100 + 8)]),
            _ => {}
        }
    }

    /// The shortest sequences that switch this on.
    pub fn write(self, out: &mut String) {
        if self == Self::default() {
            return;
        }
        out.push_str("\u{1b}[0");
        for (mark, code) in MARKS {
            if self.marks.contains(mark) {
                let _ = write!(out, ";{code}");
            }
        }
        for (colour, base) in [(self.fg, 38), (self.bg, 48)] {
            // Writing to a string cannot fail.
            let _ = match colour {
                None => Ok(()),
                Some(Color::Rgb(r, g, b)) => write!(out, ";{base};2;{r};{g};{b}"),
                Some(Color::Indexed(n)) => write!(out, ";{base};5;{n}"),
                Some(named) => match NAMED.iter().position(|c| *c == named) {
                    Some(at @ 0..8) => write!(out, ";{}", base - 8 + at),
                    Some(at) => write!(out, ";{}", base + 52 + at - 8),
                    None => Ok(()),
                },
            };
        }
        out.push('m');
    }

    /// How it looks; only weight where the theme has no colours.
    pub fn style(self, theme: Theme) -> Style {
        let mut style = Style::new().add_modifier(self.marks);
        if theme.has_colour() && (self.fg != self.bg || self.fg.is_none()) {
            style.fg = self.fg;
            style.bg = self.bg;
        }
        style
    }
}

/// The colours of a terminal, in the order of their codes.
const NAMED: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

const MARKS: [(Modifier, u8); 6] = [
    (Modifier::BOLD, 1),
    (Modifier::DIM, 2),
    (Modifier::ITALIC, 3),
    (Modifier::UNDERLINED, 4),
    (Modifier::REVERSED, 7),
    (Modifier::CROSSED_OUT, 9),
];

/// Behind `38` or `48`: `5;n` or `2;r;g;b`.
fn colour<'a>(codes: &mut impl Iterator<Item = &'a str>) -> Option<Color> {
    let mut byte = || codes.next()?.parse::<u8>().ok();
    match byte()? {
        5 => byte().map(indexed),
        2 => Some(Color::Rgb(byte()?, byte()?, byte()?)),
        _ => None,
    }
}

/// The same with colons: `5:n`, `2:r:g:b` or, with a colour space, `2::r:g:b`.
fn with_colons<'a>(parts: impl Iterator<Item = &'a str>) -> Option<Color> {
    let parts: Vec<&str> = parts.collect();
    let byte = |at: usize| parts.get(at)?.parse::<u8>().ok();
    match (parts.first().copied(), parts.len()) {
        (Some("5"), _) => byte(1).map(indexed),
        (Some("2"), 4) => Some(Color::Rgb(byte(1)?, byte(2)?, byte(3)?)),
        (Some("2"), 5..) => Some(Color::Rgb(byte(2)?, byte(3)?, byte(4)?)),
        _ => None,
    }
}

/// The first sixteen are those of the terminal.
fn indexed(n: u8) -> Color {
    NAMED.get(usize::from(n)).copied().unwrap_or(Color::Indexed(n))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::ThemeName;

    fn ink(raw: &str) -> Ink {
        Ink::default().after(raw)
    }

    #[test]
    fn lines_come_apart_at_their_colours() {
        let found: Vec<Piece<'_>> = pieces("a\u{1b}[1;31mb\u{1b}[mc\u{1b}[2J\u{1b}]0;t\u{7}").collect();
        assert_eq!(
            found,
            [
                Piece::Text("a"),
                Piece::Colour("1;31"),
                Piece::Text("b"),
                Piece::Colour(""),
                Piece::Text("c\u{1b}[2J\u{1b}]0;t\u{7}")
            ]
        );
        assert!(!is_visible("\u{1b}[0m\u{1b}[1m"));
        assert!(is_visible("\u{1b}[0m "));
    }

    #[test]
    fn all_ways_to_name_a_colour_are_read() {
        let fg = |raw: &str| ink(raw).fg;
        assert_eq!(fg("\u{1b}[31m"), Some(Color::Red));
        assert_eq!(fg("\u{1b}[97m"), Some(Color::White));
        assert_eq!(fg("\u{1b}[38;5;9m"), Some(Color::LightRed));
        assert_eq!(fg("\u{1b}[38;5;196m"), Some(Color::Indexed(196)));
        assert_eq!(fg("\u{1b}[38:5:196m"), Some(Color::Indexed(196)));
        assert_eq!(fg("\u{1b}[1;38;2;1;2;3;4m"), Some(Color::Rgb(1, 2, 3)));
        assert_eq!(fg("\u{1b}[38:2::1:2:3m"), Some(Color::Rgb(1, 2, 3)));
        assert_eq!(fg("\u{1b}[38:2:1:2:3m"), Some(Color::Rgb(1, 2, 3)));
        assert_eq!(fg("\u{1b}[31;39m"), None);
        assert_eq!(fg("\u{1b}[31m\u{1b}[38;5;999m\u{1b}[38m\u{1b}[99999999m"), Some(Color::Red));
        assert_eq!(ink("\u{1b}[4:3m\u{1b}[4:0m"), Ink::default());
        assert_eq!(ink("\u{1b}[1;2;3;4;7;9;31;44m\u{1b}[;m"), Ink::default());
    }

    #[test]
    fn nothing_is_hidden_by_its_colour() {
        let dark = Theme::new(ThemeName::Dark);
        assert_eq!(ink("\u{1b}[30;40m").style(dark), Style::new());
        assert_eq!(ink("\u{1b}[8m").style(dark), Style::new());
        let mono = Theme::new(ThemeName::Mono);
        assert_eq!(ink("\u{1b}[1;31;44m").style(mono), Style::new().add_modifier(Modifier::BOLD));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_as_the_same_ink(codes in proptest::collection::vec(0u16..110, 0..12)) {
            let body: Vec<String> = codes.iter().map(u16::to_string).collect();
            let ink = ink(&format!("\u{1b}[{}m", body.join(";")));
            let mut out = String::new();
            ink.write(&mut out);
            prop_assert_eq!(Ink::default().after(&out), ink);
        }

        #[test]
        fn any_parameters_are_borne(body in "[0-9;:]{0,40}", text in any::<String>()) {
            let mut ink = Ink::default();
            ink.apply(&body);
            let together: String = pieces(&text).map(|p| match p { Piece::Text(t) => t.to_owned(), Piece::Colour(b) => format!("\u{1b}[{b}m") }).collect();
            prop_assert_eq!(together, text);
        }
    }
}
