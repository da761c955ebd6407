//! Reads profiler captures and prints what came of them: rows, sums per device, CPU time and peak memory.
//!
//!     cargo run --release -p ingest --example trace_bench -- FILE...

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

fn main() -> Result<(), ingest::IngestError> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let started = Instant::now();
    let capture = ingest::read(&files, &ingest::Options::default())?;
    let wall_s = started.elapsed().as_secs_f64();
    let tables = &capture.tables;
    for (name, rows) in tables.row_counts().into_iter().filter(|(_, rows)| *rows > 0) {
        println!("{name}: {rows} rows");
    }
    let mut devices: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    let events = &tables.device_events;
    for at in 0..events.t_start_ns.len() {
        devices.entry(events.device[at]).or_default().push((events.t_start_ns[at], events.t_end_ns[at]));
    }
    for (device, spans) in devices {
        let (busy_ns, window_ns) = measure(&spans);
        let sum_ns: i64 = spans.iter().map(|(start, end)| end - start).sum();
        println!("device {device}: {} events, window_ns {window_ns}, busy_ns {busy_ns}, sum_ns {sum_ns}", spans.len());
    }
    for issue in tables.issues.rows() {
        println!("{} {} x{}: {}", capture.text(issue.severity), capture.text(issue.code), issue.count, capture.text(issue.sentence));
    }
    println!("wall {wall_s:.2} s, CPU {:.2} s, peak {} MiB", cpu_s(), peak_mib());
    Ok(())
}

/// Time in which anything ran, and time from the first start to the last end; `spans` are sorted by start.
fn measure(spans: &[(i64, i64)]) -> (i64, i64) {
    let (mut busy_ns, mut until) = (0, i64::MIN);
    for &(start, end) in spans {
        busy_ns += (end - start.max(until)).max(0);
        until = until.max(end);
    }
    (busy_ns, spans.first().map_or(0, |(start, _)| until - start))
}

/// User and system time of this process, seconds, in ticks of a hundredth as Linux counts them; 0 elsewhere.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Most memory this process held, MiB; 0 where the system does not tell.
fn peak_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
