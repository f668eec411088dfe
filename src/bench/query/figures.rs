//! What a run came to.

use serde_json::{Map, Value, json};

use super::peers::Answers;

/// One ad-hoc statement, milliseconds of the best run of each engine.
#[derive(Clone, Debug)]
pub(super) struct AdHoc {
    pub(super) name: &'static str,
    pub(super) ms: f64,
    pub(super) duckdb_ms: Option<f64>,
    pub(super) chdb_ms: Option<f64>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) scale: f64,
    pub(super) fleet_scale: f64,
    pub(super) threads: usize,
    /// Milliseconds of each run of each panel.
    pub(super) dashboard: Vec<(&'static str, Vec<f64>)>,
    /// Milliseconds of one request's timeline by a service just started.
    pub(super) timeline_ms: Vec<f64>,
    pub(super) adhoc: Vec<AdHoc>,
    pub(super) duckdb: Option<Answers>,
    pub(super) chdb: Option<Answers>,
}

impl Figures {
    /// One object.
    pub(super) fn json(&self) -> Value {
        let all: Vec<f64> = self.dashboard.iter().flat_map(|(_, ms)| ms.iter().copied()).collect();
        let panels = self.dashboard.iter().map(|(name, ms)| ((*name).to_owned(), json!(rounded(quantile(ms, 0.5)))));
        let adhoc = self.adhoc.iter().map(|run| {
            let figures = json!({"ms": rounded(Some(run.ms)), "duckdb_ms": rounded(run.duckdb_ms), "chdb_ms": rounded(run.chdb_ms)});
            (run.name.to_owned(), figures)
        });
        let chdb: Vec<_> = self.adhoc.iter().filter_map(|run| run.chdb_ms).collect();
        json!({
            "scale": self.scale,
            "fleet_scale": self.fleet_scale,
            "threads": self.threads,
            "dashboard_p95_ms": rounded(quantile(&all, 0.95)),
            "token_timeline_ms": rounded(quantile(&self.timeline_ms, 0.5)),
            "geomean_ms": rounded(geometric_mean(self.adhoc.iter().map(|run| Some(run.ms)))),
            "duckdb_geomean_ms": rounded(geometric_mean(self.adhoc.iter().map(|run| run.duckdb_ms))),
            "chdb_geomean_ms": rounded(geometric_mean(self.adhoc.iter().map(|run| run.chdb_ms))),
            "chdb_statements": self.chdb.as_ref().map(|_| chdb.len()),
            "duckdb_version": self.duckdb.as_ref().map(|peer| &peer.version),
            "chdb_version": self.chdb.as_ref().map(|peer| &peer.version),
            "dashboard": panels.collect::<Map<_, _>>(),
            "adhoc": adhoc.collect::<Map<_, _>>(),
        })
    }
}

/// The smallest value that so large a share of them does not exceed.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied()
}

/// Of the values that are known; none of no values.
fn geometric_mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let logs: Vec<_> = values.flatten().map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn rounded(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| (ms * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_quantiles() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0, 4.0], 0.95), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        let mean = geometric_mean([Some(2.0), None, Some(8.0)].into_iter()).unwrap();
        assert!((mean - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([None].into_iter()), None);
    }
}
