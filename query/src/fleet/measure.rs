//! Asks for one closed minute.

use std::{fmt::Write, sync::Arc};

use serde_json::Value;
use telemetry::contract::{ApiError, SqlAnswer, SqlRequest};

use super::{
    MINUTE_US,
    series::{Buckets, Family, LATE_MINUTES, Labels, Measured, TPOT_BOUNDS, TTFT_BOUNDS},
};
use crate::{answer, execute::Engine, reader::Reader};

/// How long before a minute most calls that ended in it began: all files of that stretch are read.
const CALL_US: i64 = 10 * MINUTE_US;
/// How long before it any of them may have begun. Of the files before, those that hold so long a call are read; their bounds say
/// which.
const LONG_CALL_US_MAX: i64 = 24 * 60 * MINUTE_US;

/// All the minute that begins at `from_us` held.
///
/// # Errors
/// What the first query that failed answered; nothing is counted then.
pub(super) async fn minute(engine: &Arc<Engine>, from_us: i64) -> Result<Measured, ApiError> {
    let mut measured = Measured::default();
    calls(&mut measured, &ask(engine, &calls_sql(from_us)).await?);
    tokens(&mut measured, &ask(engine, &tokens_sql(from_us)).await?);
    objectives(&mut measured, &ask(engine, &objectives_sql(from_us)).await?);
    utilization(&mut measured, &ask(engine, &of_minute(UTILIZATION, from_us)).await?);
    energy(&mut measured, &ask(engine, &of_minute(ENERGY, from_us)).await?);
    cost(&mut measured, &ask(engine, &of_late_minutes(COST, from_us)).await?, from_us / MINUTE_US);
    let per_million = ask(engine, &of_minute(COST_PER_MILLION, from_us)).await?;
    for row in Rows::of(&per_million) {
        row.gauge(&mut measured, Family::CostPerMillion, row.place(), "usd");
    }
    Ok(measured)
}

const UTILIZATION: &str = "SELECT region, model, avg(allocated) AS allocated, avg(executing) AS executing, avg(tensor) AS tensor, \
    avg(useful) AS useful FROM utilization WHERE $minute GROUP BY region, model";
const ENERGY: &str = "SELECT region, model, boundary, confidence, sum(joules) AS joules, sum(power_w) AS watts, \
    sum(output_tokens) / sum(joules) AS tokens_per_joule FROM perf_per_watt WHERE $minute GROUP BY region, model, boundary, confidence";
const COST: &str = "SELECT region, model, CAST(time AS BIGINT) / 60000000 AS minute, sum(cost_usd) AS cost, sum(usd_per_hour) AS per_hour, sum(unpriced_hosts) AS unpriced \
    FROM cost_per_region WHERE $minute GROUP BY region, model, time";
const COST_PER_MILLION: &str = "SELECT region, model, CAST(sum(cost_usd) AS DOUBLE) / nullif(CAST(sum(output_tokens) AS DOUBLE), 0.0) * 1000000.0 AS usd \
    FROM cost_per_million_tokens WHERE $minute AND basis = 'allocation' GROUP BY region, model";

fn of_minute(sql: &str, from_us: i64) -> String {
    sql.replace("$minute", &format!("time = {}", instant(from_us)))
}

/// The minute and those before it in which late rows may show up.
fn of_late_minutes(sql: &str, from_us: i64) -> String {
    let oldest = instant(from_us - LATE_MINUTES * MINUTE_US);
    sql.replace("$minute", &format!("time >= {oldest} AND time <= {}", instant(from_us)))
}

fn instant(us: i64) -> String {
    format!("arrow_cast({us}, 'Timestamp(Microsecond, Some(\"UTC\"))')")
}

/// Calls that ended in the minute: they are all there once it has settled, whenever they began.
fn calls_sql(from_us: i64) -> String {
    let mut sql = "SELECT region, model, measured_at, count(*) AS requests".to_owned();
    for (column, bounds) in [("ttft_s", TTFT_BOUNDS.as_slice()), ("tpot_s", TPOT_BOUNDS.as_slice())] {
        let _ = write!(
            sql,
            ", count({column}) AS {column}_count, sum({column}) AS {column}_sum, max({column}) AS {column}_max, \
             first_value(trace_id ORDER BY {column} DESC NULLS LAST) AS {column}_trace"
        );
        for (index, bound) in bounds.iter().enumerate() {
            let _ = write!(sql, ", count(CASE WHEN {column} <= {bound:?} THEN 1 END) AS {column}_{index}");
        }
    }
    let until_us = from_us + MINUTE_US;
    let _ = write!(
        sql,
        " FROM (SELECT *, CAST(time AS BIGINT) + CAST(coalesce(e2e_s, 0.0) * 1000000.0 AS BIGINT) AS ended FROM requests \
         WHERE {}) AS calls WHERE ended >= {from_us} AND ended < {until_us} GROUP BY region, model, measured_at",
        began(from_us, until_us)
    );
    sql
}

/// The condition on calls that may have ended between the two instants.
fn began(from_us: i64, until_us: i64) -> String {
    let (oldest, first) = (instant(from_us - LONG_CALL_US_MAX), instant(from_us - CALL_US));
    let long_s = CALL_US / 1_000_000;
    format!("time < {} AND (time >= {first} OR (e2e_s > {long_s}.0 AND time >= {oldest}))", instant(until_us))
}

/// How long before a minute the calls began that objectives judge: what a judge looks at has no bounds that leave files out.
const JUDGED_US: i64 = 15 * MINUTE_US;

/// Calls that ended in the minute, by the objectives that they count for. One without calls is there too, with its terms.
fn objectives_sql(from_us: i64) -> String {
    let until_us = from_us + MINUTE_US;
    let (oldest, until) = (instant(from_us - JUDGED_US), instant(until_us));
    let ended = "CAST(time AS BIGINT) + CAST(CASE WHEN e2e_s > 0.0 AND e2e_s < 86400.0 THEN e2e_s ELSE 0.0 END * 1000000.0 AS BIGINT)";
    format!(
        "WITH judged AS (\
           SELECT region, model, unnest(string_to_array(slo_set, ',')) AS slo, slo_met FROM measured_calls \
           WHERE slo_set IS NOT NULL AND time >= {oldest} AND time < {until} AND {ended} >= {from_us} AND {ended} < {until_us}\
         ) \
         SELECT region, model, slo, count(*) AS calls, \
           count(CASE WHEN strpos(',' || slo_met || ',', ',' || slo || ',') > 0 THEN 1 END) AS good, NULL AS objective \
         FROM judged GROUP BY region, model, slo \
         UNION ALL \
         SELECT NULL, NULL, name, NULL, NULL, first_value(objective ORDER BY effective_from DESC, effective_to) FROM slos \
         WHERE effective_from < {until} GROUP BY name \
         HAVING first_value(coalesce(effective_to, {until}) ORDER BY effective_from DESC, effective_to) >= {until}"
    )
}

fn objectives(measured: &mut Measured, answer: &SqlAnswer) {
    for row in Rows::of(answer) {
        let slo = ("slo", row.text("slo"));
        row.gauge(measured, Family::SloObjective, vec![slo.clone()], "objective");
        let labels: Labels = row.place().into_iter().chain([slo]).collect();
        row.increment(measured, Family::SloCalls, labels.clone(), "calls");
        row.increment(measured, Family::SloGood, labels, "good");
    }
}

/// Tokens by when they left. An engine that sends no token spans is counted by its calls, when they end.
fn tokens_sql(minute_us: i64) -> String {
    let (from_us, until_us) = (minute_us - LATE_MINUTES * MINUTE_US, minute_us + MINUTE_US);
    let (from, until) = (instant(from_us), instant(until_us));
    let (oldest, began) = (instant(from_us - LONG_CALL_US_MAX), began(from_us, until_us));
    let ended = "CAST(time AS BIGINT) + CAST(coalesce(e2e_s, 0.0) * 1000000.0 AS BIGINT)";
    format!(
        "SELECT region, model, at / {MINUTE_US} AS minute, sum(tokens) AS tokens FROM (\
           SELECT region, model, CAST(time AS BIGINT) AS at, \"count\" AS tokens FROM tokens WHERE time >= {from} AND time < {until} \
           UNION ALL \
           SELECT region, model, {ended}, output_tokens FROM requests AS r \
           WHERE measured_at = 'server' AND {began} \
             AND {ended} >= {from_us} AND {ended} < {until_us} \
             AND NOT EXISTS (SELECT 1 FROM tokens AS t WHERE t.time >= {oldest} AND t.time < {until} \
               AND t.trace_id = r.trace_id AND t.request_span_id = r.span_id)) AS made \
         GROUP BY region, model, at / {MINUTE_US}"
    )
}

pub(super) async fn ask(engine: &Arc<Engine>, sql: &str) -> Result<SqlAnswer, ApiError> {
    let request = SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() };
    let reader = Arc::new(Reader::internal());
    engine.run(request, &reader).await.map(answer::json)
}

fn calls(measured: &mut Measured, answer: &SqlAnswer) {
    for row in Rows::of(answer) {
        let mut labels = row.place();
        labels.push(("measured_at", row.text("measured_at")));
        if let Some(requests) = row.number("requests") {
            measured.increments.push((Family::Requests, labels.clone(), requests));
        }
        for (family, column, bounds) in
            [(Family::Ttft, "ttft_s", TTFT_BOUNDS.len()), (Family::Tpot, "tpot_s", TPOT_BOUNDS.len())]
        {
            let count = row.number(&format!("{column}_count")).unwrap_or(0.0);
            if count > 0.0 {
                let at_most =
                    (0..bounds).map(|index| row.number(&format!("{column}_{index}")).unwrap_or(0.0)).collect();
                let sum = row.number(&format!("{column}_sum")).unwrap_or(0.0);
                let trace = Some(row.text(&format!("{column}_trace"))).filter(|trace| !trace.is_empty());
                let slowest = trace.zip(row.number(&format!("{column}_max")));
                measured.buckets.push((family, labels.clone(), Buckets { at_most, count, sum, slowest }));
            }
        }
    }
}

fn tokens(measured: &mut Measured, answer: &SqlAnswer) {
    for row in Rows::of(answer) {
        let mut labels = row.place();
        labels.push(("measured_at", "server".to_owned()));
        row.total(measured, Family::OutputTokens, labels, "tokens");
    }
}

fn utilization(measured: &mut Measured, answer: &SqlAnswer) {
    for row in Rows::of(answer) {
        for kind in ["allocated", "executing", "tensor", "useful"] {
            let mut labels = row.place();
            labels.push(("kind", kind.to_owned()));
            row.gauge(measured, Family::Utilization, labels, kind);
        }
    }
}

fn energy(measured: &mut Measured, answer: &SqlAnswer) {
    for row in Rows::of(answer) {
        let mut labels = row.place();
        labels.push(("boundary", row.text("boundary")));
        labels.push(("confidence", row.text("confidence")));
        row.increment(measured, Family::Energy, labels.clone(), "joules");
        row.gauge(measured, Family::Power, labels.clone(), "watts");
        row.gauge(measured, Family::TokensPerJoule, labels, "tokens_per_joule");
    }
}

fn cost(measured: &mut Measured, answer: &SqlAnswer, minute: i64) {
    for row in Rows::of(answer) {
        row.total(measured, Family::Cost, row.place(), "cost");
        if row.minute() != Some(minute) {
            continue;
        }
        row.gauge(measured, Family::CostPerHour, row.place(), "per_hour");
        if row.number("unpriced").is_some_and(|hosts| hosts > 0.0) {
            row.gauge(measured, Family::UnpricedHosts, row.place(), "unpriced");
        }
    }
}

/// A row whose values are found by name.
pub(super) struct Row<'a> {
    answer: &'a SqlAnswer,
    values: &'a [Value],
}

pub(super) struct Rows;

impl Rows {
    pub(super) fn of(answer: &SqlAnswer) -> impl Iterator<Item = Row<'_>> {
        answer.rows.iter().map(move |values| Row { answer, values })
    }
}

impl Row<'_> {
    fn value(&self, name: &str) -> Option<&Value> {
        let at = self.answer.columns.iter().position(|column| column.name == name)?;
        self.values.get(at)
    }

    /// A number or a decimal.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.value(name)? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.value(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn place(&self) -> Labels {
        vec![("region", self.text("region")), ("model", self.text("model"))]
    }

    fn increment(&self, measured: &mut Measured, family: Family, labels: Labels, column: &str) {
        if let Some(value) = self.number(column) {
            measured.increments.push((family, labels, value));
        }
    }

    fn minute(&self) -> Option<i64> {
        self.value("minute")?.as_i64()
    }

    fn total(&self, measured: &mut Measured, family: Family, labels: Labels, column: &str) {
        if let (Some(minute), Some(value)) = (self.minute(), self.number(column)) {
            measured.totals.push((family, labels, minute, value));
        }
    }

    fn gauge(&self, measured: &mut Measured, family: Family, labels: Labels, column: &str) {
        if let Some(value) = self.number(column) {
            measured.gauges.push((family, labels, value));
        }
    }
}
