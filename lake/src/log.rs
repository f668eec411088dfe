//! The log of a table: which files make up which version, and how far each journal has come.
//!
//! [`TableLog`] is the seam behind which the table format lies; [`delta`] is the one there is.

pub mod action;
pub mod delta;
pub mod schema;
pub mod state;

mod checkpoint;
mod stats;

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

    /// Writes a version if nobody has. After an error it may or may not have been written.
    ///
    /// # Errors
    /// `Denied`, `Unavailable`.
    async fn write(&self, version: i64, actions: &[Action]) -> Result<Written>;

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
