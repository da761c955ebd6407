//! How fast a long scrape file is read, and in how much memory.
//!
//! Writes 1,000 scrapes of 400 series (about 60 MB of Prometheus text, half of the series with a signal) to a temporary
//! file, reads it as any user would, and prints one JSON line: bytes, seconds, MB/s, rows, peak resident memory. The
//! text is written piece by piece, so that the peak is that of reading.
//!
//! `cargo run --release -p ingest --example ingest_bench`

#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::io::Write as _;

const SCRAPES: u64 = 1_000;
const BOUNDS: [f64; 12] = [0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
const HISTOGRAMS: [&str; 14] = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_inference_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "iteration_tokens_total",
    "request_prefill_kv_computed_tokens",
    "request_num_preemptions",
    "request_params_max_tokens",
];
const LABELS: &str = r#"engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct-with-a-long-served-name-v2""#;

fn main() -> std::io::Result<()> {
    let path = std::env::temp_dir().join(format!("ingest_bench_{}.prom", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    let mut text = String::new();
    for at in 0..SCRAPES {
        text.clear();
        scrape(at, &mut text);
        file.write_all(text.as_bytes())?;
    }
    file.flush()?;
    drop(file);
    let bytes = std::fs::metadata(&path)?.len();
    let started = std::time::Instant::now();
    let result = ingest::read(std::slice::from_ref(&path), &ingest::Options::default());
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(&path)?;
    let capture = result.map_err(std::io::Error::other)?;
    println!(
        "{{\"scrapes\": {SCRAPES}, \"bytes\": {bytes}, \"seconds\": {seconds:.3}, \"mb_per_s\": {:.0}, \"samples\": {}, \"histograms\": {}, \"peak_rss_kb\": {}}}",
        bytes as f64 / 1e6 / seconds,
        capture.tables.samples.value.len(),
        capture.tables.histograms.count.len(),
        peak_rss_kb().unwrap_or(0)
    );
    Ok(())
}

/// One scrape: 400 series, values that grow.
fn scrape(at: u64, text: &mut String) {
    let _ = writeln!(text, "# SCRAPE ts={}.429 dur=0.012", 1_796_036_000 + at);
    let mut series = 0;
    for (which, name) in HISTOGRAMS.iter().enumerate() {
        let _ = writeln!(
            text,
            "# HELP vllm:{name} Histogram of something that is described at some length here.\n# TYPE vllm:{name} histogram"
        );
        for (bucket, bound) in BOUNDS.iter().enumerate() {
            let count = at * (bucket as u64 + 1) * (which as u64 + 3);
            let _ = writeln!(text, "vllm:{name}_bucket{{{LABELS},le=\"{bound}\"}} {count}.0");
        }
        let count = at * 13 * (which as u64 + 3);
        let _ = writeln!(text, "vllm:{name}_bucket{{{LABELS},le=\"+Inf\"}} {count}.0\nvllm:{name}_count{{{LABELS}}} {count}.0");
        let _ = writeln!(text, "vllm:{name}_sum{{{LABELS}}} {}", count as f64 * 0.123_456_789);
        series += 15;
    }
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        let _ = writeln!(text, "# TYPE vllm:{name} gauge\nvllm:{name}{{{LABELS}}} 0.{}", at % 10);
        series += 1;
    }
    for name in ["prompt_tokens_total", "generation_tokens_total", "num_preemptions_total"] {
        let _ = writeln!(text, "# TYPE vllm:{name} counter\nvllm:{name}{{{LABELS}}} {}.0", at * 17);
        series += 1;
    }
    let _ = writeln!(text, "# HELP other_total Something without a signal.\n# TYPE other_total counter");
    for other in series..400 {
        let _ = writeln!(text, "other_total{{handler=\"/v1/some/path/{other}\",{LABELS}}} {}.0", at * other);
    }
}

fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
