//! Functions that questions about the catalog call: the library's, and those that know our relations.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Int32Array, StringArray, new_null_array},
    compute::cast,
    datatypes::{DataType, Int32Type},
};
use datafusion::{
    common::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility},
};
use datafusion_pg_catalog::pg_catalog as library;
use tokio::sync::OnceCell;

use super::relations::{HIDDEN_FROM, Relations};

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lookup {
    /// A relation's comment.
    Object,
    /// The comment of a relation's column.
    Column,
    /// The question a view asks.
    View,
    /// The number of the relation of a name; NULL if there is none.
    Class,
    /// The number of the type of a name; NULL if there is none.
    Type,
    /// Whether a relation is found without the name of its schema.
    Visible,
    /// Whether anything else is.
    Always,
    /// What nothing here has: a definition of an index, a comment on a database, a size that PostgreSQL would know.
    Nothing,
}

const FUNCTIONS: [(Lookup, &str); 8] = [
    (Lookup::Class, "to_regclass"),
    (Lookup::Type, "to_regtype"),
    (Lookup::Object, "obj_description"),
    (Lookup::Column, "col_description"),
    (Lookup::View, "pg_get_viewdef"),
    (Lookup::Visible, "pg_table_is_visible"),
    (
        Lookup::Always,
        "pg_type_is_visible pg_function_is_visible pg_operator_is_visible pg_opclass_is_visible pg_collation_is_visible \
         pg_conversion_is_visible pg_ts_config_is_visible",
    ),
    (
        Lookup::Nothing,
        "shobj_description pg_get_indexdef pg_get_triggerdef pg_get_ruledef pg_get_function_result \
         pg_get_function_arguments pg_get_function_identity_arguments pg_get_functiondef pg_get_serial_sequence \
         pg_tablespace_location pg_table_size pg_indexes_size pg_database_size pg_size_pretty pg_get_function_sqlbody",
    ),
];

/// All of them.
pub(super) fn all(relations: &Arc<OnceCell<Relations>>, types: &Arc<BTreeMap<String, i32>>) -> Vec<Arc<ScalarUDF>> {
    let own = FUNCTIONS.iter().flat_map(|(lookup, names)| {
        names.split_ascii_whitespace().map(|name| {
            let signature = Signature::variadic_any(Volatility::Stable);
            let (relations, types) = (Arc::clone(relations), Arc::clone(types));
            let function = Described { name, lookup: *lookup, signature, relations, types };
            ScalarUDF::from(function)
        })
    });
    let theirs = [
        library::create_current_schemas_udf(),
        library::has_privilege_udf::create_has_privilege_udf("has_table_privilege"),
        library::has_privilege_udf::create_has_privilege_udf("has_schema_privilege"),
        library::has_privilege_udf::create_has_privilege_udf("has_database_privilege"),
        library::has_privilege_udf::create_has_privilege_udf("has_any_column_privilege"),
        library::format_type::create_format_type_udf(),
        library::pg_get_expr_udf::create_pg_get_expr_udf(),
        library::create_pg_get_partkeydef_udf(),
        library::create_pg_relation_is_publishable_udf(),
        library::create_pg_get_statisticsobjdef_columns_udf(),
        library::create_pg_encoding_to_char_udf(),
        library::create_pg_relation_size_udf(),
        library::create_pg_total_relation_size_udf(),
        library::create_pg_stat_get_numscans(),
        library::create_pg_get_constraintdef(),
        library::create_pg_get_partition_ancestors_udf(),
        library::quote_ident_udf::create_quote_ident_udf(),
        library::quote_ident_udf::create_parse_ident_udf(),
        library::array_bounds_udf::create_array_upper_udf(),
        library::array_bounds_udf::create_array_lower_udf(),
    ];
    own.chain(theirs).map(Arc::new).collect()
}

/// A function that looks something up by the number of a relation.
#[derive(Debug)]
struct Described {
    name: &'static str,
    lookup: Lookup,
    signature: Signature,
    /// Filled by whoever asks for a list of relations, which every question that has numbers to look up does.
    relations: Arc<OnceCell<Relations>>,
    /// Numbers of types by name.
    types: Arc<BTreeMap<String, i32>>,
}

impl PartialEq for Described {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Described {}

impl Hash for Described {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Described {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.lookup {
            Lookup::Visible | Lookup::Always => DataType::Boolean,
            Lookup::Class | Lookup::Type => DataType::Int32,
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let numbers = |at: usize| -> Result<ArrayRef> {
            Ok(match arguments.args.get(at) {
                Some(argument) => cast(&argument.to_array(rows)?, &DataType::Int32)?,
                None => new_null_array(&DataType::Int32, rows),
            })
        };
        let found: ArrayRef = match self.lookup {
            Lookup::Nothing => new_null_array(&DataType::Utf8, rows),
            Lookup::Always => Arc::new(vec![true; rows].into_iter().map(Some).collect::<BooleanArray>()),
            Lookup::Class | Lookup::Type => {
                let names = match arguments.args.first() {
                    Some(name) => cast(&name.to_array(rows)?, &DataType::Utf8)?,
                    None => new_null_array(&DataType::Utf8, rows),
                };
                let found = names.as_string::<i32>().iter().map(|name| self.number(name?));
                Arc::new(found.collect::<Int32Array>())
            }
            Lookup::Visible => {
                let oids = numbers(0)?;
                let oids = oids.as_primitive::<Int32Type>();
                Arc::new(oids.iter().map(|oid| oid.map(|oid| oid < HIDDEN_FROM)).collect::<BooleanArray>())
            }
            lookup => {
                let (oids, columns) = (numbers(0)?, if lookup == Lookup::Column { numbers(1)? } else { numbers(9)? });
                let pairs = oids.as_primitive::<Int32Type>().iter().zip(columns.as_primitive::<Int32Type>().iter());
                Arc::new(pairs.map(|(oid, column)| self.text(oid?, column)).collect::<StringArray>())
            }
        };
        Ok(ColumnarValue::Array(found))
    }
}

impl Described {
    fn number(&self, name: &str) -> Option<i32> {
        let name = name.trim_start_matches("pg_catalog.");
        if self.lookup == Lookup::Type {
            return self.types.get(name).copied();
        }
        let name = name.trim_start_matches("public.");
        let mut known = self.relations.get()?.iter();
        known.find(|relation| relation.name == name && relation.oid < HIDDEN_FROM).map(|relation| relation.oid)
    }

    fn text(&self, oid: i32, column: Option<i32>) -> Option<&str> {
        let relation = self.relations.get()?.of(oid)?;
        match self.lookup {
            Lookup::Object => relation.doc,
            Lookup::View => relation.sql,
            _ => {
                let index = usize::try_from(column?).ok()?.checked_sub(1)?;
                relation.columns.get(index)?.doc.as_deref()
            }
        }
    }
}
