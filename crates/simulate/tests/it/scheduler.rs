//! The scheduler's rules on loads small enough to follow by hand. Steps cost 10 ms, plus 1 ms per decoding sequence, plus
//! 10 us per prompt token.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use simulate::config::{ConfigError, EngineConfig, Policy, Speculation, SystemConfig};
use simulate::cost::LinearCost;
use simulate::engine::observe::{Observer, StepReport};
use simulate::{Request, Workload, simulate, simulate_with};

const LAW: LinearCost = LinearCost { a_s: 0.010, b_s: 0.001, c_s: 10e-6, d_s: 0.0, e_s: 0.0 };
const MS: i64 = 1_000_000;

fn engine() -> EngineConfig {
    EngineConfig { max_num_seqs: 4, max_num_batched_tokens: 100, ..EngineConfig::vllm(100) }
}

/// Arrival in ms, prompt, output.
fn workload(requests: &[(i64, u32, u32)]) -> Workload {
    Workload::new(requests.iter().map(|&(at_ms, prompt, output)| Request::new(at_ms * MS, prompt, output)).collect())
}

#[derive(Default)]
struct Log(String);

impl Observer for Log {
    fn step(&mut self, report: &StepReport) {
        let (start, end) = (report.start_ns as f64 / 1e6, report.end_ns as f64 / 1e6);
        let gate = report.gate.map_or(String::new(), |gate| format!(" {gate:?}"));
        let steps = if report.steps > 1 { format!(" x{}", report.steps) } else { String::new() };
        writeln!(
            self.0,
            "{start:.2}-{end:.2}{steps}: decode {} prefill {} free {} waiting {}{gate}",
            report.decode_seqs, report.prefill_tokens, report.free_blocks, report.waiting
        )
        .unwrap();
    }
}

fn check(engine: EngineConfig, workload: &Workload, expected: &Expect) {
    let mut log = Log::default();
    let outcome = simulate_with(workload, &SystemConfig::single(engine), &LAW, &mut log).unwrap();
    for (at, row) in outcome.rows.iter().enumerate() {
        let ms = |ns: i64| if ns == i64::MIN { "never".to_string() } else { format!("{:.2}", ns as f64 / 1e6) };
        writeln!(
            log.0,
            "#{at} {:?}: admitted {} first {} last {} cached {} preempted {}",
            row.state,
            ms(row.admitted_ns),
            ms(row.first_token_ns),
            ms(row.last_token_ns),
            row.cached_tokens,
            row.preemptions
        )
        .unwrap();
    }
    expected.assert_eq(&log.0);
}

#[test]
fn long_prompts_come_in_chunks_behind_decode() {
    check(
        engine(),
        &workload(&[(0, 20, 6), (1, 250, 2)]),
        &expect![[r#"
        0.00-10.20: decode 0 prefill 20 free 98 waiting 0
        10.20-22.19: decode 1 prefill 99 free 91 waiting 0
        22.19-34.18: decode 1 prefill 99 free 85 waiting 0
        34.18-45.70: decode 1 prefill 52 free 82 waiting 0
        45.70-57.70: decode 2 prefill 0 free 98 waiting 0
        57.70-68.70: decode 1 prefill 0 free 100 waiting 0
        #0 Done: admitted 0.00 first 10.20 last 68.70 cached 0 preempted 0
        #1 Done: admitted 10.20 first 45.70 last 57.70 cached 0 preempted 0
    "#]],
    );
}

#[test]
fn without_chunks_a_prompt_waits_for_a_whole_step() {
    let whole = EngineConfig { chunked_prefill: false, max_num_batched_tokens: 300, ..engine() };
    check(
        whole,
        &workload(&[(0, 20, 4), (1, 250, 2), (1, 100, 2), (2, 400, 2)]),
        &expect![[r#"
        0.00-10.20: decode 0 prefill 20 free 98 waiting 0
        10.20-23.70: decode 1 prefill 250 free 82 waiting 1 Budget
        23.70-36.70: decode 2 prefill 100 free 91 waiting 0
        36.70-48.70: decode 2 prefill 0 free 100 waiting 0
        #0 Done: admitted 0.00 first 10.20 last 48.70 cached 0 preempted 0
        #1 Done: admitted 10.20 first 23.70 last 36.70 cached 0 preempted 0
        #2 Done: admitted 23.70 first 36.70 last 48.70 cached 0 preempted 0
        #3 Rejected: admitted never first never last never cached 0 preempted 0
    "#]],
    );
}

#[test]
fn seats_hold_requests_out() {
    let two = EngineConfig { max_num_seqs: 2, ..engine() };
    check(
        two,
        &workload(&[(0, 10, 3), (0, 10, 5), (0, 10, 2), (5, 10, 2)]),
        &expect![[r#"
        0.00-10.20: decode 0 prefill 20 free 98 waiting 1 Seats
        10.20-34.20 x2: decode 2 prefill 0 free 99 waiting 2 Seats
        34.20-45.30: decode 1 prefill 10 free 98 waiting 1 Seats
        45.30-57.30: decode 2 prefill 0 free 100 waiting 1 Seats
        57.30-67.40: decode 0 prefill 10 free 99 waiting 0
        67.40-78.40: decode 1 prefill 0 free 100 waiting 0
        #0 Done: admitted 0.00 first 10.20 last 34.20 cached 0 preempted 0
        #1 Done: admitted 0.00 first 10.20 last 57.30 cached 0 preempted 0
        #2 Done: admitted 34.20 first 45.30 last 57.30 cached 0 preempted 0
        #3 Done: admitted 57.30 first 67.40 last 78.40 cached 0 preempted 0
    "#]],
    );
}

/// Six blocks of 16: two requests grow to 64 tokens each and do not fit together.
#[test]
fn the_last_admitted_is_preempted_and_finds_its_blocks() {
    let small = EngineConfig { kv_blocks: 6, ..engine() };
    check(
        small,
        &workload(&[(0, 30, 34), (0, 30, 34)]),
        &expect![[r#"
        0.00-10.60: decode 0 prefill 60 free 2 waiting 0
        10.60-226.60 x18: decode 2 prefill 0 free 0 waiting 0
        226.60-237.60: decode 1 prefill 0 free 2 waiting 1 Kv
        237.60-248.60: decode 1 prefill 0 free 2 waiting 1 Kv
        248.60-391.60 x13: decode 1 prefill 0 free 6 waiting 1 Kv
        391.60-401.77: decode 0 prefill 17 free 2 waiting 0
        401.77-555.77 x14: decode 1 prefill 0 free 6 waiting 0
        #0 Done: admitted 0.00 first 10.60 last 391.60 cached 0 preempted 0
        #1 Done: admitted 0.00 first 10.60 last 555.77 cached 0 preempted 1
    "#]],
    );
}

#[test]
fn the_least_important_is_preempted() {
    let small = EngineConfig { kv_blocks: 6, policy: Policy::Priority, ..engine() };
    let workload = workload(&[(0, 30, 34), (0, 30, 34)]).with_priorities(|at| -i32::from(at as u8));
    check(
        small,
        &workload,
        &expect![[r#"
        0.00-10.60: decode 0 prefill 60 free 2 waiting 0
        10.60-226.60 x18: decode 2 prefill 0 free 0 waiting 0
        226.60-237.60: decode 1 prefill 0 free 2 waiting 1 Kv
        237.60-248.60: decode 1 prefill 0 free 2 waiting 1 Kv
        248.60-391.60 x13: decode 1 prefill 0 free 6 waiting 1 Kv
        391.60-401.77: decode 0 prefill 17 free 2 waiting 0
        401.77-555.77 x14: decode 1 prefill 0 free 6 waiting 0
        #0 Done: admitted 0.00 first 10.60 last 555.77 cached 0 preempted 1
        #1 Done: admitted 0.00 first 10.60 last 391.60 cached 0 preempted 0
    "#]],
    );
}

#[test]
fn all_drafts_accepted_or_none() {
    let drafting = |share: f64| EngineConfig {
        speculation: Some(Speculation { acceptance: vec![share; 3], draft_step_ns: 2 * MS, draft_seq_ns: 0 }),
        ..engine()
    };
    check(
        drafting(1.0),
        &workload(&[(0, 10, 10)]),
        &expect![[r#"
        0.00-10.10: decode 0 prefill 10 free 99 waiting 0
        10.10-23.13: decode 1 prefill 0 free 99 waiting 0
        23.13-36.16: decode 1 prefill 0 free 98 waiting 0
        36.16-49.19: decode 1 prefill 0 free 100 waiting 0
        #0 Done: admitted 0.00 first 10.10 last 49.19 cached 0 preempted 0
    "#]],
    );
    check(
        drafting(0.0),
        &workload(&[(0, 10, 4)]),
        &expect![[r#"
        0.00-10.10: decode 0 prefill 10 free 99 waiting 0
        10.10-23.13: decode 1 prefill 0 free 99 waiting 0
        23.13-36.16: decode 1 prefill 0 free 99 waiting 0
        36.16-49.19: decode 1 prefill 0 free 100 waiting 0
        #0 Done: admitted 0.00 first 10.10 last 49.19 cached 0 preempted 0
    "#]],
    );
}

#[test]
fn the_host_hides_behind_the_device_or_adds_up() {
    let host = |async_scheduling, host_step_ns| EngineConfig { async_scheduling, host_step_ns, ..engine() };
    let last = |engine| simulate(&workload(&[(0, 10, 11)]), &SystemConfig::single(engine), &LAW).unwrap().rows[0].last_token_ns;
    let plain = last(host(true, 0));
    assert_eq!(last(host(true, 5 * MS)), plain);
    assert_eq!(last(host(false, 5 * MS)), plain + 11 * 5 * MS);
    assert_eq!(last(host(true, 30 * MS)), 11 * 30 * MS, "bound by the host");
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    let error = |engine: EngineConfig| simulate(&workload(&[(0, 1, 1)]), &SystemConfig::single(engine), &LAW).unwrap_err();
    let no_seats = error(EngineConfig { max_num_seqs: 0, ..engine() });
    assert_eq!(no_seats, ConfigError { field: "engine.max_num_seqs", expected: "at least 1", found: "0".to_string() });
    assert_eq!(error(EngineConfig { kv_blocks: 0, ..engine() }).to_string(), "`engine.kv_blocks`: expected at least 1, found 0");
}

#[test]
fn a_step_limit_cuts_the_run_and_says_so() {
    let config = SystemConfig { step_limit: 3, ..SystemConfig::single(engine()) };
    let outcome = simulate(&workload(&[(0, 10, 1000)]), &config, &LAW).unwrap();
    assert!(outcome.is_cut && outcome.summary(&workload(&[(0, 10, 1000)])).done == 0);
    let none = simulate(&workload(&[]), &SystemConfig::single(engine()), &LAW).unwrap();
    assert!(none.rows.is_empty() && !none.is_cut);
    let forever = LinearCost { a_s: f64::INFINITY, ..LAW };
    let outcome = simulate(
        &workload(&[(0, 10, u32::MAX / 2)]),
        &SystemConfig { step_limit: 10_000_000, ..SystemConfig::single(EngineConfig::vllm(u32::MAX)) },
        &forever,
    )
    .unwrap();
    assert!(outcome.is_cut && outcome.summary(&workload(&[(0, 10, 1000)])).done == 0);
}
