//! The run as it was: its requests, its settings, its measured figures, and engines that repeat it.

use capture::issues::PROFILE_SKIPPED;
use capture::{Capture, Subject};
use model::deployment::Deployment;
use model::memory::Dtype;
use model::speculation::acceptance_of;
use model::step_law::StepLaw;
use simulate::config::{EngineConfig, Routing, Speculation, SystemConfig, Topology};
use simulate::cost::LinearCost;
use simulate::workload::{Arrivals, Generator, Lengths};
use simulate::{Request, Workload};

use super::Refusal;
use super::figures::{Figures, Metric};
use super::fit::{Target, fit};
use super::measured::Measured;
use super::refused::is_unlike;
use super::scenario::{Run, Scenario};
use super::surroundings::{is_buffered, surround};
use crate::account::ServerMeans;
use crate::evidence::{Evidence, RequestRow};
use crate::gates::Gates;
use crate::law::{Law, ridge};
use crate::load::Load;

/// Fewest request rows from which a workload is taken as recorded.
pub(super) const MIN_ROWS: usize = 10;
/// Requests made up where neither rows nor a number of them are recorded.
const MADE_REQUESTS: usize = 1_000;
/// Most requests made up or replayed: 36 simulations of so many take half a second.
const MOST_REQUESTS: usize = 20_000;
/// Seats where no setting tells them, as recent vLLM on large devices.
const UNTOLD_SEATS: u32 = 1024;
/// Token budget where no setting tells it, as recent vLLM on large devices.
const UNTOLD_BUDGET: u32 = 8192;
/// KV blocks where the engine does not tell: more than any load here takes.
const MANY_BLOCKS: u32 = 4_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Baseline {
    /// The same system with the step laws that fit the run: at one end of what is known, the best, at the other.
    pub(super) scenarios: Vec<Scenario>,
    /// Each of them simulated as it was.
    pub(super) simulated: Vec<Figures>,
    pub(super) measured: Measured,
    /// What was read off the capture, a sentence each.
    pub(super) told: Vec<String>,
    /// Where the step law is from; nothing where it is only bounded.
    pub(super) law_from: Option<String>,
}

impl Baseline {
    pub(super) fn read(capture: &Capture, run_idx: u32) -> Result<Self, Refusal> {
        let mut baseline = Self::of(&capture.manifest.subject, &Evidence::read_requests(capture, run_idx))?;
        let unused = unused(capture);
        baseline.scenarios.iter_mut().for_each(|scenario| scenario.warnings.extend(unused.clone()));
        Ok(baseline)
    }

    /// The baseline of an arm that was read already.
    pub(super) fn of(subject: &Subject, evidence: &Evidence) -> Result<Self, Refusal> {
        let gates = Gates::read(evidence);
        let load = Load::read(evidence, &gates);
        let measured = Measured::read(evidence, &load);
        let mut notes = Notes::default();
        let workload = workload(evidence, &load, &mut notes)?;
        let system = system(evidence, &load, &workload, &mut notes);
        let run = Run {
            reused_frac: reused(evidence).unwrap_or(0.0),
            reusable_frac: evidence.figures.anywhere("kv.prefix_reusable"),
            arrivals_per_s: load.arrivals_per_s.unwrap_or(0.0),
            batch: (load.running_mean / load.engines()).max(1.0),
            kv_tokens: load.kv_capacity_tokens,
            prefix_caching: evidence.settings.flag("config.prefix_caching").or(reused(evidence).filter(|share| *share > 0.0).map(|_| true)),
        };
        let laws = laws(subject, evidence, &load, run.batch, &mut notes);
        if laws.is_empty() {
            return Err(Refusal::NoBaseline {
                missing: "neither a time per token nor steps tell what a step costs".into(),
                record: "record `/metrics` of the engine once a second, or a load client's result".into(),
            });
        }
        let workload = computed(&workload, &run);
        let base = Scenario {
            system,
            workload,
            cost: LinearCost::default(),
            deployment: deployment(subject, evidence, &load),
            run,
            assumed: notes.assumed,
            warnings: Vec::new(),
            unknowable: Vec::new(),
            device_width: 1.0,
        };
        let target = target(evidence, &measured);
        let scenarios: Result<Vec<Scenario>, Refusal> =
            laws.iter().map(|law| Ok(Scenario { cost: fit(&base, law, target)?, ..base.clone() })).collect();
        let scenarios = scenarios?;
        let simulated: Result<Vec<Figures>, Refusal> = scenarios.iter().map(Figures::simulate).collect();
        Ok(Self { scenarios, simulated: simulated?, measured, told: notes.told, law_from: notes.law_from })
    }

    /// The same with the best step law alone.
    pub(super) fn best(&self) -> Self {
        let at = self.scenarios.len() / 2;
        Self { scenarios: vec![self.scenarios[at].clone()], simulated: vec![self.simulated[at]], ..self.clone() }
    }

    /// What one arm measured, without anything to simulate.
    pub(super) fn measured(capture: &Capture, run_idx: u32) -> Measured {
        let evidence = Evidence::read_requests(capture, run_idx);
        Measured::read(&evidence, &Load::read(&evidence, &Gates::read(&evidence)))
    }

    /// True when at least one time was measured.
    pub(super) fn is_measured(&self) -> bool {
        Metric::ALL.into_iter().any(|metric| self.measured.get(metric).is_some())
    }

    /// Simulated over measured, by figure.
    pub(super) fn fidelity(&self, simulated: &Figures) -> Vec<(String, f64)> {
        let means = Metric::ALL.into_iter().filter(|metric| !metric.is_tail());
        means.filter_map(|metric| Some((metric.name().to_string(), self.fidelity_of(metric, simulated)?))).collect()
    }

    /// Simulated over measured of one figure, where it was measured.
    fn fidelity_of(&self, metric: Metric, simulated: &Figures) -> Option<f64> {
        self.measured.get(metric).filter(|value| *value > 0.0).map(|value| simulated.get(metric) / value)
    }

    /// What vouches for a figure: how its mean is repeated, and where that was not measured the worst of those that were.
    pub(super) fn vouched(&self, metric: Metric, simulated: &Figures) -> Option<f64> {
        let worst = || {
            let known = Metric::ALL.into_iter().filter(|metric| !metric.is_tail() && simulated.get(*metric) > 0.0);
            known.filter_map(|metric| self.fidelity_of(metric, simulated)).max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()))
        };
        self.fidelity_of(metric.mean(), simulated).or_else(worst)
    }

    /// True when rates of the simulated run stand for those of the measured one.
    pub(super) fn repeats_rates(&self) -> bool {
        let middle = &self.simulated[self.simulated.len() / 2];
        let figures = [Metric::OutputThroughput, Metric::TpotMean].into_iter().filter(|metric| middle.get(*metric) > 0.0);
        figures.filter_map(|metric| self.vouched(metric, middle)).all(|ratio| !is_unlike(ratio))
    }
}

#[derive(Default)]
pub(super) struct Notes {
    pub(super) told: Vec<String>,
    law_from: Option<String>,
    assumed: Vec<String>,
}

/// What of the capture says nothing here, where there is any.
fn unused(capture: &Capture) -> Option<String> {
    let skipped = capture.tables.issues.rows().filter(|issue| capture.text(issue.code) == PROFILE_SKIPPED).count();
    let events = capture.tables.device_events.device.len();
    match (skipped, events) {
        (0, 0) => None,
        (0, events) => Some(format!("{events} events of a profiler in the capture are not used: requests, settings and metrics are")),
        (files, _) => Some(format!("{files} timelines of a profiler were left out unread: requests, settings and metrics are used")),
    }
}

/// Step laws that fit the run: at one end of what is known, the best, at the other.
fn laws(subject: &Subject, evidence: &Evidence, load: &Load, batch: f64, notes: &mut Notes) -> Vec<StepLaw> {
    let law = Law::read(subject, evidence);
    let is_one = evidence.engines.len() <= 1 && !is_buffered(evidence) && drafts(evidence).is_none();
    let by_rows = || super::row_law::read(&evidence.client).filter(|_| is_one).map(|law| (law, "requests beside few and many others"));
    let known = match &law {
        Law::Known { law, from } => Some((*law, *from)),
        Law::Bounded { .. } | Law::Unknown { .. } => by_rows(),
    };
    if let Some((law, from)) = known {
        notes.told.push(format!("step law from {from}"));
        notes.law_from = Some(from.into());
        return [-1.0, 0.0, 1.0].map(|sign| slope_moved(&law, sign, batch)).to_vec();
    }
    notes.assumed.push(format!("between the step laws that fit the run: {}", law.from()));
    match law.span() {
        Some([low, _, high]) => vec![low, likely(&low, &high, subject, evidence, batch), high],
        None => [0.0, 0.5, 0.9].into_iter().filter_map(|slope| guessed(evidence, load, slope)).collect(),
    }
}

/// Between two bounds the split that physics makes likely: with `R` the ridge, a step of weights and arithmetic is
/// `w (1 + B / R)`, so that each of `B` sequences has `1 / (B + R)` of it.
fn likely(low: &StepLaw, high: &StepLaw, subject: &Subject, evidence: &Evidence, batch: f64) -> StepLaw {
    let step_s = low.step_s(batch, 0.0);
    let b_s = (step_s / (batch + ridge(subject, evidence))).clamp(low.b_s.min(high.b_s), high.b_s.max(low.b_s));
    StepLaw::from_parts((step_s - b_s * batch).max(0.0), b_s, low.c_s)
}

/// The recorded requests, else made-up ones of the recorded rate and mean lengths.
fn workload(evidence: &Evidence, load: &Load, notes: &mut Notes) -> Result<Workload, Refusal> {
    let timed = |rows: &[RequestRow]| -> Vec<(i64, Option<i64>, Option<i64>)> {
        rows.iter().filter(|row| row.ok).map(|row| (row.t_intended_ns.unwrap_or(row.t_sent_ns), row.tokens_in, row.tokens_out)).collect()
    };
    let rows =
        [&evidence.client, &evidence.gateway, &evidence.server].map(|rows| timed(rows)).into_iter().find(|rows| rows.len() >= MIN_ROWS);
    if let Some(rows) = rows {
        let first = rows.iter().map(|row| row.0).min().unwrap_or(0);
        let whole = |tokens: f64| tokens.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        let (prompt, output) = (load.prompt_tokens, load.output_tokens);
        let length = |own: Option<i64>, mean: Option<f64>| own.filter(|tokens| *tokens > 0).map(|tokens| tokens as f64).or(mean);
        let requests: Option<Vec<Request>> = rows
            .iter()
            .map(|(t, tokens_in, tokens_out)| {
                Some(Request::new(t - first, whole(length(*tokens_in, prompt)?), whole(length(*tokens_out, output)?)))
            })
            .collect();
        if let Some(requests) = requests {
            let part = if requests.len() > MOST_REQUESTS { format!("the first {MOST_REQUESTS} of ") } else { String::new() };
            notes.told.push(format!("{part}{} requests at the times and lengths recorded", requests.len()));
            return Ok(Workload::new(requests).first(MOST_REQUESTS));
        }
    }
    let (Some(per_s), Some(prompt), Some(output)) = (load.arrivals_per_s, load.prompt_tokens, load.output_tokens) else {
        return Err(Refusal::NoBaseline {
            missing: "the requests: neither rows of them nor a rate with mean prompt and output lengths".into(),
            record: "give the load client's result file, or scrapes of the engine's `/metrics` under load".into(),
        });
    };
    notes.told.push(format!("{per_s:.3} requests/s of {prompt:.0} prompt and {output:.0} output tokens in the mean"));
    notes.assumed.push("requests come independently of each other (Poisson), lengths log-normal around their means".into());
    let lengths = |mean: f64| Lengths::LogNormal { median: mean / 1.197, sigma: 0.6, most: (mean * 8.0).min(1e6) as u32 };
    let arrivals = Arrivals::Poisson { per_s };
    // As many as the run finished: a queue that grows is as long as the run.
    let count = if load.finished >= 1.0 { (load.finished as usize).clamp(MIN_ROWS, MOST_REQUESTS) } else { MADE_REQUESTS };
    Ok(Generator { count, arrivals, prompts: lengths(prompt), outputs: lengths(output), prefix: None, seed: 1 }.generate())
}

/// The same requests without the part of each prompt that came from the prefix cache, as a share.
fn computed(workload: &Workload, run: &Run) -> Workload {
    if run.reused_frac <= 0.0 {
        return workload.clone();
    }
    super::levers::with_prompt_share(workload, 1.0 - run.reused_frac)
}

/// Share of prompt tokens that came from the prefix cache.
fn reused(evidence: &Evidence) -> Option<f64> {
    let share = |part: &str, whole: &str| {
        let whole = evidence.growth(whole).filter(|whole| *whole > 0.0)?;
        Some((evidence.growth(part)? / whole).clamp(0.0, 0.99))
    };
    share("kv.prefix_hits", "kv.prefix_queries").or_else(|| evidence.figures.anywhere("kv.prefix_hit_ratio"))
}

fn system(evidence: &Evidence, load: &Load, workload: &Workload, notes: &mut Notes) -> SystemConfig {
    let settings = &evidence.settings;
    let whole = |key: &str| settings.number(key).filter(|value| (1.0..4e9).contains(value)).map(|value| value as u32);
    let block_series = evidence.engines.values().find_map(|engine| engine.series("kv.block_size")).map(|series| series.max() as u32);
    let block_tokens = whole("config.block_size").or(block_series.filter(|tokens| *tokens > 0)).unwrap_or(16);
    let blocks = load.kv_capacity_tokens.map(|tokens| ((tokens / f64::from(block_tokens)) as u32).max(2));
    if blocks.is_none() {
        notes.assumed.push("the KV cache never limits: its size is not told".into());
    }
    let mut engine = EngineConfig::vllm(blocks.map_or(MANY_BLOCKS, |blocks| blocks.saturating_sub(1)));
    engine.block_tokens = block_tokens;
    // Reuse is inside the prompts already, as a share; whose blocks are whose is not recorded.
    engine.prefix_caching = false;
    engine.max_num_seqs = load.seats.map_or(UNTOLD_SEATS, |seats| seats.clamp(1.0, 65_536.0) as u32);
    if load.seats.is_none() {
        notes.assumed.push(format!("{UNTOLD_SEATS} seats (max_num_seqs): the setting is not told"));
    }
    let budget = whole("config.max_num_batched_tokens");
    engine.max_num_batched_tokens = budget.unwrap_or(UNTOLD_BUDGET);
    if budget.is_none() {
        notes.assumed.push(format!("a budget of {UNTOLD_BUDGET} tokens per step: the setting is not told"));
    }
    engine.chunked_prefill = settings.flag("config.chunked_prefill").unwrap_or(true);
    engine.long_prefill_tokens = whole("config.long_prefill_token_threshold");
    engine.speculation = drafts(evidence);
    // A budget below the seats is one that the engine itself would have refused or raised.
    engine.max_num_batched_tokens = engine.max_num_batched_tokens.max(engine.max_num_seqs.saturating_mul(engine.depth() + 1));
    let mut system = SystemConfig::single(engine);
    let replicas = evidence.engines.len().max(1) as u32;
    system.topology = Topology::Unified { replicas };
    if replicas > 1 {
        system.routing = Routing::Weighted(weights(evidence));
    }
    surround(&mut system, evidence, workload, notes);
    system
}

/// Requests that each engine finished, as weights of the balancer.
fn weights(evidence: &Evidence) -> Vec<u32> {
    let finished = |engine: &crate::evidence::Engine| engine.observed("server.e2e").map_or(0.0, |delta| delta.count);
    let counts: Vec<u32> = evidence.engines.values().map(|engine| finished(engine).clamp(0.0, 1e9) as u32).collect();
    if counts.iter().all(|count| *count == 0) { vec![1; counts.len()] } else { counts }
}

/// Acceptance by position, each given that those before it were accepted.
fn drafts(evidence: &Evidence) -> Option<Speculation> {
    let depth = evidence.settings.number("config.speculative_tokens").filter(|depth| (1.0..=64.0).contains(depth))? as usize;
    let rate = evidence.growth("spec.accepted_tokens").zip(evidence.growth("spec.draft_tokens")).filter(|(_, drafted)| *drafted > 0.0);
    let mean = rate.map(|(accepted, drafted)| accepted / drafted).or_else(|| evidence.figures.anywhere("spec.acceptance_rate"))?;
    let drafted = evidence.growth("spec.drafts").filter(|drafts| *drafts > 0.0);
    let mut before = drafted.unwrap_or(0.0);
    let by_position: Option<Vec<f64>> = (0..depth)
        .map(|position| {
            let at = evidence
                .engines
                .values()
                .filter_map(|engine| engine.growth(&format!("spec.accepted_at_position{{position=\"{position}\"}}")))
                .reduce(|a, b| a + b)?;
            let share = if before > 0.0 { (at / before).clamp(0.0, 1.0) } else { 0.0 };
            before = at;
            Some(share)
        })
        .collect();
    let acceptance = by_position
        .filter(|_| drafted.is_some())
        .unwrap_or_else(|| vec![acceptance_of(1.0 + mean.clamp(0.0, 1.0) * depth as f64, depth as u32); depth]);
    Some(Speculation { acceptance, draft_step_ns: 0, draft_seq_ns: 0 })
}

/// Measured times of the engine itself: its own, else the client's.
fn target(evidence: &Evidence, measured: &Measured) -> Target {
    let server = ServerMeans::read(evidence);
    let tpot_s = evidence.mean("server.tpot").or_else(|| evidence.mean("server.itl")).or(measured.get(Metric::TpotMean));
    let own_prefill = server.as_ref().map(|means| means.prefill_s).filter(|s| *s > 0.0);
    Target { tpot_s, prefill_s: own_prefill.or(measured.get(Metric::TtftMean).filter(|_| server.is_none())) }
}

/// A nine-in-ten interval of a normal error is this many standard errors wide on each side.
const NINE_IN_TEN: f64 = 1.645;
/// No slope is known better than this.
const LEAST_SLOPE_ERROR: f64 = 0.05;

/// The law turned around the batch of the run: steeper or flatter as far as its error allows.
fn slope_moved(law: &StepLaw, sign: f64, batch: f64) -> StepLaw {
    let move_s = sign * (NINE_IN_TEN * law.b_se).max(LEAST_SLOPE_ERROR * law.b_s).min(law.b_s);
    StepLaw::from_parts((law.a_s - move_s * batch).max(0.0), law.b_s + move_s, law.c_s)
}

/// A law from the time per token alone, `slope` of the step going with the batch.
fn guessed(evidence: &Evidence, load: &Load, slope: f64) -> Option<StepLaw> {
    let tpot_s =
        evidence.mean("server.tpot").or_else(|| evidence.figures.typical("client.tpot")).or_else(|| evidence.mean("server.itl"))?;
    let batch = (load.running_mean / load.engines()).max(1.0);
    Some(StepLaw::from_parts(tpot_s * (1.0 - slope), tpot_s * slope / batch, 0.0))
}

/// Model and device from the tables, with the settings of the run.
fn deployment(subject: &Subject, evidence: &Evidence, load: &Load) -> Option<Deployment<'static>> {
    let whole = |key: &str| evidence.settings.number(key).filter(|ranks| (1.0..=1024.0).contains(ranks)).map_or(1, |ranks| ranks as u32);
    let weights = evidence.settings.weight_format().unwrap_or(Dtype::Bf16);
    let mut deployment = Deployment::new(model::models::find(&subject.model)?, model::hardware::find(&subject.device)?, weights);
    deployment.kv = evidence.settings.kv_format();
    deployment.tensor = whole("config.tensor_parallel");
    deployment.pipeline = whole("config.pipeline_parallel");
    deployment.kv_tokens = load.kv_capacity_tokens;
    Some(deployment)
}
