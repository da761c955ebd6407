//! How fast a capture is written and read, as one JSON line.
//!
//! `cargo run --release -p capture --example store_bench [ROWS] [DIR]` writes ROWS (4,000,000) rows of `samples` shaped
//! like a recording: 600 series scraped four times a second, a quarter of them counters, a quarter noise, the rest
//! repeating. MB are bytes in memory (36 a row), the best of three runs, everything brought to the disk.

#![allow(clippy::print_stdout)] // the result

use std::path::Path;
use std::time::Instant;

use capture::{Capture, Name, Sample, Source, SourceIdx, store};

const ROW_BYTES: f64 = 36.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rows: usize = args.next().map_or(Ok(4_000_000), |text| text.parse())?;
    let dir = args.next().map_or_else(std::env::temp_dir, Into::into).join("store_bench.capture");
    let capture = recording(rows);
    let megabytes = rows as f64 * ROW_BYTES / 1e6;
    let (mut write_s, mut read_s) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..3 {
        let started = Instant::now();
        store::write(&capture, &dir)?;
        write_s = write_s.min(started.elapsed().as_secs_f64());
        let started = Instant::now();
        let found = store::open(&dir)?;
        read_s = read_s.min(started.elapsed().as_secs_f64());
        assert!(found == capture, "what was read is not what was written");
    }
    let file_bytes = file_bytes(&dir)?;
    std::fs::remove_dir_all(&dir)?;
    let (write_mb_s, read_mb_s) = (megabytes / write_s, megabytes / read_s);
    println!(r#"{{"write_mb_s":{write_mb_s:.0},"read_mb_s":{read_mb_s:.0},"file_bytes":{file_bytes},"rows":{rows}}}"#);
    Ok(())
}

fn file_bytes(dir: &Path) -> std::io::Result<u64> {
    std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// The same rows every time.
fn recording(rows: usize) -> Capture {
    let mut capture = Capture::new();
    for at in 0..4 {
        capture.add_source(Source { name: format!("http://replica-{at}/metrics"), format: "prometheus".into(), ..Source::default() });
    }
    let series = series(&mut capture);
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let mut values = vec![0.0; series.len()];
    let mut t_ns = 1_796_036_013_162_000_000;
    for row in 0..rows {
        let at = row % series.len();
        if at == 0 {
            t_ns += 250_000_000 + random(2_000_000).cast_signed();
        }
        values[at] = match at % 4 {
            0 => random(256) as f64,
            1 => values[at] + random(1000) as f64,
            2 => random(1 << 53) as f64 / (1u64 << 53) as f64,
            _ if random(16) == 0 => random(100) as f64 / 100.0,
            _ => values[at],
        };
        let (signal, labels) = series[at];
        let source_idx = SourceIdx(at as u32 % 4);
        capture.tables.samples.push(Sample { t_ns, run_idx: 0, point_idx: -1, signal, labels, value: values[at], source_idx });
    }
    capture.canonicalize();
    capture
}

/// 60 signals with 10 label sets each.
fn series(capture: &mut Capture) -> Vec<(Name, Name)> {
    let label = |at: usize| {
        let phase = if at.is_multiple_of(2) { "decode" } else { "prefill" };
        format!("device=\"{}\",phase=\"{phase}\",replica=\"replica-{}\"", at % 8, at / 5)
    };
    let labels: Vec<Name> = (0..20).map(|at| capture.intern(&label(at))).collect();
    let signals: Vec<Name> = (0..60).map(|at| capture.intern(&format!("engine.area_{}.quantity_{at}", at % 7))).collect();
    (0..600).map(|at| (signals[at / 10], labels[(at * 7) % 20])).collect()
}
