//! Windows computed from raw rows once, and read instead of them wherever they say exactly the same.
//!
//! ```text
//! build:  run (a lease, once a minute) ─► window (what is due, what is no longer right) ─► build (read, fold) ─► write (one fenced commit)
//! read:   a view = windows that are built ∪ the others, computed from raw rows by the same query
//! ```
//!
//! Building asks the view itself for the stretch of a file, so what is stored is what would have been answered. A file covers
//! an hour (a day, for windows of an hour) and is replaced as windows are added; its tags say which versions of the sources it
//! holds, and every answer compares them with the versions it has pinned.
//!
//! Invariants:
//! 1. A window answers only if no source has come to hold other rows of it since; else raw rows do.
//! 2. A crash between any two steps leaves the windows as they were: files and state change in one commit.
//! 3. Two processes that build at once do not add up: the commit of the second is refused.

mod allocation;
mod objective;
pub(crate) mod views;

mod run;
mod slos;
mod budget;
mod window;
mod build;
mod fold;
mod restate;
mod write;

mod progress;
pub(crate) mod status;

mod read;

use telemetry::table::{
    BILLING, COSTS_1H, DEVICES, DEVICES_1M, DISCOUNTS, EXCHANGE_RATES, HOSTS_1M, NODES, POWER_MODELS, PRICES, REQUESTS,
    REQUESTS_1M, Role, TOKENS, TOKENS_1M, Table, USAGE_1H,
};

use crate::views::View;
pub(crate) use allocation::keyed;
pub use budget::{Budget, validate as validate_budgets};
pub(crate) use objective::{Objective, judges, judging};
pub use objective::{Slo, validate as validate_slos};
pub(crate) use read::{Memory, OfLake, RAW_ROWS, answer, answer_of_several, shape};
pub(crate) use run::Rollups;
pub use run::Settings;
pub(crate) use slos::{COLUMNS as OBJECTIVES_SQL, objectives};
use window::MINUTE_US;

/// A table of windows, and what they are.
#[derive(Debug)]
pub(crate) struct Rollup {
    /// Where windows that are built lie.
    pub(crate) table: &'static Table,
    /// What a window is.
    pub(crate) view: &'static View,
    /// Tables it is computed from.
    pub(crate) sources: &'static [Source],
    /// Length of a window, microseconds.
    pub(crate) window_us: i64,
    /// Length of the stretch that a file covers, microseconds.
    pub(crate) file_us: i64,
    /// Keys of one window that are told apart; the least of the others become one.
    pub(crate) keys_max: usize,
    /// How windows are restated whose raw rows may be gone.
    aged: Option<Aged>,
}

/// How a window is restated once some of its sources may have dropped their rows by age: from what it holds, and from what a bill
/// charges, which is kept for longer.
#[derive(Debug)]
struct Aged {
    /// What restates.
    charges: &'static Table,
    /// What makes dollars of charges in other currencies: a rate restates too, also windows that have no rows without it.
    rates: &'static Table,
    /// The query: columns of the roll-up's table, of rows of a stretch whose bounds stand in it as `$from` and `$to`, microseconds.
    sql: &'static str,
}

/// Keys of a window, unless it is known to have more.
const KEYS_MAX: usize = 10_000;
/// Hosts times tenants times parts of an hour: those of 10,000 hosts.
const COST_KEYS_MAX: usize = 200_000;

/// A table that windows are computed from.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) table: &'static Table,
    /// Minutes before and after that of a late row whose windows it changes too.
    pub(crate) reach: (i64, i64),
}

const fn source(table: &'static Table, before: i64, after: i64) -> Source {
    Source { table, reach: (before, after) }
}

/// As far as there is anything.
const FOR_EVER: i64 = i64::MAX / 4;

/// A table of dated facts: a row changes the windows after it that have rows, and makes none of its own.
const fn facts(table: &'static Table) -> Source {
    Source { table, reach: (0, FOR_EVER) }
}

/// Whether rows are of events, so that there are windows where there are rows.
fn is_of_events(table: &Table) -> bool {
    table.role != Role::Reference
}

const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;

/// All roll-ups, in the order in which they are built.
pub(crate) const ROLLUPS: [&Rollup; 6] = [
    // A row measured near the engine, come late, takes the count from one that arrived at a gateway up to a minute before.
    &Rollup {
        table: &REQUESTS_1M,
        view: &views::REQUESTS_MINUTES,
        sources: &[source(&REQUESTS, 1, 1)],
        window_us: MINUTE_US,
        file_us: HOUR_US,
        keys_max: KEYS_MAX,
        aged: None,
    },
    // The gap before the token that follows lies in its own minute.
    &Rollup {
        table: &TOKENS_1M,
        view: &views::TOKENS_MINUTES,
        sources: &[source(&TOKENS, 0, 1)],
        window_us: MINUTE_US,
        file_us: HOUR_US,
        keys_max: KEYS_MAX,
        aged: None,
    },
    // A sample on the minute closes the one before; the step to the next sample may be two minutes long.
    &Rollup {
        table: &HOSTS_1M,
        view: &views::HOSTS_MINUTES,
        sources: &[source(&REQUESTS, 0, 0), source(&TOKENS, 0, 0), source(&DEVICES, 1, 2)],
        window_us: MINUTE_US,
        file_us: HOUR_US,
        keys_max: KEYS_MAX,
        aged: None,
    },
    &Rollup {
        table: &DEVICES_1M,
        view: &views::DEVICES_MINUTES,
        sources: &[source(&DEVICES, 1, 2)],
        window_us: MINUTE_US,
        file_us: HOUR_US,
        keys_max: KEYS_MAX,
        aged: None,
    },
    &Rollup {
        table: &USAGE_1H,
        view: &views::USAGE_HOURS,
        sources: &[source(&REQUESTS, 1, 1)],
        window_us: HOUR_US,
        file_us: DAY_US,
        keys_max: KEYS_MAX,
        aged: None,
    },
    // A call is in flight for up to fifteen minutes after it came; a host's power model counts where no sample does.
    &Rollup {
        table: &COSTS_1H,
        view: &views::COSTS_HOURS,
        sources: &[
            source(&REQUESTS, 1, 16),
            source(&TOKENS, 1, 2),
            source(&DEVICES, 1, 2),
            facts(&NODES),
            source(&BILLING, 0, 0),
            facts(&PRICES),
            facts(&POWER_MODELS),
            facts(&DISCOUNTS),
            facts(&EXCHANGE_RATES),
        ],
        window_us: HOUR_US,
        file_us: HOUR_US,
        keys_max: COST_KEYS_MAX,
        aged: Some(Aged {
            charges: &BILLING,
            rates: &EXCHANGE_RATES,
            sql: include_str!("rollup/costs_hours_aged.sql"),
        }),
    },
];

/// The roll-up that a view reads.
pub(crate) fn of(view: &View) -> Option<&'static Rollup> {
    ROLLUPS.into_iter().find(|rollup| rollup.view.name == view.name)
}

impl Rollup {
    /// The tables that an answer pins, in that order: windows, then what they are computed from.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.table.name).chain(self.sources.iter().map(|source| source.table.name))
    }

    /// Whether it says how many calls there were, which the other rows of a call have a part in.
    pub(crate) fn counts_calls(&self) -> bool {
        self.sources.iter().any(|source| source.table.name == REQUESTS.name)
    }

    /// Start of the window that holds an instant.
    fn window_of(&self, us: i64) -> i64 {
        us.div_euclid(self.window_us) * self.window_us
    }

    /// Start of the stretch of the file that holds an instant.
    fn file_of(&self, us: i64) -> i64 {
        us.div_euclid(self.file_us) * self.file_us
    }

    fn reach(&self, source: &str) -> (i64, i64) {
        self.sources.iter().find(|known| known.table.name == source).map_or((0, 0), |source| source.reach)
    }
}
