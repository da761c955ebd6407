//! When "nothing found" may not be called healthy: conditions under which the account or the server's own step law
//! hides a failure mode that no check here tests. Each names what would settle it.

use crate::check::{Answer, Check};
use crate::evidence::Series;
use crate::situation::Situation;
use crate::words::{digits, percent};

/// The first condition that holds, as a sentence.
pub fn not_healthy_because(situation: &Situation<'_>, answers: &[(&'static Check, Answer)]) -> Option<String> {
    let cleared = |id: &str| answers.iter().any(|(check, answer)| check.id == id && matches!(answer, Answer::Clear { .. }));
    crate::client_health::limited(situation)
        .or_else(|| uneven_replicas(situation))
        .or_else(|| drafts_in_the_law(situation).filter(|_| !cleared("low_acceptance")))
        .or_else(|| abandoned_requests(situation))
        .or_else(|| caching_off(situation))
}

/// One account over replicas that carry different load describes none of them (attribution, section 0.13).
fn uneven_replicas(situation: &Situation<'_>) -> Option<String> {
    let means: Vec<f64> =
        situation.evidence.engines.values().filter_map(|engine| engine.series("engine.running")).map(Series::mean).collect();
    let (low, high) = means.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &mean| (low.min(mean), high.max(mean)));
    (means.len() > 1 && high > 2.0 * low && high - low > 3.0 * high.sqrt()).then(|| {
        format!(
            "The replicas carry different load ({} and {} running on average), and nothing here tells routing from different work: compare what the router sends to each.",
            digits(high),
            digits(low)
        )
    })
}

/// A law fitted to a drafting server has the drafts' cost inside: it cannot show that plain decoding were faster.
fn drafts_in_the_law(situation: &Situation<'_>) -> Option<String> {
    let drafts = situation.evidence.growth("spec.drafts").filter(|&drafts| drafts > 0.0)?;
    let compared = situation.baseline.as_ref().is_some_and(|baseline| baseline.evidence.growth("spec.drafts").unwrap_or(0.0) <= 0.0);
    if compared {
        return None;
    }
    let accepted = situation.evidence.growth("spec.accepted_tokens").unwrap_or(0.0);
    Some(format!(
        "Speculation is on and yields {} tokens per target step; whether that repays the drafts shows only against a run without it (--baseline).",
        digits(1.0 + accepted / drafts)
    ))
}

/// Histograms hold finished requests only; what was abandoned is in none of them (attribution, section 0.11).
fn abandoned_requests(situation: &Situation<'_>) -> Option<String> {
    let answered = situation.evidence.growth("server.http_requests")?;
    let finished = situation.load.finished;
    let abandoned = answered - finished - situation.load.running_max;
    (finished > 0.0 && abandoned > 0.1 * finished).then(|| {
        format!(
            "{} of the requests were answered but never finished: their clients went away, and no histogram holds them.",
            percent(abandoned / answered)
        )
    })
}

/// With prefix caching off, prompt work that need not be done looks like prompt work (attribution, section 0.12). It
/// matters where computing prompts is a large part of the time to first token.
fn caching_off(situation: &Situation<'_>) -> Option<String> {
    // A baseline with caching on has answered it: what differs is then in the account.
    let answered =
        situation.baseline.as_ref().is_some_and(|baseline| baseline.evidence.settings.flag("config.prefix_caching") == Some(true));
    let off = situation.evidence.settings.flag("config.prefix_caching") == Some(false) && !answered;
    let prefill = situation.phase_s(crate::phase::Phase::Prefill);
    let prompt = situation.load.prompt_tokens.unwrap_or(0.0);
    // A prompt of fewer blocks than this has little to share.
    let long =
        prompt >= 8.0 * situation.evidence.engines.values().find_map(|engine| engine.series("kv.block_size")).map_or(16.0, Series::max);
    (off && long && prefill >= 0.25 * situation.account.first_token_mean_s()).then(|| {
        format!("Prefix caching is off and prompts of {} tokens are computed whole; how much of them repeats is not known: run once with caching on.", digits(prompt))
    })
}
