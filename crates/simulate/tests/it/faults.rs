//! Every fault is a mechanism: switched on, it moves the figure it is known for and leaves its fixed twin's alone.

use simulate::config::{Delivery, EngineConfig, Front, KvLink, Load, Routing, Servers, Speculation, SystemConfig, Topology};
use simulate::outcome::Summary;
use simulate::verdict::Verdict;
use simulate::workload::{Arrivals, Generator, Lengths, SharedPrefix};
use simulate::{Workload, simulate};

use crate::properties::LAW;

const MS: f64 = 1e6;

fn chat(per_s: f64) -> Workload {
    Generator {
        count: 1500,
        arrivals: Arrivals::Poisson { per_s },
        prompts: Lengths::LogNormal { median: 300.0, sigma: 0.6, most: 2000 },
        outputs: Lengths::LogNormal { median: 120.0, sigma: 0.5, most: 600 },
        prefix: None,
        seed: 5,
    }
    .generate()
}

fn healthy() -> SystemConfig {
    SystemConfig::single(EngineConfig::vllm(20_000))
}

fn run(workload: &Workload, config: &SystemConfig) -> Summary {
    simulate(workload, config, &LAW).unwrap().summary(workload)
}

fn engine(change: impl FnOnce(&mut EngineConfig)) -> SystemConfig {
    let mut config = healthy();
    change(&mut config.engine);
    config
}

#[test]
fn the_healthy_twin_keeps_up() {
    let summary = run(&chat(8.0), &healthy());
    let ttft = summary.ttft.unwrap();
    assert!(ttft.p99_ns < 200.0 * MS && summary.tpot.p99_ns < 30.0 * MS, "{summary:?}");
    assert!(summary.seats_frac + summary.kv_frac < 0.001 && summary.preemptions == 0);
    assert!((summary.requests_per_s / 8.0 - 1.0).abs() < 0.1);
    // Little's law on the seats.
    let in_system = summary.requests_per_s * (summary.e2e.mean_ns - ttft.mean_ns + (ttft.mean_ns - summary.queue.unwrap().mean_ns)) / 1e9;
    assert!((in_system / summary.running_mean - 1.0).abs() < 0.01, "{in_system} {}", summary.running_mean);
}

#[test]
fn a_small_cache_preempts_and_saturates() {
    let workload = chat(8.0);
    let summary = run(&workload, &engine(|engine| engine.kv_blocks = 200));
    assert!(summary.kv_frac > 0.5 && summary.kv_used_max_frac > 0.99 && summary.preemptions > 0, "{summary:?}");
    assert!(summary.ttft.is_none(), "saturated: no number");
    assert!(run(&workload, &engine(|engine| engine.kv_blocks = 2_000)).ttft.is_some());
}

#[test]
fn a_low_cap_holds_out_by_seats() {
    let workload = chat(8.0);
    let outcome = simulate(&workload, &engine(|engine| engine.max_num_seqs = 8), &LAW).unwrap();
    let summary = outcome.summary(&workload);
    let Verdict::Saturated { rho: Some(rho), growth } = outcome.verdict else { panic!("{:?}", outcome.verdict) };
    assert!(summary.seats_frac > 0.8 && rho > 1.05 && growth > 60, "{rho} {growth} {summary:?}");
    // The rate at eight seats, by the step law: 8 / (output x step + prompt).
    let (prompt, output) = workload.mean_tokens();
    let step_s = 0.007 + 8.0 * 70e-6 + 40e-9 * 8.0 * (prompt + output / 2.0);
    let expected = 1.0 / (prompt * 25e-6 + output * step_s / 8.0);
    assert!((summary.requests_per_s / expected - 1.0).abs() < 0.05, "{} {expected}", summary.requests_per_s);
}

#[test]
fn near_saturation_no_wait_is_told() {
    let workload = chat(8.0);
    let outcome = |seats| simulate(&workload, &engine(|engine| engine.max_num_seqs = seats), &LAW).unwrap().verdict;
    let rho = |verdict| match verdict {
        Verdict::Saturated { rho, .. } | Verdict::Stable { rho } => rho,
        _ => None,
    };
    let (low, high) = (rho(outcome(10)).unwrap(), rho(outcome(16)).unwrap());
    assert!(low > 0.85 && outcome(10).is_saturated(), "{low}");
    assert!(high < low && !outcome(24).is_saturated(), "{high} {:?}", outcome(24));
}

#[test]
fn a_buffering_proxy_makes_first_and_last_one() {
    let workload = chat(8.0);
    let plain = run(&workload, &healthy());
    let held = run(&workload, &SystemConfig { delivery: Delivery { buffering_proxy: true, ..Delivery::default() }, ..healthy() });
    assert_eq!(held.e2e, plain.e2e);
    assert_eq!((held.ttft.unwrap(), held.itl.count), (held.e2e, 0));
}

#[test]
fn a_gateway_delays_the_first_token_and_nothing_else() {
    let workload = chat(8.0);
    let plain = run(&workload, &healthy());
    let front = Front { gateway_ns: 300_000_000, ..Front::default() };
    let delayed = run(&workload, &SystemConfig { front, ..healthy() });
    assert!((delayed.ttft.unwrap().mean_ns - plain.ttft.unwrap().mean_ns - 300.0 * MS).abs() < 2.0 * MS);
    assert!((delayed.tpot.mean_ns / plain.tpot.mean_ns - 1.0).abs() < 0.01);
}

#[test]
fn bursts_change_gaps_and_not_tokens() {
    let workload = chat(8.0);
    let plain = run(&workload, &healthy());
    let delivery = Delivery { burst_tokens: 8, ..Delivery::default() };
    let bursts = run(&workload, &SystemConfig { delivery, ..healthy() });
    assert_eq!((bursts.ttft, bursts.e2e), (plain.ttft, plain.e2e));
    assert!((bursts.itl.p50_ns / plain.itl.p50_ns - 8.0).abs() < 0.5, "{} {}", bursts.itl.p50_ns, plain.itl.p50_ns);
}

#[test]
fn a_slow_tokenizer_is_a_queue_before_the_engine() {
    let workload = chat(8.0);
    let servers = |count| Front { tokenizer: Some(Servers { count, request_ns: 60_000_000, token_ns: 0.0 }), ..Front::default() };
    // One server of 60 ms at 8 per second: M/D/1 at 0.48 waits 27.7 ms on top of the 60.
    let plain = run(&workload, &healthy()).ttft.unwrap().mean_ns;
    let one = run(&workload, &SystemConfig { front: servers(1), ..healthy() }).ttft.unwrap().mean_ns - plain;
    assert!((one / MS / 87.7 - 1.0).abs() < 0.1, "{}", one / MS);
    let four = run(&workload, &SystemConfig { front: servers(4), ..healthy() }).ttft.unwrap().mean_ns - plain;
    assert!((four / MS / 60.0 - 1.0).abs() < 0.05, "{}", four / MS);
}

#[test]
fn a_proxy_that_works_on_requests_is_a_queue() {
    let workload = chat(8.0);
    let proxy = |request_ns| Front { proxy: Some(Servers { count: 1, request_ns, token_ns: 0.0 }), ..Front::default() };
    let delay = |request_ns| {
        let slow = run(&workload, &SystemConfig { front: proxy(request_ns), ..healthy() });
        (slow.e2e.mean_ns - run(&workload, &healthy()).e2e.mean_ns) / MS
    };
    // M/D/1 at 0.16 and at 0.48: 20 + 1.9 ms and 60 + 27.7 ms.
    assert!((delay(20_000_000) / 21.9 - 1.0).abs() < 0.1, "{}", delay(20_000_000));
    assert!((delay(60_000_000) / 87.7 - 1.0).abs() < 0.1, "{}", delay(60_000_000));
}

#[test]
fn a_starved_api_process_stretches_delivery() {
    let workload = chat(8.0);
    let plain = simulate(&workload, &healthy(), &LAW).unwrap();
    let delivery = Delivery { api_token_ns: 0.95e6, ..Delivery::default() };
    let slow = simulate(&workload, &SystemConfig { delivery, ..healthy() }, &LAW).unwrap();
    let e2e = |outcome: &simulate::Outcome| outcome.summary(&workload).e2e.mean_ns;
    assert!(e2e(&slow) > 1.2 * e2e(&plain), "{} {}", e2e(&slow), e2e(&plain));
    assert_eq!(slow.tally().running_ns, plain.tally().running_ns, "the engine does not notice");
}

#[test]
fn whole_prompts_stall_decode() {
    let long = Generator {
        prompts: Lengths::Empirical(vec![200, 200, 200, 200, 6000]),
        ..Generator {
            count: 800,
            arrivals: Arrivals::Poisson { per_s: 4.0 },
            prompts: Lengths::Fixed(1),
            outputs: Lengths::Fixed(120),
            prefix: None,
            seed: 2,
        }
    }
    .generate();
    let chunks = |tokens| engine(move |engine| engine.max_num_batched_tokens = tokens);
    let whole = run(&long, &engine(|engine| (engine.chunked_prefill, engine.max_num_batched_tokens) = (false, 8192)));
    let cut = run(&long, &chunks(512));
    // A prompt of 6,000 tokens at 25 us stands in everybody's way for 150 ms; a chunk of 512 for 13.
    assert!(whole.itl.max_ns > 150.0 * MS && cut.itl.max_ns < 40.0 * MS, "{} {}", whole.itl.max_ns / MS, cut.itl.max_ns / MS);
}

#[test]
fn drafts_that_are_rejected_cost_time() {
    let workload = chat(3.0);
    let drafting = |share: f64| {
        engine(|engine| {
            engine.speculation = Some(Speculation { acceptance: vec![share; 4], draft_step_ns: 2_000_000, draft_seq_ns: 20_000 });
        })
    };
    let (plain, good, bad) = (run(&workload, &healthy()), run(&workload, &drafting(0.85)), run(&workload, &drafting(0.1)));
    assert!(good.tpot.mean_ns < 0.7 * plain.tpot.mean_ns, "{} {}", good.tpot.mean_ns, plain.tpot.mean_ns);
    assert!(bad.tpot.mean_ns > 1.1 * plain.tpot.mean_ns, "{} {}", bad.tpot.mean_ns, plain.tpot.mean_ns);
}

#[test]
fn steps_bound_by_the_host() {
    let workload = chat(4.0);
    let host = |async_scheduling| engine(|engine| (engine.host_step_ns, engine.async_scheduling) = (6_000_000, async_scheduling));
    let (plain, hidden, added) = (run(&workload, &healthy()), run(&workload, &host(true)), run(&workload, &host(false)));
    assert!((hidden.tpot.mean_ns / plain.tpot.mean_ns - 1.0).abs() < 0.01);
    assert!(added.tpot.mean_ns > plain.tpot.mean_ns + 5.9 * MS);
}

#[test]
fn a_connection_cap_queues_outside() {
    let workload = chat(8.0);
    let front = Front { connection_cap: Some(8), ..Front::default() };
    let outcome = simulate(&workload, &SystemConfig { front, ..healthy() }, &LAW).unwrap();
    let summary = outcome.summary(&workload);
    assert!(outcome.tally().running_max <= 8 && summary.waiting_mean < 0.1 && summary.seats_frac == 0.0, "{summary:?}");
    assert!(outcome.verdict.is_saturated(), "the engine is idle and the callers wait: {:?}", outcome.verdict);
}

#[test]
fn an_unfair_balancer_overloads_one_replica() {
    let workload = chat(16.0);
    let replicas =
        |routing| SystemConfig { topology: Topology::Unified { replicas: 4 }, routing, ..engine(|engine| engine.max_num_seqs = 8) };
    let spread = |routing: Routing| {
        let outcome = simulate(&workload, &replicas(routing), &LAW).unwrap();
        let busy: Vec<f64> = outcome.tallies.iter().map(|tally| tally.decode_tokens as f64).collect();
        let e2e = outcome.summary(&workload).e2e;
        (busy.iter().copied().fold(0.0, f64::max) / (busy.iter().sum::<f64>() / 4.0), e2e.p99_ns)
    };
    let (fair, unfair) = (spread(Routing::LeastRequests), spread(Routing::Weighted(vec![6, 1, 1, 1])));
    assert!(fair.0 < 1.1 && unfair.0 > 2.0 && unfair.1 > 3.0 * fair.1, "{fair:?} {unfair:?}");
}

#[test]
fn affinity_keeps_prefixes_together() {
    let workload = Generator {
        count: 1500,
        arrivals: Arrivals::Poisson { per_s: 8.0 },
        prompts: Lengths::Fixed(100),
        outputs: Lengths::Fixed(60),
        prefix: Some(SharedPrefix { texts: 60, blocks: 16, block_tokens: 64 }),
        seed: 9,
    }
    .generate();
    let cached = |routing, prefix_caching| {
        let config = SystemConfig {
            topology: Topology::Unified { replicas: 4 },
            routing,
            ..engine(|engine| (engine.kv_blocks, engine.prefix_caching) = (1_900, prefix_caching))
        };
        run(&workload, &config).cached_frac
    };
    let (affine, random, off) = (cached(Routing::PrefixAffinity, true), cached(Routing::Random, true), cached(Routing::Random, false));
    assert!(affine > 0.8 && random < 0.75 * affine && off == 0.0, "{affine} {random} {off}");
}

#[test]
fn pools_apart_keep_prompts_out_of_decode() {
    let workload = Generator {
        count: 800,
        arrivals: Arrivals::Poisson { per_s: 4.0 },
        prompts: Lengths::Fixed(3000),
        outputs: Lengths::Fixed(100),
        prefix: None,
        seed: 4,
    }
    .generate();
    let config = |topology| SystemConfig { topology, routing: Routing::LeastRequests, ..healthy() };
    let link = |token_ns| KvLink { latency_ns: 100_000, token_ns, lanes: 1 };
    let split = |token_ns| run(&workload, &config(Topology::Split { prefill: 1, decode: 1, link: link(token_ns) }));
    let unified = run(&workload, &config(Topology::Unified { replicas: 2 }));
    // NVLink-like: 128 KiB per token at 50 GB/s; then a link that takes 200 ms per prompt.
    let (fast, slow) = (split(2_600.0), split(67_000.0));
    assert!(fast.itl.p99_ns < 0.4 * unified.itl.p99_ns, "{} {}", fast.itl.p99_ns / MS, unified.itl.p99_ns / MS);
    assert!(slow.e2e.mean_ns > fast.e2e.mean_ns + 190.0 * MS, "{} {}", slow.e2e.mean_ns / MS, fast.e2e.mean_ns / MS);
}

#[test]
fn a_closed_loop_settles_where_the_step_law_says() {
    let workload = Generator {
        count: 3000,
        arrivals: Arrivals::Constant { per_s: 1.0 },
        prompts: Lengths::Fixed(256),
        outputs: Lengths::Fixed(128),
        prefix: None,
        seed: 0,
    }
    .generate();
    let config = SystemConfig { load: Load::Closed { users: 32, think_ns: 0 }, ..healthy() };
    let outcome = simulate(&workload, &config, &LAW).unwrap();
    let summary = outcome.summary(&workload);
    let step_s = 0.007 + 32.0 * (70e-6 + 40e-9 * (256.0 + 64.0));
    let expected = 32.0 / (32.0 * 256.0 * 25e-6 + 128.0 * step_s);
    assert!((summary.requests_per_s / expected - 1.0).abs() < 0.05, "{} {expected}", summary.requests_per_s);
    assert_eq!(outcome.verdict, Verdict::Closed);
    assert!(summary.running_mean > 31.0 && summary.running_mean <= 32.0);
}
