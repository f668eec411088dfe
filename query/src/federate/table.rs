//! A table of several lakes.

use std::{collections::BTreeSet, fmt, sync::Arc};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Column, DFSchema, Result, ScalarValue},
    logical_expr::{Expr, TableProviderFilterPushDown, TableType},
    physical_plan::{ExecutionPlan, filter::FilterExecBuilder, union::UnionExec},
};
use lake::Snapshot;
use telemetry::table::{Role, Table};

use super::{Pins, Within, pins::REGION};
use crate::{scan::LakeTable, session::Stores};

/// A table of several lakes, each pinned when the first scan asks it.
pub(crate) struct Federated {
    pub(crate) table: &'static Table,
    pins: Arc<Pins>,
    lakes: Within,
    stores: Stores,
    schema: SchemaRef,
}

impl Federated {
    /// The table in all lakes.
    pub(crate) fn new(table: &'static Table, pins: &Arc<Pins>, stores: Stores) -> Federated {
        let schema = LakeTable::new(Arc::new(joined(table, &[])), stores.clone()).schema();
        Federated { table, pins: Arc::clone(pins), lakes: pins.all(), stores, schema }
    }

    /// The same in some of them.
    pub(crate) fn within(&self, lakes: &Within) -> Federated {
        Federated {
            table: self.table,
            pins: Arc::clone(&self.pins),
            lakes: Arc::clone(lakes),
            stores: self.stores.clone(),
            schema: Arc::clone(&self.schema),
        }
    }

    fn of(&self, snapshots: &[(usize, Arc<Snapshot>)]) -> LakeTable {
        let shown: Vec<_> = snapshots.iter().map(|(lake, snapshot)| self.pins.site(*lake).shown(snapshot)).collect();
        LakeTable::new(Arc::new(joined(self.table, &shown)), self.stores.clone())
    }

    /// Each fact from one lake: that of its region, or the first that can be reached.
    async fn facts(
        &self,
        asked: (&dyn Session, Option<&Vec<usize>>, &[Expr]),
        lakes: &[usize],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (state, projection, filters) = asked;
        let mut home = None;
        for lake in self.pins.all().iter() {
            if home.is_none() {
                home = self.pins.pin(*lake, self.table.name).await?.map(|_| *lake);
            }
        }
        let mut parts = Vec::new();
        for (lake, condition) in self.believed(home, lakes)? {
            for pinned in self.pins.pin_each(&[lake], self.table.name).await? {
                let part = self.of(&[pinned]);
                parts.push(match &condition {
                    Some(condition) => filtered(&part, condition, asked).await?,
                    None => part.scan(state, projection, filters, None).await?,
                });
            }
        }
        match parts.len() {
            0 => self.of(&[]).scan(state, projection, filters, None).await,
            1 => Ok(parts.remove(0)),
            _ => UnionExec::try_new(parts),
        }
    }

    /// Which facts each of the lakes, and the one at home, is believed: those of its regions, and at home all that are nobody's.
    fn believed(&self, home: Option<usize>, lakes: &[usize]) -> Result<Vec<(usize, Option<Expr>)>> {
        let Some(home) = home else { return Ok(Vec::new()) };
        let Ok(region) = self.schema.field_with_name(REGION) else { return Ok(vec![(home, None)]) };
        let (mut taken, mut owned) = (BTreeSet::<&str>::new(), Vec::new());
        let all = self.pins.all();
        let home_first = std::iter::once(&home).chain(all.iter().filter(|lake| **lake != home));
        for lake in home_first {
            let regions = self.pins.site(*lake).regions().iter().map(String::as_str);
            let own: Vec<&str> = regions.filter(|region| taken.insert(region)).collect();
            if *lake != home && !own.is_empty() {
                owned.push((*lake, own));
            }
        }
        let column = || Expr::Column(Column::from_name(REGION));
        let among = |regions: &[&str], negated| {
            let literal = |name: &&str| Ok(Expr::Literal(ScalarValue::from(*name).cast_to(region.data_type())?, None));
            regions.iter().map(literal).collect::<Result<Vec<_>>>().map(|list| column().in_list(list, negated))
        };
        let elsewhere: Vec<&str> = owned.iter().flat_map(|(_, regions)| regions.iter().copied()).collect();
        let at_home = match elsewhere.is_empty() {
            true => None,
            false => Some(column().is_null().or(among(&elsewhere, true)?)),
        };
        let mut believed = vec![(home, at_home)];
        for (lake, regions) in owned.iter().filter(|(lake, _)| lakes.contains(lake)) {
            believed.push((*lake, Some(among(regions, false)?)));
        }
        Ok(believed)
    }
}

/// The rows of `part` for which `condition` on the region holds.
async fn filtered(
    part: &LakeTable,
    condition: &Expr,
    (state, projection, filters): (&dyn Session, Option<&Vec<usize>>, &[Expr]),
) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = part.schema();
    let asked = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
    let region = schema.index_of(REGION)?;
    let mut read = asked.clone();
    if !read.contains(&region) {
        read.push(region);
    }
    let filters: Vec<Expr> = filters.iter().chain([condition]).cloned().collect();
    let whole = part.scan(state, Some(&read), &filters, None).await?;
    let predicate = state.create_physical_expr(condition.clone(), &DFSchema::try_from(whole.schema())?)?;
    let rows = FilterExecBuilder::new(predicate, whole).apply_projection(Some((0..asked.len()).collect()))?.build()?;
    Ok(Arc::new(rows))
}

#[async_trait]
impl TableProvider for Federated {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let lakes = self.pins.holding(&self.lakes, filters, &self.schema, state)?;
        if self.table.role == Role::Reference {
            return self.facts((state, projection, filters), &lakes).await;
        }
        let pinned = self.pins.pin_each(&lakes, self.table.name).await?;
        self.of(&pinned).scan(state, projection, filters, limit).await
    }
}

impl fmt::Debug for Federated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Federated({})", self.table.name)
    }
}

/// The files of all of them as those of one table, which has no version of its own.
fn joined(table: &'static Table, snapshots: &[Arc<Snapshot>]) -> Snapshot {
    Snapshot {
        table,
        version: -1,
        committed_at_us: snapshots.iter().filter_map(|snapshot| snapshot.committed_at_us).max(),
        files: snapshots.iter().flat_map(|snapshot| snapshot.files.iter().cloned()).collect(),
        newest_time_us: snapshots.iter().filter_map(|snapshot| snapshot.newest_time_us).max(),
    }
}
