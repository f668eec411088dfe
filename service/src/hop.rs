//! What goes on from one side of a proxy to the other: headers, and the place in a trace.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// W3C's header of the trace.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Headers of one hop only (RFC 9110, 7.6.1), and those that a client library sets itself.
const HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    header::CONTENT_LENGTH,
];

/// The headers that are not of this hop alone, and those `kept` whatever they are.
pub fn end_to_end<'a>(
    headers: &'a HeaderMap,
    kept: &'a [HeaderName],
) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        connection.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    headers.iter().filter(move |(name, _)| kept.contains(name) || !HOP.contains(name) && !named.contains(name))
}

/// A span's place, as the header [`TRACEPARENT`] says it (W3C Trace Context, level 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Never 0.
    pub trace_id: u128,
    /// Never 0.
    pub span_id: u64,
    /// Bit 0: the caller records this trace.
    pub flags: u8,
}

impl TraceContext {
    /// The caller's span; `None` where the header is missing or cannot be read.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut fields = headers.get(TRACEPARENT)?.to_str().ok()?.trim().split('-');
        let version = hex(fields.next()?, 2)?;
        let (trace_id, span_id, flags) = (hex(fields.next()?, 32)?, hex(fields.next()?, 16)?, hex(fields.next()?, 2)?);
        // Version 0 has exactly four fields; later ones may have more.
        let sound = version != 0xFF && (version != 0 || fields.next().is_none());
        let context = Self { trace_id, span_id: u64::try_from(span_id).ok()?, flags: u8::try_from(flags).ok()? };
        (sound && trace_id != 0 && span_id != 0).then_some(context)
    }

    /// The header that makes what comes next a child of this span.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let Self { trace_id, span_id, flags } = self;
        HeaderValue::try_from(format!("00-{trace_id:032x}-{span_id:016x}-{flags:02x}")).ok()
    }
}

/// So many lowercase digits.
fn hex(text: &str, length: usize) -> Option<u128> {
    let sound = text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    sound.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<TraceContext> {
        TraceContext::of(&HeaderMap::from_iter([(TRACEPARENT, text.parse().unwrap())]))
    }

    /// Valid contexts are read and written as they were, invalid ones are as if absent.
    #[test]
    fn contexts() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = of(good).unwrap();
        assert_eq!((context.trace_id, context.span_id), (0x0af7651916cd43dd8448eb211c80319c, 0xb7ad6b7169203331));
        assert_eq!(context.flags, 1);
        assert_eq!(context.header().unwrap(), good);
        assert!(of(&format!("{}-more", good.replacen("00", "01", 1))).is_some());
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(TraceContext::of(&HeaderMap::new()), None);
    }

    /// What belongs to one hop stays there, also what `Connection` names; what is kept is kept.
    #[test]
    fn headers_of_one_hop() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("content-length", "7"),
            ("accept", "*/*"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let names =
            |kept: &[HeaderName]| end_to_end(&headers, kept).map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&[]), ["accept"]);
        let mut kept = names(&[header::TE, header::CONTENT_LENGTH]);
        kept.sort();
        assert_eq!(kept, ["accept", "content-length", "te"]);
    }
}
