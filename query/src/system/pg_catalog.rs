//! The schema `pg_catalog`: what clients of PostgreSQL ask to find out which tables there are.
//!
//! What is the same in every PostgreSQL (types, operators, functions) is the library's. What is ours is made here: relations, their
//! columns with the comments of the registry, schemas, the database.

mod functions;
mod own;
mod relations;

use std::{collections::BTreeMap, fmt, sync::Arc};

use arrow::{array::AsArray, datatypes::Int32Type};
use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider},
    common::{DataFusionError, Result},
    logical_expr::ScalarUDF,
};
use datafusion_pg_catalog::pg_catalog::{
    PG_CATALOG_TABLES, PgCatalogSchemaProvider, PgCatalogStaticTables, context::EmptyContextProvider,
};
use tokio::sync::OnceCell;

use crate::plan::Scope;
use relations::{Relation, Relations};

/// Its name in SQL.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// What is made once in a process: the library's tables, and the list of relations once it was asked for.
pub(crate) struct Shelf {
    library: Arc<PgCatalogStaticTables>,
    relations: Arc<OnceCell<Relations>>,
}

impl Shelf {
    /// # Errors
    /// If the library's tables cannot be read.
    pub(crate) fn new() -> Result<Shelf> {
        Ok(Shelf { library: Arc::new(PgCatalogStaticTables::try_new()?), relations: Arc::default() })
    }

    /// The functions that questions about the catalog call.
    pub(crate) fn functions(&self) -> Vec<Arc<ScalarUDF>> {
        functions::all(&self.relations, &Arc::new(self.types()))
    }

    /// Numbers of types by name.
    fn types(&self) -> BTreeMap<String, i32> {
        let batches = self.library.pg_type.data().iter();
        let pairs = batches.filter_map(|batch| {
            let (oids, names) = (batch.column_by_name("oid")?, batch.column_by_name("typname")?);
            Some((oids.as_primitive_opt::<Int32Type>()?, names.as_string_opt::<i32>()?))
        });
        let named = pairs.flat_map(|(oids, names)| {
            oids.iter().zip(names.iter()).filter_map(|(oid, name)| Some((name?.to_owned(), oid?)))
        });
        named.collect()
    }

    /// The list of all relations, with their columns, whoever may read them.
    pub(crate) async fn relations(&self, scope: &Arc<Scope>) -> Result<&Relations> {
        self.relations.get_or_try_init(|| Relations::list(scope.everything(), self.own_tables(scope))).await
    }

    fn own_tables(&self, scope: &Arc<Scope>) -> Library {
        // It asks the list of catalogs for tables that are ours, and those it is not asked for.
        PgCatalogSchemaProvider::try_new(scope.everything(), Arc::clone(&self.library), EmptyContextProvider)
    }
}

type Library = Result<PgCatalogSchemaProvider<Arc<dyn CatalogProviderList>, EmptyContextProvider>>;

/// The schema, for one query.
pub(crate) struct PgCatalog(pub(crate) Arc<Scope>);

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        PG_CATALOG_TABLES.iter().map(|name| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let shelf = self.0.shelf();
        let Some(table) = shelf.own_tables(&self.0)?.build_table_by_name(name)? else { return Ok(None) };
        if !own::NAMES.contains(&name) {
            return table.try_into_table_provider().map(Some);
        }
        let seen: Vec<&Relation> = shelf.relations(&self.0).await?.seen_by(self.0.reader()).collect();
        let schema = own::columns(name, &table.schema());
        let batches = own::table(name, &schema, &seen, &shelf.library)?;
        Ok(Some(Arc::new(MemTable::try_new(schema, vec![batches])?)))
    }

    fn table_exist(&self, name: &str) -> bool {
        PG_CATALOG_TABLES.contains(&name)
    }
}

impl fmt::Debug for PgCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PgCatalog")
    }
}
