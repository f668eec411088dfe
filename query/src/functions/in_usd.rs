//! `in_usd(amount, usd_per_unit)`: an amount of another currency in dollars, rounded half away from zero to 12 decimals.
//!
//! The one place where money is converted. What has no rate has no dollars: unknown, never the amount as it stands.

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Decimal128Array},
    datatypes::{DataType, Decimal128Type},
};
use datafusion::{
    common::{Result, exec_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::unit::UNITS_PER_USD;

/// Above every amount that a column of money holds: one of 38 digits.
const AMOUNT_MAX: u128 = 10_u128.pow(38);

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct InUsd {
    signature: Signature,
}

impl Default for InUsd {
    fn default() -> Self {
        let money = DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE);
        InUsd { signature: Signature::exact(vec![money.clone(), money], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for InUsd {
    fn name(&self) -> &'static str {
        "in_usd"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [amount, rate] = columns.as_slice() else {
            return exec_err!("in_usd takes an amount and the dollars for one unit of its currency");
        };
        let (amount, rate) = (amount.as_primitive::<Decimal128Type>(), rate.as_primitive::<Decimal128Type>());
        let dollars = (0..amount.len()).map(|row| {
            let known = amount.is_valid(row) && rate.is_valid(row);
            known.then(|| convert(amount.value(row), rate.value(row))).flatten()
        });
        let dollars = dollars.collect::<Decimal128Array>().with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?;
        Ok(ColumnarValue::Array(Arc::new(dollars)))
    }
}

/// Both in units of 10⁻¹². `None` where the result does not fit: unknown, never a wrong amount.
fn convert(amount: i128, rate: i128) -> Option<i128> {
    // whole units and the rest apart, so that no product is larger than what comes out
    let (whole, rest) = (amount / UNITS_PER_USD, amount % UNITS_PER_USD);
    let rest = rest.checked_mul(rate)?;
    let (cut, left) = (rest / UNITS_PER_USD, rest % UNITS_PER_USD);
    let rounded = if left.unsigned_abs() * 2 >= UNITS_PER_USD.unsigned_abs() { cut + rest.signum() } else { cut };
    let dollars = whole.checked_mul(rate)?.checked_add(rounded)?;
    (dollars.unsigned_abs() < AMOUNT_MAX).then_some(dollars)
}

#[cfg(test)]
mod tests {
    use super::convert;

    const UNIT: i128 = 1_000_000_000_000;

    /// 10 EUR at 1.1 are 11 USD, a credit of them is one; a dollar of a dollar is that dollar to the last decimal.
    #[test]
    fn an_amount_becomes_dollars_to_the_last_decimal() {
        assert_eq!(convert(10 * UNIT, 1_100_000_000_000), Some(11 * UNIT));
        assert_eq!(convert(-10 * UNIT, 1_100_000_000_000), Some(-11 * UNIT));
        assert_eq!(convert(1_234_567_890_123, UNIT), Some(1_234_567_890_123));
        // 0.000000000001 at 0.5 and at 0.4: half is rounded away from zero
        assert_eq!(
            [convert(1, UNIT / 2), convert(-1, UNIT / 2), convert(1, 2 * UNIT / 5)],
            [Some(1), Some(-1), Some(0)]
        );
        // 3.333333333333 at 1.1 are 3.6666666666663
        assert_eq!(convert(3_333_333_333_333, 1_100_000_000_000), Some(3_666_666_666_666));
    }

    /// A year of a fleet at the largest rate there may be: the product of both has more digits than a number of 128 bits.
    #[test]
    fn a_large_amount_at_a_large_rate_is_known() {
        assert_eq!(convert(1_000_000_000 * UNIT, 1_000_000 * UNIT), Some(1_000_000_000_000_000 * UNIT));
        assert_eq!(convert(i128::MAX / 4, 1_000_000 * UNIT), None);
    }
}
