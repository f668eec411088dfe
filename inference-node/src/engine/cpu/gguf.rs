//! Reads what a Llama-family model needs from a GGUF file: its shape, its tensors, its vocabulary.
//!
//! The file comes from outside, so every count and name is checked here and a fault names the file and the key.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use candle_core::quantized::QTensor;
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Tensor};

/// Largest vocabulary accepted, in tokens; far above any published model, and a bound on what a bad file can ask for.
const VOCABULARY_MAX: usize = 1 << 20;

/// Sizes of one Llama-family model. All counts; `head_dim` is in floats.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) feed_forward: usize,
    /// Tokens a sequence may hold, prompt and output together.
    pub(crate) context: usize,
    pub(crate) rope_base: f32,
    pub(crate) norm_epsilon: f32,
}

/// An open model file. Tensors are read one by one, so that the whole file is never in memory twice.
pub(crate) struct Gguf {
    path: PathBuf,
    content: Content,
    reader: BufReader<File>,
}

impl Gguf {
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let fault = |problem: String| Fault { path: path.to_path_buf(), problem };
        let file = File::open(path).map_err(|error| fault(format!("cannot be opened: {error}")))?;
        let mut reader = BufReader::new(file);
        let content = Content::read(&mut reader).map_err(|error| fault(format!("is no readable gguf: {error}")))?;
        Ok(Self { path: path.to_path_buf(), content, reader })
    }

    /// The model's name as the file gives it, for `/v1/models` and spans.
    pub(crate) fn name(&self) -> Option<&str> {
        self.text("general.basename").or_else(|| self.text("general.name"))
    }

    pub(crate) fn shape(&self) -> Result<Shape, Fault> {
        let architecture = self.text("general.architecture").unwrap_or_default();
        if architecture != "llama" {
            return Err(self.fault(format!("holds architecture `{architecture}`, only `llama` is supported")));
        }
        let heads = self.count("llama.attention.head_count")?;
        let hidden = self.count("llama.embedding_length")?;
        Ok(Shape {
            layers: self.count("llama.block_count")?,
            hidden,
            heads,
            kv_heads: self.count("llama.attention.head_count_kv").unwrap_or(heads),
            head_dim: self.count("llama.rope.dimension_count").unwrap_or(hidden / heads),
            feed_forward: self.count("llama.feed_forward_length")?,
            context: self.count("llama.context_length")?,
            rope_base: self.float("llama.rope.freq_base").unwrap_or(10_000.0),
            norm_epsilon: self.float("llama.attention.layer_norm_rms_epsilon").unwrap_or(1e-5),
        })
    }

    /// A tensor as f32 rows, `[rows, columns]` or `[columns]`.
    pub(crate) fn tensor(&mut self, name: &str) -> Result<Tensor, Fault> {
        let read = self.matrix(name)?.dequantize(&Device::Cpu);
        read.map_err(|error| self.fault(format!("has no readable tensor `{name}`: {error}")))
    }

    /// A tensor in the form that the file has it in.
    pub(crate) fn matrix(&mut self, name: &str) -> Result<QTensor, Fault> {
        let read = self.content.tensor(&mut self.reader, name, &Device::Cpu);
        read.map_err(|error| self.fault(format!("has no readable tensor `{name}`: {error}")))
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.content.tensor_infos.contains_key(tensor)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.content.metadata.get(key).and_then(|value| value.to_string().ok()).map(String::as_str)
    }

    /// A positive whole number under `key`.
    pub(crate) fn count(&self, key: &str) -> Result<usize, Fault> {
        match self.id(key) {
            Some(value) if value > 0 => Ok(value as usize),
            _ => Err(self.fault(format!("has no positive number under `{key}`"))),
        }
    }

    /// A token id under `key`, if the file gives one.
    pub(crate) fn id(&self, key: &str) -> Option<u32> {
        match self.content.metadata.get(key)? {
            Value::U8(value) => Some(u32::from(*value)),
            Value::U16(value) => Some(u32::from(*value)),
            Value::U32(value) => Some(*value),
            Value::I32(value) => u32::try_from(*value).ok(),
            Value::U64(value) => u32::try_from(*value).ok(),
            Value::I64(value) => u32::try_from(*value).ok(),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.content.metadata.get(key).and_then(|value| value.to_bool().ok())
    }

    /// A list of texts, such as the vocabulary or the merges.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, Fault> {
        let values = match self.content.metadata.get(key) {
            Some(Value::Array(values)) if values.len() <= VOCABULARY_MAX => values,
            _ => return Err(self.fault(format!("has no usable list under `{key}`"))),
        };
        let texts: Option<Vec<String>> = values
            .iter()
            .map(|value| match value {
                Value::String(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        texts.ok_or_else(|| self.fault(format!("list `{key}` holds something that is no text")))
    }

    /// A list of small numbers, such as the kind of each token; empty if the file has none.
    pub(crate) fn numbers(&self, key: &str) -> Vec<i64> {
        let Some(Value::Array(values)) = self.content.metadata.get(key) else { return Vec::new() };
        values
            .iter()
            .map(|value| match value {
                Value::I32(number) => i64::from(*number),
                Value::U32(number) => i64::from(*number),
                _ => 0,
            })
            .collect()
    }

    pub(crate) fn fault(&self, problem: String) -> Fault {
        Fault { path: self.path.clone(), problem }
    }

    fn float(&self, key: &str) -> Option<f32> {
        self.content.metadata.get(key).and_then(|value| value.to_f32().ok())
    }
}

impl Shape {
    /// Whether a model can have these sizes.
    pub(crate) fn sound(&self) -> bool {
        self.kv_heads > 0
            && self.heads.is_multiple_of(self.kv_heads)
            && self.head_dim > 0
            && self.head_dim.is_multiple_of(2)
            && self.layers <= 512
            && self.hidden <= 1 << 16
            && self.feed_forward <= 1 << 18
            && self.heads <= 1 << 10
            && self.head_dim <= 1 << 10
    }
}

/// What is wrong with a model.
#[derive(Debug, thiserror::Error)]
#[error("model {} {problem}", path.display())]
pub(crate) struct Fault {
    path: PathBuf,
    problem: String,
}

impl Fault {
    pub(crate) fn of(path: &Path, problem: String) -> Self {
        Self { path: path.to_owned(), problem }
    }
}
