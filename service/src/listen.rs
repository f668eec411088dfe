//! Binding and serving, with errors that say what to do.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Kind, Result};
use crate::tls::{Acceptor, Peer, SecureListener};

/// How long open connections may go on after the server was told to stop.
const DRAIN: Duration = Duration::from_secs(20);

/// Binds `addr` (port 0: any free port).
///
/// # Errors
/// `Conflict` when the port is in use, `Denied` when it needs rights, `Invalid` when the machine has no such address.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(addr).await.map_err(|error| bind_error(addr, error))
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

/// Serves `router`, under TLS if `acceptor` has it, until `stop` is cancelled, then lets open connections finish for a while.
///
/// # Errors
/// `Internal` when the listener breaks; `Cancelled` never: connections cut at the end are logged.
pub async fn serve_http(
    listener: TcpListener,
    acceptor: &Acceptor,
    router: Router,
    stop: CancellationToken,
) -> Result<()> {
    let addr = listener.local_addr().ok();
    let listener = SecureListener::new(listener, acceptor.clone());
    let router = router.into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        served = server => served.map_err(|error| Error::internal("serve http").with_source(error)),
        () = overdue => {
            tracing::warn!(?addr, "connections still open at the end of the drain were cut");
            Ok(())
        }
    }
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
        let mut client = tokio::net::TcpStream::connect(addr).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        server.await.unwrap().unwrap();
    }
}
