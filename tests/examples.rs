//! What README tells people to type works as it stands there.

use std::process::Command;

use crate::sender::Sender;
use crate::world::{World, finish, python, repository, tokenwatt};

fn readme() -> String {
    document("README.md")
}

fn document(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// Indented blocks of Python: each begins with an import.
fn python_blocks(text: &str) -> Vec<String> {
    let is_code = |line: &&&str| line.starts_with("    ") || line.is_empty();
    let lines: Vec<&str> = text.lines().collect();
    let begins = |at: &usize| lines[*at].starts_with("    import ") && *at > 0 && lines[at - 1].is_empty();
    let starts = (0..lines.len()).filter(begins);
    let code = |at: usize| lines[at..].iter().take_while(is_code).map(|line| line.strip_prefix("    ").unwrap_or(line));
    starts.map(|at| code(at).collect::<Vec<_>>().join("\n")).collect()
}

/// Statements between double quotes, but for those that DuckDB is asked.
fn statements(text: &str) -> Vec<String> {
    let inside = text.split('"').filter(|part| part.starts_with("SELECT ") && !part.contains("read_parquet"));
    inside.map(str::to_owned).collect()
}

/// The indented block that begins with `first`.
fn block(text: &str, first: &str) -> String {
    let lines = text.lines().skip_while(|line| line.trim() != first);
    lines.take_while(|line| line.starts_with("    ")).map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readme_s_statements_and_its_python_run() {
    let world = World::new();
    let server = world.up();
    let mut sender = Sender::new(1);
    sender.send(server.otlp_grpc(), 2).await.expect("send");
    server.until_at_least("SELECT count(*) FROM tokens", 1).await;

    let statements = statements(&readme());
    assert!(statements.len() >= 2, "README shows no SQL");
    for statement in &statements {
        server.sql(statement).await;
    }
    let mut sql = tokenwatt(&["sql", &statements[0], "--format", "json", "--data"]);
    let output = finish(sql.arg(world.lake()).arg("--state").arg(world.state()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let code = block(&readme(), "import deltalake, duckdb");
    assert!(code.contains("tokenwatt-data/tokens"), "README's Python reads another table");
    let code = code.replace("tokenwatt-data", &world.lake().display().to_string());
    let output = finish(Command::new(python()).arg("-c").arg(code));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The Python of `docs/clients.md`, against a lake and the server that fills it.
#[tokio::test(flavor = "multi_thread")]
async fn the_clients_that_are_documented_run() {
    let world = World::new();
    let server = world.up();
    Sender::new(1).send(server.otlp_grpc(), 2).await.expect("send");
    server.until_at_least("SELECT count(*) FROM requests", 20).await;
    let blocks = python_blocks(&document("docs/clients.md"));
    assert_eq!(blocks.len(), 3, "{blocks:#?}");
    let flight = server.address("flight").trim_start_matches("http://");
    for block in blocks {
        let code = block.replace("tokenwatt-data", &world.lake().display().to_string());
        let code = code.replace("127.0.0.1:8815", flight);
        let output = finish(Command::new(python()).arg("-c").arg(&code));
        assert!(output.status.success(), "{code}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{code}\nprints nothing");
    }
}
