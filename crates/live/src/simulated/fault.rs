//! Faults: each changes how the system is built, as the real one would be, with a strength from 0 (nothing) to 1.

use std::fmt;
use std::str::FromStr;

use simulate::config::{EngineConfig, Routing, Servers, Speculation, SystemConfig, Topology};
use simulate::cost::LinearCost;

/// A system to serve with. Its defaults are assumed: a step law as fitted on an 8B model on one H100 (7.6 ms, 71 us per
/// sequence, 26.7 us per prompt token), 432,000 tokens of KV cache, vLLM's scheduler defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The engine and what stands around it.
    pub system: SystemConfig,
    /// How long a step takes.
    pub cost: LinearCost,
    /// Bytes that a proxy gathers before it passes them on; 0 passes everything at once.
    pub proxy_buffer_bytes: usize,
    /// Processes that turn text into tokens, as told.
    pub api_processes: u32,
    /// Number format of the KV cache, as told.
    pub kv_dtype: &'static str,
    /// Number of KV blocks, where it was typed rather than found from memory.
    pub kv_blocks_stated: Option<u32>,
}

impl Default for Setup {
    fn default() -> Self {
        let cost = LinearCost { a_s: 0.0076, b_s: 71e-6, c_s: 26.7e-6, d_s: 0.0, e_s: 0.0 };
        Self {
            system: SystemConfig::single(EngineConfig::vllm(27_000)),
            cost,
            proxy_buffer_bytes: 0,
            api_processes: 1,
            kv_dtype: "auto",
            kv_blocks_stated: None,
        }
    }
}

/// Which mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SmallKv,
    LowBatchCap,
    BufferingProxy,
    GatewayDelay,
    StreamBursts,
    SlowTokenizer,
    PrefillBlocking,
    LowAcceptance,
    HostBound,
    ConnectionCap,
    ReplicaImbalance,
}

const KINDS: [(&str, Kind); 11] = [
    ("small-kv", Kind::SmallKv),
    ("low-batch-cap", Kind::LowBatchCap),
    ("buffering-proxy", Kind::BufferingProxy),
    ("gateway-delay", Kind::GatewayDelay),
    ("stream-bursts", Kind::StreamBursts),
    ("slow-tokenizer", Kind::SlowTokenizer),
    ("prefill-blocking", Kind::PrefillBlocking),
    ("low-acceptance", Kind::LowAcceptance),
    ("host-bound", Kind::HostBound),
    ("connection-cap", Kind::ConnectionCap),
    ("replica-imbalance", Kind::ReplicaImbalance),
];

/// A fault with its strength.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    kind: Kind,
    strength: f64,
}

/// What is wrong with a fault as typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such name.
    #[error("expected one of {}, found `{name}`", Fault::names().collect::<Vec<_>>().join(", "))]
    Name {
        /// As typed.
        name: String,
    },
    /// Not a strength.
    #[error("expected `NAME=STRENGTH` with a strength from 0 to 1, found `{0}`")]
    Strength(String),
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, strength) = text.split_once('=').unwrap_or((text, "1"));
        let kind = KINDS.iter().find(|(known, _)| *known == name).ok_or_else(|| FaultError::Name { name: name.to_string() })?.1;
        let strength: f64 = strength.parse().map_err(|_| FaultError::Strength(text.to_string()))?;
        if !(0.0..=1.0).contains(&strength) {
            return Err(FaultError::Strength(text.to_string()));
        }
        Ok(Self { kind, strength })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "{name}={}", self.strength)
    }
}

/// From `from` to `to` in equal ratios.
fn between(from: f64, to: f64, strength: f64) -> f64 {
    from * (to / from).powf(strength)
}

impl Fault {
    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name)
    }

    /// Builds the mechanism in. Returns what was set, for people.
    pub fn apply(&self, setup: &mut Setup) -> String {
        let strength = self.strength;
        let engine = &mut setup.system.engine;
        match self.kind {
            Kind::SmallKv => {
                let before = engine.kv_blocks;
                engine.kv_blocks = (between(f64::from(before), f64::from(before) / 60.0, strength) as u32).max(64);
                format!("KV blocks {before} -> {}", engine.kv_blocks)
            }
            Kind::LowBatchCap => {
                let before = engine.max_num_seqs;
                engine.max_num_seqs = (between(f64::from(before), 4.0, strength).round() as u32).clamp(1, before);
                format!("max_num_seqs {before} -> {}", engine.max_num_seqs)
            }
            Kind::BufferingProxy => {
                setup.proxy_buffer_bytes = (strength * 65_536.0) as usize;
                format!("a proxy gathers {} bytes of an answer before it passes them on", setup.proxy_buffer_bytes)
            }
            Kind::GatewayDelay => {
                setup.system.front.gateway_ns = (strength * 1e9) as i64;
                format!("each request is {:.0} ms in the gateway", strength * 1e3)
            }
            Kind::StreamBursts => {
                setup.system.delivery.burst_tokens = 1 + (strength * 31.0).round() as u32;
                format!("{} tokens per chunk", setup.system.delivery.burst_tokens)
            }
            Kind::SlowTokenizer => {
                let token_ns = strength * 400_000.0;
                setup.system.front.tokenizer = Some(Servers { count: 1, request_ns: 0, token_ns });
                format!("one tokenizer, {:.0} us per prompt token", token_ns / 1e3)
            }
            Kind::PrefillBlocking => {
                let before = engine.max_num_batched_tokens;
                engine.max_num_batched_tokens = between(f64::from(before), 65_536.0, strength) as u32;
                format!("max_num_batched_tokens {before} -> {}: a step may hold a whole long prompt", engine.max_num_batched_tokens)
            }
            Kind::LowAcceptance => {
                let share = 0.8 * (1.0 - strength);
                engine.speculation = Some(Speculation { acceptance: vec![share; 4], draft_step_ns: 4_000_000, draft_seq_ns: 20_000 });
                format!("4 drafted tokens per step at 4 ms, each accepted with probability {share:.2} after the one before")
            }
            Kind::HostBound => {
                engine.host_step_ns = (strength * 40e6) as i64;
                engine.async_scheduling = false;
                format!("{:.1} ms of the host in each step, nothing overlaps it", strength * 40.0)
            }
            Kind::ConnectionCap => {
                let cap = (between(512.0, 4.0, strength).round() as u32).max(1);
                setup.system.front.connection_cap = Some(cap);
                format!("{cap} requests in flight through the gateway")
            }
            Kind::ReplicaImbalance => {
                setup.system.topology = Topology::Unified { replicas: 2 };
                let heavy = (50.0 + 50.0 * strength).round() as u32;
                setup.system.routing = Routing::Weighted(vec![heavy, 100 - heavy]);
                format!("two replicas get {heavy} and {} of 100 requests", 100 - heavy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_any_strength_makes_a_sound_system() {
        for name in Fault::names() {
            for strength in ["0", "0.05", "0.5", "1"] {
                let fault: Fault = format!("{name}={strength}").parse().unwrap();
                let mut setup = Setup::default();
                assert!(!fault.apply(&mut setup).is_empty());
                setup.system.check().unwrap_or_else(|error| panic!("{fault}: {error}"));
            }
        }
    }

    #[test]
    fn no_strength_is_no_fault() {
        for name in ["small-kv", "low-batch-cap", "buffering-proxy", "gateway-delay", "stream-bursts", "prefill-blocking"] {
            let mut setup = Setup::default();
            format!("{name}=0").parse::<Fault>().unwrap().apply(&mut setup);
            assert_eq!(setup, Setup::default(), "{name}");
        }
    }

    #[test]
    fn others_are_refused() {
        assert!(matches!("slow-kv=1".parse::<Fault>(), Err(FaultError::Name { .. })));
        for text in ["small-kv=2", "small-kv=", "small-kv=NaN", "small-kv=-1"] {
            assert!(matches!(text.parse::<Fault>(), Err(FaultError::Strength(_))), "{text}");
        }
        assert_eq!("host-bound".parse::<Fault>().unwrap().to_string(), "host-bound=1");
    }
}
