"""Bills as DuckDB reads and adds them, against table `billing` as DuckDB reads that.

usage: bills.py make DIR            writes a month of an accelerator fleet: focus.parquet (FOCUS) and cur.parquet (AWS CUR 2.0)
       bills.py check LAKE FILE...  the charges imported from the FILEs are all there and come to the same, to the last decimal
       bills.py focus14 FILE COLUMNS   the exported FILE is FOCUS 1.4 cost and usage, column by column, by the list COLUMNS
"""
import csv
import json
import random
import sys
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import duckdb
import pyarrow
from deltalake import DeltaTable
from pyarrow import parquet

COSTS = {"list_cost": "ListCost", "contracted_cost": "ContractedCost", "effective_cost": "EffectiveCost", "billed_cost": "BilledCost"}
# Amounts are read as text, so that nothing is rounded on the way.
EXACT = "coalesce(sum(CAST(nullif(nullif(CAST({} AS VARCHAR), ''), 'NULL') AS DECIMAL(38, 18))), 0)"
STORED = Decimal("0.000000000001")


def source(path):
    if path.endswith(".parquet"):
        return f"read_parquet('{path}')"
    return f"read_csv('{path}', all_varchar = true, header = true, quote = '\"', escape = '\"')"


def focus(path):
    """Rows, and the four sums, of a FOCUS file."""
    sums = ", ".join(EXACT.format(f'"{column}"') for column in COSTS.values())
    rows, *sums = duckdb.sql(f"SELECT count(*), {sums} FROM {source(path)}").fetchall()[0]
    return rows, sums


def cur(path):
    """The same of a CUR, amortised as the summary view of AWS's Cloud Intelligence Dashboards does it, in SQL."""
    exact = lambda column: f"CAST(CAST({column} AS VARCHAR) AS DECIMAL(38, 18))"
    effective = f"""CASE
        WHEN line_item_line_item_type = 'SavingsPlanCoveredUsage' THEN {exact('savings_plan_savings_plan_effective_cost')}
        WHEN line_item_line_item_type = 'SavingsPlanRecurringFee'
            THEN {exact('savings_plan_total_commitment_to_date')} - {exact('savings_plan_used_commitment')}
        WHEN line_item_line_item_type IN ('SavingsPlanNegation', 'SavingsPlanUpfrontFee') THEN 0
        ELSE {exact('line_item_unblended_cost')} END"""
    listed = f"CASE WHEN line_item_line_item_type = 'SavingsPlanNegation' THEN 0 ELSE {exact('pricing_public_on_demand_cost')} END"
    statement = f"""SELECT count(*), sum({listed}), 0, sum({effective}), sum({exact('line_item_unblended_cost')})
        FROM {source(path)} WHERE line_item_operation NOT IN ('EKSPod-EC2', 'ECSTask-EC2')"""
    rows, *sums = duckdb.sql(statement).fetchall()[0]
    return rows, sums


def imported(lake, path):
    files = [uri.removeprefix("file://") for uri in DeltaTable(f"{lake}/billing").file_uris()]
    sums = ", ".join(f"coalesce(sum({column}), 0)" for column in COSTS)
    statement = f"SELECT count(*), {sums} FROM read_parquet({files!r}) WHERE source = ?"
    rows, *sums = duckdb.execute(statement, [path]).fetchall()[0]
    return rows, sums


def check(lake, paths):
    for path in paths:
        is_cur = duckdb.sql(f"SELECT * FROM {source(path)} LIMIT 0").columns.count("line_item_line_item_type")
        rows, sums = (cur if is_cur else focus)(path)
        ours, our_sums = imported(lake, path)
        assert ours == rows, f"{path}: {ours} charges of {rows} rows"
        for name, exact, stored in zip(COSTS, sums, our_sums):
            exact = Decimal(exact).quantize(STORED)
            assert stored == exact, f"{path}: {name} is {stored}, DuckDB says {exact}"
        print(path, ours, *our_sums)


def hours():
    start = datetime(2026, 10, 1, tzinfo=timezone.utc)
    return [start + timedelta(hours=hour) for hour in range(31 * 24)]


def make(folder):
    # A fleet of 12 hosts for a month; the same every time.
    chance = random.Random(7)
    fleet = [("p5.48xlarge", "Savings Plan", 55.04, 31.464), ("inf2.48xlarge", "Dynamic", 12.98127, 4.1937), ("trn1.32xlarge", "Standard", 21.5, 21.5)]
    hosts = [(f"i-{chance.getrandbits(68):017x}", *fleet[number % 3]) for number in range(12)]
    rows, lines = [], []
    for hour in hours():
        for host, kind, option, listed, effective in hosts:
            share = Decimal(chance.randint(1, 3600)) / 3600 if chance.random() < 0.1 else Decimal(1)
            rows.append(focus_row(hour, host, kind, option, share, Decimal(str(listed)) * share, Decimal(str(effective)) * share))
            lines.extend(cur_lines(hour, host, kind, option, share, listed, effective))
    parquet.write_table(pyarrow.Table.from_pylist(rows), f"{folder}/focus.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(lines, schema=CUR_SCHEMA), f"{folder}/cur.parquet")


def focus_row(hour, host, kind, option, share, listed, effective):
    committed = option == "Savings Plan"
    money = lambda amount: format(amount.quantize(Decimal("1e-15")), "f")
    return {
        "ServiceProviderName": "AWS", "InvoiceIssuerName": "AWS", "BillingAccountId": "100000000001", "BillingCurrency": "USD",
        "BillingPeriodStart": "2026-10-01T00:00:00Z", "BillingPeriodEnd": "2026-11-01T00:00:00Z",
        "ChargePeriodStart": hour, "ChargePeriodEnd": hour + timedelta(hours=1), "ChargeCategory": "Usage", "ServiceCategory": "Compute",
        "ServiceName": "AmazonEC2", "PricingCategory": "Committed" if committed else option, "PricingUnit": "Hours",
        "PricingQuantity": float(share), "CommitmentDiscountType": "Savings Plan" if committed else None,
        "CommitmentDiscountStatus": "Used" if committed else None, "ResourceId": f"arn:aws:ec2:us-east-1:200000000001:instance/{host}",
        "RegionId": "us-east-1", "SkuPriceDetails": f'{{"InstanceType": "{kind}"}}', "ListCost": money(listed), "ContractedCost": money(listed * Decimal("0.95")),
        "EffectiveCost": money(effective), "BilledCost": money(Decimal(0) if committed else effective), "Tags": '{"team": "search"}',
    }


CUR_SCHEMA = pyarrow.schema([
    *((name, pyarrow.string()) for name in (
        "identity_line_item_id", "bill_payer_account_id", "line_item_usage_account_id", "line_item_line_item_type", "line_item_product_code",
        "line_item_usage_type", "line_item_operation", "line_item_resource_id", "line_item_currency_code", "product_instance_type",
        "product_region_code", "savings_plan_savings_plan_a_r_n", "line_item_line_item_description")),
    *((name, pyarrow.timestamp("ms")) for name in (
        "bill_billing_period_start_date", "line_item_usage_start_date", "line_item_usage_end_date")),
    *((name, pyarrow.float64()) for name in (
        "line_item_usage_amount", "line_item_unblended_cost", "pricing_public_on_demand_cost", "savings_plan_savings_plan_effective_cost",
        "savings_plan_total_commitment_to_date", "savings_plan_used_commitment")),
    ("resource_tags", pyarrow.map_(pyarrow.string(), pyarrow.string())),
])


def cur_lines(hour, host, kind, option, share, listed, effective):
    plan = "arn:aws:savingsplans::100000000001:savingsplan/one"
    line = {
        "bill_payer_account_id": "100000000009", "line_item_usage_account_id": "200000000001", "line_item_product_code": "AmazonEC2",
        "line_item_operation": "RunInstances", "line_item_resource_id": host, "line_item_currency_code": "USD", "product_region_code": "us-east-1",
        "bill_billing_period_start_date": datetime(2026, 10, 1), "line_item_usage_start_date": hour.replace(tzinfo=None),
        "line_item_usage_end_date": (hour + timedelta(hours=1)).replace(tzinfo=None), "line_item_usage_amount": float(share),
        "pricing_public_on_demand_cost": listed * float(share), "resource_tags": [("user_team", "search")],
    }
    if option == "Savings Plan":
        cost = listed * float(share)
        covered = {"line_item_line_item_type": "SavingsPlanCoveredUsage", "line_item_usage_type": f"USE1-BoxUsage:{kind}", "product_instance_type": kind,
                   "savings_plan_savings_plan_a_r_n": plan, "savings_plan_savings_plan_effective_cost": effective * float(share), "line_item_unblended_cost": cost}
        negation = {"line_item_line_item_type": "SavingsPlanNegation", "savings_plan_savings_plan_a_r_n": plan, "line_item_unblended_cost": -cost}
        fee = {"line_item_line_item_type": "SavingsPlanRecurringFee", "line_item_resource_id": plan, "savings_plan_savings_plan_a_r_n": plan,
               "savings_plan_total_commitment_to_date": 40.0, "savings_plan_used_commitment": effective * float(share), "line_item_unblended_cost": 40.0,
               "pricing_public_on_demand_cost": 0.0}
        return [{**line, **covered}, {**line, **negation}, {**line, **fee}]
    spot = option == "Dynamic"
    usage = {"line_item_line_item_type": "Usage", "line_item_usage_type": f"USE1-{'Spot' if spot else 'Box'}Usage:{kind}",
             "product_instance_type": None if spot else kind, "line_item_line_item_description": f"{kind} Linux/UNIX Spot Instance-hour" if spot else None,
             "line_item_unblended_cost": effective * float(share)}
    split = {**usage, "line_item_operation": "EKSPod-EC2", "line_item_unblended_cost": 0.0, "pricing_public_on_demand_cost": 0.0}
    return [{**line, **usage}] + ([{**line, **split}] if spot else [])


# Conditions of columns that an export of split costs does not meet: it has one currency, no price lists, contracts, invoices or commitments.
UNMET = (
    "Supports pricing and billing in different currencies", "Supports prices in virtual currency", "Supports unit pricing concepts",
    "Publishes unit prices", "Supports negotiated pricing concepts", "Supports contract commitments", "Supports payable invoices",
    "Supports commitment", "Supports capacity reservations", "Supports more than one", "Supports a sub account",
)


def is_kind(kind, form, text):
    """Whether a text is of a column's type and format."""
    if kind == "Decimal":
        return Decimal(text).is_finite() and (form != "Decimal (non-negative)" or Decimal(text) >= 0)
    if kind == "Date/Time":
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ") is not None
    if kind == "JSON":
        return isinstance(json.loads(text), dict)
    return True


def focus14(path, columns):
    with open(columns, newline="") as file:
        known = {row["column"]: row for row in csv.DictReader(file) if row["dataset"] == "Cost and Usage"}
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows, "no rows"
    written = set(rows[0])
    unknown = [name for name in written if name not in known and not name.startswith("x_")]
    assert not unknown, f"no columns of FOCUS 1.4: {unknown}"
    needed = {
        name for name, column in known.items()
        if column["feature_level"] == "Mandatory" or (column["feature_level"] == "Conditional" and not column["condition"].startswith(UNMET))
    }
    assert needed <= written, f"missing: {sorted(needed - written)}"
    for number, row in enumerate(rows, 2):
        for name, text in row.items():
            column = known.get(name)
            if column is None:
                continue
            if text == "":
                assert column["allows_nulls"] == "True", f"row {number}: {name} must not be empty"
                continue
            assert is_kind(column["data_type"], column["value_format"], text), f"row {number}: {name} is {text!r}"
            allowed = column["allowed_values"].split("|") if column["allowed_values"] else []
            assert not allowed or text in allowed, f"row {number}: {name} is {text!r}, not one of {allowed}"
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= row["BillingPeriodEnd"], row
    print(len(rows), *(sum(Decimal(row[name]) for row in rows) for name in ("ListCost", "ContractedCost", "EffectiveCost", "BilledCost")))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    elif sys.argv[1] == "focus14":
        focus14(sys.argv[2], sys.argv[3])
    else:
        check(sys.argv[2], sys.argv[3:])
