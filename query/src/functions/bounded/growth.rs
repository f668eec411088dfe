//! How large the result of a function may get, from its arguments alone.

use std::cmp::max;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type, IntervalMonthDayNanoType},
};
use datafusion::{common::Result, logical_expr::ColumnarValue};

use super::sizes::{Sizes, size_of_column, size_of_scalar};

/// How a result grows with its arguments; an upper bound in bytes for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Growth {
    /// The argument itself.
    Kept,
    /// A small multiple of all arguments together.
    Sum,
    /// The first argument as often as the second says.
    Times,
    /// As many characters as the second argument says.
    Padded,
    /// As many elements as the second argument says, each as large as the third.
    Resized,
    /// From the first argument to the second by steps of the third.
    Series,
    /// Every find of the second argument in the first becomes the third.
    Replaced,
    /// As before, but what is found may be empty, and the third may say it again.
    Rewritten,
    /// The second argument between any two elements of the first.
    Joined,
    /// As before, the first argument between any two of the others.
    JoinedBy,
    /// Every argument as long as the longest.
    Zipped,
    /// Nothing large comes out, but every byte of text is looked at under many states.
    Searched,
    /// Nothing large comes out, but every character is compared with every other.
    Compared,
}

/// Bytes that each character may become under another alphabet or case, or as an element of a list.
const BYTES_PER_BYTE: u64 = 5;
/// Steps of a search per byte of text, in bytes of result that take as long.
const SEARCH_PER_BYTE: u64 = 64;
/// What a pattern may take once compiled, where each row has its own.
const PATTERN_BYTES: u64 = 1 << 20;
/// Comparisons that take as long as a byte of result.
const COMPARISONS_PER_BYTE: u64 = 8;
/// Characters of the longest number.
const NUMBER_CHARS: u64 = 40;
/// Result that is not looked at more closely.
const SMALL_BYTES: u64 = 1 << 20;
/// Nanoseconds of the shortest month.
const MONTH_NS: i64 = 28 * DAY_NS;
const DAY_NS: i64 = 86_400_000_000_000;

impl Growth {
    /// Whether an argument says how much comes out.
    pub(super) fn is_told(self) -> bool {
        matches!(self, Growth::Times | Growth::Padded | Growth::Resized | Growth::Series)
    }

    /// Whether the result is small whatever is in the rows, by the arguments' bytes all together.
    pub(super) fn is_small(self, arguments: &[ColumnarValue], rows: usize) -> Result<bool> {
        if !matches!(self, Growth::Sum | Growth::Kept) {
            return Ok(false);
        }
        let mut bytes = 0_u64;
        for argument in arguments {
            bytes = bytes.saturating_add(match argument {
                ColumnarValue::Scalar(scalar) => size_of_scalar(scalar)?.saturating_mul(rows as u64),
                ColumnarValue::Array(array) => size_of_column(array),
            });
        }
        Ok(bytes.saturating_mul(BYTES_PER_BYTE) <= SMALL_BYTES)
    }

    /// An upper bound for each of `rows` rows; one entry alone stands for all rows.
    ///
    /// # Errors
    /// Arguments that cannot be read as what the function takes.
    pub(super) fn bounds(self, arguments: &[ColumnarValue], rows: usize) -> Result<Vec<u64>> {
        let sizes = arguments.iter().map(Sizes::of).collect::<Result<Vec<_>>>()?;
        let constant = arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant { rows.min(1) } else { rows };
        let counts = match self {
            Growth::Times | Growth::Padded | Growth::Resized => Counts::of(arguments.get(1))?,
            Growth::Series => Counts::steps(arguments, rows)?,
            _ => Counts::Same(0),
        };
        let has_own_patterns = matches!(arguments.get(1), Some(ColumnarValue::Array(_)));
        let bound = |row| {
            let size = |index: usize| sizes.get(index).map_or(0, |size| size.at(row));
            let all = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(size.at(row)));
            self.bound(&size, all, counts.at(row), (sizes.len() as u64, has_own_patterns))
        };
        Ok((0..rows).map(bound).collect())
    }

    fn bound(self, size: &dyn Fn(usize) -> u64, all: u64, count: u64, (arguments, own_patterns): (u64, bool)) -> u64 {
        let sum = all.saturating_mul(BYTES_PER_BYTE);
        match self {
            Growth::Kept => all,
            Growth::Sum => sum,
            Growth::Times => count.saturating_mul(size(0).saturating_add(8)),
            Growth::Padded => sum.saturating_add(count.saturating_mul(4)),
            Growth::Resized => sum.saturating_add(count.saturating_mul(max(8, size(2)))),
            Growth::Series => count.saturating_mul(16),
            Growth::Replaced => {
                sum.saturating_add((size(0) / max(1, size(1))).saturating_add(1).saturating_mul(size(2)))
            }
            Growth::Rewritten => {
                sum.saturating_add(size(0).saturating_add(1).saturating_mul(size(2)).saturating_mul(2))
            }
            Growth::Joined => {
                let text = size(1).saturating_add(size(2)).saturating_add(NUMBER_CHARS);
                size(0).saturating_add(1).saturating_mul(text)
            }
            Growth::JoinedBy => sum.saturating_add(all.saturating_add(arguments).saturating_mul(size(0))),
            Growth::Zipped => sum.saturating_mul(arguments),
            Growth::Searched => {
                size(0).saturating_mul(SEARCH_PER_BYTE).saturating_add(if own_patterns { PATTERN_BYTES } else { 0 })
            }
            Growth::Compared => size(0).saturating_mul(size(1)) / COMPARISONS_PER_BYTE,
        }
    }
}

/// A whole number of each row.
enum Counts {
    Same(u64),
    Each(Vec<u64>),
}

impl Counts {
    fn of(argument: Option<&ColumnarValue>) -> Result<Counts> {
        let natural = |number: Option<i64>| number.map_or(0, |number| u64::try_from(number).unwrap_or(0));
        Ok(match argument {
            None => Counts::Same(0),
            Some(ColumnarValue::Scalar(scalar)) => {
                Counts::Same(natural(whole(&scalar.to_array()?)?.iter().next().flatten()))
            }
            Some(ColumnarValue::Array(array)) => Counts::Each(whole(array)?.iter().map(natural).collect()),
        })
    }

    /// Elements of the series that each row asks for.
    fn steps(arguments: &[ColumnarValue], rows: usize) -> Result<Counts> {
        let column = |index: usize| arguments.get(index).map(|argument| argument.to_array(rows)).transpose();
        let (first, second, step) = (column(0)?, column(1)?, column(2)?);
        let Some(first) = first else { return Ok(Counts::Same(0)) };
        let (from, to) = match &second {
            Some(second) => (whole(&first)?, whole(second)?),
            // one argument alone is where the series ends
            None => (Int64Array::from(vec![0; rows]), whole(&first)?),
        };
        let per_step = step.as_ref().map(|step| strides(first.data_type(), step)).transpose()?;
        let count = |row: usize| {
            if from.is_null(row) || to.is_null(row) {
                return 0;
            }
            let stride = per_step.as_ref().map_or(1, |strides| max(1, strides[row]));
            from.value(row).abs_diff(to.value(row)) / stride + 1
        };
        Ok(Counts::Each((0..rows).map(count).collect()))
    }

    fn at(&self, row: usize) -> u64 {
        match self {
            Counts::Same(count) => *count,
            Counts::Each(counts) => counts.get(row).copied().unwrap_or(0),
        }
    }
}

/// The numbers as they are counted in, dates and times in their own unit; NULL where there is none.
fn whole(array: &ArrayRef) -> Result<Int64Array> {
    let array = match array.data_type() {
        DataType::Date32 => &cast(array, &DataType::Int32)?,
        _ => array,
    };
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// How far a step of each row goes, in the unit of what it is added to.
fn strides(unit_of: &DataType, step: &ArrayRef) -> Result<Vec<u64>> {
    let Some(intervals) = step.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Ok(whole(step)?.iter().map(|step| step.map_or(1, i64::unsigned_abs)).collect());
    };
    let unit_ns = match unit_of {
        DataType::Date32 => DAY_NS,
        DataType::Timestamp(arrow::datatypes::TimeUnit::Second, _) => 1_000_000_000,
        DataType::Date64 | DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    let stride = |at: Option<arrow::datatypes::IntervalMonthDayNano>| {
        let ns = at.map_or(0, |at| {
            let days =
                i64::from(at.months).saturating_mul(MONTH_NS).saturating_add(i64::from(at.days).saturating_mul(DAY_NS));
            days.saturating_add(at.nanoseconds)
        });
        ns.unsigned_abs() / unit_ns.unsigned_abs()
    };
    Ok(intervals.iter().map(stride).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Array, Int64Array, StringArray};
    use datafusion::{common::ScalarValue, logical_expr::ColumnarValue};

    use super::Growth;

    fn column(array: impl Array + 'static) -> ColumnarValue {
        ColumnarValue::Array(Arc::new(array))
    }

    fn bounds(growth: Growth, arguments: &[ColumnarValue], rows: usize) -> Vec<u64> {
        growth.bounds(arguments, rows).expect("bounds")
    }

    /// One row's bound says nothing of another: what is large is known before it is made, and what is small is not refused with it.
    #[test]
    fn every_row_has_a_bound_of_its_own() {
        let texts = || column(StringArray::from(vec![Some("ab"), Some("abcd"), None]));
        let counts = || column(Int64Array::from(vec![Some(3), Some(1_000), Some(7)]));
        assert_eq!(bounds(Growth::Times, &[texts(), counts()], 3), [30, 12_000, 56]);
        assert_eq!(bounds(Growth::Padded, &[texts(), counts()], 3)[1], (4 + 8) * 5 + 4_000);
        let to = column(Int64Array::from(vec![Some(10), None, Some(-1)]));
        let from = column(Int64Array::from(vec![1, 1, 1]));
        assert_eq!(bounds(Growth::Series, &[from, to], 3), [160, 0, 48]);
        // every find of the pattern in the first text becomes the third
        let wide = column(StringArray::from(vec!["x", "xxxxxxxxxx", ""]));
        let found = bounds(Growth::Replaced, &[texts(), column(StringArray::from(vec!["b", "b", "b"])), wide], 3);
        assert!(found[1] >= 4 * 10 && found[0] < found[1], "{found:?}");
    }

    /// Where all arguments are constant, one bound stands for all rows.
    #[test]
    fn constants_have_one_bound() {
        let text = ColumnarValue::Scalar(ScalarValue::from("ab"));
        let count = ColumnarValue::Scalar(ScalarValue::from(5_i64));
        assert_eq!(bounds(Growth::Times, &[text, count], 8_192), [50]);
    }
}
