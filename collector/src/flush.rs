//! From durable frames to closed buffers: the task that gathers. A lane per table writes and commits what it closes.
//!
//! ```text
//! feed ─► gather ─┬─► lane requests ─► files ─► commit ─► cut the journal
//!                 ├─► lane tokens   …
//! ```
//! A lane keeps the order of its table's entries. When the lake does not answer a lane waits and tries again, its queue fills
//! and gathering stops: memory stays bounded, and what comes in meanwhile stays in the journal.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
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
use crate::receive::admit::Budget;

/// How often buffers are looked at for their age.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The queues of the lanes, by table.
pub(crate) type Lanes = BTreeMap<&'static str, Sender<Closed>>;

/// Where closed buffers go.
pub(crate) struct Ways {
    /// The queues of the lanes.
    pub(crate) lanes: Lanes,
    /// Memory for closed rows until they are files: a lane that has to wait for it makes gathering wait.
    pub(crate) memory: Budget,
    /// Source of time.
    pub(crate) clock: SharedClock,
}

/// Gathers frames until no more can come, then closes everything.
///
/// # Errors
/// A frame that gives no rows, or what ended a lane.
pub(crate) async fn run(feed: &mut Feed, gather: Gather, ways: Ways) -> Result<(), Halt> {
    let clock = Arc::clone(&ways.clock);
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
        let mut frames = match open {
            Some(true) => VecDeque::from(feed.take().await?),
            _ => VecDeque::new(),
        };
        let all = open == Some(false);
        loop {
            if let Some(frame) = frames.pop_front_if(|frame| frame.tries.is_some()) {
                gather = ventured(feed, gather, frame, &ways).await?;
                continue;
            }
            (gather, frames) = gathered(feed, gather, frames, all, &ways).await?;
            if frames.is_empty() {
                break;
            }
        }
        if all {
            return Ok(());
        }
    }
}

/// Turns frames into rows and hands on what closes; returns the frames that are left once something closed, so that closed rows
/// do not heap up, and those from one on that is a venture.
async fn gathered(
    feed: &Feed,
    gather: Gather,
    frames: VecDeque<Frame>,
    all: bool,
    ways: &Ways,
) -> Result<(Gather, VecDeque<Frame>), Halt> {
    let (gather, closed, frames) = made(feed, gather, frames, all, ways).await?;
    ways.hand_over_all(closed, feed.brake()).await?;
    Ok((gather, frames))
}

/// Turns frames into rows, until something closes.
async fn made(feed: &Feed, gather: Gather, frames: VecDeque<Frame>, all: bool, ways: &Ways) -> Result<Rows, Halt> {
    let now = ways.clock.monotonic();
    let received_us = frames.back().map(|frame| frame.received_us);
    // Rows are built off the I/O threads.
    let work = move || rows(gather, frames, now, all);
    let rows = blocking("gather rows", work).await??;
    // The memory of what was taken is free now.
    if let Some(received_us) = received_us {
        feed.brake().made(received_us, ways.clock.now_us());
    }
    feed.brake().set();
    Ok(rows)
}

/// Turns a large frame that was read back into rows. That it is about to be tried is on disk before, so that a process which does
/// not survive it is known by those after it. One that was tried before is alone with its rows: nothing else is held against
/// it, and it is held against nothing else.
async fn ventured(feed: &Feed, gather: Gather, mut frame: Frame, ways: &Ways) -> Result<Gather, Halt> {
    let (number, tries) = (frame.number, frame.tries.take().unwrap_or_default());
    let mut gather = gather;
    if tries > 0 {
        tracing::warn!(
            frame = number,
            tries,
            "a process ended while it turned this body into rows; it is tried again alone"
        );
        (gather, _) = gathered(feed, gather, VecDeque::new(), true, ways).await?;
        ways.committed(&gather).await;
    }
    // A full disk must not keep rows from being committed, which is what makes room.
    if let Err(error) = feed.note_try(number).await {
        tracing::warn!(frame = number, error = service::error::chain(&error), "a try could not be noted");
    }
    let (gather, closed, _) = made(feed, gather, VecDeque::from([frame]), tries > 0, ways).await?;
    // What ends a process from here on, such as a lake that takes nothing until somebody restarts it, is no fault of the body.
    if let Err(error) = feed.forget_try(number).await {
        tracing::warn!(frame = number, error = service::error::chain(&error), "a try is still noted");
    }
    ways.hand_over_all(closed, feed.brake()).await?;
    if tries > 0 {
        ways.committed(&gather).await;
    }
    Ok(gather)
}

impl Ways {
    async fn hand_over_all(&self, closed: Vec<Closed>, brake: &Brake) -> Result<()> {
        for closed in closed {
            self.hand_over(closed, brake).await?;
        }
        Ok(())
    }

    /// Hands a buffer to its lane. Neither memory nor lane has room while the lake does not answer.
    async fn hand_over(&self, mut closed: Closed, brake: &Brake) -> Result<()> {
        let lane = self.lanes.get(closed.table.name).ok_or_else(|| Error::internal("a table without a lane"))?;
        let memory = self.memory.wait(closed.bytes);
        // Rows give their memory back when they are files: where files are written, the lake keeps up, however long this one waits.
        closed.held = Some(self.lagging(memory, || self.memory.returned(), brake).await);
        self.lagging(lane.send(closed), || 0, brake).await
    }

    /// Waits for `room`, and tells the brake that the lake lags once nothing moved on for [`LAG`], as `progress` counts it.
    async fn lagging<T>(&self, room: impl Future<Output = T>, progress: impl Fn() -> u64, brake: &Brake) -> T {
        let mut room = pin!(room);
        let mut before = progress();
        loop {
            // Cancel safe: the same wait goes on after the look at the clock.
            tokio::select! {
                biased;
                room = &mut room => return room,
                () = self.clock.sleep(LAG) => {}
            }
            let now = progress();
            if now == before {
                break;
            }
            before = now;
        }
        brake.lake_lags(true);
        let room = room.await;
        brake.lake_lags(false);
        room
    }

    /// Waits until all that was gathered is committed; its rows are in the lanes.
    async fn committed(&self, gather: &Gather) {
        while !gather.is_committed() {
            self.clock.sleep(LOOK_EVERY).await;
        }
    }
}

type Rows = (Gather, Vec<Closed>, VecDeque<Frame>);

fn rows(mut gather: Gather, mut frames: VecDeque<Frame>, now: Duration, all: bool) -> Result<Rows, Halt> {
    let mut closed = Vec::new();
    while let Some(frame) = frames.pop_front_if(|frame| frame.tries.is_none() && closed.is_empty()) {
        let number = frame.number;
        let poison = |reason: String| Halt::Poison { frame: number, reason };
        match catch_unwind(AssertUnwindSafe(|| gather.take(frame, now))) {
            Ok(taken) => taken.map_err(|error| poison(error.to_string()))?,
            Err(_) => return Err(poison("turning it into rows panicked".to_owned())),
        }
        // After each, so that buffers stay near their limit whatever comes together.
        closed.extend(gather.close(now, false)?);
    }
    closed.extend(gather.close(now, all && frames.is_empty())?);
    Ok((gather, closed, frames))
}

#[cfg(test)]
mod tests;
