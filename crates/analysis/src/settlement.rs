//! The loss ledger of one arm, settled: what each check owns of what the requests lost.

use std::collections::BTreeMap;

use crate::arbiter::{End, Ownership, RankedClaim, settle};
use crate::check::{Answer, Check, Found};
use crate::claims::{Basis, Claim, Extent};
use crate::ledger::Ledger;
use crate::phase::Phase;
use crate::precedence::{OWN_FLOOR, OWN_FLOOR_ID, SHARING, SHARING_ID};
use crate::situation::Situation;

/// Unit of analysis: until the first token, or the whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Sent to first token.
    FirstToken,
    /// Sent to last token.
    Whole,
}

impl Scope {
    /// True for phases inside this unit.
    pub fn covers(self, phase: Phase) -> bool {
        self == Self::Whole || phase.before_first_token()
    }

    /// Its size over the population, ns.
    pub fn size_ns(self, situation: &Situation<'_>) -> i64 {
        match self {
            Self::FirstToken => situation.account.first_token_ns,
            Self::Whole => situation.account.total_ns,
        }
    }
}

/// What one owner has of the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Low end.
    pub lo: f64,
    /// Best estimate.
    pub mid: f64,
    /// High end.
    pub hi: f64,
    /// Best estimate in request-ns.
    pub owned_ns: i64,
}

/// A settled ledger.
#[derive(Clone, Debug, Default)]
pub struct Settlement {
    /// Size of the unit over the population, ns.
    pub size_ns: i64,
    /// Loss: size less what the floor owns, ns.
    pub loss_ns: i64,
    /// Shares of the loss by owner; checks and sharing.
    pub shares: BTreeMap<&'static str, Share>,
    /// Loss nobody owns, ns.
    pub unowned_ns: i64,
    /// The same by phase; phase-less rest under `None`.
    pub unowned_by_phase: BTreeMap<Option<Phase>, i64>,
    /// Who owns what, best estimate.
    pub ownership: Ownership,
}

impl Settlement {
    /// Settles the claims of all answers.
    pub fn new(situation: &Situation<'_>, answers: &[(&'static Check, Answer)], scope: Scope) -> Self {
        let ledger = ledger(situation, scope);
        let own: Vec<(&'static str, u16, Claim)> = floor_claims(situation, scope);
        let mut claims: Vec<RankedClaim<'_>> = own.iter().map(|(owner, rank, claim)| RankedClaim { owner, rank: *rank, claim }).collect();
        for (check, found) in found(answers) {
            claims.extend(found.claims.iter().map(|claim| RankedClaim { owner: check.id, rank: check.rank, claim }));
        }
        let [low, middle, high] = [End::Low, End::Middle, End::High].map(|end| settle(&ledger, &claims, end));
        let size_ns = scope.size_ns(situation);
        let loss_ns = (size_ns - middle.owned_ns(OWN_FLOOR_ID)).max(0);
        let share_of = |owner: &'static str| {
            let share = |ns: i64| if loss_ns > 0 { ns as f64 / loss_ns as f64 } else { 0.0 };
            let mut ends = [low.owned_ns(owner), middle.owned_ns(owner), high.owned_ns(owner)];
            let owned_ns = ends[1];
            // Claims of others may shrink or grow with the end taken; the range must still hold the estimate.
            ends.sort_unstable();
            Share { lo: share(ends[0]), mid: share(owned_ns), hi: share(ends[2]).min(1.0), owned_ns }
        };
        let mut shares: BTreeMap<&'static str, Share> = found(answers).map(|(check, _)| (check.id, share_of(check.id))).collect();
        shares.insert(SHARING_ID, share_of(SHARING_ID));
        let mut unowned_by_phase: BTreeMap<Option<Phase>, i64> =
            ledger.phases().map(|phase| (Some(phase), middle.unowned_in_ns(phase))).collect();
        unowned_by_phase.insert(None, (size_ns - ledger.total_ns() - middle.owned_of_unsplit_ns).max(0));
        let unowned_ns = unowned_by_phase.values().sum();
        Self { size_ns, loss_ns, shares, unowned_ns, unowned_by_phase, ownership: middle }
    }

    /// Share of the loss that an owner has.
    pub fn share(&self, owner: &str) -> Share {
        self.shares.get(owner).copied().unwrap_or_default()
    }

    /// Unowned loss as a share of the whole unit, 0 for an empty one.
    pub fn unowned_of_size(&self) -> f64 {
        if self.size_ns > 0 { self.unowned_ns as f64 / self.size_ns as f64 } else { 0.0 }
    }
}

/// The checks that found something.
pub fn found<'a>(answers: &'a [(&'static Check, Answer)]) -> impl Iterator<Item = (&'static Check, &'a Found)> {
    answers.iter().filter_map(|(check, answer)| match answer {
        Answer::Found(found) => Some((*check, &**found)),
        _ => None,
    })
}

fn ledger(situation: &Situation<'_>, scope: Scope) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.unsplit_first_ns = situation.account.unattributed_first_ns;
    for (&phase, &size_ns) in situation.account.parts.iter().filter(|(phase, _)| scope.covers(**phase)) {
        if phase == Phase::Queue && situation.load.engine_count <= 1 {
            let weights: Vec<(i64, i64, f64)> =
                situation.gates.gated.iter().map(|gated| (gated.moment.t_start_ns, gated.moment.t_end_ns, gated.weight_s())).collect();
            ledger.add_spread(phase, size_ns, &weights);
        } else {
            ledger.add_sum(phase, size_ns);
        }
    }
    ledger
}

/// The floor and, below saturation, the price of batching.
fn floor_claims(situation: &Situation<'_>, scope: Scope) -> Vec<(&'static str, u16, Claim)> {
    let mut claims = Vec::new();
    // A claim on a phase that was not measured by itself is served from the unsplit first-token time.
    let unsplit_s = situation.unsplit_first_token_s();
    let unmeasured = Phase::ALL.into_iter().find(|phase| phase.before_first_token() && situation.phase_s(*phase) <= 0.0);
    if let Some(phase) = unmeasured.filter(|_| unsplit_s > 0.0 && situation.floors.unsplit_first_s > 0.0) {
        let share = (situation.floors.unsplit_first_s / unsplit_s).min(1.0);
        claims.push((OWN_FLOOR_ID, OWN_FLOOR, Claim { phase, what: Extent::exactly(share), basis: Basis::Counterfactual }));
    }
    let mut claim = |owner, rank, phase, seconds: f64| {
        let size = situation.phase_s(phase);
        let share = if size > 0.0 { (seconds / size).clamp(0.0, 1.0) } else { 0.0 };
        if share > 0.0 {
            claims.push((owner, rank, Claim { phase, what: Extent::exactly(share), basis: Basis::Counterfactual }));
        }
    };
    for phase in Phase::ALL.into_iter().filter(|phase| scope.covers(*phase)) {
        claim(OWN_FLOOR_ID, OWN_FLOOR, phase, situation.floors.s(phase));
    }
    if let Some(sharing) = &situation.sharing {
        for (phase, seconds) in [(Phase::Api, sharing.api_s), (Phase::Prefill, sharing.prefill_s), (Phase::Decode, sharing.decode_s)] {
            if scope.covers(phase) {
                claim(SHARING_ID, SHARING, phase, seconds);
            }
        }
    }
    claims
}
