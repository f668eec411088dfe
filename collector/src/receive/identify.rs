//! Who sends: a writer shows its bearer token. Without writers configured the collector is open, on loopback only.

use axum::http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use service::error::{Error, Kind, Result};
use xxhash_rust::xxh3::xxh3_128;

/// A principal that may send telemetry.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Writer {
    /// Name for messages.
    pub name: String,
    /// Bearer token that it shows; at least 16 characters. Never printed.
    #[serde(serialize_with = "hidden")]
    pub token: String,
}

fn hidden<S: serde::Serializer>(_: &str, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str("***")
}

/// Checks the token of a request against the writers.
pub(super) fn identify(writers: &[Writer], headers: &HeaderMap) -> Result<()> {
    if writers.is_empty() {
        return Ok(());
    }
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
    let Some(shown) = shown else {
        return Err(Error::new(Kind::Unauthenticated, "no bearer token").with_hint("set the header authorization"));
    };
    // Digests are compared, so that the time taken tells nothing about how much of a token was right.
    let digest = xxh3_128(shown.as_bytes());
    let known = writers.iter().filter(|writer| xxh3_128(writer.token.as_bytes()) == digest && writer.token == shown);
    match known.count() {
        0 => Err(Error::new(Kind::Unauthenticated, "the bearer token belongs to no writer")),
        _ => Ok(()),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}
