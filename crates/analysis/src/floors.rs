//! What the same requests would have cost unhindered: the reference q0, phase by phase.
//!
//! Client, transfer, gateway, queue and stream have floor 0. Prefill is c x needed tokens plus one step, decode is
//! T(1) x tokens, api is what lone requests spend there. Sources in order: a limit the user set, the baseline arm, the
//! window's own step law (attribution, section 0.2). The floor is an owner, ranked just before limits.

use std::collections::BTreeMap;

use model::step_law::StepLaw;

use crate::account::RequestAccount;
use crate::evidence::Evidence;
use crate::law::Law;
use crate::load::Load;
use crate::phase::Phase;
use crate::slo;

pub use crate::slo::{LimitSet, measured_limits};

/// Floors per phase, s per request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Floors {
    /// Seconds per request.
    pub per_request_s: BTreeMap<Phase, f64>,
    /// Of first-token time that no phase covers, s per request: what the baseline arm has of it.
    pub unsplit_first_s: f64,
    /// `slo`, `baseline`, `step_law`, `lone_requests`, `typed`, `compute` (of devices), `whole` when nothing is known.
    pub from: &'static str,
}

impl Floors {
    /// Floor of one phase, 0 where there is none.
    pub fn s(&self, phase: Phase) -> f64 {
        self.per_request_s.get(&phase).copied().unwrap_or(0.0)
    }

    /// Sum over phases before the first token.
    pub fn first_token_s(&self) -> f64 {
        self.per_request_s.iter().filter(|(phase, _)| phase.before_first_token()).map(|(_, s)| s).sum::<f64>() + self.unsplit_first_s
    }

    /// Sum over all phases.
    pub fn total_s(&self) -> f64 {
        self.per_request_s.values().sum::<f64>() + self.unsplit_first_s
    }

    /// Floors from the arm's own evidence. On a device computing is the work itself: what no check on kernels claims of it
    /// is no loss.
    pub fn own(evidence: &Evidence, account: &RequestAccount, law: &Law, load: &Load) -> Self {
        if account.is_of_devices() {
            let per_request_s = BTreeMap::from([(Phase::Compute, account.mean_s(Phase::Compute))]);
            return Self { per_request_s, unsplit_first_s: 0.0, from: "compute" };
        }
        let Some(law) = law.central() else { return own_typed(evidence) };
        let (Some(uncached), Some(output)) = (load.uncached_tokens, load.output_tokens) else { return own_typed(evidence) };
        let lone_step_s = law.step_s(1.0, 0.0);
        let mut per_request_s = BTreeMap::new();
        let lone = lone_first_token_s(evidence, uncached);
        let (api_s, measured_prefill_s) = (account.mean_s(Phase::Api), account.mean_s(Phase::Prefill));
        let by_law_s = law.c_s * uncached + lone_step_s;
        // Without a prefill cost the law knows nothing of prompts; lone requests then set both parts.
        let prefill_s = match lone {
            Some(lone_s) if law.c_s <= 0.0 => lone_s * measured_prefill_s / (api_s + measured_prefill_s).max(f64::MIN_POSITIVE),
            _ => by_law_s,
        };
        per_request_s.insert(Phase::Prefill, prefill_s.min(measured_prefill_s));
        per_request_s.insert(Phase::Decode, (lone_step_s * (output - 1.0).max(0.0)).min(account.mean_s(Phase::Decode)));
        if let Some(lone_s) = lone {
            per_request_s.insert(Phase::Api, (lone_s - prefill_s).clamp(0.0, api_s));
        }
        Self { per_request_s, unsplit_first_s: 0.0, from: if lone.is_some() { "lone_requests" } else { "step_law" } }
    }

    /// Floors from a baseline arm, scaled to this arm's tokens.
    pub fn from_baseline(baseline: &RequestAccount, baseline_load: &Load, load: &Load) -> Self {
        let ratio = |mine: Option<f64>, theirs: Option<f64>| match (mine, theirs) {
            (Some(mine), Some(theirs)) if theirs > 0.0 => mine / theirs,
            _ => 1.0,
        };
        // Prompt tokens, not computed ones: what the baseline did not have to compute, this arm need not either.
        let prompt = ratio(load.prompt_tokens, baseline_load.prompt_tokens);
        let output = ratio(load.output_tokens, baseline_load.output_tokens);
        let per_request_s = Phase::ALL
            .into_iter()
            .map(|phase| {
                let scale = match phase {
                    Phase::Prefill => prompt,
                    Phase::Decode => output,
                    _ => 1.0,
                };
                (phase, baseline.mean_s(phase) * scale)
            })
            .collect();
        let unsplit_first_s = baseline.unattributed_first_ns as f64 * 1e-9 / baseline.n.max(1) as f64;
        Self { per_request_s, unsplit_first_s, from: "baseline" }
    }

    /// Raises the floors to what the user accepts, which is not loss: time to first token (`*.ttft`), time per token
    /// (`*.tpot`, `*.itl`) and whole request (`*.e2e`). Limits on means; one on a percentile says nothing about the mean
    /// and leaves the floors alone. Returns the limits that cannot be told, each with the reason.
    pub fn accept(&mut self, account: &RequestAccount, load: &Load, slo: &BTreeMap<String, f64>) -> Vec<String> {
        for (signal, &limit_s) in slo {
            match slo::parts(signal) {
                ("ttft", None) => self.raise(account, limit_s, Phase::before_first_token),
                ("tpot" | "itl", None) => {
                    let tokens = load.output_tokens.unwrap_or(0.0) - 1.0;
                    self.raise(account, limit_s * tokens.max(0.0), |phase| phase == Phase::Decode);
                }
                ("e2e", None) => self.raise(account, limit_s, |_| true),
                _ => {}
            }
        }
        slo::undecided(account, load, slo)
    }

    /// Stretches the floors of some phases so that they add up to `limit_s`, in proportion to what exceeds them.
    fn raise(&mut self, account: &RequestAccount, limit_s: f64, covers: impl Fn(Phase) -> bool) {
        let phases: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| covers(*phase)).collect();
        let floor_s: f64 = phases.iter().map(|phase| self.s(*phase)).sum();
        let excess: Vec<(Phase, f64)> = phases.iter().map(|&phase| (phase, (account.mean_s(phase) - self.s(phase)).max(0.0))).collect();
        let total: f64 = excess.iter().map(|(_, s)| s).sum();
        if limit_s > floor_s && total > 0.0 {
            let share = ((limit_s - floor_s) / total).min(1.0);
            for (phase, s) in excess {
                *self.per_request_s.entry(phase).or_default() += share * s;
            }
        }
        self.from = "slo";
    }
}

/// Typed numbers rarely hold a floor; an arm with one request at a time does.
fn own_typed(evidence: &Evidence) -> Floors {
    let mut floors = Floors { from: "whole", ..Floors::default() };
    if let Some(prefill) = evidence.figures.typical("server.prefill_time") {
        floors.per_request_s.insert(Phase::Prefill, prefill);
        floors.from = "typed";
    }
    floors
}

/// Lone requests are rare under load; a median of fewer is chance.
const MIN_LONE: usize = 5;

/// First-token time of requests that had the server to themselves when they were sent, scaled to `tokens` prompt
/// tokens. Counted from client rows.
fn lone_first_token_s(evidence: &Evidence, tokens: f64) -> Option<f64> {
    let rows = &evidence.client;
    let mut ends: Vec<i64> = rows.iter().filter_map(|row| row.t_done_ns).collect();
    ends.sort_unstable();
    let mut per_token: Vec<(f64, f64)> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let done_before = ends.partition_point(|&end| end <= row.t_sent_ns);
        let others_first = rows.get(at + 1).is_none_or(|next| row.t_first_ns.is_some_and(|first| next.t_sent_ns >= first));
        if done_before == at
            && others_first
            && row.ok
            && let (Some(ttft), Some(prompt)) = (row.ttft_ns(), row.tokens_in)
        {
            per_token.push((prompt as f64, ttft as f64 * 1e-9));
        }
    }
    if per_token.len() < MIN_LONE {
        return None;
    }
    let mean_prompt = per_token.iter().map(|(prompt, _)| prompt).sum::<f64>() / per_token.len() as f64;
    let mut times: Vec<f64> = per_token.iter().map(|(_, s)| *s).collect();
    times.sort_unstable_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let (mut xy, mut xx) = (0.0, 0.0);
    for (prompt, s) in &per_token {
        xy += (prompt - mean_prompt) * (s - median);
        xx += (prompt - mean_prompt).powi(2);
    }
    let slope = if xx > 0.0 { (xy / xx).max(0.0) } else { 0.0 };
    Some((median + slope * (tokens - mean_prompt)).max(0.0))
}

/// The price of batching: excess that the step law predicts at the observed batch and prefill tokens. Context, never a
/// cause; it may be claimed only below saturation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sharing {
    /// Before the core takes a request in it finishes the running step: residual step time, s per request.
    pub api_s: f64,
    /// Others in the step that computes the prompt, s per request.
    pub prefill_s: f64,
    /// Others in the steps that make the tokens, s per request.
    pub decode_s: f64,
}

/// Prompt tokens of others that share a step by design (one chunk); what long prompts cost beyond it has owners of its
/// own (attribution, section 0.7).
pub const SHARED_CHUNK_TOKENS: f64 = 256.0;

impl Sharing {
    /// Predicts it from the law and the steps observed.
    pub fn predict(evidence: &Evidence, law: &StepLaw, load: &Load, floors: &Floors) -> Self {
        let Some(output) = load.output_tokens else { return Self::default() };
        let mut token_s = 0.0;
        let mut tokens = 0.0;
        for engine in evidence.engines.values() {
            for interval in crate::timeline::intervals(engine).iter().filter(|i| i.steps > 0.0 && i.output_tokens > 0.0) {
                let batch = interval.output_tokens / interval.steps;
                let step_s = law.step_s(batch, interval.computed_tokens / interval.steps);
                token_s += step_s * interval.output_tokens;
                tokens += interval.output_tokens;
            }
        }
        let step_s = if tokens > 0.0 { token_s / tokens } else { law.step_s(load.running_mean.max(1.0), 0.0) };
        let batch = load.running_mean.max(1.0);
        let capped = law.step_s(batch, SHARED_CHUNK_TOKENS);
        // Short prompts that come together are computed together: no smaller chunk would bring any of them sooner.
        let short = longest_prompt(evidence).is_some_and(|longest| longest <= SHARED_CHUNK_TOKENS);
        let first_cap = if short { f64::INFINITY } else { capped };
        Self {
            api_s: residual_step_s(evidence, law, batch, first_cap).unwrap_or(0.5 * step_s),
            prefill_s: if short { prompt_step_s(evidence, law, batch).unwrap_or(capped).max(capped) } else { capped },
            decode_s: (step_s * (1.0 - beyond_shared_frac(evidence, law, batch, capped)) * (output - 1.0).max(0.0)
                - floors.s(Phase::Decode))
            .max(0.0),
        }
    }
}

/// The longest prompt of any request, tokens: from rows, else the bound of the highest bucket that holds one.
fn longest_prompt(evidence: &Evidence) -> Option<f64> {
    let rows = evidence.client.iter().filter_map(|row| row.tokens_in).max().map(|tokens| tokens as f64);
    rows.or_else(|| {
        let lengths = evidence.observed("server.prompt_tokens")?;
        let highest = lengths.buckets.iter().rposition(|&count| count > 0.0)?;
        lengths.bounds.get(highest).copied()
    })
}

/// Mean time of the step that computes a prompt token: larger steps hold more of them.
fn prompt_step_s(evidence: &Evidence, law: &StepLaw, batch: f64) -> Option<f64> {
    let steps = steps_by_size(evidence, law, batch)?;
    let prompt_s = |step_s: f64| (step_s - law.step_s(batch, 0.0)).max(0.0);
    let weight: f64 = steps.iter().map(|(count, step_s)| count * prompt_s(*step_s)).sum();
    let time: f64 = steps.iter().map(|(count, step_s)| count * prompt_s(*step_s) * step_s).sum();
    (weight > 0.0).then(|| time / weight)
}

/// Steps by size from the tokens-per-step histogram: (count, step time by the law), largest last.
pub(crate) fn steps_by_size(evidence: &Evidence, law: &StepLaw, batch: f64) -> Option<Vec<(f64, f64)>> {
    let delta = evidence.observed("engine.step_tokens")?;
    let middle = |at: usize| {
        let upper = delta.bounds.get(at).copied().unwrap_or(f64::INFINITY);
        let lower = at.checked_sub(1).and_then(|below| delta.bounds.get(below)).copied().unwrap_or(0.0);
        if upper.is_finite() { f64::midpoint(lower, upper) } else { lower }
    };
    let rows = delta.buckets.iter().enumerate().filter(|(_, count)| **count > 0.0);
    Some(rows.map(|(at, &count)| (count, law.step_s(middle(at).min(batch), (middle(at) - batch).max(0.0)))).collect())
}

/// Share of step time beyond a shared step's: what long prompts in one step cost everybody else. It is no price of
/// batching; a smaller chunk would remove it.
fn beyond_shared_frac(evidence: &Evidence, law: &StepLaw, batch: f64, capped_s: f64) -> f64 {
    let Some(steps) = steps_by_size(evidence, law, batch) else { return 0.0 };
    let total: f64 = steps.iter().map(|(count, step_s)| count * step_s).sum();
    let beyond: f64 = steps.iter().map(|(count, step_s)| count * (step_s - capped_s).max(0.0)).sum();
    if total > 0.0 { beyond / total } else { 0.0 }
}

/// Mean wait for the running step of a request that arrives at random: sum of squares over twice the sum of step
/// times, with steps no longer than a shared one.
fn residual_step_s(evidence: &Evidence, law: &StepLaw, batch: f64, capped_s: f64) -> Option<f64> {
    let steps = steps_by_size(evidence, law, batch)?;
    let squares: f64 = steps.iter().map(|(count, step_s)| count * step_s.min(capped_s).powi(2)).sum();
    let sum: f64 = steps.iter().map(|(count, step_s)| count * step_s).sum();
    (sum > 0.0).then(|| squares / (2.0 * sum))
}
