//! Which devices there are, from one run of `neuron-ls`.

use std::process::Stdio;
use std::time::Duration;

use service::error::{Error, Result};
use telemetry::neuron::ls::{self, Device};
use tokio::process::Command;

/// Longest time that it may take, and longest document that is read.
const PATIENCE: Duration = Duration::from_secs(30);
const BYTES_MAX: usize = 4 << 20;

/// Runs the program and reads what it prints.
///
/// # Errors
/// `Unavailable` if it cannot be started, fails, takes too long or prints something else.
pub(super) async fn devices(command: &[String]) -> Result<Vec<Device>> {
    let (program, arguments) = command.split_first().ok_or_else(|| Error::invalid("no command"))?;
    let failed = |what: &str| Error::unavailable(format!("{program} {what}"));
    let mut ran = Command::new(program);
    ran.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, ran.output()).await.map_err(|_| failed("did not end in time"))?;
    let output = output.map_err(|error| failed("cannot be started").with_source(error))?;
    if !output.status.success() {
        return Err(failed(&format!("ended with {}", output.status)));
    }
    if output.stdout.len() > BYTES_MAX {
        return Err(failed("printed too much"));
    }
    ls::parse(&output.stdout).map_err(|error| failed("printed no list of devices").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    /// A list is read; a program that is missing, fails or prints something else says so, by its name.
    #[tokio::test]
    async fn lists_and_faults() {
        let listed = devices(&shell("echo '[{\"neuron_device\": 0, \"nc_count\": 2}]'")).await.unwrap();
        assert_eq!((listed.len(), listed[0].nc_count), (1, Some(2)));
        assert_eq!(devices(&shell("echo '[]'")).await.unwrap(), []);
        for (command, expected) in [
            (vec!["/nowhere/neuron-ls".to_owned()], "/nowhere/neuron-ls cannot be started"),
            (shell("exit 3"), "sh ended with exit status: 3"),
            (shell("echo no devices"), "sh printed no list of devices"),
        ] {
            let error = devices(&command).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
