//! Calls of `tokenwatt.lake.v1.Commit`.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::uri::PathAndQuery;
use axum::http::{Request as HttpRequest, Response as HttpResponse};
use futures::FutureExt;
use lake::wire::{CommitRequest, CommitResponse, METHOD};
use lake::{Entry, Outcome};
use parking_lot::Mutex;
use service::clock::SharedClock;
use service::error::{Error, Result};
use service::uplink::{Credentials, Uplink};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

/// Time for its answer: it waits for its pace, then for the store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A way to another process.
pub(crate) type Line = BoxCloneSyncService<HttpRequest<Body>, HttpResponse<Body>, Status>;
/// Finds the way to an address.
pub(crate) type Dial = Box<dyn Fn(&str) -> Result<Line> + Send + Sync>;

/// Over the network, under TLS where the address says `https`. `ca` vouches for the others then, or the system's authorities do.
pub(crate) fn network(ca: Option<PathBuf>) -> Dial {
    let credentials = Credentials { ca, ..Credentials::default() };
    Box::new(move |address| {
        let uplink = Uplink::new("the committer's address", address, &credentials, ANSWER_TIMEOUT)?;
        Ok(BoxCloneSyncService::new(uplink.channel().map_err(|error| Status::unavailable(error.to_string()))))
    })
}

/// The process that commits, wherever it is now.
pub(super) struct Peer {
    dial: Dial,
    token: Option<String>,
    clock: SharedClock,
    /// The connection used last, by address.
    line: Mutex<Option<(String, Line)>>,
}

impl Peer {
    pub(super) fn new(dial: Dial, token: Option<String>, clock: SharedClock) -> Self {
        Self { dial, token, clock, line: Mutex::default() }
    }

    /// Sends an entry to `address` and waits for what became of it.
    ///
    /// # Errors
    /// `Unavailable`, after which the entry may or may not have been applied; `Invalid` for an address that is none.
    pub(super) async fn commit(&self, address: &str, entry: &Entry) -> Result<Outcome> {
        let line = self.line(address)?;
        let mut request = Request::new(CommitRequest::of(entry));
        if let Some(token) = &self.token {
            let wrong = |e| Error::invalid("the commit token is no header value").with_source(e);
            let value = MetadataValue::try_from(format!("Bearer {token}")).map_err(wrong)?;
            request.metadata_mut().insert("authorization", value);
        }
        // Cancel safe: the entry may or may not have been applied, as after any lost answer.
        let answer = tokio::select! {
            answer = call(line, request).boxed() => answer,
            () = self.clock.sleep(ANSWER_TIMEOUT) => Err(Status::deadline_exceeded("it took too long")),
        };
        let unanswered = |message: &str| Error::unavailable(format!("{address} did not commit: {message}"));
        let answer = answer.map_err(|status| unanswered(status.message()))?;
        answer.outcome().ok_or_else(|| unanswered("its answer is empty"))
    }

    fn line(&self, address: &str) -> Result<Line> {
        let mut known = self.line.lock();
        if let Some((_, line)) = known.as_ref().filter(|(at, _)| at == address) {
            return Ok(line.clone());
        }
        let line = (self.dial)(address)?;
        *known = Some((address.to_owned(), line.clone()));
        Ok(line)
    }
}

async fn call(line: Line, request: Request<CommitRequest>) -> std::result::Result<CommitResponse, Status> {
    let mut client = Grpc::new(line);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<CommitRequest, CommitResponse>::default();
    client.unary(request, PathAndQuery::from_static(METHOD), codec).await.map(Response::into_inner)
}
