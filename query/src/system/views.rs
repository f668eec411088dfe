//! Views of the schema `system`: what the collectors say of themselves, made readable.

use telemetry::table::COLLECTORS;

use crate::views::{NOTHING, View, ViewColumn, column};

/// All of them.
pub(crate) const VIEWS: [&View; 2] = [&COLLECTORS_NOW, &DROPS];

/// The view of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static View> {
    VIEWS.into_iter().find(|view| view.name == name)
}

const COLLECTOR: ViewColumn = column("collector", "", "journal id of the collector");

const COLLECTORS_NOW: View = View {
    name: "collectors",
    doc: "One row per collector: its newest sample in table `collectors`, and rates since the sample before. A collector whose \
          `sample_age_s` grows has stopped, or cannot commit.",
    sql: include_str!("collectors.sql"),
    columns: &[
        column("time", "", "when the sample was taken"),
        COLLECTOR,
        column("sample_age_s", "s", "age of the sample"),
        column("spans_per_s", "{span}/s", "spans acknowledged a second between the last two samples"),
        column("cpus", "1", "CPU cores used between the last two samples"),
    ],
    passes: &[&COLLECTORS],
    tables: NOTHING,
    views: NOTHING,
    keys: &[],
};

const DROPS: View = View {
    name: "drops",
    doc: "One row per minute, collector and reason for which something was not stored where its sender meant it to be. What is \
          `lost` is gone unless its sender mends it; the rest was asked to come again (refused, throttled), is kept elsewhere \
          (quarantined) or was stored all the same (runaway).",
    sql: include_str!("drops.sql"),
    columns: &[
        column("time", "", "start of the minute"),
        COLLECTOR,
        column(
            "reason",
            "",
            "rejected: an item with a fault, or of a tenant its sender may not write; malformed: a request that cannot succeed; \
             unreadable: a journal frame that became no rows; refused: overload or a full disk; throttled: a quota; quarantined: an \
             unacceptable event time; runaway: a value beyond the bound of its dimension",
        ),
        column("unit", "", "what is counted: item, request, frame, row or value"),
        column("lost", "", "whether it is gone"),
        column("count", "1", "how many"),
    ],
    passes: &[],
    tables: NOTHING,
    views: NOTHING,
    keys: &[],
};
