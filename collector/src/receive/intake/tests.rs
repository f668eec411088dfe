use futures::FutureExt;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;
use service::channel::bounded;

use super::*;

/// A body with one span that has times.
fn raw(id: u8) -> Raw {
    let now_ns = u64::try_from(service::clock::system().now_ns()).unwrap();
    let span = Span {
        trace_id: vec![id; 16],
        span_id: vec![id; 8],
        start_time_unix_nano: now_ns,
        end_time_unix_nano: now_ns,
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec().into();
    let (signal, encoding, compression) = (Signal::Traces, Encoding::Protobuf, Compression::Identity);
    Raw { signal, encoding, compression, bytes, permit: Permit::default(), writer: None }
}

fn copy(raw: &Raw) -> Raw {
    Raw { bytes: raw.bytes.clone(), permit: Permit::default(), writer: None, ..*raw }
}

fn intake(line: Line, journal: Sender<Append>) -> Intake {
    Intake::new(Parts {
        clock: service::clock::system(),
        budget: Budget::new(1 << 20),
        line,
        body_bytes_max: 1 << 20,
        writers: Writers::open(),
        digests: Arc::new(Digests::new(service::clock::system())),
        journal,
        room: Arc::new(Room::new(u64::MAX, 0)),
        counters: Counters::new(&service::metrics::Registry::new()),
    })
}

/// Where too much is on its way to the disk, a body is not read before some of it is there, and refused if that takes long.
#[tokio::test]
async fn a_long_line_waits_and_then_refuses() {
    let (journal, _bodies) = bounded::<Append>("collector.journal", 1);
    let line = Line::new(1, 1);
    let place = line.join(1);
    let intake = intake(line, journal);
    let (request, ()) = axum::http::Request::new(()).into_parts();
    let mut body = Body::from("a body");
    let refused = intake.read(&request, &mut body, Length::Unknown).await.err().expect("nobody leaves");
    assert!(refused.kind().retry_after().is_some(), "{refused}");
    let mut waiting = Box::pin(intake.read(&request, &mut body, Length::Unknown));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(place);
    assert_eq!(waiting.await.ok().unwrap().0, "a body");
}

/// A sender that gives up while the journal's queue is full can send the same body again, and it is stored then.
#[tokio::test]
async fn a_body_given_up_before_the_journal_has_it_is_new_again() {
    let (journal, mut bodies) = bounded::<Append>("collector.journal", 1);
    let intake = intake(Line::new(1, 1 << 20), journal);
    let (first, second) = (raw(1), raw(2));
    assert!(intake.take(first).now_or_never().is_none(), "it waits for the disk");
    assert!(intake.take(copy(&second)).now_or_never().is_none(), "it waits for a place, and its sender goes away");
    let there = bodies.recv().await.map(|append| append.stored.body);
    assert!(there.is_some_and(|body| body != second.bytes));
    assert!(intake.take(copy(&second)).now_or_never().is_none(), "it is being stored, not refused");
    assert_eq!(bodies.recv().await.map(|append| append.stored.body), Some(second.bytes));
}

/// A message with `content` in field `number`.
fn within(number: u32, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::decode::wire::put_bytes(number, content, &mut out);
    out
}

/// So many empty messages, in field `number` of another.
fn empty(number: u32, count: usize) -> Vec<u8> {
    within(number, b"").repeat(count)
}

/// Items, or parts of one item, that take two bytes each become rows of a hundred: such a body is refused for good, in words that
/// help, however it is encoded, and half as many are taken.
#[test]
fn a_body_of_more_rows_than_bytes_is_refused() {
    const LIMIT: usize = 8 << 20;
    const FEW: usize = 120_000;
    let of = |signal: Signal, item: Vec<u8>| (signal, within(1, &within(2, &item)));
    let ids = [within(1, &[7; 16]), within(2, &[8; 8])].concat();
    type Make<'m> = &'m dyn Fn(usize) -> (Signal, Vec<u8>);
    let bodies: [(&str, usize, Make<'_>); 8] = [
        ("records", 1, &|count| of(Signal::Logs, empty(2, count))),
        ("points", 1, &|count| of(Signal::Metrics, within(2, &within(5, &empty(1, count))))),
        ("spans", 1, &|count| of(Signal::Traces, within(2, &ids).repeat(count))),
        ("attributes", 8, &|count| of(Signal::Logs, within(2, &empty(6, count)))),
        ("attributes of a span", 8, &|count| of(Signal::Traces, within(2, &[ids.clone(), empty(9, count)].concat()))),
        ("events", 8, &|count| of(Signal::Traces, within(2, &[ids.clone(), empty(11, count)].concat()))),
        ("values", 8, &|count| of(Signal::Logs, within(2, &within(5, &within(5, &empty(1, count)))))),
        ("attributes of a resource", 8, &|count| {
            (Signal::Logs, within(1, &[within(1, &empty(1, count)), within(2, &within(2, b""))].concat()))
        }),
    ];
    for (what, more, body) in bodies {
        let opened = |count: usize| {
            let (signal, bytes) = body(count * more);
            let (encoding, compression, permit) = (Encoding::Protobuf, Compression::Identity, budget());
            open(Raw { signal, encoding, compression, bytes: bytes.into(), permit, writer: None }, LIMIT, 0)
        };
        assert_eq!(opened(FEW).map(|_| ()).map_err(|error| error.to_string()), Ok(()), "{what}");
        let error = opened(18 * FEW / 8).err().expect(what);
        assert!(
            error.kind() == Kind::TooLarge && error.hint().is_some_and(|hint| hint.contains("fewer items")),
            "{what}: {error}"
        );
    }
    let records = vec!["{}"; 3 * FEW].join(",");
    let json = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{records}]}}]}}]}}"#);
    let (signal, encoding, compression, permit) = (Signal::Logs, Encoding::Json, Compression::Identity, budget());
    let raw = Raw { signal, encoding, compression, bytes: json.into(), permit, writer: None };
    assert_eq!(open(raw, LIMIT, 0).err().map(|error| error.kind()), Some(Kind::TooLarge));
}

fn budget() -> Permit {
    Budget::new(1 << 30).take(0).unwrap()
}
