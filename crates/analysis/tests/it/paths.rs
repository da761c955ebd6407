//! The eight decision paths on typed figures: what is asked, what answers it, what would have to be recorded.

use analysis::{DiagnoseOptions, diagnose};
use capture::{Capture, Sample, Setting};

/// A capture of figures and settings as somebody would type them.
fn typed(figures: &[(&str, f64)], settings: &[(&str, &str)]) -> Capture {
    let mut capture = Capture::new();
    let source_idx = capture.add_source(capture::Source { name: "observations.toml".into(), ..capture::Source::default() });
    for (signal, value) in figures {
        let signal = capture.intern(signal);
        capture.tables.samples.push(Sample { signal, value: *value, point_idx: -1, source_idx, ..Sample::default() });
    }
    for (key, value) in settings {
        let (key, value, origin) = (capture.intern(key), capture.intern(value), capture.intern("typed"));
        capture.tables.settings.push(Setting { key, value, origin, source_idx, ..Setting::default() });
    }
    capture.canonicalize();
    capture
}

/// The path must hold these steps, in this order, among others that checks or nobody answers.
fn check(symptom: &str, figures: &[(&str, f64)], settings: &[(&str, &str)], expected: &[&str]) {
    let options = DiagnoseOptions { symptom: Some(symptom.into()), ..DiagnoseOptions::default() };
    let report = diagnose(&typed(figures, settings), &options);
    let steps: Vec<&str> = report.path.iter().map(|step| step.short.as_str()).collect();
    let mut rest = steps.iter();
    for step in expected {
        assert!(rest.any(|found| found == step), "`{step}` not found in its place among {steps:#?}");
    }
    for step in report.path.iter().filter(|step| step.answer == "cannot tell") {
        assert!(step.because.starts_with("not known: ") && step.because.contains("; record with `"), "{step:?}");
    }
}

const REQUEST: [(&str, f64); 3] = [("server.ttft.mean", 2.5), ("server.tpot.mean", 0.02), ("server.output_tokens.mean", 101.0)];

#[test]
fn high_ttft_follows_the_queue() {
    let queue = [("server.queue_time.mean", 2.4), ("server.prefill_time.mean", 0.05), ("kv.usage.max", 0.09), ("engine.running.max", 32.0)];
    check(
        "high_ttft",
        &[&REQUEST[..], &queue].concat(),
        &[("config.max_num_seqs", "32")],
        &["queue or prefill? queue, 2.40 s queued", "KV full? no, 9 %", "seats taken? yes, 32 of 32"],
    );
}

#[test]
fn high_ttft_follows_the_prompt() {
    let prefill =
        [("server.queue_time.mean", 0.01), ("server.prefill_time.mean", 2.4), ("kv.prefix_hit_ratio", 0.02), ("kv.prefix_reusable", 0.8)];
    check(
        "high_ttft",
        &[&REQUEST[..], &prefill].concat(),
        &[("config.chunked_prefill", "false")],
        &[
            "queue or prefill? prefill, 10.0 ms queued",
            "prompts reused? no, 2 % of the prompt tokens",
            "prompts beside decoding? no, prompts have steps of their own",
        ],
    );
}

#[test]
fn throughput_plateau() {
    let figures = [
        ("engine.running.max", 64.0),
        ("engine.waiting.mean", 20.0),
        ("proc.gil_wait", 0.4),
        ("kv.preemptions", 0.0),
        ("kv.evictions", 12.0),
    ];
    check(
        "throughput_plateau",
        &[&REQUEST[..], &figures].concat(),
        &[("config.max_num_seqs", "64")],
        &[
            "running stands still? yes, 64 of 64",
            "waiting for a CPU? yes, 40 % of the time waiting for the interpreter lock",
            "preempted? no, 0",
            "cache thrown out? yes, 12 thrown out",
        ],
    );
}

#[test]
fn busy_but_slow() {
    let figures = [
        ("gpu.sm_active", 0.3),
        ("gpu.dram_active", 0.2),
        ("gpu.tensor_active", 0.05),
        ("kernel.launch_gap", 0.012),
        ("kernel.sync_wait", 0.001),
        ("engine.step_time", 0.02),
        ("engine.running.max", 300.0),
    ];
    check(
        "busy_but_slow",
        &[&REQUEST[..], &figures].concat(),
        &[("config.graph_sizes", "[1, 2, 256]")],
        &[
            "compute, memory or waiting? waiting, dram_active 20 %, sm_active 30 %, tensor_active 5 %",
            "gaps between kernels? launches, 12.0 ms of a step of 20.0 ms",
            "graphs replayed? no, 300 run, the largest graph holds 256",
            "device at its limit? no, memory 25 %",
        ],
    );
}

#[test]
fn multi_gpu_slower() {
    let figures = [
        ("model.weight_bytes", 16e9),
        ("gpu.memory_total", 80e9),
        ("comm.exposed_time", 0.009),
        ("comm.time", 0.01),
        ("comm.skew", 0.008),
        ("engine.step_time", 0.02),
        ("engine.rank_tokens.mean", 100.0),
        ("engine.rank_tokens.max", 180.0),
    ];
    let settings = [("config.tensor_parallel", "4"), ("config.pipeline_parallel", "1"), ("comm.transport", "socket")];
    check(
        "multi_gpu_slower",
        &[&REQUEST[..], &figures].concat(),
        &settings,
        &[
            "fits on fewer? yes, weights need 1 of 4 devices",
            "communication exposed? yes, 45 % of a step",
            "skew or transfer? skew, 8.00 ms of 10.0 ms is waiting for the last",
            "which transport? no, socket",
            "bubbles? no, one stage",
            "experts even? no, the fullest has 1.80x the mean",
        ],
    );
}

#[test]
fn slower_after_feature() {
    let figures = [("engine.running.max", 64.0), ("engine.compile_time", 3.0)];
    let settings = [("config.speculative_tokens", "5"), ("config.graph_max_size", "256")];
    check(
        "slower_after_feature",
        &[&REQUEST[..], &figures].concat(),
        &settings,
        &["verified inside graphs? no, 384 tokens to verify, the largest graph holds 256", "recompiles? yes, 3.00 s compiling"],
    );
}

#[test]
fn users_slow() {
    let figures = [("client.ttft.mean", 7.0), ("gateway.time", 3.0), ("client.chunk_tokens.mean", 4.0)];
    check(
        "users_slow",
        &[&REQUEST[..], &figures].concat(),
        &[],
        &["body slow to arrive? yes, 3.00 s of 7.00 s", "does the server clump? yes, 4.00 tokens per piece"],
    );
}

#[test]
fn uniformly_slow_decode() {
    let figures = [
        ("gpu.mem_clock", 1.0e9),
        ("gpu.mem_clock_max", 2.6e9),
        ("kernel.time", 0.02),
        ("kernel.time_ideal", 0.008),
        ("engine.host_gap", 0.001),
    ];
    check(
        "uniformly_slow_decode",
        &[&REQUEST[..], &figures].concat(),
        &[("config.enforce_eager", "true")],
        &[
            "gaps between kernels? host, 1.00 ms",
            "graphs replayed? no, enforce_eager is set",
            "kernels off their roofline? yes, 2.50x what they could take",
            "clocks down? yes, memory clock at 38 % of its highest",
            "host gaps between steps? measured, 1.00 ms",
        ],
    );
}

#[test]
fn tail_spikes() {
    let figures = [("kv.preemptions", 0.0), ("engine.compile_time", 0.0), ("proc.gil_wait", 0.01)];
    check(
        "tail_spikes",
        &[&REQUEST[..], &figures].concat(),
        &[],
        &["preempted? no, 0", "recompiles? no, 0 s compiling", "waiting for a CPU? no, 1 % of the time waiting for the interpreter lock"],
    );
}
