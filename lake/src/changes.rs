//! What versions of a table brought, for those who compute something from it and must know what to compute anew.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use service::Result;

use crate::lake::Lake;
use crate::log::state::file_of;
use crate::snapshot::File;

/// Log entries fetched at once.
const READ_AHEAD: usize = 16;

/// A file that came with rows, or without some that were there twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// Version that brought it.
    pub version: i64,
    /// The file; it may be gone again since.
    pub file: Arc<File>,
}

impl Lake {
    /// Files that the versions after `since` up to `until` changed a table's rows with, oldest first. Files that only hold the same
    /// rows in another order are left out. `None` if the log no longer has all of those versions.
    ///
    /// # Errors
    /// `NotFound` for an unknown table, `Corrupt`, `Unavailable`.
    pub async fn arrivals(&self, table: &str, since: i64, until: i64) -> Result<Option<Vec<Arrival>>> {
        let head = &self.shelf(table)?.head;
        let reads = (since.saturating_add(1)..=until)
            .map(|version| async move { head.log.read(version).await.map(|actions| (version, actions)) });
        let mut entries = stream::iter(reads).buffered(READ_AHEAD);
        let mut arrivals = Vec::new();
        while let Some((version, actions)) = entries.try_next().await? {
            let Some(actions) = actions else { return Ok(None) };
            for add in actions.into_iter().filter_map(|action| action.add).filter(|add| add.data_change) {
                arrivals.push(Arrival { version, file: Arc::new(file_of(head.table, &add)?) });
            }
        }
        Ok(Some(arrivals))
    }
}
