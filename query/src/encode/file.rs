//! Answers for machines: NDJSON, CSV, Arrow IPC, Parquet.

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use datafusion::common::Result;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use serde_json::{Map, Value};

/// One JSON object a line.
pub(crate) fn ndjson(batches: &[RecordBatch]) -> Vec<u8> {
    let mut text = String::new();
    for batch in batches {
        let schema = batch.schema();
        for row in super::rows(batch) {
            let names = schema.fields().iter().map(|field| field.name().clone());
            let object: Map<String, Value> = names.zip(row).collect();
            text.push_str(&Value::Object(object).to_string());
            text.push('\n');
        }
    }
    text.into_bytes()
}

/// CSV as RFC 4180 has it, with a header. An unknown value is an empty field, an empty text a pair of quotes; maps and lists are
/// JSON text.
pub(crate) fn csv(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut text = String::new();
    line(&mut text, schema.fields().iter().map(|field| Some(field.name().clone())));
    for batch in batches {
        for row in super::rows(batch) {
            line(&mut text, row.into_iter().map(plain));
        }
    }
    text.into_bytes()
}

fn line(text: &mut String, fields: impl Iterator<Item = Option<String>>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            text.push(',');
        }
        let Some(field) = field else { continue };
        if field.is_empty() || field.contains([',', '"', '\n', '\r']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

fn plain(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// An Arrow IPC stream.
///
/// # Errors
/// What Arrow's writer gives.
pub(crate) fn arrow_stream(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?)
}

/// A Parquet file.
///
/// # Errors
/// What Parquet's writer gives, for one a column type that Parquet does not have.
pub(crate) fn parquet(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), SchemaRef::clone(schema), Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?)
}
