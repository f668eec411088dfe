//! Metrics: every data point into `metrics` or `histograms` as it was sent; what samples a device also into `devices`.

use super::device::Samples;
use super::quarantine::metric_of;
use super::resource::{Stored, named_text};
use super::row::{Origin, micros, origin};
use super::{Normalizer, Place, window};
use crate::batch::rows::{Rows, columns};
use crate::batch::tables::Tables;
use crate::decode::schema::{Kind, Message};
use crate::decode::view::{Attribute, Item, Packed, text};
use crate::decode::wire::{Fields, Malformed, Raw, zigzag};
use crate::decode::{check, print, schema};
use crate::signal::Signal;

columns! {
    /// Columns of `metrics` beyond the dimensions.
    pub(super) Columns of telemetry::table::METRICS: time name description unit kind temporality monotonic
        start_unix_nano time_unix_nano value value_int flags exemplars metadata tenant attributes attributes_typed
        resource resource_typed resource_schema_url resource_dropped scope_name scope_version scope_attributes
        scope_typed scope_schema_url scope_dropped resource_entities
}

columns! {
    /// Columns of `histograms` beyond the dimensions.
    pub(super) HistogramColumns of telemetry::table::HISTOGRAMS: time name description unit kind temporality
        start_unix_nano time_unix_nano count sum min max bounds counts scale zero_count zero_threshold positive_offset
        positive_counts negative_offset negative_counts quantiles quantile_values flags exemplars metadata tenant
        attributes attributes_typed resource resource_typed resource_schema_url resource_dropped scope_name
        scope_version scope_attributes scope_typed scope_schema_url scope_dropped resource_entities
}

/// Temporalities by their OTLP number.
const TEMPORALITIES: [&str; 3] = ["unspecified", "delta", "cumulative"];

/// A metric without its points.
#[derive(Clone, Copy, Default)]
pub(super) struct Metric<'a> {
    pub(super) name: &'a str,
    description: &'a str,
    pub(super) unit: &'a str,
    bytes: &'a [u8],
    /// Field of the metric that holds the data, which is its kind.
    field: u32,
    temporality: Option<u64>,
    monotonic: Option<bool>,
    data: &'a [u8],
    has_metadata: bool,
}

impl<'a> Metric<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut metric = Self { bytes, ..Self::default() };
        for field in Fields::new(bytes) {
            match field? {
                (1, Raw::Bytes(name)) => metric.name = text(name)?,
                (2, Raw::Bytes(description)) => metric.description = text(description)?,
                (3, Raw::Bytes(unit)) => metric.unit = text(unit)?,
                (12, Raw::Bytes(_)) => metric.has_metadata = true,
                (number, Raw::Bytes(data)) if check::point_message(number).is_some() => {
                    (metric.field, metric.data) = (number, data);
                }
                _ => {}
            }
        }
        // Sums and histograms have a temporality even where it is the zero that the wire leaves out.
        metric.temporality = matches!(metric.field, 7 | 9 | 10).then_some(0);
        metric.monotonic = (metric.field == 7).then_some(false);
        for field in Fields::new(metric.data) {
            match field? {
                (2, Raw::Varint(number)) if metric.temporality.is_some() => metric.temporality = Some(number),
                (3, Raw::Varint(flag)) if metric.monotonic.is_some() => metric.monotonic = Some(flag != 0),
                _ => {}
            }
        }
        Ok(metric)
    }

    fn kind(&self) -> &'static str {
        match self.field {
            5 => "gauge",
            7 => "sum",
            9 => "histogram",
            10 => "exponential_histogram",
            _ => "summary",
        }
    }

    fn temporality(&self) -> Option<&'static str> {
        let number = usize::try_from(self.temporality?).ok()?;
        Some(TEMPORALITIES.get(number).copied().unwrap_or("unspecified"))
    }

    /// Field of a point that holds its attributes, and the one that holds its exemplars.
    fn point_fields(&self) -> (u32, u32) {
        match self.field {
            5 | 7 => (7, 5),
            9 => (9, 8),
            10 => (1, 11),
            _ => (7, 0),
        }
    }
}

/// Columns that `metrics` and `histograms` have in common.
struct Common {
    time: usize,
    name: usize,
    description: usize,
    unit: usize,
    kind: usize,
    temporality: usize,
    exemplars: usize,
    metadata: usize,
    tenant: usize,
    attributes: usize,
    attributes_typed: usize,
    origin: Origin,
}

macro_rules! common {
    ($columns:expr) => {
        Common {
            time: $columns.time,
            name: $columns.name,
            description: $columns.description,
            unit: $columns.unit,
            kind: $columns.kind,
            temporality: $columns.temporality,
            exemplars: $columns.exemplars,
            metadata: $columns.metadata,
            tenant: $columns.tenant,
            attributes: $columns.attributes,
            attributes_typed: $columns.attributes_typed,
            origin: origin!($columns),
        }
    };
}

impl Normalizer {
    /// Appends the data points of one metric.
    pub(super) fn metric<'a>(
        &mut self,
        place: &Place<'_, 'a>,
        bytes: &'a [u8],
        attributes: &mut Vec<Attribute<'a>>,
        samples: &mut Samples<'a>,
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        if place.body.faulty && !check::metric_sound(bytes)? {
            return Ok(());
        }
        let metric = Metric::read(bytes)?;
        let Some(message) = check::point_message(metric.field) else { return Ok(()) };
        for field in Fields::new(metric.data) {
            let (1, Raw::Bytes(point)) = field? else { continue };
            if place.body.faulty && check::item_fault(Signal::Metrics, message, point)?.is_some() {
                continue;
            }
            let item = Item { name: metric.name, ..Item::read(Signal::Metrics, point)? };
            if window::late(Signal::Metrics, &item, place.body.received_us) {
                self.quarantine(place, &item, &metric_of(bytes, metric.field, point)?, tables)?;
                continue;
            }
            Attribute::read_all(point, metric.point_fields().0, attributes)?;
            match metric.field {
                5 | 7 => {
                    let number = Number::read(point)?;
                    self.sample(place.resource, &metric, &number, attributes, samples);
                    self.number_row(place, &metric, &number, point, attributes, tables)?;
                }
                _ => self.histogram_row(place, &metric, message, point, attributes, tables)?,
            }
        }
        Ok(())
    }

    fn number_row<'a>(
        &self,
        place: &Place<'_, 'a>,
        metric: &Metric<'a>,
        number: &Number,
        point: &[u8],
        attributes: &[Attribute<'a>],
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.metrics;
        let time_us = micros(number.time);
        let Some(rows) = tables.metrics.rows(time_us) else { return Ok(()) };
        if let Some(monotonic) = metric.monotonic {
            rows.flag(columns.monotonic, monotonic);
        }
        rows.int(columns.start_unix_nano, number.start as i64);
        rows.int(columns.time_unix_nano, number.time as i64);
        rows.double_opt(columns.value, number.value());
        rows.int_opt(columns.value_int, number.integer);
        rows.int(columns.flags, i64::from(number.flags));
        self.common(place, metric, point, time_us, attributes, &common!(columns), rows)
    }

    fn histogram_row<'a>(
        &self,
        place: &Place<'_, 'a>,
        metric: &Metric<'a>,
        message: &'static Message,
        point: &[u8],
        attributes: &[Attribute<'a>],
        tables: &mut Tables,
    ) -> Result<(), Malformed> {
        let columns = &self.columns.histograms;
        let time_us = micros(Item::read(Signal::Metrics, point)?.time);
        let Some(rows) = tables.histograms.rows(time_us) else { return Ok(()) };
        write_histogram(columns, message, point, rows)?;
        self.common(place, metric, point, time_us, attributes, &common!(columns), rows)
    }

    #[allow(clippy::too_many_arguments, reason = "one row's parts, each from another place")]
    fn common<'a>(
        &self,
        place: &Place<'_, 'a>,
        metric: &Metric<'a>,
        point: &[u8],
        time_us: i64,
        attributes: &[Attribute<'a>],
        columns: &Common,
        rows: &mut Rows,
    ) -> Result<(), Malformed> {
        rows.time(columns.time, time_us);
        place.resource.write(rows);
        rows.text(columns.name, metric.name);
        rows.text_some(columns.description, metric.description);
        rows.text_some(columns.unit, metric.unit);
        rows.text(columns.kind, metric.kind());
        rows.text_opt(columns.temporality, metric.temporality());
        let exemplars = metric.point_fields().1;
        if exemplars != 0 && Fields::new(point).any(|field| matches!(field, Ok((number, _)) if number == exemplars)) {
            let mut json = String::new();
            print::array(&schema::EXEMPLAR, exemplars, point, &self.redaction, &mut json)?;
            rows.text(columns.exemplars, &json);
        }
        if metric.has_metadata {
            let mut json = String::new();
            print::by_key(metric.bytes, 12, &self.redaction, &mut json)?;
            rows.text(columns.metadata, &json);
        }
        rows.text_opt(columns.tenant, named_text(attributes, telemetry::names::TENANT));
        Stored::new(attributes, &self.redaction)?.write(rows, columns.attributes, columns.attributes_typed);
        columns.origin.write(place, &self.redaction, rows)?;
        rows.end();
        Ok(())
    }
}

/// A point of a gauge or a sum, without its attributes.
#[derive(Default)]
pub(super) struct Number {
    pub(super) start: u64,
    pub(super) time: u64,
    double: Option<f64>,
    integer: Option<i64>,
    flags: u32,
}

impl Number {
    fn read(point: &[u8]) -> Result<Self, Malformed> {
        let mut number = Self::default();
        for field in Fields::new(point) {
            match field? {
                (2, Raw::Fixed64(time)) => number.start = time,
                (3, Raw::Fixed64(time)) => number.time = time,
                // Of the two values the one sent last holds.
                (4, Raw::Fixed64(bits)) => (number.double, number.integer) = (Some(f64::from_bits(bits)), None),
                (6, Raw::Fixed64(bits)) => (number.double, number.integer) = (None, Some(bits as i64)),
                (8, Raw::Varint(flags)) => number.flags = flags as u32,
                _ => {}
            }
        }
        Ok(number)
    }

    /// The value, also of integers; `None` if none was recorded.
    pub(super) fn value(&self) -> Option<f64> {
        self.double.or(self.integer.map(|value| value as f64))
    }
}

/// Writes what is special to a histogram's, exponential histogram's or summary's point.
fn write_histogram(
    columns: &HistogramColumns,
    message: &Message,
    point: &[u8],
    rows: &mut Rows,
) -> Result<(), Malformed> {
    rows.int(columns.start_unix_nano, fixed(message, point, "startTimeUnixNano")?.unwrap_or_default() as i64);
    rows.int(columns.time_unix_nano, fixed(message, point, "timeUnixNano")?.unwrap_or_default() as i64);
    rows.int(columns.count, fixed(message, point, "count")?.unwrap_or_default() as i64);
    rows.int(columns.flags, varint(message, point, "flags")?.unwrap_or_default() as i64);
    let summary = message.named("quantileValues").is_some();
    let sum = fixed(message, point, "sum")?.or(summary.then_some(0));
    rows.double_opt(columns.sum, sum.map(f64::from_bits));
    rows.double_opt(columns.min, fixed(message, point, "min")?.map(f64::from_bits));
    rows.double_opt(columns.max, fixed(message, point, "max")?.map(f64::from_bits));
    if message.named("explicitBounds").is_some() {
        rows.doubles(columns.bounds, numbers(message, point, "explicitBounds")?.into_iter().map(f64::from_bits));
        rows.ints(columns.counts, numbers(message, point, "bucketCounts")?.into_iter().map(|count| count as i64));
    }
    if message.named("scale").is_some() {
        rows.int(columns.scale, varint(message, point, "scale")?.map(zigzag).unwrap_or_default());
        rows.int(columns.zero_count, fixed(message, point, "zeroCount")?.unwrap_or_default() as i64);
        let threshold = fixed(message, point, "zeroThreshold")?.unwrap_or_default();
        rows.double(columns.zero_threshold, f64::from_bits(threshold));
        write_buckets(point, 8, columns.positive_offset, columns.positive_counts, rows)?;
        write_buckets(point, 9, columns.negative_offset, columns.negative_counts, rows)?;
    }
    if summary {
        let (mut quantiles, mut values) = (Vec::new(), Vec::new());
        for field in Fields::new(point) {
            if let (6, Raw::Bytes(pair)) = field? {
                quantiles.push(f64::from_bits(fixed(&schema::QUANTILE, pair, "quantile")?.unwrap_or_default()));
                values.push(f64::from_bits(fixed(&schema::QUANTILE, pair, "value")?.unwrap_or_default()));
            }
        }
        rows.doubles(columns.quantiles, quantiles);
        rows.doubles(columns.quantile_values, values);
    }
    Ok(())
}

fn write_buckets(point: &[u8], number: u32, offset: usize, counts: usize, rows: &mut Rows) -> Result<(), Malformed> {
    for field in Fields::new(point) {
        let (found, value) = field?;
        if let Raw::Bytes(buckets) = value
            && found == number
        {
            rows.int(offset, varint(&schema::BUCKETS, buckets, "offset")?.map(zigzag).unwrap_or_default());
            let read = numbers(&schema::BUCKETS, buckets, "bucketCounts")?;
            rows.ints(counts, read.into_iter().map(|count| count as i64));
            break;
        }
    }
    Ok(())
}

/// The value of an eight-byte field, by its JSON name.
fn fixed(message: &Message, bytes: &[u8], name: &str) -> Result<Option<u64>, Malformed> {
    last(message, bytes, name, |value| match value {
        Raw::Fixed64(bits) => Some(bits),
        _ => None,
    })
}

/// The value of a varint field, by its JSON name.
fn varint(message: &Message, bytes: &[u8], name: &str) -> Result<Option<u64>, Malformed> {
    last(message, bytes, name, |value| match value {
        Raw::Varint(number) => Some(number),
        _ => None,
    })
}

fn last(
    message: &Message,
    bytes: &[u8],
    name: &str,
    pick: impl Fn(Raw<'_>) -> Option<u64>,
) -> Result<Option<u64>, Malformed> {
    let Some(wanted) = message.named(name) else { return Ok(None) };
    let mut found = None;
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        if number == wanted.number {
            found = pick(value).or(found);
        }
    }
    Ok(found)
}

/// All values of a repeated number, packed or not, by its JSON name.
fn numbers(message: &Message, bytes: &[u8], name: &str) -> Result<Vec<u64>, Malformed> {
    let mut read = Vec::new();
    let Some(wanted) = message.named(name) else { return Ok(read) };
    for field in Fields::new(bytes) {
        match field? {
            (number, Raw::Bytes(packed)) if number == wanted.number => {
                for value in Packed::new(wanted.kind, packed) {
                    read.push(value?);
                }
            }
            (number, Raw::Fixed64(value) | Raw::Varint(value)) if number == wanted.number => read.push(value),
            _ => {}
        }
    }
    Ok(read)
}

const _: () = assert!(matches!(schema::QUANTILE.fields[0].kind, Kind::Double));
