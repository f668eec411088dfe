//! Work that may wait: merges and checkpoints run on threads of low priority, for receiving goes first.

use std::panic::AssertUnwindSafe;
use std::thread::JoinHandle;

use service::{Error, Result};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

/// Added to the priority number of the thread: it gets about a tenth of a core that others want too.
const NICE: i32 = 10;

/// Runs work on a thread of its own. A runtime of one thread waits for it in place, so that what a simulation does depends on
/// nothing but its seed.
///
/// # Errors
/// What the work says; `Internal` if it panics or there is no thread. `action` says what it was doing.
pub(crate) async fn in_background<T: Send + 'static>(
    action: String,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, outcome) = oneshot::channel();
    let thread = move || {
        // Where it is not allowed, the work only competes with everything else.
        let _ = rustix::process::nice(NICE);
        // Nobody waits any more after a shutdown.
        let _ = done.send(std::panic::catch_unwind(AssertUnwindSafe(work)));
    };
    let started = std::thread::Builder::new().name("lake.background".to_owned()).spawn(thread);
    let thread = started.map_err(|error| Error::internal(action.clone()).with_source(error))?;
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        wait(thread);
    }
    match outcome.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::internal(format!("{action}: panicked"))),
        Err(lost) => Err(Error::internal(action).with_source(lost)),
    }
}

/// Waits for a thread that does not panic.
fn wait(thread: JoinHandle<()>) {
    let _ = thread.join();
}
