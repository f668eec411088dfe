//! What one query sees of each lake: one version of each table, or that the lake is missing.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, BooleanArray},
    datatypes::SchemaRef,
};
use datafusion::{
    catalog::Session,
    common::{Column, DFSchema, Result, ScalarValue, pruning::PruningStatistics},
    logical_expr::{Expr, utils::conjunction},
    physical_optimizer::pruning::PruningPredicateBuilder,
};
use futures::future::try_join_all;
use lake::Snapshot;
use parking_lot::Mutex;
use service::error::chain;

use super::{Federation, Site};
use crate::error;

/// Column by which lakes are told apart.
pub(super) const REGION: &str = "region";

/// Lakes of a federation, by their place in its list.
pub(crate) type Within = Arc<[usize]>;

/// What one query sees of each lake.
pub(crate) struct Pins {
    federation: Arc<Federation>,
    /// Versions that the request names, by lake and table (`eu.requests`); the newest of others.
    versions: BTreeMap<String, i64>,
    /// By lake and by the name that the table was asked under.
    pinned: Mutex<BTreeMap<(usize, String), Arc<Snapshot>>>,
    /// Lakes that could not be reached, and why. One that was missed once is missing to the end.
    missing: Mutex<BTreeMap<usize, String>>,
}

impl Pins {
    pub(crate) fn new(federation: &Arc<Federation>, versions: BTreeMap<String, i64>) -> Arc<Pins> {
        let (pinned, missing) = (Mutex::default(), Mutex::default());
        Arc::new(Pins { federation: Arc::clone(federation), versions, pinned, missing })
    }

    /// All lakes.
    pub(crate) fn all(&self) -> Within {
        (0..self.federation.sites.len()).collect()
    }

    /// Whether the rows of one call may lie in several lakes.
    pub(crate) fn calls_span_lakes(&self) -> bool {
        self.federation.calls_span
    }

    pub(crate) fn site(&self, lake: usize) -> &Arc<Site> {
        &self.federation.sites[lake]
    }

    /// The lake of that name.
    pub(crate) fn named(&self, name: &str) -> Option<usize> {
        self.federation.sites.iter().position(|site| site.name() == name)
    }

    /// A table of one lake, the same version each time; `None` if the lake cannot be reached, which the answer will say.
    ///
    /// # Errors
    /// The lake's, where answers must be whole.
    pub(crate) async fn pin(&self, lake: usize, table: &str) -> Result<Option<Arc<Snapshot>>> {
        if self.missing.lock().contains_key(&lake) {
            return Ok(None);
        }
        match self.pin_surely(lake, table, None).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(failed) if self.federation.is_strict => Err(error::from_lake(failed)),
            Err(failed) => {
                self.missing.lock().entry(lake).or_insert_with(|| chain(&failed));
                Ok(None)
            }
        }
    }

    /// The same, of a lake that was asked for by its name.
    ///
    /// # Errors
    /// The lake's, with its name.
    pub(crate) async fn pin_surely(
        &self,
        lake: usize,
        table: &str,
        version: Option<i64>,
    ) -> service::Result<Arc<Snapshot>> {
        let asked = version.map_or_else(|| table.to_owned(), |version| format!("{table}@{version}"));
        if let Some(pinned) = self.pinned.lock().get(&(lake, asked.clone())) {
            return Ok(Arc::clone(pinned));
        }
        let site = self.site(lake);
        let failed = |failed: service::Error| {
            service::Error::new(failed.kind(), format!("read {table} of lake {}", site.name())).with_source(failed)
        };
        let version = version.or_else(|| self.versions.get(&format!("{}.{table}", site.name())).copied());
        let snapshot = site.snapshot(table, version).await.map_err(failed)?;
        Ok(Arc::clone(self.pinned.lock().entry((lake, asked)).or_insert(snapshot)))
    }

    /// A table of each of these lakes that can be reached, in their order.
    ///
    /// # Errors
    /// As [`Pins::pin`].
    pub(super) async fn pin_each(&self, lakes: &[usize], table: &str) -> Result<Vec<(usize, Arc<Snapshot>)>> {
        let pinned = try_join_all(lakes.iter().map(|lake| self.pin(*lake, table))).await?;
        Ok(lakes.iter().zip(pinned).filter_map(|(lake, snapshot)| Some((*lake, snapshot?))).collect())
    }

    /// The versions read so far, by lake and the name that was asked.
    pub(crate) fn snapshots(&self) -> BTreeMap<String, Arc<Snapshot>> {
        let name = |lake: usize, table: &str| format!("{}.{table}", self.site(lake).name());
        let pinned = self.pinned.lock();
        pinned.iter().map(|((lake, table), snapshot)| (name(*lake, table), Arc::clone(snapshot))).collect()
    }

    /// Which lakes the answer lacks, and why; `None` where it is whole.
    pub(crate) fn notice(&self) -> Option<String> {
        let missing = self.missing.lock();
        let told = missing.iter().map(|(lake, why)| {
            let site = self.site(*lake);
            let regions = if site.regions().is_empty() { "any region".to_owned() } else { site.regions().join(", ") };
            format!("lake {} ({regions}) is missing: {why}", site.name())
        });
        Some(told.collect::<Vec<_>>().join("; ")).filter(|notice| !notice.is_empty())
    }

    /// Whether a lake has gone down since it was pinned, so that asking again would do without it.
    pub(crate) fn has_lost_one(&self) -> bool {
        let pinned = self.pinned.lock();
        !self.federation.is_strict && pinned.keys().any(|(lake, _)| self.site(*lake).why_down().is_some())
    }

    /// Those of the lakes that may hold a row which the filters let through, by the regions that each holds.
    ///
    /// # Errors
    /// Filters that do not belong to the schema.
    pub(crate) fn holding(
        &self,
        lakes: &Within,
        filters: &[Expr],
        schema: &SchemaRef,
        state: &dyn Session,
    ) -> Result<Within> {
        let on_region = |filter: &&Expr| filter.column_refs().iter().any(|column| column.name == REGION);
        let Some(predicate) = conjunction(filters.iter().filter(on_region).cloned()) else {
            return Ok(Arc::clone(lakes));
        };
        let predicate = state.create_physical_expr(predicate, &DFSchema::try_from(Arc::clone(schema))?)?;
        let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(predicate);
        let Some(pruning) = pruning else { return Ok(Arc::clone(lakes)) };
        let holds = |lake: &usize| {
            let regions = Regions { values: self.site(*lake).regions(), schema };
            // What cannot be decided is asked.
            regions.values.is_empty() || pruning.prune(&regions).map_or(true, |kept| kept.contains(&true))
        };
        Ok(lakes.iter().copied().filter(holds).collect())
    }
}

/// A lake's regions, each as if it were a file of rows with that region or none.
struct Regions<'a> {
    values: &'a [String],
    schema: &'a SchemaRef,
}

impl Regions<'_> {
    fn of(&self, column: &Column) -> Option<ArrayRef> {
        let kind = self.schema.field_with_name(REGION).ok()?.data_type();
        let scalars = self.values.iter().map(|region| ScalarValue::from(region.as_str()).cast_to(kind));
        let scalars = scalars.collect::<Result<Vec<_>>>().ok().filter(|_| column.name == REGION)?;
        ScalarValue::iter_to_array(scalars).ok()
    }
}

impl PruningStatistics for Regions<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column)
    }

    fn num_containers(&self) -> usize {
        self.values.len()
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
