//! Everything a check may look at: one arm, read once.

use std::collections::BTreeMap;

use capture::Subject;

use crate::account::RequestAccount;
use crate::arms::are_of_one_system;
use crate::evidence::Evidence;
use crate::floors::{Floors, LimitSet, Sharing};
use crate::gates::Gates;
use crate::law::Law;
use crate::load::Load;
use crate::phase::Phase;
use crate::whatif::Foretold;

/// One arm with its account, gates, law, load and floors.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// What was measured.
    pub subject: &'a Subject,
    /// The arm's evidence.
    pub evidence: &'a Evidence,
    /// Where the time went.
    pub account: RequestAccount,
    /// Who held the queue.
    pub gates: Gates,
    /// Step law.
    pub law: Law,
    /// Offered and served load.
    pub load: Load,
    /// Reference.
    pub floors: Floors,
    /// Price of batching, below saturation only.
    pub sharing: Option<Sharing>,
    /// Limits the user set, beside what was measured.
    pub limits: Vec<LimitSet>,
    /// Limits the user set that no floor can hold.
    pub unused_limits: Vec<String>,
    /// The other arm, read the same way.
    pub baseline: Option<Box<Situation<'a>>>,
    /// All arms of the capture, this one among them.
    pub arms: &'a [Evidence],
    /// What changes would do to this arm, by the same simulation as `inferoscope whatif`.
    pub foretold: Foretold<'a>,
}

/// Utilization from which a server counts as saturated: at 0.85 the wait of a queue with ordinary spread is several
/// service times and moves nonlinearly with load (attribution, sections 0.5 and 2).
pub const SATURATED_RHO: f64 = 0.85;

impl<'a> Situation<'a> {
    /// Reads one arm against an optional baseline arm and the user's limits.
    pub fn read(subject: &'a Subject, evidence: &'a Evidence, baseline: Option<Self>, slo: &BTreeMap<String, f64>) -> Self {
        let account = RequestAccount::read(evidence, baseline.as_ref().map(|baseline| baseline.evidence));
        let gates = Gates::read(evidence);
        let own_law = Law::read(subject, evidence);
        let load = Load::read(evidence, &gates);
        // A baseline that ran at several batch sizes knows the law that an arm standing at its cap cannot show.
        let law = match (&own_law, baseline.as_ref().map(|baseline| &baseline.law)) {
            (Law::Known { .. }, _) | (_, None | Some(Law::Bounded { .. } | Law::Unknown { .. })) => own_law,
            (_, Some(Law::Known { law, .. })) => Law::Known { law: *law, from: "the baseline arm" },
        };
        let mut floors = match &baseline {
            Some(base) if !base.account.is_empty() && !account.is_empty() => Floors::from_baseline(&base.account, &base.load, &load),
            _ => Floors::own(evidence, &account, &law, &load),
        };
        let unused_limits = floors.accept(&account, &load, slo);
        let limits = crate::floors::measured_limits(&account, &load, slo);
        let mut situation = Self {
            subject,
            evidence,
            account,
            gates,
            law,
            load,
            floors,
            sharing: None,
            unused_limits,
            limits,
            baseline: baseline.map(Box::new),
            arms: &[],
            foretold: Foretold::new(subject, evidence),
        };
        situation.sharing = situation.predict_sharing();
        situation
    }

    #[must_use]
    /// The same among all arms of its capture, so that a check can compare them.
    pub fn among(mut self, arms: &'a [Evidence]) -> Self {
        self.arms = arms;
        self
    }

    /// The other arms of this system in order, whatever they changed, then a baseline from another capture.
    pub fn other_arms(&self) -> impl Iterator<Item = &'a Evidence> {
        let (here, arms) = (self.evidence, self.arms);
        let beside = arms.iter().filter(move |arm| arm.run_idx != here.run_idx);
        let is_apart = move |base: &&Evidence| !std::ptr::eq(*base, here) && !arms.iter().any(|arm| std::ptr::eq(arm, *base));
        let apart = self.baseline.as_ref().map(|baseline| baseline.evidence).filter(is_apart);
        beside.chain(apart).filter(move |arm| are_of_one_system(here, arm))
    }

    /// True when figures were typed and no series over time stands behind them.
    pub fn is_typed(&self) -> bool {
        self.account.vantage == "typed" || (self.account.is_empty() && !self.evidence.has_timeline())
    }

    /// True when requests were measured over time, so that an undecided check must say what it could own.
    pub fn is_timed(&self) -> bool {
        !self.is_typed() && !self.account.is_empty()
    }

    /// Requests of the run: finished in the window, else as typed.
    pub fn load_or_typed_requests(&self) -> Option<f64> {
        Some(self.load.finished_or_typed(self.evidence)).filter(|requests| *requests > 0.0)
    }

    /// Seconds of a phase that a claim may size itself by: the phase, or, where first-token time was given without parts,
    /// all of that.
    pub fn claimable_s(&self, phase: Phase) -> f64 {
        let size = self.account.mean_s(phase);
        if size <= 0.0 && phase.before_first_token() { self.unsplit_first_token_s() } else { size }
    }

    /// True when rates say that the server is at its limit with the seats it has.
    pub fn is_saturated(&self) -> bool {
        self.rho_at_seats().is_some_and(|rho| rho >= SATURATED_RHO) || self.load.growing
    }

    /// Utilization with the seats the server has.
    pub fn rho_at_seats(&self) -> Option<f64> {
        let law = self.law.central()?;
        self.load.rho(&law, self.load.seats.or_else(|| self.load.kv_seats()).unwrap_or(256.0))
    }

    /// Mean of a phase per request, s.
    pub fn phase_s(&self, phase: Phase) -> f64 {
        self.account.mean_s(phase)
    }

    /// First-token time that no phase explains, s per request: a wait could hide there.
    pub fn unsplit_first_token_s(&self) -> f64 {
        self.account.unattributed_first_ns as f64 * 1e-9 / self.n()
    }

    /// Requests in the account.
    pub fn n(&self) -> f64 {
        self.account.n.max(1) as f64
    }

    /// Of the phases a check may claim from the one with most room: a measured one, or one that nobody measured by itself
    /// where the unsplit first-token time is larger.
    pub fn roomiest(&self, phases: &[Phase]) -> Option<Phase> {
        phases.iter().copied().max_by(|a, b| self.claimable_s(*a).total_cmp(&self.claimable_s(*b)))
    }

    /// `share` of a phase that `seconds` per request make, 0..1.
    pub fn share_of(&self, phase: Phase, seconds: f64) -> f64 {
        let size = self.claimable_s(phase);
        if size > 0.0 { (seconds / size).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Where an engine setting was read, for `now 32 (start-up dump)`.
    pub fn setting_origin(&self, key: &str) -> String {
        self.evidence.settings.get(key).map(|setting| setting.origin.clone()).unwrap_or_default()
    }

    /// True when the baseline served the same rate: its times then hold the price of batching already.
    fn has_same_load_as_baseline(&self) -> bool {
        let rates = self.baseline.as_ref().and_then(|baseline| self.load.arrivals_per_s.zip(baseline.load.arrivals_per_s));
        self.floors.from == "baseline" && rates.is_some_and(|(mine, theirs)| (mine / theirs - 1.0).abs() <= 0.1)
    }

    fn predict_sharing(&self) -> Option<Sharing> {
        if self.is_saturated() || self.has_same_load_as_baseline() {
            return None;
        }
        let law = self.law.central()?;
        Some(Sharing::predict(self.evidence, &law, &self.load, &self.floors))
    }
}
