//! The demo fleet as a whole: three regions on the Overview, device time that adds up, and an alert for the slow region
//! alone. One fleet serves all of it, for it takes minutes of real time until minutes are closed.

mod accounts;
mod alerts;
mod browser;
mod overview;

use crate::world::{FREE_PORTS, Server, World, tokenwatt};

/// `tokenwatt demo` on free ports with every node of eu-west-1 slow.
fn demo(world: &World) -> Server {
    let mut command = tokenwatt(&["demo", "--faults", "region"]);
    command.arg("--data").arg(world.lake()).arg("--state").arg(world.state()).args(FREE_PORTS);
    Server::start(command.current_dir(world.path()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_fleet_shows_adds_up_and_alerts() {
    let world = World::new();
    let server = demo(&world);
    overview::shows_three_regions(&server).await;
    tokio::task::block_in_place(|| browser::reads_every_page(&server));
    alerts::name_the_slow_region_and_no_other(&world, &server).await;
    accounts::add_up(&server).await;
    let (status, output) = server.stop();
    assert!(status.success(), "the demo ended with {status}:\n{output}");
    assert!(!output.contains("panicked"), "{output}");

    // What the fleet had recorded when it was told to stop is all there.
    accounts::every_call_kept_its_tokens(&world.up()).await;
}
