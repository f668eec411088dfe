//! Keeping logs short: a checkpoint every so many commits.
//!
//! Every writer looks after this, each at a distance of its own, so that the first to find one due spares the others the work.
//! Checkpoints are written if absent, so two at once do no harm.

use std::time::Duration;

use service::shutdown::Stage;
use service::{Deps, Result, error};
use uuid::Uuid;

use crate::head::Head;
use crate::lake::Lake;

/// Commits between two checkpoints. A reader that opens the table reads at most about this many log entries.
const COMMITS_PER_CHECKPOINT: i64 = 100;
/// Commits by which one process may be later than another.
const SPREAD: u64 = 50;
/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Lake {
    /// Looks after the logs in the background until shutdown, or until the lake is dropped.
    pub(crate) fn maintain(&self, deps: &Deps) {
        let (lake, stop) = (self.downgrade(), deps.shutdown.token(Stage::Query));
        let late = i64::try_from(Uuid::new_v4().as_u64_pair().0 % SPREAD).unwrap_or(0);
        deps.tasks.spawn("lake.maintain", async move {
            let work = async {
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    let Some(lake) = lake.upgrade() else { return };
                    lake.checkpoint_where_due(COMMITS_PER_CHECKPOINT + late).await;
                }
            };
            // Cancel safe: a checkpoint cut short is whole or not there.
            tokio::select! {
                () = work => (),
                () = stop.cancelled() => (),
            }
        });
    }

    async fn checkpoint_where_due(&self, distance: i64) {
        for head in self.heads() {
            if let Err(failed) = checkpoint_if_due(head, distance).await {
                let (table, error) = (head.table.name, error::chain(&failed));
                tracing::warn!(table, error, "no checkpoint was written; the log only grows longer");
            }
        }
    }

    /// Writes a checkpoint of a table's newest version now.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Invalid` for one without a version, `Corrupt`, `Unavailable`, `Internal`.
    pub async fn checkpoint(&self, table: &str) -> Result<()> {
        let head = &self.shelf(table)?.head;
        let version = head.lock().await?.state.version();
        checkpoint(head, version).await
    }
}

async fn checkpoint_if_due(head: &Head, distance: i64) -> Result<()> {
    let (version, mut last) = {
        let known = head.lock().await?;
        (known.state.version(), known.state.checkpoint())
    };
    if version - last.unwrap_or(-1) < distance {
        return Ok(());
    }
    last = last.max(head.log.newest_checkpoint().await?);
    if let Some(last) = last {
        head.lock().await?.state.set_checkpoint(last);
    }
    if version - last.unwrap_or(-1) < distance {
        return Ok(());
    }
    checkpoint(head, version).await
}

async fn checkpoint(head: &Head, version: i64) -> Result<()> {
    head.log.checkpoint(version).await?;
    head.lock().await?.state.set_checkpoint(version);
    tracing::debug!(table = head.table.name, version, "checkpoint");
    Ok(())
}

#[cfg(test)]
mod tests;
