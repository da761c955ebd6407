//! The step law `T = a + b B + c P`: what one engine step costs with `B` decoding sequences and `P` prompt tokens.
//!
//! Fitted on the user's own scrapes ([`fit`]), it answers most questions about batching: the rate a seat cap allows, how
//! full the server is, where it would settle without the cap. It is linear on purpose: three coefficients are what one
//! window can identify. Speculative steps, several models in one engine and prefill on other machines are left out.
//!
//! Symbols: `O` output tokens per request, `u` prompt tokens computed (not found in the prefix cache) per request.

mod fit;

pub use fit::{BATCH_SPREAD_NEEDED, ERROR_LIMIT_FRAC, INTERVALS_NEEDED, Interval, NotIdentifiable, POOLED_STEPS, RESIDUAL_LIMIT_FRAC, fit};

use crate::memory::plausible;

/// Step cost and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepLaw {
    /// Seconds of any step.
    pub a_s: f64,
    /// Seconds per decoding sequence.
    pub b_s: f64,
    /// Seconds per prompt token computed.
    pub c_s: f64,
    /// Root mean square of (busy - predicted) / busy, outliers weighed down as in the fit; 0 for laws not fitted.
    pub residual_frac: f64,
    /// Intervals used after pooling; 0 for laws not fitted.
    pub interval_count: usize,
    /// Smallest mean batch among them.
    pub batch_min: f64,
    /// Largest mean batch among them; beyond it the law extrapolates.
    pub batch_max: f64,
    /// Standard error of `a_s`, seconds.
    pub a_se: f64,
    /// Standard error of `b_s`, seconds.
    pub b_se: f64,
    /// Standard error of `c_s`, seconds.
    pub c_se: f64,
}

impl StepLaw {
    /// A law from known coefficients: a simulation, a trace, a bound. Negative and non-finite costs count as 0.
    pub fn from_parts(a_s: f64, b_s: f64, c_s: f64) -> Self {
        let (a_s, b_s, c_s) = (plausible(a_s), plausible(b_s), plausible(c_s));
        Self { a_s, b_s, c_s, residual_frac: 0.0, interval_count: 0, batch_min: 0.0, batch_max: 0.0, a_se: 0.0, b_se: 0.0, c_se: 0.0 }
    }

    /// One step: `a + b B + c P`.
    pub fn step_s(&self, decode_seqs: f64, prefill_tokens: f64) -> f64 {
        self.a_s + self.b_s * plausible(decode_seqs) + self.c_s * plausible(prefill_tokens)
    }

    /// Engine time per request at batch `B`: `s(B) = c u + O (a / B + b)`, since `B` requests share each `a`.
    pub fn service_s(&self, batch: f64, uncached_tokens: f64, output_tokens: f64) -> f64 {
        self.c_s * plausible(uncached_tokens) + plausible(output_tokens) * (self.a_s / plausible(batch).max(1.0) + self.b_s)
    }

    /// Rate with `B` seats always taken: `X(B) = 1 / s(B)`, at most 1e12 for requests that cost nothing.
    pub fn rate_per_s(&self, batch: f64, uncached_tokens: f64, output_tokens: f64) -> f64 {
        1.0 / self.service_s(batch, uncached_tokens, output_tokens).max(1e-12)
    }

    /// Utilization at batch `B`: `rho = lambda s(B)`. At 1 and above the queue grows without end.
    pub fn rho(&self, arrivals_per_s: f64, batch: f64, uncached_tokens: f64, output_tokens: f64) -> f64 {
        plausible(arrivals_per_s) * self.service_s(batch, uncached_tokens, output_tokens)
    }

    /// The batch at which the engine keeps up without any cap: `N` with `X(N) = lambda`, that is
    /// `N = lambda (c u N + O (a + b N))`, or `None` when no batch keeps up (`lambda (c u + O b) >= 1`).
    pub fn equilibrium_batch(&self, arrivals_per_s: f64, uncached_tokens: f64, output_tokens: f64) -> Option<f64> {
        let (arrivals, output) = (plausible(arrivals_per_s), plausible(output_tokens));
        let per_seat = arrivals * (self.c_s * plausible(uncached_tokens) + output * self.b_s);
        let batch = arrivals * output * self.a_s / (1.0 - per_seat);
        (per_seat < 1.0 && batch.is_finite() && batch >= 0.0).then_some(batch)
    }

    /// Time per output token while `B` seats are taken, the others' prompts included:
    /// `a + b B + c u B / O` (each step completes `B / O` requests, so it computes their share of prompts).
    pub fn tpot_s(&self, batch: f64, uncached_tokens: f64, output_tokens: f64) -> f64 {
        self.step_s(batch, plausible(uncached_tokens) * plausible(batch) / plausible(output_tokens).max(1.0))
    }

    /// Decode of one request if no prompt interrupts it: `O (a + b B)`.
    pub fn decode_s(&self, batch: f64, output_tokens: f64) -> f64 {
        plausible(output_tokens) * self.step_s(batch, 0.0)
    }

    /// From first scheduling to last token of one request at batch `B`: `B s(B)`, by Little's law on the seats.
    pub fn e2e_s(&self, batch: f64, uncached_tokens: f64, output_tokens: f64) -> f64 {
        plausible(batch).max(1.0) * self.service_s(batch, uncached_tokens, output_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the first screen: 250 output tokens, 7.6 + 0.167 B ms, and 0.05 s of prefill that holds a
    /// seat, spread over the output as 0.2 ms: `X(B) = B / (1.95 + 0.04175 B)`.
    const EXAMPLE: (f64, f64, f64) = (0.0078, 0.000_167, 250.0);

    #[test]
    fn the_first_screen_adds_up() {
        let (a_s, b_s, output) = EXAMPLE;
        let law = StepLaw::from_parts(a_s, b_s, 0.0);
        assert!((law.rate_per_s(32.0, 0.0, output) - 9.74).abs() < 0.005);
        assert!((law.rate_per_s(64.0, 0.0, output) - 13.85).abs() < 0.005);
        assert!((law.equilibrium_batch(9.4, 0.0, output).unwrap() - 30.2).abs() < 0.05);
        assert!((law.rho(9.4, 32.0, 0.0, output) - 0.965).abs() < 0.001);
        assert_eq!(crate::queueing::poisson_quantile(30.2, 0.99), Some(44));
    }

    #[test]
    fn prompts_cost_a_seat_what_they_cost_the_engine() {
        // The same load with its prompts as engine time: 900 tokens at 26.7 us take 0.096 ms of each token.
        let folded = StepLaw::from_parts(0.0076, 0.000_167, 0.0);
        let split = StepLaw::from_parts(0.0076, 0.000_167 - 900.0 * 26.7e-6 / 250.0, 26.7e-6);
        for batch in [1.0, 8.0, 32.0, 64.0] {
            assert!((folded.rate_per_s(batch, 900.0, 250.0) / split.rate_per_s(batch, 900.0, 250.0) - 1.0).abs() < 1e-9);
            assert!((folded.tpot_s(batch, 900.0, 250.0) / split.tpot_s(batch, 900.0, 250.0) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_settled_batch_serves_the_arrivals() {
        let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
        let batch = law.equilibrium_batch(9.4, 900.0, 250.0).unwrap();
        assert!((law.rate_per_s(batch, 900.0, 250.0) - 9.4).abs() < 1e-9);
        assert!((9.4 * law.e2e_s(batch, 900.0, 250.0) - batch).abs() < 1e-9, "Little's law on the seats");
        assert_eq!(law.equilibrium_batch(30.0, 900.0, 250.0), None, "no batch keeps up with 30 per second");
    }

    #[test]
    fn larger_batches_serve_more_and_slower() {
        let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
        for batch in 1..512 {
            let (here, next) = (f64::from(batch), f64::from(batch + 1));
            assert!(law.rate_per_s(next, 900.0, 250.0) > law.rate_per_s(here, 900.0, 250.0));
            assert!(law.tpot_s(next, 900.0, 250.0) > law.tpot_s(here, 900.0, 250.0));
            assert!(law.decode_s(next, 250.0) < law.e2e_s(next, 900.0, 250.0));
        }
    }

    #[test]
    fn hostile_numbers_stay_finite() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 1e308] {
            for law in [StepLaw::from_parts(bad, bad, bad), StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6)] {
                for value in [
                    law.step_s(bad, bad),
                    law.service_s(bad, bad, bad),
                    law.rate_per_s(bad, bad, bad),
                    law.rho(bad, bad, bad, bad),
                    law.tpot_s(bad, bad, bad),
                    law.decode_s(bad, bad),
                    law.e2e_s(bad, bad, bad),
                    law.equilibrium_batch(bad, bad, bad).unwrap_or(0.0),
                ] {
                    assert!(value.is_finite() && value >= 0.0, "{bad}: {value}");
                }
            }
        }
    }
}
