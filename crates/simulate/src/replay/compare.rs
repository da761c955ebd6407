//! Simulated beside measured, and what held the run back.

use super::calibrate::{Calibration, Floors, calibrate};
use super::measured::MeasuredRun;
use crate::config::{ConfigError, EngineConfig, Routing, SystemConfig, Topology};
use crate::cost::StepCost;
use crate::outcome::Summary;
use crate::system::simulate;
use crate::verdict::Verdict;
use crate::workload::{Request, Workload};

/// Means of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Time per output token after the first, seconds.
    pub tpot_s: f64,
    /// From arrival to last token, seconds.
    pub e2e_s: f64,
    /// From arrival to first token, seconds.
    pub ttft_s: f64,
    /// From first arrival to last token, seconds.
    pub span_s: f64,
    /// Output tokens per second of that.
    pub tokens_per_s: f64,
}

/// Little's law on the record: rate times time in the system against the gauges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Little {
    /// Requests per second times mean time from queue to last token.
    pub from_requests: f64,
    /// Mean of running plus waiting.
    pub from_gauges: f64,
}

/// Larger differences mean a wrong clock, a warm-up inside or dropped requests.
pub const LITTLE_LIMIT_FRAC: f64 = 0.05;

impl Little {
    /// How far both are apart, as a share of the gauges.
    pub fn gap_frac(&self) -> f64 {
        (self.from_requests / self.from_gauges.max(1e-9) - 1.0).abs()
    }

    /// Whether the record can be trusted.
    pub fn holds(&self) -> bool {
        self.gap_frac() <= LITTLE_LIMIT_FRAC
    }
}

/// What held requests out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The KV cache was full: fewer bytes per token or more memory, not more seats.
    KvCapacity,
    /// All seats were taken: a setting.
    Seats,
    /// Seats or cache were full for a short time only; decoding itself sets the pace.
    DecodeTouchedCap,
    /// Requests hardly ever waited.
    Decode,
    /// Requests waited with seats and cache free, or the cache was not recorded.
    Unknown,
}

/// Below this share of time with requests waiting, a limit was only touched.
const TOUCHED_FRAC: f64 = 0.25;
/// A cache this full is full: the rest is the last block of each request.
const FULL_KV_PCT: f64 = 95.0;

/// A run and its simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// The law fitted on the run; nothing for a forecast, which brought its own.
    pub calibration: Option<Calibration>,
    /// What was measured.
    pub measured: Figures,
    /// What the simulation says. Its time to the first token counts only where `verdict` is not saturated.
    pub simulated: Figures,
    /// Whether the simulated system kept up.
    pub verdict: Verdict,
    /// Whether the record is consistent.
    pub little: Little,
    /// What held the measured run back, by its gauges.
    pub measured_binding: Binding,
    /// What held the simulated run back.
    pub simulated_binding: Binding,
    /// Whether the cache size was not recorded and taken as never full.
    pub is_kv_assumed: bool,
    /// All figures of the simulation.
    pub summary: Summary,
}

/// Calibrates on a run and simulates it. `None` when the run is too small to calibrate.
pub fn replay(run: &MeasuredRun, floors: Floors) -> Result<Option<Replay>, ConfigError> {
    let Some(calibration) = calibrate(run, floors) else { return Ok(None) };
    let replay = forecast(run, &calibration.cost)?;
    Ok(Some(Replay { calibration: Some(calibration), ..replay }))
}

/// Simulates the requests of a run with a law from elsewhere.
pub fn forecast<C: StepCost + ?Sized>(run: &MeasuredRun, cost: &C) -> Result<Replay, ConfigError> {
    let requests: Vec<Request> =
        run.requests.iter().map(|row| Request::new(row.arrival_ns, row.prompt_tokens, row.output_tokens)).collect();
    let workload = Workload::new(requests);
    let config = config_of(run, &workload);
    let outcome = simulate(&workload, &config, cost)?;
    let summary = outcome.summary(&workload);
    let ttft_s = outcome.rows.iter().filter_map(crate::Row::ttft_ns).map(|ns| ns as f64 / 1e9).sum::<f64>() / summary.done.max(1) as f64;
    let simulated = Figures {
        tpot_s: summary.tpot.mean_ns / 1e9,
        e2e_s: summary.e2e.mean_ns / 1e9,
        ttft_s,
        span_s: summary.span_ns as f64 / 1e9,
        tokens_per_s: summary.tokens_per_s,
    };
    let simulated_binding = binding(
        summary.kv_frac + summary.seats_frac + summary.budget_frac,
        summary.seats_frac > summary.kv_frac,
        summary.kv_frac > summary.seats_frac,
    );
    Ok(Replay {
        calibration: None,
        measured: measured_figures(run),
        simulated,
        verdict: outcome.verdict,
        little: little(run),
        measured_binding: measured_binding(run),
        simulated_binding,
        is_kv_assumed: run.settings.kv_blocks.is_none(),
        summary,
    })
}

/// The engine as it was set, with a cache that is never full where its size is not recorded.
fn config_of(run: &MeasuredRun, workload: &Workload) -> SystemConfig {
    let settings = &run.settings;
    let longest = workload.requests().iter().map(|request| u64::from(request.prompt_tokens) + u64::from(request.output_tokens)).max();
    let roomy = longest.unwrap_or(1).div_ceil(u64::from(settings.block_tokens.max(1))) * u64::from(settings.max_num_seqs);
    // One block of the engine's count is the null block, which holds nothing.
    let kv_blocks = settings.kv_blocks.map_or(roomy.min(u64::from(u32::MAX)) as u32, |blocks| blocks.saturating_sub(1));
    let engine = EngineConfig {
        max_num_seqs: settings.max_num_seqs,
        max_num_batched_tokens: settings.max_num_batched_tokens,
        block_tokens: settings.block_tokens,
        ..EngineConfig::vllm(kv_blocks)
    };
    SystemConfig {
        topology: Topology::Unified { replicas: settings.replicas },
        routing: Routing::LeastRequests,
        ..SystemConfig::single(engine)
    }
}

fn measured_figures(run: &MeasuredRun) -> Figures {
    let count = run.requests.len().max(1) as f64;
    let mean = |of: fn(&super::MeasuredRequest) -> f64| run.requests.iter().map(of).sum::<f64>() / count / 1e9;
    let multi: Vec<f64> = run
        .requests
        .iter()
        .filter(|row| row.output_tokens > 1)
        .map(|row| (row.last_ns - row.first_ns) as f64 / 1e9 / (f64::from(row.output_tokens) - 1.0))
        .collect();
    let span_s = span_s(run);
    Figures {
        tpot_s: multi.iter().sum::<f64>() / multi.len().max(1) as f64,
        e2e_s: mean(|row| (row.last_ns - row.arrival_ns) as f64),
        ttft_s: mean(|row| (row.first_ns - row.arrival_ns) as f64),
        span_s,
        tokens_per_s: run.requests.iter().map(|row| f64::from(row.output_tokens)).sum::<f64>() / span_s,
    }
}

fn span_s(run: &MeasuredRun) -> f64 {
    let first_ns = run.requests.iter().map(|row| row.queued_ns).min().unwrap_or(0);
    let last_ns = run.requests.iter().map(|row| row.last_ns).max().unwrap_or(0);
    ((last_ns - first_ns) as f64 / 1e9).max(1e-9)
}

fn little(run: &MeasuredRun) -> Little {
    let in_system_s: f64 = run.requests.iter().map(|row| (row.last_ns - row.queued_ns) as f64 / 1e9).sum();
    let gauges: f64 = run.gauges.iter().map(|gauge| gauge.running + gauge.waiting).sum();
    Little { from_requests: in_system_s / span_s(run), from_gauges: gauges / run.gauges.len().max(1) as f64 }
}

fn measured_binding(run: &MeasuredRun) -> Binding {
    let count = run.gauges.len().max(1) as f64;
    let waiting_frac = run.gauges.iter().filter(|gauge| gauge.waiting > 0.0).count() as f64 / count;
    let most = |of: fn(&super::Gauge) -> f64| run.gauges.iter().map(of).fold(0.0, f64::max);
    let seats = f64::from(run.settings.max_num_seqs) * f64::from(run.settings.replicas);
    // A gauge that says 0 all the time is one that was not exported.
    binding(waiting_frac, most(|gauge| gauge.running) >= seats, most(|gauge| gauge.kv_pct) >= FULL_KV_PCT)
}

fn binding(waiting_frac: f64, are_seats_full: bool, is_kv_full: bool) -> Binding {
    match (waiting_frac < TOUCHED_FRAC, are_seats_full, is_kv_full) {
        (true, false, false) => Binding::Decode,
        (true, _, _) => Binding::DecodeTouchedCap,
        (false, true, _) => Binding::Seats,
        (false, false, true) => Binding::KvCapacity,
        (false, false, false) => Binding::Unknown,
    }
}
