//! What README tells people to type works as it stands there.

use std::process::Command;

use crate::sender::Sender;
use crate::world::{World, client, finish, python, repository, tokenwatt};

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

    let readme = readme();
    let line =
        readme.lines().map(str::trim).find(|line| line.starts_with("tokenwatt what-if ")).expect("what-if in README");
    let arguments = line.split(" # ").next().expect("a command").split_whitespace().skip(1);
    let mut what_if = tokenwatt(&arguments.chain(["--data"]).collect::<Vec<_>>());
    let output = finish(what_if.arg(world.lake()).arg("--state").arg(world.state()));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("calls ") && told.contains("assumes "), "{told}");

    let code = block(&readme, "import deltalake, duckdb");
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

/// What each example prints. Spark is not there where the tests run.
const EXAMPLES: [(&str, &[&str]); 4] = [
    ("duckdb_tables.py", &["requests, version", "eu-west-1", "ttft_p99_s"]),
    ("polars_tables.py", &["tokens, version", "preempted", "gap_p99_s"]),
    ("pandas_flight.py", &["'p99_s': 's'", "ap-northeast-1", "calls measured at the server"]),
    ("psycopg_sql.py", &["acme", "USD of device time were given to requests"]),
];
const NOT_RUN: [&str; 1] = ["spark_tables.py"];

/// The programs and the notebook of `examples/`, on a lake that is written meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_run() {
    let world = World::new();
    let server = world.up();
    let (otlp, http) = (server.otlp_http().to_owned(), server.http().to_owned());
    let sent = tokio::task::spawn_blocking(move || client("send_fleet.py", &[&otlp, &http, "yesterday"], &[]));
    assert!(sent.await.expect("sent").contains("600 calls"));
    let endpoint = server.otlp_grpc().to_owned();
    let load = tokio::spawn(async move {
        let mut sender = Sender::new(1);
        while sender.send(&endpoint, 1).await.is_ok() {}
    });
    let environment = [
        ("TOKENWATT_DATA", world.lake().display().to_string()),
        ("TOKENWATT_FLIGHT", server.address("flight").replace("http://", "grpc://")),
        ("TOKENWATT_POSTGRES", server.address("postgresql").to_owned()),
    ];
    let run = tokio::task::spawn_blocking(move || {
        let run = |script: &str, arguments: &[&str]| {
            let mut command = Command::new(python());
            command.arg("-B").arg(repository(script)).args(arguments).envs(environment.iter().cloned());
            let output = finish(&mut command);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{script}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
            text
        };
        for (example, printed) in EXAMPLES {
            let text = run(&format!("examples/{example}"), &[]);
            for words in printed {
                assert!(text.contains(words), "{example} prints no {words}:\n{text}");
            }
        }
        let notebook = repository("examples/cost_per_tenant.ipynb").display().to_string();
        let text = run("tests/clients/notebook.py", &[&notebook]);
        for words in
            ["acme", "initech", "[image/png]", "11.145596 USD", "usd_per_million_output_tokens", "unpriced_hosts"]
        {
            assert!(text.contains(words), "the notebook shows no {words}:\n{text}");
        }
    });
    run.await.expect("the examples");
    load.abort();
}

/// Nothing lies in `examples/` that is neither run nor said not to be.
#[test]
fn every_example_is_known() {
    let entries = std::fs::read_dir(repository("examples")).expect("examples");
    let mut found: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    let known = EXAMPLES.map(|(name, _)| name).into_iter().chain(NOT_RUN).chain(["README.md", "cost_per_tenant.ipynb"]);
    let mut known: Vec<String> = known.map(str::to_owned).collect();
    known.sort();
    assert_eq!(found, known);
    let page = document("examples/README.md");
    for name in found.iter().filter(|name| *name != "README.md") {
        assert!(page.contains(name.as_str()), "examples/README.md says nothing of {name}");
    }
}
