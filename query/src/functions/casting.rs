//! A cast as a function, so that it can be bounded like one: text that many rows share is written out for each of them.

use std::sync::Arc;

use arrow::{
    compute::CastOptions,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{Result, exec_err, format::DEFAULT_FORMAT_OPTIONS},
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};

/// `CAST` or `TRY_CAST` to one type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Casting {
    /// The column that it gives, as the statement's plan knows it.
    field: FieldRef,
    /// Whether what cannot be cast is NULL instead of an error.
    is_try: bool,
    signature: Signature,
}

impl Casting {
    pub(super) fn new(field: FieldRef, is_try: bool) -> Casting {
        Casting { field, is_try, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Casting {
    fn name(&self) -> &str {
        if self.is_try { "try_cast" } else { "cast" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("{} takes one argument", self.name()) };
        let options = CastOptions { safe: self.is_try, format_options: DEFAULT_FORMAT_OPTIONS };
        // Of a plan from elsewhere only the call knows the type.
        value.cast_to(args.return_field.data_type(), Some(&options))
    }
}
