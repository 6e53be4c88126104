//! Text from outside, made safe to show. Owns the [`Clean`] type, the only text that drawing and printing accept, and the
//! [`Sanitizer`] that turns the bytes a program prints into text that may be kept.
//!
//! A terminal obeys what it is given: an escape sequence moves the cursor, sets the clipboard or asks a question whose
//! answer is typed into the program, a direction mark makes code read differently from what it says, and a thousand
//! combining marks paint over the lines above. So there are two boundaries. What a program prints goes through
//! `Sanitizer` before it is logged: colours stay, every other control sequence is gone. What reaches the screen or
//! standard output goes through `Clean`, where colours are gone as well and invisible characters are dropped or named:
//!
//! | character | [`Clean::text`] | [`Clean::line`] | [`Clean::code`] |
//! |---|---|---|---|
//! | line feed | kept | space | kept |
//! | tab | kept | space | kept |
//! | `\r\n` | line feed | space | line feed |
//! | other `\r` | line feed | space | named, then a line feed, as Python reads it |
//! | U+2028, U+2029 | line feed | space | named |
//! | escape sequence | dropped whole | dropped whole | each control character is named |
//! | other control characters | dropped | dropped | named |
//! | direction marks | named | named | named |
//! | invisible characters, tags | dropped | dropped | named |
//! | variation selectors | count as marks | count as marks | named |
//! | combining marks after the fourth | dropped | dropped | named |
//!
//! "Named" is the form `<U+202E>`.
//!
//! A string sequence (OSC, DCS, APC, PM, SOS) that is not closed hides nothing: only its introducer is dropped and the
//! rest is text. That also keeps text that was decoded twice, where a closing quotation mark contains U+009D.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthChar;

/// Longest run of combining marks on one character. Four covers every living script's ordinary text; beyond it marks only
/// paint over other lines.
const MAX_MARKS: usize = 4;

/// Longest body of a CSI sequence or run of intermediate bytes, in characters. A colour in all its forms needs about 40.
const MAX_SEQUENCE: usize = 64;

/// Longest string sequence that is dropped, in bytes. Terminals cap a graphics chunk at 4 KiB; beyond this it is text.
const MAX_STRING: usize = 8 * 1024;

/// Text without control sequences, invisible characters or direction changes. Only the constructors here make one, so what
/// is `Clean` can be written to a terminal as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clean(String);

impl Clean {
    /// Cleans text of many lines.
    pub fn text(raw: &str) -> Self {
        Self(clean(raw, '\n', '\t'))
    }

    /// Cleans text into one line: line ends and tabs become spaces.
    pub fn line(raw: &str) -> Self {
        Self(clean(raw, ' ', ' '))
    }

    /// Shows code as it is, with every character that cannot be seen named, so that what is read is what runs.
    ///
    /// Line numbers are those Python counts.
    pub fn code(raw: &str) -> Self {
        let mut out = String::with_capacity(raw.len());
        let mut marks = 0;
        let mut chars = raw.chars().peekable();
        while let Some(c) = chars.next() {
            marks = if is_mark(c) { marks + 1 } else { 0 };
            match c {
                '\n' | '\t' => out.push(c),
                '\r' if chars.peek() == Some(&'\n') => {}
                '\r' => {
                    push_named(&mut out, c);
                    out.push('\n');
                }
                _ if is_hidden(c) || marks > MAX_MARKS => push_named(&mut out, c),
                _ => out.push(c),
            }
        }
        Self(out)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as a string of its own.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Appends clean text.
    pub fn push(&mut self, more: &Clean) {
        self.0.push_str(&more.0);
    }
}

impl fmt::Display for Clean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for Clean {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

fn clean(raw: &str, newline: char, tab: char) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut cleaner = Cleaner { newline, tab, ..Cleaner::default() };
    cleaner.push(raw, &mut out);
    cleaner.rest(&mut out);
    out
}

/// Cleans text that arrives in pieces as [`Clean::text`] cleans the whole. Every piece is read once, however long the text
/// is: only of a sequence that is still open up to 8 KiB are held back.
#[derive(Debug, Clone)]
pub struct Cleaner {
    escapes: Escapes,
    /// Combining marks on the last character.
    marks: usize,
    after_cr: bool,
    newline: char,
    tab: char,
}

impl Default for Cleaner {
    fn default() -> Self {
        Self { escapes: Escapes::default(), marks: 0, after_cr: false, newline: '\n', tab: '\t' }
    }
}

impl Cleaner {
    /// Takes the next piece and appends the text that is certain by now.
    pub fn push(&mut self, raw: &str, out: &mut String) {
        let Self { escapes, marks, after_cr, newline, tab } = self;
        for part in Runs(raw) {
            match part {
                Run::Plain(run) if escapes.is_idle() => {
                    out.push_str(run);
                    (*marks, *after_cr) = (0, false);
                }
                Run::Plain(run) | Run::Other(run) => {
                    let put = &mut |piece: Piece<'_>| put_clean(piece, (*newline, *tab), marks, after_cr, out);
                    run.chars().for_each(|c| escapes.feed(c, put));
                }
            }
        }
    }

    /// Appends what is held back, as it is text if nothing more comes.
    pub fn rest(&self, out: &mut String) {
        if self.escapes.is_idle() {
            return;
        }
        let Self { mut escapes, mut marks, mut after_cr, newline, tab } = self.clone();
        escapes.finish(&mut |piece| put_clean(piece, (newline, tab), &mut marks, &mut after_cr, out));
    }
}

/// Appends a character as [`Clean`] shows it; line ends and tabs become `blanks`.
fn put_clean(piece: Piece<'_>, blanks: (char, char), marks: &mut usize, after_cr: &mut bool, out: &mut String) {
    let Piece::Char(c) = piece else { return };
    let follows_cr = std::mem::replace(after_cr, c == '\r');
    match c {
        '\n' if follows_cr => return,
        '\n' | '\r' | '\u{2028}' | '\u{2029}' => out.push(blanks.0),
        '\t' => out.push(blanks.1),
        _ if is_direction(c) => push_named(out, c),
        _ if is_variation(c) || (is_mark(c) && !is_hidden(c)) => {
            *marks += 1;
            if *marks <= MAX_MARKS {
                out.push(c);
            }
            return;
        }
        // Does not end a run of marks: nothing stands between them on the screen.
        _ if is_hidden(c) => return,
        _ => out.push(c),
    }
    *marks = 0;
}

/// A text in runs: nearly all of it is printable ASCII, which needs no second look where no sequence is open.
struct Runs<'a>(&'a str);

enum Run<'a> {
    /// Printable ASCII.
    Plain(&'a str),
    /// Anything else.
    Other(&'a str),
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let is_plain = |b: &u8| matches!(b, b' '..=b'~');
        let plain = is_plain(self.0.as_bytes().first()?);
        let len = self.0.bytes().take_while(|b| is_plain(b) == plain).count();
        // Bytes of characters that are not ASCII are never printable ASCII, so this is between characters.
        let (run, rest) = self.0.split_at(len);
        self.0 = rest;
        Some(if plain { Run::Plain(run) } else { Run::Other(run) })
    }
}

fn push_named(out: &mut String, c: char) {
    // Writing to a string cannot fail.
    let _ = write!(out, "<U+{:04X}>", u32::from(c));
}

/// Whether the character changes the direction in which others are drawn.
pub fn is_direction(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Whether the character cannot be seen or acts on a terminal: controls, direction marks, separators that are not spaces,
/// and everything Unicode calls "default ignorable" or interlinear. Line feed, carriage return and tab are among them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || is_direction(c)
        || is_variation(c)
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200D}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Emoji need these, so that text keeps them.
fn is_variation(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}')
}

fn is_mark(c: char) -> bool {
    !c.is_ascii() && c.width() == Some(0)
}

/// Turns the bytes a program prints into text, piece by piece. Colours (`ESC [ … m`) stay as they are, other control
/// sequences and control characters but `\n`, `\t` and `\r` are dropped, broken UTF-8 becomes U+FFFD. How the bytes are
/// split changes nothing; at most 8 KiB are held back.
#[derive(Debug, Default)]
pub struct Sanitizer {
    /// A character that has not arrived whole: at most three bytes between calls.
    pending: Vec<u8>,
    escapes: Escapes,
}

impl Sanitizer {
    /// A sanitizer at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns the text that is certain by now.
    pub fn feed(&mut self, bytes: &[u8]) -> String {
        let mut out = String::with_capacity(bytes.len());
        if self.pending.is_empty() {
            self.decode(bytes, &mut out);
        } else {
            let mut joined = std::mem::take(&mut self.pending);
            joined.extend_from_slice(bytes);
            self.decode(&joined, &mut out);
        }
        out
    }

    /// Ends the stream and returns what was held back.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if !std::mem::take(&mut self.pending).is_empty() {
            self.put_text("\u{FFFD}", &mut out);
        }
        self.escapes.finish(&mut |piece| keep(piece, &mut out));
        out
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut String) {
        for chunk in bytes.utf8_chunks() {
            self.put_text(chunk.valid(), out);
            bytes = &bytes[chunk.valid().len()..];
            if chunk.invalid().is_empty() {
                continue;
            }
            // An error without a length is a character that may still become whole.
            if std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none()) {
                self.pending.extend_from_slice(bytes);
                return;
            }
            self.put_text("\u{FFFD}", out);
            bytes = &bytes[chunk.invalid().len()..];
        }
    }

    fn put_text(&mut self, text: &str, out: &mut String) {
        for part in Runs(text) {
            match part {
                Run::Plain(run) if self.escapes.is_idle() => out.push_str(run),
                Run::Plain(run) | Run::Other(run) => {
                    run.chars().for_each(|c| self.escapes.feed(c, &mut |piece| keep(piece, out)));
                }
            }
        }
    }
}

fn keep(piece: Piece<'_>, out: &mut String) {
    match piece {
        Piece::Char(c) if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => {}
        Piece::Char(c) => out.push(c),
        Piece::Colour(body) => {
            out.push_str("\u{1b}[");
            out.push_str(body);
            out.push('m');
        }
    }
}

/// What is left of a text when control sequences are taken out.
enum Piece<'a> {
    /// A character; may be a control character that belongs to no sequence.
    Char(char),
    /// The parameters of a colour sequence.
    Colour(&'a str),
}

/// The grammar of control sequences (ECMA-48), for 7-bit and C1 introducers alike.
#[derive(Debug, Default, Clone)]
struct Escapes {
    state: State,
    /// Body of the sequence so far.
    held: String,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte.
    Intermediate,
    /// Inside CSI.
    Csi,
    /// Inside OSC, DCS, APC, PM or SOS.
    Text,
    /// After ESC inside of one, which closes it if a backslash follows.
    TextEscape,
}

impl Escapes {
    /// No sequence is open.
    fn is_idle(&self) -> bool {
        matches!(self.state, State::Ground)
    }

    fn feed(&mut self, c: char, put: &mut impl FnMut(Piece<'_>)) {
        match self.state {
            State::Ground => self.ground(c, put),
            State::Escape => match c {
                '[' => self.begin(State::Csi),
                ']' | 'P' | 'X' | '^' | '_' => self.begin(State::Text),
                ' '..='/' => {
                    self.begin(State::Intermediate);
                    self.held.push(c);
                }
                '0'..='~' => self.state = State::Ground,
                _ => self.ground(c, put),
            },
            State::Intermediate => match c {
                ' '..='/' if self.held.len() < MAX_SEQUENCE => self.held.push(c),
                '0'..='~' => self.state = State::Ground,
                _ => self.ground(c, put),
            },
            State::Csi => self.csi(c, put),
            State::Text => self.string(c, put),
            State::TextEscape if c == '\\' => self.state = State::Ground,
            State::TextEscape => {
                self.release(put);
                self.state = State::Escape;
                self.feed(c, put);
            }
        }
    }

    fn begin(&mut self, state: State) {
        self.held.clear();
        self.state = state;
    }

    fn ground(&mut self, c: char, put: &mut impl FnMut(Piece<'_>)) {
        self.state = State::Ground;
        match c {
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.begin(State::Csi),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => self.begin(State::Text),
            _ => put(Piece::Char(c)),
        }
    }

    fn csi(&mut self, c: char, put: &mut impl FnMut(Piece<'_>)) {
        match c {
            ' '..='?' if self.held.len() < MAX_SEQUENCE => self.held.push(c),
            '@'..='~' => {
                self.state = State::Ground;
                if c == 'm' && self.held.bytes().all(is_colour_byte) {
                    put(Piece::Colour(&self.held));
                }
            }
            // Broken off: no more than parameters are lost.
            _ => self.ground(c, put),
        }
    }

    fn string(&mut self, c: char, put: &mut impl FnMut(Piece<'_>)) {
        match c {
            '\u{07}' | '\u{9c}' => self.state = State::Ground,
            '\u{1b}' => self.state = State::TextEscape,
            _ if c.is_control() || self.held.len() >= MAX_STRING => {
                self.release(put);
                self.ground(c, put);
            }
            _ => self.held.push(c),
        }
    }

    /// What was held was no sequence but text: it holds no control characters.
    fn release(&mut self, put: &mut impl FnMut(Piece<'_>)) {
        self.held.chars().for_each(|c| put(Piece::Char(c)));
        self.held.clear();
    }

    fn finish(&mut self, put: &mut impl FnMut(Piece<'_>)) {
        match self.state {
            State::Text | State::TextEscape => self.release(put),
            State::Ground | State::Escape | State::Intermediate | State::Csi => {}
        }
        self.state = State::Ground;
    }
}

fn is_colour_byte(b: u8) -> bool {
    b.is_ascii_digit() || b == b';' || b == b':'
}

/// Removes the colour sequences a [`Sanitizer`] left in a text.
pub fn strip_sgr(text: &str) -> String {
    if !text.contains('\u{1b}') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("\u{1b}[");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let body = part.bytes().take_while(|b| is_colour_byte(*b)).count();
        match part[body..].strip_prefix('m') {
            Some(rest) => out.push_str(rest),
            None => {
                out.push_str("\u{1b}[");
                out.push_str(part);
            }
        }
    }
    out
}

/// Lets each line redrawn with `\r` show its last state, so that ten thousand updates of a progress bar are one line.
/// `\r\n` ends a line; a `\r` with nothing but colours behind it has drawn nothing yet and leaves the line as it was.
pub fn collapse_cr(text: &str) -> String {
    if !text.contains('\r') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        out.push_str(body.rsplit('\r').find(|state| !strip_sgr(state).is_empty()).unwrap_or_default());
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sanitize(bytes: &[u8]) -> String {
        let mut s = Sanitizer::new();
        let mut out = s.feed(bytes);
        out.push_str(&s.finish());
        out
    }

    #[test]
    fn sequences_are_dropped_whole() {
        for sequence in [
            "\x1b[2J",
            "\x1b[?1049h",
            "\x1b[6n",
            "\x1b[38;5;196m",
            "\x1b]0;title\x07",
            "\x1b]52;c;aGk=\x1b\\",
            "\x1bP1$r0m\x1b\\",
            "\x1b_Gf=100;AAAA\x1b\\",
            "\x1b^pm\x1b\\",
            "\x1bXsos\u{9c}",
            "\x1b(B",
            "\x1bc",
            "\x1b7",
            "\u{9b}31m",
            "\u{9d}0;t\u{9c}",
            "\x07",
            "\x08",
            "\x7f",
            "\u{85}",
        ] {
            assert_eq!(Clean::text(&format!("a{sequence}b")).as_str(), "ab", "{sequence:?}");
        }
    }

    #[test]
    fn unclosed_sequences_hide_nothing() {
        assert_eq!(Clean::text("\x1b]0;the\nrest").as_str(), "0;the\nrest");
        assert_eq!(Clean::text("\x1b]0;the").as_str(), "0;the");
        assert_eq!(Clean::text("\x1b]a\x1b[31mb").as_str(), "ab");
        assert_eq!(
            Clean::text("â\u{80}\u{9c}quoted twiceâ\u{80}\u{9d}, and on\n").as_str(),
            "âquoted twiceâ, and on\n"
        );
        let long = "x".repeat(MAX_STRING * 2);
        assert_eq!(Clean::text(&format!("\x1b]{long}\x07")).as_str(), long);
        let params = "1;".repeat(MAX_SEQUENCE);
        assert_eq!(Clean::text(&format!("\x1b[{params}mtext")).as_str().chars().last(), Some('t'));
        assert_eq!(Clean::text("\x1b[3\n1m").as_str(), "\n1m");
    }

    #[test]
    fn direction_is_named_and_invisible_is_dropped() {
        assert_eq!(Clean::text("a\u{202e}b\u{2066}\u{61c}").as_str(), "a<U+202E>b<U+2066><U+061C>");
        assert_eq!(Clean::text("a\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}\u{3164}b").as_str(), "ab");
        assert_eq!(Clean::text("a\u{2028}b\rc\r\nd").as_str(), "a\nb\nc\nd");
        assert_eq!(Clean::line("a\tb\r\nc\nd\u{2029}e").as_str(), "a b c d e");
        assert_eq!(Clean::text("❤\u{fe0f} é ü 日本 ไทย").as_str(), "❤\u{fe0f} é ü 日本 ไทย");
    }

    #[test]
    fn marks_are_capped_even_around_invisible_characters() {
        let zalgo = format!("a{}b", "\u{301}\u{200b}".repeat(1_000_000));
        assert_eq!(Clean::text(&zalgo).as_str(), format!("a{}b", "\u{301}".repeat(MAX_MARKS)));
        assert_eq!(Clean::code(&format!("e{}", "\u{301}".repeat(5))).as_str(), "e\u{301}\u{301}\u{301}\u{301}<U+0301>");
    }

    #[test]
    fn code_hides_nothing_and_counts_lines_as_python() {
        assert_eq!(
            Clean::code("a = '\u{202e}'\t# \x1b[2J\u{200b}\u{fe0f}\u{e0041}\u{2028}\u{85}\x0c").as_str(),
            "a = '<U+202E>'\t# <U+001B>[2J<U+200B><U+FE0F><U+E0041><U+2028><U+0085><U+000C>"
        );
        assert_eq!(Clean::code("# a\rimport os\r\nb\n\nc\n").as_str(), "# a<U+000D>\nimport os\nb\n\nc\n");
    }

    #[test]
    fn sanitizer_keeps_colours_and_line_control_only() {
        assert_eq!(sanitize(b"\x1b[1;31mred\x1b[0m\r\n\tx\x08\x1b[2Ky\x1b[?1m"), "\x1b[1;31mred\x1b[0m\r\n\txy");
        assert_eq!(sanitize("\u{9b}4:3mx".as_bytes()), "\x1b[4:3mx");
        assert_eq!(sanitize(b"\x9b31m \xff\xc3"), "\u{fffd}31m \u{fffd}\u{fffd}");
        assert_eq!(sanitize(b"\xf0\x9f\x98"), "\u{fffd}");
        assert_eq!(sanitize(b"end\x1b[3"), "end");
    }

    #[test]
    fn a_character_that_is_not_whole_waits() {
        let mut s = Sanitizer::new();
        assert_eq!(s.feed(&[0xe2, 0x82]), "");
        assert_eq!(s.feed(&[0xac, b'!']), "€!");
        assert_eq!(s.finish(), "");
    }

    #[test]
    fn redraws_collapse() {
        let bar: String = (0..10_000).map(|i| format!("\r{i}/10000")).collect();
        assert_eq!(collapse_cr(&format!("start\n{bar}\ndone\n")), "start\n9999/10000\ndone\n");
        assert_eq!(collapse_cr("a\r\nb\r\r\nc\r"), "a\nb\nc");
        assert_eq!(collapse_cr("50%\r\x1b[0m\n"), "50%\n");
        assert_eq!(collapse_cr("50%\r   \r"), "   ");
        assert_eq!(strip_sgr("\x1b[1;31mred\x1b[0m \x1b[2J"), "red \x1b[2J");
    }

    /// Bytes in which sequences, broken UTF-8 and text are all likely.
    fn hostile_bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            any::<u8>().prop_map(|b| vec![b]),
            proptest::sample::select(vec![
                "\x1b", "[", "]", "0;", "31", "m", "\x07", "\\", "\n", "\r", "\u{9b}", "\u{9d}", "\u{9c}", "é",
                "\u{202e}", "\u{301}", "\u{200b}", "日", " ",
            ])
            .prop_map(|s| s.as_bytes().to_vec()),
        ];
        proptest::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn splits_change_nothing(bytes in hostile_bytes(), cuts in proptest::collection::vec(0usize..200, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            cuts.push(bytes.len());
            let mut s = Sanitizer::new();
            let mut out = String::new();
            let mut from = 0;
            for cut in cuts {
                out.push_str(&s.feed(&bytes[from..cut]));
                from = cut;
            }
            out.push_str(&s.finish());
            prop_assert_eq!(out, sanitize(&bytes));
        }

        #[test]
        fn pieces_are_cleaned_as_the_whole(bytes in hostile_bytes(), cut in 0usize..200) {
            let raw = String::from_utf8_lossy(&bytes);
            let cut = (0..=cut.min(raw.len())).rev().find(|at| raw.is_char_boundary(*at)).unwrap_or(0);
            let mut cleaner = Cleaner::default();
            let mut sure = String::new();
            cleaner.push(&raw[..cut], &mut sure);
            let mut early = sure.clone();
            cleaner.rest(&mut early);
            prop_assert_eq!(early, Clean::text(&raw[..cut]).into_string());
            cleaner.push(&raw[cut..], &mut sure);
            cleaner.rest(&mut sure);
            prop_assert_eq!(sure, Clean::text(&raw).into_string());
        }

        #[test]
        fn a_run_is_cleaned_as_its_characters_are(bytes in hostile_bytes()) {
            let raw = String::from_utf8_lossy(&bytes);
            let (mut marks, mut after_cr, mut out) = (0, false, String::new());
            let mut escapes = Escapes::default();
            let mut put = |piece: Piece<'_>| put_clean(piece, ('\n', '\t'), &mut marks, &mut after_cr, &mut out);
            raw.chars().for_each(|c| escapes.feed(c, &mut put));
            escapes.finish(&mut put);
            prop_assert_eq!(out, Clean::text(&raw).into_string());
        }

        #[test]
        fn nothing_sanitized_acts_but_colours(bytes in hostile_bytes()) {
            let plain = strip_sgr(&sanitize(&bytes));
            prop_assert!(!plain.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r')), "{:?}", plain);
        }

        #[test]
        fn clean_is_inert_and_stays_as_it_is(bytes in hostile_bytes()) {
            let raw = String::from_utf8_lossy(&bytes);
            for (clean, again) in [
                (Clean::text(&raw), Clean::text as fn(&str) -> Clean),
                (Clean::line(&raw), Clean::line),
                (Clean::code(&raw), Clean::code),
            ] {
                let hidden = |c: char| is_hidden(c) && !is_variation(c) && !matches!(c, '\n' | '\t');
                prop_assert!(!clean.as_str().contains(hidden), "{:?}", clean);
                prop_assert_eq!(&again(clean.as_str()), &clean);
            }
            prop_assert!(!Clean::line(&raw).as_str().contains('\n'));
        }

        #[test]
        fn utf8_without_controls_passes(text in "[a-zA-Z0-9äß日\n\t ]{0,80}") {
            prop_assert_eq!(sanitize(text.as_bytes()), text.clone());
            let clean = Clean::text(&text);
            prop_assert_eq!(clean.as_str(), text.as_str());
        }
    }
}
