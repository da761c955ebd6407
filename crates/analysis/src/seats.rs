//! What more seats would bring: headroom of the seat cap, by the step law.
//!
//! Seats own queue time only if the device could serve the same arrivals with more of them; otherwise the full seats
//! are a symptom of a saturated device (attribution, sections 0.5 and 2). Prefill is part of the service time:
//! headroom of decode alone passes at a true plateau.

use model::step_law::StepLaw;

use crate::law::Law;
use crate::load::Load;
use crate::situation::SATURATED_RHO;

/// Whether more seats would serve the load.
#[derive(Clone, Debug, PartialEq)]
pub enum Headroom {
    /// By the fitted law: this many seats bring utilization below saturation.
    Yes(Seats),
    /// Between the bounds of an unidentified law; `low` is true when even the pessimistic one gains at least 5 %.
    Maybe {
        /// Seats that the optimistic bound needs.
        seats: Seats,
        /// Whether the pessimistic bound gains too.
        low: bool,
    },
    /// Not by any number of seats.
    No {
        /// Utilization with as many seats as KV holds.
        rho: f64,
    },
    /// No law.
    Unknown,
}

/// A number of seats and what it does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seats {
    /// Seats to set.
    pub to: f64,
    /// Utilization now and then.
    pub rho_now: f64,
    /// Utilization with `to` seats.
    pub rho_then: f64,
    /// Requests per second at the present cap.
    pub ceiling_now: f64,
    /// Requests per second with `to` seats.
    pub ceiling_then: f64,
    /// Running requests in equilibrium with `to` seats.
    pub running_then: f64,
}

/// A larger batch counts as gaining from this throughput ratio (attribution, section 2).
const GAIN: f64 = 1.05;

/// Tests the seat cap of this load.
pub fn headroom(law: &Law, load: &Load) -> Headroom {
    let Some(cap) = load.seats else { return Headroom::Unknown };
    match law {
        Law::Unknown { .. } => Headroom::Unknown,
        Law::Known { law, .. } => match enough(law, load, cap) {
            Some(seats) => Headroom::Yes(seats),
            None => Headroom::No { rho: load.rho(law, largest(load, cap)).unwrap_or(1.0) },
        },
        Law::Bounded { optimistic, pessimistic, .. } => match enough(optimistic, load, cap) {
            None => Headroom::No { rho: load.rho(optimistic, largest(load, cap)).unwrap_or(1.0) },
            Some(best) => {
                let central = law.central().and_then(|central| enough(&central, load, cap));
                let low =
                    enough(pessimistic, load, cap).is_some() || gain(pessimistic, load, cap, 2.0 * cap).is_some_and(|gain| gain >= GAIN);
                Headroom::Maybe { seats: central.unwrap_or(best), low }
            }
        },
    }
}

/// Seats beyond which KV would be the limit (4,096 where KV is unknown).
fn largest(load: &Load, cap: f64) -> f64 {
    load.kv_seats().unwrap_or(4096.0).clamp(cap, 4096.0)
}

fn gain(law: &StepLaw, load: &Load, from: f64, to: f64) -> Option<f64> {
    Some(load.rho(law, from)? / load.rho(law, to)?)
}

/// The smallest doubling of the cap that brings utilization below saturation and holds the equilibrium's p99.
fn enough(law: &StepLaw, load: &Load, cap: f64) -> Option<Seats> {
    let (uncached, output) = (load.uncached_tokens?, load.output_tokens?);
    let arrivals = load.arrivals_per_engine()?;
    let limit = largest(load, cap);
    let rho_now = load.rho(law, cap)?;
    let mut to = 2.0 * cap;
    while to <= limit.max(2.0 * cap) && to <= 4096.0 {
        let rho_then = load.rho(law, to)?;
        if rho_then < SATURATED_RHO {
            let running_then = equilibrium(law, arrivals, uncached, output).unwrap_or(to).min(to);
            let fits = model::queueing::poisson_quantile(running_then, 0.99).is_some_and(|p99| p99 as f64 <= to);
            if fits || 2.0 * to > limit {
                let rate = |batch| law.rate_per_s(batch, uncached, output);
                return Some(Seats { to, rho_now, rho_then, ceiling_now: rate(cap), ceiling_then: rate(to), running_then });
            }
        }
        to *= 2.0;
    }
    None
}

/// Running requests when nothing caps them: N = arrivals x whole request, where each step carries N sequences and the
/// prompt tokens of those that join (N/O of them per step). `None` when no batch serves the load.
///
/// From N = r (c U + O (a + b N) + c U N): each running request sees O steps of T = a + b N + c U N / O.
pub fn equilibrium(law: &StepLaw, arrivals_per_s: f64, uncached: f64, output: f64) -> Option<f64> {
    let per_request = law.c_s * uncached;
    let grows = arrivals_per_s * (output * law.b_s + per_request);
    let running = arrivals_per_s * (per_request + output * law.a_s) / (1.0 - grows);
    (grows < 1.0 && running.is_finite()).then_some(running)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arithmetic of the shipped case `open_loop_32`.
    #[test]
    fn the_first_screen_case_closes() {
        // X(B) = B / (1.95 + 0.04175 B): 250 tokens of 7.8 ms + 0.167 ms per sequence, prompt work inside the constant.
        let law = StepLaw::from_parts(0.0078, 0.000_167, 0.0);
        assert!((law.rate_per_s(32.0, 900.0, 250.0) - 9.74).abs() < 0.01);
        assert!((law.rate_per_s(64.0, 900.0, 250.0) - 13.85).abs() < 0.01);
        let running = equilibrium(&law, 9.4, 900.0, 250.0).unwrap();
        assert!((running - 30.2).abs() < 0.1, "{running}");
    }
}
