use serde_json::{Value as Json, json};
use telemetry::table::{REQUESTS, TABLES};

use super::{Difference, PROTOCOL, compare, metadata, supported};
use crate::log::action::{Metadata, Protocol};

fn stored() -> Metadata {
    metadata(&REQUESTS, "id".to_owned(), 0)
}

fn with_fields(change: impl FnOnce(&mut Vec<Json>)) -> Metadata {
    let mut metadata = stored();
    let mut schema: Json = serde_json::from_str(&metadata.schema_string).expect("own schema");
    change(schema["fields"].as_array_mut().expect("fields"));
    metadata.schema_string = schema.to_string();
    metadata
}

#[test]
fn a_fresh_table_equals_the_registry() {
    for table in TABLES {
        assert_eq!(
            compare(table, &metadata(table, "id".to_owned(), 0)).expect("comparable"),
            Difference::None,
            "{}",
            table.name
        );
    }
}

#[test]
fn columns_that_the_registry_gained_are_added_nullable_at_the_end() {
    let old = with_fields(|fields| fields.retain(|field| field["name"] != "quality"));
    let Difference::Older(grown) = compare(&REQUESTS, &old).expect("comparable") else { panic!("an older table") };
    let schema: Json = serde_json::from_str(&grown.schema_string).expect("own schema");
    let last = schema["fields"].as_array().expect("fields").last().expect("a field").clone();
    assert_eq!((&last["name"], &last["nullable"]), (&json!("quality"), &json!(true)));
    assert_eq!(grown.id, old.id, "it stays the same table");
    assert_eq!(compare(&REQUESTS, &grown).expect("comparable"), Difference::None);
}

#[test]
fn columns_that_the_registry_lacks_are_named() {
    let new =
        with_fields(|fields| fields.push(json!({"name": "mood", "type": "string", "nullable": true, "metadata": {}})));
    assert_eq!(compare(&REQUESTS, &new).expect("comparable"), Difference::Newer(vec!["mood".to_owned()]));
}

#[test]
fn a_retyped_column_is_refused() {
    let odd = with_fields(|fields| fields[1]["type"] = json!("long"));
    let error = compare(&REQUESTS, &odd).expect_err("region is text");
    assert!(error.message().contains("requests.region"), "{error}");
}

#[test]
fn a_table_of_a_newer_protocol_is_refused() {
    assert!(supported(&REQUESTS, &PROTOCOL).is_ok());
    assert!(supported(&REQUESTS, &Protocol { min_reader_version: 3, min_writer_version: 7 }).is_err());
}
