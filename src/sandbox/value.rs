//! Values a program produces: tables and figures, checked.
//!
//! The body of a value frame is one byte (1 for the value of the last expression) and then frames for its forms: `T` text,
//! `J` table as JSON, `P` PNG. All of it was made by a process that ran the code: every form is bounded, a PNG is decoded
//! within bounds and written anew, and what does not pass leaves a placeholder.

use std::io::Cursor;

use serde::Deserialize;

use super::Value;
use super::frames::Decoder;
use super::output::floor;
use crate::core::clean::Sanitizer;
use crate::core::event::Table;

/// Text form, bytes: what a model reads comfortably.
const MAX_TEXT: usize = 8 * 1024;
/// Rows of a table that are kept: enough to scroll through, few enough to draw.
const MAX_ROWS: usize = 200;
/// Columns of a table that are kept, the index not counted.
const MAX_COLUMNS: usize = 50;
/// Characters of a cell, a name or a type.
const MAX_CELL: usize = 200;
/// Bytes of a PNG as it comes.
const MAX_PNG: usize = 5 * 1024 * 1024;
/// Width and height of a PNG.
const MAX_SIDE: u32 = 8192;
/// Pixels of a PNG: a bomb is small and wide and high, an honest figure of 300 dpi has 10 million.
const MAX_PIXELS: u64 = 32 * 1024 * 1024;
/// Bytes the decoder may allocate: four channels of eight bits for [`MAX_PIXELS`].
const MAX_DECODED: usize = 128 * 1024 * 1024;

/// Reads a value. Whatever the bytes are, there is a value with a text.
pub fn read(body: &[u8]) -> Value {
    let Some((&last, forms)) = body.split_first() else { return placeholder("an empty value") };
    let mut value = Value { last: last == 1, ..Value::default() };
    let mut decoder = Decoder::of_value(forms);
    while let Ok(Some(form)) = decoder.next_frame() {
        match form.kind {
            b'T' => value.text = clean(&form.body, MAX_TEXT),
            b'J' => value.table = table(&form.body),
            b'P' => match redraw(&form.body) {
                Ok(png) => value.png = Some(png),
                Err(why) => value.text.push_str(&format!(" [picture left out: {why}]")),
            },
            _ => {}
        }
    }
    if value.text.is_empty() { Value { text: "[a value without text]".into(), ..value } } else { value }
}

fn placeholder(what: &str) -> Value {
    Value { text: format!("[{what}]"), ..Value::default() }
}

/// Text without control sequences, at most `max` bytes.
fn clean(bytes: &[u8], max: usize) -> String {
    let mut sanitizer = Sanitizer::new();
    let mut text = sanitizer.feed(&bytes[..bytes.len().min(max)]);
    text.push_str(&sanitizer.finish());
    text.truncate(floor(&text, max));
    text
}

fn cell(text: String) -> String {
    let short: String = text.chars().take(MAX_CELL).collect();
    clean(short.as_bytes(), usize::MAX)
}

#[derive(Deserialize)]
struct RawTable {
    columns: Vec<(String, String)>,
    rows: Vec<Vec<String>>,
    total_rows: u64,
    total_columns: u64,
}

/// A table within bounds whose rows are all as long as its columns.
fn table(json: &[u8]) -> Option<Table> {
    let raw: RawTable = serde_json::from_slice(json).ok()?;
    let columns: Vec<_> =
        raw.columns.into_iter().take(MAX_COLUMNS + 1).map(|(name, kind)| (cell(name), cell(kind))).collect();
    let width = columns.len();
    if width == 0 || raw.rows.iter().any(|row| row.len() < width) {
        return None;
    }
    let rows: Vec<Vec<_>> =
        raw.rows.into_iter().take(MAX_ROWS).map(|row| row.into_iter().take(width).map(cell).collect()).collect();
    Some(Table {
        total_rows: raw.total_rows.max(rows.len() as u64),
        total_columns: raw.total_columns.max(width as u64 - 1),
        columns,
        rows,
    })
}

/// Decodes a PNG within bounds and writes its pixels anew, so that nothing but pixels goes on.
pub fn redraw(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.len() > MAX_PNG {
        return Err("larger than 5 MiB".into());
    }
    let bad = |error: png::DecodingError| format!("not a PNG that can be read ({error})");
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_DECODED });
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let header = decoder.read_header_info().map_err(bad)?;
    let (width, height) = (header.width, header.height);
    if width > MAX_SIDE || height > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(format!("{width} × {height} pixels are too many"));
    }
    let mut reader = decoder.read_info().map_err(bad)?;
    let size = reader.output_buffer_size().filter(|size| *size <= MAX_DECODED).ok_or("too many pixels")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(bad)?;
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(info.color_type);
    encoder.set_depth(info.bit_depth);
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| {
        writer.write_image_data(&pixels[..info.buffer_size()])?;
        writer.finish()
    });
    written.map_err(|error| error.to_string())?;
    if out.len() > 2 * MAX_PNG { Err("too large once it is written anew".into()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::frames;
    use proptest::prelude::*;

    fn body(forms: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = vec![1];
        forms.iter().for_each(|(kind, form)| frames::put(*kind, &[form], &mut out));
        out
    }

    fn picture(width: u32, height: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.add_text_chunk("secret".into(), "chunk".into()).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![7; (width * height) as usize]).unwrap();
        writer.finish().unwrap();
        out
    }

    #[test]
    fn pictures_are_written_anew() {
        let value = read(&body(&[(b'T', b"Figure"), (b'P', &picture(30, 20))]));
        let png = value.png.unwrap();
        assert!(!png.windows(6).any(|w| w == b"secret"));
        let info = png::Decoder::new(Cursor::new(&png)).read_info().unwrap().info().size();
        assert_eq!((value.text.as_str(), info), ("Figure", (30, 20)));
    }

    #[test]
    fn bombs_and_junk_leave_a_placeholder() {
        let mut bomb = picture(1, 1);
        bomb[16..24].copy_from_slice(&[0, 0, 0x1f, 0xff, 0, 0, 0x1f, 0xff]);
        for bytes in [&b"not a png"[..], &picture(9000, 1), &bomb, &picture(20, 20)[..60]] {
            let value = read(&body(&[(b'T', b"x"), (b'P', bytes)]));
            assert!(value.png.is_none() && value.text.starts_with("x [picture left out"), "{value:?}");
        }
    }

    #[test]
    fn tables_are_bounded() {
        let row = vec!["v".repeat(250); 80];
        let json = serde_json::json!({
            "columns": vec![("c\u{1b}[2J", "int64"); 80], "rows": vec![row; 250], "total_rows": 5000, "total_columns": 79,
        });
        let value = read(&body(&[(b'T', b"t"), (b'J', json.to_string().as_bytes())]));
        let table = value.table.unwrap();
        assert_eq!((table.columns.len(), table.rows.len(), table.rows[0].len()), (51, 200, 51));
        assert_eq!((table.rows[0][0].len(), table.columns[0].0.as_str()), (200, "c"));
        assert_eq!((table.total_rows, table.total_columns), (5000, 79));
    }

    #[test]
    fn ragged_tables_are_refused() {
        let json = br#"{"columns":[["a","b"],["c","d"]],"rows":[["1"]],"total_rows":1,"total_columns":1}"#;
        assert!(read(&body(&[(b'T', b"t"), (b'J', json)])).table.is_none());
    }

    #[test]
    fn text_is_clean_and_short() {
        let value = read(&body(&[(b'T', format!("\x1b]0;title\x07{}", "é".repeat(8000)).as_bytes())]));
        assert!(value.last && value.text.len() <= MAX_TEXT && value.text.starts_with('é'));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(!read(&bytes).text.is_empty());
            prop_assert!(!read(&body(&[(b'J', &bytes), (b'P', &bytes), (b'T', &bytes)])).text.is_empty());
        }
    }
}
