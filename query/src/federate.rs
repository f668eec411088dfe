//! Several lakes under one set of names.
//!
//! ```text
//! a statement ─► lakes that may hold a matching row (table) ─► each pinned at one version, or missing (pins) ─► their files as one table
//!                                                                         └─ site: opened when first asked, left alone while it is down
//! ```
//!
//! Invariants:
//! 1. A row lies in one lake, so the union of the lakes' files is the table, and nothing is counted twice.
//! 2. A dated fact (a price, an objective) is taken from one lake: that of its region, else the first.
//! 3. A lake whose regions a filter on `region` leaves out gets no request.
//! 4. A lake that cannot be reached is named in the answer, which holds what the others have; `query.lakes_required` makes it fail.

mod pins;
mod route;
mod site;
mod table;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lake::{Lake, Snapshot};
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};
use service::Deps;

use crate::config::Config;

pub(crate) use pins::{Pins, Within};
pub(crate) use site::Site;
pub(crate) use table::Federated;

/// One of several lakes that queries read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LakeAt {
    /// Its name, and that of the schema in which its tables are found alone: lower case letters, digits and `_`.
    pub name: String,
    /// Where it lies: a directory, or `s3://bucket/prefix`.
    pub url: String,
    /// Regions whose rows it holds, and no others: a query that asks for none of them leaves the lake alone. Default: any.
    #[serde(default)]
    pub regions: Vec<String>,
}

/// Most lakes; every one is asked for its newest version by most queries.
const LAKES_MAX: usize = 64;
/// Longest name of a lake.
const NAME_MAX: usize = 63;
/// Schemas that are there already.
const TAKEN: [&str; 5] = ["public", "system", "raw", "information_schema", "pg_catalog"];

/// Adds a line for everything that is wrong with the lakes.
pub fn validate_lakes(lakes: &[LakeAt], faults: &mut Vec<String>) {
    if lakes.len() > LAKES_MAX {
        faults.push(format!("there are {} [[lake]], more than {LAKES_MAX}", lakes.len()));
    }
    let (mut names, mut urls) = (BTreeSet::new(), BTreeSet::new());
    for LakeAt { name, url, .. } in lakes {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || name.len() > NAME_MAX || !name.chars().all(plain) || TAKEN.contains(&name.as_str()) {
            faults.push(format!(
                "lake `{name}`: a name is a lower case letter and up to {} more, digits or _, and none of {}",
                NAME_MAX - 1,
                TAKEN.join(", ")
            ));
        }
        let is_known = !url.contains("://") || url.starts_with("s3://") || url.starts_with("file://");
        if url.trim().is_empty() || !is_known {
            faults.push(format!("lake `{name}`: `url` is `{url}`; give a directory or s3://bucket/prefix"));
        }
        if !names.insert(name) {
            faults.push(format!("lake `{name}` is there twice"));
        }
        if !urls.insert(url.trim_end_matches('/')) {
            faults.push(format!("lake `{name}`: `{url}` is there twice, so its rows would count twice"));
        }
    }
}

/// What queries read: one lake, or several.
#[derive(Clone)]
pub struct Lakes(Given);

#[derive(Clone)]
enum Given {
    One(Lake),
    Several(Vec<(LakeAt, Option<Lake>)>),
}

impl From<Lake> for Lakes {
    fn from(lake: Lake) -> Lakes {
        Lakes(Given::One(lake))
    }
}

impl Lakes {
    /// Several lakes. They are opened when a query first asks them; `own` is where a lake lies that this process has open
    /// already.
    pub fn several(lakes: &[LakeAt], own: Option<(&str, &Lake)>) -> Lakes {
        let opened = |at: &LakeAt| own.filter(|(url, _)| *url == at.url).map(|(_, lake)| lake.clone());
        Lakes(Given::Several(lakes.iter().map(|at| (at.clone(), opened(at))).collect()))
    }

    /// Several lakes, each open already or not.
    #[cfg(test)]
    pub(crate) fn with(lakes: Vec<(LakeAt, Option<Lake>)>) -> Lakes {
        Lakes(Given::Several(lakes))
    }

    pub(crate) fn reading(self, config: &Config, deps: &Deps) -> Reading {
        match self.0 {
            Given::One(lake) => Reading::One(lake),
            Given::Several(lakes) => {
                let wait = Duration::from_millis(config.lake_wait_ms);
                let site = |(at, opened)| Arc::new(Site::new(at, opened, wait, &config.rollup.retention_days, deps));
                let sites = lakes.into_iter().map(site).collect();
                Reading::Several(Arc::new(Federation {
                    sites,
                    is_strict: config.lakes_required,
                    calls_span: config.calls_span_lakes,
                }))
            }
        }
    }
}

/// What queries read, made ready.
#[derive(Clone)]
pub(crate) enum Reading {
    One(Lake),
    Several(Arc<Federation>),
}

/// Lakes that are read as one.
pub(crate) struct Federation {
    sites: Vec<Arc<Site>>,
    /// Whether a query fails where a lake it needs cannot be reached.
    is_strict: bool,
    /// Whether the rows of one call may lie in several of them.
    calls_span: bool,
}

impl Reading {
    /// Where the files of its tables are found, under the paths that scans know them by.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        match self {
            Reading::One(lake) => lake.store(),
            Reading::Several(federation) => Arc::new(route::Routed::new(federation)),
        }
    }

    /// Whether files are behind a network.
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Reading::One(lake) => lake.url().scheme() != "file",
            Reading::Several(federation) => federation.sites.iter().any(|site| site.is_remote()),
        }
    }

    /// The newest version of a table in every lake that can be reached, each with the lake's name where there are several.
    ///
    /// # Errors
    /// Where there is one lake, what reading it gave.
    pub(crate) async fn newest(&self, table: &str) -> service::Result<Vec<(Option<String>, Arc<Snapshot>)>> {
        match self {
            Reading::One(lake) => Ok(vec![(None, lake.snapshot(table, None).await?)]),
            Reading::Several(federation) => {
                let asked = federation.sites.iter().map(|site| async move {
                    let snapshot = site.snapshot(table, None).await.ok()?;
                    Some((Some(site.name().to_owned()), snapshot))
                });
                Ok(futures::future::join_all(asked).await.into_iter().flatten().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LakeAt, validate_lakes};

    fn at(name: &str, url: &str) -> LakeAt {
        LakeAt { name: name.to_owned(), url: url.to_owned(), regions: Vec::new() }
    }

    #[test]
    fn lakes_that_cannot_be_told_apart_are_named() {
        let faults = |lakes: &[LakeAt]| {
            let mut faults = Vec::new();
            validate_lakes(lakes, &mut faults);
            faults
        };
        assert!(faults(&[at("eu", "s3://eu/lake"), at("us_1", "/data/us")]).is_empty());
        for (lakes, said) in [
            ([at("eu", "/a"), at("eu", "/b")], "twice"),
            ([at("eu", "/a"), at("us", "/a/")], "count twice"),
            ([at("public", "/a"), at("us", "/b")], "none of"),
            ([at("EU", "/a"), at("us", "/b")], "lower case"),
            ([at("1", "/a"), at("us", "/b")], "lower case"),
            ([at("eu", "gs://a"), at("us", " ")], "s3://bucket"),
        ] {
            assert!(faults(&lakes).iter().any(|fault| fault.contains(said)), "{said}: {:?}", faults(&lakes));
        }
    }
}
