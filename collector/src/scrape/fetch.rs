//! One answer over HTTP, within its size; the caller bounds its time.

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName};
use service::error::{Error, Result};
use telemetry::prometheus::Format;

use crate::decode::inflate::{Compression, inflate};

/// Formats asked for, the better ones first. Without `allow-utf-8` newer clients turn the colon of `vllm:` into `_`.
const ACCEPTED: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,\
    application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,\
    text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
/// Tells the target how long the scraper waits, as Prometheus does.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";

/// An answer as it came.
pub(super) struct Fetched {
    pub(super) format: Format,
    compression: Compression,
    body: Bytes,
    limit: usize,
}

impl Fetched {
    /// The text, inflated.
    pub(super) fn text(&self) -> Result<Bytes> {
        inflate(self.compression, &self.body, self.limit, |_| true)
            .map_err(|error| Error::invalid("inflate the answer").with_source(error))
    }
}

/// Reads an answer of at most `limit` bytes, before and after inflation.
pub(super) async fn fetch(
    client: &reqwest::Client,
    url: &reqwest::Url,
    token: Option<&str>,
    limit: usize,
    timeout_s: f64,
) -> Result<Fetched> {
    let mut request = client.get(url.clone()).header(ACCEPT, ACCEPTED).header(ACCEPT_ENCODING, "gzip");
    request = request.header(HeaderName::from_static(TIMEOUT_HEADER), timeout_s.to_string());
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let failed = |error: reqwest::Error| Error::unavailable("ask the target").with_source(error.without_url());
    let mut response = request.send().await.map_err(failed)?;
    if response.status() != reqwest::StatusCode::OK {
        return Err(Error::unavailable(format!("the target answered {}", response.status())));
    }
    let text = |headers: &HeaderMap, name| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let format = Format::of(&text(response.headers(), CONTENT_TYPE));
    let encoding = text(response.headers(), CONTENT_ENCODING);
    let compression = Compression::from_header(&encoding)
        .ok_or_else(|| Error::invalid(format!("the answer is encoded as `{encoding}`, which was not asked for")))?;
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if body.len() + chunk.len() > limit {
            return Err(Error::too_large(format!("the answer is larger than {limit} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched { format, compression, body: body.freeze(), limit })
}
