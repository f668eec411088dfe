//! Allocation keys: attributes by which an operator splits what the fleet costs, such as `team`, and the values of a row as one text.
//!
//! ```text
//! {"cost_center":"4711","team":null}     a JSON object, its keys in order: the call names a cost centre and no team
//! ```
//!
//! A key that is not in the text was none when the row was made: nothing is known of it. So rows of a fleet without keys have no text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What a row without a value is attributed to.
pub const UNATTRIBUTED: &str = "__unattributed__";
/// What values beyond the most that are told apart are summed up as.
pub const OTHER: &str = "__other__";
/// Keys that may be configured.
pub const KEYS_MAX: usize = 8;
/// Values of one key an hour that may be told apart at most.
pub const VALUES_MAX: usize = 100_000;
/// Characters of a value that are kept.
pub const VALUE_CHARS_MAX: usize = 128;
/// Characters of a key.
const KEY_CHARS_MAX: usize = 64;
/// Columns of costs, by which every cost is split anyway.
pub const COLUMNS: [&str; 8] =
    ["tenant", "namespace", "environment", "cluster", "pool", "region", "model", "host_type"];

/// The values of a row by key; `None` where the row names none.
pub type Values = BTreeMap<String, Option<String>>;

/// How costs are split, under `[cost]` of `tokenwatt.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Attributes of calls, and of nodes, by which costs are split beside tenant, namespace and environment, such as
    /// `["team", "cost_center"]`; eight at most. Hours that were split before have no value of them. None unless set.
    pub allocation_keys: Vec<String>,
    /// Values of one key an hour that are told apart, those that cost most; the others are summed up as `__other__`. Default 1,000.
    pub allocation_values_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { allocation_keys: Vec::new(), allocation_values_max: 1_000 }
    }
}

impl Settings {
    /// Adds a line for everything that is wrong with them.
    pub fn validate(&self, faults: &mut Vec<String>) {
        validate(&self.allocation_keys, self.allocation_values_max, faults);
    }
}

fn validate(keys: &[String], values_max: usize, faults: &mut Vec<String>) {
    if keys.len() > KEYS_MAX {
        faults.push(format!("`cost.allocation_keys` names {} attributes; {KEYS_MAX} is the most", keys.len()));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let mut seen = BTreeSet::new();
    for key in keys {
        if key.is_empty() || key.len() > KEY_CHARS_MAX || !key.chars().all(is_plain) {
            faults.push(format!(
                "`cost.allocation_keys`: {key:?} is no name of an attribute: 1 to {KEY_CHARS_MAX} letters, digits, `.`, `_`, `-` and `/`"
            ));
        }
        if COLUMNS.contains(&key.as_str()) {
            faults.push(format!("`cost.allocation_keys`: costs are split by `{key}` anyway; take it out"));
        }
        if !seen.insert(key) {
            faults.push(format!("`cost.allocation_keys` names `{key}` twice"));
        }
    }
    if !(1..=VALUES_MAX).contains(&values_max) {
        faults.push(format!("`cost.allocation_values_max` is {values_max}; it must lie between 1 and {VALUES_MAX}"));
    }
}

/// The keys as one text, as SQL functions take them.
pub fn joined(keys: &[String]) -> String {
    keys.join(",")
}

/// The keys of such a text.
pub fn split(keys: &str) -> impl Iterator<Item = &str> {
    keys.split(',').map(str::trim).filter(|key| !key.is_empty())
}

/// What an attribute says: without blanks around it and cut to [`VALUE_CHARS_MAX`] characters. Empty says nothing.
pub fn value(text: &str) -> Option<String> {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).take(VALUE_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}

/// The values as one text.
pub fn write(values: &Values) -> String {
    serde_json::to_string(values).unwrap_or_default()
}

/// The values of such a text; `None` if it is none.
pub fn read(text: &str) -> Option<Values> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_one_text_and_come_back() {
        let values = Values::from([
            ("team".to_owned(), None),
            ("cost_center".to_owned(), value(" 47\u{0}11 \n")),
            ("app/x.y".to_owned(), value("\"quoted\", {all}")),
        ]);
        let text = write(&values);
        assert_eq!(text, r#"{"app/x.y":"\"quoted\", {all}","cost_center":"4711","team":null}"#);
        assert_eq!(read(&text), Some(values));
        assert_eq!((read("__other__"), read("{\"a\":1}"), value(" \t")), (None, None, None));
        assert_eq!(value(&"ü".repeat(1_000)).map(|text| text.chars().count()), Some(VALUE_CHARS_MAX));
    }

    #[test]
    fn what_cannot_be_a_key_is_named() {
        let faults = |keys: &[&str], values_max| {
            let mut faults = Vec::new();
            validate(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>(), values_max, &mut faults);
            faults
        };
        assert_eq!(faults(&["team", "cost_center", "app.kubernetes.io/part-of"], 1_000), Vec::<String>::new());
        for (keys, values_max, said) in [
            (vec!["team", "team"], 1, "twice"),
            (vec!["tenant"], 1, "anyway"),
            (vec!["it's"], 1, "no name of an attribute"),
            (vec!["a,b"], 1, "no name of an attribute"),
            (vec![""], 1, "no name of an attribute"),
            (vec!["team"], 0, "between 1 and 100000"),
            (vec!["a", "b", "c", "d", "e", "f", "g", "h", "i"], 1, "8 is the most"),
        ] {
            let found = faults(&keys, values_max);
            assert!(found.len() == 1 && found[0].contains(said), "{keys:?}: {found:?}");
        }
    }
}
