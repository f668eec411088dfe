//! Whose turn it is: an engine that takes so many calls at once gets no more, and the others wait in the order they came.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places at the engine. Clones share them.
#[derive(Clone)]
pub(crate) struct Turns {
    /// `None` where the engine takes all that come.
    places: Option<Arc<Semaphore>>,
    waiting_max: u32,
    waiting: Arc<AtomicU32>,
    running: Arc<AtomicU32>,
}

/// A call's place at the engine, free again when it is dropped.
pub(super) struct Turn {
    /// Whether there was a queue to wait in.
    pub(super) queued: bool,
    _place: Option<OwnedSemaphorePermit>,
    _running: Counted,
}

/// One more, as long as it lives.
struct Counted(Arc<AtomicU32>);

impl Counted {
    fn new(count: &Arc<AtomicU32>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    /// So many at once (0: all), and so many that wait.
    pub(crate) fn new(at_once: u32, waiting_max: u32) -> Self {
        let places = (at_once > 0).then(|| Arc::new(Semaphore::new(at_once as usize)));
        Self { places, waiting_max, waiting: Arc::default(), running: Arc::default() }
    }

    pub(crate) fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a place; `None` at once where too many wait already.
    ///
    /// # Cancel safety
    /// A cancelled call has left the queue.
    pub(super) async fn take(&self) -> Option<Turn> {
        self.take_among(self.waiting_max).await
    }

    /// Waits for a place however many wait: for those that take nothing else in meanwhile. `None` if there are no places any more.
    ///
    /// # Cancel safety
    /// A cancelled call has left the queue.
    pub(super) async fn wait(&self) -> Option<Turn> {
        self.take_among(u32::MAX).await
    }

    async fn take_among(&self, waiting_max: u32) -> Option<Turn> {
        let place = match &self.places {
            None => None,
            Some(places) => Some(match Arc::clone(places).try_acquire_owned() {
                Ok(place) => place,
                Err(_) => {
                    let waits = Counted::new(&self.waiting);
                    if self.waiting() > waiting_max {
                        return None;
                    }
                    let place = Arc::clone(places).acquire_owned().await.ok()?;
                    drop(waits);
                    place
                }
            }),
        };
        Some(Turn { queued: self.places.is_some(), _place: place, _running: Counted::new(&self.running) })
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// One at a time, one that waits, and no third; who leaves the queue leaves no trace.
    #[tokio::test]
    async fn turns_are_bounded() {
        let turns = Turns::new(1, 1);
        let first = turns.take().await.unwrap();
        let mut second = Box::pin(turns.take());
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take().await.is_none(), "no third");
        let mut patient = Box::pin(turns.wait());
        assert!(patient.as_mut().now_or_never().is_none());
        assert_eq!((turns.running(), turns.waiting()), (1, 2));
        drop((second, patient));
        assert_eq!((turns.running(), turns.waiting()), (1, 0));
        drop(first);
        assert!(turns.take().await.unwrap().queued);
        assert_eq!((turns.running(), turns.waiting()), (0, 0));
        let open = Turns::new(0, 0);
        let held = [open.take().await.unwrap(), open.take().await.unwrap()];
        assert!(!held[0].queued);
        assert_eq!(open.running(), 2);
    }
}
