//! The tag that lists minutes whose rows came late, as `28333332,28333340-28333345`: minutes since 1970-01-01 UTC.
//!
//! Windows computed from a table are computed anew for these minutes, so a merge must not lose any.

use std::collections::BTreeSet;

/// Name of the tag.
pub const TAG: &str = "minutes";
/// Most minutes of one range: no table keeps rows for longer.
const RANGE_MAX: i64 = 400 * 24 * 60;

/// All minutes of some lists and further ones; `None` if there are none. What is no range is left out.
pub(crate) fn union<'a>(lists: impl Iterator<Item = &'a str>, more: impl Iterator<Item = i64>) -> Option<String> {
    let mut minutes: BTreeSet<i64> = more.collect();
    for (first, last) in lists.flat_map(|list| list.split(',')).filter_map(range) {
        minutes.extend(first..=last);
    }
    list(minutes)
}

/// Minutes as the tag lists them; `None` if there are none.
pub fn list(minutes: BTreeSet<i64>) -> Option<String> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for minute in minutes {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == minute => *last = minute,
            _ => ranges.push((minute, minute)),
        }
    }
    let print = |(first, last): &(i64, i64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    (!ranges.is_empty()).then(|| ranges.iter().map(print).collect::<Vec<_>>().join(","))
}

fn range(text: &str) -> Option<(i64, i64)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse::<i64>().ok()?, last.trim().parse::<i64>().ok()?);
    (0 <= first && first <= last && last - first < RANGE_MAX).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::union;

    #[test]
    fn lists_are_joined_and_neighbours_become_ranges() {
        let joined = |lists: &[&str], more: &[i64]| union(lists.iter().copied(), more.iter().copied());
        assert_eq!(joined(&["3-5,9", "6,20-22"], &[10, 4]), Some("3-6,9-10,20-22".to_owned()));
        assert_eq!(joined(&[], &[]), None);
        assert_eq!(joined(&["", "x", "9-3", "0-99999999999", "7"], &[]), Some("7".to_owned()));
    }
}
