//! Bills beside the estimate, and the price book beside the bills.

use std::time::Duration;

use telemetry::table::{BILLING, COSTS_1H, DEVICES, INVENTORY};

use super::{Around, NOTHING, View, ViewColumn, column};

const OPTION: ViewColumn = column("option", "", "purchase option");
const PRICE: ViewColumn = column("usd_per_hour", "USD/h", "price of the host in the price book");
const HOSTS: ViewColumn = column("hosts", "{host}", "hosts that it concerns");
const CHARGED: ViewColumn = column("charged_us", "us", "time of those hosts");
const IMPORTED: ViewColumn =
    column("imported_at", "", "when the bill was imported, which is what the amounts are as of");

/// A day's rows lie at its start, an hour's at the hour's.
const A_DAY: Around = Around { before: Duration::from_secs(86_400), after: Duration::from_secs(86_400) };

pub(super) const UNPRICED: View = View {
    name: "unpriced",
    doc: "Hosts without a price, per hour, region, type and purchase option, and why: the work list of the price book. Their cost is \
          in no sum. A price or a bill in a currency without a rate is here too: nothing is converted by a guess.",
    sql: include_str!("unpriced.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        OPTION,
        column("reason", "", "what is missing"),
        HOSTS,
        column("host_id", "", "one of them"),
        CHARGED,
        column("option_source", "", "where the purchase option is from: bill, telemetry or assumed"),
    ],
    passes: &[&DEVICES],
    tables: A_DAY,
    views: A_DAY,
    keys: &[],
};

pub(super) const SILENT_HOSTS: View = View {
    name: "silent_hosts",
    doc: "Hosts of an imported inventory in the hours of the last 31 days in which neither telemetry nor a bill knows of them, and what such \
          an hour is by the price book. They are in no other sum: an inventory says that somebody pays, not what. Hosts that a bill charges \
          and nobody heard of are rows of `node_cost` (`is_silent`).",
    sql: include_str!("silent_hosts.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        OPTION,
        column("model", "", "unknown: an inventory does not say"),
        column("option_source", "", "where the purchase option is from: inventory or assumed"),
        PRICE,
        column("cost_usd", "USD", "the price of that hour; unknown without a price"),
        column("basis", "", "which price: list with the purchase option, `list, assumed on-demand` or `no price`"),
        column("method", "", "how the time is known: whole hour"),
        column("price_as_of", "", "when the price's source was current"),
        column("price_source", "", "where the price was read"),
        column("price_confidence", "", "how far the price can be trusted"),
        column("listed_by", "", "source of the inventory's row"),
        column("listed_as_of", "", "when that source was current"),
        column("idle_policy", "", "what became of idle time: show, for all of the hour is"),
    ],
    passes: &[&INVENTORY],
    tables: NOTHING,
    views: A_DAY,
    keys: &[],
};

pub(super) const UNNAMED_TENANTS: View = View {
    name: "unnamed_tenants",
    doc: "What calls cost that name no tenant, per hour and by all that they do say: the work list of whoever gives tenants their names. A \
          gateway names the tenant of a key, an engine behind none is told by `tokenwatt.tenant`. Idle and padding are not in it.",
    sql: include_str!("unnamed_tenants.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        column("cost_usd", "USD", "cost of those calls at the price that `basis` names"),
        column("effective_cost_usd", "USD", "amortised cost of them; unknown without a bill or a negotiated discount"),
        column("output_tokens", "{token}", "output tokens of those calls"),
        column("device_us", "us", "device time of those calls"),
        column("hosts", "{host}", "hosts that served them"),
        column("reason", "", "what is missing"),
        column("basis", "", "which prices"),
        column("method", "", "how cost was split"),
        column("price_as_of", "", "as-of date of the oldest price used"),
        column("idle_policy", "", "what became of idle time: hide (left out)"),
    ],
    passes: &[&COSTS_1H],
    tables: NOTHING,
    views: A_DAY,
    keys: &[],
};

pub(super) const PRICE_CHECK: View = View {
    name: "price_check",
    doc: "Prices in use, per day, region, type and purchase option, beside what the bill says of the same day, with a warning where the \
          price is older than 180 days or the bill says something else by more than 2 %. On-demand prices are held against the \
          bill's list cost, prices of other options against its effective cost.",
    sql: include_str!("price_check.sql"),
    columns: &[
        column("time", "", "start of the day"),
        OPTION,
        PRICE,
        column(
            "billed_usd_per_hour",
            "USD/h",
            "cost by the bill divided by the hours it charges, unknown without a bill",
        ),
        column("difference", "1", "the bill's price over the book's, less one"),
        column("age_days", "d", "days from the price's as-of date, else from its first day, to the day of use"),
        column("warning", "", "`contradicted by the bill` or `old`, unknown where there is nothing to say"),
        HOSTS,
        CHARGED,
        column("basis", "", "which prices the book's figure is"),
        column("method", "", "how the bill's figure is made"),
        column("price_source", "", "where the price was read"),
        column("price_as_of", "", "when the price's source was current"),
        column("price_confidence", "", "how far the price can be trusted"),
    ],
    passes: &[&DEVICES],
    tables: A_DAY,
    views: A_DAY,
    keys: &[],
};

pub(super) const BILL_TOTALS: View = View {
    name: "bill_totals",
    doc: "What imported bills charge, per day, bill, service, category and currency. Amounts are in `currency`; other currencies are \
          never added to dollars.",
    sql: include_str!("bill_totals.sql"),
    columns: &[
        column("time", "", "start of the day of the charge period"),
        column("model", "", "unknown: a bill does not say"),
        column("charges", "{charge}", "charges"),
        column("list_cost", "{currency}", "cost at list price, in `currency`"),
        column("contracted_cost", "{currency}", "cost at negotiated price, in `currency`"),
        column("effective_cost", "{currency}", "amortised cost, in `currency`"),
        column("billed_cost", "{currency}", "invoiced cost, in `currency`"),
        column("unused_cost", "{currency}", "effective cost of commitments that nobody used, in `currency`"),
        IMPORTED,
    ],
    passes: &[&BILLING],
    tables: A_DAY,
    views: NOTHING,
    keys: &[],
};

pub(super) const BILL_BY_HOST: View = View {
    name: "bill_by_host",
    doc: "The estimate of each host beside its bill, per charge period, in dollars: `estimated_usd + unseen_usd + unexplained_usd - \
          discount_usd = effective_usd` and `effective_usd + timing_usd = billed_usd`, exactly. `estimated_usd` is the book's price \
          times the time seen. Hosts that were seen and are in no bill have rows of an hour. `finding` says in words how it stands. \
          Ask for whole hours.",
    sql: include_str!("bill_by_host.sql"),
    columns: &[
        column("time", "", "start of the charge period, of the hour where there is none"),
        OPTION,
        column("seen_us", "us", "time for which the host was seen in the charge period"),
        column("paid_us", "us", "time that the bill charges"),
        column("estimated_usd", "USD", "price book times time seen, unknown where some of it has no price"),
        column("unseen_usd", "USD", "the bill's cost of time in which nothing was heard of the host"),
        column(
            "unexplained_usd",
            "USD",
            "what remains: the bill's cost, at list where priced on demand and effective elsewhere, less the estimate and the time unseen",
        ),
        column("discount_usd", "USD", "list cost less effective cost, where the host is priced on demand; 0 elsewhere"),
        column("list_usd", "USD", "the bill's list cost of the host's time"),
        column("effective_usd", "USD", "the bill's amortised cost of the host's time"),
        column("timing_usd", "USD", "billed less effective: paid before or after it is used, as with commitments"),
        column("billed_usd", "USD", "invoiced cost of the host's time"),
        column("other_usd", "USD", "effective cost of what is charged to the host beside its time, such as traffic"),
        column("finding", "", "what explains the difference, or that nothing does"),
        column("basis", "", "which prices the estimate takes"),
        column("method", "", "how the estimate is made"),
        column("price_as_of", "", "as-of date of the oldest price in the estimate"),
        column("bill", "", "the bill: provider/account/period"),
        IMPORTED,
    ],
    passes: &[&DEVICES],
    tables: A_DAY,
    views: A_DAY,
    keys: &["host_id"],
};
