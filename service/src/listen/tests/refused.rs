//! Senders that are refused before their bodies were read, and send on.

use super::*;

/// Frames of HTTP/2 (RFC 9113, section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;

/// More than the calls that HTTP/2's library takes for faults of ours, unless it is told otherwise.
const CALLS: u32 = 2_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

async fn next(stream: &mut TcpStream) -> (u8, u8) {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.unwrap();
    (head[3], head[4])
}

/// Waits for `count` frames of that kind and flag. The end of the connection is none of them.
async fn until(stream: &mut TcpStream, kind: u8, flag: u8, count: u32) {
    let mut seen = 0;
    while seen < count {
        let (came, flags) = next(stream).await;
        assert_ne!(came, GOAWAY, "the connection was ended after {seen} of {count}");
        seen += u32::from(came == kind && flags & flag == flag);
    }
}

/// A sender whose bodies arrive when they were refused long ago keeps its connection, however often that happens.
#[tokio::test]
async fn a_refused_sender_keeps_its_connection() {
    let refuse = post(|| async { StatusCode::SERVICE_UNAVAILABLE });
    let (addr, _stop) = serves(wide(), Router::new().route("/refuse", refuse)).await;
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    // POST and http by their places in HPACK's table; the path as it is.
    let headers = [&[0x83, 0x86, 0x04, 7][..], b"/refuse"].concat();
    let calls: Vec<u32> = (0..CALLS).map(|call| 2 * call + 1).collect();
    for some in calls.chunks(100) {
        for call in some {
            stream.write_all(&frame(HEADERS, END_HEADERS, *call, &headers)).await.unwrap();
        }
        until(&mut stream, HEADERS, END_STREAM, some.len() as u32).await;
        for call in some {
            stream.write_all(&frame(DATA, END_STREAM, *call, b"x")).await.unwrap();
        }
    }
    stream.write_all(&frame(PING, 0, 0, b"all well")).await.unwrap();
    until(&mut stream, PING, ACK, 1).await;
}
