//! The fit on windows a scraper could see: it recovers the law that made them, or says why it cannot.
#![allow(clippy::unwrap_used)]

use expect_test::{Expect, expect};
use model::step_law::{Interval, NotIdentifiable, StepLaw, fit};
use proptest::prelude::*;

/// A window of one-second scrapes: batch and prompt tokens per step wander, steps take what the law says give or take
/// `noise`, and the scrape cuts through the last step.
fn window(
    law: &StepLaw,
    scrapes: usize,
    batch: std::ops::Range<f64>,
    prompt: std::ops::Range<f64>,
    noise: f64,
    seed: u64,
) -> Vec<Interval> {
    let mut random = seed;
    let mut uniform = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as f64 / f64::from(1u32 << 31)
    };
    (0..scrapes)
        .map(|_| {
            let decode = batch.start + (batch.end - batch.start) * uniform();
            let prefill = prompt.start + (prompt.end - prompt.start) * uniform();
            let step_s = law.step_s(decode, prefill) * (1.0 + noise * (2.0 * uniform() - 1.0));
            let steps = (1.0 / step_s + uniform() - 0.5).max(1.0).round();
            Interval { busy_s: 1.0, steps, decode_tokens: (steps * decode).round(), prefill_tokens: (steps * prefill).round() }
        })
        .collect()
}

fn refused(intervals: &[Interval], expected: &Expect) {
    expected.assert_eq(&fit(intervals).unwrap_err().to_string());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn the_law_comes_back(a_ms in 4.0..30.0f64, b_share in 0.01..0.1f64, c_share in 0.002..0.01f64, seed in any::<u64>()) {
        let law = StepLaw::from_parts(a_ms * 1e-3, a_ms * b_share * 1e-3, a_ms * c_share * 1e-3);
        let fitted = fit(&window(&law, 120, 2.0..60.0, 0.0..200.0, 0.03, seed)).unwrap();
        // Within five stated standard errors, plus 1 % for the cut steps.
        for (found, error, truth) in
            [(fitted.a_s, fitted.a_se, law.a_s), (fitted.b_s, fitted.b_se, law.b_s), (fitted.c_s, fitted.c_se, law.c_s)]
        {
            prop_assert!((found - truth).abs() < 5.0 * error + 0.01 * truth, "{truth} in {fitted:?}");
            prop_assert!(error < 0.35 * truth, "{fitted:?}");
        }
        prop_assert!(fitted.residual_frac < 0.05);
        // What is asked of it: rates within a few percent, inside the batches seen.
        for batch in [8.0, 24.0, 48.0] {
            let ratio = fitted.rate_per_s(batch, 500.0, 200.0) / law.rate_per_s(batch, 500.0, 200.0);
            prop_assert!((ratio - 1.0).abs() < 0.08, "at batch {batch}: {ratio}");
        }
    }

    #[test]
    fn a_few_idle_scrapes_do_not_bend_it(seed in any::<u64>(), idle in 1usize..8) {
        let law = StepLaw::from_parts(0.008, 0.0003, 30e-6);
        let mut intervals = window(&law, 100, 2.0..60.0, 0.0..200.0, 0.03, seed);
        for at in 0..idle {
            // Half of this scrape the engine had nothing to do.
            let half = &mut intervals[at * 11];
            half.steps = (half.steps / 2.0).round();
            half.decode_tokens /= 2.0;
            half.prefill_tokens /= 2.0;
        }
        let fitted = fit(&intervals);
        match fitted {
            Ok(fitted) => prop_assert!((fitted.a_s / law.a_s - 1.0).abs() < 0.12, "{fitted:?}"),
            Err(NotIdentifiable::PoorFit { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn time_scales_through(seed in any::<u64>(), scale in 0.1..10.0f64) {
        let law = StepLaw::from_parts(0.008, 0.0003, 30e-6);
        let intervals = window(&law, 60, 2.0..60.0, 0.0..200.0, 0.02, seed);
        let scaled: Vec<Interval> = intervals.iter().map(|i| Interval { busy_s: i.busy_s * scale, ..*i }).collect();
        let (one, other) = (fit(&intervals).unwrap(), fit(&scaled).unwrap());
        prop_assert!((other.a_s / one.a_s / scale - 1.0).abs() < 1e-6);
        prop_assert!((other.c_s / one.c_s / scale - 1.0).abs() < 1e-6);
    }

    #[test]
    fn hostile_intervals_give_a_finite_law_or_a_reason(
        numbers in prop::collection::vec((any::<f64>(), any::<f64>(), any::<f64>(), any::<f64>()), 0..60),
        big in prop::collection::vec((0.0..1e9f64, 0.0..1e9f64, 0.0..1e9f64, 0.0..1e9f64), 0..60),
    ) {
        for list in [numbers, big] {
            let intervals: Vec<Interval> = list
                .into_iter()
                .map(|(busy_s, steps, decode_tokens, prefill_tokens)| Interval { busy_s, steps, decode_tokens, prefill_tokens })
                .collect();
            match fit(&intervals) {
                Ok(law) => prop_assert!([law.a_s, law.b_s, law.c_s].iter().all(|part| part.is_finite() && *part > 0.0)),
                Err(reason) => prop_assert!(!reason.to_string().contains("NaN")),
            }
        }
    }
}

#[test]
fn a_batch_at_its_cap_is_refused() {
    let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
    refused(
        &window(&law, 600, 31.5..32.0, 50.0..200.0, 0.03, 7),
        &expect!["the batch stays between 31.5 and 32.0, so its cost cannot be told from the cost of a step"],
    );
}

#[test]
fn short_windows_are_refused() {
    let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
    refused(&window(&law, 11, 2.0..60.0, 0.0..200.0, 0.03, 7), &expect!["11 busy intervals of at least 16 steps, 12 needed"]);
    refused(&[], &expect!["0 busy intervals of at least 16 steps, 12 needed"]);
}

#[test]
fn steps_of_a_second_are_pooled_first() {
    // 60 scrapes with one or two steps each make fewer than 12 usable intervals.
    let law = StepLaw::from_parts(0.6, 0.002, 1e-4);
    refused(&window(&law, 60, 2.0..60.0, 0.0..200.0, 0.03, 7), &expect!["5 busy intervals of at least 16 steps, 12 needed"]);
}

#[test]
fn windows_without_prompts_are_refused() {
    let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
    refused(
        &window(&law, 60, 2.0..60.0, 0.0..0.0, 0.03, 7),
        &expect!["prompt tokens per step stay between 0.0 and 0.0, so their cost cannot be told apart"],
    );
}

#[test]
fn noise_is_refused() {
    let law = StepLaw::from_parts(0.0076, 0.000_071, 26.7e-6);
    refused(&window(&law, 200, 2.0..60.0, 0.0..200.0, 0.5, 7), &expect!["steps differ from the best fit by 32 %, at most 15 % is usable"]);
}
