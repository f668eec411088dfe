//! Reads a Llama-family model from a directory as Hugging Face's libraries write it: `config.json`, weights in safetensors, and
//! `tokenizer.json`.
//!
//! Tensors go by the names that GGUF gives them, and query and key rows are put into GGUF's order, so that one forward pass
//! serves both. All weights are held twice while the model is loaded.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use serde::Deserialize;
use serde_json::Value;

use super::gguf::{Fault, Shape};

/// Largest JSON file read, bytes; tokenizers of large vocabularies have about 20 MB.
const JSON_MAX: u64 = 256 << 20;

/// An open model directory.
pub(crate) struct Safetensors {
    directory: PathBuf,
    config: Settings,
    tensors: HashMap<String, Tensor>,
}

/// Of `config.json` what the forward pass needs.
#[derive(Debug, Deserialize)]
struct Settings {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rope_theta: Option<f32>,
    rope_scaling: Option<Value>,
    rms_norm_eps: Option<f32>,
    /// `silu` in every model of the family.
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
}

impl Safetensors {
    pub(crate) fn open(directory: &Path) -> Result<Self, Fault> {
        let config = serde_json::from_value(json(directory, "config.json")?);
        let config = config.map_err(|error| Fault::of(directory, format!("has an unusable config.json: {error}")))?;
        let mut tensors = HashMap::new();
        for name in files(directory)? {
            let read = candle_core::safetensors::load(directory.join(&name), &Device::Cpu);
            tensors.extend(read.map_err(|error| Fault::of(directory, format!("has no readable `{name}`: {error}")))?);
        }
        Ok(Self { directory: directory.to_owned(), config, tensors })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory's own name, for `/v1/models` and spans.
    pub(crate) fn name(&self) -> Option<&str> {
        self.directory.file_name()?.to_str()
    }

    pub(crate) fn shape(&self) -> Result<Shape, Fault> {
        let Settings { model_type, hidden_act, rope_scaling, attention_bias, .. } = &self.config;
        if model_type != "llama" {
            return Err(self.fault(format!("holds a model of type `{model_type}`, only `llama` is supported")));
        }
        let unsupported = match (hidden_act.as_deref().unwrap_or("silu"), rope_scaling, attention_bias) {
            ("silu", None | Some(Value::Null), None | Some(false)) => None,
            ("silu", None | Some(Value::Null), Some(true)) => Some("attention_bias".to_owned()),
            ("silu", Some(scaling), _) => Some(format!("rope_scaling {scaling}")),
            (other, ..) => Some(format!("hidden_act {other}")),
        };
        if let Some(unsupported) = unsupported {
            return Err(self.fault(format!("has {unsupported}, which is not supported")));
        }
        let heads = self.config.num_attention_heads;
        Ok(Shape {
            layers: self.config.num_hidden_layers,
            hidden: self.config.hidden_size,
            heads,
            kv_heads: self.config.num_key_value_heads.unwrap_or(heads),
            head_dim: self.config.head_dim.unwrap_or(self.config.hidden_size / heads.max(1)),
            feed_forward: self.config.intermediate_size,
            context: self.config.max_position_embeddings,
            rope_base: self.config.rope_theta.unwrap_or(10_000.0),
            norm_epsilon: self.config.rms_norm_eps.unwrap_or(1e-6),
        })
    }

    /// Ids of the tokens that end a text.
    pub(crate) fn ends(&self) -> Vec<u32> {
        let named = |name| json(&self.directory, name).ok().and_then(|value| value.get("eos_token_id").cloned());
        let ids = match named("generation_config.json").or_else(|| named("config.json")) {
            Some(Value::Array(ids)) => ids,
            Some(id) => vec![id],
            None => Vec::new(),
        };
        ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        named(tensor).is_some_and(|name| self.tensors.contains_key(&name))
    }

    /// A tensor by its GGUF name as f32 rows, `[rows, columns]` or `[columns]`.
    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor, Fault> {
        let tensor = named(name).and_then(|theirs| self.tensors.get(&theirs));
        let tensor = tensor.ok_or_else(|| self.fault(format!("has no tensor for `{name}`")))?;
        let heads = match name.split('.').nth(2) {
            Some("attn_q") => Some(self.config.num_attention_heads),
            Some("attn_k") => Some(self.config.num_key_value_heads.unwrap_or(self.config.num_attention_heads)),
            _ => None,
        };
        let read = tensor.to_dtype(DType::F32).and_then(|tensor| match heads {
            Some(heads) => neighbours(&tensor, heads),
            None => Ok(tensor),
        });
        read.map_err(|error| self.fault(format!("has an unusable tensor for `{name}`: {error}")))
    }

    pub(crate) fn fault(&self, problem: String) -> Fault {
        Fault::of(&self.directory, problem)
    }
}

/// A JSON file of the directory.
pub(crate) fn json(directory: &Path, name: &str) -> Result<Value, Fault> {
    let fault = |problem: String| Fault::of(directory, problem);
    let path = directory.join(name);
    let size = std::fs::metadata(&path).map_err(|error| fault(format!("has no readable {name}: {error}")))?.len();
    if size > JSON_MAX {
        return Err(fault(format!("has a {name} of {size} bytes")));
    }
    let bytes = std::fs::read(&path).map_err(|error| fault(format!("has no readable {name}: {error}")))?;
    serde_json::from_slice(&bytes).map_err(|error| fault(format!("has a {name} that is no JSON: {error}")))
}

/// The files that the weights are spread over.
fn files(directory: &Path) -> Result<BTreeSet<String>, Fault> {
    const WHOLE: &str = "model.safetensors";
    const INDEX: &str = "model.safetensors.index.json";
    if directory.join(WHOLE).is_file() {
        return Ok(BTreeSet::from([WHOLE.to_owned()]));
    }
    let index = json(directory, INDEX)?;
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Fault::of(directory, format!("has an {INDEX} without weight_map")))?;
    // A name from the file must not lead out of the directory.
    let plain = |name: &Value| name.as_str().filter(|name| !name.contains(['/', '\\'])).map(str::to_owned);
    let names: Option<BTreeSet<String>> = map.values().map(plain).collect();
    names.ok_or_else(|| Fault::of(directory, format!("has an {INDEX} that names no files of the directory")))
}

/// What Hugging Face calls the tensor that GGUF calls so.
fn named(gguf: &str) -> Option<String> {
    let whole = match gguf {
        "token_embd.weight" => Some("model.embed_tokens.weight"),
        "output.weight" => Some("lm_head.weight"),
        "output_norm.weight" => Some("model.norm.weight"),
        _ => None,
    };
    if let Some(whole) = whole {
        return Some(whole.to_owned());
    }
    let mut parts = gguf.strip_prefix("blk.")?.splitn(2, '.');
    let (layer, part) = (parts.next()?, parts.next()?.strip_suffix(".weight")?);
    let theirs = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{theirs}.weight"))
}

/// Hugging Face turns the first half of a head against the second; GGUF, and the forward pass, neighbours. Row `i` of the first half
/// and row `i` of the second become rows `2 i` and `2 i + 1`.
fn neighbours(tensor: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let (rows, columns) = tensor.dims2()?;
    let half = rows / heads.max(1) / 2;
    tensor.reshape((heads, 2, half, columns))?.transpose(1, 2)?.reshape((rows, columns))
}
