//! How much of the prompts a prefix cache of any size would have found, from a recorded request stream.
//!
//! One pass gives the hit curve for all capacities: a block is found by a least-recently-used cache of `C` blocks exactly
//! if fewer than `C` other blocks were used since (stack distances: Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal
//! 1970). Distances are counted with a Fenwick tree over the moments of use, so `n` block uses take `O(n log n)`. A
//! prefix is usable only up to its first missing block; so a block counts from the largest distance among those before
//! it. All blocks of a request are looked up before any of them is touched, as an engine does at admission.
//!
//! Time does not enter: every request finishes before the next one starts. Left out are policies other than LRU, blocks
//! of answers, and several caches behind a balancer (replay each replica's own stream).

use std::collections::HashMap;

/// Most block uses that are replayed: positions are 32 bits.
const MOST_USES: usize = u32::MAX as usize - 1;

/// Hit tokens of a request stream by cache size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReuseCurve {
    /// Cache size in blocks from which these tokens are found, and the tokens; ascending.
    steps: Vec<(u32, u64)>,
    /// Tokens of all prompts, found or not.
    pub prompt_tokens: u64,
    /// Different blocks.
    pub distinct_blocks: u64,
    /// Tokens per block.
    pub block_tokens: u32,
}

impl ReuseCurve {
    /// Share of prompt tokens found by a cache of this many tokens (0 to 1).
    pub fn hit_frac(&self, capacity_tokens: u64) -> f64 {
        let blocks = capacity_tokens / u64::from(self.block_tokens.max(1));
        let found: u64 = self.steps.iter().take_while(|step| u64::from(step.0) <= blocks).map(|step| step.1).sum();
        found as f64 / self.prompt_tokens.max(1) as f64
    }

    /// The same for a cache without limit.
    pub fn ceiling_frac(&self) -> f64 {
        self.hit_frac(u64::MAX)
    }

    /// The smallest cache, in tokens, that finds this share of what an unlimited one finds. `None` where nothing is ever
    /// found or the share is not within 0 to 1.
    pub fn capacity_for(&self, share_of_ceiling: f64) -> Option<u64> {
        let total: u64 = self.steps.iter().map(|step| step.1).sum();
        if total == 0 || !(0.0..=1.0).contains(&share_of_ceiling) {
            return None;
        }
        let wanted = share_of_ceiling * total as f64;
        let mut found = 0;
        for (blocks, tokens) in &self.steps {
            found += tokens;
            if found as f64 >= wanted {
                return Some(u64::from(*blocks) * u64::from(self.block_tokens));
            }
        }
        None
    }
}

/// One prompt: the ids of its blocks in order, and its length in tokens (the last block may be shorter than the others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prompt<'a> {
    /// Ids that are equal for equal prefixes.
    pub blocks: &'a [u32],
    /// Tokens.
    pub tokens: u32,
}

/// Replays prompts in order. The first `warm_up` of them fill the cache and do not count. Prompts beyond 4 billion block
/// uses are left out.
pub fn replay<'a>(prompts: impl Iterator<Item = Prompt<'a>> + Clone, block_tokens: u32, warm_up: usize) -> ReuseCurve {
    let uses: usize = prompts.clone().map(|prompt| prompt.blocks.len()).sum();
    let mut stack = Stack::new(uses.min(MOST_USES));
    let mut found: HashMap<u32, u64> = HashMap::new();
    let mut prompt_tokens = 0;
    for (at, prompt) in prompts.enumerate() {
        if stack.now + prompt.blocks.len() > MOST_USES {
            break;
        }
        let counts = at >= warm_up;
        prompt_tokens += if counts { u64::from(prompt.tokens) } else { 0 };
        let (mut deepest, mut left) = (0, prompt.tokens);
        for &block in prompt.blocks {
            let Some(distance) = stack.distance(block) else { break };
            deepest = distance.max(deepest);
            let tokens = block_tokens.min(left);
            left -= tokens;
            if counts && tokens > 0 {
                *found.entry(deepest).or_default() += u64::from(tokens);
            }
        }
        for &block in prompt.blocks {
            stack.touch(block);
        }
    }
    let mut steps: Vec<(u32, u64)> = found.into_iter().collect();
    steps.sort_unstable();
    ReuseCurve { steps, prompt_tokens, distinct_blocks: stack.last_use.len() as u64, block_tokens }
}

/// When each block was used last, and how many blocks were used last in any span of time.
struct Stack {
    last_use: HashMap<u32, u32>,
    /// Fenwick tree over moments: 1 where some block was used for the last time so far.
    tree: Vec<u32>,
    now: usize,
}

impl Stack {
    fn new(uses: usize) -> Self {
        Self { last_use: HashMap::new(), tree: vec![0; uses + 1], now: 0 }
    }

    /// Cache size in blocks from which `block` is found; `None` at its first use.
    fn distance(&self, block: u32) -> Option<u32> {
        let &at = self.last_use.get(&block)?;
        Some(self.last_use.len() as u32 - self.sum(at as usize) + 1)
    }

    fn touch(&mut self, block: u32) {
        self.now += 1;
        if let Some(before) = self.last_use.insert(block, self.now as u32) {
            self.add(before as usize, u32::MAX);
        }
        self.add(self.now, 1);
    }

    /// Blocks whose last use was at `at` or before.
    fn sum(&self, mut at: usize) -> u32 {
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    /// Adds at a moment; -1 is the largest number, since all sums wrap.
    fn add(&mut self, mut at: usize, value: u32) {
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn curve(prompts: &[Vec<u32>], block_tokens: u32, warm_up: usize) -> ReuseCurve {
        let prompts = prompts.iter().map(|blocks| Prompt { blocks, tokens: blocks.len() as u32 * block_tokens });
        replay(prompts, block_tokens, warm_up)
    }

    #[test]
    fn a_prefix_ends_at_its_first_missing_block() {
        let prompts = [vec![1, 2, 3], vec![9], vec![1, 2, 4], vec![1, 7, 3]];
        let curve = curve(&prompts, 10, 0);
        // The third finds 1 and 2 in a cache of 4 blocks (1, 2, 3, 9); the fourth finds 1 and not 3, since 7 is missing.
        assert_eq!(curve.steps, [(3, 10), (4, 20)]);
        assert_eq!((curve.hit_frac(29), curve.hit_frac(30), curve.ceiling_frac()), (0.0, 0.1, 0.3));
        assert_eq!((curve.capacity_for(0.3), curve.capacity_for(1.0), curve.capacity_for(1.5)), (Some(30), Some(40), None));
        assert_eq!((curve.distinct_blocks, curve.prompt_tokens), (6, 100));
    }

    #[test]
    fn a_short_last_block_and_a_warm_up() {
        let prompts = [Prompt { blocks: &[1, 2], tokens: 15 }, Prompt { blocks: &[1, 2], tokens: 15 }];
        assert_eq!(replay(prompts.into_iter(), 10, 0).ceiling_frac(), 0.5);
        assert_eq!(replay(prompts.into_iter(), 10, 1).ceiling_frac(), 1.0);
        assert_eq!(replay(std::iter::empty(), 0, 9).hit_frac(100), 0.0);
    }

    /// The slow way: a cache of one size, replayed as such.
    fn hits_of(prompts: &[Vec<u32>], capacity: usize) -> u64 {
        let (mut cache, mut hits) = (VecDeque::new(), 0);
        for blocks in prompts {
            hits += blocks.iter().take_while(|block| cache.contains(*block)).count() as u64;
            for &block in blocks {
                cache.retain(|&other| other != block);
                cache.push_back(block);
                if cache.len() > capacity {
                    cache.pop_front();
                }
            }
        }
        hits
    }

    proptest! {
        #[test]
        fn the_curve_is_that_of_caches_one_by_one(
            prompts in proptest::collection::vec(proptest::collection::vec(0u32..12, 0..6), 0..30),
        ) {
            let curve = curve(&prompts, 1, 0);
            for capacity in 0..14 {
                let hits: u64 = curve.steps.iter().take_while(|step| step.0 <= capacity).map(|step| step.1).sum();
                prop_assert_eq!(hits, hits_of(&prompts, capacity as usize), "capacity {}", capacity);
            }
        }
    }
}
