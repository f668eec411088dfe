//! The fleet's series on `/metrics`, computed once a minute over the last closed minute.
//!
//! Counters add each closed minute once and never fall; gauges say what the last closed minute was. What has no data is
//! absent, not 0. A family has a bounded number of label sets.

mod measure;
mod bound;
mod heard;
mod series;
mod standing;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{HeaderMap, header},
    routing::get,
};
use parking_lot::Mutex;
pub(crate) use service::metrics::Exemplars;
use service::{metrics::CONTENT_TYPE, shutdown::Stage};
use telemetry::contract::ApiError;

use crate::execute::Engine;
use bound::Bound;
use heard::Heard;
use series::Series;
use standing::Standing;

/// Microseconds in a minute.
const MINUTE_US: i64 = 60_000_000;
/// Minutes made up for after a time without answers; older ones stay uncounted, which a counter may, twice counted it may not.
const CATCH_UP_MINUTES: i64 = 10;
/// How often budgets and bills are looked at.
const STANDING_EVERY: Duration = Duration::from_secs(300);
/// When they are looked at first: a process that starts has more urgent questions to answer.
const STANDING_AFTER: Duration = Duration::from_secs(20);
/// Tables whose newest row says how fresh the fleet's data is.
const LIVE: [&str; 3] = ["requests", "tokens", "devices"];

/// The fleet's series. Clones share them.
#[derive(Clone)]
pub(crate) struct Fleet {
    engine: Arc<Engine>,
    bound: Arc<Mutex<Bound>>,
    series: Arc<Mutex<Series>>,
    /// How budgets and bills stand, what is odd and what is silent.
    standing: Arc<Mutex<Standing>>,
    /// Until when each region was heard of.
    heard: Arc<Mutex<Heard>>,
}

impl Fleet {
    /// Starts to count with the minute that runs now.
    pub(crate) fn start(engine: Arc<Engine>) -> Fleet {
        let bound = Arc::new(Mutex::new(Bound::new(engine.config.metrics_series_max)));
        let fleet = Fleet { engine, bound, series: Arc::default(), standing: Arc::default(), heard: Arc::default() };
        let (counting, stop) = (fleet.clone(), fleet.engine.deps.shutdown.token(Stage::Query));
        fleet.engine.deps.tasks.spawn("query.fleet", async move {
            // Cancel safe: a minute is added in one step, after all of it was asked.
            tokio::select! {
                () = counting.count_minutes() => (),
                () = stop.cancelled() => (),
            }
        });
        let (looking, stop) = (fleet.clone(), fleet.engine.deps.shutdown.token(Stage::Query));
        fleet.engine.deps.tasks.spawn("query.budgets", async move {
            // Cancel safe: what was known stays until all of it was asked again.
            tokio::select! {
                () = looking.look_at_budgets() => (),
                () = stop.cancelled() => (),
            }
        });
        fleet
    }

    /// Route `/metrics`: the fleet's series, then the process's own.
    pub(crate) fn router(&self) -> Router {
        let fleet = self.clone();
        let page = move |headers: HeaderMap| {
            let fleet = fleet.clone();
            async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], fleet.page(Exemplars::asked(&headers)).await) }
        };
        service::principal::require_everything(Router::new().route("/metrics", get(page)))
    }

    async fn count_minutes(&self) {
        let settle_us = i64::try_from(self.engine.config.settle_seconds).unwrap_or(0) * 1_000_000;
        let mut next = self.engine.deps.clock.now_us().div_euclid(MINUTE_US);
        loop {
            let due_us = (next + 1) * MINUTE_US + settle_us;
            let wait_us = due_us - self.engine.deps.clock.now_us();
            if wait_us > 0 {
                tokio::time::sleep(Duration::from_micros(wait_us.unsigned_abs())).await;
                continue;
            }
            match self.add(next).await {
                Ok(()) => next += 1,
                Err(error) => {
                    tracing::warn!(
                        kind = error.kind,
                        error = error.message,
                        "fleet series lack a minute, will ask again"
                    );
                    let oldest = self.engine.deps.clock.now_us().div_euclid(MINUTE_US) - CATCH_UP_MINUTES;
                    next = next.max(oldest);
                    tokio::time::sleep(Duration::from_secs(5)).await;
                }
            }
        }
    }

    /// Adds one closed minute, given as minutes since 1970-01-01 UTC.
    pub(crate) async fn add(&self, minute: i64) -> Result<(), ApiError> {
        let measured = measure::minute(&self.engine, minute * MINUTE_US).await?;
        let (measured, folded) = {
            let mut bound = self.bound.lock();
            (bound.fold(measured), bound.folded())
        };
        let help =
            "Label sets of the fleet's series beyond query.metrics_series_max, which are added up as `__other__`.";
        self.engine.deps.metrics.gauge("tokenwatt_query_series_folded", help, &[]).set(folded as f64);
        self.heard.lock().take(&measured, (minute + 1) * MINUTE_US);
        self.series.lock().add(minute, measured);
        Ok(())
    }

    async fn look_at_budgets(&self) {
        tokio::time::sleep(STANDING_AFTER).await;
        loop {
            self.stand().await;
            tokio::time::sleep(STANDING_EVERY).await;
        }
    }

    /// Looks at budgets and bills, at what is odd and at what is silent.
    pub(crate) async fn stand(&self) {
        match standing::regions(&self.engine).await {
            Ok(regions) => regions.into_iter().for_each(|(region, until_us)| self.heard.lock().learn(region, until_us)),
            Err(error) => {
                tracing::warn!(kind = error.kind, error = error.message, "regions cannot be asked, will ask again")
            }
        }
        let engine = &self.engine;
        let found = [
            standing::budgets(engine).await,
            standing::bills(engine).await,
            standing::anomalies(engine).await,
            standing::silence(engine).await,
        ];
        let found = found.map(|found| {
            let failed = |error: &ApiError| {
                tracing::warn!(
                    kind = error.kind,
                    error = error.message,
                    "budgets, bills, anomalies or silent hosts cannot be asked, will ask again"
                );
            };
            found.inspect_err(failed).ok()
        });
        self.standing.lock().take(found, self.engine.deps.clock.now_us());
    }

    /// The whole text.
    pub(crate) async fn page(&self, exemplars: Exemplars) -> String {
        let lag_s = self.lag_s().await;
        let mut text = self.series.lock().render(lag_s, exemplars);
        text.push_str(&self.heard.lock().render(self.engine.deps.clock.now_us()));
        text.push_str(&self.standing.lock().render());
        text.push_str(&self.engine.deps.metrics.render_open(exemplars));
        text.push_str("# EOF\n");
        text
    }

    /// Seconds since the newest event of any live table; `None` before there is one.
    async fn lag_s(&self) -> Option<f64> {
        let mut newest = None;
        for table in LIVE {
            if let Ok(snapshots) = self.engine.reading.newest(table).await {
                newest = snapshots.iter().map(|(_, snapshot)| snapshot.newest_time_us).fold(newest, Option::max);
            }
        }
        newest.map(|us| (self.engine.deps.clock.now_us().saturating_sub(us)) as f64 / 1e6)
    }
}
