//! Values for the parameters of a statement: `$name`, and `$1`, whose name is `1`.

use std::collections::BTreeMap;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        ParamValues, Result, ScalarValue, plan_datafusion_err, plan_err,
        tree_node::{Transformed, TransformedResult},
    },
    logical_expr::LogicalPlan,
};
use serde_json::Value;

/// Name and type, where the statement tells it, of each parameter; numbered ones first, in order.
pub(super) fn of(plan: &LogicalPlan) -> Vec<(String, Option<DataType>)> {
    let known = inferred(plan.clone()).and_then(|plan| plan.get_parameter_types());
    // One that is compared with several types has none of its own.
    let types = known.or_else(|_| plan.get_parameter_names().map(untyped)).unwrap_or_default();
    let mut parameters: Vec<_> =
        types.into_iter().map(|(id, kind)| (id.trim_start_matches('$').to_owned(), kind)).collect();
    parameters.sort_by_key(|(name, _)| (name.parse::<u32>().unwrap_or(u32::MAX), name.clone()));
    parameters
}

fn untyped<K: std::hash::Hash + Eq>(
    names: impl IntoIterator<Item = K>,
) -> std::collections::HashMap<K, Option<DataType>> {
    names.into_iter().map(|name| (name, None)).collect()
}

fn inferred(plan: LogicalPlan) -> Result<LogicalPlan> {
    let inferred = plan.transform_up_with_subqueries(|node| {
        let schema = std::sync::Arc::clone(node.schema());
        node.map_expressions(|expr| {
            let (expr, has_parameter) = expr.infer_placeholder_types(&schema)?;
            Ok(Transformed::new_transformed(expr, has_parameter))
        })
    });
    inferred.data()
}

/// The plan with the values in it.
///
/// # Errors
/// A parameter without a value, or a value that cannot be what it is compared with.
pub(super) fn bind(plan: LogicalPlan, given: &BTreeMap<String, Value>) -> Result<LogicalPlan> {
    let parameters = if given.is_empty() { Vec::new() } else { of(&plan) };
    let kind = |name: &str| parameters.iter().find(|(known, _)| known == name).and_then(|(_, kind)| kind.as_ref());
    let values = given.iter().map(|(name, value)| Ok((name.as_str(), typed(name, value, kind(name))?)));
    plan.with_param_values(ParamValues::from(values.collect::<Result<Vec<_>>>()?))
}

/// As [`bind`], with NULL for parameters without a value.
pub(super) fn bind_all(
    plan: LogicalPlan,
    parameters: &[(String, Option<DataType>)],
    given: &BTreeMap<String, Value>,
) -> Result<LogicalPlan> {
    let value = |(name, kind): &(String, Option<DataType>)| {
        let value = match given.get(name) {
            Some(value) => typed(name, value, kind.as_ref())?,
            None => kind.as_ref().map_or(Ok(ScalarValue::Null), ScalarValue::try_from)?,
        };
        Ok((name.clone(), value))
    };
    let values = parameters.iter().map(value).collect::<Result<Vec<_>>>()?;
    plan.with_param_values(ParamValues::from(values))
}

/// The value, a text as what it is compared with.
fn typed(name: &str, value: &Value, kind: Option<&DataType>) -> Result<ScalarValue> {
    let value = plain(name, value)?;
    match (&value, kind) {
        (ScalarValue::Utf8(Some(text)), Some(kind)) if !kind.is_string() && !kind.is_null() => {
            let wrong = |_| plan_datafusion_err!("parameter ${name} is compared with a {kind}, and '{text}' is none");
            value.cast_to(kind).map_err(wrong)
        }
        _ => Ok(value),
    }
}

fn plain(name: &str, value: &Value) -> Result<ScalarValue> {
    match value {
        Value::Null => Ok(ScalarValue::Null),
        Value::Bool(truth) => Ok(ScalarValue::Boolean(Some(*truth))),
        Value::String(text) => Ok(ScalarValue::Utf8(Some(text.clone()))),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Ok(ScalarValue::Int64(Some(whole))),
            (None, number) => Ok(ScalarValue::Float64(number)),
        },
        Value::Array(_) | Value::Object(_) => {
            plan_err!("parameter ${name} must be a text, a number, true, false or null")
        }
    }
}
