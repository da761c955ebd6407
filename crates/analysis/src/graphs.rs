//! Captured graph sizes against the batches that run, and step time over the batch from a sweep.

use capture::Subject;

use crate::check::figure;
use crate::contract;
use crate::device_step::figure_of;
use crate::evidence::{Evidence, Point};
use crate::launches::{Launches, REPLAYED};
use crate::situation::Situation;
use crate::words::{count, percent};

/// Sizes for which graphs were captured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizes {
    /// All of them, ascending; only the largest where the list is not known.
    pub list: Vec<f64>,
    /// True when the list is complete.
    pub is_complete: bool,
    /// Where they are from.
    pub from: String,
}

impl Sizes {
    /// Reads the list (`[1, 2, 4]`, `1 2 4`), else the largest.
    pub fn read(evidence: &Evidence) -> Option<Self> {
        let settings = &evidence.settings;
        let parse = |text: &str| -> Vec<f64> {
            let mut list: Vec<f64> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
            list.sort_unstable_by(f64::total_cmp);
            list
        };
        if let Some(setting) = settings.get("config.graph_sizes") {
            let list = parse(&setting.value);
            if !list.is_empty() {
                return Some(Self { list, is_complete: true, from: setting.origin.clone() });
            }
        }
        let largest = settings.number("config.graph_max_size").or_else(|| figure_of(&evidence.figures, "config.graph_max_size"));
        let from = settings.get("config.graph_max_size").map_or("typed".into(), |setting| setting.origin.clone());
        largest.filter(|size| *size > 0.0).map(|size| Self { list: vec![size], is_complete: false, from })
    }

    /// The largest.
    pub fn largest(&self) -> f64 {
        self.list.last().copied().unwrap_or(0.0)
    }

    /// The size that a batch is replayed at.
    pub fn replayed(&self, batch: f64) -> Option<f64> {
        self.list.iter().copied().find(|size| *size >= batch - 0.5).filter(|_| self.is_complete)
    }
}

/// A peak this far above the largest size is above it for more than a moment.
const CLEARLY_ABOVE: f64 = 1.25;

/// What a graph's size counts: sequences times the tokens that each verifies in a step. vLLM counts tokens, others count
/// sequences.
pub fn tokens_per_seq(subject: &Subject, evidence: &Evidence) -> f64 {
    let counts_tokens = subject.engine.starts_with("vllm");
    let drafts = evidence.settings.number("config.speculative_tokens").unwrap_or(0.0);
    if counts_tokens { 1.0 + drafts.max(0.0) } else { 1.0 }
}

/// Sequences that decode together: low (typical) and high, and where from. Little's law where only the load is typed.
pub fn batches(situation: &Situation<'_>) -> Option<(f64, f64, &'static str)> {
    if situation.load.running_mean > 0.0 {
        return Some((situation.load.running_mean / situation.load.engines(), situation.load.running_max, "scrapes or log"));
    }
    typed_batches(situation.evidence)
}

fn typed_batches(evidence: &Evidence) -> Option<(f64, f64, &'static str)> {
    let figures = &evidence.figures;
    if let Some(high) = figures.highest("engine.running") {
        // Of a peak alone only a clear excess counts.
        return Some((figures.anywhere("engine.running").unwrap_or(high / CLEARLY_ABOVE), high, "engine.running"));
    }
    let by_little = || {
        let rate = figures.typical("client.request_rate").or_else(|| figures.typical("client.throughput.requests"))?;
        let token = figure_of(figures, "client.tpot").or_else(|| figure_of(figures, "server.tpot"))?;
        let running = rate * figures.typical("server.output_tokens")? * token;
        Some((running, running, "Little: rate x output tokens x time per token"))
    };
    by_little()
}

/// Time of a step over the sequences in it, from a sweep; ascending, one row per batch.
pub fn step_curve(evidence: &Evidence) -> Vec<(f64, f64)> {
    let drafts = evidence.settings.number("config.speculative_tokens").unwrap_or(0.0) > 0.0;
    let step = |point: &Point, batch: f64| {
        let direct =
            ["engine.step_time", "client.tpot", "server.tpot", "client.itl", "server.itl"].iter().find_map(|name| point.typical(name));
        direct.or_else(|| point.typical("client.throughput.output").filter(|rate| *rate > 0.0).map(|rate| batch / rate))
    };
    let mut rows: Vec<(f64, f64)> = evidence
        .figures
        .points()
        .filter(|point| point.typical("config.speculative_tokens").is_none() && point.about("class").is_none())
        .filter_map(|point| {
            let batch = ["engine.running", "engine.step_seqs", "client.concurrency"].iter().find_map(|name| point.typical(name))?;
            Some((batch, step(point, batch)?))
        })
        .filter(|(batch, step)| *batch >= 1.0 && *step > 0.0 && step.is_finite())
        .collect();
    rows.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    rows.dedup_by(|a, b| a.0 == b.0);
    if drafts { Vec::new() } else { rows }
}

/// A jump of the step time between two batches that no step law allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cliff {
    /// Largest batch before it, and its step, s.
    pub before: (f64, f64),
    /// Smallest batch after it, and its step, s.
    pub after: (f64, f64),
    /// What the step law allows at the larger batch, s: extrapolated, and at most (in proportion to the batch).
    pub allowed_s: (f64, f64),
}

impl Cliff {
    /// Share of the later step that the law does not allow, `[lo, mid, hi]`.
    pub fn ends(&self) -> [f64; 3] {
        let share = |allowed: f64| (1.0 - allowed / self.after.1).max(0.0);
        [share(self.allowed_s.1), share(self.allowed_s.0), share(self.before.1)]
    }
}

/// Times typed by hand are rounded and vary by some percent; a jump must stand out of that.
const SPREAD: f64 = 1.15;

/// The largest cliff. A step grows with its batch by less than in proportion: its weights are read once whatever the
/// batch is, and beyond the ridge the arithmetic grows in proportion at most. A step that more than that separates from
/// the one before runs in another way.
pub fn cliff(curve: &[(f64, f64)]) -> Option<Cliff> {
    let jumps = curve.windows(2).enumerate().filter_map(|(at, pair)| {
        let (before, after) = (pair[0], pair[1]);
        let most = before.1 * after.0 / before.0;
        let slope = at.checked_sub(1).map(|below| (before.1 - curve[below].1) / (before.0 - curve[below].0));
        let extrapolated = slope.map_or(most, |slope| before.1 + slope.max(0.0) * (after.0 - before.0));
        let allowed_s = (extrapolated.min(most), most);
        (after.1 > SPREAD * most).then_some(Cliff { before, after, allowed_s })
    });
    jumps.max_by(|a, b| a.ends()[1].total_cmp(&b.ends()[1]))
}

/// Largest decode batch that vLLM captures when no size is stated: 1, 2, 4 and multiples of 8, at most the seats.
pub fn default_largest(situation: &Situation<'_>) -> Option<f64> {
    let seats = situation.evidence.settings.number("config.max_num_seqs").filter(|seats| *seats >= 1.0)?;
    situation.subject.engine.starts_with("vllm").then(|| match seats {
        seats if seats >= 8.0 => (seats / 8.0).floor() * 8.0,
        seats if seats >= 4.0 => 4.0,
        seats => seats.min(2.0),
    })
}

/// Why steps are not replayed.
#[derive(Clone, Debug, PartialEq)]
pub enum NotReplayed {
    /// The configuration says eager.
    Eager {
        /// Where that was read.
        from: String,
    },
    /// A log says that the capture failed.
    CaptureFailed,
    /// More sequences run than the largest captured size holds.
    AboveLargest {
        /// Largest captured size.
        largest: f64,
        /// Sequences that run, typically.
        typical: f64,
        /// Sequences that run at most.
        high: f64,
        /// Where the sizes are from.
        from: String,
        /// Where the sequences are from.
        batch_from: &'static str,
    },
    /// The engine counts few decode steps as replayed.
    FewSteps {
        /// Share of decode steps.
        share: f64,
        /// Steps counted.
        steps: f64,
    },
    /// A trace counts few kernels from graphs.
    FewReplayed {
        /// Share of kernels from graphs.
        share: f64,
    },
}

impl NotReplayed {
    /// In words, for a sentence.
    pub fn words(&self) -> String {
        match self {
            Self::Eager { .. } => "eager mode is on: no step is replayed from a graph".into(),
            Self::CaptureFailed => "the log says that capturing the graphs failed".into(),
            Self::AboveLargest { largest, high, .. } => {
                format!("up to {} sequences run while graphs reach to {}", count(*high), count(*largest))
            }
            Self::FewSteps { share, steps } => {
                format!("the engine replays {} of {} decode steps from graphs", percent(*share), count(*steps))
            }
            Self::FewReplayed { share } => format!("{} of the kernels are replayed from graphs", percent(*share)),
        }
    }

    /// The figures it rests on.
    pub fn rows(&self) -> Vec<contract::Evidence> {
        match self {
            Self::Eager { from } => vec![figure("config.enforce_eager", 1.0, "flag", from)],
            Self::CaptureFailed => vec![figure("graph capture failed", 1.0, "flag", "log")],
            Self::AboveLargest { largest, typical, high, from, batch_from } => vec![
                figure("largest captured size", *largest, "count", from),
                figure("running, typical", *typical, "request", batch_from),
                figure("running, most", *high, "request", batch_from),
            ],
            Self::FewSteps { share, .. } => vec![figure("decode steps replayed", *share, "ratio", "counters or log")],
            Self::FewReplayed { share } => vec![figure("kernel.graph_share", *share, "ratio", "trace")],
        }
    }
}

/// A moment above the largest size costs a moment: the typical batch must be above, or the most clearly so.
fn is_above(sizes: &Sizes, typical: f64, high: f64, per_seq: f64) -> bool {
    typical * per_seq > sizes.largest() || high * per_seq >= CLEARLY_ABOVE * sizes.largest()
}

/// Whether a typed arm runs above its largest captured size; `None` where it does not say.
pub fn runs_above(subject: &Subject, evidence: &Evidence) -> Option<bool> {
    let sizes = Sizes::read(evidence)?;
    let (typical, high, _) = typed_batches(evidence)?;
    Some(is_above(&sizes, typical, high, tokens_per_seq(subject, evidence)))
}

/// Fewer counted steps or lines than this say nothing; a log prints every fortieth step.
const MIN_LINES: f64 = 5.0;
const MIN_STEPS: f64 = 200.0;

/// Share of decode steps that the engine itself counts as replayed, and how many it counted. No engine replays prefill
/// whole, so its steps are left out.
pub fn replayed_steps(evidence: &Evidence) -> Option<(f64, f64)> {
    let (mut replayed, mut all) = (0.0, 0.0);
    for (name, series) in evidence.engines.values().flat_map(crate::evidence::Engine::all_series) {
        let Some(text) = name.strip_prefix("engine.graph_steps{") else { continue };
        if text.contains("source=\"log\"") || text.contains("prefill") || text.contains("extend") {
            continue;
        }
        let grown = series.growth();
        all += grown;
        replayed += if text.contains("graph") { grown } else { 0.0 };
    }
    if all >= MIN_STEPS {
        return Some((replayed / all, all));
    }
    let flags = &evidence.logged.get("periodic")?.flags;
    let of = |flag: &str| flags.get(flag).map_or(0.0, |count| *count as f64);
    let (yes, no) = (of("graph=true"), of("graph=false"));
    (yes + no >= MIN_LINES).then(|| (yes / (yes + no), yes + no))
}

/// Why decode steps of this arm are not replayed, where something says so.
pub fn not_replayed(situation: &Situation<'_>) -> Option<NotReplayed> {
    let arm = situation.evidence;
    let mode_off = arm.settings.get("config.graph_mode").is_some_and(|mode| mode.value.eq_ignore_ascii_case("none"));
    if arm.settings.flag("config.enforce_eager") == Some(true) || mode_off {
        let key = if mode_off { "config.graph_mode" } else { "config.enforce_eager" };
        return Some(NotReplayed::Eager { from: situation.setting_origin(key) });
    }
    if let Some(off) = arm.settings.get("env.GGML_CUDA_DISABLE_GRAPHS").filter(|setting| setting.value != "0") {
        return Some(NotReplayed::Eager { from: off.origin.clone() });
    }
    if let Some((share, steps)) = replayed_steps(arm).filter(|(share, _)| *share < REPLAYED) {
        return Some(NotReplayed::FewSteps { share, steps });
    }
    if let Some(share) = Launches::read(arm).and_then(|launches| launches.graph_share) {
        return (share < REPLAYED).then_some(NotReplayed::FewReplayed { share });
    }
    if arm.logged.contains_key("graph_capture_failed") {
        return Some(NotReplayed::CaptureFailed);
    }
    let sizes = Sizes::read(arm)?;
    let (typical, high, batch_from) = batches(situation)?;
    let above = is_above(&sizes, typical, high, tokens_per_seq(situation.subject, arm));
    above.then(|| NotReplayed::AboveLargest { largest: sizes.largest(), typical, high, from: sizes.from.clone(), batch_from })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_beyond_proportion_is_a_cliff_and_a_curve_is_none() {
        let cliff = cliff(&[(1.0, 0.0071), (8.0, 0.0098), (9.0, 0.026)]).unwrap();
        assert_eq!((cliff.before.0, cliff.after.0), (8.0, 9.0));
        let [lo, mid, hi] = cliff.ends();
        assert!(0.5 < lo && lo < mid && mid < hi && hi < 0.7, "{lo} {mid} {hi}");
        assert_eq!(super::cliff(&[(1.0, 0.0071), (8.0, 0.0098), (64.0, 0.031), (256.0, 0.12)]), None);
    }
}
