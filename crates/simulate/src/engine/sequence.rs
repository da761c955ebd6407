//! A request that runs: how far it is and what it holds.

use super::waiting::Entry;

/// A running request. While it decodes without speculation, its progress follows from the step counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    /// As it stood in the queue.
    pub(super) entry: Entry,
    /// Order of admission; unique, so that it also tells a reused slot from its former tenant.
    pub(super) order: u64,
    /// Tokens it makes in all on this replica.
    pub(super) output: u32,
    /// Tokens to compute before the next one can be made: prompt and, after a preemption, answer so far.
    pub(super) target: u32,
    /// Of those, computed or found.
    pub(super) computed: u32,
    /// Whether it decodes.
    pub(super) is_decoding: bool,
    /// Step from which `context`, `generated` and `blocks` count.
    pub(super) entered: u64,
    /// Step in which its latest token before decoding left, for the stream.
    pub(super) joined: u64,
    /// KV tokens at `entered`.
    pub(super) context: u32,
    /// Tokens made at `entered`.
    pub(super) generated: u32,
    /// Blocks it uses at `entered`, shared ones included.
    pub(super) blocks: u32,
    /// Of those, blocks only it holds.
    pub(super) private: u32,
    /// Groups it holds, the first of its prompt.
    pub(super) shared: u32,
    /// Whether the last of those was found in part and is being completed.
    pub(super) has_partial_group: bool,
    /// Whether its further groups stay private, because another request completed one first.
    pub(super) is_closed: bool,
}

impl Sequence {
    /// KV tokens before step `step`.
    pub(super) fn context_at(&self, step: u64) -> u32 {
        if self.is_decoding { self.context + (step - self.entered) as u32 } else { self.computed }
    }

    /// Tokens made before step `step`.
    pub(super) fn generated_at(&self, step: u64) -> u32 {
        if self.is_decoding { self.generated + (step - self.entered) as u32 } else { self.generated }
    }

    /// Private blocks before step `step`: decoding takes one more whenever the last is full.
    pub(super) fn private_at(&self, step: u64, block_tokens: u32) -> u32 {
        if !self.is_decoding {
            return self.private;
        }
        self.private + self.context_at(step).div_ceil(block_tokens) - self.context.div_ceil(block_tokens)
    }
}
