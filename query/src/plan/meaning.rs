//! What the columns of an answer mean: unit and comment, followed through the plan to where they are declared.
//!
//! A column passed on, a smallest or largest of it keeps both; a sum, mean or percentile keeps the unit. What is
//! computed otherwise has no unit we could vouch for.

use datafusion::{
    common::Column,
    datasource::source_as_provider,
    logical_expr::{Expr, LogicalPlan, TableScan, expr::WindowFunction},
};
use telemetry::contract::AnswerColumn;

use super::{
    described, restrict,
    view::{self, ViewTable},
    what_if,
};
use crate::{encode, session::SCHEMA};

/// Aggregates and window functions that give one of their argument's values.
const CHOOSING: [&str; 8] = ["min", "max", "first_value", "last_value", "nth_value", "lag", "lead", "any_value"];
/// Functions whose result has their first argument's unit.
const KEEPING_UNIT: [&str; 18] = [
    "sum",
    "avg",
    "mean",
    "median",
    "approx_median",
    "approx_percentile_cont",
    "percentile_cont",
    "quantile_cont",
    "stddev",
    "stddev_pop",
    "abs",
    "round",
    "coalesce",
    "greatest",
    "least",
    "exph",
    "exph_merge",
    "exph_quantile",
];

#[derive(Clone, Default)]
struct Meaning {
    unit: Option<&'static str>,
    comment: Option<&'static str>,
}

/// The columns of the plan's answer.
pub(super) fn columns(plan: &LogicalPlan) -> Vec<AnswerColumn> {
    let describe = |(index, field): (usize, &std::sync::Arc<arrow::datatypes::Field>)| {
        let meaning = column(plan, index).unwrap_or_default();
        AnswerColumn {
            name: field.name().clone(),
            kind: encode::sql_type(field.data_type()),
            unit: meaning.unit.map(str::to_owned),
            comment: meaning.comment.map(str::to_owned),
        }
    };
    plan.schema().fields().iter().enumerate().map(describe).collect()
}

fn column(plan: &LogicalPlan, index: usize) -> Option<Meaning> {
    match plan {
        LogicalPlan::TableScan(scan) => declared(scan, index),
        LogicalPlan::Projection(node) => expression(node.expr.get(index)?, &node.input),
        LogicalPlan::Aggregate(node) => {
            let keys = node.group_expr.len();
            let expr = if index < keys { node.group_expr.get(index) } else { node.aggr_expr.get(index - keys) };
            expression(expr?, &node.input)
        }
        LogicalPlan::Window(node) => {
            let passed = node.input.schema().fields().len();
            if index < passed {
                column(&node.input, index)
            } else {
                expression(node.window_expr.get(index - passed)?, &node.input)
            }
        }
        LogicalPlan::Join(node) => {
            let left = node.left.schema().fields().len();
            if index < left { column(&node.left, index) } else { column(&node.right, index - left) }
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_) => column(plan.inputs().first()?, index),
        _ => None,
    }
}

fn expression(expr: &Expr, input: &LogicalPlan) -> Option<Meaning> {
    match expr {
        Expr::Column(name) => resolve(name, input),
        Expr::Alias(alias) => expression(&alias.expr, input),
        Expr::Cast(cast) => expression(&cast.expr, input),
        Expr::TryCast(cast) => expression(&cast.expr, input),
        Expr::AggregateFunction(call) => function(call.func.name(), &call.params.args, input),
        Expr::ScalarFunction(call) => function(call.func.name(), &call.args, input),
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = call.as_ref();
            function(fun.name(), &params.args, input)
        }
        _ => None,
    }
}

fn function(name: &str, arguments: &[Expr], input: &LogicalPlan) -> Option<Meaning> {
    if CHOOSING.contains(&name) {
        return expression(arguments.first()?, input);
    }
    if KEEPING_UNIT.contains(&name) {
        return Some(Meaning { comment: None, ..expression(arguments.first()?, input)? });
    }
    None
}

fn resolve(name: &Column, input: &LogicalPlan) -> Option<Meaning> {
    column(input, input.schema().maybe_index_of_column(name)?)
}

fn declared(scan: &TableScan, index: usize) -> Option<Meaning> {
    let name = scan.projected_schema.fields().get(index)?.name();
    let provider = restrict::beneath(source_as_provider(&scan.source).ok()?);
    let column = match view::table_of(provider.as_ref()) {
        Some(table) => described::column(SCHEMA, table.name, name)?,
        None => match provider.downcast_ref::<ViewTable>() {
            Some(view) => view.view().column(name)?,
            None => what_if::column(provider.as_ref(), name)?,
        },
    };
    Some(Meaning { unit: Some(column.unit).filter(|unit| !unit.is_empty()), comment: Some(column.doc) })
}
