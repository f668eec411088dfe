//! Requests to cancel: they come over a connection of their own and name the other by a number and a secret.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use service::{Result, secret::random};
use tokio::sync::{Notify, futures::OwnedNotified};

/// What a statement listens to while it runs. A request from before it listened is not heard.
pub(super) type Asked = Pin<Box<OwnedNotified>>;

/// The connections whose queries can be cancelled.
#[derive(Default)]
pub(super) struct Cancels {
    connections: Mutex<BTreeMap<i32, Connection>>,
}

struct Connection {
    secret: i32,
    asked: Arc<Notify>,
}

/// A connection's entry, until it is dropped.
pub(super) struct Cancel {
    cancels: Arc<Cancels>,
    process: i32,
    secret: i32,
    asked: Arc<Notify>,
}

impl Cancels {
    /// Enters a connection.
    ///
    /// # Errors
    /// `Internal` if the system has no random numbers.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Cancel> {
        let (secret, asked) = (i32::from_be_bytes(random()?), Arc::new(Notify::new()));
        let mut connections = self.connections.lock();
        // As with process numbers: the lowest that nobody has.
        let process = (1..i32::MAX).find(|number| !connections.contains_key(number)).unwrap_or(i32::MAX);
        connections.insert(process, Connection { secret, asked: Arc::clone(&asked) });
        Ok(Cancel { cancels: Arc::clone(self), process, secret, asked })
    }

    /// Cancels what the connection runs now, if the secret is right. Nobody is told whether it was.
    pub(super) fn request(&self, process: i32, secret: &[u8]) {
        let connections = self.connections.lock();
        let found = connections.get(&process).filter(|connection| connection.secret.to_be_bytes() == secret);
        if let Some(connection) = found {
            connection.asked.notify_waiters();
        }
    }
}

impl Cancel {
    /// What the client is told: its number and secret.
    pub(super) fn key(&self) -> (i32, i32) {
        (self.process, self.secret)
    }

    /// Listens from now on.
    pub(super) fn asked(&self) -> Asked {
        let mut asked = Box::pin(Arc::clone(&self.asked).notified_owned());
        asked.as_mut().enable();
        asked
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.cancels.connections.lock().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right secret reaches whoever listens; a wrong one, another's number or one that is gone reaches nobody.
    #[tokio::test]
    async fn only_the_right_secret_cancels() {
        let cancels = Arc::<Cancels>::default();
        let (one, other) = (cancels.enter().expect("random"), cancels.enter().expect("random"));
        let (mut asked, mut spared) = (one.asked(), other.asked());
        let (process, secret) = one.key();
        cancels.request(process, &(secret ^ 1).to_be_bytes());
        cancels.request(process, b"");
        cancels.request(77, &secret.to_be_bytes());
        assert!(!asked.as_mut().enable(), "none of them had the secret");
        cancels.request(process, &secret.to_be_bytes());
        asked.await;
        assert!(!spared.as_mut().enable());
        drop(one);
        assert_eq!(cancels.connections.lock().len(), 1);
        assert_eq!(cancels.enter().expect("random").key().0, process, "its number is free again");
    }
}
