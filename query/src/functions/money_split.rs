//! `money_split(amount, weight) OVER (PARTITION BY … ORDER BY …)`: each row's share of the partition's amount.
//!
//! Shares follow the weights and sum to the amount exactly, to the last of its 12 decimals (largest remainder; ties go
//! to the earlier row). An unknown amount gives unknown shares.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array},
    datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type},
};
use datafusion::{
    common::{Result, exec_datafusion_err},
    logical_expr::{
        LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
    },
    physical_plan::PhysicalExpr,
};
use telemetry::{
    table::schema::{MONEY_PRECISION, MONEY_SCALE},
    unit::share,
};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct MoneySplit {
    signature: Signature,
}

impl Default for MoneySplit {
    fn default() -> Self {
        let arguments = vec![DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE), DataType::Int64];
        MoneySplit { signature: Signature::exact(arguments, Volatility::Immutable) }
    }
}

impl WindowUDFImpl for MoneySplit {
    fn name(&self) -> &'static str {
        "money_split"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Splitter))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(arguments.name(), DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE), true)))
    }

    fn limit_effect(&self, _arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Splitter;

impl PartitionEvaluator for Splitter {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let [amounts, weights] = values else {
            return Err(exec_datafusion_err!("money_split takes an amount and a weight"));
        };
        let amounts = amounts.as_primitive::<Decimal128Type>();
        let weights = weights.as_primitive::<Int64Type>();
        let amount = (rows > 0 && amounts.is_valid(0)).then(|| amounts.value(0));
        let shares = match amount {
            None => vec![None; rows],
            Some(amount) => split(amount, weights.iter().map(Option::unwrap_or_default))?,
        };
        let shares = Decimal128Array::from(shares).with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?;
        Ok(Arc::new(shares))
    }
}

fn split(amount: i128, weights: impl Iterator<Item = i64>) -> Result<Vec<Option<i128>>> {
    let weights: Vec<u64> = weights.map(|weight| u64::try_from(weight).unwrap_or(0)).collect();
    let units = u64::try_from(amount.unsigned_abs())
        .map_err(|_| exec_datafusion_err!("money_split: the amount is larger than 18 million dollars"))?;
    let sign = if amount < 0 { -1 } else { 1 };
    Ok(share(units, &weights).into_iter().map(|units| Some(sign * i128::from(units))).collect())
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn shares_sum_to_the_amount() {
        let shares = split(216_354_500_000, [3, 141, 59, 0].into_iter()).expect("fits");
        assert_eq!(shares.iter().flatten().sum::<i128>(), 216_354_500_000);
        assert_eq!(shares[3], Some(0));
        let credit = split(-10, [1, 1, 1].into_iter()).expect("fits");
        assert_eq!(credit, [Some(-4), Some(-3), Some(-3)]);
    }

    #[test]
    fn an_absurd_amount_is_an_error_not_a_wrong_share() {
        assert!(split(i128::MAX, [1].into_iter()).is_err());
    }
}
