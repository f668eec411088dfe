//! Reading the bundled tables of dated facts.

use jiff::{civil::Date, tz::TimeZone};
use serde::de::DeserializeOwned;

/// Rows of a bundled CSV with a header. Rows that do not fit are left out; each table's test counts them.
pub(crate) fn rows<T: DeserializeOwned>(text: &'static str) -> impl Iterator<Item = T> {
    csv::Reader::from_reader(text.as_bytes()).into_deserialize().filter_map(Result::ok)
}

/// First instant, µs since the epoch, of the year, month or day that an as-of note begins with (`2024`, `2026-10 release`),
/// else of the last year it mentions.
pub(crate) fn start_of(as_of: &str) -> Option<i64> {
    let stamp: String = as_of.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    let parts: Vec<&str> = stamp.split('-').collect();
    let number = |index: usize, default: i8| parts.get(index).map_or(Some(default), |part| part.parse().ok());
    match parts.first()?.parse::<i16>() {
        Ok(year) => first_instant(year, number(1, 1)?, number(2, 1)?),
        Err(_) => first_instant(last_year(as_of)?, 1, 1),
    }
}

fn first_instant(year: i16, month: i8, day: i8) -> Option<i64> {
    let midnight = Date::new(year, month, day).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_microsecond())
}

fn last_year(text: &str) -> Option<i16> {
    text.split(|c: char| !c.is_ascii_digit()).rfind(|digits| digits.len() == 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::start_of;

    #[test]
    fn an_as_of_note_gives_its_first_instant() {
        let year_2021 = Some(1_609_459_200_000_000);
        assert_eq!(start_of("2021"), year_2021);
        assert_eq!(start_of("repo HEAD, factors 2020-2021"), year_2021);
        assert_eq!(start_of("2026-07-20"), Some(1_784_505_600_000_000));
        assert_eq!(start_of("2026-10 release"), Some(1_790_812_800_000_000));
        assert_eq!(start_of("lately"), None);
        assert_eq!(start_of("2026-13"), None);
    }
}
