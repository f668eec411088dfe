//! llama.cpp on the same model, run by Node.js, for figures side by side.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use service::error::{Error, Result};

/// The program; its head says how llama.cpp is installed.
const SCRIPT: &str = include_str!("llama_cpp.mjs");

/// Where llama.cpp is and what it is to do.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Directory of the npm package `@node-llama-cpp/linux-x64`.
    pub(super) package: PathBuf,
    pub(super) prompt_tokens: u32,
    pub(super) tokens: u32,
    pub(super) threads: usize,
}

/// What it came to.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Speed {
    /// Of the npm package.
    pub(super) version: String,
    pub(super) prefill_s: f64,
    pub(super) decode_s: f64,
}

impl Peer {
    /// Computes `batch` prompts one after the other, then steps in which every sequence gets a token.
    ///
    /// # Errors
    /// `Invalid` if Node.js or llama.cpp do not run.
    pub(super) fn measure(&self, model: &Path, batch: u32) -> Result<Speed> {
        let failed = |what: &str| Error::invalid(format!("llama.cpp cannot be measured: {what}"));
        let mut node = Command::new("node");
        node.args(["--input-type=module", "-", "speed"]).arg(&self.package).arg(model);
        node.args([batch, self.prompt_tokens, self.tokens].map(|number| number.to_string()));
        node.arg(self.threads.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        super::child::end_with_us(&mut node);
        let mut child = node.spawn().map_err(|error| failed("node does not start").with_source(error))?;
        let mut input = child.stdin.take().ok_or_else(|| failed("node takes no program"))?;
        input.write_all(SCRIPT.as_bytes()).map_err(|error| failed("node takes no program").with_source(error))?;
        drop(input);
        let output = child.wait_with_output().map_err(|error| failed("node broke").with_source(error))?;
        if !output.status.success() {
            return Err(failed("see above"));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed("its answer is no JSON").with_source(error))
    }
}
