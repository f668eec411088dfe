//! Admission: memory for bodies is a budget in bytes, taken before they are read, and bodies that are read stand in one line
//! until they are durable. While the line is too long nothing more is read: what a sender sends on then stays in its own
//! kernel, which costs nothing here. What finds no memory, or waits too long, is refused, so that throughput does not fall when
//! more is offered than can be taken.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Bytes of one unit; a semaphore counts units, not bytes.
const UNIT: usize = 1024;

/// Memory for bodies that are being read, stored or turned into rows.
#[derive(Clone, Debug)]
pub struct Budget {
    units: Arc<Semaphore>,
    total: usize,
    /// Shares that came back so far. What comes back goes to who waits at once, so the free units do not tell it.
    returned: Arc<AtomicU64>,
}

/// A share of the budget; it goes back when dropped.
#[derive(Debug, Default)]
pub struct Permit {
    held: Option<OwnedSemaphorePermit>,
    bytes: usize,
    budget: Option<Budget>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(budget) = self.budget.as_ref().filter(|_| self.held.is_some()) {
            budget.returned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let total = (bytes / UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(total)), total, returned: Arc::default() }
    }

    /// Takes `bytes`, if they are free now.
    pub fn take(&self, bytes: usize) -> Option<Permit> {
        let mut permit = Permit { held: None, bytes: 0, budget: Some(self.clone()) };
        permit.grow(bytes).then_some(permit)
    }

    /// Takes `bytes`, or all there are if that is less, as soon as they are free.
    ///
    /// # Cancel safety
    /// A cancelled call takes nothing.
    pub async fn wait(&self, bytes: usize) -> Permit {
        let units = bytes.div_ceil(UNIT).min(self.total);
        let wanted = u32::try_from(units).unwrap_or(u32::MAX);
        // It is never closed.
        let held = Arc::clone(&self.units).acquire_many_owned(wanted).await.ok();
        Permit { held, bytes: units * UNIT, budget: Some(self.clone()) }
    }

    /// Whether `bytes` are free now.
    pub fn has(&self, bytes: usize) -> bool {
        bytes.div_ceil(UNIT) <= self.units.available_permits()
    }

    /// Whether half of it is taken, or more.
    pub fn is_half_taken(&self) -> bool {
        self.units.available_permits() * 2 <= self.total
    }

    /// How many shares of it came back so far.
    pub fn returned(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
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
        let Some(budget) = &self.budget else { return false };
        if wanted > held {
            let Ok(more) = u32::try_from(wanted - held) else { return false };
            let Ok(taken) = Arc::clone(&budget.units).try_acquire_many_owned(more) else { return false };
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
    length: Arc<Length>,
}

/// How long a line is.
#[derive(Debug)]
struct Length {
    bytes: AtomicUsize,
    bytes_max: usize,
    held: AtomicBool,
    shorter: Notify,
}

impl Length {
    /// It counts what waits already, so that the largest body gets its turn too.
    fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) || self.bytes.load(Ordering::Relaxed) >= self.bytes_max
    }

    /// Lets the next one in, if there is room.
    fn next(&self) {
        if !self.is_full() {
            self.shorter.notify_one();
        }
    }
}

/// Leave to read a body and join; whoever comes next may when it is dropped.
#[derive(Debug)]
pub struct Entry(Arc<Length>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.next();
    }
}

/// A body's place in the line, which it leaves when dropped.
#[derive(Debug)]
pub struct Place {
    length: Arc<Length>,
    bytes: usize,
}

impl Line {
    /// A line that nobody enters while `bytes_max` bytes are in it; `turns` bodies are worked on at once.
    pub fn new(turns: usize, bytes_max: usize) -> Self {
        let length =
            Length { bytes: AtomicUsize::new(0), bytes_max, held: AtomicBool::new(false), shorter: Notify::new() };
        Self { turns: Arc::new(Semaphore::new(turns)), length: Arc::new(length) }
    }

    /// Lets nobody enter while `held`, however short it is.
    pub fn hold(&self, held: bool) {
        self.length.held.store(held, Ordering::Relaxed);
        // Every time: who left while it was held may not have seen that it no longer was.
        if !held {
            self.length.next();
        }
    }

    /// Waits until it is short enough to enter, one after the other in the order of coming; `None` if `patience` ends before.
    ///
    /// # Cancel safety
    /// A cancelled call lets the next one in instead.
    pub async fn enter(&self, patience: impl Future<Output = ()>) -> Option<Entry> {
        let mut patience = pin!(patience);
        while self.length.is_full() {
            let mut shorter = pin!(self.length.shorter.notified());
            // In the queue from here on, so that who leaves between the two looks is not missed.
            shorter.as_mut().enable();
            if !self.length.is_full() {
                break;
            }
            tokio::select! {
                biased;
                () = &mut shorter => {}
                () = &mut patience => return None,
            }
        }
        Some(Entry(Arc::clone(&self.length)))
    }

    /// Takes a place for a body of so many bytes.
    pub fn join(&self, bytes: usize) -> Place {
        let mut place = Place { length: Arc::clone(&self.length), bytes: 0 };
        place.grow(bytes);
        place
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
    /// The body is of so many bytes now that it is inflated: that is what there is to do. No body alone fills the line, so that
    /// others can join while a large one has its turn.
    pub fn grow(&mut self, bytes: usize) {
        let more = bytes.min(self.length.bytes_max.div_ceil(2)).saturating_sub(self.bytes);
        self.length.bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.length.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.length.next();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// Nobody enters a long line before somebody leaves it, and the largest body gets its place in a short one.
    #[test]
    fn a_long_line_lets_one_in_for_each_that_leaves() {
        let line = Line::new(1, 100);
        let never = std::future::pending::<()>;
        let mut places = vec![line.join(49), line.join(500)];
        assert!(line.enter(never()).now_or_never().is_some(), "a large body counts for half of it");
        places.push(line.join(1));
        assert!(line.enter(async {}).now_or_never().is_some_and(|entry| entry.is_none()), "patience ends");
        let (mut first, mut second) = (Box::pin(line.enter(never())), Box::pin(line.enter(never())));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        places.pop();
        let entry = first.as_mut().now_or_never().flatten().expect("there is room");
        assert!(second.as_mut().now_or_never().is_none(), "one at a time");
        drop(entry);
        assert!(second.as_mut().now_or_never().flatten().is_some(), "whoever entered lets the next one in");
        let mut place = line.join(1);
        place.grow(50);
        assert!(line.enter(never()).now_or_never().is_none(), "it was inflated");
    }

    /// Who waits and goes away does not take another's turn along.
    #[test]
    fn a_sender_that_goes_away_lets_the_next_one_in() {
        let line = Line::new(1, 100);
        let place = [line.join(50), line.join(50)];
        let never = std::future::pending::<()>;
        let (mut first, mut second) = (Box::pin(line.enter(never())), Box::pin(line.enter(never())));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        drop(place);
        drop(first);
        assert!(second.as_mut().now_or_never().flatten().is_some());
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

    /// What waits gets its share once it is free, and what is larger than all there is gets all of it.
    #[test]
    fn who_waits_for_a_budget_gets_it_when_it_is_free() {
        let budget = Budget::new(10 * UNIT);
        let first = budget.wait(6 * UNIT).now_or_never().expect("it is free");
        let mut second = Box::pin(budget.wait(20 * UNIT));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.as_mut().now_or_never().expect("all of it is free");
        assert_eq!(budget.used(), 10 * UNIT);
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
