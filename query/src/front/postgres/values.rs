//! Values on the wire, in PostgreSQL's two forms: text and binary.
//!
//! A value is its length and its bytes; NULL is the length -1. Text is what PostgreSQL prints under `DateStyle = ISO` and
//! `TimeZone = UTC`; what it has no form for (maps) is the JSON that the HTTP answers hold.

mod binary;
mod text;

use arrow::array::{Array, ArrayRef};
use bytes::{BufMut, BytesMut};

use super::{frontend::Format, types::Column};

pub(super) use text::{csv, escaped, text};

/// Days from 1970-01-01 to PostgreSQL's epoch, 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Writes a row as a `DataRow` message.
pub(super) fn row(columns: &[Column], values: &[ArrayRef], row: usize, out: &mut BytesMut) {
    out.put_u8(b'D');
    measured(out, true, |out| fields(columns, values, row, out));
}

/// Writes a row's fields: their number, then each with its length.
pub(super) fn fields(columns: &[Column], values: &[ArrayRef], row: usize, out: &mut BytesMut) {
    // No plan has more columns than the 1,664 PostgreSQL allows by far; more than a short holds cannot be sent at all.
    out.put_i16(i16::try_from(columns.len()).unwrap_or(i16::MAX));
    for (column, values) in columns.iter().zip(values) {
        value(column, values, row, out);
    }
}

fn value(column: &Column, values: &ArrayRef, row: usize, out: &mut BytesMut) {
    if is_null(values, row) {
        return out.put_i32(-1);
    }
    measured(out, false, |out| match column.format {
        Format::Text => text(values.as_ref(), row, out),
        Format::Binary => binary::binary(values.as_ref(), &column.kind, row, out),
    });
}

/// The column of a bare NULL has no validity to ask.
pub(super) fn is_null(values: &dyn Array, row: usize) -> bool {
    values.is_null(row) || values.data_type().is_null()
}

/// Writes what `write` does after its length, which counts itself in messages and not in values.
fn measured(out: &mut BytesMut, counts_itself: bool, write: impl FnOnce(&mut BytesMut)) {
    let at = out.len();
    out.put_i32(0);
    write(out);
    let from = if counts_itself { at } else { at + 4 };
    let length = i32::try_from(out.len() - from).unwrap_or(i32::MAX);
    if let Some(head) = out.get_mut(at..at + 4) {
        head.copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
