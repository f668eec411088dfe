//! A price list into a price book of table `prices`.

use std::path::Path;

use lake::{Lake, reference, sets};
use service::{Error, Result};
use telemetry::price::{Price, list};
use telemetry::record::{Refusal, instant};
use telemetry::table::PRICES;

use super::report::Report;
use super::rows::{Row, Rows, refused};

/// A price whose source is older than this at import is worth a word: lists are cut without notice (p5.48xlarge in us-east-1 went
/// from 98.32 to 55.04 USD/h in June 2025).
const OLD_DAYS: i64 = 180;
const DAY_US: i64 = 86_400_000_000;
/// Longest name of a price book.
const NAME_MAX: usize = 40;

/// Imports the list as the book of that name, in place of an earlier one. Gives the lines to print.
///
/// # Errors
/// `Invalid` for a name, `NotFound`, `Corrupt` for a file that is no price list or has rows that are none; those of the lake.
pub(crate) async fn import(
    lake: &Lake,
    path: &Path,
    book: &str,
    mut report: Report,
    now_us: i64,
) -> Result<Vec<String>> {
    check_name("a price book", book)?;
    let prices = read(path, &mut report)?;
    let mut lines = report.close()?;
    if prices.is_empty() {
        return Err(Error::corrupt(format!("{} holds no prices", path.display())));
    }
    let mut import = sets::Import::begin(lake, &PRICES, &[]).await?;
    import.write(book, &reference::of_prices(&prices, Some(book))?).await?;
    for published in import.commit().await? {
        let had =
            if published.is_unchanged { "as it was".to_owned() } else { format!("{} before", published.replaced) };
        lines.push(format!("book     {}: {} prices, {had}", published.set, published.rows));
    }
    lines.extend(old(&prices, now_us));
    Ok(lines)
}

/// Whether a set of rows may be called that.
pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    let is_plain = name.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '-' | '_' | '.'));
    if is_plain && (1..=NAME_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!("the name of {what} has 1 to {NAME_MAX} letters, digits, `-`, `_` and `.`")))
}

/// The prices of the file. A row that says otherwise than one before it is refused: nobody can tell which is meant.
fn read(path: &Path, report: &mut Report) -> Result<Vec<Price>> {
    let mut rows = Rows::open(path)?;
    list::check(rows.header()).map_err(|refusal| {
        let known: Vec<_> = list::COLUMNS.iter().map(|column| column.name).collect();
        refused(path, &refusal).with_hint(format!("the columns of a price list are {}", known.join(", ")))
    })?;
    let mut prices: Vec<(u64, Price)> = Vec::new();
    let mut take = |number: u64, record: Row<'_>| -> Result<()> {
        report.row();
        let price = record.and_then(Price::read).and_then(|price| unless_claimed(&prices, price));
        match price {
            Ok(price) => prices.extend(price.map(|price| (number, price))),
            Err(refusal) => report.refuse(path, number, &refusal)?,
        }
        Ok(())
    };
    while rows.next(path, &mut take)? {}
    Ok(prices.into_iter().map(|(_, price)| price).collect())
}

/// The price, `None` if the same row stands above.
fn unless_claimed(prices: &[(u64, Price)], price: Price) -> std::result::Result<Option<Price>, Refusal> {
    match prices.iter().find(|(_, other)| other.same_claim(&price)) {
        None => Ok(Some(price)),
        Some((_, other))
            if (other.per_hour, &other.currency) == (price.per_hour, &price.currency)
                && other.effective_to_us == price.effective_to_us =>
        {
            Ok(None)
        }
        Some((row, other)) => Err(Refusal(format!(
            "row {row} has another price from the same instant on: {} {}",
            other.per_hour, other.currency
        ))),
    }
}

/// Words about prices that may have changed since they were read.
fn old(prices: &[Price], now_us: i64) -> Option<String> {
    let age = |price: &Price| now_us - instant(&price.as_of).unwrap_or(price.effective_from_us);
    let still_used = prices.iter().filter(|price| price.effective_to_us.is_none_or(|to| to > now_us));
    let old: Vec<_> = still_used.filter(|price| age(price) > OLD_DAYS * DAY_US).collect();
    let oldest = old.iter().max_by_key(|price| age(price))?;
    Some(format!(
        "warning  {} open prices are as of more than {OLD_DAYS} days ago, the oldest {} in {} as of {}: see view price_check",
        old.len(),
        oldest.host_type,
        oldest.region,
        oldest.as_of
    ))
}
