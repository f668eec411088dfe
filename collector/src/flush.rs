//! From durable frames to closed buffers to files: the task that gathers, and a lane per table that writes and commits.
//!
//! ```text
//! journal ─► gather ─┬─► lane requests ─► files ─► commit ─► cut the journal
//!                    ├─► lane tokens   …
//! ```
//! A lane keeps the order of its table's entries. When the lake does not answer a lane waits and tries again, its queue fills,
//! gathering stops, and senders are asked to wait: memory stays bounded and nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use service::channel::{Receiver, Sender};
use service::clock::SharedClock;
use service::error::{Error, Result};

use crate::batch::tables::Closed;
use crate::batch::{Frame, Gather};

/// Frames taken from the queue in one go.
const FRAMES_MAX: usize = 64;
/// How often buffers are looked at for their age.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The queues of the lanes, by table.
pub(crate) type Lanes = BTreeMap<&'static str, Sender<Closed>>;

/// Gathers frames until no more can come, then closes everything.
///
/// # Errors
/// `Internal` if gathering panics; `Cancelled` if a lane is gone.
pub(crate) async fn run(mut frames: Receiver<Frame>, gather: Gather, lanes: Lanes, clock: SharedClock) -> Result<()> {
    let mut gather = Some(gather);
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut taken = Vec::with_capacity(FRAMES_MAX);
    loop {
        // Cancel safe: frames not taken stay in the queue, and a tick that is missed comes again.
        let open = tokio::select! {
            count = frames.recv_many(&mut taken, FRAMES_MAX) => count > 0,
            _ = look.tick() => true,
        };
        let batch = std::mem::take(&mut taken);
        let Some(mut state) = gather.take() else { return Err(Error::internal("gathering lost its state")) };
        let now = clock.monotonic();
        // Rows are built off the I/O threads.
        let work = move || {
            batch.into_iter().for_each(|frame| state.take(frame, now));
            let closed = state.close(now, !open);
            (state, closed)
        };
        let (state, closed) = tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| Error::internal("gather rows").with_source(error))?;
        gather = Some(state);
        for closed in closed? {
            let lane = lanes.get(closed.table.name).ok_or_else(|| Error::internal("a table without a lane"))?;
            lane.send(closed).await?;
        }
        if !open {
            return Ok(());
        }
    }
}
