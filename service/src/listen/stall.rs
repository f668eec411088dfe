//! A client has to take what it asked for: who stops reading holds a call, what it computes and its memory for ever.
//!
//! Seen in two places. Over HTTP/1 the socket takes no more bytes ([`Draining`]). Over HTTP/2 it does, but one call's window
//! stays shut, so each call sees how long the piece it gave away last lies there ([`Streams`], [`taken`]); only that call is ended.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::life::Life;

/// Most bytes given to a call at once. What was given cannot be taken back before the call ends.
const PIECE: usize = 64 * 1024;

tokio::task_local! {
    /// What the call that runs has given away.
    static GIVEN: Arc<Given>;
}

/// Since when the peer has something to take; `None` while the answer is being made.
#[derive(Debug, Default)]
struct Given(Mutex<Option<Instant>>);

impl Given {
    /// Waits until what was given lies there for `limit`.
    async fn lies(&self, limit: Duration) {
        let mut wait = limit;
        loop {
            sleep(wait).await;
            let since = *self.0.lock();
            wait = match since.map(|since| limit.saturating_sub(since.elapsed())) {
                Some(Duration::ZERO) => return,
                Some(left) => left,
                None => limit,
            };
        }
    }
}

/// Runs the calls of an HTTP/2 connection, each until its peer does not take its answer any more.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) stall: Option<Duration>,
    pub(super) life: Arc<Life>,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, call: F) {
        let open = self.life.call();
        let call = async move {
            let _open = open;
            call.await
        };
        let Some(stall) = self.stall else {
            tokio::spawn(call);
            return;
        };
        let given = Arc::new(Given::default());
        tokio::spawn(GIVEN.scope(Arc::clone(&given), async move {
            // A dropped call is reset, and its body goes with it.
            tokio::select! {
                biased;
                _ = call => {}
                () = given.lies(stall) => tracing::debug!("a call was ended: its client takes nothing of the answer"),
            }
        }));
    }
}

/// The answer of a call of [`Streams`], given away in pieces; as it is anywhere else.
pub(super) fn taken(response: Response) -> Response {
    let Ok(given) = GIVEN.try_with(Arc::clone) else { return response };
    if response.body().is_end_stream() {
        return response;
    }
    *given.0.lock() = Some(Instant::now());
    response.map(|body| Body::new(Pieces { body, rest: Bytes::new(), is_over: false, given }))
}

/// A body in pieces. It is over only when it was asked once more after the last of them: a call that had given away its end
/// would not be there any more to see that nobody takes it.
struct Pieces {
    body: Body,
    rest: Bytes,
    is_over: bool,
    given: Arc<Given>,
}

impl Pieces {
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => {
                    self.is_over = true;
                    return Poll::Ready(end);
                }
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // It is only asked for more when there is room for it.
        let polled = self.poll_rest(cx);
        *self.given.0.lock() = polled.is_ready().then(Instant::now);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = body.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(body.lower().saturating_add(rest));
        hint
    }
}

/// A connection that fails if not a byte of what is written can be sent for `stall`.
pub(super) struct Draining<S> {
    stream: S,
    stall: Option<Duration>,
    is_blocked: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Draining<S> {
    pub(super) fn new(stream: S, stall: Option<Duration>) -> Self {
        Self { stream, stall, is_blocked: false, timer: None }
    }

    fn within<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.is_blocked = false;
            return polled;
        }
        let Some(stall) = self.stall else { return polled };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(stall)));
        if !self.is_blocked {
            timer.as_mut().reset(Instant::now() + stall);
            self.is_blocked = true;
        }
        timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Draining<S> {
    #[inline]
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Draining<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
