//! The requests a plan is for: their lengths, their rate, what of their prompts repeats.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use model::batching::OutputLengths;
use model::deployment::Load;
use model::prefix_reuse::{Prompt, ReuseCurve, replay};
use simulate::Workload;
use simulate::workload::{Arrivals, Generator, Lengths};

use super::document::WorkloadFacts;
use super::input::{Demand, PlanInput, Traffic};

/// Requests of a simulation: enough for a 99th percentile to rest on ten of them.
const SIMULATED: usize = 1000;

/// Prompts that are replayed for the reuse curve; longer recordings are cut here and the answer says so.
const REPLAYED: usize = 50_000;

/// Share of requests that arrive together with another from which the recording's clock is taken to be coarse: Mooncake's
/// traces count in steps of three seconds.
const COARSE_FRAC: f64 = 0.3;

/// Seed of everything made up.
const SEED: u64 = 1;

/// The requests.
pub(super) struct Offered {
    /// All of them: the recording, or a thousand alike.
    pub(super) workload: Workload,
    /// Whether they were recorded.
    pub(super) is_recorded: bool,
    /// Whether arrivals of one moment were spread.
    pub(super) has_coarse_clock: bool,
    /// Where they come from.
    source: String,
    /// Requests per second, nothing offline.
    pub(super) rate_per_s: Option<f64>,
    /// Rate of the workload's own arrivals.
    own_rate_per_s: f64,
    /// Prompt tokens, mean.
    pub(super) prompt_tokens: f64,
    /// Output tokens, mean.
    pub(super) output_tokens: f64,
    /// Output lengths, sorted.
    pub(super) outputs: OutputLengths,
    /// Longest request, tokens.
    pub(super) longest_tokens: u32,
    curves: RefCell<BTreeMap<u32, Rc<ReuseCurve>>>,
}

impl Offered {
    /// Reads the traffic of a checked input.
    pub(super) fn new(input: &PlanInput<'_>) -> Self {
        let (workload, is_recorded, source) = match &input.traffic {
            Traffic::Lengths { prompt_tokens, output_tokens } => {
                let per_s = if let Demand::Rate(rate) = input.demand { rate } else { 1.0 };
                (alike(*prompt_tokens, *output_tokens, per_s), false, "typed lengths".to_string())
            }
            Traffic::Recorded { workload, source } => ((*workload).clone(), true, source.clone()),
        };
        let tied_frac = if is_recorded { workload.tied_frac() } else { 0.0 };
        let has_coarse_clock = tied_frac > COARSE_FRAC;
        let workload = if has_coarse_clock { workload.with_spread_ties() } else { workload };
        let requests = workload.requests();
        let own_rate_per_s = (requests.len().saturating_sub(1)) as f64 / (workload.span_ns().max(1) as f64 / 1e9);
        let rate_per_s = match input.demand {
            Demand::Rate(rate) => Some(rate),
            Demand::Recorded => Some(own_rate_per_s),
            Demand::Offline => None,
        };
        let (prompt_tokens, output_tokens) = workload.mean_tokens();
        let outputs = OutputLengths::new(requests.iter().map(|request| request.output_tokens).collect());
        let longest_tokens = requests.iter().map(|request| request.prompt_tokens.saturating_add(request.output_tokens)).max().unwrap_or(1);
        let curves = RefCell::default();
        Self {
            workload,
            is_recorded,
            has_coarse_clock,
            source,
            rate_per_s,
            own_rate_per_s,
            prompt_tokens,
            output_tokens,
            outputs,
            longest_tokens,
            curves,
        }
    }

    /// The mean request as a load; the concurrency is set by who asks.
    pub(super) fn load(&self, cached_frac: f64) -> Load {
        let cached_tokens = (self.prompt_tokens * cached_frac.clamp(0.0, 1.0)).min(self.prompt_tokens);
        Load { concurrency: 1.0, prompt_tokens: self.prompt_tokens, cached_tokens, output_tokens: self.output_tokens }
    }

    /// Whether prompts can be compared.
    pub(super) fn has_blocks(&self) -> bool {
        self.workload.hash_block_tokens() > 0
    }

    /// What a prefix cache finds for one of `replicas` that take requests in turn.
    pub(super) fn reuse(&self, replicas: u32) -> Rc<ReuseCurve> {
        let replicas = replicas.max(1);
        if let Some(curve) = self.curves.borrow().get(&replicas) {
            return Rc::clone(curve);
        }
        let prompt = |at: usize| {
            let request = &self.workload.requests()[at];
            Prompt { blocks: self.workload.blocks(request), tokens: request.prompt_tokens }
        };
        // The first replica's stream stands for all: requests are dealt in turn, so the streams are alike.
        let count = self.workload.requests().len().min(REPLAYED);
        let stream = (0..count).step_by(replicas as usize).map(prompt);
        let curve = Rc::new(replay(stream, self.workload.hash_block_tokens(), 0));
        self.curves.borrow_mut().insert(replicas, Rc::clone(&curve));
        curve
    }

    /// Whether the reuse curve rests on a part of the recording only.
    pub(super) fn is_replay_cut(&self) -> bool {
        self.workload.requests().len() > REPLAYED
    }

    /// Requests to simulate at a rate: the first `count`, as fast as asked.
    pub(super) fn at_rate(&self, rate_per_s: f64, count: usize) -> Workload {
        self.workload.clone().first(count.min(SIMULATED)).faster(rate_per_s / self.own_rate_per_s.max(1e-12))
    }

    /// Most requests of one simulation.
    pub(super) fn simulated(&self) -> usize {
        self.workload.requests().len().min(SIMULATED)
    }

    /// As the document has it.
    pub(super) fn document(&self) -> WorkloadFacts {
        let quantiles = |length: fn(&simulate::Request) -> u32| {
            let mut lengths: Vec<u32> = self.workload.requests().iter().map(length).collect();
            lengths.sort_unstable();
            [0.5, 0.9, 0.99].map(|share| f64::from(lengths[((lengths.len() as f64 * share) as usize).min(lengths.len() - 1)]))
        };
        WorkloadFacts {
            source: self.source.clone(),
            request_count: if self.is_recorded { self.workload.requests().len() as u64 } else { 0 },
            prompt_tokens_mean: self.prompt_tokens,
            prompt_tokens_p: quantiles(|request| request.prompt_tokens),
            output_tokens_mean: self.output_tokens,
            output_tokens_p: quantiles(|request| request.output_tokens),
            rate_per_s: self.rate_per_s,
        }
    }
}

/// Requests of one length that come at random.
fn alike(prompt_tokens: u32, output_tokens: u32, per_s: f64) -> Workload {
    Generator {
        count: SIMULATED,
        arrivals: Arrivals::Poisson { per_s },
        prompts: Lengths::Fixed(prompt_tokens),
        outputs: Lengths::Fixed(output_tokens),
        prefix: None,
        seed: SEED,
    }
    .generate()
}
