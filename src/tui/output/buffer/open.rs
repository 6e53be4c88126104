//! A line that is not finished. Owns what `\r` does to it and how long it may become; what comes of it does not depend on how
//! the text was split on its way.

use super::MAX_LINE;
use crate::core::render::mib;
use crate::tui::output::ink::{Ink, is_visible};

/// The unfinished line of a stream.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Where it stands; nothing while there is no text.
    pub place: Option<(u64, usize)>,
    /// Its text since the last `\r`.
    pub text: String,
    /// Ink at the start of `text`.
    pub ink: Ink,
    /// The state before the last `\r`, which shows until there is a new one.
    pub before: Option<(Ink, String)>,
    /// Bytes that did not fit.
    pub cut: u64,
}

impl Open {
    /// Adds text, as much as has room.
    pub fn extend(&mut self, more: &str) {
        let room = if self.cut > 0 { 0 } else { MAX_LINE.saturating_sub(self.text.len()) };
        let end = (0..=room.min(more.len())).rev().find(|at| more.is_char_boundary(*at)).unwrap_or(0);
        let (kept, rest) = more.split_at(end);
        self.text.push_str(kept);
        self.cut += rest.len() as u64;
    }

    /// Ink behind `text`. A line that was cut ends its colours: where it would have ended them itself is not known.
    fn ink_after(&self) -> Ink {
        if self.cut > 0 { Ink::default() } else { self.ink.after(&self.text) }
    }

    /// Begins the line again.
    pub fn redraw(&mut self) {
        let ink = self.ink_after();
        if is_visible(&self.text) {
            let mut shown = std::mem::take(&mut self.text);
            self.say_cut(&mut shown);
            self.before = Some((self.ink, shown));
        }
        self.text.clear();
        self.cut = 0;
        self.ink = ink;
    }

    /// Writes the state that shows, with its ink in front.
    pub fn write(&self, out: &mut String) {
        match &self.before {
            Some((ink, text)) if !is_visible(&self.text) => {
                ink.write(out);
                out.push_str(text);
            }
            _ => {
                self.ink.write(out);
                out.push_str(&self.text);
                self.say_cut(out);
            }
        }
    }

    fn say_cut(&self, out: &mut String) {
        if self.cut > 0 {
            out.push_str(&format!("\u{1b}[0;2m … {} of this line not shown", mib(self.cut)));
        }
    }

    /// The line is finished; its ink goes on.
    pub fn end(&mut self) {
        self.ink = self.ink_after();
        self.place = None;
        self.text.clear();
        self.before = None;
        self.cut = 0;
    }
}
