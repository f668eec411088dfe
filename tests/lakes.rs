//! Several lakes of which one is missing: each protocol tells it beside the answer, in its own way.

use std::process::Command;

use crate::sender::Sender;
use crate::world::{Server, World, client, finish, tokenwatt};

/// PostgreSQL clients get a WARNING, Flight SQL a header of the call, HTTP a header or a field; a question that needs nothing of the lake
/// that is missing is answered without a word.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_lake_is_told_beside_the_answer() {
    let world = World::new();
    let written = world.up();
    Sender::new(1).send(written.otlp_grpc(), 2).await.expect("sent");
    written.until_at_least("SELECT count(*) FROM requests", 20).await;
    let (status, output) = written.stop();
    assert!(status.success(), "{output}");

    // Nothing can lie below a file.
    let nowhere = world.write("a-file", "").join("lake").display().to_string();
    let settings = format!(
        "[[lake]]\nname = \"near\"\nurl = \"{}\"\nregions = [\"us-east-1\"]\n\
         [[lake]]\nname = \"far\"\nurl = \"{nowhere}\"\nregions = [\"eu-west-1\"]\n",
        world.lake().display()
    );
    let config = world.write("lakes.toml", &settings);
    let mut command = tokenwatt(&["query", "--config"]);
    command.arg(config).arg("--state").arg(world.state()).args(["--http", "127.0.0.1:0", "--flight", "127.0.0.1:0"]);
    let server = Server::start(command.current_dir(world.path()));

    let missing = "lake far (eu-west-1) is missing";
    let (needs, spares) = ("SELECT count(*) FROM requests", "SELECT count(*) FROM requests WHERE region = 'us-east-1'");
    let ask = async |sql: &str| {
        let request = server.client().post(format!("{}/api/v1/sql", server.address("query"))).body(sql.to_owned());
        let request = request.header("content-type", "text/plain").header("accept", "text/csv");
        let answer = request.send().await.expect("an answer");
        let notice = answer.headers().get("x-tokenwatt-notice").map(|notice| notice.to_str().expect("text").to_owned());
        (answer.text().await.expect("a body"), notice)
    };
    let (body, notice) = ask(needs).await;
    assert_eq!(body.lines().last(), Some("20"));
    assert!(notice.as_deref().is_some_and(|notice| notice.starts_with(missing)), "{notice:?}\n{}", server.output());
    let (body, notice) = ask(spares).await;
    assert!(body.lines().last() == Some("20") && notice.is_none(), "{body} {notice:?}");

    let (postgres, flight) = (server.address("postgresql").to_owned(), server.address("flight").to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        for (sql, is_told) in [(needs, true), (spares, false)] {
            let output = finish(Command::new("psql").args(["-X", "-A", "-t", &postgres, "-c", sql]));
            let (rows, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(rows.trim(), "20", "{errors}");
            assert_eq!(errors.starts_with(&format!("WARNING:  {missing}")), is_told, "{errors}");
        }
        client("missing.py", &[&postgres, &flight, needs, spares, missing], &[])
    });
    assert_eq!(asked.await.expect("the clients"), "told");
}
