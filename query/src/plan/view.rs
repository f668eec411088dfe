//! A view that is planned when it is scanned, with the stretch of time that the query asks for.

use std::{fmt, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{
        Column, Result, TableReference,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    datasource::{provider_as_source, source_as_provider},
    execution::{SessionState, SessionStateBuilder},
    logical_expr::{
        EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan, TableType,
        utils::conjunction,
    },
    physical_plan::ExecutionPlan,
};
use telemetry::table::{BILLING, Role, Table};

use super::{range::TimeRange, several::Share};
use crate::{
    federate::{Federated, Within},
    scan::LakeTable,
    views::{Around, View},
};

/// Ends of the intervals that rows of `nodes`, of `billing` and of views of them are; `time` is their start.
const ENDS: [&str; 3] = ["last_seen", "charge_to", "until"];

/// One of our views in one query.
pub(crate) struct ViewTable {
    view: &'static View,
    plan: LogicalPlan,
    schema: SchemaRef,
    /// Where there are several lakes.
    share: Option<Share>,
}

impl ViewTable {
    /// The view as its analyzed plan. Its columns are nullable whatever the plan proves, so that a later optimization
    /// cannot disagree with what the query was planned against.
    pub(super) fn new(view: &'static View, plan: LogicalPlan) -> ViewTable {
        let fields =
            plan.schema().fields().iter().map(|field| Field::new(field.name(), field.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        ViewTable { view, plan, schema, share: None }
    }

    /// The view over several lakes.
    pub(super) fn shared(self, share: Share) -> ViewTable {
        ViewTable { share: Some(share), ..self }
    }

    fn within(&self, lakes: &Within) -> ViewTable {
        let share = self.share.as_ref().map(|share| share.within(lakes));
        ViewTable { view: self.view, plan: self.plan.clone(), schema: Arc::clone(&self.schema), share }
    }

    /// What the view is.
    pub(crate) fn view(&self) -> &'static View {
        self.view
    }

    /// Its query, over those lakes that may have a part in what is asked.
    async fn query(&self, filters: &[Expr], state: &dyn Session) -> Result<LogicalPlan> {
        match &self.share {
            None => Ok(self.plan.clone()),
            Some(share) => share.plan(self.view, &self.plan, &share.holding(filters, &self.schema, state)?).await,
        }
    }

    fn narrowed(&self, plan: LogicalPlan, projection: Option<&Vec<usize>>, filters: &[Expr]) -> Result<LogicalPlan> {
        let handed_down = self.handed_down(filters);
        let end = ENDS.into_iter().find(|end| self.schema.column_with_name(end).is_some());
        let asked = end.map_or_else(|| TimeRange::of(filters), |end| TimeRange::of_intervals(filters, end));
        let is_billed = (self.view.tables.billed_hours || self.view.views.billed_hours) && reads_bills(&plan)?;
        let widened = |by: Around| if by.billed_hours && is_billed { asked.hours() } else { asked }.widened(by);
        let ranges = Ranges { tables: widened(self.view.tables), views: widened(self.view.views) };
        let plan = narrow_tables(plan, ranges, &handed_down)?;
        let mut builder = LogicalPlanBuilder::from(plan).alias(self.view.name)?;
        if let Some(predicate) = conjunction(filters.iter().cloned()) {
            builder = builder.filter(requalified(predicate, self.view.name)?)?;
        }
        if let Some(columns) = projection {
            let names = columns.iter().map(|index| self.schema.field(*index).name());
            builder = builder.project(names.map(|name| Expr::Column(Column::new(Some(self.view.name), name))))?;
        }
        builder.build()
    }

    /// Filters on columns that mean the same in every table below, so that they may be applied there.
    fn handed_down(&self, filters: &[Expr]) -> Vec<Expr> {
        let only_keys = |filter: &&Expr| {
            let columns = filter.column_refs();
            !columns.is_empty() && columns.iter().all(|column| self.view.keys.contains(&column.name.as_str()))
        };
        filters.iter().filter(only_keys).cloned().collect()
    }
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(self.view.sql)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.narrowed(self.query(filters, state).await?, projection, filters)?;
        match as_planned(state) {
            Some(state) => state.create_physical_plan(&plan).await,
            None => state.create_physical_plan(&plan).await,
        }
    }
}

impl fmt::Debug for ViewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewTable({})", self.view.name)
    }
}

/// The session without its physical optimizer; `None` where it has none. The query's own run optimizes the view's plan with all
/// the rest, and a plan that went through it before (joins with dynamic filters, for one) is refused the second time.
fn as_planned(state: &dyn Session) -> Option<SessionState> {
    let state = state.as_any().downcast_ref::<SessionState>()?;
    if state.physical_optimizers().is_empty() {
        return None;
    }
    Some(SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(vec![]).build())
}

/// The plan with everything that reads lakes reading these.
pub(super) fn within(plan: LogicalPlan, lakes: &Within) -> Result<LogicalPlan> {
    let elsewhere = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&scan.source)?;
        if let Some(table) = provider.downcast_ref::<Federated>() {
            scan.source = provider_as_source(Arc::new(table.within(lakes)));
        } else if let Some(view) = provider.downcast_ref::<ViewTable>() {
            scan.source = provider_as_source(Arc::new(view.within(lakes)));
        }
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    elsewhere.data()
}

/// Puts the stretch of time on every table of events and every view below, and the filters where the columns exist.
fn narrow_tables(plan: LogicalPlan, ranges: Ranges, filters: &[Expr]) -> Result<LogicalPlan> {
    let narrowed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        if is_empty(scan) {
            let schema = Arc::clone(&scan.projected_schema);
            return Ok(Transformed::yes(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })));
        }
        let Some(condition) = condition(scan, ranges, filters)? else { return Ok(Transformed::no(node)) };
        Ok(Transformed::yes(LogicalPlanBuilder::from(node).filter(condition)?.build()?))
    });
    narrowed.data()
}

/// Whether it reads bills, itself or through views, of which there are any.
fn reads_bills(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let LogicalPlan::TableScan(scan) = node else { return Ok(false) };
        let provider = source_as_provider(&scan.source)?;
        match provider.downcast_ref::<ViewTable>() {
            Some(view) => reads_bills(&view.plan),
            None => Ok(table_of(provider.as_ref()) == Some(&BILLING) && !is_empty(scan)),
        }
    })
}

/// Whether it reads a table that has no rows at all, such as bills where none were imported: what is made of it alone is then left out of
/// the plan, and to plan is most of what a small question takes.
fn is_empty(scan: &TableScan) -> bool {
    let provider = source_as_provider(&scan.source);
    provider.is_ok_and(|provider| {
        provider.downcast_ref::<LakeTable>().is_some_and(|table| table.snapshot().files.is_empty())
    })
}

fn condition(scan: &TableScan, ranges: Ranges, filters: &[Expr]) -> Result<Option<Expr>> {
    let Some(range) = ranges.of(scan) else { return Ok(None) };
    let column = |name: &str| Column::new(Some(scan.table_name.clone()), name);
    // The row of an interval lies where the interval began, which may be long before.
    let end = ENDS.into_iter().find(|end| scan.projected_schema.has_column_with_unqualified_name(end));
    let time = match end {
        // What a bill or a host says is held against hours, so all of an hour is asked for, whatever part of it is.
        Some(end) => range.hours().overlap(&column("time"), &column(end)),
        None => range.condition(&column("time")),
    };
    let has_all = |filter: &&Expr| {
        filter.column_refs().iter().all(|column| scan.projected_schema.has_column_with_unqualified_name(&column.name))
    };
    let keys = filters.iter().filter(has_all).map(|filter| requalified(filter.clone(), scan.table_name.clone()));
    let conditions = time.map(Ok).into_iter().chain(keys).collect::<Result<Vec<_>>>()?;
    Ok(conjunction(conditions))
}

/// The stretches that a view asks of what it reads.
#[derive(Clone, Copy)]
struct Ranges {
    tables: TimeRange,
    views: TimeRange,
}

impl Ranges {
    /// The stretch for this scan; `None` where a row's `time` is not when something happened but from when a fact holds.
    fn of(self, scan: &TableScan) -> Option<TimeRange> {
        let provider = source_as_provider(&scan.source).ok()?;
        match table_of(provider.as_ref()) {
            Some(table) => {
                let happened = matches!(table.role, Role::Live | Role::Bulk) || *table == BILLING;
                happened.then_some(self.tables)
            }
            None => provider.is::<ViewTable>().then_some(self.views),
        }
    }
}

/// The table that a scan reads, of one lake or of several.
pub(super) fn table_of(provider: &dyn TableProvider) -> Option<&'static Table> {
    let alone = provider.downcast_ref::<LakeTable>().map(|table| table.snapshot().table);
    alone.or_else(|| provider.downcast_ref::<Federated>().map(|table| table.table))
}

fn requalified(expr: Expr, relation: impl Into<TableReference>) -> Result<Expr> {
    let relation = relation.into();
    let renamed = expr.transform(|node| match node {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new(Some(relation.clone()), column.name)))),
        other => Ok(Transformed::no(other)),
    });
    renamed.data()
}
