//! Intervals of hosts in `nodes`: by when things happened, whenever they arrived.

use arrow::datatypes::TimestampMicrosecondType;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A body with spans of one host that began so many seconds ago.
fn spans(ago_s: &[u64]) -> Vec<u8> {
    let spans = ago_s.iter().map(|ago| Span {
        start_time_unix_nano: NOW_US as u64 * 1_000 - ago * SECOND_NS,
        end_time_unix_nano: NOW_US as u64 * 1_000,
        ..span("work", 1, Vec::new())
    });
    let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
    let resource = Resource {
        attributes: vec![text("host.id", "i-1"), text("tokenwatt.capacity_type", "spot")],
        ..Resource::default()
    };
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// First and last, in seconds before all of it was received.
fn intervals(tables: &mut Tables) -> Vec<(i64, i64)> {
    let columns = crate::batch::nodes::Columns::new().unwrap();
    let Tables { seen, nodes, .. } = tables;
    seen.write(&columns, nodes);
    let closed = nodes.close(9).unwrap().expect("a host");
    let mut found = Vec::new();
    for (_, batch) in &closed.batches {
        let time = |name: &str, row: usize| {
            let array = batch.column_by_name(name).unwrap().as_primitive::<TimestampMicrosecondType>();
            (NOW_US - array.value(row)) / 1_000_000
        };
        for row in 0..batch.num_rows() {
            assert_eq!(time("time", row), time("first_seen", row));
            found.push((time("first_seen", row), time("last_seen", row)));
        }
    }
    found
}

/// An interval begins with the first event and ends with the last, and not when they arrived. What comes late is an interval of its own:
/// of the time between nothing is known. Nor of that between two events of one body that lie far apart.
#[test]
fn a_host_is_seen_when_things_happen() {
    /// Seconds ago at which things happened, body by body.
    type Bodies<'a> = &'a [&'a [u64]];
    let cases: [(Bodies<'_>, &[(i64, i64)]); 5] = [
        (&[&[30, 20]], &[(30, 20)]),
        (&[&[30], &[7], &[20, 90]], &[(90, 7)]),
        (&[&[10], &[7_200, 7_190], &[5]], &[(7_200, 7_190), (10, 5)]),
        (&[&[3_600, 1]], &[(3_600, 3_600), (1, 1)]),
        (&[&[300], &[150], &[220]], &[(300, 150)]),
    ];
    for (bodies, expected) in cases {
        let mut tables = rows_of_all(Signal::Traces, bodies.iter().map(|ago| spans(ago)));
        let mut found = intervals(&mut tables);
        found.sort_by_key(|(first, _)| std::cmp::Reverse(*first));
        assert_eq!(found, expected, "{bodies:?}");
    }
}

/// A host of which only rows with an impossible time came was not seen at any time.
#[test]
fn impossible_times_are_no_sight_of_a_host() {
    let tables = rows_of_all(Signal::Traces, [spans(&[400 * 86_400])]);
    assert!(tables.seen.is_empty() && !tables.quarantine.is_empty());
}
