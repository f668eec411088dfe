//! `what_if(host_type, region, option, batch[, from, to])`: recorded calls, reckoned on another machine, in another region, bought otherwise.
//!
//! ```text
//! requests_minutes, costs_hours ─► calls of each model ─┐
//! prices, power_models, grid ───────────────────────────┴─► telemetry::whatif ─► one row a model, with what it assumes
//! ```
//!
//! Its own questions are the reader's: it sees no more than they would show.

use std::sync::{Arc, Weak};

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{Result, ScalarValue, plan_err},
    datasource::MemTable,
    logical_expr::{Expr, TableType},
    physical_plan::ExecutionPlan,
    prelude::DataFrame,
};
use service::Error;
use telemetry::{
    grid::{self, Grid},
    power::PowerModel,
    table::schema::{MONEY_PRECISION, MONEY_SCALE},
    unit::Usd,
    whatif::{self, Outcome, Quote, Scenario, Traffic},
};

use super::{Scope, parse};
use crate::{error, views::ViewColumn};

/// Its name in SQL.
pub(super) const NAME: &str = "what_if";
const USAGE: &str = "what_if takes a host type, a region, a purchase option and a batch limit, and if wanted two times between which calls came: \
    what_if('trn1.32xlarge', 'us-east-1', 'on_demand', 8, '2026-11-01', '2026-11-02')";
/// Largest batch that is reckoned.
const BATCH_MAX: i64 = 4_096;

/// The function in one query.
#[derive(Debug)]
pub(super) struct WhatIf {
    scope: Weak<Scope>,
}

/// What was asked; `during` is a condition on `time`: the whole hours that were asked for, and those asked for in part.
#[derive(Clone, Debug)]
struct Asked {
    host_type: String,
    region: String,
    option: String,
    batch: u32,
    during: String,
}

#[derive(Debug)]
struct WhatIfTable {
    scope: Weak<Scope>,
    asked: Asked,
    schema: SchemaRef,
}

impl WhatIf {
    pub(super) fn new(scope: &Arc<Scope>) -> WhatIf {
        WhatIf { scope: Arc::downgrade(scope) }
    }
}

impl TableFunctionImpl for WhatIf {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let asked = Asked::of(args.exprs())?;
        Ok(Arc::new(WhatIfTable { scope: Weak::clone(&self.scope), asked, schema: schema() }))
    }
}

impl Asked {
    fn of(arguments: &[Expr]) -> Result<Asked> {
        let (given, times) = match arguments {
            [host_type, region, option, batch] => ([host_type, region, option, batch], None),
            [host_type, region, option, batch, from, to] => ([host_type, region, option, batch], Some([from, to])),
            _ => return plan_err!("{USAGE}"),
        };
        let [Some(host_type), Some(region), Some(option)] = [text(given[0]), text(given[1]), text(given[2])] else {
            return plan_err!("{USAGE}");
        };
        let batch = whole(given[3]).filter(|batch| (1..=BATCH_MAX).contains(batch));
        let Some(batch) = batch.and_then(|batch| u32::try_from(batch).ok()) else {
            return plan_err!("the batch limit of what_if is a number from 1 to {BATCH_MAX}");
        };
        let during = match times.map(|[from, to]| [text(from), text(to)]) {
            None => "time >= date_trunc('hour', now() - INTERVAL '24 hours')".to_owned(),
            Some([Some(from), Some(to)]) => {
                let [from, to] = [from, to].map(|text| format!("CAST({} AS TIMESTAMP)", quoted(&text)));
                let whole = "INTERVAL '1 hour' - INTERVAL '1 microsecond'";
                format!("time >= date_trunc('hour', {from}) AND time < date_trunc('hour', {to} + {whole})")
            }
            Some(_) => return plan_err!("{USAGE}"),
        };
        Ok(Asked { host_type, region, option, batch, during })
    }
}

fn text(argument: &Expr) -> Option<String> {
    match argument {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.clone()
        }
        _ => None,
    }
}

fn whole(argument: &Expr) -> Option<i64> {
    match argument {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        },
        _ => None,
    }
}

/// A text as SQL spells it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[async_trait]
impl TableProvider for WhatIfTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ended = || error::from_lake(Error::internal("what_if is asked after its query has ended"));
        let scope = self.scope.upgrade().ok_or_else(ended)?;
        let batch = self.asked.answer(&scope).await?;
        MemTable::try_new(Arc::clone(&self.schema), vec![vec![batch]])?.scan(state, projection, filters, limit).await
    }
}

/// Rows of texts, as [`ask`] gives them.
type Rows = Vec<Vec<Option<String>>>;

/// Asks as the reader; all columns as texts.
async fn ask(scope: &Arc<Scope>, sql: &str) -> Result<Rows> {
    let state = scope.asked(None)?;
    let plan = state.statement_to_plan(parse::statement(sql)?).await?;
    let mut rows = Rows::new();
    for batch in DataFrame::new(state, plan).collect().await? {
        let columns: Vec<ArrayRef> =
            batch.columns().iter().map(|column| cast(column, &DataType::Utf8)).collect::<Result<_, _>>()?;
        let text = |column: &ArrayRef, row: usize| {
            column.is_valid(row).then(|| column.as_string::<i32>().value(row).to_owned())
        };
        rows.extend((0..batch.num_rows()).map(|row| columns.iter().map(|column| text(column, row)).collect()));
    }
    Ok(rows)
}

fn number(row: &[Option<String>], at: usize) -> Option<f64> {
    row.get(at)?.as_deref()?.parse().ok()
}

fn word(row: &[Option<String>], at: usize) -> String {
    row.get(at).cloned().flatten().unwrap_or_default()
}

/// One model's calls, and what they cost where they were served.
struct Recorded {
    model: String,
    traffic: [f64; 5],
    usd_per_million: Option<f64>,
}

impl Recorded {
    fn traffic(&self) -> Traffic<'_> {
        let [requests, input_tokens, output_tokens, seconds, busiest_per_s] = self.traffic;
        Traffic { model: &self.model, requests, input_tokens, output_tokens, seconds, busiest_per_s }
    }
}

impl Asked {
    async fn answer(&self, scope: &Arc<Scope>) -> Result<RecordBatch> {
        let recorded = self.recorded(scope).await?;
        let quote = self.quote(scope).await?;
        let models = self.models(scope).await?;
        let factors = self.factors(scope).await?;
        let scenario = Scenario {
            host_type: &self.host_type,
            region: &self.region,
            batch: self.batch,
            chips: None,
            at_us: scope.now_us(),
        };
        let reckoned = |one: &Recorded| whatif::reckon(&one.traffic(), &scenario, quote.as_ref(), (&models, &factors));
        let outcomes: Vec<_> = recorded.iter().map(reckoned).collect();
        self.batch_of(&recorded, &outcomes)
    }

    async fn recorded(&self, scope: &Arc<Scope>) -> Result<Vec<Recorded>> {
        // both sides over the same whole hours: from the first in which a model had calls or cost to the end of the last, or now
        let sql =
            include_str!("what_if.sql").replace("$during", &self.during).replace("$now", &scope.now_us().to_string());
        let recorded = |row: &Vec<Option<String>>| Recorded {
            model: word(row, 0),
            traffic: std::array::from_fn(|at| number(row, at + 1).unwrap_or(0.0)),
            usd_per_million: number(row, 6),
        };
        Ok(ask(scope, &sql).await?.iter().map(recorded).collect())
    }

    async fn quote(&self, scope: &Arc<Scope>) -> Result<Option<Quote>> {
        let sql = format!(
            "SELECT CAST(usd_per_hour AS VARCHAR), confidence, as_of, source FROM prices WHERE host_type = {} AND region = {} AND \"option\" = {} \
             AND zone IS NULL AND effective_from <= now() AND (effective_to IS NULL OR effective_to > now()) \
             ORDER BY book IS NULL, effective_from DESC, CASE confidence WHEN 'measured' THEN 0 WHEN 'published' THEN 1 WHEN 'secondary' THEN 2 ELSE 3 END LIMIT 1",
            quoted(&self.host_type),
            quoted(&self.region),
            quoted(&self.option)
        );
        let quote = |row: &Vec<Option<String>>| {
            let usd_per_hour: Usd = word(row, 0).parse().ok()?;
            let told = format!("{} {} in {}", self.option, self.host_type, self.region);
            Some(Quote {
                usd_per_hour,
                told: format!("{told} ({}, as of {}, {})", word(row, 1), word(row, 2), word(row, 3)),
            })
        };
        Ok(ask(scope, &sql).await?.first().and_then(quote))
    }

    async fn models(&self, scope: &Arc<Scope>) -> Result<Vec<PowerModel>> {
        let sql = "SELECT device, boundary, idle_w, max_w, method, source, as_of, confidence, note, CAST(effective_from AS BIGINT) \
            FROM power_models WHERE effective_to IS NULL OR effective_to > now()";
        let model = |row: &Vec<Option<String>>| PowerModel {
            device: word(row, 0),
            boundary: word(row, 1),
            idle_w: number(row, 2),
            max_w: number(row, 3),
            method: word(row, 4),
            effective_from_us: word(row, 9).parse().unwrap_or(i64::MAX),
            source: word(row, 5),
            as_of: word(row, 6),
            confidence: word(row, 7),
            note: word(row, 8),
        };
        Ok(ask(scope, sql).await?.iter().map(model).collect())
    }

    async fn factors(&self, scope: &Arc<Scope>) -> Result<Vec<Grid>> {
        let sql = format!(
            "SELECT region, gco2e_per_kwh, pue, source, as_of, confidence, CAST(effective_from AS BIGINT) FROM grid \
             WHERE region = {} AND method = {} AND (effective_to IS NULL OR effective_to > now())",
            quoted(&self.region),
            quoted(grid::AVERAGE)
        );
        let factor = |row: &Vec<Option<String>>| Grid {
            region: word(row, 0),
            gco2e_per_kwh: number(row, 1),
            method: grid::AVERAGE,
            pue: number(row, 2),
            effective_from_us: word(row, 6).parse().unwrap_or(i64::MAX),
            source: word(row, 3),
            as_of: word(row, 4),
            confidence: word(row, 5),
        };
        Ok(ask(scope, &sql).await?.iter().map(factor).collect())
    }
}

const MONEY: DataType = DataType::Decimal128(MONEY_PRECISION, MONEY_SCALE);
const TEXT: DataType = DataType::Utf8;
const COUNT: DataType = DataType::Int64;
const NUMBER: DataType = DataType::Float64;

/// Columns of a row.
const COLUMNS: [(DataType, ViewColumn); 21] = [
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
    (COUNT, told("replicas", "1", "replicas that it would take: reckoned")),
    (COUNT, told("hosts", "{host}", "hosts that hold them: reckoned")),
    (NUMBER, told("utilization", "1", "share of the replicas' device time in use: reckoned")),
    (NUMBER, told("tpot_ms", "ms", "time per output token with a full batch: by the step model")),
    (NUMBER, told("prompt_ms", "ms", "time of the mean prompt, without waiting: by the step model")),
    (MONEY, told("usd_per_hour", "USD/h", "price of the hosts; unknown without a price")),
    (
        NUMBER,
        told(
            "usd_per_million_output_tokens",
            "USD/M{token}",
            "the hosts' price over the output tokens, idle included: reckoned",
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

/// What a column of this table means; `None` for other tables.
pub(super) fn column(provider: &dyn TableProvider, name: &str) -> Option<ViewColumn> {
    let _: &WhatIfTable = provider.downcast_ref()?;
    COLUMNS.into_iter().map(|(_, column)| column).find(|column| column.name == name)
}

fn schema() -> SchemaRef {
    let fields = COLUMNS.into_iter().map(|(kind, column)| Field::new(column.name, kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

type Reckoned = std::result::Result<Outcome, whatif::NoAnswer>;

impl Asked {
    fn batch_of(&self, recorded: &[Recorded], outcomes: &[Reckoned]) -> Result<RecordBatch> {
        let known = || outcomes.iter().map(|outcome| outcome.as_ref().ok());
        let floats = |value: &dyn Fn(&Outcome) -> Option<f64>| -> ArrayRef {
            Arc::new(known().map(|outcome| outcome.and_then(value)).collect::<Float64Array>())
        };
        let counts = |value: &dyn Fn(&Outcome) -> u64| -> ArrayRef {
            let count = |outcome: Option<&Outcome>| outcome.and_then(|outcome| i64::try_from(value(outcome)).ok());
            Arc::new(known().map(count).collect::<Int64Array>())
        };
        let given = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![value; recorded.len()])) };
        let traffic = |at: usize| recorded.iter().map(move |one| Some(one.traffic[at]));
        let whole = |at: usize| -> ArrayRef {
            Arc::new(traffic(at).map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
        };
        let money = known().map(|outcome| Some(outcome?.usd_per_hour?.0)).collect::<Decimal128Array>();
        let assumes = outcomes.iter().map(|outcome| match outcome {
            Ok(outcome) => outcome.assumes.join("; "),
            Err(why) => format!("no answer: {why}"),
        });
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(recorded.iter().map(|one| &one.model))),
            given(&self.host_type),
            given(&self.region),
            given(&self.option),
            Arc::new(Int64Array::from(vec![i64::from(self.batch); recorded.len()])),
            whole(0),
            whole(2),
            Arc::new(traffic(3).collect::<Float64Array>()),
            Arc::new(recorded.iter().map(|one| one.usd_per_million).collect::<Float64Array>()),
            counts(&|outcome| outcome.replicas),
            counts(&|outcome| outcome.hosts),
            floats(&|outcome| Some(outcome.utilization)),
            floats(&|outcome| Some(outcome.tpot_ms)),
            floats(&|outcome| Some(outcome.prompt_ms)),
            Arc::new(money.with_precision_and_scale(MONEY_PRECISION, MONEY_SCALE)?),
            floats(&|outcome| outcome.usd_per_million_output_tokens),
            floats(&|outcome| outcome.watts),
            Arc::new(known().map(|outcome| outcome?.boundary.as_deref()).collect::<StringArray>()),
            floats(&|outcome| outcome.joules_per_output_token),
            floats(&|outcome| outcome.gco2e_per_hour),
            Arc::new(StringArray::from_iter_values(assumes)),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}
