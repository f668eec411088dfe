"""A sender of Loki's push API, as Promtail writes it: protobuf in a snappy block, and JSON in gzip. Prints the statuses.

usage: loki.py URL
"""
import gzip
import json
import struct
import sys
import time
import urllib.error
import urllib.request

import pyarrow

URL = sys.argv[1]


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """A field of bytes, or of a whole number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def entry(ns, line, metadata):
    timestamp = field(1, ns // 10**9) + field(2, ns % 10**9)
    pairs = b"".join(field(3, field(1, k.encode()) + field(2, v.encode())) for k, v in metadata.items())
    return field(1, timestamp) + field(2, line) + pairs


def post(body, headers):
    request = urllib.request.Request(URL, data=body, headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


now = time.time_ns()
labels = b'{service_name="promtail-test", namespace="prod", pod="vllm-0", level="warn", team="blue"}'
lines = [(b"line %d" % n, {"trace_id": "ab" * 16, "thread": str(n)}) for n in range(1000)]
stream = field(1, labels) + b"".join(field(2, entry(now + n, line, more)) for n, (line, more) in enumerate(lines))
push = pyarrow.compress(field(1, stream), codec="snappy", asbytes=True)
protobuf = {"Content-Type": "application/x-protobuf", "User-Agent": "promtail/3.5"}
# A time-out makes a client send the same bytes again.
statuses = [post(push, protobuf), post(push, protobuf)]

values = [[str(now + n), f"json {n}"] for n in range(10)]
body = json.dumps({"streams": [{"stream": {"service_name": "promtail-test"}, "values": values}]}).encode()
statuses.append(post(gzip.compress(body), {"Content-Type": "application/json", "Content-Encoding": "gzip"}))

# Broken on the way, and a block that claims four gigabytes.
statuses.append(post(push[:-5], protobuf))
statuses.append(post(varint(2**32 - 1) + struct.pack("B", 0), protobuf))
print(json.dumps(statuses))
