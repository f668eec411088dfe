//! Dated facts. A row holds from `effective_from`; a look-up names the instant it asks for, never "the latest".

use super::{Column, PROVENANCE, Role, Table, double, doubles, int, money, text, time};

const KEY_TIME: &[Column] = &[time("time", "effective_from, by which the row is filed")];

/// Prices of hosts.
pub const PRICES: Table = Table {
    name: "prices",
    doc: "the price of one host type in one region under one purchase option, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("host_type", "instance type"),
            text("region", "cloud region"),
            text("zone", "availability zone, unknown where the price is regional"),
            text(
                "option",
                "on_demand, spot, savings_plan, reserved, capacity_block or custom; *_min_az and *_max_az are display ranges",
            ),
            money("usd_per_hour", "USD/h", "price of the whole host"),
            text("currency", "ISO 4217 code of the price"),
        ],
        PROVENANCE,
        &[text(
            "book",
            "price book that holds the row; unknown for rows that come with Tokenwatt, which any book outranks",
        )],
        &[money(
            "price_per_hour",
            "",
            "price of the whole host an hour in `currency`, where that is not USD; usd_per_hour is unknown then",
        )],
    ],
    order: &["host_type", "region", "option", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Negotiated discounts.
pub const DISCOUNTS: Table = Table {
    name: "discounts",
    doc: "what is paid of the price in the book under one purchase option, by contract, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("host_type", "instance type, unknown where it is of all"),
            text("region", "cloud region, unknown where it is of all"),
            text("option", "purchase option whose price it is of"),
            money("factor", "1", "dollars paid for one dollar at the price in the book"),
        ],
        PROVENANCE,
        &[text("contract", "name of the list that holds the row")],
    ],
    order: &["option", "host_type", "region", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Exchange rates.
pub const EXCHANGE_RATES: Table = Table {
    name: "exchange_rates",
    doc: "dollars for one unit of another currency, from a date on; one row of a currency holds at any instant",
    groups: &[
        KEY_TIME,
        &[
            text("currency", "ISO 4217 code of the other currency"),
            money("usd_per_unit", "USD", "dollars for one unit of it"),
        ],
        PROVENANCE,
    ],
    order: &["currency", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Hosts that are paid for, whether or not anything is heard of them.
pub const INVENTORY: Table = Table {
    name: "inventory",
    doc: "a host that somebody pays for, from a date on, by a list of theirs",
    groups: &[
        KEY_TIME,
        &[
            text("host_id", "the host, the key that joins telemetry"),
            text("host_type", "instance type"),
            text("region", "cloud region"),
            text("zone", "availability zone"),
            text("option", "purchase option, unknown where the list does not say"),
            text("account", "account that pays"),
            int("chips", "{chip}", "accelerator chips in it"),
        ],
        PROVENANCE,
        &[text("list", "list that holds the row")],
    ],
    order: &["host_id", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Power models of devices and hosts.
pub const POWER_MODELS: Table = Table {
    name: "power_models",
    doc: "what one device or host draws, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("device", "accelerator or instance type"),
            text("boundary", "what the watts cover: chip, board, node, wall or facility"),
            double("idle_w", "W", "power at rest"),
            double("max_w", "W", "power at full load"),
            doubles("load", "load points of a measured curve, 0 to 1"),
            doubles("load_w", "power at each load point"),
            text("method", "what the figure is: tdp, load_curve or percent_of_max"),
        ],
        PROVENANCE,
        &[text("list", "list that holds the row; unknown for rows that come with Tokenwatt, which any list outranks")],
    ],
    order: &["device", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Carbon intensity and facility overhead of regions.
pub const GRID: Table = Table {
    name: "grid",
    doc: "carbon intensity and PUE of a region, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("region", "cloud region or country"),
            double("gco2e_per_kwh", "g/kWh", "grams of CO2 equivalent per kilowatt hour"),
            double("pue", "1", "facility energy divided by IT energy"),
            text("method", "location or market based, average or marginal"),
        ],
        PROVENANCE,
        &[text("list", "list that holds the row; unknown for rows that come with Tokenwatt, which any list outranks")],
    ],
    order: &["region", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Service level objectives.
pub const SLOS: Table = Table {
    name: "slos",
    doc: "one objective as configured, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("name", "id of the objective"),
            text("indicator", "what is measured, such as ttft_s"),
            text("measured_at", "where it is measured"),
            double("threshold", "", "value a good request stays under, in the indicator's unit"),
            double("objective", "1", "share of requests that must be good, 0 to 1"),
            text("window", "period over which it holds, such as 30d"),
            text("region", "scope: region, empty for all"),
            text("model", "scope: model, empty for all"),
            text("tenant", "scope: tenant, empty for all"),
        ],
        PROVENANCE,
    ],
    order: &["name", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};

/// Budgets.
pub const BUDGETS: Table = Table {
    name: "budgets",
    doc: "one budget as configured, from a date on",
    groups: &[
        KEY_TIME,
        &[
            text("name", "id of the budget"),
            text("allocation_key", "what it limits: tenant, namespace, environment, region, model or an attribute"),
            text("allocation_value", "which one"),
            money("amount", "USD", "limit per period"),
            text("currency", "ISO 4217 code of the amount"),
            text("period", "day, week, month or a rolling window such as 30d"),
            text("enforcement", "soft or hard"),
        ],
        PROVENANCE,
    ],
    order: &["name", "effective_from"],
    retention_days: None,
    role: Role::Reference,
};
