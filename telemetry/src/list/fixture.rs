//! What the tests of every list do: read a row, find each wrong value refused by name, and find each column on its page.

use std::fmt::Debug;

use super::ListColumn;
use crate::record::{Header, Record, Refusal};

/// How a list reads a row.
type Read<T> = fn(Record<'_>) -> Result<T, Refusal>;

/// A row with these values below these names, as it is read.
pub(crate) fn row<T, const N: usize>(read: Read<T>, names: [&str; N], values: [&str; N]) -> Result<T, String> {
    let (header, values) = (Header::new(names).expect("a header"), values.map(Some));
    read(Record::new(&header, &values).expect("a row")).map_err(|refusal| refusal.0)
}

/// A good row with each of these values in its place is refused, with these words.
pub(crate) fn refuses<T: Debug, const N: usize>(
    read: Read<T>,
    names: [&str; N],
    good: [&str; N],
    wrong: &[(usize, &str, &str)],
) {
    for (at, value, reason) in wrong {
        let mut values = good;
        values[*at] = value;
        let refusal = row(read, names, values).expect_err(value);
        assert!(refusal.contains(reason), "{refusal:?} lacks {reason:?}");
    }
}

/// A page says what can be written, in the words of the columns.
pub(crate) fn documents(name: &str, page: &str, columns: &[ListColumn]) {
    for column in columns {
        let needed = if column.needed { "needed" } else { "" };
        let row = format!("| `{}` | {needed} | {} |", column.name, column.doc);
        assert!(page.contains(&row), "{name} lacks the line {row}");
    }
}
