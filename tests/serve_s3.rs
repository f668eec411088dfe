//! The endpoint of the S3 tests as a program, for benchmarks: `cargo xtask s3 DIR [MS]` serves `DIR`, each request `MS` milliseconds
//! late, and prints what a client must have in its environment.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a tool that talks to the person who started it")]

mod endpoint;

use std::path::PathBuf;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let root = PathBuf::from(args.next().expect("the directory to serve"));
    let delay_ms = args.next().map_or(0, |text| text.parse().expect("the delay is a whole number of milliseconds"));
    let address = endpoint::serve(&root, Duration::from_millis(delay_ms)).await;
    for (name, value) in endpoint::environment(address, endpoint::SECRET_KEY) {
        println!("export {name}={value}");
    }
    println!("# the lake: s3://{}/PREFIX", endpoint::BUCKET);
    std::future::pending::<()>().await;
}
