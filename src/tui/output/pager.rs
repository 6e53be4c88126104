//! A page-by-page view of large text: all that was kept of a run. Owns an index of the lines and the reading position.
//!
//! The text stays as bytes. The index holds every so many lines, so that it stays small however short the lines are; the rest is
//! found by walking. Only what is in sight is decoded, cleaned and wrapped. Rows are not counted beyond the screen: the position
//! is a line and a row of it, and what is said of it is in bytes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::grouped;
use super::row::{self, Paint, Styled, column_at, last_state, row_at};
use crate::core::clean::Clean;
use crate::tui::search::Needle;
use crate::tui::theme::{Role, Theme};

/// Lines from one entry of the index to the next: few enough to walk, many enough that 16 MiB of empty lines take 2 MiB.
const STRIDE: usize = 128;
/// Bytes from one entry of the index to the next, where lines are long.
const STRIDE_BYTES: usize = 32 * 1024;
/// Rows one key moves at most; beyond it are the keys for the ends.
const MAX_WALK: usize = 1000;
/// Longest line, bytes; a longer one goes on as another. Longer ones would slow every frame they are in.
const MAX_LINE: usize = 16 * 1024;
/// Bytes searched for one press of a key: about 20 ms. The next press goes on from there.
const SEARCH: usize = 2 * 1024 * 1024;
/// Columns a key moves the text where lines are not wrapped.
const SIDE: usize = 8;

/// How a search for the next match went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hunt {
    /// It is on the screen.
    Found,
    /// There is none up to the end, or to the start.
    Nothing,
    /// Much was searched and there is more: press again.
    More,
}

/// See the module.
#[derive(Debug)]
pub struct Pager {
    title: Clean,
    bytes: Arc<[u8]>,
    /// Some lines and where they begin, in order.
    index: Vec<(usize, usize)>,
    lines: usize,
    /// First line on the screen and first row of it.
    top: (usize, usize),
    wrap: bool,
    left: usize,
    width: u16,
    height: u16,
    needle: Option<Needle>,
    /// Line and bytes of it before the match the person is at.
    hit: Option<(usize, usize)>,
    /// Where a search stopped.
    searched: Option<usize>,
    seen: Vec<Line<'static>>,
    /// Bytes up to the end of the screen.
    end: usize,
    /// What the last search has to say.
    word: &'static str,
}

impl Pager {
    /// Shows bytes, from their start.
    pub fn new(title: &str, bytes: Arc<[u8]>) -> Self {
        let mut index: Vec<(usize, usize)> = Vec::new();
        let (mut lines, mut at) = (0, 0);
        while at < bytes.len() {
            let near = |(line, start): &(usize, usize)| lines - line < STRIDE && at - start < STRIDE_BYTES;
            if !index.last().is_some_and(near) {
                index.push((lines, at));
            }
            lines += 1;
            at = line_end(&bytes, at);
        }
        Self {
            title: Clean::line(title),
            bytes,
            index,
            lines,
            top: (0, 0),
            wrap: true,
            left: 0,
            width: 0,
            height: 0,
            needle: None,
            hit: None,
            searched: None,
            seen: Vec::new(),
            end: 0,
            word: "",
        }
    }

    /// Works out what is in sight, before a frame.
    pub fn layout(&mut self, width: u16, height: u16, theme: Theme) {
        if width != self.width {
            // The row is another one; the line is the same.
            self.top.1 = self.top.1 * usize::from(self.width.max(1)) / usize::from(width.max(1));
        }
        (self.width, self.height) = (width, height);
        self.top.1 = self.top.1.min(self.rows_of(self.top.0).saturating_sub(1));
        self.settle();
        self.seen.clear();
        let mut line = self.top.0;
        let mut skip = self.top.1;
        let mut at = self.start_of(line);
        while self.seen.len() < self.room() && line < self.lines {
            let end = line_end(&self.bytes, at);
            let left = self.room() - self.seen.len();
            let rows = self.paint(line, at..end, skip..skip + left, theme);
            self.seen.extend(rows);
            (line, skip, at) = (line + 1, 0, end);
        }
        self.end = at;
    }

    /// Draws it: text, and a line that says where one is.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, theme: Theme) {
        let area = area.intersection(buf.area);
        if area.width == 0 || area.height == 0 {
            return;
        }
        for (line, y) in self.seen.iter().zip(area.y..area.bottom() - 1) {
            buf.set_line(area.x, y, line, area.width);
        }
        let y = area.bottom() - 1;
        buf.set_style(Rect { y, height: 1, ..area }, theme.style(Role::Selected));
        buf.set_stringn(area.x, y, self.footer(), usize::from(area.width), theme.style(Role::Selected));
    }

    /// Title, line, how far, and what the last search has to say.
    pub fn footer(&self) -> String {
        let percent = if self.bytes.is_empty() { 100 } else { self.end * 100 / self.bytes.len() };
        let line = grouped((self.top.0 + 1).min(self.lines) as u64);
        // What a key just came to is seen even where there is little room.
        let word = if self.word.is_empty() { String::new() } else { format!(" · {}", self.word) };
        let lines = grouped(self.lines as u64);
        let mut footer = format!(" {}{word} · line {line} of {lines} · {percent} %", self.title);
        if !self.wrap {
            footer.push_str(&format!(" · from column {}", self.left + 1));
        }
        footer
    }

    /// Scrolls, towards the start where negative.
    pub fn scroll_by(&mut self, rows: isize) {
        for _ in 0..rows.unsigned_abs().min(MAX_WALK) {
            if !self.step(rows > 0) {
                break;
            }
        }
        self.searched = None;
        self.settle();
    }

    /// A screen up or down; a row stays in sight.
    pub fn page(&mut self, down: bool) {
        let rows = isize::try_from(self.room().saturating_sub(1).max(1)).unwrap_or(1);
        self.scroll_by(if down { rows } else { -rows });
    }

    /// Half a screen up or down.
    pub fn half_page(&mut self, down: bool) {
        let rows = isize::try_from((self.room() / 2).max(1)).unwrap_or(1);
        self.scroll_by(if down { rows } else { -rows });
    }

    /// To the end or to the start.
    pub fn ends(&mut self, end: bool) {
        self.top = if end { (self.lines, 0) } else { (0, 0) };
        self.searched = None;
        self.settle();
    }

    /// The text to the right or left, where lines are not wrapped.
    pub fn sideways(&mut self, right: bool) {
        if !self.wrap {
            self.left = if right { (self.left + SIDE).min(MAX_LINE) } else { self.left.saturating_sub(SIDE) };
        }
    }

    /// Wraps lines, or does not.
    pub fn toggle_wrap(&mut self) {
        self.wrap = !self.wrap;
        self.left = 0;
        self.top.1 = 0;
    }

    /// Searches for this from now on, or no more.
    pub fn set_search(&mut self, typed: Option<&str>) {
        self.needle = typed.and_then(Needle::new);
        (self.hit, self.searched, self.word) = (None, None, "");
    }

    /// Goes to the next match or the one before. Searches only so much at a time.
    pub fn next_match(&mut self, forward: bool) -> Hunt {
        let hunt = self.hunt(forward);
        self.word = match hunt {
            Hunt::Found => "",
            Hunt::Nothing if forward => "no match below",
            Hunt::Nothing => "no match above",
            Hunt::More => "searching; again to go on",
        };
        hunt
    }

    fn hunt(&mut self, forward: bool) -> Hunt {
        let Some(needle) = self.needle.clone() else { return Hunt::Nothing };
        let resumed = self.searched.take();
        let from = resumed.or(self.hit.map(|(line, _)| line)).unwrap_or(self.top.0);
        let beyond = self.hit.filter(|(line, _)| resumed.is_none() && *line == from).map(|(_, at)| at);
        let (mut line, mut budget) = (from, SEARCH);
        let mut near = Near::default();
        while line < self.lines {
            let range = near.range_of(self, line);
            budget = budget.saturating_sub(range.len());
            let text = self.text(range);
            let beyond = beyond.filter(|_| line == from);
            let found = needle.all(&text).collect::<Vec<_>>();
            let mut starts = found.iter().map(|range| range.start);
            let at = match forward {
                true => starts.find(|at| beyond.is_none_or(|beyond| *at > beyond)),
                false => starts.rfind(|at| beyond.is_none_or(|beyond| *at < beyond)),
            };
            if let Some(at) = at {
                self.go_to(line, at, &text);
                return Hunt::Found;
            }
            let next = if forward { line.checked_add(1) } else { line.checked_sub(1) };
            let Some(next) = next.filter(|next| *next < self.lines) else { break };
            line = next;
            if budget == 0 {
                self.searched = Some(line);
                return Hunt::More;
            }
        }
        Hunt::Nothing
    }

    fn go_to(&mut self, line: usize, at: usize, text: &str) {
        self.hit = Some((line, at));
        let row = if self.wrap { row_at(text, usize::from(self.width), at) } else { 0 };
        if !self.wrap {
            let (column, width) = (column_at(text, at), usize::from(self.width));
            if column < self.left || column >= self.left + width {
                self.left = column.saturating_sub(width / 3);
            }
        }
        if !self.is_in_sight(line, row) {
            self.top = (line, row);
            for _ in 0..self.room() / 3 {
                self.step(false);
            }
        }
        self.settle();
    }

    fn is_in_sight(&self, line: usize, row: usize) -> bool {
        if (line, row) < self.top || line > self.top.0 + self.room() {
            return false;
        }
        let before: usize = (self.top.0..line).map(|line| self.rows_of(line)).sum();
        before + row < self.top.1 + self.room()
    }

    /// Rows of text on the screen; the last row says where one is.
    fn room(&self) -> usize {
        usize::from(self.height).saturating_sub(1)
    }

    /// A row up or down; false at the end.
    fn step(&mut self, down: bool) -> bool {
        let (line, row) = self.top;
        self.top = match down {
            true if row + 1 < self.rows_of(line) => (line, row + 1),
            true if line + 1 < self.lines => (line + 1, 0),
            false if row > 0 => (line, row - 1),
            false if line > 0 => (line - 1, self.rows_of(line - 1).saturating_sub(1)),
            true | false => return false,
        };
        true
    }

    /// Not so far down that the screen is not full.
    fn settle(&mut self) {
        let mut rows = 0;
        let mut line = self.lines;
        let mut least = (0, 0);
        while line > 0 {
            line -= 1;
            rows += self.rows_of(line);
            if rows >= self.room() {
                least = (line, rows - self.room());
                break;
            }
        }
        self.top = self.top.min(least);
    }

    fn rows_of(&self, line: usize) -> usize {
        if !self.wrap || line >= self.lines {
            return 1;
        }
        let range = self.range_of(line);
        let raw = self.raw(range);
        row::count(last_state(&raw), usize::from(self.width))
    }

    fn start_of(&self, line: usize) -> usize {
        let Some((from, start)) = self.entry(line).and_then(|entry| self.index.get(entry)) else { return 0 };
        (*from..line).fold(*start, |at, _| line_end(&self.bytes, at))
    }

    /// The entry of the index a line is behind.
    fn entry(&self, line: usize) -> Option<usize> {
        self.index.partition_point(|(first, _)| *first <= line).checked_sub(1)
    }

    fn range_of(&self, line: usize) -> Range<usize> {
        let start = self.start_of(line);
        start..line_end(&self.bytes, start)
    }

    /// A line as it came, without its end.
    fn raw(&self, range: Range<usize>) -> Cow<'_, str> {
        let bytes = self.bytes.get(range).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        String::from_utf8_lossy(bytes)
    }

    /// A line as it is shown, without colours.
    fn text(&self, range: Range<usize>) -> String {
        let raw = self.raw(range);
        match raw.bytes().all(|b| matches!(b, b' '..=b'~')) {
            true => raw.into_owned(),
            false => row::plain(last_state(&raw)),
        }
    }

    fn paint(&self, line: usize, range: Range<usize>, rows: Range<usize>, theme: Theme) -> Vec<Line<'static>> {
        let raw = self.raw(range);
        let styled = Styled::new(last_state(&raw));
        let found =
            self.needle.as_ref().map(|needle| needle.all(styled.text()).collect::<Vec<_>>()).unwrap_or_default();
        let current = self.hit.filter(|hit| hit.0 == line).map(|hit| hit.1);
        let paint = Paint { theme, base: theme.style(Role::Text), found: &found, current };
        let width = usize::from(self.width.max(1));
        match self.wrap {
            true => row::wrapped(&styled, width, rows, paint),
            false => vec![row::cut(&styled, self.left..self.left + width, paint)],
        }
    }
}

/// Where the lines behind one entry of the index begin, so that a search walks over them once in either direction.
#[derive(Default)]
struct Near {
    first: usize,
    starts: Vec<usize>,
}

impl Near {
    fn range_of(&mut self, pager: &Pager, line: usize) -> Range<usize> {
        if line < self.first || line >= self.first + self.starts.len() {
            let entry = pager.entry(line).unwrap_or(0);
            let (first, mut at) = pager.index.get(entry).copied().unwrap_or_default();
            let end = pager.index.get(entry + 1).map_or(pager.lines, |next| next.0);
            self.first = first;
            self.starts.clear();
            for _ in first..end {
                self.starts.push(at);
                at = line_end(&pager.bytes, at);
            }
        }
        let start = self.starts.get(line - self.first).copied().unwrap_or(pager.bytes.len());
        start..line_end(&pager.bytes, start)
    }
}

/// The end of the line that begins at `start`, its line feed included; not within a character where the line is too long.
fn line_end(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    let most = rest.len().min(MAX_LINE);
    if let Some(at) = rest.iter().take(most).position(|b| *b == b'\n') {
        return start + at + 1;
    }
    if most == rest.len() {
        return bytes.len();
    }
    // At most three bytes of a character are behind its first.
    let back = (0..4).find(|back| rest.get(most - back).is_some_and(|b| b & 0xC0 != 0x80)).unwrap_or(0);
    start + most - back
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tui::theme::ThemeName;

    fn pager(bytes: &[u8], width: u16, height: u16) -> Pager {
        let mut pager = Pager::new("all output", bytes.into());
        lay_out(&mut pager, width, height);
        pager
    }

    fn lay_out(pager: &mut Pager, width: u16, height: u16) {
        pager.layout(width, height, Theme::new(ThemeName::Dark));
    }

    fn screen(pager: &mut Pager) -> Vec<String> {
        let (width, height) = (pager.width, pager.height);
        lay_out(pager, width, height);
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        pager.draw(area, &mut buf, Theme::new(ThemeName::Dark));
        let row = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn numbered(count: usize) -> Vec<u8> {
        (0..count).map(|i| format!("line {i}\n")).collect::<String>().into_bytes()
    }

    #[test]
    fn pages_go_from_start_to_end_and_back() {
        let mut p = pager(&numbered(1000), 60, 5);
        assert_eq!(screen(&mut p), ["line 0", "line 1", "line 2", "line 3", " all output · line 1 of 1,000 · 0 %"]);
        p.page(true);
        assert_eq!(screen(&mut p)[0], "line 3");
        p.ends(true);
        assert_eq!(
            screen(&mut p),
            ["line 996", "line 997", "line 998", "line 999", " all output · line 997 of 1,000 · 100 %"]
        );
        p.scroll_by(5);
        p.half_page(false);
        assert_eq!(screen(&mut p)[0], "line 994");
        p.ends(false);
        p.scroll_by(-1);
        assert_eq!(screen(&mut p)[0], "line 0");
    }

    #[test]
    fn long_lines_are_wrapped_or_moved_through() {
        let mut p = pager("abcdefghijkl\n日本語日本語\nz\n".as_bytes(), 5, 4);
        assert_eq!(screen(&mut p)[..3], ["abcde", "fghij", "kl"]);
        p.scroll_by(1);
        assert_eq!(screen(&mut p)[..3], ["fghij", "kl", "日 本"]);
        p.toggle_wrap();
        assert_eq!(screen(&mut p)[..3], ["abcde", "日 本", "z"]);
        p.sideways(true);
        assert_eq!(screen(&mut p)[..3], ["ijkl", "本 語", ""]);
    }

    #[test]
    fn matches_are_found_in_both_directions() {
        let mut p = pager(&numbered(2000), 40, 8);
        p.set_search(Some("LINE 1999"));
        assert_eq!(p.next_match(true), Hunt::Nothing, "large letters are exact");
        p.set_search(Some("line 15"));
        assert_eq!(p.next_match(true), Hunt::Found);
        assert!(screen(&mut p).contains(&"line 15".to_owned()));
        assert_eq!(p.next_match(true), Hunt::Found);
        assert!(screen(&mut p).contains(&"line 150".to_owned()));
        assert_eq!(p.next_match(false), Hunt::Found);
        assert_eq!(p.hit, Some((15, 0)));
        assert_eq!(p.next_match(false), Hunt::Nothing);
        assert!(screen(&mut p)[7].contains("no match above"));
    }

    #[test]
    fn a_search_is_bounded_and_goes_on() {
        let mut bytes = b"some words that are not it\n".repeat(300_000);
        bytes.extend_from_slice(b"needle\n");
        let mut p = pager(&bytes, 40, 8);
        p.set_search(Some("needle"));
        let mut presses = 1;
        while p.next_match(true) == Hunt::More {
            presses += 1;
        }
        assert_eq!((presses, p.hit), (4, Some((300_000, 0))));
        assert!(screen(&mut p).contains(&"needle".to_owned()));
    }

    #[test]
    fn the_index_is_small_and_lines_have_an_end() {
        let p = pager(&vec![b'\n'; 16 * 1024 * 1024], 80, 24);
        assert_eq!(p.lines, 16 * 1024 * 1024);
        assert!(p.index.capacity() * size_of::<(usize, usize)>() <= 4 * 1024 * 1024);
        let text = "é".repeat(1024 * 1024);
        let mut p = pager(text.as_bytes(), 80, 24);
        assert_eq!(p.lines, 128);
        p.ends(true);
        assert!(screen(&mut p).iter().take(23).all(|row| !row.contains('\u{fffd}')));
    }

    proptest! {
        #[test]
        fn any_bytes_are_shown_at_any_size(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'a'), Just(0x1b), Just(b'\r')], 0..300),
            width in 0u16..20, height in 0u16..8, keys in proptest::collection::vec(0u8..9, 0..16),
        ) {
            let mut p = pager(&bytes, width, height);
            p.set_search(Some("a"));
            for key in keys {
                match key {
                    0 => p.page(true),
                    1 => p.page(false),
                    2 => p.ends(true),
                    3 => p.toggle_wrap(),
                    4 => p.sideways(true),
                    5 => { p.next_match(true); }
                    6 => { p.next_match(false); }
                    7 => p.scroll_by(-1),
                    _ => p.scroll_by(isize::MAX),
                }
                let shown = screen(&mut p);
                prop_assert!(!shown.concat().chars().any(char::is_control));
            }
        }

        #[test]
        fn every_byte_is_in_one_line(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..600)) {
            let p = pager(&bytes, 10, 5);
            let together: Vec<u8> = (0..p.lines).flat_map(|line| bytes[p.range_of(line)].to_vec()).collect();
            prop_assert_eq!(together, bytes);
        }
    }
}
