//! Publishing the dated facts that come with Tokenwatt: prices, power models and the grid.
//!
//! The bundled rows of a table are one set of files, marked with the digest of the rows. When a release brings other rows, the set
//! is replaced as a whole in one version; rows that operators import lie in files of their own and are never touched.

mod rows;

pub use rows::{of_discounts, of_grid, of_inventory, of_power_models, of_prices, of_rates};

use std::collections::BTreeSet;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute;
use arrow::ipc::writer::StreamWriter;
use service::{Error, Kind, Result};
use telemetry::table::{GRID, POWER_MODELS, PRICES, Table};
use xxhash_rust::xxh3::xxh3_128;

use crate::commit::{Entry, Outcome};
use crate::lake::Lake;
use crate::layout;
use crate::sets::by_date;
use crate::snapshot::FileAdd;

/// The journal under which bundled rows are committed; its frames count replacements.
const JOURNAL: &str = "bundled";
/// The tag of a bundled file; its value is the digest of its set.
const TAG: &str = "bundled";
/// Lost races with other processes that start at the same time.
const RACES_MAX: u32 = 10;

/// Sees to it that the lake holds the bundled rows, once.
///
/// # Errors
/// `Denied` for a lake opened read only, `Corrupt`, `Unavailable`.
///
/// # Cancel safety
/// Can be called again.
pub async fn publish(lake: &Lake) -> Result<()> {
    for (table, rows) in [(&PRICES, rows::prices()?), (&POWER_MODELS, rows::power_models()?), (&GRID, rows::grid()?)] {
        publish_rows(lake, table, &rows).await?;
    }
    Ok(())
}

/// Replaces a table's bundled set by these rows, unless it is this set already.
async fn publish_rows(lake: &Lake, table: &'static Table, rows: &RecordBatch) -> Result<()> {
    let digest = digest(rows)?;
    for _ in 0..RACES_MAX {
        let from = lake.through(table, JOURNAL).await?.unwrap_or(0);
        let snapshot = lake.snapshot(table.name, None).await?;
        let bundled = snapshot.files.iter().filter_map(|file| Some((file, file.tags.get(TAG)?)));
        let (old, digests): (Vec<_>, BTreeSet<_>) = bundled.map(|(file, digest)| (file.path.clone(), digest)).unzip();
        if digests.len() == 1 && digests.contains(&digest) {
            return Ok(());
        }
        let adds = write_by_date(lake, table, rows, from, &digest).await?;
        let entry = Entry { journal: JOURNAL.to_owned(), table: table.name, from, to: from + 1, adds };
        match lake.replace(entry, old).await {
            Ok(Outcome::Committed { version }) => {
                tracing::info!(table = table.name, rows = rows.num_rows(), version, "published bundled rows");
                return Ok(());
            }
            // Another process was faster; look again.
            Ok(Outcome::Through(_)) => {}
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::unavailable(format!("publish bundled rows of table {}: other processes replace them too", table.name)))
}

async fn write_by_date(
    lake: &Lake,
    table: &'static Table,
    rows: &RecordBatch,
    from: u64,
    digest: &str,
) -> Result<Vec<FileAdd>> {
    let name = layout::file_name(JOURNAL, from, from + 1, digest);
    let mut adds = Vec::new();
    for (date, indices) in by_date(rows)? {
        let part = compute::take_record_batch(rows, &UInt32Array::from(indices)).map_err(|e| unfit(table, e))?;
        let mut add = lake.write(table, &date, &name, &[part]).await?;
        add.tags.insert(TAG.to_owned(), digest.to_owned());
        adds.push(add);
    }
    Ok(adds)
}

fn digest(rows: &RecordBatch) -> Result<String> {
    let failed = |e| Error::internal("digest bundled rows").with_source(e);
    let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema()).map_err(failed)?;
    writer.write(rows).map_err(failed)?;
    Ok(format!("{:032x}", xxh3_128(&writer.into_inner().map_err(failed)?)))
}

fn unfit(table: &Table, error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("bundled rows of table {}", table.name)).with_source(error)
}

#[cfg(test)]
mod tests;
