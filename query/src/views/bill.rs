//! Bills beside the estimate, and the price book beside the bills.

use telemetry::table::{BILLING, COSTS_1H, DEVICES, INVENTORY};

use super::{Around, NOTHING, View, ViewColumn, around, column};

const OPTION: ViewColumn = column("option", "", "purchase option");
const PRICE: ViewColumn = column("usd_per_hour", "USD/h", "price of the host in the price book");
const HOSTS: ViewColumn = column("hosts", "{host}", "hosts that it concerns");
const CHARGED: ViewColumn = column("charged_us", "us", "time of those hosts");
const IMPORTED: ViewColumn =
    column("imported_at", "", "when the bill was imported, which is what the amounts are as of");

const CONTRACTED: ViewColumn = column(
    "contracted_usd",
    "USD",
    "cost of the host's own time at the negotiated price; unknown where that of a part of it is",
);
const METHOD: ViewColumn = column("method", "", "how dollars were made of it: as they stand, or by which rate");
const IMPORTED_AS_OF: ViewColumn =
    column("price_as_of", "", "when the bill was imported, which is what the amounts are as of");

/// A day's rows lie at its start, an hour's at the hour's.
const A_DAY: Around = around(86_400, 86_400);

pub(super) const UNPRICED: View = View {
    name: "unpriced",
    doc: "Hosts without a price, per hour, region, type and purchase option, and why: the work list of the price book. Their cost is \
          in no sum. A price or a charge in a currency without a rate is here too, for a host's time or beside it: nothing is converted by a guess.",
    sql: include_str!("unpriced.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        OPTION,
        column("reason", "", "what is missing"),
        HOSTS,
        column("host_id", "", "one of them"),
        CHARGED,
        column("option_source", "", "where the purchase option is from: bill, telemetry, inventory or assumed"),
    ],
    passes: &[&DEVICES],
    tables: A_DAY,
    views: A_DAY,
    keys: &[],
};

pub(super) const SILENT_HOSTS: View = View {
    name: "silent_hosts",
    doc: "Hosts of an imported inventory in the hours in which they were silent, in whole or in part, and what they cost meanwhile: the list \
          of what `costs_hours` has as idle with method `listed and silent`. A host that only a bill knows of is `unattributed` there: nobody \
          says that it is one of the fleet.",
    sql: include_str!("silent_hosts.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        column("model", "", "unknown: an inventory does not say"),
        column("silent_us", "us", "time of the hour that somebody paid for and in which nothing was heard of the host"),
        column("cost_usd", "USD", "cost of that time at the price that `basis` names; unknown without a price"),
        column("basis", "", "which price: list with the purchase option, `list, assumed on-demand` or `no price`"),
        column("method", "", "how it is known: a list has the host, and nothing was heard of it"),
        column("price_as_of", "", "when the price's source was current"),
        column("price_confidence", "", "how far the price can be trusted"),
        column("listed_by", "", "source of the inventory's row"),
        column("listed_as_of", "", "when that source was current"),
        column("idle_policy", "", "what became of idle time: show, for all of the hour is"),
    ],
    passes: &[&INVENTORY],
    tables: NOTHING,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const CHARGES_IN_USD: View = View {
    name: "charges_in_usd",
    doc: "What bills charge hosts, in dollars: one row per charge of up to 32 days. Another currency is converted by the rate that held when the \
          charge began; without one the amounts are unknown. Every view that holds a bill against something reads this one. A row is an \
          interval: those with something of the stretch of `time` asked for.",
    sql: include_str!("charges_in_usd.sql"),
    columns: &[
        column("time", "", "start of the charge period"),
        column("model", "", "unknown: a bill does not say"),
        OPTION,
        column("charge_to", "", "end of the charge period, exclusive"),
        column("period_us", "us", "length of the charge period"),
        column(
            "quantity",
            "h",
            "hours that are charged, negative where they are taken back; unknown where a bill does not say",
        ),
        column("is_time", "", "whether it is for the host's own time, and not beside it, such as traffic"),
        column("is_rated", "", "whether it is in dollars or has a rate"),
        column("list_usd", "USD", "list cost"),
        column("effective_usd", "USD", "amortised cost"),
        column("billed_usd", "USD", "invoiced cost"),
        column("basis", "", "bill"),
        METHOD,
        IMPORTED_AS_OF,
        column("bill", "", "the bill: provider/account/period"),
        IMPORTED,
        CONTRACTED,
    ],
    passes: &[&BILLING],
    tables: NOTHING,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const HOST_CHARGES: View = View {
    name: "host_charges",
    doc: "What bills charge a host, in dollars (`charges_in_usd`): one row per host and charge period of up to 32 days, corrections and refunds of \
          that period taken into account. What is in a currency without a rate is in no sum, and \
          `without_rate` and `other_without_rate` name it. A row is an interval: those with something \
          of the stretch of `time` asked for.",
    sql: include_str!("host_charges.sql"),
    columns: &[
        column("time", "", "start of the charge period"),
        column("model", "", "unknown: a bill does not say"),
        OPTION,
        column("charge_to", "", "end of the charge period, exclusive"),
        column("list_usd", "USD", "list cost of the host's own time; unknown where that of a part of it is"),
        column("effective_usd", "USD", "amortised cost of the host's own time"),
        column("billed_usd", "USD", "invoiced cost of the host's own time"),
        column("other_usd", "USD", "effective cost of what is charged to the host beside its time, such as traffic"),
        column(
            "paid_us",
            "us",
            "time that is charged; 0 where all of it was taken back, unknown where none of the host's own time is charged",
        ),
        column("charges", "{charge}", "charges that are in dollars or have a rate"),
        column("without_rate", "", "currency of charges of the host's time of which no exchange rate is in force"),
        column("other_without_rate", "", "the same of what is charged beside its time"),
        column("basis", "", "bill"),
        METHOD,
        IMPORTED_AS_OF,
        column("bill", "", "the bill: provider/account/period"),
        IMPORTED,
        CONTRACTED,
    ],
    passes: &[&BILLING],
    tables: NOTHING,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const CHARGED_HOURS: View = View {
    name: "charged_hours",
    doc: "What bills charge for a host's own time, hour by hour: of a longer charge the hour's share of the time, and the hours sum to the \
          charge to the last decimal. What several charges say of one hour is added; the time that they charge is the union of theirs. An hour of \
          which all charges are in a currency without a rate has no amounts, and `without_rate` names it.",
    sql: include_str!("charged_hours.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        column("model", "", "unknown: a bill does not say"),
        OPTION,
        column("charge_to", "", "end of the hour"),
        column("list_usd", "USD", "list cost; unknown where that of one of its charges is"),
        column("effective_usd", "USD", "amortised cost"),
        column("billed_usd", "USD", "invoiced cost"),
        column(
            "paid_us",
            "us",
            "time of the hour that is charged; 0 where all of it was taken back, unknown where none has a rate",
        ),
        column(
            "full_from_us",
            "us",
            "start of the part of the hour that is charged in full, microseconds since 1970-01-01 UTC; unknown where none is",
        ),
        column("full_to_us", "us", "its end"),
        column(
            "without_rate",
            "",
            "currency of charges of that hour, beside the host's time too, of which no exchange rate is in force",
        ),
        column("basis", "", "bill"),
        METHOD,
        IMPORTED_AS_OF,
        IMPORTED,
        CONTRACTED,
    ],
    passes: &[&BILLING],
    tables: NOTHING,
    views: NOTHING,
    keys: &["host_id"],
};

pub(crate) const KEPT_HOURS: View = View {
    name: "kept_hours",
    doc: "The hours of which all raw rows are kept, up to the last minute that is over: those in which a host that nobody hears of is silent. \
          How far they go back is the retention of `tokens`, as a rule: 7 days.",
    sql: include_str!("kept_hours.sql"),
    columns: &[
        column("time", "", "start of the hour"),
        column("region", "", "unknown: hours are everywhere"),
        column("model", "", "unknown: hours are of all models"),
        column("until", "", "end of the hour, or of the last minute that is over"),
    ],
    passes: &[],
    tables: NOTHING,
    views: NOTHING,
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
          bill's list cost, prices of other options against its effective cost. A host whose hour is charged under two options counts under each.",
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
    doc: "The estimate of each host beside its bill, per charge period of a day at most, in dollars: `estimated_usd + unseen_usd + unexplained_usd - \
          discount_usd = effective_usd` and `effective_usd + timing_usd = billed_usd`, exactly. `estimated_usd` is the book's price \
          times the time seen. Of charges over each other the dearest has the minute, so sums of `seen_us` and `estimated_usd` are those of \
          `node_cost`. Hosts that were seen and are in no bill, or under a charge for more than a day, which has no estimate beside it, have rows \
          of an hour. `finding` says in words how it stands. Ask for whole hours.",
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
        column(
            "without_rate",
            "",
            "currency of charges of that period of which no exchange rate is in force: they are in no sum of the row",
        ),
    ],
    passes: &[&DEVICES],
    tables: A_DAY,
    views: A_DAY,
    keys: &["host_id"],
};
