//! A system that can be simulated: engine and surroundings, the requests, and what a step costs.

use model::deployment::Deployment;
use simulate::config::Topology;
use simulate::cost::LinearCost;
use simulate::{SystemConfig, Workload};

use super::figures::Metric;

/// See the module. Levers change a copy.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) system: SystemConfig,
    pub(super) workload: Workload,
    pub(super) cost: LinearCost,
    /// Model and device, where both are in the tables.
    pub(super) deployment: Option<Deployment<'static>>,
    /// What a lever may need of the run.
    pub(super) run: Run,
    pub(super) assumed: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Figures that a change makes unknowable, and why.
    pub(super) unknowable: Vec<(Metric, String)>,
    /// Width of the range that a device lever brings, as a factor above 1.
    pub(super) device_width: f64,
}

impl Scenario {
    /// Requests per second of all engines together with `batch` sequences always running on each:
    /// `n / (c u + O / y (a / B + b + c k))`, the rate of [`model::step_law::StepLaw::rate_per_s`] with steps that yield `y` tokens
    /// from `k` drafts. Nothing for pools apart, which have two such rates, and for a load without tokens.
    pub(super) fn rate_per_s(&self, batch: f64) -> Option<f64> {
        let Topology::Unified { replicas } = self.system.topology else { return None };
        let (prompt, output) = self.workload.mean_tokens();
        let engine = &self.system.engine;
        let (mut yields, mut reached) = (1.0, 1.0);
        for chance in engine.speculation.iter().flat_map(|drafts| &drafts.acceptance) {
            reached *= chance;
            yields += reached;
        }
        let step_s = self.cost.a_s / batch.max(1.0) + self.cost.b_s + self.cost.c_s * f64::from(engine.depth());
        let service_s = self.cost.c_s * prompt + output / yields * step_s;
        let rate = f64::from(replicas) / service_s;
        (service_s > 0.0 && rate.is_finite()).then_some(rate)
    }

    /// Sequences per engine that seats, connections and the KV cache allow, and which of them it is.
    pub(super) fn largest_batch(&self) -> (f64, Holds) {
        let engine = &self.system.engine;
        let (prompt, output) = self.workload.mean_tokens();
        let held = f64::from(engine.kv_blocks) * f64::from(engine.block_tokens) / (prompt + 0.5 * output).max(1.0);
        let replicas = if let Topology::Unified { replicas } = self.system.topology { f64::from(replicas.max(1)) } else { 1.0 };
        let connections = self.system.front.connection_cap.map(|cap| (f64::from(cap) / replicas, Holds::Connections));
        let all = [(f64::from(engine.max_num_seqs), Holds::Seats), (held, Holds::Kv)].into_iter().chain(connections);
        let (batch, holds) = all.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((1.0, Holds::Seats));
        (batch.max(1.0), holds)
    }

    /// Most requests per second: as many sequences as it may run, all the time.
    pub(super) fn ceiling_per_s(&self) -> Option<f64> {
        self.rate_per_s(self.largest_batch().0)
    }
}

/// What keeps a batch from growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// `max_num_seqs`.
    Seats,
    /// The KV cache is full.
    Kv,
    /// Connections in front of the engine.
    Connections,
}

/// Facts of the run beyond what the simulation takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    /// Share of prompt tokens that came from the prefix cache.
    pub(super) reused_frac: f64,
    /// Share that one unlimited cache would have held, where somebody tells.
    pub(super) reusable_frac: Option<f64>,
    /// Arrivals per second.
    pub(super) arrivals_per_s: f64,
    /// Sequences that decode at once.
    pub(super) batch: f64,
    /// KV capacity in tokens per engine, where the engine tells.
    pub(super) kv_tokens: Option<f64>,
    /// Whether prefix caching is on, where a setting or hits tell.
    pub(super) prefix_caching: Option<bool>,
}

#[cfg(test)]
mod tests {
    use simulate::Request;
    use simulate::config::EngineConfig;

    use super::*;
    use crate::whatif::figures::Figures;

    /// Many more requests at once than `seats` take, each of 100 prompt and 60 output tokens.
    fn flooded(seats: u32, blocks: u32, connections: Option<u32>) -> Scenario {
        let mut engine = EngineConfig { max_num_seqs: seats, ..EngineConfig::vllm(blocks) };
        engine.prefix_caching = false;
        let mut system = SystemConfig::single(engine);
        system.front.connection_cap = connections;
        Scenario {
            system,
            workload: Workload::new((0..600).map(|at| Request::new(at, 100, 60)).collect()),
            cost: LinearCost { a_s: 0.008, b_s: 0.000_5, c_s: 20e-6, ..LinearCost::default() },
            deployment: None,
            run: Run::default(),
            assumed: Vec::new(),
            warnings: Vec::new(),
            unknowable: Vec::new(),
            device_width: 1.0,
        }
    }

    #[test]
    fn a_flooded_system_makes_what_its_ceiling_says() {
        for (scenario, holds) in [
            (flooded(8, 100_000, None), Holds::Seats),
            (flooded(32, 100_000, None), Holds::Seats),
            (flooded(64, 100_000, Some(6)), Holds::Connections),
            (flooded(64, 131, None), Holds::Kv),
        ] {
            let made = Figures::simulate(&scenario).unwrap().tokens_per_s / 60.0;
            let ceiling = scenario.ceiling_per_s().unwrap();
            assert_eq!(scenario.largest_batch().1, holds);
            // Blocks are counted in tokens of half-grown requests: near, not equal.
            let within = if holds == Holds::Kv { 0.15 } else { 0.05 };
            assert!((made / ceiling - 1.0).abs() < within, "{holds:?}: {made} and {ceiling}");
        }
    }
}
