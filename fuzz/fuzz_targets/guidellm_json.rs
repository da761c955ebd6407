//! See `ingest::fuzz::guidellm_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ingest::fuzz::guidellm_json(data));
