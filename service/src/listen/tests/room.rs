//! What peers may send before anybody reads it.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// `POST http://x/hold`, each field as a literal that is not indexed but for those of HPACK's own table.
const ASK: &[u8] = &[0x83, 0x86, 0x04, 5, b'/', b'h', b'o', b'l', b'd', 0x01, 1, b'x'];

/// A peer that speaks HTTP/2 by hand and knows what it was promised.
struct Peer {
    stream: TcpStream,
    window: usize,
    stream_window: usize,
    frame: usize,
}

impl Peer {
    async fn connect(addr: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(PREFACE).await.unwrap();
        let mut peer = Self { stream, window: 65_535, stream_window: 65_535, frame: 16_384 };
        peer.send(SETTINGS, 0, 0, b"").await;
        peer.round_trip().await;
        peer
    }

    async fn send(&mut self, kind: u8, flags: u8, call: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(call.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Reads until everything that was sent has been seen by the other side.
    async fn round_trip(&mut self) {
        self.send(PING, 0, 0, b"all here").await;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.unwrap();
            let [a, b, c, kind, flags, ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            let word = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()) as usize;
            match kind {
                SETTINGS if flags == 0 => {
                    for at in (0..payload.len()).step_by(6) {
                        match payload[at + 1] {
                            4 => self.stream_window = word(at + 2),
                            5 => self.frame = word(at + 2),
                            _ => {}
                        }
                    }
                    self.send(SETTINGS, 1, 0, b"").await;
                }
                WINDOW_UPDATE if head[5..] == [0; 4] => self.window += word(0),
                PING => return,
                // No call is answered, reset or given a larger window, and the connection is not ended.
                SETTINGS => {}
                other => panic!("a frame of kind {other}: {payload:?}"),
            }
        }
    }

    /// Sends all it may, in as many calls as that takes, and says how much that was.
    async fn fill(&mut self) -> usize {
        let (mut sent, mut call) = (0, 1);
        // The connection's window is raised only once it is under way.
        while sent < self.window {
            while sent < self.window {
                self.send(HEADERS, 4, call, ASK).await;
                let mut left = self.stream_window.min(self.window - sent);
                while left > 0 {
                    let piece = left.min(self.frame);
                    self.send(DATA, 0, call, &vec![0; piece]).await;
                    (left, sent) = (left - piece, sent + piece);
                }
                call += 2;
            }
            self.round_trip().await;
        }
        sent
    }
}

/// However many connect and send all they may, to calls that do not read it, what is taken from them together stays within the
/// room; and who finds no room is let in when somebody leaves.
#[tokio::test]
async fn bodies_that_nobody_reads_stay_within_the_room() {
    const ROOM: usize = 4 << 20;
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let hold = post(move |body: Body| async move {
        counted.fetch_add(1, Ordering::Relaxed);
        let _unread = body;
        std::future::pending::<()>().await
    });
    let bounds = Bounds { ahead: Some(Arc::new(Ahead::new(ROOM))), ..wide() };
    let (addr, _stop) = serves(bounds, Router::new().route("/hold", hold)).await;
    let (mut peers, mut taken, mut promised) = (Vec::new(), 0, 0);
    let places = ROOM / (160 << 10);
    for _ in 0..places {
        let mut peer = Peer::connect(addr).await;
        taken += peer.fill().await;
        // A frame is only measured once it is there.
        promised += peer.window + peer.frame;
        peers.push(peer);
    }
    assert!(asked.load(Ordering::Relaxed) >= places, "the calls are there: it is their bodies that nobody reads");
    assert!(taken > ROOM / 2 && promised <= ROOM, "{taken} taken, {promised} promised");
    assert!(peers[0].window > 2 * peers[places - 1].window, "the first may send more at once than a crowd");

    let mut late = TcpStream::connect(addr).await.unwrap();
    let mut answer = tokio::spawn(async move { ask(&mut late).await });
    let early = tokio::time::timeout(Duration::from_millis(200), &mut answer).await;
    assert!(early.is_err(), "one more was let in: {early:?}");
    peers.pop();
    assert!(answer.await.unwrap().ends_with("hello"));
}

/// `GET http://x/`.
const HELLO: &[u8] = &[0x82, 0x86, 0x84, 0x01, 1, b'x'];

/// Who has asked once and then only answers and sends pings has no place for ever, and who waits for its place gets it.
#[tokio::test]
async fn who_only_pings_is_let_go() {
    let bounds = Bounds { connections: 1, idle: Duration::from_millis(300), ..wide() };
    let (addr, stop) = served(bounds).await;
    let mut peer = Peer::connect(addr).await;
    peer.send(HEADERS, 5, 1, HELLO).await;
    let mut late = TcpStream::connect(addr).await.unwrap();
    let late = tokio::spawn(async move { ask(&mut late).await });
    let (mut read, mut write) = peer.stream.split();
    let pinging = async {
        while write.write_all(&[0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut rest = Vec::new();
    let ended = async { read.read_to_end(&mut rest).await };
    let gone = async {
        tokio::select! {
            _ = ended => {}
            () = pinging => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("it is still there");
    assert!(rest.windows(5).any(|bytes| bytes == b"hello"), "it was answered");
    assert!(late.await.unwrap().ends_with("hello"));
    stop.cancel();
}

/// A call that takes longer than a connection may idle is no idling, nor is what comes right after it.
#[tokio::test]
async fn calls_that_take_long_are_not_idle() {
    let idle = Duration::from_millis(300);
    let slow = get(move || async move {
        tokio::time::sleep(3 * idle).await;
        "slow"
    });
    let (addr, stop) = serves(Bounds { idle, ..wide() }, Router::new().route("/slow", slow)).await;
    let mut client = connect(addr).await;
    for _ in 0..2 {
        let request = Request::get("http://x/slow").body(Body::empty()).unwrap();
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "slow");
    }
    stop.cancel();
}
