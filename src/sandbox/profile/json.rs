//! Tables as JSON: a list of records, records line by line, an object of columns or of records, or a list of records under
//! a key.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::time::Instant;

use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::super::inputs::shown;
use super::column::{Column, quoted};
use super::read::{Gauge, Limited, MAX_COLUMNS, SAMPLE_ROWS, Table};
use crate::sandbox::regular;

/// Longest cell of a sample row, in characters.
const MAX_CELL: usize = 40;

/// Most keys of an object that are named.
const MAX_KEYS: usize = 20;

/// Reads a document until `until`.
pub(super) fn read(path: &Path, until: Instant) -> io::Result<Table> {
    let (limited, gauge) = Limited::new(regular::open(path)?, until);
    let mut input = BufReader::new(limited);
    let first = first_byte(&mut input)?;
    let Some(first) = first else { return Err(io::Error::other("empty")) };
    let mut rows = Rows { gauge: gauge.clone(), table: Table::default(), index: BTreeMap::new(), others: 0 };
    let document = Cursor::new([first]).chain(input);
    let result = if first == b'[' {
        let mut source = serde_json::Deserializer::from_reader(document);
        Elements(&mut rows).deserialize(&mut source).map(|()| Some("a list of objects"))
    } else {
        objects(document, &mut rows)
    };
    match result {
        Ok(shape) => {
            rows.table.whole = true;
            let shape = shape.map(str::to_owned).filter(|_| rows.table.rows > 0);
            rows.table.notes.splice(0..0, shape);
        }
        // The end came early because of a limit: what was read stands.
        Err(_) if gauge.is_cut() => {}
        Err(e) => return Err(io::Error::other(e)),
    }
    if rows.others > 0 {
        let only = if rows.table.rows == 0 { "a list of" } else { "also in the list:" };
        rows.table.notes.push(format!("{only} {} values that are no objects", rows.others));
    }
    Ok(rows.table)
}

fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    for byte in input.bytes() {
        let byte = byte?;
        // White space, or a byte order mark.
        if !byte.is_ascii_whitespace() && !matches!(byte, 0xef | 0xbb | 0xbf) {
            return Ok(Some(byte));
        }
    }
    Ok(None)
}

/// One object, or one on each line.
fn objects(document: impl Read, rows: &mut Rows) -> serde_json::Result<Option<&'static str>> {
    let mut stream = serde_json::Deserializer::from_reader(document).into_iter::<Map<String, Value>>();
    let Some(first) = stream.next().transpose()? else { return Ok(None) };
    rows.gauge.next_record();
    let Some(second) = stream.next().transpose()? else { return Ok(single(first, rows)) };
    rows.add(&first);
    rows.add(&second);
    for record in stream {
        rows.add(&record?);
        rows.gauge.next_record();
    }
    Ok(Some("JSON lines: lines=True"))
}

/// One object: columns, records, or something with a list of records in it.
fn single(object: Map<String, Value>, rows: &mut Rows) -> Option<&'static str> {
    let length =
        object.values().map(|v| v.as_array().map(Vec::len)).reduce(|a, b| if a == b { a } else { None }).flatten();
    let scalars = |list: &Vec<Value>| list.iter().all(|v| !v.is_array() && !v.is_object());
    if let Some(length) = length.filter(|_| object.values().filter_map(Value::as_array).all(scalars)) {
        for at in 0..length {
            let row =
                object.iter().map(|(key, list)| (key.clone(), list.get(at).cloned().unwrap_or_default())).collect();
            rows.add(&row);
        }
        return Some("an object of lists, one for each column");
    }
    if object.len() > 1 && object.values().all(Value::is_object) {
        object.values().filter_map(Value::as_object).for_each(|record| rows.add(record));
        return Some("an object of objects, one for each row: orient=\"index\"");
    }
    let is_records = |value: &Value| value.as_array().is_some_and(|l| !l.is_empty() && l.iter().all(Value::is_object));
    let keys: Vec<String> =
        object.iter().take(MAX_KEYS).map(|(key, value)| format!("{} ({})", quoted(key), kind(value))).collect();
    let more = object.len().saturating_sub(MAX_KEYS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    rows.table.notes.push(format!("an object with the keys {}{more}", keys.join(", ")));
    if let Some((key, list)) = object.iter().find(|(_, value)| is_records(value)) {
        rows.table.notes.push(format!("the rows are under {}", quoted(key)));
        list.as_array().into_iter().flatten().filter_map(Value::as_object).for_each(|record| rows.add(record));
    }
    None
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "bool".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "text".into(),
        Value::Array(list) => format!("list of {}", list.len()),
        Value::Object(_) => "object".into(),
    }
}

/// A table while its records come.
struct Rows {
    gauge: Gauge,
    table: Table,
    /// Place of each column by its name.
    index: BTreeMap<String, usize>,
    /// Elements that are no objects.
    others: u64,
}

impl Rows {
    fn add(&mut self, record: &Map<String, Value>) {
        let table = &mut self.table;
        for key in record.keys() {
            if self.index.contains_key(key) {
                continue;
            }
            if table.columns.len() >= MAX_COLUMNS {
                table.more_columns += 1;
                continue;
            }
            self.index.insert(key.clone(), table.columns.len());
            let mut column = Column::new(key.clone());
            column.add_missing(table.rows);
            table.columns.push(column);
        }
        table.rows += 1;
        for column in &mut table.columns {
            column.add_json(record.get(&column.name).unwrap_or(&Value::Null));
        }
        if table.samples.len() < SAMPLE_ROWS {
            table.samples.push(table.columns.iter().map(|column| cell(record.get(&column.name))).collect());
        }
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => shown(text, MAX_CELL),
        Some(other) => shown(&other.to_string(), MAX_CELL),
    }
}

/// Takes the elements of a list one by one, so that a large one is never in memory.
struct Elements<'a>(&'a mut Rows);

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element::<Value>()? {
            match element {
                Value::Object(record) => self.0.add(&record),
                _ => self.0.others += 1,
            }
            self.0.gauge.next_record();
        }
        Ok(())
    }
}
