//! The statements of the latency page: over single calls where the range is short or asks for what only they know, else over
//! minutes, whose histograms add up.

use super::View;
use crate::pages::different;
use crate::pages::different::chosen::Chosen;
use crate::sql::{Where, bucket, minute_step, quantiles, step};
use crate::urlstate::{Dimension, Scope};

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Metric {
    #[default]
    Ttft,
    Queue,
    Itl,
    Tpot,
    E2e,
}

impl Metric {
    pub(crate) const ALL: [Metric; 5] = [Metric::Ttft, Metric::Queue, Metric::Itl, Metric::Tpot, Metric::E2e];

    /// Name in the URL, and of its columns in roll-ups.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Queue => "queue",
            Metric::Itl => "itl",
            Metric::Tpot => "tpot",
            Metric::E2e => "e2e",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Metric::Ttft => "TTFT",
            Metric::Queue => "Queue",
            Metric::Itl => "ITL",
            Metric::Tpot => "TPOT",
            Metric::E2e => "End to end",
        }
    }

    /// What the number is (docs/metrics.md).
    pub(crate) fn definition(self) -> &'static str {
        match self {
            Metric::Ttft => "arrival to the first token with content",
            Metric::Queue => "waiting until first scheduled",
            Metric::Itl => "each gap between two tokens of one choice, as they left the engine",
            Metric::Tpot => "(end to end − TTFT) ÷ (output tokens − 1), one figure a call",
            Metric::E2e => "arrival to last byte",
        }
    }

    fn column(self) -> String {
        format!("{}_s", self.name())
    }

    /// What its figures can be narrowed to.
    pub(crate) fn filters(self) -> &'static [Dimension] {
        match self {
            Metric::Itl => &[Dimension::Region, Dimension::Model, Dimension::Hardware],
            _ => &Dimension::ALL,
        }
    }
}

/// Calls from this percentile on are the slowest.
const SLOW: f64 = 0.95;

/// A range from which on minutes are read instead of calls, in seconds of its step.
const MINUTES_FROM_STEP_S: i64 = 300;

/// Where the figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// One row per call.
    Calls,
    /// One row per minute and what served it.
    Minutes,
    /// The same of tokens.
    Tokens,
}

/// The questions of one view of the page.
pub(super) struct Questions<'a> {
    view: &'a View,
    scope: &'a Scope,
    span: (i64, i64),
    source: Source,
}

impl<'a> Questions<'a> {
    pub(super) fn new(view: &'a View, scope: &'a Scope, span: (i64, i64)) -> Self {
        let long = step(span) >= MINUTES_FROM_STEP_S;
        let only_calls = scope.tenant.is_some();
        let source = match view.metric {
            Metric::Itl => Source::Tokens,
            _ if long && !only_calls => Source::Minutes,
            _ => Source::Calls,
        };
        Self { view, scope, span, source }
    }

    /// Seconds of a bucket.
    pub(super) fn step_s(&self) -> i64 {
        if self.source == Source::Calls { step(self.span) } else { minute_step(self.span) }
    }

    /// Percentiles and calls, one row per bucket.
    pub(super) fn course(&self) -> String {
        format!(
            "SELECT {}, {} AS calls,\n  {}\nFROM {}\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(self.step_s()),
            self.count(),
            quantiles(&self.histogram()),
            self.table(),
            self.clause().clause(),
        )
    }

    /// Observations per bucket and quarter of an octave.
    pub(super) fn heat(&self) -> String {
        let bucket = bucket(self.step_s());
        if self.source == Source::Calls {
            let column = self.view.metric.column();
            return format!(
                "SELECT {bucket}, {} AS level, count(*) AS calls\nFROM latency\n{}\nGROUP BY bucket, level",
                level(&column),
                self.clause().clause(),
            );
        }
        let prefix = self.prefix();
        format!(
            "SELECT bucket, level, sum(cnt) AS calls\nFROM (\n  SELECT {bucket}, scale,\n    CAST(floor(CAST(idx AS DOUBLE) / power(2.0, CAST(scale AS DOUBLE) - 2.0)) AS BIGINT) AS level, cnt\n  FROM (\n    SELECT time, {prefix}_scale AS scale, unnest({prefix}_idx) AS idx, unnest({prefix}_cnt) AS cnt\n    FROM {table}\n    {clause}\n  )\n)\nGROUP BY bucket, level\nUNION ALL\nSELECT {bucket}, CAST(NULL AS BIGINT) AS level, sum({prefix}_zero) AS calls\nFROM {table}\n{clause}\nGROUP BY bucket",
            table = self.table(),
            clause = self.clause().clause(),
        )
    }

    /// Mean parts of TTFT, one row per bucket. Means add up, percentiles do not.
    pub(super) fn split(&self) -> String {
        if self.source == Source::Minutes {
            // Parts of the same calls alone: a mean queue of some and a mean TTFT of others have no difference.
            let clause = self.scoped().and_equal("measured_at", Some("server"));
            let clause = clause.and("queue_count = ttft_count AND ttft_count > 0".to_owned());
            return format!(
                "SELECT {},\n  sum(queue_sum) / nullif(sum(queue_count), 0) AS queue_s,\n  sum(ttft_sum) / nullif(sum(ttft_count), 0) - sum(queue_sum) / nullif(sum(queue_count), 0) AS prefill_s\nFROM requests_minutes\n{}\nGROUP BY bucket\nORDER BY bucket",
                bucket(minute_step(self.span)),
                clause.clause(),
            );
        }
        let clause = self.scoped().and_equal("measured_at", Some("server"));
        let clause = clause.and("ttft_s IS NOT NULL AND queue_s IS NOT NULL AND prefill_s IS NOT NULL".to_owned());
        format!(
            "SELECT {},\n  {}\nFROM latency\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(self.step_s()),
            PARTS,
            clause.clause()
        )
    }

    /// Whether the split tells prefill from what comes after it.
    pub(super) fn splits_fully(&self) -> bool {
        self.source != Source::Minutes
    }

    /// One row per value of the column that the page groups by, the slowest first.
    pub(super) fn groups(&self) -> String {
        let column = self.view.by.column();
        let parts = match self.source {
            Source::Calls => format!(",\n  {PARTS}"),
            _ => String::new(),
        };
        format!(
            "SELECT {column} AS name, {} AS calls,\n  {}{parts}\nFROM {}\n{}\nGROUP BY {column}\nORDER BY p99 DESC NULLS LAST\nLIMIT 200",
            self.count(),
            quantiles(&self.histogram()),
            self.table(),
            self.clause().clause(),
        )
    }

    /// The calls that somebody chose, as the map's cells have them; where single calls are not read there are none.
    pub(super) fn chosen(&self) -> Option<Chosen> {
        let chosen = self.view.chosen.filter(|_| self.source == Source::Calls)?;
        Some(chosen.on_grid(self.step_s() * 1_000_000))
    }

    /// What the calls that were chosen have in common, or the slowest; only where single calls are read.
    pub(super) fn different(&self) -> Option<String> {
        if self.source != Source::Calls {
            return None;
        }
        let (column, clause) = (self.view.metric.column(), self.clause().clause());
        if let Some(chosen) = self.chosen() {
            return Some(different::sql(&chosen.condition(&column), &format!("latency\n{clause}")));
        }
        let ranked = different::sql(&format!("{column} >= bar"), &format!("latency CROSS JOIN slow\n{clause}"));
        Some(format!(
            "WITH slow AS (\n  SELECT exph_quantile(exph({column}), {SLOW}) AS bar FROM latency\n  {}\n)\n{ranked}",
            clause.replace('\n', "\n  ")
        ))
    }

    fn table(&self) -> &'static str {
        match self.source {
            Source::Calls => "latency",
            Source::Minutes => "requests_minutes",
            Source::Tokens => "tokens_minutes",
        }
    }

    fn prefix(&self) -> &'static str {
        if self.source == Source::Tokens { "gap" } else { self.view.metric.name() }
    }

    fn count(&self) -> String {
        match self.source {
            Source::Calls => "count(*)".to_owned(),
            _ => format!("sum({}_count)", self.prefix()),
        }
    }

    fn histogram(&self) -> String {
        if self.source == Source::Calls {
            return format!("exph({})", self.view.metric.column());
        }
        let prefix = self.prefix();
        let columns = ["scale", "zero", "idx", "cnt", "count", "sum", "min", "max"];
        format!("exph_merge(exph_of({}))", columns.map(|column| format!("{prefix}_{column}")).join(", "))
    }

    /// Time and what the page is narrowed to.
    fn scoped(&self) -> Where {
        Where::of(self.scope, self.span, self.view.metric.filters())
    }

    fn clause(&self) -> Where {
        let clause = self.scoped().and_equal("measured_at", Some(self.view.place()));
        match self.source {
            Source::Calls => clause.and(format!("{} IS NOT NULL", self.view.metric.column())),
            _ => clause.and(format!("{}_count > 0", self.prefix())),
        }
    }
}

/// The quarter of an octave that a value lies in; none of a value that a log scale has no place for.
pub(crate) fn level(column: &str) -> String {
    format!("CASE WHEN {column} > 0 THEN CAST(ceil(log2({column}) * 4.0) AS BIGINT) - 1 END")
}

/// Means of the parts of TTFT; what the emitter accounts for in neither is the rest.
pub(crate) const PARTS: &str = "avg(queue_s) AS queue_s, avg(prefill_s) AS prefill_s,\n  \
     avg(greatest(round(ttft_s - queue_s - prefill_s, 6), 0.0)) AS rest_s, avg(ttft_s) AS mean_s";

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: (i64, i64) = (1_795_950_000_000_000, 1_795_953_600_000_000);
    const DAY: (i64, i64) = (1_795_867_200_000_000, 1_795_953_600_000_000);

    #[test]
    fn a_day_is_read_from_minutes_unless_a_tenant_is_asked_for() {
        let (view, all) = (View::parse(""), Scope::default());
        assert!(Questions::new(&view, &all, HOUR).course().contains("FROM latency"));
        let day = Questions::new(&view, &all, DAY);
        assert!(day.course().contains("FROM requests_minutes"));
        assert!(day.course().contains("exph_merge(exph_of(ttft_scale"));
        let acme = Scope::parse("tenant=acme");
        let sql = Questions::new(&view, &acme, DAY).course();
        assert!(sql.contains("FROM latency") && sql.contains("tenant = 'acme'"), "{sql}");
    }

    #[test]
    fn every_statement_names_one_measuring_place() {
        for metric in Metric::ALL {
            let view = View::parse(&format!("metric={}&at=gateway", metric.name()));
            let scope = Scope::default();
            let questions = Questions::new(&view, &scope, DAY);
            for sql in [questions.course(), questions.heat(), questions.groups()] {
                let place = format!("measured_at = '{}'", view.place());
                assert!(sql.contains(&place), "{sql}");
                assert_eq!(sql.matches("measured_at = '").count(), sql.matches(&place).count(), "{sql}");
            }
            assert!(questions.split().contains("measured_at = 'server'"), "parts are told by the engine");
        }
    }

    #[test]
    fn the_slowest_are_compared_with_calls_of_the_same_place() {
        let (view, scope) = (View::parse("at=client&metric=e2e"), Scope::default());
        let sql = Questions::new(&view, &scope, HOUR).different().unwrap();
        assert!(sql.starts_with("WITH slow AS") && sql.contains("WHEN e2e_s >= bar THEN 1"), "{sql}");
        assert_eq!(sql.matches("measured_at = 'client'").count(), 2, "{sql}");
        assert_eq!(Questions::new(&view, &scope, DAY).different(), None, "minutes do not tell calls apart");
    }

    #[test]
    fn calls_in_a_box_are_compared_with_all_of_the_range() {
        let (view, scope) = (View::parse("metric=e2e&box_low=2"), Scope::default());
        let sql = Questions::new(&view, &scope, HOUR).different().unwrap();
        assert!(sql.contains("CASE WHEN (e2e_s > 2.0) THEN 1") && !sql.contains("slow"), "{sql}");
        assert_eq!(Questions::new(&view, &scope, DAY).chosen(), None, "minutes do not tell calls apart");
    }

    #[test]
    fn gaps_between_tokens_are_those_of_the_engine() {
        let view = View::parse("metric=itl&at=gateway");
        let scope = Scope::parse("tenant=acme&region=x");
        let sql = Questions::new(&view, &scope, HOUR).course();
        assert!(sql.contains("FROM tokens_minutes") && sql.contains("measured_at = 'server'"), "{sql}");
        assert!(sql.contains("region = 'x'") && !sql.contains("tenant"), "{sql}");
    }
}
