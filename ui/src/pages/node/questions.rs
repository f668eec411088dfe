//! The statements of a node's page.

use crate::pages::latency::questions::PARTS;
use crate::sql::{Where, bucket, literal, minute_step, minutes, quantiles, step};

/// Which node, and when.
pub(super) struct Questions<'a> {
    pub(super) host: &'a str,
    pub(super) span: (i64, i64),
}

/// Calls in the list.
const CALLS: usize = 12;

impl Questions<'_> {
    fn own(&self, span: (i64, i64)) -> Where {
        Where::span(span).and_equal("host_id", Some(self.host))
    }

    /// What the node said of itself last, as its calls carry it; its samples where it had no call.
    pub(super) fn identity(&self) -> String {
        let columns = "time, region, zone, environment, cluster, pool, host_type, service, service_version, model, accelerator, chips";
        format!(
            "SELECT *\nFROM (\n  SELECT {columns}, engine, 0 AS place FROM requests\n  {}\n  UNION ALL\n  SELECT {columns}, CAST(NULL AS VARCHAR), 1 FROM devices\n  {}\n)\nORDER BY place, time DESC\nLIMIT 1",
            self.own(self.span).and_equal("measured_at", Some("server")).clause().replace('\n', "\n  "),
            self.own(self.span).clause().replace('\n', "\n  "),
        )
    }

    /// Parts and percentiles of TTFT and calls over time.
    pub(super) fn course(&self) -> String {
        let clause = self.own(self.span).and_equal("measured_at", Some("server"));
        let clause = clause.and("ttft_s IS NOT NULL AND queue_s IS NOT NULL AND prefill_s IS NOT NULL".to_owned());
        format!(
            "SELECT {}, count(*) AS calls,\n  {PARTS},\n  {}\nFROM latency\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(step(self.span)),
            quantiles("exph(ttft_s)"),
            clause.clause()
        )
    }

    /// The node beside all others of the same hardware: `whose` is `this` or `peers`.
    pub(super) fn peers(&self, host_type: Option<&str>) -> String {
        let clause = Where::span(self.span).and_equal("measured_at", Some("server")).and_equal("host_type", host_type);
        let clause = clause.and("host_id IS NOT NULL".to_owned());
        format!(
            "SELECT CASE WHEN host_id = {} THEN 'this' ELSE 'peers' END AS whose,\n  count(DISTINCT host_id) AS hosts, count(*) AS calls, {PARTS},\n  {},\n  exph_quantile(exph(queue_s), 0.99) AS queue_p99, exph_quantile(exph(prefill_s), 0.99) AS prefill_p99,\n  avg(tpot_s) AS tpot_s, avg(input_tokens) AS input_tokens, avg(output_tokens) AS output_tokens,\n  sum(CASE WHEN status = 'error' THEN 1.0 ELSE 0.0 END) / count(*) AS failed\nFROM latency\n{}\nGROUP BY whose\nORDER BY whose DESC",
            literal(self.host),
            quantiles("exph(ttft_s)"),
            clause.clause()
        )
    }

    /// How the engine and its devices stood, over minutes.
    pub(super) fn devices(&self) -> String {
        format!(
            "SELECT {},\n  avg(CASE WHEN kind = 'engine' THEN running END) AS running, avg(CASE WHEN kind = 'engine' THEN waiting END) AS waiting,\n  avg(CASE WHEN kind = 'engine' THEN kv_usage END) AS kv_usage,\n  avg(CASE WHEN kind = 'accelerator' THEN utilization END) AS utilization\nFROM devices_minutes\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(minute_step(self.span)),
            self.own(minutes(self.span)).clause()
        )
    }

    /// Power over minutes, at the widest boundary that the host reports.
    pub(super) fn power(&self) -> String {
        format!(
            "SELECT {}, sum(joules) / nullif(sum(to_us - from_us) / 1000000.0, 0) AS watts, sum(joules) AS joules,\n  max(boundary) AS boundary, string_agg(DISTINCT method, ', ') AS method, string_agg(DISTINCT confidence, ', ') AS confidence\nFROM host_energy\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(minute_step(self.span)),
            self.own(minutes(self.span)).clause()
        )
    }

    /// Tokens that left, and how the engine's time was spent, over minutes.
    pub(super) fn work(&self) -> String {
        format!(
            "SELECT {}, sum(tokens) / {}.0 AS tokens_per_s,\n  CAST(sum(wall_us) - sum(padding_us) - sum(idle_us) AS DOUBLE) / nullif(sum(wall_us), 0) AS requests,\n  CAST(sum(padding_us) AS DOUBLE) / nullif(sum(wall_us), 0) AS padding, CAST(sum(idle_us) AS DOUBLE) / nullif(sum(wall_us), 0) AS idle\nFROM hosts_minutes\n{}\nGROUP BY bucket\nORDER BY bucket",
            bucket(minute_step(self.span)),
            minute_step(self.span),
            self.own(minutes(self.span)).clause()
        )
    }

    /// What it cost, and what it costs.
    pub(super) fn cost(&self) -> String {
        format!(
            "SELECT sum(cost_usd) AS cost_usd, max(usd_per_hour) AS usd_per_hour, string_agg(DISTINCT basis, ', ') AS basis, max(price_as_of) AS price_as_of\nFROM node_cost\n{}",
            self.own(minutes(self.span)).clause()
        )
    }

    /// The calls that waited longest for their first token.
    pub(super) fn slowest(&self) -> String {
        format!(
            "SELECT time, trace_id, span_id, region, host_id, model, tenant, status, queue_s, prefill_s, ttft_s, tpot_s, itl_max_s, e2e_s\nFROM requests\n{}\nORDER BY ttft_s DESC\nLIMIT {CALLS}",
            self.own(self.span).and_equal("measured_at", Some("server")).and("ttft_s IS NOT NULL".to_owned()).clause()
        )
    }

    /// What it logged last.
    pub(super) fn logs(&self) -> String {
        format!(
            "SELECT time, severity, severity_number, service, body, trace_id, span_id\nFROM logs\n{}\nORDER BY time DESC\nLIMIT 20",
            self.own(self.span).clause()
        )
    }
}
