//! A model on disk, in either of the two forms there are. Tensors go by the names that GGUF gives them.

use std::path::Path;

use candle_core::Tensor;
use candle_core::quantized::{GgmlDType, QTensor};

use super::gguf::{Fault, Gguf, Shape};
use super::safetensors::Safetensors;

/// An open model.
pub(crate) enum Checkpoint {
    /// One file.
    Gguf(Gguf),
    /// A directory of Hugging Face's libraries.
    Safetensors(Safetensors),
}

impl Checkpoint {
    /// Opens a GGUF file, or a directory with `config.json`, safetensors and `tokenizer.json`.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        match path.is_dir() {
            true => Safetensors::open(path).map(Self::Safetensors),
            false => Gguf::open(path).map(Self::Gguf),
        }
    }

    /// The model's name as the files give it.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Gguf(file) => file.name(),
            Self::Safetensors(files) => files.name(),
        }
    }

    /// Sizes that can be.
    pub(crate) fn shape(&self) -> Result<Shape, Fault> {
        let shape = match self {
            Self::Gguf(file) => file.shape(),
            Self::Safetensors(files) => files.shape(),
        }?;
        if shape.sound() { Ok(shape) } else { Err(self.fault(format!("declares sizes that cannot be: {shape:?}"))) }
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        match self {
            Self::Gguf(file) => file.has(tensor),
            Self::Safetensors(files) => files.has(tensor),
        }
    }

    /// A tensor as f32 rows, `[rows, columns]` or `[columns]`.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Tensor, Fault> {
        match self {
            Self::Gguf(file) => file.tensor(name),
            Self::Safetensors(files) => files.tensor(name),
        }
    }

    /// A tensor in the form that the files have it in.
    pub(crate) fn matrix(&mut self, name: &str) -> Result<QTensor, Fault> {
        match self {
            Self::Gguf(file) => file.matrix(name),
            Self::Safetensors(files) => QTensor::quantize(&files.tensor(name)?, GgmlDType::F32)
                .map_err(|error| files.fault(format!("has an unusable tensor for `{name}`: {error}"))),
        }
    }

    /// A one-dimensional tensor of exactly `len` values.
    pub(crate) fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f32>, Fault> {
        let values = self.tensor(name)?.to_vec1::<f32>();
        let values = values.map_err(|error| self.fault(format!("tensor `{name}` is no vector: {error}")))?;
        if values.len() != len {
            return Err(self.fault(format!("tensor `{name}` has {} values, expected {len}", values.len())));
        }
        Ok(values)
    }

    pub(crate) fn fault(&self, problem: String) -> Fault {
        match self {
            Self::Gguf(file) => file.fault(problem),
            Self::Safetensors(files) => files.fault(problem),
        }
    }
}
