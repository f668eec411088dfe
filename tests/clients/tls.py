"""OpenTelemetry's own exporters under TLS: one span by gRPC and one by HTTP, with a token or a client certificate.

usage: tls.py GRPC_URL HTTP_URL CA (token TOKEN | cert CERT KEY) SPAN_NAME
"""
import os
import sys
from pathlib import Path

# Where these are set, requests prefers them to the file that the exporter is given.
for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
    os.environ.pop(name, None)

from grpc import ssl_channel_credentials
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

GRPC_URL, HTTP_URL, CA, *PROOF, NAME = sys.argv[1:]
headers, cert, key = {}, None, None
if PROOF[0] == "token":
    headers = {"authorization": f"Bearer {PROOF[1]}"}
else:
    cert, key = PROOF[1:]


def read(path):
    return Path(path).read_bytes() if path else None


# The processor swallows what an exporter raises: results are looked at afterwards.
results = []


class Noted(SpanExporter):
    def __init__(self, inner):
        self.inner = inner

    def export(self, spans):
        results.append(self.inner.export(spans))
        return results[-1]


grpc = Grpc(
    endpoint=GRPC_URL,
    headers=headers,
    credentials=ssl_channel_credentials(read(CA), read(key), read(cert)),
)
http = Http(
    endpoint=HTTP_URL + "/v1/traces",
    headers=headers,
    certificate_file=CA,
    client_certificate_file=cert,
    client_key_file=key,
)
for protocol, exporter in (("grpc", grpc), ("http", http)):
    provider = TracerProvider(resource=Resource.create({"service.name": "tls"}))
    provider.add_span_processor(SimpleSpanProcessor(Noted(exporter)))
    with provider.get_tracer("t").start_as_current_span(f"{NAME}-{protocol}"):
        pass
    provider.shutdown()
assert results == [SpanExportResult.SUCCESS] * 2, results
print("sent")
