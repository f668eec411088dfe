//! One life of a process: it counts what it does to the world and ends at a given point of it.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// A life.
pub(super) struct Life {
    dead: watch::Sender<bool>,
    left: AtomicU64,
}

impl Life {
    /// A life that ends when it does its `steps`-th thing to a disk or a store.
    pub(super) fn new(steps: u64) -> Self {
        Self { dead: watch::channel(false).0, left: AtomicU64::new(steps) }
    }

    /// Counts one thing done; `false` if it is not done any more.
    pub(super) fn step(&self) -> bool {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.unwrap_or_default() == 0 {
            self.end();
        }
        self.lives()
    }

    /// Ends it, as SIGKILL does.
    pub(super) fn end(&self) {
        self.dead.send_replace(true);
    }

    pub(super) fn lives(&self) -> bool {
        !*self.dead.borrow()
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        // The sender is part of it, so it cannot be gone.
        let _ = self.dead.subscribe().wait_for(|dead| *dead).await;
    }
}
