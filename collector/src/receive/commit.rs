//! `tokenwatt.lake.v1.Commit` on the OTLP port: other collectors hand their entries to the one that holds the lease.
//!
//! The caller is a collector of this fleet, so it shows the fleet's commit token, not a writer's: whoever may send telemetry may
//! not for that reason say which files a table is made of. Names are checked so that a journal can only add files of its own.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::routing::post;
use http_body_util::{BodyExt, Limited};
use lake::wire::{CommitRequest, CommitResponse, METHOD};
use prost::Message;
use service::error::{Error, Kind, Result};
use service::secret::Secret;

use super::answer::Failure;
use super::grpc::{failure, success};
use super::intake::unprefix;
use crate::commit::Commits;
use crate::decode::inflate::Compression;

/// Largest message: 64 files with statistics take a fraction of it.
const MESSAGE_MAX: usize = 1 << 20;

/// What the method needs.
pub(crate) struct Desk {
    pub(crate) commits: Arc<Commits>,
    /// What a collector of the fleet shows.
    pub(crate) token: Option<Secret>,
}

/// The one method.
pub(crate) fn router(desk: Desk) -> Router {
    Router::new().route(METHOD, post(commit).with_state(Arc::new(desk)))
}

async fn commit(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match answer(&desk, &parts.headers, body).await {
        Ok(response) => success((Compression::Identity, response.encode_to_vec())),
        Err(error) => failure(&Failure::of(&error, rand::random())),
    }
}

async fn answer(desk: &Desk, headers: &HeaderMap, body: Body) -> Result<CommitResponse> {
    identify(desk.token.as_ref(), headers)?;
    let body = Limited::new(body, MESSAGE_MAX).collect().await;
    let body =
        body.map_err(|error| Error::too_large("an entry that cannot be read or is too large").with_source(error))?;
    let (compressed, message) = unprefix(&body.to_bytes())?;
    if compressed {
        return Err(Error::invalid("entries are not compressed"));
    }
    let request = CommitRequest::decode(message);
    let request = request.map_err(|error| Error::invalid("the message is no CommitRequest").with_source(error))?;
    desk.commits.commit_for(request.entry()?).await.map(CommitResponse::of)
}

/// Without a token configured the port is open, as it is for telemetry.
fn identify(token: Option<&Secret>, headers: &HeaderMap) -> Result<()> {
    let Some(token) = token else { return Ok(()) };
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    match token.matches(shown.as_bytes()) {
        true => Ok(()),
        false => Err(Error::new(Kind::Unauthenticated, "this is not the fleet's commit token")
            .with_hint("set the same `collector.commit_token` for all collectors of a lake")),
    }
}
