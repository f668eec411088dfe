//! Allocation keys in SQL.
//!
//! `allocation_of(attributes, keys)` takes the values of the named keys out of a map; `allocation_first(keys, own, others)` has each
//! key once, with the own value before that of others; `allocation_agreed(keys, own, others)` has each key on which all of a list that name it agree,
//! else all of another list; `allocation_keys(allocation, more)` and `allocation_values(allocation, more)` are
//! lists that belong together: the keys of a row and `more`, and what the row says of each.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, ListBuilder, MapArray, StringArray, StringBuilder},
    compute::cast,
    datatypes::{DataType, Field},
};
use datafusion::{
    common::{Result, exec_datafusion_err, plan_err},
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility},
};
use telemetry::allocation::{self, UNATTRIBUTED, Values};

/// One of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Of,
    First,
    Agreed,
    Keys,
    Values,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Allocation {
    part: Part,
    signature: Signature,
}

/// All of them.
pub(super) fn all() -> [Allocation; 5] {
    [Part::Of, Part::First, Part::Agreed, Part::Keys, Part::Values]
        .map(|part| Allocation { part, signature: Signature::user_defined(Volatility::Immutable) })
}

fn list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

impl ScalarUDFImpl for Allocation {
    fn name(&self) -> &'static str {
        match self.part {
            Part::Of => "allocation_of",
            Part::First => "allocation_first",
            Part::Agreed => "allocation_agreed",
            Part::Keys => "allocation_keys",
            Part::Values => "allocation_values",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let is_text = |kind: &DataType| kind.is_string() || kind.is_null();
        let is_list = |kind: &DataType| kind.is_null() || matches!(kind, DataType::List(of) if is_text(of.data_type()));
        match (self.part, types) {
            (Part::Of, [map @ DataType::Map(..), keys]) if is_text(keys) => Ok(vec![map.clone(), DataType::Utf8]),
            (Part::Of, _) => {
                plan_err!("{name} takes a map of attributes and the names of keys, such as 'team,cost_center'")
            }
            (Part::First, [_, _, _]) if types.iter().all(is_text) => Ok(vec![DataType::Utf8; 3]),
            (Part::Agreed, [keys, own, others]) if is_text(keys) && is_list(own) && is_list(others) => {
                Ok(vec![DataType::Utf8, list(), list()])
            }
            (Part::Agreed, _) => plan_err!("{name} takes the names of keys and two lists of allocations"),
            (Part::First, _) => plan_err!("{name} takes the names of keys and two allocations"),
            (_, [_, _]) if types.iter().all(is_text) => Ok(vec![DataType::Utf8; 2]),
            _ => plan_err!(
                "{name} takes an allocation, such as that of costs_hours, and names of further keys, such as ''"
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.part {
            Part::Of | Part::First | Part::Agreed => DataType::Utf8,
            Part::Keys | Part::Values => list(),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let answer = match (self.part, columns.as_slice()) {
            (Part::Of, [maps, keys]) => found(maps, &texts(keys)?)?,
            (Part::First, [keys, own, others]) => first(&texts(keys)?, &texts(own)?, &texts(others)?),
            (Part::Agreed, [keys, own, others]) => agreed(&texts(keys)?, own, others)?,
            (part, [rows, more]) => lists(&texts(rows)?, &texts(more)?, part == Part::Keys),
            _ => return plan_err!("{} has other arguments than were planned", self.name()),
        };
        Ok(ColumnarValue::Array(answer))
    }
}

fn texts(column: &ArrayRef) -> Result<StringArray> {
    Ok(cast(column, &DataType::Utf8)?.as_string::<i32>().clone())
}

fn at(column: &StringArray, row: usize) -> Option<&str> {
    column.is_valid(row).then(|| column.value(row))
}

/// Values of the keys that a map names; NULL where it names none.
fn found(maps: &ArrayRef, keys: &StringArray) -> Result<ArrayRef> {
    let maps: &MapArray = maps.as_map_opt().ok_or_else(|| exec_datafusion_err!("not a map: {}", maps.data_type()))?;
    let (names, values) = (texts(maps.keys())?, texts(maps.values())?);
    let row = |row: usize| {
        let entries = if maps.is_null(row) { 0..0 } else { super::lists::between(maps.value_offsets(), row) };
        let of = |key: &str| {
            let mut named = entries.clone().filter(|entry| at(&names, *entry) == Some(key));
            named.find_map(|entry| allocation::value(at(&values, entry)?))
        };
        let keys = allocation::split(at(keys, row)?);
        let found: Values = keys.filter_map(|key| Some((key.to_owned(), Some(of(key)?)))).collect();
        (!found.is_empty()).then(|| allocation::write(&found))
    };
    Ok(Arc::new((0..maps.len()).map(row).collect::<StringArray>()))
}

/// Each of the keys with its own value, else that of others, else none.
fn first(keys: &StringArray, own: &StringArray, others: &StringArray) -> ArrayRef {
    let row = |row: usize| {
        let [mut own, mut others] =
            [own, others].map(|column| at(column, row).and_then(allocation::read).unwrap_or_default());
        let mut of = |key: &str| own.remove(key).flatten().or_else(|| others.remove(key).flatten());
        let values: Values = allocation::split(at(keys, row)?).map(|key| (key.to_owned(), of(key))).collect();
        (!values.is_empty()).then(|| allocation::write(&values))
    };
    Arc::new((0..keys.len()).map(row).collect::<StringArray>())
}

/// Each of the keys on which all of `own` that name it agree; of one that none of them names, what all of `others` say alike. An empty text names
/// none.
fn agreed(keys: &StringArray, own: &ArrayRef, others: &ArrayRef) -> Result<ArrayRef> {
    let row = |row: usize| -> Result<Option<String>> {
        let (own, others) = (elements(own, row)?, elements(others, row)?);
        let named = |values: &Values, key: &str| values.get(key).cloned().flatten();
        let of = |key: &str| {
            let said: BTreeSet<_> = own.iter().filter_map(|values| named(values, key)).map(Some).collect();
            let said = if said.is_empty() { others.iter().map(|values| named(values, key)).collect() } else { said };
            only(said)
        };
        let Some(keys) = at(keys, row) else { return Ok(None) };
        let values: Values = allocation::split(keys).filter_map(|key| Some((key.to_owned(), Some(of(key)?)))).collect();
        Ok((!values.is_empty()).then(|| allocation::write(&values)))
    };
    Ok(Arc::new((0..keys.len()).map(row).collect::<Result<StringArray>>()?))
}

/// The only one of them, if it is a value.
fn only(mut said: BTreeSet<Option<String>>) -> Option<String> {
    said.pop_first().flatten().filter(|_| said.is_empty())
}

/// The allocations in a row's list, without those that are NULL.
fn elements(lists: &ArrayRef, row: usize) -> Result<Vec<Values>> {
    if lists.is_null(row) {
        return Ok(Vec::new());
    }
    let texts = texts(&lists.as_list::<i32>().value(row))?;
    Ok(texts.iter().flatten().map(|text| allocation::read(text).unwrap_or_default()).collect())
}

/// The keys of each row and those of `more`, or what the row says of each: a value, that it names none, or NULL where the key was none
/// when the row was made.
fn lists(rows: &StringArray, more: &StringArray, is_of_keys: bool) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows.len() {
        let values = at(rows, row).and_then(allocation::read).unwrap_or_default();
        let mut keys: Vec<&str> = values.keys().map(String::as_str).collect();
        keys.extend(allocation::split(at(more, row).unwrap_or_default()).filter(|key| !values.contains_key(*key)));
        for key in keys {
            let value = values.get(key).map(|value| value.as_deref().unwrap_or(UNATTRIBUTED));
            lists.values().append_option(if is_of_keys { Some(key) } else { value });
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use crate::functions::session::{column, refusal, session};

    async fn answer(expression: &str) -> String {
        let column = column(&session(1, |_| {}), &format!("SELECT {expression} AS it")).await;
        array_value_to_string(&column, 0).expect("text")
    }

    #[tokio::test]
    async fn values_are_found_filled_up_and_listed() {
        let map = "MAP {'team': ' ml ', 'user': 'u', 'cost_center': ''}";
        assert_eq!(answer(&format!("allocation_of({map}, 'team,cost_center')")).await, r#"{"team":"ml"}"#);
        assert_eq!(answer(&format!("coalesce(allocation_of({map}, 'region'), 'none')")).await, "none");
        let first = r#"allocation_first('team,cost_center', '{"team":"ml"}', '{"team":"ops","cost_center":"47"}')"#;
        assert_eq!(answer(first).await, r#"{"cost_center":"47","team":"ml"}"#);
        assert_eq!(answer("allocation_first('team', NULL, NULL)").await, r#"{"team":null}"#);
        // each key for itself: of the team both say the same, of the centre not; an owner is told by the others alone, all of whom must
        let list = r#"make_array('{"team":"ml","cost_center":"1"}', NULL, '{"team":"ml","cost_center":"2"}')"#;
        let others = r#"make_array('{"owner":"o","cost_center":"1"}', '{"owner":"o","cost_center":"1"}')"#;
        let agreed =
            |others: &str| format!("coalesce(allocation_agreed('team,cost_center,owner', {list}, {others}), 'none')");
        assert_eq!(answer(&agreed(others)).await, r#"{"owner":"o","team":"ml"}"#);
        assert_eq!(answer(&agreed("NULL")).await, r#"{"team":"ml"}"#);
        assert_eq!(answer(&agreed(r#"make_array('{"owner":"o"}', '')"#)).await, r#"{"team":"ml"}"#);
        assert_eq!(answer("coalesce(allocation_agreed('team', NULL, NULL), 'none')").await, "none");
        // a key that is asked for and was none when the row was made has no value, which is not the same as having none of it
        let row = r#"'{"team":null}', 'app,team'"#;
        assert_eq!(answer(&format!("allocation_keys({row})")).await, "[team, app]");
        assert_eq!(answer(&format!("allocation_values({row})")).await, "[__unattributed__, ]");
        assert_eq!(answer("allocation_keys(NULL, '')").await, "[]");
    }

    #[tokio::test]
    async fn what_they_cannot_read_is_refused_with_what_they_take() {
        let session = session(1, |_| {});
        for (sql, takes) in [
            ("SELECT allocation_of('team', 'team')", "a map of attributes"),
            ("SELECT allocation_first('team', NULL)", "two allocations"),
            ("SELECT allocation_agreed('team', 'ml', NULL)", "two lists of allocations"),
            ("SELECT allocation_keys(7, '')", "takes an allocation"),
        ] {
            let refused = refusal(&session, sql).await;
            assert!(refused.contains(takes), "{refused}");
        }
    }
}
