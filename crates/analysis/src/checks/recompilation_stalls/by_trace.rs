//! By a profiler capture: the host compiles while the device waits.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::device_remedy::{first_token_kept, hypothesis, outside, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

/// Nothing where no device or no calls were recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation).filter(OnDevice::has_calls)?;
    let compiles: Vec<_> = device.view.code_loads.iter().filter(|load| load.compiles).collect();
    let spent_ns: i64 = compiles.iter().map(|load| load.time.total_ns).max().unwrap_or(0);
    // Compiling costs what the device waits meanwhile, and it cannot wait longer than it is idle.
    let idle_ns = device.idle.host_late_ns();
    let lost_ns = spent_ns.min(idle_ns);
    let share = device.share(lost_ns);
    if share < GRAIN {
        let because = format!(
            "{} of compiling were recorded, the device waits {} of its time for it at most",
            seconds(spent_ns as f64 * 1e-9),
            percent(share)
        );
        return Some(clear(vec![("compile_share", share)], because));
    }
    let times: u64 = compiles.iter().map(|load| load.time.count).max().unwrap_or(0);
    let ends = [0.5 * share, share, share];
    let mut rows = vec![figure("device idle while the host compiles, share of its time", share, "ratio", "trace")];
    rows.extend(compiles.iter().take(3).map(|load| figure(&load.name, load.time.total_ns as f64 * 1e-9, "s", "trace")));
    Some(Answer::Found(Box::new(Found {
        summary: format!(
            "the host compiles {} times, {} in all, inside the recording",
            count(times as f64),
            seconds(spent_ns as f64 * 1e-9)
        ),
        sentence: format!(
            "Code is compiled while steps run: {} in {} compilations, and the device waits for it {} of its time.",
            seconds(spent_ns as f64 * 1e-9),
            count(times as f64),
            percent(share)
        ),
        claims: device.claims(situation, Phase::Idle, [lost_ns / 2, lost_ns, lost_ns], Basis::Derived),
        cost: device.cost(situation, lost_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "shapes",
                "dynamic or fixed",
                "restart",
                "mark the varying dimension dynamic, fix the shapes, or warm the cache up before serving",
            ),
            "a dynamic shape may give a slower kernel",
            "compilations are recorded again after the warm-up",
            vec![token_falls(situation, ends, "compiled once, not per shape"), first_token_kept(situation)],
        )],
        falsified_by: "the recording began before the warm-up was over".into(),
        context_only: false,
        limit: false,
    })))
}
