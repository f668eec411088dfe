//! `exph(value)` and `exph_merge(h)`. What either has seen so far is itself a histogram, so a partial state is one too.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue, exec_err, not_impl_err},
    logical_expr::{
        Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use telemetry::histogram::Histogram;

use super::{
    column::{self, Histograms, Writer},
    histogram_argument, number_argument,
};
use crate::functions::lists::doubles;

/// An aggregate whose result is a histogram.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Exph {
    takes: Takes,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Takes {
    Values,
    Histograms,
}

impl Exph {
    /// `exph(value)`.
    pub(super) fn observing() -> Exph {
        Exph { takes: Takes::Values, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// `exph_merge(h)`.
    pub(super) fn merging() -> Exph {
        Exph { takes: Takes::Histograms, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn groups(&self, arguments: &AccumulatorArgs<'_>) -> Result<Groups> {
        if arguments.is_distinct {
            return not_impl_err!("{} counts every observation; DISTINCT has no meaning here", self.name());
        }
        Ok(Groups { takes: self.takes, histograms: Vec::new(), heap_bytes: 0 })
    }
}

impl AggregateUDFImpl for Exph {
    fn name(&self) -> &'static str {
        match self.takes {
            Takes::Values => "exph",
            Takes::Histograms => "exph_merge",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [only] = types else { return exec_err!("{} takes one argument", self.name()) };
        Ok(vec![match self.takes {
            Takes::Values => number_argument(self.name(), only)?,
            Takes::Histograms => histogram_argument(self.name(), only)?,
        }])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(column::kind())
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(arguments.name, "histogram"), column::kind(), true))])
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mut groups = self.groups(&arguments)?;
        groups.grow(1);
        Ok(Box::new(One(groups)))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(self.groups(&arguments)?))
    }
}

/// One histogram per group.
#[derive(Debug)]
struct Groups {
    takes: Takes,
    histograms: Vec<Histogram>,
    /// What the histograms hold outside of the vector.
    heap_bytes: usize,
}

impl Groups {
    fn grow(&mut self, groups: usize) {
        self.histograms.resize_with(groups.max(self.histograms.len()), Histogram::default);
    }

    /// Changes one histogram and keeps count of what it holds.
    fn change(&mut self, group: usize, change: impl FnOnce(&mut Histogram)) {
        let histogram = &mut self.histograms[group];
        let before = histogram.heap_bytes();
        change(histogram);
        self.heap_bytes = (self.heap_bytes + histogram.heap_bytes()).saturating_sub(before);
    }

    fn update(&mut self, values: &[ArrayRef], groups: impl Fn(usize) -> Option<usize>) -> Result<()> {
        let [values] = values else { return exec_err!("one argument belongs here, not {}", values.len()) };
        match self.takes {
            Takes::Values => {
                let numbers = doubles(values)?;
                for (row, number) in numbers.values().iter().enumerate() {
                    if numbers.is_valid(row)
                        && let Some(group) = groups(row)
                    {
                        self.change(group, |histogram| {
                            histogram.observe(*number);
                        });
                    }
                }
            }
            Takes::Histograms => self.merge(values, groups)?,
        }
        Ok(())
    }

    fn merge(&mut self, states: &ArrayRef, groups: impl Fn(usize) -> Option<usize>) -> Result<()> {
        let states = Histograms::of(states)?;
        for row in 0..states.len() {
            if let Some(group) = groups(row)
                && let Some(state) = states.get(row)?
            {
                self.change(group, |histogram| histogram.merge(&state));
            }
        }
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let taken = emit.take_needed(&mut self.histograms);
        self.heap_bytes = self.histograms.iter().map(Histogram::heap_bytes).sum();
        column_of(taken.iter().map(Some))
    }

    fn bytes(&self) -> usize {
        size_of::<Groups>() + self.histograms.capacity() * size_of::<Histogram>() + self.heap_bytes
    }
}

fn column_of<'a>(histograms: impl ExactSizeIterator<Item = Option<&'a Histogram>>) -> Result<ArrayRef> {
    let mut writer = Writer::new(histograms.len());
    histograms.for_each(|histogram| writer.push(histogram));
    Ok(Arc::new(writer.finish()?))
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
        let [states] = values else { return exec_err!("one state belongs here, not {}", values.len()) };
        self.merge(states, |row| Some(group_indices[row]))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.take(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.take(emit_to)?])
    }

    /// A row each, where there are nearly as many groups as rows.
    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let mut each = Groups { takes: self.takes, histograms: Vec::new(), heap_bytes: 0 };
        each.grow(rows);
        each.update(values, |row| is_kept(opt_filter, row).then_some(row))?;
        Ok(vec![each.take(EmitTo::All)?])
    }

    fn size(&self) -> usize {
        self.bytes()
    }
}

/// The only group, of a query or of a window.
#[derive(Debug)]
struct One(Groups);

impl One {
    fn histogram(&self) -> Result<ScalarValue> {
        let column = column_of(self.0.histograms.iter().map(Some))?;
        ScalarValue::try_from_array(&column, 0)
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values, |_| Some(0))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [states] = states else { return exec_err!("one state belongs here, not {}", states.len()) };
        self.0.merge(states, |_| Some(0))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.histogram()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.histogram()?])
    }

    fn size(&self) -> usize {
        self.0.bytes()
    }
}
