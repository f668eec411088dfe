//! A listener whose connections are ready to be spoken on: handshakes run side by side, so that a slow one delays nobody.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::net::TcpListener;

use super::{Acceptor, Peer, Stream};
use crate::error::{Result, chain};

/// Handshakes that run side by side; more connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 1_024;
/// Pause after the system could not hand out a connection (too many files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on one address.
pub struct SecureListener {
    listener: TcpListener,
    acceptor: Acceptor,
    handshakes: FuturesUnordered<BoxFuture<'static, Result<(Stream, Peer)>>>,
}

impl SecureListener {
    /// Takes the connections of `listener`.
    #[must_use]
    pub fn new(listener: TcpListener, acceptor: Acceptor) -> Self {
        Self { listener, acceptor, handshakes: FuturesUnordered::new() }
    }
}

impl Listener for SecureListener {
    type Io = Stream;
    type Addr = Peer;

    async fn accept(&mut self) -> (Stream, Peer) {
        loop {
            let room = self.handshakes.len() < HANDSHAKES_MAX;
            // Cancel safe: a connection not accepted stays in the kernel, and handshakes go on in `self`.
            tokio::select! {
                accepted = self.listener.accept(), if room => match accepted {
                    Ok((stream, _)) => {
                        // Without it the kernel may hold back a token until the one before it was acknowledged.
                        if let Err(error) = stream.set_nodelay(true) {
                            tracing::debug!(%error, "connection without TCP_NODELAY");
                        }
                        let acceptor = self.acceptor.clone();
                        self.handshakes.push(Box::pin(async move { acceptor.accept(stream).await }));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(shaken) = self.handshakes.next() => match shaken {
                    Ok(ready) => return ready,
                    Err(error) => tracing::debug!(error = chain(&error), "a connection was not taken"),
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        let addr: SocketAddr = self.listener.local_addr()?;
        Ok(Peer { addr: Some(addr), names: std::sync::Arc::default() })
    }
}

impl Connected<IncomingStream<'_, SecureListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, SecureListener>) -> Self {
        stream.remote_addr().clone()
    }
}
