//! How much of the reserved KV memory holds tokens, by how memory is reserved; from lengths alone.
//!
//! A request holds its prompt and one more token each step: `p, p + 1, ..., p + o - 1` over `o` steps. Contiguous
//! allocators reserve for the end from the start (Orca's variants in Kwon et al., SOSP 2023, Figure 2); paged ones
//! reserve the blocks that are touched. Shares are weighted by time with one step as the unit, each request held to
//! its end. External fragmentation, sharing of blocks and preemption are left out, so contiguous figures are upper limits.

/// Prompt and answer length of one request, tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Prompt.
    pub prompt: u32,
    /// Answer.
    pub output: u32,
}

/// What is reserved for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The longest request allowed, in one piece; longer ones take what they need.
    Contiguous {
        /// Tokens.
        max_len: u32,
    },
    /// The prompt and the answer rounded up to a power of two, in one piece.
    PowerOfTwo,
    /// Exactly what the request will need at its end, known beforehand.
    Oracle,
    /// Blocks as they are touched.
    Paged {
        /// Tokens per block; 0 counts as 1.
        block_tokens: u32,
    },
}

/// Tokens held and reserved, summed over steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUse {
    /// Token-steps that hold a token.
    pub held: u128,
    /// Token-steps reserved.
    pub reserved: u128,
}

impl KvUse {
    /// Share of the reserved memory that holds tokens; 1 where nothing is reserved.
    pub fn used_frac(&self) -> f64 {
        if self.reserved == 0 { 1.0 } else { self.held as f64 / self.reserved as f64 }
    }

    /// How many times as many requests fit with `other` as with this.
    pub fn concurrency_gain(&self, other: &Self) -> f64 {
        other.used_frac() / self.used_frac().max(f64::MIN_POSITIVE)
    }
}

/// Held and reserved memory of all requests.
pub fn kv_use(requests: impl IntoIterator<Item = Lengths>, reservation: Reservation) -> KvUse {
    requests.into_iter().fold(KvUse::default(), |sum, lengths| {
        let (held, reserved) = (held(lengths), reserved(lengths, reservation));
        KvUse { held: sum.held + held, reserved: sum.reserved + reserved }
    })
}

/// `sum of p + j for j in 0..o`.
fn held(lengths: Lengths) -> u128 {
    let (prompt, output) = (u128::from(lengths.prompt), u128::from(lengths.output));
    prompt * output + output * output.saturating_sub(1) / 2
}

fn reserved(lengths: Lengths, reservation: Reservation) -> u128 {
    let (prompt, output) = (u128::from(lengths.prompt), u128::from(lengths.output));
    match reservation {
        Reservation::Contiguous { max_len } => u128::from(max_len).max(prompt + output) * output,
        Reservation::PowerOfTwo => (prompt + if output == 0 { 0 } else { output.next_power_of_two() }) * output,
        Reservation::Oracle => (prompt + output) * output,
        Reservation::Paged { block_tokens } => {
            let block = u128::from(block_tokens.max(1));
            block
                * (blocks_up_to(prompt + output.saturating_sub(1), block) - blocks_up_to(prompt.saturating_sub(1), block))
                * u128::from(output > 0)
        }
    }
}

/// `sum of ceil(x / block) for x in 1..=last`.
fn blocks_up_to(last: u128, block: u128) -> u128 {
    let (whole, rest) = (last / block, last % block);
    block * whole * (whole + 1) / 2 + rest * (whole + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_request_by_hand() {
        // Holds 5, 6, 7 tokens over its three steps.
        let one = [Lengths { prompt: 5, output: 3 }];
        let used = |reservation| kv_use(one, reservation);
        assert_eq!(used(Reservation::Contiguous { max_len: 10 }), KvUse { held: 18, reserved: 30 });
        assert_eq!(used(Reservation::Contiguous { max_len: 4 }), KvUse { held: 18, reserved: 24 });
        assert_eq!(used(Reservation::PowerOfTwo), KvUse { held: 18, reserved: 27 });
        assert_eq!(used(Reservation::Oracle), KvUse { held: 18, reserved: 24 });
        assert_eq!(used(Reservation::Paged { block_tokens: 4 }), KvUse { held: 18, reserved: 24 });
        assert_eq!(used(Reservation::Paged { block_tokens: 6 }), KvUse { held: 18, reserved: 24 });
        assert_eq!(used(Reservation::Paged { block_tokens: 0 }), KvUse { held: 18, reserved: 18 });
        let contiguous = used(Reservation::Contiguous { max_len: 10 });
        assert!((contiguous.concurrency_gain(&used(Reservation::Paged { block_tokens: 1 })) - 30.0 / 18.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_the_largest() {
        assert_eq!(kv_use([], Reservation::Oracle).used_frac(), 1.0);
        for lengths in [Lengths { prompt: 0, output: 0 }, Lengths { prompt: u32::MAX, output: u32::MAX }] {
            for reservation in [
                Reservation::Contiguous { max_len: u32::MAX },
                Reservation::PowerOfTwo,
                Reservation::Oracle,
                Reservation::Paged { block_tokens: u32::MAX },
                Reservation::Paged { block_tokens: 1 },
            ] {
                assert!((0.0..=1.0).contains(&kv_use([lengths], reservation).used_frac()), "{lengths:?} {reservation:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_are_counted_as_one_would(prompt in 0u32..200, output in 0u32..200, block_tokens in 1u32..40) {
            let slow: u128 = (0..output).map(|step| u128::from((prompt + step).div_ceil(block_tokens) * block_tokens)).sum();
            let lengths = Lengths { prompt, output };
            prop_assert_eq!(reserved(lengths, Reservation::Paged { block_tokens }), slow);
            prop_assert!(held(lengths) <= slow);
        }
    }
}
