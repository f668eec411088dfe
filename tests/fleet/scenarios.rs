//! The dashboard as people use it, and when things go wrong.

use crate::world::{Server, World, bundle, client};

/// How a first visit loads, live pages, zones, the heat map, keys, history; a lake without data, a region that went silent,
/// queries that take long or too long, scripts that do not load.
pub(super) fn hold(server: &Server) {
    let (quiet, hasty) = (World::new(), World::new());
    let lake = quiet.lake();
    let quiet = quiet.up();
    let mut command = hasty.up_command(&["--data", lake.to_str().expect("a path")]);
    let hasty = Server::start(command.env("TOKENWATT__QUERY__TIMEOUT_MS", "1").env("TOKENWATT__MAINTAIN", "false"));
    let both = format!("{},{}", quiet.otlp_http(), quiet.http());
    let binary = env!("CARGO_BIN_EXE_tokenwatt");
    let said = client("scenarios.py", &[server.http(), bundle(), &both, hasty.http(), binary], &[]);
    assert!(said.contains("holds: every scenario"), "{said}");
}
