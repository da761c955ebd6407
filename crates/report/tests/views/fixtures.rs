//! Reports as analysis would fill them, written by hand: a seat cap, a healthy server, thin evidence, a layer without a
//! failure mode, and one whose every string is hostile.

mod hostile;
mod pieces;

use std::collections::BTreeMap;

use analysis::contract::*;

pub(crate) use self::hostile::hostile;
use self::pieces::*;

/// 2026-07-14 02:31:00 UTC.
pub(crate) const TWO_THIRTY_ONE_NS: i64 = 1_783_996_260_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;

/// A report with nothing in it.
pub(crate) fn empty() -> Report {
    Report {
        schema: REPORT_SCHEMA.to_owned(),
        subject: Subject::default(),
        window: Window::default(),
        slo: BTreeMap::new(),
        symptom: Symptom {
            id: "none".into(),
            stated: false,
            population: Population::default(),
            size: None,
            reference: None,
            loss: None,
            runner_up: None,
            noun: String::new(),
        },
        classification: None,
        verdict: Verdict {
            status: Status::InsufficientEvidence,
            layer: None,
            check: None,
            bound_class: None,
            explained: None,
            explained_range: None,
            confidence: 0.4,
            confidence_because: String::new(),
            sentence: String::new(),
            falsified_by: String::new(),
            next_suspect: None,
        },
        findings: vec![],
        limits: vec![],
        futile: vec![],
        cleared: vec![],
        unknown: vec![],
        accounts: Accounts::default(),
        path: vec![],
        trust: Trust::default(),
        issues: vec![],
        next: String::new(),
    }
}

/// vLLM 0.33, 8B on one H100, open loop 9.4 req/s, 32 seats: requests wait for a seat while the cache is empty.
pub(crate) fn open_loop_32() -> Report {
    Report {
        subject: subject(),
        window: Window {
            start_ns: TWO_THIRTY_ONE_NS + 17 * MINUTE_NS,
            end_ns: TWO_THIRTY_ONE_NS + 27 * MINUTE_NS,
            onset_ns: Some(TWO_THIRTY_ONE_NS),
            ongoing: Some(true),
            affected: 1,
            engines: 1,
        },
        slo: BTreeMap::from([("client.ttft.p99".into(), 1.0)]),
        symptom: Symptom {
            id: "high_ttft".into(),
            stated: false,
            population: Population { n: 5640, rule: "all".into() },
            size: Some(SignalValue { signal: "server.ttft.mean".into(), value: 2.51, unit: "s".into() }),
            reference: Some(Reference { value: 0.11, unit: "s".into(), from: "own_unqueued_floor".into() }),
            loss: Some(quantity(13_536.0, "request_s")),
            runner_up: Some("throughput_plateau".into()),
            noun: "the excess TTFT".into(),
        },
        classification: Some(Classification { compute: 0.31, memory: 0.44, waiting: 0.25, from: "counters".into() }),
        verdict: Verdict {
            status: Status::Localized,
            layer: Some(Layer::Scheduling),
            check: Some("batch_cap_reached".into()),
            bound_class: Some("logic".into()),
            explained: Some(0.97),
            explained_range: Some([0.93, 0.98]),
            confidence: 0.9,
            confidence_because: "counter sums that Little's law closes; no rival could own more than 3 %".into(),
            sentence: "Requests wait 2.4 s for one of 32 seats (max_num_seqs) while 91 % of the KV cache is free, steps have room.".into(),
            falsified_by: "queue time stays above 0.5 s once 64 seats are free".into(),
            next_suspect: Some("overload".into()),
        },
        findings: vec![batch_cap(), power_cap()],
        limits: vec![
            limit(9.74, "32 seats", "step law 7.6 + 0.167 B ms at B = 32"),
            limit(13.85, "64 seats", "step law at B = 64"),
            limit(21.2, "KV full", "capacity over mean tokens of a request"),
            limit(24.0, "device", "step law, B without bound"),
        ],
        futile: remedies(),
        cleared: vec![
            cleared("kv_thrash", "no preemption in 10 min", &[("preemptions", 0.0)]),
            cleared("token_budget_reached", "steps at the budget 2 % of the time", &[("at_budget", 0.02)]),
        ],
        unknown: vec![unknown("host_bound_engine", 0.08, 0.03)],
        accounts: accounts(),
        path: path(),
        trust: Trust {
            little_gap: Some(0.006),
            little_tolerance: Some(0.05),
            scrapes: Some([600, 600]),
            counter_resets: 0,
            clock_error_ns: None,
            remarks: vec![],
            track_record: vec![],
        },
        next: "inferoscope verify before.capture after.capture --hypothesis h1".into(),
        ..empty()
    }
}

fn subject() -> Subject {
    let setting = |key: &str, value: &str, from: &str| SettingValue { key: key.into(), value: value.into(), from: from.into() };
    Subject {
        engine: "vllm".into(),
        engine_version: "0.33.0".into(),
        engine_form: EngineForm {
            kind: "api+core".into(),
            message_channel: "zmq".into(),
            scheduling_process: "EngineCore_0".into(),
            from: "log prefix".into(),
            sample_with: "py-spy record --pid 212".into(),
            segments: vec!["zmq to the core".into()],
        },
        gpu: "NVIDIA H100 80GB HBM3".into(),
        gpu_count: 1,
        model: "meta-llama/Llama-3.1-8B-Instruct".into(),
        replicas: vec!["10.0.0.7:8000".into()],
        configuration: vec![
            setting("config.max_num_seqs", "32", "start-up dump"),
            setting("config.max_num_batched_tokens", "8192", "start-up dump"),
            setting("config.max_model_len", "32768", "command line"),
            setting("config.gpu_memory_utilization", "0.9", "default of 0.33"),
        ],
        sources: vec![
            SourceRead { name: "metrics.prom".into(), format: "prometheus text".into(), rows: 84_600, damaged: false },
            SourceRead { name: "engine.log".into(), format: "vllm log".into(), rows: 1_204, damaged: false },
        ],
        not_established: vec!["proxies and client (no evidence there)".into()],
        provenance: "recorded".into(),
    }
}

fn batch_cap() -> Finding {
    let evidence =
        |signal: &str, value: f64, unit: &str, from: &str| Evidence { signal: signal.into(), value, unit: unit.into(), from: from.into() };
    Finding {
        check: "batch_cap_reached".into(),
        layer: Layer::Scheduling,
        role: Role::Cause,
        explained: Some(0.97),
        explained_range: Some([0.93, 0.98]),
        cost: Some(quantity(2.33, "s")),
        summary: "Running stands at 32 of 32 in 97 % of the waiting while 91 % of the KV cache is free.".into(),
        provenance: "recorded".into(),
        evidence: vec![
            evidence("engine.running.p50", 32.0, "request", "metrics.prom"),
            evidence("engine.waiting.mean", 22.6, "request", "metrics.prom"),
            evidence("kv.usage.mean", 0.09, "ratio", "metrics.prom"),
            evidence("config.max_num_seqs", 32.0, "count", "engine.log, start-up dump"),
        ],
        hypotheses: vec![seats_64()],
    }
}

fn seats_64() -> Hypothesis {
    Hypothesis {
        id: "h1".into(),
        change: Change {
            flag: "--max-num-seqs".into(),
            from: "32".into(),
            to: "64".into(),
            from_source: "start-up dump".into(),
            needs: "restart".into(),
            reload_s: Some(74.0),
            valid_for: ">=0.6".into(),
            instruction: "--max-num-seqs 64".into(),
            lever: "max_num_seqs=64".into(),
        },
        risk: "TPOT rises with the batch: by at most 1.2 ms".into(),
        rollback: "--max-num-seqs 32, restart".into(),
        undo_if: "vllm:num_preemptions_total moves or TPOT mean passes 14 ms".into(),
        predictions: vec![
            Prediction { primary: true, ..prediction("server.ttft.mean", "TTFT mean", Direction::Down, Some(2.51), Some([0.10, 0.20])) },
            prediction("server.queue_time.mean", "queue", Direction::Down, Some(2.40), Some([0.0, 0.05])),
            Prediction { guard: true, ..prediction("server.tpot.mean", "TPOT mean", Direction::Up, Some(0.0128), Some([0.0124, 0.0140])) },
            Prediction { guard: true, ..prediction("server.tpot.p99", "TPOT p99", Direction::Up, None, Some([0.0128, 0.016])) },
        ],
        throughput: "9.4 req/s, unchanged (arrivals); ceiling 9.7 -> 13.9".into(),
    }
}

fn power_cap() -> Finding {
    Finding {
        check: "clock_throttling".into(),
        layer: Layer::Hardware,
        role: Role::TrueNotCause,
        explained: Some(0.01),
        explained_range: None,
        cost: None,
        summary: "power cap active, memory clock unmoved".into(),
        provenance: "recorded".into(),
        evidence: vec![Evidence { signal: "gpu.power".into(), value: 698.0, unit: "W".into(), from: "dcgm.prom".into() }],
        hypotheses: vec![],
    }
}

fn remedies() -> Vec<Remedy> {
    let remedy = |fix: &str, verdict: &str, gain_s: Option<f64>, price: &str, because: &str| Remedy {
        fix: fix.into(),
        verdict: verdict.into(),
        gain_s,
        lever: String::new(),
        price: price.into(),
        because: because.into(),
    };
    vec![
        remedy("more seats", "first_choice", Some(2.36), "free flag", "arrivals fit into 64 seats"),
        remedy("FP8 weights", "also_works", Some(2.31), "accuracy", "shorter steps free the seats sooner"),
        remedy("a second GPU", "also_works", Some(2.38), "money", "halves the arrivals per engine"),
        remedy("more KV memory", "no_gain", Some(0.0), "restart", "91 % of the cache is free"),
        remedy("larger token budget", "no_gain", Some(0.0), "restart", "steps reach it 2 % of the time"),
        remedy("shorter max_model_len", "no_gain", Some(0.0), "restart", "nothing is reserved for it"),
        remedy("speculative decoding", "cannot_tell", None, "restart", "no draft was ever measured here"),
    ]
}

fn accounts() -> Accounts {
    Accounts {
        request: vec![
            part("api", Layer::Application, 0.01, 0.002, Some((0.05, 0.005)), ""),
            part("tokenize", Layer::Application, 0.02, 0.0035, Some((0.05, 0.005)), ""),
            part("queue", Layer::Scheduling, 2.40, 0.422, Some((6.53, 0.66)), ""),
            part("prefill", Layer::Kernel, 0.07, 0.0123, Some((0.08, 0.008)), ""),
            part("decode", Layer::Hardware, 3.18, 0.559, Some((3.17, 0.32)), "2.1x memory floor"),
            RequestPart { layer: None, ..part("unattributed", Layer::Application, 0.01, 0.0013, Some((0.02, 0.002)), "") },
        ],
        request_mean_s: Some(5.69),
        request_count: 5640,
        request_total_ns: 32_091_600_000_000,
        arrivals_per_s: Some(9.4),
        vantage: "server".into(),
        tail_rule: Some(TailRule { quantile: 0.95, n: 282, mean_s: 9.90 }),
        device: vec![],
    }
}

fn path() -> Vec<PathStep> {
    let step = |question: &str, answer: &str, because: &str, short: &str, eliminates: Option<Layer>| PathStep {
        question: question.into(),
        answer: answer.into(),
        because: because.into(),
        short: short.into(),
        eliminates,
    };
    vec![
        step(
            "Is it slow before the first token?",
            "yes",
            "TTFT 2.51 s, TPOT steady at 12.8 ms",
            "slow before the first token? yes, decode steady.",
            Some(Layer::Kernel),
        ),
        step("Queue or prefill?", "queue", "2.40 s against 0.07 s", "queue or prefill? queue", None),
        step("Is the KV cache full?", "no", "9 % used", "KV full? no, 9 %.", Some(Layer::Memory)),
        step("Are requests preempted?", "no", "0 in 10 min", "preempted? 0.", None),
        step("Do steps stand at the token budget?", "no", "2 % of steps", "step at token budget? no, 2 %.", None),
        step(
            "Are all seats taken while requests wait?",
            "yes",
            "32 of 32 in 97 % of the waiting",
            "seats taken? 32 of 32 in 97 % of the waiting.",
            None,
        ),
        step("Would more seats carry more?", "yes", "X(64)/X(32) = 1.42", "headroom at 64? 1.4x", None),
    ]
}

/// A server with nothing wrong.
pub(crate) fn healthy() -> Report {
    let base = open_loop_32();
    Report {
        window: Window { onset_ns: None, ongoing: None, affected: 0, ..base.window.clone() },
        symptom: Symptom {
            id: "none".into(),
            size: Some(SignalValue { signal: "server.ttft.p99".into(), value: 0.31, unit: "s".into() }),
            reference: Some(Reference { value: 1.0, unit: "s".into(), from: "slo".into() }),
            loss: None,
            runner_up: None,
            noun: String::new(),
            ..base.symptom.clone()
        },
        verdict: Verdict {
            status: Status::Healthy,
            layer: None,
            check: None,
            explained: None,
            explained_range: None,
            confidence: 0.9,
            confidence_because: "every phase measured".into(),
            sentence: "TTFT p99 is 0.31 s, no queue, and decode runs at 1.2x its memory floor".into(),
            falsified_by: "a client-side TTFT far above the server's".into(),
            next_suspect: None,
            bound_class: None,
        },
        findings: vec![Finding {
            check: "bandwidth_bound_decode".into(),
            layer: Layer::Hardware,
            role: Role::Limit,
            explained: None,
            summary: "decode at 1.2x the time its bytes need".into(),
            hypotheses: vec![],
            ..batch_cap()
        }],
        futile: vec![],
        unknown: vec![unknown("slow_tokenization", 0.001, 0.004), unknown("proxy_buffering", 0.0, 0.0)],
        accounts: Accounts {
            request: vec![
                part("tokenize", Layer::Application, 0.02, 0.008, None, ""),
                part("queue", Layer::Scheduling, 0.001, 0.0004, None, ""),
                part("prefill", Layer::Kernel, 0.09, 0.036, None, ""),
                part("decode", Layer::Hardware, 2.38, 0.952, None, "1.2x memory floor"),
                RequestPart { layer: None, ..part("unattributed", Layer::Application, 0.009, 0.0036, None, "") },
            ],
            request_mean_s: Some(2.5),
            request_count: 2460,
            tail_rule: None,
            ..base.accounts.clone()
        },
        path: vec![],
        next: "inferoscope record http://10.0.0.7:8000/metrics -o next.capture".into(),
        ..base
    }
}

/// Two scrapes and no log: the evidence does not decide.
pub(crate) fn insufficient() -> Report {
    let base = open_loop_32();
    Report {
        subject: Subject { not_established: vec!["engine version".into(), "which GPU".into()], ..base.subject.clone() },
        window: Window { onset_ns: None, ongoing: None, ..base.window.clone() },
        symptom: Symptom {
            id: "uniformly_slow_decode".into(),
            size: Some(SignalValue { signal: "server.tpot.mean".into(), value: 0.048, unit: "s".into() }),
            reference: Some(Reference { value: 0.013, unit: "s".into(), from: "step_law".into() }),
            loss: None,
            noun: "the slow decode".into(),
            ..base.symptom.clone()
        },
        verdict: Verdict {
            status: Status::InsufficientEvidence,
            layer: None,
            check: None,
            explained: None,
            explained_range: None,
            confidence: 0.4,
            confidence_because: "two scrapes".into(),
            sentence: "TPOT is 48 ms, about 3.7x its memory floor, and nothing here tells host time from device time".into(),
            falsified_by: String::new(),
            next_suspect: None,
            bound_class: None,
        },
        findings: vec![],
        limits: vec![],
        futile: vec![],
        unknown: undecided(),
        accounts: Accounts::default(),
        path: vec![PathStep {
            question: "Is the device busy between steps?".into(),
            answer: "cannot tell".into(),
            because: "no trace, no thread samples".into(),
            short: "device busy between steps? cannot tell".into(),
            eliminates: None,
        }],
        trust: Trust { scrapes: Some([2, 2]), ..Trust::default() },
        issues: vec![
            issue(
                "warning",
                "scrape_gap",
                "metrics.prom",
                "02:48:31",
                1,
                "Only two scrapes, 10 min apart; rates are means over all of it.",
            ),
            issue(
                "error",
                "truncated",
                "engine.log",
                "line 1204",
                3,
                "The file ends inside a line; expected a time stamp, found 17 bytes of it.",
            ),
        ],
        next: "inferoscope diagnose before.capture host.capture".into(),
        ..base
    }
}

fn undecided() -> Vec<Unknown> {
    vec![
        unknown("graph_fallback", 0.012, 0.30),
        Unknown {
            missing: vec!["engine.host_gap".into(), "proc.gil_wait".into()],
            record_with: "inferoscope record --pid 4711 --sample-threads --metrics http://10.0.0.7:8000/metrics --for 60s -o host.capture"
                .into(),
            record_cost: "1 % of one core for 60 s, no restart".into(),
            because: String::new(),
            ..unknown("host_bound_engine", 0.035, 0.73)
        },
        Unknown { could_own: None, could_own_share: None, ..unknown("clock_throttling", 0.0, 0.0) },
        unknown("graph_padding", 0.0001, 0.002),
    ]
}

/// The layer is sure, the failure mode in it is not; the evidence is simulated.
pub(crate) fn layer_only() -> Report {
    let base = open_loop_32();
    Report {
        subject: Subject { provenance: "simulated".into(), ..base.subject.clone() },
        verdict: Verdict {
            check: None,
            explained: Some(0.71),
            explained_range: Some([0.55, 0.80]),
            confidence: 0.6,
            confidence_because: "seat cap and overload predict the same queue without a step law".into(),
            sentence: "Requests wait 2.4 s in the engine's queue; whether for a seat or for the device is open.".into(),
            falsified_by: "queue time falls while running and arrivals stay".into(),
            ..base.verdict.clone()
        },
        findings: vec![
            Finding { role: Role::Contributes, explained: Some(0.45), hypotheses: vec![], ..batch_cap() },
            Finding {
                check: "overload".into(),
                role: Role::Contributes,
                explained: Some(0.26),
                summary: "arrivals at 0.97 of the measured capacity".into(),
                hypotheses: vec![],
                ..batch_cap()
            },
        ],
        unknown: vec![Unknown {
            missing: vec!["engine.step_time".into()],
            record_with: "restart with --enable-logging-iteration-details, then scrape for 5 min".into(),
            record_cost: "a restart; one log line per step".into(),
            because: String::new(),
            ..unknown("host_bound_engine", 0.48, 0.20)
        }],
        accounts: Accounts {
            tail_rule: None,
            request: base.accounts.request.iter().map(|part| RequestPart { tail: None, ..part.clone() }).collect(),
            ..base.accounts.clone()
        },
        ..base
    }
}

/// One family held against the device, one too short to judge, and what is not known.
fn roofline() -> Roofline {
    let product = RooflineKernel {
        family: "nvjet_tst".into(),
        operation: "matmul".into(),
        sizes: "b=1 m=888 n=640 k=2880".into(),
        dtype: "bf16".into(),
        count: 72,
        time_s: 1.9e-3,
        flops: 236e9,
        bytes: 0.72e9,
        is_at_most: false,
        bound_s: Some(0.8e-3),
        limit: Some("compute".into()),
        achieved: Some(0.42),
        compute_share: Some(0.42),
        memory_share: Some(0.05),
        is_short: false,
    };
    let attention = RooflineKernel {
        family: "fmha_kernel".into(),
        operation: "attention".into(),
        sizes: "t=888 hq=8 hkv=1 d=64".into(),
        count: 36,
        time_s: 0.48e-3,
        limit: Some("memory".into()),
        achieved: Some(0.08),
        is_short: true,
        ..product.clone()
    };
    let step = RooflineStep {
        phase: "prefill".into(),
        steps: 1,
        time_s: 84.5e-3,
        bound_s: 0.9e-3,
        limit: "compute".into(),
        compute_share: 0.01,
        memory_share: 0.002,
        from: "sizes".into(),
    };
    let not_known = "sizes of 75 % of the kernels' time: record with torch.profiler.profile(record_shapes=True)".into();
    Roofline { gpu: "b200-sxm".into(), covered: 0.25, kernels: vec![product, attention], steps: vec![step], not_known }
}

/// A profiler trace of two devices: no requests, no wall clock, and a check that only typed evidence ever exercised.
pub(crate) fn trace_only() -> Report {
    let base = open_loop_32();
    let device = |device: &str, busy_ns: i64| DeviceAccount {
        device: device.into(),
        name: "NVIDIA B200".into(),
        window_ns: 84_487_178,
        busy_ns,
        compute_ns: busy_ns,
        idle_ns: 84_487_178 - busy_ns,
        idle: [("host".to_owned(), 84_000_000 - busy_ns), ("launch".to_owned(), 487_178)].into(),
        idle_is_reliable: true,
        gpu_events: 929,
        kernels: 854,
        categories: [("moe", 40), ("gemm", 35), ("attention", 25)]
            .map(|(category, share)| DeviceCategory { category: category.into(), count: 200, total_ns: busy_ns * share / 100 })
            .into(),
        dimensions: DeviceDimensions {
            utilization: busy_ns as f64 / 84_487_178.0,
            not_recorded: vec!["gpu.sm_active".into(), "gpu.dram_active".into()],
            launch_interval_ns: Some(90_000),
            ..DeviceDimensions::default()
        },
        roofline: roofline(),
        ..DeviceAccount::default()
    };
    Report {
        subject: Subject { not_established: vec![], ..base.subject.clone() },
        window: Window { start_ns: 0, end_ns: 84_487_178, ..Window::default() },
        symptom: Symptom {
            noun: "the device's idle time".into(),
            population: Population { n: 2, rule: "all devices recorded".into() },
            ..base.symptom.clone()
        },
        verdict: Verdict {
            layer: Some(Layer::Kernel),
            check: Some("launch_bound_steps".into()),
            explained: None,
            explained_range: None,
            confidence: 0.6,
            confidence_because: "capped: no recorded case backs this check yet".into(),
            sentence: "The device waits for launches: 929 kernels in 84.5 ms, 86 % of it idle".into(),
            ..base.verdict.clone()
        },
        findings: vec![Finding {
            check: "launch_bound_steps".into(),
            layer: Layer::Kernel,
            explained: None,
            provenance: "typed".into(),
            hypotheses: vec![Hypothesis {
                change: Change {
                    instruction: "drop --enforce-eager".into(),
                    lever: String::new(),
                    from: String::new(),
                    from_source: String::new(),
                    reload_s: None,
                    ..seats_64().change
                },
                throughput: String::new(),
                undo_if: "memory for graphs leaves less than 2 GiB of KV cache".into(),
                predictions: vec![Prediction {
                    primary: true,
                    unit: "ratio".into(),
                    ..prediction("kernel.graph_share", "graph share", Direction::Up, Some(0.0), None)
                }],
                ..seats_64()
            }],
            ..batch_cap()
        }],
        limits: vec![],
        futile: vec![],
        unknown: vec![],
        accounts: Accounts {
            vantage: "device".into(),
            device: vec![device("0", 11_596_482), device("1", 80_000_000)],
            ..Accounts::default()
        },
        path: vec![],
        trust: Trust { clock_error_ns: Some(12_400), ..Trust::default() },
        ..base
    }
}
