//! Tokens of calls that take turns: what many have in common is no reason to take one that is not sound.

use opentelemetry_proto::tonic::common::v1::KeyValue;

use super::super::wire::put_bytes;
use super::*;

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// A token of one of a few calls, each of another tenant; some have a bit or an id that is wrong.
fn token(random: &mut StdRng, call: u8) -> Vec<u8> {
    let tenant = format!("tenant-{}", call % 40);
    let start = 1_790_000_000_000_000_000 + random.random_range(0..1 << 40);
    let mut span = Span {
        trace_id: vec![call + 1; 16],
        span_id: random.random::<[u8; 8]>().to_vec(),
        parent_span_id: vec![call + 1; 8],
        name: "token".into(),
        kind: 1,
        start_time_unix_nano: start,
        end_time_unix_nano: start + 5_000_000,
        attributes: vec![
            attribute("gen_ai.request.model", Any::StringValue("m".repeat(usize::from(call % 3)))),
            attribute("tokenwatt.tenant", Any::StringValue(tenant)),
            attribute("tokenwatt.token.index", Any::IntValue(random.random_range(0..300))),
            attribute("tokenwatt.token.stall", Any::StringValue("decode".into())),
        ],
        ..Span::default()
    };
    match random.random_range(0..50) {
        0 => span.trace_id = vec![0; 16],
        1 => span.span_id = vec![0; 8],
        2 => span.parent_span_id.truncate(7),
        3 => span.end_time_unix_nano = 5,
        _ => {}
    }
    let mut bytes = span.encode_to_vec();
    if random.random_bool(0.1) {
        let at = random.random_range(0..bytes.len());
        bytes[at] ^= 1 << random.random_range(0..8);
    }
    bytes
}

fn body<'a>(spans: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let (mut scope, mut group, mut body) = (Vec::new(), Vec::new(), Vec::new());
    spans.into_iter().for_each(|span| put_bytes(2, span, &mut scope));
    put_bytes(2, &scope, &mut group);
    put_bytes(1, &group, &mut body);
    body
}

/// The check of a body of many calls that take turns is that of its spans one by one, in which none has another beside it.
#[test]
fn spans_of_calls_that_take_turns_are_checked_as_each_alone() {
    let mut random = StdRng::seed_from_u64(29);
    let late = |item: &super::super::view::Item<'_>| item.end < 1_000;
    let mut sums = Checked::default();
    for running in [1_u8, 2, 8, 32, 200] {
        let spans: Vec<Vec<u8>> = (0..2_000).map(|at| token(&mut random, (at % u32::from(running)) as u8)).collect();
        // What is no message at all fails its body, alone and together.
        let alone = |span: &Vec<u8>| check::check(Signal::Traces, &body([span]), late);
        let (sound, broken): (Vec<_>, Vec<_>) = spans.into_iter().partition(|span| alone(span).is_ok());
        for broken in broken.iter().take(50) {
            let among = sound.iter().take(100).chain([broken]).chain(sound.iter().skip(100));
            assert!(check::check(Signal::Traces, &body(among), late).is_err());
        }
        let together = check::check(Signal::Traces, &body(&sound), late).unwrap();
        let mut wanted = Checked::default();
        for checked in sound.iter().map(|span| alone(span).unwrap()) {
            wanted.accepted += checked.accepted;
            wanted.rejected += checked.rejected;
            wanted.quarantined += checked.quarantined;
            wanted.row_bytes += checked.row_bytes;
            wanted.fault = wanted.fault.or(checked.fault);
            wanted.odd |= checked.odd;
            wanted.timeless |= checked.timeless;
            (0..checked.faults.len()).for_each(|at| wanted.faults[at] += checked.faults[at]);
        }
        assert_eq!(together, wanted, "{running} calls");
        sums.rejected += wanted.rejected;
        sums.quarantined += wanted.quarantined;
    }
    assert!(sums.rejected > 300 && sums.quarantined > 100, "{sums:?}");
}
