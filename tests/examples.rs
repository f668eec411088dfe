//! What README tells people to type works as it stands there.

use std::process::Command;

use crate::sender::Sender;
use crate::world::{World, finish, python, repository, tokenwatt};

fn readme() -> String {
    std::fs::read_to_string(repository("README.md")).expect("read README.md")
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
