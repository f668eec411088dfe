//! Lists of dated facts into their tables: negotiated discounts, exchange rates, power models, grid factors and hosts.

use std::collections::HashMap;
use std::path::Path;

use lake::{Lake, reference, sets};
use service::{Error, Result};
use telemetry::grid::list as grid;
use telemetry::inventory;
use telemetry::list::{self, ListColumn};
use telemetry::power::list::{self as power, Listed};
use telemetry::price::discount::{self, Discount};
use telemetry::price::rate::{self, Rate};
use telemetry::record::{Record, Refusal};
use telemetry::table::{DISCOUNTS, EXCHANGE_RATES, GRID, INVENTORY, POWER_MODELS, Table};

use super::prices::check_name;
use super::report::Report;
use super::rows::{Row, Rows, refused};

/// What a list is of.
struct List<T> {
    /// In words, for an error.
    of: &'static str,
    columns: &'static [ListColumn],
    read: fn(Record<'_>) -> std::result::Result<T, Refusal>,
    /// What two rows must have in common to clash.
    key: fn(&T) -> [Option<&str>; 3],
    /// Whether nobody could tell which of two rows is meant.
    clash: fn(&T, &T) -> bool,
}

/// Rows of a list; a fleet has fewer hosts, and a currency fewer days.
const ROWS_MAX: usize = 200_000;
/// Rows of one key: a rate a day for ten years.
const OF_ONE_MAX: usize = 4_000;

/// Rates are one set: of two lists nobody could tell which holds.
const RATES: &str = "rates";

/// Imports a list of negotiated discounts under that name, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `Invalid` for a name, `NotFound`, `Corrupt` for a file that is no such list or has rows that are none; those of the lake.
pub(crate) async fn discounts(lake: &Lake, path: &Path, contract: &str, mut report: Report) -> Result<Vec<String>> {
    check_name("a list of discounts", contract)?;
    let list = List {
        of: "discounts",
        columns: discount::COLUMNS,
        read: Discount::read,
        key: |row: &Discount| [Some(row.option.as_str()), row.host_type.as_deref(), row.region.as_deref()],
        clash: Discount::clashes,
    };
    let discounts = list.read(path, &mut report)?;
    let mut lines = report.close()?;
    lines.extend(publish(lake, &DISCOUNTS, contract, &reference::of_discounts(&discounts, contract)?).await?);
    Ok(lines)
}

/// Imports a list of exchange rates, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `NotFound`, `Corrupt` for a file that is no such list, has rows that are none, or two rates that hold at once; those of the lake.
pub(crate) async fn rates(lake: &Lake, path: &Path, mut report: Report) -> Result<Vec<String>> {
    let list = List {
        of: "exchange rates",
        columns: rate::COLUMNS,
        read: Rate::read,
        key: |row: &Rate| [Some(row.currency.as_str()), None, None],
        clash: Rate::clashes,
    };
    let rates = list.read(path, &mut report)?;
    let mut lines = report.close()?;
    let rates = rate::in_turn(rates).map_err(|refusal| refused(path, &refusal))?;
    lines.extend(publish(lake, &EXCHANGE_RATES, RATES, &reference::of_rates(&rates)?).await?);
    Ok(lines)
}

/// Imports a list of power models under that name, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `Invalid` for a name, `NotFound`, `Corrupt` for a file that is no such list or has rows that are none; those of the lake.
pub(crate) async fn power(lake: &Lake, path: &Path, name: &str, mut report: Report) -> Result<Vec<String>> {
    check_name("a list of power models", name)?;
    let list = List {
        of: "power models",
        columns: power::COLUMNS,
        read: Listed::read,
        key: |row: &Listed| [Some(row.device.as_str()), Some(row.boundary.as_str()), None],
        clash: Listed::clashes,
    };
    let models = list.read(path, &mut report)?;
    let mut lines = report.close()?;
    lines.extend(publish(lake, &POWER_MODELS, name, &reference::of_power_models(&models, name)?).await?);
    Ok(lines)
}

/// Imports a list of grid factors under that name, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `Invalid` for a name, `NotFound`, `Corrupt` for a file that is no such list or has rows that are none; those of the lake.
pub(crate) async fn grid(lake: &Lake, path: &Path, name: &str, mut report: Report) -> Result<Vec<String>> {
    check_name("a list of grid factors", name)?;
    let list = List {
        of: "grid factors",
        columns: grid::COLUMNS,
        read: grid::Listed::read,
        key: |row: &grid::Listed| [Some(row.region.as_str()), None, None],
        clash: grid::Listed::clashes,
    };
    let factors = list.read(path, &mut report)?;
    let mut lines = report.close()?;
    lines.extend(publish(lake, &GRID, name, &reference::of_grid(&factors, name)?).await?);
    Ok(lines)
}

/// Imports a list of hosts under that name, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `Invalid` for a name, `NotFound`, `Corrupt` for a file that is no such list or has rows that are none; those of the lake.
pub(crate) async fn inventory(lake: &Lake, path: &Path, name: &str, mut report: Report) -> Result<Vec<String>> {
    check_name("an inventory", name)?;
    let list = List {
        of: "an inventory",
        columns: inventory::COLUMNS,
        read: inventory::Listed::read,
        key: |row: &inventory::Listed| [Some(row.host_id.as_str()), None, None],
        clash: inventory::Listed::clashes,
    };
    let hosts = list.read(path, &mut report)?;
    let mut lines = report.close()?;
    lines.extend(publish(lake, &INVENTORY, name, &reference::of_inventory(&hosts, name)?).await?);
    Ok(lines)
}

async fn publish(
    lake: &Lake,
    table: &'static Table,
    set: &str,
    rows: &arrow::array::RecordBatch,
) -> Result<Vec<String>> {
    let mut import = sets::Import::begin(lake, table, &[]).await?;
    import.write(set, rows).await?;
    let line = |published: sets::Published| {
        let had =
            if published.is_unchanged { "as it was".to_owned() } else { format!("{} before", published.replaced) };
        format!("{:8} {}: {} rows, {had}", table.name, published.set, published.rows)
    };
    Ok(import.commit().await?.into_iter().map(line).collect())
}

impl<T: PartialEq> List<T> {
    /// The rows of the file. One that says otherwise than one before it is refused.
    fn read(&self, path: &Path, report: &mut Report) -> Result<Vec<T>> {
        let mut rows = Rows::open(path)?;
        list::check(rows.header(), self.columns).map_err(|refusal| {
            let known: Vec<_> = self.columns.iter().map(|column| column.name).collect();
            refused(path, &refusal).with_hint(format!("the columns of {} are {}", self.of, known.join(", ")))
        })?;
        let mut facts: Vec<(u64, T)> = Vec::new();
        let mut places: HashMap<[Option<String>; 3], Vec<usize>> = HashMap::new();
        let mut take = |number: u64, record: Row<'_>| -> Result<()> {
            report.row();
            let fact = match record.and_then(self.read) {
                Ok(fact) => fact,
                Err(refusal) => return report.refuse(path, number, &refusal),
            };
            let alike = places.entry((self.key)(&fact).map(|part| part.map(str::to_owned))).or_default();
            let clash =
                alike.iter().filter_map(|place| facts.get(*place)).find(|(_, other)| (self.clash)(other, &fact));
            match clash {
                None if facts.len() == ROWS_MAX || alike.len() == OF_ONE_MAX => {
                    let most = format!("more than {ROWS_MAX} rows, or more than {OF_ONE_MAX} of one");
                    return Err(Error::corrupt(format!("{}: {most}, are no {}", path.display(), self.of)));
                }
                None => {
                    alike.push(facts.len());
                    facts.push((number, fact));
                }
                Some((_, other)) if *other == fact => {}
                Some((row, _)) => {
                    let refusal = Refusal(format!("row {row} says something else of the same time"));
                    report.refuse(path, number, &refusal)?;
                }
            }
            Ok(())
        };
        while rows.next(path, &mut take)? {}
        if facts.is_empty() {
            return Err(Error::corrupt(format!("{} holds no {}", path.display(), self.of)));
        }
        Ok(facts.into_iter().map(|(_, fact)| fact).collect())
    }
}
