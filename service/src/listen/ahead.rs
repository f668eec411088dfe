//! Room for what peers send before anybody reads it.
//!
//! Over HTTP/2 a peer may send as much as its connection's window without being asked, and a frame more until it is found out.
//! So windows are memory that was promised, and this is where it is counted: half of the room is one least share for each
//! place, the other half goes to those that come first, each a part of what is left. A fleet's few collectors and gateways
//! thus have windows of megabytes, and a crowd has small ones, but together never more than the room.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// Smallest window of a connection, and what HTTP/2 begins with; a larger one is a multiple of it.
const WINDOW_MIN: usize = 64 * 1024;
/// Largest: several bodies of megabytes can flow at once.
const WINDOW_MAX: usize = 8 * 1024 * 1024;
/// Largest of one call.
const STREAM_WINDOW_MAX: usize = 4 * 1024 * 1024;
/// Shortest and longest of the longest frames. HTTP/2 allows none shorter; in the longest a usual body comes whole, so that it
/// is hardly ever put together from pieces.
const FRAME_MIN: usize = 16 * 1024;
const FRAME_MAX: usize = 512 * 1024;
/// A frame is at most this part of the window.
const FRAME_SHARE: usize = 8;
/// Of what is left beyond the least shares, a connection gets this part.
const SHARE: usize = 8;
/// Fewest places, however little room there is.
const PLACES_MIN: usize = 16;
/// What a connection of the smallest window may hold.
const LEAST: usize = WINDOW_MIN + FRAME_MIN;

/// Room that the connections of one or more ports share.
#[derive(Debug)]
pub struct Ahead {
    places: Arc<Semaphore>,
    /// Bytes, in kibibytes: a semaphore counts no further than it must.
    extra: Arc<Semaphore>,
}

/// A connection's share, which goes back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    _place: OwnedSemaphorePermit,
    _extra: Option<OwnedSemaphorePermit>,
    window: usize,
}

/// A unit of `extra`.
const UNIT: usize = 1024;

impl Ahead {
    /// Room of so many bytes. At most `bytes` are promised to all connections together, or [`PLACES_MIN`] least shares if that
    /// is more; there are `bytes` / 160 KiB places.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let places = (bytes / 2 / LEAST).max(PLACES_MIN);
        let extra = bytes.saturating_sub(places * LEAST) / UNIT;
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { places: semaphore(places), extra: semaphore(extra) }
    }

    /// Whether every place is taken.
    pub(super) fn is_full(&self) -> bool {
        self.places.available_permits() == 0
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// `Internal` never: places are not closed.
    ///
    /// # Cancel safety
    /// A cancelled call takes no place.
    pub(super) async fn enter(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        place.map_err(|error| Error::internal("count connections").with_source(error))
    }

    /// What a connection in `place` gets.
    pub(super) fn share(&self, place: OwnedSemaphorePermit) -> Share {
        let wanted = (self.extra.available_permits() * UNIT / SHARE).min(held(WINDOW_MAX) - LEAST);
        // The largest window whose frame fits too.
        let mut window = WINDOW_MIN;
        while window < WINDOW_MAX && held(window * 2) - LEAST <= wanted {
            window *= 2;
        }
        let units = u32::try_from((held(window) - LEAST).div_ceil(UNIT)).unwrap_or(u32::MAX);
        match Arc::clone(&self.extra).try_acquire_many_owned(units) {
            Ok(extra) => Share { _place: place, _extra: Some(extra), window },
            // Others took it just now.
            Err(_) => Share { _place: place, _extra: None, window: WINDOW_MIN },
        }
    }
}

impl Share {
    /// Window of the connection, of each of its calls, and its longest frame, all in bytes.
    pub(super) fn windows(&self) -> (u32, u32, u32) {
        // All are at most 8 MiB.
        let narrow = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        (narrow(self.window), narrow(self.window.min(STREAM_WINDOW_MAX)), narrow(frame(self.window)))
    }
}

fn frame(window: usize) -> usize {
    (window / FRAME_SHARE).clamp(FRAME_MIN, FRAME_MAX)
}

/// What a connection with this window may make us hold: a frame is only measured against the window once it is there.
fn held(window: usize) -> usize {
    window + frame(window)
}

/// Bytes of a connection's buffer over HTTP/1, where nothing is read that nobody waits for: no more than the least share.
pub(super) const BUFFER_BYTES: usize = WINDOW_MIN;

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// However many come, what they were promised together is never more than the room, and the last one in still gets a
    /// window that HTTP/2 allows.
    #[test]
    fn promises_are_kept() {
        let room = 64 << 20;
        let ahead = Ahead::new(room);
        let mut shares = Vec::new();
        while let Some(place) = ahead.enter().now_or_never() {
            shares.push(ahead.share(place.unwrap()));
        }
        assert!(ahead.is_full());
        let promised: usize = shares.iter().map(|share| held(share.window)).sum();
        assert!(promised <= room && promised > room * 3 / 4, "{promised}");
        assert_eq!(shares.len(), room / (2 * LEAST));
        assert_eq!(shares[0].windows(), (2 << 20, 2 << 20, 256 << 10));
        assert_eq!(shares[shares.len() - 1].windows(), (64 << 10, 64 << 10, 16 << 10));
        // What was given back is given again.
        drop(shares);
        assert_eq!(ahead.share(ahead.enter().now_or_never().unwrap().unwrap()).window, 2 << 20);
    }

    /// With the collector's room as it is by default the first have the largest windows.
    #[test]
    fn the_first_have_large_windows() {
        let ahead = Ahead::new(256 << 20);
        let share = ahead.share(ahead.enter().now_or_never().unwrap().unwrap());
        assert_eq!(share.windows(), (8 << 20, 4 << 20, 512 << 10));
        let small = Ahead::new(0);
        assert_eq!(small.places.available_permits(), PLACES_MIN);
        assert_eq!(small.share(small.enter().now_or_never().unwrap().unwrap()).window, WINDOW_MIN);
    }
}
