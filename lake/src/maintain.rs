//! Keeping logs short: a checkpoint every so many commits.
//!
//! One process per lake does this; two that write the same checkpoint at once could hand readers a torn one.

use std::time::Duration;

use service::shutdown::Stage;
use service::{Deps, Result, error};

use crate::head::Head;
use crate::lake::Lake;

/// Commits between two checkpoints. A reader that opens the table reads at most about this many log entries.
const COMMITS_PER_CHECKPOINT: i64 = 100;
/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Lake {
    /// Runs maintenance in the background until shutdown. Exactly one process per lake calls this.
    pub fn maintain(&self, deps: &Deps) {
        let (lake, stop) = (self.clone(), deps.shutdown.token(Stage::Query));
        deps.tasks.spawn("lake.maintain", async move {
            // Cancel safe: a checkpoint cut short is not named by the log's hint, so nobody reads it.
            tokio::select! {
                () = lake.maintain_for_ever() => (),
                () = stop.cancelled() => (),
            }
        });
    }

    async fn maintain_for_ever(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for head in self.heads() {
                if let Err(failed) = checkpoint_if_due(head).await {
                    let (table, error) = (head.table.name, error::chain(&failed));
                    tracing::warn!(table, error, "no checkpoint was written; the log only grows longer");
                }
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

async fn checkpoint_if_due(head: &Head) -> Result<()> {
    let (version, last) = {
        let known = head.lock().await?;
        (known.state.version(), known.state.checkpoint())
    };
    if version - last.unwrap_or(-1) < COMMITS_PER_CHECKPOINT {
        return Ok(());
    }
    checkpoint(head, version).await
}

async fn checkpoint(head: &Head, version: i64) -> Result<()> {
    head.log.checkpoint(version).await?;
    head.lock().await?.state.set_checkpoint(version);
    Ok(())
}
