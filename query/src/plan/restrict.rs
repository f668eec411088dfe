//! What a reader may see of a table or view: rows of its tenants and regions, and of what belongs to no tenant all or nothing.
//!
//! ```text
//! table or view, whole ─► the reader's own rows ─► barrier ─► whatever the statement makes of them
//! ```
//!
//! Invariants:
//! 1. A reader gets of a name exactly what one that sees everything gets with `WHERE tenant IN (…) AND region IN (…)`. So a view is
//!    computed of all rows and cut after that: its numbers are right, and those of others are in none of its rows.
//! 2. No expression of a statement sees a row that is not its reader's, not even to fail on it: an error would quote what it met.
//! 3. No figure of a whole table (its rows, say) is known above the barrier.

use std::{fmt, sync::Arc};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Column, DFSchema, Result, ScalarValue, tree_node::TreeNodeRecursion},
    execution::TaskContext,
    logical_expr::{
        BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType, expr::InList, utils::conjunction,
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, SendableRecordBatchStream,
        filter::FilterExecBuilder,
    },
};
use service::{Error, error::Kind};

use crate::{
    error,
    reader::{Reader, Seen},
};

const TENANT: &str = "tenant";
const REGION: &str = "region";

/// The table as the reader may see it.
///
/// # Errors
/// What Arrow gives for a column that cannot hold a name.
pub(super) fn to(reader: &Reader, name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    if reader.sees_everything() {
        return Ok(table);
    }
    let schema = table.schema();
    let has = |column: &str| schema.column_with_name(column).is_some();
    let mut own = Vec::new();
    for (column, seen) in [(TENANT, reader.tenants()), (REGION, reader.regions())] {
        if let Seen::Only(values) = seen
            && has(column)
        {
            own.push(is_among(column, values, &schema)?);
        }
    }
    let denial = || format!("{name} belongs to no tenant, and {} sees only its own", reader.name());
    let denial = denies(reader, has).then(denial);
    Ok(Arc::new(Restricted { table, own, denial }))
}

/// Whether the reader may read nothing of a table that has those columns: nothing says whose its rows are.
pub(crate) fn denies(reader: &Reader, has: impl Fn(&str) -> bool) -> bool {
    let is_bound = |seen: &Seen| matches!(seen, Seen::Only(_));
    !reader.sees_infrastructure() && (!has(TENANT) || (is_bound(reader.regions()) && !has(REGION)))
}

/// The table below a restriction.
pub(super) fn beneath(provider: Arc<dyn TableProvider>) -> Arc<dyn TableProvider> {
    match provider.downcast_ref::<Restricted>() {
        Some(restricted) => Arc::clone(&restricted.table),
        None => provider,
    }
}

/// Unknown is among nothing.
fn is_among(column: &str, values: &[String], schema: &Schema) -> Result<Expr> {
    let kind = schema.field_with_name(column)?.data_type();
    let literal = |value: &String| Ok(Expr::Literal(ScalarValue::from(value.as_str()).cast_to(kind)?, None));
    let list = values.iter().map(literal).collect::<Result<Vec<_>>>()?;
    Ok(Expr::InList(InList::new(Box::new(Expr::Column(Column::from_name(column))), list, false)))
}

struct Restricted {
    table: Arc<dyn TableProvider>,
    own: Vec<Expr>,
    /// Why none of it may be read. It is in no list; what columns it has is no secret to who knows its name.
    denial: Option<String>,
}

#[async_trait]
impl TableProvider for Restricted {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.table.get_table_definition()
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
        if let Some(denial) = &self.denial {
            let hint =
                "ask calls, tokens or another table with a tenant, or have `infrastructure = true` set for this reader";
            return Err(error::from_lake(Error::new(Kind::Denied, denial.as_str()).with_hint(hint)));
        }
        let schema = self.schema();
        let cannot_fail = filters.iter().filter(|filter| cannot_fail(filter, &schema)).cloned();
        let filters: Vec<Expr> = self.own.iter().cloned().chain(cannot_fail).collect();
        let Some(predicate) = conjunction(filters.iter().cloned()).filter(|_| !self.own.is_empty()) else {
            return self.table.scan(state, projection, &filters, limit).await;
        };
        let asked = projection.cloned().unwrap_or_else(|| (0..schema.fields().len()).collect());
        let mut read = asked.clone();
        for column in predicate.column_refs() {
            let index = schema.index_of(column.name())?;
            if !read.contains(&index) {
                read.push(index);
            }
        }
        let whole = self.table.scan(state, Some(&read), &filters, None).await?;
        let predicate = state.create_physical_expr(predicate, &DFSchema::try_from(whole.schema())?)?;
        let own =
            FilterExecBuilder::new(predicate, whole).apply_projection(Some((0..asked.len()).collect()))?.build()?;
        Ok(Arc::new(Barrier::above(Arc::new(own))))
    }
}

impl fmt::Debug for Restricted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Restricted({:?})", self.table)
    }
}

/// Whether the filter gives an answer for every value there is: only such may be looked at before a row is known to be the
/// reader's. A comparison of unlike types casts, and a cast may fail.
fn cannot_fail(filter: &Expr, schema: &Schema) -> bool {
    let kind = |expr: &Expr| match expr {
        Expr::Column(column) => schema.field_with_name(&column.name).ok().map(|field| field.data_type().clone()),
        Expr::Literal(value, _) => Some(value.data_type()),
        _ => None,
    };
    let are_alike = |one: &Expr, other: &Expr| kind(one).is_some_and(|of_one| kind(other) == Some(of_one));
    use Operator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: And | Or, right }) => {
            cannot_fail(left, schema) && cannot_fail(right, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right }) => are_alike(left, right),
        Expr::Between(between) => are_alike(&between.expr, &between.low) && are_alike(&between.expr, &between.high),
        Expr::InList(InList { expr, list, .. }) => list.iter().all(|item| are_alike(expr, item)),
        Expr::Not(inner) => cannot_fail(inner, schema),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => kind(inner).is_some(),
        _ => false,
    }
}

/// Passes rows up and nothing down: neither filters, which would be looked at with the reader's own, nor a limit; and says nothing
/// of how many there are.
#[derive(Debug)]
pub(crate) struct Barrier {
    own: Arc<dyn ExecutionPlan>,
}

impl Barrier {
    /// The barrier above the reader's own rows.
    pub(crate) fn above(own: Arc<dyn ExecutionPlan>) -> Barrier {
        Barrier { own }
    }
}

impl DisplayAs for Barrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Barrier")
    }
}

impl ExecutionPlan for Barrier {
    fn name(&self) -> &'static str {
        "Barrier"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.own.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.own]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let own = children.pop().unwrap_or_else(|| Arc::clone(&self.own));
        Ok(Arc::new(Barrier { own }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.own.execute(partition, context)
    }
}
