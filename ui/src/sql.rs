//! The statements behind the pages. Each stands on its own: the SQL page runs it as it is.

use crate::urlstate::{Dimension, RequestFilter, Scope, Sort, rfc3339};

/// A text in quotes.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// An instant.
pub(crate) fn instant(at_us: i64) -> String {
    format!("TIMESTAMP '{}'", rfc3339(at_us))
}

/// The scope as a condition on a table with `time`, `region`, `model` and `tenant`.
pub(crate) struct Where {
    span: (i64, i64),
    conditions: Vec<String>,
}

impl Where {
    /// Only the stretch of time.
    pub(crate) fn span(span: (i64, i64)) -> Self {
        Self { span, conditions: Vec::new() }
    }

    /// Time and every dimension of the scope.
    pub(crate) fn scope(scope: &Scope, span: (i64, i64)) -> Self {
        Self::of(scope, span, &Dimension::ALL)
    }

    /// Time, region and model: for what no tenant owns, such as devices and their price.
    pub(crate) fn place(scope: &Scope, span: (i64, i64)) -> Self {
        Self::of(scope, span, &PLACE)
    }

    /// Time and those dimensions of the scope that the table has.
    pub(crate) fn of(scope: &Scope, span: (i64, i64), dimensions: &[Dimension]) -> Self {
        dimensions
            .iter()
            .fold(Self::span(span), |clause, dimension| clause.and_equal(dimension.column(), scope.get(*dimension)))
    }

    /// One more condition, if there is a value to compare with.
    pub(crate) fn and_equal(mut self, column: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.conditions.push(format!("{column} = {}", literal(value)));
        }
        self
    }

    /// One more condition.
    pub(crate) fn and(mut self, condition: String) -> Self {
        self.conditions.push(condition);
        self
    }

    /// The clause, on lines of its own.
    pub(crate) fn clause(&self) -> String {
        let (from, to) = self.span;
        let mut clause = format!("WHERE time >= {} AND time < {}", instant(from), instant(to));
        for condition in &self.conditions {
            clause.push_str("\n  AND ");
            clause.push_str(condition);
        }
        clause
    }
}

/// What devices and prices know of a scope.
pub(crate) const PLACE: [Dimension; 2] = [Dimension::Region, Dimension::Model];

/// Width of a bucket in seconds: round, and at most 90 of them in a range.
pub(crate) fn step((from, to): (i64, i64)) -> i64 {
    let seconds = (to - from) / 1_000_000;
    let steps = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400];
    steps.into_iter().find(|step| seconds / step <= 90).unwrap_or(604_800)
}

/// The same for views whose rows are minutes.
pub(crate) fn minute_step(span: (i64, i64)) -> i64 {
    step(span).max(60)
}

/// The range with its ends at whole minutes, as the rows of views by minute are named.
pub(crate) fn minutes((from, to): (i64, i64)) -> (i64, i64) {
    const MINUTE: i64 = 60_000_000;
    (from.div_euclid(MINUTE) * MINUTE, (to + MINUTE - 1).div_euclid(MINUTE) * MINUTE)
}

/// The hours that the range touches, as the rows of views by hour are named.
pub(crate) fn hours((from, to): (i64, i64)) -> (i64, i64) {
    const HOUR: i64 = 3_600_000_000;
    (from.div_euclid(HOUR) * HOUR, (to + HOUR - 1).div_euclid(HOUR) * HOUR)
}

/// Seconds that figures of the present look back. They rest on every token of the window: over hours that is for roll-ups to
/// answer.
const LOOK_BACK_S: i64 = 300;

/// The stretch that figures of the present are about: the last five minutes of a page that follows it, else the whole range.
/// Its ends are minutes.
pub(crate) fn present(scope: &Scope, (from, to): (i64, i64)) -> (i64, i64) {
    let from = if scope.follows_now() { from.max(to - LOOK_BACK_S * 1_000_000) } else { from };
    minutes((from, to))
}

/// What a page says of that stretch.
pub(crate) fn present_note(scope: &Scope) -> &'static str {
    if scope.follows_now() { "the last 5 minutes" } else { "whole minutes of the range" }
}

/// The start of the bucket that a row falls into.
pub(crate) fn bucket(step_s: i64) -> String {
    format!("date_bin(INTERVAL '{step_s} seconds', time) AS bucket")
}

/// A percentile of a column.
fn percentile(share: f64, column: &str) -> String {
    format!("approx_percentile_cont({share}) WITHIN GROUP (ORDER BY {column})")
}

/// The median, the 90th and the 99th percentile of a histogram.
pub(crate) fn quantiles(histogram: &str) -> String {
    let of = |(name, share)| format!("exph_quantile({histogram}, {share}) AS {name}");
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)].map(of).join(",\n  ")
}

/// What is there to filter by.
pub(crate) fn choices(span: (i64, i64)) -> String {
    format!(
        "SELECT region, model, tenant, engine, host_type AS hardware, count(*) AS requests\nFROM requests\n{}\nGROUP BY region, model, tenant, engine, host_type\nORDER BY requests DESC\nLIMIT 500",
        Where::span(span).clause()
    )
}

/// Where a call may be measured, nearest to the engine first.
pub(crate) const PLACES: [&str; 3] = ["server", "gateway", "client"];

/// TTFT as each place measured it: `ttft_p50_server`, `ttft_p99_server`, `ttft_calls_server` and so on. Two places are two
/// series, also where one saw calls that the other did not.
fn first_tokens() -> String {
    let of = |place: &str| {
        let column = format!("CASE WHEN measured_at = '{place}' THEN ttft_s END");
        let (median, slow) = (percentile(0.5, &column), percentile(0.99, &column));
        format!("{median} AS ttft_p50_{place},\n  {slow} AS ttft_p99_{place},\n  count({column}) AS ttft_calls_{place}")
    };
    PLACES.map(of).join(",\n  ")
}

/// Latency and rates, one row per region and one (`total` = 1) for all of them together:
/// a percentile of all regions cannot be made from percentiles of each.
pub(crate) fn traffic(scope: &Scope, span: (i64, i64)) -> String {
    let filter = Where::scope(scope, span);
    // A lake that is younger than the range is not diluted by the time before its first row.
    let seconds = format!("greatest(({} - CAST(min(time) AS BIGINT)) / 1000000.0, 1.0)", span.1);
    format!(
        "SELECT region, grouping(region) AS total,\n  {},\n  sum(output_tokens) / {seconds} AS output_tokens_per_s,\n  count(*) / {seconds} AS requests_per_s,\n  sum(CASE WHEN status = 'error' THEN 1.0 ELSE 0.0 END) / count(*) AS error_ratio\nFROM calls\n{}\nGROUP BY GROUPING SETS ((), (region))\nORDER BY total DESC, region",
        first_tokens(),
        filter.clause(),
    )
}

/// The same over time, one row per bucket and region.
pub(crate) fn traffic_over_time(scope: &Scope, span: (i64, i64), step_s: i64) -> String {
    format!(
        "SELECT {}, region,\n  {},\n  sum(output_tokens) / {step_s}.0 AS output_tokens_per_s,\n  count(*) / {step_s}.0 AS requests_per_s\nFROM calls\n{}\nGROUP BY bucket, region\nORDER BY bucket, region",
        bucket(step_s),
        first_tokens(),
        Where::scope(scope, span).clause(),
    )
}

/// Rows per page of requests.
pub(crate) const PAGE: usize = 50;

/// The scope and the filters of the requests page.
fn filtered(scope: &Scope, filter: &RequestFilter, span: (i64, i64)) -> Where {
    let clause = Where::scope(scope, span)
        .and_equal("status", filter.status.as_deref())
        .and_equal("host_id", filter.host.as_deref());
    match filter.min_ttft_ms {
        Some(ms) => clause.and(format!("ttft_s >= {}", ms / 1e3)),
        None => clause,
    }
}

/// How many requests arrived, by how they ended, one row per bucket.
pub(crate) fn requests_over_time(scope: &Scope, filter: &RequestFilter, span: (i64, i64)) -> String {
    let of = |status: &str| format!("sum(CASE WHEN status = '{status}' THEN 1 ELSE 0 END) AS {status}");
    format!(
        "SELECT {}, {}\nFROM calls\n{}\nGROUP BY bucket\nORDER BY bucket",
        bucket(step(span)),
        ["ok", "error", "cancelled"].map(of).join(", "),
        filtered(scope, filter, span).clause()
    )
}

/// One page of requests, and one row more to know whether another page follows.
pub(crate) fn requests(scope: &Scope, filter: &RequestFilter, span: (i64, i64)) -> String {
    let column = filter.sort.column();
    let mut clause = filtered(scope, filter, span);
    if filter.sort != Sort::Time {
        clause = clause.and(format!("{column} IS NOT NULL"));
    }
    if let Some((value, span_id)) = &filter.after
        && let Some(value) = after_literal(filter.sort, value)
    {
        let span_id = literal(span_id);
        clause = clause.and(format!("({column} < {value} OR ({column} = {value} AND span_id < {span_id}))"));
    }
    format!(
        "SELECT time, trace_id, span_id, region, model, tenant, host_id, host_type, measured_at, status, finish_reason, input_tokens, output_tokens,\n  queue_s, ttft_s, itl_max_s, e2e_s\nFROM calls\n{}\nORDER BY {column} DESC, span_id DESC\nLIMIT {}",
        clause.clause(),
        PAGE + 1,
    )
}

/// The last value of the page before as a literal, unless it is none.
fn after_literal(sort: Sort, value: &str) -> Option<String> {
    match sort {
        Sort::Time => value.parse::<jiff::Timestamp>().ok().map(|at| format!("TIMESTAMP '{at}'")),
        Sort::Ttft | Sort::E2e => {
            value.parse::<f64>().ok().filter(|value| value.is_finite()).map(|value| format!("{value:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_the_url_stays_inside_its_quotes() {
        let scope = Scope::parse("region=x'+OR+1=1+--&tenant=o'neil");
        let sql = traffic(&scope, (0, 1_000_000));
        assert!(sql.contains("region = 'x'' OR 1=1 --'"), "{sql}");
        assert!(sql.contains("tenant = 'o''neil'"), "{sql}");
    }

    #[test]
    fn a_key_that_is_no_value_is_dropped() {
        let scope = Scope::default();
        let filter = RequestFilter {
            after: Some(("1 OR 1=1".into(), "ab".into())),
            sort: Sort::Ttft,
            ..RequestFilter::default()
        };
        assert!(!requests(&scope, &filter, (0, 1)).contains("OR 1=1"));
        let filter =
            RequestFilter { after: Some(("0.25".into(), "ab'".into())), sort: Sort::Ttft, ..RequestFilter::default() };
        assert!(requests(&scope, &filter, (0, 1)).contains("(ttft_s < 0.25 OR (ttft_s = 0.25 AND span_id < 'ab'''))"));
    }

    #[test]
    fn no_range_has_more_than_ninety_buckets() {
        for seconds in [1_i64, 60, 900, 3_600, 21_600, 86_400, 604_800, 34_560_000] {
            let step = step((0, seconds * 1_000_000));
            assert!(seconds / step <= 90, "{seconds} s in steps of {step} s");
        }
        assert_eq!(step((0, 900_000_000)), 10);
        assert_eq!(minute_step((0, 900_000_000)), 60);
    }

    #[test]
    fn the_present_is_whole_minutes_and_a_chosen_range_is_kept() {
        const NOON: i64 = 1_795_953_600_000_000;
        let live = present(&Scope::default(), (NOON - 900_000_000, NOON + 1));
        assert_eq!(live, (NOON - 300_000_000, NOON + 60_000_000));
        let chosen = Scope::parse("from=2026-11-29T11:00&to=2026-11-29T12:00");
        assert_eq!(present(&chosen, chosen.resolve(0)), (NOON - 3_600_000_000, NOON));
    }

    #[test]
    fn instants_are_utc() {
        assert_eq!(instant(1_795_953_600_000_000), "TIMESTAMP '2026-11-29T12:00:00Z'");
    }
}
