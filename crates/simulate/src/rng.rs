//! Random numbers by seed: xoshiro256++ (Blackman and Vigna, 2019, public domain), seeded by SplitMix64.
//!
//! Our own forty lines, so that a seed means the same outcome in every build: versions of a crate may change streams. Not
//! for secrets.

/// A stream of random numbers; equal seeds give equal streams.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// One step of SplitMix64, which also serves as a hash of one number.
pub fn split_mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of `seed`; `stream` separates users of one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut at = split_mix(seed) ^ split_mix(stream ^ 0x5851_f42d_4c95_7f2d);
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            split_mix(at)
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let drawn = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let (t2, t3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ t3, s1 ^ t2, t2 ^ (s1 << 17), t3.rotate_left(45)];
        drawn
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..`bound`, 0 for a bound of 0. The bias is below 2^-32 for bounds in use.
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Standard normal (Box and Muller, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// Gamma with this shape and mean 1 (Marsaglia and Tsang, 2000). Shapes are held to 1e-3..=1e6.
    pub fn gamma_mean1(&mut self, shape: f64) -> f64 {
        let shape = if shape.is_finite() { shape.clamp(1e-3, 1e6) } else { 1.0 };
        // Below 1: draw at shape + 1 and thin by a power of a uniform.
        let (inner, power) = if shape < 1.0 { (shape + 1.0, (1.0 - self.uniform()).powf(1.0 / shape)) } else { (shape, 1.0) };
        let d = inner - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.uniform()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v * power / shape;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let n = 200_000;
        let (sum, squares) = (0..n).map(|_| draw()).fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) - mean * mean)
    }

    #[test]
    fn distributions_have_their_mean_and_variance() {
        let mut rng = Rng::new(7, 0);
        let near = |(mean, variance): (f64, f64), want: (f64, f64), what: &str| {
            assert!((mean - want.0).abs() < 0.02 * want.0.max(1.0), "{what}: mean {mean}");
            assert!((variance - want.1).abs() < 0.06 * want.1.max(0.1), "{what}: variance {variance}");
        };
        near(moments(|| rng.uniform()), (0.5, 1.0 / 12.0), "uniform");
        near(moments(|| rng.exponential()), (1.0, 1.0), "exponential");
        near(moments(|| rng.normal()), (0.0, 1.0), "normal");
        near(moments(|| rng.gamma_mean1(4.0)), (1.0, 0.25), "gamma 4");
        near(moments(|| rng.gamma_mean1(0.25)), (1.0, 4.0), "gamma 1/4");
        near(moments(|| f64::from(rng.below(11))), (5.0, 10.0), "below 11");
    }

    /// The first outputs of the published generator from the state 1, 2, 3, 4.
    #[test]
    fn the_stream_is_that_of_the_reference() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| Rng::new(seed, stream).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 1));
        assert_ne!(first(0, 0), first(0, 1));
    }
}
