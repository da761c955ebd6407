//! Rare long gaps: what happens at the same time.

use super::read::{coincidence, level, serving_growth, total};
use super::{Asked, HOST_SAMPLES, question};
use crate::record;
use crate::words::{digits, percent, seconds};

/// Share of wait and run from which a serving process is starved of CPU: quiet ones wait up to 18 % when they share a core with
/// their own API process (attribution, section 0.6).
const STARVED: f64 = 0.2;

/// Share of the time waiting for the interpreter lock from which that is what a serving process waits for.
const LOCKED: f64 = 0.1;

/// What long gaps hold at least this much more often than usual ones is no chance.
const MORE_OFTEN: f64 = 2.0;
/// And at least this share of the long ones, or it explains few of them.
const OF_THE_LONG: f64 = 0.5;

fn asked(found: Option<(f64, f64)>, what: &str, missing: &str) -> Asked {
    match found {
        Some((usual, long)) => Asked::yes_no(
            long >= OF_THE_LONG && long >= MORE_OFTEN * usual,
            format!("{} of the long gaps end with {what}, {} of all", percent(long), percent(usual)),
        ),
        None => Asked::cannot_tell(missing),
    }
}

question!(
    PREFILL_STEPS,
    "gaps beside prefill?",
    "Do long gaps coincide with steps that compute prompts?",
    [("prefill_blocks_decode", "yes", "no")],
    record::CLIENT,
    |s, _| {
        let firsts = s.evidence.client.iter().filter_map(|row| row.t_first_ns).collect();
        asked(
            coincidence(s.evidence, firsts),
            "another request's first token",
            "needs arrival times of pieces, and twenty long gaps among them",
        )
    }
);

question!(SCRAPED, "gaps at scrapes?", "Do long gaps coincide with scrapes of the metrics?", [], record::CLIENT, |s, _| {
    let series = s.evidence.engines.values().filter_map(|engine| engine.series("engine.running"));
    let times = series.flat_map(|series| series.t_ns.iter().copied()).filter(|&t| t > 0).collect();
    asked(coincidence(s.evidence, times), "a scrape", "needs arrival times of pieces beside scrapes, and twenty long gaps among them")
});

question!(
    CPU_WAIT,
    "waiting for a CPU?",
    "Do the serving processes wait for a CPU, the interpreter lock or their quota?",
    [("cpu_starvation", "yes", "no"), ("host_bound_engine", "yes", "no")],
    HOST_SAMPLES,
    |s, _| {
        let waited = serving_growth(s.evidence, "proc.runqueue_wait").zip(serving_growth(s.evidence, "proc.run_time"));
        let throttled = total(s, "host.cpu_throttled")
            .or_else(|| super::read::host(s.evidence, "host.cpu_throttled").map(crate::evidence::Series::growth).reduce(f64::max));
        let lock = level(s, "proc.gil_wait");
        let of_lock = |lock: f64| Asked::yes_no(lock >= LOCKED, format!("{} of the time waiting for the interpreter lock", percent(lock)));
        match (waited, throttled, lock) {
            (.., Some(lock)) if lock >= LOCKED => of_lock(lock),
            (Some((wait, run)), ..) if run > 0.0 => {
                Asked::yes_no(wait >= STARVED * (wait + run), format!("{} s waiting per second it ran", digits(wait / run)))
            }
            (_, Some(time_s), _) => Asked::yes_no(time_s > 0.0, format!("{} throttled by the quota", seconds(time_s))),
            (.., Some(lock)) => of_lock(lock),
            _ => Asked::cannot_tell("the serving processes' own CPU was not recorded"),
        }
    }
);
