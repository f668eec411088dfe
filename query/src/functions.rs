//! SQL functions of our own. They live here so that a view, a page and an analyst's query count money the same way.

mod allocation;
mod arguments;
pub(crate) mod bounded;
mod buckets;
pub(crate) mod cancel;
mod casting;
mod exph;
mod interval;
mod lists;
mod load_watts;
mod money_scale;
mod money_split;
mod operators;
mod truncated;
pub(crate) mod windowed;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    functions::datetime,
    logical_expr::{AggregateUDF, Operator, ScalarUDF, WindowUDF},
};

use buckets::{BucketsMerge, BucketsQuantile};
use casting::Casting;
use load_watts::LoadWatts;
use money_scale::MoneyScale;
use money_split::Split;
use operators::{Held, OperatorFunction};

/// Scalar functions every session knows.
pub(crate) fn scalar() -> Vec<Arc<ScalarUDF>> {
    let mut all = exph::scalar();
    all.push(Arc::new(ScalarUDF::from(BucketsQuantile::default())));
    all.push(Arc::new(ScalarUDF::from(MoneyScale::default())));
    all.push(Arc::new(ScalarUDF::from(LoadWatts::default())));
    all.extend(allocation::all().map(|function| Arc::new(ScalarUDF::from(function))));
    all.push(time_bucket());
    all.push(truncated::date_trunc());
    all
}

/// Aggregate functions every session knows.
pub(crate) fn aggregate() -> Vec<Arc<AggregateUDF>> {
    let mut all = exph::aggregate();
    all.push(Arc::new(AggregateUDF::from(BucketsMerge::default())));
    all
}

/// `time_bucket(interval, time[, origin])`, by which it is known elsewhere: `date_bin`, whose windows start at 1970-01-01 UTC.
fn time_bucket() -> Arc<ScalarUDF> {
    Arc::new(Arc::unwrap_or_clone(datetime::date_bin()).with_aliases(["time_bucket"]))
}

/// Window functions every session knows.
pub(crate) fn window() -> Vec<Arc<WindowUDF>> {
    [Split::of_money(), Split::of_whole()].map(|split| Arc::new(WindowUDF::from(split))).into()
}

/// What plans are made of beside the functions that every session knows: a worker finds these by their names.
pub(crate) fn of_plans() -> Vec<Arc<ScalarUDF>> {
    let searches = [Operator::RegexMatch, Operator::RegexIMatch, Operator::RegexNotMatch, Operator::RegexNotIMatch];
    let casts = [false, true].map(|is_try| cast(Arc::new(Field::new("cast", DataType::Null, true)), is_try));
    let fixed = [text_concat(), held()].into_iter().chain(casts);
    fixed.chain(searches.map(text_search)).collect()
}

/// `||` between texts.
pub(crate) fn text_concat() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(OperatorFunction::new("text_concat", Operator::StringConcat)))
}

/// One of the regular expression matches `~`, `~*`, `!~`, `!~*`.
pub(crate) fn text_search(operator: Operator) -> Arc<ScalarUDF> {
    let name = match operator {
        Operator::RegexIMatch => "text_search_any_case",
        Operator::RegexNotMatch => "text_search_not",
        Operator::RegexNotIMatch => "text_search_not_any_case",
        _ => "text_search",
    };
    Arc::new(ScalarUDF::from(OperatorFunction::new(name, operator)))
}

/// What it is given; bounded, it checks and charges that.
pub(crate) fn held() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Held::default()))
}

/// `CAST`, or `TRY_CAST`, to what `field` is.
pub(crate) fn cast(field: FieldRef, is_try: bool) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Casting::new(field, is_try)))
}

#[cfg(test)]
mod session;
#[cfg(test)]
mod tests;
