//! `whatif` on recorded runs: what it says of one is held against another that differs in the change.

use std::path::Path;

use analysis::contract::Report;
use analysis::foretell::figure_of;
use analysis::whatif::{Range, WhatIf};
use serde_json::Value;

use crate::{cases, program};

fn predict(folder: &Path, args: &[&str]) -> program::Run {
    program::run(["whatif".as_ref(), "--json".as_ref(), folder.as_os_str()].into_iter().chain(args.iter().map(std::convert::AsRef::as_ref)))
}

fn answer(folder: &Path, args: &[&str]) -> WhatIf {
    let run = predict(folder, args);
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn measured(answer: &WhatIf, name: &str) -> Option<f64> {
    answer.metrics.iter().find(|figure| figure.name == name)?.measured.filter(|value| *value > 0.0)
}

/// Every pair of the list: directions are right, half of the errors are below a fifth, nine of ten ranges hold.
#[test]
fn recorded_pairs_come_out_as_predicted() {
    let list: toml::Table = toml::from_str(&std::fs::read_to_string(program::root().join("cases/predictions.toml")).unwrap()).unwrap();
    let (mut errors, mut inside, mut refused) = (Vec::new(), 0, 0);
    for pair in list["pair"].as_array().unwrap() {
        let text = |key: &str| pair[key].as_str().unwrap();
        let artifacts = |key: &str| cases::artifacts(text(key));
        let run = predict(&artifacts("before"), &["--set", text("set")]);
        if run.code == 3 {
            refused += 1;
            continue;
        }
        assert_eq!(run.code, 0, "{run:?}");
        let predicted: WhatIf = serde_json::from_str(&run.stdout).unwrap();
        let after = answer(&artifacts("after"), &["--set", "rate=x1"]);
        for figure in &predicted.metrics {
            let (Some(ratio), Some(old), Some(new)) = (figure.ratio, figure.measured, measured(&after, &figure.name)) else { continue };
            let truth = new / old;
            let is_right = (truth - 1.0).abs() < 0.05 || if truth > 1.0 { ratio.high > 1.0 } else { ratio.low < 1.0 };
            assert!(is_right, "{} {}: {} was {truth:.3}, predicted {ratio:?}", text("before"), text("set"), figure.name);
            errors.push((ratio.mid / truth - 1.0).abs());
            inside += usize::from((ratio.low..=ratio.high).contains(&truth));
        }
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() >= 40, "{} figures", errors.len());
    assert!(errors[errors.len() / 2] <= 0.20, "median error {:.3}", errors[errors.len() / 2]);
    assert!(inside * 100 >= errors.len() * 85, "{inside} of {} inside", errors.len());
    assert_eq!(refused, 1, "how much a cache without counters would have held nobody knows");
}

/// Without a change nothing moves, and it is said with certainty.
#[test]
fn no_change_predicts_no_gain() {
    let case = cases::artifacts("batch_cap_reached/recorded");
    for set in ["max_num_seqs=2", "rate=x1"] {
        for figure in answer(&case, &["--set", set]).metrics {
            let ratio = figure.ratio.expect(&figure.name);
            assert_eq!((ratio.low, ratio.mid, ratio.high), (1.0, 1.0, 1.0), "{set} {}", figure.name);
        }
    }
}

/// More of a resource is never predicted to make the whole request longer.
#[test]
fn more_of_a_resource_is_no_loss() {
    for (case, sets) in [
        ("batch_cap_reached/recorded", ["max_num_seqs=16", "max_num_seqs=32", "max_num_seqs=64"]),
        ("kv_thrash/recorded", ["kv_tokens=x2", "kv_tokens=x4", "kv_tokens=x8"]),
        ("replica_imbalance/recorded_fixed", ["replicas=2", "replicas=4", "replicas=8"]),
    ] {
        let e2e = |set: &str| {
            let answer = answer(&cases::artifacts(case), &["--set", set]);
            answer.metrics.iter().find(|figure| figure.name == "e2e.mean").unwrap().ratio.unwrap().mid
        };
        let ratios = sets.map(e2e);
        assert!(ratios.windows(2).all(|pair| pair[1] <= pair[0] * 1.02), "{case}: {ratios:?}");
    }
}

#[test]
fn what_cannot_be_known_or_read_is_refused_in_words() {
    let case = cases::artifacts("missed_prefix_reuse/recorded");
    let run = predict(&case, &["--set", "prefix_caching=on"]);
    assert_eq!(run.code, 3, "{run:?}");
    let refusal: Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(refusal["refused"].as_str().unwrap().contains("how much of the prompts repeats was not recorded"), "{refusal}");
    // Nor is a setting that nobody named taken to be on, which would make no change a certainty.
    let run = predict(&cases::artifacts("launch_bound_steps/eager_behind_metrics"), &["--set", "prefix_caching=on"]);
    assert!(run.code == 3 && run.stdout.contains("whether it is on already is not told"), "{run:?}");
    for (set, expected) in [
        ("seets=4", "error: `seets` is nothing that can be changed here; there are max_num_seqs, "),
        ("max_num_seqs=0", "error: `max_num_seqs`: expected a whole number of at least 1, found `0`"),
        ("rate=nan", "error: `rate`: expected requests per second, or a factor as `x2`, found `nan`"),
        ("rate=1e300", "error: `rate`: expected requests per second"),
        ("routing=1:2:3", "error: `routing`: expected round_robin"),
    ] {
        let run = predict(&case, &["--set", set]);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.starts_with(expected), "{set}: {}", run.stderr);
    }
}

/// The seats that serve a load are found, and limits that nothing keeps are said.
#[test]
fn a_search_finds_enough_seats() {
    let case = cases::artifacts("batch_cap_reached/recorded");
    let run = predict(&case, &["--search", "max_num_seqs", "--slo", "ttft.mean=3"]);
    assert_eq!(run.code, 0, "{run:?}");
    let tried: Value = serde_json::from_str(&run.stdout).unwrap();
    let best = &tried["tried"][tried["best"].as_u64().unwrap() as usize];
    let seats: u32 = best["changes"][0]["to"].as_str().unwrap().parse().unwrap();
    assert!((4..=128).contains(&seats), "{seats}");
    assert_eq!(predict(&case, &["--search", "max_num_seqs", "--slo", "ttft.mean=0.0001"]).code, 3);
}

/// Levers of the hardware move in the direction physics gives, whatever the run; without a known device they are refused.
#[test]
fn other_hardware_moves_the_step_the_way_it_must() {
    let case = cases::artifacts("batch_cap_reached/recorded");
    let tpot = |set: &str| {
        let answer = answer(&case, &["--set", set, "--model", "Llama-3-8B", "--device", "h100-sxm"]);
        answer.metrics.iter().find(|figure| figure.name == "tpot.mean").unwrap().ratio.expect(set).mid
    };
    for faster in ["weights=fp8", "tensor_parallel=2", "gpu=h200-sxm"] {
        assert!(tpot(faster) < 0.95, "{faster}");
    }
    assert!(tpot("gpu=a100-sxm-80") > 1.2);
    let run = predict(&case, &["--set", "weights=fp8"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stdout.contains("name them with `--model` and `--device`"), "{run:?}");
}

/// No measured pair differs in the format of the cache alone, or in where prompts are computed (docs/predictions.md): these hold
/// what follows from bytes and from the scheduler.
#[test]
fn a_smaller_cache_format_is_twice_the_room() {
    let case = cases::artifacts("kv_thrash/recorded");
    let on_a_device = |set: &str| answer(&case, &["--set", set, "--model", "Llama-3-8B", "--device", "h100-sxm"]);
    let (format, room) = (on_a_device("kv_cache_dtype=fp8"), on_a_device("kv_tokens=x2"));
    for figure in ["ttft.mean", "e2e.mean", "throughput.output"] {
        let (format, room) = (ratio(&format, figure).unwrap(), ratio(&room, figure).unwrap());
        assert!((format.mid / room.mid - 1.0).abs() < 0.05, "{figure}: {format:?} {room:?}");
        assert!(format.low < room.low && format.high > room.high, "another format is less sure than more room: {figure}");
    }
    assert!(ratio(&format, "tpot.mean").unwrap().mid < ratio(&room, "tpot.mean").unwrap().mid, "half the bytes are read");
    assert_eq!(predict(&case, &["--set", "kv_cache_dtype=fp8"]).code, 3, "bytes of an unknown model");
}

#[test]
fn prompts_elsewhere_no_longer_stand_between_tokens() {
    let case = cases::artifacts("kv_thrash/long_prefill_stalls");
    let split = |set: &str| answer(&case, &["--set", set, "--model", "Llama-3-8B", "--device", "h100-sxm"]);
    let (fast, slow) = (split("disaggregate=1+1@25"), split("disaggregate=1+1@0.1"));
    let of = |answer: &WhatIf, figure: &str| ratio(answer, figure).unwrap();
    assert!(of(&fast, "tpot.mean").high < 1.0, "{fast:?}");
    // One engine computes the prompts as before: they come no sooner.
    assert!((of(&fast, "ttft.mean").mid - 1.0).abs() < 0.1, "{fast:?}");
    assert!(of(&slow, "e2e.mean").mid > 1.3 * of(&fast, "e2e.mean").mid, "the cache passes over a slow link: {slow:?}");
}

/// A closed loop is recognized, and a cap on its connections is no saturation.
#[test]
fn users_who_wait_for_answers_are_a_closed_loop() {
    let answer = answer(&cases::artifacts("connection_cap/client_pool_of_8_fixed"), &["--set", "connection_cap=8"]);
    assert!(answer.measured.iter().any(|line| line == "a closed loop of 32 users"), "{:?}", answer.measured);
    assert!(!answer.saturated);
}

/// Cases in which something is advised that is a lever, or is weighed as a popular fix.
const ADVISED: [&str; 11] = [
    "batch_cap_reached/open_loop_32",
    "batch_cap_reached/recorded",
    "connection_cap/client_pool_of_8",
    "kv_thrash/recorded",
    "long_requests_block_short/recorded",
    "low_acceptance/recorded",
    "missed_prefix_reuse/recorded",
    "overload/recorded",
    "prefill_blocks_decode/recorded",
    "proxy_buffering/recorded",
    "replica_imbalance/recorded",
];

fn report(name: &str) -> Report {
    let case = cases::all().into_iter().find(|case| case.name() == name).unwrap_or_else(|| panic!("no case `{name}`"));
    let run = case.diagnose(&[case.artifacts()]);
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
}

fn ratio(answer: &WhatIf, figure: &str) -> Option<Range> {
    answer.metrics.iter().find(|metric| metric.name == figure)?.ratio
}

/// What `diagnose` expects of a change is what `whatif` says of it; where that refuses a number because the changed system would
/// not keep up, so does `diagnose`.
#[test]
fn advice_and_whatif_say_the_same() {
    let (mut figures, mut refused) = (0, 0);
    for name in ADVISED {
        for hypothesis in report(name).findings.iter().flat_map(|finding| &finding.hypotheses) {
            let lever = &hypothesis.change.lever;
            if lever.is_empty() || predict(&cases::artifacts(name), &["--set", lever]).code != 0 {
                assert!(hypothesis.predictions.iter().all(|prediction| prediction.expected.is_none()), "{name} {lever}");
                continue;
            }
            let answer = answer(&cases::artifacts(name), &["--set", lever]);
            for prediction in &hypothesis.predictions {
                let Some(figure) = figure_of(&prediction.signal).filter(|figure| *figure != "queue.mean") else { continue };
                let told = ratio(&answer, figure);
                assert_eq!(prediction.expected, told, "{name} {lever} {figure}");
                figures += usize::from(told.is_some());
                if let (None, true, false) = (told, answer.saturated, prediction.guard) {
                    assert_eq!(prediction.to, None, "{name} {lever} {figure}");
                    refused += 1;
                }
                // The interval that is shown and verified is the expected one; a guard may only be wider.
                if let (Some(told), Some(now), Some([low, high])) = (told, prediction.from, prediction.to) {
                    let (least, most) = (now * told.low, now * told.high);
                    let is_same = (low / least - 1.0).abs() < 1e-9 && (high / most - 1.0).abs() < 1e-9;
                    let is_wider = low <= least * (1.0 + 1e-9) && high >= most * (1.0 - 1e-9);
                    assert!(is_same || prediction.guard && is_wider, "{name} {lever} {figure}: {low} to {high}, {told:?}");
                }
            }
        }
    }
    assert!(figures >= 14, "{figures} figures, {refused} refused");
}

/// Gains of popular fixes and the rungs of the ladder are those of the verb, and never a gain where it shows none.
#[test]
fn gains_and_ceilings_are_those_of_whatif() {
    let (mut gains, mut rungs) = (0, 0);
    for name in ["batch_cap_reached/open_loop_32", "connection_cap/client_pool_of_8", "kv_thrash/recorded", "proxy_buffering/recorded"] {
        let (report, folder) = (report(name), cases::artifacts(name));
        for fix in report.futile.iter().filter(|fix| !fix.lever.is_empty()) {
            let answer = answer(&folder, &["--set", &fix.lever]);
            let of = |figure: &str| {
                let metric = answer.metrics.iter().find(|metric| metric.name == figure)?;
                Some((1.0 - metric.ratio?.mid) * metric.measured.unwrap_or(metric.simulated))
            };
            let told = [of("ttft.mean"), of("e2e.mean")].into_iter().flatten().reduce(f64::max);
            if let (Some(gain_s), Some(told)) = (fix.gain_s, told) {
                assert!((gain_s - told.max(0.0)).abs() < 1e-9, "{name} {}: {gain_s} and {told}", fix.fix);
                gains += 1;
            }
            let smallest =
                ["ttft.mean", "e2e.mean"].iter().filter_map(|figure| ratio(&answer, figure)).map(|ratio| ratio.mid).reduce(f64::min);
            match fix.verdict.as_str() {
                "also_works" => assert!(smallest.is_some_and(|mid| mid <= 0.95), "{name} {}: {smallest:?}", fix.fix),
                "no_gain" => assert!(smallest.is_none_or(|mid| mid > 0.95), "{name} {}: {smallest:?}", fix.fix),
                _ => {}
            }
        }
        for rung in &report.limits {
            let Some((_, rest)) = rung.from.split_once("whatif --set ") else { continue };
            let setting = rest.split('`').next().unwrap();
            let ceiling = answer(&folder, &["--set", setting]).ceiling_after.expect(setting).mid;
            assert!((rung.value / ceiling - 1.0).abs() < 1e-9, "{name} {setting}: {} and {ceiling}", rung.value);
            rungs += 1;
        }
    }
    assert!(gains >= 12 && rungs >= 5, "{gains} gains, {rungs} rungs");
}

/// A trace beside the metrics changes no figure and is left out unread, which is said; alone it cannot be replayed.
#[test]
fn a_profilers_timeline_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let run = cases::artifacts("batch_cap_reached/open_loop_32");
    for file in std::fs::read_dir(&run).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
    }
    let trace = cases::artifacts("unexpected_copies/pageable_inputs").join("trace.json.gz");
    std::fs::copy(&trace, folder.path().join("trace.json.gz")).unwrap();
    let (without, with) = (answer(&run, &["--set", "max_num_seqs=64"]), answer(folder.path(), &["--set", "max_num_seqs=64"]));
    assert_eq!(without.metrics, with.metrics);
    let told = |answer: &WhatIf| answer.warnings.iter().any(|line| line.contains("1 timelines of a profiler were left out unread"));
    assert!(told(&with) && !told(&without), "{:?}", with.warnings);
    let alone = predict(&trace, &["--set", "max_num_seqs=64"]);
    assert_eq!(alone.code, 3, "{alone:?}");
    assert!(alone.stdout.contains("the capture cannot be replayed"), "{alone:?}");
}
