//! After a change: what grew, whether drafts pay, whether graphs still hold, what else changed.

use super::read::{largest_graph, level};
use super::{Asked, BASELINE, DEVICE_TRACE, question};
use crate::phase::Phase;
use crate::record;
use crate::words::{count, digits, seconds};

question!(
    COMPARABLE,
    "comparable arms?",
    "Do the arms differ in nothing but the change: same lengths, same rate?",
    [],
    BASELINE,
    |s, _| {
        let Some(base) = &s.baseline else { return Asked::cannot_tell("no arm without the feature") };
        let (before, now) = (&base.load, &s.load);
        let known: Vec<(&str, f64, f64)> = [
            ("prompt tokens", before.prompt_tokens, now.prompt_tokens),
            ("output tokens", before.output_tokens, now.output_tokens),
            ("requests per second", before.arrivals_per_s, now.arrivals_per_s),
        ]
        .into_iter()
        .filter_map(|(what, before, now)| Some((what, before.filter(|&value| value > 0.0)?, now?)))
        .collect();
        // As far apart as two runs of one load may be (attribution, section 9).
        match known.iter().find(|(_, before, now)| (now / before - 1.0).abs() > 0.1) {
            Some((what, before, now)) => Asked::new("no", format!("{} {what} before, {} now", digits(*before), digits(*now))),
            None if known.is_empty() => Asked::cannot_tell("neither lengths nor rates are known of both"),
            None => Asked::new("yes", format!("the same {}", known.iter().map(|(what, ..)| *what).collect::<Vec<_>>().join(", "))),
        }
    }
);

question!(PART_THAT_GREW, "which part grew?", "Which part of the account grew per token?", [], BASELINE, |s, _| {
    let Some(base) = &s.baseline else { return Asked::cannot_tell("no arm without the feature") };
    let grown = Phase::ALL.into_iter().map(|phase| (phase, s.phase_s(phase) - base.phase_s(phase))).max_by(|a, b| a.1.total_cmp(&b.1));
    grown.map_or_else(|| Asked::cannot_tell("no account"), |(phase, by)| Asked::new(phase.as_str(), format!("by {}", seconds(by))))
});

question!(
    SPECULATION,
    "drafts pay?",
    "Do accepted drafts repay their cost?",
    [("low_acceptance", "no", "yes"), ("expensive_draft", "no", "yes"), ("overlong_draft", "no", "yes")],
    record::SCRAPES,
    |s, _| {
        match s.evidence.growth("spec.accepted_tokens").zip(s.evidence.growth("spec.drafts")) {
            Some((accepted, drafts)) if drafts > 0.0 => Asked::new(
                if accepted / drafts < 0.05 { "no" } else { "perhaps" },
                format!("{} tokens per target step", digits(1.0 + accepted / drafts)),
            ),
            _ => match level(s, "spec.acceptance_length") {
                Some(tokens) => {
                    Asked::new(if tokens < 1.05 { "no" } else { "perhaps" }, format!("{} tokens per target step", digits(tokens)))
                }
                None if s.evidence.settings.number("config.speculative_tokens") == Some(0.0) => Asked::new("none", "speculation is off"),
                None => Asked::cannot_tell("no acceptance counters"),
            },
        }
    }
);

question!(
    CONFIG_DIFFERENCES,
    "other settings differ?",
    "Did other settings change with the feature?",
    [("config_drift", "yes", "no")],
    BASELINE,
    |s, _| {
        let Some(base) = &s.baseline else { return Asked::cannot_tell("no arm without the feature") };
        let both = base
            .evidence
            .settings
            .differing(&s.evidence.settings)
            .into_iter()
            .filter(|(_, before, after)| before.is_some() && after.is_some());
        let differing: Vec<&str> = both.map(|(key, ..)| key).collect();
        Asked::yes_no(!differing.is_empty(), differing.join(" "))
    }
);

question!(
    VERIFY_OFF_GRAPH,
    "verified inside graphs?",
    "Does verifying drafts fit into a captured graph, without a wait for the device in between?",
    [("expensive_verification", "no", "yes"), ("unexpected_syncs", "no", "yes")],
    DEVICE_TRACE,
    |s, _| {
        let drafts = s.evidence.settings.number("config.speculative_tokens").or_else(|| level(s, "spec.draft_tokens"));
        let batch = s.load.running_max;
        match (drafts, largest_graph(s)) {
            (Some(drafts), Some(size)) if batch > 0.0 => {
                let tokens = batch * (drafts + 1.0);
                Asked::yes_no(tokens <= size, format!("{} tokens to verify, the largest graph holds {}", count(tokens), count(size)))
            }
            _ => Asked::cannot_tell("needs draft length, batch and captured sizes"),
        }
    }
);

question!(
    RECOMPILES,
    "recompiles?",
    "Does the engine compile after warm-up?",
    [("recompilation_stalls", "yes", "no")],
    "the server's log with TORCH_LOGS=recompiles",
    |s, _| match level(s, "engine.compile_time") {
        Some(time_s) => Asked::yes_no(time_s > 0.0, format!("{} compiling", seconds(time_s))),
        None => Asked::cannot_tell("needs the log at compile level"),
    }
);
