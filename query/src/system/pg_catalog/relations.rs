//! Every table and view with its columns, and the number by which the catalog knows it.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::DataType;
use datafusion::{catalog::CatalogProviderList, common::Result, logical_expr::TableType};

use super::{Library, PG_CATALOG};
use crate::{
    plan::{SYSTEM, denies},
    reader::Reader,
    session::{CATALOG, SCHEMA},
    system, views,
};

/// First number of a relation that is not PostgreSQL's own.
const PUBLIC_FROM: i32 = 16_384;
/// First number of those in other schemas: they are not found without its name.
pub(super) const HIDDEN_FROM: i32 = 20_000;
/// First number of those of `pg_catalog` whose own number no client knows by heart.
const LIBRARY_FROM: i32 = 12_000;
/// Those that clients know by heart.
const KNOWN: [(&str, i32); 8] = [
    ("pg_type", 1247),
    ("pg_attribute", 1249),
    ("pg_proc", 1255),
    ("pg_class", 1259),
    ("pg_database", 1262),
    ("pg_constraint", 2606),
    ("pg_description", 2609),
    ("pg_namespace", 2615),
];

/// Schemas by number.
pub(super) const NAMESPACES: [(i32, &str); 4] =
    [(11, PG_CATALOG), (2_200, SCHEMA), (13_000, "information_schema"), (13_001, SYSTEM)];

/// A table or view.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(super) oid: i32,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) is_view: bool,
    pub(super) doc: Option<&'static str>,
    /// The question a view asks.
    pub(super) sql: Option<&'static str>,
    pub(super) columns: Vec<Column>,
}

/// One of its columns.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: DataType,
    pub(super) is_nullable: bool,
    pub(super) doc: Option<String>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Relations {
    all: Vec<Relation>,
    by_oid: BTreeMap<i32, usize>,
}

impl Relations {
    /// Lists what the catalogs hold, and the library's tables.
    ///
    /// # Errors
    /// What planning a view or reading the lake gave.
    pub(super) async fn list(catalogs: Arc<dyn CatalogProviderList>, library: Library) -> Result<Relations> {
        let mut all = Vec::new();
        let catalog = catalogs.catalog(CATALOG);
        for (schema, from) in [(SCHEMA, PUBLIC_FROM), (SYSTEM, HIDDEN_FROM)] {
            let Some(provider) = catalog.as_ref().and_then(|catalog| catalog.schema(schema)) else { continue };
            for (name, oid) in provider.table_names().into_iter().zip(from..) {
                let Some(table) = provider.table(&name).await? else { continue };
                let is_view = provider.table_type(&name).await? == Some(TableType::View);
                all.push(relation(oid, schema, name, is_view, &table.schema()));
            }
        }
        let library = library?;
        for (name, oid) in datafusion_pg_catalog::pg_catalog::PG_CATALOG_TABLES.iter().zip(LIBRARY_FROM..) {
            let Some(table) = library.build_table_by_name(name)? else { continue };
            let known = KNOWN.iter().find(|(known, _)| known == name).map(|(_, oid)| *oid);
            all.push(relation(known.unwrap_or(oid), PG_CATALOG, (*name).to_owned(), false, &table.schema()));
        }
        let by_oid = all.iter().enumerate().map(|(at, relation)| (relation.oid, at)).collect();
        Ok(Relations { all, by_oid })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Relation> {
        self.all.iter()
    }

    /// Those of which the reader may read something.
    pub(super) fn seen_by(&self, reader: &Reader) -> impl Iterator<Item = &Relation> {
        self.iter().filter(|relation| !relation.is_hidden_from(reader))
    }

    /// The relation of that name.
    pub(crate) fn named(&self, schema: &str, name: &str) -> Option<&Relation> {
        self.iter().find(|relation| relation.schema == schema && relation.name == name)
    }

    /// The relation of that number.
    pub(super) fn of(&self, oid: i32) -> Option<&Relation> {
        self.by_oid.get(&oid).and_then(|at| self.all.get(*at))
    }
}

impl Relation {
    /// Whether none of it is the reader's to read. PostgreSQL's own tables are everybody's, and of some of ours everybody has a part.
    pub(crate) fn is_hidden_from(&self, reader: &Reader) -> bool {
        let is_everybodys =
            self.schema == PG_CATALOG || (self.schema == SYSTEM && system::OWN.contains(&self.name.as_str()));
        let has = |column: &str| self.columns.iter().any(|known| known.name == column);
        !is_everybodys && denies(reader, has)
    }
}

fn relation(oid: i32, schema: &str, name: String, is_view: bool, columns: &arrow::datatypes::Schema) -> Relation {
    let view = match schema {
        SCHEMA => views::by_name(&name),
        SYSTEM => system::views::by_name(&name),
        _ => None,
    };
    let table = telemetry::table::by_name(&name).filter(|_| schema == SCHEMA);
    let own = (schema == SYSTEM).then_some(name.as_str());
    let doc = |column: &str| match view {
        Some(view) => view.column(column).map(|column| meaning(column.doc, column.unit)),
        None if schema == SYSTEM => system::columns::of(&name, column).map(|column| meaning(column.doc, column.unit)),
        None => table?.column(column).map(|column| meaning(column.doc, column.unit)),
    };
    let columns = columns.fields().iter().map(|field| Column {
        name: field.name().clone(),
        kind: field.data_type().clone(),
        is_nullable: field.is_nullable(),
        doc: doc(field.name()),
    });
    Relation {
        oid,
        schema: schema.to_owned(),
        is_view: is_view || view.is_some(),
        doc: view.map(|view| view.doc).or(table.map(|table| table.doc)).or_else(|| own.and_then(system::comment)),
        sql: view.map(|view| view.sql),
        columns: columns.collect(),
        name,
    }
}

/// What a column is, with its unit.
fn meaning(doc: &str, unit: &str) -> String {
    if unit.is_empty() { doc.to_owned() } else { format!("{doc} [{unit}]") }
}
