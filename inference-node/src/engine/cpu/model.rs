//! The forward pass of a Llama-family model over a flat batch of tokens.
//!
//! Tokens of several sequences, prompts and single decode steps alike, go through one pass: the matrix products see all rows
//! at once (this is where batching pays), attention looks at each row's own sequence. A row's result does not depend on
//! which other rows were in the batch.

use super::checkpoint::Checkpoint;
use super::gguf::{Fault, Shape};
use super::kv::{Kv, Past};
use super::matrix::{Matrix, Weights};
use super::vector::{Heads, Turn, add, attend, normalize, rotate, silu_times, turns};

/// One token to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Vocabulary id.
    pub(crate) token: u32,
    /// Which of the caches given to [`Llama::forward`] is its sequence. Rows of one sequence stand in text order.
    pub(crate) sequence: usize,
    /// Whether the logits after this token are wanted.
    pub(crate) sample: bool,
}

/// A loaded model.
pub(crate) struct Llama {
    shape: Shape,
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    /// Absent when the embedding also is the output head.
    head: Option<Matrix>,
    /// Rotation speed of each pair of a head, radians per position.
    frequencies: Vec<f32>,
}

struct Layer {
    attention_norm: Vec<f32>,
    /// Query, key and value rows, stacked.
    qkv: Matrix,
    output: Matrix,
    feed_norm: Vec<f32>,
    /// Gate and up rows, stacked.
    gate_up: Matrix,
    down: Matrix,
}

impl Llama {
    /// Reads the weights. Takes about a second for 135 M parameters.
    pub(crate) fn load(file: &mut Checkpoint, form: Weights) -> Result<Self, Fault> {
        let shape = file.shape()?;
        let form = form.settled(shape.hidden).map_err(|error| file.fault(format!("cannot be tried: {error}")))?;
        let embedding = matrix(file, &["token_embd.weight"], shape.hidden, form)?;
        let head = match file.has("output.weight") {
            true => Some(matrix(file, &["output.weight"], shape.hidden, form)?),
            false => None,
        };
        let mut layers = Vec::with_capacity(shape.layers);
        for index in 0..shape.layers {
            layers.push(Layer::load(file, &shape, index, form)?);
        }
        let norm = file.vector("output_norm.weight", shape.hidden)?;
        let half = shape.head_dim / 2;
        let frequencies = (0..half).map(|pair| shape.rope_base.powf(-(pair as f32) / half as f32)).collect();
        Ok(Self { shape, embedding, layers, norm, head, frequencies })
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How the weights of the layers are kept, as files name it.
    pub(crate) fn form(&self) -> &'static str {
        self.layers.first().map_or(self.embedding.form(), |layer| layer.qkv.form())
    }

    /// Tokens in the vocabulary; row ids must be smaller.
    pub(crate) fn vocabulary(&self) -> usize {
        self.embedding.rows()
    }

    /// Runs `rows`, writes their keys and values to `caches`, which have room for them, and gives the logits of the rows that sample, in order.
    pub(crate) fn forward(&self, rows: &[Row], caches: &mut [&mut Kv]) -> candle_core::Result<Vec<Vec<f32>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let positions = positions(rows, caches);
        let turns: Vec<_> = positions.iter().map(|position| turns(*position, &self.frequencies)).collect();
        let ids: Vec<u32> = rows.iter().map(|row| row.token).collect();
        let mut stream = self.embedding.lookup(&ids)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = self.normed(&stream, &layer.attention_norm);
            let mut qkv = layer.qkv.apply(normed, rows.len())?;
            self.remember(index, rows, &positions, &turns, &mut qkv, caches);
            let mixed = self.attend(index, rows, &positions, &qkv, caches);
            add(&mut stream, &layer.output.apply(mixed, rows.len())?);
            let normed = self.normed(&stream, &layer.feed_norm);
            let gated = self.gated(&layer.gate_up.apply(normed, rows.len())?);
            add(&mut stream, &layer.down.apply(gated, rows.len())?);
        }
        rows.iter().for_each(|row| caches[row.sequence].extend(1));
        self.logits(rows, &stream)
    }

    /// RMS-normalised rows.
    fn normed(&self, stream: &[f32], weights: &[f32]) -> Vec<f32> {
        let hidden = self.shape.hidden;
        let mut out = vec![0.0; stream.len()];
        for (row, target) in stream.chunks_exact(hidden).zip(out.chunks_exact_mut(hidden)) {
            normalize(row, weights, self.shape.norm_epsilon, target);
        }
        out
    }

    /// Rotates queries and keys to their positions and stores keys and values.
    fn remember(
        &self,
        layer: usize,
        rows: &[Row],
        positions: &[usize],
        turns: &[Vec<Turn>],
        qkv: &mut [f32],
        caches: &mut [&mut Kv],
    ) {
        let (queries, keys) = (self.shape.heads * self.shape.head_dim, self.shape.kv_heads * self.shape.head_dim);
        for (((row, position), turns), all) in
            rows.iter().zip(positions).zip(turns).zip(qkv.chunks_exact_mut(queries + 2 * keys))
        {
            rotate(&mut all[..queries + keys], turns);
            let (key, value) = all[queries..].split_at(keys);
            caches[row.sequence].write(layer, *position, key, value);
        }
    }

    /// Each row looks back over its own sequence up to itself; the heads' results stand side by side.
    fn attend(&self, layer: usize, rows: &[Row], positions: &[usize], qkv: &[f32], caches: &[&mut Kv]) -> Vec<f32> {
        let (size, kv_heads) = (self.shape.head_dim, self.shape.kv_heads);
        let heads = Heads { size, kv_heads, group: self.shape.heads / kv_heads };
        let (queries, width) = (self.shape.heads * size, kv_heads * size);
        let mut out = vec![0.0; rows.len() * queries];
        let mut scores = Vec::new();
        let all = qkv.chunks_exact(queries + 2 * width).zip(out.chunks_exact_mut(queries));
        for ((row, position), (qkv, target)) in rows.iter().zip(positions).zip(all) {
            let past: Vec<Past<'_>> = caches[row.sequence].past(layer, position + 1).collect();
            attend(heads, &past, &qkv[..queries], &mut scores, target);
        }
        out
    }

    /// `silu(gate) · up`.
    fn gated(&self, gate_up: &[f32]) -> Vec<f32> {
        let wide = self.shape.feed_forward;
        let mut out = vec![0.0; gate_up.len() / 2];
        for (both, target) in gate_up.chunks_exact(2 * wide).zip(out.chunks_exact_mut(wide)) {
            let (gate, up) = both.split_at(wide);
            silu_times(gate, up, target);
        }
        out
    }

    fn logits(&self, rows: &[Row], stream: &[f32]) -> candle_core::Result<Vec<Vec<f32>>> {
        let hidden = self.shape.hidden;
        let mut wanted = Vec::new();
        for (row, state) in rows.iter().zip(stream.chunks_exact(hidden)) {
            if row.sample {
                wanted.extend_from_slice(state);
            }
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        let logits = head.apply(self.normed(&wanted, &self.norm), wanted.len() / hidden)?;
        Ok(logits.chunks_exact(head.rows()).map(<[f32]>::to_vec).collect())
    }
}

impl Layer {
    fn load(file: &mut Checkpoint, shape: &Shape, index: usize, form: Weights) -> Result<Self, Fault> {
        let name = |part: &str| format!("blk.{index}.{part}.weight");
        let (q, k, v) = (name("attn_q"), name("attn_k"), name("attn_v"));
        let heads = shape.heads * shape.head_dim;
        let layer = Self {
            attention_norm: file.vector(&name("attn_norm"), shape.hidden)?,
            qkv: matrix(file, &[&q, &k, &v], shape.hidden, form)?,
            output: matrix(file, &[&name("attn_output")], heads, form)?,
            feed_norm: file.vector(&name("ffn_norm"), shape.hidden)?,
            gate_up: matrix(file, &[&name("ffn_gate"), &name("ffn_up")], shape.hidden, form)?,
            down: matrix(file, &[&name("ffn_down")], shape.feed_forward, form)?,
        };
        let sound = layer.qkv.rows() == heads + 2 * shape.kv_heads * shape.head_dim
            && layer.output.rows() == shape.hidden
            && layer.gate_up.rows() == 2 * shape.feed_forward
            && layer.down.rows() == shape.hidden;
        if sound { Ok(layer) } else { Err(file.fault(format!("layer {index} has matrices of the wrong size"))) }
    }
}

fn matrix(file: &mut Checkpoint, names: &[&str], columns: usize, form: Weights) -> Result<Matrix, Fault> {
    let mut parts = Vec::with_capacity(names.len());
    for name in names {
        let part = file.matrix(name)?;
        let dims = part.shape().dims();
        if dims.len() != 2 || dims[1] != columns {
            return Err(file.fault(format!("tensor `{name}` has shape {dims:?}, expected rows of {columns}")));
        }
        parts.push(part);
    }
    Matrix::stack(&parts, form)
        .map_err(|error| file.fault(format!("tensor `{}` cannot be prepared: {error}", names[0])))
}

/// Position of each row in its sequence: behind what the cache holds, and behind earlier rows of the same sequence.
fn positions(rows: &[Row], caches: &[&mut Kv]) -> Vec<usize> {
    let mut next: Vec<usize> = caches.iter().map(|cache| cache.len()).collect();
    let mut positions = Vec::with_capacity(rows.len());
    for row in rows {
        positions.push(next[row.sequence]);
        next[row.sequence] += 1;
    }
    positions
}
