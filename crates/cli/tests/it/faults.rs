//! A sample of the faults of the simulated engine, one strong and one weak of each, in simulated time.
//! `examples/fault_bench.rs` draws many more.

use analysis::contract::Outcome;
use expect_test::expect;
use simulate::rng::Rng;

use crate::fault_draws::{Drawn, KINDS, one};

/// Simulated seconds of each load.
const SECONDS: u64 = 30;

/// Name, a strength that matters and one that does not. Prompts hold up streams with the default budget as well: no budget of
/// that fault is harmless.
const SAMPLE: [(&str, &[f64]); 11] = [
    ("small-kv", &[0.85, 0.2]),
    ("low-batch-cap", &[0.9, 0.2]),
    ("buffering-proxy", &[0.3, 0.0005]),
    ("gateway-delay", &[0.3, 0.0005]),
    ("stream-bursts", &[0.7, 0.01]),
    ("slow-tokenizer", &[0.5, 0.0005]),
    ("prefill-blocking", &[0.6]),
    ("low-acceptance", &[0.95, 0.5]),
    ("host-bound", &[0.6, 0.002]),
    ("connection-cap", &[0.85, 0.3]),
    ("replica-imbalance", &[0.8, 0.02]),
];

#[test]
fn strong_faults_are_found_and_weak_ones_left_alone() {
    let mut table = String::new();
    for (name, strengths) in SAMPLE {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        for &strength in strengths {
            let drawn = one(kind, strength, &mut Rng::new(7, 0), SECONDS);
            table.push_str(&drawn.map_or_else(|| format!("{name} {strength}: neither strong nor weak\n"), |drawn| line(&drawn)));
        }
    }
    expect![[r#"
        small-kv strong: memory kv_thrash 0.75, mended as predicted
        small-kv weak: healthy
        low-batch-cap strong: scheduling batch_cap_reached 0.75, mended as predicted
        low-batch-cap weak: healthy
        buffering-proxy strong: application proxy_buffering 0.75, mended as predicted
        buffering-proxy weak: healthy
        gateway-delay strong: application ? 0.6, Inconclusive
        gateway-delay weak: healthy
        stream-bursts strong: application stream_bursts 0.6, mended as predicted
        stream-bursts weak: healthy
        slow-tokenizer strong: application slow_tokenization 0.75, mended as predicted
        slow-tokenizer weak: healthy
        prefill-blocking strong: scheduling prefill_blocks_decode 0.75, mended as predicted
        low-acceptance strong: speculation low_acceptance 0.75, mended as predicted
        low-acceptance weak: healthy
        host-bound strong: scheduling host_bound_engine 0.75, mended as predicted
        host-bound weak: healthy
        connection-cap strong: application connection_cap 0.75, mended as predicted
        connection-cap weak: healthy
        replica-imbalance strong: parallelism replica_imbalance 0.75, Inconclusive
        replica-imbalance weak: healthy
    "#]]
    .assert_eq(&table);
}

fn line(drawn: &Drawn) -> String {
    assert!(!drawn.is_wrong(), "{} {}: {}", drawn.kind.name, drawn.strength, drawn.report.verdict.sentence);
    let (name, told) = (drawn.kind.name, drawn.told());
    match (drawn.is_strong, drawn.verified) {
        (true, Outcome::Confirmed) => format!("{name} strong: {told}, mended as predicted\n"),
        (true, outcome) => format!("{name} strong: {told}, {outcome:?}\n"),
        (false, _) => format!("{name} weak: {told}\n"),
    }
}
