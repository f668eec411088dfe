//! `information_schema` with what tables and columns mean: `tables` (and so `SHOW TABLES`) has a column `comment`, `columns` has
//! `comment` and `unit`.

use std::{fmt, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, StringArray},
    datatypes::DataType,
};
use async_trait::async_trait;
use datafusion::{
    catalog::{
        CatalogProviderList, SchemaProvider, TableProvider, information_schema::InformationSchemaProvider,
        view::ViewTable,
    },
    common::{Result, exec_err},
    datasource::provider_as_source,
    logical_expr::{
        ColumnarValue, Expr, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TableType,
        Volatility, col,
    },
};
use telemetry::table;

use super::catalog::SYSTEM;
use crate::{
    session::SCHEMA,
    system,
    views::{self, View, ViewColumn},
};

/// The schema's name.
pub(super) const INFORMATION: &str = "information_schema";

/// What a column of one of our tables or views means.
pub(super) fn column(schema: &str, table: &str, column: &str) -> Option<ViewColumn> {
    let of_table = |table: &str| {
        let declared = table::by_name(table)?.column(column)?;
        Some(ViewColumn { name: declared.name, unit: declared.unit, doc: declared.doc })
    };
    let partition = (column == table::PARTITION && table::by_name(table).is_some()).then_some(ViewColumn {
        name: table::PARTITION,
        unit: "",
        doc: "UTC date of `time`; files are kept by it",
    });
    match view(schema, table) {
        Some(view) => view.column(column),
        None if schema == SCHEMA => of_table(table).or(partition),
        None if schema == SYSTEM => system::columns::of(table, column),
        None => None,
    }
}

fn view(schema: &str, name: &str) -> Option<&'static View> {
    match schema {
        SCHEMA => views::by_name(name),
        SYSTEM => system::views::by_name(name),
        _ => None,
    }
}

fn table_comment(schema: &str, name: &str) -> Option<&'static str> {
    match view(schema, name) {
        Some(view) => Some(view.doc),
        None if schema == SCHEMA => table::by_name(name).map(|table| table.doc),
        None if schema == SYSTEM => system::comment(name),
        None => None,
    }
}

/// DataFusion's `information_schema`, with meanings.
pub(super) struct Described(InformationSchemaProvider);

impl Described {
    pub(super) fn new(catalogs: Arc<dyn CatalogProviderList>) -> Described {
        Described(InformationSchemaProvider::new(catalogs))
    }
}

#[async_trait]
impl SchemaProvider for Described {
    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(plain) = self.0.table(name).await? else { return Ok(None) };
        let added: &[What] = match name {
            "tables" => &[What::Table],
            "columns" => &[What::Column, What::Unit],
            _ => return Ok(Some(plain)),
        };
        let schema = plain.schema();
        let kept = schema.fields().iter().map(|field| col(field.name()));
        let meanings = added.iter().map(|what| what.of_row());
        let columns: Vec<Expr> = kept.chain(meanings).collect();
        let plan = LogicalPlanBuilder::scan(name, provider_as_source(plain), None)?.project(columns)?.build()?;
        Ok(Some(Arc::new(ViewTable::new(plan, None))))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.0.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.table_exist(name)
    }
}

impl fmt::Debug for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Described")
    }
}

/// What is said of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Table,
    Column,
    Unit,
}

impl What {
    /// The column that says it.
    fn of_row(self) -> Expr {
        let (name, keys): (_, &[&str]) = match self {
            What::Table => ("comment", &["table_schema", "table_name"]),
            What::Column => ("comment", &["table_schema", "table_name", "column_name"]),
            What::Unit => ("unit", &["table_schema", "table_name", "column_name"]),
        };
        let function = Meaning { what: self, signature: Signature::any(keys.len(), Volatility::Immutable) };
        ScalarUDF::from(function).call(keys.iter().map(|key| col(*key)).collect()).alias(name)
    }

    fn is(self, names: &[&str]) -> Option<&'static str> {
        match (self, names) {
            (What::Table, [schema, table]) => table_comment(schema, table),
            (What::Column, [schema, table, name]) => column(schema, table, name).map(|column| column.doc),
            (What::Unit, [schema, table, name]) => {
                column(schema, table, name).map(|column| column.unit).filter(|unit| !unit.is_empty())
            }
            _ => None,
        }
    }
}

/// What the registry says of the names in a row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Meaning {
    what: What,
    signature: Signature,
}

impl ScalarUDFImpl for Meaning {
    fn name(&self) -> &'static str {
        match self.what {
            What::Table => "table_comment",
            What::Column => "column_comment",
            What::Unit => "column_unit",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let names = columns.iter().map(|column| column.as_string_opt::<i32>()).collect::<Option<Vec<_>>>();
        let Some(names) = names else { return exec_err!("{} takes names", self.name()) };
        let rows = names.first().map_or(0, |first| arrow::array::Array::len(*first));
        let meanings = (0..rows).map(|row| {
            let names: Vec<&str> = names.iter().map(|column| column.value(row)).collect();
            self.what.is(&names)
        });
        let meanings: ArrayRef = Arc::new(meanings.collect::<StringArray>());
        Ok(ColumnarValue::Array(meanings))
    }
}
