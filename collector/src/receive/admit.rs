//! Admission: memory for bodies is a budget in bytes, taken before they are read, and bodies that are read stand in one line
//! until they are durable. What finds no memory or too long a line is refused at once, so that throughput does not fall and
//! nobody waits long when more is offered than can be taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one unit; a semaphore counts units, not bytes.
const UNIT: usize = 1024;

/// Memory for bodies that are being read, stored or turned into rows.
#[derive(Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    total: usize,
}

/// A share of the budget; it goes back when dropped.
#[derive(Debug, Default)]
pub struct Permit {
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
    #[allow(clippy::struct_field_names, reason = "the budget it was taken from")]
    units: Option<Arc<Semaphore>>,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let total = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(total)), total }
    }

    /// Takes `bytes`, if they are free now.
    pub fn take(&self, bytes: usize) -> Option<Permit> {
        let mut permit = Permit { held: None, bytes: 0, units: Some(Arc::clone(&self.units)) };
        permit.grow(bytes).then_some(permit)
    }

    /// Whether `bytes` are free now.
    pub fn has(&self, bytes: usize) -> bool {
        bytes.div_ceil(UNIT) <= self.units.available_permits()
    }

    /// Bytes taken now.
    pub fn used(&self) -> usize {
        (self.total - self.units.available_permits().min(self.total)) * UNIT
    }
}

impl Permit {
    /// Takes `bytes` more, if they are free now.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let held = self.bytes.div_ceil(UNIT);
        let wanted = (self.bytes + bytes).div_ceil(UNIT);
        let Some(units) = &self.units else { return false };
        if wanted > held {
            let Ok(more) = u32::try_from(wanted - held) else { return false };
            let Ok(taken) = Arc::clone(units).try_acquire_many_owned(more) else { return false };
            match &mut self.held {
                Some(held) => held.merge(taken),
                None => self.held = Some(taken),
            }
        }
        self.bytes += bytes;
        true
    }
}

/// The line of bodies that are read and not yet durable. At most as many are checked at once as there are CPUs, so that those
/// that were acknowledged before keep their share of them.
#[derive(Clone)]
pub struct Line {
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    bytes_max: usize,
}

/// A body's place in the line, which it leaves when dropped.
#[derive(Debug)]
pub struct Place {
    waiting: Arc<AtomicUsize>,
    bytes: usize,
    bytes_max: usize,
}

impl Line {
    /// A line in which nobody takes a place once `bytes_max` bytes are in it; `turns` bodies are worked on at once.
    pub fn new(turns: usize, bytes_max: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(turns)), waiting: Arc::default(), bytes_max }
    }

    /// Whether it is too long to join. It counts what waits already, so that the largest body gets its turn too.
    pub fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) >= self.bytes_max
    }

    /// Takes a place for a body of so many bytes; `None` if the line is too long.
    pub fn join(&self, bytes: usize) -> Option<Place> {
        if self.is_full() {
            return None;
        }
        // No body alone fills the line: others can join while a large one has its turn.
        let bytes_max = self.bytes_max.div_ceil(2);
        let mut place = Place { waiting: Arc::clone(&self.waiting), bytes: 0, bytes_max };
        place.grow(bytes);
        Some(place)
    }

    /// Waits for a turn, which ends when dropped; `None` never, since the line is not closed.
    ///
    /// # Cancel safety
    /// A cancelled call takes no turn.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }
}

impl Place {
    /// The body is of so many bytes now that it is inflated: that is what there is to do.
    pub fn grow(&mut self, bytes: usize) {
        let more = bytes.min(self.bytes_max).saturating_sub(self.bytes);
        self.waiting.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// A long line refuses, whoever leaves it makes room, and the largest body gets its place in a short one.
    #[test]
    fn a_line_refuses_when_it_is_long() {
        let line = Line::new(1, 100);
        let places = [line.join(49), line.join(500), line.join(1)];
        assert!(places.iter().all(Option::is_some), "a large body counts for half of it");
        assert!(line.is_full() && line.join(1).is_none());
        drop(places);
        let mut place = line.join(1).unwrap();
        let other = line.join(60);
        assert!(other.is_some() && !line.is_full());
        place.grow(50);
        assert!(line.is_full(), "it was inflated");
    }

    /// One body at a time has its turn.
    #[test]
    fn turns_are_taken_one_after_the_other() {
        let line = Line::new(1, 100);
        let first = line.turn().now_or_never().expect("a turn");
        assert!(line.turn().now_or_never().is_none(), "it waits, and its sender goes away");
        drop(first);
        assert!(line.turn().now_or_never().is_some());
    }

    /// What is not free is refused, and what is dropped is free again.
    #[test]
    fn a_budget_is_taken_grown_and_given_back() {
        let budget = Budget::new(10 * UNIT);
        let mut first = budget.take(4 * UNIT).unwrap();
        assert!(budget.take(7 * UNIT).is_none());
        assert!(first.grow(6 * UNIT));
        assert!(!first.grow(1));
        assert_eq!(budget.used(), 10 * UNIT);
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(10 * UNIT).is_some());
    }
}
