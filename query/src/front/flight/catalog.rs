//! What there is to ask about: catalogs, schemas, tables, types, and what this server can do.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::Schema};
use arrow_flight::{
    error::FlightError,
    sql::{
        CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables, Nullable, Searchable, SqlInfo,
        SqlSupportedTransaction, XdbcDataType,
        metadata::{SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder},
    },
};
use telemetry::contract::SqlRequest;
use tonic::Status;

use super::{call::status, stream::plain};
use crate::{encode, execute::Engine, reader::Reader, session::CATALOG};

/// Version of the Arrow format libraries spoken here.
const ARROW_VERSION: &str = "59.3";

/// Every table a reader sees, by schema.
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_catalog = 'tokenwatt' ORDER BY 1, 2";

/// Kinds of tables there are, as `information_schema` spells them.
const TABLE_TYPES: [&str; 2] = ["BASE TABLE", "VIEW"];

struct Listed {
    schema: String,
    name: String,
    kind: String,
}

/// The one catalog.
pub(super) fn catalogs(query: CommandGetCatalogs) -> Result<RecordBatch, FlightError> {
    let mut builder = query.into_builder();
    builder.append(CATALOG);
    builder.build()
}

/// The schemas in which the reader sees a table.
pub(super) async fn schemas(
    engine: &Arc<Engine>,
    reader: &Arc<Reader>,
    query: CommandGetDbSchemas,
) -> Result<RecordBatch, Status> {
    let mut builder = query.into_builder();
    let mut names: Vec<String> = listed(engine, reader).await?.into_iter().map(|table| table.schema).collect();
    names.dedup();
    for name in names {
        builder.append(CATALOG, name);
    }
    Ok(builder.build()?)
}

/// The tables and views the reader sees, with their columns if asked for.
pub(super) async fn tables(
    engine: &Arc<Engine>,
    reader: &Arc<Reader>,
    query: CommandGetTables,
) -> Result<RecordBatch, Status> {
    let mut builder = query.into_builder();
    let with_columns = builder.include_schema();
    for Listed { schema, name, kind } in listed(engine, reader).await? {
        let columns = if with_columns { columns(engine, reader, &schema, &name).await? } else { Schema::empty() };
        builder.append(CATALOG, schema, name, kind, &columns)?;
    }
    Ok(builder.build()?)
}

async fn columns(engine: &Arc<Engine>, reader: &Arc<Reader>, schema: &str, name: &str) -> Result<Schema, Status> {
    let request = SqlRequest { sql: format!(r#"SELECT * FROM "{schema}"."{name}""#), ..SqlRequest::default() };
    let described = engine.describe(&request, reader).await.map_err(|error| status(&error))?;
    Ok(Schema::clone(&plain(&described.schema)))
}

async fn listed(engine: &Arc<Engine>, reader: &Arc<Reader>) -> Result<Vec<Listed>, Status> {
    let request = SqlRequest { sql: TABLES.to_owned(), ..SqlRequest::default() };
    let collected = engine.run(request, reader).await.map_err(|error| status(&error))?;
    let text = |batch: &RecordBatch, column: usize, row: usize| match encode::cell(batch.column(column).as_ref(), row) {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    let tables = collected.batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(move |row| Listed {
            schema: text(batch, 0, row),
            name: text(batch, 1, row),
            kind: text(batch, 2, row),
        })
    });
    Ok(tables.collect())
}

/// The kinds of tables.
pub(super) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch, FlightError> {
    let mut builder = query.into_builder();
    for kind in TABLE_TYPES {
        builder.append(kind);
    }
    builder.build()
}

/// What this server is and can do.
pub(super) fn server_info() -> Result<SqlInfoData, Status> {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Tokenwatt");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_VERSION);
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, false);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    info.build().map_err(|error| Status::internal(error.to_string()))
}

/// The types of columns, in SQL's words.
pub(super) fn types() -> Result<XdbcTypeInfoData, Status> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size, radix) in [
        ("STRING", XdbcDataType::XdbcVarchar, None, None),
        ("BIGINT", XdbcDataType::XdbcBigint, Some(64), Some(2)),
        ("INT", XdbcDataType::XdbcInteger, Some(32), Some(2)),
        ("DOUBLE", XdbcDataType::XdbcDouble, Some(53), Some(2)),
        ("DECIMAL", XdbcDataType::XdbcDecimal, Some(38), Some(10)),
        ("BOOLEAN", XdbcDataType::XdbcBit, None, None),
        ("DATE", XdbcDataType::XdbcDate, None, None),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, None, None),
    ] {
        types.append(described(name, kind, size, radix));
    }
    types.build().map_err(|error| Status::internal(error.to_string()))
}

fn described(name: &str, kind: XdbcDataType, size: Option<i32>, radix: Option<i32>) -> XdbcTypeInfo {
    let is_quoted = matches!(kind, XdbcDataType::XdbcVarchar | XdbcDataType::XdbcDate | XdbcDataType::XdbcTimestamp);
    let quote = is_quoted.then(|| "'".to_owned());
    XdbcTypeInfo {
        type_name: name.to_owned(),
        data_type: kind,
        column_size: size,
        literal_prefix: quote.clone(),
        literal_suffix: quote,
        create_params: None,
        nullable: Nullable::NullabilityNullable,
        case_sensitive: kind == XdbcDataType::XdbcVarchar,
        searchable: Searchable::Full,
        unsigned_attribute: radix.map(|_| false),
        fixed_prec_scale: false,
        auto_increment: None,
        local_type_name: None,
        minimum_scale: None,
        maximum_scale: None,
        sql_data_type: kind,
        datetime_subcode: None,
        num_prec_radix: radix,
        interval_precision: None,
    }
}
