//! A row of an imported file: fields by the name of their column, whatever the file's format.

use std::collections::HashMap;

use jiff::{Timestamp, ToSpan, civil::DateTime, tz::TimeZone};

/// Why a row or a file is not taken, in words for whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// The columns of a file.
#[derive(Debug)]
pub struct Header {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Header {
    /// Columns in the file's order.
    ///
    /// # Errors
    /// Two columns of one name.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Header, Refusal> {
        let names: Vec<String> = names.into_iter().map(|name| plain(name.as_ref()).to_owned()).collect();
        let mut places = HashMap::new();
        for (place, name) in names.iter().enumerate() {
            if places.insert(name.clone(), place).is_some() {
                return Err(Refusal(format!("two columns are called `{name}`")));
            }
        }
        Ok(Header { names, places })
    }

    /// Whether there is such a column.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// All columns, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// A name without the byte order mark that spreadsheets put before the first one.
fn plain(name: &str) -> &str {
    name.trim_start_matches('\u{feff}').trim()
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    header: &'a Header,
    values: &'a [Option<&'a str>],
}

impl<'a> Record<'a> {
    /// A row with a value, or none, for each column of the header.
    ///
    /// # Errors
    /// Another number of fields than columns.
    pub fn new(header: &'a Header, values: &'a [Option<&'a str>]) -> Result<Record<'a>, Refusal> {
        if header.names.len() == values.len() {
            return Ok(Record { header, values });
        }
        Err(Refusal(format!("{} fields, but {} columns", values.len(), header.names.len())))
    }

    /// The field of that column. What is empty, and the word `NULL`, is no value.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        known(*self.values.get(*self.header.places.get(name)?)?)
    }

    /// The field of a column that must have one.
    ///
    /// # Errors
    /// There is none.
    pub fn need(&self, name: &str) -> Result<&'a str, Refusal> {
        self.get(name).ok_or_else(|| Refusal(format!("`{name}` is missing")))
    }

    /// Every field with a value, and its column.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let values = self.values;
        self.header.names.iter().zip(values).filter_map(|(name, value)| Some((name.as_str(), known(*value)?)))
    }
}

fn known(value: Option<&str>) -> Option<&str> {
    value.map(str::trim).filter(|text| !text.is_empty() && *text != "NULL")
}

/// Microseconds since the epoch of `2026-05-01`, `2026-05-01 00:00:00` or an RFC 3339 instant. Without an offset it is UTC.
pub fn instant(text: &str) -> Option<i64> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Some(instant.as_microsecond());
    }
    let civil: DateTime = text.parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// An instant, µs since the epoch, as `2026-05-01T00:00:00Z`; empty for one beyond the calendar.
pub fn rfc3339(us: i64) -> String {
    Timestamp::from_microsecond(us).map(|instant| instant.to_string()).unwrap_or_default()
}

/// First instants, as [`rfc3339`] writes them, of the UTC month that an instant lies in and of the next one.
pub fn month(us: i64) -> Option<(String, String)> {
    let date = Timestamp::from_microsecond(us).ok()?.to_zoned(TimeZone::UTC).date().first_of_month();
    let next = date.checked_add(1.month()).ok()?;
    Some((format!("{date}T00:00:00Z"), format!("{next}T00:00:00Z")))
}

/// [`instant`] of a column that must have one.
///
/// # Errors
/// There is none, or it is no instant.
pub fn need_instant(record: Record<'_>, name: &str) -> Result<i64, Refusal> {
    let text = record.need(name)?;
    instant(text).ok_or_else(|| Refusal(format!("`{name}` is {text:?}, not a time such as 2026-05-01T00:00:00Z")))
}

#[cfg(test)]
mod tests {
    use super::{Header, Record, Refusal, instant, month, rfc3339};

    #[test]
    fn a_month_ends_where_the_next_begins() {
        let last = instant("2026-12-31T23:00:00Z").expect("an instant");
        assert_eq!(rfc3339(last), "2026-12-31T23:00:00Z");
        assert_eq!(month(last), Some(("2026-12-01T00:00:00Z".to_owned(), "2027-01-01T00:00:00Z".to_owned())));
    }

    #[test]
    fn what_is_empty_or_says_null_is_no_value() {
        let header = Header::new(["\u{feff}a", " b", "c", "d"]).expect("a header");
        let values = [Some(" 1 "), Some(""), Some("NULL"), None];
        let record = Record::new(&header, &values).expect("a row");
        assert_eq!(record.fields().collect::<Vec<_>>(), [("a", "1")]);
        assert_eq!(record.need("b"), Err(Refusal("`b` is missing".to_owned())));
        assert_eq!(record.get("e"), None);
        assert!(Record::new(&header, &values[..3]).is_err());
        assert!(Header::new(["a", "a"]).is_err());
    }

    #[test]
    fn the_ways_in_which_bills_write_time() {
        let may = Some(1_777_593_600_000_000);
        for text in [
            "2026-05-01",
            "2026-05-01 00:00:00",
            "2026-05-01T00:00:00Z",
            "2026-05-01T02:00:00+02:00",
            "2026-05-01T00:00:00.000",
        ] {
            assert_eq!(instant(text), may, "{text}");
        }
        for text in ["", "May 2026", "2026-13-01", "20", "2026-05-01T25:00:00Z"] {
            assert_eq!(instant(text), None, "{text:?}");
        }
    }
}
