//! Whether the log that commits go to is still the one that was read: a version can be written where all before it are gone, and
//! nobody could read it.

use std::time::Duration;

use service::clock::SharedClock;
use service::{Error, Result};

use crate::head::Head;
use crate::log::delta::RESTORE;

/// How often a table that is committed to is looked at. The looks cost a request each.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A version that was there when it was last looked for, and when the next look is due.
#[derive(Default)]
pub(super) struct Anchor {
    version: Option<i64>,
    due: Duration,
}

impl Anchor {
    /// Looks, if a look is due, whether the version that was the newest one at the last look is still there. `version` is the
    /// newest one that is known.
    ///
    /// # Errors
    /// `Unavailable` if it is gone and no checkpoint stands for it: what is committed would be lost.
    pub(super) async fn look(&mut self, head: &Head, version: i64, clock: &SharedClock) -> Result<()> {
        let now = clock.monotonic();
        if now < self.due || version < 0 {
            return Ok(());
        }
        if let Some(anchor) = self.version.filter(|anchor| *anchor <= version) {
            let is_there = match head.log.holds(anchor).await {
                // Versions before a checkpoint are removed in order.
                Ok(false) => {
                    head.log.newest_checkpoint().await.map(|newest| newest.is_some_and(|newest| newest >= anchor))
                }
                held => held,
            };
            match is_there {
                Ok(true) => {}
                Ok(false) => {
                    let table = head.table.name;
                    return Err(Error::unavailable(format!(
                        "version {anchor} of the log of table {table} was removed"
                    ))
                    .with_hint(format!("files of table {table} were removed from the lake; {RESTORE}")));
                }
                // A store that does not answer is asked again for the same version, or refuses the commit itself.
                Err(_) => {
                    self.due = now + LOOK_EVERY;
                    return Ok(());
                }
            }
        }
        (self.version, self.due) = (Some(version), now + LOOK_EVERY);
        Ok(())
    }
}
