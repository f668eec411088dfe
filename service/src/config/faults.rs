//! Reading the merged tree so that one pass reports every fault, not only the first.

use figment::error::{Actual, Kind};
use figment::value::{Dict, Value};
use figment::{Figment, Profile};

use super::Settings;
use super::place::Defaults;

/// Most faults reported; a file with more is another kind of file.
const FAULTS_MAX: usize = 100;

/// Reads the settings; each value that cannot be read is reported, taken out, and the reading starts again.
pub(super) fn extract<C: Settings>(figment: &Figment, faults: &mut Vec<String>) -> Option<C> {
    let mut tree = match figment.extract::<Dict>() {
        Ok(tree) => tree,
        Err(error) => {
            faults.push(error.to_string());
            return None;
        }
    };
    while faults.len() < FAULTS_MAX {
        match pruned(figment, &tree).extract::<C>() {
            Ok(config) => return Some(config),
            Err(error) => {
                let path = path_of(&error);
                faults.push(describe::<C>(figment, &error, &path));
                if !remove(&mut tree, &path) {
                    return None;
                }
            }
        }
    }
    None
}

/// The same places with another tree: tags of values, and with them sources, are kept.
fn pruned(figment: &Figment, tree: &Dict) -> Figment {
    let mut only = Figment::new();
    for (key, value) in tree {
        only = only.merge(Branch { key: key.clone(), value: value.clone() });
    }
    only.select(figment.profile().clone())
}

struct Branch {
    key: String,
    value: Value,
}

impl figment::Provider for Branch {
    fn metadata(&self) -> figment::Metadata {
        figment::Metadata::named("settings")
    }

    fn data(&self) -> figment::error::Result<figment::value::Map<Profile, Dict>> {
        Ok(Profile::Default.collect(Dict::from([(self.key.clone(), self.value.clone())])))
    }
}

/// Full path of the value that cannot be read; an unknown field's own name is part of it.
fn path_of(error: &figment::Error) -> Vec<String> {
    let mut path = error.path.clone();
    if let Kind::UnknownField(name, _) = &error.kind
        && path.last() != Some(name)
    {
        path.push(name.clone());
    }
    path
}

fn describe<C: Settings>(figment: &Figment, error: &figment::Error, path: &[String]) -> String {
    let key = path.join(".");
    let source = figment.find_metadata(&key).map_or_else(|| "settings".to_owned(), |m| m.name.to_string());
    match &error.kind {
        Kind::UnknownField(name, known) => match nearest(name, known) {
            Some(near) => format!("{source}: unknown key `{key}`; did you mean `{near}`?"),
            None => format!("{source}: unknown key `{key}`; known here: {}", known.join(", ")),
        },
        Kind::InvalidType(found, expected) if expected.starts_with("struct ") => {
            format!("{source}: {}", no_table::<C>(&key, found))
        }
        kind => format!("{source}: `{key}`: {kind}"),
    }
}

/// A value stands where a table belongs: what to write instead. A text may be the kind of a table that has several.
fn no_table<C: Settings>(key: &str, found: &Actual) -> String {
    let defaults = Figment::from(Defaults(C::default())).find_value(key).ok();
    let known: Vec<String> = match defaults {
        Some(Value::Dict(_, table)) => table.into_keys().collect(),
        _ => Vec::new(),
    };
    let below = match found {
        Actual::Str(text) if known.iter().any(|name| name == "kind") => format!("kind = {text:?}"),
        _ => known.join(", "),
    };
    format!("`{key}` is a table, not a {found}; write `[{key}]`, and below it: {below}")
}

/// The known name that differs from `name` by the fewest edits, if that is few.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let best = known.iter().map(|candidate| (edits(name, candidate), *candidate)).min()?;
    (best.0 <= 2).then_some(best.1)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Takes the value at `path` out of the tree, or the list around it; `false` when there is none.
fn remove(tree: &mut Dict, path: &[String]) -> bool {
    match path {
        [] => false,
        [last] => tree.remove(last).is_some(),
        [first, rest @ ..] => {
            let inside = match tree.get_mut(first) {
                Some(Value::Dict(_, inner)) => remove(inner, rest),
                _ => false,
            };
            // Inside a list, or in a value that is no table: the whole entry goes.
            inside || tree.remove(first).is_some()
        }
    }
}
