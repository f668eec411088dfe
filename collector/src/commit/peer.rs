//! Calls of `tokenwatt.lake.v1.Commit`.

use std::time::Duration;

use axum::http::uri::PathAndQuery;
use lake::wire::{CommitRequest, CommitResponse, METHOD};
use lake::{Entry, Outcome};
use parking_lot::Mutex;
use service::error::{Error, Result};
use tonic::Request;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

/// Time to reach the other process.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for its answer: it waits for its pace, then for the store.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The process that commits, wherever it is now.
pub(super) struct Peer {
    token: Option<String>,
    /// The connection used last, by address.
    channel: Mutex<Option<(String, Channel)>>,
}

impl Peer {
    pub(super) fn new(token: Option<String>) -> Self {
        Self { token, channel: Mutex::default() }
    }

    /// Sends an entry to `address` and waits for what became of it.
    ///
    /// # Errors
    /// `Unavailable`, after which the entry may or may not have been applied; `Invalid` for an address that is none.
    pub(super) async fn commit(&self, address: &str, entry: &Entry) -> Result<Outcome> {
        let mut client = Grpc::new(self.channel(address)?);
        let mut request = Request::new(CommitRequest::of(entry));
        if let Some(token) = &self.token {
            let wrong = |e| Error::invalid("the commit token is no header value").with_source(e);
            let value = MetadataValue::try_from(format!("Bearer {token}")).map_err(wrong)?;
            request.metadata_mut().insert("authorization", value);
        }
        let unanswered = |message: String| Error::unavailable(format!("{address} did not commit: {message}"));
        client.ready().await.map_err(|e| unanswered(e.to_string()))?;
        let codec = ProstCodec::<CommitRequest, CommitResponse>::default();
        let answer = client.unary(request, PathAndQuery::from_static(METHOD), codec).await;
        let answer = answer.map_err(|status| unanswered(status.message().to_owned()))?;
        answer.into_inner().outcome().ok_or_else(|| unanswered("its answer is empty".to_owned()))
    }

    fn channel(&self, address: &str) -> Result<Channel> {
        let mut known = self.channel.lock();
        if let Some((at, channel)) = known.as_ref().filter(|(at, _)| at == address) {
            tracing::trace!(at, "connection to the committer");
            return Ok(channel.clone());
        }
        let wrong = |e| Error::invalid(format!("the committer's address `{address}`")).with_source(e);
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(wrong)?;
        let channel = endpoint.connect_timeout(CONNECT_TIMEOUT).timeout(ANSWER_TIMEOUT).connect_lazy();
        *known = Some((address.to_owned(), channel.clone()));
        Ok(channel)
    }
}
