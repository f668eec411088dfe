//! `what_if(host_type, region, option, batch[, from, to])`: recorded calls, reckoned on another machine, in another region, bought otherwise.
//!
//! ```text
//! requests_minutes, costs_hours ─► calls of each model and what they cost ─────────────┐
//! prices, discounts, exchange_rates of those hours, power_models, grid (known) ────────┴─► telemetry::whatif ─► a row a model (rows)
//! ```
//!
//! Its own questions are the reader's: it sees no more than they would show.

mod known;
mod rows;

use std::sync::{Arc, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::{Result, ScalarValue, plan_err},
    datasource::MemTable,
    logical_expr::{Expr, TableType},
    physical_plan::ExecutionPlan,
};
use service::Error;
use telemetry::whatif::{self, Outcome, Scenario};

use super::Scope;
use crate::{error, views::ViewColumn};
use known::Recorded;

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
        Ok(Arc::new(WhatIfTable { scope: Weak::clone(&self.scope), asked, schema: rows::schema() }))
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

/// A model's calls reckoned, or why they cannot be.
type Reckoned = std::result::Result<Outcome, whatif::NoAnswer>;

impl Asked {
    async fn answer(&self, scope: &Arc<Scope>) -> Result<RecordBatch> {
        let recorded = self.recorded(scope).await?;
        let prices = self.prices(scope, &recorded).await?;
        let models = known::models(scope).await?;
        let factors = self.factors(scope).await?;
        let scenario = Scenario {
            host_type: &self.host_type,
            region: &self.region,
            batch: self.batch,
            chips: None,
            at_us: scope.now_us(),
        };
        let reckoned = |one: &Recorded| -> Reckoned {
            let quote = whatif::quote(&prices, one.stretch_us);
            let mut outcome = whatif::reckon(&one.traffic(), &scenario, &quote, (&models, &factors))?;
            outcome.assumes.push(one.told());
            Ok(outcome)
        };
        let outcomes: Vec<_> = recorded.iter().map(reckoned).collect();
        rows::batch(self, &recorded, &outcomes)
    }
}

/// What a column of this table means; `None` for other tables.
pub(super) fn column(provider: &dyn TableProvider, name: &str) -> Option<ViewColumn> {
    let _: &WhatIfTable = provider.downcast_ref()?;
    rows::column(name)
}
