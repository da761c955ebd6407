//! Loads made up from rates and length distributions, by seed. What comes out is simulated and must be called so.

use super::{Builder, Request, Workload};
use crate::rng::Rng;

/// When requests come; rates are per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At equal distances.
    Constant {
        /// Requests per second.
        per_s: f64,
    },
    /// Independent of each other.
    Poisson {
        /// Requests per second.
        per_s: f64,
    },
    /// With gamma distances: a coefficient of variation above 1 comes in clumps, below 1 evenly.
    Gamma {
        /// Requests per second.
        per_s: f64,
        /// Standard deviation of the distances over their mean.
        variation: f64,
    },
    /// Poisson with a higher rate in the first part of each period.
    Bursts {
        /// Requests per second outside bursts.
        per_s: f64,
        /// Requests per second in bursts.
        burst_per_s: f64,
        /// From one burst to the next, seconds.
        period_s: f64,
        /// Length of a burst, seconds.
        burst_s: f64,
    },
    /// Poisson with a rate that rises or falls in a line, then stays.
    Ramp {
        /// Requests per second at the start.
        from_per_s: f64,
        /// Requests per second at the end.
        to_per_s: f64,
        /// Length of the ramp, seconds.
        ramp_s: f64,
    },
}

/// How long prompts or answers are.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// All the same.
    Fixed(u32),
    /// `median x exp(sigma x normal)`, cut at `most`.
    LogNormal {
        /// Median tokens.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
        /// Most tokens.
        most: u32,
    },
    /// Drawn from these, each equally likely; empty means 1 token.
    Empirical(Vec<u32>),
}

impl Lengths {
    fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            Self::Fixed(tokens) => (*tokens).max(1),
            Self::LogNormal { median, sigma, most } => {
                let tokens = median * (sigma * rng.normal()).exp();
                if tokens.is_finite() { tokens.round().clamp(1.0, f64::from((*most).max(1))) as u32 } else { 1 }
            }
            Self::Empirical(seen) => {
                let at = rng.below(seen.len() as u32) as usize;
                seen.get(at).map_or(1, |&tokens| tokens.max(1))
            }
        }
    }
}

/// Prompts that start with one of a few common texts (system prompts, documents).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPrefix {
    /// How many different ones; the session of a request says which.
    pub texts: u32,
    /// Blocks of each.
    pub blocks: u32,
    /// Tokens per block.
    pub block_tokens: u32,
}

/// A load that is not a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// How many requests.
    pub count: usize,
    /// When.
    pub arrivals: Arrivals,
    /// Prompt lengths, beyond a shared prefix.
    pub prompts: Lengths,
    /// Answer lengths.
    pub outputs: Lengths,
    /// Common starts of prompts.
    pub prefix: Option<SharedPrefix>,
    /// Seed.
    pub seed: u64,
}

/// Longest distance between two requests, seconds.
const LONGEST_GAP_S: f64 = 1e6;

/// Draws per request while thinning: rates that are 0 nearly always end at the longest distance instead of looping.
const MOST_DRAWS: u32 = 1_000_000;

impl Generator {
    /// Draws the workload; the same seed draws the same.
    pub fn generate(&self) -> Workload {
        let (mut gaps, mut lengths) = (Rng::new(self.seed, 1), Rng::new(self.seed, 2));
        let mut builder = Builder::default();
        let (mut now_s, mut own_block) = (0.0, u64::from(u32::MAX));
        let mut blocks = Vec::new();
        for at in 0..self.count {
            if at > 0 {
                now_s += self.arrivals.gap_s(now_s, &mut gaps);
            }
            let mut request = Request::new((now_s * 1e9) as i64, self.prompts.draw(&mut lengths), self.outputs.draw(&mut lengths));
            blocks.clear();
            if let Some(prefix) = self.prefix {
                let text = lengths.below(prefix.texts.max(1));
                request.session = text;
                // Blocks beyond the prefix are nobody else's and stay unnamed, but for one that ends the shared part.
                blocks.extend((0..prefix.blocks).map(|block| u64::from(text) * u64::from(prefix.blocks) + u64::from(block)));
                own_block += 1;
                blocks.push(own_block);
                let shared = u64::from(prefix.blocks) * u64::from(prefix.block_tokens.max(1));
                request.prompt_tokens = (u64::from(request.prompt_tokens) + shared).min(u64::from(u32::MAX)) as u32;
            }
            builder.push(request, &blocks);
        }
        builder.finish(self.prefix.map_or(0, |prefix| prefix.block_tokens.max(1)))
    }
}

impl Arrivals {
    /// Seconds from a request at `now_s` to the next.
    fn gap_s(&self, now_s: f64, rng: &mut Rng) -> f64 {
        let gap_s = match *self {
            Self::Constant { per_s } => 1.0 / per_s,
            Self::Poisson { per_s } => rng.exponential() / per_s,
            Self::Gamma { per_s, variation } => rng.gamma_mean1(1.0 / (variation * variation)) / per_s,
            Self::Bursts { per_s, burst_per_s, .. } => self.thinned_gap_s(now_s, per_s.max(burst_per_s), rng),
            Self::Ramp { from_per_s, to_per_s, .. } => self.thinned_gap_s(now_s, from_per_s.max(to_per_s), rng),
        };
        if gap_s.is_finite() { gap_s.clamp(0.0, LONGEST_GAP_S) } else { LONGEST_GAP_S }
    }

    /// A changing rate by thinning (Lewis and Shedler, 1979): draw at the highest rate, keep by the rate at that moment.
    fn thinned_gap_s(&self, now_s: f64, highest_per_s: f64, rng: &mut Rng) -> f64 {
        let mut gap_s = 0.0;
        for _ in 0..MOST_DRAWS {
            gap_s += rng.exponential() / highest_per_s;
            if rng.uniform() * highest_per_s < self.rate_at(now_s + gap_s) {
                return gap_s;
            }
            if gap_s.is_nan() || gap_s >= LONGEST_GAP_S {
                break;
            }
        }
        LONGEST_GAP_S
    }

    fn rate_at(&self, at_s: f64) -> f64 {
        match *self {
            Self::Constant { per_s } | Self::Poisson { per_s } | Self::Gamma { per_s, .. } => per_s,
            Self::Bursts { per_s, burst_per_s, period_s, burst_s } => {
                if at_s.rem_euclid(period_s) < burst_s {
                    burst_per_s
                } else {
                    per_s
                }
            }
            Self::Ramp { from_per_s, to_per_s, ramp_s } => {
                let done = if ramp_s > 0.0 { (at_s / ramp_s).min(1.0) } else { 1.0 };
                from_per_s + (to_per_s - from_per_s) * done
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(arrivals: Arrivals, count: usize) -> Workload {
        Generator { count, arrivals, prompts: Lengths::Fixed(100), outputs: Lengths::Fixed(10), prefix: None, seed: 3 }.generate()
    }

    fn rate_and_variation(workload: &Workload) -> (f64, f64) {
        let gaps: Vec<f64> = workload.requests().windows(2).map(|pair| (pair[1].arrival_ns - pair[0].arrival_ns) as f64 / 1e9).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (1.0 / mean, variance.sqrt() / mean)
    }

    #[test]
    fn rates_and_burstiness_are_as_asked() {
        for (arrivals, variation) in [
            (Arrivals::Constant { per_s: 8.0 }, 0.0),
            (Arrivals::Poisson { per_s: 8.0 }, 1.0),
            (Arrivals::Gamma { per_s: 8.0, variation: 2.0 }, 2.0),
            (Arrivals::Gamma { per_s: 8.0, variation: 0.5 }, 0.5),
        ] {
            let (rate, found) = rate_and_variation(&drawn(arrivals, 40_000));
            assert!((rate / 8.0 - 1.0).abs() < 0.03, "{arrivals:?}: {rate}");
            assert!((found - variation).abs() < 0.05, "{arrivals:?}: {found}");
        }
    }

    #[test]
    fn bursts_and_ramps_follow_the_clock() {
        let bursts = drawn(Arrivals::Bursts { per_s: 1.0, burst_per_s: 20.0, period_s: 10.0, burst_s: 2.0 }, 20_000);
        let inside = bursts.requests().iter().filter(|request| request.arrival_ns % 10_000_000_000 < 2_000_000_000).count();
        assert!((inside as f64 / 20_000.0 - 40.0 / 48.0).abs() < 0.01, "{inside}");
        let ramp = drawn(Arrivals::Ramp { from_per_s: 1.0, to_per_s: 19.0, ramp_s: 100.0 }, 1_000);
        let first_half = ramp.requests().iter().filter(|request| request.arrival_ns < 50_000_000_000).count();
        assert!((first_half as f64 / 275.0 - 1.0).abs() < 0.2, "5.5 per second for 50 s: {first_half}");
    }

    #[test]
    fn lengths_and_prefixes() {
        let generator = Generator {
            count: 20_000,
            arrivals: Arrivals::Poisson { per_s: 10.0 },
            prompts: Lengths::LogNormal { median: 400.0, sigma: 0.8, most: 4_000 },
            outputs: Lengths::Empirical(vec![10, 30]),
            prefix: Some(SharedPrefix { texts: 3, blocks: 4, block_tokens: 64 }),
            seed: 1,
        };
        let workload = generator.generate();
        assert_eq!(workload, generator.generate());
        let mut prompts: Vec<u32> = workload.requests().iter().map(|request| request.prompt_tokens - 256).collect();
        prompts.sort_unstable();
        assert!((f64::from(prompts[10_000]) / 400.0 - 1.0).abs() < 0.05);
        assert!(*prompts.last().unwrap() <= 4_000);
        assert!((workload.mean_tokens().1 - 20.0).abs() < 0.3);
        assert_eq!(workload.distinct_blocks(), 3 * 4 + 20_000);
    }

    #[test]
    fn hostile_rates_end() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            for arrivals in [
                Arrivals::Constant { per_s: bad },
                Arrivals::Gamma { per_s: bad, variation: bad },
                Arrivals::Bursts { per_s: bad, burst_per_s: bad, period_s: bad, burst_s: bad },
                Arrivals::Ramp { from_per_s: bad, to_per_s: bad, ramp_s: bad },
            ] {
                assert_eq!(drawn(arrivals, 3).requests().len(), 3, "{arrivals:?}");
            }
        }
        let endless = Generator {
            count: 2,
            arrivals: Arrivals::Constant { per_s: 1.0 },
            prompts: Lengths::LogNormal { median: f64::NAN, sigma: 1e9, most: 0 },
            outputs: Lengths::Empirical(Vec::new()),
            prefix: Some(SharedPrefix { texts: 0, blocks: 0, block_tokens: 0 }),
            seed: 0,
        };
        assert_eq!(endless.generate().requests()[1].prompt_tokens, 1);
    }
}
