//! The only way to make a queue: it has a name, a bound and a depth.

use tokio::sync::mpsc;
pub use tokio::sync::mpsc::error::{TryRecvError, TrySendError};

use crate::error::{Error, Result};

/// A queue of at most `capacity` items (at least 1).
///
/// The full-queue policy is the sender's choice: [`Sender::send`] waits, [`Sender::try_send`] hands the item back.
#[must_use]
pub fn bounded<T>(name: &'static str, capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    (Sender { name, inner: sender }, Receiver { name, inner: receiver })
}

/// The end that items go into. Clones share one queue.
#[derive(Debug)]
pub struct Sender<T> {
    name: &'static str,
    inner: mpsc::Sender<T>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { name: self.name, inner: self.inner.clone() }
    }
}

impl<T> Sender<T> {
    /// Waits for room and puts the item in.
    ///
    /// # Errors
    /// `Cancelled` when the receiver is gone.
    ///
    /// # Cancel safety
    /// A cancelled call did not put the item in; the item is dropped.
    pub async fn send(&self, item: T) -> Result<()> {
        self.inner.send(item).await.map_err(|_| self.closed())
    }

    /// Puts the item in, or hands it back when the queue is full or its receiver gone.
    ///
    /// # Errors
    /// The item, with the reason.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send(item)
    }

    /// Waits for room from a thread that runs no async code.
    ///
    /// # Errors
    /// `Cancelled` when the receiver is gone.
    ///
    /// # Panics
    /// When called inside an async task.
    pub fn blocking_send(&self, item: T) -> Result<()> {
        self.inner.blocking_send(item).map_err(|_| self.closed())
    }

    /// Items waiting now.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.inner.max_capacity() - self.inner.capacity()
    }

    /// The most items that can wait.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inner.max_capacity()
    }

    /// The queue's name, as in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the receiver is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn closed(&self) -> Error {
        Error::cancelled(format!("queue {} is closed", self.name))
    }

    pub(crate) fn weak(&self) -> WeakSender<T> {
        WeakSender { inner: self.inner.downgrade() }
    }
}

/// Looks at a queue without keeping it open.
pub(crate) struct WeakSender<T> {
    inner: mpsc::WeakSender<T>,
}

impl<T> WeakSender<T> {
    /// Items waiting now; `None` once all senders are gone.
    pub(crate) fn depth(&self) -> Option<usize> {
        let sender = self.inner.upgrade()?;
        Some(sender.max_capacity() - sender.capacity())
    }
}

/// The end that items come out of.
#[derive(Debug)]
pub struct Receiver<T> {
    name: &'static str,
    inner: mpsc::Receiver<T>,
}

impl<T> Receiver<T> {
    /// The next item; `None` when all senders are gone and the queue is empty.
    ///
    /// # Cancel safety
    /// Cancel safe: no item is lost.
    pub async fn recv(&mut self) -> Option<T> {
        self.inner.recv().await
    }

    /// Up to `limit` items in one go, waiting for the first; returns how many were added to `items`, 0 at the end.
    ///
    /// # Cancel safety
    /// Cancel safe: no item is lost.
    pub async fn recv_many(&mut self, items: &mut Vec<T>, limit: usize) -> usize {
        self.inner.recv_many(items, limit).await
    }

    /// The next item if one waits.
    ///
    /// # Errors
    /// Says whether the queue is empty for now or for good.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.inner.try_recv()
    }

    /// The next item, for a thread that runs no async code.
    ///
    /// # Panics
    /// When called inside an async task.
    pub fn blocking_recv(&mut self) -> Option<T> {
        self.inner.blocking_recv()
    }

    /// Refuses further items; those waiting can still be received.
    pub fn close(&mut self) {
        self.inner.close();
    }

    /// Items waiting now.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.inner.len()
    }

    /// The queue's name, as in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full queue hands the item back, and its depth is visible from both ends.
    #[tokio::test]
    async fn full_queue_hands_the_item_back() {
        let (sender, mut receiver) = bounded("test.queue", 2);
        sender.send(1).await.unwrap();
        sender.send(2).await.unwrap();
        assert!(matches!(sender.try_send(3), Err(TrySendError::Full(3))));
        assert_eq!((sender.depth(), receiver.depth(), sender.capacity()), (2, 2, 2));
        assert_eq!(receiver.recv().await, Some(1));
        assert_eq!(sender.depth(), 1);
    }

    /// Sending into a queue nobody reads is a cancellation that names the queue.
    #[tokio::test]
    async fn closed_queue_is_named() {
        let (sender, receiver) = bounded("test.queue", 1);
        drop(receiver);
        let error = sender.send(1).await.unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Cancelled);
        assert!(error.to_string().contains("test.queue"));
    }
}
