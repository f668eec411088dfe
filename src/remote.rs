//! A query service elsewhere, asked over HTTP.

use std::sync::Arc;

use reqwest::header::HeaderValue;
use reqwest::{Client, Response};
use serde_json::Value;
use service::principal::Principal;
use service::secret::Secret;
use service::{Error, Result};
use telemetry::contract::{Answering, ApiError, QueryApi, READER_HEADER, SqlAnswer, SqlRequest};

/// Connects to the query service of another process.
#[derive(Clone)]
pub(crate) struct Remote {
    url: String,
    client: Client,
    token: Option<Secret>,
    /// The reader with whose rights the service is to answer; its own where none is named.
    reader: Option<HeaderValue>,
}

impl Remote {
    /// A client of the service at `server`, such as `http://127.0.0.1:8080`, that shows `token`.
    pub(crate) fn new(server: &str, token: Option<Secret>) -> Result<Self> {
        if !server.starts_with("http://") && !server.starts_with("https://") {
            return Err(Error::invalid(format!("`{server}` is no address of a query service"))
                .with_hint("give it as http://host:port"));
        }
        let url = format!("{}/api/v1/sql", server.trim_end_matches('/'));
        let client = Client::builder()
            .connect_timeout(std::time::Duration::from_secs(5))
            .build()
            .map_err(|error| Error::internal("set up the HTTP client").with_source(error))?;
        Ok(Self { url, client, token, reader: None })
    }

    /// The service as a principal of its settings sees it. One that sees everything sees what the token of this client does.
    pub(crate) fn seen_by(&self, principal: Option<&Arc<Principal>>) -> Self {
        let bound = principal.filter(|principal| !principal.sees_everything());
        // A name that no header can hold is nobody's.
        let nobody = HeaderValue::from_static("?");
        let reader = bound.map(|principal| HeaderValue::try_from(&principal.name).unwrap_or(nobody));
        Self { reader, ..self.clone() }
    }

    /// Sends the statement; the answer comes in the form that `accept` names.
    pub(crate) async fn ask(&self, request: &SqlRequest, accept: &str) -> Result<Response, ApiError> {
        let mut post = self.client.post(&self.url).header("accept", accept).json(request);
        if let Some(token) = &self.token {
            post = post.bearer_auth(token.expose());
        }
        if let Some(reader) = &self.reader {
            post = post.header(READER_HEADER, reader);
        }
        let sent = post.send().await;
        let response = sent.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.unwrap_or_default();
        Err(refusal(&body).unwrap_or_else(|| ApiError {
            kind: "internal".to_owned(),
            message: format!("{} answered {status}", self.url),
            hint: None,
        }))
    }

    fn unreachable(&self, error: &reqwest::Error) -> ApiError {
        ApiError {
            kind: "unavailable".to_owned(),
            message: format!("{} does not answer: {}", self.url, service::error::chain(error)),
            hint: Some("is `tokenwatt up` or `tokenwatt query` running there?".to_owned()),
        }
    }
}

/// The error in an answer: the service's own shape, bare or under `error`.
pub(crate) fn refusal(body: &[u8]) -> Option<ApiError> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get("error").cloned().unwrap_or(body);
    serde_json::from_value(error).ok()
}

impl QueryApi for Remote {
    fn sql(&self, request: SqlRequest) -> Answering<'_> {
        Box::pin(async move {
            let response = self.ask(&request, "application/json").await?;
            response.json::<SqlAnswer>().await.map_err(|error| self.unreachable(&error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both shapes of an error are understood, and other text is not mistaken for one.
    #[test]
    fn refusals() {
        let bare = r#"{"kind": "invalid", "message": "no column x"}"#;
        let wrapped = format!(r#"{{"error": {bare}}}"#);
        for body in [bare, &wrapped] {
            assert_eq!(refusal(body.as_bytes()).unwrap().message, "no column x");
        }
        assert_eq!(refusal(b"<html>"), None);
    }
}
