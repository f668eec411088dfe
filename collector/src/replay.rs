//! The start: frames whose rows are not all committed go through the buffers again, read one by one from disk.

use std::sync::Arc;

use parking_lot::Mutex;
use service::channel::Sender;
use service::error::{Error, Result, chain};

use crate::batch::Frame;
use crate::config::BODY_MAX;
use crate::counters::Counters;
use crate::journal::{Journal, Stored};
use crate::receive;

/// Sends the journal's frames after `after` to the buffers. Not subject to admission: the queue bounds what is in memory.
///
/// # Errors
/// `Unavailable` if the journal cannot be read; `Cancelled` if nobody takes the frames.
pub(crate) async fn run(
    journal: Arc<Mutex<Journal>>,
    after: u64,
    frames: Sender<Frame>,
    counters: Counters,
) -> Result<()> {
    let replay = move || {
        let stored = journal.lock().frames(after);
        let mut count = 0_u64;
        for frame in stored {
            let (number, stored) = frame?;
            match readable(&stored) {
                Ok(body) => {
                    count += 1;
                    frames.blocking_send(Frame {
                        number,
                        signal: stored.signal,
                        received_us: stored.received_us,
                        faulty: stored.faulty,
                        body,
                        permit: None,
                    })?;
                }
                Err(error) => {
                    counters.dropped_frames.inc();
                    tracing::error!(frame = number, error = chain(&error), "a journal frame could not be read");
                }
            }
        }
        if count > 0 {
            tracing::info!(frames = count, "replayed the journal");
        }
        Ok(())
    };
    tokio::task::spawn_blocking(replay)
        .await
        .map_err(|error| Error::internal("replay the journal").with_source(error))?
}

/// Whatever was acknowledged is read, also if the settings allow less today than when it was received.
fn readable(stored: &Stored) -> Result<bytes::Bytes> {
    let limit = usize::try_from(BODY_MAX).unwrap_or(usize::MAX);
    receive::readable(stored.signal, stored.encoding, stored.compression, &stored.body, limit, |_| true)
}
