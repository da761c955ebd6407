//! See `ingest::fuzz::kineto_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::kineto_json(data));
