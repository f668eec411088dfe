//! A connection as messages: what comes is bounded before it is taken apart, what goes is gathered and sent in one piece.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use service::{listen::Limits, tls::Stream};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::refusal::Refusal;

/// Largest message after the login: as much as a statement over HTTP may have.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Largest message before it (PostgreSQL's own bound).
pub(super) const LOGIN_BYTES_MAX: usize = 10_000;
/// Bytes gathered before they are sent without being asked to.
const SEND_BYTES: usize = 64 << 10;
/// Most bytes kept of what a client says while its query still runs.
const AHEAD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Bytes of a message's kind and length.
const HEAD_BYTES: usize = 5;

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client left.
    Left,
    /// The client is told why, and left.
    Refused(Refusal),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Left
    }
}

/// A connection.
pub(super) struct Wire {
    stream: Stream,
    received: BytesMut,
    gathered: BytesMut,
    message_bytes_max: usize,
    /// A client that takes nothing for `write_stall` is gone: meanwhile its query holds a place. One that began to say something
    /// brings more of it within `body_window`.
    limits: Limits,
}

impl Wire {
    /// A connection whose client has yet to log in.
    pub(super) fn new(stream: Stream, limits: Limits) -> Wire {
        let (received, gathered) = (BytesMut::new(), BytesMut::new());
        Wire { stream, received, gathered, message_bytes_max: LOGIN_BYTES_MAX, limits }
    }

    /// From now on messages may be as large as statements are.
    pub(super) fn trust(&mut self) {
        self.message_bytes_max = MESSAGE_BYTES_MAX;
    }

    /// The next message, its kind and its body.
    ///
    /// # Cancel safety
    /// Cancel safe: what was read of a message stays here.
    pub(super) async fn message(&mut self) -> Result<(u8, Bytes), End> {
        loop {
            if let Some(message) = self.received_message()? {
                return Ok(message);
            }
            let is_begun = !self.received.is_empty();
            let read = self.stream.read_buf(&mut self.received);
            let read =
                if is_begun { timeout(self.limits.body_window, read).await.map_err(|_| late())? } else { read.await };
            if read? == 0 {
                return Err(End::Left);
            }
        }
    }

    fn received_message(&mut self) -> Result<Option<(u8, Bytes)>, End> {
        let Some(mut head) = self.received.get(..HEAD_BYTES) else { return Ok(None) };
        let (kind, length) = (head.get_u8(), head.get_i32());
        let body = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
        let Some(body) = body.filter(|body| *body <= self.message_bytes_max) else {
            let message = format!("a message of {length} bytes is none, or more than {}", self.message_bytes_max);
            return Err(End::Refused(Refusal::fatal("08P01", message)));
        };
        if self.received.len() < HEAD_BYTES + body {
            return Ok(None);
        }
        self.received.advance(HEAD_BYTES);
        Ok(Some((kind, self.received.split_to(body).freeze())))
    }

    /// Waits until the client has left; what it says meanwhile is kept for later.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn left(&mut self) {
        while self.received.len() < AHEAD_BYTES_MAX {
            if !self.stream.read_buf(&mut self.received).await.is_ok_and(|bytes| bytes > 0) {
                return;
            }
        }
        std::future::pending().await
    }

    /// Gathers a message.
    pub(super) fn gather(&mut self, message: &PgWireBackendMessage) -> Result<(), End> {
        // It writes to memory; what it refuses is a message past 2 GiB.
        message.encode(&mut self.gathered).map_err(|error| End::Refused(too_long(&error.to_string())))
    }

    /// Where messages are gathered, for those that are written in place.
    pub(super) fn gathered(&mut self) -> &mut BytesMut {
        &mut self.gathered
    }

    /// Sends what was gathered, if it is much.
    pub(super) async fn send_if_much(&mut self) -> Result<(), End> {
        if self.gathered.len() >= SEND_BYTES { self.send().await } else { Ok(()) }
    }

    /// Sends what was gathered.
    pub(super) async fn send(&mut self) -> Result<(), End> {
        // Each time something is taken it begins anew: a long row over a slow line stands nowhere still.
        while self.gathered.has_remaining() {
            let taken = timeout(self.limits.write_stall, self.stream.write_buf(&mut self.gathered));
            if taken.await.map_err(|_| End::Left)?? == 0 {
                return Err(End::Left);
            }
        }
        timeout(self.limits.write_stall, self.stream.flush()).await.map_err(|_| End::Left)??;
        Ok(())
    }

    /// Tells why, and hangs up.
    pub(super) async fn close(mut self, end: End) {
        if let End::Refused(refusal) = end
            && self.gather(&refusal.to_message()).is_err()
        {
            return;
        }
        // Whoever does not read this is gone anyway.
        if self.send().await.is_ok() {
            let _ = timeout(self.limits.write_stall, self.stream.shutdown()).await;
        }
    }
}

fn late() -> End {
    End::Refused(Refusal::fatal("08P01", "the rest of a message did not come"))
}

fn too_long(error: &str) -> Refusal {
    Refusal::fatal("54000", format!("a row cannot be sent: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use service::{listen::Limits, tls::Stream};
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
        time::sleep,
    };

    use super::Wire;

    /// A client that takes a little again and again is not one that takes nothing, however long the whole of it lasts.
    #[tokio::test]
    async fn who_takes_slowly_is_not_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        let (socket, _) = listener.accept().await.expect("accepted");
        let limits = Limits { write_stall: Duration::from_secs(1), ..Limits::default() };
        let mut wire = Wire::new(Stream::Plain(socket), limits);
        // More than the kernel keeps on its own for either side.
        let bytes = 48 << 20;
        wire.gathered().resize(bytes, b'x');
        let reading = async move {
            let (mut piece, mut read, mut pieces) = (vec![0; 2 << 20], 0, 0);
            while read < bytes {
                if pieces < 20 {
                    sleep(Duration::from_millis(100)).await;
                }
                read += client.read(&mut piece).await.expect("some of it");
                pieces += 1;
            }
            read
        };
        let (sent, read) = tokio::join!(wire.send(), reading);
        assert!(sent.is_ok());
        assert_eq!(read, bytes);
    }
}
