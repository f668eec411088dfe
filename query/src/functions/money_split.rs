//! `money_split(amount, weight) OVER (PARTITION BY … ORDER BY …)`: each row's share of the partition's amount.
//!
//! Shares follow the weights and sum to the amount exactly, to the last of its 12 decimals (largest remainder; ties go
//! to the earlier row). An unknown amount gives unknown shares.
//!
//! `whole_split(number, weight) OVER (…)` does the same with whole numbers, such as microseconds.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array},
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

/// What is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Amount {
    Money,
    Whole,
}

impl Amount {
    fn name(self) -> &'static str {
        match self {
            Amount::Money => "money_split",
            Amount::Whole => "whole_split",
        }
    }

    fn kind(self) -> DataType {
        match self {
            Amount::Money => DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE),
            Amount::Whole => DataType::Int64,
        }
    }

    /// The first row's, which is that of the partition.
    fn first(self, amounts: &ArrayRef) -> Option<i128> {
        if amounts.is_empty() || amounts.is_null(0) {
            return None;
        }
        Some(match self {
            Amount::Money => amounts.as_primitive::<Decimal128Type>().value(0),
            Amount::Whole => i128::from(amounts.as_primitive::<Int64Type>().value(0)),
        })
    }

    fn column(self, shares: Vec<Option<i128>>) -> Result<ArrayRef> {
        Ok(match self {
            Amount::Money => {
                Arc::new(Decimal128Array::from(shares).with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?)
            }
            // a share is no larger than the number that is split
            Amount::Whole => Arc::new(
                shares
                    .into_iter()
                    .map(|share| share.and_then(|share| i64::try_from(share).ok()))
                    .collect::<Int64Array>(),
            ),
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Split {
    amount: Amount,
    signature: Signature,
}

impl Split {
    /// Of dollars.
    pub(super) fn of_money() -> Split {
        Split::of(Amount::Money)
    }

    /// Of whole numbers.
    pub(super) fn of_whole() -> Split {
        Split::of(Amount::Whole)
    }

    fn of(amount: Amount) -> Split {
        Split { amount, signature: Signature::exact(vec![amount.kind(), DataType::Int64], Volatility::Immutable) }
    }
}

impl WindowUDFImpl for Split {
    fn name(&self) -> &'static str {
        self.amount.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(&self, _arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Splitter(self.amount)))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(arguments.name(), self.amount.kind(), true)))
    }

    fn limit_effect(&self, _arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

#[derive(Debug)]
struct Splitter(Amount);

impl PartitionEvaluator for Splitter {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let [amounts, weights] = values else {
            return Err(exec_datafusion_err!("{} takes an amount and a weight", self.0.name()));
        };
        let weights = weights.as_primitive::<Int64Type>();
        let shares = match self.0.first(amounts).filter(|_| rows > 0) {
            None => vec![None; rows],
            Some(amount) => split(amount, weights.iter().map(Option::unwrap_or_default))?,
        };
        self.0.column(shares)
    }
}

fn split(amount: i128, weights: impl Iterator<Item = i64>) -> Result<Vec<Option<i128>>> {
    let weights: Vec<u64> = weights.map(|weight| u64::try_from(weight).unwrap_or(0)).collect();
    let units = u64::try_from(amount.unsigned_abs())
        .map_err(|_| exec_datafusion_err!("the amount to split is larger than 18 million dollars"))?;
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
