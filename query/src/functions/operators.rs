//! Operators as functions, so that they can be bounded like these: `||` and the regular expression matches; and `held`, which
//! gives what it is given.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, FieldRef, Schema},
};
use datafusion::{
    common::{Result, exec_err},
    logical_expr::{
        ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
    },
    physical_expr::expressions::{BinaryExpr, Column},
    physical_plan::PhysicalExpr,
};

/// An operator over two arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct OperatorFunction {
    name: &'static str,
    operator: Operator,
    signature: Signature,
}

impl OperatorFunction {
    pub(super) fn new(name: &'static str, operator: Operator) -> OperatorFunction {
        OperatorFunction { name, operator, signature: Signature::any(2, Volatility::Immutable) }
    }

    fn expression(&self) -> BinaryExpr {
        BinaryExpr::new(Arc::new(Column::new("l", 0)), self.operator, Arc::new(Column::new("r", 1)))
    }
}

impl ScalarUDFImpl for OperatorFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return exec_err!("{} takes two arguments", self.name) };
        let fields = vec![Field::new("l", left.clone(), true), Field::new("r", right.clone(), true)];
        self.expression().data_type(&Schema::new(fields))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else { return exec_err!("{} takes two arguments", self.name) };
        let constant = matches!((left, right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let fields =
            vec![Field::new("l", left.data_type().clone(), true), Field::new("r", right.data_type().clone(), true)];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![left, right])?;
        let value = self.expression().evaluate(&batch)?;
        match value {
            ColumnarValue::Array(array) if constant => {
                Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?))
            }
            value => Ok(value),
        }
    }
}

/// What it is given, so that it can be looked at.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Held {
    signature: Signature,
}

impl Default for Held {
    fn default() -> Self {
        Held { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Held {
    fn name(&self) -> &'static str {
        "held"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(only.clone()),
            _ => exec_err!("held takes one argument"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [only] => Ok(Arc::clone(only)),
            _ => exec_err!("held takes one argument"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(only) => Ok(only),
            None => exec_err!("held takes one argument"),
        }
    }
}
