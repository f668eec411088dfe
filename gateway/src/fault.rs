//! What a client is told when the gateway itself refuses or cannot serve a call, in OpenAI's error shape.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// OpenAI's clients retry on their own; this tells them not to when the gateway has already tried.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// A refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NoKey,
    WrongKey,
    UnknownPath,
    BadJson,
    BodyBroken,
    /// Larger than so many bytes.
    TooLarge(u64),
    NoNode,
    Unreachable,
    Timeout,
}

impl Fault {
    /// Stable name, for `error.type` and metrics.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::NoKey => "missing_api_key",
            Self::WrongKey => "invalid_api_key",
            Self::UnknownPath => "unknown_url",
            Self::BadJson => "invalid_json",
            Self::BodyBroken => "body_broken",
            Self::TooLarge(_) => "request_too_large",
            Self::NoNode => "no_node_available",
            Self::Unreachable => "node_unreachable",
            Self::Timeout => "node_timeout",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NoKey | Self::WrongKey => StatusCode::UNAUTHORIZED,
            Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::BadJson | Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NoNode => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable => StatusCode::BAD_GATEWAY,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    fn message(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::TooLarge(bytes_max) => {
                let text = format!("the request body is larger than the {bytes_max} bytes that this gateway accepts");
                return Cow::Owned(text);
            }
            Self::NoKey => "you did not provide an API key; send it as `Authorization: Bearer <key>`",
            Self::WrongKey => "incorrect API key provided",
            Self::UnknownPath => {
                "no such endpoint; this gateway serves /v1/chat/completions, /v1/completions and /v1/models"
            }
            Self::BadJson => "the request body is no JSON object",
            Self::BodyBroken => "the request body could not be read to its end",
            Self::NoNode => "no inference node can take the call now",
            Self::Unreachable => "the inference nodes tried could not be reached",
            Self::Timeout => "the inference node did not answer in time",
        })
    }

    fn kind(self) -> &'static str {
        match self.status().is_server_error() {
            true => "server_error",
            false => "invalid_request_error",
        }
    }

    /// The frame that ends a stream which broke on the way, perhaps within a line: it is an event of its own all the same.
    pub(crate) fn frame(self) -> String {
        format!("\n\ndata: {}\n\n", self.body())
    }

    fn body(self) -> serde_json::Value {
        json!({"error": {"message": self.message(), "type": self.kind(), "param": null, "code": self.code()}})
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self {
            Self::NoNode => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::Unreachable | Self::Timeout => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            _ => {}
        }
        response
    }
}
