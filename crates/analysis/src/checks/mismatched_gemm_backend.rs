//! Matrix, mixture or quantized kernels that are wrong for the shape or the device at hand.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::context_slope::ContextSlope;
use crate::contract::{Direction, Evidence};
use crate::decode_bound::{DecodeBound, NEAR, batch};
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::device_step::{claims, cost, is_cpu, step_s};
use crate::evidence::Evidence as Arm;
use crate::kernel_time::{Family, GOOD_KERNEL, family, is_of_decode};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, compare, differing, faster_arm};
use crate::words::{digits, percent, seconds};

check! {
    /// Matrix products, expert layers or quantized kernels take far longer than reading their weights takes.
    ///
    /// ## Why it costs time
    /// At decode each weight is read once. A good kernel does that at the memory's speed. A generic expert kernel without a
    /// tuning file, a format that is widened before it is multiplied, or a backend for another device does not.
    ///
    /// ## How to confirm
    /// Kernel time of the family against its bytes over bandwidth; or a quantized model that is no faster than the same
    /// model unquantized; or a run with another backend.
    ///
    /// ## Fix
    /// Another backend for the family at hand, a tuned configuration for this device, or a format with native kernels.
    ///
    /// ## When this is wrong
    /// The step is long for other reasons (host, launches, links): without time by kind of kernel only a backend's name and
    /// the distance from the bound point here. A missing tuning file by itself costs some percent.
    id: "mismatched_gemm_backend", layer: Kernel, rank: 71, phases: [Decode, Compute], bound: "logic", validated_on: "simulated", run: find,
}

/// Settings that choose these kernels.
const KEYS: [&str; 3] = ["config.moe_backend", "config.gemm_backend", "config.linear_backend"];
/// Without time by kind of kernel a step must be this far from its bound: the median of measured steps stands at 3.4
/// times an ideal roofline, whatever the backend.
const FAR: f64 = 4.0;
/// Words in which people tell arms apart that differ in them.
const WORDS: [&str; 12] = [
    "moe backend",
    "moe-backend",
    "moe_backend",
    "moe-runner",
    "gemm",
    "marlin",
    "machete",
    "cutlass",
    "tuned config",
    "tuned moe",
    "moe config",
    "linear backend",
];
/// Up to this many sequences bytes, not arithmetic, are what matrix kernels wait for on every device.
const FEW: f64 = 32.0;
/// Log lines that name a generic kernel.
const GENERIC: [&str; 4] = ["moe_default_config", "default_kernel_config", "slow_quantization", "weight_only_fp8"];
/// What a missing tuning file costs as a rule.
const UNTUNED: f64 = 0.05;

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    let differs = |here: &Arm, there: &Arm| {
        let generic = |arm: &Arm| GENERIC.iter().any(|kind| arm.logged.contains_key(*kind));
        KEYS.iter().any(|key| differing(here, there, key).is_some())
            || change_names(here, there, &WORDS)
            || (generic(here) && !generic(there) && !there.logged.is_empty())
    };
    if let Some(faster) = faster_arm(situation, differs) {
        let rows = vec![
            figure(faster.signal, faster.mine_s, "s", "this arm"),
            figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
        ];
        let words = format!("another backend needs {} of the time", percent(faster.theirs_s / faster.mine_s));
        return Answer::Found(Box::new(found(situation, faster.ends(), Basis::Typed, rows, &words)));
    }
    if let Some(answer) = by_format(situation) {
        return answer;
    }
    let kind = family(arm, &["gemm", "matmul", "moe", "expert", "quant", "linear"]).map(|kind| {
        // At decode these kernels read each weight once, so the weights over the bandwidth are their ideal.
        let by_weights = || DecodeBound::read(situation.subject, arm).map(|bound| bound.weight_bytes / bound.bytes_per_s);
        // A batch that nobody states may be large enough for arithmetic to set the time.
        let stated = arm.figures.anywhere("engine.running").or_else(|| arm.figures.anywhere("client.concurrency"));
        let is_few = stated.is_some_and(|batch| batch <= FEW);
        let ideal_s = kind.ideal_s.or_else(|| if is_few && is_of_decode(arm) { by_weights() } else { None });
        Family { ideal_s, ..kind }
    });
    if let Some(kind) = kind.filter(|kind| kind.ideal_s.is_some()) {
        return by_kernels(situation, &kind);
    }
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    by_bound(situation, arm)
}

fn by_kernels(situation: &Situation<'_>, kind: &Family) -> Answer {
    let factor = kind.factor().unwrap_or(1.0);
    let ends = kind.excess().unwrap_or([0.0; 3]);
    let margin = vec![("time_over_ideal", factor), ("excess_of_step", ends[1])];
    if factor < NEAR / GOOD_KERNEL || ends[1] < 0.05 {
        return clear(margin, format!("matrix kernels take {} times their ideal time", digits(factor)));
    }
    let mut rows =
        vec![figure("kernel.time", kind.time_s, "s", &kind.names.join(", ")), figure("share of the step", kind.share, "ratio", "trace")];
    rows.extend(kind.ideal_s.map(|ideal| figure("kernel.time_ideal", ideal, "s", "their own bytes or operations")));
    let words = format!(
        "{} kernels take {} per step where their own work takes {}",
        kind.names.join(" and "),
        seconds(kind.time_s),
        seconds(kind.time_s / factor)
    );
    Answer::Found(Box::new(found(situation, ends, Basis::Counterfactual, rows, &words)))
}

/// Fewer bytes per weight that save nothing: the format is widened before it is multiplied.
fn by_format(situation: &Situation<'_>) -> Option<Answer> {
    let arm = situation.evidence;
    let bytes = |arm: &Arm| DecodeBound::read(situation.subject, arm).map(|bound| bound.weight_bytes);
    let widths: Vec<(&Arm, f64, f64)> = situation
        .other_arms()
        .filter(|there| {
            differing(arm, there, "config.quantization").is_some()
                || (arm.settings.get("config.quantization").is_some() && there.settings.get("config.quantization").is_none())
        })
        .filter_map(|there| Some((there, bytes(arm)?, bytes(there)?)))
        .filter(|(_, mine, theirs)| *mine < 0.75 * theirs)
        .collect();
    let (there, mine, theirs) = widths.into_iter().next()?;
    let contrast = compare(arm, there)?;
    if batch(arm) > FEW {
        return None;
    }
    let ratio = contrast.mine_s / contrast.theirs_s;
    let expected = mine / theirs;
    let margin = vec![("time_ratio", ratio), ("bytes_ratio", expected)];
    if ratio < 0.9 {
        return Some(clear(margin, format!("{} of the bytes take {} of the time", percent(expected), percent(ratio))));
    }
    let share = 1.0 - expected / ratio;
    let rows = vec![
        figure(contrast.signal, contrast.mine_s, "s", "with the smaller format"),
        figure(contrast.signal, contrast.theirs_s, "s", &format!("arm `{}`", there.run_name)),
        figure("weight bytes over the wider format's", expected, "ratio", "settings and model"),
    ];
    let words = format!("the smaller format has {} of the bytes and takes {} of the time", percent(expected), percent(ratio));
    Some(Answer::Found(Box::new(found(situation, [0.3 * share, 0.7 * share, share], Basis::Counterfactual, rows, &words))))
}

/// The step against the bytes of its weights, with something that names the kernels.
fn by_bound(situation: &Situation<'_>, arm: &Arm) -> Answer {
    let generic = GENERIC.into_iter().find(|kind| arm.logged.contains_key(*kind));
    let named = KEYS.iter().find_map(|key| arm.settings.get(key)).map(|setting| setting.value.clone()).or_else(|| old_kernels(situation));
    let bound = DecodeBound::read(situation.subject, arm).zip(step_s(arm));
    let Some((bound, (step, step_from))) = bound else {
        return match generic {
            _ if arm.logged.contains_key(FORCED) => Answer::Found(Box::new(forced(situation))),
            Some(kind) => Answer::Found(Box::new(untuned(kind))),
            None => undecided(situation, &["kernel.time and kernel.time_ideal of gemm"], "time in matrix kernels is not known", TRACE),
        };
    };
    // What context adds belongs to attention.
    let base = ContextSlope::read(situation.subject, arm).map_or(step, |slope| slope.base_s.min(step));
    let factor = base / bound.achievable_s();
    let margin = vec![("step_over_reachable", factor)];
    if factor < NEAR {
        return clear(margin, format!("a step takes {} times what reading its weights takes", digits(factor)));
    }
    if arm.logged.contains_key(FORCED) && factor < FAR {
        return Answer::Found(Box::new(forced(situation)));
    }
    if let Some(kind) = generic.filter(|_| factor < FAR) {
        return Answer::Found(Box::new(untuned(kind)));
    }
    let Some(name) = named.or_else(|| generic.map(ToString::to_string)).filter(|_| factor >= FAR && !is_cpu(situation)) else {
        return undecided(
            situation,
            &["kernel.time and kernel.time_ideal of gemm"],
            format!(
                "a step takes {} times what its bytes take; whether kernels, launches or the host take the rest needs time by kind of kernel",
                digits(factor)
            ),
            TRACE,
        );
    };
    let excess = (base - NEAR * bound.achievable_s()).max(0.0) / step;
    let rows = vec![
        figure("step without context", base, "s", step_from),
        figure("reading the weights", bound.achievable_s(), "s", &bound.from),
        figure("weight bytes per step", bound.weight_bytes, "byte", &bound.from),
    ];
    let words = format!(
        "a step takes {} before any context where reading its weights takes {} ({name})",
        seconds(base),
        seconds(bound.achievable_s())
    );
    Answer::Found(Box::new(found(situation, [0.2 * excess, 0.7 * excess, excess], Basis::Bound, rows, &words)))
}

/// The engine says that it can run this model with faster kernels and was told not to.
const FORCED: &str = "slower_quantization";

/// vLLM runs these formats with its Marlin kernels, unless the format is named on the command line: then with the ones that
/// came with the format.
fn old_kernels(situation: &Situation<'_>) -> Option<String> {
    let setting = situation.evidence.settings.get("config.quantization")?;
    let is_told = !setting.origin.starts_with("default") && situation.subject.engine.starts_with("vllm");
    (is_told && ["awq", "gptq"].contains(&setting.value.as_str())).then(|| format!("kernels of `{}`", setting.value))
}

/// What the engine itself calls slower, without a measure of how much.
fn forced(situation: &Situation<'_>) -> Found {
    let words = "the log says that the model can run with faster kernels, and that the setting of its number format rules them out";
    let sentence = format!("Matrix kernels are not the fastest that this model has: {words}.");
    Found {
        sentence,
        claims: Vec::new(),
        cost: None,
        ..found(situation, [0.0; 3], Basis::Bound, vec![figure("slower kernels", 1.0, "flag", "log")], words)
    }
}

/// A line that names an untuned kernel: true, and some percent as a rule.
fn untuned(kind: &str) -> Found {
    Found {
        summary: format!("the log names a generic kernel ({}): some {} as a rule", kind.replace('_', " "), percent(UNTUNED)),
        sentence: "A generic kernel is in use; by itself that costs some percent of a step.".into(),
        evidence: vec![figure("generic kernel", 1.0, "flag", "log")],
        falsified_by: "a tuned configuration with clearly shorter steps".into(),
        context_only: true,
        ..Found::default()
    }
}

fn found(situation: &Situation<'_>, ends: [f64; 3], basis: Basis, rows: Vec<Evidence>, words: &str) -> Found {
    let predictions = vec![
        token_falls(situation, ends, "matrix kernels at the speed of their own bytes"),
        moves("kernel.time{category=\"gemm\"}", "matrix kernels", "s", Direction::Down, None, None, "to the ratio of their roofline"),
        first_token_kept(situation),
    ];
    Found {
        summary: words.to_string(),
        sentence: format!("Matrix kernels are far off what reading their weights takes: {words}."),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            if old_kernels(situation).is_some() {
                setting(situation, "quantization", "not stated: the engine then takes its fastest kernels")
            } else {
                setting(situation, "moe_backend", "one with kernels for this device and format")
            },
            "another backend may differ in rounding or lack a format",
            "time per token does not fall",
            predictions,
        )],
        falsified_by: "another backend or a tuned configuration with steps as long".into(),
        context_only: false,
        limit: false,
    }
}
