use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use prost::Message;
use service::error::Kind;

use super::*;
use crate::decode::check;
use crate::decode::wire::{put_bytes, put_tag, put_varint};

/// 2026-09-21.
const SECOND: u64 = 1_790_000_000;
const LIMIT: usize = 1 << 20;

fn read(push: Push, body: Vec<u8>) -> Result<Vec<ResourceLogs>> {
    let bytes = translate(push, &body.into(), LIMIT, |_| true)?;
    assert_eq!(check::check(Signal::Logs, &bytes, |_| false).unwrap().rejected, 0);
    Ok(ExportLogsServiceRequest::decode(bytes.as_slice()).unwrap().resource_logs)
}

fn snappy(body: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(body).unwrap()
}

fn entry(nanos: u64, line: &[u8], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut time = Vec::new();
    for (number, value) in [(1, SECOND), (2, nanos)] {
        put_tag(number, 0, &mut time);
        put_varint(value, &mut time);
    }
    let mut entry = Vec::new();
    put_bytes(1, &time, &mut entry);
    put_bytes(2, line, &mut entry);
    for (name, value) in metadata {
        let mut pair = Vec::new();
        put_bytes(1, name.as_bytes(), &mut pair);
        put_bytes(2, value.as_bytes(), &mut pair);
        put_bytes(3, &pair, &mut entry);
    }
    entry
}

fn push_of(labels: &str, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    put_bytes(1, labels.as_bytes(), &mut stream);
    entries.iter().for_each(|entry| put_bytes(2, entry, &mut stream));
    let mut push = Vec::new();
    put_bytes(1, &stream, &mut push);
    push
}

fn texts(attributes: &[KeyValue]) -> Vec<(String, String)> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.clone()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Labels say who sends, the level becomes the severity, ids become ids, and the time keeps its nanoseconds.
fn assert_whole(groups: &[ResourceLogs]) {
    let resource = texts(&groups[0].resource.as_ref().unwrap().attributes);
    let expected = [
        ("service.name", "vllm"),
        ("k8s.namespace.name", "prod"),
        ("k8s.pod.name", "vllm-0"),
        ("level", "warn"),
        ("team", "a \"b\"\n"),
    ];
    assert_eq!(resource, owned(&expected));
    let records = &groups[0].scope_logs[0].log_records;
    assert_eq!(records.len(), 2);
    let record = &records[0];
    assert_eq!(record.time_unix_nano, SECOND * 1_000_000_000 + 123_456_789);
    assert_eq!((record.severity_text.as_str(), record.severity_number), ("warn", 13));
    assert_eq!(record.body.clone().unwrap().value, Some(any_value::Value::StringValue("out of memory".to_owned())));
    assert_eq!((record.trace_id.clone(), record.observed_time_unix_nano), (vec![7; 16], 0));
    assert_eq!(texts(&record.attributes), owned(&[("thread", "9")]));
    assert_eq!(records[1].body.clone().unwrap().value, Some(any_value::Value::StringValue(String::new())));
}

const LABELS: &str = r#"{service_name="vllm", namespace="prod", pod="vllm-0", level="warn", team="a \"b\"\n"}"#;
const TRACE: &str = "07070707070707070707070707070707";

#[test]
fn protobuf_in_snappy() {
    let entries = [entry(123_456_789, b"out of memory", &[("trace_id", TRACE), ("thread", "9")]), entry(5, b"", &[])];
    assert_whole(&read(Push::Protobuf, snappy(&push_of(LABELS, &entries))).unwrap());
}

#[test]
fn json_plain_and_in_gzip() {
    use std::io::Write;

    let json = format!(
        r#"{{"streams": [{{"values": [["{SECOND}123456789", "out of memory", {{"trace_id": "{TRACE}", "thread": "9"}}],
            ["{SECOND}000000005", ""]], "stream": {{"service_name": "vllm", "namespace": "prod", "pod": "vllm-0",
            "level": "warn", "team": "a \"b\"\n"}}}}], "unknown": [1]}}"#
    );
    assert_whole(&read(Push::Json(Compression::Identity), json.clone().into_bytes()).unwrap());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(json.as_bytes()).unwrap();
    assert_whole(&read(Push::Json(Compression::Gzip), gzip.finish().unwrap()).unwrap());
}

/// A line need not be UTF-8; a level may come with the line.
#[test]
fn lines_are_whatever_programs_write() {
    let entries = [entry(1, b"caf\xe9", &[("detected_level", "error")])];
    let groups = read(Push::Protobuf, snappy(&push_of("{}", &entries))).unwrap();
    let record = &groups[0].scope_logs[0].log_records[0];
    assert_eq!(record.body.clone().unwrap().value, Some(any_value::Value::StringValue("caf\u{fffd}".to_owned())));
    assert_eq!(record.severity_number, 17);
    assert!(read(Push::Protobuf, snappy(&push_of("{a=\"b\"}", &[]))).unwrap().is_empty());
}

/// Everything that is no push is an error of the sender, and says what is wrong.
#[test]
fn what_is_no_push_is_invalid() {
    let whole = push_of(LABELS, &[entry(1, b"x", &[])]);
    for (body, reason) in [
        (whole.clone(), "snappy"),
        (snappy(&whole[..whole.len() - 1]), "no push request"),
        (snappy(&push_of("app=\"a\"", &[])), "no braces"),
        (snappy(&push_of("{app}", &[])), "without a value"),
        (snappy(&push_of("{app=a}", &[])), "without quotes"),
        (snappy(&push_of("{a=\"b\" c=\"d\"}", &[])), "no comma"),
    ] {
        let error = read(Push::Protobuf, body).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        let text = service::error::chain(&error);
        assert!(text.contains(reason), "{text} does not say `{reason}`");
    }
    for json in [
        "",
        "[]",
        "{}",
        "{\"streams\": 7}",
        "{\"streams\": [{\"stream\": {}}]}",
        "{\"streams\": [{\"stream\": {\"a\": 1}, \"values\": []}]}",
        "{\"streams\": [{\"stream\": {}, \"values\": [[\"x\", \"line\"]]}]}",
        "{\"streams\": [{\"stream\": {}, \"values\": [[\"1\"]]}]}",
        "{\"streams\": [{\"stream\": {}, \"values\": [[1, \"line\"]]}]}",
        "{\"streams\": []} {}",
    ] {
        let error = read(Push::Json(Compression::Identity), json.as_bytes().to_vec()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{json}");
    }
}

/// A stream has 128 labels and a line 128 pairs of metadata at most, however they are sent.
#[test]
fn labels_and_metadata_are_bounded() {
    let names: Vec<String> = (0..=PAIRS_MAX).map(|number| format!("l{number}")).collect();
    for (count, fits) in [(PAIRS_MAX, true), (PAIRS_MAX + 1, false)] {
        let pairs: Vec<_> = names[..count].iter().map(|name| (name.as_str(), "v")).collect();
        let selector = pairs.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect::<Vec<_>>().join(",");
        let object = pairs.iter().map(|(name, value)| format!("\"{name}\":\"{value}\"")).collect::<Vec<_>>().join(",");
        let json = |labels: &str, metadata: &str| {
            format!("{{\"streams\":[{{\"stream\":{{{labels}}},\"values\":[[\"1\",\"x\",{{{metadata}}}]]}}]}}")
                .into_bytes()
        };
        for (push, body) in [
            (Push::Protobuf, snappy(&push_of(&format!("{{{selector}}}"), &[entry(1, b"x", &[])]))),
            (Push::Protobuf, snappy(&push_of(LABELS, &[entry(1, b"x", &pairs)]))),
            (Push::Json(Compression::Identity), json(&object, "")),
            (Push::Json(Compression::Identity), json("", &object)),
        ] {
            let read = read(push, body);
            assert_eq!(read.is_ok(), fits, "{push:?} with {count}: {read:?}");
            if let Err(error) = read {
                assert!(service::error::chain(&error).contains("more than 128"), "{error}");
            }
        }
    }
}

/// A small block that claims to be large is refused before it is inflated; a body never grows past its limit.
#[test]
fn size_and_memory_are_limits() {
    let mut bomb = Vec::new();
    put_varint(u64::from(u32::MAX), &mut bomb);
    let error = read(Push::Protobuf, bomb).unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge);

    let tiny: Vec<Vec<u8>> = (0..72_000).map(|_| entry(1, b"", &[])).collect();
    let error = read(Push::Protobuf, snappy(&push_of("{}", &tiny))).map(|groups| groups.len()).unwrap_err();
    assert_eq!(error.kind(), Kind::TooLarge, "records are larger than entries");
    let error = translate(Push::Protobuf, &snappy(&push_of("{}", &tiny)).into(), 64 << 20, |_| false).unwrap_err();
    assert!(matches!(error.kind(), Kind::Overloaded { .. }));
}

/// Whatever bytes arrive are a push or an error; nothing panics, and what passes is sound OTLP.
#[test]
fn any_bytes_are_read_without_harm() {
    let sound = push_of(LABELS, &[entry(1, b"line", &[("trace_id", TRACE)])]);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..20_000 {
        let mut bytes = sound.clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            bytes[at] = next(256) as u8;
        }
        let _ = read(Push::Protobuf, snappy(&bytes));
        let _ = read(Push::Protobuf, bytes.clone());
        let _ = read(Push::Json(Compression::Identity), bytes);
    }
}

/// Go's quoting, as Loki's clients write it.
#[test]
fn selectors() {
    let found = labels::labels(r#"{ a = "b\\c", d="\u00e9\x41\t" ,e=`raw\n`, }"#).unwrap();
    let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    assert_eq!(found, [("a", "b\\c"), ("d", "éA\t"), ("e", "raw\\n")]);
}
