//! The pool of KV blocks.

/// Fixed blocks of `tokens` tokens each; who holds which is the holder's matter.
#[derive(Debug)]
pub(super) struct BlockPool {
    tokens: u32,
    size: u32,
    free: Vec<u32>,
}

impl BlockPool {
    pub(super) fn new(size: u32, tokens: u32) -> Self {
        Self { tokens, size, free: (0..size).rev().collect() }
    }

    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Blocks that `tokens` tokens fill or begin to fill.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens)
    }

    /// Lets `held` grow until it covers `tokens` tokens; all or nothing.
    pub(super) fn grow(&mut self, held: &mut Vec<u32>, tokens: u32) -> bool {
        let missing = (self.blocks_for(tokens) as usize).saturating_sub(held.len());
        if missing > self.free.len() {
            return false;
        }
        held.extend(self.free.drain(self.free.len() - missing..).rev());
        true
    }

    pub(super) fn free(&mut self, held: &[u32]) {
        self.free.extend(held.iter().rev());
    }

    /// Share of the blocks that are held.
    pub(super) fn usage(&self) -> f64 {
        if self.size == 0 {
            return 0.0;
        }
        1.0 - self.free.len() as f64 / f64::from(self.size)
    }

    #[cfg(test)]
    pub(super) fn free_blocks(&self) -> &[u32] {
        &self.free
    }
}
