//! Puts every expression of a plan within bounds: functions, and what makes large values without being one.
//!
//! ```text
//! before constants are computed: functions ─► after all rules: functions those added, `||`, `~`, CASE, casts, large constants, joins' filters, windows
//! ```

use std::{mem, sync::Arc};

use arrow::datatypes::{DataType, FieldRef};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    execution::context::QueryPlanner,
    logical_expr::{
        BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, TryCast,
        expr::{AggregateFunctionParams, ScalarFunction},
        expr_rewriter::NamePreserver,
        utils::merge_schema,
    },
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner},
};

use crate::{
    execute::running,
    functions,
    functions::{
        bounded::{self, is_small},
        windowed::{self, Held},
    },
};

/// A constant that a full batch of 8,192 rows may repeat without a look at what that comes to: 128 MiB.
const CONSTANT_BYTES_MAX: u64 = 16 << 10;

/// Bounds the functions that a statement names, before a rule computes any of them.
#[derive(Debug)]
pub(crate) struct BoundFunctions {
    pub(crate) column_bytes_max: usize,
}

impl OptimizerRule for BoundFunctions {
    fn name(&self) -> &'static str {
        "bound_functions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        each_expression(plan, |expr, _| function(expr, self.column_bytes_max))
    }
}

/// Bounds what is left, then plans it.
#[derive(Debug)]
pub(crate) struct BoundedPlanner {
    pub(crate) column_bytes_max: usize,
}

#[async_trait]
impl QueryPlanner for BoundedPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        running::check()?;
        let bounded = each_expression(plan.clone(), |expr, schema| self.bounded(expr, schema)).data()?;
        let bounded = constants(bounded, self.column_bytes_max).data()?;
        let bounded = join_filters(bounded, self.column_bytes_max).data()?;
        let bounded = windows(bounded, self.column_bytes_max).data()?;
        DefaultPhysicalPlanner::default().create_physical_plan(&bounded, session).await
    }
}

impl BoundedPlanner {
    fn bounded(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let max = self.column_bytes_max;
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                Ok(Transformed::yes(call(functions::text_concat(), vec![*left, *right], max)))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_search(op) => {
                Ok(Transformed::yes(call(functions::text_search(op), vec![*left, *right], max)))
            }
            Expr::Case(case) => {
                let case = Expr::Case(guarded(case, max));
                let kind = case.get_type(schema);
                let is_small = kind.is_ok_and(|kind| is_small(&kind));
                Ok(Transformed::yes(if is_small { case } else { call(functions::held(), vec![case], max) }))
            }
            Expr::Cast(cast) => casting(cast.expr, cast.field, false, schema, max),
            Expr::TryCast(cast) => casting(cast.expr, cast.field, true, schema, max),
            Expr::AggregateFunction(mut aggregate) => {
                let AggregateFunctionParams { args, .. } = &mut aggregate.params;
                args.iter_mut().for_each(|argument| guard(argument, max));
                Ok(Transformed::yes(Expr::AggregateFunction(aggregate)))
            }
            Expr::WindowFunction(mut window) => {
                window.params.args.iter_mut().for_each(|argument| guard(argument, max));
                Ok(Transformed::yes(Expr::WindowFunction(window)))
            }
            other => function(other, max),
        }
    }
}

fn is_search(op: Operator) -> bool {
    matches!(op, Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch)
}

/// Rewrites every expression of the plan and of its subqueries, innermost first; columns keep their names.
fn each_expression(
    plan: LogicalPlan,
    mut rewrite: impl FnMut(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        running::check()?;
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|inner| rewrite(inner, &schema))?;
            Ok(rewritten.update_data(|expr| name.restore(expr)))
        })
    })
}

/// Guards the large constants that a projection writes out for every row.
fn constants(plan: LogicalPlan, bytes_max: usize) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Projection(_)) {
            return Ok(Transformed::no(node));
        }
        node.map_expressions(|mut expr| {
            let name = NamePreserver::new_for_projection().save(&expr);
            match &mut expr {
                Expr::Alias(alias) => guard(&mut alias.expr, bytes_max),
                expr => guard(expr, bytes_max),
            }
            Ok(Transformed::yes(name.restore(expr)))
        })
    })
}

/// Has the filters of joins ask whether the query still runs. A join goes through every pair of its left side and a batch of
/// its right before it asks for another batch, and where no pair passes it gives none in between.
fn join_filters(plan: LogicalPlan, bytes_max: usize) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        join.filter = join.filter.map(|filter| call(functions::held(), vec![filter], bytes_max));
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    })
}

/// Counts what functions over windows give.
fn windows(plan: LogicalPlan, bytes_max: usize) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(mut window) = node else { return Ok(Transformed::no(node)) };
        let (held, schema) = (Held::by(&window.window_expr), Arc::clone(window.input.schema()));
        for expr in &mut window.window_expr {
            *expr = mem::take(expr).transform_down(|inner| counted(inner, held, bytes_max, &schema)).data()?;
        }
        Ok(Transformed::yes(LogicalPlan::Window(window)))
    })
}

fn counted(expr: Expr, held: Held, bytes_max: usize, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(window) = expr else { return Ok(Transformed::no(expr)) };
    let counted = windowed::counted(*window, held, bytes_max, schema);
    Ok(Transformed::new(Expr::from(counted), true, TreeNodeRecursion::Jump))
}

fn function(expr: Expr, bytes_max: usize) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match bounded::of(&func, bytes_max) {
            Some(func) => Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        other => Ok(Transformed::no(other)),
    }
}

fn call(func: Arc<ScalarUDF>, args: Vec<Expr>, bytes_max: usize) -> Expr {
    let func = bounded::of(&func, bytes_max).unwrap_or(func);
    Expr::ScalarFunction(ScalarFunction { func, args })
}

/// A cast that may write out for every row what rows share: bounded like a function. One that may not is left to the engine, which
/// knows what it means for order and bounds of files.
fn casting(
    value: Box<Expr>,
    field: FieldRef,
    is_try: bool,
    schema: &DFSchema,
    bytes_max: usize,
) -> Result<Transformed<Expr>> {
    let plain = |value, field| {
        if is_try { Expr::TryCast(TryCast { expr: value, field }) } else { Expr::Cast(Cast { expr: value, field }) }
    };
    // What a scan is told to leave out has no input, so no type; it is looked at again above the scan.
    let (from, to) = (value.get_type(schema).unwrap_or(DataType::Null), field.data_type().clone());
    if is_small(&to) || is_written_out(&from) || from == to || (is_view(&to) && is_shared_text(&from)) {
        return Ok(Transformed::no(plain(value, field)));
    }
    let cast = plain(value.clone(), field);
    let (_, named) = cast.to_field(schema)?;
    Ok(Transformed::yes(call(functions::cast(named, is_try), vec![*value], bytes_max)))
}

/// Whether rows of it may share the bytes that they show.
fn is_view(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8View | DataType::BinaryView)
}

/// Whether it is text or bytes that rows share, which a view of it goes on sharing.
fn is_shared_text(kind: &DataType) -> bool {
    is_view(kind) || matches!(kind, DataType::Dictionary(_, value) if is_written_out(value) || is_view(value))
}

/// Whether no two rows share the bytes of a value: then as many bytes are there as come out.
fn is_written_out(kind: &DataType) -> bool {
    use DataType::{Binary, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8};
    is_small(kind) || matches!(kind, Utf8 | LargeUtf8 | Binary | LargeBinary | FixedSizeBinary(_))
}

/// The branches of a CASE are written out row by row, constants too.
fn guarded(mut case: Case, bytes_max: usize) -> Case {
    case.when_then_expr.iter_mut().for_each(|(_, then)| guard(then, bytes_max));
    case.else_expr.iter_mut().for_each(|otherwise| guard(otherwise, bytes_max));
    case
}

/// A large constant, where it is written out for every row.
fn guard(expr: &mut Expr, bytes_max: usize) {
    let is_large = |expr: &Expr| match expr {
        Expr::Literal(value, _) => bounded::size_of_scalar(value).is_ok_and(|bytes| bytes > CONSTANT_BYTES_MAX),
        _ => false,
    };
    if is_large(expr) {
        let constant = mem::take(expr);
        *expr = call(functions::held(), vec![constant], bytes_max);
    }
}
