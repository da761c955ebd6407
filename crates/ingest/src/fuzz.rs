//! One plain function per format that must survive any bytes: no panic, bounded time and memory.
//!
//! `tests/import/fuzz.rs` runs them over samples and mutations on stable; `fuzz/` at the root of the repository drives the same
//! functions with cargo-fuzz. Each reads the bytes as its format, whatever they look like, and checks what must hold of
//! any capture.

use capture::Capture;

use crate::formats::{FORMATS, Format, Probe, sniff};
use crate::input::Input;
use crate::options::Options;
use crate::read::read_as;

/// Limits small enough that a hostile input meets them.
fn limits() -> Options<'static> {
    Options { max_source_bytes: 4 << 20, max_decoded_bytes: 16 << 20, max_line_bytes: 64 << 10, ..Options::default() }
}

fn run(id: &str, data: &[u8]) {
    let format = FORMATS.iter().find(|format| format.id == id).expect("a fuzz function names a format of the list");
    run_format(format, data);
}

fn run_format(format: &Format, data: &[u8]) {
    let options = limits();
    let capture = read_as(format, "data", Input::new(Box::new(data), &options), &options);
    check(&capture);
}

/// What holds of every capture: indices point into it, and it is in canonical form.
fn check(capture: &Capture) {
    let names = capture.names.len() as u32;
    assert!(capture.tables.samples.signal.iter().all(|name| name.0 < names), "every signal is an interned name");
    for &signal in &capture.tables.samples.signal {
        assert!(capture::signals::resolve(capture.text(signal)).is_some(), "every sample speaks the vocabulary");
    }
    for row in 0..capture.tables.histograms.count.len() {
        let (bounds, cumulative) = (&capture.tables.histograms.bounds[row], &capture.tables.histograms.cumulative[row]);
        assert!(bounds.len() == cumulative.len() && bounds.last() == Some(&f64::INFINITY), "the last bucket is infinite");
    }
    let mut again = capture.clone();
    again.canonicalize();
    assert!(again.names == capture.names, "the names of a capture are sorted");
    // Compared as text: a histogram without a sum holds NaN there.
    assert!(format!("{:?}", again.tables) == format!("{:?}", capture.tables), "the tables of a capture are sorted");
}

/// Prometheus text and OpenMetrics.
pub fn prometheus_text(data: &[u8]) {
    run("prometheus_text", data);
}

/// Answers of a Prometheus server: samples and names. Lines are answers, so that one input can hold several.
pub fn prometheus_api(data: &[u8]) {
    let mut stored = crate::Stored::new("data");
    for answer in data.split(|byte| *byte == b'\n') {
        // A refusal is as good as an answer here.
        let _ = crate::read_names(answer);
        let _ = stored.add(answer);
    }
    check(&stored.finish());
}

/// vLLM's server log.
pub fn vllm_log(data: &[u8]) {
    run("vllm_log", data);
}

/// Server logs of other engines.
pub fn engine_log(data: &[u8]) {
    run("engine_log", data);
}

/// nginx's configuration.
pub fn nginx_conf(data: &[u8]) {
    run("nginx_conf", data);
}

/// Results of `vllm bench serve`.
pub fn vllm_bench_json(data: &[u8]) {
    run("vllm_bench_json", data);
}

/// Results of SGLang's `bench_serving`.
pub fn sglang_bench_jsonl(data: &[u8]) {
    run("sglang_bench_jsonl", data);
}

/// GuideLLM's runs.
pub fn guidellm_json(data: &[u8]) {
    run("guidellm_json", data);
}

/// AIPerf's summary.
pub fn aiperf_json(data: &[u8]) {
    run("aiperf_json", data);
}

/// AIPerf's requests.
pub fn aiperf_jsonl(data: &[u8]) {
    run("aiperf_jsonl", data);
}

/// Reports of `inference-perf`.
pub fn inference_perf_json(data: &[u8]) {
    run("inference_perf_json", data);
}

/// GenAI-Perf's summary.
pub fn genai_perf_json(data: &[u8]) {
    run("genai_perf_json", data);
}

/// Perf Analyzer's export.
pub fn perf_analyzer_json(data: &[u8]) {
    run("perf_analyzer_json", data);
}

/// A load client's log.
pub fn client_jsonl(data: &[u8]) {
    run("client_jsonl", data);
}

/// A gateway's log.
pub fn proxy_jsonl(data: &[u8]) {
    run("proxy_jsonl", data);
}

/// A host sampler's log.
pub fn host_jsonl(data: &[u8]) {
    run("host_jsonl", data);
}

/// `nvidia-smi --query-gpu --format=csv`.
pub fn nvidia_smi_csv(data: &[u8]) {
    run("nvidia_smi_csv", data);
}

/// `nvidia-smi dmon`.
pub fn nvidia_smi_dmon(data: &[u8]) {
    run("nvidia_smi_dmon", data);
}

/// `dcgmi dmon`.
pub fn dcgmi_dmon(data: &[u8]) {
    run("dcgmi_dmon", data);
}

/// `py-spy record -f raw`.
pub fn pyspy_raw(data: &[u8]) {
    run("pyspy_raw", data);
}

/// `py-spy dump`, text or JSON.
pub fn pyspy_dump(data: &[u8]) {
    run("pyspy_dump", data);
}

/// Nsight Systems exports.
pub fn nsys_sqlite(data: &[u8]) {
    run("nsys_sqlite", data);
}

/// rocprofv3's JSON.
pub fn rocprofv3_json(data: &[u8]) {
    run("rocprofv3_json", data);
}

/// Perfetto traces.
pub fn perfetto_trackevent(data: &[u8]) {
    run("perfetto_trackevent", data);
}

/// OTLP traces as JSON.
pub fn otlp_json(data: &[u8]) {
    run("otlp_json", data);
}

/// Traces of PyTorch's profiler.
pub fn kineto_json(data: &[u8]) {
    run("kineto_json", data);
}

/// Command lines.
pub fn command_txt(data: &[u8]) {
    run("command_txt", data);
}

/// Typed observations.
pub fn observations_toml(data: &[u8]) {
    run("observations_toml", data);
}

/// Files of no known format.
pub fn attachment(data: &[u8]) {
    run("attachment", data);
}

/// Bytes behind a gzip header: damage, truncation, bombs.
pub fn gzip(data: &[u8]) {
    let mut packed = vec![0x1f, 0x8b];
    packed.extend_from_slice(data);
    let options = limits();
    let input = Input::new(Box::new(&packed[..]), &options);
    let format = sniff(&Probe { head: input.head(), is_whole: input.is_all_in_head() });
    run_format(format, &packed);
}

/// Whatever the sniffers make of it.
pub fn any(data: &[u8]) {
    check(&crate::read_bytes("data", data, &limits()));
}

/// A function of this module.
pub type Target = fn(&[u8]);

/// Every function of this module with its name, for the smoke test.
pub const ALL: &[(&str, Target)] = &[
    ("prometheus_text", prometheus_text),
    ("prometheus_api", prometheus_api),
    ("vllm_log", vllm_log),
    ("engine_log", engine_log),
    ("nginx_conf", nginx_conf),
    ("vllm_bench_json", vllm_bench_json),
    ("sglang_bench_jsonl", sglang_bench_jsonl),
    ("guidellm_json", guidellm_json),
    ("aiperf_json", aiperf_json),
    ("aiperf_jsonl", aiperf_jsonl),
    ("inference_perf_json", inference_perf_json),
    ("genai_perf_json", genai_perf_json),
    ("perf_analyzer_json", perf_analyzer_json),
    ("client_jsonl", client_jsonl),
    ("proxy_jsonl", proxy_jsonl),
    ("host_jsonl", host_jsonl),
    ("nvidia_smi_csv", nvidia_smi_csv),
    ("nvidia_smi_dmon", nvidia_smi_dmon),
    ("dcgmi_dmon", dcgmi_dmon),
    ("pyspy_raw", pyspy_raw),
    ("pyspy_dump", pyspy_dump),
    ("nsys_sqlite", nsys_sqlite),
    ("rocprofv3_json", rocprofv3_json),
    ("perfetto_trackevent", perfetto_trackevent),
    ("otlp_json", otlp_json),
    ("kineto_json", kineto_json),
    ("command_txt", command_txt),
    ("observations_toml", observations_toml),
    ("attachment", attachment),
    ("gzip", gzip),
    ("any", any),
];
