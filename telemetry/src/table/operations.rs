//! Bills, alerts, and what the collectors say of themselves.

use super::{Column, DIMENSIONS, Role, Table, double, int, map, money, text, time};

const AT: &[Column] = &[time("time", "event time")];

/// Billing rows under FOCUS names.
pub const BILLING: Table = Table {
    name: "billing",
    doc: "one charge of an imported bill; `time` is the start of its charge period",
    groups: &[
        AT,
        &[
            text("provider", "who provided the service"),
            text("account", "billing account"),
            text("sub_account", "sub account"),
            text("region", "region of the charge"),
            text("zone", "availability zone of the charge"),
            text("resource_id", "resource charged, joined with host_id"),
            text("host_type", "instance type, where the bill gives it"),
            time("charge_from", "start of the charge period"),
            time("charge_to", "end of the charge period"),
            text("period", "billing period, YYYY-MM"),
            text("charge_category", "usage, purchase, tax, credit or adjustment"),
            text("charge_class", "correction, where the row restates an earlier one"),
            text("charge_description", "what was charged, in the bill's words"),
            text("service_name", "service charged"),
            text("commitment_id", "savings plan or reservation applied"),
            text("commitment_type", "kind of the commitment"),
            text("commitment_status", "used or unused"),
            text("pricing_category", "standard, committed, dynamic or other"),
            double("quantity", "", "quantity in pricing units"),
            text("quantity_unit", "unit of the quantity"),
            text("currency", "ISO 4217 code"),
            money("list_cost", "", "cost at list price, in `currency`"),
            money("contracted_cost", "", "cost at negotiated price, in `currency`"),
            money("effective_cost", "", "amortised cost, in `currency`"),
            money("billed_cost", "", "invoiced cost, in `currency`"),
            text("export_id", "import that brought the row"),
            text("source", "file that held the row"),
            map("tags", "tags of the resource"),
            map("attributes", "columns of the bill without a column here"),
            text(
                "bill",
                "bill that holds the row: provider/account/period; a later export of it takes the place of all its rows",
            ),
            text("host_id", "host that was charged, read from resource_id, the key that joins telemetry"),
            text("charge_kind", "host_time where the charge is the time of the host itself, else other"),
            text(
                "option",
                "purchase option: on_demand, spot, savings_plan or reserved, unknown where the bill does not say",
            ),
            time("imported_at", "when the row was imported"),
        ],
    ],
    order: &["account", "resource_id", "charge_from"],
    retention_days: None,
    role: Role::Operations,
};

/// What hours cost before, and now.
pub const RESTATEMENTS: Table = Table {
    name: "restatements",
    doc: "an amount of an hour that was computed before and is another one now, and why; `time` is the start of the hour",
    groups: &[&[
        time("time", "start of the hour"),
        text("region", "cloud region"),
        text("model", "model"),
        text("host_type", "instance type"),
        text("tenant", "for whom"),
        text("namespace", "Kubernetes namespace"),
        text("part", "requests, padding, idle, shared or unattributed"),
        money("list_before", "USD", "cost at the price in the book, as it was"),
        money("list_after", "USD", "cost at the price in the book, as it is since"),
        money("effective_before", "USD", "amortised cost, as it was"),
        money("effective_after", "USD", "amortised cost, as it is since"),
        money("billed_before", "USD", "invoiced cost, as it was"),
        money("billed_after", "USD", "invoiced cost, as it is since"),
        text("basis_before", "which prices it was"),
        text("basis_after", "which prices it is since"),
        text("reason", "what came since the hour was computed: the table, and the name of the import that brought it"),
        time("restated_at", "when the hour was computed again"),
    ]],
    order: &["tenant", "region", "time"],
    retention_days: Some(400),
    role: Role::Operations,
};

/// Notifications received from Alertmanager.
pub const ALERTS: Table = Table {
    name: "alerts",
    doc: "one notification of one alert",
    groups: &[
        AT,
        &[
            text("fingerprint", "identity of the alert"),
            text("name", "alert name"),
            text("status", "firing or resolved"),
            text("severity", "severity label"),
            text("region", "region label"),
            text("model", "model label"),
            time("starts_at", "when it began"),
            time("ends_at", "when it ended"),
            text("receiver", "receiver that sent it"),
            text("external_url", "Alertmanager that sent it"),
            text("generator_url", "expression that fired"),
            text("summary", "summary annotation"),
            map("labels", "labels"),
            map("annotations", "annotations"),
        ],
    ],
    order: &["fingerprint", "time"],
    retention_days: Some(400),
    role: Role::Operations,
};

/// The collectors' own counters.
pub const COLLECTORS: Table = Table {
    name: "collectors",
    doc: "one sample of one collector's counters, every ten seconds",
    groups: &[
        AT,
        &[
            text("collector", "journal id of the collector"),
            text("version", "version of the collector"),
            time("started_at", "when the process started; counters begin at zero there"),
            int("accepted_spans", "{span}", "spans acknowledged"),
            int("accepted_points", "{point}", "metric data points acknowledged"),
            int("accepted_logs", "{record}", "log records acknowledged"),
            int("rejected_items", "1", "items rejected by partial success"),
            int("refused_requests", "{request}", "export requests refused for overload, quota or a full disk"),
            int("invalid_requests", "{request}", "export requests that were malformed"),
            int("quarantined_rows", "{row}", "rows with an unacceptable event time"),
            int("duplicate_requests", "{request}", "bodies acknowledged before and not stored again"),
            int("committed_rows", "{row}", "rows visible to readers"),
            int("journal_bytes", "By", "journal on disk"),
            double("oldest_unflushed_s", "s", "age of the oldest acknowledged and not yet committed body"),
            int("rss_bytes", "By", "resident memory"),
            double("cpu_s", "s", "CPU time since the start"),
            int(
                "throttled_requests",
                "{request}",
                "export requests refused because their sender had used up its quota",
            ),
            int("dropped_frames", "{frame}", "journal frames that could not be turned into rows"),
            int("flush_retries", "1", "uploads and commits that failed and were tried again"),
            int("runaway_values", "1", "values of dimensions met beyond their bound"),
            int("disk_free_bytes", "By", "free space on the disk of the journal"),
        ],
    ],
    order: &["collector", "time"],
    retention_days: Some(30),
    role: Role::Operations,
};

/// Rows that could not be filed under their event time.
pub const QUARANTINE: Table = Table {
    name: "quarantine",
    doc: "one row whose event time no table accepts; `time` is when it arrived",
    groups: &[
        DIMENSIONS,
        &[
            text("signal", "traces, metrics or logs"),
            text("name", "span, metric or event name"),
            text("reason", "why it is here"),
            int("event_unix_nano", "ns", "event time as sent"),
            text("trace_id", "trace id, 32 hex digits"),
            text("span_id", "span id, 16 hex digits"),
            text(
                "body",
                "OTLP/JSON request that holds the row alone; posted to the path of its signal, with a time that can be meant, it is put back",
            ),
        ],
    ],
    order: &["service", "time"],
    retention_days: Some(30),
    role: Role::Operations,
};
