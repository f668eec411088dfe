//! Who has stopped telling anything: a host without a sample for whole minutes in which others had some. It did not do nothing; what it
//! did is not known.

use crate::ask::{Asked, Row};
use crate::server::{App, Visit};
use crate::sql::{Where, minutes};
use crate::urlstate::{Dimension, Scope};

/// Whole minutes without a sample, µs: the one that runs may have none yet.
const SILENT_US: i64 = 120_000_000;
/// How far back a host is still expected, µs.
const EXPECTED_US: i64 = 3_600_000_000;

/// The newest minute of each host with a sample.
pub(crate) struct Seen {
    pub(crate) asked: Asked,
}

/// Asks for the hosts of the range, or of the last hour where the range is shorter.
pub(crate) async fn ask(app: &App, visit: &Visit, scope: &Scope) -> Seen {
    let (from, to) = scope.resolve(visit.now_us);
    let span = minutes((from.min(to - EXPECTED_US), to));
    let clause = Where::of(scope, span, &[Dimension::Region, Dimension::Hardware]);
    let key = Scope { tenant: None, engine: None, model: None, ..scope.clone() }.link("");
    let sql = format!(
        "SELECT region, host_id, max(host_type) AS host_type, max(time) AS last,\n  max(max(time)) OVER () AS newest\nFROM devices_minutes\n{}\nGROUP BY region, host_id",
        clause.and("host_id IS NOT NULL".to_owned()).clause()
    );
    Seen { asked: app.asker.kept("fleet.seen", &key, visit.now_us, sql).await }
}

impl Seen {
    /// Hosts that are silent: the row, and since when.
    pub(crate) fn silent(&self) -> Vec<(Row<'_>, i64)> {
        let Ok(answer) = &self.asked.outcome else { return Vec::new() };
        answer.rows().filter_map(|row| Some((row, since(&row)?))).collect()
    }

    /// Since when all hosts of a region are silent; none while any of them tells something.
    pub(crate) fn region(&self, region: &str) -> Option<i64> {
        let answer = self.asked.outcome.as_ref().ok()?;
        let own = answer.rows().filter(|row| row.text("region") == Some(region));
        own.map(|row| since(&row)).reduce(|a, b| Some(a?.max(b?))).flatten()
    }
}

/// The end of its newest minute, if that is long before everybody's newest.
fn since(row: &Row<'_>) -> Option<i64> {
    let (last, newest) = (row.time("last")?, row.time("newest")?);
    (newest - last >= SILENT_US).then_some(last + 60_000_000)
}

/// In words.
pub(crate) fn words(since_us: i64) -> String {
    format!("silent since {}", crate::zone::clock(since_us))
}
