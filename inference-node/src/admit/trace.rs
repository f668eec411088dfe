//! W3C trace context of a request.

use axum::http::HeaderMap;

/// Trace and span id of the caller, if the request names a valid one.
pub(crate) fn parent(headers: &HeaderMap) -> Option<(u128, u64)> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let sound = hex(version, 2) && version != "ff" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    // Version 0 has exactly four parts; later ones may have more.
    if !sound || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    (trace != 0 && span != 0).then_some((trace, span))
}

fn hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the tokens of this trace are recorded: the same answer for every call of a trace.
pub(crate) fn sampled(trace_id: u128, share: f64) -> bool {
    // The low half of a trace id is random in every common generator.
    let position = (trace_id & u128::from(u64::MAX)) as f64 / 2f64.powi(64);
    share >= 1.0 || position < share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent_of(text: &str) -> Option<(u128, u64)> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", text.parse().unwrap());
        parent(&headers)
    }

    /// Valid contexts are read, invalid ones are as if absent.
    #[test]
    fn contexts() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(parent_of(good), Some((0x0af7651916cd43dd8448eb211c80319c, 0xb7ad6b7169203331)));
        assert!(parent_of(&format!("{}-more", good.replacen("00", "01", 1))).is_some());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(parent_of(bad), None, "{bad}");
        }
    }

    /// The share of traces recorded is the share asked for.
    #[test]
    fn sampling_shares() {
        let ids = (0..10_000u128).map(|id| id.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        let kept = |share: f64| ids.clone().filter(|id| sampled(*id, share)).count();
        assert_eq!((kept(0.0), kept(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&kept(0.25)), "{}", kept(0.25));
    }
}
