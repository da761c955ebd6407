//! The arbiter's own properties, on random ledgers and claims.

use analysis::arbiter::{End, RankedClaim, settle};
use analysis::claims::{Basis, Claim, Extent};
use analysis::ledger::Ledger;
use analysis::phase::Phase;
use proptest::prelude::*;

const OWNERS: [&str; 5] = ["alpha", "beta", "gamma", "delta", "epsilon"];
const PHASES: [Phase; 3] = [Phase::Queue, Phase::Prefill, Phase::Decode];

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        (0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64).prop_map(|(a, b, c)| {
            let mut ends = [a, b, c];
            ends.sort_unstable_by(f64::total_cmp);
            Extent::Fraction { lo: ends[0], mid: ends[1], hi: ends[2] }
        }),
        proptest::collection::vec(0i64..1000, 2..8).prop_map(|mut times| {
            times.sort_unstable();
            times.dedup();
            Extent::Intervals(times.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
        }),
    ]
}

fn claims() -> impl Strategy<Value = Vec<(usize, Claim)>> {
    let claim = (0..OWNERS.len(), 0..PHASES.len(), extent())
        .prop_map(|(owner, phase, what)| (owner, Claim { phase: PHASES[phase], what, basis: Basis::Measured }));
    proptest::collection::vec(claim, 0..12)
}

fn ledger() -> impl Strategy<Value = Ledger> {
    proptest::collection::vec((1i64..1_000_000, proptest::collection::vec(0.0..5.0f64, 1..10)), 3).prop_map(|phases| {
        let mut ledger = Ledger::default();
        for (phase, (size, weights)) in PHASES.into_iter().zip(phases) {
            let spans: Vec<(i64, i64, f64)> =
                weights.iter().enumerate().map(|(at, &weight)| (100 * at as i64, 100 * (at as i64 + 1), weight)).collect();
            ledger.add_spread(phase, size, &spans);
        }
        ledger
    })
}

fn ranked(claims: &[(usize, Claim)]) -> Vec<RankedClaim<'_>> {
    claims.iter().map(|(owner, claim)| RankedClaim { owner: OWNERS[*owner], rank: *owner as u16, claim }).collect()
}

proptest! {
    #[test]
    fn owned_and_unowned_add_up_to_the_ledger(ledger in ledger(), claims in claims()) {
        for end in [End::Low, End::Middle, End::High] {
            let result = settle(&ledger, &ranked(&claims), end);
            let owned: i64 = OWNERS.iter().map(|owner| result.owned_ns(owner)).sum();
            prop_assert_eq!(owned + result.unowned_ns(), ledger.total_ns());
            prop_assert!(OWNERS.iter().all(|owner| result.owned_ns(owner) >= 0) && result.unowned_ns() >= 0);
        }
    }

    #[test]
    fn order_of_claims_does_not_matter(ledger in ledger(), claims in claims(), seed in any::<u64>()) {
        let mut shuffled = ranked(&claims);
        let mut state = seed | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        prop_assert_eq!(settle(&ledger, &ranked(&claims), End::Middle), settle(&ledger, &shuffled, End::Middle));
    }

    #[test]
    fn removing_a_check_never_lowers_anothers_share(ledger in ledger(), claims in claims(), removed in 0..OWNERS.len()) {
        let all = settle(&ledger, &ranked(&claims), End::Middle);
        let rest: Vec<(usize, Claim)> = claims.iter().filter(|(owner, _)| *owner != removed).cloned().collect();
        let without = settle(&ledger, &ranked(&rest), End::Middle);
        // Cells are cut at the claims' edges; each cut may round a nanosecond.
        let slack = 64;
        for owner in OWNERS.iter().enumerate().filter(|(at, _)| *at != removed).map(|(_, owner)| owner) {
            prop_assert!(without.owned_ns(owner) + slack >= all.owned_ns(owner), "{}: {} < {}", owner, without.owned_ns(owner), all.owned_ns(owner));
        }
    }

    #[test]
    fn scaling_time_scales_what_is_owned(claims in claims(), sizes in proptest::collection::vec(1_000i64..1_000_000, 3)) {
        let build = |factor: i64| {
            let mut ledger = Ledger::default();
            for (phase, size) in PHASES.into_iter().zip(&sizes) {
                ledger.add_sum(phase, size * factor);
            }
            ledger
        };
        let (once, twice) = (settle(&build(1), &ranked(&claims), End::Middle), settle(&build(2), &ranked(&claims), End::Middle));
        for owner in OWNERS {
            prop_assert!((2 * once.owned_ns(owner) - twice.owned_ns(owner)).abs() <= 2 * claims.len() as i64 + 2);
        }
    }
}
