//! One lake among several: opened when it is first asked, and left alone for a while after it did not answer.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use lake::{File, Lake, Snapshot};
use parking_lot::Mutex;
use service::{Deps, Error, Result, error};
use tokio::{sync::OnceCell, time::timeout};

use super::LakeAt;
use crate::rollup::Memory;

/// How long a lake that did not answer is taken to be down without being asked again.
const PAUSE: Duration = Duration::from_secs(10);

/// One lake among several.
pub(crate) struct Site {
    at: LakeAt,
    deps: Deps,
    /// How long it may take to name a table's version.
    wait: Duration,
    lake: OnceCell<Lake>,
    down: Mutex<Option<Down>>,
    shown: Mutex<BTreeMap<&'static str, Shown>>,
    windows: Memory,
}

/// That it did not answer: when, on the clock's monotonic scale, and what it said.
#[derive(Clone)]
struct Down {
    since: Duration,
    why: String,
}

/// A table's files under the paths by which the federation knows them, by their path in the lake.
struct Shown {
    snapshot: Arc<Snapshot>,
    files: HashMap<String, Arc<File>>,
}

impl Site {
    pub(super) fn new(
        at: LakeAt,
        opened: Option<Lake>,
        wait: Duration,
        retention_days: &BTreeMap<String, u32>,
        deps: &Deps,
    ) -> Site {
        let windows = Memory::of_reader(retention_days.clone());
        let (down, shown) = (Mutex::default(), Mutex::default());
        Site { at, deps: deps.clone(), wait, lake: OnceCell::new_with(opened), down, shown, windows }
    }

    pub(crate) fn name(&self) -> &str {
        &self.at.name
    }

    /// Regions whose rows it holds; none: it may hold any.
    pub(super) fn regions(&self) -> &[String] {
        &self.at.regions
    }

    /// Whether it is behind a network.
    pub(super) fn is_remote(&self) -> bool {
        self.at.url.contains("://") && !self.at.url.starts_with("file://")
    }

    /// What is remembered of the logs that its roll-ups are computed from.
    pub(crate) fn windows(&self) -> &Memory {
        &self.windows
    }

    /// The lake, opened if it is not yet.
    ///
    /// # Errors
    /// As [`Lake::open_read_only`].
    pub(crate) async fn lake(&self) -> Result<&Lake> {
        self.lake.get_or_try_init(|| Lake::open_read_only(&self.at.url, &self.deps)).await
    }

    /// A table's version, or its newest. One that takes too long, or fails, makes the lake one that is down.
    ///
    /// # Errors
    /// As [`Lake::snapshot`]; `Unavailable` while it is down.
    pub(super) async fn snapshot(&self, table: &str, version: Option<i64>) -> Result<Arc<Snapshot>> {
        if let Some(why) = self.why_down() {
            return Err(Error::unavailable(why));
        }
        let asked = async { self.lake().await?.snapshot(table, version).await };
        let outcome = timeout(self.wait, asked).await.unwrap_or_else(|_| {
            Err(Error::unavailable(format!("no answer within {} s (query.lake_wait_ms)", self.wait.as_secs_f64())))
        });
        // A version that is gone says nothing of the lake.
        if let (Err(failed), None) = (&outcome, version) {
            self.failed(error::chain(failed));
        }
        outcome
    }

    /// Why it is taken to be down.
    pub(super) fn why_down(&self) -> Option<String> {
        let now = self.deps.clock.monotonic();
        let down = self.down.lock();
        down.as_ref().filter(|down| now.saturating_sub(down.since) < PAUSE).map(|down| down.why.clone())
    }

    /// It did not answer.
    pub(super) fn failed(&self, why: String) {
        tracing::warn!(lake = self.at.name, why, "a lake cannot be read; queries answer without it");
        *self.down.lock() = Some(Down { since: self.deps.clock.monotonic(), why });
    }

    /// The snapshot with its files under the lake's name, by which they are told from those of other lakes.
    pub(crate) fn shown(&self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        let mut shown = self.shown.lock();
        let known = shown.remove(snapshot.table.name);
        let mut old = match known {
            Some(known) if known.snapshot.version == snapshot.version => {
                let same = Arc::clone(&known.snapshot);
                shown.insert(snapshot.table.name, known);
                return same;
            }
            Some(known) => known.files,
            None => HashMap::new(),
        };
        let named = |file: &Arc<File>| {
            let again = || Arc::new(File { path: format!("{}/{}", self.at.name, file.path), ..file.as_ref().clone() });
            (file.path.clone(), old.remove(&file.path).unwrap_or_else(again))
        };
        let files: Vec<(String, Arc<File>)> = snapshot.files.iter().map(named).collect();
        let listed = files.iter().map(|(_, file)| Arc::clone(file)).collect();
        let renamed = Arc::new(Snapshot { files: listed, ..snapshot.as_ref().clone() });
        let entry = Shown { snapshot: Arc::clone(&renamed), files: files.into_iter().collect() };
        shown.insert(snapshot.table.name, entry);
        renamed
    }
}
