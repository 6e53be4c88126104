//! Which way figures are drawn. Decided by what the environment says of the terminal, never by asking it.

use crate::tui::Graphics;

/// A way to draw figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A line that names it.
    Line,
    /// Two pixels a character.
    Blocks,
    /// Kitty's protocol.
    Kitty,
    /// iTerm2's protocol.
    Iterm2,
    /// Sixel.
    Sixel,
}

/// What the person chose, or what the terminal is known to have. `cell_known` is whether the size of a character is: without
/// it pixels cannot be placed.
pub(super) fn choose(graphics: Graphics, env: &dyn Fn(&str) -> Option<String>, cell_known: bool) -> Way {
    match graphics {
        Graphics::None => Way::Line,
        Graphics::Blocks => Way::Blocks,
        Graphics::Kitty => Way::Kitty,
        Graphics::Iterm2 => Way::Iterm2,
        Graphics::Sixel => Way::Sixel,
        // A multiplexer passes none of them on by itself.
        Graphics::Auto if !cell_known || is_multiplexed(env) => Way::Blocks,
        Graphics::Auto => known(env),
    }
}

/// Whether a multiplexer stands between the program and the terminal.
pub(super) fn is_multiplexed(env: &dyn Fn(&str) -> Option<String>) -> bool {
    ["TMUX", "STY", "ZELLIJ"].iter().any(|name| env(name).is_some_and(|value| !value.is_empty()))
}

/// By program before by `TERM`, by that before by the window: a terminal started from another inherits its window.
fn known(env: &dyn Fn(&str) -> Option<String>) -> Way {
    let value = |name: &str| env(name).unwrap_or_default().to_lowercase();
    let (program, term) = (value("TERM_PROGRAM"), value("TERM"));
    if program == "iterm.app" || program == "wezterm" || value("LC_TERMINAL") == "iterm2" {
        Way::Iterm2
    } else if program == "ghostty" || term.contains("kitty") || term.contains("ghostty") {
        Way::Kitty
    } else if ["foot", "mlterm", "contour"].iter().any(|name| term.starts_with(name)) || term.contains("sixel") {
        Way::Sixel
    } else if !value("KITTY_WINDOW_ID").is_empty() && (program.is_empty() || program == "kitty") {
        Way::Kitty
    } else {
        Way::Blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(vars: &[(&str, &str)], cell_known: bool) -> Way {
        let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        choose(Graphics::Auto, &env, cell_known)
    }

    #[test]
    fn the_terminal_is_known_by_its_environment() {
        for (vars, way) in [
            (&[("TERM", "xterm-kitty")][..], Way::Kitty),
            (&[("TERM", "xterm-ghostty"), ("TERM_PROGRAM", "ghostty")], Way::Kitty),
            (&[("TERM", "xterm-256color"), ("KITTY_WINDOW_ID", "1")], Way::Kitty),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "iTerm.app")], Way::Iterm2),
            (&[("TERM", "xterm-256color"), ("LC_TERMINAL", "iTerm2")], Way::Iterm2),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "WezTerm"), ("KITTY_WINDOW_ID", "1")], Way::Iterm2),
            (&[("TERM", "foot-extra")], Way::Sixel),
            (&[("TERM", "mlterm")], Way::Sixel),
            (&[("TERM", "yaft-sixel")], Way::Sixel),
            (&[("TERM", "xterm-256color"), ("TERM_PROGRAM", "vscode"), ("KITTY_WINDOW_ID", "1")], Way::Blocks),
            (&[("TERM", "xterm-256color")], Way::Blocks),
            (&[("TERM", "xterm-kitty"), ("TMUX", "/tmp/x")], Way::Blocks),
            (&[("TERM", "xterm-kitty"), ("STY", "1.pts")], Way::Blocks),
            (&[("TERM", "xterm-kitty"), ("ZELLIJ", "0")], Way::Blocks),
            (&[], Way::Blocks),
        ] {
            assert_eq!(auto(vars, true), way, "{vars:?}");
            assert_eq!(auto(vars, false), Way::Blocks, "{vars:?} without the size of a character");
        }
    }

    #[test]
    fn what_the_person_chose_is_taken() {
        let tmux = |_: &str| Some("tmux".to_owned());
        assert_eq!(choose(Graphics::Sixel, &tmux, false), Way::Sixel);
        assert_eq!(choose(Graphics::None, &tmux, true), Way::Line);
    }
}
