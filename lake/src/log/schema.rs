//! A table's Delta metadata, derived from the registry, and what to do when the two differ.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};
use service::{Error, Result};
use telemetry::table::{Column, Kind, PARTITION, Table};

use super::action::{Format, Metadata, Protocol};
use crate::snapshot::stats_columns;

/// Every reader since 2019 understands this, and we need no more.
pub const PROTOCOL: Protocol = Protocol { min_reader_version: 1, min_writer_version: 2 };

/// Metadata of a table that is about to be created.
pub fn metadata(table: &Table, id: String, now_ms: i64) -> Metadata {
    let mut fields: Vec<Json> = table.columns().map(field).collect();
    fields.push(
        json!({ "name": PARTITION, "type": "date", "nullable": true, "metadata": { "comment": "UTC date of time" } }),
    );
    Metadata {
        id,
        name: Some(table.name.to_owned()),
        description: Some(table.doc.to_owned()),
        format: Format { provider: "parquet".to_owned(), options: BTreeMap::new() },
        schema_string: structure(&fields),
        partition_columns: vec![PARTITION.to_owned()],
        configuration: properties(table),
        created_time: Some(now_ms),
    }
}

/// How a table's stored schema differs from the registry's.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference {
    /// It does not.
    None,
    /// The registry has more columns; this metadata adds them.
    Older(Box<Metadata>),
    /// The table has columns that the registry does not know.
    Newer(Vec<String>),
}

/// Compares a table's stored schema with the registry's.
///
/// # Errors
/// `Corrupt` if the schema cannot be read, `Conflict` if a column has another type or the table is not partitioned by date.
pub fn compare(table: &Table, stored: &Metadata) -> Result<Difference> {
    if stored.partition_columns != [PARTITION] {
        let found = stored.partition_columns.join(", ");
        return Err(Error::conflict(format!("table {} is partitioned by `{found}`, not by date", table.name)));
    }
    let mut fields = stored_fields(table, stored)?;
    let mut unknown = Vec::new();
    for stored_field in &fields {
        let name = stored_field["name"].as_str().unwrap_or_default();
        match table.column(name) {
            Some(column) if stored_field["type"] == delta_type(column.kind) => {}
            Some(column) => return Err(retyped(table, column, &stored_field["type"])),
            None if name == PARTITION => {}
            None => unknown.push(name.to_owned()),
        }
    }
    if !unknown.is_empty() {
        return Ok(Difference::Newer(unknown));
    }
    let known = |column: &Column| fields.iter().any(|f| f["name"] == column.name);
    let missing: Vec<Json> = table.columns().filter(|column| !known(column)).map(added_field).collect();
    if missing.is_empty() {
        return Ok(Difference::None);
    }
    fields.extend(missing);
    Ok(Difference::Older(Box::new(Metadata { schema_string: structure(&fields), ..stored.clone() })))
}

/// The error of a writer that meets a table newer than itself.
pub fn newer(table: &Table, columns: &[String]) -> Error {
    let columns = columns.join(", ");
    Error::conflict(format!("table {} has columns that this version of Tokenwatt does not know: {columns}", table.name))
        .with_hint("a newer Tokenwatt writes to this lake; update this one before it writes too")
}

/// Refuses a table that needs abilities we do not have.
///
/// # Errors
/// `Conflict`.
pub fn supported(table: &Table, protocol: &Protocol) -> Result<()> {
    if protocol.min_reader_version <= PROTOCOL.min_reader_version
        && protocol.min_writer_version <= PROTOCOL.min_writer_version
    {
        return Ok(());
    }
    let (reader, writer) = (protocol.min_reader_version, protocol.min_writer_version);
    Err(Error::conflict(format!("table {} needs Delta reader {reader} and writer {writer}", table.name))
        .with_hint("Tokenwatt's tables stay at reader 1 and writer 2; another tool upgraded this one"))
}

fn retyped(table: &Table, column: &Column, found: &Json) -> Error {
    Error::conflict(format!("column {}.{} is stored as {found}, not as {}", table.name, column.name, column.kind.sql()))
}

fn stored_fields(table: &Table, stored: &Metadata) -> Result<Vec<Json>> {
    let unreadable = || Error::corrupt(format!("schema of table {} cannot be read", table.name));
    let schema: Json = serde_json::from_str(&stored.schema_string).map_err(|e| unreadable().with_source(e))?;
    schema["fields"].as_array().cloned().ok_or_else(unreadable)
}

fn structure(fields: &[Json]) -> String {
    json!({ "type": "struct", "fields": fields }).to_string()
}

fn field(column: &Column) -> Json {
    described(column, column.name != "time")
}

/// Older files do not hold an added column, so it is always nullable.
fn added_field(column: &'static Column) -> Json {
    described(column, true)
}

fn described(column: &Column, nullable: bool) -> Json {
    let mut notes = json!({ "comment": column.doc });
    if !column.unit.is_empty() {
        notes["unit"] = column.unit.into();
    }
    json!({ "name": column.name, "type": delta_type(column.kind), "nullable": nullable, "metadata": notes })
}

fn delta_type(kind: Kind) -> Json {
    match kind {
        Kind::Time => json!("timestamp"),
        Kind::Text => json!("string"),
        Kind::Int => json!("long"),
        Kind::Double => json!("double"),
        Kind::Bool => json!("boolean"),
        Kind::Money => json!("decimal(38,12)"),
        Kind::Map => json!({ "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true }),
        Kind::IntList => array("long"),
        Kind::DoubleList => array("double"),
    }
}

fn array(element: &str) -> Json {
    json!({ "type": "array", "elementType": element, "containsNull": true })
}

fn properties(table: &Table) -> BTreeMap<String, Option<String>> {
    let skipping: Vec<_> = stats_columns(table).iter().map(|column| column.name).collect();
    let settings = [
        // Retention removes files.
        ("delta.appendOnly", "false".to_owned()),
        // Other engines that commit here must neither clean the log nor write checkpoints beside our maintenance.
        ("delta.enableExpiredLogCleanup", "false".to_owned()),
        ("delta.checkpointInterval", "1000000".to_owned()),
        ("delta.deletedFileRetentionDuration", "interval 1 days".to_owned()),
        ("delta.dataSkippingStatsColumns", skipping.join(",")),
    ];
    settings.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect()
}

#[cfg(test)]
mod tests;
