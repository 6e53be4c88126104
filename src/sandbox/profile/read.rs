//! Reading a table within limits: bytes, time, and the size of one record.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;
use std::time::Instant;

use super::column::Column;

/// Most bytes of a file that are read.
pub(super) const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Longest record in bytes: a quotation mark that is never closed, or a whole JSON document that is one object, which takes
/// some twenty times as much memory.
const MAX_RECORD: u64 = 4 * 1024 * 1024;

/// Most columns that are followed.
pub(super) const MAX_COLUMNS: usize = 1_000;

/// Rows that are shown as they are.
pub(super) const SAMPLE_ROWS: usize = 3;

/// What is known about a table.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub rows: u64,
    /// Every row was read.
    pub whole: bool,
    pub columns: Vec<Column>,
    /// Columns beyond [`MAX_COLUMNS`].
    pub more_columns: usize,
    /// The first rows, cells in the order of the columns.
    pub samples: Vec<Vec<String>>,
    /// How it must be read, and what is odd in it.
    pub notes: Vec<String>,
}

/// Tells the user of a [`Limited`] reader how it goes.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cut: Cell<bool>,
    record: Cell<u64>,
}

impl Gauge {
    /// The end that the reader reported was a limit, so the record at hand is not whole.
    pub fn is_cut(&self) -> bool {
        self.0.cut.get()
    }

    /// A record is done.
    pub fn next_record(&self) {
        self.0.record.set(0);
    }
}

/// A reader that ends at the first limit.
pub(super) struct Limited<R> {
    inner: R,
    left: u64,
    until: Instant,
    gauge: Gauge,
}

impl<R: Read> Limited<R> {
    pub fn new(inner: R, until: Instant) -> (Self, Gauge) {
        let gauge = Gauge::default();
        (Self { inner, left: MAX_BYTES, until, gauge: gauge.clone() }, gauge)
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let state = &self.gauge.0;
        if self.left == 0 || state.record.get() > MAX_RECORD || Instant::now() > self.until {
            state.cut.set(true);
        }
        if state.cut.get() {
            return Ok(0);
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.inner.read(&mut buffer[..most])?;
        self.left -= count as u64;
        state.record.set(state.record.get() + count as u64);
        Ok(count)
    }
}

/// A number with its noun.
pub(super) fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
