//! See `ingest::fuzz::inference_perf_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::inference_perf_json(data));
