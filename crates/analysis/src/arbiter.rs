//! One arbiter decides who owns each second: claims are served by rank, each takes what is left of its cells.

use std::collections::BTreeMap;

use crate::claims::{Claim, Extent};
use crate::ledger::Ledger;
use crate::phase::Phase;

/// A claim with what the arbiter orders by.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedClaim<'a> {
    /// Who claims.
    pub owner: &'static str,
    /// Static rank; lower is served first.
    pub rank: u16,
    /// The claim.
    pub claim: &'a Claim,
}

/// Which end of fraction claims to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Low ends.
    Low,
    /// Best estimates.
    Middle,
    /// High ends.
    High,
}

/// Who owns how much, request-ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    owned: BTreeMap<&'static str, BTreeMap<Phase, i64>>,
    unowned: BTreeMap<Phase, i64>,
    /// Of the first-token time that no phase covers, what claims on unmeasured phases own.
    pub owned_of_unsplit_ns: i64,
}

impl Ownership {
    /// What `owner` owns over all phases.
    pub fn owned_ns(&self, owner: &str) -> i64 {
        self.owned.get(owner).map_or(0, |phases| phases.values().sum())
    }

    /// What `owner` owns in one phase.
    pub fn owned_in_ns(&self, owner: &str, phase: Phase) -> i64 {
        self.owned.get(owner).and_then(|phases| phases.get(&phase)).copied().unwrap_or(0)
    }

    /// What nobody owns in one phase.
    pub fn unowned_in_ns(&self, phase: Phase) -> i64 {
        self.unowned.get(&phase).copied().unwrap_or(0)
    }

    /// What nobody owns.
    pub fn unowned_ns(&self) -> i64 {
        self.unowned.values().sum()
    }
}

/// Serves all claims. The result depends on the set of claims only, not on their order.
pub fn settle(ledger: &Ledger, claims: &[RankedClaim<'_>], end: End) -> Ownership {
    let mut ledger = ledger.clone();
    cut_at_claims(&mut ledger, claims);
    let mut left: BTreeMap<Phase, Vec<i64>> =
        ledger.phases().map(|phase| (phase, ledger.cells(phase).iter().map(|cell| cell.size_ns).collect())).collect();
    let mut ownership = Ownership::default();
    let mut order: Vec<&RankedClaim<'_>> = claims.iter().collect();
    order.sort_by(|a, b| key(a, end).partial_cmp(&key(b, end)).unwrap_or(std::cmp::Ordering::Equal));
    for ranked in order {
        let phase = ranked.claim.phase;
        let taken = match left.get_mut(&phase) {
            Some(left) => take(&ledger, phase, left, &ranked.claim.what, end),
            None if phase.before_first_token() => take_unsplit(&ledger, &mut ownership, &ranked.claim.what, end),
            None => continue,
        };
        *ownership.owned.entry(ranked.owner).or_default().entry(phase).or_default() += taken;
    }
    ownership.unowned = left.into_iter().map(|(phase, cells)| (phase, cells.iter().sum())).collect();
    ownership
}

/// A share of the first-token time that was given without parts, as far as nobody owns it yet.
fn take_unsplit(ledger: &Ledger, ownership: &mut Ownership, what: &Extent, end: End) -> i64 {
    let Extent::Fraction { .. } = what else { return 0 };
    let size = ledger.unsplit_first_ns.max(0);
    let wanted = (share_at(what, end) * size as f64).round() as i64;
    let taken = wanted.clamp(0, size - ownership.owned_of_unsplit_ns);
    ownership.owned_of_unsplit_ns += taken;
    taken
}

/// Rank, then intervals before fractions, then name: a total order that no input order disturbs.
fn key(ranked: &RankedClaim<'_>, end: End) -> (u16, bool, &'static str, Phase, f64) {
    let fraction = match &ranked.claim.what {
        Extent::Intervals(_) => 0.0,
        Extent::Fraction { .. } => share_at(&ranked.claim.what, end),
    };
    (ranked.rank, matches!(ranked.claim.what, Extent::Fraction { .. }), ranked.owner, ranked.claim.phase, fraction)
}

fn share_at(extent: &Extent, end: End) -> f64 {
    let Extent::Fraction { lo, mid, hi } = extent else { return 1.0 };
    let share = match end {
        End::Low => *lo,
        End::Middle => *mid,
        End::High => *hi,
    };
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

fn take(ledger: &Ledger, phase: Phase, left: &mut [i64], what: &Extent, end: End) -> i64 {
    match what {
        Extent::Intervals(runs) => {
            let mut taken = 0;
            for (cell, left) in ledger.cells(phase).iter().zip(left.iter_mut()) {
                let at = runs.partition_point(|&(_, run_end)| run_end <= cell.t_start_ns);
                if runs.get(at).is_some_and(|&(run_start, run_end)| run_start <= cell.t_start_ns && cell.t_end_ns <= run_end) {
                    taken += std::mem::take(left);
                }
            }
            taken
        }
        Extent::Fraction { .. } => {
            let mut wanted = (share_at(what, end) * ledger.size_ns(phase) as f64).round() as i64;
            let available: i64 = left.iter().sum();
            wanted = wanted.clamp(0, available);
            drain(left, wanted, available);
            wanted
        }
    }
}

/// Takes `wanted` out of the cells in proportion to what each has left, exactly.
fn drain(left: &mut [i64], wanted: i64, available: i64) {
    let (mut seen, mut given) = (0i128, 0i64);
    for cell in left.iter_mut() {
        seen += i128::from(*cell);
        let upto = (seen * i128::from(wanted) / i128::from(available.max(1))) as i64;
        let part = (upto - given).min(*cell);
        *cell -= part;
        given += part;
    }
    let mut rest = wanted - given;
    for cell in left.iter_mut().rev() {
        let part = rest.min(*cell);
        *cell -= part;
        rest -= part;
    }
}

fn cut_at_claims(ledger: &mut Ledger, claims: &[RankedClaim<'_>]) {
    let mut edges: BTreeMap<Phase, Vec<i64>> = BTreeMap::new();
    for ranked in claims {
        if let Extent::Intervals(runs) = &ranked.claim.what {
            edges.entry(ranked.claim.phase).or_default().extend(runs.iter().flat_map(|&(start, end)| [start, end]));
        }
    }
    for (phase, mut cuts) in edges {
        cuts.sort_unstable();
        cuts.dedup();
        ledger.refine(phase, &cuts);
    }
}
