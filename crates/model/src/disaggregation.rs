//! Prefill and decode on separate devices: what it yields per device, what it needs of the link, and whether to do it.
//!
//! `goodput / device = min(n_p r_p, n_d r_d) / (n_p + n_d)` (DistServe, OSDI 2024). It takes interference away and adds a
//! transfer of the KV cache per request; most deployments do better with a smaller prompt chunk, and the verdict says so.
//! Uneven prompts and failures of the transfer are left out.

use crate::calibration::Calibration;
use crate::deployment::{Deployment, Load, Unpredictable};
use crate::memory::{kv_bytes_of_sequence, plausible};
use crate::prediction::Loop;
use crate::step_time::{Ideal, StepLoad};

/// Requests per second and device of `prefill` and `decode` devices that serve at these rates each.
pub fn goodput_per_gpu(prefill: u32, prefill_rate: f64, decode: u32, decode_rate: f64) -> f64 {
    let served = (f64::from(prefill) * plausible(prefill_rate)).min(f64::from(decode) * plausible(decode_rate));
    served / f64::from(prefill.saturating_add(decode).max(1))
}

/// The split of at most `most` devices with the best goodput per device; of equal ones the smallest.
pub fn best_split(prefill_rate: f64, decode_rate: f64, most: u32) -> Option<(u32, u32)> {
    let mut best: Option<(f64, u32, u32)> = None;
    for total in 2..=most.min(1024) {
        for prefill in 1..total {
            let goodput = goodput_per_gpu(prefill, prefill_rate, total - prefill, decode_rate);
            if best.is_none_or(|(before, ..)| goodput > before * (1.0 + 1e-9)) {
                best = Some((goodput, prefill, total - prefill));
            }
        }
    }
    best.filter(|(goodput, ..)| *goodput > 0.0).map(|(_, prefill, decode)| (prefill, decode))
}

/// Seconds to move one prompt's KV cache of `bytes`: what the request waits for when layers are sent as they are made is
/// about one layer's part.
pub fn transfer_s(bytes: f64, link_bytes_per_s: f64, layers: u32, layer_wise: bool) -> f64 {
    let whole = plausible(bytes) / plausible(link_bytes_per_s).max(1.0);
    if layer_wise { whole / f64::from(layers.max(1)) } else { whole }
}

/// What has to be known for a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Limit of the time to the first token, seconds.
    pub ttft_limit_s: Option<f64>,
    /// Limit of the time per output token, seconds.
    pub tpot_limit_s: Option<f64>,
    /// Link between prefill and decode devices, bytes per second and device.
    pub link_bytes_per_s: Option<f64>,
    /// Devices there are, counted in units of the deployment's ranks.
    pub units: u32,
}

/// The answer, with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Do it or not.
    pub verdict: Verdict,
    /// Requests per second and unit with both together.
    pub together_per_unit: f64,
    /// Requests per second and unit apart, at the best split.
    pub apart_per_unit: f64,
    /// Share of the time per token that prompts of others take when both run together.
    pub interference_frac: f64,
    /// Seconds to move one request's KV cache, `None` without a link speed.
    pub transfer_s: Option<f64>,
}

/// Whether to separate prefill from decode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Separate, with so many units each.
    Separate {
        /// Units that compute prompts.
        prefill: u32,
        /// Units that decode.
        decode: u32,
        /// Goodput over that of both together.
        gain: f64,
    },
    /// Stay together.
    StayTogether(Reason),
    /// Needs the speed of the link.
    CannotTell,
}

/// Why to stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A single unit cannot be split.
    OneUnit,
    /// No limit on the time per token, so interference costs nobody anything.
    NoTpotLimit,
    /// Prompts take a small share of the time per token.
    LittleInterference,
    /// The link cannot carry the KV cache at the rate served.
    LinkTooSlow,
    /// The transfer alone breaks the limit of the first token.
    TransferTooLong,
    /// Neither way keeps the limits.
    LimitsOutOfReach,
    /// The gain is below [`LEAST_GAIN`]: a smaller prompt chunk is the cheaper fix.
    SmallGain,
}

impl Reason {
    /// A sentence's end for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneUnit => "there is one unit, and it cannot be split",
            Self::NoTpotLimit => "no limit on the time per token is set, so prompts that interrupt decoding break nothing",
            Self::LittleInterference => "prompts of others take a small share of the time per token",
            Self::LinkTooSlow => "the link cannot carry the KV cache at the rate served",
            Self::TransferTooLong => "moving one prompt's KV cache takes longer than the limit of the first token",
            Self::LimitsOutOfReach => "the limits are not kept either way",
            Self::SmallGain => "the gain is small; a smaller prompt chunk is the cheaper fix",
        }
    }
}

/// Gain from which separating is worth its operation (judgement).
pub const LEAST_GAIN: f64 = 1.15;

/// Interference below which there is little to win (judgement).
pub const LEAST_INTERFERENCE: f64 = 0.1;

/// Most requests in flight that are looked at on one unit.
const MOST_IN_FLIGHT: f64 = 8192.0;

/// Answers for one deployment as the unit: the same unit decodes, computes prompts, or does both.
pub fn answer(deployment: &Deployment, load: &Load, question: &Question, calibration: &Calibration) -> Result<Answer, Unpredictable> {
    let unit = Deployment { replicas: 1, ..*deployment };
    let c = &calibration.coefficients;
    let ttft_limit_s = question.ttft_limit_s.unwrap_or(f64::INFINITY);
    let tpot_limit_s = question.tpot_limit_s.unwrap_or(f64::INFINITY);
    let at = |concurrency: f64| Load { concurrency, ..*load };

    let together = |concurrency: f64| -> Result<Option<f64>, Unpredictable> {
        let solution = Loop::new(&unit, &at(concurrency))?.solve(c);
        let kept = solution.tpot_s <= tpot_limit_s && solution.prefill_s + solution.queue_s <= ttft_limit_s;
        Ok(kept.then_some(solution.requests_per_s))
    };
    let decoding = |concurrency: f64| -> Result<Option<f64>, Unpredictable> {
        let solution = Loop::decoding(&unit, &at(concurrency))?.solve(c);
        Ok((solution.tpot_s <= tpot_limit_s && solution.queue_s <= 0.0).then_some(solution.requests_per_s))
    };
    let together_per_unit = most_kept(together)?;
    let decode_rate = most_kept(decoding)?;

    let bytes = kv_bytes_of_sequence(unit.model, unit.kv, load.prompt_tokens);
    let move_s = question.link_bytes_per_s.map(|rate| transfer_s(bytes, rate * f64::from(unit.ranks()), unit.model.layers, false));
    let prefill_rate = prefill_rate(&unit, load, ttft_limit_s - move_s.unwrap_or(0.0), calibration);

    let split = best_split(prefill_rate, decode_rate, question.units);
    let apart_per_unit = split.map_or(0.0, |(prefill, decode)| goodput_per_gpu(prefill, prefill_rate, decode, decode_rate));
    let interference_frac = interference(&unit, load, calibration)?;
    let answer = |verdict| Answer { verdict, together_per_unit, apart_per_unit, interference_frac, transfer_s: move_s };
    let stay = |reason| Ok(answer(Verdict::StayTogether(reason)));

    let Some((prefill, decode)) = split else {
        return stay(if question.units < 2 { Reason::OneUnit } else { Reason::LimitsOutOfReach });
    };
    if question.tpot_limit_s.is_none() {
        return stay(Reason::NoTpotLimit);
    }
    let gain = apart_per_unit / together_per_unit.max(1e-12);
    if interference_frac < LEAST_INTERFERENCE && together_per_unit > 0.0 {
        return stay(Reason::LittleInterference);
    }
    if gain < LEAST_GAIN {
        return stay(Reason::SmallGain);
    }
    let (Some(rate), Some(move_s)) = (question.link_bytes_per_s, move_s) else { return Ok(answer(Verdict::CannotTell)) };
    if move_s >= ttft_limit_s {
        return stay(Reason::TransferTooLong);
    }
    // Each prefill unit sends what it makes.
    let sent_per_s = apart_per_unit * f64::from(prefill + decode) / f64::from(prefill) * bytes;
    if sent_per_s > rate * f64::from(unit.ranks()) {
        return stay(Reason::LinkTooSlow);
    }
    Ok(answer(Verdict::Separate { prefill, decode, gain }))
}

/// The best rate over concurrencies that keep the limits, 0 when none does. Rates need not grow with concurrency once a
/// limit is near, so doublings are tried and the last step is halved down.
fn most_kept(rate: impl Fn(f64) -> Result<Option<f64>, Unpredictable>) -> Result<f64, Unpredictable> {
    let (mut best, mut kept, mut missed) = (0.0f64, None, None);
    let mut concurrency = 1.0;
    while concurrency <= MOST_IN_FLIGHT {
        let Some(found) = rate(concurrency)? else {
            missed = Some(concurrency);
            break;
        };
        (best, kept) = (best.max(found), Some(concurrency));
        concurrency *= 2.0;
    }
    let (Some(mut below), Some(mut above)) = (kept, missed) else { return Ok(best) };
    for _ in 0..12 {
        let middle = f64::midpoint(below, above);
        if let Some(found) = rate(middle)? { (best, below) = (best.max(found), middle) } else { above = middle }
    }
    Ok(best)
}

/// Prompts per second of a unit that does nothing else, so that waiting and computing stay within `room_s`: with even
/// service `s` the wait is `rho s / (2 (1 - rho))` (M/D/1). Without a limit the unit is always busy.
fn prefill_rate(unit: &Deployment, load: &Load, room_s: f64, calibration: &Calibration) -> f64 {
    let prompt = StepLoad { prompt_tokens: load.new_tokens(), prompt_context: plausible(load.cached_tokens), ..StepLoad::default() };
    let service_s = Ideal::of(unit, &prompt).step(&calibration.coefficients).total_s;
    let slack = (room_s - service_s) / service_s;
    if slack.is_nan() || slack <= 0.0 {
        return 0.0;
    }
    let rho = if slack.is_finite() { 2.0 * slack / (1.0 + 2.0 * slack) } else { 1.0 };
    rho * f64::from(unit.attention_dp.max(1)) / service_s
}

/// Share of the time per token that prompts of others take at the load given.
fn interference(unit: &Deployment, load: &Load, calibration: &Calibration) -> Result<f64, Unpredictable> {
    let c = &calibration.coefficients;
    let (both, alone) = (Loop::new(unit, load)?.solve(c), Loop::decoding(unit, load)?.solve(c));
    Ok((1.0 - alone.tpot_s.min(both.tpot_s) / both.tpot_s).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::published;
    use crate::hardware;
    use crate::memory::Dtype;
    use crate::models::{self, Kind};

    #[test]
    fn the_example_of_the_paper() {
        // DistServe: 5.6 prompts/s and 10 decodes/s per device; two to one gives 3.33, 2.1 times the 1.6 of one device.
        let goodput = goodput_per_gpu(2, 5.6, 1, 10.0);
        assert!((goodput - 3.333).abs() < 0.001 && (goodput / 1.6 - 2.08).abs() < 0.01);
        assert_eq!(best_split(5.6, 10.0, 3), Some((2, 1)));
        assert_eq!(goodput_per_gpu(0, 5.6, 0, 10.0), 0.0);
        assert_eq!(best_split(0.0, 10.0, 8), None);
    }

    #[test]
    fn caches_of_a_70b_and_their_links() {
        // 4,096 tokens of 320 KiB: 27 ms at 50 GB/s, 3 ms by NVLink, more than a second at 10 Gbit/s.
        let bytes = kv_bytes_of_sequence(models::find("Llama-3-70B").unwrap(), Dtype::Bf16, 4096.0);
        assert!((bytes / 1.342e9 - 1.0).abs() < 1e-3);
        assert!((transfer_s(bytes, 50e9, 80, false) - 0.0268).abs() < 2e-4);
        assert!(transfer_s(bytes, 450e9, 80, false) < 0.0031 && transfer_s(bytes, 1.25e9, 80, false) > 1.0);
        assert!((transfer_s(bytes, 50e9, 80, true) * 80.0 - transfer_s(bytes, 50e9, 80, false)).abs() < 1e-12);
    }

    #[test]
    fn long_prompts_and_tight_limits_separate_and_the_rest_stays() {
        let (model, gpu) = (models::find("Llama-3.1-70B").unwrap(), hardware::find("h100-sxm").unwrap());
        let unit = Deployment { tensor: 4, ..Deployment::new(model, gpu, Dtype::Fp8) };
        let ask = |prompt: f64, output: f64, tpot: Option<f64>, link: Option<f64>| {
            let question = Question { ttft_limit_s: Some(4.0), tpot_limit_s: tpot, link_bytes_per_s: link, units: 8 };
            answer(&unit, &Load::closed(64.0, prompt, output), &question, published(Kind::Dense)).unwrap()
        };
        let long = ask(8192.0, 256.0, Some(0.025), Some(50e9));
        assert!(matches!(long.verdict, Verdict::Separate { gain, .. } if gain > LEAST_GAIN), "{long:?}");
        assert!(long.interference_frac > 0.5, "{long:?}");
        assert_eq!(ask(8192.0, 256.0, Some(0.025), None).verdict, Verdict::CannotTell);
        assert_eq!(ask(8192.0, 256.0, Some(0.025), Some(1e6)).verdict, Verdict::StayTogether(Reason::LimitsOutOfReach));
        assert_eq!(ask(8192.0, 256.0, None, Some(50e9)).verdict, Verdict::StayTogether(Reason::NoTpotLimit));
        let chat = ask(128.0, 2048.0, Some(0.05), Some(50e9));
        assert!(matches!(chat.verdict, Verdict::StayTogether(Reason::LittleInterference | Reason::SmallGain)), "{chat:?}");
    }
}
