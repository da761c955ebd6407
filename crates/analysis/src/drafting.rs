//! What is known of speculative decoding in one arm: drafts, acceptance, and what a round costs against plain decoding.
//!
//! Acceptance, share of time and time per token belong together: any one alone accuses the wrong part. Where one is missing
//! it stays empty here, and the checks decide by bounds or say that they cannot tell.

mod runs;

use model::speculation::{CostBounds, acceptance_of};

use crate::check::{Answer, clear};
use crate::evidence::{Evidence, Point};
use crate::situation::Situation;
use crate::words::digits;

pub use runs::{Compared, Run, Runs};

/// What the counters or ratios say of drafting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Drafting {
    /// Draft rounds in the window; 0 where only ratios are known.
    pub rounds: f64,
    /// Drafted tokens per round.
    pub per_round: f64,
    /// Tokens per target step, the one of the target itself included.
    pub yield_tokens: f64,
    /// Accepted at each position, of the rounds; empty where not told.
    pub positions: Vec<f64>,
}

impl Drafting {
    /// Reads it from counters, else from ratios typed or logged; `None` where nothing was drafted or nothing is known.
    pub fn read(evidence: &Evidence) -> Option<Self> {
        let configured = configured(evidence);
        if let Some(rounds) = evidence.growth("spec.drafts") {
            let accepted = evidence.growth("spec.accepted_tokens")?;
            let drafted = evidence.growth("spec.draft_tokens").map(|drafted| drafted / rounds).or(configured)?;
            return (rounds > 0.0).then(|| Self {
                rounds,
                per_round: drafted,
                yield_tokens: 1.0 + accepted / rounds,
                positions: counted_positions(evidence, rounds),
            });
        }
        let positions = typed_positions(evidence);
        let swept = own_row(evidence).and_then(|row| row.typical("config.speculative_tokens"));
        let per_round =
            configured.or(swept).or_else(|| (!positions.is_empty()).then_some(positions.len() as f64)).or_else(|| per_round(evidence))?;
        let yield_tokens = yield_tokens(evidence, per_round, &positions)?;
        (per_round > 0.0).then_some(Self { rounds: 0.0, per_round, yield_tokens: yield_tokens.min(per_round + 1.0), positions })
    }

    /// Acceptance of the first drafted token: measured, else the one of independent drafts with this yield.
    pub fn first_acceptance(&self) -> f64 {
        self.positions.first().copied().unwrap_or_else(|| self.independent())
    }

    /// Share of the rounds in which the draft at `position` (from 1) is accepted: measured, else of independent drafts.
    pub fn accepted_at(&self, position: f64) -> f64 {
        let at = (position.max(1.0) - 1.0) as usize;
        self.positions.get(at).copied().unwrap_or_else(|| self.independent().powf(position.max(1.0)))
    }

    /// Acceptance per token if all drafts had the same.
    pub fn independent(&self) -> f64 {
        acceptance_of(self.yield_tokens, self.per_round.round() as u32)
    }
}

/// Drafts per round by the settings, where speculation is on.
pub fn configured(evidence: &Evidence) -> Option<f64> {
    evidence.settings.number("config.speculative_tokens").filter(|&tokens| tokens > 0.0)
}

/// True when an arm says by setting, counter or figure that it drafts.
pub fn speculates(evidence: &Evidence) -> bool {
    let counted = evidence.growth("spec.drafts").is_some_and(|drafts| drafts > 0.0);
    counted || (!is_off(evidence) && (tells_of_drafts(evidence) || configured(evidence).is_some() || method(evidence).is_some()))
}

/// True when a setting says that nothing is drafted, and no figure or sweep row says otherwise: a version's default of 0
/// stands for what nobody typed.
fn is_off(evidence: &Evidence) -> bool {
    let setting = evidence.settings.get("config.speculative_tokens");
    let is_default = setting.is_some_and(|setting| setting.origin.starts_with("default"));
    let is_zero = evidence.settings.number("config.speculative_tokens") == Some(0.0);
    let is_varied = evidence.figures.points().any(|row| row.typical("config.speculative_tokens").is_some_and(|drafts| drafts > 0.0));
    is_zero && !is_varied && !(is_default && tells_of_drafts(evidence))
}

fn tells_of_drafts(evidence: &Evidence) -> bool {
    let whole = evidence.figures.iter().any(|(name, figure)| name.starts_with("spec.") && figure.value > 0.0);
    whole || evidence.figures.points().any(|row| row.iter().any(|(name, figure)| name.starts_with("spec.") && figure.value > 0.0))
}

/// A device by name; of two forms under one name the faster, whose ridge is the higher.
fn gpu(name: &str) -> Option<&'static model::hardware::Gpu> {
    let find = model::hardware::find;
    find(name).or_else(|| find(&format!("{name} SXM"))).or_else(|| find(&format!("{name} SXM 80GB")))
}

/// The drafter by name, where one is set.
pub fn method(evidence: &Evidence) -> Option<&str> {
    let method = evidence.settings.get("config.speculative_method")?.value.as_str();
    (!matches!(method, "" | "none" | "None" | "null" | "off")).then_some(method)
}

/// True for drafters that look text up instead of computing it.
pub fn is_lookup(evidence: &Evidence) -> bool {
    method(evidence).is_some_and(|method| ["ngram", "lookup", "suffix"].iter().any(|part| method.to_ascii_lowercase().contains(part)))
}

/// Bounds on the cost of one draft of this drafter, in plain target steps.
pub fn draft_bounds(evidence: &Evidence) -> CostBounds {
    if is_lookup(evidence) { CostBounds::NGRAM } else { CostBounds::DRAFT_MODEL }
}

fn counted_positions(evidence: &Evidence, rounds: f64) -> Vec<f64> {
    let at = |position: usize| evidence.growth(&format!("spec.accepted_at_position{{position=\"{position}\"}}"));
    (0..64).map_while(at).map(|accepted| accepted / rounds).collect()
}

fn typed_positions(evidence: &Evidence) -> Vec<f64> {
    let listed = |quantity: &str| -> Vec<f64> {
        let mut found: Vec<(usize, f64)> = evidence
            .figures
            .by_label(quantity, "position")
            .into_iter()
            .filter_map(|(position, value)| Some((position.parse().ok()?, value)))
            .collect();
        found.sort_by_key(|(position, _)| *position);
        found.into_iter().map(|(_, value)| value).collect()
    };
    let ratios = listed("spec.position_acceptance");
    let rounds = evidence.figures.typical("spec.drafts").filter(|rounds| *rounds > 0.0);
    match rounds.filter(|_| ratios.is_empty()) {
        Some(rounds) => listed("spec.accepted_at_position").into_iter().map(|count| count / rounds).collect(),
        None => ratios,
    }
}

fn per_round(evidence: &Evidence) -> Option<f64> {
    let figures = &evidence.figures;
    let counted = figures.typical("spec.draft_tokens").zip(figures.typical("spec.drafts")).map(|(drafted, rounds)| drafted / rounds);
    // A length and a rate together say how many were drafted: m = 1 + rate k.
    let by_rate = || {
        let (length, rate) = figures.typical("spec.acceptance_length").zip(figures.typical("spec.acceptance_rate"))?;
        (rate > 0.0 && length > 1.0).then(|| ((length - 1.0) / rate).round())
    };
    counted.or_else(by_rate).filter(|tokens| tokens.is_finite() && *tokens >= 1.0)
}

/// The sweep row that tells of drafting at the arm's own number of drafts, else at the largest; of several the one where
/// least is accepted.
fn own_row(evidence: &Evidence) -> Option<&Point> {
    let configured = configured(evidence);
    let drafts = |row: &&Point| row.typical("config.speculative_tokens").or(configured).unwrap_or(0.0);
    let accepted = |row: &&Point| {
        ["spec.acceptance_length", "spec.acceptance_rate"].iter().find_map(|name| row.typical(name)).unwrap_or(f64::INFINITY)
    };
    let tells = |row: &&Point| accepted(row).is_finite() && configured.is_none_or(|own| drafts(row) == own);
    evidence.figures.points().filter(tells).max_by(|a, b| drafts(a).total_cmp(&drafts(b)).then(accepted(b).total_cmp(&accepted(a))))
}

fn yield_tokens(evidence: &Evidence, per_round: f64, positions: &[f64]) -> Option<f64> {
    let figures = &evidence.figures;
    let row = own_row(evidence);
    let typed = |name: &str| figures.typical(name).or_else(|| row?.typical(name));
    let accepted = || typed("spec.accepted_tokens").zip(typed("spec.draft_tokens").filter(|drafted| *drafted > 0.0));
    let by_rounds = || typed("spec.accepted_tokens").zip(typed("spec.drafts").filter(|rounds| *rounds > 0.0));
    // Each round verifies its drafts and one token more.
    let verified = || typed("server.output_tokens").zip(typed("spec.verified_tokens").filter(|verified| *verified > 0.0));
    typed("spec.acceptance_length")
        .or_else(|| by_rounds().map(|(accepted, rounds)| 1.0 + accepted / rounds))
        .or_else(|| (!positions.is_empty()).then(|| 1.0 + positions.iter().sum::<f64>()))
        .or_else(|| typed("spec.acceptance_rate").map(|rate| 1.0 + rate * per_round))
        .or_else(|| accepted().map(|(accepted, drafted)| 1.0 + per_round * accepted / drafted))
        .or_else(|| verified().map(|(output, verified)| (output * (per_round + 1.0) / verified).max(1.0)))
        .filter(|&tokens| tokens >= 1.0 && tokens.is_finite())
}

/// What one round costs, and what plain decoding costs, s; empty where not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Drafts per round.
    pub per_round: f64,
    /// A whole round: drafting and verifying.
    pub round_s: Option<f64>,
    /// Drafting, measured.
    pub draft_s: Option<f64>,
    /// The target's pass over all drafts and one token more, measured or what is left of a round.
    pub verify_s: Option<f64>,
    /// One plain step, which makes one token.
    pub plain_s: Option<f64>,
    /// True when verifying was measured by itself, not taken as what drafting leaves of a round.
    pub is_verify_measured: bool,
}

impl Costs {
    /// Reads them for the arm at hand.
    pub fn read(situation: &Situation<'_>, drafting: Option<&Drafting>) -> Option<Self> {
        let evidence = situation.evidence;
        let figures = &evidence.figures;
        let per_round = drafting.map(|drafting| drafting.per_round).or_else(|| configured(evidence))?;
        let compared = Runs::read(situation).against_plain();
        let token_s = compared.as_ref().and_then(Compared::token_s).or_else(|| runs::token_s(figures));
        let is_plain_step = figures.typical("engine.step_tokens").is_some_and(|tokens| tokens <= 1.0);
        // Rates without the number of streams compare with each other only; times of parts do not go with them.
        let is_absolute = compared.as_ref().is_none_or(Compared::is_absolute);
        let draft_s = figures
            .typical("spec.draft_time")
            .or_else(|| figures.typical("spec.draft_token_time").map(|s| s * per_round))
            .filter(|_| is_absolute);
        let measured = figures.typical("spec.verify_token_time").map(|s| s * (per_round + 1.0)).filter(|_| is_absolute);
        let round_s = token_s
            .zip(drafting)
            .map(|(token_s, drafting)| token_s * drafting.yield_tokens)
            .or_else(|| figures.typical("engine.step_time").filter(|_| !is_plain_step))
            .or_else(|| measured.zip(draft_s).map(|(verify, draft)| verify + draft));
        let left = || round_s.zip(draft_s).map(|(round, draft)| round - draft).filter(|left| *left > 0.0);
        let plain_s =
            compared.as_ref().and_then(Compared::plain_token_s).or_else(|| figures.typical("engine.step_time").filter(|_| is_plain_step));
        Some(Self { per_round, round_s, draft_s, verify_s: measured.or_else(left), plain_s, is_verify_measured: measured.is_some() })
    }

    /// Drafting as a share of a round.
    pub fn draft_share(&self) -> Option<f64> {
        Some((self.draft_s? / self.round_s?).clamp(0.0, 1.0))
    }

    /// Verifying over a plain step; where drafting was not timed, the least it can be.
    pub fn verify_ratio(&self, bounds: CostBounds) -> Option<f64> {
        let plain_s = self.plain_s.filter(|plain| *plain > 0.0)?;
        let at_least = || self.round_s.map(|round| round - self.per_round * bounds.draft_hi * plain_s);
        Some(self.verify_s.or_else(at_least)? / plain_s)
    }

    /// One draft over a plain step, or over a verifying one, which is no shorter.
    pub fn draft_ratio(&self) -> Option<f64> {
        let step_s = self.plain_s.or(self.verify_s).filter(|step| *step > 0.0)?;
        Some(self.draft_s? / (self.per_round * step_s))
    }

    /// A round over a plain step.
    pub fn round_ratio(&self) -> Option<f64> {
        Some(self.round_s? / self.plain_s.filter(|plain| *plain > 0.0)?)
    }
}

/// Why nothing is drafted in this arm, where that is certain.
pub fn nothing_drafted(situation: &Situation<'_>) -> Option<&'static str> {
    let evidence = situation.evidence;
    if is_off(evidence) {
        return Some("speculation is off");
    }
    let scraped = evidence.has_timeline() || evidence.observed("server.ttft").is_some();
    match evidence.growth("spec.drafts") {
        Some(drafts) if drafts <= 0.0 => Some("no draft was made in the window"),
        None if scraped && configured(evidence).is_none() => Some("the server exports no draft counters: speculation is off"),
        _ => None,
    }
}

/// The answer of a check on price or length where neither can be the matter: nothing is drafted, or the batch alone loses.
pub fn ruled_out(situation: &Situation<'_>) -> Option<Answer> {
    if let Some(why) = nothing_drafted(situation) {
        return Some(clear(vec![("drafts", 0.0)], why));
    }
    let because = "speculation pays for few streams at this price and length: the batch is what makes it lose";
    pays_for_few(situation).then(|| clear(vec![("pays_for_few", 1.0)], because))
}

/// The answer of a check on price where hardly a draft is accepted.
pub fn refused_at_any_price(drafting: &Drafting) -> Option<Answer> {
    let because = || format!("{} tokens per step: what is refused is lost at any price", digits(drafting.yield_tokens));
    hardly_any(drafting).then(|| clear(vec![("tokens_per_step", drafting.yield_tokens)], because()))
}

/// True where drafts are refused so often that neither their length nor their price matters.
pub fn hardly_any(drafting: &Drafting) -> bool {
    (drafting.per_round >= 2.0 && drafting.yield_tokens < 1.05) || drafting.first_acceptance() < LOW_FIRST
}

/// True where a sweep over load shows that speculation pays for few streams and loses for many: then acceptance, price and
/// length are right for few, and the batch is to blame.
pub fn pays_for_few(situation: &Situation<'_>) -> bool {
    let pairs = Runs::read(situation).pairs();
    let loaded: Vec<&Compared> = pairs.iter().filter(|pair| pair.with.load > 0.0).collect();
    matches!(loaded.as_slice(), [few, .., many] if few.slowdown() < 1.0 && many.slowdown() > SPREAD)
}

/// Sequences times tokens of one verifying step, where the number of streams is known: of the point that is compared with
/// plain decoding, else of the run.
pub fn verified_per_step(situation: &Situation<'_>, per_round: f64) -> Option<f64> {
    let figures = &situation.evidence.figures;
    let compared = Runs::read(situation).against_plain().map(|pair| pair.with.streams).filter(|streams| *streams > 0.0);
    let streams = compared.or_else(|| figures.anywhere("engine.running")).or_else(|| figures.highest("client.concurrency"))?;
    Some(streams * (per_round + 1.0))
}

/// Tokens per step from which arithmetic takes as long as reading the weights: below it verifying costs hardly more than
/// a plain step. A device that is not in the table gets the least ridge of those that are.
pub fn ridge_tokens(situation: &Situation<'_>) -> f64 {
    const LEAST_RIDGE: f64 = 150.0;
    let device = if situation.evidence.device.is_empty() { &situation.subject.device } else { &situation.evidence.device };
    gpu(device)
        .and_then(|gpu| Some(model::roofline::ridge_batch(gpu.bf16_flops?, gpu.dram_bytes_per_s, 2.0)))
        .filter(|ridge| ridge.is_finite() && *ridge > 1.0)
        .unwrap_or(LEAST_RIDGE)
}

/// True where a roofline makes verifying nearly free: a dense model on a known GPU with far fewer tokens per step than its
/// ridge. Experts break it: each further token may read further weights.
pub fn verifies_for_free(situation: &Situation<'_>, per_round: f64) -> bool {
    let evidence = situation.evidence;
    let device = if evidence.device.is_empty() { &situation.subject.device } else { &evidence.device };
    let name = crate::decode_bound::ModelName::read(&situation.subject.model);
    let has_experts = name.active_params.is_some()
        || evidence.figures.typical("model.experts").is_some_and(|experts| experts > 1.0)
        || situation.subject.model.to_ascii_lowercase().contains("moe");
    let tokens = verified_per_step(situation, per_round).unwrap_or(per_round + 1.0);
    gpu(device).is_some() && !has_experts && tokens <= 0.5 * ridge_tokens(situation)
}

/// The best number of drafts when each costs `cost` plain steps, verifying included, and what it makes of the present time
/// per token: (drafts, time there over time here). Measured acceptance per position, else independent drafts.
pub fn best_length(drafting: &Drafting, cost: f64) -> (f64, f64) {
    let tokens = |drafts: f64| 1.0 + (1..=drafts as usize).map(|at| drafting.accepted_at(at as f64)).sum::<f64>();
    let time = |drafts: f64| (1.0 + drafts * cost) / tokens(drafts);
    let most = drafting.per_round.clamp(0.0, 64.0).round() as usize;
    let best = (0..=most).map(|drafts| drafts as f64).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(0.0);
    (best, time(best) / time(drafting.per_round.round()))
}

/// What each drafted token costs in plain steps, drafting and verifying together, by the run without speculation.
pub fn measured_cost(costs: &Costs) -> Option<f64> {
    let ratio = costs.round_ratio()?;
    Some(((ratio - 1.0) / costs.per_round).max(0.0)).filter(|cost| cost.is_finite())
}

/// Even the first draft of a round is refused this often: below it one draft a step does not repay the dearest reasonable
/// drafter (0.25 of a step), and more drafts repay less.
pub const LOW_FIRST: f64 = 0.25;
/// Published means of one load differ by this much from run to run.
pub const SPREAD: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_is_read_per_position_or_taken_as_independent() {
        let measured = Drafting { per_round: 4.0, yield_tokens: 1.9, positions: vec![0.6, 0.2, 0.1, 0.0], rounds: 0.0 };
        assert_eq!((measured.first_acceptance(), measured.accepted_at(4.0)), (0.6, 0.0));
        // 2.18 tokens at 32 drafts: each follows with odds of 0.54, and the eighth is accepted once in 140 rounds.
        let typed = Drafting { per_round: 32.0, yield_tokens: 2.18, ..Drafting::default() };
        assert!((typed.first_acceptance() - 0.541).abs() < 0.01, "{}", typed.first_acceptance());
        assert!(typed.accepted_at(8.0) < 0.008);
    }

    #[test]
    fn the_best_length_follows_the_price() {
        let drafting = Drafting { per_round: 8.0, yield_tokens: 2.9, ..Drafting::default() };
        let (cheap, _) = best_length(&drafting, 0.02);
        let (dear, gain) = best_length(&drafting, 0.3);
        assert!(cheap > dear && dear >= 1.0 && gain < 0.8, "{cheap} {dear} {gain}");
        assert_eq!(best_length(&drafting, 1.0).0, 0.0);
    }

    #[test]
    fn a_round_is_split_into_drafting_and_verifying() {
        let costs = Costs { per_round: 5.0, round_s: Some(0.282), draft_s: Some(0.07), verify_s: Some(0.212), ..Costs::default() };
        assert!((costs.draft_share().unwrap() - 0.248).abs() < 0.001);
        assert!((costs.draft_ratio().unwrap() - 0.066).abs() < 0.001);
        assert_eq!(costs.verify_ratio(CostBounds::NGRAM), None);
        let untimed = Costs { per_round: 1.0, round_s: Some(0.0514), plain_s: Some(0.0177), ..Costs::default() };
        assert!((untimed.verify_ratio(CostBounds::DRAFT_MODEL).unwrap() - 2.654).abs() < 0.01);
    }
}
