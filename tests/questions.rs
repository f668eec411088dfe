//! Questions that people ask of a fleet: our SQL answers them as DuckDB does, which reads the same files and knows nothing of our
//! views and functions.

use crate::world::{World, client, repository};

/// Ten minutes of telemetry go in by OTLP; every `tests/questions/*.sql` then agrees with its independent computation, within the
/// tolerance that it states.
#[test]
fn sql_answers_what_duckdb_computes_from_the_same_files() {
    let world = World::new();
    let server = world.up();
    let (lake, questions) = (world.lake().display().to_string(), repository("tests/questions").display().to_string());
    let said = client("questions.py", &[&lake, server.otlp_http(), server.http(), &questions], &[]);
    assert!(said.contains("questions agree"), "{said}");
}
