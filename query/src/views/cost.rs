//! Dollars and what they were spent on. A host without a price has unknown cost: NULL, counted and named, never 0.

use telemetry::table::{DEVICES, TOKENS};

use super::load::PARTS;
use super::{
    A_LONG_REQUEST, A_SIGHTING, A_WINDOW, AN_ENGINE_STEP, NOTHING, SUM_OF_BILLED, SUM_OF_EFFECTIVE, SUM_OF_LIST, View,
    ViewColumn, column,
};

const MINUTE: ViewColumn = column("time", "", "start of the minute");
const COST: ViewColumn = column("cost_usd", "USD", "cost at the price that `basis` names");
const IDLE_POLICY: ViewColumn = column(
    "idle_policy",
    "",
    "what became of idle time: show (a part of its own), share (in the ratio by all cost) or hide (left out)",
);
const BASIS: ViewColumn = column(
    "basis",
    "",
    "which price: `list` (the price book) or `bill` with the purchase option, `list, assumed on-demand` where the option is unknown, or `no price`; \
     `effective × 0.9 by NAME` where effective cost is the list's at a negotiated discount, since no bill says it yet; `charges in EUR have no rate` \
     where a part of the host's bill is in a currency without one and in no sum",
);
const METHOD: ViewColumn = column("method", "", "how cost was split: by device time, or the whole host");
const PRICE: ViewColumn = column("usd_per_hour", "USD/h", "price of the hosts at that time");
const OPTION: ViewColumn = column("option", "", "purchase option priced");
const DEVICE: ViewColumn = column("device_us", "us", "device time of that part");
const OUTPUT: ViewColumn = column("output_tokens", "{token}", "output tokens of the replica in the minute");
const INPUT: ViewColumn = column("input_tokens", "{token}", "input tokens of calls that arrived in the minute");
const OLDEST: ViewColumn = column("oldest_price_as_of", "", "as-of date of the oldest price used");
const AS_OF: ViewColumn = column("price_as_of", "", "when the price's source was current");
const PRICE_CONFIDENCE: ViewColumn = column("price_confidence", "", "how far the price can be trusted");
const EFFECTIVE: ViewColumn = column(
    "effective_cost_usd",
    "USD",
    "amortised cost by the bill's rate, else list cost at a negotiated discount; unknown without either",
);
const BILLED: ViewColumn =
    column("billed_cost_usd", "USD", "invoiced cost, by the bill's rate; unknown without a bill");
const LIST: ViewColumn = column(
    "list_cost_usd",
    "USD",
    "cost at list price on demand, whatever option was bought: by the bill's rate, else the price book's; unknown without either",
);
const CONTRACTED: ViewColumn = column(
    "contracted_cost_usd",
    "USD",
    "cost at the negotiated price, without commitments: the bill's; without one of savings plans and reservations list cost at the discount on demand; of other options the \
     bill's effective cost, else the book's price at its discount",
);
const WEIGHT: ViewColumn = column("weight", "us", "what the split goes by: device time, else time in flight");
const PART: ViewColumn = column(
    "part",
    "",
    "requests, padding, idle, unattributed (device time or hosts without token telemetry) or shared (hosts without an engine)",
);

pub(super) const COST_PER_REGION: View = View {
    name: "cost_per_region",
    doc: "Cost per minute, region and model: the hosts seen or paid for in the minute times their price at that time, taken apart so that \
          requests + padding + idle + unattributed + shared = `cost_usd` exactly. `usd_per_hour` is the price of those hosts; \
          hosts without a price are in `unpriced_hosts` and named in `unpriced`.",
    sql: include_str!("cost_per_region.sql"),
    columns: &[
        MINUTE,
        column("hosts", "{host}", "hosts seen, or paid for and silent"),
        COST,
        column("requests_cost_usd", "USD", "cost of device time given to requests"),
        column("padding_cost_usd", "USD", "cost of compiled but empty slots"),
        column(
            "idle_cost_usd",
            "USD",
            "cost of time without a step, and of hosts of an inventory that nobody hears of",
        ),
        column("unattributed_cost_usd", "USD", "cost of device time or hosts without token telemetry"),
        column("shared_cost_usd", "USD", "cost of hosts without an engine"),
        PRICE,
        column("unpriced_hosts", "{host}", "hosts without a price, whose cost is in no sum"),
        column("unpriced", "", "their types, purchase options and regions"),
        BASIS,
        METHOD,
        OLDEST,
        IDLE_POLICY,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &[],
};

pub(super) const COST_PER_TENANT: View = View {
    name: "cost_per_tenant",
    doc: "Cost per minute, region, model and tenant. Rows with `part = 'requests'` belong to a tenant (NULL where it is unknown), the \
          others to nobody; together they are the nodes' cost exactly. What ran on hosts without a price stands apart, with basis `no price`. \
          Hours whose tokens are no longer kept (7 days, as a rule) have a row an hour, as `costs_hours` has them: `method` ends with `; by the hour`.",
    sql: include_str!("cost_per_tenant.sql"),
    columns: &[
        column("time", "", "start of the minute, of the hour where tokens are no longer kept"),
        PART,
        COST,
        DEVICE,
        OUTPUT,
        BASIS,
        METHOD,
        IDLE_POLICY,
        OLDEST,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&TOKENS],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &[],
};

pub(super) const COST_PER_MILLION_TOKENS: View = View {
    name: "cost_per_million_tokens",
    doc: "Dollars per million tokens, per minute, region, model and host type, on two bases: `allocation`, all cost of the hosts with idle and \
          padding, and `usage`, the cost of device time given to requests over the tokens of engines that report it. Each ratio divides the whole cost, so the one per input \
          and the one per output token do not add up. To sum up, over host types too, divide `sum(cost_usd)` by `sum(output_tokens)`.",
    sql: include_str!("cost_per_million_tokens.sql"),
    columns: &[
        MINUTE,
        column("host_type", "", "instance type of the hosts; unknown where they do not say it"),
        column("basis", "", "allocation (idle and padding included) or usage"),
        COST,
        INPUT,
        OUTPUT,
        column("usd_per_million_output_tokens", "USD/M{token}", "cost divided by million output tokens"),
        column("usd_per_million_input_tokens", "USD/M{token}", "cost divided by million input tokens"),
        column("usd_per_million_tokens", "USD/M{token}", "cost divided by million input and output tokens"),
        column("unpriced_hosts", "{host}", "hosts without a price, whose cost and tokens are left out"),
        column("price_basis", "", "which prices"),
        METHOD,
        IDLE_POLICY,
        OLDEST,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &[],
};

pub(super) const REQUEST_COST: View = View {
    name: "request_cost",
    doc: "Cost of each request whose tokens were sent: its share of device time in every minute it ran, times the price of the \
          replica. Padding and idle are not in it. `time` is the first minute. Ask for a stretch of time.",
    sql: include_str!("request_cost.sql"),
    columns: &[
        MINUTE,
        DEVICE,
        OUTPUT,
        COST,
        BASIS,
        METHOD,
        IDLE_POLICY,
        OLDEST,
        SUM_OF_LIST,
        SUM_OF_EFFECTIVE,
        SUM_OF_BILLED,
    ],
    passes: &[&TOKENS],
    tables: A_WINDOW,
    views: A_LONG_REQUEST,
    keys: &[],
};

pub(super) const NODE_COST: View = View {
    name: "node_cost",
    doc: "One row per host and minute in which it was seen, or paid for and silent, by a bill or by an inventory: `cost_usd` = `usd_per_hour` × `charged_us`. The \
          price is the row of `prices` in force at the start of that minute for host type, region and purchase option: an imported \
          book's before those that come with Tokenwatt, a zone's own before the region's, then the newest. The option is the bill's where \
          one is imported, else what telemetry says in that hour, else that of an inventory; a host whose option is unknown is priced as \
          on-demand and says so. A host of an inventory is silent in the minutes of `kept_hours` in which nothing is heard of it, but in no \
          hour of which a bill charges a part. \
          `charged_us` is the engines' window where there is one, else the time between sightings, and the whole minute of a silent \
          host and of one whose calls are seen without a sample within two minutes, less what the window of a minute beside it covers: no \
          instant is charged twice. Where the book has no price under that option the bill's own rate is taken: list on demand, effective \
          elsewhere. Beside `cost_usd` stand list, effective and billed cost of the same time: what the bill leaves of the hour, corrections and \
          refunds taken off, is for the time that it charges, or for all that was seen where that is longer, so an hour never costs more than its bill.",
    sql: include_str!("node_cost.sql"),
    columns: &[
        MINUTE,
        OPTION,
        PRICE,
        column("charged_us", "us", "time charged"),
        COST,
        BASIS,
        AS_OF,
        PRICE_CONFIDENCE,
        column("price_source", "", "where the price was read"),
        column("has_engine", "", "whether an engine on it sent its counters"),
        column("requests", "{request}", "calls it served that arrived in the minute"),
        INPUT,
        column("output_tokens", "{token}", "output tokens of those calls"),
        column(
            "method",
            "",
            "how the time charged is known: engine window, between sightings, or whole minute of a silent host",
        ),
        column("option_source", "", "where the purchase option is from: bill, telemetry, inventory or assumed"),
        column("price_effective_from", "", "from when on the price holds"),
        column("is_silent", "", "whether somebody pays for the host in that minute and nothing was heard of it"),
        LIST,
        column(
            "effective_cost_usd",
            "USD",
            "amortised cost of the time charged, at the bill's rate, else `cost_usd` at the negotiated discount in force; unknown without either",
        ),
        column(
            "billed_cost_usd",
            "USD",
            "invoiced cost of the time charged, at the bill's rate; unknown without a bill",
        ),
        column(
            "without_rate",
            "",
            "currency of the price, where no exchange rate is in force that turns it into dollars",
        ),
        column("is_listed", "", "whether an inventory has the host in that minute"),
        CONTRACTED,
    ],
    passes: &[&DEVICES],
    tables: A_SIGHTING,
    views: AN_ENGINE_STEP,
    keys: &["host_id"],
};

pub(super) const REPLICA_COST: View = View {
    name: "replica_cost",
    doc: "One row per replica, minute and part of its time. A host's cost is split over its replicas by chips, slices of one GPU by \
          their parts of it, a replica's by device time; both splits give away every last unit (largest remainder), so the parts of a host \
          sum to its cost exactly. Where the host's chips are known, by an inventory or by `nodes`, and every engine on it says what it holds, \
          chips that no engine holds are an `idle` line of no model, method `chips that no engine holds`; where they are not, the host's \
          whole cost is the replicas'. Device time that no token accounts for goes to the calls in flight whose tokens are not sent, and is \
          `unattributed` where there are none. A host whose engine counts no device time is split by calls in flight: `requests` while \
          there is one, else `idle`. A host of an inventory that nobody hears of is `idle`, one that only a bill knows of `unattributed`. Of minutes whose tokens are no longer \
          kept (7 days, as a rule) device time is `unattributed` but for calls that sent no tokens, and `method` says so: `costs_hours` has their hours as they were split.",
    sql: include_str!("replica_cost.sql"),
    columns: &[
        MINUTE,
        PART,
        DEVICE,
        COST,
        PRICE,
        OUTPUT,
        INPUT,
        OPTION,
        BASIS,
        METHOD,
        AS_OF,
        PRICE_CONFIDENCE,
        WEIGHT,
        column("calls_us", "us", "device time that no token accounts for and calls in flight bear"),
        EFFECTIVE,
        BILLED,
        PARTS,
        LIST,
        CONTRACTED,
    ],
    passes: &[&DEVICES],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};

pub(super) const REQUEST_MINUTE_COST: View = View {
    name: "request_minute_cost",
    doc: "What each request cost in each minute in which it ran: what `request_cost` and `cost_per_tenant` sum. A request whose tokens are sent \
          costs the device time of its tokens; others, and engines that count no device time, by `call_minutes`. `method` says which; a \
          request can have a row of each.",
    sql: include_str!("request_minute_cost.sql"),
    columns: &[
        MINUTE,
        DEVICE,
        OUTPUT,
        COST,
        BASIS,
        METHOD,
        AS_OF,
        PRICE_CONFIDENCE,
        WEIGHT,
        column("replica", "", "the instance whose cost it bears, empty for a whole host"),
        EFFECTIVE,
        BILLED,
        LIST,
        CONTRACTED,
    ],
    passes: &[&TOKENS],
    tables: A_WINDOW,
    views: NOTHING,
    keys: &["host_id"],
};
