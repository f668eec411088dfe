//! Links to the SQL page and to files, and the versions at which a statement is read.

use std::collections::BTreeMap;

use leptos::prelude::*;
use telemetry::contract::{read_versions, written_versions};

use crate::ask::Asked;
use crate::urlstate::Fields;

/// Version of each table, as answers name them.
pub(crate) type Versions = BTreeMap<String, i64>;

/// A link to the SQL page with a statement in it.
pub(crate) fn sql_link(sql: &str) -> String {
    link("/sql", sql, &Versions::new())
}

/// A path of the SQL page with a statement, and with the versions that it is read at unless they are the newest.
pub(crate) fn link(path: &str, sql: &str, versions: &Versions) -> String {
    fields(sql, versions).link(path)
}

/// In the context of a page whose port answers `/api/v1/sql`.
#[derive(Clone)]
pub(crate) struct HasApi;

/// A link to all rows of a statement as Parquet, which the query service writes itself; nothing where it is not on this port.
pub(crate) fn parquet(sql: &str, versions: &Versions) -> Option<AnyView> {
    use_context::<HasApi>()?;
    let mut fields = fields(sql, versions);
    fields.set("format", "parquet".to_owned());
    Some(view! { <a href=fields.link("/api/v1/sql") download="">"Parquet"</a> }.into_any())
}

fn fields(sql: &str, versions: &Versions) -> Fields {
    let mut fields = Fields::default();
    fields.set("q", sql.to_owned());
    if !versions.is_empty() {
        fields.set("v", written_versions(versions));
    }
    fields
}

/// The versions that answered what a panel asked: what is opened at them says what the panel shows.
pub(crate) fn of(asked: &Asked) -> Versions {
    asked.outcome.as_ref().map(|answer| answer.raw().version.clone()).unwrap_or_default()
}

/// A link to what a panel asked.
pub(crate) fn asked(path: &str, asked: &Asked) -> String {
    link(path, &asked.sql, &of(asked))
}

/// Reads what [`link`] wrote into the field `v`. What makes no sense names no version, and the newest is read.
pub(crate) fn versions(fields: &Fields) -> Versions {
    read_versions(&fields.long_text("v").unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_survive_their_own_url() {
        let pinned =
            Versions::from([("eu.requests".to_owned(), 812), ("tokens@7".to_owned(), 7), ("billing".to_owned(), -1)]);
        let link = link("/sql", "SELECT 1", &pinned);
        assert_eq!(versions(&Fields::parse(link.split_once('?').unwrap().1)), pinned, "{link}");
        for nonsense in ["v=requests:-2,tokens:3", "v=x", "v=requests:+1", "v=:3", ""] {
            assert_eq!(versions(&Fields::parse(nonsense)), Versions::new(), "{nonsense}");
        }
    }
}
