//! The tables of `pg_catalog` that say what is ours. Their columns are the library's; those that mean nothing here hold what they
//! hold in a PostgreSQL without that feature.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
        new_null_array,
    },
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::common::Result;
use datafusion_pg_catalog::pg_catalog::PgCatalogStaticTables;

use super::relations::{Column, NAMESPACES, Relation};
use crate::{
    encode::postgres::{kind, modifier, size},
    session::CATALOG,
};

/// Their names.
pub(super) const NAMES: [&str; 8] =
    ["pg_attribute", "pg_class", "pg_database", "pg_description", "pg_namespace", "pg_roles", "pg_tables", "pg_views"];

/// Number of the one role, to whom everything belongs.
const OWNER: i32 = 10;
/// Number of the one database.
const DATABASE: i32 = 5;
/// Numbers of what a comment may be about.
const CLASS_CLASS: i32 = 1259;
const DEFAULT_COLLATION: i32 = 100;
const UTF8: i32 = 6;

/// The columns of the table of that name: the library's, and those that clients ask for and it lacks.
pub(super) fn columns(name: &str, library: &SchemaRef) -> SchemaRef {
    if name != "pg_class" {
        return Arc::clone(library);
    }
    let text = || Arc::new(Field::new("item", DataType::Utf8, true));
    let lists = ["relacl", "reloptions"].map(|name| Arc::new(Field::new(name, DataType::List(text()), true)));
    Arc::new(Schema::new(library.fields().iter().cloned().chain(lists).collect::<Vec<_>>()))
}

/// The table of that name.
pub(super) fn table(
    name: &str,
    schema: &SchemaRef,
    relations: &[&Relation],
    library: &PgCatalogStaticTables,
) -> Result<Vec<RecordBatch>> {
    let own = match name {
        "pg_attribute" => attributes(schema, relations),
        "pg_class" => classes(schema, relations),
        "pg_database" => database(schema),
        "pg_description" => return descriptions(schema, relations, library),
        "pg_namespace" => namespaces(schema),
        "pg_roles" => roles(schema),
        "pg_tables" => named(schema, relations, false),
        _ => named(schema, relations, true),
    };
    Ok(vec![own?])
}

fn namespace(schema: &str) -> i32 {
    NAMESPACES.iter().find(|(_, name)| *name == schema).map_or(0, |(oid, _)| *oid)
}

fn classes(schema: &SchemaRef, relations: &[&Relation]) -> Result<RecordBatch> {
    let of = || relations.iter().copied();
    filled(
        schema,
        of().count(),
        vec![
            ("oid", ints(of().map(|relation| relation.oid))),
            ("relname", texts(of().map(|relation| Some(relation.name.as_str())))),
            ("relnamespace", ints(of().map(|relation| namespace(&relation.schema)))),
            ("relowner", ints(of().map(|_| OWNER))),
            ("relfilenode", ints(of().map(|relation| if relation.is_view { 0 } else { relation.oid }))),
            // As of a table that was never analyzed.
            ("reltuples", Arc::new(of().map(|_| Some(-1.0)).collect::<Float64Array>())),
            ("relpersistence", texts(of().map(|_| Some("p")))),
            ("relkind", texts(of().map(|relation| Some(if relation.is_view { "v" } else { "r" })))),
            ("relnatts", shorts(of().map(|relation| relation.columns.len()))),
            ("relispopulated", truths(of().map(|_| true))),
            ("relreplident", texts(of().map(|_| Some("n")))),
        ],
    )
}

fn attributes(schema: &SchemaRef, relations: &[&Relation]) -> Result<RecordBatch> {
    let columns: Vec<(&Relation, usize, &Column)> = relations
        .iter()
        .copied()
        .flat_map(|relation| relation.columns.iter().zip(1..).map(move |(column, number)| (relation, number, column)))
        .collect();
    let of = || columns.iter();
    let types: Vec<_> = of().map(|(.., column)| kind(&column.kind)).collect();
    let has_collation = |of: &pgwire::api::Type| *of == pgwire::api::Type::TEXT;
    filled(
        schema,
        columns.len(),
        vec![
            ("attrelid", ints(of().map(|(relation, ..)| relation.oid))),
            ("attname", texts(of().map(|(.., column)| Some(column.name.as_str())))),
            ("atttypid", ints(types.iter().map(|kind| i32::try_from(kind.oid()).unwrap_or(0)))),
            ("attstattarget", ints(of().map(|_| -1))),
            ("attlen", Arc::new(types.iter().map(|kind| Some(size(kind))).collect::<Int16Array>())),
            ("attnum", shorts(of().map(|(_, number, _)| *number))),
            ("atttypmod", ints(of().map(|(.., column)| modifier(&column.kind)))),
            ("attbyval", truths(types.iter().map(|kind| matches!(size(kind), 1..=8)))),
            ("attalign", texts(types.iter().map(|kind| Some(if size(kind) == 8 { "d" } else { "i" })))),
            ("attstorage", texts(types.iter().map(|kind| Some(if size(kind) > 0 { "p" } else { "x" })))),
            ("attnotnull", truths(of().map(|(.., column)| !column.is_nullable))),
            ("attislocal", truths(of().map(|_| true))),
            ("attcollation", ints(types.iter().map(|kind| if has_collation(kind) { DEFAULT_COLLATION } else { 0 }))),
        ],
    )
}

/// The library's comments on what is PostgreSQL's, and ours on relations and columns.
fn descriptions(
    schema: &SchemaRef,
    relations: &[&Relation],
    library: &PgCatalogStaticTables,
) -> Result<Vec<RecordBatch>> {
    let mut comments: Vec<(i32, i32, &str)> = Vec::new();
    for relation in relations.iter() {
        comments.extend(relation.doc.map(|doc| (relation.oid, 0, doc)));
        let numbered = relation.columns.iter().zip(1..);
        comments.extend(numbered.filter_map(|(column, number)| Some((relation.oid, number, column.doc.as_deref()?))));
    }
    let of = || comments.iter();
    let own = filled(
        schema,
        comments.len(),
        vec![
            ("objoid", ints(of().map(|(oid, ..)| *oid))),
            ("classoid", ints(of().map(|_| CLASS_CLASS))),
            ("objsubid", ints(of().map(|(_, number, _)| *number))),
            ("description", texts(of().map(|(.., doc)| Some(*doc)))),
        ],
    )?;
    Ok(library.pg_description.data().iter().cloned().chain([own]).collect())
}

fn namespaces(schema: &SchemaRef) -> Result<RecordBatch> {
    filled(
        schema,
        NAMESPACES.len(),
        vec![
            ("oid", ints(NAMESPACES.iter().map(|(oid, _)| *oid))),
            ("nspname", texts(NAMESPACES.iter().map(|(_, name)| Some(*name)))),
            ("nspowner", ints(NAMESPACES.iter().map(|_| OWNER))),
        ],
    )
}

fn database(schema: &SchemaRef) -> Result<RecordBatch> {
    filled(
        schema,
        1,
        vec![
            ("oid", ints([DATABASE])),
            ("datname", texts([Some(CATALOG)])),
            ("datdba", ints([OWNER])),
            ("encoding", ints([UTF8])),
            ("datlocprovider", texts([Some("c")])),
            ("datcollate", texts([Some("C")])),
            ("datctype", texts([Some("C")])),
            ("datallowconn", truths([true])),
            ("datconnlimit", ints([-1])),
            ("dattablespace", ints([1663])),
        ],
    )
}

fn roles(schema: &SchemaRef) -> Result<RecordBatch> {
    filled(
        schema,
        1,
        vec![
            ("oid", ints([OWNER])),
            ("rolname", texts([Some(CATALOG)])),
            ("rolinherit", truths([true])),
            ("rolcanlogin", truths([true])),
            ("rolconnlimit", ints([-1])),
        ],
    )
}

/// `pg_tables` or `pg_views`.
fn named(schema: &SchemaRef, relations: &[&Relation], are_views: bool) -> Result<RecordBatch> {
    let found: Vec<&Relation> = relations.iter().copied().filter(|relation| relation.is_view == are_views).collect();
    let of = || found.iter();
    let names = texts(of().map(|relation| Some(relation.name.as_str())));
    filled(
        schema,
        found.len(),
        vec![
            ("schemaname", texts(of().map(|relation| Some(relation.schema.as_str())))),
            ("tablename", Arc::clone(&names)),
            ("viewname", names),
            ("tableowner", texts(of().map(|_| Some(CATALOG)))),
            ("viewowner", texts(of().map(|_| Some(CATALOG)))),
            ("definition", texts(of().map(|relation| relation.sql))),
        ],
    )
}

/// A batch of that schema with the columns given; the others hold NULL, or nothing where they may not.
fn filled(schema: &SchemaRef, rows: usize, given: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let columns = schema.fields().iter().map(|field| {
        let found = given.iter().find(|(name, _)| *name == field.name().as_str());
        match found {
            Some((_, column)) => arrow::compute::cast(column, field.data_type()),
            None if field.is_nullable() => Ok(new_null_array(field.data_type(), rows)),
            None => Ok(nothing(field.data_type(), rows)),
        }
    });
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<Result<_, _>>()?)?)
}

fn nothing(kind: &DataType, rows: usize) -> ArrayRef {
    match kind {
        DataType::Boolean => truths((0..rows).map(|_| false)),
        DataType::Int16 => shorts((0..rows).map(|_| 0)),
        DataType::Int32 => ints((0..rows).map(|_| 0)),
        DataType::Int64 => Arc::new((0..rows).map(|_| Some(0)).collect::<Int64Array>()),
        DataType::Float64 => Arc::new((0..rows).map(|_| Some(0.0)).collect::<Float64Array>()),
        DataType::Utf8 => texts((0..rows).map(|_| Some(""))),
        other => new_null_array(other, rows),
    }
}

fn ints(values: impl IntoIterator<Item = i32>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<Int32Array>())
}

fn shorts(values: impl IntoIterator<Item = usize>) -> ArrayRef {
    Arc::new(values.into_iter().map(|value| i16::try_from(value).ok()).collect::<Int16Array>())
}

fn truths(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

fn texts<'t>(values: impl IntoIterator<Item = Option<&'t str>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}
