"""A table of latencies as a pandas DataFrame, over Flight SQL.

    pip install adbc-driver-flightsql pandas pyarrow
    TOKENWATT_FLIGHT=grpc://127.0.0.1:8815 python examples/pandas_flight.py
"""
import os

import adbc_driver_flightsql.dbapi as flight
from adbc_driver_flightsql import DatabaseOptions

# With principals: export TOKENWATT_TOKEN. Under TLS the scheme is grpc+tls.
OPTIONS = {}
if token := os.environ.get("TOKENWATT_TOKEN"):
    OPTIONS[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {token}"

SQL = """
    SELECT time_bucket(INTERVAL '1 hour', time) AS hour, region, model,
      exph_quantile(exph(ttft_s), 0.5) AS p50_s, exph_quantile(exph(ttft_s), 0.99) AS p99_s, count(*) AS calls
    FROM ttft
    WHERE measured_at = $1 AND time >= now() - INTERVAL '2 days'
    GROUP BY hour, region, model
    ORDER BY hour, region, model
"""

with flight.connect(os.environ.get("TOKENWATT_FLIGHT", "grpc://127.0.0.1:8815"), OPTIONS) as connection:
    with connection.cursor() as cursor:
        cursor.execute(SQL, ("server",))
        answer = cursor.fetch_arrow_table()

# Arrow says what each column is: its unit travels with it.
units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in answer.schema}
print({name: unit for name, unit in units.items() if unit})
latencies = answer.to_pandas()
print(latencies.pivot_table(index="hour", columns="region", values="p99_s", aggfunc="max"))
print(f"{int(latencies['calls'].sum())} calls measured at the server")
