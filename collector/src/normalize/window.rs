//! Which event times a table accepts.

use telemetry::names;
use telemetry::table::{self, Table};

use super::row::micros;
use crate::decode::view::Item;
use crate::signal::Signal;

/// How far ahead of our clock an event may lie, microseconds: ten minutes.
const AHEAD_US: i64 = 600_000_000;
/// Microseconds in a day.
const DAY_US: i64 = 86_400_000_000;

/// The table that decides which event times an item may have.
pub fn table_of(signal: Signal, item: &Item<'_>) -> &'static Table {
    match signal {
        Signal::Traces if item.name == names::SPAN_TOKEN => &table::TOKENS,
        Signal::Traces => &table::SPANS,
        Signal::Logs => &table::LOGS,
        Signal::Metrics | Signal::Own => &table::METRICS,
        Signal::Alerts => &table::ALERTS,
    }
}

/// Whether an item's event time is one that no table accepts. A log record without a time happened when it was received.
pub fn late(signal: Signal, item: &Item<'_>, received_us: i64) -> bool {
    if signal == Signal::Logs && item.time == 0 {
        return false;
    }
    let token = signal == Signal::Traces && item.name == names::SPAN_TOKEN;
    let time = if token { item.end } else { item.time };
    !accepts(table_of(signal, item), micros(time), received_us)
}

/// Whether a table accepts a row of that time, both in microseconds since 1970-01-01 UTC.
pub(super) fn accepts(table: &Table, time_us: i64, received_us: i64) -> bool {
    let kept = table.retention_days.map_or(i64::MAX, |days| i64::from(days) * DAY_US);
    time_us >= received_us.saturating_sub(kept) && time_us <= received_us.saturating_add(AHEAD_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000_000_000;

    fn item(name: &'static str, us: i64) -> Item<'static> {
        Item { name, time: us as u64 * 1_000, end: us as u64 * 1_000, ..Item::default() }
    }

    /// A clock that runs a little ahead is normal; 1970 and the far future are not.
    #[test]
    fn times_outside_retention_and_ten_minutes_are_late() {
        for (us, expected) in [
            (NOW, false),
            (NOW + AHEAD_US, false),
            (NOW + AHEAD_US + 1, true),
            (NOW - 29 * DAY_US, false),
            (NOW - 31 * DAY_US, true),
            (0, true),
        ] {
            assert_eq!(late(Signal::Traces, &item("chat", us), NOW), expected, "{us}");
        }
        assert!(late(Signal::Traces, &item("token", NOW - 8 * DAY_US), NOW), "tokens are kept for seven days");
        let absurd = Item { time: u64::MAX, end: u64::MAX, ..Item::default() };
        assert!(late(Signal::Metrics, &absurd, NOW));
    }

    /// A log record may come without any time.
    #[test]
    fn a_log_record_without_time_is_accepted() {
        assert!(!late(Signal::Logs, &Item::default(), NOW));
        assert!(late(Signal::Metrics, &Item::default(), NOW));
    }
}
