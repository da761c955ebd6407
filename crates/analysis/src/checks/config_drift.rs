//! Defaults and settings that no longer fit the workload that is there.

use crate::advice::Advice;
use crate::check::{Answer, Found, check, clear, figure};
use crate::contract::{Direction, Evidence, Hypothesis};
use crate::predict::Movement;
use crate::record;
use crate::situation::Situation;
use crate::words::{count, digits, percent};

check! {
    /// Effective settings do not fit the lengths, the concurrency or the reuse that the workload has.
    ///
    /// ## Why it costs time
    /// By itself it costs nothing: a setting that is ten times too large reserves memory or captures graphs for sizes nobody
    /// runs, one that is too small holds back what another check then measures. It is listed so that the next change starts
    /// from what is there.
    ///
    /// ## How to confirm
    /// Compare each line with your own traffic over a week, not only with this recording.
    ///
    /// ## Fix
    /// Set what is named near the workload's p99 with a margin, and measure again.
    ///
    /// ## When this is wrong
    /// A short recording has not seen the longest prompt or the busiest hour.
    id: "config_drift", layer: Scheduling, rank: 240, phases: [], bound: "logic", validated_on: "recorded", run: find,
}

/// A setting this many times above the largest seen is not for this workload.
const FAR_ABOVE: f64 = 8.0;
/// Prompt tokens from which prefix caching is worth having on: shorter prompts cost less than a step.
const LONG_PROMPT: f64 = 512.0;

/// One setting beside the workload.
struct Drift {
    key: &'static str,
    words: String,
    row: Evidence,
    to: String,
}

fn find(situation: &Situation<'_>) -> Answer {
    let all = [model_len, seats, graphs, budget, caching, speculation];
    let known: Vec<Option<Result<f64, Drift>>> = all.iter().map(|look| look(situation)).collect();
    let compared = known.iter().flatten().count();
    let drifts: Vec<Drift> = known.into_iter().flatten().filter_map(Result::err).collect();
    if compared == 0 {
        let timed = situation.is_timed().then_some(0.0);
        return Answer::CannotTell(record::settings(
            &["config.*"],
            "no setting stands beside a figure of the workload that it is for",
            timed,
        ));
    }
    if drifts.is_empty() {
        return clear(vec![("settings_compared", compared as f64)], format!("{} settings fit the workload", count(compared as f64)));
    }
    let words: Vec<&str> = drifts.iter().map(|drift| drift.words.as_str()).collect();
    Answer::Found(Box::new(Found {
        summary: words.join("; "),
        sentence: format!("Settings that do not fit this workload: {}.", words.join("; ")),
        evidence: drifts.iter().map(|drift| drift.row.clone()).collect(),
        hypotheses: drifts.iter().map(|drift| advise(situation, drift)).collect(),
        falsified_by: "the busiest hour needs the setting as it is".into(),
        context_only: true,
        ..Found::default()
    }))
}

fn advise(situation: &Situation<'_>, drift: &Drift) -> Hypothesis {
    Advice::setting(situation, drift.key, &drift.to)
        .risk("traffic that this recording did not see may need the old value", "requests are refused or queue")
        .expect(
            Movement::new("server.e2e.mean", "e2e mean", "s", Direction::Unchanged, situation.evidence.mean("server.e2e"))
                .guard()
                .refused("costs nothing by itself")
                .build(),
        )
        .build()
}

fn setting(situation: &Situation<'_>, key: &str) -> Option<f64> {
    situation.evidence.settings.number(&format!("config.{key}")).filter(|value| *value > 0.0)
}

/// Longest request the workload holds, tokens: typical prompt and output, each with room for its tail.
fn longest(situation: &Situation<'_>) -> Option<f64> {
    let load = &situation.load;
    let rows = situation.evidence.client.iter().filter_map(|row| Some((row.tokens_in? + row.tokens_out?) as f64)).reduce(f64::max);
    rows.or_else(|| Some(2.0 * (load.prompt_tokens? + load.output_tokens?)))
}

/// `Ok` with the ratio where it fits, `Err` where it does not, `None` where one side is unknown.
fn model_len(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    // A paged cache reserves nothing for the longest request; slots and static batches do.
    const RESERVING: [&str; 3] = ["llama.cpp", "tensorrt-llm", "tgi"];
    if !RESERVING.contains(&situation.subject.engine.as_str()) {
        return None;
    }
    let (limit, longest) = (setting(situation, "max_model_len")?, longest(situation)?);
    let ratio = limit / longest;
    Some(if ratio < FAR_ABOVE {
        Ok(ratio)
    } else {
        let to = (2.0 * longest / 1024.0).ceil() * 1024.0;
        Err(Drift {
            key: "max_model_len",
            words: format!("max_model_len {} for requests of at most {} tokens", count(limit), count(longest)),
            row: figure("longest request", longest, "token", "workload"),
            to: format!("{to:.0}"),
        })
    })
}

fn seats(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    let seats = setting(situation, "max_num_seqs")?;
    // A default that nobody chose is no drift: unused seats cost graph memory at most.
    if situation.setting_origin("config.max_num_seqs").contains("default") {
        return None;
    }
    let most = Some(situation.load.in_system_max).filter(|most| *most >= 1.0)?;
    let ratio = seats / most;
    Some(if ratio < FAR_ABOVE {
        Ok(ratio)
    } else {
        Err(Drift {
            key: "max_num_seqs",
            words: format!("{} seats where at most {} requests are in the system", count(seats), count(most)),
            row: figure("most requests in the system", most, "request", "gauges"),
            to: format!("{:.0}", (2.0 * most).max(8.0)),
        })
    })
}

/// Captured graph sizes far below or above the batches that run.
fn graphs(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    let largest = setting(situation, "graph_max_size")?;
    let most = Some(situation.load.running_max).filter(|most| *most >= 1.0)?;
    let ratio = largest / most;
    Some(if (1.0..FAR_ABOVE).contains(&ratio) {
        Ok(ratio)
    } else {
        Err(Drift {
            key: "graph_max_size",
            words: format!("graphs up to {} where up to {} run", count(largest), count(most)),
            row: figure("most running", most, "request", "gauges"),
            to: format!("{:.0}", (1.25 * most).ceil()),
        })
    })
}

/// A token budget that a step never comes near.
fn budget(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    let (budget, prompt) = (setting(situation, "max_num_batched_tokens")?, situation.load.prompt_tokens?);
    let steps = budget / prompt.max(1.0);
    Some(if steps >= 1.0 / FAR_ABOVE {
        Ok(steps)
    } else {
        Err(Drift {
            key: "max_num_batched_tokens",
            words: format!(
                "a token budget of {} cuts a typical prompt of {} into {} steps",
                count(budget),
                count(prompt),
                digits(1.0 / steps)
            ),
            row: figure("server.prompt_tokens", prompt, "token", "workload"),
            to: format!("{:.0}", 4.0 * budget),
        })
    })
}

fn caching(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    let on = situation.evidence.settings.flag("config.prefix_caching")?;
    let prompt = situation.load.prompt_tokens?;
    let reusable = situation.evidence.figures.typical("kv.prefix_reusable");
    Some(if on || prompt < LONG_PROMPT || reusable.is_some_and(|share| share < 0.1) {
        Ok(prompt)
    } else {
        let known =
            reusable.map_or("how much of them repeats is not known".to_string(), |share| format!("{} of them repeat", percent(share)));
        Err(Drift {
            key: "prefix_caching",
            words: format!("prefix caching is off with prompts of {} tokens ({known})", count(prompt)),
            row: figure("server.prompt_tokens", prompt, "token", "workload"),
            to: "on".into(),
        })
    })
}

/// More drafts than tokens that are ever accepted.
fn speculation(situation: &Situation<'_>) -> Option<Result<f64, Drift>> {
    let drafts = setting(situation, "speculative_tokens")?;
    let evidence = situation.evidence;
    let counted = || Some(1.0 + evidence.growth("spec.accepted_tokens")? / evidence.growth("spec.drafts").filter(|drafts| *drafts > 0.0)?);
    let length = evidence.figures.typical("spec.acceptance_length").or_else(counted)?;
    let accepted = (length - 1.0).max(0.0);
    Some(if drafts <= 4.0 || drafts < FAR_ABOVE * accepted.max(0.1) {
        Ok(drafts)
    } else {
        Err(Drift {
            key: "speculative_tokens",
            words: format!("{} drafts where {} are accepted", count(drafts), digits(accepted)),
            row: figure("accepted per round", accepted, "token", "counters or typed"),
            to: format!("{:.0}", (2.0 * accepted).ceil().max(1.0)),
        })
    })
}
