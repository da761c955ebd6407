//! Attribution on synthetic captures: the right owner, the right size, and nothing on a healthy system.

use analysis::contract::{Report, Role, Status};
use analysis::{DiagnoseOptions, diagnose};
use proptest::prelude::*;

use crate::synthetic::Synthetic;

fn report(synthetic: &Synthetic) -> Report {
    diagnose(&synthetic.build(), &DiagnoseOptions::default())
}

fn share(report: &Report, check: &str) -> f64 {
    report.findings.iter().find(|finding| finding.check == check).and_then(|finding| finding.explained).unwrap_or(0.0)
}

fn cost(report: &Report, check: &str) -> f64 {
    report.findings.iter().find(|finding| finding.check == check).and_then(|finding| finding.cost.as_ref()).map_or(0.0, |cost| cost.value)
}

#[test]
fn a_healthy_system_has_no_cause() {
    let report = report(&Synthetic::default());
    assert_eq!(report.verdict.status, Status::Healthy, "{:?}", report.verdict);
    assert!(report.findings.iter().all(|finding| !matches!(finding.role, Role::Cause | Role::Contributes)));
}

#[test]
fn every_account_sums_to_its_whole() {
    for synthetic in [
        Synthetic::default(),
        Synthetic { seat_wait_s: 2.0, ..Synthetic::default() },
        Synthetic { held_s: 0.5, kv_wait_s: 1.0, ..Synthetic::default() },
    ] {
        let report = report(&synthetic);
        let total: i64 = report.accounts.request.iter().map(|part| part.total_ns).sum();
        assert_eq!(total, report.accounts.request_total_ns);
        let shares: f64 = report.accounts.request.iter().map(|part| part.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(report.findings.iter().filter_map(|finding| finding.explained).sum::<f64>() <= 1.0 + 1e-9);
    }
}

#[test]
fn two_faults_in_disjoint_phases_are_both_reported() {
    let report = report(&Synthetic { seat_wait_s: 0.6, held_s: 0.5, ..Synthetic::default() });
    for check in ["batch_cap_reached", "proxy_buffering"] {
        let finding = report.findings.iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("{check} missing"));
        assert!(matches!(finding.role, Role::Cause | Role::Contributes), "{check} is {:?}", finding.role);
    }
}

#[test]
fn seats_and_kv_are_told_apart_within_one_queue() {
    let report = report(&Synthetic { seat_wait_s: 1.0, kv_wait_s: 1.0, ..Synthetic::default() });
    let (seats, kv) = (share(&report, "batch_cap_reached"), share(&report, "kv_thrash"));
    assert!((0.3..0.7).contains(&seats) && (0.3..0.7).contains(&kv), "seats {seats} kv {kv}");
}

#[test]
fn a_closed_queue_behind_a_saturated_device_is_not_the_seats_fault() {
    // Service is all marginal cost: no number of seats serves the load.
    let report = report(&Synthetic { law: (0.0002, 0.0016, 0.0), arrivals_per_s: 7.0, seat_wait_s: 2.0, ..Synthetic::default() });
    assert_ne!(report.verdict.check.as_deref(), Some("batch_cap_reached"), "{:?}", report.verdict);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn injected_seconds_come_back_as_the_right_share(wait in 0.5f64..8.0) {
        let synthetic = Synthetic { seat_wait_s: wait, ..Synthetic::default() };
        let report = report(&synthetic);
        prop_assert_eq!(report.verdict.check.as_deref(), Some("batch_cap_reached"));
        let loss = report.symptom.loss.as_ref().unwrap().value / report.symptom.population.n as f64;
        prop_assert!((share(&report, "batch_cap_reached") - wait / loss).abs() < 0.03, "{} of {}", wait, loss);
    }

    #[test]
    fn held_seconds_come_back_as_the_right_share(held in 0.2f64..0.9) {
        let report = report(&Synthetic { held_s: held, ..Synthetic::default() });
        prop_assert_eq!(report.verdict.check.as_deref(), Some("proxy_buffering"));
        let loss = report.symptom.loss.as_ref().unwrap().value / report.symptom.population.n as f64;
        prop_assert!((share(&report, "proxy_buffering") - held / loss).abs() < 0.03, "{} of {}", held, loss);
    }

    #[test]
    fn scaling_time_by_two_scales_cost_by_two(wait in 0.5f64..4.0) {
        let once = report(&Synthetic { seat_wait_s: wait, ..Synthetic::default() });
        let twice = report(&Synthetic { seat_wait_s: wait, scale: 2.0, ..Synthetic::default() });
        prop_assert!((cost(&twice, "batch_cap_reached") / cost(&once, "batch_cap_reached") - 2.0).abs() < 0.05);
        prop_assert!((share(&twice, "batch_cap_reached") - share(&once, "batch_cap_reached")).abs() < 0.03);
    }

    #[test]
    fn no_small_wait_is_a_cause(wait in 0.0f64..0.0005) {
        let report = report(&Synthetic { seat_wait_s: wait, ..Synthetic::default() });
        prop_assert!(report.verdict.status != Status::Localized);
    }
}

fn with_limit(synthetic: &Synthetic, signal: &str, limit_s: f64) -> Report {
    let slo = [(signal.to_string(), limit_s)].into();
    diagnose(&synthetic.build(), &DiagnoseOptions { slo, ..DiagnoseOptions::default() })
}

#[test]
fn a_limit_that_is_kept_makes_nothing_slow() {
    let waiting = Synthetic { seat_wait_s: 2.0, ..Synthetic::default() };
    assert_eq!(report(&waiting).verdict.status, Status::Localized);
    let kept = with_limit(&waiting, "server.ttft", 60.0);
    assert_eq!(kept.verdict.status, Status::Healthy, "{:?}", kept.verdict);
    assert!(kept.findings.iter().all(|finding| finding.role != Role::Cause));
}

#[test]
fn a_limit_that_is_broken_is_never_healthy() {
    for limit_s in [0.001, 0.005, 0.01] {
        let broken = with_limit(&Synthetic::default(), "server.ttft", limit_s);
        assert_ne!(broken.verdict.status, Status::Healthy, "{limit_s}");
        assert!(broken.verdict.sentence.contains("limit"), "{}", broken.verdict.sentence);
    }
}
