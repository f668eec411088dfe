//! Answers: one table from what went wrong to what each protocol says, so that conforming senders retry what may succeed
//! and drop what cannot.

use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use service::error::{Error, Kind, chain};

use super::Encoding;
use super::intake::Accepted;
use crate::decode::inflate::Compression;
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

/// Code over gRPC for data that is wrong, and for a method that is not there.
pub(super) const INVALID_ARGUMENT: u16 = 3;
pub(super) const UNIMPLEMENTED: u16 = 12;

impl Failure {
    /// The answer to an error. Faults of ours are told as UNAVAILABLE: senders keep the data and try again. `roll` is a random
    /// number from 0 to 1 that spreads the senders' return.
    pub(super) fn of(error: &Error, roll: f64) -> Self {
        let (http, grpc) = match error.kind() {
            Kind::Invalid => (400, INVALID_ARGUMENT),
            Kind::TooLarge => (413, 8),
            Kind::Unauthenticated => (401, 16),
            Kind::Denied => (403, 7),
            Kind::NotFound => (404, 5),
            Kind::Throttled { .. } => (429, 8),
            _ => (503, 14),
        };
        let retry_after = match error.kind() {
            Kind::Invalid | Kind::TooLarge | Kind::Unauthenticated | Kind::Denied | Kind::NotFound => None,
            // The quota knows when there is room again; sooner would be in vain.
            Kind::Throttled { retry_after } => Some(spread(retry_after, THROTTLED_MAX, roll)),
            kind => Some(spread(kind.retry_after().unwrap_or(RETRY_MIN), RETRY_MAX, roll)),
        };
        let mut message = chain(error);
        if let Some(hint) = error.hint() {
            message.push_str("; ");
            message.push_str(hint);
        }
        Self { http, grpc, retry_after, message }
    }

    /// A failure that no waiting mends.
    pub(super) fn permanent(http: u16, grpc: u16, message: impl Into<String>) -> Self {
        Self { http, grpc, retry_after: None, message: message.into() }
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
        let mut detail = Vec::new();
        let kind = if let Some(delay) = self.retry_after {
            let mut duration = Vec::new();
            put_tag(1, 0, &mut duration);
            put_varint(delay.as_secs(), &mut duration);
            put_tag(2, 0, &mut duration);
            put_varint(u64::from(delay.subsec_nanos()), &mut duration);
            put_bytes(1, &duration, &mut detail);
            RETRY_INFO
        } else if self.grpc == INVALID_ARGUMENT {
            let mut violation = Vec::new();
            put_bytes(2, self.message.as_bytes(), &mut violation);
            put_bytes(1, &violation, &mut detail);
            BAD_REQUEST
        } else {
            return status;
        };
        let mut any = Vec::new();
        put_bytes(1, kind.as_bytes(), &mut any);
        put_bytes(2, &detail, &mut any);
        put_bytes(3, &any, &mut status);
        status
    }

    fn json(&self) -> String {
        let mut json = format!("{{\"code\":{},\"message\":", self.grpc);
        quote(&self.message, &mut json);
        if let Some(delay) = self.retry_after {
            let seconds = delay.as_secs_f64();
            json.push_str(&format!(",\"details\":[{{\"@type\":\"{RETRY_INFO}\",\"retryDelay\":\"{seconds:.3}s\"}}]"));
        } else if self.grpc == INVALID_ARGUMENT {
            json.push_str(&format!(
                ",\"details\":[{{\"@type\":\"{BAD_REQUEST}\",\"fieldViolations\":[{{\"description\":"
            ));
            quote(&self.message, &mut json);
            json.push_str("}]}]");
        }
        json.push('}');
        json
    }
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
/// Shortest and longest time a sender is asked to wait.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(4);
/// Longest wait for a quota: beyond it senders give a batch up.
const THROTTLED_MAX: Duration = Duration::from_secs(60);

/// A wait from `least` to `most`; those refused at once do not come back at once. In whole milliseconds.
fn spread(least: Duration, most: Duration, roll: f64) -> Duration {
    let least = least.clamp(RETRY_MIN, most);
    let wait = least + most.saturating_sub(least).min(RETRY_MAX - RETRY_MIN).mul_f64(roll.clamp(0.0, 1.0));
    Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

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

/// Answers shorter than this are sent as they are: most are, and compressed they would be no shorter.
const COMPRESSED_FROM: usize = 128;

/// The answer compressed in a way that `accepted`, a list such as `gzip;q=1.0, zstd`, names, if that makes it shorter.
pub(super) fn compressed(accepted: &str, answer: Vec<u8>) -> (Compression, Vec<u8>) {
    if answer.len() < COMPRESSED_FROM {
        return (Compression::Identity, answer);
    }
    let names = |wanted: &str| {
        accepted.split(',').any(|entry| {
            let (name, weight) = entry.split_once(';').unwrap_or((entry, ""));
            let none = matches!(weight.trim().strip_prefix("q="), Some("0" | "0.0" | "0.00" | "0.000"));
            name.trim().eq_ignore_ascii_case(wanted) && !none
        })
    };
    let (compression, smaller) = if names("gzip") {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        (Compression::Gzip, gzip.write_all(&answer).and_then(|()| gzip.finish()))
    } else if names("zstd") {
        (Compression::Zstd, zstd::bulk::compress(&answer, 1))
    } else {
        return (Compression::Identity, answer);
    };
    match smaller {
        Ok(smaller) if smaller.len() < answer.len() => (compression, smaller),
        _ => (Compression::Identity, answer),
    }
}

#[cfg(test)]
mod tests;
