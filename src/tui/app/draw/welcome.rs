//! What somebody sees who comes for the first time.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::tui::app::App;
use crate::tui::keys::{Act, Scope};
use crate::tui::theme::Role;
use crate::tui::wrap;

impl App {
    /// Below the remarks that are there, and in fewer words where there is no room for all of them.
    pub(super) fn paint_welcome(&self, area: Rect, buf: &mut Buffer) {
        let used = self.story.chat.rows_in_sight(area.height);
        let room = area.height - used;
        let quit = self.keys.first_of(Scope::Always, Act::Quit);
        let acts = [
            ("Enter", "ask", "ask"),
            ("@", "file", "name a file"),
            ("/", "commands", "commands, such as /run, /model, /sessions"),
            ("?", "keys", "all keys"),
            (quit, "quit", "quit"),
        ];
        let key = |text: String| Span::styled(text, self.theme.style(Role::Key));
        let dot = || Span::styled(" · ", self.theme.style(Role::Dim));
        let name = Line::styled("sandscript", self.theme.style(Role::Title));
        let words = |text: &'static str| Line::raw(text);
        let mut keys_line = Line::default();
        for (at, (name, word, _)) in acts.iter().enumerate() {
            keys_line.spans.extend((at > 0).then(dot));
            keys_line.spans.extend([key((*name).to_string()), Span::raw(format!("\u{a0}{word}"))]);
        }
        let mut long = vec![
            name.clone(),
            words("Ask a question about the data in this folder."),
            words(
                "A language model writes Python; you read it, edit it if you like, and nothing runs before you say so.",
            ),
            Line::default(),
        ];
        let row = |(name, _, words): &(&str, &str, &str)| {
            Line::from(vec![key(format!("  {name:<9}")), Span::raw((*words).to_string())])
        };
        long.extend(acts.iter().map(row));
        let short = vec![name, words("Ask about the data here; nothing runs before you say so."), keys_line.clone()];
        let wrapped = |lines: &[Line<'static>]| -> Vec<Line<'static>> {
            lines.iter().flat_map(|line| wrap::wrap(line, usize::from(area.width).max(1))).collect()
        };
        let fits = |rows: &Vec<Line<'static>>| rows.len() <= usize::from(room);
        let rows = [&long, &short].map(|lines| wrapped(lines)).into_iter().find(fits);
        let rows = rows.unwrap_or_else(|| wrapped(&[keys_line]));
        let spare = room.saturating_sub(rows.len() as u16);
        let top = area.y + used + (spare / 3).max(u16::from(used > 0).min(spare));
        for (row, y) in rows.iter().zip(top..area.bottom()) {
            buf.set_line(area.x, y, row, area.width);
        }
    }
}
