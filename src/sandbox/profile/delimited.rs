//! Tables as text: csv, tsv and their relatives, read as pandas reads them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::time::Instant;

use csv::{ByteRecord, ReaderBuilder};

use super::super::inputs::shown;
use super::column::{Column, is_missing};
use super::read::{Limited, MAX_COLUMNS, SAMPLE_ROWS, Table, count};
use crate::sandbox::regular;

/// How much of the beginning decides encoding and separator, in bytes.
const HEAD: usize = 64 * 1024;

/// Most of a UTF-16 file that is read, in bytes; it is decoded in memory.
const MAX_UTF16: u64 = 1024 * 1024;

/// Rows that decide the separator and whether there is a header.
const SNIFFED_ROWS: usize = 20;

/// Size of the read buffer, in bytes: the time limit is looked at once for each.
const BUFFER: usize = 64 * 1024;

/// Longest cell of a sample row, in characters.
const MAX_CELL: usize = 40;

/// Numbers that are more likely years in a header than data.
const YEARS: std::ops::RangeInclusive<i64> = 1800..=2100;

/// Reads a table until `until`.
pub(super) fn read(path: &Path, until: Instant) -> io::Result<Table> {
    let mut file = regular::open(path)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD as u64).read_to_end(&mut head)?;
    match head.as_slice() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            file.take(MAX_UTF16 - HEAD as u64).read_to_end(&mut head)?;
            let whole = (head.len() as u64) < MAX_UTF16;
            let text = decode_utf16(&head);
            let mut table = rows(text.as_bytes(), io::empty(), until)?;
            table.whole &= whole;
            table.notes.insert(0, "encoding=\"utf-16\"".into());
            Ok(table)
        }
        [0xef, 0xbb, 0xbf, rest @ ..] => rows(rest, file, until),
        all => rows(all, file, until),
    }
}

fn decode_utf16(bytes: &[u8]) -> String {
    let little = bytes.starts_with(&[0xff, 0xfe]);
    let units = bytes[2..].chunks_exact(2).map(|pair| match (pair, little) {
        ([a, b], true) => u16::from_le_bytes([*a, *b]),
        ([a, b], false) => u16::from_be_bytes([*a, *b]),
        _ => 0,
    });
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Reads the head, which is in memory, and as much of the rest as the limits allow.
fn rows(head: &[u8], rest: impl Read, until: Instant) -> io::Result<Table> {
    let separator = sniff(&head[..head.len().min(HEAD)]);
    let (rest, gauge) = Limited::new(rest, until);
    let mut reader = builder(separator).buffer_capacity(BUFFER).from_reader(Cursor::new(head).chain(rest));
    let mut table = Table::default();
    let mut legacy = false;
    let mut long_rows = 0_u64;
    let mut record = ByteRecord::new();
    let mut fields = 0;
    while reader.read_byte_record(&mut record)? && !gauge.is_cut() {
        gauge.next_record();
        let mut cells = record.iter().map(|cell| decode(cell, &mut legacy));
        if table.columns.is_empty() {
            fields = record.len();
            table.more_columns = fields.saturating_sub(MAX_COLUMNS);
            let first: Vec<Cow<str>> = cells.collect();
            let header = has_header(&first);
            if header {
                table.columns = names(&first).into_iter().take(MAX_COLUMNS).map(Column::new).collect();
            } else {
                table.columns = (0..fields.min(MAX_COLUMNS)).map(Column::numbered).collect();
                table.notes.push("no header line: with header=None the columns are 0, 1, ...".into());
                add_row(&mut table, first.into_iter());
            }
            continue;
        }
        long_rows += u64::from(record.len() > fields);
        add_row(&mut table, &mut cells);
    }
    table.whole = !gauge.is_cut();
    if table.columns.iter().any(Column::has_decimal_comma) {
        table.notes.insert(0, "decimal=\",\"".into());
        if table.columns.iter().any(Column::has_thousands) {
            table.notes.insert(1, "thousands=\".\"".into());
        }
    }
    if legacy {
        table.notes.insert(0, "encoding=\"latin-1\"".into());
    }
    match separator {
        b',' => {}
        b'\t' => table.notes.insert(0, "sep=\"\\t\"".into()),
        other => table.notes.insert(0, format!("sep=\"{}\"", char::from(other))),
    }
    if long_rows * 2 > table.rows {
        table
            .notes
            .push("most rows have more fields than the first line: the table may begin below it, skiprows=".into());
    } else if long_rows > 0 {
        table.notes.push(format!("{} with too many fields: on_bad_lines=\"skip\"", count(long_rows, "row")));
    }
    Ok(table)
}

fn add_row<'a>(table: &mut Table, mut cells: impl Iterator<Item = Cow<'a, str>>) {
    table.rows += 1;
    let mut sample = (table.samples.len() < SAMPLE_ROWS).then(Vec::new);
    for column in &mut table.columns {
        // A short row ends in missing cells.
        let cell = cells.next().unwrap_or_default();
        column.add_text(&cell);
        if let Some(sample) = &mut sample {
            // As the code will see it.
            sample.push(if is_missing(&cell) { "NaN".into() } else { shown(&cell, MAX_CELL) });
        }
    }
    table.samples.extend(sample);
}

/// A cell as text; bytes that are not UTF-8 are read as Latin-1, which has a character for each.
fn decode<'a>(cell: &'a [u8], legacy: &mut bool) -> Cow<'a, str> {
    match std::str::from_utf8(cell) {
        Ok(text) => text.into(),
        Err(_) => {
            *legacy = true;
            cell.iter().map(|byte| char::from(*byte)).collect()
        }
    }
}

fn builder(separator: u8) -> ReaderBuilder {
    let mut builder = ReaderBuilder::new();
    builder.has_headers(false).flexible(true).delimiter(separator);
    builder
}

/// The separator that cuts the first rows into the most fields, the same number in each.
fn sniff(head: &[u8]) -> u8 {
    let score = |separator: u8| {
        let mut reader = builder(separator).from_reader(head);
        let counts: Vec<usize> =
            reader.byte_records().take(SNIFFED_ROWS).flatten().map(|record| record.len()).collect();
        // The head may end within a record.
        let counts = if head.len() >= HEAD && counts.len() < SNIFFED_ROWS {
            &counts[..counts.len().saturating_sub(1)]
        } else {
            &counts
        };
        let first = counts.first().copied().unwrap_or(0);
        let same = counts.iter().filter(|count| **count == first).count();
        if first > 1 && same == counts.len() { (2, first) } else { (u8::from(first > 1), first) }
    };
    // Of equals the last is taken, so the comma stands last.
    *[b'|', b'\t', b';', b','].iter().max_by_key(|separator| score(**separator)).unwrap_or(&b',')
}

/// A first row with a number in it is data, unless the numbers are years or count up as names made by a program do.
fn has_header(first: &[Cow<str>]) -> bool {
    let numbers: Vec<f64> =
        first.iter().filter_map(|cell| cell.trim().parse().ok()).filter(|n: &f64| n.is_finite()).collect();
    let years = numbers.iter().all(|n| n.fract() == 0.0 && YEARS.contains(&(*n as i64)));
    let counted = numbers.len() > 1 && numbers.windows(2).all(|pair| pair[1] - pair[0] == 1.0);
    numbers.is_empty() || years || counted
}

/// Column names as pandas makes them: nothing becomes `Unnamed: 0`, a second `x` becomes `x.1`.
fn names(first: &[Cow<str>]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for (at, cell) in first.iter().enumerate() {
        let name = if cell.is_empty() { format!("Unnamed: {at}") } else { cell.to_string() };
        let numbered = (1..).map(|n: u32| format!("{name}.{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(name);
        taken.insert(free.clone());
        names.push(free);
    }
    names
}
