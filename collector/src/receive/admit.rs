//! Admission: memory for bodies is a budget in bytes, taken before they are read. What finds none is refused at once, so
//! that throughput does not fall when more is offered than can be taken.

use std::sync::Arc;

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

#[cfg(test)]
mod tests {
    use super::*;

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
