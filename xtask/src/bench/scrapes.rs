//! A long recording of a busy vLLM server, made up: as many series and bytes as a real one, figures that agree with
//! each other. Only its size matters here; nobody diagnoses it.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;

/// Time of the first scrape, epoch seconds.
const START_S: usize = 1_796_036_000;
/// Requests the server finishes in a second.
const REQUESTS_PER_S: usize = 9;

/// Bucket bounds of the histograms, in seconds.
const BOUNDS: [&str; 20] = [
    "0.001", "0.005", "0.01", "0.02", "0.04", "0.06", "0.08", "0.1", "0.25", "0.5", "0.75", "1.0", "2.5", "5.0", "7.5", "10.0", "20.0",
    "40.0", "80.0", "+Inf",
];
/// Histograms, with the mean of what they observe in ms.
const HISTOGRAMS: [(&str, usize); 6] = [
    ("time_to_first_token_seconds", 2510),
    ("inter_token_latency_seconds", 13),
    ("e2e_request_latency_seconds", 5690),
    ("request_queue_time_seconds", 2400),
    ("request_prefill_time_seconds", 70),
    ("request_decode_time_seconds", 3180),
];

/// Writes the recording unless it is there already.
pub(super) fn write_once(path: &Path, scrapes: usize, series: usize) -> anyhow::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let unfinished = path.with_extension("unfinished");
    let mut out = BufWriter::new(File::create(&unfinished).with_context(|| format!("could not write `{}`", unfinished.display()))?);
    for at in 0..scrapes {
        write_scrape(&mut out, at, series)?;
    }
    out.flush()?;
    fs::rename(&unfinished, path)?;
    Ok(())
}

fn write_scrape(out: &mut impl Write, at: usize, series: usize) -> std::io::Result<()> {
    writeln!(out, "# SCRAPE ts={}.{:03} dur=0.012", START_S + at, at % 1000)?;
    let mut written = gauges_and_counters(out, at)?;
    let finished = at * REQUESTS_PER_S;
    for (name, mean_ms) in HISTOGRAMS {
        written += histogram(out, &format!("vllm:{name}"), finished, mean_ms)?;
    }
    let size = BOUNDS.len() + 2;
    for route in 0..series.saturating_sub(written) / size {
        written += histogram(out, &format!("http_request_duration_seconds_of_route_{route}"), finished, 5700)?;
    }
    writeln!(out, "# HELP http_requests_total Requests by handler.\n# TYPE http_requests_total counter")?;
    for handler in written..series {
        writeln!(out, "http_requests_total{{handler=\"/v1/route/{handler}\",method=\"POST\",status=\"2xx\"}} {finished}.0")?;
    }
    Ok(())
}

const LABELS: &str = "engine=\"0\",model_name=\"meta-llama/Llama-3.1-8B-Instruct\"";

fn gauges_and_counters(out: &mut impl Write, at: usize) -> std::io::Result<usize> {
    let rows = [
        ("num_requests_running", "gauge", 32),
        ("num_requests_waiting", "gauge", 20 + at % 5),
        ("kv_cache_usage_perc", "gauge", 0),
        ("num_preemptions_total", "counter", 0),
        ("prompt_tokens_total", "counter", at * REQUESTS_PER_S * 512),
        ("generation_tokens_total", "counter", at * REQUESTS_PER_S * 250),
        ("prefix_cache_queries_total", "counter", at * REQUESTS_PER_S * 512),
        ("prefix_cache_hits_total", "counter", at * REQUESTS_PER_S * 64),
        ("iteration_tokens_total_count", "counter", at * 77),
    ];
    for (name, kind, value) in rows {
        writeln!(out, "# HELP vllm:{name} As the engine describes it.\n# TYPE vllm:{name} {kind}\nvllm:{name}{{{LABELS}}} {value}.0")?;
    }
    Ok(rows.len())
}

fn histogram(out: &mut impl Write, name: &str, count: usize, mean_ms: usize) -> std::io::Result<usize> {
    writeln!(out, "# HELP {name} Histogram of a phase of a request.\n# TYPE {name} histogram")?;
    for bound in BOUNDS {
        let below = bound.parse::<f64>().map_or(count, |bound_s| ((bound_s * 500.0 / mean_ms as f64).min(1.0) * count as f64) as usize);
        writeln!(out, "{name}_bucket{{{LABELS},le=\"{bound}\"}} {below}.0")?;
    }
    writeln!(out, "{name}_sum{{{LABELS}}} {}.{:03}", count * mean_ms / 1000, count * mean_ms % 1000)?;
    writeln!(out, "{name}_count{{{LABELS}}} {count}.0")?;
    Ok(BOUNDS.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_the_size_it_claims() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.prom");
        write_once(&path, 3, 400).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("# SCRAPE ts=").count(), 3);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(series, 3 * 400);
        assert!((40_000..80_000).contains(&(text.len() / 3)), "{} bytes a scrape", text.len() / 3);
    }
}
