//! From durable frames to closed buffers: the task that gathers. A lane per table writes and commits what it closes.
//!
//! ```text
//! feed ─► gather ─┬─► lane requests ─► files ─► commit ─► cut the journal
//!                 ├─► lane tokens   …
//! ```
//! A lane keeps the order of its table's entries. When the lake does not answer a lane waits and tries again, its queue fills
//! and gathering stops: memory stays bounded, and what comes in meanwhile stays in the journal.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use service::channel::Sender;
use service::clock::SharedClock;
use service::error::{Error, Result};
use service::task::blocking;

use crate::batch::tables::Closed;
use crate::batch::{Frame, Gather};
use crate::feed::Feed;
use crate::feed::brake::{Brake, LAG};
use crate::land::Halt;

/// How often buffers are looked at for their age.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The queues of the lanes, by table.
pub(crate) type Lanes = BTreeMap<&'static str, Sender<Closed>>;

/// Gathers frames until no more can come, then closes everything.
///
/// # Errors
/// A frame that gives no rows, or what ended a lane.
pub(crate) async fn run(feed: &mut Feed, gather: Gather, lanes: Lanes, clock: SharedClock) -> Result<(), Halt> {
    let mut gather = gather;
    let mut look = clock.sleep(LOOK_EVERY);
    loop {
        // Cancel safe: nothing is taken here, and the wait for the next look goes on.
        let open = tokio::select! {
            biased;
            () = &mut look => {
                look = clock.sleep(LOOK_EVERY);
                None
            }
            open = feed.ready() => Some(open),
        };
        let frames = match open {
            Some(true) => feed.take().await?,
            _ => Vec::new(),
        };
        let (now, all) = (clock.monotonic(), open == Some(false));
        let received_us = frames.last().map(|frame| frame.received_us);
        // Rows are built off the I/O threads.
        let work = move || rows(gather, frames, now, all);
        let closed;
        (gather, closed) = blocking("gather rows", work).await??;
        // The memory of what was taken is free now.
        if let Some(received_us) = received_us {
            feed.brake().made(received_us, clock.now_us());
        }
        feed.brake().set();
        for closed in closed {
            let lane = lanes.get(closed.table.name).ok_or_else(|| Error::internal("a table without a lane"))?;
            hand_over(closed, lane, feed.brake(), &clock).await?;
        }
        if all {
            return Ok(());
        }
    }
}

/// Hands a buffer to its lane, which has no room while the lake does not answer.
async fn hand_over(closed: Closed, lane: &Sender<Closed>, brake: &Brake, clock: &SharedClock) -> Result<()> {
    let mut sent = pin!(lane.send(closed));
    // Cancel safe: the same send goes on after the look at the clock.
    tokio::select! {
        biased;
        sent = &mut sent => return sent,
        () = clock.sleep(LAG) => brake.lake_lags(true),
    }
    let sent = sent.await;
    brake.lake_lags(false);
    sent
}

fn rows(mut gather: Gather, frames: Vec<Frame>, now: Duration, all: bool) -> Result<(Gather, Vec<Closed>), Halt> {
    let mut closed = Vec::new();
    for frame in frames {
        let number = frame.number;
        let poison = |reason: String| Halt::Poison { frame: number, reason };
        match catch_unwind(AssertUnwindSafe(|| gather.take(frame, now))) {
            Ok(taken) => taken.map_err(|error| poison(error.to_string()))?,
            Err(_) => return Err(poison("turning it into rows panicked".to_owned())),
        }
        // After each, so that buffers stay near their limit whatever comes together.
        closed.extend(gather.close(now, false)?);
    }
    closed.extend(gather.close(now, all)?);
    Ok((gather, closed))
}
