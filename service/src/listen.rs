//! Binding and serving, with errors that say what to do.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Layer;

use crate::error::{Error, Kind, Result, chain};
use crate::tls::Acceptor;

/// How long open connections may go on after the server was told to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// Connections that wait in the kernel's queue.
const BACKLOG: u32 = 1_024;
/// Pause after the system could not hand out a connection (too many files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Calls in flight on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// A silent HTTP/2 peer is asked after this time, and dropped if it does not answer within the other.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bounds of a port.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Connections open at once; more wait in the kernel's queue.
    connections: usize,
    /// Time for a request's headers, which over HTTP/1 begins when the answer before is sent.
    headers: Duration,
}

/// Longer than load balancers keep an idle connection (60 s), so that it is they who end it and never a request that meets a closed
/// one.
const BOUNDS: Bounds = Bounds { connections: 4_096, headers: Duration::from_secs(75) };

/// Binds `addr` (port 0: any free port). A peer that is gone without a word is found out by the kernel's keepalive.
///
/// # Errors
/// `Conflict` when the port is in use, `Denied` when it needs rights, `Invalid` when the machine has no such address.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    listener(addr).map_err(|error| bind_error(addr, error))
}

fn listener(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port is free again as soon as its process has ended.
    socket.set_reuseaddr(true)?;
    // Connections inherit it.
    socket.set_keepalive(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

fn bind_error(addr: SocketAddr, error: io::Error) -> Error {
    let (kind, message, hint) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            Kind::Conflict,
            format!("port {} on {} is in use", addr.port(), addr.ip()),
            "stop the process that listens there, or choose another port by flag, environment or tokenwatt.toml",
        ),
        io::ErrorKind::PermissionDenied => (
            Kind::Denied,
            format!("no permission to listen on {addr}"),
            "choose a port above 1023, or give the process the right to bind low ports",
        ),
        io::ErrorKind::AddrNotAvailable => (
            Kind::Invalid,
            format!("this machine has no address {}", addr.ip()),
            "listen on 127.0.0.1, on 0.0.0.0 or on an address of this machine",
        ),
        _ => (Kind::Internal, format!("cannot listen on {addr}"), "see the cause"),
    };
    Error::new(kind, message).with_hint(hint).with_source(error)
}

/// Serves `router` over HTTP/1.1 and HTTP/2, under TLS if `acceptor` has it, until `stop` is cancelled, then lets open connections
/// finish for a while. A peer that is slow to say what it wants is dropped, and so many connections at once are served and no more.
///
/// # Errors
/// `Internal` if connections can no longer be counted; `Cancelled` never: connections cut at the end are logged.
pub async fn serve_http(
    listener: TcpListener,
    acceptor: &Acceptor,
    router: Router,
    stop: CancellationToken,
) -> Result<()> {
    serve_within(BOUNDS, listener, acceptor, router, stop).await
}

async fn serve_within(
    bounds: Bounds,
    listener: TcpListener,
    acceptor: &Acceptor,
    router: Router,
    stop: CancellationToken,
) -> Result<()> {
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    let places = Arc::new(Semaphore::new(bounds.connections));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        // Cancel safe: a connection that is not accepted stays in the kernel's queue.
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let place = place.map_err(|error| Error::internal("count connections").with_source(error))?;
        match accepted {
            Ok((stream, _)) => {
                let connection = connect(stream, bounds, acceptor.clone(), router.clone(), stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    tokio::select! {
                        () = connection => {}
                        () = cut.cancelled() => {}
                    }
                    drop(place);
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

async fn connect(stream: TcpStream, bounds: Bounds, acceptor: Acceptor, router: Router, stop: CancellationToken) {
    // Without it the kernel may hold back a token until the one before it was acknowledged.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection without TCP_NODELAY");
    }
    let (stream, peer) = match acceptor.accept(stream).await {
        Ok(accepted) => accepted,
        Err(error) => return tracing::debug!(error = chain(&error), "a connection was not taken"),
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let asked = CancellationToken::new();
    let router = router.layer(from_fn_with_state(asked.clone(), note));
    let service = TowerToHyperService::new(Extension(ConnectInfo(peer)).layer(router));
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = silence(bounds.headers, &asked) => return tracing::debug!("a connection without a request was dropped"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(error, "a connection ended early");
    }
}

/// Waits until it is certain that the connection's first request did not come in time. HTTP's own clock starts when its version is
/// known, which a peer that says nothing puts off for ever.
async fn silence(limit: Duration, asked: &CancellationToken) {
    tokio::select! {
        () = asked.cancelled() => std::future::pending().await,
        () = tokio::time::sleep(limit) => {}
    }
}

async fn note(State(asked): State<CancellationToken>, request: Request, next: Next) -> Response {
    asked.cancel();
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A port in use is named, with a way out.
    #[tokio::test]
    async fn port_in_use_is_named() {
        let first = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let addr = first.local_addr().unwrap();
        let error = bind(addr).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert_eq!(error.to_string(), format!("port {} on 127.0.0.1 is in use", addr.port()));
        assert!(error.hint().is_some());
    }

    /// A call that runs when the server is told to stop still gets its answer.
    #[tokio::test]
    async fn running_calls_finish() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let inside = stop.clone();
        // The handler itself stops the server, so the stop certainly falls into the call.
        let router = Router::new().route(
            "/",
            get(move || async move {
                inside.cancel();
                tokio::task::yield_now().await;
                "done"
            }),
        );
        let server = tokio::spawn(async move { serve_http(listener, &Acceptor::default(), router, stop).await });
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        server.await.unwrap().unwrap();
    }

    /// A server within `bounds` that answers `/` with `hello`.
    async fn served(bounds: Bounds) -> (SocketAddr, CancellationToken) {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let (addr, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let router = Router::new().route("/", get(|| async { "hello" }));
        let until = stop.clone();
        tokio::spawn(async move { serve_within(bounds, listener, &Acceptor::default(), router, until).await });
        (addr, stop)
    }

    async fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Whoever sends its headers byte for byte is dropped, and others are answered meanwhile.
    #[tokio::test]
    async fn a_slow_peer_is_dropped() {
        let (addr, stop) = served(Bounds { connections: 2, headers: Duration::from_millis(300) }).await;
        let mut slow = TcpStream::connect(addr).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        let mut other = TcpStream::connect(addr).await.unwrap();
        assert!(ask(&mut other).await.ends_with("hello"));
        // Ends when the server closes, which it does although bytes keep coming.
        let (mut read, mut write) = slow.split();
        let dripping = async {
            while write.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let mut rest = Vec::new();
        let ended = async { read.read_to_end(&mut rest).await };
        tokio::select! {
            _ = ended => {}
            () = dripping => {}
        }
        assert!(!String::from_utf8_lossy(&rest).contains("hello"));
        stop.cancel();
    }

    /// Who says nothing, or not enough to tell which HTTP it speaks, holds no place for ever.
    #[tokio::test]
    async fn a_silent_peer_is_dropped() {
        let (addr, stop) = served(Bounds { connections: 3, headers: Duration::from_millis(300) }).await;
        for said in [&b""[..], b"PRI * HTTP"] {
            let mut silent = TcpStream::connect(addr).await.unwrap();
            silent.write_all(said).await.unwrap();
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{said:?} is still there");
        }
        stop.cancel();
    }

    /// When every place is taken the next one waits, and is answered as soon as one is free.
    #[tokio::test]
    async fn a_full_house_lets_nobody_in_until_somebody_leaves() {
        let (addr, stop) = served(Bounds { connections: 1, headers: Duration::from_secs(600) }).await;
        let mut first = TcpStream::connect(addr).await.unwrap();
        first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // It has its place: it is answered, and stays.
        let mut begun = [0; 12];
        first.read_exact(&mut begun).await.unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
        let mut second = TcpStream::connect(addr).await.unwrap();
        let mut asked = tokio::spawn(async move { ask(&mut second).await });
        let early = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
        assert!(early.is_err(), "served beyond the bound: {early:?}");
        drop(first);
        assert!(asked.await.unwrap().ends_with("hello"));
        stop.cancel();
    }
}
