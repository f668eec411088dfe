//! Links to the SQL page and to files, and the versions at which a statement is read.

use std::collections::BTreeMap;

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

/// All rows of a statement as Parquet, which the query service writes itself.
pub(crate) fn parquet(sql: &str, versions: &Versions) -> String {
    let mut fields = fields(sql, versions);
    fields.set("format", "parquet".to_owned());
    fields.link("/api/v1/sql")
}

fn fields(sql: &str, versions: &Versions) -> Fields {
    let mut fields = Fields::default();
    fields.set("q", sql.to_owned());
    if !versions.is_empty() {
        fields.set("v", written(versions));
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

fn written(versions: &Versions) -> String {
    let each: Vec<String> = versions.iter().map(|(table, version)| format!("{table}:{version}")).collect();
    each.join(",")
}

/// Reads what [`link`] wrote into the field `v`; what makes no sense is dropped.
pub(crate) fn versions(fields: &Fields) -> Versions {
    let text = fields.long_text("v").unwrap_or_default();
    let each = text.split(',').filter_map(|pin| {
        let (table, version) = pin.rsplit_once(':')?;
        let version = version.parse().ok().filter(|version| *version >= -1)?;
        Some((table.to_owned(), version))
    });
    each.collect()
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
        assert_eq!(versions(&Fields::parse("v=requests:-2,x,tokens:3")), Versions::from([("tokens".to_owned(), 3)]));
    }
}
