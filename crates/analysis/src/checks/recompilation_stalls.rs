//! Compilation or autotuning at run time, after the warm-up.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, step_s};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, faster_arm};
use crate::words::{count, percent, plural, seconds};

check! {
    /// The server compiles or tunes kernels while it serves.
    ///
    /// ## Why it costs time
    /// A shape that was not seen before is compiled when it comes: seconds in which every request waits. When the number of
    /// variants reaches its limit the framework gives up and runs that function uncompiled from then on, slower for good.
    ///
    /// ## How to confirm
    /// Lines about recompiling or a recompile limit after start-up; single steps of seconds among steps of milliseconds;
    /// compile time that grows while requests run.
    ///
    /// ## Fix
    /// Mark the varying dimension as dynamic, fix or bucket the shapes, warm up every shape before serving, or keep the
    /// compile cache between restarts.
    ///
    /// ## When this is wrong
    /// The first requests after a start: that is warm-up, and it ends.
    id: "recompilation_stalls", layer: Kernel, rank: 20, phases: [Prefill, Decode, Idle], bound: "host", validated_on: "report", run: find,
}

/// A step this many times its median that takes as long as a compilation at least (half a second) is no batch effect: a
/// prompt of a full budget takes some tens of decode steps.
const OUTLIER: f64 = 50.0;
/// Where the log names what was compiled while serving, a step this many times its median is that compilation: a prompt
/// chunk beside a batch makes a step some times longer, not ten times.
const OUTLIER_NAMED: f64 = 10.0;
/// Compiling one variant takes at least about this long.
const COMPILE_S: f64 = 0.5;
/// Compile time below this share of the run is a warm-up that nobody feels.
const MATERIAL: f64 = 0.02;

fn find(situation: &Situation<'_>) -> Answer {
    // A recording that compiles nothing says so of itself only, where nothing else was handed over.
    let recorded = by_trace::answer(situation);
    if let Some(answer) = recorded.filter(|answer| matches!(answer, Answer::Found(_)) || situation.account.is_of_devices()) {
        return answer;
    }
    let arm = situation.evidence;
    let figures = &arm.figures;
    let hits = arm.growth("engine.recompile_limit_hits").or_else(|| figures.typical("engine.recompile_limit_hits")).unwrap_or(0.0);
    let lines = arm.logged.get("recompile").map_or(0.0, |logged| logged.count as f64);
    let compiled = compiled_while_serving(arm);
    let whole = figures
        .typical("client.duration")
        .or_else(|| arm.window().map(|(from, to)| (to - from) as f64 * 1e-9))
        .filter(|whole| *whole > 0.0);
    let share = compiled.zip(whole).map(|(compiled, whole)| (compiled / whole).min(1.0));
    let named = arm.logged.get("jit_compiled").map(|logged| logged.count as f64);
    let outlier = outlier(situation, if named.is_some() { OUTLIER_NAMED } else { OUTLIER });
    let mut rows: Vec<Evidence> = Vec::new();
    if hits + lines > 0.0 {
        rows.push(figure("recompile limit reached", hits.max(lines), "count", "log"));
    }
    rows.extend(compiled.map(|compiled| figure("engine.compile_time", compiled, "s", "while serving")));
    rows.extend(outlier.map(|(longest, _)| figure("longest step", longest, "s", "typed")));
    if let Some(share) = share.filter(|share| *share >= MATERIAL) {
        let ends = [0.5 * share, share, (1.5 * share).min(1.0)];
        return Answer::Found(Box::new(found(situation, Some(ends), rows, &format!("{} of the run is compiling", percent(share)))));
    }
    let without = faster_arm(situation, |here, there| change_names(here, there, &["recompil", "mark_dynamic", "dynamic=true", "autotun"]));
    if let Some(without) = &without {
        rows.push(figure(without.signal, without.theirs_s, "s", &format!("arm `{}`", without.other.run_name)));
        let words = format!("without it the same work takes {} of the time", percent(without.theirs_s / without.mine_s));
        return Answer::Found(Box::new(found(situation, Some(without.ends()), rows, &words)));
    }
    if hits + lines > 0.0 {
        let words = format!(
            "the log says {} that the compiler gave up on new shapes",
            if hits.max(lines) > 1.5 { format!("{} times", count(hits.max(lines))) } else { "once".into() }
        );
        return Answer::Found(Box::new(found(situation, None, rows, &words)));
    }
    if let Some((lines, (longest, median))) = named.zip(outlier) {
        rows.push(figure("kernels compiled while serving", lines, "count", "log"));
        let words = format!(
            "the log names {} compiled during inference, and single steps take {} where the median takes {}",
            plural(lines, "kernel"),
            seconds(longest),
            seconds(median)
        );
        return Answer::Found(Box::new(found(situation, None, rows, &words)));
    }
    if let Some((longest, median)) = outlier.filter(|_| share.is_none() && compiled.is_some_and(|compiled| compiled > 0.0)) {
        return Answer::Found(Box::new(found(
            situation,
            None,
            rows,
            &format!("single steps take {} where the median takes {}, and something was compiled", seconds(longest), seconds(median)),
        )));
    }
    match (compiled, arm.logged.is_empty()) {
        (Some(compiled), _) => {
            clear(vec![("compile_s", compiled)], format!("{} of compiling in the run, no more than a warm-up", seconds(compiled)))
        }
        (None, false) if outlier.is_none() && named.is_none() => {
            clear(vec![("recompile_lines", 0.0)], "the log has no line about recompiling")
        }
        _ => undecided(situation, &["engine.compile_time", "the server's log"], "no log and no compile time", TRACE),
    }
}

/// Seconds of compiling while requests ran. What a log tells before is the start-up's and no stall.
fn compiled_while_serving(arm: &Arm) -> Option<f64> {
    if arm.logged.contains_key("compiled") || arm.has_timeline() {
        let mut total = None;
        for engine in arm.engines.values() {
            let served = engine
                .series("engine.running")
                .and_then(|running| running.t_ns.iter().zip(&running.value).find(|(_, value)| **value > 0.0).map(|(t, _)| *t));
            let compiles = engine.all_series().find(|(name, _)| name.starts_with("engine.compile_time"));
            if let Some((from, (_, series))) = served.zip(compiles) {
                let before = series.at(from).unwrap_or(0.0);
                *total.get_or_insert(0.0) += (series.max() - before).max(0.0);
            }
        }
        return total;
    }
    figure_of(&arm.figures, "engine.compile_time")
}

/// The longest step and the median, where the longest is beyond any batch.
fn outlier(situation: &Situation<'_>, times: f64) -> Option<(f64, f64)> {
    let figures = &situation.evidence.figures;
    let longest = ["engine.step_time.max", "client.itl.max", "server.itl.max", "engine.step_time.p99", "client.itl.p99", "server.itl.p99"];
    let longest = longest.iter().find_map(|name| figures.get(name))?;
    let median = figures
        .typical("engine.step_time")
        .or_else(|| figures.typical("client.itl"))
        .or_else(|| step_s(situation.evidence).map(|(step, _)| step))?;
    (longest >= COMPILE_S && longest >= times * median).then_some((longest, median))
}

fn found(situation: &Situation<'_>, ends: Option<[f64; 3]>, rows: Vec<Evidence>, words: &str) -> Found {
    let shown = ends.unwrap_or([0.0; 3]);
    let phases = [Phase::Decode, Phase::Prefill];
    let predictions = vec![
        token_falls(situation, shown, "compile spans vanish"),
        moves(
            "engine.compile_time",
            "compile time while serving",
            "s",
            Direction::Down,
            None,
            Some([0.0, 0.0]),
            "every shape is compiled before serving",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: words.to_string(),
        sentence: format!("The server compiles while it serves: {words}; requests with other shapes wait or run uncompiled."),
        claims: ends
            .map_or(Vec::new(), |ends| phases.into_iter().flat_map(|phase| claims(situation, phase, ends, Basis::Derived)).collect()),
        cost: cost(situation, Phase::Decode, shown[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "shapes and warm-up",
                "all shapes compiled before serving",
                "restart",
                "mark the varying dimension dynamic or bucket the shapes, and warm up each of them before serving",
            ),
            "a longer start-up",
            "lines about recompiling come again",
            predictions,
        )],
        falsified_by: "steps as slow before that line as after it".into(),
        context_only: false,
        limit: false,
    }
}
