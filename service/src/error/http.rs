//! How an error leaves over HTTP: a status, a JSON body and, when waiting helps, `Retry-After`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{Error, Kind};

/// "Client closed request", as nginx counts it; there is no registered code for it.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Kind {
    /// The HTTP status of this kind.
    #[must_use]
    pub fn http_status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Denied => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Conflict => StatusCode::CONFLICT,
            Self::Overloaded { .. } | Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Cancelled => StatusCode::from_u16(CLIENT_CLOSED_REQUEST).unwrap_or(StatusCode::BAD_REQUEST),
            Self::Corrupt | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let kind = self.kind();
        let body = json!({"error": {"kind": kind.name(), "message": self.message(), "hint": self.hint()}});
        let mut response = (kind.http_status(), Json(body)).into_response();
        if let Some(wait) = kind.retry_after() {
            // Whole seconds, rounded up: the header knows nothing finer, and 0 would mean "at once".
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}
