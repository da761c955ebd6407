//! Drafting at a load: the closed forms of [`super`] with the times of the step function in them.
//!
//! `S(B) = E[tokens] T(B, 1) / (T(B, k + 1) + k T_draft(B))`. Verifying `k + 1` tokens per sequence is free only while steps
//! are bound by memory; past `B (k + 1)` of about the ridge batch it costs what it computes, and drafting slows down.

use super::expected_tokens;
use crate::calibration::Calibration;
use crate::deployment::{Deployment, Load, Speculation, Unpredictable};
use crate::prediction::Loop;

/// Most drafts that are tried.
pub const MOST_DRAFTS: u32 = 16;

/// Drafting at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtLoad {
    /// Drafts per step.
    pub drafts: u32,
    /// Time per token without over with, prompts of others included; below 1 it is slower.
    pub speedup: f64,
    /// Acceptance from which it pays at this load, `None` when none does.
    pub break_even: Option<f64>,
}

/// Speedup of `speculation` at `load` over the same deployment without drafting.
pub fn speedup_at(deployment: &Deployment, load: &Load, speculation: Speculation, calibration: &Calibration) -> Result<f64, Unpredictable> {
    let tpot_s = |speculation| -> Result<f64, Unpredictable> {
        Ok(Loop::new(&Deployment { speculation, ..*deployment }, load)?.solve(&calibration.coefficients).tpot_s)
    };
    Ok(tpot_s(None)? / tpot_s(Some(speculation))?)
}

/// Speedup and the acceptance at which it is 1.
pub fn at_load(deployment: &Deployment, load: &Load, speculation: Speculation, calibration: &Calibration) -> Result<AtLoad, Unpredictable> {
    let gain = |acceptance: f64| speedup_at(deployment, load, Speculation { acceptance, ..speculation }, calibration);
    let break_even = if gain(1.0)? < 1.0 || speculation.drafts == 0 {
        None
    } else {
        let (mut below, mut above) = (0.0, 1.0);
        for _ in 0..40 {
            let middle = f64::midpoint(below, above);
            if gain(middle)? >= 1.0 { above = middle } else { below = middle }
        }
        Some(above)
    };
    Ok(AtLoad { drafts: speculation.drafts, speedup: gain(speculation.acceptance)?, break_even })
}

/// The number of drafts with the best speedup at a load, by trying all; 0 drafts when none is faster than none.
pub fn best_depth(
    deployment: &Deployment,
    load: &Load,
    acceptance: f64,
    draft_cost: f64,
    calibration: &Calibration,
) -> Result<AtLoad, Unpredictable> {
    let mut best = (0, 1.0);
    for drafts in 1..=MOST_DRAFTS {
        let gain = speedup_at(deployment, load, Speculation { drafts, acceptance, draft_cost }, calibration)?;
        if gain > best.1 {
            best = (drafts, gain);
        }
    }
    if best.0 == 0 {
        return Ok(AtLoad { drafts: 0, speedup: 1.0, break_even: None });
    }
    at_load(deployment, load, Speculation { drafts: best.0, acceptance, draft_cost }, calibration)
}

/// Mean tokens per step with acceptance rates per position, as engines export them: `1 + a_1 + a_1 a_2 + ...`; positions
/// beyond those given count as never accepted.
pub fn tokens_by_position(rates: &[f64]) -> f64 {
    let mut reached = 1.0;
    let mut tokens = 1.0;
    for rate in rates.iter().take(MOST_DRAFTS as usize) {
        reached *= if rate.is_nan() { 0.0 } else { rate.clamp(0.0, 1.0) };
        tokens += reached;
    }
    tokens
}

/// True when the geometric form and the rates by position agree within 5 %: then one acceptance describes them.
pub fn one_acceptance_describes(acceptance: f64, rates: &[f64]) -> bool {
    let (one, many) = (expected_tokens(acceptance, rates.len().min(MOST_DRAFTS as usize) as u32), tokens_by_position(rates));
    (one / many - 1.0).abs() <= 0.05
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::published;
    use crate::hardware;
    use crate::memory::Dtype;
    use crate::models::{self, Kind};

    /// The worked figure of the research notes: 70B FP8 on four H100, 2,048 tokens of context, a draft of 0.1 of a step.
    #[test]
    fn gains_shrink_with_load_and_turn_into_losses() {
        let (model, gpu) = (models::find("Llama-3.1-70B").unwrap(), hardware::find("h100-sxm").unwrap());
        let deployment = Deployment { tensor: 4, ..Deployment::new(model, gpu, Dtype::Fp8) };
        let five = Speculation { drafts: 5, acceptance: 0.6, draft_cost: 0.1 };
        // Output is long beside the prompt, so that prompts of others do not hide the drafting.
        let gain = |batch: f64| speedup_at(&deployment, &Load::closed(batch, 1024.0, 2048.0), five, published(Kind::Dense)).unwrap();
        let gains: Vec<f64> = [1.0, 32.0, 128.0, 512.0].into_iter().map(gain).collect();
        assert!(gains.windows(2).all(|two| two[1] < two[0]), "{gains:?}");
        assert!(gains[0] > 1.4 && gains[0] < 1.7, "{gains:?}");
        assert!(gains[3] < 1.0, "{gains:?}");
        let depth = |batch: f64| best_depth(&deployment, &Load::closed(batch, 1024.0, 2048.0), 0.6, 0.1, published(Kind::Dense)).unwrap();
        assert!(depth(1.0).drafts > depth(256.0).drafts, "{:?} {:?}", depth(1.0), depth(256.0));
        assert!(depth(1.0).break_even.unwrap() < 0.6);
    }

    #[test]
    fn rates_by_position_agree_with_one_rate() {
        assert!((tokens_by_position(&[0.7; 4]) - expected_tokens(0.7, 4)).abs() < 1e-12);
        assert!(one_acceptance_describes(0.7, &[0.7, 0.7, 0.7]));
        assert!(!one_acceptance_describes(0.7, &[0.9, 0.2, 0.1]));
        assert_eq!(tokens_by_position(&[f64::NAN, 5.0]), 1.0);
    }
}
