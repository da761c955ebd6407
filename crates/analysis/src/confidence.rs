//! How sure a verdict is: c = g x s x j, printed in five steps (attribution, section 5).

use crate::check::{Answer, Check, Missing};
use crate::claims::Basis;
use crate::client_health;
use crate::on_device::Beside;
use crate::phase::Phase;
use crate::settlement::Settlement;
use crate::situation::Situation;
use crate::words::percent;

/// Steps a confidence is printed in.
pub const STEPS: [f64; 5] = [0.95, 0.9, 0.75, 0.6, 0.4];
/// Nothing is printed above this until its confidence bin holds 50 verdicts of which 46 are right.
pub const UNVALIDATED_CAP: f64 = 0.75;
/// Cap for verdicts that rest on typed numbers alone.
pub const TYPED_CAP: f64 = 0.6;
/// Cap for verdicts on time that only a client measured which was itself the limit: below what names a failure mode.
pub const CLIENT_LIMITED_CAP: f64 = 0.4;
/// Below this the failure mode, and below this again the layer, is not named.
pub const NAMED: f64 = 0.5;

/// A confidence and its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Confidence {
    /// c, before printing.
    pub value: f64,
    /// As printed.
    pub printed: f64,
    /// Why.
    pub because: String,
}

/// Confidence in `winner`, which owns `own_ns` of the loss.
pub fn of(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    winner: &Check,
    basis: Option<Basis>,
) -> Confidence {
    let own_ns = settlement.share(winner.id).owned_ns as f64;
    // What another check of the winner's own layer owns makes the failure mode doubtful (`second_in_layer_ns`), not the layer.
    let second_ns = largest_owner_ns(settlement, winner, |check| check.layer != winner.layer);
    let (rival, rival_ns) =
        rivals(situation, answers, settlement, winner).into_iter().fold(("", 0.0), |best, next| if next.1 > best.1 { next } else { best });
    let basis_weight = basis.map_or(Basis::Bound.weight(), Basis::weight);
    let separation = if own_ns > 0.0 { own_ns / (own_ns + second_ns.max(rival_ns)) } else { 1.0 };
    let (integrity, doubts) = integrity(situation);
    let mut value = basis_weight * separation * integrity;
    let mut reasons = vec![format!("its time is {}", basis.map_or("not measured", Basis::as_str))];
    if rival_ns > second_ns && rival_ns > 0.05 * own_ns {
        reasons.push(format!("{rival} could still own {}", percent(rival_ns / settlement.loss_ns.max(1) as f64)));
    }
    reasons.extend(doubts);
    let typed = situation.account.vantage == "typed" || !(situation.evidence.has_timeline() || situation.account.is_of_devices());
    if typed && value > TYPED_CAP {
        value = TYPED_CAP;
        reasons.push("without a series over time at most 0.6".into());
    }
    if !matches!(winner.validated_on, "recorded" | "trace" | "report") && value > TYPED_CAP {
        value = TYPED_CAP;
        reasons.push(format!("unvalidated: tried on {} evidence only", winner.validated_on));
    }
    if let Some(sentence) = blamed_by_a_late_client(situation, settlement, winner) {
        value = value.min(CLIENT_LIMITED_CAP);
        reasons.push(sentence);
    }
    let raw = STEPS.into_iter().find(|step| value >= *step).unwrap_or(0.4);
    let printed = raw.min(UNVALIDATED_CAP);
    if printed < raw {
        reasons.push(format!("{raw} is not printed before 50 verdicts of a kind were checked"));
    }
    Confidence { value, printed, because: reasons.join("; ") }
}

/// Why a verdict on time that only a late client measured is worth little: most of what the winner owns lies in phases that
/// nothing but the client's stamps tells, and the client was the limit.
fn blamed_by_a_late_client(situation: &Situation<'_>, settlement: &Settlement, winner: &Check) -> Option<String> {
    if winner.id == "client_bound" {
        return None;
    }
    let is_split_by_server = situation.evidence.observed("server.ttft").is_some();
    let is_clients = |phase: Phase| matches!(phase, Phase::Client | Phase::Transfer | Phase::Stream) || !is_split_by_server;
    let owned = |phase: &Phase| settlement.ownership.owned_in_ns(winner.id, *phase);
    let all: i64 = winner.phases.iter().map(owned).sum();
    let by_client: i64 = winner.phases.iter().filter(|phase| is_clients(**phase)).map(owned).sum();
    if all == 0 || by_client * 2 <= all {
        return None;
    }
    client_health::may_explain(situation, by_client as f64 * 1e-9 / situation.n())
        .map(|sentence| sentence.trim_end_matches('.').to_string())
}

/// What the largest other owner has whose check passes, request-ns.
fn largest_owner_ns(settlement: &Settlement, winner: &Check, passes: impl Fn(&Check) -> bool) -> f64 {
    let others = settlement.shares.iter().filter(|(owner, _)| **owner != winner.id);
    others.filter(|(owner, _)| crate::checks::find(owner).is_some_and(&passes)).map(|(_, share)| share.owned_ns as f64).fold(0.0, f64::max)
}

/// What the largest other check of the winner's layer owns, request-ns.
pub fn second_in_layer_ns(settlement: &Settlement, winner: &Check) -> f64 {
    largest_owner_ns(settlement, winner, |check| check.layer == winner.layer)
}

/// What each undecided check could own at most, request-ns: the unowned size of the phases it may claim, plus what the
/// winner holds there if it precedes the winner, capped by its own bound.
pub fn rivals(
    situation: &Situation<'_>,
    answers: &[(&'static Check, Answer)],
    settlement: &Settlement,
    winner: &Check,
) -> Vec<(&'static str, f64)> {
    // Typed figures are what somebody looked at; most checks cannot tell from them. They are no rivals, and the
    // confidence is capped for it instead.
    undecided(answers)
        .filter(|(check, _)| check.id != winner.id && !situation.is_typed())
        .map(|(check, missing)| {
            let mut potential = potential_ns(situation, settlement, check, missing);
            if check.rank < winner.rank {
                let held: i64 = check.phases.iter().map(|&phase| settlement.ownership.owned_in_ns(winner.id, phase)).sum();
                let cap = missing.at_most_s.map_or(f64::INFINITY, |s| s * situation.n() * 1e9);
                potential = (potential + held as f64).min(cap);
            }
            (check.id, potential)
        })
        .collect()
}

/// The unowned size of the phases an undecided check may claim, capped by its own bound, request-ns.
pub fn potential_ns(situation: &Situation<'_>, settlement: &Settlement, check: &Check, missing: &Missing) -> f64 {
    let phases = check.phases.iter().map(|&phase| Some(phase)).chain(std::iter::once(None));
    let unowned: i64 = phases.filter_map(|phase| settlement.unowned_by_phase.get(&phase)).sum();
    let cap = missing.at_most_s.map_or(f64::INFINITY, |s| s * situation.n() * 1e9);
    (unowned as f64).min(cap)
}

/// The checks that could not tell.
pub fn undecided<'a>(answers: &'a [(&'static Check, Answer)]) -> impl Iterator<Item = (&'static Check, &'a Missing)> {
    answers.iter().filter_map(|(check, answer)| match answer {
        Answer::CannotTell(missing) => Some((*check, missing)),
        _ => None,
    })
}

/// Integrity of the input: 1, less for a Little gap above tolerance and for a lone scrape's lifetime totals.
fn integrity(situation: &Situation<'_>) -> (f64, Vec<String>) {
    let mut factor = 1.0;
    let mut doubts = Vec::new();
    if let Some((gap, tolerance)) = situation.load.little
        && gap > tolerance
    {
        factor *= 0.8;
        doubts.push(format!("Little's law is off by {}", percent(gap)));
    }
    if Beside::of(situation) == Some(Beside::Apart) {
        factor *= 0.8;
        doubts.push("the devices were recorded at another time than the requests, or on another clock".into());
    }
    if situation.account.has_foreign_load() {
        factor *= 0.8;
        doubts.push(format!(
            "the server finished {}x the client's requests: its means are of a wider mix",
            crate::words::digits(situation.account.server_over_client.unwrap_or(1.0))
        ));
    }
    if let Some(conflict) = situation.evidence.settings.conflicts().first() {
        factor *= 0.7;
        doubts.push(format!("two configurations in one input: {conflict}"));
    }
    if let Some(seats) = situation.load.seats.filter(|seats| situation.load.running_max > 1.05 * seats + 0.5) {
        factor *= 0.6;
        doubts.push(format!(
            "{} ran where {} may: settings and gauges are not of one server",
            crate::words::count(situation.load.running_max),
            crate::words::count(seats)
        ));
    }
    if situation.account.lifetime {
        factor *= 0.8;
        doubts.push("totals since start-up, not of a window".into());
    }
    if situation.evidence.from_log && situation.evidence.has_timeline() && !situation.account.is_empty() {
        factor *= 0.8;
        doubts.push("gauges from log lines every ten seconds".into());
    }
    (factor, doubts)
}
