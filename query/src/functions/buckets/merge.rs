//! `buckets_merge(bounds, counts)`: a struct `{bounds, counts}`. Where bounds differ, those that all have stay.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, Float64Builder, Int64Builder, ListBuilder, StructArray},
    datatypes::{DataType, Field, FieldRef, Fields},
};
use datafusion::{
    common::{Result, ScalarValue, exec_err, not_impl_err},
    logical_expr::{
        Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
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
        let mut groups = Groups::of(&arguments)?;
        groups.grow(1);
        Ok(Box::new(One(groups)))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::of(&arguments)?))
    }
}

/// One histogram per group; `None` where none was seen.
#[derive(Debug, Default)]
struct Groups {
    merged: Vec<Option<Buckets>>,
    /// What the histograms hold outside of the vector.
    heap_bytes: usize,
}

impl Groups {
    fn of(arguments: &AccumulatorArgs<'_>) -> Result<Groups> {
        if arguments.is_distinct {
            return not_impl_err!("buckets_merge adds every histogram; DISTINCT has no meaning here");
        }
        Ok(Groups::default())
    }

    fn grow(&mut self, groups: usize) {
        self.merged.resize_with(groups.max(self.merged.len()), || None);
    }

    fn update(&mut self, values: &[ArrayRef], group: impl Fn(usize) -> Option<usize>) -> Result<()> {
        let [bounds, counts] = values else { return exec_err!("buckets_merge takes bounds and counts") };
        let rows = Classic::of(bounds, counts)?;
        for row in 0..bounds.len() {
            let Some(group) = group(row) else { continue };
            let Some(buckets) = rows.get(row)? else { continue };
            let before = heap_bytes(self.merged[group].as_ref());
            match &mut self.merged[group] {
                Some(merged) => merged.merge(&buckets),
                none => *none = Some(buckets),
            }
            self.heap_bytes = (self.heap_bytes + heap_bytes(self.merged[group].as_ref())).saturating_sub(before);
        }
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> Result<StructArray> {
        let taken = emit.take_needed(&mut self.merged);
        self.heap_bytes = self.merged.iter().map(|buckets| heap_bytes(buckets.as_ref())).sum();
        column(&taken)
    }

    fn bytes(&self) -> usize {
        size_of::<Groups>() + self.merged.capacity() * size_of::<Option<Buckets>>() + self.heap_bytes
    }
}

fn heap_bytes(buckets: Option<&Buckets>) -> usize {
    buckets.map_or(0, |buckets| (buckets.bounds().len() + buckets.counts().len()) * size_of::<f64>())
}

fn column(histograms: &[Option<Buckets>]) -> Result<StructArray> {
    let mut bounds = ListBuilder::new(Float64Builder::with_capacity(0)).with_field(element(Kind::DoubleList));
    let mut counts = ListBuilder::new(Int64Builder::with_capacity(0)).with_field(element(Kind::IntList));
    for histogram in histograms {
        if let Some(buckets) = histogram {
            bounds.values().append_slice(buckets.bounds());
            for count in buckets.counts() {
                counts.values().append_value(i64::try_from(*count).unwrap_or(i64::MAX));
            }
        }
        bounds.append(histogram.is_some());
        counts.append(histogram.is_some());
    }
    let columns: Vec<ArrayRef> = vec![Arc::new(bounds.finish()), Arc::new(counts.finish())];
    let known: Vec<bool> = histograms.iter().map(Option::is_some).collect();
    Ok(StructArray::try_new(fields(), columns, Some(known.into()))?)
}

fn element(list: Kind) -> FieldRef {
    match list.arrow() {
        DataType::List(element) => element,
        other => Arc::new(Field::new("element", other, true)),
    }
}

fn is_kept(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups);
        self.update(values, |row| is_kept(opt_filter, row).then(|| group_indices[row]))
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.grow(total_num_groups);
        self.update(values, |row| Some(group_indices[row]))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(self.take(emit_to)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(self.take(emit_to)?.columns().to_vec())
    }

    /// A row each, where there are nearly as many groups as rows.
    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let mut each = Groups::default();
        each.grow(rows);
        each.update(values, |row| is_kept(opt_filter, row).then_some(row))?;
        Ok(each.take(EmitTo::All)?.columns().to_vec())
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

/// The only group, of a query or of a window.
#[derive(Debug)]
struct One(Groups);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values, |_| Some(0))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.update(states, |_| Some(0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let merged: ArrayRef = Arc::new(column(&self.0.merged)?);
        ScalarValue::try_from_array(&merged, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let state = column(&self.0.merged)?;
        state.columns().iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        self.0.bytes()
    }
}
