//! JSON as exports write it: what a terminal would obey or not show is escaped, so that a printed file does nothing.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::log::line::Inert;

/// A value on one line, with its line end.
pub(super) fn json_line(value: &impl Serialize) -> String {
    text(value, CompactFormatter)
}

/// A value on many lines, one blank a level, as notebooks are stored.
pub(super) fn json_page(value: &serde_json::Value) -> String {
    text(value, PrettyFormatter::with_indent(b" "))
}

fn text(value: &impl Serialize, layout: impl Formatter) -> String {
    let mut bytes = Vec::new();
    // Writing a value to memory cannot fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut bytes, Laid(layout)));
    bytes.push(b'\n');
    String::from_utf8(bytes).unwrap_or_default()
}

/// [`Inert`] in the layout of another formatter.
struct Laid<F>(F);

impl<F: Formatter> Formatter for Laid<F> {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        Inert.write_string_fragment(writer, fragment)
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_terminal_obeys_is_escaped_in_both_layouts() {
        let value = json!({"a": ["x\u{202e}\u{9b}\u{1b}", 1]});
        assert_eq!(json_line(&value), "{\"a\":[\"x\\u202e\\u009b\\u001b\",1]}\n");
        assert_eq!(json_page(&value), "{\n \"a\": [\n  \"x\\u202e\\u009b\\u001b\",\n  1\n ]\n}\n");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json_page(&value)).unwrap(), value);
    }
}
