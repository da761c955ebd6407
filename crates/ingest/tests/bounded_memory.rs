//! A line without an end costs no more memory than the line limit.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;

/// Peak resident memory of this process, where the system tells.
fn peak_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmHWM:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_log_of_one_line_of_100_mb_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.log");
    let mut file = std::fs::File::create(&path).unwrap();
    writeln!(file, "INFO 11-30 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: 1,024 tokens").unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        file.write_all(&block).unwrap();
    }
    writeln!(file, "\nINFO 11-30 10:00:01 [core.py:1] init engine (profile, create kv cache, warmup model) took 3.25 seconds").unwrap();
    drop(file);
    let before = peak_kb();
    let capture = ingest::read(&[path], &ingest::Options::default()).unwrap();
    let kinds: Vec<&str> = capture.tables.logs.kind.iter().map(|name| capture.text(*name)).collect();
    assert_eq!(kinds, ["kv_capacity", "engine_initialized"]);
    let codes: Vec<&str> = capture.tables.issues.code.iter().map(|name| capture.text(*name)).collect();
    assert_eq!(codes, ["log_without_year", "line_too_long"]);
    if let (Some(before), Some(after)) = (before, peak_kb()) {
        assert!(after - before < 48 << 10, "{} MB more than before", (after - before) >> 10);
    }
}
