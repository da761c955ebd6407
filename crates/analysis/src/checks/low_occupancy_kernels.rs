//! Kernels that fill only part of the device and are at no limit of it.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::decode_bound::bandwidth;
use crate::device_remedy::{first_token_kept, hypothesis, moves, outside, token_falls};
use crate::device_step::{claims, cost, figure_of, is_cpu, step_s};
use crate::evidence::{Evidence as Arm, Point};
use crate::launches::Launches;
use crate::phase::Phase;
use crate::record_device::{ONE_KERNEL, undecided};
use crate::situation::Situation;
use crate::words::{digits, percent};

check! {
    /// Kernels leave most of the device empty, and neither its memory nor its arithmetic is near a limit.
    ///
    /// ## Why it costs time
    /// A device hides the latency of memory by switching among many warps. A kernel with fewer blocks than multiprocessors,
    /// or with few warps on each because registers or shared memory run out, waits for its own loads.
    ///
    /// ## How to confirm
    /// One kernel under `ncu`: less than one wave, or few eligible warps and many cycles without one, while memory and
    /// compute throughput are both below 60 %. From counters: multiprocessors active, few warps on them, memory and matrix
    /// units idle.
    ///
    /// ## Fix
    /// More parallel work per launch: a larger batch, split-k for matrices, split-kv for attention at long context and small
    /// batch; another backend; fewer registers per thread.
    ///
    /// ## When this is wrong
    /// A kernel at the memory's limit with low occupancy needs no more warps.
    id: "low_occupancy_kernels", layer: Hardware, rank: 73, phases: [Decode, Compute], bound: "logic", validated_on: "simulated", run: find,
}

/// A kernel that reaches this share of a limit has no use for more warps.
const NEAR_LIMIT: f64 = 0.6;
/// Schedulers without an eligible warp for more than this share of cycles wait for latency.
const STARVED: f64 = 0.5;
/// People profile one launch of a kernel that runs in every layer: below this share of a step its time is that launch's.
const ONE_LAUNCH: f64 = 0.05;
/// Fewer resident warps than this share of the most: less than what hides a load from memory.
const FEW_WARPS: f64 = 0.3;

/// A kernel, or the whole device, with what it reaches.
#[derive(Clone, Debug)]
struct Kernel {
    name: String,
    /// Best of memory and compute throughput over its peak.
    reached: f64,
    /// Why it waits.
    signs: Vec<String>,
    /// Its share of a step, where known.
    share: Option<f64>,
    rows: Vec<Evidence>,
}

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "no device with multiprocessors");
    }
    let mut kernels: Vec<Kernel> = arm
        .figures
        .points()
        .filter_map(|point| kernel(situation, arm, &|name| of_point(point, name), point.about("kernel").unwrap_or("kernel")))
        .collect();
    let name = arm.settings.get("kernel.name").map_or("the profiled kernel".to_string(), |setting| setting.value.clone());
    kernels.extend(kernel(situation, arm, &|quantity| arm.figures.typical(quantity), &name));
    kernels.extend(by_counters(arm));
    if kernels.is_empty()
        && let Some(answer) = by_trace::answer(situation)
    {
        return answer;
    }
    let starved = kernels.iter().filter(|kernel| kernel.reached < NEAR_LIMIT && !kernel.signs.is_empty());
    let worst = starved.max_by(|a, b| weight(a).total_cmp(&weight(b)));
    if let Some(worst) = worst {
        return Answer::Found(Box::new(found(situation, worst)));
    }
    match kernels.iter().max_by(|a, b| a.reached.total_cmp(&b.reached)) {
        Some(best) => clear(
            vec![("of_its_limit", best.reached)],
            if best.reached >= NEAR_LIMIT {
                format!("{} reaches {} of a limit: more warps would not help", best.name, percent(best.reached))
            } else {
                format!("{} has warps enough", best.name)
            },
        ),
        None => undecided(
            situation,
            &["kernel.occupancy", "kernel.waves", "kernel.dram_share", "kernel.no_eligible_warp"],
            "no kernel was profiled by itself",
            ONE_KERNEL,
        ),
    }
}

fn weight(kernel: &Kernel) -> f64 {
    kernel.share.unwrap_or(0.5) * (1.0 - kernel.reached)
}

fn of_point(point: &Point, name: &str) -> Option<f64> {
    point.typical(name)
}

/// One kernel from a profiler's figures.
fn kernel(situation: &Situation<'_>, arm: &Arm, get: &dyn Fn(&str) -> Option<f64>, name: &str) -> Option<Kernel> {
    let peak = || bandwidth(situation.subject, arm).map(|(rate, is_sustained, _)| if is_sustained { rate } else { 0.9 * rate });
    let memory = get("kernel.dram_share").or_else(|| Some(get("kernel.dram_bytes")? / peak()?));
    let compute = get("kernel.sm_throughput");
    let reached = [memory, compute].into_iter().flatten().reduce(f64::max)?;
    let mut signs = Vec::new();
    let mut rows: Vec<Evidence> = Vec::new();
    let mut note = |signal: &str, value: f64, unit: &str, is_sign: bool, words: String| {
        rows.push(figure(signal, value, unit, "profile of one kernel"));
        if is_sign {
            signs.push(words);
        }
    };
    if let Some(waves) = get("kernel.waves") {
        note("kernel.waves", waves, "factor", waves < 1.0, format!("{} of a wave of blocks", digits(waves)));
    }
    if let Some(occupancy) = get("kernel.occupancy") {
        note("kernel.occupancy", occupancy, "ratio", occupancy < FEW_WARPS, format!("{} occupancy", percent(occupancy)));
    }
    if let Some(theoretical) = get("kernel.occupancy_theoretical") {
        note(
            "kernel.occupancy_theoretical",
            theoretical,
            "ratio",
            theoretical < FEW_WARPS,
            format!("at most {} occupancy", percent(theoretical)),
        );
    }
    if let Some(none) = get("kernel.no_eligible_warp") {
        note("kernel.no_eligible_warp", none, "ratio", none >= STARVED, format!("no eligible warp in {} of the cycles", percent(none)));
    }
    if let Some(eligible) = get("kernel.eligible_warps") {
        note("kernel.eligible_warps", eligible, "factor", eligible < 1.0, format!("{} eligible warps per scheduler", digits(eligible)));
    }
    if let Some(threads) = get("kernel.active_threads_per_warp") {
        note(
            "kernel.active_threads_per_warp",
            threads,
            "factor",
            threads < 16.0,
            format!("{} of 32 threads active per warp", digits(threads)),
        );
    }
    if let Some(blocks) = get("kernel.block_limit_registers") {
        note(
            "kernel.block_limit_registers",
            blocks,
            "count",
            blocks <= 2.0,
            format!("registers allow {} blocks per multiprocessor", digits(blocks)),
        );
    }
    rows.extend(memory.map(|memory| figure("memory throughput", memory, "ratio", "of its peak")));
    rows.extend(compute.map(|compute| figure("kernel.sm_throughput", compute, "ratio", "of its peak")));
    let step = step_s(arm).map(|(step, _)| step);
    // A few percent of a step are one launch of many: then its share is not known.
    let share = get("kernel.time").zip(step).map(|(time, step)| (time / step).min(1.0)).filter(|share| *share >= ONE_LAUNCH);
    (rows.len() > 2 || !signs.is_empty()).then(|| Kernel { name: name.to_string(), reached, signs, share, rows })
}

/// The whole device from its counters: multiprocessors active with few warps, memory and matrix units idle.
fn by_counters(arm: &Arm) -> Option<Kernel> {
    let figures = &arm.figures;
    let active = figure_of(figures, "gpu.sm_active")?;
    let occupancy = figure_of(figures, "gpu.sm_occupancy");
    let memory = figure_of(figures, "gpu.dram_active")? / 0.8;
    let matrix = figure_of(figures, "gpu.tensor_active").map_or(0.0, |matrix| matrix / 0.6);
    let reached = memory.max(matrix).min(1.0);
    let mut signs = Vec::new();
    if let Some(occupancy) = occupancy.filter(|occupancy| active >= 0.5 && occupancy / active < FEW_WARPS) {
        signs.push(format!("multiprocessors {} active with {} of their warps", percent(active), percent(occupancy / active)));
    }
    // Few multiprocessors in use while the device is busy without gaps: kernels of less than a wave.
    let launches = Launches::read(arm);
    let no_gaps =
        launches.as_ref().is_some_and(|launches| launches.is_replayed() || launches.idle_share().is_some_and(|(share, _)| share < 0.1));
    if figure_of(figures, "gpu.busy").is_some_and(|busy| active < 0.4 * busy && busy >= 0.7) && no_gaps {
        signs.push(format!("only {} of the multiprocessors active while kernels follow one another", percent(active)));
    }
    let mut rows = vec![figure("gpu.sm_active", active, "ratio", "counter"), figure("gpu.dram_active", memory * 0.8, "ratio", "counter")];
    rows.extend(occupancy.map(|occupancy| figure("gpu.sm_occupancy", occupancy, "ratio", "counter")));
    Some(Kernel { name: "the device".into(), reached, signs, share: Some(1.0), rows })
}

fn found(situation: &Situation<'_>, kernel: &Kernel) -> Found {
    let room = 1.0 - kernel.reached / 0.8;
    let ends = kernel.share.map(|share| [0.3 * share * room, 0.7 * share * room, share * room]);
    let shown = ends.unwrap_or([0.0; 3]);
    let signs = kernel.signs.join(", ");
    let predictions = vec![
        token_falls(situation, shown, "the kernel at 0.8 of its nearer limit"),
        moves(
            "kernel.dram_share",
            "memory throughput of the kernel",
            "ratio",
            Direction::Up,
            Some(kernel.reached),
            Some([kernel.reached.min(0.8), 0.9]),
            "more warps in flight",
        ),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("{}: {signs}, at {} of its nearer limit", kernel.name, percent(kernel.reached)),
        sentence: format!(
            "{} leaves the device empty ({signs}) and reaches {} of its nearer limit: it waits for its own loads.",
            kernel.name,
            percent(kernel.reached)
        ),
        claims: ends.map_or(Vec::new(), |ends| claims(situation, Phase::Decode, ends, Basis::Counterfactual)),
        cost: cost(situation, Phase::Decode, shown[1]),
        evidence: kernel.rows.clone(),
        hypotheses: vec![hypothesis(
            outside(
                "work per launch",
                "more",
                "restart",
                "give the kernel more to do at once: a larger batch, split-k or split-kv, or another backend for this shape",
            ),
            "a larger batch raises time per token; a split kernel needs a reduction",
            "the kernel's throughput does not rise",
            predictions,
        )],
        falsified_by: "the kernel with full occupancy and the same time".into(),
        context_only: false,
        limit: false,
    }
}
