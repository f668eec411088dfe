use std::collections::HashSet;

use super::{Role, TABLES, by_name};

#[test]
fn names_are_unique_within_and_across_tables() {
    let tables: HashSet<_> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(tables.len(), TABLES.len());
    for table in TABLES {
        let mut seen = HashSet::new();
        for column in table.columns() {
            assert!(seen.insert(column.name), "{}.{} is declared twice", table.name, column.name);
        }
    }
}

#[test]
fn every_table_is_filed_by_time_and_sorted_by_its_own_columns() {
    for table in TABLES {
        assert_eq!(table.columns().next().map(|column| column.name), Some("time"), "{}", table.name);
        for key in table.order {
            assert!(table.column(key).is_some(), "{} is sorted by {key}, which it lacks", table.name);
        }
    }
}

#[test]
fn tokens_carry_no_stored_gap_and_no_text() {
    let tokens = by_name("tokens").expect("tokens is declared");
    for absent in ["gap_s", "span_id", "text"] {
        assert!(tokens.column(absent).is_none(), "tokens must not store {absent}");
    }
}

#[test]
fn money_is_kept_for_ever_where_it_is_reference_or_bill() {
    for table in TABLES.iter().filter(|table| table.role == Role::Reference || table.name == "billing") {
        assert_eq!(table.retention_days, None, "{}", table.name);
    }
}

#[cfg(feature = "arrow")]
#[test]
fn schemas_hold_only_types_that_every_delta_reader_keeps() {
    use arrow::datatypes::{DataType, TimeUnit};
    for table in TABLES {
        for field in table.schema().fields() {
            let kept = match field.data_type() {
                DataType::Timestamp(unit, zone) => *unit == TimeUnit::Microsecond && zone.as_deref() == Some("UTC"),
                DataType::Utf8 | DataType::Int64 | DataType::Float64 | DataType::Boolean => true,
                DataType::Decimal128(38, 12) | DataType::Map(..) | DataType::List(_) => true,
                _ => false,
            };
            assert!(kept, "{}.{}: {}", table.name, field.name(), field.data_type());
        }
    }
}
