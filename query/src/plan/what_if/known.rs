//! What is asked of the lake, as the reader: recorded calls and what they cost, prices of those hours, power models, grid factors.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::{common::Result, prelude::DataFrame};
use telemetry::{
    grid::{self, Grid},
    power::PowerModel,
    unit::Usd,
    whatif::{Piece, Traffic},
};

use super::{Asked, quoted};
use crate::plan::{Scope, parse};

/// Rows of texts, as [`ask`] gives them.
type Rows = Vec<Vec<Option<String>>>;

/// Asks as the reader; all columns as texts.
async fn ask(scope: &Arc<Scope>, sql: &str) -> Result<Rows> {
    let state = scope.asked(None)?;
    let plan = state.statement_to_plan(parse::statement(sql)?).await?;
    let mut rows = Rows::new();
    for batch in DataFrame::new(state, plan).collect().await? {
        let columns: Vec<ArrayRef> =
            batch.columns().iter().map(|column| cast(column, &DataType::Utf8)).collect::<Result<_, _>>()?;
        let text = |column: &ArrayRef, row: usize| {
            column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
        };
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| text(column, row)).collect()));
    }
    Ok(rows)
}

fn number(row: &[Option<String>], at: usize) -> Option<f64> {
    row.get(at)?.as_deref()?.parse().ok()
}

/// A whole number; 0 where it is unknown.
fn whole(row: &[Option<String>], at: usize) -> i64 {
    row.get(at).and_then(Option::as_deref).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn word(row: &[Option<String>], at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

/// One model's calls, and what they cost where they were served.
pub(super) struct Recorded {
    pub(super) model: String,
    /// Calls, input and output tokens, and calls a second in the busiest hour.
    pub(super) figures: [f64; 4],
    /// The hours that both sides are paid for: from when to when, µs since the epoch.
    pub(super) stretch_us: (i64, i64),
    /// At the price in the book, idle included.
    pub(super) usd_per_million: Option<f64>,
    /// What of it was paid.
    pub(super) effective_usd_per_million: Option<f64>,
    /// Which prices.
    basis: Option<String>,
}

impl Recorded {
    pub(super) fn seconds(&self) -> f64 {
        (self.stretch_us.1 - self.stretch_us.0) as f64 / 1e6
    }

    pub(super) fn traffic(&self) -> Traffic<'_> {
        let [requests, input_tokens, output_tokens, busiest_per_s] = self.figures;
        let seconds = self.seconds();
        Traffic { model: &self.model, requests, input_tokens, output_tokens, seconds, busiest_per_s }
    }

    /// By which prices they were paid where they were served.
    pub(super) fn told(&self) -> String {
        match &self.basis {
            // each assumption is told by itself, set apart by `; `
            Some(basis) => format!(
                "where they were served they cost by {}, at discounts and exchange rates of the same hours as here",
                basis.replace("; ", " with ")
            ),
            None => "what they cost where they were served is unknown".to_owned(),
        }
    }
}

impl Asked {
    pub(super) async fn recorded(&self, scope: &Arc<Scope>) -> Result<Vec<Recorded>> {
        // both sides over the same whole hours: from the first in which a model had calls or cost to the end of the last, or now
        let sql =
            include_str!("recorded.sql").replace("$during", &self.during).replace("$now", &scope.now_us().to_string());
        let recorded = |row: &Vec<Option<String>>| Recorded {
            model: word(row, 0),
            figures: std::array::from_fn(|at| number(row, at + 1).unwrap_or(0.0)),
            stretch_us: (whole(row, 5), whole(row, 6)),
            usd_per_million: number(row, 7),
            effective_usd_per_million: number(row, 8),
            basis: row.get(9).cloned().flatten(),
        };
        Ok(ask(scope, &sql).await?.iter().map(recorded).collect())
    }

    /// What one host costs, piece by piece, over all the hours that calls of some model are paid for.
    pub(super) async fn prices(&self, scope: &Arc<Scope>, recorded: &[Recorded]) -> Result<Vec<Piece>> {
        let (starts, ends) = (recorded.iter().map(|one| one.stretch_us.0), recorded.iter().map(|one| one.stretch_us.1));
        let (Some(from_us), Some(to_us)) = (starts.min(), ends.max()) else { return Ok(Vec::new()) };
        let [host_type, region, option] = [&self.host_type, &self.region, &self.option].map(|text| quoted(text));
        let asked =
            format!("WITH asked AS (SELECT {host_type} AS host_type, {region} AS region, {option} AS \"option\")");
        let sql = include_str!("prices.sql").replace("$from", &from_us.to_string()).replace("$to", &to_us.to_string());
        let sql = format!("{asked},\n{sql}");
        let piece = |row: &Vec<Option<String>>| {
            let usd = |at: usize| row.get(at)?.as_deref()?.parse::<Usd>().ok();
            Piece {
                from_us: whole(row, 0),
                to_us: whole(row, 1),
                usd_per_hour: usd(2),
                effective_usd_per_hour: usd(3),
                told: self.told(row),
            }
        };
        Ok(ask(scope, &sql).await?.iter().map(piece).collect())
    }

    /// A price with where it stands, its rate and its discount; or what is missing.
    fn told(&self, row: &[Option<String>]) -> String {
        let what = format!("{} {} in {}", self.option, self.host_type, self.region);
        let [without_rate, rate, discount] = [4, 8, 9].map(|at| row.get(at).and_then(Option::as_deref));
        if let Some(currency) = without_rate {
            return format!("the price of {what} is in {currency}, and no row of `exchange_rates` is in force");
        }
        let Some(usd) = row.get(2).and_then(Option::as_deref) else {
            return format!("no row of `prices` is in force for {what}");
        };
        let rate = rate.map(|rate| format!(", {rate}")).unwrap_or_default();
        let paid = match discount {
            Some(discount) => format!("paid at × {discount}"),
            None => "no negotiated discount".to_owned(),
        };
        let (confidence, as_of, source) = (word(row, 5), word(row, 6), word(row, 7));
        format!("{usd} USD an hour a host: {what} ({confidence}, as of {as_of}, {source}{rate}), {paid}")
    }
}

/// Power models that may hold.
pub(super) async fn models(scope: &Arc<Scope>) -> Result<Vec<PowerModel>> {
    let sql = "SELECT device, boundary, idle_w, max_w, method, source, as_of, confidence, note, CAST(effective_from AS BIGINT) \
        FROM power_models WHERE effective_to IS NULL OR effective_to > now()";
    let model = |row: &Vec<Option<String>>| PowerModel {
        device: word(row, 0),
        boundary: word(row, 1),
        idle_w: number(row, 2),
        max_w: number(row, 3),
        curve: Vec::new(),
        method: word(row, 4),
        effective_from_us: word(row, 9).parse().unwrap_or(i64::MAX),
        source: word(row, 5),
        as_of: word(row, 6),
        confidence: word(row, 7),
        note: word(row, 8),
    };
    Ok(ask(scope, sql).await?.iter().map(model).collect())
}

impl Asked {
    pub(super) async fn factors(&self, scope: &Arc<Scope>) -> Result<Vec<Grid>> {
        let sql = format!(
            "SELECT region, gco2e_per_kwh, pue, source, as_of, confidence, CAST(effective_from AS BIGINT), \
             list IS NOT NULL FROM grid \
             WHERE region = {} AND method = {} AND (effective_to IS NULL OR effective_to > now())",
            quoted(&self.region),
            quoted(grid::AVERAGE)
        );
        let factor = |row: &Vec<Option<String>>| Grid {
            region: word(row, 0),
            gco2e_per_kwh: number(row, 1),
            method: grid::AVERAGE,
            pue: number(row, 2),
            effective_from_us: word(row, 6).parse().unwrap_or(i64::MAX),
            source: word(row, 3),
            as_of: word(row, 4),
            confidence: word(row, 5),
            is_own: word(row, 7) == "true",
        };
        Ok(ask(scope, &sql).await?.iter().map(factor).collect())
    }
}
