//! When drafting tokens pays: acceptance `a`, drafts per step `k`, draft cost `c` in target steps.
//!
//! Closed forms for independent acceptance (Leviathan, Kalman, Matias, ICML 2023); measured speedups of the same paper
//! differ from them by 18 % in the mean. With a batch the verifying step costs more than a plain one, so gains shrink
//! with load: [`speedup`] takes the step times of the user's own step law, [`at_load`] those of the step function. Trees
//! and adaptive lengths are left out.

mod at_load;

pub use at_load::{AtLoad, MOST_DRAFTS, at_load, best_depth, one_acceptance_describes, speedup_at, tokens_by_position};

/// Tokens per verifying step, `(1 - a^(k+1)) / (1 - a)`; `a` is clamped to 0..1.
pub fn expected_tokens(acceptance: f64, drafts: u32) -> f64 {
    let a = share(acceptance);
    if a > 1.0 - 1e-9 {
        return f64::from(drafts) + 1.0;
    }
    (1.0 - a.powf(f64::from(drafts) + 1.0)) / (1.0 - a)
}

/// The acceptance that gives `tokens` per verifying step, clamped to 0..1: engines export the mean, formulas need `a`.
pub fn acceptance_of(tokens: f64, drafts: u32) -> f64 {
    if tokens.is_nan() {
        return 0.0;
    }
    smallest_acceptance(|a| expected_tokens(a, drafts) >= tokens).unwrap_or(1.0)
}

/// Speedup of a single stream, `(1 - a^(k+1)) / ((1 - a)(k c + 1))` (Leviathan et al., Theorem 3.8).
pub fn speedup_batch1(acceptance: f64, drafts: u32, draft_cost: f64) -> f64 {
    expected_tokens(acceptance, drafts) / (1.0 + f64::from(drafts) * cost(draft_cost))
}

/// Speedup at any batch, `E[tokens] T(B, 1) / (T(B, k+1) + k T_draft)`, from the three step times; `None` when they are
/// not positive and finite.
pub fn speedup(acceptance: f64, drafts: u32, plain_step_s: f64, verify_step_s: f64, draft_step_s: f64) -> Option<f64> {
    let spent_s = verify_step_s + f64::from(drafts) * draft_step_s;
    let gain = expected_tokens(acceptance, drafts) * plain_step_s / spent_s;
    (plain_step_s > 0.0 && verify_step_s > 0.0 && draft_step_s >= 0.0 && gain.is_finite()).then_some(gain)
}

/// Acceptance at which a single stream gains nothing and loses nothing, `None` when no acceptance pays (`c >= 1`).
pub fn break_even_acceptance(drafts: u32, draft_cost: f64) -> Option<f64> {
    if drafts == 0 || !draft_cost.is_finite() || draft_cost >= 1.0 {
        return None;
    }
    smallest_acceptance(|a| speedup_batch1(a, drafts, draft_cost) >= 1.0)
}

/// The number of drafts up to `most` with the best single-stream speedup; 0 means that drafting does not pay.
pub fn best_k(acceptance: f64, draft_cost: f64, most: u32) -> u32 {
    // Gains are concave in k, so the first decline ends the search.
    let mut best = (0, 1.0);
    for drafts in 1..=most {
        let gain = speedup_batch1(acceptance, drafts, draft_cost);
        if gain <= best.1 {
            break;
        }
        best = (drafts, gain);
    }
    best.0
}

/// What the counters alone prove about a running speculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payoff {
    /// Slower than without, whatever the draft costs within its bounds.
    Loses,
    /// Faster than without, whatever the draft costs within its bounds.
    Pays,
    /// Needs the draft's time or a run without speculation.
    CannotTell,
}

/// Bounds on what a draft step and a verifying step cost, in plain target steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostBounds {
    /// Cheapest draft.
    pub draft_lo: f64,
    /// Dearest draft.
    pub draft_hi: f64,
    /// Verifying step over plain step at the same batch, 1 where decode is memory bound.
    pub verify: f64,
}

impl CostBounds {
    /// A draft model or head whose cost was not measured.
    pub const DRAFT_MODEL: Self = Self { draft_lo: 0.02, draft_hi: 0.25, verify: 1.0 };
    /// Lookup in the prompt.
    pub const NGRAM: Self = Self { draft_lo: 0.0, draft_hi: 0.02, verify: 1.0 };
}

/// The bounds rule: with `m` tokens per target step and `k` drafts, `m < v + k c_lo` loses and `m > v + k c_hi` pays.
/// Fewer than 1.05 tokens at two or more drafts lose whatever the costs.
pub fn payoff(tokens_per_step: f64, drafts: f64, bounds: CostBounds) -> Payoff {
    if tokens_per_step.is_nan() || drafts.is_nan() || bounds.verify.is_nan() {
        return Payoff::CannotTell;
    }
    if (drafts >= 2.0 && tokens_per_step < 1.05) || tokens_per_step < bounds.verify + drafts * bounds.draft_lo {
        Payoff::Loses
    } else if tokens_per_step > bounds.verify + drafts * bounds.draft_hi {
        Payoff::Pays
    } else {
        Payoff::CannotTell
    }
}

fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

fn cost(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1e9) }
}

/// Smallest share for which a monotone condition holds, to 1e-12.
fn smallest_acceptance(holds: impl Fn(f64) -> bool) -> Option<f64> {
    if !holds(1.0) {
        return None;
    }
    if holds(0.0) {
        return Some(0.0);
    }
    let (mut below, mut above) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(below, above);
        if holds(middle) { above = middle } else { below = middle }
    }
    Some(above)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn table_1_of_the_paper() {
        // Speed at c = 0 is the expected token count.
        for (acceptance, drafts, expected) in [(0.8, 5, 3.69), (0.8, 2, 2.44), (0.9, 2, 2.71), (0.9, 10, 6.86)] {
            assert!((speedup_batch1(acceptance, drafts, 0.0) - expected).abs() < 0.005);
        }
    }

    #[test]
    fn the_bounds_rule_needs_the_draft_cost_only_in_between() {
        // Five drafts of a draft model: sure loss below 1.1 tokens, sure gain above 2.25.
        assert_eq!(payoff(1.08, 5.0, CostBounds::DRAFT_MODEL), Payoff::Loses);
        assert_eq!(payoff(1.6, 5.0, CostBounds::DRAFT_MODEL), Payoff::CannotTell);
        assert_eq!(payoff(2.3, 5.0, CostBounds::DRAFT_MODEL), Payoff::Pays);
        assert_eq!(payoff(1.04, 3.0, CostBounds::NGRAM), Payoff::Loses);
        assert_eq!(payoff(1.2, 3.0, CostBounds::NGRAM), Payoff::Pays);
        assert_eq!(payoff(1.8, 3.0, CostBounds { verify: 1.9, ..CostBounds::NGRAM }), Payoff::Loses);
        assert_eq!(payoff(f64::NAN, 3.0, CostBounds::NGRAM), Payoff::CannotTell);
    }

    #[test]
    fn dear_drafts_never_pay() {
        assert_eq!(break_even_acceptance(4, 1.0), None);
        assert_eq!(break_even_acceptance(0, 0.1), None);
        assert_eq!(best_k(0.3, 0.5, 8), 0);
        assert_eq!(best_k(0.8, 0.02, 1_000_000), best_k(0.8, 0.02, 64));
    }

    proptest! {
        #[test]
        fn break_even_is_where_the_speedup_is_one(drafts in 1u32..16, draft_cost in 0.0..0.9f64) {
            let acceptance = break_even_acceptance(drafts, draft_cost).unwrap();
            prop_assert!((speedup_batch1(acceptance, drafts, draft_cost) - 1.0).abs() < 1e-6);
        }

        #[test]
        fn acceptance_round_trips(acceptance in 0.0..0.999f64, drafts in 1u32..16) {
            let tokens = expected_tokens(acceptance, drafts);
            prop_assert!((1.0..=f64::from(drafts) + 1.0).contains(&tokens));
            prop_assert!((acceptance_of(tokens, drafts) - acceptance).abs() < 1e-6);
        }

        #[test]
        fn best_k_is_the_best(acceptance in 0.0..0.99f64, draft_cost in 0.001..0.5f64) {
            let best = speedup_batch1(acceptance, best_k(acceptance, draft_cost, 32), draft_cost);
            for drafts in 0..=32 {
                prop_assert!(speedup_batch1(acceptance, drafts, draft_cost) <= best + 1e-9);
            }
        }

        #[test]
        fn hostile_numbers_stay_finite(acceptance in any::<f64>(), draft_cost in any::<f64>(), drafts in any::<u32>()) {
            prop_assert!(expected_tokens(acceptance, drafts).is_finite());
            prop_assert!(speedup_batch1(acceptance, drafts, draft_cost).is_finite());
            prop_assert!(acceptance_of(acceptance, drafts).is_finite());
            if let Some(gain) = speedup(acceptance, drafts, draft_cost, acceptance, draft_cost) {
                prop_assert!(gain.is_finite());
            }
        }
    }
}
