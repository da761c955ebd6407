//! A system that can be simulated: engine and surroundings, the requests, and what a step costs.

use model::deployment::Deployment;
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
    /// True when prefix caching is on.
    pub(super) prefix_caching: bool,
}
