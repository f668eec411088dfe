//! Batches on their way to the client.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    ipc::{root_as_message, writer::IpcWriteOptions},
};
use arrow_flight::{
    FlightData, IpcMessage, SchemaAsIpc, decode::FlightRecordBatchStream, encode::FlightDataEncoderBuilder,
    error::FlightError, sql::server::PeekableFlightDataStream,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::Status;

use super::{Answers, call::status, handle::Entry};
use crate::execute::Opened;

/// Messages of one row of parameters: its schema, dictionaries, the row.
const MESSAGES_MAX: usize = 64;

/// The answer as flight data, listed as running until its end.
pub(super) fn encoded(opened: Opened, entry: Entry) -> Answers {
    let schema = plain(&opened.schema);
    let wanted = Arc::clone(&schema);
    let batches = stream::unfold((opened.batches, Some(entry)), move |(mut batches, entry)| {
        let wanted = Arc::clone(&wanted);
        async move {
            // An error is the last there is.
            let entry = entry?;
            let (item, entry) = match batches.next().await {
                Some(Ok(batch)) => (recast(&batch, &wanted), Some(entry)),
                Some(Err(error)) => (Err(FlightError::from(status(&error))), None),
                // A stream has no place for "there is more", and rows that are missing in silence would be a wrong answer.
                None if batches.truncated() => (Err(FlightError::from(cut())), None),
                None => return None,
            };
            Some((item, (batches, entry)))
        }
    });
    Box::pin(FlightDataEncoderBuilder::new().with_schema(schema).build(batches).map_err(Status::from))
}

fn cut() -> Status {
    Status::out_of_range("the answer has more rows than query.max_rows; ask for fewer with LIMIT, or raise it")
}

/// One batch as flight data.
pub(super) fn encoded_batch(batch: RecordBatch) -> Answers {
    let schema = batch.schema();
    let batches = stream::iter([Ok(batch)]);
    Box::pin(FlightDataEncoderBuilder::new().with_schema(schema).build(batches).map_err(Status::from))
}

/// A schema as the messages of prepared statements carry it.
pub(super) fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    message.map(|message| message.0).map_err(|error: arrow::error::ArrowError| Status::internal(error.to_string()))
}

/// The one row of parameters that a client sends.
///
/// # Errors
/// `InvalidArgument` for none or several.
pub(super) async fn only_row(sent: PeekableFlightDataStream) -> Result<RecordBatch, Status> {
    let sent =
        sent.take(MESSAGES_MAX).map(|data| data.and_then(sound).map_err(|status| FlightError::Tonic(Box::new(status))));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(sent);
    let several = || Status::invalid_argument("send one row of parameters; several sets take several executions");
    let mut row = None;
    while let Some(batch) = batches.try_next().await.map_err(Status::from)? {
        match batch.num_rows() {
            0 => {}
            1 if row.is_none() => row = Some(batch),
            _ => return Err(several()),
        }
    }
    row.ok_or_else(several)
}

/// The message, if its parts lie within it. One that is compressed says itself how much memory it wants, and the decoder
/// believes it.
fn sound(data: FlightData) -> Result<FlightData, Status> {
    if data.data_header.is_empty() {
        return Ok(data);
    }
    let message = root_as_message(&data.data_header).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let dictionary = message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
    let batches = [message.header_as_record_batch(), dictionary];
    for batch in batches.into_iter().flatten() {
        if batch.compression().is_some() {
            return Err(Status::invalid_argument("send parameters without compression"));
        }
        let lies_within = |offset: i64, length: i64| {
            let end = offset.checked_add(length).and_then(|end| usize::try_from(end).ok());
            offset >= 0 && length >= 0 && end.is_some_and(|end| end <= data.data_body.len())
        };
        if !batch.buffers().iter().flatten().all(|buffer| lies_within(buffer.offset(), buffer.length())) {
            return Err(Status::invalid_argument("the parameters are cut short"));
        }
    }
    Ok(data)
}

/// The schema as clients get it: texts as plain strings, because views are younger than many clients, and every column nullable,
/// because what a plan knows of that is more than its statement does, and the two must agree.
pub(super) fn plain(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(|field| plain_field(field)).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn plain_field(field: &Field) -> FieldRef {
    let kind = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) => DataType::LargeList(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| plain_field(field)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_entries(entries), *sorted),
        other => other.clone(),
    };
    Arc::new(field.clone().with_data_type(kind).with_nullable(true))
}

/// Entries of a map and their keys are always there.
fn plain_entries(entries: &Field) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else { return Arc::new(entries.clone()) };
    let parts = fields.iter().enumerate().map(|(at, field)| {
        let part = plain_field(field);
        if at == 0 { Arc::new(Field::clone(&part).with_nullable(false)) } else { part }
    });
    Arc::new(entries.clone().with_data_type(DataType::Struct(parts.collect())))
}

fn recast(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, FlightError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(ArrayRef::clone(column))
        } else {
            cast(column, field.data_type())
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
