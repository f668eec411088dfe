//! How large the result of a function may get, from its arguments alone.

use std::cmp::max;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Int64Type, IntervalMonthDayNanoType},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::ColumnarValue,
};

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
                ColumnarValue::Array(array) => total(array),
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

/// Bytes of each row of an argument.
pub(super) enum Sizes {
    Same(u64),
    Each(Vec<u64>),
}

impl Sizes {
    fn of(argument: &ColumnarValue) -> Result<Sizes> {
        match argument {
            ColumnarValue::Scalar(scalar) => Ok(Sizes::Same(size_of_scalar(scalar)?)),
            ColumnarValue::Array(array) => Sizes::of_array(array),
        }
    }

    /// The values' own bytes; what views share is counted for each that shows it.
    pub(super) fn of_array(array: &ArrayRef) -> Result<Sizes> {
        Ok(match array.data_type() {
            DataType::Utf8 => Sizes::between(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => Sizes::between(array.as_string::<i64>().value_offsets()),
            DataType::Binary => Sizes::between(array.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => Sizes::between(array.as_binary::<i64>().value_offsets()),
            DataType::Utf8View => Sizes::Each(array.as_string_view().lengths().map(u64::from).collect()),
            DataType::BinaryView => Sizes::Each(array.as_binary_view().lengths().map(u64::from).collect()),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Sizes::of_lists(list.value_offsets(), list.values())?
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Sizes::of_lists(list.value_offsets(), list.values())?
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                Sizes::of_lists(map.value_offsets(), &entries)?
            }
            DataType::Struct(_) => Sizes::of_structs(array)?,
            kind => Sizes::Same(kind.primitive_width().map_or(16, |width| width as u64)),
        })
    }

    fn of_structs(array: &ArrayRef) -> Result<Sizes> {
        let columns = array.as_struct().columns().iter().map(Sizes::of_array).collect::<Result<Vec<_>>>()?;
        Ok(Sizes::Each((0..array.len()).map(|row| columns.iter().map(|column| column.at(row)).sum()).collect()))
    }

    fn between<O: Into<i64> + Copy>(offsets: &[O]) -> Sizes {
        let length = |pair: &[O]| u64::try_from(pair[1].into() - pair[0].into()).unwrap_or(0);
        Sizes::Each(offsets.windows(2).map(length).collect())
    }

    /// A list is as large as its elements, and each of those at least a byte.
    fn of_lists<O: Into<i64> + Copy>(offsets: &[O], values: &ArrayRef) -> Result<Sizes> {
        let elements = Sizes::of_array(values)?;
        let list = |pair: &[O]| -> u64 {
            let (from, to) = (pair[0].into(), pair[1].into());
            match (&elements, usize::try_from(from), usize::try_from(to)) {
                (Sizes::Same(size), ..) => u64::try_from(to - from).unwrap_or(0).saturating_mul(max(1, *size)),
                (Sizes::Each(sizes), Ok(from), Ok(to)) => sizes[from..to].iter().map(|size| max(1, *size)).sum(),
                _ => 0,
            }
        };
        Ok(Sizes::Each(offsets.windows(2).map(list).collect()))
    }

    pub(super) fn at(&self, row: usize) -> u64 {
        match self {
            Sizes::Same(size) => *size,
            Sizes::Each(sizes) => sizes.get(row).copied().unwrap_or(0),
        }
    }

    pub(super) fn sum(&self, rows: usize) -> u64 {
        match self {
            Sizes::Same(size) => size.saturating_mul(rows as u64),
            Sizes::Each(sizes) => sizes.iter().sum(),
        }
    }
}

/// Bytes of all values together; what views share is counted for each that shows it.
fn total(array: &ArrayRef) -> u64 {
    let between =
        |from: i64, to: i64| usize::try_from(from).ok().zip(usize::try_from(to - from).ok()).unwrap_or((0, 0));
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (from, count) = between(list.value_offsets()[0].into(), list.value_offsets()[list.len()].into());
            total(&list.values().slice(from, count))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (from, count) = between(map.value_offsets()[0].into(), map.value_offsets()[map.len()].into());
            map.entries().columns().iter().map(|column| total(&column.slice(from, count))).sum()
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(total).sum(),
        DataType::Utf8View => array.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(u64::from).sum(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()) as u64,
    }
}

/// Bytes of a constant.
pub(crate) fn size_of_scalar(scalar: &ScalarValue) -> Result<u64> {
    match scalar {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            Ok(text.as_ref().map_or(0, |text| text.len() as u64))
        }
        ScalarValue::List(list) => Ok(Sizes::of_array(&(std::sync::Arc::clone(list) as ArrayRef))?.at(0)),
        other => Ok(other.size() as u64),
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
