//! Load in the shape of a day: calls arrive at random, more of them in the afternoon than at night.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use service::shutdown::Stage;
use service::{Deps, Error, Result};
use tokio::sync::Semaphore;

use super::ask::{self, Application};
use super::fleet::Region;
use super::trace::Tracer;

/// Calls of one region that run at once; further ones are left out and counted. A healthy region has about 5; a slow one
/// is not buried, and finishes what it holds within the drain.
const CALLS_MAX: usize = 12;

/// How much load there is.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Calls per second over all regions, as the mean of a day.
    pub(crate) rate: f64,
    /// How long a day takes.
    pub(crate) day: Duration,
}

impl Shape {
    /// Calls per second in `region` when `since` has passed since midnight UTC.
    ///
    /// The mean over a day is the region's share of `rate`; the quietest hour (4 o'clock) has a third of the busiest.
    fn rate_at(&self, region: &Region, since: Duration) -> f64 {
        let hour = since.as_secs_f64() / self.day.as_secs_f64() * 24.0 + region.utc_offset_h;
        let wave = ((hour - 4.0) / 24.0 * std::f64::consts::TAU).cos();
        self.rate * region.share * (1.0 - 0.5 * wave)
    }
}

/// Starts the load of one region in the background. It stops at the first stage of its own shutdown; calls that run are finished.
pub(crate) fn spawn(region: Region, gateway: String, shape: Shape, otlp_endpoint: &str, deps: &Deps) -> Result<()> {
    let client = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(2))
        .read_timeout(Duration::from_secs(60))
        .build()
        .map_err(|error| Error::internal("set up the HTTP client").with_source(error))?;
    let tracer = Tracer::start(region.name, otlp_endpoint, deps)?;
    let application = Arc::new(Application { client, gateway, clock: deps.clock.clone(), tracer });
    let deps_of_task = deps.clone();
    deps.tasks.spawn(format!("demo.load {}", region.name), async move {
        generate(region, shape, application, deps_of_task).await;
    });
    Ok(())
}

async fn generate(region: Region, shape: Shape, application: Arc<Application>, deps: Deps) {
    let label = |outcome: &str| [("region", region.name.to_owned()), ("outcome", outcome.to_owned())];
    let help = "Calls of the demo's applications.";
    let [answered, failed, left_out] = ["answered", "failed", "left_out"]
        .map(|outcome| deps.metrics.counter("tokenwatt_demo_calls", help, &label(outcome)));
    let running = Arc::new(Semaphore::new(CALLS_MAX));
    let stop = deps.shutdown.token(Stage::Accept);
    // The day starts at noon on the east coast, when there is something to see.
    let start = deps.clock.monotonic();
    let noon = shape.day.mul_f64(17.0 / 24.0);
    let mut rng = StdRng::from_os_rng();
    loop {
        let rate = shape.rate_at(&region, noon + (deps.clock.monotonic() - start));
        tokio::select! {
            () = tokio::time::sleep(gap(rate, rng.random())) => {}
            () = stop.cancelled() => return,
        }
        let Ok(permit) = Arc::clone(&running).try_acquire_owned() else {
            left_out.inc();
            continue;
        };
        let drawn = ask::draw(&mut rng);
        let application = Arc::clone(&application);
        let (answered, failed) = (answered.clone(), failed.clone());
        let hold = deps.shutdown.hold(Stage::Streams, format!("demo.calls {}", region.name));
        deps.tasks.spawn("demo.call", async move {
            match application.ask(drawn).await {
                ask::Outcome::Answered => answered.inc(),
                ask::Outcome::Failed => failed.inc(),
            }
            drop((permit, hold));
        });
    }
}

/// Time until the next call of a Poisson process, for a uniform draw from 0 to 1; at most a minute.
fn gap(rate: f64, uniform: f64) -> Duration {
    let seconds = -(1.0 - uniform).ln() / rate;
    Duration::try_from_secs_f64(seconds.min(60.0)).unwrap_or(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::super::fleet::REGIONS;
    use super::*;

    /// A day's mean is what was asked for, and the afternoon has three times the night.
    #[test]
    fn a_day_has_its_mean_and_its_peak() {
        let shape = Shape { rate: 10.0, day: Duration::from_secs(2_400) };
        let region = REGIONS[2];
        let rates: Vec<f64> = (0..24).map(|hour| shape.rate_at(&region, Duration::from_secs(hour * 100))).collect();
        let mean = rates.iter().sum::<f64>() / 24.0;
        assert!((mean - 10.0 * region.share).abs() < 1e-9, "{mean}");
        assert!((rates[16] / rates[4] - 3.0).abs() < 1e-9, "{rates:?}");
    }

    /// Gaps have the mean of their rate and are never endless.
    #[test]
    fn gaps_follow_the_rate() {
        let mean = (0..10_000).map(|n| gap(5.0, (f64::from(n) + 0.5) / 10_000.0).as_secs_f64()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.2).abs() < 0.002, "{mean}");
        assert_eq!(gap(0.0, 0.5), Duration::from_secs(60));
        assert_eq!(gap(5.0, 1.0), Duration::from_secs(60));
    }
}
