//! The stretch of event time that a query asks of a view.
//!
//! A view that looks at the sample before, or at another row of the same trace, hides its filter on `time` from the
//! tables below it. The stretch is read from the filters instead and handed down, widened by what the view looks around.

use std::time::Duration;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::{
    common::{Column, ScalarValue},
    logical_expr::{Between, BinaryExpr, Cast, Expr, Operator, lit},
};

use crate::views::Around;

/// Column by which every table of events is ordered.
const TIME: &str = "time";
const HOUR_US: i64 = 3_600_000_000;

/// A closed stretch of time, open where nothing was asked. Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeRange {
    from_us: Option<i64>,
    to_us: Option<i64>,
}

impl TimeRange {
    /// The stretch that all filters allow. What is not understood allows everything.
    pub(super) fn of(filters: &[Expr]) -> TimeRange {
        let mut range = TimeRange::default();
        filters.iter().for_each(|filter| range.narrow(filter));
        range
    }

    /// The same of rows that are intervals, from `time` to the column `end`: those that end within it or after count as within, as
    /// [`TimeRange::overlap`] asks for them.
    pub(super) fn of_intervals(filters: &[Expr], end: &str) -> TimeRange {
        let starts = TimeRange::of(filters);
        let ends = filters.iter().filter_map(|filter| ends_from(filter, end)).max();
        // what starts later than it ends says no more than where it starts
        TimeRange { from_us: starts.from_us.max(ends), ..starts }
    }

    /// The same stretch, begun earlier and ended later by as much.
    pub(super) fn widened(self, by: Around) -> TimeRange {
        let us = |by: Duration| i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        TimeRange {
            from_us: self.from_us.map(|from| from.saturating_sub(us(by.before))),
            to_us: self.to_us.map(|to| to.saturating_add(us(by.after))),
        }
    }

    /// The hours that it touches, whole.
    pub(super) fn hours(self) -> TimeRange {
        let start = |us: i64| us.div_euclid(HOUR_US) * HOUR_US;
        TimeRange {
            from_us: self.from_us.map(start),
            to_us: self.to_us.map(|to| start(to).saturating_add(HOUR_US - 1)),
        }
    }

    /// The condition on `time`; `None` where the stretch is open on both sides.
    pub(super) fn condition(self, time: &Column) -> Option<Expr> {
        let bound = |us| lit(ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())));
        let from = self.from_us.map(|us| Expr::Column(time.clone()).gt_eq(bound(us)));
        let to = self.to_us.map(|us| Expr::Column(time.clone()).lt_eq(bound(us)));
        from.into_iter().chain(to).reduce(Expr::and)
    }

    /// The condition that an interval has something of the stretch in it. One without an end has no other instant than its start.
    pub(super) fn overlap(self, start: &Column, end: &Column) -> Option<Expr> {
        let ends = |from_us| {
            let from = TimeRange { from_us: Some(from_us), to_us: None };
            let starts = Expr::Column(end.clone()).is_null().and(from.condition(start)?);
            Some(from.condition(end)?.or(starts))
        };
        let starts = TimeRange { from_us: None, ..self }.condition(start);
        self.from_us.and_then(ends).into_iter().chain(starts).reduce(Expr::and)
    }

    fn narrow(&mut self, filter: &Expr) {
        match filter {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
                self.narrow(left);
                self.narrow(right);
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (is_time(left), is_time(right)) {
                (true, false) => self.compare(*op, right),
                (false, true) => self.compare(op.swap().unwrap_or(*op), left),
                _ => {}
            },
            Expr::Between(Between { expr, negated: false, low, high }) if is_time(expr) => {
                self.compare(Operator::GtEq, low);
                self.compare(Operator::LtEq, high);
            }
            _ => {}
        }
    }

    fn compare(&mut self, op: Operator, with: &Expr) {
        let Some(us) = instant(with) else { return };
        // what ends before an hour has nothing of it
        let us = if op == Operator::Lt && is_whole(with, us) { us - 1 } else { us };
        if matches!(op, Operator::Gt | Operator::GtEq | Operator::Eq) {
            self.from_us = Some(self.from_us.map_or(us, |from| from.max(us)));
        }
        if matches!(op, Operator::Lt | Operator::LtEq | Operator::Eq) {
            self.to_us = Some(self.to_us.map_or(us, |to| to.min(us)));
        }
    }
}

/// The instant from which on rows end that the filter lets through, where it says so.
fn ends_from(filter: &Expr, end: &str) -> Option<i64> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    let is_end = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == end);
    match op {
        Operator::And => ends_from(left, end).max(ends_from(right, end)),
        // a row without an end has no other instant than its start
        Operator::Or => {
            let starts = |expr: &Expr| TimeRange::of(std::slice::from_ref(expr)).from_us;
            let either = |one: &Expr, other: &Expr| Some(ends_from(one, end)?.min(starts(other)?));
            either(left, right).or_else(|| either(right, left))
        }
        Operator::GtEq | Operator::Gt if is_end(left) => instant(right),
        Operator::LtEq | Operator::Lt if is_end(right) => instant(left),
        _ => None,
    }
}

fn is_time(expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => column.name == TIME,
        Expr::Cast(Cast { expr, .. }) => is_time(expr),
        _ => false,
    }
}

/// Microseconds of a literal. Nanoseconds are cut towards the past, which the widening makes up for.
fn instant(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(value, _) => {
            let us = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            match value.cast_to(&us).ok()? {
                ScalarValue::TimestampMicrosecond(us, _) => us,
                _ => None,
            }
        }
        Expr::Cast(Cast { expr, .. }) => instant(expr),
        _ => None,
    }
}

/// Whether a literal is these microseconds and no nanosecond more.
fn is_whole(expr: &Expr, us: i64) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let ns = value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
            matches!(ns, Ok(ScalarValue::TimestampNanosecond(Some(ns), _)) if Some(ns) == us.checked_mul(1_000))
        }
        Expr::Cast(Cast { expr, .. }) => is_whole(expr, us),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::{
        common::{Column, ScalarValue},
        logical_expr::{Expr, col, lit},
    };

    use super::TimeRange;
    use crate::views::around;

    fn at(us: i64) -> Expr {
        lit(ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())))
    }

    #[test]
    fn every_way_to_bound_time_is_read() {
        let range = TimeRange::of(&[col("time").gt_eq(at(10)).and(at(90).gt(col("time"))), col("time").gt(at(20))]);
        assert_eq!(range, TimeRange { from_us: Some(20), to_us: Some(89) });
        let nanosecond = lit(ScalarValue::TimestampNanosecond(Some(90_001), Some("UTC".into())));
        assert_eq!(TimeRange::of(&[col("time").lt(nanosecond)]), TimeRange { from_us: None, to_us: Some(90) });
        assert_eq!(TimeRange::of(&[col("time").between(at(1), at(2))]), TimeRange { from_us: Some(1), to_us: Some(2) });
        assert_eq!(TimeRange::of(&[col("time").eq(at(5))]), TimeRange { from_us: Some(5), to_us: Some(5) });
        let text = lit("1970-01-01T00:00:01Z");
        assert_eq!(TimeRange::of(&[col("time").lt(text)]), TimeRange { from_us: None, to_us: Some(999_999) });
    }

    /// What a view is asked for that looks at intervals in others: the same that it was asked for itself.
    #[test]
    fn a_stretch_of_intervals_is_read_as_it_is_written() {
        let (start, end) = (Column::from_name("time"), Column::from_name("charge_to"));
        let range = TimeRange { from_us: Some(10), to_us: Some(90) };
        let overlap = range.overlap(&start, &end).expect("a condition");
        assert_eq!(TimeRange::of_intervals(std::slice::from_ref(&overlap), "charge_to"), range);
        assert_eq!(TimeRange::of(&[overlap]), TimeRange { from_us: None, to_us: Some(90) });
        let both = [col("time").gt_eq(at(20)), at(30).lt_eq(col("charge_to"))];
        assert_eq!(TimeRange::of_intervals(&both, "charge_to").from_us, Some(30));
        let either = col("charge_to").gt_eq(at(10)).or(col("host_id").eq(lit("i-1")));
        assert_eq!(TimeRange::of_intervals(&[either], "charge_to"), TimeRange::default());
    }

    #[test]
    fn what_is_not_understood_allows_everything() {
        let either = col("time").lt(at(5)).or(col("model").eq(lit("m")));
        assert_eq!(TimeRange::of(&[either, col("model").eq(lit("m"))]), TimeRange::default());
        assert_eq!(TimeRange::default().condition(&Column::from_name("time")), None);
    }

    #[test]
    fn hours_are_whole() {
        let hour = 3_600_000_000;
        let range = TimeRange { from_us: Some(hour + 1), to_us: Some(2 * hour) }.hours();
        assert_eq!(range, TimeRange { from_us: Some(hour), to_us: Some(3 * hour - 1) });
        assert_eq!(range.hours(), range);
        assert_eq!(TimeRange::default().hours(), TimeRange::default());
    }

    #[test]
    fn a_view_that_looks_around_gets_more() {
        let by = around(2, 1);
        let range = TimeRange::of(&[col("time").between(at(10_000_000), at(20_000_000))]).widened(by);
        assert_eq!(range, TimeRange { from_us: Some(8_000_000), to_us: Some(21_000_000) });
        assert_eq!(TimeRange::default().widened(by), TimeRange::default());
    }
}
