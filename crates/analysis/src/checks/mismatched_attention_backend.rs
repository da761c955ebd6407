//! An attention kernel that is wrong for the shape or the device at hand.

mod by_trace;

use crate::check::{Answer, Found, check, clear, figure};
use crate::claims::Basis;
use crate::context_slope::{ContextSlope, most_cache_s};
use crate::contract::{Direction, Evidence};
use crate::decode_bound::{DecodeBound, NEAR};
use crate::device_remedy::{first_token_kept, hypothesis, moves, setting, token_falls};
use crate::device_step::{claims, cost, is_cpu, step_s};
use crate::kernel_time::{Family, GOOD_KERNEL, family, is_of_decode};
use crate::phase::Phase;
use crate::record_device::{TRACE, undecided};
use crate::situation::Situation;
use crate::slower_arm::{change_names, differing, faster_arm};
use crate::words::{digits, percent, seconds};

check! {
    /// Attention takes far longer than reading its cache takes.
    ///
    /// ## Why it costs time
    /// Decoding reads the keys and values of the whole context for every token. A kernel that splits this work over the
    /// device does it at the memory's speed. One that does not split, was written for another device, or falls back to plain
    /// operations leaves most of the device idle, and every token of context costs many times its bytes.
    ///
    /// ## How to confirm
    /// Time per token at a short and at a long context: the difference over the tokens between them, times the bandwidth, is
    /// the bytes a token seems to have. Above what the model's cache can have, the kernel is at fault. Or compare attention's
    /// kernel time with its ideal, or run once with another backend.
    ///
    /// ## Fix
    /// Another attention backend (the start-up log names the one in use), or the option that lets this one split long
    /// contexts.
    ///
    /// ## When this is wrong
    /// Attention is dear because the context is long: then the slope is near the cache's own bytes.
    id: "mismatched_attention_backend", layer: Kernel, rank: 70, phases: [Decode, Compute], bound: "logic", validated_on: "report", run: find,
}

/// A backend that replaces another must be faster by this much for the choice to be wrong; below it is tuning.
const CLEARLY: f64 = 0.10;

fn find(situation: &Situation<'_>) -> Answer {
    let arm = situation.evidence;
    if let Some(faster) = faster_arm(situation, |here, there| {
        KEYS.iter().any(|key| differing(here, there, key).is_some()) || change_names(here, there, &WORDS)
    }) {
        let rows = vec![
            figure(faster.signal, faster.mine_s, "s", "this arm"),
            figure(faster.signal, faster.theirs_s, "s", &format!("arm `{}`", faster.other.run_name)),
        ];
        let other = faster.other.settings.get(KEY).map_or("", |setting| setting.value.as_str());
        let named = if other.is_empty() { faster.name() } else { other };
        let words = format!("with {named} the same token takes {} of the time", percent(faster.theirs_s / faster.mine_s));
        if faster.excess() >= CLEARLY {
            return Answer::Found(Box::new(found(situation, faster.ends(), Basis::Typed, rows, &words, other)));
        }
    }
    let kind = family(arm, &["attention", "attn"]).map(|kind| {
        let ideal_s = kind.ideal_s.or_else(|| if is_of_decode(arm) { most_cache_s(situation.subject, arm) } else { None });
        Family { ideal_s, ..kind }
    });
    if let Some(kind) = kind.filter(|kind| kind.ideal_s.is_some()) {
        return by_kernels(situation, &kind);
    }
    if let Some(answer) = by_trace::answer(situation) {
        return answer;
    }
    if let Some(slope) = ContextSlope::read(situation.subject, arm) {
        return by_slope(situation, &slope);
    }
    if let Some(answer) = by_force(situation) {
        return answer;
    }
    if is_cpu(situation) {
        return undecided(situation, &["kernel.time by category"], "attention's time on this CPU is not known by itself", TRACE);
    }
    undecided(
        situation,
        &["client.tpot at a short and a long prompt", "kernel.time and kernel.time_ideal of attention"],
        "attention's time is not known by itself",
        TRACE,
    )
}

const KEY: &str = "config.attention_backend";
/// Settings that choose the kernel.
const KEYS: [&str; 4] = [KEY, "config.flash_attention", "config.decode_attention_backend", "config.flash_attention_version"];
/// Words in which people tell arms apart that differ in it.
const WORDS: [&str; 10] = [
    "attention backend",
    "attention-backend",
    "attention_backend",
    "attn",
    "flashinfer",
    "flash-attn",
    "flashattention",
    "flash attention",
    "flashmla",
    "sdpa",
];

/// A step this far above what its bytes take is slower than engines are, whatever the backend: the median of measured
/// steps stands at 3.4 times an ideal roofline.
const FAR: f64 = 4.0;

/// The log says that the engine took a backend that is not its choice for this device, and the step is far from its bound.
fn by_force(situation: &Situation<'_>) -> Option<Answer> {
    let arm = situation.evidence;
    arm.logged.get("attention_forced")?;
    let (step, step_from) = step_s(arm)?;
    let bound = DecodeBound::read_widest(situation.subject, arm)?;
    let factor = step / bound.achievable_s();
    if factor < FAR {
        return None;
    }
    let rows = vec![
        figure("step", step, "s", step_from),
        figure("reading weights and cache", bound.achievable_s(), "s", &bound.from),
        figure("backend forced", 1.0, "flag", "log"),
    ];
    let words = format!(
        "a step takes {} where its bytes take {}, and the log says that another backend was ruled out",
        seconds(step),
        seconds(bound.achievable_s())
    );
    // What else may hold such a step is not known: launches, matrix kernels, the host.
    let excess = 1.0 - NEAR / factor;
    Some(Answer::Found(Box::new(found(situation, [0.2 * excess, 0.7 * excess, excess], Basis::Bound, rows, &words, ""))))
}

fn by_kernels(situation: &Situation<'_>, kind: &Family) -> Answer {
    let factor = kind.factor().unwrap_or(1.0);
    let ends = kind.excess().unwrap_or([0.0; 3]);
    let margin = vec![("time_over_ideal", factor), ("excess_of_step", ends[1])];
    if factor < NEAR / GOOD_KERNEL || ends[1] < 0.05 {
        return clear(margin, format!("attention takes {} times its ideal time", digits(factor)));
    }
    let mut rows =
        vec![figure("kernel.time of attention", kind.time_s, "s", "trace"), figure("share of the step", kind.share, "ratio", "trace")];
    rows.extend(kind.ideal_s.map(|ideal| figure("kernel.time_ideal of attention", ideal, "s", "its own bytes")));
    let words = format!("attention takes {} per step where its own bytes take {}", seconds(kind.time_s), seconds(kind.time_s / factor));
    Answer::Found(Box::new(found(situation, ends, Basis::Counterfactual, rows, &words, "")))
}

fn by_slope(situation: &Situation<'_>, slope: &ContextSlope) -> Answer {
    let over = slope.over_most();
    let ends = slope.ends();
    let margin = vec![("slope_over_largest_cache", over), ("excess_of_step", ends[0])];
    if over < NEAR || ends[0] < 0.05 {
        let what = if slope.per_token_s <= 0.0 {
            "context adds nothing to a step".to_string()
        } else {
            format!("a token of context costs {} of the most its cache can take to read", percent(over))
        };
        return clear(margin, what);
    }
    let rows = vec![
        figure("what a token of context adds", slope.per_token_s, "s", "sweep over prompt lengths"),
        figure("bytes per token that this would be", slope.per_token_s * slope.reachable, "byte", "times reachable bandwidth"),
        figure("most that the cache can have", slope.most_bytes, "byte", &slope.from),
        figure("step at the longest context", slope.longest.1, "s", "sweep"),
    ];
    let words = format!(
        "each token of context adds {} to a step, as long as reading {} MB; a cache has {} MB per token at most",
        seconds(slope.per_token_s),
        digits(slope.per_token_s * slope.reachable * 1e-6),
        digits(slope.most_bytes * 1e-6)
    );
    Answer::Found(Box::new(found(situation, ends, Basis::Counterfactual, rows, &words, "")))
}

fn found(situation: &Situation<'_>, ends: [f64; 3], basis: Basis, rows: Vec<Evidence>, words: &str, to: &str) -> Found {
    let backend = situation.evidence.settings.get(KEY).map_or(String::new(), |setting| format!(" (backend {})", setting.value));
    let to = if to.is_empty() { "one made for this device and shape" } else { to };
    let predictions = vec![
        token_falls(situation, ends, "attention at the speed of its own bytes"),
        moves("kernel.time{category=\"attention\"}", "attention", "s", Direction::Down, None, None, "to the ratio of its roofline"),
        first_token_kept(situation),
    ];
    Found {
        summary: format!("{words}{backend}"),
        sentence: format!("Attention is far off what reading its cache takes{backend}: {words}."),
        claims: claims(situation, Phase::Decode, ends, basis),
        cost: cost(situation, Phase::Decode, ends[1]),
        evidence: rows,
        hypotheses: vec![hypothesis(
            setting(situation, "attention_backend", to),
            "another backend may lack a feature (KV format, sliding window) or differ in rounding",
            "time per token at long context does not fall",
            predictions,
        )],
        falsified_by: "another backend with the same time per token at this context".into(),
        context_only: false,
        limit: false,
    }
}
