//! Where a request stands among the others of its model and region in the half hour around it.

use crate::ask::{Asked, Row};
use crate::sql::Where;

/// Time on each side of the request, µs.
const AROUND_US: i64 = 900_000_000;

/// The share of calls that waited less for their first token; nothing for a request without one.
pub(super) fn sql(request: Option<&Row<'_>>) -> Option<String> {
    let row = request?;
    let (start_us, ttft_s) = (row.time("time")?, row.number("ttft_s")?);
    let clause = Where::span((start_us - AROUND_US, start_us + AROUND_US))
        .and_equal("region", row.text("region"))
        .and_equal("model", row.text("model"))
        .and_equal("measured_at", row.text("measured_at"))
        .and("ttft_s IS NOT NULL".to_owned());
    Some(format!(
        "SELECT count(*) AS calls, avg(CASE WHEN ttft_s < {ttft_s:?} THEN 1.0 ELSE 0.0 END) AS faster,\n  avg(queue_s) AS queue_s, avg(prefill_s) AS prefill_s\nFROM latency\n{}",
        clause.clause()
    ))
}

/// The rank as a sentence, and what made the difference.
pub(super) fn sentence(asked: Option<&Asked>, request: &Row<'_>) -> Option<String> {
    let row = asked?.outcome.as_ref().ok()?.first()?;
    let (calls, faster) = (row.number("calls").filter(|calls| *calls >= 20.0)?, row.number("faster")?);
    let others = format!(
        "{} calls of the same model in the same region in the half hour around it",
        viz::format::text(Some(calls), viz::format::Unit::Count)
    );
    if faster < 0.5 {
        return Some(format!("Its first token came sooner than that of most of {others}."));
    }
    let share = viz::format::text(Some(faster), viz::format::Unit::Ratio);
    let excess = |column: &str| Some(request.number(column)? - row.number(column)?);
    let cause = match (excess("queue_s"), excess("prefill_s")) {
        (Some(queue), Some(prefill)) if queue.max(prefill) > 0.01 => {
            let (name, by) = if queue >= prefill { ("queue", queue) } else { ("prefill", prefill) };
            let by = viz::format::text(Some(by), viz::format::Unit::Seconds);
            format!(" Its {name} took {by} longer than theirs did on average.")
        }
        _ => String::new(),
    };
    Some(format!("It waited longer for its first token than {share} of {others}.{cause}"))
}
