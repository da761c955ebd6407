//! By profiler captures of the ranks: expert kernels take longer on one rank, and the others wait in the exchange that follows.

use crate::check::{Answer, Found, Missing, clear, figure};
use crate::claims::Basis;
use crate::device::Category;
use crate::on_device::OnDevice;
use crate::phase::Phase;
use crate::record;
use crate::sharding::Sharding;
use crate::situation::Situation;
use crate::uneven_experts::{self, UnevenExperts};
use crate::words::{count, digits, percent};

use super::{ABOVE, remedy};

/// Waiting below this share of the devices' time is not worth moving experts for.
const MATERIAL: f64 = 0.05;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    let experts_ns = device.sum_ns(|lane| lane.account.category_ns(Category::Moe));
    let Some(uneven) = uneven_experts::read(&device) else {
        let is_spread = Sharding::read(situation.subject, situation.evidence).expert || exchanges_tokens(&device);
        if experts_ns == 0 || !is_spread {
            let because =
                if experts_ns == 0 { "no expert kernel was recorded" } else { "no exchange of tokens between expert ranks was recorded" };
            return Some(clear(vec![("expert_ranks", 0.0)], because));
        }
        let seen = device.ranks_seen();
        return Some(Answer::CannotTell(Missing {
            signals: vec!["traces of all ranks".into()],
            because: format!("{} of {} ranks were recorded: unequal experts show between ranks", count(seen.recorded), count(seen.world)),
            at_most_s: Some(0.0),
            record_with: record::COLLECTIVES.into(),
            record_cost: record::COLLECTIVES_COST.into(),
        }));
    };
    let share = device.share(uneven.waited_ns);
    let margin = vec![("max_over_mean", uneven.max_over_mean), ("others_max_over_mean", uneven.others_max_over_mean), ("waited", share)];
    if uneven.max_over_mean <= ABOVE {
        return Some(clear(margin, format!("expert kernels of the busiest rank take {} times the mean", digits(uneven.max_over_mean))));
    }
    if !uneven.is_material() {
        let because = format!(
            "all kernels of the busiest rank take longer ({} times the mean beside experts): the rank is late, not its experts",
            digits(uneven.others_max_over_mean)
        );
        return Some(clear(margin, because));
    }
    if share < MATERIAL {
        return Some(clear(margin, format!("the others wait {} of their time for the busiest expert rank", percent(share))));
    }
    Some(Answer::Found(Box::new(found(situation, &device, &uneven))))
}

/// Tokens go to the ranks of their experts and back.
fn exchanges_tokens(device: &OnDevice<'_>) -> bool {
    let told = device.view.collectives.iter().flat_map(|collectives| &collectives.ops);
    told.map(|of| of.op.as_str()).any(|op| op.contains("all_to_all") || op.contains("alltoall") || matches!(op, "dispatch" | "combine"))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, uneven: &UnevenExperts) -> Found {
    let share = device.share(uneven.waited_ns);
    let ends = [0.7 * share, share, share];
    let waited = [7 * (uneven.waited_ns / 10), uneven.waited_ns, uneven.waited_ns];
    Found {
        summary: format!(
            "expert kernels of device {} take {} times the mean of {} ranks; the others wait {} of their time",
            uneven.hottest,
            digits(uneven.max_over_mean),
            count(uneven.ranks as f64),
            percent(share)
        ),
        sentence: format!(
            "Experts are unevenly loaded: those of device {} compute {} times as long as the mean of {} ranks while the rest of the work is equal, and the others wait for it {} of their time.",
            uneven.hottest,
            digits(uneven.max_over_mean),
            count(uneven.ranks as f64),
            percent(share)
        ),
        claims: device.claims(situation, Phase::Communication, waited, Basis::Derived),
        cost: device.cost(situation, uneven.waited_ns),
        evidence: vec![
            figure("expert kernels of the busiest rank over the mean", uneven.max_over_mean, "ratio", "trace"),
            figure("its other kernels over the mean", uneven.others_max_over_mean, "ratio", "trace"),
            figure("experts, share of what ranks compute", uneven.of_computing, "ratio", "trace"),
        ],
        hypotheses: remedy(situation, ends),
        falsified_by: "another rank is the busiest in every step, as chance makes it".into(),
        context_only: false,
        limit: false,
    }
}
