//! `money_scale(amount, times, per)`: `amount × times / per`, rounded half away from zero to 12 decimals.
//!
//! SQL's own decimal division widens its scale past 38 digits and overflows; a price per hour times microseconds needs
//! the product kept whole before it is divided.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Decimal128Array},
    datatypes::{DataType, Decimal128Type, Int64Type},
};
use datafusion::{
    common::{Result, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct MoneyScale {
    signature: Signature,
}

impl Default for MoneyScale {
    fn default() -> Self {
        let arguments = vec![DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE), DataType::Int64, DataType::Int64];
        MoneyScale { signature: Signature::exact(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for MoneyScale {
    fn name(&self) -> &'static str {
        "money_scale"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [amount, times, per] = columns.as_slice() else {
            return exec_err!("money_scale takes an amount, a factor and a divisor");
        };
        let amount = amount.as_primitive::<Decimal128Type>();
        let (times, per) = (times.as_primitive::<Int64Type>(), per.as_primitive::<Int64Type>());
        let scaled = (0..amount.len()).map(|row| {
            let known = amount.is_valid(row) && times.is_valid(row) && per.is_valid(row);
            known.then(|| scale(amount.value(row), times.value(row), per.value(row))).flatten()
        });
        let scaled = scaled.collect::<Decimal128Array>().with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?;
        Ok(ColumnarValue::Array(Arc::new(scaled)))
    }
}

/// `None` where the quotient is undefined or does not fit: unknown, never a wrong amount.
fn scale(amount: i128, times: i64, per: i64) -> Option<i128> {
    let product = amount.checked_mul(i128::from(times))?;
    let per = i128::from(per);
    if per == 0 {
        return None;
    }
    let (quotient, remainder) = (product / per, product % per);
    let rounds_up = remainder.unsigned_abs() * 2 >= per.unsigned_abs();
    let direction = product.signum() * per.signum();
    Some(if rounds_up { quotient + direction } else { quotient })
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn a_price_per_hour_becomes_a_cost_without_losing_a_digit() {
        assert_eq!(scale(12_981_270_000_000, 60_000_000, 3_600_000_000), Some(216_354_500_000));
        assert_eq!(scale(10, 1, 3), Some(3));
        assert_eq!(scale(10, 2, 3), Some(7));
        assert_eq!(scale(-10, 2, 3), Some(-7));
        assert_eq!(scale(1, 1, 2), Some(1));
    }

    #[test]
    fn what_has_no_answer_is_unknown() {
        assert_eq!(scale(1, 1, 0), None);
        assert_eq!(scale(i128::MAX, 2, 1), None);
    }
}
