//! The types that arguments are brought to, and what is said of those that cannot be.

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use telemetry::table::Kind;

/// The wanted types, if the arguments can be brought to them; NULL is of every type.
pub(super) fn coerced(function: &str, types: &[DataType], wanted: &[(&str, Kind)]) -> Result<Vec<DataType>> {
    let names = || wanted.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if types.len() != wanted.len() {
        return plan_err!("{function} takes {} arguments, ({}), not {}", wanted.len(), names(), types.len());
    }
    for (given, (name, kind)) in types.iter().zip(wanted) {
        let fits = match kind {
            Kind::IntList | Kind::DoubleList => is_list(given),
            _ => given.is_numeric(),
        };
        if !fits && !given.is_null() {
            return plan_err!("{function}({}): {name} is a {}, not {given}", names(), kind.sql());
        }
    }
    Ok(wanted.iter().map(|(_, kind)| kind.arrow()).collect())
}

fn is_list(kind: &DataType) -> bool {
    match kind {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            element.data_type().is_numeric() || element.data_type().is_null()
        }
        _ => false,
    }
}
