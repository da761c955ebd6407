//! Seeded draws of faults in the simulated engine, judged against what each fault really costs.
//!
//! A draw is a fault of some strength under some load. It runs twice in simulated time: with the fault and mended. What the
//! mending gains is the truth: at least a quarter of a time that callers feel makes the fault *strong*, at most a twentieth
//! of all of them *weak*; in between nobody can say which answer is right, and the draw is left out. A strong fault must be
//! found in its layer and its mending be confirmed by the prediction; a weak one must not be called a cause.

use std::time::Duration;

use analysis::contract::{Outcome, Report, Role, Status};
use analysis::round::proposals;
use analysis::{DiagnoseOptions, diagnose, verify};
use capture::Capture;
use live::load::Schedule;
use live::simulated::{Fault, Flags, Rehearsal, Setup};
use simulate::rng::Rng;
use simulate::workload::{Arrivals, Generator, Lengths};

/// Gain of mending from which a fault matters, and up to which it does not.
const STRONG: f64 = 0.25;
const WEAK: f64 = 0.05;
/// A pause in a stream from which people notice it.
const FELT_NS: i64 = 110_000_000;
/// Some day.
const START_NS: i64 = 1_796_036_992_000_000_000;

/// A fault and what is right about it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Layer in which it lies.
    pub(crate) layer: &'static str,
    /// Failure modes that name it.
    pub(crate) checks: &'static [&'static str],
    /// Strengths, weakest first; drawn in equal ratios.
    pub(crate) strengths: [f64; 2],
    /// Users, or requests per second below zero.
    load: Load,
    /// Prompt and answer, tokens: medians, and how far prompts spread (log-normal).
    lengths: [f64; 2],
    spread: f64,
    /// What mends it; without flags the fault is taken out.
    mended_by: Option<Flags>,
    /// What stands around the fault.
    around: Flags,
}

enum Load {
    Users([f64; 2]),
    PerSecond([f64; 2]),
}

const NONE: Flags = Flags {
    max_num_seqs: None,
    max_num_batched_tokens: None,
    long_prefill_token_threshold: None,
    num_gpu_blocks_override: None,
    has_fp8_cache: false,
    prefix_caching: None,
    async_scheduling: None,
    stream_interval: None,
    api_server_count: None,
};

/// All faults of the simulated engine.
#[rustfmt::skip]
pub(crate) const KINDS: [Kind; 11] = [
    Kind { name: "small-kv", layer: "memory", checks: &["kv_thrash", "kv_capacity_short"], strengths: [0.2, 1.0], load: Load::Users([16.0, 32.0]), lengths: [400.0, 120.0], spread: 0.4, mended_by: Some(Flags { has_fp8_cache: true, ..NONE }), around: NONE },
    Kind { name: "low-batch-cap", layer: "scheduling", checks: &["batch_cap_reached"], strengths: [0.2, 1.0], load: Load::PerSecond([10.0, 20.0]), lengths: [200.0, 60.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "buffering-proxy", layer: "application", checks: &["proxy_buffering"], strengths: [0.0005, 1.0], load: Load::Users([4.0, 12.0]), lengths: [300.0, 120.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "gateway-delay", layer: "application", checks: &["admission_queue", "slow_request_transfer", "connection_churn"], strengths: [0.0005, 1.0], load: Load::PerSecond([4.0, 10.0]), lengths: [300.0, 80.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "stream-bursts", layer: "application", checks: &["stream_bursts"], strengths: [0.01, 1.0], load: Load::Users([4.0, 12.0]), lengths: [300.0, 120.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "slow-tokenizer", layer: "application", checks: &["slow_tokenization"], strengths: [0.0005, 1.0], load: Load::PerSecond([4.0, 8.0]), lengths: [300.0, 80.0], spread: 0.4, mended_by: Some(Flags { api_server_count: Some(8), ..NONE }), around: NONE },
    Kind { name: "prefill-blocking", layer: "scheduling", checks: &["prefill_blocks_decode", "long_requests_block_short"], strengths: [0.05, 1.0], load: Load::PerSecond([3.5, 5.5]), lengths: [1500.0, 150.0], spread: 1.0, mended_by: None, around: NONE },
    Kind { name: "low-acceptance", layer: "speculation", checks: &["low_acceptance", "expensive_draft", "overlong_draft", "expensive_verification"], strengths: [0.05, 1.0], load: Load::Users([4.0, 16.0]), lengths: [300.0, 120.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "host-bound", layer: "scheduling", checks: &["host_bound_engine"], strengths: [0.002, 1.0], load: Load::Users([4.0, 24.0]), lengths: [300.0, 120.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "connection-cap", layer: "application", checks: &["connection_cap", "admission_queue"], strengths: [0.3, 1.0], load: Load::Users([16.0, 48.0]), lengths: [300.0, 80.0], spread: 0.4, mended_by: None, around: NONE },
    Kind { name: "replica-imbalance", layer: "parallelism", checks: &["replica_imbalance"], strengths: [0.02, 1.0], load: Load::PerSecond([6.0, 10.0]), lengths: [300.0, 100.0], spread: 0.4, mended_by: None, around: Flags { max_num_seqs: Some(12), ..NONE } },
];

/// One draw, run and judged.
pub(crate) struct Drawn {
    pub(crate) kind: &'static Kind,
    pub(crate) strength: f64,
    /// What mending gains: time to first token, whole request, gap between chunks, the slowest hundredth of them.
    pub(crate) gains: [f64; 4],
    pub(crate) is_strong: bool,
    pub(crate) report: Report,
    pub(crate) verified: Outcome,
    pub(crate) why: String,
}

impl Drawn {
    /// The layer is right.
    pub(crate) fn is_localized(&self) -> bool {
        let verdict = &self.report.verdict;
        verdict.status == Status::Localized && verdict.layer.is_some_and(|layer| layer.as_str() == self.kind.layer)
    }

    /// The failure mode is right.
    pub(crate) fn is_named(&self) -> bool {
        self.report.verdict.check.as_deref().is_some_and(|check| self.kind.checks.contains(&check))
    }

    /// Nothing is called a cause.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.report.verdict.status != Status::Localized && self.report.findings.iter().all(|finding| finding.role != Role::Cause)
    }

    /// Localized elsewhere, with a confidence that is believed.
    pub(crate) fn is_wrong(&self) -> bool {
        let verdict = &self.report.verdict;
        verdict.status == Status::Localized && verdict.confidence >= 0.6 && (!self.is_strong || !self.is_localized())
    }

    /// Verdict in few words.
    pub(crate) fn told(&self) -> String {
        let verdict = &self.report.verdict;
        match verdict.status {
            Status::Localized => {
                format!(
                    "{} {} {}",
                    verdict.layer.map_or("", |layer| layer.as_str()),
                    verdict.check.as_deref().unwrap_or("?"),
                    verdict.confidence
                )
            }
            Status::Healthy => "healthy".into(),
            Status::InsufficientEvidence => "insufficient".into(),
        }
    }
}

fn uniform(rng: &mut Rng, [low, high]: [f64; 2]) -> f64 {
    low + (high - low) * rng.uniform()
}

/// Draws until one is strong, or weak, as wanted; `None` when thirty draws were not.
pub(crate) fn draw(kind: &'static Kind, seed: u64, is_strong: bool, seconds: u64) -> Option<Drawn> {
    let mut rng = Rng::new(seed, 0);
    let [low, high] = kind.strengths;
    (0..30).find_map(|_| {
        let strength = low * (high / low).powf(rng.uniform());
        one(kind, strength, &mut rng, seconds).filter(|drawn| drawn.is_strong == is_strong)
    })
}

/// One draw of this strength; `None` where it is neither strong nor weak.
pub(crate) fn one(kind: &'static Kind, strength: f64, rng: &mut Rng, seconds: u64) -> Option<Drawn> {
    let (schedule, per_s) = match kind.load {
        Load::Users(range) => {
            let users = uniform(rng, range).round() as u32;
            (Schedule::Closed { users, think: Duration::ZERO, ramp: Duration::from_secs(seconds / 4) }, 1.0)
        }
        Load::PerSecond(range) => (Schedule::Open, uniform(rng, range)),
    };
    let [prompt, answer] = kind.lengths.map(|median| uniform(rng, [0.7 * median, 1.4 * median]));
    let generator = Generator {
        count: 20_000,
        arrivals: Arrivals::Poisson { per_s },
        prompts: Lengths::LogNormal { median: prompt, sigma: kind.spread, most: (prompt * 40.0 * kind.spread) as u32 },
        outputs: Lengths::LogNormal { median: answer, sigma: 0.4, most: (answer * 6.0) as u32 },
        prefix: None,
        seed: rng.next_u64(),
    };
    let workload = generator.generate();
    let rehearse = |fault: Option<f64>, mended: Option<Flags>| -> Capture {
        let mut setup = Setup::default();
        if let Some(strength) = fault {
            format!("{}={strength}", kind.name).parse::<Fault>().expect("a known fault").apply(&mut setup);
        }
        kind.around.apply(&mut setup);
        mended.unwrap_or(NONE).apply(&mut setup);
        let duration = Duration::from_secs(seconds);
        let rehearsal = Rehearsal { setup, workload: workload.clone(), schedule, duration, start_ns: START_NS };
        rehearsal.capture().expect("a sound system")
    };
    let before = rehearse(Some(strength), None);
    let after = match kind.mended_by {
        Some(flags) => rehearse(Some(strength), Some(flags)),
        // Nothing, or as good as nothing, is left of it; two replicas stay two.
        None => rehearse(if kind.name == "replica-imbalance" { Some(0.0) } else { None }, None),
    };
    let gains = gains(&before, &after);
    let gain = match kind.name {
        // A chunk with drafts carries several tokens: its gaps compare with nothing.
        "low-acceptance" => gains[1],
        _ => gains.iter().copied().fold(0.0, f64::max),
    };
    // What makes whole requests slower mends nothing, whatever else it gains.
    if gains[1] < -WEAK {
        return None;
    }
    // A pause that nobody notices is no fault, however much longer it is than without.
    let is_unfelt = kind.name == "stream-bursts" && median_gap_ns(&before) < FELT_NS;
    let is_strong = gain >= STRONG && !is_unfelt;
    if !is_strong && gain > WEAK {
        return None;
    }
    // Whether drafts repay is decided by a run without them and by nothing else.
    let baseline = (kind.name == "low-acceptance").then_some(&after);
    let report = diagnose(&before, &DiagnoseOptions { baseline, ..DiagnoseOptions::default() });
    // How small a chunk should be is the hypothesis' own advice: that is what it predicts.
    let proposed = proposals(&report);
    let advised = proposed.first().filter(|stated| stated.change.flag == "--max-num-batched-tokens");
    let advised = advised.and_then(|stated| stated.change.to.parse().ok());
    let after = match advised {
        Some(tokens) => rehearse(Some(strength), Some(Flags { max_num_batched_tokens: Some(tokens), ..NONE })),
        None => after,
    };
    let verification = verify(&before, &after, None);
    Some(Drawn { kind, strength, gains, is_strong, report, verified: verification.outcome, why: verification.why })
}

/// What callers gain by the mending, as shares of what they felt before.
fn gains(before: &Capture, after: &Capture) -> [f64; 4] {
    let (b, a) = (felt(before), felt(after));
    std::array::from_fn(|at| if b[at] > 0.0 { 1.0 - a[at] / b[at] } else { 0.0 })
}

/// Mean time to first token, whole request and gap between chunks; the 99th percentile of the gaps.
fn felt(capture: &Capture) -> [f64; 4] {
    let rows: Vec<_> = capture.tables.requests.rows().filter(|row| row.t_done_ns.is_some()).collect();
    let n = rows.len().max(1) as f64;
    let since =
        |at: fn(&capture::Request) -> Option<i64>| rows.iter().filter_map(|row| Some(at(row)? - row.t_sent_ns)).sum::<i64>() as f64 / n;
    let mut gaps: Vec<i64> = capture.tables.chunks.rows().filter(|row| row.chunk_idx > 0).map(|row| row.gap_ns).collect();
    let gap = gaps.iter().sum::<i64>() as f64 / gaps.len().max(1) as f64;
    gaps.sort_unstable();
    let p99 = gaps.get(gaps.len() * 99 / 100).copied().unwrap_or(0) as f64;
    [since(|row| row.t_first_content_ns), since(|row| row.t_done_ns), gap, p99]
}

fn median_gap_ns(capture: &Capture) -> i64 {
    let mut gaps: Vec<i64> = capture.tables.chunks.rows().filter(|row| row.chunk_idx > 0).map(|row| row.gap_ns).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or(0)
}
