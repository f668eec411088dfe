"""The dearest requests of the last two days, over PostgreSQL's wire protocol.

    pip install "psycopg[binary]"
    TOKENWATT_POSTGRES=postgresql://127.0.0.1:5433/tokenwatt python examples/psycopg_sql.py
"""
import datetime
import os

import psycopg
from psycopg.rows import dict_row

# With principals the name and the token are in the address: postgresql://name:token@host:5433/tokenwatt?sslmode=verify-full
ADDRESS = os.environ.get("TOKENWATT_POSTGRES", "postgresql://127.0.0.1:5433/tokenwatt")
SINCE = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=2)

with psycopg.connect(ADDRESS, autocommit=True, row_factory=dict_row) as connection:
    dearest = connection.execute(
        "SELECT time, tenant, model, trace_id, output_tokens, device_us, cost_usd FROM request_cost "
        "WHERE time >= %s AND cost_usd IS NOT NULL ORDER BY cost_usd DESC LIMIT %s",
        [SINCE, 5],
    ).fetchall()
    for row in dearest:
        # money is decimal.Decimal, exact to the twelfth place
        print(f"{row['time']:%F %T}  {row['tenant'] or '—':8}  {row['cost_usd']:.6f} USD  {row['output_tokens']} tokens  {row['trace_id']}")
    # A long answer comes in pieces, whatever its length.
    with connection.transaction(), connection.cursor(name="all", row_factory=dict_row) as cursor:
        cursor.execute("SELECT cost_usd FROM request_cost WHERE time >= %s", [SINCE])
        total = sum(row["cost_usd"] for row in cursor if row["cost_usd"] is not None)
    print(f"{total} USD of device time were given to requests")
