//! What was refused, row by row, and what the import says at its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use service::{Error, Result};
use telemetry::record::Refusal;

use crate::print;

/// Refused rows that are shown on the terminal; a file is asked for with `--report`.
const SHOWN_MAX: u64 = 10;
/// Rows between two words of progress.
const PROGRESS_ROWS: u64 = 100_000;

/// The report of one import.
pub(crate) struct Report {
    skip_refused: bool,
    file: Option<csv::Writer<File>>,
    rows: u64,
    refused: u64,
    left_out: BTreeMap<&'static str, u64>,
    notes: BTreeMap<&'static str, u64>,
}

impl Report {
    /// `skip_refused`: rows that are refused do not stop the import. All of them are written to `path`, if there is one.
    ///
    /// # Errors
    /// `Invalid` if the file cannot be made.
    pub(crate) fn open(skip_refused: bool, path: Option<&Path>) -> Result<Report> {
        let file = path.map(|path| {
            let cannot = |error| Error::invalid(format!("cannot write {}", path.display())).with_source(error);
            let mut writer = csv::Writer::from_path(path).map_err(cannot)?;
            writer.write_record(["file", "row", "reason"]).map_err(cannot)?;
            Ok::<_, Error>(writer)
        });
        Ok(Report {
            skip_refused,
            file: file.transpose()?,
            rows: 0,
            refused: 0,
            left_out: BTreeMap::new(),
            notes: BTreeMap::new(),
        })
    }

    /// A row was read, whatever becomes of it.
    pub(crate) fn row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(PROGRESS_ROWS) {
            print::note(format!("{} rows read", self.rows));
        }
    }

    /// A row was refused.
    ///
    /// # Errors
    /// `Invalid` if the report's file cannot be written.
    pub(crate) fn refuse(&mut self, path: &Path, row: u64, refusal: &Refusal) -> Result<()> {
        self.refused += 1;
        if self.refused <= SHOWN_MAX {
            print::note(format!("refused  {} row {row}: {refusal}", path.display()));
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write_record([&path.display().to_string(), &row.to_string(), &refusal.0]);
        written.map_err(|error| Error::invalid("cannot write the report").with_source(error))
    }

    /// A row is no charge of its own, on purpose.
    pub(crate) fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// A row was taken, but for something in it.
    pub(crate) fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Whether the import may go on, asked when all rows were read; gives the lines to print.
    ///
    /// # Errors
    /// `Corrupt` if rows were refused and may not be skipped.
    pub(crate) fn close(mut self) -> Result<Vec<String>> {
        if let Some(file) = &mut self.file {
            file.flush().map_err(|error| Error::invalid("cannot write the report").with_source(error))?;
        }
        if self.refused > 0 && !self.skip_refused {
            let error =
                Error::corrupt(format!("{} of {} rows were refused; nothing was imported", self.refused, self.rows));
            return Err(error.with_hint(
                "mend them, or import the others with --skip-refused; --report FILE writes all of them with their reasons",
            ));
        }
        let left_out = self.left_out.iter().map(|(why, rows)| format!("left out {rows} rows: {why}"));
        let notes = self.notes.iter().map(|(what, rows)| format!("note     {rows} rows: {what}"));
        let read = format!("rows     {} read, {} refused", self.rows, self.refused);
        Ok(std::iter::once(read).chain(left_out).chain(notes).collect())
    }
}
