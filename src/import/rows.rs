//! The rows of a file, whatever its format: CSV, gzipped CSV or Parquet, told by its first bytes.

mod parquet;

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use service::{Error, Result};
use telemetry::record::{Header, Record, Refusal};

/// What a gzip file begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What a Parquet file begins with.
const PARQUET: [u8; 4] = *b"PAR1";

/// A row, or why it cannot be read.
pub(crate) type Row<'r> = std::result::Result<Record<'r>, Refusal>;
/// What takes rows: each with its number.
pub(crate) type Take<'t> = dyn FnMut(u64, Row<'_>) -> Result<()> + 't;

/// An open file.
pub(crate) struct Rows {
    header: Header,
    source: Source,
}

enum Source {
    Csv(Box<csv::Reader<Box<dyn Read + Send>>>),
    Parquet(parquet::Batches),
}

impl Rows {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// `NotFound`, `Denied`; `Corrupt` for a file that is none of the formats.
    pub(crate) fn open(path: &Path) -> Result<Rows> {
        let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
        let mut magic = Vec::new();
        (&mut file).take(4).read_to_end(&mut magic).map_err(|error| unreadable(path, error))?;
        file.rewind().map_err(|error| unreadable(path, error))?;
        if magic == PARQUET {
            let (header, batches) = parquet::open(path, file)?;
            return Ok(Rows { header, source: Source::Parquet(batches) });
        }
        let plain: Box<dyn Read + Send> = match magic.starts_with(&GZIP) {
            true => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
            false => Box::new(file),
        };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(plain);
        let names = reader.headers().map_err(|error| no_csv(path, error))?;
        let header = Header::new(names).map_err(|refusal| refused(path, &refusal))?;
        Ok(Rows { header, source: Source::Csv(Box::new(reader)) })
    }

    /// The columns.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Hands out the next rows with their numbers (lines of a CSV, from 1 in a Parquet file): some thousands, and `false` when
    /// there were none left.
    ///
    /// # Errors
    /// `Corrupt` where the file cannot be read on; what `take` fails with.
    pub(crate) fn next(&mut self, path: &Path, take: &mut Take<'_>) -> Result<bool> {
        match &mut self.source {
            Source::Csv(reader) => next_lines(&self.header, reader, path, take),
            Source::Parquet(batches) => batches.next(&self.header, path, take),
        }
    }
}

/// Lines of one turn.
const LINES: usize = 10_000;

fn next_lines(
    header: &Header,
    reader: &mut csv::Reader<Box<dyn Read + Send>>,
    path: &Path,
    take: &mut Take<'_>,
) -> Result<bool> {
    let mut line = csv::StringRecord::new();
    for read in 0..LINES {
        let number = reader.position().line();
        match reader.read_record(&mut line) {
            Ok(true) => {
                let number = line.position().map_or(number, csv::Position::line);
                let values: Vec<_> = line.iter().map(Some).collect();
                take(number, Record::new(header, &values))?;
            }
            Ok(false) => return Ok(read > 0),
            Err(error) => match error.kind() {
                csv::ErrorKind::Utf8 { .. } => take(number, Err(Refusal("it is not UTF-8".to_owned())))?,
                _ => return Err(no_csv(path, error)),
            },
        }
    }
    Ok(true)
}

pub(crate) fn refused(path: &Path, refusal: &Refusal) -> Error {
    Error::corrupt(format!("{}: {refusal}", path.display()))
}

fn no_csv(path: &Path, error: csv::Error) -> Error {
    Error::corrupt(format!("{} cannot be read as CSV", path.display())).with_source(error)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    let what = format!("cannot read {}", path.display());
    let failed = match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(what),
        std::io::ErrorKind::PermissionDenied => Error::denied(what),
        _ => Error::corrupt(what),
    };
    failed.with_source(error)
}

#[cfg(test)]
mod tests;
