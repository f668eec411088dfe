//! A reader that asks for the newest version all the time, and notes when it saw how many rows of each journal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lake::{Lake, Snapshot};
use parking_lot::Mutex;
use service::error::{Error, Result};
use telemetry::table::TOKENS;

/// How often the reader asks; the error of the figures.
const POLL: Duration = Duration::from_millis(50);

/// What was sent to one collector.
pub(super) struct Sent {
    /// Its journal.
    pub(super) journal: String,
    /// When each body was sent, and how many tokens are in it.
    pub(super) bodies: Vec<(Instant, u64)>,
}

/// What became of it.
pub(super) struct Seen {
    /// Time from sending to seeing, one for each body that was seen, ascending.
    lags: Vec<Duration>,
    /// Token rows at the end.
    pub(super) rows: u64,
}

/// Rows seen of one journal, over time.
type Growth = Vec<(Instant, u64)>;

pub(super) struct Reader {
    lake: Lake,
    growth: Arc<Mutex<HashMap<String, Growth>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Reader {
    pub(super) fn start(lake: Lake) -> Reader {
        let growth: Arc<Mutex<HashMap<String, Growth>>> = Arc::default();
        let task = tokio::spawn(follow(lake.clone(), Arc::clone(&growth)));
        Reader { lake, growth, task }
    }

    /// Waits until all that was sent can be seen, or patience ends.
    pub(super) async fn until(self, sent: &[Sent], patience: Duration) -> Result<Seen> {
        let total: u64 = sent.iter().flat_map(|sent| &sent.bodies).map(|(_, tokens)| tokens).sum();
        let deadline = Instant::now() + patience;
        let rows = loop {
            let snapshot = self.lake.snapshot(TOKENS.name, None).await?;
            let rows = snapshot.rows().ok_or_else(|| Error::corrupt("a file of tokens has no row count"))?;
            if rows >= total || Instant::now() > deadline {
                break rows;
            }
            tokio::time::sleep(POLL).await;
        };
        // The last growth is noted by the other task.
        tokio::time::sleep(4 * POLL).await;
        self.task.abort();
        let growth = self.growth.lock();
        let mut lags: Vec<_> =
            sent.iter().flat_map(|sent| lags(sent, growth.get(&sent.journal).map_or(&[], Vec::as_slice))).collect();
        lags.sort_unstable();
        Ok(Seen { lags, rows })
    }
}

impl Seen {
    /// Seconds within which this share of bodies was seen; unknown if none was.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        let rank = (self.lags.len() as f64 * share).ceil() as usize;
        self.lags.get(rank.saturating_sub(1)).map(|lag| (lag.as_secs_f64() * 1_000.0).round() / 1_000.0)
    }
}

async fn follow(lake: Lake, growth: Arc<Mutex<HashMap<String, Growth>>>) {
    loop {
        // An unreadable log is told by `until`, which reads it too.
        if let Ok(snapshot) = lake.snapshot(TOKENS.name, None).await {
            note(&snapshot, Instant::now(), &mut growth.lock());
        }
        tokio::time::sleep(POLL).await;
    }
}

fn note(snapshot: &Snapshot, now: Instant, growth: &mut HashMap<String, Growth>) {
    let mut rows: HashMap<&str, u64> = HashMap::new();
    for file in &snapshot.files {
        // `{journal}-{from}-{to}-{random}.parquet`
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if let Some(journal) = name.rsplitn(4, '-').nth(3) {
            *rows.entry(journal).or_default() += file.rows.unwrap_or(0);
        }
    }
    for (journal, rows) in rows {
        let known = growth.entry(journal.to_owned()).or_default();
        if known.last().is_none_or(|(_, last)| rows > *last) {
            known.push((now, rows));
        }
    }
}

/// A collector's rows become visible in the order in which it received them.
fn lags(sent: &Sent, growth: &[(Instant, u64)]) -> Vec<Duration> {
    let mut through = 0;
    let seen = sent.bodies.iter().filter_map(|(at, tokens)| {
        through += tokens;
        let (visible, _) = growth.iter().find(|(_, rows)| *rows >= through)?;
        Some(visible.saturating_duration_since(*at))
    });
    seen.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_seen_when_all_rows_up_to_its_last_are() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let sent = Sent { journal: "j".to_owned(), bodies: vec![(at(0), 10), (at(1), 10), (at(2), 10)] };
        let growth = [(at(3), 15), (at(5), 25)];
        let lags = lags(&sent, &growth);
        assert_eq!(lags, [Duration::from_secs(3), Duration::from_secs(4)], "the third is not seen at all");
        let seen = Seen { lags, rows: 25 };
        assert_eq!((seen.percentile(0.5), seen.percentile(1.0)), (Some(3.0), Some(4.0)));
        assert_eq!(Seen { lags: Vec::new(), rows: 0 }.percentile(0.5), None);
    }
}
