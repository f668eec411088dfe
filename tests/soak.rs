//! A hundred clients at once, some asking for more than they may: the others are answered, and nothing is left behind.

use crate::world::{World, client};

const LIMITS: &str = "[query]\ntimeout_ms = 5000\nmemory_bytes_per_query = 67108864\n";

/// Ten seconds of it; `docs/decisions/query-limits.md` says how to run it for five minutes.
#[test]
fn a_hundred_clients_leave_nothing_behind() {
    let world = World::new();
    let settings = world.write("tokenwatt.toml", LIMITS).display().to_string();
    let server = world.up_with(&["--config", &settings]);
    client("send_fleet.py", &[server.otlp_http(), server.http(), "now"], &[]);
    let flight = server.address("flight").replace("http://", "grpc://");
    let pid = server.pid().to_string();
    let said = client("soak.py", &[&pid, server.http(), server.address("postgresql"), &flight, "100", "10"], &[]);
    assert!(said.contains("files and threads"), "{said}");
    let (status, output) = server.stop();
    assert!(status.success(), "{output}");
}
