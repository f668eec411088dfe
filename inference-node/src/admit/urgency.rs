//! How urgent a call is: its priority and its deadline.

use std::time::Duration;

use axum::http::HeaderMap;
use telemetry::names;

use crate::serve::Fault;

/// Longest time that a caller can give, so that no deadline overflows.
const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The priority in effect. Only a caller of the fleet may go before others; anybody may let others go first.
pub(super) fn priority(asked: Option<i32>, trusted: bool) -> i32 {
    let asked = asked.unwrap_or(0);
    if trusted { asked } else { asked.max(0) }
}

/// When nobody wants the answer any more, nanoseconds on the clock of `arrival_ns`.
///
/// # Errors
/// A fault if the header is no whole number of milliseconds from 1.
pub(super) fn deadline(headers: &HeaderMap, arrival_ns: i64) -> Result<Option<i64>, Fault> {
    let Some(value) = headers.get(names::HEADER_TIMEOUT) else { return Ok(None) };
    let millis = value.to_str().ok().and_then(|text| text.trim().parse::<u64>().ok()).filter(|millis| *millis > 0);
    let Some(millis) = millis else {
        let message = format!("{} must be a whole number of milliseconds from 1", names::HEADER_TIMEOUT);
        return Err(Fault::invalid(names::HEADER_TIMEOUT, message));
    };
    let timeout = Duration::from_millis(millis).min(TIMEOUT_MAX);
    Ok(Some(arrival_ns.saturating_add(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stranger cannot jump the queue, and may step back.
    #[test]
    fn only_the_fleet_goes_before_others() {
        assert_eq!([priority(Some(-5), true), priority(Some(-5), false), priority(Some(3), false)], [-5, 0, 3]);
        assert_eq!(priority(None, false), 0);
    }

    /// Milliseconds after arrival; nonsense is refused, eternity is cut.
    #[test]
    fn deadlines() {
        let at = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(names::HEADER_TIMEOUT, text.parse().unwrap());
            deadline(&headers, 1_000)
        };
        assert_eq!(deadline(&HeaderMap::new(), 1_000).ok(), Some(None));
        assert_eq!(at("250").ok(), Some(Some(250_001_000)));
        assert!(at(&u64::MAX.to_string()).unwrap().unwrap() < 31 * 86_400 * 1_000_000_000);
        for nonsense in ["0", "-1", "1.5", "soon", ""] {
            assert!(at(nonsense).is_err(), "{nonsense}");
        }
    }
}
