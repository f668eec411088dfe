//! The attention memory of one sequence: keys and values of every token it has seen, per layer.

use super::gguf::Shape;

/// Keys and values of one sequence. Grows by one row per layer and token; dropped with its sequence.
#[derive(Debug, Clone)]
pub(crate) struct Kv {
    layers: Vec<Layer>,
    /// Floats of one row: key-value heads × head size.
    width: usize,
}

#[derive(Debug, Clone, Default)]
struct Layer {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Kv {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { layers: vec![Layer::default(); shape.layers], width: shape.kv_heads * shape.head_dim }
    }

    /// Tokens held by every layer.
    pub(crate) fn len(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.keys.len() / self.width)
    }

    /// Appends the key and value rows of the next token of one layer.
    pub(crate) fn push(&mut self, layer: usize, key: &[f32], value: &[f32]) {
        let layer = &mut self.layers[layer];
        layer.keys.extend_from_slice(key);
        layer.values.extend_from_slice(value);
    }

    /// Keeps the first `tokens` tokens only, in every layer.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        for layer in &mut self.layers {
            layer.keys.truncate(tokens * self.width);
            layer.values.truncate(tokens * self.width);
        }
    }

    /// Gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.layers.fill(Layer::default());
    }

    /// Key rows of one layer, `width` floats each.
    pub(crate) fn keys(&self, layer: usize) -> &[f32] {
        &self.layers[layer].keys
    }

    /// Value rows of one layer, `width` floats each.
    pub(crate) fn values(&self, layer: usize) -> &[f32] {
        &self.layers[layer].values
    }
}
