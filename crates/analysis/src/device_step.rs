//! One decode step as the device sees it, from whatever was typed or measured: the size that shares of a step refer to.

use crate::account::loaded_row;
use crate::claims::{Basis, Claim, Extent};
use crate::contract::Quantity;
use crate::evidence::{Evidence, Figures};
use crate::phase::Phase;
use crate::situation::Situation;

/// True when no accelerator computes: a CPU backend, or a report that says it has no GPU.
pub fn is_cpu(situation: &Situation<'_>) -> bool {
    let subject = situation.subject;
    let llama_on_cpu = subject.engine == "llama.cpp" && subject.device.is_empty() && subject.device_count == 0;
    let no_gpu_signal = !situation.evidence.figures.iter().any(|(name, _)| name.starts_with("gpu."));
    let moved_layers = situation.evidence.settings.number("config.gpu_layers").is_some_and(|layers| layers > 0.0);
    subject.device == "CPU" || (llama_on_cpu && no_gpu_signal && !moved_layers)
}

/// A figure of the arm: of the whole run, else of the sweep row with the most load.
pub fn figure_of(figures: &Figures, quantity: &str) -> Option<f64> {
    figures.typical(quantity).or_else(|| loaded_row(figures, quantity)?.typical(quantity))
}

/// Time of one decode step, s, and where it is from. Speculation makes several tokens a step: then a time per token is a
/// step's only where the tokens per step are known.
pub fn step_s(evidence: &Evidence) -> Option<(f64, &'static str)> {
    let figures = &evidence.figures;
    let usable = |value: f64| value.is_finite() && value > 0.0;
    if let Some(step) = figure_of(figures, "engine.step_time").filter(|step| usable(*step)) {
        return Some((step, "engine.step_time"));
    }
    let drafts = evidence.settings.number("config.speculative_tokens").unwrap_or(0.0);
    let per_step = figures.typical("spec.acceptance_length").or((drafts <= 0.0).then_some(1.0))?;
    let typed =
        ["client.tpot", "server.tpot", "client.itl", "server.itl"].into_iter().find_map(|name| Some((figure_of(figures, name)?, name)));
    let measured = || evidence.mean("server.tpot").map(|tpot| (tpot, "server.tpot"));
    let rate = || {
        let streams = figure_of(figures, "client.concurrency").unwrap_or(1.0).max(1.0);
        let named = ["client.throughput.output", "server.throughput.output"].into_iter();
        named
            .filter_map(|name| Some((figure_of(figures, name)?, name)))
            .find(|(rate, _)| *rate > 0.0)
            .map(|(rate, name)| (streams / rate, name))
    };
    typed.or_else(measured).or_else(rate).map(|(token_s, from)| (token_s * per_step, from)).filter(|(step, _)| usable(*step))
}

/// A claim on a share of one phase; none where that phase has no seconds.
pub fn claims(situation: &Situation<'_>, phase: Phase, ends: [f64; 3], basis: Basis) -> Vec<Claim> {
    if situation.claimable_s(phase) <= 0.0 {
        return Vec::new();
    }
    let [lo, mid, hi] = ends.map(|share| if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 });
    vec![Claim { phase, what: Extent::Fraction { lo: lo.min(mid), mid, hi: hi.max(mid) }, basis }]
}

/// What a share of a phase costs, s per request, token or step; nothing where the phase has no seconds.
pub fn cost(situation: &Situation<'_>, phase: Phase, share: f64) -> Option<Quantity> {
    let size = situation.claimable_s(phase);
    (size > 0.0 && share.is_finite() && share > 0.0).then(|| Quantity { value: share.min(1.0) * size, unit: "s".into() })
}

/// True when decoding, not the way to the first token, is most of what was measured; also where nothing says otherwise.
pub fn decode_is_most(situation: &Situation<'_>) -> bool {
    let whole = situation.account.total_mean_s();
    whole <= 0.0 || situation.phase_s(Phase::Decode) >= 0.5 * whole
}
