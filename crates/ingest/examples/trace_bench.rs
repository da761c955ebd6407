//! How fast a trace is read, with how many threads, and in how much memory.
//!
//! Reads the trace named on the command line (one of a few megabytes, made here, where none is named), merges and sorts it
//! as any import does, and prints one JSON line: bytes as found, seconds, CPU seconds, bytes per CPU second, rows, peak
//! resident memory. Each number of threads needs a process of its own, since the peak is that of the process.
//!
//! `cargo run --release -p ingest --example trace_bench -- TRACE [THREADS]`

#![allow(clippy::print_stdout)]

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Events of the trace that is made here.
const EVENTS: u64 = 200_000;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let named = arguments.next().map(PathBuf::from);
    let threads = arguments.next().and_then(|text| text.to_str()?.parse().ok()).unwrap_or(0);
    let made = std::env::temp_dir().join(format!("trace_bench_{}.json", std::process::id()));
    if named.is_none() {
        write_trace(&made)?;
    }
    let path = named.as_deref().unwrap_or(&made);
    let bytes = std::fs::metadata(path)?.len();
    let (started, cpu) = (std::time::Instant::now(), cpu_seconds());
    let options = ingest::Options { threads, ..ingest::Options::default() };
    let result = ingest::read(&[path.to_path_buf()], &options);
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    if named.is_none() {
        std::fs::remove_file(&made)?;
    }
    let capture = result.map_err(std::io::Error::other)?;
    let tables = &capture.tables;
    println!(
        "{{\"bytes\": {bytes}, \"threads\": {threads}, \"seconds\": {seconds:.3}, \"cpu_seconds\": {cpu:.3}, \"gb_per_cpu_s\": {:.3}, \"device_events\": {}, \"host_events\": {}, \"peak_rss_kb\": {}}}",
        bytes as f64 / 1e9 / cpu.max(1e-9),
        tables.device_events.t_start_ns.len(),
        tables.host_events.t_start_ns.len(),
        peak_rss_kb().unwrap_or(0)
    );
    Ok(())
}

/// A trace as Kineto lays it out: a launch, its kernel, and the frames and links around them.
fn write_trace(path: &Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    write!(file, "{{\n  \"schemaVersion\": 1,\n  \"baseTimeNanoseconds\": 1727743122000000000,\n  \"traceEvents\": [")?;
    for at in 0..EVENTS {
        let (ts, comma) = (at * 10, if at == 0 { "" } else { "," });
        let event = match at % 10 {
            0 => format!(
                "\"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 7, \"tid\": 7,\n    \"ts\": {ts}.125, \"dur\": 4.250,\n    \"args\": {{\n      \"External id\": {at},\"cbid\": 211, \"correlation\": {at}\n    }}"
            ),
            1 => format!(
                "\"cat\": \"kernel\", \"name\": \"void gemm_{}<float>(int, float*)\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {ts}.500, \"dur\": 8.000,\n    \"args\": {{\n      \"device\": 0, \"stream\": 7, \"correlation\": {}, \"grid\": [148, 1, 1], \"block\": [256, 1, 1]\n    }}",
                at % 97,
                at - 1
            ),
            _ => format!(
                "\"cat\": \"python_function\", \"name\": \"model.py({}): forward\", \"pid\": 7, \"tid\": 7,\n    \"ts\": {ts}.000, \"dur\": 9.000,\n    \"args\": {{\n      \"Python parent id\": {at}, \"Python id\": {at}, \"Ev Idx\": {at}\n    }}",
                at % 1_000
            ),
        };
        write!(file, "{comma}\n  {{\n    \"ph\": \"X\", {event}\n  }}")?;
    }
    write!(file, "\n  ]\n}}\n")?;
    file.flush()
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0.0 };
    // Ticks of a hundredth of a second on every Linux in use.
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn peak_rss_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
