//! The task that owns the disk: it takes what has come in, writes it in one go, and lets the acks out.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use service::channel::{Receiver, Sender};
use service::clock::SharedClock;
use service::error::{Error, Kind, Result};
use service::health::Component;
use tokio::sync::oneshot;

use super::{Digests, Journal, Stored};
use crate::batch::Frame;
use crate::receive::admit::Permit;

/// Bodies written and synced together at most.
const GROUP_MAX: usize = 256;

/// A body that waits to be made durable.
pub struct Append {
    /// What goes to disk.
    pub stored: Stored,
    /// The same body, inflated, in the protobuf encoding.
    pub body: Bytes,
    /// The memory it takes.
    pub permit: Option<Permit>,
    /// Told when it is durable, or why it is not.
    pub done: oneshot::Sender<Result<()>>,
}

/// Writes bodies until no more can come. The order of acks is the order of frames.
///
/// # Errors
/// `Internal` if a write panics; `Cancelled` if nobody takes the frames any more.
pub async fn run(
    mut bodies: Receiver<Append>,
    journal: Arc<Mutex<Journal>>,
    digests: Arc<Digests>,
    frames: Sender<Frame>,
    clock: SharedClock,
    health: Component,
) -> Result<()> {
    let mut group = Vec::with_capacity(GROUP_MAX);
    let mut failing = false;
    while bodies.recv_many(&mut group, GROUP_MAX).await > 0 {
        let stored: Vec<Stored> = group.iter().map(|append: &Append| append.stored.clone()).collect();
        let (journal, now_us) = (Arc::clone(&journal), clock.now_us());
        let written = tokio::task::spawn_blocking(move || journal.lock().append(&stored, now_us))
            .await
            .map_err(|error| Error::internal("write the journal").with_source(error))?;
        match written {
            Ok(first) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("the journal takes bodies again");
                    health.ready();
                }
                acknowledge(&digests, &mut group, first, &frames).await?;
            }
            Err(error) => {
                let reason = service::error::chain(&error);
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(error = reason, "the journal takes no bodies; senders are asked to wait");
                }
                health.failed(reason);
                refuse(&digests, &mut group);
            }
        }
    }
    Ok(())
}

async fn acknowledge(digests: &Digests, group: &mut Vec<Append>, first: u64, frames: &Sender<Frame>) -> Result<()> {
    let mut durable = Vec::with_capacity(group.len());
    for (number, append) in (first..).zip(group.drain(..)) {
        digests.stored(append.stored.digest, append.stored.received_us);
        // A sender that went away meanwhile will try again and be recognised.
        let _ = append.done.send(Ok(()));
        durable.push(Frame {
            number,
            signal: append.stored.signal,
            received_us: append.stored.received_us,
            faulty: append.stored.faulty,
            body: append.body,
            permit: append.permit,
        });
    }
    for frame in durable {
        frames.send(frame).await?;
    }
    Ok(())
}

fn refuse(digests: &Digests, group: &mut Vec<Append>) {
    for append in group.drain(..) {
        digests.abandon(append.stored.digest);
        let retry_after = super::RETRY_AFTER;
        let refusal = Error::new(Kind::Unavailable { retry_after }, "the collector cannot write to its disk");
        let _ = append.done.send(Err(refusal));
    }
}
