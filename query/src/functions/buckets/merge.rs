//! `buckets_merge(bounds, counts)`: a struct `{bounds, counts}`. Where bounds differ, those that all have stay.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Float64Builder, Int64Builder, ListBuilder, StructArray},
    datatypes::{DataType, Field, FieldRef, Fields},
};
use datafusion::{
    common::{Result, ScalarValue, exec_err, not_impl_err},
    logical_expr::{
        Accumulator, AggregateUDFImpl, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use telemetry::{histogram::Buckets, table::Kind};

use super::{BOUNDS, COUNTS, Classic, arguments};

#[derive(Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct BucketsMerge {
    signature: Signature,
}

impl Default for BucketsMerge {
    fn default() -> Self {
        BucketsMerge { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

fn fields() -> Fields {
    [BOUNDS, COUNTS].map(|(name, kind)| Field::new(name, kind.arrow(), true)).into_iter().collect()
}

impl AggregateUDFImpl for BucketsMerge {
    fn name(&self) -> &'static str {
        "buckets_merge"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::coerced(self.name(), types, &[BOUNDS, COUNTS])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields()))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |(name, kind): (&str, Kind)| {
            Arc::new(Field::new(format_state_name(arguments.name, name), kind.arrow(), true))
        };
        Ok([BOUNDS, COUNTS].map(field).into())
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return not_impl_err!("buckets_merge adds every histogram; DISTINCT has no meaning here");
        }
        Ok(Box::new(Merging(None)))
    }
}

#[derive(Debug)]
struct Merging(Option<Buckets>);

impl Merging {
    fn column(&self) -> Result<ArrayRef> {
        let mut bounds = ListBuilder::new(Float64Builder::new()).with_field(element(Kind::DoubleList));
        let mut counts = ListBuilder::new(Int64Builder::new()).with_field(element(Kind::IntList));
        if let Some(buckets) = &self.0 {
            bounds.values().append_slice(buckets.bounds());
            for count in buckets.counts() {
                counts.values().append_value(i64::try_from(*count).unwrap_or(i64::MAX));
            }
        }
        bounds.append(self.0.is_some());
        counts.append(self.0.is_some());
        let columns: Vec<ArrayRef> = vec![Arc::new(bounds.finish()), Arc::new(counts.finish())];
        Ok(Arc::new(StructArray::try_new(fields(), columns, Some(vec![self.0.is_some()].into()))?))
    }
}

fn element(list: Kind) -> FieldRef {
    match list.arrow() {
        DataType::List(element) => element,
        other => Arc::new(Field::new("element", other, true)),
    }
}

impl Accumulator for Merging {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [bounds, counts] = values else { return exec_err!("buckets_merge takes bounds and counts") };
        let rows = Classic::of(bounds, counts)?;
        for row in 0..bounds.len() {
            let Some(buckets) = rows.get(row)? else { continue };
            match &mut self.0 {
                Some(merged) => merged.merge(&buckets),
                None => self.0 = Some(buckets),
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.column()?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = self.column()?;
        state.as_struct().columns().iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        let held = self.0.as_ref().map_or(0, |buckets| buckets.bounds().len() + buckets.counts().len());
        size_of::<Merging>() + held * size_of::<f64>()
    }
}
