"""What each host's tokens waited for, computed by Polars from one version of the table, while it is written.

    pip install deltalake polars
    TOKENWATT_DATA=tokenwatt-data python examples/polars_tables.py
"""
import os

import deltalake
import polars

DATA = os.environ.get("TOKENWATT_DATA", "tokenwatt-data")

table = deltalake.DeltaTable(f"{DATA}/tokens")
tokens = polars.scan_delta(f"{DATA}/tokens", version=table.version())
choice = ["trace_id", "request_span_id", "choice"]
gaps = tokens.sort(*choice, "index").with_columns(
    # microseconds since the token before it in the same choice, which is the inter-token latency
    gap_s=polars.col("time").diff().over(choice).dt.total_microseconds() / 1e6
)
print(f"tokens, version {table.version()}")
print(
    gaps.filter(polars.col("gap_s").is_not_null())
    .group_by("model", "stall")
    .agg(
        tokens=polars.col("count").sum(),
        gap_p50_s=polars.col("gap_s").quantile(0.5),
        gap_p99_s=polars.col("gap_s").quantile(0.99),
    )
    .sort("model", "stall")
    .collect()
)
