//! A hundred clients at once, some asking for more than they may: the others are answered, and nothing is left behind.

use std::time::Duration;

use crate::world::{PATIENCE, Server, World, client, client_within};

/// Limits that clients of a test reach soon. More wait than there are clients.
const LIMITS: &str = "[query]\nmax_rows = 20000\ntimeout_ms = 30000\nmemory_bytes_per_query = 20971520\ncolumn_bytes_max = 100000000\n\
                      answer_bytes_max = 16777216\nwaiting = 200\n";
const CLIENTS: &str = "100";
/// Seconds that the clients go on; without it each asks a few questions.
const SECONDS: &str = "TOKENWATT_SOAK_SECONDS";

#[test]
fn a_hundred_clients_leave_nothing_behind() {
    let world = World::new();
    let settings = world.write("tokenwatt.toml", LIMITS).display().to_string();
    let spill = world.path().join("spill");
    std::fs::create_dir(&spill).expect("a directory");
    let server = Server::start(world.up_command(&["--config", &settings]).env("TMPDIR", &spill));
    client("send_fleet.py", &[server.otlp_http(), server.http(), "now"], &[]);
    let seconds: u32 = std::env::var(SECONDS).map_or(0, |seconds| seconds.parse().expect("whole seconds"));
    let patience = 8 * PATIENCE + Duration::from_secs(1) * seconds;
    let (flight, pid) = (server.address("flight").replace("http://", "grpc://"), server.pid().to_string());
    let (http, postgres, spill) = (server.http(), server.address("postgresql"), spill.display().to_string());
    let args = [&pid, http, postgres, &flight, &spill, CLIENTS, &seconds.to_string()];
    let said = client_within("soak.py", &args, &[], patience);
    println!("{said}");
    assert!(said.contains("RSS"), "{said}");
    let (status, output) = server.stop();
    assert!(status.success() && !output.contains("panicked"), "{output}");
}
