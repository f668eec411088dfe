//! Functions whose result may be far larger than their arguments, or whose work may, kept within bounds.
//!
//! DataFusion counts what sorts, joins and aggregates hold, not what expressions make: `repeat('x', 1000000)` over one batch of
//! 8,192 rows is 8 GB before anybody looks. Here the bound of a result is computed before the result. What may be large is made
//! piece by piece, each a few rows, with a look in between at whether the query still runs; what is large is charged to the
//! query's memory for as long as it lives; and what is too large is refused.

mod growth;
mod sizes;

use std::{any::Any, ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayData, make_array},
    buffer::Buffer,
    compute::concat,
    datatypes::{DataType, FieldRef},
};
use bytes::Bytes;
use datafusion::{
    common::{ExprSchema, Result, ScalarValue, resources_datafusion_err, resources_err},
    execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation},
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature,
        interval_arithmetic::Interval,
        preimage::PreimageResult,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
};

use crate::execute::running::{self, Phase};
use growth::Growth;
use sizes::Sizes;

pub(crate) use sizes::{size_of_column, size_of_scalar};

/// Bytes of result that are made at once, without a look at whether the query still runs.
const PIECE_BYTES: u64 = 16 << 20;
/// Smallest result that is charged to the query's memory.
const CHARGED_BYTES_MIN: u64 = 256 << 10;
/// Largest constant that is computed when a query is planned, where nothing is charged; larger ones are computed when it runs.
const FOLDED_BYTES_MAX: u64 = 4 << 10;

/// Functions by how their results grow, names set apart by blanks.
const GROWTHS: [(Growth, &str); 13] = [
    (Growth::Kept, "held"),
    (Growth::Times, "array_repeat repeat"),
    (Growth::Padded, "lpad rpad"),
    (Growth::Resized, "array_resize"),
    (Growth::Series, "generate_series range"),
    (Growth::Replaced, "array_replace array_replace_all array_replace_n replace"),
    (Growth::Rewritten, "regexp_replace"),
    (Growth::Joined, "array_to_string"),
    (Growth::JoinedBy, "concat_ws"),
    (Growth::Zipped, "arrays_zip"),
    (
        Growth::Searched,
        "regexp_count regexp_instr regexp_like regexp_match text_search text_search_any_case text_search_not \
         text_search_not_any_case",
    ),
    (Growth::Compared, "levenshtein"),
    (
        Growth::Sum,
        "allocation_first allocation_keys allocation_of allocation_values array_add array_any_value array_append array_compact array_concat array_distinct array_element \
         array_except array_intersect array_max array_min array_normalize array_pop_back array_pop_front \
         array_positions array_prepend array_remove array_remove_all array_remove_n array_reverse array_scale \
         array_slice array_sort array_subtract array_union arrow_cast arrow_try_cast btrim cast cast_to_type \
         concat decode encode exph_from_otel exph_of flatten get_field greatest initcap least left lower ltrim make_array map \
         map_entries map_extract map_keys map_values named_struct nullif overlay reverse right rtrim \
         split_part string_to_array struct substr substr_index text_concat to_char translate try_cast try_cast_to_type \
         union_extract upper with_metadata",
    ),
];

/// The function within bounds of `bytes_max` a column of a batch; `None` if its results are small whatever its arguments.
pub(crate) fn of(function: &Arc<ScalarUDF>, bytes_max: usize) -> Option<Arc<ScalarUDF>> {
    let inner: &dyn Any = function.inner().as_ref();
    if inner.is::<Bounded>() {
        return None;
    }
    let growth = growth(function.name())?;
    let bounded = Bounded { inner: function.as_ref().clone(), growth, bytes_max: bytes_max as u64 };
    Some(Arc::new(ScalarUDF::from(bounded)))
}

/// Whether every value takes a few bytes.
pub(crate) fn is_small(kind: &DataType) -> bool {
    kind.is_primitive() || kind.is_null() || *kind == DataType::Boolean
}

fn growth(function: &str) -> Option<Growth> {
    let is_among = |names: &str| names.split_ascii_whitespace().any(|name| name == function);
    GROWTHS.into_iter().find(|(_, names)| is_among(names)).map(|(growth, _)| growth)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: ScalarUDF,
    growth: Growth,
    bytes_max: u64,
}

impl Bounded {
    /// Made in pieces of a few rows each, so that what is refused was never made.
    fn in_pieces(&self, arguments: &ScalarFunctionArgs, bounds: &[u64]) -> Result<ColumnarValue> {
        let mut made = Vec::new();
        let mut bytes = 0_u64;
        for piece in pieces(bounds) {
            running::check()?;
            let rows = piece.len();
            // All arguments are constant where one bound stands for all rows.
            let whole = bounds.len() < arguments.number_rows;
            let value =
                self.inner.invoke_with_args(if whole { arguments.clone() } else { slice(arguments, &piece) })?;
            bytes = bytes.saturating_add(match &value {
                ColumnarValue::Scalar(scalar) => size_of_scalar(scalar)?.saturating_mul(arguments.number_rows as u64),
                ColumnarValue::Array(array) => Sizes::of_array(array)?.sum(array.len()),
            });
            self.check(bytes, arguments.number_rows)?;
            made.push((value, rows));
        }
        let value = match made.as_slice() {
            [] => return self.inner.invoke_with_args(arguments.clone()),
            [(value, _)] => value.clone(),
            several => {
                let arrays = several.iter().map(|(value, rows)| value.to_array(*rows)).collect::<Result<Vec<_>>>()?;
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                ColumnarValue::Array(concat(&arrays)?)
            }
        };
        self.charged(value, bytes, arguments.number_rows)
    }

    fn check(&self, bytes: u64, rows: usize) -> Result<()> {
        let is_planning = matches!(running::current(), Some((_, Phase::Planning)));
        if is_planning && bytes > FOLDED_BYTES_MAX {
            return resources_err!("{}() makes a constant of more than {FOLDED_BYTES_MAX} bytes", self.inner.name());
        }
        if bytes > self.bytes_max {
            return Err(self.refusal(bytes, rows));
        }
        Ok(())
    }

    fn refusal(&self, bytes: u64, rows: usize) -> datafusion::common::DataFusionError {
        resources_datafusion_err!(
            "{}() over {rows} rows needs {bytes} bytes, more than the {} that one column of a batch may have \
             (query.column_bytes_max)",
            self.inner.name(),
            self.bytes_max
        )
    }

    /// The value, its bytes charged to the query until it is dropped.
    fn charged(&self, value: ColumnarValue, bytes: u64, rows: usize) -> Result<ColumnarValue> {
        let Some((running, _)) = running::current().filter(|_| bytes >= CHARGED_BYTES_MIN) else { return Ok(value) };
        let pool = Arc::clone(&running.memory) as Arc<dyn MemoryPool>;
        let reservation = MemoryConsumer::new(format!("{}()", self.inner.name())).register(&pool);
        reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let data = charge(value.into_array(rows)?.to_data(), reservation)?;
        Ok(ColumnarValue::Array(make_array(data)))
    }
}

/// Rows that are made together: as many as stay below the bound, one at least.
fn pieces(bounds: &[u64]) -> Vec<Range<usize>> {
    let (mut pieces, mut from, mut bytes) = (Vec::new(), 0, 0_u64);
    for (row, bound) in bounds.iter().enumerate() {
        if row > from && bytes.saturating_add(*bound) > PIECE_BYTES {
            pieces.push(from..row);
            (from, bytes) = (row, 0);
        }
        bytes = bytes.saturating_add(*bound);
    }
    if from < bounds.len() {
        pieces.push(from..bounds.len());
    }
    pieces
}

fn slice(arguments: &ScalarFunctionArgs, rows: &Range<usize>) -> ScalarFunctionArgs {
    let args = arguments.args.iter().map(|argument| match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(rows.start, rows.len())),
        scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
    });
    ScalarFunctionArgs { args: args.collect(), number_rows: rows.len(), ..arguments.clone() }
}

/// A buffer that gives its bytes back to the query when nobody holds it any more.
struct Charged {
    buffer: Buffer,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// The data with the reservation tied to one of its buffers, the innermost: an array lives as long as all of them.
fn charge(data: ArrayData, reservation: MemoryReservation) -> Result<ArrayData> {
    let mut children = data.child_data().to_vec();
    let mut buffers = data.buffers().to_vec();
    if let Some(child) = children.pop() {
        children.push(charge(child, reservation)?);
    } else if let Some(buffer) = buffers.pop() {
        buffers.push(Buffer::from(Bytes::from_owner(Charged { buffer, _reservation: reservation })));
    }
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}

impl ScalarUDFImpl for Bounded {
    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        running::check()?;
        if self.growth.is_small(&args.args, args.number_rows)? {
            return self.inner.invoke_with_args(args);
        }
        let bounds = self.growth.bounds(&args.args, args.number_rows)?;
        let total = match bounds.as_slice() {
            [same] => same.saturating_mul(args.number_rows as u64),
            each => each.iter().fold(0, |sum: u64, bound| sum.saturating_add(*bound)),
        };
        if total <= FOLDED_BYTES_MAX {
            return self.inner.invoke_with_args(args);
        }
        // Where arguments say how often, a bound is less than ten times what comes out: too much is refused before any of it is made.
        if self.growth.is_told() && total / 10 > self.bytes_max {
            return Err(self.refusal(total, args.number_rows));
        }
        if let Some(worst) = bounds.iter().max().filter(|worst| **worst > self.bytes_max) {
            return Err(self.refusal(*worst, 1));
        }
        self.in_pieces(&args, &bounds)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // Those join constants when they are simplified, and look at no bound.
        if self.name().starts_with("concat") {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.inner.inner().simplify(args, info)
    }

    fn with_updated_config(&self, config: &datafusion::config::ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::from(Bounded { inner, growth: self.growth, bytes_max: self.bytes_max }))
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated, reason = "passed on while it exists")]
        self.inner.inner().is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(input)
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.inner.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn struct_field_mapping(
        &self,
        literals: &[Option<ScalarValue>],
    ) -> Option<datafusion::logical_expr::StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{growth, pieces};

    /// Functions whose results are a few bytes a row, or which are rewritten to CASE before they run.
    const SMALL: &str = "abs acos acosh array_avg array_dims array_distance array_has array_has_all array_has_any \
        array_length array_ndims array_position array_product array_sum arrow_field arrow_metadata \
        arrow_typeof ascii asin asinh atan atan2 atanh bit_length cardinality cbrt ceil character_length chr \
        coalesce contains cos cosh cosine_distance cot current_date current_time date_bin date_part \
        date_trunc degrees digest empty ends_with exp factorial file_row_index find_in_set floor \
        from_unixtime gcd inner_product input_file_name isnan iszero lcm ln log log10 log2 make_date \
        make_time md5 nanvl now nvl nvl2 octet_length pi power radians random round sha224 sha256 sha384 \
        sha512 signum sin sinh sqrt starts_with strpos tan tanh to_date to_hex to_local_time to_time \
        to_timestamp to_timestamp_micros to_timestamp_millis to_timestamp_nanos to_timestamp_seconds \
        to_unixtime trunc union_tag uuid version";

    /// A function that comes with a newer version of the library is looked at before it is served.
    #[test]
    fn every_function_is_either_bounded_or_small() {
        let nested = datafusion::functions_nested::all_default_nested_functions();
        let all = datafusion::functions::all_default_functions().into_iter().chain(nested);
        let unknown: BTreeSet<_> = all
            .map(|function| function.name().to_owned())
            .filter(|name| growth(name).is_none() && !SMALL.split_ascii_whitespace().any(|small| small == name))
            .collect();
        assert_eq!(unknown, BTreeSet::new());
    }

    #[test]
    fn pieces_hold_every_row_once_and_little() {
        let megabyte = 1 << 20;
        assert_eq!(pieces(&[megabyte; 40]), [0..16, 16..32, 32..40]);
        assert_eq!(pieces(&[u64::MAX, 1, 1]), [0..1, 1..3]);
        assert_eq!(pieces(&[]), Vec::<std::ops::Range<usize>>::new());
    }
}
