//! The demo fleet as a whole: three regions on the Overview, device time that adds up, and an alert for the slow region
//! alone. One fleet serves all of it, for it takes minutes of real time until minutes are closed.

mod accounts;
mod alerts;
mod browser;
mod clicks;
mod numbers;
mod overview;
mod scenarios;
mod workbench;

use crate::world::{FREE_PORTS, Server, World, tokenwatt};

/// `tokenwatt demo` on free ports with these nodes of eu-west-1 slow: all of them (`region`) or one (`node`).
fn demo(world: &World, faults: &str) -> Server {
    let mut command = tokenwatt(&["demo", "--faults", faults]);
    command.arg("--data").arg(world.lake()).arg("--state").arg(world.state()).args(FREE_PORTS);
    Server::start(command.current_dir(world.path()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_fleet_shows_adds_up_and_alerts() {
    let world = World::new();
    let server = demo(&world, "region");
    overview::shows_three_regions(&server).await;
    tokio::task::block_in_place(|| browser::reads_every_page(&server));
    alerts::name_the_slow_region_and_no_other(&world, &server).await;
    accounts::add_up(&server).await;
    numbers::are_those_of_their_sql(&server).await;
    tokio::task::block_in_place(|| scenarios::hold(&server));
    tokio::task::block_in_place(|| workbench::works(&server));
    let (status, output) = server.stop();
    assert!(status.success(), "the demo ended with {status}:\n{output}");
    assert!(!output.contains("panicked"), "{output}");

    // What the fleet had recorded when it was told to stop is all there.
    accounts::every_call_kept_its_tokens(&world.up()).await;
}

/// Of a region one node is slow, and three clicks from its burning objective end at the tokens of a call that it served.
#[tokio::test(flavor = "multi_thread")]
async fn three_clicks_lead_to_the_slow_node() {
    let world = World::new();
    let server = demo(&world, "node");
    clicks::lead_to_the_slow_node(&server).await;
}
