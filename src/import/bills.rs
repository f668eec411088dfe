//! Bills into table `billing`.

mod charges;

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use lake::{Lake, sets};
use service::{Error, Result};
use telemetry::billing::{Carry, Charge, Exact, Format, Read};
use telemetry::table::BILLING;
use telemetry::unit::Usd;

use super::report::Report;
use super::rows::{Row, Rows, refused};
use charges::{Cut, Origin};

/// Columns that do not make a charge another charge.
const IGNORED: &[&str] = &["imported_at", "export_id", "source"];
/// Charges of a bill that are held until they are written, which bounds memory.
const HELD_MAX: usize = 100_000;

/// Imports the files as one export: each bill in it takes the place of what was imported of it before. Gives the lines to print.
///
/// # Errors
/// `NotFound`, `Corrupt` for a file that is no bill or has rows that are none; `Invalid` for a file named twice, or two with the same
/// charges; those of the lake.
pub(crate) async fn import(lake: &Lake, paths: &[PathBuf], mut report: Report, now_us: i64) -> Result<Vec<String>> {
    let mut bills = Bills {
        import: sets::Import::begin(lake, &BILLING, IGNORED).await?,
        held: BTreeMap::new(),
        sums: BTreeMap::new(),
    };
    let mut cut = Cut::default();
    let mut formats = Vec::new();
    named_once(paths)?;
    let mut contents = HashMap::new();
    for path in paths {
        let mut content = Content::default();
        let mut rows = Rows::open(path)?;
        let format = Format::of(rows.header()).map_err(|refusal| refused(path, &refusal))?;
        formats.push(format!("file     {}: {}", path.display(), format.name()));
        let origin = Origin { now_us, source: path.display().to_string() };
        loop {
            let (charges, more) = next(&mut rows, format, path, &mut report)?;
            content.add(&charges);
            bills.take(&charges, &mut cut, &origin).await?;
            if !more {
                break;
            }
        }
        if let Some(other) = content.digest().and_then(|digest| contents.insert(digest, path)) {
            let same = format!("{} has the same charges as {}", path.display(), other.display());
            return Err(Error::invalid(format!("{same}; nothing was imported. Name each file of an export once")));
        }
    }
    let mut lines = formats;
    lines.extend(report.close()?);
    if bills.sums.is_empty() {
        return Err(Error::corrupt("there is not one charge in these files"));
    }
    lines.extend(bills.commit().await?);
    Ok(lines)
}

/// Refuses a file that is named twice, by whatever path.
fn named_once(paths: &[PathBuf]) -> Result<()> {
    let mut seen = HashMap::new();
    for path in paths {
        // what cannot be found is told when it is opened
        let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        if let Some(other) = seen.insert(whole, path) {
            let same = format!("{} and {} are the same file", other.display(), path.display());
            return Err(Error::invalid(format!("{same}; nothing was imported. Name each file of an export once")));
        }
    }
    Ok(())
}

/// What a file says, in its order and whatever its compression.
#[derive(Default)]
struct Content {
    hasher: DefaultHasher,
    charges: usize,
}

impl Content {
    fn add(&mut self, charges: &[Charge]) {
        self.charges += charges.len();
        charges.iter().for_each(|charge| format!("{charge:?}").hash(&mut self.hasher));
    }

    /// `None` for a file without charges, of which an export may have many.
    fn digest(&self) -> Option<u64> {
        (self.charges > 0).then(|| self.hasher.finish())
    }
}

/// The next charges of a file, and whether there may be more.
fn next(rows: &mut Rows, format: Format, path: &Path, report: &mut Report) -> Result<(Vec<Charge>, bool)> {
    let mut charges = Vec::new();
    let mut take = |number: u64, record: Row<'_>| -> Result<()> {
        report.row();
        match record.and_then(|record| format.read(record)) {
            Ok(Read::Charge(charge)) => charges.push(*charge),
            Ok(Read::LeftOut(why)) => report.leave_out(why),
            Err(refusal) => report.refuse(path, number, &refusal)?,
        }
        Ok(())
    };
    let more = rows.next(path, &mut take)?;
    Ok((charges, more))
}

/// The bills of an export.
struct Bills {
    import: sets::Import,
    held: BTreeMap<String, Vec<RecordBatch>>,
    /// By bill and currency.
    sums: BTreeMap<(String, String), Sums>,
}

/// What a bill comes to.
#[derive(Default)]
struct Sums {
    list: Exact,
    effective: Exact,
    billed: Exact,
}

impl Bills {
    async fn take(&mut self, charges: &[Charge], cut: &mut Cut, origin: &Origin) -> Result<()> {
        let mut by_bill: BTreeMap<String, Vec<&Charge>> = BTreeMap::new();
        for charge in charges {
            let bill = charge.bill();
            self.sums.entry((bill.clone(), charge.currency.clone())).or_default().add(charge);
            by_bill.entry(bill).or_default().push(charge);
        }
        for (bill, charges) in by_bill {
            let held = self.held.entry(bill.clone()).or_default();
            held.push(charges::rows(&charges, cut, origin)?);
            if held.iter().map(RecordBatch::num_rows).sum::<usize>() >= HELD_MAX {
                self.write(&bill).await?;
            }
        }
        Ok(())
    }

    async fn write(&mut self, bill: &str) -> Result<()> {
        let Some(held) = self.held.remove(bill) else { return Ok(()) };
        let Some(first) = held.first() else { return Ok(()) };
        let rows =
            concat_batches(&first.schema(), &held).map_err(|e| Error::internal("join charges").with_source(e))?;
        self.import.write(bill, &rows).await
    }

    async fn commit(mut self) -> Result<Vec<String>> {
        for bill in self.held.keys().cloned().collect::<Vec<_>>() {
            self.write(&bill).await?;
        }
        let mut lines = Vec::new();
        for published in self.import.commit().await? {
            let had = match (published.is_unchanged, published.replaced) {
                (true, _) => "as it was".to_owned(),
                (false, 0) => "new".to_owned(),
                (false, rows) => format!("in place of {rows}"),
            };
            lines.push(format!("bill     {}: {} charges, {had}", published.set, published.rows));
            let of_bill = self.sums.iter().filter(|((bill, _), _)| *bill == published.set);
            lines.extend(of_bill.map(|((_, currency), sums)| format!("         {}", sums.line(currency))));
        }
        Ok(lines)
    }
}

impl Sums {
    fn add(&mut self, charge: &Charge) {
        let add = |sum: &mut Exact, amount: Option<Exact>| *sum = *sum + amount.unwrap_or(Exact::ZERO);
        add(&mut self.list, charge.list);
        add(&mut self.effective, charge.effective);
        add(&mut self.billed, charge.billed);
    }

    fn line(&self, currency: &str) -> String {
        let stored = |exact: Exact| -> Usd { Carry::default().store(exact) };
        let (list, effective, billed) = (stored(self.list), stored(self.effective), stored(self.billed));
        format!("list {list}, effective {effective}, billed {billed} {currency}")
    }
}

#[cfg(test)]
mod tests;
