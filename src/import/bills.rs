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
/// Charges, of all bills together, that are held until they are written.
const HELD_ROWS_MAX: usize = 100_000;
/// Bytes that they take. Rows with large tags are written sooner.
const HELD_BYTES_MAX: usize = 256 << 20;
/// Bills of one export: an account for each tenant of a large organisation, and months of them.
const BILLS_MAX: usize = 5_000;

/// What to do about a bill whose account and period are there under another provider's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Namesake {
    /// Refuse the export: if the provider is only called otherwise now, the bill would count twice.
    #[default]
    Refuse,
    /// It is the same bill, and this one takes its place.
    Replace,
    /// They are two bills.
    Beside,
}

/// Imports the files as one export: each bill in it takes the place of what was imported of it before. Gives the lines to print.
///
/// # Errors
/// `NotFound`, `Corrupt` for a file that is no bill or has rows that are none; `Invalid` for a file named twice, or two with the same
/// charges, for too many bills, and for one that is there under another provider's name; those of the lake.
pub(crate) async fn import(
    lake: &Lake,
    paths: &[PathBuf],
    namesake: Namesake,
    mut report: Report,
    now_us: i64,
) -> Result<Vec<String>> {
    let mut bills = Bills::begin(lake).await?;
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
    bills.meet(&sets::named(lake, &BILLING).await?, namesake)?;
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
            Ok(Read::Charge(charge)) => {
                charge.notes.iter().for_each(|note| report.note(note));
                charges.push(*charge);
            }
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
    held: BTreeMap<String, Held>,
    /// What is held of all of them.
    rows: usize,
    bytes: usize,
    /// What each bill's name ends with, whatever its provider is called.
    ends: BTreeMap<String, String>,
    /// By bill and currency.
    sums: BTreeMap<(String, String), Sums>,
}

/// Charges of a bill that are not written yet.
#[derive(Default)]
struct Held {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

/// What a bill comes to.
#[derive(Default)]
struct Sums {
    list: Exact,
    effective: Exact,
    billed: Exact,
}

impl Bills {
    async fn begin(lake: &Lake) -> Result<Bills> {
        let import = sets::Import::begin(lake, &BILLING, IGNORED).await?;
        let (ends, sums) = (BTreeMap::new(), BTreeMap::new());
        Ok(Bills { import, held: BTreeMap::new(), rows: 0, bytes: 0, ends, sums })
    }

    async fn take(&mut self, charges: &[Charge], cut: &mut Cut, origin: &Origin) -> Result<()> {
        let mut by_bill: BTreeMap<String, Vec<&Charge>> = BTreeMap::new();
        for charge in charges {
            let bill = charge.bill();
            self.ends.entry(bill.clone()).or_insert_with(|| charge.account_and_period());
            self.sums.entry((bill.clone(), charge.currency.clone())).or_default().add(charge);
            by_bill.entry(bill).or_default().push(charge);
        }
        if self.ends.len() > BILLS_MAX {
            let many = format!(
                "there are more than {BILLS_MAX} bills (account and month) in these files; nothing was imported"
            );
            return Err(Error::invalid(many).with_hint("import fewer accounts or months in one call"));
        }
        for (bill, charges) in by_bill {
            let charges = charges::rows(&charges, cut, origin)?;
            self.rows += charges.num_rows();
            self.bytes += charges.get_array_memory_size();
            self.held.entry(bill).or_default().add(charges);
            if self.rows >= HELD_ROWS_MAX || self.bytes >= HELD_BYTES_MAX {
                self.write_largest().await?;
            }
        }
        Ok(())
    }

    /// Writes the largest bills until half of the bounds is free.
    async fn write_largest(&mut self) -> Result<()> {
        let mut bills: Vec<(usize, String)> = self.held.iter().map(|(bill, held)| (held.bytes, bill.clone())).collect();
        bills.sort_unstable();
        while let Some((_, bill)) =
            bills.pop().filter(|_| self.rows > HELD_ROWS_MAX / 2 || self.bytes > HELD_BYTES_MAX / 2)
        {
            self.write(&bill).await?;
        }
        Ok(())
    }

    /// Looks for bills that are there under the name of another provider.
    ///
    /// # Errors
    /// `Invalid` where there is one and nobody said what it is.
    fn meet(&mut self, there: &BTreeMap<String, u64>, namesake: Namesake) -> Result<()> {
        for (bill, end) in &self.ends {
            let is_other = |other: &&String| {
                let provider = other.strip_suffix(end.as_str());
                *other != bill && !self.ends.contains_key(*other) && provider.is_some_and(|name| !name.contains('/'))
            };
            for other in there.keys().filter(is_other) {
                match namesake {
                    Namesake::Beside => {}
                    Namesake::Replace => self.import.replace(bill, other),
                    Namesake::Refuse => {
                        let met = format!(
                            "bill {bill} has the account and the month of bill {other}, which is there; nothing was imported"
                        );
                        return Err(Error::invalid(met).with_hint(
                            "if the provider is only called otherwise now, say --same-provider, and this bill takes the other's place; \
                             if they are two bills, say --other-provider",
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    async fn write(&mut self, bill: &str) -> Result<()> {
        let Some(held) = self.held.remove(bill) else { return Ok(()) };
        self.rows -= held.rows;
        self.bytes -= held.bytes;
        let Some(first) = held.batches.first() else { return Ok(()) };
        let joined = concat_batches(&first.schema(), &held.batches);
        let rows = joined.map_err(|e| Error::internal("join charges").with_source(e))?;
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

impl Held {
    fn add(&mut self, charges: RecordBatch) {
        self.rows += charges.num_rows();
        self.bytes += charges.get_array_memory_size();
        self.batches.push(charges);
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
