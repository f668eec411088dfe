use prost::Message;
use tonic_types::{ErrorDetails, StatusExt};

use super::*;

fn read(failure: &Failure) -> ErrorDetails {
    let details = failure.status().into();
    tonic::Status::with_details(tonic::Code::from_i32(i32::from(failure.grpc)), "", details).get_error_details()
}

/// Each kind of error becomes the statuses that senders act on rightly.
#[test]
fn kinds_become_statuses() {
    let soon = Duration::from_secs(1);
    for (kind, http, grpc, again) in [
        (Kind::Invalid, 400, 3, false),
        (Kind::TooLarge, 413, 8, false),
        (Kind::Unauthenticated, 401, 16, false),
        (Kind::Denied, 403, 7, false),
        (Kind::NotFound, 404, 5, false),
        (Kind::Overloaded { retry_after: soon }, 503, 14, true),
        (Kind::Unavailable { retry_after: soon }, 503, 14, true),
        (Kind::Throttled { retry_after: soon }, 429, 8, true),
        (Kind::Internal, 503, 14, true),
        (Kind::Corrupt, 503, 14, true),
    ] {
        let failure = Failure::of(&Error::new(kind, "no"), 0.5);
        assert_eq!((failure.http, failure.grpc), (http, grpc), "{kind:?}");
        assert_eq!(read(&failure).retry_info().is_some(), again, "{kind:?}");
        assert_eq!(read(&failure).bad_request().is_some(), kind == Kind::Invalid, "{kind:?}");
    }
}

/// Refused senders come back between one and four seconds later, not all at once; those over their quota when it says.
#[test]
fn waits_are_spread() {
    let overloaded = Error::overloaded("no");
    let wait = |error: &Error, roll| read(&Failure::of(error, roll)).retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(wait(&overloaded, 0.0), Duration::from_secs(1));
    assert_eq!(wait(&overloaded, 0.5), Duration::from_millis(2_500));
    assert_eq!(wait(&overloaded, 1.0), Duration::from_secs(4));
    let throttled = Error::new(Kind::Throttled { retry_after: Duration::from_secs(20) }, "no");
    assert_eq!(wait(&throttled, 0.0), Duration::from_secs(20));
    assert_eq!(wait(&throttled, 1.0), Duration::from_secs(23));
    let json: serde_json::Value = serde_json::from_slice(&Failure::of(&overloaded, 0.5).body(Encoding::Json)).unwrap();
    assert_eq!(json["details"][0]["retryDelay"], "2.500s");
}

/// An answer is compressed if it is long, the sender takes it and it gets shorter by that.
#[test]
fn long_answers_are_compressed_for_those_who_ask() {
    use crate::decode::inflate::inflate;
    let answer = vec![b'a'; 500];
    for (accepted, expected) in [
        ("", Compression::Identity),
        ("br", Compression::Identity),
        ("gzip;q=0", Compression::Identity),
        ("br, GZIP;q=0.5", Compression::Gzip),
        ("identity,zstd", Compression::Zstd),
    ] {
        let (compression, sent) = compressed(accepted, answer.clone());
        assert_eq!(compression, expected, "{accepted}");
        assert_eq!(inflate(compression, &sent.into(), 1_000, |_| true).unwrap(), answer, "{accepted}");
    }
    assert_eq!(compressed("gzip", vec![b'a'; 20]).0, Compression::Identity);
    let noise: Vec<u8> = (0..200_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(compressed("gzip", noise).0, Compression::Identity);
}

/// What prost reads of our answers is what we meant.
#[test]
fn partial_success_is_read_by_prost() {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
    let accepted = Accepted { rejected: 3, message: "why".to_owned() };
    let body = success(Signal::Traces, Encoding::Protobuf, &accepted);
    let partial = ExportTraceServiceResponse::decode(body.as_slice()).unwrap().partial_success.unwrap();
    assert_eq!((partial.rejected_spans, partial.error_message.as_str()), (3, "why"));
    let json: serde_json::Value = serde_json::from_slice(&success(Signal::Logs, Encoding::Json, &accepted)).unwrap();
    assert_eq!(json["partialSuccess"]["rejectedLogRecords"], "3");
}
