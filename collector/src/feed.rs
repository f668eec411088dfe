//! What is durable on its way to rows, in order: from memory while the lake keeps up, read back from the journal when it
//! does not, or after a start.
//!
//! ```text
//! journal ─┬─► memory (bounded) ─┬─► gather
//!          └─► disk ─────────────┘
//! ```
//! The journal's side never waits for the rows' side. An outage of the lake costs disk, not memory, and senders do not notice
//! it until the journal's room is used up. While the lake keeps up, the brake keeps bodies from coming faster than they become
//! rows, so that few have to be read back.

pub(crate) mod brake;

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use service::channel::{Receiver, Sender, bounded};
use service::error::{Error, Result, chain};
use service::task::blocking;
use tokio::sync::watch;

use self::brake::Brake;
use crate::batch::Frame;
use crate::config::BODY_MAX;
use crate::counters::Counters;
use crate::journal::{Cursor, Journal, Read, Stored};
use crate::receive;
use crate::receive::admit::{Budget, Line};

/// Bodies kept in memory on their way to rows, however small they are.
const FRAMES_MAX: usize = 4_096;
/// Bodies handed over in one go.
const TAKEN_MAX: usize = 64;
/// Bodies from this size on could become more rows than there is memory for, if something were wrong with them: a row of two
/// bytes takes 128. A body that was acknowledged by a version which did not reckon with that may be one.
const LARGE_BYTES: usize = 4 << 20;
/// How many processes may end while they turn a body into rows before it is set aside.
const DEATHS_MAX: u32 = 4;
/// Inflated bytes read back from disk in one go, give or take a body.
const READ_BYTES: usize = 16 << 20;

/// Where durable bodies go.
pub struct Outlet {
    queue: Sender<Frame>,
    memory: Budget,
    last: watch::Sender<u64>,
    brake: Arc<Brake>,
}

/// Where durable bodies come from.
pub(crate) struct Feed {
    queue: Receiver<Frame>,
    /// A frame from the queue before which others must be read back.
    ahead: Option<Frame>,
    last: watch::Receiver<u64>,
    journal: Arc<Mutex<Journal>>,
    cursor: Option<Cursor>,
    /// The frame to hand over next.
    next: u64,
    /// The frame after the last one that was said to be damaged.
    reported: u64,
    counters: Counters,
    brake: Arc<Brake>,
}

/// A feed of the journal's frames. `memory` bounds the bodies that it keeps; the others stay on disk. `line` is held while half of
/// it is taken, by the rules of the brake.
pub(crate) fn feed(journal: &Arc<Mutex<Journal>>, memory: Budget, line: Line, counters: Counters) -> (Outlet, Feed) {
    let (sender, queue) = bounded("collector.gather", FRAMES_MAX);
    let (durable, last) = watch::channel(journal.lock().last());
    let brake = Arc::new(Brake::new(line, memory.clone()));
    let journal = Arc::clone(journal);
    (
        Outlet { queue: sender, memory, last: durable, brake: Arc::clone(&brake) },
        Feed { queue, ahead: None, last, journal, cursor: None, next: 1, reported: 1, counters, brake },
    )
}

impl Outlet {
    /// Keeps a body in memory if there is room; else it will be read back.
    pub(crate) fn offer(&self, mut frame: Frame) {
        frame.permit = self.memory.take(frame.body.len());
        if frame.permit.is_some() {
            let _ = self.queue.try_send(frame);
        }
    }

    /// Says up to which frame the journal is durable. Called after the frames were offered.
    pub(crate) fn durable(&self, last: u64) {
        self.last.send_replace(last);
        self.brake.set();
    }

    /// The queue, for its depth.
    pub(crate) fn queue(&self) -> &Sender<Frame> {
        &self.queue
    }
}

impl Feed {
    /// Goes on with the frame after `after`, wherever it was before.
    pub(crate) fn rewind(&mut self, after: u64) {
        self.next = after + 1;
        self.ahead = None;
        self.cursor = None;
        self.brake.rewind();
    }

    /// Notes on disk that this process is about to turn a frame into rows.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub(crate) async fn note_try(&self, number: u64) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        blocking("note a try", move || journal.lock().note_try(number)).await?
    }

    /// Takes the note back: the frame became rows.
    ///
    /// # Errors
    /// `Unavailable` if the disk does not take it.
    pub(crate) async fn forget_try(&self, number: u64) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        blocking("forget a try", move || journal.lock().forget_try(number)).await?
    }

    /// What keeps senders from getting ahead.
    pub(crate) fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Waits until there is a frame; `false` once there are none left and no more can come.
    ///
    /// # Cancel safety
    /// Cancel safe: it takes nothing.
    pub(crate) async fn ready(&mut self) -> bool {
        self.last.wait_for(|last| *last >= self.next).await.is_ok()
    }

    /// The frames that come next, after [`Feed::ready`]; at times none.
    ///
    /// # Errors
    /// `Unavailable` if the journal cannot be read.
    pub(crate) async fn take(&mut self) -> Result<Vec<Frame>> {
        let last = *self.last.borrow();
        let taken = self.recent();
        if !taken.is_empty() || self.next > last {
            return Ok(taken);
        }
        let read = self.older().await?;
        if read.is_none() {
            // Numbers that were passed over: the tables knew frames that the directory had forgotten.
            self.next = self.ahead.as_ref().map_or(last + 1, |frame| frame.number);
        }
        Ok(read.unwrap_or_default())
    }

    fn recent(&mut self) -> Vec<Frame> {
        let mut taken = Vec::new();
        while taken.len() < TAKEN_MAX {
            let Some(frame) = self.ahead.take().or_else(|| self.queue.try_recv().ok()) else { break };
            match frame.number.cmp(&self.next) {
                // It was read back meanwhile.
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => {
                    self.next += 1;
                    taken.push(frame);
                }
                std::cmp::Ordering::Greater => {
                    self.ahead = Some(frame);
                    break;
                }
            }
        }
        taken
    }

    /// Frames read back; `None` if the journal has none from here on.
    async fn older(&mut self) -> Result<Option<Vec<Frame>>> {
        let (journal, next, cursor) = (Arc::clone(&self.journal), self.next, self.cursor.take());
        let before = self.ahead.as_ref().map_or(u64::MAX, |frame| frame.number);
        let counters = self.counters.clone();
        let work = move || read_back(&journal, next, before, cursor, &counters);
        let Some((frames, read)) = blocking("read the journal", work).await?? else { return Ok(None) };
        self.report(&read.damaged);
        self.next = read.cursor.next();
        self.cursor = Some(read.cursor);
        Ok(Some(frames))
    }

    /// Says what was acknowledged and is lost, once.
    fn report(&mut self, damaged: &[RangeInclusive<u64>]) {
        for range in damaged {
            let (first, last) = (self.reported.max(*range.start()), *range.end());
            if first > last {
                continue;
            }
            self.reported = last + 1;
            self.counters.damaged_frames.add(last + 1 - first);
            self.journal.lock().damaged(first);
            tracing::error!(first, last, "frames of the journal are damaged and cannot be read; their file is kept");
        }
    }
}

/// Reads frames from `next` up to the one before `before`; `None` if there are none.
fn read_back(
    journal: &Mutex<Journal>,
    next: u64,
    before: u64,
    cursor: Option<Cursor>,
    counters: &Counters,
) -> Result<Option<(Vec<Frame>, Read)>> {
    let Some(stretch) = journal.lock().stretch(next) else { return Ok(None) };
    let mut frames = Vec::with_capacity(TAKEN_MAX);
    let mut bytes = 0;
    let mut failed = Ok(());
    let read = stretch.read(next, cursor, |number, stored| match frame(number, &stored, journal, counters) {
        Ok(frame) => {
            bytes += frame.body.len();
            frames.push(frame);
            bytes < READ_BYTES && frames.len() < TAKEN_MAX && number + 1 < before
        }
        Err(error) => {
            failed = Err(error);
            false
        }
    })?;
    failed.map(|()| Some((frames, read)))
}

/// A frame as it came. A body that cannot be read any more is set aside, and its frame is empty.
fn frame(number: u64, stored: &Stored, journal: &Mutex<Journal>, counters: &Counters) -> Result<Frame> {
    let tries = journal.lock().tries(number);
    // Whatever was acknowledged is read, also if the settings allow less today than when it was received.
    let limit = usize::try_from(BODY_MAX).unwrap_or(usize::MAX);
    let body = if tries >= DEATHS_MAX {
        Err(Error::internal(format!(
            "{tries} processes ended while they turned it into rows; they may have run out of memory"
        )))
    } else {
        receive::readable(stored.signal, stored.encoding, stored.compression, &stored.body, limit, |_| true)
    };
    let body = body.or_else(|error| {
        set_aside(&mut journal.lock(), number, stored, &chain(&error), counters).map(|()| bytes::Bytes::new())
    })?;
    let tries = (body.len() >= LARGE_BYTES).then_some(tries);
    Ok(Frame {
        number,
        signal: stored.signal,
        received_us: stored.received_us,
        faulty: stored.faulty,
        body,
        permit: None,
        tries,
    })
}

/// Keeps a body that cannot be turned into rows in a file of its own and says so.
///
/// # Errors
/// `Unavailable` if the disk does not take it.
pub(crate) fn set_aside(
    journal: &mut Journal,
    number: u64,
    stored: &Stored,
    reason: &str,
    counters: &Counters,
) -> Result<()> {
    if journal.aside().contains(&number) {
        return Ok(());
    }
    let path = journal.set_aside(number, stored)?;
    counters.dropped_frames.inc();
    tracing::error!(frame = number, reason, kept = %path.display(), "a body cannot be turned into rows; it was set aside");
    Ok(())
}
