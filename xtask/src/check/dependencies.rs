//! The dependency table: which crate of ours may use which, and who links the heavy ones.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo;

/// A row says what a crate may use of ours. A crate without a row may not exist.
const MAY_USE: &[(&str, &[&str])] = &[
    ("telemetry", &[]),
    ("service", &["telemetry"]),
    ("lake", &["telemetry", "service"]),
    ("collector", &["telemetry", "service", "lake"]),
    ("query", &["telemetry", "service", "lake"]),
    ("gateway", &["telemetry", "service"]),
    ("inference-node", &["telemetry", "service"]),
    ("viz", &["telemetry"]),
    ("ui", &["telemetry", "viz", "service"]),
    ("xtask", &["telemetry"]),
    ("tokenwatt", &["telemetry", "service", "lake", "collector", "query", "gateway", "inference-node", "viz", "ui"]),
];

/// Crates that only the named crates of ours may use directly: (prefix, users).
const LINKED_BY: &[(&str, &[&str])] =
    &[("datafusion", &["query"]), ("deltalake", &["lake"]), ("candle", &["inference-node"]), ("leptos", &["ui"])];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

/// Adds a fault for every edge that the table does not have.
pub(crate) fn check(faults: &mut Vec<String>) -> Result<()> {
    let json = cargo::output(&mut cargo::cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Metadata = serde_json::from_str(&json).context("read cargo metadata")?;
    judge(&metadata, faults);
    Ok(())
}

fn judge(metadata: &Metadata, faults: &mut Vec<String>) {
    let table: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for package in &metadata.packages {
        let Some(allowed) = table.get(package.name.as_str()) else {
            faults.push(format!("crate {} has no row in the dependency table", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if table.contains_key(name) && !allowed.contains(&name) {
                faults.push(format!("{} may not use {name}", package.name));
            }
            for (prefix, users) in LINKED_BY {
                if name.starts_with(prefix) && !users.contains(&package.name.as_str()) {
                    faults.push(format!("{} may not link {name}; only {} may", package.name, users.join(", ")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(name: &str, uses: &[&str]) -> Vec<String> {
        let dependencies = uses.iter().map(|name| Dependency { name: (*name).into() }).collect();
        let mut faults = Vec::new();
        judge(&Metadata { packages: vec![Package { name: name.into(), dependencies }] }, &mut faults);
        faults
    }

    #[test]
    fn a_service_may_not_depend_on_a_service() {
        assert_eq!(faults_of("gateway", &["service", "collector"]), ["gateway may not use collector"]);
    }

    #[test]
    fn datafusion_is_linked_by_query_alone() {
        assert_eq!(faults_of("query", &["datafusion", "lake"]), [""; 0]);
        assert_eq!(faults_of("lake", &["datafusion"]), ["lake may not link datafusion; only query may"]);
    }

    #[test]
    fn a_crate_without_a_row_is_a_fault() {
        assert_eq!(faults_of("common", &[]), ["crate common has no row in the dependency table"]);
    }
}
