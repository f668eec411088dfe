//! Connections: bounded in number, fast on small answers, patient with keepalives and quick to drop the dead.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use service::error::{Error, Result, chain};
use service::shutdown::CancellationToken;
use service::tls::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tower::Layer;

use super::peer::{Peer, jittered};

/// Connections open at once; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 4_096;
/// Calls in flight on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// HTTP/2 windows: several bodies of megabytes must be able to flow at once. What a connection holds of bodies that nobody has
/// begun to read is not in any budget, so that its window is no larger than that needs.
const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;
/// Longest HTTP/2 frame: a usual body comes in one, so that it is hardly ever put together from pieces.
const FRAME_BYTES: u32 = 512 * 1024;
/// Time for a request's headers, which over HTTP/1 begins when the answer before is sent: longer than load balancers keep an
/// idle connection (60 s), so that it is they who end it and never a request that meets a closed one.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
/// A silent HTTP/2 peer is asked after this time, and dropped if it does not answer within the other.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that open calls get after the stop.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause after the system could not hand out a connection (too many files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` over HTTP/1.1 and HTTP/2, under TLS if `acceptor` has it, until `stop`, then lets open calls finish for a while. A connection ends after about
/// `age`.
///
/// # Errors
/// `Internal` if connections can no longer be counted.
pub async fn serve(
    listener: TcpListener,
    acceptor: Acceptor,
    router: Router,
    age: Duration,
    stop: CancellationToken,
) -> Result<()> {
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let cut = CancellationToken::new();
    loop {
        let slot = Arc::clone(&slots).acquire_owned();
        // Cancel safe: a connection that is not accepted stays in the kernel's queue.
        let accepted = tokio::select! {
            slot = slot => {
                let slot = slot.map_err(|error| Error::internal("count connections").with_source(error))?;
                tokio::select! {
                    accepted = listener.accept() => accepted.map(|(stream, _)| (stream, slot)),
                    () = stop.cancelled() => break,
                }
            }
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, slot)) => {
                let age = jittered(age, rand::random());
                let connection = connect(stream, acceptor.clone(), router.clone(), age, stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    // Cancel safe: a call cut short was not answered, and its sender sends it again.
                    tokio::select! {
                        () = connection => {}
                        () = cut.cancelled() => {}
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections still open at the end of the drain were cut");
        cut.cancel();
        connections.wait().await;
    }
    Ok(())
}

async fn connect(stream: TcpStream, acceptor: Acceptor, router: Router, age: Duration, stop: CancellationToken) {
    // Without it small answers wait for the peer's delayed ack: 40 ms each.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "set TCP_NODELAY");
    }
    let (stream, caller) = match acceptor.accept(stream).await {
        Ok(accepted) => accepted,
        Err(error) => return tracing::debug!(error = chain(&error), "a connection was not taken"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let peer = Arc::new(Peer::default());
    let service = TowerToHyperService::new(Extension(ConnectInfo(caller)).layer(peer.watch(router)));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = peer.ends(age) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                served = connection => served,
                () = peer.is_silent() => return,
            }
        }
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection ended early");
    }
}
