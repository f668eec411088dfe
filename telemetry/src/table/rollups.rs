//! Windows computed from the raw tables. A distribution is a sparse base-2 exponential histogram of scale 5, as plain
//! lists that any reader of the tables can merge.

use super::{Column, Role, Table, double, int, ints, money, text, time};

const WINDOW: &[Column] = &[time("time", "start of the window")];

const SERVED: &[Column] = &[
    text("region", "cloud region in which the model ran"),
    text("environment", "deployment environment"),
    text("cluster", "Kubernetes or ECS cluster"),
    text("pool", "node pool"),
    text("model", "model"),
    text("engine", "inference engine"),
    text("host_type", "instance type"),
    text("service_version", "service version of the emitter"),
    text("measured_at", "client, gateway or server"),
    text("status", "ok, error or cancelled"),
];

const HOST: &[Column] = &[
    text("region", "cloud region in which the model ran"),
    text("environment", "deployment environment"),
    text("cluster", "Kubernetes or ECS cluster"),
    text("pool", "node pool"),
    text("host_id", "host or instance id"),
    text("host_type", "instance type"),
];

/// Columns of a distribution: the histogram's scale, zero count, bucket indexes and counts, and its exact moments.
macro_rules! distribution {
    ($unit:literal, $what:literal, $scale:literal, $zero:literal, $idx:literal, $cnt:literal, $count:literal, $sum:literal, $min:literal, $max:literal) => {
        &[
            int($scale, "1", concat!($what, ": histogram scale, base is 2^(2^-scale)")),
            int($zero, "1", concat!($what, ": observations of zero")),
            ints($idx, concat!($what, ": bucket indexes")),
            ints($cnt, concat!($what, ": observations per bucket")),
            int($count, "1", concat!($what, ": observations")),
            double($sum, $unit, concat!($what, ": sum")),
            double($min, $unit, concat!($what, ": smallest")),
            double($max, $unit, concat!($what, ": largest")),
        ]
    };
}

const TTFT: &[Column] = distribution!(
    "s",
    "TTFT",
    "ttft_scale",
    "ttft_zero",
    "ttft_idx",
    "ttft_cnt",
    "ttft_count",
    "ttft_sum",
    "ttft_min",
    "ttft_max"
);
const TPOT: &[Column] = distribution!(
    "s",
    "TPOT",
    "tpot_scale",
    "tpot_zero",
    "tpot_idx",
    "tpot_cnt",
    "tpot_count",
    "tpot_sum",
    "tpot_min",
    "tpot_max"
);
const E2E: &[Column] = distribution!(
    "s",
    "E2E",
    "e2e_scale",
    "e2e_zero",
    "e2e_idx",
    "e2e_cnt",
    "e2e_count",
    "e2e_sum",
    "e2e_min",
    "e2e_max"
);
const QUEUE: &[Column] = distribution!(
    "s",
    "queue time",
    "queue_scale",
    "queue_zero",
    "queue_idx",
    "queue_cnt",
    "queue_count",
    "queue_sum",
    "queue_min",
    "queue_max"
);
const GAP: &[Column] = distribution!(
    "s",
    "gap between tokens",
    "gap_scale",
    "gap_zero",
    "gap_idx",
    "gap_cnt",
    "gap_count",
    "gap_sum",
    "gap_min",
    "gap_max"
);

const WORK: &[Column] = &[
    int("input_tokens", "{token}", "prompt tokens"),
    int("cached_input_tokens", "{token}", "prompt tokens read from a cache"),
    int("output_tokens", "{token}", "generated tokens"),
    int("device_us_prefill", "us", "device time given to prefill"),
    int("device_us_decode", "us", "device time given to decode"),
];

/// Requests per minute.
pub const REQUESTS_1M: Table = Table {
    name: "requests_1m",
    doc: "calls that arrived in one minute, by what served them; its sums count a call once, its distributions and `measured` once per measuring place",
    groups: &[
        WINDOW,
        SERVED,
        &[
            int("requests", "{request}", "calls"),
            text("slo_set", "objectives that `good` was evaluated against"),
            int("good", "{request}", "calls that met every objective of the set"),
        ],
        WORK,
        TTFT,
        TPOT,
        E2E,
        QUEUE,
        &[
            int("measured", "{request}", "calls measured at this place, those measured nearer the engine too included"),
            text("slo_met", "objectives of `slo_set` that these calls met; the same text if all"),
        ],
    ],
    order: &["region", "model", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};

/// Tokens per minute.
pub const TOKENS_1M: Table = Table {
    name: "tokens_1m",
    doc: "tokens that left their engine in one minute, by what served them",
    groups: &[
        WINDOW,
        SERVED,
        &[
            text("stall", "cause of the gap before the tokens"),
            int("tokens", "{token}", "tokens"),
            int("device_us", "us", "device time given to them"),
        ],
        GAP,
    ],
    order: &["region", "model", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};

/// Hosts per minute.
pub const HOSTS_1M: Table = Table {
    name: "hosts_1m",
    doc: "what one host did for one model in one minute",
    groups: &[
        WINDOW,
        HOST,
        &[
            text("model", "model"),
            int("requests", "{request}", "calls that arrived"),
            int("tokens", "{token}", "tokens that left"),
        ],
        WORK,
        &[
            int("padding_us", "us", "device time of compiled but empty slots"),
            int("idle_us", "us", "time without a step"),
            int("wall_us", "us", "time covered by the samples"),
        ],
        TTFT,
    ],
    order: &["host_id", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};

/// Devices per minute.
pub const DEVICES_1M: Table = Table {
    name: "devices_1m",
    doc: "the devices of one host in one minute",
    groups: &[
        WINDOW,
        HOST,
        &[
            text("kind", "accelerator, host or engine"),
            int("devices", "{device}", "devices seen"),
            int("samples", "1", "samples merged"),
            double("utilization", "1", "mean utilization, 0 to 1"),
            text("utilization_kind", "which utilization"),
            double("power_w", "W", "mean power, summed over the devices"),
            double("energy_j", "J", "energy used in the window"),
            text("boundary", "what the power covers"),
            text("energy_method", "how the energy was obtained"),
            double("coverage", "1", "share of the window that the samples cover"),
            double("gap_s", "s", "longest gap between samples"),
            double("running", "{request}", "mean requests in the batch"),
            double("waiting", "{request}", "mean requests queued"),
            double("kv_usage", "1", "mean share of the KV cache in use"),
        ],
    ],
    order: &["host_id", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};

/// Usage per hour.
pub const USAGE_1H: Table = Table {
    name: "usage_1h",
    doc: "what was used in one hour, by what served it and for whom",
    groups: &[
        WINDOW,
        SERVED,
        &[
            text("tenant", "for whom"),
            text("namespace", "Kubernetes namespace"),
            int("requests", "{request}", "calls"),
            int("good", "{request}", "calls that met every objective"),
        ],
        WORK,
    ],
    order: &["tenant", "region", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};

/// Cost and energy per hour.
pub const COSTS_1H: Table = Table {
    name: "costs_1h",
    doc: "what one hour cost, by what was paid for and for whom; padding, idle, shared and unattributed are rows of their own",
    groups: &[
        WINDOW,
        HOST,
        &[
            text("tenant", "for whom"),
            text("namespace", "Kubernetes namespace"),
            text("model", "model"),
            text("part", "requests, padding, idle, shared or unattributed"),
            text("currency", "ISO 4217 code"),
            money("list_cost", "USD", "cost at the price that `basis` names"),
            money("effective_cost", "USD", "amortised cost, unknown without a bill"),
            money("billed_cost", "USD", "invoiced cost, unknown without a bill"),
            double("energy_j", "J", "energy"),
            int("device_us", "us", "device time"),
            int("tokens", "{token}", "output tokens"),
            text(
                "basis",
                "which price: list with its purchase option, `list, assumed on-demand` where that is unknown, or `no price`",
            ),
            text("method", "how the split was made: by device time, by calls in flight, or the whole host"),
            text("confidence", "how far the price can be trusted"),
            text("boundary", "what the energy covers"),
            text("energy_method", "how the energy was obtained"),
            text("energy_confidence", "how far the energy can be trusted"),
            text("price_as_of", "when the oldest of the prices was current, as its source says"),
            text(
                "allocation",
                "values of the configured allocation keys, a JSON object; a value is null where neither call nor node names one, and a key \
                 is absent that was not configured when the hour was split",
            ),
            money(
                "public_cost",
                "USD",
                "list cost: the bill's, else at the price book's on-demand price, whatever option was bought; unknown without either",
            ),
            money(
                "contracted_cost",
                "USD",
                "cost at the negotiated price, without commitments: the bill's; without one of savings plans and reservations list cost at the discount on demand, of \
                 others the bill's effective cost, else the price that `basis` names at its discount",
            ),
        ],
    ],
    order: &["tenant", "region", "time"],
    retention_days: Some(400),
    role: Role::Rollup,
};
