//! Peers that take their time, those that may and those that may not.

use super::*;

const SHORT: Duration = Duration::from_millis(200);
/// Several times as long, for what may take its time.
const LONG: Duration = Duration::from_millis(1_200);

/// Bounds that whoever does nothing for a moment meets.
fn narrow() -> Bounds {
    Bounds { body: Pace { window: SHORT, bytes: 1_000 }, stall: Some(SHORT), ..wide() }
}

async fn read_all(body: Bytes) -> String {
    format!("{} bytes", body.len())
}

async fn think(body: Bytes) -> String {
    tokio::time::sleep(LONG).await;
    read_all(body).await
}

/// Answers before it reads, and then says what it hears.
async fn echo(body: Body) -> Body {
    Body::from_stream(stream::once(async { Ok(Bytes::from("well? ")) }).chain(body.into_data_stream()))
}

/// Tokens with long pauses between them.
async fn tokens() -> Body {
    let token = |token: &'static str| async move {
        tokio::time::sleep(LONG / 2).await;
        Ok::<_, Infallible>(token)
    };
    Body::from_stream(stream::iter(["a ", "b ", "c ", "d"]).then(token))
}

/// An answer without an end, whose making is told to stop by being dropped.
fn endless(dropped: CancellationToken) -> Body {
    let guard = dropped.drop_guard();
    Body::from_stream(stream::repeat(Bytes::from(vec![7; 100_000])).map(move |chunk| {
        let _ = &guard;
        Ok::<_, Infallible>(chunk)
    }))
}

fn routes() -> Router {
    Router::new()
        .route("/read", post(read_all))
        .route("/think", post(think))
        .route("/echo", post(echo))
        .route("/tokens", post(tokens))
}

/// A body that brings a byte now and then and never ends.
fn dripping() -> Body {
    Body::from_stream(stream::repeat("x").then(|byte| async move {
        tokio::time::sleep(SHORT / 10).await;
        Ok::<_, Infallible>(byte)
    }))
}

async fn text(response: hyper::Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Over HTTP/1 a body that drips is answered with 408 and its connection ends, whoever waits meanwhile.
#[tokio::test]
async fn a_dripping_body_is_given_up() {
    let (addr, _stop) = serves(narrow(), routes()).await;
    let mut slow = TcpStream::connect(addr).await.unwrap();
    slow.write_all(b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
    assert!(ask(&mut TcpStream::connect(addr).await.unwrap()).await.ends_with("hello"));
    let (mut read, mut write) = slow.split();
    let mut answer = Vec::new();
    tokio::select! {
        _ = read.read_to_end(&mut answer) => {}
        () = async {
            while write.write_all(b"x").await.is_ok() {
                tokio::time::sleep(SHORT / 10).await;
            }
            std::future::pending().await
        } => {}
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("connection: close"), "{answer}");
}

/// Over HTTP/2 it costs its call and no other of the connection; gRPC is told in its own words.
#[tokio::test]
async fn a_dripping_call_is_given_up() {
    let (addr, _stop) = serves(narrow(), routes()).await;
    let mut client = connect(addr).await;
    let slow = client.send_request(request("/read", dripping())).await.unwrap();
    assert_eq!(slow.status(), StatusCode::REQUEST_TIMEOUT);
    let mut call = request("/read", dripping());
    call.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    let slow = client.send_request(call).await.unwrap();
    assert_eq!(slow.headers()["grpc-status"], "14", "{slow:?}");
    let quick = client.send_request(request("/read", Body::from("quick"))).await.unwrap();
    assert_eq!(text(quick).await, "5 bytes");
}

/// A body that takes long and brings what it has to is read to its end.
#[tokio::test]
async fn a_long_body_that_comes_on_is_read() {
    let window = Duration::from_secs(2);
    let bounds = Bounds { body: Pace { window, bytes: 4 }, ..narrow() };
    let (addr, _stop) = serves(bounds, routes()).await;
    let pieces = stream::iter(["four"; 30]).then(move |piece| async move {
        tokio::time::sleep(window / 15).await;
        Ok::<_, Infallible>(piece)
    });
    let read = connect(addr).await.send_request(request("/read", Body::from_stream(pieces))).await.unwrap();
    assert_eq!(text(read).await, "120 bytes");
}

/// What the server takes its time for is not held against its client: thinking, pauses between tokens, and what the client has
/// left to say once it hears the answer.
#[tokio::test]
async fn long_calls_live() {
    let (addr, _stop) = serves(narrow(), routes()).await;
    let mut client = connect(addr).await;
    let thought = client.send_request(request("/think", Body::from("a question"))).await.unwrap();
    assert_eq!(text(thought).await, "10 bytes");
    let said = client.send_request(request("/tokens", Body::empty())).await.unwrap();
    assert_eq!(text(said).await, "a b c d");

    let late = stream::once(async {
        tokio::time::sleep(LONG).await;
        Ok::<_, Infallible>("here I am")
    });
    let echoed = client.send_request(request("/echo", Body::from_stream(late))).await.unwrap();
    assert_eq!(text(echoed).await, "well? here I am");

    for (path, answer) in [("think", "10 bytes"), ("tokens", "1\r\nd\r\n0\r\n\r\n")] {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        let call =
            format!("POST /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\na question");
        stream.write_all(call.as_bytes()).await.unwrap();
        let mut read = String::new();
        stream.read_to_string(&mut read).await.unwrap();
        assert!(read.ends_with(answer), "{read}");
    }
}

/// Whoever reads slowly, and does read, gets all of it.
#[tokio::test]
async fn a_slow_reader_gets_all() {
    const CHUNKS: usize = 100;
    let bounds = Bounds { stall: Some(Duration::from_secs(2)), ..wide() };
    let all = || async { Body::from_stream(stream::iter((0..CHUNKS).map(|_| Ok::<_, Infallible>(vec![7; 100_000])))) };
    let (addr, _stop) = serves(bounds, Router::new().route("/all", post(all))).await;
    let answer = connect(addr).await.send_request(request("/all", Body::empty())).await.unwrap();
    let (mut body, mut bytes) = (answer.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let before = bytes / 100_000;
        bytes += frame.unwrap().into_data().unwrap().len();
        if bytes / 100_000 > before {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
    assert_eq!(bytes, CHUNKS * 100_000);
}

/// Over HTTP/1 a client that stops reading loses its connection, and what made its answer stops.
#[tokio::test]
async fn a_reader_that_stops_is_dropped() {
    let dropped = CancellationToken::new();
    let making = dropped.clone();
    let endless = post(move || async move { endless(making) });
    let (addr, _stop) = serves(narrow(), Router::new().route("/endless", endless)).await;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"POST /endless HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    dropped.cancelled().await;
    // What was under way is there, and then no more.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}

/// Over HTTP/2 it loses its call, and the others of the connection go on; so does one whose whole answer was ready at once, and
/// one whose client has no room for a byte.
#[tokio::test]
async fn a_call_that_nobody_reads_is_ended() {
    let dropped = CancellationToken::new();
    let making = dropped.clone();
    let endless = post(move || async move { endless(making) });
    let whole = || async { Bytes::from(vec![7; 10_000_000]) };
    let router = routes().route("/endless", endless).route("/whole", post(whole));
    let (addr, _stop) = serves(narrow(), router).await;
    let mut client = connect(addr).await;
    let unread = client.send_request(request("/endless", Body::empty())).await.unwrap();
    dropped.cancelled().await;
    let next = client.send_request(request("/read", Body::from("next"))).await.unwrap();
    assert_eq!(text(next).await, "4 bytes");
    assert!(unread.into_body().collect().await.is_err(), "it was reset");

    let whole = client.send_request(request("/whole", Body::empty())).await.unwrap();
    tokio::time::sleep(LONG).await;
    assert!(whole.into_body().collect().await.is_err(), "it was reset");

    let io = TokioIo::new(TcpStream::connect(addr).await.unwrap());
    let shut = http2::Builder::new(TokioExecutor::new()).initial_stream_window_size(0).handshake(io).await;
    let (mut client, connection) = shut.unwrap();
    tokio::spawn(connection);
    let unread = client.send_request(request("/read", Body::from("small"))).await.unwrap();
    assert!(unread.into_body().collect().await.is_err(), "it was reset");
}
