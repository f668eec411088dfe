//! How a call ended.

use crate::decode::view::Value;
use crate::decode::wire::{Fields, Malformed, Raw};

/// OTLP's number of span status ERROR.
pub(super) const STATUS_ERROR: u64 = 2;

/// Whether a call ended well, by the status of its span, its finish reason and its error.
pub(super) fn status(status_code: u64, finish: &str, error: Option<&str>) -> &'static str {
    if CANCELLED.contains(&finish) || error.is_some_and(|error| CANCELLED.contains(&error)) {
        "cancelled"
    } else if status_code == STATUS_ERROR || error.is_some() || finish == "error" {
        "error"
    } else {
        "ok"
    }
}

/// What emitters call a call that its client, or somebody for it, gave up.
const CANCELLED: [&str; 7] = [
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "client_disconnected",
    "CancelledError",
    "asyncio.exceptions.CancelledError",
];

/// Finish reasons come as an array of text, as text that holds JSON (SGLang), or as plain text.
pub(super) fn finish_reason(value: Value<'_>) -> Result<String, Malformed> {
    match value {
        Value::Text(text) => match serde_json::from_str::<Reasons>(text) {
            Ok(reasons) => Ok(reasons.list()),
            Err(_) => Ok(text.to_owned()),
        },
        Value::Compound(bytes) => {
            let mut reasons = Vec::new();
            for field in Fields::new(bytes) {
                let (5, Raw::Bytes(array)) = field? else { continue };
                for item in Fields::new(array) {
                    if let (1, Raw::Bytes(reason)) = item?
                        && let Value::Text(reason) = Value::read(reason)?
                    {
                        reasons.push(reason);
                    }
                }
            }
            Ok(reasons.join(","))
        }
        _ => Ok(String::new()),
    }
}

/// Finish reasons as JSON: each as text, or as an object of a type.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Reasons {
    Many(Vec<Reason>),
    One(Reason),
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Reason {
    Text(String),
    Object { r#type: String },
}

impl Reasons {
    fn list(self) -> String {
        let reasons = match self {
            Reasons::Many(reasons) => reasons,
            Reasons::One(reason) => vec![reason],
        };
        let named = |reason| match reason {
            Reason::Text(text) | Reason::Object { r#type: text } => text,
        };
        reasons.into_iter().map(named).collect::<Vec<_>>().join(",")
    }
}
