//! Flags of vLLM that the simulated engine takes. They come after the faults: what is typed wins.

use simulate::config::Servers;

use super::fault::Setup;

/// What was typed; `None` leaves the default, or what a fault set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Requests that run together.
    pub max_num_seqs: Option<u32>,
    /// Tokens of one step.
    pub max_num_batched_tokens: Option<u32>,
    /// Tokens of one prompt in one step.
    pub long_prefill_token_threshold: Option<u32>,
    /// KV blocks of 16 tokens.
    pub num_gpu_blocks_override: Option<u32>,
    /// KV cache in one byte per element: as many blocks again, unless their number is typed.
    pub has_fp8_cache: bool,
    /// Whether prefixes are found again.
    pub prefix_caching: Option<bool>,
    /// Whether the host prepares a step while the one before runs.
    pub async_scheduling: Option<bool>,
    /// Tokens of an answer that are sent together.
    pub stream_interval: Option<u32>,
    /// Processes that turn text into tokens.
    pub api_server_count: Option<u32>,
}

impl Flags {
    /// Sets the system up as typed.
    pub fn apply(&self, setup: &mut Setup) {
        let engine = &mut setup.system.engine;
        engine.max_num_seqs = self.max_num_seqs.unwrap_or(engine.max_num_seqs);
        engine.max_num_batched_tokens = self.max_num_batched_tokens.unwrap_or(engine.max_num_batched_tokens);
        engine.long_prefill_tokens = self.long_prefill_token_threshold.or(engine.long_prefill_tokens);
        engine.prefix_caching = self.prefix_caching.unwrap_or(engine.prefix_caching);
        engine.async_scheduling = self.async_scheduling.unwrap_or(engine.async_scheduling);
        if self.has_fp8_cache {
            setup.kv_dtype = "fp8";
            engine.kv_blocks = engine.kv_blocks.saturating_mul(2);
        }
        if let Some(blocks) = self.num_gpu_blocks_override {
            engine.kv_blocks = blocks;
            setup.kv_blocks_stated = Some(blocks);
        }
        setup.system.delivery.burst_tokens = self.stream_interval.unwrap_or(setup.system.delivery.burst_tokens);
        if let Some(count) = self.api_server_count {
            setup.api_processes = count;
            setup.system.front.tokenizer = setup.system.front.tokenizer.map(|tokenizer| Servers { count, ..tokenizer });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Fault;

    #[test]
    fn what_is_typed_wins_over_a_fault() {
        let mut setup = Setup::default();
        for fault in ["low-batch-cap=1", "small-kv=1", "slow-tokenizer=1", "stream-bursts=1", "host-bound=1"] {
            fault.parse::<Fault>().unwrap().apply(&mut setup);
        }
        let small = setup.system.engine.kv_blocks;
        let flags = Flags {
            max_num_seqs: Some(16),
            has_fp8_cache: true,
            stream_interval: Some(1),
            api_server_count: Some(4),
            async_scheduling: Some(true),
            ..Flags::default()
        };
        flags.apply(&mut setup);
        let system = &setup.system;
        assert_eq!((system.engine.max_num_seqs, system.engine.kv_blocks, system.engine.async_scheduling), (16, 2 * small, true));
        assert_eq!((system.delivery.burst_tokens, system.front.tokenizer.unwrap().count, setup.kv_dtype), (1, 4, "fp8"));
        let before = setup.clone();
        Flags::default().apply(&mut setup);
        assert_eq!(setup, before);
        Flags { num_gpu_blocks_override: Some(900), has_fp8_cache: true, ..Flags::default() }.apply(&mut setup);
        assert_eq!(setup.system.engine.kv_blocks, 900);
    }
}
