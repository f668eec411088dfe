//! Named sets of rows that somebody outside keeps, such as a bill or a price book: written as a whole, replaced as a whole.
//!
//! The files of a set carry its name and the digest of its rows. An import commits all its sets in one version, takes out what they
//! replace in the same one, and does nothing where the digests say that the rows are there already. So it can be stopped
//! anywhere and begun again, and nothing counts twice.
//!
//! Whoever computes from a table asks what came, not what went. So files that take the place of others say over which minutes
//! those others lay ([`WITHDRAWN`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::TimestampMicrosecondType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use jiff::{Timestamp, tz::TimeZone};
use service::{Error, Result};
use telemetry::table::Table;
use xxhash_rust::xxh3::Xxh3;

use crate::commit::{Entry, Outcome};
use crate::lake::Lake;
use crate::layout;
use crate::snapshot::{File, FileAdd, Snapshot, Value};

/// The tag that names a file's set.
const SET: &str = "set";
/// The tag with the digest of the set's rows, without columns that say when they were imported.
const DIGEST: &str = "set_digest";
/// The tag with the first and last minute, since 1970-01-01 UTC, of what the file's set held before, as `29932560-29975759`.
pub const WITHDRAWN: &str = "withdrawn";
/// The journal of imports; its frames count them.
const JOURNAL: &str = "imported";
const MINUTE_US: i64 = 60_000_000;
/// Longest charge that stands for hours of a host.
const CHARGE_MINUTES_MAX: i64 = 32 * 24 * 60;

/// What became of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name.
    pub set: String,
    /// Rows that it has now.
    pub rows: u64,
    /// Rows that were in its place before.
    pub replaced: u64,
    /// Whether the same rows were there already, so that nothing was written.
    pub is_unchanged: bool,
}

/// An import under way. Dropped before [`Import::commit`] it leaves at most files that no commit names.
pub struct Import {
    lake: Lake,
    table: &'static Table,
    /// Columns that do not tell rows from others.
    ignored: &'static [&'static str],
    from: u64,
    sets: BTreeMap<String, Written>,
}

#[derive(Default)]
struct Written {
    adds: Vec<FileAdd>,
    digest: Xxh3,
    rows: u64,
    /// Sets of other names that it takes the place of.
    others: BTreeSet<String>,
}

impl Import {
    /// Begins an import into a table. Columns in `ignored` say when a row was imported and do not make it another row.
    ///
    /// # Errors
    /// `Denied` for a lake opened read only, `Corrupt`, `Unavailable`.
    pub async fn begin(lake: &Lake, table: &'static Table, ignored: &'static [&'static str]) -> Result<Import> {
        lake.writable()?;
        let from = lake.through(table, JOURNAL).await?.unwrap_or(0);
        Ok(Import { lake: lake.clone(), table, ignored, from, sets: BTreeMap::new() })
    }

    /// Adds rows to a set, in any number of calls. They are written at once and seen by nobody yet.
    ///
    /// # Errors
    /// `Invalid` for rows that do not fit the table, `Denied`, `Unavailable`.
    pub async fn write(&mut self, set: &str, rows: &RecordBatch) -> Result<()> {
        let mut adds = Vec::new();
        for (date, indices) in by_date(rows)? {
            let part =
                compute::take_record_batch(rows, &UInt32Array::from(indices)).map_err(|e| unfit(self.table, e))?;
            let name = layout::file_name(JOURNAL, self.from, self.from + 1, &layout::unique());
            adds.push(self.lake.write(self.table, &date, &name, &[part]).await?);
        }
        let written = self.sets.entry(set.to_owned()).or_default();
        written.adds.append(&mut adds);
        digest(rows, self.ignored, &mut written.digest)?;
        written.rows += rows.num_rows() as u64;
        Ok(())
    }

    /// Has a set, which is written before or after this, take the place of one of another name too.
    pub fn replace(&mut self, set: &str, other: &str) {
        self.sets.entry(set.to_owned()).or_default().others.insert(other.to_owned());
    }

    /// Makes the sets the table's, in place of those of the same names, in one version.
    ///
    /// # Errors
    /// `Conflict` if another import was faster, after which this one can be begun again; `Denied`, `Corrupt`, `Unavailable`.
    pub async fn commit(self) -> Result<Vec<Published>> {
        let Import { lake, table, from, sets, .. } = self;
        let snapshot = lake.snapshot(table.name, None).await?;
        let (mut adds, mut removes, mut published) = (Vec::new(), Vec::new(), Vec::new());
        for (set, written) in sets {
            let digest = format!("{:032x}", written.digest.digest128());
            let mut old = Old::of(&snapshot, &set);
            let others = written.others.iter().map(|other| Old::of(&snapshot, other));
            let others: Vec<_> = others.filter(|other| !other.paths.is_empty()).collect();
            let is_same = old.digests.len() == 1 && old.digests.contains(digest.as_str());
            let is_unchanged = is_same && others.is_empty();
            others.into_iter().for_each(|other| old.join(other));
            published.push(Published { set: set.clone(), rows: written.rows, replaced: old.rows, is_unchanged });
            if is_unchanged {
                continue;
            }
            let withdrawn = old.minutes().map(|minutes| (WITHDRAWN.to_owned(), minutes));
            removes.extend(old.paths);
            let tagged = [(SET.to_owned(), set), (DIGEST.to_owned(), digest)];
            adds.extend(written.adds.into_iter().map(|mut add| {
                add.tags.extend(tagged.clone().into_iter().chain(withdrawn.clone()));
                add
            }));
        }
        if adds.is_empty() {
            return Ok(published);
        }
        let entry = Entry { journal: JOURNAL.to_owned(), table: table.name, from, to: from + 1, adds };
        match lake.replace(entry, removes).await? {
            Outcome::Committed { .. } => Ok(published),
            Outcome::Through(_) => Err(Error::conflict(format!("another import into table {} was faster", table.name))
                .with_hint("run this one again; nothing of it was taken")),
        }
    }
}

/// Adds the rows to a digest, without the columns that do not count. In whatever pieces rows come, their digest is one.
fn digest(rows: &RecordBatch, ignored: &[&str], digest: &mut Xxh3) -> Result<()> {
    let failed = |e| Error::internal("digest imported rows").with_source(e);
    let (schema, options) = (rows.schema(), FormatOptions::default());
    let columns =
        schema.fields().iter().zip(rows.columns()).filter(|(field, _)| !ignored.contains(&field.name().as_str()));
    let columns = columns.map(|(_, column)| Ok((column, ArrayFormatter::try_new(column, &options).map_err(failed)?)));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut text = String::new();
    for row in 0..rows.num_rows() {
        for (column, formatter) in &columns {
            text.clear();
            if column.is_valid(row) {
                write!(text, "{}", formatter.value(row))
                    .map_err(|e| Error::internal("digest a value").with_source(e))?;
            }
            digest.update(&[u8::from(column.is_valid(row))]);
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        }
    }
    Ok(())
}

/// The names of a table's sets with their rows.
///
/// # Errors
/// `Corrupt`, `Unavailable`.
pub async fn named(lake: &Lake, table: &'static Table) -> Result<BTreeMap<String, u64>> {
    let snapshot = lake.snapshot(table.name, None).await?;
    let mut sets = BTreeMap::new();
    for file in &snapshot.files {
        if let Some(set) = file.tags.get(SET) {
            *sets.entry(set.clone()).or_default() += file.rows.unwrap_or(0);
        }
    }
    Ok(sets)
}

/// A set as the table holds it.
struct Old<'s> {
    paths: Vec<String>,
    digests: BTreeSet<&'s str>,
    rows: u64,
    files: Vec<&'s File>,
}

impl<'s> Old<'s> {
    fn of(snapshot: &'s Snapshot, set: &str) -> Old<'s> {
        let files = snapshot.files.iter().filter(|file| file.tags.get(SET).is_some_and(|name| name == set));
        let mut old = Old { paths: Vec::new(), digests: BTreeSet::new(), rows: 0, files: Vec::new() };
        for file in files {
            old.files.push(file);
            old.paths.push(file.path.clone());
            old.digests.insert(file.tags.get(DIGEST).map_or("", String::as_str));
            old.rows += file.rows.unwrap_or(0);
        }
        old
    }

    fn join(&mut self, other: Old<'s>) {
        self.paths.extend(other.paths);
        self.digests.extend(other.digests);
        self.rows += other.rows;
        self.files.extend(other.files);
    }

    /// The minutes over which its rows lie, as the tag says it; `None` if there are no rows.
    fn minutes(&self) -> Option<String> {
        let bound = |value: Option<&Value>| match value {
            Some(Value::Time(us)) => Some(us.div_euclid(MINUTE_US)),
            _ => None,
        };
        let stats = |file: &File, column: &str| file.stats.get(column).cloned().unwrap_or_default();
        // what does not say where it lies may lie anywhere
        let first = |file: &&File| bound(stats(file, "time").min.as_ref()).unwrap_or(0).max(0);
        let last = |file: &&File| {
            let starts = bound(stats(file, "time").max.as_ref()).unwrap_or(i64::MAX / MINUTE_US);
            // nothing is charged to hours for longer than a month, whatever a commitment's fee is for
            let ends = bound(stats(file, "charge_to").max.as_ref()).unwrap_or(starts);
            starts.max(ends.min(starts.saturating_add(CHARGE_MINUTES_MAX)))
        };
        let (first, last) = (self.files.iter().map(first).min()?, self.files.iter().map(last).max()?);
        Some(format!("{first}-{}", last.max(first)))
    }
}

/// Row numbers by UTC date of `time`.
pub(crate) fn by_date(rows: &RecordBatch) -> Result<BTreeMap<String, Vec<u32>>> {
    let times = rows.column_by_name("time").and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    let times = times.ok_or_else(|| Error::internal("rows without time"))?;
    let mut dates: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (row, us) in (0_u32..).zip(times.values()) {
        let instant = Timestamp::from_microsecond(*us).map_err(|e| Error::internal("time of a row").with_source(e))?;
        dates.entry(instant.to_zoned(TimeZone::UTC).date().to_string()).or_default().push(row);
    }
    Ok(dates)
}

fn unfit(table: &Table, error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows of table {}", table.name)).with_source(error)
}

#[cfg(test)]
mod tests;
