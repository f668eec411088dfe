//! How budgets stand, how far bills reach, what costs more than it did and what is paid for in silence, as gauges, asked once in five minutes: both move by the hour, and a budget looks back
//! over months.
//!
//! A label names the budget, never whom it is of: tenants are in no series.

use std::sync::Arc;

use telemetry::contract::{ApiError, SqlAnswer};

use super::measure::{Row, Rows, ask};
use super::series::{Declared, Labels, sample};
use crate::execute::Engine;

/// What there is of budgets; without any the view, which reads months of hours, is not asked.
const KNOWN: &str = "SELECT count(*) AS budgets FROM budgets";
const BUDGETS: &str = "SELECT name, allocation_key, enforcement, budget_usd, spent_usd, last_period_usd, burn_usd_per_day, \
    forecast_usd, forecast_low_usd, forecast_high_usd, day_ratio, unpriced_hours, CAST(exhausted_at AS BIGINT) AS exhausted_us, \
    CAST(newest_cost AS BIGINT) AS newest_us FROM budget_status ORDER BY name";
/// A bill reaches as far as the time of hosts in it does, and nothing stands for a host longer than a month (`node_cost`). What is charged
/// until a day to come reaches until now.
const BILLS: &str = "SELECT provider, CAST(max(imported_at) AS BIGINT) AS imported_us, \
    max(least(CAST(charge_to AS BIGINT), CAST(arrow_cast(now(), 'Timestamp(Microsecond, Some(\"UTC\"))') AS BIGINT))) AS charged_us \
    FROM billing WHERE charge_kind = 'host_time' AND charge_to > time AND charge_to <= time + INTERVAL '32 days' \
    GROUP BY provider ORDER BY provider";

const ANOMALIES: &str = "SELECT dimension, count(CASE WHEN is_anomaly THEN 1 END) AS anomalies, \
    coalesce(sum(CASE WHEN is_anomaly THEN more_usd END), 0.0) AS more_usd FROM anomalies GROUP BY dimension ORDER BY dimension";
const LISTED: &str = "SELECT count(*) AS hosts FROM inventory";
/// Of the last hour that is over.
const SILENT: &str = "SELECT region, count(DISTINCT host_id) AS hosts, sum(cost_usd) AS usd FROM silent_hosts \
    WHERE time >= date_trunc('hour', now()) - INTERVAL '1 hour' AND time < date_trunc('hour', now()) GROUP BY region ORDER BY region";
/// Regions with calls within a day or with hosts within an hour, and until when; for a process that starts while one is silent.
const REGIONS: &str = "SELECT region, max(until_us) AS until_us FROM ( \
    SELECT region, CAST(time AS BIGINT) + 60000000 AS until_us FROM requests_minutes WHERE time >= now() - INTERVAL '1 day' \
    UNION ALL SELECT region, CAST(time AS BIGINT) + 60000000 FROM hosts_minutes WHERE time >= now() - INTERVAL '1 hour') \
    WHERE region IS NOT NULL GROUP BY region";

/// A family of gauges: how it is called, what it means, and the columns it comes from, each with its label.
struct Gauges {
    declared: Declared,
    columns: &'static [(&'static str, Option<(&'static str, &'static str)>)],
    /// What the columns' numbers are divided by.
    per: f64,
}

const fn gauges(
    name: &'static str,
    help: &'static str,
    columns: &'static [(&'static str, Option<(&'static str, &'static str)>)],
    per: f64,
) -> Gauges {
    Gauges { declared: Declared { name, kind: "gauge", unit: "", help }, columns, per }
}

const US: f64 = 1e6;

const OF_BUDGETS: [Gauges; 9] = [
    gauges("tokenwatt_budget_limit_usd", "Limit of a budget per period.", &[("budget_usd", None)], 1.0),
    gauges(
        "tokenwatt_budget_spent_usd",
        "Cost in the budget's period so far: of the bill where there is one, else the estimate.",
        &[("spent_usd", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_last_period_usd",
        "Cost of the calendar period before, whole.",
        &[("last_period_usd", None)],
        1.0,
    ),
    gauges("tokenwatt_budget_burn_usd_per_day", "Cost of the last 24 hours.", &[("burn_usd_per_day", None)], 1.0),
    gauges(
        "tokenwatt_budget_day_ratio",
        "Cost of the last 24 hours over the mean of the seven days before.",
        &[("day_ratio", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_forecast_usd",
        "Cost at the end of the period: at the present burn, at the cheapest and at the dearest of the last seven days.",
        &[
            ("forecast_usd", Some(("band", "expected"))),
            ("forecast_low_usd", Some(("band", "low"))),
            ("forecast_high_usd", Some(("band", "high"))),
        ],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_exhausted_timestamp_seconds",
        "When the limit is reached at the present burn; absent where that is after the period.",
        &[("exhausted_us", None)],
        US,
    ),
    gauges(
        "tokenwatt_budget_unpriced_hours",
        "Hours of the period in which some of the budget's cost has no price.",
        &[("unpriced_hours", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_budget_newest_cost_timestamp_seconds",
        "Newest hour in which the budget's key cost something; absent where there is none.",
        &[("newest_us", None)],
        US,
    ),
];

const OF_BILLS: [Gauges; 2] = [
    gauges(
        "tokenwatt_billing_charged_until_timestamp_seconds",
        "End of the newest time of a host in the bills of a provider.",
        &[("charged_us", None)],
        US,
    ),
    gauges(
        "tokenwatt_billing_imported_timestamp_seconds",
        "When a bill of a provider was last imported.",
        &[("imported_us", None)],
        US,
    ),
];

const OF_ANOMALIES: [Gauges; 2] = [
    gauges(
        "tokenwatt_spend_anomalies",
        "Values of a dimension whose last 24 hours cost twice as much as a day before, and 10 USD more; view anomalies names them.",
        &[("anomalies", None)],
        1.0,
    ),
    gauges("tokenwatt_spend_anomaly_usd_per_day", "How much more they cost together.", &[("more_usd", None)], 1.0),
];

const OF_SILENCE: [Gauges; 2] = [
    gauges(
        "tokenwatt_silent_hosts",
        "Hosts of an inventory that were silent in the last hour, in whole or in part.",
        &[("hosts", None)],
        1.0,
    ),
    gauges(
        "tokenwatt_silent_cost_usd_per_hour",
        "What they cost in the time of that hour in which nothing was heard of them; absent without a price.",
        &[("usd", None)],
        1.0,
    ),
];

/// What there is to look at.
const FEEDS: [&str; 4] = ["budgets", "bills", "anomalies", "silent hosts"];
const ASKED: Declared = Declared {
    name: "tokenwatt_feed_asked_timestamp_seconds",
    kind: "gauge",
    unit: "",
    help: "When budgets, bills, anomalies and silent hosts were last looked at; 0 before they were.",
};

/// What was found when each of [`FEEDS`] was last looked at. One that cannot be asked keeps what it was and says since when.
#[derive(Debug, Default)]
pub(super) struct Standing {
    found: [String; FEEDS.len()],
    asked_us: [i64; FEEDS.len()],
}

impl Standing {
    /// Takes what was found at an instant.
    pub(super) fn take(&mut self, found: [Option<String>; FEEDS.len()], now_us: i64) {
        for ((old, asked_us), new) in self.found.iter_mut().zip(&mut self.asked_us).zip(found) {
            if let Some(new) = new {
                (*old, *asked_us) = (new, now_us);
            }
        }
    }

    /// All of it as text.
    pub(super) fn render(&self) -> String {
        let mut text = self.found.concat();
        ASKED.head(&mut text);
        for (feed, asked_us) in FEEDS.iter().zip(self.asked_us) {
            sample(&mut text, ASKED.name, "", &[("feed", (*feed).to_owned())], asked_us as f64 / US);
        }
        text
    }
}

/// The gauges of budgets as text; what is unknown is absent.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn budgets(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
    let known = ask(engine, KNOWN).await?;
    if Rows::of(&known).any(|row| row.number("budgets").is_some_and(|count| count > 0.0)) {
        let budgets = ask(engine, BUDGETS).await?;
        let labels = |row: &Row<'_>| {
            let [name, key, enforcement] = ["name", "allocation_key", "enforcement"].map(|column| row.text(column));
            vec![("budget", name), ("key", key), ("enforcement", enforcement)]
        };
        OF_BUDGETS.iter().for_each(|gauges| gauges.write(&budgets, labels, &mut text));
    }
    Ok(text)
}

/// The gauges of bills as text.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn bills(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
    let bills = ask(engine, BILLS).await?;
    let labels = |row: &Row<'_>| vec![("provider", row.text("provider"))];
    OF_BILLS.iter().for_each(|gauges| gauges.write(&bills, labels, &mut text));
    Ok(text)
}

/// The gauges of what costs more than it did as text.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn anomalies(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
    let anomalies = ask(engine, ANOMALIES).await?;
    let labels = |row: &Row<'_>| vec![("dimension", row.text("dimension"))];
    OF_ANOMALIES.iter().for_each(|gauges| gauges.write(&anomalies, labels, &mut text));
    Ok(text)
}

/// The gauges of hosts that are paid for and not heard of as text; nothing without an inventory.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn silence(engine: &Arc<Engine>) -> Result<String, ApiError> {
    let mut text = String::new();
    let known = ask(engine, LISTED).await?;
    if Rows::of(&known).any(|row| row.number("hosts").is_some_and(|count| count > 0.0)) {
        let silent = ask(engine, SILENT).await?;
        let labels = |row: &Row<'_>| vec![("region", row.text("region"))];
        OF_SILENCE.iter().for_each(|gauges| gauges.write(&silent, labels, &mut text));
    }
    Ok(text)
}

/// Regions that were heard of, and until when, microseconds since 1970-01-01 UTC.
///
/// # Errors
/// What the query that failed answered.
pub(super) async fn regions(engine: &Arc<Engine>) -> Result<Vec<(String, i64)>, ApiError> {
    let regions = ask(engine, REGIONS).await?;
    Ok(Rows::of(&regions).filter_map(|row| Some((row.text("region"), row.number("until_us")? as i64))).collect())
}

impl Gauges {
    fn write(&self, answer: &SqlAnswer, labels: impl Fn(&Row<'_>) -> Labels, text: &mut String) {
        let values = |row: Row<'_>| {
            let known = |(column, label): &(&str, Option<(&'static str, &str)>)| {
                let value = row.number(column)? / self.per;
                let more = label.map(|(name, value)| (name, value.to_owned()));
                Some((labels(&row).into_iter().chain(more).collect::<Labels>(), value))
            };
            self.columns.iter().filter_map(known).collect::<Vec<_>>()
        };
        let samples: Vec<_> = Rows::of(answer).flat_map(values).collect();
        if samples.is_empty() {
            return;
        }
        self.declared.head(text);
        for (labels, value) in samples {
            sample(text, self.declared.name, "", &labels, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Standing;

    /// Before anything was asked the time says so; what fails keeps its figures and its time, and does not take the other's away.
    #[test]
    fn what_cannot_be_asked_says_since_when() {
        let mut standing = Standing::default();
        let asked = |feed: &str, seconds: &str| {
            format!("tokenwatt_feed_asked_timestamp_seconds{{feed=\"{feed}\"}} {seconds}\n")
        };
        let others = |seconds: &str| asked("anomalies", seconds) + &asked("silent hosts", seconds);
        assert!(standing.render().ends_with(&(asked("budgets", "0") + &asked("bills", "0") + &others("0"))));
        let found = |one: &str| Some(one.to_owned());
        standing.take([found("a 1\n"), found("b 1\n"), found(""), found("")], 5_000_000);
        standing.take([found("a 2\n"), None, found(""), found("")], 9_000_000);
        let text = standing.render();
        assert!(text.starts_with("a 2\nb 1\n"), "{text}");
        assert!(text.ends_with(&(asked("budgets", "9") + &asked("bills", "5") + &others("9"))), "{text}");
    }
}
