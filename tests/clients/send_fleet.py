"""Sends ten minutes of a small fleet's telemetry, of yesterday at noon or of just now, and waits until SQL sees all of it.

usage: send_fleet.py OTLP_URL SQL_URL yesterday|now
"""
import sys
import time

import lake_sql
from questions_fleet import MINUTES, SECOND, Fleet

OTLP, SQL, WHEN = sys.argv[1:4]
DAY, MINUTE = 24 * 3600 * SECOND, 60 * SECOND

noon = (time.time_ns() // DAY - 1) * DAY + DAY // 2
start = noon if WHEN == "yesterday" else (time.time_ns() // MINUTE - MINUTES - 3) * MINUTE
fleet = Fleet(start)
fleet.send(OTLP)
service = "FROM requests WHERE service IN ('vllm', 'gateway', 'shop')"
lake_sql.until(SQL, f"SELECT trace_id {service}", sum(len(call["places"]) for call in fleet.calls))
lake_sql.until(SQL, "SELECT 1 FROM tokens WHERE service = 'vllm'", sum(len(call["tokens"]) for call in fleet.calls))
lake_sql.until(SQL, "SELECT 1 FROM devices WHERE energy_j IS NOT NULL", 5 * 64)
lake_sql.until(SQL, "SELECT 1 FROM devices WHERE busy_us IS NOT NULL AND padding_us IS NOT NULL", 5 * 64)
print(f"{len(fleet.calls)} calls")
