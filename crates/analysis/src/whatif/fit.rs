//! The simulated engine made to repeat the run: its step law scaled until time per token and prefill time are those measured.
//!
//! The law of the capture ([`crate::law`]) says how the price of a step splits into what every step pays and what each
//! sequence adds. A few rounds of simulation then scale both ends of that split to the measured times, so that what the law
//! leaves out (attention over longer contexts, the way through the API process) is inside and not beside.

use model::step_law::StepLaw;
use simulate::cost::LinearCost;

use super::Refusal;
use super::figures::Figures;
use super::scenario::Scenario;

/// Rounds of simulation; the error falls to a third in each.
const ROUNDS: usize = 6;
/// Share of the error that a round takes away, in logarithms: queueing feeds back on both times.
const STEP: f64 = 0.7;
/// Requests of a longer workload that the fit looks at.
const MOST_REQUESTS: usize = 2_000;

/// Measured times of the engine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Target {
    /// Time per output token.
    pub(super) tpot_s: Option<f64>,
    /// First scheduled to first token.
    pub(super) prefill_s: Option<f64>,
}

/// A cost per law: scaled to the target by simulating `scenario`, whose own cost does not count.
pub(super) fn fit(scenario: &Scenario, law: &StepLaw, target: Target) -> Result<LinearCost, Refusal> {
    let mut trial = scenario.clone();
    if trial.workload.requests().len() > MOST_REQUESTS {
        trial.workload = simulate::Workload::new(trial.workload.requests()[..MOST_REQUESTS].to_vec());
    }
    trial.cost = LinearCost::from(law);
    let (prompt, _) = trial.workload.mean_tokens();
    if let (Some(prefill_s), true) = (target.prefill_s, trial.cost.c_s <= 0.0) {
        trial.cost.c_s = 0.5 * prefill_s / prompt.max(1.0);
    }
    for _ in 0..ROUNDS {
        let figures = Figures::simulate(&trial)?;
        let step = |wanted: Option<f64>, got: f64| match wanted {
            Some(wanted) if wanted > 0.0 && got > 0.0 => (wanted / got).powf(STEP).clamp(0.2, 5.0),
            _ => 1.0,
        };
        let decode = step(target.tpot_s, figures.engine_tpot_s);
        let prefill = step(target.prefill_s, figures.prefill_mean_s);
        trial.cost.a_s *= decode;
        trial.cost.b_s *= decode;
        trial.cost.c_s *= prefill;
    }
    Ok(trial.cost)
}
