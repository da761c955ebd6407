//! How long one engine step keeps the device busy. The scheduler asks, the caller's law answers.
//!
//! Two closed forms are here: a line in the step's contents, as fitted on a run, and the larger of memory and compute
//! time, as a roofline has it. Time of the host is the engine's own ([`crate::config::EngineConfig::host_step_ns`]).

use model::step_law::StepLaw;

/// What one step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepShape {
    /// Sequences that decode.
    pub decode_seqs: u32,
    /// Drafted tokens to verify, beyond the one token per sequence.
    pub draft_tokens: u32,
    /// Prompt tokens computed, recomputed ones included.
    pub prefill_tokens: u32,
    /// KV tokens that the decoding sequences attend to, summed.
    pub context_tokens: u64,
    /// Pairs of prompt token and earlier token, summed over chunks: `chunk x (start + chunk / 2)`.
    pub prefill_pairs: u64,
}

/// Device time of a step.
pub trait StepCost {
    /// Seconds of the step; anything negative or not finite counts as 0.
    fn device_s(&self, shape: &StepShape) -> f64;
}

/// Longest step that is believed, nanoseconds: one hour.
const LONGEST_STEP_NS: f64 = 3.6e12;

/// Seconds as whole nanoseconds, at most an hour; negative and non-finite ones are 0.
pub(crate) fn whole_ns(seconds: f64) -> i64 {
    let ns = seconds * 1e9;
    if ns > 0.0 { ns.min(LONGEST_STEP_NS).round() as i64 } else { 0 }
}

/// `a + b decode_seqs + c (prefill_tokens + draft_tokens) + d context_tokens + e prefill_pairs`.
///
/// The step law of `model` with two more terms: `d` is the reading of the cache, `e` the attention of long prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinearCost {
    /// Seconds of any step.
    pub a_s: f64,
    /// Seconds per decoding sequence.
    pub b_s: f64,
    /// Seconds per prompt token or drafted token.
    pub c_s: f64,
    /// Seconds per KV token attended to by decoding sequences.
    pub d_s: f64,
    /// Seconds per pair of prompt token and earlier token.
    pub e_s: f64,
}

impl From<&StepLaw> for LinearCost {
    fn from(law: &StepLaw) -> Self {
        Self { a_s: law.a_s, b_s: law.b_s, c_s: law.c_s, ..Self::default() }
    }
}

impl StepCost for LinearCost {
    fn device_s(&self, shape: &StepShape) -> f64 {
        let tokens = f64::from(shape.prefill_tokens) + f64::from(shape.draft_tokens);
        let attention = self.d_s * shape.context_tokens as f64 + self.e_s * shape.prefill_pairs as f64;
        self.a_s + self.b_s * f64::from(shape.decode_seqs) + self.c_s * tokens + attention
    }
}

/// `fixed + max(weights + kv context_tokens, flop (sequences + prefill + drafts) + pair prefill_pairs)`.
///
/// Drafts and sequences are free here while the weights are being read, as on a device below its ridge point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RooflineCost {
    /// Seconds that neither memory nor compute explains: launches, collectives, sampling.
    pub fixed_s: f64,
    /// Seconds to read the weights once.
    pub weights_s: f64,
    /// Seconds to read the cache of one KV token.
    pub kv_token_s: f64,
    /// Seconds of arithmetic per token through the weights.
    pub token_s: f64,
    /// Seconds of arithmetic per pair of prompt token and earlier token.
    pub pair_s: f64,
}

impl StepCost for RooflineCost {
    fn device_s(&self, shape: &StepShape) -> f64 {
        let tokens = f64::from(shape.decode_seqs) + f64::from(shape.prefill_tokens) + f64::from(shape.draft_tokens);
        let memory_s = self.weights_s + self.kv_token_s * shape.context_tokens as f64;
        let compute_s = self.token_s * tokens + self.pair_s * shape.prefill_pairs as f64;
        self.fixed_s + memory_s.max(compute_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_the_step_law() {
        let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
        let shape = StepShape { decode_seqs: 32, prefill_tokens: 900, context_tokens: 40_000, ..StepShape::default() };
        assert!((LinearCost::from(&law).device_s(&shape) - law.step_s(32.0, 900.0)).abs() < 1e-15);
    }

    #[test]
    fn below_the_ridge_drafts_are_free() {
        let roofline = RooflineCost { weights_s: 0.008, kv_token_s: 40e-9, token_s: 30e-6, ..RooflineCost::default() };
        let plain = StepShape { decode_seqs: 8, context_tokens: 8_000, ..StepShape::default() };
        assert_eq!(roofline.device_s(&plain), roofline.device_s(&StepShape { draft_tokens: 32, ..plain }));
        assert!(roofline.device_s(&plain) < roofline.device_s(&StepShape { draft_tokens: 3_200, ..plain }));
    }

    #[test]
    fn hostile_seconds_become_sane_nanoseconds() {
        for (seconds, ns) in [(f64::NAN, 0), (-1.0, 0), (f64::INFINITY, 3_600_000_000_000), (1e300, 3_600_000_000_000), (1.5e-9, 2)] {
            assert_eq!(whole_ns(seconds), ns, "{seconds}");
        }
    }
}
