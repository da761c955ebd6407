//! Two arms of one system that differ in one thing: how much longer the same token or step takes in this one.

use crate::arms::{at_equal_load, load_differs};
use crate::evidence::Evidence;
use crate::situation::Situation;

/// This arm against a faster one.
#[derive(Clone, Debug)]
pub struct Contrast<'a> {
    /// The other arm.
    pub other: &'a Evidence,
    /// Signal compared.
    pub signal: &'static str,
    /// Time here, s; for a rate its inverse.
    pub mine_s: f64,
    /// Time there, s.
    pub theirs_s: f64,
}

impl Contrast<'_> {
    /// Share of the time here that the other arm does not need.
    pub fn excess(&self) -> f64 {
        (1.0 - self.theirs_s / self.mine_s).clamp(0.0, 1.0)
    }

    /// The share as a claim's ends. Two runs of one load differ by some percent without any change.
    pub fn ends(&self) -> [f64; 3] {
        let share = self.excess();
        [(share - RUN_SPREAD).max(0.0), share, (share + RUN_SPREAD).min(1.0)]
    }

    /// The other arm's name, for a sentence.
    pub fn name(&self) -> &str {
        if self.other.changed.is_empty() { &self.other.run_name } else { &self.other.changed }
    }
}

/// Two runs of one load differ by up to this share without any change (attribution, section 9: 3 % practical noise).
pub const RUN_SPREAD: f64 = 0.03;
/// A difference below this is not told from noise and mix.
const MATERIAL: f64 = 0.10;

/// Times of one token or step, then of more; with `true` where a rate is given, whose inverse is the time.
const TOKEN_TIMES: [(&str, bool); 11] = [
    ("engine.step_time", false),
    ("client.tpot", false),
    ("server.tpot", false),
    ("client.itl", false),
    ("server.itl", false),
    ("client.throughput.output", true),
    ("server.throughput.output", true),
    ("client.throughput.total", true),
    ("client.throughput.requests", true),
    ("client.e2e", false),
    ("client.duration", false),
];
/// Times of computing a prompt.
const PROMPT_TIMES: [(&str, bool); 4] =
    [("server.prefill_time", false), ("client.throughput.prompt", true), ("server.ttft", false), ("client.ttft", false)];
/// What rows of two sweeps may have in common.
const KEYS: [&str; 6] =
    ["client.concurrency", "server.prompt_tokens", "engine.running", "engine.stage", "client.request_rate", "config.speculative_tokens"];

/// The time of a token or step in two arms at equal load, largest load first; `None` where they have none in common.
pub fn compare<'a>(here: &Evidence, there: &'a Evidence) -> Option<Contrast<'a>> {
    compare_by(&TOKEN_TIMES, here, there)
}

/// The same for the time of computing a prompt.
pub fn compare_prompts<'a>(here: &Evidence, there: &'a Evidence) -> Option<Contrast<'a>> {
    compare_by(&PROMPT_TIMES, here, there)
}

fn compare_by<'a>(times: &[(&'static str, bool)], here: &Evidence, there: &'a Evidence) -> Option<Contrast<'a>> {
    if load_differs(here, there) {
        return None;
    }
    times.iter().copied().find_map(|(signal, is_rate)| {
        let pairs = KEYS.into_iter().map(|key| at_equal_load(here, there, signal, key)).find(|pairs| !pairs.is_empty())?;
        let (_, mine, theirs) =
            pairs.into_iter().filter(|(_, mine, theirs)| *mine > 0.0 && *theirs > 0.0).max_by(|a, b| a.0.total_cmp(&b.0))?;
        let time = |value: f64| if is_rate { 1.0 / value } else { value };
        Some(Contrast { other: there, signal, mine_s: time(mine), theirs_s: time(theirs) })
    })
}

/// The fastest other arm of this system that differs as `differs(here, there)` says, where it is faster by more than noise.
pub fn faster_arm<'a>(situation: &Situation<'a>, differs: impl Fn(&Evidence, &Evidence) -> bool) -> Option<Contrast<'a>> {
    let here = situation.evidence;
    situation
        .other_arms()
        .filter(|there| differs(here, there))
        .filter_map(|there| compare(here, there))
        .filter(|contrast| contrast.excess() >= MATERIAL)
        .min_by(|a, b| (a.theirs_s / a.mine_s).total_cmp(&(b.theirs_s / b.mine_s)))
}

/// True when the words in which the user told two arms apart, or their environment, name one of `parts`.
pub fn change_names(here: &Evidence, there: &Evidence, parts: &[&str]) -> bool {
    let names = |text: &str| {
        let text = text.to_ascii_lowercase();
        parts.iter().any(|part| text.contains(part))
    };
    let environment = here.settings.differing(&there.settings).into_iter().filter(|(key, ..)| key.starts_with("env."));
    names(&here.changed) || names(&there.changed) || environment.into_iter().any(|(key, ..)| names(key))
}

/// A setting as text in both arms, where they differ.
pub fn differing(here: &Evidence, there: &Evidence, key: &str) -> Option<(String, String)> {
    let value = |evidence: &Evidence| evidence.settings.get(key).map(|setting| setting.value.clone());
    let pair = value(here).zip(value(there))?;
    (!pair.0.eq_ignore_ascii_case(&pair.1)).then_some(pair)
}
