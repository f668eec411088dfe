//! W3C trace context: goes on with the client's trace, or starts one.

use axum::http::{HeaderMap, HeaderValue};
use service::hop::TraceContext;

/// Where the gateway's span stands in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) trace_id: [u8; 16],
    /// The gateway's own span.
    pub(crate) span_id: [u8; 8],
    /// The client's span; `None` when the trace starts here.
    pub(crate) parent: Option<[u8; 8]>,
    pub(crate) flags: u8,
}

impl Place {
    /// A new span under the client's one, or in a new trace if the client sent none that can be read.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let span_id = id();
        match TraceContext::of(headers) {
            Some(TraceContext { trace_id, span_id: parent, flags }) => {
                Self { trace_id: trace_id.to_be_bytes(), span_id, parent: Some(parent.to_be_bytes()), flags }
            }
            None => Self { trace_id: id(), span_id, parent: None, flags: 1 },
        }
    }

    /// The header that makes the node's span a child of the gateway's.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let (trace_id, span_id) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.span_id));
        TraceContext { trace_id, span_id, flags: self.flags }.header()
    }
}

/// A random id that is not all zeros, which would mean "none".
fn id<const N: usize>() -> [u8; N]
where
    rand::distr::StandardUniform: rand::distr::Distribution<[u8; N]>,
{
    loop {
        let id: [u8; N] = rand::random();
        if id != [0; N] {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use service::hop::TRACEPARENT;

    use super::*;

    fn of(value: &'static str) -> Place {
        Place::of(&HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_static(value))]))
    }

    /// The trace goes on under the client's span and is passed on with the gateway's own span as parent.
    #[test]
    fn trace_goes_on() {
        let place = of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(place.trace_id[..2], [0x0A, 0xF7]);
        assert_eq!(place.parent.unwrap()[..2], [0xB7, 0xAD]);
        let header = place.header().unwrap();
        let header = header.to_str().unwrap();
        assert!(header.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && header.ends_with("-01"));
        assert!(!header.contains("b7ad6b7169203331"));
    }

    /// What cannot be read starts a new trace instead of failing the call.
    #[test]
    fn unreadable_starts_a_new_trace() {
        for value in ["", "00", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
            assert_eq!(of(value).parent, None, "{value}");
        }
        assert_ne!(of("").trace_id, of("").trace_id);
    }
}
