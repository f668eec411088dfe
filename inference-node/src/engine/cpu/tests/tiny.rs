//! Writes a tiny Llama-family model as GGUF, and computes its logits the slow and obvious way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::json;

/// Id of `<|im_end|>`.
pub(super) const END: u32 = 1;

const LAYERS: usize = 2;
const EPSILON: f64 = 1e-5;
const ROPE_BASE: f64 = 10_000.0;

/// A model on disk, removed when dropped.
pub(super) struct Tiny {
    path: PathBuf,
    sizes: Sizes,
    weights: HashMap<String, Vec<f32>>,
}

#[derive(Clone, Copy)]
struct Sizes {
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    feed_forward: usize,
    vocabulary: usize,
}

impl Sizes {
    const ODD: Self = Self { hidden: 24, heads: 3, kv_heads: 1, head_dim: 8, feed_forward: 20, vocabulary: 260 };
    const EVEN: Self = Self { hidden: 64, heads: 4, kv_heads: 2, head_dim: 16, feed_forward: 96, vocabulary: 272 };
}

impl Tiny {
    /// Sizes that the 8-bit kernels do not take: computed in f32 everywhere.
    pub(super) fn odd() -> Self {
        Self::write(Sizes::ODD, |_, _| {})
    }

    /// Sizes that the 8-bit kernels take, where the processor has them.
    pub(super) fn even() -> Self {
        Self::write(Sizes::EVEN, |_, _| {})
    }

    /// One of the two, with weights that are no numbers where `at` says: places in a tensor of that name.
    pub(super) fn broken(is_even: bool, name: &str, at: std::ops::Range<usize>) -> Self {
        let sizes = if is_even { Sizes::EVEN } else { Sizes::ODD };
        Self::write(sizes, |tensor, values| {
            if tensor == name {
                values[at.clone()].fill(f32::NAN);
            }
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn write(sizes: Sizes, change: impl Fn(&str, &mut [f32])) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("tokenwatt-tiny-{}-{}.gguf", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut random = numbers();
        let (mut weights, mut tensors) = (HashMap::new(), Vec::new());
        for (name, rows, columns) in shapes(sizes) {
            // Norm weights near one, the others small enough that logits stay in range.
            let (centre, spread) = if rows == 0 { (1.0, 0.2) } else { (0.0, 2.0 / (columns as f32).sqrt()) };
            let count = rows.max(1) * columns;
            let mut values: Vec<f32> = (0..count).map(|_| centre + spread * random()).collect();
            change(&name, &mut values);
            let shape = if rows == 0 { vec![columns] } else { vec![rows, columns] };
            let tensor = Tensor::from_vec(values.clone(), shape, &Device::Cpu).unwrap();
            tensors.push((name.clone(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap()));
            weights.insert(name, values);
        }
        let metadata = metadata(sizes);
        let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (*key, value)).collect();
        let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        let mut file = std::fs::File::create(&path).unwrap();
        gguf_file::write(&mut file, &metadata, &tensors).unwrap();
        Self { path, sizes, weights }
    }

    /// The same model as a directory of Hugging Face's libraries, beside the file.
    pub(super) fn write_safetensors(&self) -> PathBuf {
        let directory = self.path.with_extension("directory");
        std::fs::create_dir_all(&directory).unwrap();
        let mut tensors = HashMap::new();
        for (name, rows, columns) in shapes(self.sizes) {
            let values = self.weights[&name].clone();
            let (part, layer) = match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
                Some((layer, part)) => (part.strip_suffix(".weight").unwrap().to_owned(), layer.to_owned()),
                None => (name.clone(), String::new()),
            };
            let heads = match part.as_str() {
                "attn_q" => self.sizes.heads,
                "attn_k" => self.sizes.kv_heads,
                _ => 0,
            };
            let values = if heads > 0 { halves(&values, heads, columns) } else { values };
            let shape = if rows == 0 { vec![columns] } else { vec![rows, columns] };
            let theirs = HUGGING_FACE.iter().find(|(ours, _)| *ours == part).unwrap().1.replace("{}", &layer);
            tensors.insert(theirs, Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
        }
        candle_core::safetensors::save(&tensors, directory.join("model.safetensors")).unwrap();
        for (name, value) in self.json() {
            std::fs::write(directory.join(name), value.to_string()).unwrap();
        }
        directory
    }

    fn json(&self) -> [(&'static str, serde_json::Value); 3] {
        let Sizes { hidden, heads, kv_heads, head_dim, feed_forward, vocabulary } = self.sizes;
        let config = json!({
            "model_type": "llama", "hidden_size": hidden, "intermediate_size": feed_forward, "num_hidden_layers": LAYERS,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "max_position_embeddings": 64,
            "rope_theta": ROPE_BASE, "rms_norm_eps": EPSILON, "hidden_act": "silu", "eos_token_id": [END],
        });
        let (tokens, kinds) = self::vocabulary(vocabulary);
        let ids: HashMap<&String, usize> = tokens.iter().zip(0..).collect();
        let special = tokens.iter().zip(&kinds).enumerate().filter(|(_, (_, kind))| **kind == 3);
        let special: Vec<_> = special
            .map(|(id, (content, _))| {
                json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false, "rstrip": false,
                       "normalized": false})
            })
            .collect();
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
        let digits = json!({"type": "Digits", "individual_digits": true});
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": special, "normalizer": null,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, bytes]}, "post_processor": null, "decoder": bytes,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                      "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": ids,
                      "merges": ["Ġ a", "1 2"]},
        });
        let settings = json!({
            "chat_template": "{% for message in messages %}[{{ message.content }}]{% endfor %}{{ eos_token }}",
            "eos_token": {"content": "<|im_end|>"},
        });
        [("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)]
    }

    /// Logits after the last of `tokens`, computed from the start with one loop per formula.
    pub(super) fn logits(&self, tokens: &[u32]) -> Vec<f64> {
        let Sizes { hidden, vocabulary, .. } = self.sizes;
        let embedding = &self.weights["token_embd.weight"];
        let mut states: Vec<Vec<f64>> = tokens
            .iter()
            .map(|token| {
                embedding[*token as usize * hidden..][..hidden].iter().map(|value| f64::from(*value)).collect()
            })
            .collect();
        for layer in 0..LAYERS {
            let mixed = self.attention(layer, &states);
            for (state, mixed) in states.iter_mut().zip(mixed) {
                for (value, add) in state.iter_mut().zip(mixed) {
                    *value += add;
                }
            }
            for state in &mut states {
                let added = self.feed_forward(layer, state);
                for (value, add) in state.iter_mut().zip(added) {
                    *value += add;
                }
            }
        }
        let last = self.norm("output_norm.weight", states.last().unwrap());
        product(embedding, &last, vocabulary)
    }

    fn attention(&self, layer: usize, states: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let Sizes { hidden, heads, kv_heads, head_dim, .. } = self.sizes;
        let weights = |part: &str| &self.weights[&format!("blk.{layer}.{part}.weight")];
        let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (position, state) in states.iter().enumerate() {
            let normed = self.norm(&format!("blk.{layer}.attn_norm.weight"), state);
            let mut query = product(weights("attn_q"), &normed, heads * head_dim);
            let mut key = product(weights("attn_k"), &normed, kv_heads * head_dim);
            query.chunks_mut(head_dim).for_each(|head| turn(head, position));
            key.chunks_mut(head_dim).for_each(|head| turn(head, position));
            queries.push(query);
            keys.push(key);
            values.push(product(weights("attn_v"), &normed, kv_heads * head_dim));
        }
        let mut out = Vec::new();
        for (position, query) in queries.iter().enumerate() {
            let mut joined = Vec::new();
            for head in 0..heads {
                let at = head / (heads / kv_heads) * head_dim;
                let query = &query[head * head_dim..][..head_dim];
                let scores: Vec<f64> = (0..=position)
                    .map(|past| {
                        let key = &keys[past][at..at + head_dim];
                        let score: f64 = query.iter().zip(key).map(|(q, k)| q * k).sum();
                        (score / (head_dim as f64).sqrt()).exp()
                    })
                    .collect();
                let total: f64 = scores.iter().sum();
                joined.extend((0..head_dim).map(|index| {
                    scores.iter().enumerate().map(|(past, score)| score / total * values[past][at + index]).sum::<f64>()
                }));
            }
            out.push(product(weights("attn_output"), &joined, hidden));
        }
        out
    }

    fn feed_forward(&self, layer: usize, state: &[f64]) -> Vec<f64> {
        let Sizes { hidden, feed_forward, .. } = self.sizes;
        let weights = |part: &str| &self.weights[&format!("blk.{layer}.{part}.weight")];
        let normed = self.norm(&format!("blk.{layer}.ffn_norm.weight"), state);
        let gate = product(weights("ffn_gate"), &normed, feed_forward);
        let up = product(weights("ffn_up"), &normed, feed_forward);
        let inner: Vec<f64> = gate.iter().zip(&up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect();
        product(weights("ffn_down"), &inner, hidden)
    }

    fn norm(&self, name: &str, state: &[f64]) -> Vec<f64> {
        let square = state.iter().map(|value| value * value).sum::<f64>() / state.len() as f64;
        let scale = 1.0 / (square + EPSILON).sqrt();
        state.iter().zip(&self.weights[name]).map(|(value, weight)| value * scale * f64::from(*weight)).collect()
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path.with_extension("broken"));
        let _ = std::fs::remove_dir_all(self.path.with_extension("directory"));
    }
}

/// What Hugging Face calls the tensors; `{}` is the layer.
const HUGGING_FACE: [(&str, &str); 11] = [
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("attn_norm", "model.layers.{}.input_layernorm.weight"),
    ("attn_q", "model.layers.{}.self_attn.q_proj.weight"),
    ("attn_k", "model.layers.{}.self_attn.k_proj.weight"),
    ("attn_v", "model.layers.{}.self_attn.v_proj.weight"),
    ("attn_output", "model.layers.{}.self_attn.o_proj.weight"),
    ("ffn_norm", "model.layers.{}.post_attention_layernorm.weight"),
    ("ffn_gate", "model.layers.{}.mlp.gate_proj.weight"),
    ("ffn_up", "model.layers.{}.mlp.up_proj.weight"),
    ("ffn_down", "model.layers.{}.mlp.down_proj.weight"),
];

/// Rows that turn with their neighbour, in the order in which the first half of a head turns with the second.
fn halves(values: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = values.chunks(columns).collect();
    let size = rows.len() / heads;
    let head = |head: &[&[f32]]| {
        let (even, odd) = (head.iter().step_by(2), head.iter().skip(1).step_by(2));
        even.chain(odd).flat_map(|row| row.iter().copied()).collect::<Vec<f32>>()
    };
    rows.chunks(size).flat_map(head).collect()
}

fn product(weights: &[f32], input: &[f64], rows: usize) -> Vec<f64> {
    let row = |row: usize| {
        weights[row * input.len()..][..input.len()].iter().zip(input).map(|(w, x)| f64::from(*w) * x).sum()
    };
    (0..rows).map(row).collect()
}

/// Rotates neighbouring pairs by an angle that grows with the position and shrinks along the head.
fn turn(head: &mut [f64], position: usize) {
    let size = head.len() as f64;
    for (pair, values) in head.chunks_mut(2).enumerate() {
        let angle = position as f64 * ROPE_BASE.powf(-2.0 * pair as f64 / size);
        let (x, y) = (values[0], values[1]);
        values[0] = x * angle.cos() - y * angle.sin();
        values[1] = x * angle.sin() + y * angle.cos();
    }
}

/// Name, rows (0: a vector) and columns of every tensor.
fn shapes(sizes: Sizes) -> Vec<(String, usize, usize)> {
    let Sizes { hidden, heads, kv_heads, head_dim, feed_forward, vocabulary } = sizes;
    let mut shapes =
        vec![("token_embd.weight".to_owned(), vocabulary, hidden), ("output_norm.weight".to_owned(), 0, hidden)];
    for layer in 0..LAYERS {
        for (part, rows, columns) in [
            ("attn_norm", 0, hidden),
            ("attn_q", heads * head_dim, hidden),
            ("attn_k", kv_heads * head_dim, hidden),
            ("attn_v", kv_heads * head_dim, hidden),
            ("attn_output", hidden, heads * head_dim),
            ("ffn_norm", 0, hidden),
            ("ffn_gate", feed_forward, hidden),
            ("ffn_up", feed_forward, hidden),
            ("ffn_down", hidden, feed_forward),
        ] {
            shapes.push((format!("blk.{layer}.{part}.weight"), rows, columns));
        }
    }
    shapes
}

fn metadata(sizes: Sizes) -> Vec<(&'static str, Value)> {
    let count = |value: usize| Value::U32(value as u32);
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let (tokens, kinds) = vocabulary(sizes.vocabulary);
    vec![
        ("general.architecture", Value::String("llama".to_owned())),
        ("general.name", Value::String("tiny".to_owned())),
        ("llama.block_count", count(LAYERS)),
        ("llama.context_length", count(64)),
        ("llama.embedding_length", count(sizes.hidden)),
        ("llama.feed_forward_length", count(sizes.feed_forward)),
        ("llama.attention.head_count", count(sizes.heads)),
        ("llama.attention.head_count_kv", count(sizes.kv_heads)),
        ("llama.rope.dimension_count", count(sizes.head_dim)),
        ("llama.rope.freq_base", Value::F32(ROPE_BASE as f32)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(EPSILON as f32)),
        ("tokenizer.ggml.model", Value::String("gpt2".to_owned())),
        ("tokenizer.ggml.pre", Value::String("smollm".to_owned())),
        ("tokenizer.ggml.tokens", texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Array(kinds.into_iter().map(Value::I32).collect())),
        ("tokenizer.ggml.merges", texts(vec!["Ġ a".to_owned(), "1 2".to_owned()])),
        ("tokenizer.ggml.bos_token_id", Value::U32(0)),
        ("tokenizer.ggml.eos_token_id", Value::U32(END)),
    ]
}

/// Two special tokens, the 256 bytes, two merged ones, and fillers up to `size`; with their kinds.
fn vocabulary(size: usize) -> (Vec<String>, Vec<i32>) {
    let mut tokens = vec!["<|im_start|>".to_owned(), "<|im_end|>".to_owned()];
    let mut letters: Vec<(u8, char)> =
        crate::engine::least::byte_letters().into_iter().map(|(letter, byte)| (byte, letter)).collect();
    letters.sort_unstable();
    tokens.extend(letters.into_iter().map(|(_, letter)| letter.to_string()));
    tokens.extend(["Ġa".to_owned(), "12".to_owned()]);
    let mut kinds = vec![1; tokens.len()];
    kinds[..2].fill(3);
    while tokens.len() < size {
        tokens.push(format!("<unused{}>", tokens.len()));
        kinds.push(5);
    }
    (tokens, kinds)
}

/// Repeatable numbers in [-1, 1).
fn numbers() -> impl FnMut() -> f32 {
    let mut state = 42_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}
