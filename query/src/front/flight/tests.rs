use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use arrow_flight::{
    Ticket,
    sql::{CommandGetCatalogs, ProstMessageExt, TicketStatementQuery},
};
use prost::Message;
use telemetry::contract::SqlRequest;
use tonic::{Code, metadata::MetadataMap};

use super::{
    call::{deadline_ms, shorter},
    handle::{Asked, Handle},
    stream::plain,
};

fn asked(sql: &str) -> Handle {
    Handle::new(SqlRequest { sql: sql.to_owned(), ..SqlRequest::default() })
}

fn row(columns: [(&str, ArrayRef); 2]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("a row")
}

#[test]
fn a_ticket_holds_the_question() {
    let handle = asked("SELECT 1");
    let statement = TicketStatementQuery { statement_handle: handle.encode().expect("short") };
    let ticket = Ticket::new(statement.as_any().encode_to_vec());
    let back = Handle::of_ticket(&ticket).expect("ours");
    assert_eq!((back.id, back.request.sql.as_str()), (handle.id, "SELECT 1"));
    let other = Ticket::new(CommandGetCatalogs {}.as_any().encode_to_vec());
    for ticket in [other, Ticket::new("nonsense"), Ticket::new("")] {
        assert_eq!(Handle::of_ticket(&ticket).expect_err("foreign").code(), Code::InvalidArgument);
    }
    assert_eq!(asked(&"x".repeat(3 << 20)).encode().expect_err("long").code(), Code::ResourceExhausted);
}

#[test]
fn parameters_are_bound_by_name_or_in_order() {
    let number: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["m"]));
    let names = ["n".to_owned(), "model".to_owned()];
    let bound = |columns| asked("…").bind(&names, row(columns)).expect("bound").request.params;
    for params in [
        bound([("model", Arc::clone(&text)), ("n", Arc::clone(&number))]),
        bound([("0", Arc::clone(&number)), ("1", Arc::clone(&text))]),
    ] {
        assert_eq!((params["n"].as_i64(), params["model"].as_str()), (Some(7), Some("m")));
    }
    let error = asked("…").bind(&names[..1], row([("0", number), ("1", text)])).expect_err("two for one");
    assert!(error.message().contains("1 parameters, 2 were given"), "{error}");
}

#[test]
fn an_execution_is_known_until_its_answer_is_gone() {
    let (running, handle) = (Asked::default(), asked("SELECT 1"));
    let entry = running.runs(handle.id, 42);
    assert_eq!((running.running(handle.id), running.running(asked("SELECT 1").id)), (Some(42), None));
    let again = running.runs(handle.id, 43);
    drop(entry);
    assert_eq!(running.running(handle.id), Some(43));
    drop(again);
    assert_eq!(running.running(handle.id), None);
}

#[test]
fn the_shorter_time_counts() {
    let of = |value: &str| {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", value.parse().expect("a value"));
        deadline_ms(&metadata)
    };
    assert_eq!([of("2S"), of("1500m"), of("1M"), of("10u")], [Some(2_000), Some(1_500), Some(60_000), Some(1)]);
    assert_eq!([of("S"), of("12"), of("x9S"), deadline_ms(&MetadataMap::new())], [None; 4]);
    assert_eq!([shorter(Some(3), Some(2)), shorter(None, Some(2)), shorter(None, None)], [Some(2), Some(2), None]);
}

#[test]
fn texts_become_plain_strings_at_every_depth() {
    let view = |name: &str| Field::new(name, DataType::Utf8View, true);
    let list = Field::new("list", DataType::List(Arc::new(view("item"))), true);
    let schema = plain(&Arc::new(Schema::new(vec![view("text"), list])));
    assert_eq!(schema.field(0).data_type(), &DataType::Utf8);
    assert_eq!(schema.field(1).data_type(), &DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))));
}
