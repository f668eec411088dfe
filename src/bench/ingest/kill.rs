//! `--kill-after`: the receiver ends by `kill -9` in mid-run, and what it had acknowledged is looked for afterwards.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use service::error::{Error, Result};
use service::shutdown::CancellationToken;

use super::load::{Load, Sent};
use super::server::Server;
use super::verify::{self, Watch};
use super::{Args, COMMIT_PATIENCE, figures};

/// The load after the kill, if nothing ended it.
const BEYOND: Duration = Duration::from_secs(60);

/// Sends as much as is taken until the process is killed, `after_s` seconds later. What got no answer is not counted.
///
/// # Errors
/// If the process cannot be killed, or refused the load before.
pub(super) async fn during(load: Load, pid: u32, after_s: u64) -> Result<Sent> {
    let after = Duration::from_secs(after_s);
    let victim = CancellationToken::new();
    let load = Load { victim: Some(victim.clone()), duration: after + BEYOND, ..load };
    let kill = async {
        tokio::time::sleep(after).await;
        let killed = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
        victim.cancel();
        match killed {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(Error::unavailable(format!("kill process {pid}")).with_source(error)),
            None => Err(Error::invalid(format!("{pid} is no process"))),
        }
    };
    let (sent, ()) = tokio::try_join!(load.run(0), kill)?;
    Ok(sent)
}

/// Kills our own collector, starts it again on the same state, and compares what was acknowledged with what it then commits.
///
/// # Errors
/// As [`super::run`].
pub(super) async fn run(args: &Args, after_s: u64, data: &str, state: &Path) -> Result<Value> {
    let server = Server::start(data, state, args.pin_server_cpu).await?;
    let sent = during(super::load(args, server.grpc(), server.http()), server.id()?, after_s).await?;
    server.ended().await?;

    let again = Instant::now();
    let server = Server::start(data, state, args.pin_server_cpu).await?;
    let watch = Watch::start(data).await?;
    let seen = watch.until_rows(sent.tokens(), again, COMMIT_PATIENCE).await?;
    drop(watch);
    // The rows seen may be of requests whose answer the kill cut off; at its end it commits all that it has.
    server.stop().await?;
    let stored = verify::stored(data, &[&sent]).await?;
    Ok(json!({
        "bench": "ingest",
        "transport": figures::name(args.wire.transport),
        "encoding": figures::name(args.wire.encoding),
        "compression": figures::name(args.wire.compression),
        "layout": figures::name(args.layout),
        "running": figures::running(args),
        "spans_per_request": args.spans_per_request,
        "connections": args.connections,
        "in_flight": args.in_flight,
        "killed_after_s": after_s,
        "acknowledged_spans": sent.spans(),
        "acknowledged_tokens": sent.tokens(),
        "stored_tokens": stored.rows,
        "lost": stored.lost,
        "doubled": stored.doubled,
        "committed_after_restart_s": seen.complete.map(|complete| figures::round(complete.as_secs_f64(), 3)),
    }))
}
