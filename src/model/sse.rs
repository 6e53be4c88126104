//! Server-sent events and bare JSON lines, from bytes.
//!
//! Owns the way from bytes to lines to events, and nothing of what they mean. It is more liberal than the standard where
//! servers are: an event that the end of the stream cuts off is still handed out, comments are reported because they are a
//! sign of life, and a line that is no field (a bare JSON error, the lines of Ollama) is handed out as it is. However the
//! bytes are cut into pieces, the items are the same.

/// Longest line and longest event. A reply is at most a few hundred KiB; beyond this somebody wants our memory.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// What a stream is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseItem {
    /// An event.
    Event {
        /// Its name, empty for a plain message.
        event: String,
        /// Its data lines, joined by line feeds.
        data: String,
    },
    /// A comment, or a line of white space: nothing but a sign of life.
    Comment,
    /// A line that is no field of an event.
    Bare(String),
    /// A line or an event was longer than we keep and is lost.
    TooLong,
}

/// Puts bytes together into [`SseItem`]s.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SseReader {
    line: Vec<u8>,
    line_lost: bool,
    after_cr: bool,
    past_first_line: bool,
    event: String,
    data: Option<String>,
    event_lost: bool,
}

impl SseReader {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and returns what they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<SseItem> {
        let mut items = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if after_cr => {}
                b'\n' => self.end_line(&mut items),
                b'\r' => {
                    self.after_cr = true;
                    self.end_line(&mut items);
                }
                other => self.add(other, &mut items),
            }
        }
        items
    }

    /// Takes the end of the stream and returns what was still open.
    pub fn finish(&mut self) -> Vec<SseItem> {
        let mut items = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut items);
        }
        self.dispatch(&mut items);
        items
    }

    fn add(&mut self, byte: u8, items: &mut Vec<SseItem>) {
        if self.line_lost {
            return;
        }
        if self.line.len() == MAX_EVENT_BYTES {
            self.line_lost = true;
            self.line = Vec::new();
            items.push(SseItem::TooLong);
            return;
        }
        self.line.push(byte);
    }

    fn end_line(&mut self, items: &mut Vec<SseItem>) {
        let bytes = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.line_lost) {
            return;
        }
        let first = !std::mem::replace(&mut self.past_first_line, true);
        let bytes = if first { bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes) } else { &bytes };
        let line = String::from_utf8_lossy(bytes);
        if line.is_empty() {
            self.dispatch(items);
            return;
        }
        if line.starts_with(':') || line.trim().is_empty() {
            items.push(SseItem::Comment);
            return;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => self.add_data(value, items),
            "event" => self.event = value.to_owned(),
            "id" | "retry" => {}
            _ => items.push(SseItem::Bare(line.into_owned())),
        }
    }

    fn add_data(&mut self, value: &str, items: &mut Vec<SseItem>) {
        if self.event_lost {
            return;
        }
        let data = match self.data.take() {
            Some(mut data) => {
                data.push('\n');
                data.push_str(value);
                data
            }
            None => value.to_owned(),
        };
        if data.len() > MAX_EVENT_BYTES {
            self.event_lost = true;
            items.push(SseItem::TooLong);
        } else {
            self.data = Some(data);
        }
    }

    fn dispatch(&mut self, items: &mut Vec<SseItem>) {
        let event = std::mem::take(&mut self.event);
        let data = self.data.take();
        if std::mem::take(&mut self.event_lost) {
            return;
        }
        // The standard drops an event without data; `event: error` alone still means something.
        if data.is_some() || !event.is_empty() {
            items.push(SseItem::Event { event, data: data.unwrap_or_default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseItem> {
        let mut reader = SseReader::new();
        let mut items: Vec<_> = pieces.iter().flat_map(|p| reader.feed(p)).collect();
        items.extend(reader.finish());
        items
    }

    fn data(text: &str) -> SseItem {
        SseItem::Event { event: String::new(), data: text.into() }
    }

    #[test]
    fn reads_every_line_end_with_and_without_a_space() {
        assert_eq!(read(&[b"data: a\n\ndata:b\r\n\r\ndata:  c\r\r"]), [data("a"), data("b"), data(" c")]);
    }

    #[test]
    fn joins_data_lines_and_names_events() {
        let got = read(&[b"event: error\nid: 7\nretry: 5\ndata: {\ndata\ndata: }\n\n"]);
        assert_eq!(got, [SseItem::Event { event: "error".into(), data: "{\n\n}".into() }]);
    }

    #[test]
    fn drops_the_byte_order_mark_only_at_the_start() {
        assert_eq!(read(&[b"\xEF\xBB\xBFdata: a\n\n"]), [data("a")]);
        assert_eq!(read(&[b"\n\xEF\xBB\xBFdata: a\n\n"]), [SseItem::Bare("\u{feff}data: a".into())]);
    }

    #[test]
    fn reports_comments_white_space_and_bare_lines() {
        let got = read(&[b": ping\n:\n \t\n{\"error\":\"x\"}\n"]);
        assert_eq!(
            got,
            [SseItem::Comment, SseItem::Comment, SseItem::Comment, SseItem::Bare("{\"error\":\"x\"}".into())]
        );
    }

    #[test]
    fn hands_out_what_the_end_cuts_off() {
        assert_eq!(read(&[b"data: a"]), [data("a")]);
        assert_eq!(read(&[b"data: a\n"]), [data("a")]);
        assert_eq!(read(&[b"{\"done\":true}"]), [SseItem::Bare("{\"done\":true}".into())]);
        assert_eq!(read(&[b"event: error\n\n"]), [SseItem::Event { event: "error".into(), data: String::new() }]);
    }

    #[test]
    fn replaces_invalid_utf8_and_goes_on() {
        assert_eq!(read(&[b"data: \xFFa\n\ndata: b\n\n"]), [data("\u{fffd}a"), data("b")]);
    }

    #[test]
    fn loses_a_line_or_event_over_the_cap_and_goes_on() {
        let long = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert_eq!(read(&[b"data: ", &long, b"\n\ndata: b\n\n"]), [SseItem::TooLong, data("b")]);
        let half = [b"data: ".as_slice(), &vec![b'x'; MAX_EVENT_BYTES - 6], b"\n"].concat();
        assert_eq!(read(&[&half, &half, &half, b"\ndata: b\n\n"]), [SseItem::TooLong, data("b")]);
    }

    fn pieces_of_a_stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"data:".to_vec()),
            Just(b"event: x".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\xEF\xBB\xBF".to_vec()),
            Just(b": c".to_vec()),
            Just("ü{}".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ];
        proptest::collection::vec(part, 0..20).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_items(bytes in pieces_of_a_stream(), cuts in proptest::collection::vec(any::<usize>(), 0..6)) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&bytes]));
        }
    }
}
