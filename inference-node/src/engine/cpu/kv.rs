//! The attention memory of sequences: keys and values of every token they have seen, per layer, in pages.
//!
//! Pages are of one size and go back to a pool when their sequence ends or loses them, so that memory neither moves nor
//! fragments, whatever lengths come and go.

use super::gguf::Shape;

/// Tokens of a page.
const PAGE: usize = 16;

/// Pages that no sequence holds.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Page>,
}

/// Keys and values of [`PAGE`] tokens: for each layer all keys, then all values.
type Page = Box<[f32]>;

/// Keys and values of one sequence.
#[derive(Debug)]
pub(crate) struct Kv {
    pages: Vec<Page>,
    /// Tokens held.
    len: usize,
    layers: usize,
    /// Floats of one row: key-value heads × head size.
    width: usize,
}

/// Rows of one page in one layer, `width` floats each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Past<'a> {
    pub(crate) keys: &'a [f32],
    pub(crate) values: &'a [f32],
}

impl Kv {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { pages: Vec::new(), len: 0, layers: shape.layers, width: shape.kv_heads * shape.head_dim }
    }

    /// Tokens held by every layer.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Makes room for `tokens` tokens in all.
    pub(crate) fn reserve(&mut self, tokens: usize, pool: &mut Pool) {
        while self.pages.len() * PAGE < tokens {
            let size = self.layers * 2 * PAGE * self.width;
            self.pages.push(pool.free.pop().unwrap_or_else(|| vec![0.0; size].into_boxed_slice()));
        }
    }

    /// Writes the key and value rows of the token at `position`, for which there is room, of one layer.
    pub(crate) fn write(&mut self, layer: usize, position: usize, key: &[f32], value: &[f32]) {
        let width = self.width;
        let (keys, values) = self.pages[position / PAGE][layer * 2 * PAGE * width..].split_at_mut(PAGE * width);
        let at = position % PAGE * width;
        keys[at..at + width].copy_from_slice(key);
        values[at..at + width].copy_from_slice(value);
    }

    /// Counts tokens that every layer has written.
    pub(crate) fn extend(&mut self, tokens: usize) {
        self.len += tokens;
    }

    /// Rows of the first `tokens` tokens of one layer, page by page.
    pub(crate) fn past(&self, layer: usize, tokens: usize) -> impl Iterator<Item = Past<'_>> {
        let (start, size) = (layer * 2 * PAGE * self.width, PAGE * self.width);
        self.pages.iter().enumerate().take(tokens.div_ceil(PAGE)).map(move |(index, page)| {
            let floats = (tokens - index * PAGE).min(PAGE) * self.width;
            Past { keys: &page[start..start + floats], values: &page[start + size..start + size + floats] }
        })
    }

    /// Keeps the first `tokens` tokens only.
    pub(crate) fn truncate(&mut self, tokens: usize, pool: &mut Pool) {
        self.len = self.len.min(tokens);
        pool.free.extend(self.pages.drain(self.pages.len().min(tokens.div_ceil(PAGE))..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            layers: 2,
            hidden: 4,
            heads: 1,
            kv_heads: 1,
            head_dim: 4,
            feed_forward: 4,
            context: 64,
            rope_base: 1e4,
            norm_epsilon: 1e-5,
        }
    }

    /// Rows come back from where they were written, in order, for every layer and every length.
    #[test]
    fn rows_come_back() {
        let (mut kv, mut pool) = (Kv::new(&shape()), Pool::default());
        kv.reserve(40, &mut pool);
        for position in 0..40 {
            for layer in 0..2 {
                let mark = (position * 10 + layer) as f32;
                kv.write(layer, position, &[mark; 4], &[-mark; 4]);
            }
        }
        kv.extend(40);
        for tokens in [1, 15, 16, 17, 32, 40] {
            for layer in 0..2 {
                let past: Vec<Past<'_>> = kv.past(layer, tokens).collect();
                let keys: Vec<f32> = past.iter().flat_map(|page| page.keys.iter().copied()).collect();
                let values: Vec<f32> = past.iter().flat_map(|page| page.values.iter().copied()).collect();
                let expected: Vec<f32> = (0..tokens).flat_map(|position| [(position * 10 + layer) as f32; 4]).collect();
                assert_eq!(keys, expected, "{tokens} tokens of layer {layer}");
                assert!(values.iter().zip(&keys).all(|(value, key)| *value == -key));
            }
        }
    }

    /// Pages that are given up are used again, by whoever needs one next.
    #[test]
    fn pages_are_used_again() {
        let (mut one, mut other, mut pool) = (Kv::new(&shape()), Kv::new(&shape()), Pool::default());
        one.reserve(33, &mut pool);
        one.extend(33);
        one.truncate(16, &mut pool);
        assert_eq!((one.len(), one.pages.len(), pool.free.len()), (16, 1, 2));
        other.reserve(20, &mut pool);
        assert_eq!((other.pages.len(), pool.free.len()), (2, 0));
        one.truncate(0, &mut pool);
        other.truncate(0, &mut pool);
        assert_eq!((one.len(), pool.free.len()), (0, 3));
    }
}
