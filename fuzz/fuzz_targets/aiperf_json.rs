//! See `ingest::fuzz::aiperf_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::aiperf_json(data));
