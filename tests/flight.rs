//! Flight SQL with the clients people use: ADBC's driver and pyarrow.

use crate::sender::Sender;
use crate::world::{Server, World, client, finish, tokenwatt};

/// A lake with fifty calls, and what serves it.
async fn served(world: &World) -> Server {
    let server = world.up();
    Sender::new(1).send(server.otlp_grpc(), 5).await.expect("send");
    server.until_at_least("SELECT count(*) FROM requests", 50).await;
    server
}

/// Types, parameters, lists, refusals and the end of a query, each against what HTTP answers.
#[tokio::test(flavor = "multi_thread")]
async fn adbc_reads_what_http_answers() {
    let world = World::new();
    let server = served(&world).await;
    let (flight, http) = (server.address("flight").to_owned(), server.http().to_owned());
    let asked = tokio::task::spawn_blocking(move || client("flight.py", &["answers", &flight, &http], &[]));
    asked.await.expect("ADBC agrees");
}

/// A token, or name and token as a password; what is wrong is refused with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn readers_log_in() {
    let world = World::new();
    served(&world).await.stop();
    let output = finish(&mut tokenwatt(&["token"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(first, _)| *first == name).map(|(_, rest)| rest.trim().to_owned()).expect("a field")
    };
    let (token, hash) = (field("token"), field("token_sha256"));
    let settings =
        format!("[[principal]]\nname = \"people\"\nrole = \"reader\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"*\"]\n");
    let path = world.write("tokenwatt.toml", &settings);
    let server = world.up_with(&["--config", path.to_str().expect("a path")]);
    let flight = server.address("flight").to_owned();
    let asked = tokio::task::spawn_blocking(move || client("flight.py", &["login", &flight, "people", &token], &[]));
    assert_eq!(asked.await.expect("logged in").split_whitespace().collect::<Vec<_>>(), ["50", "50"]);
}
