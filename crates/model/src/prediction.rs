//! From a deployment and a load to TPOT, TTFT and throughput, with ranges.
//!
//! A closed loop of `N` requests, solved for what its parts say of each other: decoding requests pay for the prompts of
//! the others, a request that waits for its first token is not decoding, and what the KV cache cannot hold waits.
//! Three tiers: a [`bound`] is what no implementation beats; [`predict`] is calibrated; [`predict_change`] carries the
//! ratio of two predictions over to a measured baseline, which is the most accurate. Waits near saturation are not
//! predictable as numbers: [`predict_open`] then gives the rate that can be served instead.

use crate::calibration::{Calibration, Lever};
use crate::deployment::{Deployment, Load, Unpredictable};
use crate::memory::{Estimate, plausible};
use crate::speculation::expected_tokens;
use crate::step_time::{Binding, Coefficients, Ideal, StepLoad, StepTime};

/// What a figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Peaks of the data sheet: a limit, no forecast.
    Bound,
    /// Coefficients fitted on measured runs.
    Calibrated,
    /// A measured baseline and the ratio of two calibrated predictions.
    Ratio,
}

impl Tier {
    /// Word for tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Calibrated => "calibrated",
            Self::Ratio => "ratio",
        }
    }
}

/// Everything about a closed loop that does not depend on the coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Requests that run at once on each attention rank.
    running: f64,
    /// Requests in flight on each attention rank.
    in_flight: f64,
    /// Attention ranks of all replicas.
    attention_ranks: f64,
    /// The step of all running sequences, with all drafts.
    decode: Ideal,
    /// The plain step, the number of drafts and their cost in plain steps.
    drafts: Option<(Ideal, f64)>,
    /// Tokens that one decode step yields per sequence.
    tokens_per_step: f64,
    /// One prompt.
    prompt: Ideal,
    /// Output tokens per request.
    output: f64,
}

/// A solved loop, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solution {
    /// Time per output token after the first.
    pub tpot_s: f64,
    /// Time from first scheduling to the first token.
    pub prefill_s: f64,
    /// Time before first scheduling.
    pub queue_s: f64,
    /// Further wait of the mean request when all running ones start at once, as load generators do: the prompts before it.
    pub burst_s: f64,
    /// Requests per second over all replicas.
    pub requests_per_s: f64,
    /// Share of the running requests that decode, the rest computes its prompt.
    pub decoding_frac: f64,
    /// Share of engine time that computes prompts.
    pub prefill_busy_frac: f64,
    /// The decode step itself.
    pub step: StepTime,
    /// Part of the time per token that prompts of other requests take.
    pub prompts_s: f64,
    /// Share of that in which ranks exchange what the prompts gave.
    pub prompts_moved_frac: f64,
}

impl Solution {
    /// Mean time to the first token in a run of `requests_per_seat` requests per seat: the first of them start at once.
    pub fn ttft_in_run_s(&self, requests_per_seat: f64) -> f64 {
        self.prefill_s + self.queue_s + self.burst_s / requests_per_seat.max(1.0)
    }

    /// The largest part of the time per token.
    pub fn binding(&self) -> Binding {
        if self.prompts_s > self.tpot_s - self.prompts_s { Binding::Prompts } else { self.step.binding() }
    }
}

impl Loop {
    /// Prepares a loop; refuses what cannot run.
    pub fn new(deployment: &Deployment, load: &Load) -> Result<Self, Unpredictable> {
        deployment.check()?;
        load.check()?;
        let fits = deployment.sequences_that_fit(load.mean_context());
        if fits < 1.0 {
            return Err(deployment.does_not_fit(load.mean_context()));
        }
        Ok(Self::with_room(deployment, load, fits))
    }

    /// A loop whose prompts are computed on other devices: nothing interrupts decoding, and the first token comes from there.
    pub fn decoding(deployment: &Deployment, load: &Load) -> Result<Self, Unpredictable> {
        Ok(Self { prompt: Ideal { compute_factor: 1.0, ..Ideal::default() }, ..Self::new(deployment, load)? })
    }

    /// The same with a given room, which [`bound`] sets as large as can be.
    fn with_room(deployment: &Deployment, load: &Load, fits: f64) -> Self {
        let attention_ranks = f64::from(deployment.attention_dp.max(1)) * f64::from(deployment.replicas.max(1));
        let in_flight = plausible(load.concurrency) / attention_ranks;
        let running = in_flight.min(fits);
        // A pipeline works on one group of requests per stage.
        let seqs = (running / f64::from(deployment.pipeline.max(1))).max(running.min(1.0));
        let drafts = deployment.speculation.map_or(0, |speculation| speculation.drafts);
        let decode_load =
            |tokens_per_seq| StepLoad { decode_seqs: seqs, tokens_per_seq, context: load.mean_context(), ..StepLoad::default() };
        let prompt = StepLoad { prompt_tokens: load.new_tokens(), prompt_context: plausible(load.cached_tokens), ..StepLoad::default() };
        let speculation = deployment.speculation.filter(|speculation| speculation.drafts > 0);
        Self {
            running,
            in_flight,
            attention_ranks,
            decode: Ideal::of(deployment, &decode_load(f64::from(drafts) + 1.0)),
            drafts: speculation
                .map(|speculation| (Ideal::of(deployment, &decode_load(1.0)), f64::from(drafts) * speculation.draft_cost.max(0.0))),
            tokens_per_step: speculation.map_or(1.0, |speculation| expected_tokens(speculation.acceptance, drafts)),
            prompt: Ideal::of(deployment, &prompt),
            output: plausible(load.output_tokens).max(1.0),
        }
    }

    /// Solves the loop. Eight rounds: the share of decoding requests settles to 1e-3 within four.
    pub fn solve(&self, c: &Coefficients) -> Solution {
        let prompt_s = self.prompt.prefill_share_s(c);
        let alone_s = prompt_s.max(self.prompt.step(c).total_s - c.step_s);
        let others = (self.running - 1.0).max(0.0);
        let (mut share, mut solution) = (1.0, None);
        for _ in 0..8 {
            let step = self.decode.with_share(share).step(c);
            let drafting_s = self.drafts.map_or(0.0, |(plain, cost)| plain.with_share(share).step(c).total_s * cost);
            let iteration_s = step.total_s + drafting_s;
            let prompts_s = others * share * prompt_s / self.output;
            let tpot_s = iteration_s / self.tokens_per_step + prompts_s;
            let decode_s = (self.output - 1.0) * tpot_s;
            let busy = (self.running * prompt_s / (decode_s + prompt_s)).min(0.95);
            let prefill_s = alone_s * (1.0 + busy / 2.0) + iteration_s;
            let cycle_s = decode_s + prefill_s;
            share = (decode_s / cycle_s).clamp(0.01, 1.0);
            let per_rank = self.running / cycle_s;
            solution = Some(Solution {
                tpot_s,
                prefill_s,
                queue_s: (self.in_flight - self.running).max(0.0) / per_rank,
                burst_s: others / 2.0 * prompt_s,
                requests_per_s: per_rank * self.attention_ranks,
                decoding_frac: share,
                prefill_busy_frac: busy,
                step,
                prompts_s,
                prompts_moved_frac: if prompt_s > 0.0 { self.prompt.transfer_s / prompt_s } else { 0.0 },
            });
        }
        solution.expect("eight rounds ran")
    }

    /// Requests that wait outside the engine, over all replicas.
    pub fn waiting(&self) -> f64 {
        (self.in_flight - self.running).max(0.0) * self.attention_ranks
    }

    /// Requests that run, over all replicas.
    pub fn running(&self) -> f64 {
        self.running * self.attention_ranks
    }
}

/// A calibrated forecast. Ranges hold nine of ten outcomes on models the calibration never saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Time per output token after the first, seconds.
    pub tpot_s: Estimate,
    /// Time to the first token, seconds, queue included.
    pub ttft_s: Estimate,
    /// Output tokens per second of all replicas.
    pub tokens_per_s: Estimate,
    /// Output tokens per second and device.
    pub tokens_per_s_per_gpu: Estimate,
    /// Requests that run at once.
    pub running: f64,
    /// Requests that wait because the KV cache or the cap holds no more.
    pub waiting: f64,
    /// Share of engine time that computes prompts.
    pub prefill_busy_frac: f64,
    /// The decode step, part by part.
    pub step: StepTime,
    /// The largest part of the time per token.
    pub binding: Binding,
    /// What it rests on.
    pub tier: Tier,
}

/// Predicts a closed loop.
pub fn predict(deployment: &Deployment, load: &Load, calibration: &Calibration) -> Result<Prediction, Unpredictable> {
    let closed = Loop::new(deployment, load)?;
    let solution = closed.solve(&calibration.coefficients);
    let floor_s = bound(deployment, load)?.tpot_s;
    let tpot_s = calibration.tpot.around(solution.tpot_s, floor_s);
    let ttft_s = calibration.ttft.around(solution.prefill_s + solution.queue_s, 0.0);
    let tokens = solution.requests_per_s * plausible(load.output_tokens);
    // Throughput moves as the time per token does.
    let tokens_per_s = tpot_s.map(|tpot_s| tokens * solution.tpot_s / tpot_s.max(1e-12));
    let gpus = f64::from(deployment.gpu_count().max(1));
    Ok(Prediction {
        tpot_s,
        ttft_s,
        tokens_per_s,
        tokens_per_s_per_gpu: tokens_per_s.map(|tokens| tokens / gpus),
        running: closed.running(),
        waiting: closed.waiting(),
        prefill_busy_frac: solution.prefill_busy_frac,
        step: solution.step,
        binding: solution.binding(),
        tier: Tier::Calibrated,
    })
}

/// What no implementation on these devices beats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Time per output token, seconds: measurements below it are wrong.
    pub tpot_s: f64,
    /// What sets it.
    pub binding: Binding,
}

/// The bound of a closed loop: peaks, no fixed cost, and as many requests running as memory without any reserve holds,
/// so that a load that the engine queues is not held against it.
pub fn bound(deployment: &Deployment, load: &Load) -> Result<Bound, Unpredictable> {
    deployment.check()?;
    load.check()?;
    let roomy = Deployment { memory_frac: 0.95, max_batched_tokens: 0.0, max_num_seqs: f64::MAX, ..*deployment };
    let reserve_free = roomy.gpu.memory_bytes as f64 * 0.95 - roomy.weight_bytes_per_rank();
    let stages = f64::from(deployment.pipeline.max(1));
    let one = crate::memory::kv_bytes_of_sequence_per_rank(roomy.model, roomy.kv, load.mean_context(), roomy.tensor) / stages;
    let closed = Loop::with_room(&roomy, load, (reserve_free / one.max(1.0)).max(1.0));
    let step = closed.decode.step(&Coefficients::IDEAL);
    let drafting_s = closed.drafts.map_or(0.0, |(plain, cost)| plain.step(&Coefficients::IDEAL).bound_s * cost);
    Ok(Bound { tpot_s: (step.bound_s + drafting_s) / closed.tokens_per_step, binding: step.binding() })
}

/// A change carried over to a measured baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// New time per output token over the old one.
    pub ratio: Estimate,
    /// New time per output token, seconds: the measured baseline times the ratio.
    pub tpot_s: Estimate,
    /// New throughput over the old one.
    pub throughput_ratio: Estimate,
    /// What bound the step before.
    pub before: Binding,
    /// What binds it after.
    pub after: Binding,
    /// The part of the step that grew most, when the prediction is slower.
    pub slower_by: Option<Binding>,
    /// The levers that were moved.
    pub levers: Vec<Lever>,
    /// [`Tier::Ratio`].
    pub tier: Tier,
}

/// Predicts `measured_tpot_s` under a change of deployment, load or both. The range is that of the levers moved, from pairs
/// of measured runs that differ in one of them; moves smaller than a doubling have a smaller one. No change is exactly 1.
pub fn predict_change(
    old: (&Deployment, &Load),
    new: (&Deployment, &Load),
    measured_tpot_s: f64,
    calibration: &Calibration,
) -> Result<Change, Unpredictable> {
    if !(measured_tpot_s > 0.0 && measured_tpot_s < 1e6) {
        return Err(Unpredictable::Number { field: "measured_tpot_s", expected: "above 0 and below 1e6", found: measured_tpot_s });
    }
    let before = Loop::new(old.0, old.1)?.solve(&calibration.coefficients);
    let after = Loop::new(new.0, new.1)?.solve(&calibration.coefficients);
    let moved = Lever::moved(old, new);
    let ratio = if old == new { Estimate::exact(1.0) } else { calibration.levers.band(&moved).around(after.tpot_s / before.tpot_s, 0.0) };
    let tokens = |solution: &Solution, load: &Load| solution.requests_per_s * plausible(load.output_tokens);
    let throughput = tokens(&after, new.1) / tokens(&before, old.1);
    let middle = after.tpot_s / before.tpot_s;
    Ok(Change {
        ratio,
        tpot_s: ratio.map(|ratio| ratio * measured_tpot_s),
        throughput_ratio: ratio.map(|ratio| throughput * middle / ratio.max(1e-12)),
        before: before.binding(),
        after: after.binding(),
        slower_by: (ratio.mid > 1.0).then(|| grown(&before, &after)),
        levers: moved.into_iter().map(|(lever, _)| lever).collect(),
        tier: Tier::Ratio,
    })
}

/// The part of the time per token that grew most.
fn grown(before: &Solution, after: &Solution) -> Binding {
    let parts = |s: &Solution| {
        [
            (Binding::Weights, s.step.weights_s),
            (Binding::KvCache, s.step.kv_s),
            (Binding::Compute, s.step.compute_s),
            (Binding::Overhead, s.step.overhead_s),
            (Binding::Collectives, s.step.collective_s + s.prompts_s * s.prompts_moved_frac),
            (Binding::Prompts, s.prompts_s * (1.0 - s.prompts_moved_frac)),
        ]
    };
    let growth = parts(before).into_iter().zip(parts(after)).map(|((binding, old), (_, new))| (binding, new - old));
    growth.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(after.binding(), |(binding, _)| binding)
}

/// An open load: arrivals that do not wait for answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Open {
    /// It settles.
    Stable {
        /// Arrivals over the rate that can be served.
        utilization: Estimate,
        /// The forecast at the concurrency where it settles.
        prediction: Box<Prediction>,
    },
    /// Too near to the limit for a time to be predictable, or beyond.
    Saturated {
        /// Requests per second that can be served.
        capacity_per_s: Estimate,
        /// Arrivals over it.
        utilization: Estimate,
    },
}

/// From this utilization on, at the pessimistic end, times are not given: a capacity error of 22 % there became a TTFT
/// error of 2,000 times (inference-sim issues 482 and 489).
pub const SATURATED: f64 = 0.85;

/// Predicts arrivals of `rate_per_s`; the concurrency of `load` is ignored. The capacity is the throughput of all requests
/// that memory and the engine's cap hold.
pub fn predict_open(deployment: &Deployment, load: &Load, rate_per_s: f64, calibration: &Calibration) -> Result<Open, Unpredictable> {
    if !(rate_per_s > 0.0 && rate_per_s <= 1e9) {
        return Err(Unpredictable::Number { field: "rate_per_s", expected: "above 0 and at most 1e9", found: rate_per_s });
    }
    let ranks = f64::from(deployment.attention_dp.max(1)) * f64::from(deployment.replicas.max(1));
    let most = deployment.sequences_that_fit(load.mean_context()).max(1.0) * ranks;
    let served = |concurrency: f64| -> Result<f64, Unpredictable> {
        Ok(Loop::new(deployment, &Load { concurrency, ..*load })?.solve(&calibration.coefficients).requests_per_s)
    };
    let capacity = served(most)?;
    let capacity_per_s = calibration.tpot.around(1.0, 0.0).map(|factor| capacity / factor.max(1e-12));
    let utilization = capacity_per_s.map(|capacity| rate_per_s / capacity.max(1e-12));
    if utilization.hi >= SATURATED {
        return Ok(Open::Saturated { capacity_per_s, utilization });
    }
    // The rate served grows with concurrency, so the concurrency where it meets the arrivals is found by halving.
    let (mut below, mut above) = (1e-3, most);
    for _ in 0..50 {
        let middle = f64::midpoint(below, above);
        if served(middle)? < rate_per_s { below = middle } else { above = middle }
    }
    let prediction = Box::new(predict(deployment, &Load { concurrency: above, ..*load }, calibration)?);
    Ok(Open::Stable { utilization, prediction })
}
