//! What a histogram says: a quantile, the share at or below a value, and how far either may be off.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, Float64Array},
    datatypes::DataType,
};
use datafusion::{
    common::{Result, exec_err, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::histogram::Histogram;

use super::{column::Histograms, histogram_argument, number_argument};
use crate::functions::{interval, lists::doubles};

/// What is asked of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Quantile,
    Rank,
    RankInterval,
    Error,
}

impl Question {
    pub(super) const ALL: [Question; 4] = [Question::Quantile, Question::Rank, Question::RankInterval, Question::Error];

    fn name(self) -> &'static str {
        match self {
            Question::Quantile => "exph_quantile",
            Question::Rank => "exph_rank",
            Question::RankInterval => "exph_rank_interval",
            Question::Error => "exph_error",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Read {
    question: Question,
    signature: Signature,
}

impl Read {
    pub(super) fn new(question: Question) -> Read {
        Read { question, signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Read {
    fn name(&self) -> &'static str {
        self.question.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        match (self.question, types) {
            (Question::Error, [histogram]) => Ok(vec![histogram_argument(name, histogram)?]),
            (Question::Error, _) => plan_err!("{name} takes a histogram"),
            (_, [histogram, number]) => Ok(vec![histogram_argument(name, histogram)?, number_argument(name, number)?]),
            _ => plan_err!("{name} takes a histogram and a number"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.question {
            Question::RankInterval => interval::kind(),
            _ => DataType::Float64,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let Some((histograms, numbers)) = columns.split_first() else {
            return exec_err!("{} takes a histogram", self.name());
        };
        let histograms = Histograms::of(histograms)?;
        let numbers = numbers.first().map(doubles).transpose()?;
        let answer: ArrayRef = match self.question {
            Question::Error => Arc::new(each(&histograms, None, |histogram, _| Ok(Some(histogram.error())))?),
            Question::Quantile => Arc::new(each(&histograms, numbers, quantile)?),
            Question::Rank => {
                let share = |histogram: &Histogram, value| Ok(histogram.rank(value).and_then(|rank| rank.share));
                Arc::new(each(&histograms, numbers, share)?)
            }
            Question::RankInterval => {
                let mut within = Vec::with_capacity(histograms.len());
                for row in 0..histograms.len() {
                    let (histogram, value) = (histograms.get(row)?, number(numbers, row));
                    let rank = histogram.zip(value).and_then(|(histogram, value)| histogram.rank(value));
                    within.push(rank.map(|rank| rank.within));
                }
                Arc::new(interval::column(&within)?)
            }
        };
        Ok(ColumnarValue::Array(answer))
    }
}

fn each(
    histograms: &Histograms<'_>,
    numbers: Option<&Float64Array>,
    read: impl Fn(&Histogram, f64) -> Result<Option<f64>>,
) -> Result<Float64Array> {
    let row = |row| match (histograms.get(row)?, numbers.map_or(Some(0.0), |_| number(numbers, row))) {
        (Some(histogram), Some(number)) => read(&histogram, number),
        _ => Ok(None),
    };
    (0..histograms.len()).map(row).collect()
}

fn number(numbers: Option<&Float64Array>, row: usize) -> Option<f64> {
    numbers.filter(|numbers| numbers.is_valid(row)).map(|numbers| numbers.value(row))
}

fn quantile(histogram: &Histogram, q: f64) -> Result<Option<f64>> {
    if (0.0..=1.0).contains(&q) {
        return Ok(histogram.quantile(q));
    }
    exec_err!("exph_quantile takes a quantile between 0 and 1, such as 0.99 for p99, not {q}")
}
