//! The rows of `what_if`, and what their columns mean.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use telemetry::table::schema::{MONEY_PRECISION, MONEY_SCALE};
use telemetry::unit::Usd;
use telemetry::whatif::Outcome;

use super::known::Recorded;
use super::{Asked, Reckoned};
use crate::views::ViewColumn;

const MONEY: DataType = DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE);
const TEXT: DataType = DataType::Utf8;
const COUNT: DataType = DataType::Int64;
const NUMBER: DataType = DataType::Float64;

/// Columns of a row.
const COLUMNS: [(DataType, ViewColumn); 24] = [
    (TEXT, told("model", "", "model of the recorded calls")),
    (TEXT, told("host_type", "", "instance type asked for")),
    (TEXT, told("region", "", "region asked for")),
    (TEXT, told("option", "", "purchase option asked for")),
    (COUNT, told("batch", "{request}", "most sequences that a replica decodes at once, as asked for")),
    (COUNT, told("calls", "{request}", "recorded calls")),
    (COUNT, told("output_tokens", "{token}", "recorded output tokens")),
    (
        NUMBER,
        told(
            "seconds",
            "s",
            "length of the hours that both sides are paid for: from the first in which the model had calls or cost to the end of the last",
        ),
    ),
    (
        NUMBER,
        told(
            "recorded_usd_per_million_output_tokens",
            "USD/M{token}",
            "what they cost where they were served: list price of the same hours, idle included",
        ),
    ),
    (
        NUMBER,
        told(
            "recorded_effective_usd_per_million_output_tokens",
            "USD/M{token}",
            "what of it was paid: by the bill or at the negotiated discount in force, else the list price",
        ),
    ),
    (COUNT, told("replicas", "1", "replicas that it would take: reckoned")),
    (COUNT, told("hosts", "{host}", "hosts that hold them: reckoned")),
    (NUMBER, told("utilization", "1", "share of the replicas' device time in use: reckoned")),
    (NUMBER, told("tpot_ms", "ms", "time per output token with a full batch: by the step model")),
    (NUMBER, told("prompt_ms", "ms", "time of the mean prompt, without waiting: by the step model")),
    (
        MONEY,
        told(
            "usd_per_hour",
            "USD/h",
            "list price of the hosts, the mean of those hours; unknown where one has no price",
        ),
    ),
    (
        MONEY,
        told(
            "effective_usd_per_hour",
            "USD/h",
            "what of it is paid at the negotiated discounts in force, else the list price",
        ),
    ),
    (
        NUMBER,
        told(
            "usd_per_million_output_tokens",
            "USD/M{token}",
            "the hosts' list price over the output tokens, idle included: reckoned",
        ),
    ),
    (
        NUMBER,
        told(
            "effective_usd_per_million_output_tokens",
            "USD/M{token}",
            "what of it is paid over the output tokens: reckoned",
        ),
    ),
    (NUMBER, told("watts", "W", "mean draw within `boundary`; unknown where nobody published watts")),
    (TEXT, told("boundary", "", "what the watts cover")),
    (NUMBER, told("joules_per_output_token", "J/{token}", "joules over output tokens, idle included: reckoned")),
    (NUMBER, told("gco2e_per_hour", "g/h", "grams of CO2e, location based average: reckoned")),
    (
        TEXT,
        told("assumes", "", "basis, method and as-of of all of it: what the row stands on, or why it has no figures"),
    ),
];

const fn told(name: &'static str, unit: &'static str, doc: &'static str) -> ViewColumn {
    ViewColumn { name, unit, doc }
}

/// What the column of that name means.
pub(super) fn column(name: &str) -> Option<ViewColumn> {
    COLUMNS.into_iter().map(|(_, column)| column).find(|column| column.name == name)
}

pub(super) fn schema() -> SchemaRef {
    let fields = COLUMNS.into_iter().map(|(kind, column)| Field::new(column.name, kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows: one of each model.
///
/// # Errors
/// What Arrow gives for columns that do not fit together.
pub(super) fn batch(asked: &Asked, recorded: &[Recorded], outcomes: &[Reckoned]) -> Result<RecordBatch> {
    let known = || outcomes.iter().map(|outcome| outcome.as_ref().ok());
    let floats = |value: &dyn Fn(&Outcome) -> Option<f64>| -> ArrayRef {
        Arc::new(known().map(|outcome| outcome.and_then(value)).collect::<Float64Array>())
    };
    let counts = |value: &dyn Fn(&Outcome) -> u64| -> ArrayRef {
        let count = |outcome: Option<&Outcome>| outcome.and_then(|outcome| i64::try_from(value(outcome)).ok());
        Arc::new(known().map(count).collect::<Int64Array>())
    };
    let given = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value; recorded.len()])) };
    let whole = |at: usize| -> ArrayRef {
        Arc::new(recorded.iter().map(|one| Some(one.figures[at] as i64)).collect::<Int64Array>())
    };
    let of_recorded = |value: &dyn Fn(&Recorded) -> Option<f64>| -> ArrayRef {
        Arc::new(recorded.iter().map(value).collect::<Float64Array>())
    };
    let money = |value: &dyn Fn(&Outcome) -> Option<Usd>| -> Result<ArrayRef> {
        let amounts = known().map(|outcome| Some(value(outcome?)?.0)).collect::<Decimal128Array>();
        Ok(Arc::new(amounts.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?))
    };
    let assumes = outcomes.iter().map(|outcome| match outcome {
        Ok(outcome) => outcome.assumes.join("; "),
        Err(why) => format!("no answer: {why}"),
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(recorded.iter().map(|one| &one.model))),
        given(&asked.host_type),
        given(&asked.region),
        given(&asked.option),
        Arc::new(Int64Array::from(vec![i64::from(asked.batch); recorded.len()])),
        whole(0),
        whole(2),
        of_recorded(&|one| Some(one.seconds())),
        of_recorded(&|one| one.usd_per_million),
        of_recorded(&|one| one.effective_usd_per_million),
        counts(&|outcome| outcome.replicas),
        counts(&|outcome| outcome.hosts),
        floats(&|outcome| Some(outcome.utilization)),
        floats(&|outcome| Some(outcome.tpot_ms)),
        floats(&|outcome| Some(outcome.prompt_ms)),
        money(&|outcome| outcome.usd_per_hour)?,
        money(&|outcome| outcome.effective_usd_per_hour)?,
        floats(&|outcome| outcome.usd_per_million_output_tokens),
        floats(&|outcome| outcome.effective_usd_per_million_output_tokens),
        floats(&|outcome| outcome.watts),
        Arc::new(known().map(|outcome| outcome?.boundary.as_deref()).collect::<StringArray>()),
        floats(&|outcome| outcome.joules_per_output_token),
        floats(&|outcome| outcome.gco2e_per_hour),
        Arc::new(StringArray::from_iter_values(assumes)),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}
