//! What must hold for any workload and any configuration.

use proptest::prelude::*;
use simulate::config::{Delivery, EngineConfig, Front, KvLink, Load, Policy, Routing, Servers, Speculation, SystemConfig, Topology};
use simulate::cost::LinearCost;
use simulate::engine::observe::{Observer, StepReport};
use simulate::outcome::{NEVER, Outcome, State};
use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};
use simulate::{Workload, simulate, simulate_with};

pub(crate) const LAW: LinearCost = LinearCost { a_s: 0.007, b_s: 70e-6, c_s: 25e-6, d_s: 40e-9, e_s: 1e-9 };

/// Recounts blocks and context after every step, and adds up tokens.
#[derive(Default)]
struct Auditor {
    prefill_tokens: u64,
    made_tokens: u64,
    last_end_ns: Vec<i64>,
}

impl Observer for Auditor {
    fn wants_audit(&self) -> bool {
        true
    }

    fn step(&mut self, report: &StepReport) {
        let audit = report.audit.unwrap();
        assert_eq!(audit.queued_blocks, u64::from(report.free_blocks), "free blocks are those in the queue: {report:?}");
        let all = audit.private_blocks + audit.held_blocks + audit.queued_blocks;
        assert_eq!(all, u64::from(report.total_blocks), "every block is private, shared or free: {report:?}");
        assert_eq!(audit.context_tokens, audit.context_tokens_counted, "{report:?}");
        assert!(report.end_ns > report.start_ns && report.steps > 0);
        let replica = report.replica as usize;
        if self.last_end_ns.len() <= replica {
            self.last_end_ns.resize(replica + 1, 0);
        }
        assert!(report.start_ns >= self.last_end_ns[replica], "steps of a replica do not overlap");
        self.last_end_ns[replica] = report.end_ns;
        self.prefill_tokens += report.prefill_tokens;
        self.made_tokens += report.made_tokens;
    }
}

fn any_engine() -> impl Strategy<Value = EngineConfig> {
    let sizes = (1u32..12, 1u32..200, prop_oneof![Just(4u32), Just(16), Just(3)], 4u32..120, 0u32..3);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let rest = (
        proptest::option::of(1u32..40),
        prop_oneof![Just(u32::MAX), 1u32..3],
        proptest::option::of(proptest::collection::vec(0.0..=1.0f64, 1..4)),
        0i64..10_000_000,
    );
    (sizes, flags, rest).prop_map(|((seats, budget, block_tokens, kv_blocks, watermark), flags, (long, partials, drafts, host_ns))| {
        let depth = drafts.as_ref().map_or(0, |acceptance: &Vec<f64>| acceptance.len() as u32);
        EngineConfig {
            max_num_seqs: seats,
            max_num_batched_tokens: budget.max(seats * (1 + depth)),
            chunked_prefill: flags.0,
            long_prefill_tokens: long,
            max_partial_prefills: partials,
            block_tokens,
            kv_blocks,
            watermark_blocks: watermark,
            reserve_full_prompt: flags.1,
            prefix_caching: flags.2,
            policy: if flags.3 { Policy::Priority } else { Policy::Fcfs },
            async_scheduling: flags.4,
            host_step_ns: host_ns,
            host_seq_ns: 1000,
            speculation: drafts.map(|acceptance| Speculation { acceptance, draft_step_ns: 500_000, draft_seq_ns: 100 }),
        }
    })
}

fn any_system() -> impl Strategy<Value = SystemConfig> {
    let topology = prop_oneof![
        (1u32..4).prop_map(|replicas| Topology::Unified { replicas }),
        (1u32..3, 1u32..3).prop_map(|(prefill, decode)| Topology::Split {
            prefill,
            decode,
            link: KvLink { latency_ns: 1_000_000, token_ns: 2_000.0, lanes: 1 }
        }),
    ];
    let routing =
        prop_oneof![Just(Routing::RoundRobin), Just(Routing::LeastRequests), Just(Routing::PrefixAffinity), Just(Routing::Random),];
    let front = (proptest::option::of(1u32..6), 0i64..50_000_000, any::<bool>());
    let delivery = (0.0..200_000.0f64, 1u32..6, any::<bool>());
    let load = prop_oneof![Just(Load::Open), (1u32..9, 0i64..1_000_000_000).prop_map(|(users, think_ns)| Load::Closed { users, think_ns })];
    (any_engine(), topology, routing, front, delivery, load, any::<u64>()).prop_map(
        |(
            engine,
            topology,
            routing,
            (connection_cap, gateway_ns, tokenizes),
            (api_token_ns, burst_tokens, buffering_proxy),
            load,
            seed,
        )| {
            SystemConfig {
                topology,
                routing,
                front: Front {
                    connection_cap,
                    gateway_ns,
                    proxy: tokenizes.then_some(Servers { count: 1, request_ns: 2_000_000, token_ns: 0.0 }),
                    tokenizer: tokenizes.then_some(Servers { count: 2, request_ns: 300_000, token_ns: 1_000.0 }),
                },
                delivery: Delivery { api_servers: 2, api_token_ns, burst_tokens, buffering_proxy },
                load,
                seed,
                ..SystemConfig::single(engine)
            }
        },
    )
}

pub(crate) fn any_workload() -> impl Strategy<Value = Workload> {
    (any::<u64>(), 1usize..60, 1.0..60.0f64, any::<bool>()).prop_map(|(seed, count, per_s, has_prefix)| {
        Generator {
            count,
            arrivals: Arrivals::Gamma { per_s, variation: 1.5 },
            prompts: Lengths::LogNormal { median: 40.0, sigma: 0.8, most: 300 },
            outputs: Lengths::LogNormal { median: 12.0, sigma: 1.0, most: 90 },
            prefix: has_prefix.then_some(SharedPrefix { texts: 3, blocks: 3, block_tokens: 48 }),
            seed,
        }
        .generate()
        .with_priorities(|at| i32::from((at % 3) as u8))
    })
}

/// Every request is answered or refused, its times are in order, and its tokens were made once.
fn check_rows(outcome: &Outcome, workload: &Workload, audited: &Auditor, config: &SystemConfig) {
    assert!(!outcome.is_cut);
    let tally = outcome.tally();
    let (mut outputs, mut prompts) = (0u64, 0u64);
    let is_split = matches!(config.topology, Topology::Split { .. });
    let mut refused = 0;
    for (row, request) in outcome.rows.iter().zip(workload.requests()) {
        if row.state == State::Rejected {
            refused += 1;
            continue;
        }
        assert_eq!(row.state, State::Done, "{row:?}");
        let times = [row.arrival_ns, row.reached_ns, row.admitted_ns, row.first_token_ns, row.last_token_ns];
        assert!(times[0] != NEVER && times.is_sorted(), "{row:?}");
        assert!(
            row.first_token_ns > row.admitted_ns && row.client_last_ns >= row.last_token_ns && row.client_first_ns <= row.client_last_ns
        );
        assert!(row.cached_tokens < request.prompt_tokens);
        outputs += u64::from(request.output_tokens);
        prompts += u64::from(request.prompt_tokens - row.cached_tokens);
    }
    // A request refused by the decode pool had its prompt computed before.
    if !is_split || refused == 0 {
        assert_eq!(audited.made_tokens, outputs);
        // The step that computes a preempted request again makes a token too.
        let resumed = outputs - tally.first_tokens - tally.decode_tokens;
        assert!(resumed <= tally.preemptions, "{resumed} {tally:?}");
        assert_eq!(tally.first_tokens, outcome.rows.iter().filter(|row| row.state == State::Done).count() as u64);
        // What a preempted request computes again comes on top, unless somebody else computed its prefix meanwhile.
        assert!(config.engine.prefix_caching || audited.prefill_tokens >= prompts);
        if tally.preemptions == 0 {
            assert_eq!(audited.prefill_tokens, prompts);
        }
    }
    assert_eq!(audited.prefill_tokens, tally.prefill_tokens);
}

proptest! {
    #[test]
    fn tokens_and_blocks_are_conserved(config in any_system(), workload in any_workload()) {
        let mut auditor = Auditor::default();
        let outcome = simulate_with(&workload, &config, &LAW, &mut auditor).unwrap();
        check_rows(&outcome, &workload, &auditor, &config);
    }

    #[test]
    fn jumps_change_nothing(config in any_system(), workload in any_workload()) {
        let jumped = simulate(&workload, &config, &LAW).unwrap();
        let stepped = simulate(&workload, &SystemConfig { jump: false, ..config.clone() }, &LAW).unwrap();
        prop_assert_eq!(&jumped.rows, &stepped.rows);
        prop_assert_eq!(&jumped.tallies, &stepped.tallies);
        prop_assert_eq!(&jumped, &simulate(&workload, &config, &LAW).unwrap(), "the same seed");
    }

    /// Under FCFS with one replica requests are admitted in the order of arrival, equal ones in that of the workload.
    #[test]
    fn fcfs_admits_in_order(engine in any_engine(), workload in any_workload()) {
        let engine = EngineConfig { policy: Policy::Fcfs, ..engine };
        let outcome = simulate(&workload, &SystemConfig::single(engine), &LAW).unwrap();
        let admitted: Vec<i64> = outcome.rows.iter().filter(|row| row.state == State::Done).map(|row| row.admitted_ns).collect();
        prop_assert!(admitted.is_sorted());
    }

    /// More seats or more cache serve the whole load no later, but for the last few steps: a batch that ends alone. The
    /// named exception is preemption: with more seats than cache, work is done twice.
    #[test]
    fn more_room_never_costs_throughput(workload in any_workload(), seats in 1u32..16, kv_blocks in 30u32..90) {
        let span = |seats: u32, kv_blocks: u32| {
            let engine = EngineConfig { max_num_seqs: seats, prefix_caching: false, ..EngineConfig::vllm(kv_blocks) };
            let outcome = simulate(&workload, &SystemConfig::single(engine), &LAW).unwrap();
            let refused = outcome.rows.iter().filter(|row| row.state == State::Rejected).count();
            (outcome.summary(&workload).span_ns as f64, outcome.tally().preemptions, refused)
        };
        let (here, _, refused) = span(seats, kv_blocks);
        // Requests that happen to end together or apart move the last step: a twentieth.
        let slack = 1.05;
        for (other, preempted, also_refused) in [span(seats * 2, kv_blocks), span(seats, kv_blocks * 2)] {
            prop_assert!(preempted > 0 || refused != also_refused || other <= here * slack, "{} after {}", other, here);
        }
    }
}
