//! One query's share of the memory that all queries have together.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::{
    common::{Result, resources_datafusion_err},
    execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
};

/// Counts what one query holds, and refuses what is more than its share.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    whole: Arc<dyn MemoryPool>,
    bytes_max: usize,
    held: AtomicUsize,
    peak: AtomicUsize,
}

impl QueryMemory {
    /// At most `bytes_max` bytes of the `whole`.
    pub(crate) fn new(whole: Arc<dyn MemoryPool>, bytes_max: usize) -> QueryMemory {
        QueryMemory { whole, bytes_max, held: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Bytes held now.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The most bytes held at once.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) -> usize {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(held, Ordering::Relaxed);
        held
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, of which one query may hold {} bytes", self.whole, self.bytes_max)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.whole.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.whole.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.count(additional);
        self.whole.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.held.fetch_sub(shrink, Ordering::Relaxed);
        self.whole.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        // Counted before it is compared: two threads cannot both take the last bytes.
        let held = self.count(additional);
        let granted = if held > self.bytes_max {
            Err(resources_datafusion_err!(
                "{} would have the query hold {held} bytes, more than the {} that one may (query.memory_bytes_per_query)",
                reservation.consumer().name(),
                self.bytes_max
            ))
        } else {
            self.whole.try_grow(reservation, additional)
        };
        granted.inspect_err(|_| {
            self.held.fetch_sub(additional, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.held()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max)
    }
}
