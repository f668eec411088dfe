//! Tokens: whichever way one takes, its row is the same.

use opentelemetry_proto::tonic::trace::v1::Span;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

fn token(attributes: Vec<KeyValue>) -> Span {
    let end = START_NS + 3_000_000;
    Span { parent_span_id: vec![3; 8], end_time_unix_nano: end, ..span("token", INTERNAL, attributes) }
}

fn body(spans: Vec<Span>) -> Vec<u8> {
    let resource = Some(Resource { attributes: vec![text("service.name", "emitter")], ..Resource::default() });
    let scope = ScopeSpans { spans, ..ScopeSpans::default() };
    let group = ResourceSpans { resource, scope_spans: vec![scope], ..ResourceSpans::default() };
    ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec()
}

/// A token of a few calls: some have no model, tenant or parent, some a number that can not be true, some a number twice, some
/// say more.
fn some(random: &mut StdRng) -> Span {
    let tenant = ["acme", "globex", "acma"][random.random_range(0..3)];
    let mut attributes = vec![text("gen_ai.request.model", "m"), text("tokenwatt.tenant", tenant)];
    attributes.truncate(random.random_range(0..5));
    let index = if random.random_bool(0.1) { -1 } else { random.random_range(0..300) };
    attributes.push(int("tokenwatt.token.index", index));
    attributes.push(int("tokenwatt.token.device_us", random.random_range(100..20_000)));
    if random.random_bool(0.5) {
        attributes.push(int("tokenwatt.token.count", random.random_range(0..3)));
    }
    attributes.push(text("tokenwatt.token.stall", if random.random_bool(0.1) { "prefill" } else { "decode" }));
    if random.random_bool(0.1) {
        attributes.push(text("tokenwatt.token.index", "7"));
    }
    if random.random_bool(0.1) {
        attributes.push(double("more", 0.5));
    }
    let parent = if random.random_bool(0.1) { vec![0; 8] } else { random.random::<[u8; 8]>().to_vec() };
    let end = START_NS + random.random_range(0..1_000_000_000);
    Span {
        trace_id: [random.random_range(1..4); 16].to_vec(),
        parent_span_id: parent,
        end_time_unix_nano: if random.random_bool(0.05) { 5 } else { end },
        ..token(attributes)
    }
}

/// In a body with others like it, a token becomes the row that it becomes alone.
#[test]
fn tokens_among_others_become_the_rows_they_become_alone() {
    let mut random = StdRng::seed_from_u64(17);
    let spans: Vec<Span> = (0..2_000).map(|_| some(&mut random)).collect();
    let mut together = rows(Signal::Traces, &body(spans.clone()));
    let mut alone = (Vec::new(), Vec::new());
    for span in spans {
        let mut tables = rows(Signal::Traces, &body(vec![span]));
        alone.0.extend(read(&mut tables.tokens));
        alone.1.extend(read(&mut tables.quarantine));
    }
    let together = (read(&mut together.tokens), read(&mut together.quarantine));
    assert!(together.0.len() > 1_800 && together.1.len() > 50, "{} {}", together.0.len(), together.1.len());
    for (together, alone) in [(together.0, alone.0), (together.1, alone.1)] {
        assert_eq!(together.len(), alone.len());
        for (row, (together, alone)) in together.into_iter().zip(alone).enumerate() {
            assert_eq!(together, alone, "row {row}");
        }
    }
}

/// What should be text and is none, or is longer than its column takes, stays an attribute.
#[test]
fn what_no_column_holds_stays_an_attribute() {
    let long = "x".repeat(2_000);
    let odd = [
        ("tokenwatt.token.stall", int("tokenwatt.token.stall", 7), "7"),
        ("gen_ai.request.model", double("gen_ai.request.model", 0.5), "0.5"),
        ("tokenwatt.tenant", attribute("tokenwatt.tenant", Value::BoolValue(true)), "true"),
        ("tokenwatt.tenant", text("tokenwatt.tenant", &long), &long),
        ("tokenwatt.token.index", int("tokenwatt.token.index", -1), "-1"),
    ];
    for (key, attribute, value) in odd {
        let mut tables = rows(Signal::Traces, &body(vec![token(vec![attribute])]));
        let tokens = read(&mut tables.tokens);
        assert_eq!(tokens.len(), 1, "{key}");
        assert_eq!(tokens[0].get(&format!("attributes.{key}")).map(String::as_str), Some(value), "{key}");
    }
    let mut tables = rows(Signal::Traces, &body(vec![token(vec![text("tokenwatt.token.stall", "")])]));
    assert!(read(&mut tables.tokens)[0].keys().all(|column| !column.starts_with("attributes")));
}
