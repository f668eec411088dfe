"""Ten minutes of a small fleet, as OTLP/HTTP JSON: five hosts in three regions, two models, three tenants, one host without a price,
calls seen at up to three places, tokens, engine counters, energy, histograms of both kinds. The same numbers for a start time each run.
"""
import json
import math
import random
import urllib.request

SECOND = 1_000_000_000
MINUTES = 10
HOSTS = [
    # id, region, zone, type, capacity, chips, model, engine, environment, pool, weight, seconds of prefill
    ("i-use1-a", "us-east-1", "us-east-1a", "inf2.48xlarge", "on_demand", 12, "llama-3.1-8b", "production", "chat", 4, 0.12),
    ("i-use1-b", "us-east-1", "us-east-1b", "inf2.48xlarge", "on_demand", 12, "llama-3.1-8b", "production", "chat", 3, 0.14),
    ("i-use1-c", "us-east-1", "us-east-1c", "trn1.32xlarge", "on_demand", 16, "qwen-2.5-7b", "staging", "batch", 2, 0.20),
    ("i-euw1-a", "eu-west-1", "eu-west-1a", "inf2.48xlarge", None, 12, "llama-3.1-8b", "production", "chat", 3, 0.60),
    ("i-apne1-a", "ap-northeast-1", "ap-northeast-1a", "custom-npu.8x", "on_demand", 8, "qwen-2.5-7b", "production", "batch", 2, 0.18),
]
TENANTS = ["acme", "acme", "globex", "initech", None]
BOUNDS = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5]


def attributes(pairs):
    def value(given):
        if isinstance(given, bool):
            return {"boolValue": given}
        if isinstance(given, int):
            return {"intValue": str(given)}
        if isinstance(given, float):
            return {"doubleValue": given}
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(each) for each in given]}}
        return {"stringValue": given}

    return [{"key": key, "value": value(given)} for key, given in pairs.items() if given is not None]


def resource(host, service, **more):
    name, region, zone, kind, capacity, chips, _, environment, pool, _, _ = host
    return {"attributes": attributes({
        "service.name": service, "service.version": "0.9.1", "service.instance.id": f"{name}/0", "host.id": name, "host.type": kind,
        "cloud.region": region, "cloud.availability_zone": zone, "cloud.account.id": "1234", "k8s.cluster.name": f"c-{region}",
        "k8s.namespace.name": "serving", "deployment.environment.name": environment, "tokenwatt.pool": pool,
        "tokenwatt.capacity_type": capacity, "tokenwatt.chips": chips, **more,
    })}


class Fleet:
    def __init__(self, start_ns):
        assert start_ns % (60 * SECOND) == 0
        self.start, self.dice = start_ns, random.Random(20261129)
        self.calls = [self.call(n) for n in range(600)]

    def call(self, n):
        dice = self.dice
        host = dice.choices(HOSTS, [host[9] for host in HOSTS])[0]
        arrival = self.start + int(dice.uniform(5, 60 * MINUTES - 30) * 1e6) * 1000
        queue = int(dice.expovariate(1 / 0.03) * 1e6)
        prefill = int(host[10] * dice.lognormvariate(0, 0.5) * 1e6) + 1000
        failed = dice.random() < 0.05
        count = 0 if failed else dice.randint(3, 24)
        at, tokens = queue + prefill, []
        for index in range(count):
            stall = dice.choices(["decode", "prefill", "preempted"], [18, 1, 1])[0]
            if index:
                at += int(dice.lognormvariate(math.log(0.03), 0.4) * 1e6 * {"decode": 1, "prefill": 4, "preempted": 12}[stall])
            tokens.append((at, stall, dice.randint(1, 8), prefill // 3 if index == 0 else dice.randint(2_000, 9_000)))
        return dict(
            n=n, host=host, arrival=arrival, queue=queue, prefill=prefill, tokens=tokens, e2e=(tokens[-1][0] if tokens else queue + prefill) + 500,
            failed=failed, tenant=dice.choice(TENANTS), input=dice.randint(8, 900), cached=dice.randint(0, 8),
            places=["server"] + (["gateway"] if dice.random() < 0.6 else []) + (["client"] if dice.random() < 0.2 else []),
            finish=dice.choices(["stop", "length"], [4, 1])[0],
        )

    def spans(self, call):
        """Request spans by place, outermost first, and the tokens."""
        trace = f"{call['n'] + 1:032x}"
        model, parent, made = call["host"][6], "", {}
        for distance, place in enumerate(["client", "gateway", "server"]):
            if place not in call["places"]:
                continue
            early = (2 - distance) * 3_000_000
            begun, ended = call["arrival"] - early, call["arrival"] + call["e2e"] * 1000 + early
            ttft = (call["tokens"][0][0] * 1000 + early) / 1e9 if call["tokens"] else None
            one = {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.usage.input_tokens": call["input"],
                "gen_ai.usage.output_tokens": len(call["tokens"]) or None, "gen_ai.latency.time_to_first_token": ttft,
                "gen_ai.latency.e2e": (ended - begun) / 1e9, "tokenwatt.measured_at": place, "tokenwatt.tenant": call["tenant"],
                "error.type": "timeout" if call["failed"] else None,
            }
            if place == "server":
                one |= {
                    "gen_ai.usage.cache_read.input_tokens": call["cached"], "gen_ai.latency.time_in_queue": call["queue"] / 1e6,
                    "gen_ai.latency.time_in_model_prefill": call["prefill"] / 1e6, "tokenwatt.engine": "vllm",
                    "tokenwatt.device_us.prefill": call["tokens"][0][3] if call["tokens"] else 0,
                    "tokenwatt.device_us.decode": sum(token[3] for token in call["tokens"][1:]),
                    "gen_ai.response.finish_reasons": [call["finish"]] if call["tokens"] else None,
                }
            span_id = f"{call['n'] * 100 + distance + 1:016x}"
            made[place] = {
                "traceId": trace, "spanId": span_id, "parentSpanId": parent, "name": "llm_request", "kind": 2 if place == "server" else 3,
                "startTimeUnixNano": str(begun), "endTimeUnixNano": str(ended), "attributes": attributes(one),
                "status": {"code": 2} if call["failed"] else {},
            }
            parent = span_id
        tokens, before = [], 0
        for index, (at, stall, batch, device_us) in enumerate(call["tokens"]):
            tokens.append({
                "traceId": trace, "spanId": f"{(call['n'] + 1) * 1_000_000 + index:016x}", "parentSpanId": parent, "name": "token", "kind": 1,
                "startTimeUnixNano": str(call["arrival"] + before * 1000), "endTimeUnixNano": str(call["arrival"] + at * 1000),
                "attributes": attributes({
                    "gen_ai.request.model": model, "tokenwatt.tenant": call["tenant"], "tokenwatt.token.index": index,
                    "tokenwatt.token.batch": batch, "tokenwatt.token.device_us": device_us, "tokenwatt.token.stall": stall,
                }),
            })
            before = at
        return made, tokens

    def traces(self):
        sent = {}
        for call in self.calls:
            made, tokens = self.spans(call)
            for place, span in made.items():
                sent.setdefault((call["host"], {"server": "vllm", "gateway": "gateway", "client": "shop"}[place]), []).append(span)
            sent[(call["host"], "vllm")].extend(tokens)
        return {"resourceSpans": [
            {"resource": resource(host, service), "scopeSpans": [{"spans": spans}]} for (host, service), spans in sent.items()
        ]}

    def metrics(self):
        return {"resourceMetrics": [
            {"resource": resource(host, "vllm"), "scopeMetrics": [{"metrics": self.of_host(host)}]} for host in HOSTS
        ]}

    def of_host(self, host):
        dice = random.Random(host[0])
        tokens = sorted((call["arrival"] + at * 1000, us) for call in self.calls if call["host"] == host for at, _, _, us in call["tokens"])
        times = [self.start + second * SECOND for second in range(-30, 60 * MINUTES + 1, 10)]
        busy = [sum(us for at, us in tokens if at <= time) for time in times]
        served = {"gen_ai.request.model": host[6]}
        running = [dice.randint(0, 12) for _ in times]
        chip = {"hw.id": "0", "hw.type": "gpu", "hw.vendor": "aws", "hw.model": host[3].split(".")[0]}
        metered = {**chip, "tokenwatt.boundary": "node", "tokenwatt.energy_method": "energy_counter"}
        joules = [400.0 * 10 * n + sum(running[:n]) * 37.5 for n in range(len(times))]
        sum_of = lambda points: {"sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": points}}
        points = lambda values, more: [
            {"timeUnixNano": str(time), "startTimeUnixNano": str(times[0] - SECOND), "attributes": attributes(more),
             **({"asInt": str(value)} if isinstance(value, int) else {"asDouble": value})} for time, value in zip(times, values)
        ]
        return [
            {"name": "tokenwatt.engine.busy_us", "unit": "us", **sum_of(points(busy, served))},
            {"name": "tokenwatt.engine.padding_us", "unit": "us", **sum_of(points([us // 5 for us in busy], served))},
            {"name": "vllm:num_requests_running", "unit": "{request}", "gauge": {"dataPoints": points(running, served)}},
            {"name": "vllm:num_requests_waiting", "unit": "{request}", "gauge": {"dataPoints": points([n // 3 for n in running], served)}},
            {"name": "vllm:kv_cache_usage_perc", "unit": "1", "gauge": {"dataPoints": points([n / 16 for n in running], served)}},
            {"name": "hw.gpu.utilization", "unit": "1", "gauge": {"dataPoints": points([n / 12 for n in running], chip)}},
            {"name": "hw.energy", "unit": "J", **sum_of(points(joules, metered))},
            *self.histograms(host),
        ]

    def histograms(self, host):
        """Two points, one for each half of the time: exponential at scale 3, and classic."""
        exponential, classic = [], []
        for half in range(2):
            begun, ended = self.start + half * 300 * SECOND, self.start + (half + 1) * 300 * SECOND
            values = [call["tokens"][0][0] / 1e6 for call in self.calls
                      if call["host"] == host and call["tokens"] and begun <= call["arrival"] < ended]
            index = lambda value: math.ceil(math.log2(value) * 8) - 1
            offset = min(map(index, values))
            counts = [0] * (max(map(index, values)) - offset + 1)
            buckets = [0] * (len(BOUNDS) + 1)
            for value in values:
                counts[index(value) - offset] += 1
                buckets[sum(bound < value for bound in BOUNDS)] += 1
            one = {"startTimeUnixNano": str(begun), "timeUnixNano": str(ended), "count": str(len(values)), "sum": sum(values)}
            exponential.append({**one, "scale": 3, "zeroCount": "0", "min": min(values), "max": max(values),
                                "positive": {"offset": offset, "bucketCounts": [str(count) for count in counts]}})
            classic.append({**one, "explicitBounds": BOUNDS, "bucketCounts": [str(count) for count in buckets]})
        return [
            {"name": "server.ttft.exponential", "unit": "s", "exponentialHistogram": {"aggregationTemporality": 1, "dataPoints": exponential}},
            {"name": "server.ttft.classic", "unit": "s", "histogram": {"aggregationTemporality": 1, "dataPoints": classic}},
        ]

    def send(self, otlp):
        for path, body in (("/v1/traces", self.traces()), ("/v1/metrics", self.metrics())):
            request = urllib.request.Request(otlp + path, data=json.dumps(body).encode(), headers={"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer = json.load(answer)
                assert not answer.get("partialSuccess"), answer
