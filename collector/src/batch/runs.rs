//! A column of text as runs: what repeats from row to row is kept, compared and later written once, however many rows it holds
//! for. Where a value is known to hold for many rows to come, a row costs nothing at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, RunArray, StringBuilder, UInt32Array};
use arrow::compute;
use arrow::datatypes::Int32Type;
use arrow::error::ArrowError;

/// Rows from which runs are handed on as runs; fewer are not worth a form of their own.
const ROWS_MIN: usize = 1_024;
/// Mean rows of a run from which runs are handed on as runs.
const MEAN_ROWS_MIN: usize = 4;
/// Bytes of the longest id.
const ID_BYTES: usize = 16;

/// Text of one column, row by row.
pub(super) struct Runs {
    /// The value of each run; NULL is one too.
    values: StringBuilder,
    /// The row after the last of each run.
    ends: Vec<i32>,
    /// Whether the last run is NULL.
    null: bool,
    /// Whether rows that set nothing are of the last run, rather than NULL.
    held: bool,
    /// The id whose digits are the last run's value.
    id: Id,
}

/// An id as sent, its bytes taken for a number; no bytes if there is none.
#[derive(Clone, Copy, Default, PartialEq)]
struct Id {
    number: u128,
    length: usize,
}

impl Id {
    /// None if it is longer than any id.
    #[inline]
    fn new(id: &[u8]) -> Option<Self> {
        let number = if let Ok(trace) = <[u8; ID_BYTES]>::try_from(id) {
            u128::from_le_bytes(trace)
        } else if let Ok(span) = <[u8; 8]>::try_from(id) {
            u64::from_le_bytes(span).into()
        } else {
            let mut bytes = [0; ID_BYTES];
            bytes.get_mut(..id.len())?.copy_from_slice(id);
            u128::from_le_bytes(bytes)
        };
        Some(Self { number, length: id.len() })
    }
}

/// Text from this length on counts each time it is repeated. Bytes.
const LONG: usize = 1_024;

impl Runs {
    pub(super) fn new() -> Self {
        Self { values: StringBuilder::new(), ends: Vec::new(), null: false, held: false, id: Id::default() }
    }

    /// Sets the value of `row`, unless it is set. Returns how many bytes of text that took.
    #[inline]
    pub(super) fn set(&mut self, row: usize, value: &str) -> usize {
        match self.repeated(row, value.as_bytes()) {
            Some(bytes) => bytes,
            None => self.begin(row + 1, value),
        }
    }

    /// As [`Runs::set`], with bytes that were found to be UTF-8 before; others set nothing.
    #[inline]
    pub(super) fn set_checked(&mut self, row: usize, value: &[u8]) -> usize {
        match self.repeated(row, value) {
            Some(bytes) => bytes,
            None => std::str::from_utf8(value).map_or(0, |value| self.begin(row + 1, value)),
        }
    }

    /// How many bytes of text the value took if the row is set or goes on with the last run; else none, and it is to begin one.
    #[inline]
    fn repeated(&mut self, row: usize, value: &[u8]) -> Option<usize> {
        self.catch_up(row);
        if self.covered() > row {
            return Some(0);
        }
        if self.last() != Some(value) {
            return None;
        }
        self.extend(row + 1);
        // A short column is written out row by row, so that a long text counts each time.
        Some(if value.len() > LONG { value.len() } else { 0 })
    }

    /// As [`Runs::set`], with the hex digits of an id; one longer than any id is no text.
    #[inline]
    pub(super) fn set_id(&mut self, row: usize, id: &[u8]) -> usize {
        let Some(sent) = Id::new(id) else { return self.set(row, "") };
        self.catch_up(row);
        if self.covered() > row {
            return 0;
        }
        if sent.length > 0 && self.id == sent {
            self.extend(row + 1);
            return 0;
        }
        let mut digits = [0; 2 * ID_BYTES];
        let place = digits.get_mut(..2 * id.len()).unwrap_or_default();
        let written = hex::encode_to_slice(id, place).ok().and_then(|()| std::str::from_utf8(place).ok());
        let bytes = self.set(row, written.unwrap_or_default());
        self.id = sent;
        bytes
    }

    /// Sets the value of `row` and of all that follow, until it is set again.
    pub(super) fn hold(&mut self, row: usize, value: Option<&str>) -> usize {
        self.catch_up(row);
        // Rows that set nothing are NULL, so that this one needs no holding.
        self.held = value.is_some();
        value.map_or(0, |value| self.set(row, value))
    }

    /// The column of `rows` rows: run-end encoded if that is much shorter, else row by row.
    pub(super) fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.catch_up(rows);
        let ends = std::mem::take(&mut self.ends);
        let values = self.values.finish();
        if ends.len() == rows {
            return Ok(Arc::new(values));
        }
        if rows >= ROWS_MIN && ends.len() * MEAN_ROWS_MIN <= rows {
            return Ok(Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &values)?));
        }
        let mut places = Vec::with_capacity(rows);
        for (run, end) in (0_u32..).zip(ends) {
            places.resize(usize::try_from(end).unwrap_or_default(), run);
        }
        compute::take(&values as &dyn Array, &UInt32Array::from(places), None)
    }

    /// Rows that have their value.
    #[inline]
    fn covered(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// The value of the last run, unless it is NULL.
    #[inline]
    fn last(&self) -> Option<&[u8]> {
        let (from, to) = match *self.values.offsets_slice() {
            [.., from, to] if !self.null => (from as usize, to as usize),
            _ => return None,
        };
        self.values.values_slice().get(from..to)
    }

    /// Gives the rows before `row` that set nothing their value.
    #[inline]
    fn catch_up(&mut self, row: usize) {
        if self.covered() < row {
            if self.held {
                self.extend(row);
            } else {
                self.nulls(row);
            }
        }
    }

    #[inline]
    fn extend(&mut self, end: usize) {
        if let Some(last) = self.ends.last_mut() {
            *last = end as i32;
        }
    }

    fn nulls(&mut self, end: usize) {
        if !self.null || self.ends.is_empty() {
            self.values.append_null();
            self.ends.push(end as i32);
            self.null = true;
            self.id = Id::default();
        } else if self.covered() < end {
            self.extend(end);
        }
    }

    fn begin(&mut self, end: usize, value: &str) -> usize {
        self.values.append_value(value);
        self.ends.push(end as i32);
        self.null = false;
        self.id = Id::default();
        value.len()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;

    use super::*;

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let flat = compute::cast(array, &arrow::datatypes::DataType::Utf8).unwrap();
        flat.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    /// Whatever its form, a column holds what was set, and NULL where nothing was.
    #[test]
    fn rows_come_out_as_they_were_set() {
        for rows in [10, 5_000] {
            for every in [1, 3, 40] {
                let mut runs = Runs::new();
                let value = |row: usize| (!(row / every).is_multiple_of(4)).then(|| (row / every).to_string());
                let wanted: Vec<Option<String>> = (0..rows).map(value).collect();
                for (row, value) in wanted.iter().enumerate() {
                    if let Some(value) = value {
                        match row % 2 {
                            0 => runs.set(row, value),
                            _ => runs.set_checked(row, value.as_bytes()),
                        };
                        runs.set(row, "a second value of one row is left out");
                    }
                }
                let array = runs.finish(rows).unwrap();
                let run_ends = matches!(array.data_type(), arrow::datatypes::DataType::RunEndEncoded(..));
                assert_eq!(run_ends, rows == 5_000 && every == 40);
                assert_eq!(texts(&array), wanted, "{rows} rows, {every} alike");
            }
        }
    }

    /// Bytes that are no text set nothing.
    #[test]
    fn bytes_that_are_no_text_are_left_out() {
        let mut runs = Runs::new();
        runs.set_checked(0, b"a");
        runs.set_checked(1, b"\xff");
        runs.set_checked(2, b"a");
        assert_eq!(texts(&runs.finish(3).unwrap()), [Some("a".into()), None, Some("a".into())]);
    }

    /// A long text counts each time it is repeated, since a short column is written out row by row; another once.
    #[test]
    fn a_long_text_counts_each_time() {
        for (length, repeated) in [(LONG, 0), (LONG + 1, LONG + 1)] {
            let (mut runs, text) = (Runs::new(), "x".repeat(length));
            assert_eq!(runs.set(0, &text), length);
            assert_eq!(runs.set(0, &text), 0, "the row is set");
            assert_eq!(runs.set(1, &text), repeated);
            assert_eq!(runs.set_checked(2, text.as_bytes()), repeated);
            assert_eq!(texts(&runs.finish(3).unwrap()), vec![Some(text); 3]);
        }
    }

    /// A value is held until another is, or none; in between a row may have one of its own, which then holds.
    #[test]
    fn what_is_no_longer_held_is_set_row_by_row() {
        let mut runs = Runs::new();
        runs.hold(0, Some("a"));
        runs.hold(2, None);
        runs.set(2, "b");
        runs.set(4, "c");
        let wanted = [Some("a"), Some("a"), Some("b"), None, Some("c"), None];
        assert_eq!(texts(&runs.finish(6).unwrap()), wanted.map(|value| value.map(str::to_owned)));
    }

    /// A value that is held needs no call per row; NULL can be held too.
    #[test]
    fn a_held_value_lasts_until_the_next() {
        let mut runs = Runs::new();
        for (row, value) in [(2, Some("a")), (5, None), (7, Some("b"))] {
            runs.hold(row, value);
        }
        let held = texts(&runs.finish(9).unwrap());
        let wanted = [None, None, Some("a"), Some("a"), Some("a"), None, None, Some("b"), Some("b")];
        assert_eq!(held, wanted.map(|value| value.map(str::to_owned)));
    }

    /// Equal ids are one run, and other text between two equal ids is not lost.
    #[test]
    fn ids_become_hex_digits() {
        let mut runs = Runs::new();
        runs.set_id(0, &[0xab; 8]);
        runs.set_id(1, &[0xab; 8]);
        runs.set(2, "x");
        runs.set_id(3, &[0xab; 8]);
        runs.set_id(5, &[0xab; 8]);
        runs.set_id(6, &[0; 40]);
        runs.set_id(7, &[]);
        let ids = texts(&runs.finish(8).unwrap());
        let id = Some("ab".repeat(8));
        let empty = || Some(String::new());
        assert_eq!(ids, [id.clone(), id.clone(), Some("x".into()), id.clone(), None, id, empty(), empty()]);
    }
}
