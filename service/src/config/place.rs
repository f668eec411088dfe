//! Places that settings come from, as figment providers whose names a reader recognises.

use std::path::Path;

use figment::providers::{Data, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;

use super::Sourced;

/// Source of values that nobody set.
pub const DEFAULT: &str = "default";

/// The settings' own defaults.
pub(super) struct Defaults<C>(pub(super) C);

impl<C: Serialize> Provider for Defaults<C> {
    fn metadata(&self) -> Metadata {
        Metadata::named(DEFAULT)
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        Serialized::defaults(&self.0).data()
    }
}

/// The settings file.
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) toml: Data<Toml>,
}

impl Provider for File<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.path.display().to_string())
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        self.toml.data()
    }
}

/// One key with one value: an environment variable or a flag.
pub(super) struct Single {
    name: String,
    key: String,
    value: Value,
}

impl Single {
    pub(super) fn env(name: &str, key: &str, value: &str) -> Self {
        Self { name: format!("environment variable {name}"), key: key.to_owned(), value: parse(value) }
    }

    pub(super) fn flag(key: &str, value: &str) -> Self {
        Self { name: format!("flag for {key}"), key: key.to_owned(), value: parse(value) }
    }
}

/// Numbers, booleans and lists are read as TOML reads them; all else is text.
fn parse(text: &str) -> Value {
    let Ok(value) = text.parse::<Value>();
    value
}

impl Provider for Single {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> figment::error::Result<Map<Profile, Dict>> {
        let nested = figment::util::nest(&self.key, self.value.clone());
        let dict = nested.into_dict().unwrap_or_default();
        Ok(Profile::Default.collect(dict))
    }
}

/// Every leaf of the settings with its source.
pub(super) fn values<C: Serialize>(figment: &Figment, config: &C) -> Vec<Sourced> {
    let mut values = Vec::new();
    if let Ok(tree) = serde_json::to_value(config) {
        walk(figment, "", &tree, &mut values);
    }
    values
}

fn walk(figment: &Figment, key: &str, value: &serde_json::Value, values: &mut Vec<Sourced>) {
    match value {
        serde_json::Value::Object(fields) if !fields.is_empty() => {
            for (name, inner) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                walk(figment, &key, inner, values);
            }
        }
        _ => {
            let mut shown = value.clone();
            hide(key.rsplit('.').next().unwrap_or(key), &mut shown);
            values.push(Sourced { key: key.to_owned(), value: shown.to_string(), source: source(figment, key) });
        }
    }
}

fn source(figment: &Figment, key: &str) -> String {
    // A setting without a value, such as an unset option, stands in no place.
    figment.find_metadata(key).map_or_else(|| DEFAULT.to_owned(), |metadata| metadata.name.to_string())
}

/// Keeps secrets out of what is printed: texts under a name that says so, in lists of tables too.
fn hide(name: &str, value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Array(entries) => entries.iter_mut().for_each(|entry| hide(name, entry)),
        serde_json::Value::Object(fields) => fields.iter_mut().for_each(|(name, inner)| hide(name, inner)),
        serde_json::Value::String(text) if is_secret(name) => "***".clone_into(text),
        _ => {}
    }
}

fn is_secret(name: &str) -> bool {
    name == "key" || ["secret", "password", "bearer", "credential"].iter().any(|word| name.contains(word))
}
