//! See `ingest::fuzz::perf_analyzer_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::perf_analyzer_json(data));
