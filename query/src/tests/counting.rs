//! A call is counted once, however its trace looks.

use serde_json::{Value, json};
use telemetry::table::REQUESTS;

use super::world::{NOON, World};

/// The definition, row by row against row: a row is superseded when its trace holds a nearer row inside its time span.
const DEFINITION: &str = "SELECT r.span_id FROM requests AS r WHERE NOT EXISTS (
    SELECT 1 FROM requests AS nearer
    WHERE nearer.trace_id = r.trace_id
      AND nearer.measured_at IN ('server', 'gateway')
      AND CASE nearer.measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END
        < CASE r.measured_at WHEN 'server' THEN 0 WHEN 'gateway' THEN 1 ELSE 2 END
      AND CAST(nearer.time AS BIGINT) >= CAST(r.time AS BIGINT) - 1000000
      AND CAST(nearer.time AS BIGINT) <= CAST(r.time AS BIGINT) + CAST(coalesce(r.e2e_s, 900.0) * 1000000.0 AS BIGINT) + 1000000
  ) ORDER BY r.span_id";

/// Numbers that look random and are the same each time (SplitMix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// A row anywhere in a quarter of an hour: few traces, every place, spans of every length, equal times and exact edges among them.
fn row(draws: &mut Draws, index: usize) -> Value {
    // Whole seconds make rows meet at exactly the edge.
    let second = draws.below(900) as i64;
    let fraction = if draws.below(2) == 0 { 0 } else { draws.below(1_000_000) as i64 };
    let mut row = json!({"time": NOON + second * 1_000_000 + fraction, "span_id": format!("{index:06}")});
    let place = ["server", "gateway", "client", "elsewhere", ""][draws.below(5) as usize];
    if !place.is_empty() {
        row["measured_at"] = json!(place);
    }
    match draws.below(8) {
        0 => {}
        trace => row["trace_id"] = json!(format!("t{trace}")),
    }
    match draws.below(6) {
        0 => {}
        1 => row["e2e_s"] = json!(0.0),
        2 => row["e2e_s"] = json!(-3.0),
        _ => row["e2e_s"] = json!(draws.below(40) as f64 / 2.0),
    }
    row
}

#[tokio::test]
async fn calls_are_as_defined_whatever_the_rows() {
    for seed in 0..12 {
        let world = World::new().await;
        let mut draws = Draws(seed);
        let count = [0, 1, 2, 40, 300][seed as usize % 5] + 5;
        let rows: Vec<_> = (0..count).map(|index| row(&mut draws, index)).collect();
        // in two files, so that a trace lies in both
        world.write(&REQUESTS, &rows[..count / 2]).await;
        world.write(&REQUESTS, &rows[count / 2..]).await;
        let expected = world.rows(DEFINITION).await;
        assert_eq!(world.rows("SELECT span_id FROM calls ORDER BY span_id").await, expected, "seed {seed}");
        let from = "time >= TIMESTAMP '2026-11-29T12:05:00Z' AND time < TIMESTAMP '2026-11-29T12:10:00Z'";
        let defined =
            DEFINITION.replace("ORDER BY", &format!("AND r.{} ORDER BY", from.replace("AND time", "AND r.time")));
        let asked = format!("SELECT span_id FROM calls WHERE {from} ORDER BY span_id");
        assert_eq!(world.rows(&asked).await, world.rows(&defined).await, "seed {seed}");
        let one = world.rows("SELECT count(*) FROM calls WHERE trace_id = 't3'").await;
        let defined = DEFINITION
            .replace("SELECT r.span_id", "SELECT count(*)")
            .replace("ORDER BY r.span_id", "AND r.trace_id = 't3'");
        assert_eq!(one, world.rows(&defined).await, "seed {seed}");
    }
}

/// One trace may hold a whole batch job. Prints what that takes; the definition takes time by the square of it.
#[tokio::test]
#[ignore = "a measurement"]
async fn a_trace_of_fifty_thousand_calls() {
    let world = World::new().await;
    let call = |index: i64, place: &str, after_us: i64| {
        let time = NOON + index * 10_000 + after_us;
        json!({"time": time, "trace_id": "a", "span_id": format!("{place}{index}"), "measured_at": place, "e2e_s": 2.0})
    };
    let rows: Vec<_> =
        (0..50_000).flat_map(|index| [call(index, "gateway", 0), call(index, "server", 1_000)]).collect();
    // The test's reader makes a batch of no more rows than that.
    for chunk in rows.chunks(1_000) {
        world.write(&REQUESTS, chunk).await;
    }
    for (name, sql) in [
        ("calls", "SELECT count(*) FROM calls".to_owned()),
        ("defined", DEFINITION.replace("SELECT r.span_id", "SELECT count(*)").replace("ORDER BY r.span_id", "")),
    ] {
        let answer = world.ask(&sql).await;
        println!("{name}: {} calls in {:.0} ms", answer.rows[0][0], answer.elapsed_ms);
    }
}
