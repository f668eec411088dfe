//! Answers for machines: NDJSON, CSV, Arrow IPC, Parquet.

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use datafusion::common::Result;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use serde_json::{Map, Value};

/// Writes an answer batch for batch, in a form that needs no end to be begun.
pub(crate) enum Encoder {
    /// One JSON object a line.
    Ndjson,
    /// CSV as RFC 4180 has it, with a header. An unknown value is an empty field, an empty text a pair of quotes; maps and lists are
    /// JSON text.
    Csv(SchemaRef),
    /// An Arrow IPC stream.
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl Encoder {
    /// An encoder of an Arrow IPC stream.
    ///
    /// # Errors
    /// What Arrow's writer gives.
    pub(crate) fn arrow(schema: &SchemaRef) -> Result<Encoder> {
        Ok(Encoder::Arrow(Box::new(StreamWriter::try_new(Vec::new(), schema)?)))
    }

    /// What comes before the first row.
    pub(crate) fn head(&mut self) -> Vec<u8> {
        match self {
            Encoder::Ndjson => Vec::new(),
            Encoder::Csv(schema) => {
                let mut text = String::new();
                line(&mut text, schema.fields().iter().map(|field| Some(field.name().clone())));
                text.into_bytes()
            }
            Encoder::Arrow(writer) => std::mem::take(writer.get_mut()),
        }
    }

    /// The rows of a batch.
    ///
    /// # Errors
    /// What Arrow's writer gives.
    pub(crate) fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        Ok(match self {
            Encoder::Ndjson => objects(batch),
            Encoder::Csv(_) => {
                let mut text = String::new();
                super::rows(batch).into_iter().for_each(|row| line(&mut text, row.into_iter().map(plain)));
                text.into_bytes()
            }
            Encoder::Arrow(writer) => {
                writer.write(batch)?;
                std::mem::take(writer.get_mut())
            }
        })
    }

    /// What comes after the last row.
    ///
    /// # Errors
    /// What Arrow's writer gives.
    pub(crate) fn end(&mut self) -> Result<Vec<u8>> {
        match self {
            Encoder::Ndjson | Encoder::Csv(_) => Ok(Vec::new()),
            Encoder::Arrow(writer) => {
                writer.finish()?;
                Ok(std::mem::take(writer.get_mut()))
            }
        }
    }
}

fn objects(batch: &RecordBatch) -> Vec<u8> {
    let (schema, mut text) = (batch.schema(), String::new());
    for row in super::rows(batch) {
        let names = schema.fields().iter().map(|field| field.name().clone());
        let object: Map<String, Value> = names.zip(row).collect();
        text.push_str(&Value::Object(object).to_string());
        text.push('\n');
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
