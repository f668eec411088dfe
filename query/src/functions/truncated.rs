//! `date_trunc`, as quick in UTC as without a time zone.
//!
//! Our times are in UTC, where hours and days are all equally long. DataFusion looks at the calendar for each row of a time that has a
//! zone, whichever it is.

use std::sync::Arc;

use arrow::{
    array::make_array,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{Result, internal_err},
    functions::datetime,
    logical_expr::{
        ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
};

/// The function under its own name.
pub(super) fn date_trunc() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(DateTrunc { inner: Arc::unwrap_or_clone(datetime::date_trunc()) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DateTrunc {
    inner: ScalarUDF,
}

impl ScalarUDFImpl for DateTrunc {
    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let in_utc = match args.args.get(1) {
            Some(ColumnarValue::Array(times)) => match times.data_type() {
                DataType::Timestamp(unit, Some(zone)) if zone.as_ref() == "UTC" => {
                    Some((DataType::Timestamp(*unit, None), times.data_type().clone()))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((without, with)) = in_utc else { return self.inner.invoke_with_args(args) };
        if let (Some(times), Some(field)) = (args.args.get_mut(1), args.arg_fields.get_mut(1)) {
            *times = retyped(times, without.clone())?;
            *field = Arc::new(field.as_ref().clone().with_data_type(without.clone()));
        }
        args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(without));
        retyped(&self.inner.invoke_with_args(args)?, with)
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    /// Under all of them: whoever kept one would come back under the others when a session is made from another.
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The same numbers under another type of the same width.
fn retyped(times: &ColumnarValue, kind: DataType) -> Result<ColumnarValue> {
    let ColumnarValue::Array(times) = times else { return internal_err!("date_trunc of rows is no constant") };
    Ok(ColumnarValue::Array(make_array(times.to_data().into_builder().data_type(kind).build()?)))
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use datafusion::execution::{FunctionRegistry, SessionStateBuilder};

    use super::{DateTrunc, date_trunc};

    /// A session that is made from another knows the same functions, whatever order it takes them in.
    #[test]
    fn sessions_made_from_sessions_keep_it() {
        let mut template = SessionStateBuilder::new().with_default_features().build();
        template.register_udf(date_trunc()).expect("registered");
        for _ in 0..64 {
            let state = SessionStateBuilder::new_from_existing(template.clone()).build();
            for name in ["date_trunc", "datetrunc"] {
                let function: &dyn Any = state.scalar_functions()[name].inner().as_ref();
                assert!(function.is::<DateTrunc>(), "{name}");
            }
        }
    }
}
