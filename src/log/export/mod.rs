//! A session as a file for other programs: a notebook, a script, a Markdown page, a recording of a terminal.
//!
//! Each is a projection of the log alone: no Python, no model and no network is needed, and any log that can be read can be
//! exported, also a damaged one or one from elsewhere. `story` reads the log once into questions, code and answers,
//! `roles` decides which code is taken, and from these `ipynb`, `py` and `md` are written; `cast` follows the
//! records and their times. Secrets were taken out when the log was written. Everything else in it is from outside, so each
//! format escapes or cleans what it takes.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use super::blobs::Blobs;
use super::list;
use super::reader::{Entry, Reader};
use crate::core::event::{Failure, Record};

mod cast;
mod ipynb;
mod json;
mod md;
mod prose;
mod py;
mod python;
mod roles;
mod story;

/// Bytes of a log and its blobs that are exported. A session of weeks stays far below; it bounds what a log from elsewhere
/// makes us keep in memory.
const MAX_LOG: u64 = 512 * 1024 * 1024;

/// Largest figure, bytes: what the sandbox lets through is smaller.
const MAX_FIGURE: u64 = 32 * 1024 * 1024;

/// Figures of one export together, bytes: one small log can name the same blob on every line.
const MAX_FIGURES: u64 = 256 * 1024 * 1024;

/// What a PNG begins with. A blob is from outside; nothing else is passed on under the name of a figure.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Jupyter notebook, nbformat 4.5.
    Ipynb,
    /// Python script with `# %%` cells.
    Py,
    /// Markdown page, figures in a folder beside it.
    Md,
    /// Recording of a terminal, asciicast v2.
    Cast,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::Ipynb, Self::Py, Self::Md, Self::Cast];

    /// Its name, which is also the ending of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipynb => "ipynb",
            Self::Py => "py",
            Self::Md => "md",
            Self::Cast => "cast",
        }
    }

    /// The format of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// What is wanted of an export.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Keep failed and rejected code. It is marked, and a run from top to bottom passes over it. A recording always has it.
    pub failed: bool,
    /// Folder for the figures of a page, as the page names it; nothing leaves them out.
    pub figures: Option<String>,
}

/// A session as a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exported {
    /// The file.
    pub bytes: Vec<u8>,
    /// Files that belong beside it, by their relative name of one folder and one file.
    pub extra_files: Vec<(String, Vec<u8>)>,
    /// What a person should know, one line each. Cleaned where they are shown.
    pub warnings: Vec<String>,
}

/// Makes the file of a session out of its folder, or out of a log by its own path.
pub fn export(session: &Path, format: Format, options: &Options) -> Result<Exported, Failure> {
    if format == Format::Cast {
        return cast::write(session);
    }
    let story = story::Story::read(session)?;
    let mut figures = Figures { blobs: super::blobs_of(session), left: MAX_FIGURES, warnings: Vec::new() };
    let mut exported = match format {
        Format::Ipynb => ipynb::write(&story, options, &mut figures)?,
        Format::Py => py::write(&story, options),
        Format::Md | Format::Cast => md::write(&story, options, &mut figures),
    };
    exported.warnings.splice(0..0, story.warnings);
    exported.warnings.extend(figures.warnings);
    Ok(exported)
}

/// The entries of a log, up to a size.
struct Entries<'a> {
    session: &'a Path,
    reader: Reader<BufReader<File>>,
    empty: bool,
}

impl<'a> Entries<'a> {
    fn open(session: &'a Path) -> Result<Self, Failure> {
        Ok(Self { session, reader: Reader::open(session)?, empty: true })
    }

    /// What is wrong with the log; a failure if it held nothing.
    fn finish(self) -> Result<Vec<String>, Failure> {
        let cut = self.is_full();
        // Beyond the limit nothing is read for the sake of the report either.
        let report = if cut { self.reader.report().clone() } else { self.reader.finish() };
        if self.empty {
            return Err(report.no_record(self.session));
        }
        let mut remarks = report.remarks(list::is_open(self.session));
        if cut {
            remarks.push(format!("the log is larger than {} MiB, only its beginning was exported", MAX_LOG >> 20));
        }
        Ok(remarks)
    }

    fn is_full(&self) -> bool {
        self.reader.bytes_read() > MAX_LOG
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let entry = if self.is_full() { None } else { self.reader.next() };
        self.empty &= entry.is_none();
        entry
    }
}

/// The record of an entry, if this version knows it.
fn known(entry: Entry) -> Option<Record> {
    match entry {
        Entry::Known(record) => Some(*record),
        Entry::Unknown { .. } => None,
    }
}

/// Reads figures out of blobs, within bounds.
struct Figures {
    blobs: Blobs,
    left: u64,
    warnings: Vec<String>,
}

impl Figures {
    fn get(&mut self, name: &str) -> Option<Vec<u8>> {
        let png = self.blobs.get(name, MAX_FIGURE.min(self.left)).and_then(|bytes| {
            let good = bytes.starts_with(PNG);
            if good { Ok(bytes) } else { Err(Failure::new("a blob cannot be used", "it is no PNG", "")) }
        });
        match png {
            Ok(bytes) => {
                self.left -= bytes.len() as u64;
                Some(bytes)
            }
            Err(failure) => {
                self.warnings.push(format!("a figure is left out: {failure}"));
                None
            }
        }
    }
}
