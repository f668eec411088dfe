//! Budgets: as configured, and as rows of table `budgets`, dated when a process with other settings begins to build.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, TimestampMicrosecondType};
use arrow::error::ArrowError;
use jiff::{Timestamp, tz::TimeZone};
use lake::{Entry, Outcome, layout};
use serde::{Deserialize, Serialize};
use service::{Error, Result};
use telemetry::allocation::COLUMNS;
use telemetry::contract::SqlRequest;
use telemetry::table::BUDGETS;
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::unit::Usd;

use super::build::{Builder, failed};
use super::window::MINUTE_US;

/// Calendar periods; the other ones are rolling, such as `30d`.
const PERIODS: [&str; 3] = ["day", "week", "month"];
/// Days of the longest rolling period: what view `budget_status` looks back over.
const DAYS_MAX: u32 = 90;
/// Budgets that may be configured.
const BUDGETS_MAX: usize = 1_000;
/// Longest name.
const NAME_MAX: usize = 64;
/// The journal of configured budgets; its frames count changes.
const JOURNAL: &str = "configured";
/// Lost races with other processes that begin at the same time.
const RACES_MAX: u32 = 5;
/// Where a row comes from.
const SOURCE: &str = "tokenwatt.toml";

/// One budget, under `[[budget]]` of `tokenwatt.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Id: lower case letters, digits, `-` and `_`.
    pub name: String,
    /// What it limits: `tenant`, `namespace`, `environment`, `cluster`, `pool`, `region`, `model`, `host_type`, or one of
    /// `cost.allocation_keys`.
    pub key: String,
    /// Which one.
    pub value: String,
    /// Limit per period in USD, a text so that it is exact, such as `"25000"`.
    pub usd: String,
    /// `day`, `week` (from Monday) or `month`, in UTC; or a rolling number of days, such as `30d`. Default `month`.
    #[serde(default = "month")]
    pub period: String,
    /// Whether somebody means to stop at it: `soft` (default) or `hard`. Tokenwatt says so and stops nothing.
    #[serde(default = "soft")]
    pub enforcement: String,
}

fn month() -> String {
    "month".to_owned()
}

fn soft() -> String {
    "soft".to_owned()
}

/// Adds a line for everything that is wrong with the budgets, where costs are split by these keys too.
pub fn validate(budgets: &[Budget], keys: &[String], faults: &mut Vec<String>) {
    if budgets.len() > BUDGETS_MAX {
        faults.push(format!("there are {} [[budget]], more than {BUDGETS_MAX}", budgets.len()));
    }
    let mut names = BTreeSet::new();
    for budget in budgets {
        budget.validate(keys, faults);
        if !names.insert(&budget.name) {
            faults.push(format!("budget `{}` is there twice", budget.name));
        }
    }
}

impl Budget {
    fn validate(&self, keys: &[String], faults: &mut Vec<String>) {
        let name = &self.name;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(plain) {
            faults.push(format!("budget `{name}`: a name is 1 to {NAME_MAX} lower case letters, digits, - and _"));
        }
        if !COLUMNS.contains(&self.key.as_str()) && !keys.contains(&self.key) {
            let known = COLUMNS.into_iter().chain(keys.iter().map(String::as_str)).collect::<Vec<_>>().join(", ");
            faults.push(format!(
                "budget `{name}`: `key` is one of {known}; attributes are named in `cost.allocation_keys`"
            ));
        }
        if self.value.is_empty() {
            faults.push(format!("budget `{name}`: `value` is empty"));
        }
        if self.amount().is_none() {
            faults.push(format!("budget `{name}`: `usd` is an amount above 0 in quotes, such as \"25000\""));
        }
        if !PERIODS.contains(&self.period.as_str()) && rolling(&self.period).is_none() {
            let known = PERIODS.join(", ");
            faults.push(format!("budget `{name}`: `period` is one of {known}, or 1d to {DAYS_MAX}d"));
        }
        if !["soft", "hard"].contains(&self.enforcement.as_str()) {
            faults.push(format!("budget `{name}`: `enforcement` is soft or hard"));
        }
    }

    fn amount(&self) -> Option<Usd> {
        self.usd.parse().ok().filter(|usd: &Usd| usd.0 > 0)
    }

    /// The same limit, however its amount is written.
    fn is(&self, other: &Budget) -> bool {
        let amount = self.amount();
        amount.is_some() && amount == other.amount() && Budget { usd: other.usd.clone(), ..self.clone() } == *other
    }
}

/// Days of a rolling period.
fn rolling(period: &str) -> Option<u32> {
    period.strip_suffix('d')?.parse().ok().filter(|days| (1..=DAYS_MAX).contains(days))
}

/// A budget, and when it holds. Microseconds since 1970-01-01 UTC.
#[derive(Clone, Debug, PartialEq)]
struct Dated {
    budget: Budget,
    from_us: i64,
    /// `None` while it is open.
    to_us: Option<i64>,
}

/// Newest rows of each name; a row ends where the next one of its name begins.
const KNOWN: &str = "SELECT name, allocation_key, allocation_value, amount, period, enforcement, effective_from, effective_to FROM (\
                     SELECT *, row_number() OVER (PARTITION BY name ORDER BY effective_from DESC, effective_to IS NULL) AS place \
                     FROM budgets WHERE source = 'tokenwatt.toml') WHERE place = 1";

/// Sees to it that the open rows of `budgets` are the budgets of this process. One that changed ends now and begins anew.
///
/// # Errors
/// `Denied`, `Corrupt`, `Unavailable`.
pub(super) async fn publish(builder: &Builder, budgets: &[Budget]) -> Result<()> {
    for _ in 0..RACES_MAX {
        let from = builder.lake.through(&BUDGETS, JOURNAL).await?.unwrap_or(0);
        let request = SqlRequest { sql: KNOWN.to_owned(), ..SqlRequest::default() };
        let answer = builder.engine.run(request, &builder.reader).await.map_err(failed)?;
        let known = read(&answer.batches)?;
        let changes = changes(&known, budgets, builder.clock.now_us().div_euclid(MINUTE_US) * MINUTE_US);
        if changes.is_empty() {
            return Ok(());
        }
        let mut adds = Vec::new();
        for change in &changes {
            let name = layout::file_name(JOURNAL, from, from + 1, &layout::unique());
            adds.push(builder.lake.write(&BUDGETS, &date(change.from_us)?, &name, &[row(change)?]).await?);
        }
        let entry = Entry { journal: JOURNAL.to_owned(), table: BUDGETS.name, from, to: from + 1, adds };
        if let Outcome::Committed { version } = builder.lake.commit(entry).await? {
            tracing::info!(changes = changes.len(), version, "budgets changed");
            return Ok(());
        }
    }
    Err(Error::unavailable("publish budgets: other processes change them too"))
}

/// Rows that make the open budgets those of `budgets` from `now_us` on.
fn changes(known: &[Dated], budgets: &[Budget], now_us: i64) -> Vec<Dated> {
    let open = || known.iter().filter(|dated| dated.to_us.is_none());
    let gone = open().filter(|dated| budgets.iter().all(|budget| budget.name != dated.budget.name));
    let gone = gone.map(|dated| Dated { to_us: Some(now_us.max(dated.from_us)), ..dated.clone() });
    let new = budgets.iter().filter(|budget| open().all(|dated| !dated.budget.is(budget)));
    gone.chain(new.map(|budget| Dated { budget: budget.clone(), from_us: now_us, to_us: None })).collect()
}

fn read(batches: &[RecordBatch]) -> Result<Vec<Dated>> {
    let mut dated = Vec::new();
    for batch in batches {
        let text = |at: usize| cast(batch.column(at), &DataType::Utf8).map_err(unread);
        let texts = [text(0)?, text(1)?, text(2)?, text(4)?, text(5)?];
        let amount = batch.column(3).as_primitive::<Decimal128Type>();
        let from = batch.column(6).as_primitive::<TimestampMicrosecondType>();
        let to = batch.column(7).as_primitive::<TimestampMicrosecondType>();
        for row in 0..batch.num_rows() {
            let [name, key, value, period, enforcement] =
                texts.each_ref().map(|texts| texts.as_string::<i32>().value(row).to_owned());
            let usd = Usd(amount.value(row)).to_string();
            let budget = Budget { name, key, value, usd, period, enforcement };
            dated.push(Dated { budget, from_us: from.value(row), to_us: to.is_valid(row).then(|| to.value(row)) });
        }
    }
    Ok(dated)
}

fn row(Dated { budget, from_us, to_us }: &Dated) -> Result<RecordBatch> {
    let time =
        |us: Option<i64>| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![us]).with_timezone("UTC")) };
    let text = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value])) };
    let made = |error: ArrowError| Error::internal("a budget as a row").with_source(error);
    let amount = Decimal128Array::from(vec![budget.amount().map(|usd| usd.0)]);
    let amount = amount.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE).map_err(made)?;
    let columns = [
        ("time", time(Some(*from_us))),
        ("name", text(&budget.name)),
        ("allocation_key", text(&budget.key)),
        ("allocation_value", text(&budget.value)),
        ("amount", Arc::new(amount) as ArrayRef),
        ("currency", text("USD")),
        ("period", text(&budget.period)),
        ("enforcement", text(&budget.enforcement)),
        ("effective_from", time(Some(*from_us))),
        ("effective_to", time(*to_us)),
        ("source", text(SOURCE)),
    ];
    RecordBatch::try_from_iter(columns).map_err(made)
}

fn date(us: i64) -> Result<String> {
    let at = Timestamp::from_microsecond(us).map_err(|e| Error::internal("date of a budget").with_source(e))?;
    Ok(at.to_zoned(TimeZone::UTC).date().to_string())
}

fn unread(error: ArrowError) -> Error {
    Error::corrupt("read table budgets").with_source(error)
}

#[cfg(test)]
mod tests;
