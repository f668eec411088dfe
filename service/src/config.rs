//! Settings from four places, later ones winning: defaults < `tokenwatt.toml` < environment < flags.
//!
//! All faults of all places are reported together, each with the place it comes from, and an unknown key is one.
//! Every value knows its source, which `tokenwatt check` prints.

pub mod bytes;
pub mod duration;
pub mod instant;
pub mod range;
mod faults;
mod place;

use std::path::{Path, PathBuf};

use figment::Figment;
use figment::providers::{Format, Toml};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Start of every environment variable that is a setting: `TOKENWATT__COLLECTOR__FLUSH_AFTER`.
pub const ENV_PREFIX: &str = "TOKENWATT__";

pub use place::DEFAULT;

/// A tree of settings: plain data with defaults, and rules that its values must keep.
pub trait Settings: Serialize + DeserializeOwned + Default {
    /// Adds one line for every rule broken, each naming its key.
    fn validate(&self, faults: &mut Vec<String>);
}

/// Where settings are read from.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The file; must exist if given.
    pub file: Option<PathBuf>,
    /// Environment variables; those without [`ENV_PREFIX`] are ignored.
    pub env: Vec<(String, String)>,
    /// Flags as `(key, value)`: `("collector.grpc_addr", "127.0.0.1:0")`.
    pub flags: Vec<(String, String)>,
}

impl Places {
    /// The file (by default `tokenwatt.toml` of the working directory, if it is there) and the process's environment.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let default = Path::new("tokenwatt.toml");
        let file = file.or_else(|| default.exists().then(|| default.to_owned()));
        // Variables that are no UTF-8 cannot be ours.
        let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Self { file, env: env.collect(), flags: Vec::new() }
    }
}

/// Settings, and where each came from.
#[derive(Debug, Clone)]
pub struct Loaded<C> {
    /// The settings, valid.
    pub config: C,
    /// Every value with its source, in order of keys.
    pub values: Vec<Sourced>,
}

/// One setting with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced {
    /// Dotted key, such as `collector.flush_after`.
    pub key: String,
    /// The value as it would stand in the file.
    pub value: String,
    /// `default`, the file's path, `environment variable …` or `flag …`.
    pub source: String,
}

/// Reads, merges and validates the settings.
///
/// # Errors
/// `Invalid` with one line per fault of all places; the hint says how to see the valid keys.
pub fn load<C: Settings>(places: &Places) -> Result<Loaded<C>> {
    let (figment, mut faults) = merge::<C>(places);
    let config = match figment {
        Some(figment) => faults::extract::<C>(&figment, &mut faults).map(|config| (config, figment)),
        None => None,
    };
    if let Some((config, _)) = &config {
        config.validate(&mut faults);
    }
    match config {
        Some((config, figment)) if faults.is_empty() => {
            let values = place::values(&figment, &config);
            Ok(Loaded { config, values })
        }
        _ => Err(faults_error(&faults)),
    }
}

fn faults_error(faults: &[String]) -> Error {
    let count = match faults.len() {
        1 => "1 fault".to_owned(),
        n => format!("{n} faults"),
    };
    let lines: String = faults.iter().map(|fault| format!("\n  - {fault}")).collect();
    Error::invalid(format!("configuration has {count}{lines}"))
        .with_hint("`tokenwatt check` lists every key with its value and where it comes from")
}

/// All places in one tree; `None` when a place cannot be read at all.
fn merge<C: Settings>(places: &Places) -> (Option<Figment>, Vec<String>) {
    let mut figment = Figment::from(place::Defaults(C::default()));
    if let Some(file) = &places.file {
        match std::fs::read_to_string(file) {
            Ok(text) => match text.parse::<toml::Table>() {
                Ok(_) => figment = figment.merge(place::File { path: file, toml: Toml::string(&text) }),
                Err(error) => return (None, vec![format!("{}: {}", file.display(), one_line(&error.to_string()))]),
            },
            Err(error) => return (None, vec![format!("{}: cannot be read: {error}", file.display())]),
        }
    }
    let mut env: Vec<_> = places.env.iter().filter(|(name, _)| name.starts_with(ENV_PREFIX)).collect();
    env.sort();
    for (name, value) in env {
        let key = name.trim_start_matches(ENV_PREFIX).to_lowercase().replace("__", ".");
        figment = figment.merge(place::Single::env(name, &key, value));
    }
    for (key, value) in &places.flags {
        figment = figment.merge(place::Single::flag(key, value));
    }
    (Some(figment), Vec::new())
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
