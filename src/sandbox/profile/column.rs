//! What is known about one column of a table, cell by cell.

use serde_json::Value;

use super::super::inputs::shown;
use crate::core::clean::is_hidden;

/// Most different values of a text column that are listed. A model copies them into comparisons; beyond a dozen they cost
/// more than they help.
const MAX_VALUES: usize = 12;

/// Longest value that is listed, in characters.
const MAX_VALUE: usize = 40;

/// Longest list of values, in bytes.
const MAX_VALUES_BYTES: usize = 240;

/// Longest column name that is told, in characters; a longer one is no name to be typed.
const MAX_NAME: usize = 80;

/// Longest cell that is looked at as a number or date, in bytes.
const MAX_NUMBER: usize = 40;

/// What pandas reads as missing without being told.
const MISSING: [&str; 19] = [
    "", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA", "#N/A N/A", "-NaN", "-nan",
    "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
];

/// Longest word of [`MISSING`], in bytes.
const MAX_MISSING: usize = 8;

/// Whether pandas takes a cell for missing.
pub(super) fn is_missing(cell: &str) -> bool {
    cell.len() <= MAX_MISSING && MISSING.contains(&cell)
}

/// `1,5` and `1.234,56`: a comma for the point, points between groups of three digits.
fn decimal_comma(number: &str) -> Option<f64> {
    let (whole, fraction) = number.split_once(',')?;
    let mut groups = whole.split('.');
    let first = groups.next()?;
    let grouped = groups.all(|g| g.len() == 3 && g.bytes().all(|b| b.is_ascii_digit()));
    let plain = !whole.contains('.') || first.trim_start_matches(['+', '-']).len() <= 3;
    if !grouped || !plain {
        return None;
    }
    format!("{}.{fraction}", whole.replace('.', "")).parse().ok()
}

/// One column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    /// Its name as in the file.
    pub name: String,
    /// Its name as Python takes it.
    pub label: String,
    /// Cells that are not missing.
    present: u64,
    missing: u64,
    /// The first word other than nothing that was read as missing.
    missing_word: Option<String>,
    could_be: CouldBe,
    /// Numbers have points between the thousands.
    thousands: bool,
    least: Option<(f64, String)>,
    greatest: Option<(f64, String)>,
    /// The first values in order of appearance; one more than [`MAX_VALUES`] means too many.
    values: Vec<String>,
}

/// What every cell so far could be read as.
#[derive(Debug, Clone, Copy)]
struct CouldBe {
    int: bool,
    float: bool,
    /// A float with a comma for the point.
    comma: bool,
    bool: bool,
    date: Option<&'static str>,
    list: bool,
    object: bool,
}

impl CouldBe {
    fn nothing() -> Self {
        Self { int: false, float: false, comma: false, bool: false, date: None, list: false, object: false }
    }
}

impl Column {
    /// A column of this name.
    pub fn new(name: String) -> Self {
        let label = label(&name);
        Self::labelled(name, label)
    }

    /// A column without a name; pandas gives it its number.
    pub fn numbered(at: usize) -> Self {
        Self::labelled(at.to_string(), at.to_string())
    }

    fn labelled(name: String, label: String) -> Self {
        let could_be =
            CouldBe { int: true, float: true, comma: true, bool: true, date: Some(""), list: true, object: true };
        Self {
            name,
            label,
            present: 0,
            missing: 0,
            missing_word: None,
            could_be,
            thousands: false,
            least: None,
            greatest: None,
            values: Vec::new(),
        }
    }

    /// Takes a cell of a text table.
    pub fn add_text(&mut self, cell: &str) {
        if is_missing(cell) {
            self.missing += 1;
            if !cell.is_empty() && self.missing_word.is_none() {
                self.missing_word = Some(cell.into());
            }
            return;
        }
        self.present += 1;
        self.could_be.list = false;
        self.could_be.object = false;
        self.add_value(cell);
        let number = cell.trim_matches(' ');
        if number.len() > MAX_NUMBER {
            self.could_be = CouldBe::nothing();
            return;
        }
        let could_be = &mut self.could_be;
        could_be.bool &= matches!(cell, "True" | "TRUE" | "true" | "False" | "FALSE" | "false");
        if let Some(format) = could_be.date {
            could_be.date = date_format(cell).filter(|found| format.is_empty() || *found == format);
        }
        if could_be.float || could_be.comma {
            could_be.int &= number.parse::<i64>().is_ok();
            let point = number.parse::<f64>().ok();
            let comma = || decimal_comma(number);
            could_be.float &= point.is_some();
            could_be.comma &= point.is_some() || comma().is_some();
            self.thousands |= point.is_none() && number.contains('.') && comma().is_some();
            if let Some(value) = point.or_else(comma) {
                self.add_number(value, number);
            }
        }
    }

    /// Takes a value of a JSON record; an absent key is null.
    pub fn add_json(&mut self, value: &Value) {
        match value {
            Value::Null => self.missing += 1,
            Value::Bool(value) => self.add_text(if *value { "True" } else { "False" }),
            Value::Number(value) => self.add_text(&value.to_string()),
            Value::String(text) => {
                self.present += 1;
                self.add_value(text);
                let date = date_format(text)
                    .filter(|found| matches!(self.could_be.date, Some(f) if f.is_empty() || f == *found));
                self.could_be = CouldBe { date, ..CouldBe::nothing() };
            }
            Value::Array(_) => {
                self.present += 1;
                self.could_be = CouldBe { list: self.could_be.list, ..CouldBe::nothing() };
            }
            Value::Object(_) => {
                self.present += 1;
                self.could_be = CouldBe { object: self.could_be.object, ..CouldBe::nothing() };
            }
        }
    }

    /// Takes this many missing cells.
    pub fn add_missing(&mut self, count: u64) {
        self.missing += count;
    }

    fn add_value(&mut self, cell: &str) {
        if self.values.len() <= MAX_VALUES {
            let value = shown(cell, MAX_VALUE);
            if !self.values.contains(&value) {
                self.values.push(value);
            }
        }
    }

    fn add_number(&mut self, value: f64, text: &str) {
        if self.least.as_ref().is_none_or(|(least, _)| value < *least) {
            self.least = Some((value, text.into()));
        }
        if self.greatest.as_ref().is_none_or(|(greatest, _)| value > *greatest) {
            self.greatest = Some((value, text.into()));
        }
    }

    /// Numbers are written with a comma for the point.
    pub fn has_decimal_comma(&self) -> bool {
        self.present > 0 && !self.could_be.float && self.could_be.comma
    }

    /// Its type and missing cells: what may be told without telling any value.
    pub fn kind(&self) -> String {
        let could_be = &self.could_be;
        let kind = match could_be.date {
            _ if self.present == 0 => "empty",
            _ if could_be.bool => "bool",
            _ if could_be.int => "int",
            _ if could_be.float || could_be.comma => "float",
            Some(format) => format,
            None if could_be.list => "list",
            None if could_be.object => "object",
            None => "text",
        };
        if self.missing == 0 { kind.into() } else { format!("{kind}, {} missing", self.missing) }
    }

    /// Such numbers have points between their thousands.
    pub fn has_thousands(&self) -> bool {
        self.has_decimal_comma() && self.thousands
    }

    /// Its name and all that is known. `whole` says that every row was read.
    pub fn line(&self, whole: bool) -> String {
        let mut out = format!("{}: {}", self.label, self.kind());
        if let Some(word) = self.missing_word.as_deref().filter(|word| *word != "NaN") {
            out.push_str(&format!(" ({word:?} is read as NaN: use .isna())"));
        }
        let could_be = &self.could_be;
        if self.present == 0 || could_be.bool || could_be.list || could_be.object {
            return out;
        }
        if could_be.float || could_be.comma {
            match (&self.least, &self.greatest) {
                (Some((_, least)), Some((_, greatest))) if least == greatest => {
                    out.push_str(&format!(", always {least}"))
                }
                (Some((_, least)), Some((_, greatest))) => out.push_str(&format!(", {least} to {greatest}")),
                _ => {}
            }
            return out;
        }
        let listed: Vec<String> = self.values.iter().map(|value| quoted(value)).collect();
        let list = listed.join(", ");
        let few = could_be.date.is_none() && listed.len() <= MAX_VALUES && list.len() <= MAX_VALUES_BYTES;
        match listed.first() {
            Some(_) if few && whole => out.push_str(&format!(", values {list}")),
            Some(_) if few => out.push_str(&format!(", values such as {list}")),
            Some(first) => out.push_str(&format!(", e.g. {first}")),
            None => {}
        }
        out
    }
}

/// A date as it is written, with the same digits in the same places, or `None`.
fn date_format(cell: &str) -> Option<&'static str> {
    let (date, time) = match cell.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time)),
        None => (cell, None),
    };
    if time.is_some_and(|time| !time.starts_with(|c: char| c.is_ascii_digit()) || !time.contains(':')) {
        return None;
    }
    let separator = date.chars().find(|c| matches!(c, '-' | '/' | '.'))?;
    let parts: Vec<&str> = date.split(separator).collect();
    if !parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    match (parts.iter().map(|part| part.len()).collect::<Vec<_>>().as_slice(), separator, time.is_some()) {
        ([4, 1..=2, 1..=2], '-', false) => Some("date as text (YYYY-MM-DD)"),
        ([4, 1..=2, 1..=2], '-', true) => Some("date and time as text (YYYY-MM-DD HH:MM)"),
        ([4, 1..=2, 1..=2], _, _) => Some("date as text (year first)"),
        ([1..=2, 1..=2, 2 | 4], _, _) => Some("date as text (year last)"),
        _ => None,
    }
}

/// A column name: a plain word as it is, anything else as a string.
fn label(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => quoted(&format!("{}…", &name[..end])),
        None if plain && !name.is_empty() => name.into(),
        None => quoted(name),
    }
}

/// Text as Python writes a string; what cannot be seen is escaped, so that the model can type it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) && u32::from(c) > 0xffff => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            c if is_hidden(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}
