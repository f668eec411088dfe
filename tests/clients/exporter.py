"""An exporter made with Prometheus' own client library, which shows what vLLM shows. Prints its port, then waits for its end.

usage: exporter.py
"""
import sys

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, start_http_server

registry = CollectorRegistry()
labels = {"model_name": 'a "model"', "engine": "0"}


def made(kind, name, text, **more):
    return kind(name, text, list(labels), registry=registry, **more).labels(**labels)


made(Gauge, "vllm:num_requests_running", "Requests in the batch.").set(3)
made(Gauge, "vllm:kv_cache_usage_perc", "Share of the KV cache in use.").set(0.25)
made(Counter, "vllm:generation_tokens", "Tokens.").inc(1500)
ttft = made(Histogram, "vllm:time_to_first_token_seconds", "TTFT.", buckets=(0.01, 0.1, 1.0))
for seconds, trace in ((0.005, "01" * 16), (0.05, "02" * 16), (0.06, None), (2.0, None)):
    ttft.observe(seconds, {"trace_id": trace, "span_id": "03" * 8} if trace else None)
made(Summary, "vllm:step_seconds", "Steps.").observe(0.5)

server, thread = start_http_server(0, "127.0.0.1", registry)
print(server.server_port, flush=True)
sys.stdin.read()
server.shutdown()
