//! How one setting runs under the load: closed forms for time per token, capacity and memory, a rehearsal for first tokens.

use model::calibration::{Band, Calibration};
use model::deployment::{Load, Unpredictable};
use model::memory::Estimate;
use model::prediction::{Open, Prediction, SATURATED, bound, predict, predict_open};

use super::case::{Case, Setting};
use super::document::{Kept, Predicted};
use super::input::Statistic;
use super::rehearsal::{Rehearsed, rehearse};

/// A setting under the load.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operating {
    pub(super) layout: String,
    pub(super) gpu_count: u32,
    /// Mean time per output token, seconds.
    pub(super) tpot_s: Estimate,
    /// The same for what the limit is on.
    pub(super) tpot_asked_s: Estimate,
    /// Mean time to the first token, seconds; nothing near saturation.
    pub(super) ttft_s: Option<Estimate>,
    /// The same for what the limit is on, p99 without one.
    pub(super) ttft_asked_s: Option<Estimate>,
    pub(super) tokens_per_s: Estimate,
    pub(super) capacity_per_s: Estimate,
    /// Arrivals over capacity, nothing offline.
    pub(super) utilization: Option<Estimate>,
    /// Requests that fit, over all replicas.
    pub(super) requests_fit: f64,
    pub(super) running: f64,
    pub(super) kv_tokens: Estimate,
    pub(super) cached_frac: f64,
    pub(super) bound_s: f64,
    pub(super) binding: &'static str,
    pub(super) prefill_busy_frac: f64,
    pub(super) kept: Kept,
    /// The setting's step times are stretched by this at the ends of the range.
    stretch: Band,
    tier: &'static str,
    goodput_per_s: Option<Estimate>,
}

impl Operating {
    /// Arrivals over capacity in the middle of the range, 0 offline.
    pub(super) fn load_factor(&self) -> f64 {
        self.utilization.map_or(0.0, |utilization| utilization.mid)
    }

    /// By how much the worst limit is missed: measured over limit, at most 1 where all are kept. Saturation counts as a
    /// limit at which waits stop being predictable.
    pub(super) fn worst(&self, case: &Case<'_>) -> f64 {
        let over = |value: Option<f64>, limit: Option<(Statistic, f64)>| match (value, limit) {
            (Some(value), Some((_, limit))) => value / limit,
            (None, Some(_)) | (_, None) => 0.0,
        };
        let slo = case.slo();
        let ttft = over(self.ttft_asked_s.map(|s| s.mid), slo.ttft);
        ttft.max(over(Some(self.tpot_asked_s.mid), slo.tpot)).max(self.load_factor() / SATURATED)
    }

    /// Output tokens per second that could be served.
    pub(super) fn capacity_tokens(&self, case: &Case<'_>) -> Estimate {
        self.capacity_per_s.map(|rate| rate * case.offered.output_tokens)
    }

    /// As the document has it.
    pub(super) fn document(&self, case: &Case<'_>) -> Predicted {
        let price = case.input.price_per_gpu_h.map(|price| price * f64::from(self.gpu_count) / 3600.0);
        Predicted {
            layout: self.layout.clone(),
            gpu_count: self.gpu_count,
            tier: self.tier.into(),
            tpot_s: self.tpot_s.into(),
            ttft_s: self.ttft_s.map(Into::into),
            ttft_tail_s: self.ttft_asked_s.map(Into::into),
            tokens_per_s: self.tokens_per_s.into(),
            capacity_per_s: self.capacity_per_s.into(),
            utilization: self.utilization.map(Into::into),
            requests_fit: self.requests_fit,
            requests_running: self.running,
            kv_tokens: self.kv_tokens.into(),
            cached_frac: self.cached_frac,
            tpot_bound_s: self.bound_s,
            binding: self.binding.into(),
            goodput_per_s: self.goodput_per_s.map(Into::into),
            cost_per_million_tokens: price.map(|per_s| self.tokens_per_s.map(|tokens| per_s / tokens.max(1e-9) * 1e6).into()),
            kept: self.kept,
        }
    }
}

/// Evaluates a setting from the start.
pub(super) fn operate(case: &Case<'_>, setting: &Setting<'_>) -> Result<Operating, Unpredictable> {
    let calibration = case.calibration(setting);
    let (cached_frac, most) = cached(case, setting)?;
    let load = case.offered.load(cached_frac);
    let (prediction, capacity, load_now) = settle(case, setting, &load, most, &calibration)?;
    let band = calibration.tpot;
    let capacity_per_s = band.around(1.0, 0.0).map(|factor| capacity / factor);
    let utilization = case.offered.rate_per_s.map(|rate| capacity_per_s.map(|capacity| rate / capacity.max(1e-12)));
    let saturated = utilization.is_some_and(|utilization| utilization.mid >= SATURATED);
    let output = case.offered.output_tokens;
    let tokens_per_s = match case.offered.rate_per_s {
        Some(rate) => capacity_per_s.map(|capacity| rate.min(capacity) * output),
        None => prediction.tokens_per_s,
    };
    let context = load.mean_context();
    let mut found = Operating {
        layout: setting.layout(),
        gpu_count: setting.deployment.gpu_count(),
        tpot_s: prediction.tpot_s,
        tpot_asked_s: prediction.tpot_s,
        ttft_s: None,
        ttft_asked_s: None,
        tokens_per_s,
        capacity_per_s,
        utilization,
        requests_fit: most.floor(),
        running: prediction.running,
        kv_tokens: setting.kv_per_rank(context).map(|tokens| tokens * setting.attention_ranks()),
        cached_frac,
        bound_s: bound(&setting.deployment, &load_now)?.tpot_s,
        binding: prediction.binding.words(),
        prefill_busy_frac: prediction.prefill_busy_frac,
        kept: Kept::No,
        stretch: band,
        tier: case.tier.word(),
        goodput_per_s: None,
    };
    if let (Some(rate), false) = (case.offered.rate_per_s, saturated) {
        first_tokens(case, setting, rate, &mut found);
    }
    found.kept = kept(case, &found, saturated);
    Ok(found)
}

/// Share of prompt tokens that the prefix cache finds in what running requests leave free, and the requests that fit.
fn cached(case: &Case<'_>, setting: &Setting<'_>) -> Result<(f64, f64), Unpredictable> {
    let load = case.offered.load(0.0);
    let context = load.mean_context();
    let most = setting.deployment.sequences_that_fit(context) * setting.attention_ranks();
    if !setting.prefix_caching || !case.offered.has_blocks() {
        return Ok((0.0, most));
    }
    let capacity = setting.kv_tokens_per_rank;
    // Running requests hold blocks too, shared ones among them: the first guess is a cache all to itself.
    let split = if setting.prefix_routing { 1 } else { setting.attention_ranks() as u32 };
    let curve = case.offered.reuse(split);
    let pooled = if setting.prefix_routing { setting.attention_ranks() } else { 1.0 };
    let held = match case.offered.rate_per_s {
        Some(rate) => {
            let narrow = Calibration { tpot: Band { lo: 1.0, hi: 1.0 }, ..case.calibration(setting) };
            match predict_open(&setting.deployment, &load, rate, &narrow)? {
                Open::Stable { prediction, .. } => prediction.running / setting.attention_ranks(),
                Open::Saturated { .. } => most / setting.attention_ranks(),
            }
        }
        None => most / setting.attention_ranks(),
    };
    // At least a tenth of the blocks turns over even on a full engine: requests end.
    let free = (capacity - held * context).max(capacity * 0.1) * pooled;
    Ok((curve.hit_frac(free as u64), most))
}

/// The closed loop at which the setting settles, its capacity, and the load there.
fn settle(
    case: &Case<'_>,
    setting: &Setting<'_>,
    load: &Load,
    most: f64,
    calibration: &Calibration,
) -> Result<(Prediction, f64, Load), Unpredictable> {
    let deployment = &setting.deployment;
    let full = Load { concurrency: most.max(1.0), ..*load };
    let at_most = predict(deployment, &full, calibration)?;
    let capacity = at_most.tokens_per_s.mid / case.offered.output_tokens.max(1e-9);
    let Some(rate) = case.offered.rate_per_s else { return Ok((at_most, capacity, full)) };
    let narrow = Calibration { tpot: Band { lo: 1.0, hi: 1.0 }, ..calibration.clone() };
    match predict_open(deployment, load, rate, &narrow)? {
        Open::Stable { prediction, .. } => {
            let settled = Load { concurrency: prediction.running.max(1e-3), ..*load };
            Ok((predict(deployment, &settled, calibration)?, capacity, settled))
        }
        Open::Saturated { .. } => Ok((at_most, capacity, full)),
    }
}

/// Rehearses in the middle and at both ends of the range.
fn first_tokens(case: &Case<'_>, setting: &Setting<'_>, rate: f64, found: &mut Operating) {
    let workload = case.offered.at_rate(rate, case.offered.simulated());
    let run = |stretch: f64| rehearse(setting, &workload, case.slo(), case.coefficients(), stretch);
    let Some(mid) = run(1.0).filter(|mid| !mid.is_saturated) else { return };
    let (low, high) = (run(found.stretch.lo), run(found.stretch.hi));
    let (ttft, tpot) = (case.slo().ttft, case.slo().tpot);
    let asked = ttft.map_or(Statistic::Quantile(0.99), |(statistic, _)| statistic);
    let of = |statistic: Statistic| -> Option<Estimate> {
        let at = |run: &Option<Rehearsed>| run.as_ref().and_then(|run| run.ttft_s(statistic));
        let mid = mid.ttft_s(statistic)?;
        Some(Estimate { lo: at(&low).unwrap_or(mid).min(mid), mid, hi: at(&high).unwrap_or(mid).max(mid) })
    };
    found.ttft_s = of(Statistic::Mean);
    found.ttft_asked_s = of(asked);
    if let Some((statistic, _)) = tpot {
        let spread = mid.tpot_spread(statistic);
        found.tpot_asked_s = found.tpot_s.map(|tpot_s| tpot_s * spread);
    }
}

fn kept(case: &Case<'_>, found: &Operating, saturated: bool) -> Kept {
    if saturated {
        return Kept::No;
    }
    let slo = case.slo();
    let rank = |value: Option<Estimate>, limit: Option<(Statistic, f64)>| match (value, limit) {
        (_, None) => Kept::Yes,
        // Offline nobody waits for a first token: the limit has no meaning there.
        (None, Some(_)) => {
            if found.utilization.is_some() {
                Kept::No
            } else {
                Kept::Yes
            }
        }
        (Some(value), Some((_, limit))) if value.hi <= limit => Kept::Yes,
        (Some(value), Some((_, limit))) if value.mid <= limit => Kept::Likely,
        _ => Kept::No,
    };
    let steady = match found.utilization {
        Some(utilization) if utilization.hi >= SATURATED => Kept::Likely,
        _ => Kept::Yes,
    };
    rank(found.ttft_asked_s, slo.ttft).min(rank(Some(found.tpot_asked_s), slo.tpot)).min(steady)
}

/// Most requests of one rehearsal while searching for the goodput.
const SEARCHED: usize = 300;

/// Requests per second at which the asked share of requests keeps all limits, by halving; at the ends of the range as well.
/// Nothing without limits or offline.
pub(super) fn with_goodput(case: &Case<'_>, setting: &Setting<'_>, mut operating: Operating) -> Operating {
    if !case.slo().is_set() || case.offered.rate_per_s.is_none() {
        return operating;
    }
    let setting = &case.settled(setting);
    let share = case.slo().share();
    let best = |stretch: f64| {
        let keeps = |rate: f64| {
            let workload = case.offered.at_rate(rate, SEARCHED);
            rehearse(setting, &workload, case.slo(), case.coefficients(), stretch).is_some_and(|run| run.kept_frac >= share)
        };
        // No rate beyond what can be served at all counts, however short the recording.
        let (mut below, mut above) = (0.0, operating.capacity_per_s.mid / stretch);
        for _ in 0..7 {
            let middle = f64::midpoint(below, above);
            if keeps(middle) { below = middle } else { above = middle }
        }
        below
    };
    let mid = best(1.0);
    let (lo, hi) = (best(operating.stretch.hi).min(mid), best(operating.stretch.lo).max(mid));
    operating.goodput_per_s = Some(Estimate { lo, mid, hi });
    operating
}
