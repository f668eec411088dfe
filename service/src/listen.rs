//! Binding and serving, with errors that say what to do.
//!
//! ```text
//! accept (bounded) ─► handshake ─► life ─► call: body at its pace ─► router ─► answer, taken in time
//! ```
//!
//! Invariant: no peer holds a connection, a call or memory for ever by doing nothing, or next to nothing. What takes its time
//! here, such as an answer that is being made or a stream that has nothing to say, is never held against it.

mod ahead;
mod life;
mod limits;
mod pace;
mod stall;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Kind, Result, chain};
use crate::tls::{Acceptor, Peer};
use ahead::Share;
use life::{Life, jittered};
use stall::{Draining, Streams};

pub use ahead::Ahead;
pub use limits::Limits;
pub use pace::Pace;

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
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Connections open at once; more wait in the kernel's queue.
    pub connections: usize,
    /// Time for a request's headers, which over HTTP/1 begins when the answer before is sent.
    pub headers: Duration,
    /// Time to the first request of a connection.
    pub first_request: Duration,
    /// What a body that is waited for has to bring.
    pub body: Pace,
    /// Time in which a client has to take something of what it is given; `None` where both ends are ours and one may wait for
    /// a third.
    pub stall: Option<Duration>,
    /// Age at which a connection is ended without loss, a tenth more or less by chance.
    pub age: Option<Duration>,
    /// Time without a call after which a connection of HTTP/2 is ended without loss.
    pub idle: Duration,
    /// How long open connections may go on after the stop.
    pub drain: Duration,
    /// Room for what peers send before it is read; `None` where bodies are small and HTTP/2's usual windows do.
    pub ahead: Option<Arc<Ahead>>,
}

impl From<Limits> for Bounds {
    fn from(limits: Limits) -> Self {
        Self {
            connections: limits.connections,
            headers: limits.header_timeout,
            first_request: limits.header_timeout,
            body: Pace { window: limits.body_window, bytes: limits.body_bytes },
            stall: Some(limits.write_stall),
            age: None,
            idle: limits.idle_timeout,
            drain: DRAIN,
            ahead: None,
        }
    }
}

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
/// finish for a while. Who keeps to no bound is dropped, and so many connections at once are served and no more.
///
/// # Errors
/// `Internal` if connections can no longer be counted; `Cancelled` never: connections cut at the end are logged.
pub async fn serve_http(
    listener: TcpListener,
    acceptor: &Acceptor,
    bounds: impl Into<Bounds>,
    router: Router,
    stop: CancellationToken,
) -> Result<()> {
    let bounds = bounds.into();
    let (connections, cut) = (TaskTracker::new(), CancellationToken::new());
    let places = Arc::new(Semaphore::new(bounds.connections));
    let (mut crowded, mut full, mut failing) = (Spell::default(), Spell::default(), Spell::default());
    loop {
        let next = async {
            if crowded.begins(places.available_permits() == 0) {
                let connections = bounds.connections;
                tracing::warn!(
                    connections,
                    "all connections of a port are taken (listen.connections); further ones wait for one that ends"
                );
            }
            let place = Arc::clone(&places).acquire_owned().await;
            let room = enter(bounds.ahead.as_deref(), &mut full).await;
            (place, room, listener.accept().await)
        };
        // Cancel safe: a connection that is not accepted stays in the kernel's queue.
        let (place, room, accepted) = tokio::select! {
            next = next => next,
            () = stop.cancelled() => break,
        };
        let place = place.map_err(|error| Error::internal("count connections").with_source(error))?;
        let share = room?.zip(bounds.ahead.as_ref()).map(|(room, ahead)| ahead.share(room));
        match accepted {
            Ok((stream, _)) => {
                failing.begins(false);
                let connection = Connection { bounds: bounds.clone(), share, router: router.clone() };
                let served = connection.serve(stream, acceptor.clone(), stop.clone());
                let cut = cut.clone();
                connections.spawn(async move {
                    // Cancel safe: a call cut short was not answered.
                    tokio::select! {
                        () = served => {}
                        () = cut.cancelled() => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                if failing.begins(true) {
                    tracing::warn!(%error, "connections cannot be accepted; trying again");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections.close();
    if tokio::time::timeout(bounds.drain, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "connections still open at the end of the drain were cut");
        cut.cancel();
        connections.wait().await;
    }
    Ok(())
}

/// Something that is told when it begins, and not again while it lasts.
#[derive(Debug, Default)]
struct Spell {
    lasts: bool,
}

impl Spell {
    /// Whether it begins, now that it is found so.
    fn begins(&mut self, found: bool) -> bool {
        let lasted = std::mem::replace(&mut self.lasts, found);
        found && !lasted
    }
}

/// Waits for room for one more connection, where room is counted.
async fn enter(ahead: Option<&Ahead>, full: &mut Spell) -> Result<Option<tokio::sync::OwnedSemaphorePermit>> {
    let Some(ahead) = ahead else { return Ok(None) };
    if full.begins(ahead.is_full()) {
        tracing::warn!(
            "there is no memory for what one more connection could send; further ones wait for one that ends"
        );
    }
    ahead.enter().await.map(Some)
}

/// One connection and what it may hold.
struct Connection {
    bounds: Bounds,
    share: Option<Share>,
    router: Router,
}

impl Connection {
    async fn serve(self, stream: TcpStream, acceptor: Acceptor, stop: CancellationToken) {
        // Without it the kernel may hold back a token until the one before it was acknowledged.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection without TCP_NODELAY");
        }
        let (stream, caller) = match acceptor.accept(stream).await {
            Ok(accepted) => accepted,
            Err(error) => return tracing::debug!(error = chain(&error), "a connection was not taken"),
        };
        let life = Life::new();
        let builder = self.builder(&life);
        let Self { bounds, share: _share, router } = self;
        let (first, age, stall) = (bounds.first_request, bounds.age, bounds.stall);
        let calls = Calls { life: Arc::clone(&life), caller, router, pace: bounds.body };
        let service = service_fn(move |request| calls.clone().answer(request));
        let io = TokioIo::new(Draining::new(stream, stall));
        let mut connection = pin!(builder.serve_connection(io, service));
        let age = age.map(|age| jittered(age, rand::random()));
        let served = tokio::select! {
            served = connection.as_mut() => served,
            why = life.ends(first, age, bounds.idle) => {
                tracing::debug!(reason = why.text(), "a connection is ended");
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    served = connection => served,
                    () = life.is_quiet() => return,
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

    fn builder(&self, life: &Arc<Life>) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(Streams { stall: self.bounds.stall, life: Arc::clone(life) });
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.bounds.headers);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            // Who is refused before its body was read may still be sending it, and HTTP/2's library takes what comes for a fault
            // of ours: after 1,024 of them it would end the connection of a good sender. What that count guards against, work
            // that goes on after its call was reset, is none here: a call that is reset is dropped.
            .max_local_error_reset_streams(None)
            .keep_alive_interval(KEEPALIVE_EVERY)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT);
        if let Some(share) = &self.share {
            let (connection, stream, frame) = share.windows();
            builder.http1().max_buf_size(ahead::BUFFER_BYTES);
            builder
                .http2()
                .initial_connection_window_size(connection)
                .initial_stream_window_size(stream)
                .max_frame_size(frame);
        }
        builder
    }
}

/// What the calls of a connection share.
#[derive(Clone)]
struct Calls {
    life: Arc<Life>,
    caller: Peer,
    router: Router,
    pace: Pace,
}

impl Calls {
    async fn answer(
        self,
        request: hyper::Request<Incoming>,
    ) -> std::result::Result<axum::response::Response, Infallible> {
        self.life.asked(request.version());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(self.caller));
        let response = pace::answer(self.router, request, self.pace).await;
        Ok(stall::taken(self.life.answered(response)))
    }
}
