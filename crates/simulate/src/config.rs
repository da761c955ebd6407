//! What the engine may do, and what stands in front of and behind it. Every field is checked before anything runs.

use thiserror::Error;

/// A setting that cannot be simulated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("`{field}`: expected {expected}, found {found}")]
pub struct ConfigError {
    /// The field, as in the structs of this module.
    pub field: &'static str,
    /// What it must be.
    pub expected: &'static str,
    /// What it is.
    pub found: String,
}

/// In which order requests are taken and, from the other end, preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By arrival.
    #[default]
    Fcfs,
    /// By priority (small first), then by arrival.
    Priority,
}

/// Drafting and verifying.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculation {
    /// Probability that the draft at each position is accepted, given that all before it were. Its length is the depth.
    pub acceptance: Vec<f64>,
    /// Device time of drafting per step, nanoseconds.
    pub draft_step_ns: i64,
    /// Device time of drafting per sequence and step, nanoseconds.
    pub draft_seq_ns: i64,
}

/// One engine, after the names of vLLM's settings.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent setting of the engine")]
pub struct EngineConfig {
    /// Seats: requests that may run together.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Whether a prompt may be computed in parts. Without it a prompt longer than the budget is rejected.
    pub chunked_prefill: bool,
    /// Most tokens of one prompt in one step (`long_prefill_token_threshold`).
    pub long_prefill_tokens: Option<u32>,
    /// Most prompts that may be partly computed at a time (`max_num_partial_prefills`).
    pub max_partial_prefills: u32,
    /// Tokens per KV block.
    pub block_tokens: u32,
    /// KV blocks that requests can use: vLLM's `num_gpu_blocks` less its null block.
    pub kv_blocks: u32,
    /// Blocks that must stay free when a request is admitted.
    pub watermark_blocks: u32,
    /// Whether a request is admitted only with free blocks for its whole prompt (`scheduler_reserve_full_isl`).
    pub reserve_full_prompt: bool,
    /// Whether blocks are found again by the hash of their prefix.
    pub prefix_caching: bool,
    /// Order of admission.
    pub policy: Policy,
    /// Whether the host prepares the next step while the device computes: a step takes the longer of both, else their sum.
    pub async_scheduling: bool,
    /// Host time of any step, nanoseconds.
    pub host_step_ns: i64,
    /// Host time per sequence of a step, nanoseconds.
    pub host_seq_ns: i64,
    /// Speculative decoding.
    pub speculation: Option<Speculation>,
}

impl EngineConfig {
    /// vLLM's defaults for an online server with this much cache: 256 seats, 2,048 tokens per step, blocks of 16.
    pub fn vllm(kv_blocks: u32) -> Self {
        Self {
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            chunked_prefill: true,
            long_prefill_tokens: None,
            max_partial_prefills: u32::MAX,
            block_tokens: 16,
            kv_blocks,
            watermark_blocks: 0,
            reserve_full_prompt: true,
            prefix_caching: true,
            policy: Policy::Fcfs,
            async_scheduling: true,
            host_step_ns: 0,
            host_seq_ns: 0,
            speculation: None,
        }
    }

    /// Drafted tokens per sequence and step.
    pub fn depth(&self) -> u32 {
        self.speculation.as_ref().map_or(0, |speculation| speculation.acceptance.len() as u32)
    }
}

/// How a request finds its replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Routing {
    /// One after the other.
    #[default]
    RoundRobin,
    /// The replica with the fewest unfinished requests, the first of equals.
    LeastRequests,
    /// The home of the request's first block (or session), unless it has more than 1.25 times the mean and 4 requests more.
    PrefixAffinity,
    /// By chance.
    Random,
    /// By chance with these weights, one per replica: an unfair balancer.
    Weighted(Vec<u32>),
}

/// The way of the KV cache from a prefill pool to a decode pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvLink {
    /// Time before the first byte, nanoseconds.
    pub latency_ns: i64,
    /// Time per prompt token on one lane, nanoseconds.
    pub token_ns: f64,
    /// Transfers that run at the same time; more wait.
    pub lanes: u32,
}

/// Engines and what they do.
#[derive(Clone, Debug, PartialEq)]
pub enum Topology {
    /// Each replica prefills and decodes.
    Unified {
        /// Replicas.
        replicas: u32,
    },
    /// Prompts on one pool, decode on the other.
    Split {
        /// Replicas that prefill.
        prefill: u32,
        /// Replicas that decode.
        decode: u32,
        /// Link between the pools.
        link: KvLink,
    },
}

/// Servers that take one request at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Servers {
    /// How many.
    pub count: u32,
    /// Time per request, nanoseconds.
    pub request_ns: i64,
    /// Time per prompt token, nanoseconds.
    pub token_ns: f64,
}

/// What a request passes before an engine sees it, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Front {
    /// Requests in flight that the proxy allows; more wait outside until one is delivered.
    pub connection_cap: Option<u32>,
    /// Delay of the gateway for each request, whatever the load, nanoseconds.
    pub gateway_ns: i64,
    /// A proxy that works on requests with a few servers, so that they can queue there.
    pub proxy: Option<Servers>,
    /// Tokenizer pool.
    pub tokenizer: Option<Servers>,
}

/// What a token passes on its way back.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// API processes of each replica that turn tokens into text and send them.
    pub api_servers: u32,
    /// Their time per token, nanoseconds. At 0 a token leaves when its step ends.
    pub api_token_ns: f64,
    /// Tokens per chunk sent (`stream_interval`); the first token is sent at once.
    pub burst_tokens: u32,
    /// Whether a proxy holds the whole answer back until it is complete.
    pub buffering_proxy: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        Self { api_servers: 1, api_token_ns: 0.0, burst_tokens: 1, buffering_proxy: false }
    }
}

/// Who decides when requests come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Load {
    /// The workload's own arrival times.
    #[default]
    Open,
    /// This many users, each with one request at a time, in the order of the workload; arrival times do not count.
    Closed {
        /// Users.
        users: u32,
        /// Pause between an answer and the next request, nanoseconds.
        think_ns: i64,
    },
}

/// Everything about the system under simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemConfig {
    /// Each engine.
    pub engine: EngineConfig,
    /// How many and which.
    pub topology: Topology,
    /// Which gets the next request.
    pub routing: Routing,
    /// Before the engine.
    pub front: Front,
    /// After the engine.
    pub delivery: Delivery,
    /// Open or closed loop.
    pub load: Load,
    /// Seed of everything random.
    pub seed: u64,
    /// Engine steps after which the run is cut short ([`crate::Outcome::is_cut`]), over all replicas.
    pub step_limit: u64,
    /// Whether runs of identical decode steps are taken in one go. The outcome is the same; off is for tests of that.
    pub jump: bool,
}

impl SystemConfig {
    /// One engine, open loop, nothing around it.
    pub fn single(engine: EngineConfig) -> Self {
        Self {
            engine,
            topology: Topology::Unified { replicas: 1 },
            routing: Routing::RoundRobin,
            front: Front::default(),
            delivery: Delivery::default(),
            load: Load::Open,
            seed: 0,
            step_limit: 1_000_000_000,
            jump: true,
        }
    }

    /// Refuses what cannot be simulated, naming the first field.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_engine(&self.engine)?;
        check_pools(self)?;
        if let Some(cap) = self.front.connection_cap {
            at_least_one("front.connection_cap", cap)?;
        }
        not_negative("front.gateway_ns", self.front.gateway_ns)?;
        if let Some(proxy) = self.front.proxy {
            within("front.proxy.count", proxy.count, MOST_SERVERS)?;
            not_negative("front.proxy.request_ns", proxy.request_ns)?;
            sane("front.proxy.token_ns", proxy.token_ns)?;
        }
        if let Some(tokenizer) = self.front.tokenizer {
            within("front.tokenizer.count", tokenizer.count, MOST_SERVERS)?;
            not_negative("front.tokenizer.request_ns", tokenizer.request_ns)?;
            sane("front.tokenizer.token_ns", tokenizer.token_ns)?;
        }
        at_least_one("delivery.api_servers", self.delivery.api_servers)?;
        sane("delivery.api_token_ns", self.delivery.api_token_ns)?;
        within("delivery.burst_tokens", self.delivery.burst_tokens, MOST_BURST)?;
        if let Load::Closed { users, think_ns } = self.load {
            at_least_one("load.users", users)?;
            not_negative("load.think_ns", think_ns)?;
        }
        Ok(())
    }
}

/// Most replicas of one pool.
const MOST_REPLICAS: u32 = 1024;
/// Most tokenizer servers and link lanes.
const MOST_SERVERS: u32 = 65_536;
/// Most tokens per chunk sent.
const MOST_BURST: u32 = 4096;
/// Most tokens per block.
const MOST_BLOCK_TOKENS: u32 = 8192;
/// Deepest speculation.
const MOST_DEPTH: usize = 64;
/// Longest single delay, nanoseconds: one day.
const LONGEST_NS: i64 = 86_400_000_000_000;

fn refuse<T>(field: &'static str, expected: &'static str, found: impl std::fmt::Display) -> Result<T, ConfigError> {
    Err(ConfigError { field, expected, found: found.to_string() })
}

fn at_least_one(field: &'static str, value: u32) -> Result<(), ConfigError> {
    if value == 0 { refuse(field, "at least 1", value) } else { Ok(()) }
}

fn within(field: &'static str, value: u32, most: u32) -> Result<(), ConfigError> {
    at_least_one(field, value)?;
    if value > most { refuse(field, "no more than the simulator's limit", format!("{value}, limit {most}")) } else { Ok(()) }
}

fn not_negative(field: &'static str, ns: i64) -> Result<(), ConfigError> {
    if (0..=LONGEST_NS).contains(&ns) { Ok(()) } else { refuse(field, "0 to 86400000000000 nanoseconds", ns) }
}

fn sane(field: &'static str, ns: f64) -> Result<(), ConfigError> {
    if (0.0..=1e12).contains(&ns) { Ok(()) } else { refuse(field, "0 to 1e12 nanoseconds", ns) }
}

fn check_engine(engine: &EngineConfig) -> Result<(), ConfigError> {
    at_least_one("engine.max_num_seqs", engine.max_num_seqs)?;
    at_least_one("engine.max_num_batched_tokens", engine.max_num_batched_tokens)?;
    at_least_one("engine.max_partial_prefills", engine.max_partial_prefills)?;
    within("engine.block_tokens", engine.block_tokens, MOST_BLOCK_TOKENS)?;
    at_least_one("engine.kv_blocks", engine.kv_blocks)?;
    if engine.watermark_blocks >= engine.kv_blocks {
        return refuse("engine.watermark_blocks", "less than engine.kv_blocks", engine.watermark_blocks);
    }
    if engine.long_prefill_tokens == Some(0) {
        return refuse("engine.long_prefill_tokens", "at least 1", 0);
    }
    not_negative("engine.host_step_ns", engine.host_step_ns)?;
    not_negative("engine.host_seq_ns", engine.host_seq_ns)?;
    if let Some(speculation) = &engine.speculation {
        check_speculation(speculation)?;
    }
    let per_seq = u64::from(engine.depth()) + 1;
    if u64::from(engine.max_num_batched_tokens) < u64::from(engine.max_num_seqs) * per_seq {
        let expected = "at least engine.max_num_seqs x (1 + drafts), so that every running request can decode in each step";
        return refuse("engine.max_num_batched_tokens", expected, engine.max_num_batched_tokens);
    }
    Ok(())
}

fn check_speculation(speculation: &Speculation) -> Result<(), ConfigError> {
    if speculation.acceptance.is_empty() || speculation.acceptance.len() > MOST_DEPTH {
        return refuse("engine.speculation.acceptance", "1 to 64 positions", speculation.acceptance.len());
    }
    if let Some(bad) = speculation.acceptance.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return refuse("engine.speculation.acceptance", "shares from 0 to 1", bad);
    }
    not_negative("engine.speculation.draft_step_ns", speculation.draft_step_ns)?;
    not_negative("engine.speculation.draft_seq_ns", speculation.draft_seq_ns)
}

fn check_pools(system: &SystemConfig) -> Result<(), ConfigError> {
    let entry = match system.topology {
        Topology::Unified { replicas } => {
            within("topology.replicas", replicas, MOST_REPLICAS)?;
            replicas
        }
        Topology::Split { prefill, decode, link } => {
            within("topology.prefill", prefill, MOST_REPLICAS)?;
            within("topology.decode", decode, MOST_REPLICAS)?;
            within("topology.link.lanes", link.lanes, MOST_SERVERS)?;
            not_negative("topology.link.latency_ns", link.latency_ns)?;
            sane("topology.link.token_ns", link.token_ns)?;
            prefill
        }
    };
    if let Routing::Weighted(weights) = &system.routing {
        if weights.len() != entry as usize {
            return refuse("routing.weights", "one weight per replica that takes new requests", weights.len());
        }
        if weights.iter().all(|&weight| weight == 0) {
            return refuse("routing.weights", "a weight above 0", "only zeros");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_its_field() {
        let refused = |change: fn(&mut SystemConfig)| {
            let mut system = SystemConfig::single(EngineConfig::vllm(1000));
            change(&mut system);
            system.check().map_err(|error| error.field)
        };
        assert_eq!(refused(|_| ()), Ok(()));
        assert_eq!(refused(|s| s.engine.max_num_seqs = 0), Err("engine.max_num_seqs"));
        assert_eq!(refused(|s| s.engine.kv_blocks = 0), Err("engine.kv_blocks"));
        assert_eq!(refused(|s| s.engine.block_tokens = 0), Err("engine.block_tokens"));
        assert_eq!(refused(|s| s.engine.max_num_batched_tokens = 255), Err("engine.max_num_batched_tokens"));
        assert_eq!(refused(|s| s.engine.watermark_blocks = 1000), Err("engine.watermark_blocks"));
        assert_eq!(refused(|s| s.engine.long_prefill_tokens = Some(0)), Err("engine.long_prefill_tokens"));
        assert_eq!(refused(|s| s.engine.host_step_ns = -1), Err("engine.host_step_ns"));
        assert_eq!(refused(|s| s.topology = Topology::Unified { replicas: 0 }), Err("topology.replicas"));
        assert_eq!(refused(|s| s.routing = Routing::Weighted(vec![1, 1])), Err("routing.weights"));
        assert_eq!(refused(|s| s.front.connection_cap = Some(0)), Err("front.connection_cap"));
        assert_eq!(refused(|s| s.delivery.api_token_ns = f64::NAN), Err("delivery.api_token_ns"));
        assert_eq!(refused(|s| s.load = Load::Closed { users: 0, think_ns: 0 }), Err("load.users"));
        let speculation = |share| Speculation { acceptance: vec![share], draft_step_ns: 0, draft_seq_ns: 0 };
        let mut system = SystemConfig::single(EngineConfig::vllm(1000));
        system.engine.speculation = Some(speculation(f64::NAN));
        assert_eq!(system.check().unwrap_err().field, "engine.speculation.acceptance");
        system.engine.speculation = Some(speculation(0.5));
        assert_eq!(system.check(), Ok(()));
        let message = SystemConfig::single(EngineConfig::vllm(0)).check().unwrap_err().to_string();
        assert_eq!(message, "`engine.kv_blocks`: expected at least 1, found 0");
    }
}
