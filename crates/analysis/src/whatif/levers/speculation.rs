//! Drafts.

use simulate::config::Speculation;

use super::{Found, Lever, Wrong, number, whole};
use crate::whatif::figures::Metric;
use crate::whatif::scenario::Scenario;

pub(super) const LEVER: Lever = Lever {
    name: "num_speculative_tokens",
    aliases: &["speculative_tokens", "speculation", "speculative_num_draft_tokens"],
    takes: "drafts per step, `off` or 0 for none",
    about: "how many tokens are drafted per step",
    apply,
};

pub(super) const ACCEPTANCE: Lever = Lever {
    name: "acceptance",
    aliases: &["acceptance_rate"],
    takes: "the chance that a draft is accepted after those before it, 0 to 1",
    about: "what another method of drafting would reach",
    apply: acceptance,
};

/// Deepest simulated.
const DEEPEST: u32 = 64;

const RECORD: &str = "record one run with speculation on (`spec.accepted_tokens`, `spec.draft_tokens`), or set `acceptance`";

fn apply(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let depth = if value == "off" { 0 } else { whole(value, 0)? };
    if depth > DEEPEST {
        return Err(Wrong::Value);
    }
    let before = scenario.system.engine.depth();
    let Some(known) = scenario.system.engine.speculation.clone() else {
        if depth > 0 {
            return Err(Wrong::Unknowable("no draft was ever accepted or refused in this run".into(), RECORD));
        }
        return Ok(("0".into(), "setting"));
    };
    scenario.system.engine.speculation = (depth > 0).then(|| {
        let last = known.acceptance.last().copied().unwrap_or(0.0);
        let acceptance = (0..depth as usize).map(|position| known.acceptance.get(position).copied().unwrap_or(last)).collect();
        Speculation { acceptance, ..known }
    });
    if depth == 0 && before > 0 {
        price_unknown(scenario);
    } else if depth > before {
        scenario.warnings.push("positions beyond those drafted are taken to be accepted as often as the last".into());
    }
    Ok((before.to_string(), "setting"))
}

fn acceptance(scenario: &mut Scenario, value: &str) -> Result<Found, Wrong> {
    let chance = number(value, 0.0..=1.0)?;
    if let Some(speculation) = &mut scenario.system.engine.speculation {
        let before = speculation.acceptance.first().copied().unwrap_or(0.0);
        speculation.acceptance.fill(chance);
        return Ok((format!("{before:.2}"), "measured"));
    }
    scenario.system.engine.speculation = Some(Speculation { acceptance: vec![chance; 1], draft_step_ns: 0, draft_seq_ns: 0 });
    scenario.warnings.push("one draft per step, and drafting itself taken to be free".into());
    Ok(("none".into(), "setting"))
}

/// Between a step that verifies for nothing and one in which each draft costs as much as a prompt token lies the whole gain.
fn price_unknown(scenario: &mut Scenario) {
    let why = "what drafting and verifying cost in a step was not measured apart from the step: run once without speculation";
    for metric in [Metric::TpotMean, Metric::E2eMean, Metric::E2eP99, Metric::TtftMean, Metric::TtftP99, Metric::OutputThroughput] {
        scenario.unknowable.push((metric, why.into()));
    }
}
