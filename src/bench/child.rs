//! Processes that a benchmark starts: they end with it, however it ends.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// How long a process may take to end when asked to, before it is killed: so many looks of [`LOOK`] each.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(10);

/// A process that is gone once this is dropped.
pub(super) struct Bound(pub(super) Child);

impl Bound {
    /// Starts it; it also ends where nothing here runs any more, see [`end_with_us`].
    pub(super) fn start(command: &mut Command) -> io::Result<Bound> {
        end_with_us(command.as_std_mut());
        command.kill_on_drop(true).spawn().map(Bound)
    }

    /// Waits for its end: how it ended, and what it wrote into a piped standard output.
    pub(super) async fn output(mut self) -> io::Result<(ExitStatus, Vec<u8>)> {
        let mut said = Vec::new();
        if let Some(stdout) = &mut self.0.stdout {
            stdout.read_to_end(&mut said).await?;
        }
        Ok((self.0.wait().await?, said))
    }

    /// Waits a while for its end, on this thread.
    fn ended(&mut self) -> bool {
        (0..LOOKS).any(|_| {
            let running = matches!(self.0.try_wait(), Ok(None));
            if running {
                std::thread::sleep(LOOK);
            }
            !running
        })
    }
}

impl Drop for Bound {
    /// Waits for the end, since a directory that is removed next must not be written to any more.
    fn drop(&mut self) {
        let Some(pid) = self.0.id().and_then(|id| Pid::from_raw(id as i32)) else { return };
        // Asked first: a script that drives a browser ends the browser then. One that is gone already is as wanted.
        let _ = kill_process(pid, Signal::TERM);
        if !self.ended() {
            let _ = self.0.start_kill();
            self.ended();
        }
    }
}

/// Has the kernel ask the process to end when this one is gone: after `kill -9` nothing here runs that could (prctl(2),
/// `PR_SET_PDEATHSIG`; systems other than Linux go without).
///
/// The kernel watches the thread that starts the process. Benchmarks start theirs from the main thread, which ends last.
#[cfg_attr(target_os = "linux", allow(unsafe_code, reason = "what runs between fork and exec has no safe interface"))]
pub(super) fn end_with_us(command: &mut std::process::Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;

        use rustix::process::{getpid, getppid, set_parent_process_death_signal};

        let ours = getpid();
        let bind = move || -> io::Result<()> {
            set_parent_process_death_signal(Some(Signal::TERM))?;
            // This process may have ended before the kernel was asked.
            if getppid() == Some(ours) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        };
        // SAFETY: between fork and exec only what takes no lock and no memory may run: these are system calls.
        unsafe { command.pre_exec(bind) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}
