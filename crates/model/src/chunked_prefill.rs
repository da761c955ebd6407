//! The prompt chunk that keeps a limit on the time per token: the cheaper fix before prefill is moved elsewhere.
//!
//! A step with `B` decoding sequences and a chunk of prompt tokens takes `T(B + chunk)`; the largest chunk whose step stays
//! within the limit computes prompts fastest without breaking it. How engines order prompts is left out.

use crate::calibration::Calibration;
use crate::deployment::{Deployment, Load, Unpredictable};
use crate::memory::plausible;
use crate::step_time::{Ideal, StepLoad};

/// A chunk and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chunk {
    /// Prompt tokens per step.
    pub tokens: u32,
    /// Time of a full step, seconds.
    pub step_s: f64,
    /// Prompt tokens per second, all ranks of a replica together.
    pub prompt_tokens_per_s: f64,
}

/// Largest chunk that is looked at.
pub const LARGEST: u32 = 65_536;

/// One step with `tokens` prompt tokens beside the running requests of `load`, in the middle of a prompt.
pub fn with_chunk(deployment: &Deployment, load: &Load, tokens: u32, calibration: &Calibration) -> Result<Chunk, Unpredictable> {
    deployment.check()?;
    load.check()?;
    let ranks = f64::from(deployment.attention_dp.max(1)) * f64::from(deployment.replicas.max(1));
    let running = (plausible(load.concurrency) / ranks).min(deployment.sequences_that_fit(load.mean_context()));
    if running <= 0.0 {
        return Err(deployment.does_not_fit(load.mean_context()));
    }
    let step = StepLoad {
        decode_seqs: running,
        tokens_per_seq: 1.0,
        context: load.mean_context(),
        prompt_tokens: f64::from(tokens),
        prompt_context: load.cached_tokens + load.new_tokens() / 2.0,
    };
    let step_s = Ideal::of(deployment, &step).step(&calibration.coefficients).total_s;
    Ok(Chunk { tokens, step_s, prompt_tokens_per_s: f64::from(tokens) * f64::from(deployment.attention_dp.max(1)) / step_s })
}

/// The largest chunk, in steps of 64 tokens, whose step takes at most `tpot_limit_s`; `None` when even 64 take longer.
pub fn largest_chunk(
    deployment: &Deployment,
    load: &Load,
    tpot_limit_s: f64,
    calibration: &Calibration,
) -> Result<Option<Chunk>, Unpredictable> {
    let (mut below, mut above) = (0u32, LARGEST / 64 + 1);
    while above - below > 1 {
        let middle = u32::midpoint(below, above);
        if with_chunk(deployment, load, middle * 64, calibration)?.step_s <= tpot_limit_s { below = middle } else { above = middle }
    }
    if below == 0 { Ok(None) } else { with_chunk(deployment, load, below * 64, calibration).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::published;
    use crate::memory::Dtype;
    use crate::models::Kind;
    use crate::{hardware, models};

    #[test]
    fn tight_limits_want_small_chunks() {
        let (model, gpu) = (models::find("Llama-3.1-8B").unwrap(), hardware::find("h100-sxm").unwrap());
        let (deployment, load) = (Deployment::new(model, gpu, Dtype::Bf16), Load::closed(64.0, 4096.0, 256.0));
        let chunk = |limit_s| largest_chunk(&deployment, &load, limit_s, published(Kind::Dense)).unwrap();
        let (tight, loose) = (chunk(0.030).unwrap(), chunk(0.100).unwrap());
        assert!(tight.step_s <= 0.030 && loose.step_s <= 0.100);
        assert!(tight.tokens > 128 && tight.tokens < 2048 && loose.tokens > 2 * tight.tokens, "{tight:?} {loose:?}");
        // Small chunks pay for the weights again and again.
        assert!(tight.prompt_tokens_per_s < loose.prompt_tokens_per_s);
        assert_eq!(chunk(0.001), None);
        assert_eq!(chunk(f64::NAN), None);
    }
}
