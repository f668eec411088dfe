//! A request's body has to come on: who sends a byte now and then to keep a call open is answered that it took too long.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{io, mem};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tower::ServiceExt;

/// The least that a body has to bring: `bytes` in `window` of waiting for it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Time of waiting; what the server does in between does not count.
    pub window: Duration,
    /// Bytes.
    pub bytes: u64,
}

/// How far a call is, as its body and its answer both see it.
#[derive(Debug, Default)]
struct Call(AtomicU8);

const ANSWERED: u8 = 1;
const LATE: u8 = 2;

impl Call {
    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Relaxed) == state
    }

    fn becomes(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }
}

/// Answers a request, whose body has to keep `pace` until the answer begins.
pub(super) async fn answer(router: Router, request: Request, pace: Pace) -> Response {
    if request.body().is_end_stream() {
        return router.oneshot(request).await.into_response();
    }
    let call = Arc::new(Call::default());
    let refusal = Refusal::to(&request);
    let request = request.map(|body| Body::new(Paced::new(body, pace, Arc::clone(&call))));
    let mut answer = std::pin::pin!(router.oneshot(request));
    // The body is polled nowhere but in here, so that its being late is seen at once, whatever the answer makes of it.
    let response = std::future::poll_fn(|cx| match answer.as_mut().poll(cx) {
        _ if call.is(LATE) => Poll::Ready(None),
        Poll::Ready(response) => Poll::Ready(Some(response)),
        Poll::Pending => Poll::Pending,
    });
    match response.await {
        Some(response) => {
            call.becomes(ANSWERED);
            response.into_response()
        }
        None => refusal.response(),
    }
}

/// How a request whose body is late is answered.
struct Refusal {
    is_grpc: bool,
    version: Version,
}

impl Refusal {
    fn to(request: &Request) -> Self {
        let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        Self { is_grpc: kind.starts_with(b"application/grpc"), version: request.version() }
    }

    fn response(self) -> Response {
        const MESSAGE: &str = "the body did not arrive in time";
        tracing::debug!("a request was given up: {MESSAGE}");
        if self.is_grpc {
            return tonic::Status::unavailable(MESSAGE).into_http::<Body>();
        }
        let mut response = (StatusCode::REQUEST_TIMEOUT, MESSAGE).into_response();
        if self.version < Version::HTTP_2 {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// A body that fails if it does not keep its pace.
struct Paced {
    body: Body,
    pace: Pace,
    call: Arc<Call>,
    /// Bytes of this window.
    bytes: u64,
    /// Waiting in this window that is over, and since when it is waited now.
    waited: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(body: Body, pace: Pace, call: Arc<Call>) -> Self {
        Self { body, pace, call, bytes: 0, waited: Duration::ZERO, since: None, timer: None }
    }

    fn came(&mut self, bytes: u64) {
        if let Some(since) = self.since.take() {
            self.waited += since.elapsed();
        }
        self.bytes += bytes;
        if self.bytes >= self.pace.bytes {
            (self.bytes, self.waited) = (0, Duration::ZERO);
        }
    }

    /// Ready when it has been waited long enough.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let begins = self.since.is_none();
        let now = *self.since.get_or_insert_with(Instant::now);
        let until = now + self.pace.window.saturating_sub(self.waited);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        if begins {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(cx)
    }
}

impl HttpBody for Paced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                this.came(data.map_or(0, |data| data.len() as u64));
                Poll::Ready(frame)
            }
            Poll::Pending if this.call.is(ANSWERED) => Poll::Pending,
            Poll::Pending => this.poll_late(cx).map(|()| {
                this.call.becomes(LATE);
                // What comes now is of no use to anybody.
                drop(mem::take(&mut this.body));
                Some(Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
