//! The task that owns the disk: it takes what has come in, writes it in one go, and lets the acks out.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use service::channel::Receiver;
use service::clock::SharedClock;
use service::error::{Error, Kind, Result};
use service::health::Component;
use service::task::blocking;
use tokio::sync::oneshot;

use super::{Digests, Journal, Stored};
use crate::batch::Frame;
use crate::feed::Outlet;
use crate::receive::admit::Permit;

/// Bodies written and synced together at most.
const GROUP_MAX: usize = 256;

/// A body that waits to be made durable.
pub struct Append {
    /// What goes to disk.
    pub stored: Stored,
    /// The same body, inflated, in the protobuf encoding.
    pub body: Bytes,
    /// The memory it takes until it is durable.
    pub permit: Option<Permit>,
    /// Told when it is durable, or why it is not.
    pub done: oneshot::Sender<Result<()>>,
}

/// Writes bodies until no more can come. The order of acks is the order of frames.
///
/// # Errors
/// `Internal` if a write panics.
pub async fn run(
    mut bodies: Receiver<Append>,
    journal: Arc<Mutex<Journal>>,
    digests: Arc<Digests>,
    outlet: Outlet,
    clock: SharedClock,
    health: Component,
) -> Result<()> {
    let mut group = Vec::with_capacity(GROUP_MAX);
    let mut failing = false;
    while bodies.recv_many(&mut group, GROUP_MAX).await > 0 {
        let stored: Vec<Stored> = group.iter().map(|append: &Append| append.stored.clone()).collect();
        let (journal, now) = (Arc::clone(&journal), clock.monotonic());
        let written = blocking("write the journal", move || journal.lock().append(&stored, now)).await?;
        match written {
            Ok(first) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("the journal takes bodies again");
                    health.ready();
                }
                acknowledge(&digests, &mut group, first, &outlet);
            }
            Err(error) => {
                let reason = service::error::chain(&error);
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(error = reason, "the journal takes no bodies; senders are asked to wait");
                }
                health.waiting(reason);
                refuse(&digests, &mut group);
            }
        }
    }
    Ok(())
}

/// Lets the acks out and hands the bodies on. It waits for nobody: what the rows' side has no room for it reads back from disk.
fn acknowledge(digests: &Digests, group: &mut Vec<Append>, first: u64, outlet: &Outlet) {
    let last = first + group.len() as u64 - 1;
    for (number, append) in (first..).zip(group.drain(..)) {
        digests.stored(append.stored.digest);
        // A sender that went away meanwhile will try again and be recognised.
        let _ = append.done.send(Ok(()));
        outlet.offer(Frame {
            number,
            signal: append.stored.signal,
            received_us: append.stored.received_us,
            faulty: append.stored.faulty,
            body: append.body,
            permit: None,
            tries: None,
        });
    }
    outlet.durable(last);
}

fn refuse(digests: &Digests, group: &mut Vec<Append>) {
    for append in group.drain(..) {
        digests.abandon(append.stored.digest);
        let retry_after = super::RETRY_AFTER;
        let refusal = Error::new(Kind::Unavailable { retry_after }, "the collector cannot write to its disk");
        let _ = append.done.send(Err(refusal));
    }
}
