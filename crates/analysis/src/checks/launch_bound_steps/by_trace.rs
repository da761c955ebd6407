//! By a profiler capture: the device ran dry, and the call that launches its next work had not begun.

use crate::check::{Answer, Found, clear, figure};
use crate::claims::Basis;
use crate::contract::Direction;
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::on_device::{GRAIN, OnDevice};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::words::{count, percent, seconds};

/// Late launches are most of what leaves the device idle: else something else does.
const MOSTLY_LATE: f64 = 0.5;
/// Fewer idle stretches tell no pace of launches.
const FEWEST_GAPS: u64 = 20;

/// Nothing where no device was recorded.
pub(super) fn answer(situation: &Situation<'_>) -> Option<Answer> {
    let device = OnDevice::of(situation)?;
    if !device.has_calls() {
        return Some(undecided(situation, &["launch calls"], "the capture holds device activities only: launches are not known", TRACE));
    }
    let late_ns = device.late_launch_ns();
    let share = device.share(late_ns);
    let gaps = device.gaps();
    let of_idle = late_ns as f64 / device.idle.total_ns().max(1) as f64;
    let margin = vec![("late_launch_share", share), ("late_of_idle", of_idle)];
    if gaps.late + gaps.queued < FEWEST_GAPS {
        let because = format!("{} idle stretches are too few to tell how the host launches", count((gaps.late + gaps.queued) as f64));
        return Some(undecided(situation, &["a longer recording"], because, TRACE));
    }
    if share < GRAIN {
        let lead = device.view.lanes.iter().map(|lane| lane.launches.lead.p50_ns).max().unwrap_or(0);
        let ahead = if lead > 0 { format!(", typically launched {} ahead", seconds(lead as f64 * 1e-9)) } else { String::new() };
        return Some(clear(margin, format!("the device waits {} of its time for launches that come late{ahead}", percent(share))));
    }
    if of_idle < MOSTLY_LATE {
        let because = format!("late launches are {} of the idle time: something else leaves the device idle", percent(of_idle));
        return Some(clear(margin, because));
    }
    Some(Answer::Found(Box::new(found(situation, &device, late_ns))))
}

fn found(situation: &Situation<'_>, device: &OnDevice<'_>, late_ns: i64) -> Found {
    let share = device.share(late_ns);
    let gaps = device.gaps();
    let (unit, unit_s) = device.unit();
    let pace_s = device.view.pace.period_ns.map(|ns| ns as f64 * 1e-9);
    let kernel_s = device.view.lanes.iter().map(|lane| lane.launches.kernel_p50_ns).max().unwrap_or(0) as f64 * 1e-9;
    let mut rows = vec![
        figure("device waits for a late launch, share of its time", share, "ratio", "trace"),
        figure("idle stretches that ended late", gaps.late as f64, "count", "trace"),
        figure("idle stretches with a launch in the recording", (gaps.late + gaps.queued) as f64, "count", "trace"),
        figure("kernel length, median", kernel_s, "s", "trace"),
    ];
    rows.extend(pace_s.map(|pace| figure("host launches one kernel per", pace, "s", "trace, median")));
    let pace = pace_s.map_or(String::new(), |pace| {
        format!(" The host launches a kernel every {}; half of them run no longer than {}.", seconds(pace), seconds(kernel_s))
    });
    // Profilers slow the host more than the device: what they record of the host is an upper bound.
    let ends = [0.5 * share, share, share];
    let change = setting(situation, "enforce_eager", "");
    let change = crate::contract::Change {
        instruction: "replay steps from graphs (eager mode off, captured sizes up to the batch), or compile or fuse what is launched"
            .into(),
        to: "graphs on".into(),
        ..change
    };
    Found {
        summary: format!("the device waits {} of its time for launches that come late", percent(share)),
        sentence: format!(
            "The host launches slower than the device computes: {} of each {unit} of {} the device is idle since the next launch comes late ({} of {} idle stretches).{pace}",
            seconds(share * unit_s),
            seconds(unit_s),
            count(gaps.late as f64),
            count((gaps.late + gaps.queued) as f64)
        ),
        claims: device.claims(situation, Phase::Idle, [late_ns / 2, late_ns, late_ns], Basis::Measured),
        cost: device.cost(situation, late_ns),
        evidence: rows,
        hypotheses: vec![hypothesis(
            change,
            "graph memory is taken from the KV cache",
            "steps do not get shorter",
            vec![
                token_falls(situation, ends, "replayed steps have one launch; a profiler that slows the host makes the gain smaller"),
                moves(
                    "kernel.launch_gap",
                    "launch gaps",
                    "s",
                    Direction::Down,
                    Some(share * unit_s),
                    Some([0.0, 0.3 * share * unit_s]),
                    "a graph has one launch",
                ),
                first_token_kept(situation),
            ],
        )],
        falsified_by: "the same steps recorded without stacks and shapes, in which kernels queue on the device before they start".into(),
        context_only: false,
        limit: false,
    }
}
