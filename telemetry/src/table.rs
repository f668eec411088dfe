//! The table registry: every table of the lake, declared once.
//!
//! Arrow schemas, Parquet encodings, Delta metadata, views and `docs/schema.md` all derive from it. Columns are only ever
//! added, nullable, at the end of a group's table; removing or retyping one breaks readers of old files.

mod calls;
mod devices;
mod operations;
mod otlp;
mod reference;
mod rollups;
#[cfg(feature = "arrow")]
pub mod schema;

#[cfg(test)]
mod tests;

pub use calls::{REQUESTS, TOKENS};
pub use devices::{DEVICES, NODES};
pub use operations::{ALERTS, BILLING, COLLECTORS, QUARANTINE, RESTATEMENTS};
pub use otlp::{HISTOGRAMS, LOGS, METRICS, SPANS};
pub use reference::{BUDGETS, DISCOUNTS, EXCHANGE_RATES, GRID, INVENTORY, POWER_MODELS, PRICES, SLOS};
pub use rollups::{COSTS_1H, DEVICES_1M, HOSTS_1M, REQUESTS_1M, TOKENS_1M, USAGE_1H};

/// One table of the lake; its name tells it from the others.
#[derive(Debug)]
pub struct Table {
    /// Name in SQL and the first folder of its files.
    pub name: &'static str,
    /// What one row is.
    pub doc: &'static str,
    /// Columns in stored order, in groups that several tables share.
    pub groups: &'static [&'static [Column]],
    /// Columns that compaction sorts by, most significant first.
    pub order: &'static [&'static str],
    /// Days until rows are removed; `None` keeps them for ever.
    pub retention_days: Option<u32>,
    /// Where its rows come from, which decides when a buffer closes.
    pub role: Role,
}

impl PartialEq for Table {
    // What is declared once under a name need not be compared, and this is asked for every span.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// How a table is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Calls and samples that a dashboard shows within seconds.
    Live,
    /// Everything else that OTLP carries.
    Bulk,
    /// Dated facts: prices, power, grid, objectives, budgets.
    Reference,
    /// What Tokenwatt says about itself, and what operators import.
    Operations,
    /// Windows computed from the raw tables.
    Rollup,
}

/// One column: its name, its type on disk, its unit and its meaning.
#[derive(Debug, PartialEq)]
pub struct Column {
    /// Name in SQL.
    pub name: &'static str,
    /// Type on disk.
    pub kind: Kind,
    /// UCUM unit, empty where none applies.
    pub unit: &'static str,
    /// One sentence.
    pub doc: &'static str,
}

/// Types that every Delta reader keeps: no unsigned, no nanosecond timestamps, no dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TIMESTAMP(µs, UTC).
    Time,
    /// STRING.
    Text,
    /// BIGINT.
    Int,
    /// DOUBLE.
    Double,
    /// BOOLEAN.
    Bool,
    /// DECIMAL(38,12).
    Money,
    /// MAP<STRING,STRING>.
    Map,
    /// LIST<BIGINT>.
    IntList,
    /// LIST<DOUBLE>.
    DoubleList,
}

/// Name of the partition column: the UTC date of `time`. It lives in the path, not in the files.
pub const PARTITION: &str = "date";

/// Every table, in the order in which documents list them.
pub const TABLES: &[&Table] = &[
    &REQUESTS,
    &TOKENS,
    &DEVICES,
    &NODES,
    &SPANS,
    &LOGS,
    &METRICS,
    &HISTOGRAMS,
    &PRICES,
    &DISCOUNTS,
    &EXCHANGE_RATES,
    &INVENTORY,
    &POWER_MODELS,
    &GRID,
    &SLOS,
    &BUDGETS,
    &BILLING,
    &RESTATEMENTS,
    &ALERTS,
    &COLLECTORS,
    &QUARANTINE,
    &REQUESTS_1M,
    &TOKENS_1M,
    &HOSTS_1M,
    &DEVICES_1M,
    &USAGE_1H,
    &COSTS_1H,
];

/// The table of that name.
pub fn by_name(name: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|table| table.name == name)
}

impl Table {
    /// Its columns in stored order.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        self.groups.iter().flat_map(|group| group.iter())
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&'static Column> {
        self.columns().find(|column| column.name == name)
    }
}

impl Kind {
    /// The type's name in Delta and SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Kind::Time => "TIMESTAMP",
            Kind::Text => "STRING",
            Kind::Int => "BIGINT",
            Kind::Double => "DOUBLE",
            Kind::Bool => "BOOLEAN",
            Kind::Money => "DECIMAL(38,12)",
            Kind::Map => "MAP<STRING,STRING>",
            Kind::IntList => "LIST<BIGINT>",
            Kind::DoubleList => "LIST<DOUBLE>",
        }
    }
}

const fn column(name: &'static str, kind: Kind, unit: &'static str, doc: &'static str) -> Column {
    Column { name, kind, unit, doc }
}

const fn time(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Time, "", doc)
}

const fn text(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Text, "", doc)
}

const fn int(name: &'static str, unit: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Int, unit, doc)
}

const fn double(name: &'static str, unit: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Double, unit, doc)
}

const fn flag(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Bool, "", doc)
}

const fn money(name: &'static str, unit: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Money, unit, doc)
}

const fn map(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::Map, "", doc)
}

const fn ints(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::IntList, "", doc)
}

const fn doubles(name: &'static str, doc: &'static str) -> Column {
    column(name, Kind::DoubleList, "", doc)
}

/// Where and when: the first columns of every table of calls or samples.
const DIMENSIONS: &[Column] = &[
    time("time", "event time"),
    text("region", "cloud region in which the model ran"),
    text("zone", "availability zone"),
    text("environment", "deployment environment, such as production"),
    text("cluster", "Kubernetes or ECS cluster"),
    text("namespace", "Kubernetes namespace"),
    text("pool", "node pool"),
    text("host_id", "host or instance id, the key that joins prices and bills"),
    text("host_type", "instance type, such as inf2.48xlarge"),
    text("service", "service name of the emitter"),
    text("service_version", "service version of the emitter"),
    text("instance", "one engine replica"),
];

/// What has no column of its own.
const ATTRIBUTES: &[Column] = &[
    map("attributes", "every attribute without a column, values as text"),
    text("attributes_typed", "OTLP JSON of the attributes whose value is not a string, by key"),
];

/// The resource and scope of an OTLP row, so that it can be rebuilt.
const ORIGIN: &[Column] = &[
    map("resource", "resource attributes as sent, values as text"),
    text("resource_typed", "OTLP JSON of the resource attributes whose value is not a string, by key"),
    text("resource_schema_url", "schema of the resource"),
    int("resource_dropped", "1", "resource attributes dropped before sending"),
    text("scope_name", "instrumentation scope"),
    text("scope_version", "version of the instrumentation scope"),
    map("scope_attributes", "scope attributes, values as text"),
    text("scope_typed", "OTLP JSON of the scope attributes whose value is not a string, by key"),
    text("scope_schema_url", "schema of the scope"),
    int("scope_dropped", "1", "scope attributes dropped before sending"),
    text("resource_entities", "OTLP JSON array of the resource's references to entities"),
];

/// Where a dated fact comes from and how far it can be trusted.
const PROVENANCE: &[Column] = &[
    time("effective_from", "first instant at which the row holds"),
    time("effective_to", "first instant at which it no longer holds, unknown while open"),
    text("source", "where the figure was read"),
    text("as_of", "when the source was current, as it says"),
    text("confidence", "measured, published, undated_source, estimated or assumed"),
    text("note", "why an assumed or estimated figure was chosen"),
];
