//! The pool of KV blocks, and the prefix cache in it.
//!
//! A full block of prompt tokens that was computed is known by its tokens and by the block before it, so a chain of hits is
//! exactly a common prefix: tokens are compared, never hashes alone. A cached block that nobody holds stays until
//! its memory is needed; the one that was free longest goes first, and of one sequence the tail before the head.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Names a cached block for the life of the pool; never used again.
type Node = u64;

/// The block before the first one.
const ROOT: Node = 0;

/// A block's place in the cache: what came before it, and its tokens.
type Key = (Node, Arc<[u32]>);

#[derive(Clone, Debug, Default)]
struct Block {
    holders: u32,
    /// Where it stands in the cache, if it does.
    key: Option<Key>,
    /// When it became free; its place in `evictable`.
    freed: u64,
}

/// What follows a block of the cache: a node and its block, by tokens.
type Following = HashMap<Arc<[u32]>, (Node, u32)>;

/// Blocks of `tokens` tokens each; who holds which is the holder's matter.
#[derive(Debug)]
pub(super) struct BlockPool {
    tokens: u32,
    blocks: Vec<Block>,
    /// Free blocks that hold nothing worth keeping.
    blank: Vec<u32>,
    /// Free blocks of the cache, by the time at which they became free.
    evictable: BTreeMap<u64, u32>,
    /// What follows a block, by its tokens.
    cache: HashMap<Node, Following>,
    next_node: Node,
    clock: u64,
}

impl BlockPool {
    pub(super) fn new(size: u32, tokens: u32) -> Self {
        Self {
            tokens,
            blocks: vec![Block::default(); size as usize],
            blank: (0..size).rev().collect(),
            evictable: BTreeMap::new(),
            cache: HashMap::new(),
            next_node: ROOT + 1,
            clock: 0,
        }
    }

    pub(super) fn size(&self) -> u32 {
        u32::try_from(self.blocks.len()).unwrap_or(u32::MAX)
    }

    /// Blocks that `tokens` tokens fill or begin to fill.
    pub(super) fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.tokens)
    }

    /// Blocks that nobody holds, cached ones included.
    pub(super) fn free_count(&self) -> usize {
        self.blank.len() + self.evictable.len()
    }

    /// Lets `held` grow until it covers `tokens` tokens; all or nothing.
    pub(super) fn grow(&mut self, held: &mut Vec<u32>, tokens: u32) -> bool {
        let missing = (self.blocks_for(tokens) as usize).saturating_sub(held.len());
        if missing > self.free_count() {
            return false;
        }
        for _ in 0..missing {
            let Some(block) = self.take() else { return false };
            held.push(block);
        }
        true
    }

    /// Takes hold of the blocks of the longest cached prefix of `prompt`. At least one token is left to compute, since
    /// only that gives the sequence its next one.
    pub(super) fn find(&mut self, prompt: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        let mut before = ROOT;
        let whole = prompt.len().saturating_sub(1) / self.tokens as usize;
        for tokens in prompt.chunks(self.tokens as usize).take(whole) {
            let Some((node, block)) = self.follow(before, tokens) else { break };
            self.hold(block);
            found.push(block);
            before = node;
        }
        found
    }

    /// Notes that the blocks of the first `computed` tokens of `prompt` can be read from now on.
    pub(super) fn remember(&mut self, prompt: &[u32], held: &[u32], computed: u32) {
        let whole = (computed as usize).min(prompt.len()) / self.tokens as usize;
        let mut before = ROOT;
        for (tokens, block) in prompt.chunks(self.tokens as usize).take(whole).zip(held) {
            before = match self.follow(before, tokens) {
                Some((node, _)) => node,
                None => self.enter((before, Arc::from(tokens)), *block),
            };
        }
    }

    /// Gives blocks back. The last ones are evicted first, since they are of use only after those before them.
    pub(super) fn free(&mut self, held: &[u32]) {
        for at in held.iter().rev() {
            let block = &mut self.blocks[*at as usize];
            block.holders -= 1;
            if block.holders > 0 {
                continue;
            }
            if block.key.is_none() {
                self.blank.push(*at);
                continue;
            }
            self.clock += 1;
            block.freed = self.clock;
            self.evictable.insert(self.clock, *at);
        }
    }

    /// Share of the blocks that are held.
    pub(super) fn usage(&self) -> f64 {
        if self.blocks.is_empty() {
            return 0.0;
        }
        1.0 - self.free_count() as f64 / self.blocks.len() as f64
    }

    fn follow(&self, before: Node, tokens: &[u32]) -> Option<(Node, u32)> {
        self.cache.get(&before)?.get(tokens).copied()
    }

    fn enter(&mut self, key: Key, block: u32) -> Node {
        let node = self.next_node;
        self.next_node += 1;
        // A block that stands in the cache already keeps its place there: its chain begins elsewhere.
        if self.blocks[block as usize].key.is_none() {
            self.blocks[block as usize].key = Some(key.clone());
            self.cache.entry(key.0).or_default().insert(key.1, (node, block));
        }
        node
    }

    fn hold(&mut self, at: u32) {
        let block = &mut self.blocks[at as usize];
        if block.holders == 0 {
            self.evictable.remove(&block.freed);
        }
        block.holders += 1;
    }

    fn take(&mut self) -> Option<u32> {
        let at = match self.blank.pop() {
            Some(at) => at,
            None => {
                let (_, at) = self.evictable.pop_first()?;
                self.forget(at);
                at
            }
        };
        self.blocks[at as usize].holders = 1;
        Some(at)
    }

    /// Takes a block out of the cache.
    fn forget(&mut self, at: u32) {
        let Some((before, tokens)) = self.blocks[at as usize].key.take() else { return };
        if let Some(next) = self.cache.get_mut(&before) {
            next.remove(&tokens);
            if next.is_empty() {
                self.cache.remove(&before);
            }
        }
    }

    /// Faults in the books: every block is held by as many as `held` says, or free once.
    #[cfg(test)]
    pub(super) fn check(&self, held: &[u32]) {
        let mut holders = vec![0; self.blocks.len()];
        held.iter().for_each(|block| holders[*block as usize] += 1);
        let counted: Vec<u32> = self.blocks.iter().map(|block| block.holders).collect();
        assert_eq!(holders, counted);
        let mut free: Vec<u32> = self.blank.iter().chain(self.evictable.values()).copied().collect();
        free.sort_unstable();
        let expected: Vec<u32> = (0..self.size()).filter(|block| holders[*block as usize] == 0).collect();
        assert_eq!(free, expected);
        let mut cached = 0;
        for (before, next) in &self.cache {
            for (tokens, (_, block)) in next {
                assert_eq!(self.blocks[*block as usize].key, Some((*before, Arc::clone(tokens))));
                cached += 1;
            }
        }
        assert_eq!(cached, self.blocks.iter().filter(|block| block.key.is_some()).count());
        assert!(self.blank.iter().all(|block| self.blocks[*block as usize].key.is_none()));
    }
}
