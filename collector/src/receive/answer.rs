//! Answers: one table from what went wrong to what each protocol says, so that conforming senders retry what may succeed
//! and drop what cannot.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use service::error::{Error, Kind, chain};

use super::Encoding;
use super::intake::Accepted;
use crate::decode::print::quote;
use crate::decode::wire::{put_bytes, put_tag, put_varint};
use crate::signal::Signal;

/// How a failure is told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Failure {
    /// Status over HTTP.
    pub(super) http: u16,
    /// Code over gRPC.
    pub(super) grpc: u16,
    /// When to come back, if that can help.
    pub(super) retry_after: Option<Duration>,
    /// What the sender reads.
    pub(super) message: String,
}

impl Failure {
    /// The answer to an error. Faults of ours are told as UNAVAILABLE: senders keep the data and try again.
    pub(super) fn of(error: &Error) -> Self {
        let (http, grpc) = match error.kind() {
            Kind::Invalid => (400, 3),
            Kind::TooLarge => (413, 8),
            Kind::Unauthenticated => (401, 16),
            Kind::Denied => (403, 7),
            Kind::NotFound => (404, 12),
            Kind::Throttled { .. } => (429, 8),
            _ => (503, 14),
        };
        let retry_after = match error.kind() {
            Kind::Invalid | Kind::TooLarge | Kind::Unauthenticated | Kind::Denied | Kind::NotFound => None,
            kind => Some(kind.retry_after().unwrap_or(Duration::from_secs(1)).clamp(RETRY_MIN, RETRY_MAX)),
        };
        let mut message = chain(error);
        if let Some(hint) = error.hint() {
            message.push_str("; ");
            message.push_str(hint);
        }
        Self { http, grpc, retry_after, message }
    }

    /// `google.rpc.Status` in the encoding of the request.
    pub(super) fn body(&self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Protobuf => self.status(),
            Encoding::Json => self.json().into_bytes(),
        }
    }

    /// The status for `grpc-status-details-bin`.
    pub(super) fn details(&self) -> String {
        STANDARD_NO_PAD.encode(self.status())
    }

    fn status(&self) -> Vec<u8> {
        let mut status = Vec::new();
        put_tag(1, 0, &mut status);
        put_varint(u64::from(self.grpc), &mut status);
        put_bytes(2, self.message.as_bytes(), &mut status);
        if let Some(delay) = self.retry_after {
            let mut duration = Vec::new();
            put_tag(1, 0, &mut duration);
            put_varint(delay.as_secs(), &mut duration);
            let mut retry_info = Vec::new();
            put_bytes(1, &duration, &mut retry_info);
            let mut any = Vec::new();
            put_bytes(1, RETRY_INFO.as_bytes(), &mut any);
            put_bytes(2, &retry_info, &mut any);
            put_bytes(3, &any, &mut status);
        }
        status
    }

    fn json(&self) -> String {
        let mut json = format!("{{\"code\":{},\"message\":", self.grpc);
        quote(&self.message, &mut json);
        if let Some(delay) = self.retry_after {
            json.push_str(&format!(
                ",\"details\":[{{\"@type\":\"{RETRY_INFO}\",\"retryDelay\":\"{}s\"}}]",
                delay.as_secs()
            ));
        }
        json.push('}');
        json
    }
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Shortest and longest time a sender is asked to wait.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(4);

/// `Export…ServiceResponse` in the encoding of the request: partial success is left out if there is nothing to say.
pub(super) fn success(signal: Signal, encoding: Encoding, accepted: &Accepted) -> Vec<u8> {
    if accepted.rejected == 0 && accepted.message.is_empty() {
        return match encoding {
            Encoding::Protobuf => Vec::new(),
            Encoding::Json => b"{}".to_vec(),
        };
    }
    match encoding {
        Encoding::Protobuf => {
            let mut partial = Vec::new();
            if accepted.rejected > 0 {
                put_tag(1, 0, &mut partial);
                put_varint(accepted.rejected, &mut partial);
            }
            put_bytes(2, accepted.message.as_bytes(), &mut partial);
            let mut response = Vec::new();
            put_bytes(1, &partial, &mut response);
            response
        }
        Encoding::Json => {
            let mut json = String::from("{\"partialSuccess\":{");
            if accepted.rejected > 0 {
                json.push_str(&format!("\"{}\":\"{}\",", signal.rejected_json(), accepted.rejected));
            }
            json.push_str("\"errorMessage\":");
            quote(&accepted.message, &mut json);
            json.push_str("}}");
            json.into_bytes()
        }
    }
}
