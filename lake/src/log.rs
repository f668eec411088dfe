//! The log of a table: which files make up which version, and how far each journal has come.
//!
//! [`TableLog`] is the seam behind which the table format lies; [`delta`] is the one there is.

pub mod action;
pub mod delta;
pub mod schema;
pub mod state;

mod checkpoint;
mod fold;
pub(crate) mod stats;

use std::collections::HashMap;

use async_trait::async_trait;
use service::Result;

pub use action::Action;
pub use state::State;

/// What became of an attempt to write a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The version is ours.
    Ours,
    /// Somebody else wrote that version first.
    Taken,
}

/// The versions of one table.
#[async_trait]
pub trait TableLog: Send + Sync {
    /// The state at a version, or the newest one. `None` if the table does not exist.
    ///
    /// # Errors
    /// `NotFound` for a version that is not there (any more), `Corrupt`, `Unavailable`.
    async fn load(&self, at: Option<i64>) -> Result<Option<State>>;

    /// What one version changed; `None` while it does not exist.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    async fn read(&self, version: i64) -> Result<Option<Vec<Action>>>;

    /// Whether a version's entry is there.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn holds(&self, version: i64) -> Result<bool>;

    /// Writes a version if nobody has. After an error it may or may not have been written.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    async fn write(&self, version: i64, actions: &[Action]) -> Result<Written>;

    /// Files that were removed and not forgotten yet, by path relative to the lake, with the time in milliseconds since
    /// 1970-01-01 UTC.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    async fn removed(&self) -> Result<HashMap<String, i64>>;

    /// Deletes entries and checkpoints that no version needs which was the newest one at `since_ms` or later, milliseconds since
    /// 1970-01-01 UTC by the store's clock; at most `most` objects. Returns how many.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    async fn clean_up(&self, since_ms: i64, most: usize) -> Result<usize>;

    /// The newest checkpoint that the log's note names.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn newest_checkpoint(&self) -> Result<Option<i64>>;

    /// Folds the log up to a version into a checkpoint, so that readers start there. Several processes may do so at once.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`, `Internal`.
    async fn checkpoint(&self, version: i64) -> Result<()>;
}
