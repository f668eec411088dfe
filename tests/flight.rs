//! Flight SQL with the clients people use: ADBC's driver and pyarrow.

use crate::sender::Sender;
use crate::tls::token;
use crate::world::{Server, World, client};

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
    let ((token, hash), (expired, expired_hash)) = (token(), token());
    let principal = |name: &str, hash: &str| {
        format!("[[principal]]\nname = \"{name}\"\nrole = \"reader\"\ntoken_sha256 = \"{hash}\"\ntenants = [\"*\"]\n")
    };
    let settings =
        format!("{}{}expires = 2020-01-01\n", principal("people", &hash), principal("former", &expired_hash));
    let path = world.write("tokenwatt.toml", &settings);
    let server = world.up_with(&["--config", path.to_str().expect("a path")]);
    let flight = server.address("flight").to_owned();
    let asked =
        tokio::task::spawn_blocking(move || client("flight.py", &["login", &flight, "people", &token, &expired], &[]));
    assert_eq!(asked.await.expect("logged in").split_whitespace().collect::<Vec<_>>(), ["50", "50"]);
}
