//! Resident memory of the collector over time, from `/proc`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::server;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Looks at a process until dropped.
pub(super) struct Memory {
    samples: Arc<Mutex<Samples>>,
    task: tokio::task::JoinHandle<()>,
}

impl Memory {
    /// Starts to look at a process.
    pub(super) fn watch(pid: u32) -> Self {
        let samples: Arc<Mutex<Samples>> = Arc::default();
        let noted = Arc::clone(&samples);
        let task = tokio::spawn(async move {
            // It ends with the process, or when dropped.
            while let Ok(mb) = server::rss_mb(pid) {
                noted.lock().0.push((Instant::now(), mb));
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { samples, task }
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> Samples {
        self.samples.lock().clone()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// When, and how many MiB.
#[derive(Clone, Default)]
pub(super) struct Samples(Vec<(Instant, f64)>);

impl Samples {
    /// The median from one time to another; nothing if it was not looked at meanwhile.
    pub(super) fn median(&self, from: Instant, until: Instant) -> Option<f64> {
        let mut within: Vec<f64> = self.within(from, until).collect();
        within.sort_unstable_by(f64::total_cmp);
        within.get(within.len() / 2).copied()
    }

    /// The most in that time.
    pub(super) fn most(&self, from: Instant, until: Instant) -> Option<f64> {
        self.within(from, until).max_by(f64::total_cmp)
    }

    fn within(&self, from: Instant, until: Instant) -> impl Iterator<Item = f64> {
        let within = move |at: &Instant| (from..until).contains(at);
        self.0.iter().filter(move |(at, _)| within(at)).map(|(_, mb)| *mb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_their_time_alone() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let samples = Samples((0..10).map(|second| (at(second), (second * second) as f64)).collect());
        assert_eq!(samples.median(at(2), at(5)), Some(9.0));
        assert_eq!(samples.most(at(2), at(5)), Some(16.0));
        assert_eq!(samples.median(at(20), at(30)), None);
    }
}
