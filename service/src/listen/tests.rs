use axum::body::Bytes;
use axum::routing::{get, post};
use futures::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

mod refused;
mod room;
mod slow;

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
    let server =
        tokio::spawn(async move { serve_http(listener, &Acceptor::default(), Limits::default(), router, stop).await });
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("done"), "{answer}");
    server.await.unwrap().unwrap();
}

/// Bounds that nobody meets in a test.
fn wide() -> Bounds {
    let long = Duration::from_secs(600);
    let body = Pace { window: long, bytes: 1 };
    Bounds { headers: long, first_request: long, body, stall: Some(long), ..Bounds::from(Limits::default()) }
}

/// A server within `bounds` that answers `/` with `hello`, and what else `router` says.
async fn serves(bounds: Bounds, router: Router) -> (SocketAddr, CancellationToken) {
    let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (addr, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let router = router.route("/", get(|| async { "hello" }));
    let until = stop.clone();
    tokio::spawn(async move { serve_http(listener, &Acceptor::default(), bounds, router, until).await });
    (addr, stop)
}

async fn served(bounds: Bounds) -> (SocketAddr, CancellationToken) {
    serves(bounds, Router::new()).await
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
    let (addr, stop) = served(Bounds { connections: 2, headers: Duration::from_millis(300), ..wide() }).await;
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
    let (addr, stop) = served(Bounds { connections: 3, first_request: Duration::from_millis(300), ..wide() }).await;
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
    let (addr, stop) = served(Bounds { connections: 1, ..wide() }).await;
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

/// A client over HTTP/2, whose connection lives as long as the test.
async fn connect(addr: SocketAddr) -> http2::SendRequest<Body> {
    let io = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let (client, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    client
}

fn request(path: &str, body: Body) -> Request<Body> {
    Request::post(format!("http://x{path}")).body(body).unwrap()
}

/// What lasts is told when it begins, and when it begins again.
#[test]
fn a_spell_is_told_once() {
    let mut spell = Spell::default();
    let told = [false, true, true, true, false, true].map(|found| spell.begins(found));
    assert_eq!(told, [false, true, false, false, false, true]);
}
