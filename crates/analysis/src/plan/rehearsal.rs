//! A setting, rehearsed: its requests one by one through the engine's scheduler, each step as long as the step function says.
//!
//! Closed forms know means; waits behind other prompts, percentiles and how many requests keep both limits at once need the
//! requests themselves. What comes out is simulated and called so. The host's own time is inside the fitted step time.

use model::step_time::{Coefficients, Ideal, StepLoad};
use simulate::config::{EngineConfig, Routing, Speculation, SystemConfig, Topology};
use simulate::cost::{StepCost, StepShape};
use simulate::{Workload, simulate};

use super::case::Setting;
use super::input::{Slo, Statistic};

/// Tokens per KV block.
const BLOCK_TOKENS: u32 = 16;

/// Steps after which a simulation is cut.
const STEP_LIMIT: u64 = 3_000_000;

/// The step function as the simulator asks for it.
struct Steps<'a, 'm> {
    setting: &'a Setting<'m>,
    coefficients: Coefficients,
    /// All steps are this much longer: 1 is the forecast, the ends of its range are tried too.
    stretch: f64,
}

impl StepCost for Steps<'_, '_> {
    fn device_s(&self, shape: &StepShape) -> f64 {
        let (seqs, prompt_tokens) = (f64::from(shape.decode_seqs), f64::from(shape.prefill_tokens));
        let per_seq = if seqs > 0.0 { 1.0 + f64::from(shape.draft_tokens) / seqs } else { 1.0 };
        let context = if seqs > 0.0 { shape.context_tokens as f64 / seqs } else { 0.0 };
        // Pairs are `new x earlier + new^2 / 2`; several prompts in one step count as one, which looks back too far.
        let before = if prompt_tokens > 0.0 { (shape.prefill_pairs as f64 / prompt_tokens - prompt_tokens / 2.0).max(0.0) } else { 0.0 };
        let load = StepLoad { decode_seqs: seqs, tokens_per_seq: per_seq, context, prompt_tokens, prompt_context: before };
        Ideal::of(&self.setting.deployment, &load).step(&self.coefficients).total_s * self.stretch
    }
}

/// Times of the requests, sorted, seconds.
pub(super) struct Rehearsed {
    ttft_s: Vec<f64>,
    tpot_s: Vec<f64>,
    /// Share of all requests that kept both limits.
    pub(super) kept_frac: f64,
    /// Whether the queue grew without end.
    pub(super) is_saturated: bool,
}

impl Rehearsed {
    /// A figure of the time to the first token.
    pub(super) fn ttft_s(&self, statistic: Statistic) -> Option<f64> {
        figure(&self.ttft_s, statistic)
    }

    /// A percentile of the time per token over its mean.
    pub(super) fn tpot_spread(&self, statistic: Statistic) -> f64 {
        match (figure(&self.tpot_s, statistic), figure(&self.tpot_s, Statistic::Mean)) {
            (Some(asked), Some(mean)) if mean > 0.0 => asked / mean,
            _ => 1.0,
        }
    }
}

fn figure(sorted: &[f64], statistic: Statistic) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    Some(match statistic {
        Statistic::Mean => sorted.iter().sum::<f64>() / sorted.len() as f64,
        Statistic::Quantile(share) => sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1],
    })
}

/// Runs `workload` with steps stretched by `stretch`; nothing when the engine refuses the setting.
pub(super) fn rehearse(setting: &Setting<'_>, workload: &Workload, slo: &Slo, c: &Coefficients, stretch: f64) -> Option<Rehearsed> {
    let cost = Steps { setting, coefficients: *c, stretch };
    let system = system(setting, &cost);
    let outcome = simulate(workload, &system, &cost).ok()?;
    let (mut ttft_s, mut tpot_s, mut kept) = (Vec::new(), Vec::new(), 0usize);
    let within = |value: Option<f64>, limit: Option<(Statistic, f64)>| match (value, limit) {
        (_, None) => true,
        (Some(value), Some((_, limit))) => value <= limit,
        (None, Some(_)) => false,
    };
    for (row, request) in outcome.rows.iter().zip(workload.requests()) {
        let ttft = row.ttft_ns().map(|ns| ns as f64 / 1e9);
        let tpot = row.tpot_ns(request.output_tokens).map(|ns| ns / 1e9);
        // An answer of one token has no time per token to break.
        let tpot_kept = request.output_tokens <= 1 && ttft.is_some() || within(tpot, slo.tpot);
        kept += usize::from(within(ttft, slo.ttft) && tpot_kept);
        ttft_s.extend(ttft);
        tpot_s.extend(tpot);
    }
    ttft_s.sort_by(f64::total_cmp);
    tpot_s.sort_by(f64::total_cmp);
    let kept_frac = kept as f64 / workload.requests().len().max(1) as f64;
    Some(Rehearsed { ttft_s, tpot_s, kept_frac, is_saturated: outcome.verdict.is_saturated() || outcome.is_cut })
}

fn system(setting: &Setting<'_>, cost: &Steps<'_, '_>) -> SystemConfig {
    let deployment = &setting.deployment;
    let kv_blocks = (setting.kv_tokens_per_rank / f64::from(BLOCK_TOKENS)).clamp(1.0, 1e9) as u32;
    let depth = deployment.speculation.map_or(0, |speculation| speculation.drafts);
    let max_num_seqs = deployment.max_num_seqs.clamp(1.0, 1e6) as u32;
    let budget = (deployment.max_batched_tokens.clamp(1.0, 1e6) as u32).max(max_num_seqs.saturating_mul(depth + 1));
    let speculation = deployment.speculation.map(|speculation| {
        // Drafting costs its share of a plain step of a single sequence: weights dominate it.
        let plain_s = cost.device_s(&StepShape { decode_seqs: 1, context_tokens: 1000, ..StepShape::default() });
        Speculation {
            acceptance: vec![speculation.acceptance; depth as usize],
            draft_step_ns: (plain_s * speculation.draft_cost * f64::from(depth) * 1e9) as i64,
            draft_seq_ns: 0,
        }
    });
    let engine = EngineConfig {
        max_num_seqs,
        max_num_batched_tokens: budget,
        block_tokens: BLOCK_TOKENS,
        prefix_caching: setting.prefix_caching,
        speculation,
        ..EngineConfig::vllm(kv_blocks)
    };
    let replicas = deployment.replicas.max(1).saturating_mul(deployment.attention_dp.max(1)).min(4096);
    let routing = if setting.prefix_routing { Routing::PrefixAffinity } else { Routing::LeastRequests };
    SystemConfig { topology: Topology::Unified { replicas }, routing, step_limit: STEP_LIMIT, ..SystemConfig::single(engine) }
}
