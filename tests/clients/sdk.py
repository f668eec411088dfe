"""OpenTelemetry's own SDK against the collector: spans as vLLM V1 sends them, metrics, logs.

What left the SDK is kept as protobuf. Afterwards every span, metric point and log record is rebuilt from SQL rows and
compared with it, and what has a column is compared in its column.

usage: sdk.py grpc|http OTLP_URL SQL_URL
"""
import json
import sys
import time

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

import lake_sql

PROTOCOL, OTLP, SQL = sys.argv[1:4]
SERVICE = f"vllm-{PROTOCOL}"
SECOND = 1_000_000_000


def exporters():
    if PROTOCOL == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        target = dict(endpoint=OTLP, insecure=True)
        return OTLPSpanExporter(**target), OTLPMetricExporter(**target), OTLPLogExporter(**target)
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return (
        OTLPSpanExporter(endpoint=OTLP + "/v1/traces"),
        OTLPMetricExporter(endpoint=OTLP + "/v1/metrics"),
        OTLPLogExporter(endpoint=OTLP + "/v1/logs"),
    )


class KeepSpans(SpanExporter):
    def __init__(self, inner):
        self.inner, self.kept = inner, []

    def export(self, spans):
        self.kept.append(encode_spans(spans))
        result = self.inner.export(spans)
        assert result is SpanExportResult.SUCCESS, result
        return result

    def shutdown(self):
        self.inner.shutdown()


class KeepLogs(LogRecordExporter):
    def __init__(self, inner):
        self.inner, self.kept = inner, []

    def export(self, batch):
        self.kept.append(encode_logs(batch))
        return self.inner.export(batch)

    def force_flush(self, timeout_millis=10_000):
        return True

    def shutdown(self):
        self.inner.shutdown()


class KeepMetrics(MetricExporter):
    def __init__(self, inner):
        super().__init__(inner._preferred_temporality, inner._preferred_aggregation)
        self.inner, self.kept = inner, []

    def export(self, data, timeout_millis=10_000, **kwargs):
        self.kept.append(encode_metrics(data))
        return self.inner.export(data, timeout_millis, **kwargs)

    def force_flush(self, timeout_millis=10_000):
        return self.inner.force_flush(timeout_millis)

    def shutdown(self, timeout_millis=30_000, **kwargs):
        self.inner.shutdown(timeout_millis, **kwargs)


# ---- what is sent -------------------------------------------------------------------------------------------------

RESOURCE = Resource.create(
    {
        "service.name": SERVICE,
        "service.version": "0.10.2",
        "service.instance.id": f"{SERVICE}-0",
        "cloud.provider": "aws",
        "cloud.region": "eu-west-1",
        "cloud.availability_zone": "eu-west-1b",
        "host.id": "i-0sdk",
        "host.type": "inf2.48xlarge",
        "k8s.cluster.name": "prod-eu",
        "k8s.namespace.name": "chat",
        "deployment.environment.name": "production",
        "tokenwatt.pool": "inf2",
        "vllm.instrumenting_module_name": "vllm.llm_engine",
        "vllm.process_id": "4711",
        "tokenwatt.chips": 12,
    }
)


def send_spans(tracer):
    now = time.time_ns()
    # vLLM V1: one span a request, old usage names, no model, latencies in seconds.
    vllm = tracer.start_span(
        "llm_request",
        kind=SpanKind.SERVER,
        start_time=now - 5 * SECOND,
        attributes={
            "gen_ai.request.id": "cmpl-1",
            "gen_ai.request.max_tokens": 128,
            "gen_ai.request.temperature": 0.7,
            "gen_ai.usage.prompt_tokens": 321,
            "gen_ai.usage.completion_tokens": 45,
            "gen_ai.latency.time_in_queue": 0.0125,
            "gen_ai.latency.time_to_first_token": 0.25,
            "gen_ai.latency.e2e": 3.5,
            "gen_ai.latency.time_in_model_prefill": 0.2,
            "gen_ai.latency.time_in_model_decode": 3.25,
            "gen_ai.latency.time_in_model_inference": 3.45,
            "gen_ai.request.top_p": 0.95,
        },
    )
    vllm.end(now - 5 * SECOND + 3_500_000_000)
    # GenAI conventions of today, measured by a client.
    chat = tracer.start_span(
        "chat llama-3.1-8b",
        kind=SpanKind.CLIENT,
        start_time=now - 9 * SECOND,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "llama-3.1-8b",
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 64,
            "gen_ai.response.time_to_first_chunk": 0.5,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.stream": True,
        },
    )
    chat.end(now - 7 * SECOND)
    # The conventions before v1.37.
    old = tracer.start_span(
        "text_completion gpt",
        kind=SpanKind.CLIENT,
        start_time=now - 4 * SECOND,
        attributes={
            "gen_ai.operation.name": "text_completion",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "gpt",
            "gen_ai.usage.prompt_tokens": 7,
            "gen_ai.usage.completion_tokens": 3,
        },
    )
    old.set_status(Status(StatusCode.ERROR, "upstream reset"))
    old.set_attribute("error.type", "connection_reset")
    old.end(now - 3 * SECOND)
    # No call at all, with everything a span can carry.
    context = vllm.get_span_context()
    other = tracer.start_span(
        "retrieval",
        context=trace.set_span_in_context(vllm),
        kind=SpanKind.INTERNAL,
        start_time=now - 6 * SECOND + 123,
        links=[Link(context, {"why": "same prompt"})],
        attributes={
            "text": "ü € 😀",
            "empty": "",
            "int": -5,
            "big": 9_223_372_036_854_775_807,
            "double": 0.1,
            "yes": True,
            "no": False,
            "strings": ["a", "b"],
            "ints": [1, 2],
            "doubles": [0.5],
        },
    )
    other.add_event("chunk", {"documents": 4, "source": "wiki"}, timestamp=now - 6 * SECOND + 456)
    other.end(now - 6 * SECOND + 789)


def send_metrics(meter):
    meter.create_counter("app.requests", unit="{request}", description="calls").add(3, {"route": "/chat", "code": 200})
    meter.create_up_down_counter("app.depth", unit="1").add(-2, {"queue": "a"})
    meter.create_gauge("app.ratio", unit="1").set(0.625)
    latency = meter.create_histogram("app.latency", unit="s", explicit_bucket_boundaries_advisory=[0.1, 1.0])
    size = meter.create_histogram("app.size", unit="By")
    for value in (0.05, 0.5, 5.0):
        latency.record(value, {"route": "/chat"})
        size.record(value * 1024)
    device = {"hw.id": "nd0", "hw.type": "gpu", "hw.vendor": "aws", "hw.model": "inferentia2"}
    meter.create_gauge("hw.power", unit="W").set(187.5, {**device, "tokenwatt.boundary": "chip"})
    meter.create_gauge("hw.gpu.utilization", unit="1").set(0.75, device)


def send_logs(logger):
    now = time.time_ns()
    logger.emit(
        LogRecord(
            timestamp=now - SECOND,
            observed_timestamp=now,
            severity_number=SeverityNumber.WARN,
            severity_text="WARNING",
            body="kv cache is full",
            attributes={"engine": 0, "reason": "capacity"},
            event_name="vllm.preempted",
        )
    )
    logger.emit(
        LogRecord(
            timestamp=now - SECOND,
            observed_timestamp=now,
            severity_number=SeverityNumber.INFO,
            body={"loaded": True, "seconds": 12.5},
            attributes={},
        )
    )


# ---- one form for what was sent and what came back -----------------------------------------------------------------


def of_proto(value):
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    plain = getattr(value, kind)
    if kind == "array_value":
        return ["array", [of_proto(item) for item in plain.values]]
    if kind == "kvlist_value":
        return ["kvlist", {item.key: of_proto(item.value) for item in plain.values}]
    return [kind, plain]


def of_json(value):
    if not value:
        return None
    (kind, plain), = value.items()
    if kind == "arrayValue":
        return ["array", [of_json(item) for item in plain.get("values", [])]]
    if kind == "kvlistValue":
        return ["kvlist", {item["key"]: of_json(item["value"]) for item in plain.get("values", [])}]
    convert = {"stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool}[kind]
    return [kind.replace("Value", "_value"), convert(plain)]


def attributes_of_proto(attributes):
    return {item.key: of_proto(item.value) for item in attributes}


def attributes_of_json(attributes):
    return {item["key"]: of_json(item["value"]) for item in attributes or []}


def attributes_of_row(plain, typed):
    rebuilt = {key: ["string_value", value] for key, value in (plain or {}).items()}
    rebuilt.update({key: of_json(value) for key, value in json.loads(typed or "{}").items()})
    return rebuilt


def origin_of_proto(resource, scope, resource_url, scope_url):
    return {
        "resource": attributes_of_proto(resource.attributes),
        "resource_url": resource_url,
        "scope": (scope.name, scope.version, attributes_of_proto(scope.attributes), scope_url),
    }


def origin_of_row(row):
    return {
        "resource": attributes_of_row(row["resource"], row["resource_typed"]),
        "resource_url": row["resource_schema_url"] or "",
        "scope": (
            row["scope_name"] or "",
            row["scope_version"] or "",
            attributes_of_row(row["scope_attributes"], row["scope_typed"]),
            row["scope_schema_url"] or "",
        ),
    }


KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
STATUSES = ["unset", "ok", "error"]
TEMPORALITIES = ["unspecified", "delta", "cumulative"]


def spans_of_proto(kept):
    for request in kept:
        for block in request.resource_spans:
            for scoped in block.scope_spans:
                for span in scoped.spans:
                    yield span.span_id.hex(), {
                        **origin_of_proto(block.resource, scoped.scope, block.schema_url, scoped.schema_url),
                        "trace": span.trace_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "state": span.trace_state,
                        "flags": span.flags,
                        "name": span.name,
                        "kind": KINDS[span.kind],
                        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
                        "status": (STATUSES[span.status.code], span.status.message),
                        "attributes": attributes_of_proto(span.attributes),
                        "events": [
                            (event.time_unix_nano, event.name, attributes_of_proto(event.attributes))
                            for event in span.events
                        ],
                        "links": [
                            (link.trace_id.hex(), link.span_id.hex(), link.flags, attributes_of_proto(link.attributes))
                            for link in span.links
                        ],
                    }


def span_of_row(row):
    return {
        **origin_of_row(row),
        "trace": row["trace_id"],
        "parent": row["parent_span_id"] or "",
        "state": row["trace_state"] or "",
        "flags": row["flags"] or 0,
        "name": row["name"],
        "kind": row["kind"],
        "times": (int(row["time_unix_nano"]), int(row["end_unix_nano"])),
        "status": (row["status"], row["status_message"] or ""),
        "attributes": attributes_of_row(row["attributes"], row["attributes_typed"]),
        "events": [
            (int(event["timeUnixNano"]), event["name"], attributes_of_json(event.get("attributes")))
            for event in json.loads(row["events"] or "[]")
        ],
        "links": [
            (link["traceId"], link["spanId"], int(link.get("flags", 0)), attributes_of_json(link.get("attributes")))
            for link in json.loads(row["links"] or "[]")
        ],
    }


def points_of_proto(kept):
    """Points by (metric, attributes)."""
    for request in kept:
        for block in request.resource_metrics:
            for scoped in block.scope_metrics:
                for metric in scoped.metrics:
                    kind = metric.WhichOneof("data")
                    data = getattr(metric, kind)
                    for point in data.data_points:
                        rebuilt = {
                            **origin_of_proto(block.resource, scoped.scope, block.schema_url, scoped.schema_url),
                            "metric": (metric.name, metric.description, metric.unit, kind),
                            "temporality": TEMPORALITIES[getattr(data, "aggregation_temporality", 0)],
                            "times": (point.start_time_unix_nano, point.time_unix_nano),
                            "attributes": attributes_of_proto(point.attributes),
                        }
                        if kind in ("gauge", "sum"):
                            field = point.WhichOneof("value")
                            rebuilt["value"] = (field, getattr(point, field))
                            rebuilt["monotonic"] = bool(getattr(data, "is_monotonic", False))
                        elif kind == "histogram":
                            rebuilt["buckets"] = (list(point.explicit_bounds), list(point.bucket_counts))
                            rebuilt["moments"] = (point.count, point.sum, point.min, point.max)
                        else:
                            rebuilt["buckets"] = (
                                point.scale,
                                point.zero_count,
                                point.positive.offset,
                                list(point.positive.bucket_counts),
                                point.negative.offset,
                                list(point.negative.bucket_counts),
                            )
                            rebuilt["moments"] = (point.count, point.sum, point.min, point.max)
                        yield metric.name, rebuilt


def number_of_row(row):
    value = ("as_int", int(row["value_int"])) if row["value_int"] is not None else ("as_double", row["value"])
    return {
        **origin_of_row(row),
        "metric": (row["name"], row["description"] or "", row["unit"] or "", row["kind"]),
        "temporality": row["temporality"] or "unspecified",
        "times": (int(row["start_unix_nano"] or 0), int(row["time_unix_nano"])),
        "attributes": attributes_of_row(row["attributes"], row["attributes_typed"]),
        "value": value,
        "monotonic": bool(row["monotonic"]),
    }


def histogram_of_row(row):
    if row["kind"] == "histogram":
        buckets = (row["bounds"], [int(count) for count in row["counts"]])
    else:
        buckets = (
            row["scale"],
            row["zero_count"],
            row["positive_offset"] or 0,
            [int(count) for count in row["positive_counts"] or []],
            row["negative_offset"] or 0,
            [int(count) for count in row["negative_counts"] or []],
        )
    return {
        **origin_of_row(row),
        "metric": (row["name"], row["description"] or "", row["unit"] or "", row["kind"]),
        "temporality": row["temporality"],
        "times": (int(row["start_unix_nano"] or 0), int(row["time_unix_nano"])),
        "attributes": attributes_of_row(row["attributes"], row["attributes_typed"]),
        "buckets": buckets,
        "moments": (row["count"], row["sum"], row["min"], row["max"]),
    }


def logs_of_proto(kept):
    for request in kept:
        for block in request.resource_logs:
            for scoped in block.scope_logs:
                for record in scoped.log_records:
                    yield {
                        **origin_of_proto(block.resource, scoped.scope, block.schema_url, scoped.schema_url),
                        "times": (record.time_unix_nano, record.observed_time_unix_nano),
                        "severity": (record.severity_number, record.severity_text),
                        "body": of_proto(record.body),
                        "event": record.event_name,
                        "ids": (record.trace_id.hex(), record.span_id.hex(), record.flags),
                        "attributes": attributes_of_proto(record.attributes),
                    }


def log_of_row(row):
    body = of_json(json.loads(row["body_typed"])) if row["body_typed"] else ["string_value", row["body"]]
    return {
        **origin_of_row(row),
        "times": (int(row["time_unix_nano"]), int(row["observed_unix_nano"])),
        "severity": (row["severity_number"], row["severity"] or ""),
        "body": body,
        "event": row["event_name"] or "",
        "ids": (row["trace_id"] or "", row["span_id"] or "", row["flags"] or 0),
        "attributes": attributes_of_row(row["attributes"], row["attributes_typed"]),
    }


def same(what, sent, stored):
    if sent == stored:
        return
    keys = sent.keys() | stored.keys()
    wrong = [f"  {key}\n    sent   {sent.get(key)}\n    stored {stored.get(key)}" for key in keys if sent.get(key) != stored.get(key)]
    raise SystemExit(f"{what} differs:\n" + "\n".join(wrong))


def expect(row, **columns):
    wrong = {name: (row[name], value) for name, value in columns.items() if row[name] != value}
    assert not wrong, f"column: (stored, expected) {wrong}"


# ---- the test ------------------------------------------------------------------------------------------------------

DIMENSIONS = dict(
    region="eu-west-1",
    zone="eu-west-1b",
    environment="production",
    cluster="prod-eu",
    namespace="chat",
    pool="inf2",
    host_id="i-0sdk",
    host_type="inf2.48xlarge",
    service=SERVICE,
    service_version="0.10.2",
    instance=f"{SERVICE}-0",
)


def check_spans(kept):
    sent = dict(spans_of_proto(kept))
    stored = lake_sql.until(SQL, "SELECT * FROM spans WHERE service = $service", len(sent), service=SERVICE)
    for row in stored:
        expect(row, **DIMENSIONS)
        same(f"span {row['name']}", sent[row["span_id"]], span_of_row(row))


def check_requests():
    found = lake_sql.until(SQL, "SELECT * FROM requests WHERE service = $service ORDER BY input_tokens", 3, service=SERVICE)
    old, chat, vllm = found
    for row in found:
        expect(row, **DIMENSIONS)
    expect(vllm, measured_at="server", request_id="cmpl-1", input_tokens=321, output_tokens=45)
    expect(vllm, queue_s=0.0125, prefill_s=0.2, decode_s=3.25, ttft_s=0.25, e2e_s=3.5, status="ok", chips=12)
    # (e2e - TTFT) / (output tokens - 1)
    assert abs(vllm["tpot_s"] - 3.25 / 44) < 1e-12, vllm["tpot_s"]
    assert vllm["cached_input_tokens"] is None and vllm["finish_reason"] is None and vllm["tenant"] is None
    expect(chat, measured_at="client", operation="chat", model="llama-3.1-8b", input_tokens=100, output_tokens=20)
    expect(chat, cached_input_tokens=64, ttft_s=0.5, finish_reason="stop", stream=True, e2e_s=2.0)
    expect(old, measured_at="client", operation="text_completion", model="gpt", input_tokens=7, output_tokens=3)
    expect(old, status="error", error_type="connection_reset", ttft_s=None)


def check_metrics(kept):
    sent = [(name, point) for name, point in points_of_proto(kept) if name.startswith("app.")]
    numbers = [pair for pair in sent if pair[1]["metric"][3] in ("gauge", "sum")]
    histograms = [pair for pair in sent if pair not in numbers]
    query = "SELECT * FROM {} WHERE service = $service AND name LIKE 'app.%'"
    for table, points, rebuild in (("metrics", numbers, number_of_row), ("histograms", histograms, histogram_of_row)):
        stored = lake_sql.until(SQL, query.format(table), len(points), service=SERVICE)
        # One point a metric and export: name and time are its key.
        stored = {(row["name"], int(row["time_unix_nano"])): row for row in stored}
        assert len(stored) == len(points)
        for name, point in points:
            row = stored[name, point["times"][1]]
            expect(row, **DIMENSIONS)
            same(f"point of {name}", point, rebuild(row))


def check_devices():
    # Both gauges were in one export, which is committed as one: the metrics are there, so are these.
    found = lake_sql.rows(SQL, "SELECT * FROM devices WHERE service = $service AND device = 'nd0'", service=SERVICE)
    power = [row for row in found if row["power_w"] is not None]
    busy = [row for row in found if row["utilization"] is not None]
    assert power and busy, found
    for row in found:
        expect(row, **DIMENSIONS, vendor="aws", accelerator="inferentia2")
    assert {row["power_w"] for row in power} == {187.5} and {row["utilization"] for row in busy} == {0.75}
    assert {row["boundary"] for row in power} == {"chip"}


def check_logs(kept):
    sent = sorted(logs_of_proto(kept), key=lambda record: record["severity"])
    stored = lake_sql.until(
        SQL, "SELECT * FROM logs WHERE service = $service ORDER BY severity_number", len(sent), service=SERVICE
    )
    for record, row in zip(sent, stored):
        expect(row, **DIMENSIONS)
        same("log record", record, log_of_row(row))


def main():
    span_exporter, metric_exporter, log_exporter = exporters()
    spans, metrics, logs = KeepSpans(span_exporter), KeepMetrics(metric_exporter), KeepLogs(log_exporter)

    traces = TracerProvider(resource=RESOURCE)
    traces.add_span_processor(SimpleSpanProcessor(spans))
    send_spans(traces.get_tracer("vllm.tracing.otel", "0.10.2", attributes={"scope.note": "x"}))
    traces.shutdown()

    # One export: the reader's interval is longer than the test.
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=3_600_000)
    exponential = View(instrument_name="app.size", aggregation=ExponentialBucketHistogramAggregation())
    meters = MeterProvider(metric_readers=[reader], resource=RESOURCE, views=[exponential])
    send_metrics(meters.get_meter("app", "1.0"))
    meters.shutdown()

    records = LoggerProvider(resource=RESOURCE)
    records.add_log_record_processor(SimpleLogRecordProcessor(logs))
    send_logs(records.get_logger("app"))
    records.shutdown()

    check_requests()
    check_spans(spans.kept)
    check_metrics(metrics.kept)
    check_devices()
    check_logs(logs.kept)
    print(f"{PROTOCOL}: every span, point and record came back")


main()
