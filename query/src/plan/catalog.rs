//! The names a query may use: tables and views in `public`, what Tokenwatt knows of itself in `system`.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    common::{DataFusionError, Result, plan_err},
    logical_expr::TableType,
};
use telemetry::table::TABLES;

use super::{
    Scope,
    described::{Described, INFORMATION},
    parse, restrict,
};
use crate::{
    rollup,
    session::{CATALOG, SCHEMA},
    system::{
        self,
        pg_catalog::{PG_CATALOG, PgCatalog},
    },
    views,
};

/// Schema of the tables about Tokenwatt itself.
pub(crate) const SYSTEM: &str = "system";

/// Schema of the views that have roll-ups, from raw rows alone.
const RAW: &str = "raw";

/// Views first, `calls` before all, then tables.
fn table_names() -> Vec<String> {
    let views = views::VIEWS.iter().map(|view| view.name);
    views.chain(TABLES.iter().map(|table| table.name)).map(str::to_owned).collect()
}

/// The list with our one catalog.
pub(super) struct Catalogs(Names);
struct Catalog(Names);
struct Public(Names);
struct System(Names);
struct Raw(Names);
/// One of several lakes by itself.
struct OneLake(Names, usize);

/// What names stand for.
#[derive(Clone)]
struct Names {
    scope: Arc<Scope>,
    purpose: Purpose,
}

/// What names are looked up for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// A statement: a name stands for what its reader may see of it.
    Asking,
    /// A list for a reader: of what it may not read there are no names.
    Listing,
    /// Our own views: a name stands for all of it.
    Viewing,
}

impl Catalogs {
    /// For what a reader asks: names stand for what it may see.
    pub(super) fn seen(scope: &Arc<Scope>) -> Arc<dyn CatalogProviderList> {
        Arc::new(Catalogs(Names { scope: Arc::clone(scope), purpose: Purpose::Asking }))
    }

    /// For what our views are made of.
    pub(super) fn all(scope: &Arc<Scope>) -> Arc<dyn CatalogProviderList> {
        Arc::new(Catalogs(Names { scope: Arc::clone(scope), purpose: Purpose::Viewing }))
    }
}

impl Names {
    fn seen(&self, name: &str, table: Option<Arc<dyn TableProvider>>) -> Result<Option<Arc<dyn TableProvider>>> {
        match table {
            Some(table) if self.purpose != Purpose::Viewing => restrict::to(&self.scope.reader, name, table).map(Some),
            table => Ok(table),
        }
    }

    /// The same names, for lists.
    fn listed(&self) -> Names {
        let purpose = if self.purpose == Purpose::Viewing { Purpose::Viewing } else { Purpose::Listing };
        Names { scope: Arc::clone(&self.scope), purpose }
    }

    /// Whether the name is left out of a list for its reader.
    async fn is_hidden(&self, schema: &str, name: &str) -> Result<bool> {
        let reader = &self.scope.reader;
        if self.purpose != Purpose::Listing || reader.sees_everything() {
            return Ok(false);
        }
        let shelf = self.scope.shelf();
        let relation = shelf.relations(&self.scope).await?.named(schema, name);
        Ok(relation.is_some_and(|relation| relation.is_hidden_from(reader)))
    }
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(Catalog(self.0.clone())) as Arc<dyn CatalogProvider>)
    }
}

impl CatalogProvider for Catalog {
    fn schema_names(&self) -> Vec<String> {
        [SCHEMA, SYSTEM, RAW].map(str::to_owned).to_vec()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            SCHEMA => Some(Arc::new(Public(self.0.clone()))),
            SYSTEM => Some(Arc::new(System(self.0.clone()))),
            INFORMATION => Some(Arc::new(Described::new(Arc::new(Catalogs(self.0.listed()))))),
            // Not among the names: who lists what there is does not look for it.
            PG_CATALOG => Some(Arc::new(PgCatalog(Arc::clone(&self.0.scope)))),
            RAW => Some(Arc::new(Raw(self.0.clone()))),
            // Nor are those of single lakes.
            name => self.0.scope.lake(name).map(|lake| Arc::new(OneLake(self.0.clone(), lake)) as _),
        }
    }
}

#[async_trait]
impl SchemaProvider for Public {
    fn table_names(&self) -> Vec<String> {
        table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if self.0.is_hidden(SCHEMA, name).await? {
            return Ok(None);
        }
        if let Some(view) = views::by_name(name) {
            return self.0.seen(name, Some(self.0.scope.view(view).await?));
        }
        if let (table, Some(_)) = parse::split_version(name)
            && views::by_name(table).is_some()
        {
            return plan_err!("{table} is a view and has no version; pin the tables it reads instead");
        }
        self.0.seen(name, self.0.scope.provider(name).await?)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let known = self.table_exist(name) && !self.0.is_hidden(SCHEMA, name).await?;
        let is_view = views::by_name(name).is_some();
        Ok(known.then_some(if is_view { TableType::View } else { TableType::Base }))
    }

    fn table_exist(&self, name: &str) -> bool {
        table_names().iter().any(|known| known == name)
    }
}

#[async_trait]
impl SchemaProvider for System {
    fn table_names(&self) -> Vec<String> {
        let views = system::views::VIEWS.iter().map(|view| view.name);
        system::NAMES.into_iter().chain(views).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if self.0.is_hidden(SYSTEM, name).await? {
            return Ok(None);
        }
        if let Some(view) = system::views::by_name(name) {
            return self.0.seen(&format!("{SYSTEM}.{name}"), Some(self.0.scope.view(view).await?));
        }
        if system::OWN.contains(&name) {
            return system::table(name, &self.0.scope).await;
        }
        self.0.seen(&format!("{SYSTEM}.{name}"), system::table(name, &self.0.scope).await?)
    }

    fn table_exist(&self, name: &str) -> bool {
        system::NAMES.contains(&name) || system::views::by_name(name).is_some()
    }
}

#[async_trait]
impl SchemaProvider for Raw {
    fn table_names(&self) -> Vec<String> {
        rollup::ROLLUPS.map(|rollup| rollup.view.name.to_owned()).to_vec()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        // it has the columns of the view of that name
        if self.0.is_hidden(SCHEMA, name).await? {
            return Ok(None);
        }
        let Some(view) = views::by_name(name).filter(|view| rollup::of(view).is_some()) else { return Ok(None) };
        self.0.seen(&format!("{RAW}.{name}"), Some(self.0.scope.raw_view(view).await?))
    }

    fn table_exist(&self, name: &str) -> bool {
        rollup::ROLLUPS.iter().any(|rollup| rollup.view.name == name)
    }
}

#[async_trait]
impl SchemaProvider for OneLake {
    fn table_names(&self) -> Vec<String> {
        TABLES.iter().map(|table| table.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        self.0.seen(name, self.0.scope.table_of(self.1, name).await?)
    }

    fn table_exist(&self, name: &str) -> bool {
        TABLES.iter().any(|table| table.name == name)
    }
}

macro_rules! debug_as_name {
    ($($kind:ident),*) => {
        $(impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($kind))
            }
        })*
    };
}

debug_as_name!(Catalogs, Catalog, Public, System, Raw, OneLake);
