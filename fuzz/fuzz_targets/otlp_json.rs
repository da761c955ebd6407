//! See `ingest::fuzz::otlp_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::otlp_json(data));
