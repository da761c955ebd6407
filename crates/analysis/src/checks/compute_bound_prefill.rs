//! Prompts computed at the speed of the matrix units: normal for this hardware.

mod by_trace;

use capture::Subject;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{hypothesis, outside, token_kept};
use crate::device_step::{claims, cost, figure_of};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::predict::Movement;
use crate::prefill_rate::{peak, prompt_rate, utilization};
use crate::record_device::{COUNTERS, undecided};
use crate::situation::Situation;
use crate::words::{digits, percent};

check! {
    /// Computing prompts takes about as long as their arithmetic takes on this device.
    ///
    /// ## Why it costs time
    /// Each prompt token needs two operations per parameter, and attention on top. Divided by the device's rate this is a
    /// floor. Good engines reach 55 to 70 % of the data sheet's rate with long prompts.
    ///
    /// ## How to confirm
    /// Prompt tokens per second times two times the (active) parameters is above half of the device's rate for this number
    /// format, or the matrix units are active half of the time while prompts are computed.
    ///
    /// ## Fix
    /// None is needed. Fewer prompt tokens (prefix reuse, shorter context), an 8-bit format, or more devices make it faster.
    ///
    /// ## When this is wrong
    /// The rate is of short prompts, which read weights rather than compute; communication between devices holds the time.
    id: "compute_bound_prefill", layer: Hardware, rank: 221, phases: [Prefill, Compute], bound: "compute", validated_on: "typed", run: find,
}

/// Model FLOP utilization from which prefill is at its limit (attribution, section 6).
const NEAR_PEAK: f64 = 0.55;
/// What the best kernels reach with long prompts.
const REACHABLE: f64 = 0.7;
/// The matrix pipe's counter tops out near this (attribution, section 6).
const COUNTER_TOP: f64 = 0.6;

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    let routes = [by_rate(situation.subject, arm), by_counter(arm)];
    let Some((utilization, rows)) = routes.into_iter().flatten().next() else {
        if let Some(answer) = by_trace::answer(situation) {
            return answer;
        }
        return undecided(
            situation,
            &["client.throughput.prompt", "gpu.tensor_active"],
            "neither the rate of prompt tokens with model and device nor the matrix units' activity is known",
            COUNTERS,
        );
    };
    let margin = vec![("of_peak_arithmetic", utilization)];
    if utilization > 1.0 {
        return undecided(
            situation,
            &["model.active_params"],
            "more arithmetic than the device can do: cached tokens are counted, or another format computes",
            COUNTERS,
        );
    }
    if utilization < NEAR_PEAK {
        return clear(margin, format!("prompts use {} of the device's arithmetic", percent(utilization)));
    }
    Answer::Found(Box::new(found(situation, utilization, rows)))
}

fn by_rate(subject: &Subject, arm: &Arm) -> Option<(f64, Vec<Evidence>)> {
    let utilization = utilization(subject, arm)?;
    let (peak, gpu) = peak(subject, arm)?;
    let rows = vec![
        figure("prompt tokens per second", prompt_rate(arm)?, "token/s", "typed"),
        figure("peak arithmetic", peak, "flop/s", &format!("data sheet of {}", gpu.id)),
        figure("share of peak arithmetic", utilization, "ratio", "2 x parameters x tokens per second over peak"),
    ];
    Some((utilization, rows))
}

fn by_counter(arm: &Arm) -> Option<(f64, Vec<Evidence>)> {
    let figures = &arm.figures;
    let in_prefill =
        figures.by_label("gpu.tensor_active", "phase").into_iter().find(|(phase, _)| phase == "prefill").map(|(_, active)| active);
    let only_prefill = figure_of(figures, "client.throughput.prompt").is_some() || figure_of(figures, "server.prefill_time").is_some();
    let active = in_prefill.or_else(|| figures.typical("gpu.tensor_active").filter(|_| only_prefill))?;
    // The counter tops out before the arithmetic does: scaled to what the rate would be.
    Some(((active * REACHABLE / COUNTER_TOP).min(1.0), vec![figure("gpu.tensor_active", active, "ratio", "counter, in prefill")]))
}

fn found(situation: &Situation<'_>, utilization: f64, rows: Vec<Evidence>) -> Found {
    let share = (utilization / REACHABLE).min(1.0);
    let ttft = situation.account.first_token_mean_s();
    let reuse = Movement::first_token(situation, Direction::Down).primary();
    let reuse = if ttft > 0.0 {
        reuse.to(0.0, ttft, "falls with the prompt tokens that need no computing")
    } else {
        reuse.refused("time to first token was not measured")
    };
    let fewer = hypothesis(
        outside("prompt tokens", "fewer to compute", "none", "reuse prefixes or shorten prompts: nothing else makes the arithmetic less"),
        "none to the server",
        "TTFT does not fall with the tokens computed",
        vec![reuse.build(), token_kept(situation)],
    );
    Found {
        summary: format!("prompts use {} of the device's arithmetic", percent(utilization)),
        sentence: format!(
            "Prompts are computed at {} of the device's peak arithmetic, {} of what good kernels reach: normal for this hardware, not a fault.",
            percent(utilization),
            digits(share)
        ),
        claims: claims(situation, Phase::Prefill, [utilization, share, share], Basis::Counterfactual),
        cost: cost(situation, Phase::Prefill, share),
        evidence: rows,
        hypotheses: vec![fewer],
        falsified_by: "the same prompts on the same device in clearly less time".into(),
        context_only: false,
        limit: true,
    }
}
