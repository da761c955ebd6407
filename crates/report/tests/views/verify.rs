//! Verifications on a terminal.

use analysis::contract::*;
use expect_test::{Expect, expect};
use report::clean;
use report::views::terminal::TerminalOptions;
use report::views::verify::render;

use crate::fixtures;

fn check(verification: &Verification, width: usize, expected: &Expect) {
    let text = render(verification, TerminalOptions { width, color: false, blocks: false });
    for line in text.lines() {
        assert!(clean::columns(line) <= width, "wider than {width}: {line}");
    }
    expected.assert_eq(&text);
}

/// The target case after the change.
pub(crate) fn confirmed() -> Verification {
    let predictions = fixtures::open_loop_32().findings[0].hypotheses[0].predictions.clone();
    let measured = [
        (Some(2.51), Some(0.14), Some([0.051, 0.061])),
        (Some(2.40), Some(0.012), Some([0.003, 0.008])),
        (Some(0.0128), Some(0.0131), Some([1.01, 1.04])),
        (Some(0.0141), Some(0.0152), Some([1.05, 1.11])),
    ];
    Verification {
        schema: VERIFY_SCHEMA.into(),
        outcome: Outcome::Confirmed,
        why: "TTFT mean fell from 2.51 s to 0.14 s, inside the predicted 0.10..0.20 s; no guard moved past its interval".into(),
        hypothesis: "h1".into(),
        check: "batch_cap_reached".into(),
        change: "--max-num-seqs 64".into(),
        changed: vec![ChangedSetting { key: "config.max_num_seqs".into(), before: "32".into(), after: "64".into() }],
        predictions: predictions
            .into_iter()
            .zip(measured)
            .map(|(prediction, (before, after, ratio_interval))| PredictionOutcome {
                prediction,
                before,
                after,
                ratio_interval,
                outcome: Outcome::Confirmed,
                why: "inside its interval".into(),
            })
            .collect(),
        comparability: vec![
            "same model, GPU and version".into(),
            "offered rate 9.4 and 9.4 req/s".into(),
            "prompt lengths: KS distance 0.02".into(),
        ],
        devices: Vec::new(),
    }
}

fn refuted() -> Verification {
    let mut verification = confirmed();
    verification.outcome = Outcome::Refuted;
    verification.why = "a guard was broken: TPOT p99 rose to 19.2 ms, 16 ms were allowed".into();
    verification.predictions[3].after = Some(0.0192);
    verification.predictions[3].ratio_interval = Some([1.31, 1.42]);
    verification.predictions[3].outcome = Outcome::Refuted;
    verification.predictions[3].why = "above 16 ms in 11 of 12 batches".into();
    verification.predictions[1].after = None;
    verification.predictions[1].ratio_interval = None;
    verification.predictions[1].outcome = Outcome::Inconclusive;
    verification.predictions[1].why = "the AFTER capture has no queue time".into();
    verification
}

#[test]
fn the_outcome_comes_first_then_prediction_by_prediction() {
    check(
        &confirmed(),
        80,
        &expect![[r#"
            CONFIRMED  hypothesis h1   4 of 4 predictions confirmed
            TTFT mean fell from 2.51 s to 0.14 s, inside the predicted 0.10..0.20 s; no
            guard moved past its interval.

            prediction   before    after  predicted      after/before  outcome
            TTFT mean    2.51 s   0.14 s  0.10..0.20 s     0.05..0.06  confirmed (decides)
            queue        2.40 s  12.0 ms  0..0.05 s           0..0.01  confirmed
            TPOT mean   12.8 ms  13.1 ms  12.4..14.0 ms    1.01..1.04  confirmed (guard)
            TPOT p99    14.1 ms  15.2 ms  up to 16 ms      1.05..1.11  confirmed (guard)

            changed config.max_num_seqs 32 -> 64
            checked same model, GPU and version; offered rate 9.4 and 9.4 req/s;
                    prompt lengths: KS distance 0.02
        "#]],
    );
}

#[test]
fn what_was_not_confirmed_says_why() {
    check(
        &refuted(),
        80,
        &expect![[r#"
            REFUTED  hypothesis h1   2 of 4 predictions confirmed
            a guard was broken: TPOT p99 rose to 19.2 ms, 16 ms were allowed.

            prediction   before    after  predicted      after/before  outcome
            TTFT mean    2.51 s   0.14 s  0.10..0.20 s     0.05..0.06  confirmed (decides)
            queue        2.40 s        -  0..0.05 s                 -  inconclusive
                the AFTER capture has no queue time.
            TPOT mean   12.8 ms  13.1 ms  12.4..14.0 ms    1.01..1.04  confirmed (guard)
            TPOT p99    14.1 ms  19.2 ms  up to 16 ms      1.31..1.42  refuted (guard)
                above 16 ms in 11 of 12 batches.

            changed config.max_num_seqs 32 -> 64
            checked same model, GPU and version; offered rate 9.4 and 9.4 req/s;
                    prompt lengths: KS distance 0.02
        "#]],
    );
}

#[test]
fn a_narrow_terminal_gets_sentences() {
    check(
        &refuted(),
        60,
        &expect![[r#"
            REFUTED  hypothesis h1   2 of 4 predictions confirmed
            a guard was broken: TPOT p99 rose to 19.2 ms, 16 ms were
            allowed.

            TTFT mean: 2.51 s -> 0.14 s, predicted 0.10..0.20 s,
            after/before 0.05..0.06: confirmed (decides)
            queue: 2.40 s -> -, predicted 0..0.05 s, after/before -:
            inconclusive
                the AFTER capture has no queue time.
            TPOT mean: 12.8 ms -> 13.1 ms, predicted 12.4..14.0 ms,
            after/before 1.01..1.04: confirmed (guard)
            TPOT p99: 14.1 ms -> 19.2 ms, predicted up to 16 ms,
            after/before 1.31..1.42: refuted (guard)
                above 16 ms in 11 of 12 batches.

            changed config.max_num_seqs 32 -> 64
            checked same model, GPU and version;
                    offered rate 9.4 and 9.4 req/s;
                    prompt lengths: KS distance 0.02
        "#]],
    );
}

#[test]
fn runs_that_differ_in_more_than_the_change_are_not_comparable() {
    let verification = Verification {
        outcome: Outcome::NotComparable,
        why: "prompt lengths differ: KS distance 0.31, 0.10 allowed".into(),
        hypothesis: "none".into(),
        predictions: vec![],
        changed: vec![ChangedSetting { key: "config.max_model_len".into(), before: String::new(), after: "\u{1b}[2J8192".into() }],
        comparability: vec!["prompt lengths: KS distance 0.31".into()],
        devices: Vec::new(),
        ..confirmed()
    };
    check(
        &verification,
        80,
        &expect![[r#"
            NOT COMPARABLE  no hypothesis   no prediction to test
            prompt lengths differ: KS distance 0.31, 0.10 allowed.

            changed config.max_model_len unset -> [2J8192
            checked prompt lengths: KS distance 0.31
        "#]],
    );
}
