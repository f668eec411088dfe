//! Tokens: whichever way one takes, its row is the same.

use opentelemetry_proto::tonic::trace::v1::Span;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::decode::wire::put_bytes;

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
    let (tokens, late) = assert_same_rows("emitter", &spans);
    assert!(tokens > 1_800 && late > 50, "{tokens} {late}");
}

/// Calls that take turns, as an engine's steps have them: each with its own tenant and model, or without, some held up at times;
/// where one ends another begins, and its request span comes between tokens.
fn steps(random: &mut StdRng, running: usize, spans: usize) -> Vec<Span> {
    let call = |random: &mut StdRng| {
        let mut texts = Vec::new();
        if random.random_bool(0.9) {
            texts.push(text("gen_ai.request.model", &format!("model-{}", random.random_range(0..3))));
        }
        if random.random_bool(0.9) {
            texts.push(text("tokenwatt.tenant", &format!("tenant-{}", random.random_range(0..running))));
        }
        // Ids that differ in a few bits only, beside random ones.
        let trace_id: [u8; 16] = if random.random() { random.random() } else { [7; 16] };
        let trace_id = [&trace_id[..15], &[random.random()]].concat();
        (trace_id, random.random::<[u8; 8]>().to_vec(), texts, random.random_range(0..200_i64))
    };
    let mut calls: Vec<_> = (0..running).map(|_| call(random)).collect();
    let mut sent = Vec::new();
    let mut end = START_NS;
    while sent.len() < spans {
        end += random.random_range(1..20_000_000);
        let batch = random.random_range(1..300);
        for running_call in &mut calls {
            let (trace_id, parent, texts, next) = &mut *running_call;
            let stall = if random.random_bool(0.05) { "prefill" } else { "decode" };
            let mut attributes = texts.clone();
            attributes.extend([int("tokenwatt.token.index", *next), int("tokenwatt.token.batch", batch)]);
            attributes.push(text("tokenwatt.token.stall", stall));
            match random.random_range(0..200) {
                0 => attributes.push(int("tokenwatt.token.count", -1)),
                1 => attributes.push(double("more", 0.5)),
                _ => {}
            }
            let late = random.random_bool(0.01);
            let ids = Span { trace_id: trace_id.clone(), parent_span_id: parent.clone(), ..token(attributes) };
            sent.push(Span { end_time_unix_nano: if late { 5 } else { end }, ..ids });
            *next += 1;
            if random.random_bool(0.02) {
                sent.push(Span { trace_id: trace_id.clone(), ..span("llm_request", SERVER, texts.clone()) });
                *running_call = call(random);
            }
        }
    }
    sent
}

/// Tokens of calls that take turns become the rows that each becomes alone, however many calls, tenants and models there are.
#[test]
fn tokens_of_calls_that_take_turns_become_the_rows_they_become_alone() {
    let mut random = StdRng::seed_from_u64(41);
    for running in [1, 2, 8, 32, 300] {
        // One service has a model by configuration.
        for service in ["emitter", "mapped"] {
            let spans = steps(&mut random, running, 600);
            let (tokens, _) = assert_same_rows(service, &spans);
            assert!(tokens >= 550, "{running} calls: {tokens}");
        }
    }
}

/// A call's rows stand together and in the order in which its tokens came.
#[test]
fn rows_are_in_the_order_of_their_calls() {
    let spans: Vec<Span> = (0..32 * 20_u16)
        .map(|at| Span {
            trace_id: vec![(at % 32 + 1) as u8; 16],
            ..token(vec![int("tokenwatt.token.index", i64::from(at / 32))])
        })
        .collect();
    let rows = read(&mut rows(Signal::Traces, &body(spans)).tokens);
    let found: Vec<(String, String)> = rows.iter().map(|row| (row["trace_id"].clone(), row["index"].clone())).collect();
    let wanted = (1..=32_u8).flat_map(|call| (0..20).map(move |index| (hex::encode([call; 16]), index.to_string())));
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

/// Compares the rows of a body with those of its spans one by one, each in two forms that nothing is like: with a trace id that
/// comes twice, which makes it no pattern, and with an attribute without a value, which makes it no plain token. Returns how many
/// tokens and quarantined items there are.
fn assert_same_rows(service: &str, spans: &[Span]) -> (usize, usize) {
    let sent: Vec<Vec<u8>> = spans.iter().map(Message::encode_to_vec).collect();
    let mut together = rows(Signal::Traces, &bytes_of(service, &sent));
    let together = [&mut together.tokens, &mut together.quarantine].map(read);
    for form in [twice as fn(&Span) -> Vec<u8>, with_an_empty_attribute] {
        let bodies = spans.iter().map(|span| {
            let is_token = span.name == "token" && span.end_time_unix_nano != 5;
            bytes_of(service, &[if is_token { form(span) } else { span.encode_to_vec() }])
        });
        let mut alone = rows_of_all(Signal::Traces, bodies);
        let alone = [&mut alone.tokens, &mut alone.quarantine].map(read);
        for (together, mut alone) in together.iter().cloned().zip(alone) {
            let mut together = together;
            together.sort();
            alone.sort();
            assert_eq!(together.len(), alone.len());
            for (together, alone) in together.into_iter().zip(alone) {
                assert_eq!(together, alone);
            }
        }
    }
    (together[0].len(), together[1].len())
}

fn twice(span: &Span) -> Vec<u8> {
    let again = Span { trace_id: span.trace_id.clone(), ..Span::default() };
    [span.encode_to_vec(), again.encode_to_vec()].concat()
}

fn with_an_empty_attribute(span: &Span) -> Vec<u8> {
    let empty = KeyValue { key: "nothing".to_owned(), value: Some(AnyValue { value: None }), ..KeyValue::default() };
    let mut span = span.clone();
    span.attributes.push(empty);
    span.encode_to_vec()
}

/// A body with these spans as they are.
fn bytes_of(service: &str, spans: &[Vec<u8>]) -> Vec<u8> {
    let resource = Resource { attributes: vec![text("service.name", service)], ..Resource::default() };
    let (mut scope, mut group, mut body) = (Vec::new(), Vec::new(), Vec::new());
    spans.iter().for_each(|span| put_bytes(2, span, &mut scope));
    put_bytes(1, &resource.encode_to_vec(), &mut group);
    put_bytes(2, &scope, &mut group);
    put_bytes(1, &group, &mut body);
    body
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
