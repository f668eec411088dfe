//! `load_watts(load, watts, at)`: what a device draws at a load, by the points of its curve; see `telemetry::power::list`.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Array, ListArray},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, exec_datafusion_err, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::power::list::watts_at;

use super::lists::doubles;

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct LoadWatts {
    signature: Signature,
}

impl Default for LoadWatts {
    fn default() -> Self {
        LoadWatts { signature: Signature::any(3, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for LoadWatts {
    fn name(&self) -> &'static str {
        "load_watts"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [load, watts, at] = columns.as_slice() else {
            return exec_err!("load_watts takes points, watts and a load");
        };
        let (load, watts, at) = (points(load)?, points(watts)?, doubles(at)?);
        let drawn = (0..at.len()).map(|row| {
            let known = at.is_valid(row) && load.is_valid(row) && watts.is_valid(row);
            known.then(|| watts_at(&values(load, row), &values(watts, row), at.value(row))).flatten()
        });
        Ok(ColumnarValue::Array(Arc::new(drawn.collect::<Float64Array>())))
    }
}

fn points(column: &ArrayRef) -> Result<&ListArray> {
    column.as_list_opt::<i32>().ok_or_else(|| exec_datafusion_err!("a list belongs here, not {}", column.data_type()))
}

/// The numbers of a row's list; none where one of them is unknown.
fn values(lists: &ListArray, row: usize) -> Vec<f64> {
    let list = lists.value(row);
    let Ok(numbers) = doubles(&list) else { return Vec::new() };
    if numbers.null_count() > 0 { Vec::new() } else { numbers.values().to_vec() }
}
