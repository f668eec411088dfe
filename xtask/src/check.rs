//! `check`: the rules of the house that no compiler knows.
//!
//! Who may use whom → one version of the crates whose types cross crates → names, sizes and left-overs.
//! All faults are listed at once.

mod dependencies;
mod tidy;
mod versions;

use anyhow::{Result, bail};

/// Runs every rule; an error lists all that is wrong.
pub(crate) fn run() -> Result<()> {
    let mut faults = Vec::new();
    dependencies::check(&mut faults)?;
    versions::check(&mut faults)?;
    tidy::check(&mut faults)?;
    if faults.is_empty() {
        println!("check: dependency table, lock file and house rules hold");
        return Ok(());
    }
    bail!("{} fault(s)\n  {}", faults.len(), faults.join("\n  "))
}
