//! Matrix products that do not run on the matrix units although format and shapes would allow it.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::contract::{Direction, Evidence};
use crate::device_remedy::{hypothesis, moves, outside, token_kept};
use crate::device_step::{claims, cost, figure_of, is_cpu};
use crate::evidence::Evidence as Arm;
use crate::phase::Phase;
use crate::prefill_rate::utilization;
use crate::record_device::{COUNTERS, undecided};
use crate::situation::Situation;
use crate::words::percent;

check! {
    /// Prompts are computed without the matrix units.
    ///
    /// ## Why it costs time
    /// The matrix units of a device are 8 to 16 times as fast as its general pipelines. A 32-bit format, a shape that is not
    /// aligned, or a kernel written without them computes prompts at the slow rate. Decoding at small batches does not mind:
    /// it waits for memory.
    ///
    /// ## How to confirm
    /// The matrix pipe is idle (below 5 %) while the multiprocessors are busy and prompts are computed; kernel names say
    /// `sgemm` or `simt`; the rate of prompt tokens is below a tenth of the device's arithmetic.
    ///
    /// ## Fix
    /// A 16-bit or 8-bit format, dimensions that are multiples of 8 or 16, a backend with matrix kernels for this device.
    ///
    /// ## When this is wrong
    /// The work is a product with a vector (decode at one stream): memory is what it waits for.
    id: "idle_tensor_cores", layer: Hardware, rank: 72, phases: [Prefill, Decode, Compute], bound: "compute", validated_on: "typed", run: find,
}

/// The matrix pipe below this share of its cycles does not compute the products.
const IDLE: f64 = 0.05;
/// The multiprocessors are busy from here on.
const BUSY: f64 = 0.5;
/// Matrix units are at least this many times as fast as the general pipelines in the formats of inference.
const FASTER: f64 = 8.0;
/// Without matrix units a device reaches at most an eighth of its matrix rate, and good kernels 0.7 of that.
const WITHOUT: f64 = 0.7 / FASTER;
/// Below this many sequences decoding is a product with few vectors and waits for memory on every device.
const FEW: f64 = 32.0;
/// Parts of names of kernels that do without matrix units.
const NAMES: [&str; 5] = ["sgemm", "simt", "fp32_gemm", "f32f32_f32f32", "dgemm"];

/// Signs that the units are idle, with figures.
#[derive(Clone, Debug)]
struct Sign {
    words: String,
    rows: Vec<Evidence>,
    phase: Phase,
}

fn find(situation: &Situation<'_>) -> Answer {
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    let arm = situation.evidence;
    if is_cpu(situation) {
        return clear(Vec::new(), "no accelerator with matrix units");
    }
    let used = utilization(situation.subject, arm);
    let active = active(arm);
    if let Some(used) = used.filter(|used| *used > 1.5 * WITHOUT) {
        return clear(
            vec![("of_peak_arithmetic", used)],
            format!("prompts reach {} of the matrix rate, more than the device could without its matrix units", percent(used)),
        );
    }
    if let Some((active, _)) = active.filter(|(active, _)| *active >= IDLE) {
        return clear(vec![("tensor_active", active)], format!("the matrix units are active {} of the time", percent(active)));
    }
    let sign = by_name(situation, arm).or_else(|| by_counter(arm, active)).or_else(|| by_format(arm, used));
    let Some(sign) = sign else {
        return undecided(
            situation,
            &["gpu.tensor_active in prefill", "kernel.name", "client.throughput.prompt"],
            "whether products run on the matrix units is not known",
            COUNTERS,
        );
    };
    Answer::Found(Box::new(found(situation, &sign, used)))
}

/// Activity of the matrix pipe where products are large: in prefill, or at a batch that is more than a few vectors.
fn active(arm: &Arm) -> Option<(f64, Phase)> {
    let figures = &arm.figures;
    let in_prefill =
        figures.by_label("gpu.tensor_active", "phase").into_iter().find(|(phase, _)| phase == "prefill").map(|(_, active)| active);
    if let Some(active) = in_prefill {
        return Some((active, Phase::Prefill));
    }
    let active = figures.typical("gpu.tensor_active")?;
    let prompts_only = figure_of(figures, "client.throughput.prompt").is_some() && figure_of(figures, "client.tpot").is_none();
    let large_batch = crate::decode_bound::batch(arm) >= FEW;
    match (prompts_only, large_batch) {
        (true, _) => Some((active, Phase::Prefill)),
        (false, true) => Some((active, Phase::Decode)),
        _ => None,
    }
}

fn by_counter(arm: &Arm, active: Option<(f64, Phase)>) -> Option<Sign> {
    let (active, phase) = active?;
    let figures = &arm.figures;
    let busy = figure_of(figures, "gpu.sm_active").filter(|busy| *busy >= BUSY)?;
    if figure_of(figures, "gpu.dram_active").is_some_and(|memory| memory >= BUSY) {
        return None;
    }
    Some(Sign {
        words: format!("the matrix units are active {} of the time while the multiprocessors are {} busy", percent(active), percent(busy)),
        rows: vec![figure("gpu.tensor_active", active, "ratio", "counter"), figure("gpu.sm_active", busy, "ratio", "counter")],
        phase,
    })
}

/// Kernels whose names say that they do without, in a phase where products are large.
fn by_name(situation: &Situation<'_>, arm: &Arm) -> Option<Sign> {
    let figures = &arm.figures;
    let large = crate::decode_bound::batch(arm) >= FEW || situation.claimable_s(Phase::Prefill) > 0.0;
    let in_rows = figures.points().filter_map(|point| point.about("kernel").map(ToString::to_string));
    let labelled = figures.by_label("kernel.time", "kernel").into_iter().map(|(name, _)| name);
    let named = arm.settings.get("kernel.name").map(|setting| setting.value.clone());
    let name = in_rows.chain(labelled).chain(named).find(|name| {
        let lower = name.to_ascii_lowercase();
        NAMES.iter().any(|part| lower.contains(part))
    })?;
    let phase = if situation.claimable_s(Phase::Prefill) > 0.0 { Phase::Prefill } else { Phase::Decode };
    large.then(|| Sign {
        words: format!("kernel `{name}` multiplies without matrix units"),
        rows: vec![figure("kernel without matrix units", 1.0, "flag", &name)],
        phase,
    })
}

/// A 32-bit format and a rate that the general pipelines explain.
fn by_format(arm: &Arm, used: Option<f64>) -> Option<Sign> {
    let dtype = arm.settings.get("config.dtype")?;
    let wide = matches!(dtype.value.trim_start_matches("torch."), "float32" | "fp32" | "float");
    let used = used.filter(|_| wide)?;
    Some(Sign {
        words: format!("weights are in 32 bit and prompts reach {} of the matrix rate", percent(used)),
        rows: vec![
            figure("share of the matrix rate", used, "ratio", "2 x parameters x tokens per second over peak"),
            figure("config.dtype is 32 bit", 1.0, "flag", &dtype.origin),
        ],
        phase: Phase::Prefill,
    })
}

fn found(situation: &Situation<'_>, sign: &Sign, used: Option<f64>) -> Found {
    // On the matrix units the same products take an eighth at best; attention, norms and memory do not shrink.
    let ends = [0.3, 0.6, 1.0 - 1.0 / FASTER];
    let mut rows = sign.rows.clone();
    rows.extend(
        used.map(|used| figure("prompts, share of the matrix rate", used, "ratio", "2 x parameters x tokens per second over peak")),
    );
    let phase_falls = crate::predict::Movement::first_token(situation, Direction::Down)
        .primary()
        .refused("falls with prefill, at most eightfold")
        .build();
    Found {
        summary: sign.words.clone(),
        sentence: format!("Products run beside the matrix units: {}.", sign.words),
        claims: claims(situation, sign.phase, ends, Basis::Bound),
        cost: cost(situation, sign.phase, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            outside(
                "number format and kernels",
                "16 or 8 bit on matrix units",
                "restart",
                "serve in a 16-bit or 8-bit format with a backend that has matrix kernels for this device",
            ),
            "rounding; a backend may lack a format",
            "the matrix pipe stays idle",
            vec![
                phase_falls,
                moves(
                    "gpu.tensor_active",
                    "matrix units active",
                    "ratio",
                    Direction::Up,
                    figure_of(&situation.evidence.figures, "gpu.tensor_active"),
                    Some([IDLE, 0.6]),
                    "products move to them",
                ),
                token_kept(situation),
            ],
        )],
        falsified_by: "matrix units active while prompts take as long".into(),
        context_only: false,
        limit: false,
    }
}
