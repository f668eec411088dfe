//! An answer with the meaning of each column in its field's metadata, `comment` and `unit`, for clients that read Arrow or Parquet.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::physical_plan::{SendableRecordBatchStream, stream::RecordBatchStreamAdapter};
use futures::StreamExt;
use telemetry::contract::AnswerColumn;

/// The stream, its schema and batches annotated.
pub(super) fn meant(stream: SendableRecordBatchStream, columns: &[AnswerColumn]) -> SendableRecordBatchStream {
    let schema = annotated(&stream.schema(), columns);
    let annotated = SchemaRef::clone(&schema);
    let batches = stream.map(move |batch| Ok(batch?.with_schema(SchemaRef::clone(&annotated))?));
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// The schema with what its columns mean.
pub(super) fn annotated(schema: &SchemaRef, columns: &[AnswerColumn]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(index, field)| {
        let mut metadata = field.metadata().clone();
        if let Some(column) = columns.get(index) {
            let told = [("comment", &column.comment), ("unit", &column.unit)];
            metadata.extend(told.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?))));
        }
        field.as_ref().clone().with_metadata(metadata)
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
